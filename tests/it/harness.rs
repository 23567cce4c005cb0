//! A small world: git repositories, the real binary, its API and its events.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::unpacked;

/// For whatever must happen: generous, as nothing waits for it when all is well.
pub const DEADLINE: Duration = Duration::from_secs(180);

pub fn steward() -> Command {
    let program = env!("CARGO_BIN_EXE_steward");
    match wrapper().split_first() {
        None => Command::new(program),
        Some((wrapper, arguments)) => {
            let mut command = Command::new(wrapper);
            command.args(arguments).arg(program);
            command
        }
    }
}

/// What the binary is started with, in `STEWARD_TEST_WRAPPER`: so that it meets another machine than this one.
pub fn wrapper() -> Vec<String> {
    let wrapper = std::env::var("STEWARD_TEST_WRAPPER").unwrap_or_default();
    wrapper.split_whitespace().map(str::to_owned).collect()
}

/// Says loudly that a part is missing; under CI that is a failure.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn skip(what: &str) {
    assert!(
        std::env::var_os("CI").is_none(),
        "CI must have what this test needs: {what}"
    );
    eprintln!("SKIPPED: {what}");
}

/// A git repository with a project.
pub struct Repo {
    dir: TempDir,
}

impl Repo {
    /// A repository with `main.cf`, committed.
    pub fn new(main: &str) -> Self {
        let repo = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        repo.git(&["init", "-q", "-b", "main"]);
        repo.write("project.yml", "name: test\n");
        repo.write("main.cf", main);
        repo.commit("first");
        repo
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, content: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// A module of the project, as reference models have them beside `main.cf`: its model, and its Python.
    pub fn write_module(&self, name: &str, model: &str, code: &str) {
        let module = format!("libs/{name}");
        let metadata = format!("name: {name}\nversion: 1.0.0\nlicense: MIT\n");
        self.write("project.yml", "name: test\nmodulepath: libs\n");
        self.write(&format!("{module}/module.yml"), &metadata);
        self.write(&format!("{module}/model/_init.cf"), model);
        self.write(&format!("{module}/plugins/__init__.py"), code);
    }

    /// Commits everything; gives the commit.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", message]);
        self.head()
    }

    pub fn head(&self) -> String {
        self.git(&["rev-parse", "HEAD"])
    }

    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([
                ("GIT_AUTHOR_NAME", "A"),
                ("GIT_AUTHOR_EMAIL", "a@example.org"),
                ("GIT_COMMITTER_NAME", "A"),
                ("GIT_COMMITTER_EMAIL", "a@example.org"),
            ])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

/// A folder that stands for the host, and the state of a server.
pub struct Host {
    dir: TempDir,
}

impl Host {
    pub fn new() -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        fs::create_dir(host.root()).unwrap();
        unpacked::lay_out(&host.data());
        host
    }

    /// What the model gets as `ROOT`.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("root")
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_else(|error| format!("<{error}>"))
    }

    /// `steward up` of a source on this host.
    pub fn up(&self, source: &Path) -> Command {
        let mut command = steward();
        command
            .arg("up")
            .arg(source)
            .args(["--format", "json", "--listen", "127.0.0.1:0"]);
        command
            .arg("--data")
            .arg(self.data())
            .arg("--env")
            .arg(format!("ROOT={}", self.root().display()));
        command.current_dir(self.dir.path());
        command
    }
}

/// A running server and what it says.
pub struct Running {
    pub child: Child,
    events: Receiver<Value>,
    pub seen: Vec<Value>,
    pub api: String,
}

impl Running {
    /// Starts a command that writes JSON events, and waits for the first.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, events) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        let mut running = Self {
            child,
            events,
            seen: Vec::new(),
            api: String::new(),
        };
        let started = running.wait_for(|event| event["event"] == "started");
        running.api = started["api"].as_str().unwrap().to_owned();
        running
    }

    /// The first event from now on that fits.
    #[track_caller]
    pub fn wait_for(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self
                .events
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            {
                Ok(event) => {
                    self.seen.push(event.clone());
                    if fits(&event) {
                        return event;
                    }
                }
                Err(error) => {
                    let last = self
                        .seen
                        .iter()
                        .rev()
                        .take(15)
                        .rev()
                        .map(Value::to_string)
                        .collect::<Vec<_>>();
                    let why = if error == RecvTimeoutError::Timeout {
                        "in time"
                    } else {
                        "before the end"
                    };
                    panic!(
                        "the event did not come {why}; the last ones are\n{}",
                        last.join("\n")
                    );
                }
            }
        }
    }

    /// Waits until everything of at least `version` is done; gives the resources that ran since, `id status change`, and
    /// the summary.
    #[track_caller]
    pub fn settled(&mut self, version: i64) -> (Vec<String>, Value) {
        let from = self.seen.len();
        let summary = self.wait_for(|event| {
            event["event"] == "summary" && event["version"].as_i64() >= Some(version)
        });
        let resources = self.seen[from..]
            .iter()
            .filter(|event| event["event"] == "resource");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let line = |event: &Value| {
            let id = text(&event["resource"]);
            let name = id
                .rsplit(['/', '='])
                .next()
                .unwrap()
                .trim_end_matches(']')
                .to_owned();
            format!(
                "{name} {} {}",
                text(&event["status"]),
                text(&event["change"])
            )
        };
        (resources.map(line).collect(), summary)
    }

    /// `GET` of the API: status and body.
    pub fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, None)
    }

    #[track_caller]
    pub fn get_ok(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// A call in the scope of the only environment.
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let environment = (!path.starts_with("/api/v2/environment?")
            && path != "/api/v2/environment")
            .then(|| self.environment());
        request(
            method,
            &format!("{}{path}", self.api),
            environment.as_deref(),
            body,
        )
    }

    pub fn environment(&self) -> String {
        let (_, body) = request(
            "GET",
            &format!("{}/api/v2/environment", self.api),
            None,
            None,
        );
        body["data"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Ends it as a person would.
    pub fn stop(mut self) -> std::process::ExitStatus {
        signal(self.child.id(), rustix::process::Signal::INT);
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server does not stop");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid as i32) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// An HTTP request; the body of the answer as JSON, or as a text.
pub fn request(
    method: &str,
    url: &str,
    environment: Option<&str>,
    body: Option<&Value>,
) -> (u16, Value) {
    let mut headers = Vec::new();
    if let Some(environment) = environment {
        headers.push(("X-Inmanta-tid".to_owned(), environment.to_owned()));
    }
    let body = body
        .map(|body| body.to_string().into_bytes())
        .unwrap_or_default();
    send(method, url, &headers, &body)
}

pub fn send(method: &str, url: &str, headers: &[(String, String)], body: &[u8]) -> (u16, Value) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(DEADLINE))
        .build()
        .into();
    let mut request = ureq::http::Request::builder().method(method).uri(url);
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let mut response = agent.run(request.body(body.to_vec()).unwrap()).unwrap();
    let text = response.body_mut().read_to_string().unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    (response.status().as_u16(), body)
}

/// Runs to its end, within the deadline.
#[track_caller]
pub fn finish(mut command: Command) -> Output {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let (sender, done) = channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if done.recv_timeout(DEADLINE) == Err(RecvTimeoutError::Timeout) {
            signal(pid, rustix::process::Signal::KILL);
        }
    });
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut stream) = stream {
                let _ = stream.read_to_end(&mut bytes);
            }
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let status = child.wait().unwrap();
    drop(sender);
    watchdog.join().unwrap();
    Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

/// The events of a command that ran to its end.
pub fn events(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no event: {line}")))
        .collect()
}

/// Waits until it is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something is so that takes long where many tests run: several installations with pip take half a minute each,
/// and so does carrying an unoptimized program over ssh. It is not asked for often.
#[track_caller]
pub fn wait_patiently(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + 3 * DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came true: {what}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Percent-encodes a path segment.
pub fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A model with a directory and files below `ROOT`: `name=content` each.
pub fn files(pairs: &[(&str, &str)]) -> String {
    let mut model = String::from(
        "import fs\n\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         fs::Directory(host=host, path=root, send_event=false)\n",
    );
    for (name, content) in pairs {
        model.push_str(&format!(
            "fs::File(host=host, path=\"{{{{root}}}}/{name}\", content=\"{content}\\n\", send_event=false)\n"
        ));
    }
    model
}
