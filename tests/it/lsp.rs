//! `steward lsp`, spoken to as an editor does.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::steward;

const DEADLINE: Duration = Duration::from_secs(30);

struct Editor {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// Notifications that nobody looked at yet.
    kept: VecDeque<Value>,
    dir: tempfile::TempDir,
    n_requests: u64,
}

fn read(from: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim().split_once(": ") {
            Some(("Content-Length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

impl Editor {
    fn start(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut child = steward()
            .arg("lsp")
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            while let Some(message) = read(&mut stdout) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut editor = Editor {
            child,
            stdin,
            messages,
            kept: VecDeque::new(),
            dir,
            n_requests: 0,
        };
        let result = editor.request("initialize", json!({ "capabilities": {} }));
        assert_eq!(result["serverInfo"]["name"], "steward");
        assert_eq!(result["capabilities"]["definitionProvider"], true);
        editor.notify("initialized", json!({}));
        editor
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let stdin = self.stdin.as_mut().unwrap();
        write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stdin.flush().unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    #[track_caller]
    fn receive(&mut self, deadline: Instant) -> Value {
        let wait = deadline.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(wait).expect("an answer in time")
    }

    #[track_caller]
    fn response(&mut self, method: &str, params: Value) -> Value {
        self.n_requests += 1;
        let id = self.n_requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let deadline = Instant::now() + DEADLINE;
        loop {
            let message = self.receive(deadline);
            if message["id"] == id {
                return message;
            }
            self.kept.push_back(message);
        }
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let response = self.response(method, params);
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    fn uri(&self, path: &str) -> String {
        format!("file://{}", self.dir.path().join(path).display())
    }

    fn open(&mut self, path: &str) {
        let text = std::fs::read_to_string(self.dir.path().join(path)).unwrap();
        let uri = self.uri(path);
        let document = json!({ "uri": uri, "languageId": "inmanta", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    fn change(&mut self, path: &str, text: &str) {
        let document = json!({ "uri": self.uri(path), "version": 2 });
        let changes = json!([{ "text": text }]);
        self.notify(
            "textDocument/didChange",
            json!({ "textDocument": document, "contentChanges": changes }),
        );
    }

    /// The diagnostics that are published next for a file: `line:column message`.
    #[track_caller]
    fn diagnostics(&mut self, path: &str) -> Vec<String> {
        let uri = self.uri(path);
        let deadline = Instant::now() + DEADLINE;
        loop {
            let message = match self.kept.pop_front() {
                Some(message) => message,
                None => self.receive(deadline),
            };
            if message["method"] != "textDocument/publishDiagnostics"
                || message["params"]["uri"] != uri.as_str()
            {
                continue;
            }
            let diagnostics = message["params"]["diagnostics"].as_array().unwrap();
            return diagnostics
                .iter()
                .map(|diagnostic| {
                    let start = &diagnostic["range"]["start"];
                    let text = diagnostic["message"].as_str().unwrap().replace('\n', "; ");
                    format!("{}:{} {text}", start["line"], start["character"])
                })
                .collect();
        }
    }

    /// Waits until the editor shows just these diagnostics for a file.
    #[track_caller]
    fn shows(&mut self, path: &str, expected: &[&str]) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let found = self.diagnostics(path);
            if found == expected {
                return;
            }
            assert!(Instant::now() < deadline, "{found:?}");
        }
    }

    /// Parameters about the first place of a text in a file.
    fn at(&self, path: &str, text: &str, after: &str) -> Value {
        let offset = text.find(after).expect("the place is there") + after.len();
        let line = text[..offset].matches('\n').count();
        let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
        json!({
            "textDocument": { "uri": self.uri(path) },
            "position": { "line": line, "character": text[start..offset].encode_utf16().count() },
        })
    }

    fn stop(mut self) -> Option<i32> {
        assert_eq!(self.request("shutdown", Value::Null), Value::Null);
        self.notify("exit", Value::Null);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const MAIN: &str = "import net\n\nhost = net::Host(name=\"wwẅ\")\nport = host.port\n";
const NET: &str = "entity Host:\n    \"\"\"\n    A machine.\n\n    :attr port: where it listens\n    \"\"\"\n    string name\n    int port = 80\nend\nimplement Host using std::none\n";

fn project() -> Vec<(&'static str, &'static str)> {
    vec![
        ("project.yml", "name: test\nmodulepath: libs\n"),
        ("main.cf", MAIN),
        (
            "libs/net/setup.cfg",
            "[metadata]\nname = inmanta-module-net\nversion = 1.0.0\nlicense = x\n",
        ),
        ("libs/net/inmanta_plugins/net/__init__.py", ""),
        ("libs/net/model/_init.cf", NET),
    ]
}

#[test]
fn diagnostics_follow_unsaved_changes_over_all_files() {
    let mut editor = Editor::start(&project());
    editor.open("main.cf");
    editor.change("main.cf", &MAIN.replace("host.port", "host.prot"));
    editor.shows("main.cf", &[
            "3:12 could not find attribute with name: prot in type net::Host; help: did you mean `port`?"
        ]);
    // The text of another file, not saved, makes it right.
    editor.open("libs/net/model/_init.cf");
    editor.change(
        "libs/net/model/_init.cf",
        &NET.replace("int port", "int prot"),
    );
    editor.shows("main.cf", &[]);
    editor.change(
        "libs/net/model/_init.cf",
        &NET.replace("string name", "strin name = "),
    );
    editor.shows(
        "libs/net/model/_init.cf",
        &["7:7 Syntax error at token int"],
    );
    editor.change("main.cf", "import net\nx = )\ny = nothing\n");
    editor.shows("main.cf", &["1:5 Syntax error at token )"]);
    editor.change("libs/net/model/_init.cf", NET);
    editor.shows("libs/net/model/_init.cf", &[]);
    // Closed without saving: what is on disk counts again.
    let document = json!({ "uri": editor.uri("main.cf") });
    editor.notify("textDocument/didClose", json!({ "textDocument": document }));
    editor.shows("main.cf", &[]);
    assert_eq!(editor.stop(), Some(0));
}

#[test]
fn names_lead_to_their_definitions_and_explain_themselves() {
    let mut editor = Editor::start(&project());
    editor.open("main.cf");
    let place = editor.at("main.cf", MAIN, "net::Ho");
    let found = editor.request("textDocument/definition", place);
    assert_eq!(found["uri"], editor.uri("libs/net/model/_init.cf"));
    assert_eq!(
        found["range"]["start"],
        json!({ "line": 0, "character": 7 })
    );
    let place = editor.at("main.cf", MAIN, "host.po");
    let found = editor.request("textDocument/definition", place.clone());
    assert_eq!(found["range"]["start"]["line"], 7);
    let hover = editor.request("textDocument/hover", place);
    assert_eq!(
        hover["contents"]["value"],
        "```inmanta\nint net::Host.port\n```\n\nwhere it listens"
    );
    // What is built in can be read, too.
    let text = "x = std::Host(name=\"a\", os=std::linux)\n";
    editor.change("main.cf", text);
    let place = editor.at("main.cf", text, "std::Ho");
    let found = editor.request("textDocument/definition", place);
    let path = found["uri"]
        .as_str()
        .unwrap()
        .strip_prefix("file://")
        .unwrap();
    let model = std::fs::read_to_string(path).unwrap();
    let line = found["range"]["start"]["line"].as_u64().unwrap() as usize;
    assert!(model.lines().nth(line).unwrap().starts_with("entity Host"));
    let nothing = json!({ "textDocument": { "uri": editor.uri("nowhere.cf") }, "position": { "line": 0, "character": 0 } });
    assert_eq!(
        editor.request("textDocument/definition", nothing),
        Value::Null
    );
}

#[test]
fn what_may_follow_is_proposed_in_broken_files() {
    let mut editor = Editor::start(&project());
    editor.open("main.cf");
    let mut complete = |text: &str, after: &str| -> Vec<String> {
        editor.change("main.cf", text);
        let place = editor.at("main.cf", text, after);
        let found = editor.request("textDocument/completion", place);
        let found = found.as_array().unwrap().iter();
        found
            .map(|item| item["insertText"].as_str().unwrap().to_owned())
            .collect()
    };
    let text = "import net\nhost = net::Host(name=\"a\")\nport = host.\nx = )\n";
    assert_eq!(
        complete(text, "port = host."),
        ["requires", "provides", "name", "port"]
    );
    assert_eq!(complete("import net\nx = net::", "x = net::"), ["Host"]);
    assert_eq!(
        complete("import net\nx = net::Host(name=\"é\", ", "\"é\", "),
        ["requires=", "provides=", "port="]
    );
    assert_eq!(
        complete("import ", "import "),
        ["exec", "fs", "net", "std", "steward"]
    );
    let names = complete("import net\nhost = 1\ny = ho", "y = ho");
    assert!(names.contains(&"host".to_owned()) && names.contains(&"net".to_owned()));
}

#[test]
fn documents_have_an_outline_and_a_layout() {
    let mut editor = Editor::start(&project());
    editor.open("libs/net/model/_init.cf");
    let document = json!({ "textDocument": { "uri": editor.uri("libs/net/model/_init.cf") } });
    let symbols = editor.request("textDocument/documentSymbol", document.clone());
    assert_eq!(symbols[0]["name"], "Host");
    let children = symbols[0]["children"].as_array().unwrap();
    let children: Vec<_> = children.iter().map(|child| &child["name"]).collect();
    assert_eq!(children, ["name", "port"]);
    let options = json!({ "tabSize": 4, "insertSpaces": true });
    let mut formatting = document;
    formatting["options"] = options;
    let edits = editor.request("textDocument/formatting", formatting.clone());
    assert_eq!(edits, json!([]));
    editor.change("libs/net/model/_init.cf", "x=[1,\n2]");
    let edits = editor.request("textDocument/formatting", formatting.clone());
    assert_eq!(edits[0]["newText"], "x = [\n    1,\n    2,\n]\n");
    editor.change("libs/net/model/_init.cf", "x = = 1");
    assert_eq!(
        editor.request("textDocument/formatting", formatting),
        Value::Null
    );
}

#[test]
fn a_file_without_a_project_is_looked_at_for_itself() {
    let mut editor = Editor::start(&[("alone.cf", "x = = 1\n")]);
    editor.open("alone.cf");
    editor.shows("alone.cf", &["0:5 Syntax error at token ="]);
    editor.change("alone.cf", "x = 1\n");
    editor.shows("alone.cf", &[]);
}

#[test]
fn odd_messages_are_survived_and_an_editor_that_is_gone_ends_it() {
    let mut editor = Editor::start(&project());
    let response = editor.response("textDocument/moniker", json!({}));
    assert_eq!(response["error"]["code"], -32601);
    let response = editor.response("textDocument/hover", json!({ "position": 3 }));
    assert_eq!(response["error"]["code"], -32602);
    editor.notify("textDocument/didChange", json!({ "nothing": true }));
    editor.open("main.cf");
    editor.shows("main.cf", &[]);
    editor.stdin = None;
    assert_eq!(editor.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_root_that_moves_away_is_survived() {
    let mut editor = Editor::start(&project());
    editor.open("main.cf");
    std::fs::remove_file(editor.dir.path().join("project.yml")).unwrap();
    let document = json!({ "uri": editor.uri("main.cf") });
    editor.notify("textDocument/didSave", json!({ "textDocument": document }));
    let place = editor.at("main.cf", MAIN, "host.po");
    assert_eq!(editor.request("textDocument/hover", place), Value::Null);
    assert!(Path::new(&editor.dir.path().join("main.cf")).exists());
}
