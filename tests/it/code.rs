//! The Python code of handlers, kept by content with the version that needs it
//! (docs/reference/deployment.md § 5.2).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::harness::{Host, Repo, Running, request, wait_until};
use crate::serve::{Served, serve};

const MODEL: &str = r#"
entity Thing extends std::PurgeableResource:
    string path
    string agent = "internal"
end
implement Thing using std::none
"#;

/// A module whose handler writes what `TEXT` is.
fn handler(module: &str, head: &str) -> String {
    format!(
        r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.plugins import plugin
from inmanta.resources import PurgeableResource, resource
{head}

@plugin
def name() -> "string":
    return __name__

@resource("{module}::Thing", agent="agent", id_attribute="path")
class Thing(PurgeableResource):
    fields = ("path",)

@provider("{module}::Thing")
class ThingHandler(CRUDHandler[Thing]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()
    def create_resource(self, ctx, resource):
        with open(resource.path, "w") as file:
            file.write(TEXT)
        ctx.set_created()
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#
    )
}

fn add_module(repo: &Repo, name: &str, files: &[(&str, &str)]) {
    let metadata = format!("name: {name}\nversion: 1.0.0\nlicense: x\n");
    repo.write(&format!("libs/{name}/module.yml"), &metadata);
    repo.write(&format!("libs/{name}/model/_init.cf"), MODEL);
    for (path, text) in files {
        repo.write(&format!("libs/{name}/plugins/{path}"), text);
    }
}

fn repo(main: &str) -> Repo {
    let repo = Repo::new(main);
    repo.write("project.yml", "name: test\nmodulepath: libs\n");
    repo
}

fn thing(module: &str, name: &str) -> String {
    format!("import {module}\n{module}::Thing(path=\"{{{{root}}}}/{name}\")\n")
}

/// The Python files that executors have laid out, by their path below the folder of their code.
fn laid_out(data: &Path) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.path().is_dir() {
                true => walk(&entry.path(), found),
                false => found.push(entry.path()),
            }
        }
    }
    let code = data.join("code");
    let mut found = Vec::new();
    walk(&code, &mut found);
    let below = found.iter().map(|path| {
        let path = path.strip_prefix(&code).unwrap();
        let parts: Vec<String> = path
            .iter()
            .skip(1)
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        parts.join("/")
    });
    let mut below: Vec<String> = below.filter(|path| path.ends_with(".py")).collect();
    below.sort();
    below
}

fn call(served: &Served, method: &str, path: &str, body: &serde_json::Value) {
    let environment = served.environment("e");
    let url = format!("{}{path}", served.api);
    let (status, answer) = request(method, &url, Some(&environment), Some(body));
    assert_eq!(status, 200, "{answer}");
}

#[test]
fn versions_run_without_their_checkout_and_repository() {
    let main = format!("root = std::get_env(\"ROOT\")\n{}", thing("things", "a"));
    let repo = repo(&main);
    let text = |text: &str| {
        handler(
            "things",
            &format!("from .text import TEXT as OTHER\nTEXT = '{text} ' + OTHER"),
        )
    };
    add_module(
        &repo,
        "things",
        &[("__init__.py", &text("first")), ("text.py", "TEXT = 'x'\n")],
    );
    repo.commit("first");
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::new());
    let data = dir.path().join("data");
    let config = format!(
        "environments:\n- {{project: p, name: e, repository: {}, env: {{ROOT: {}}}}}\n",
        repo.path().display(),
        host.root().display()
    );
    let served = serve(dir.path(), &config);
    wait_until("the first commit is deployed", || {
        host.read("a") == "first x"
    });
    add_module(&repo, "things", &[("__init__.py", &text("second"))]);
    repo.write("main.cf", &main.replace("/a\"", "/b\""));
    repo.commit("second");
    wait_until("the second commit is deployed", || {
        host.read("b") == "second x"
    });
    drop(served);
    // All that the code came from.
    for name in ["checkouts", "projects", "mirrors", "code"] {
        fs::remove_dir_all(data.join(name)).unwrap();
    }
    fs::rename(
        repo.path().join(".git/objects"),
        repo.path().join(".git/gone"),
    )
    .unwrap();
    fs::remove_file(host.file("b")).unwrap();
    fs::remove_file(host.file("a")).unwrap();
    let served = serve(dir.path(), &config);
    call(
        &served,
        "POST",
        "/api/v1/deploy",
        &json!({"agent_trigger_method": "push_full_deploy"}),
    );
    wait_until("it is repaired", || host.read("b") == "second x");
    // The version before has code of its own.
    call(&served, "POST", "/api/v2/dryrun/1", &json!({}));
    let environment = served.environment("e");
    let runs = || served.get(&environment, "/api/v2/dryrun/1")["data"].clone();
    wait_until("the dry run ends", || runs()[0]["todo"] == 0);
    let id = runs()[0]["id"].as_str().unwrap().to_owned();
    let diff = served.get(&environment, &format!("/api/v2/dryrun/1/{id}"))["data"]["diff"].clone();
    assert!(
        diff.to_string().contains("purged") && !diff.to_string().contains("FAILED"),
        "{diff}"
    );
    assert_eq!(laid_out(&data).len(), 4);
}

//: deploy 94
#[test]
fn an_executor_gets_what_its_handlers_import_and_one_that_does_not_load_fails_alone() {
    let main = format!(
        "root = std::get_env(\"ROOT\")\nimport unused\nstd::print(unused::name())\n{}{}",
        thing("good", "good"),
        thing("bad", "bad")
    );
    let repo = repo(&main);
    add_module(
        &repo,
        "good",
        &[(
            "__init__.py",
            &handler("good", "from inmanta_plugins.helper.text import TEXT"),
        )],
    );
    add_module(
        &repo,
        "helper",
        &[("__init__.py", ""), ("text.py", "TEXT = 'good'\n")],
    );
    add_module(
        &repo,
        "unused",
        &[("__init__.py", &handler("unused", "TEXT = ''"))],
    );
    let head = "TEXT = 'bad'\nimport sys\nif sys.argv[1:] == ['executor']:\n    import a_driver_that_is_missing";
    add_module(&repo, "bad", &[("__init__.py", &handler("bad", head))]);
    repo.write("main.cf", &format!("import helper\n{main}"));
    repo.commit("modules");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    let (mut ran, _) = running.settled(1);
    ran.sort();
    assert_eq!(ran, ["bad unavailable nochange", "good deployed created"]);
    assert_eq!(host.read("good"), "good");
    let of_bad = running
        .seen
        .iter()
        .find(|event| event["status"] == "unavailable");
    let message = of_bad.unwrap()["message"].as_str().unwrap();
    assert!(
        message.contains("agent internal failed to load the following modules: bad")
            && message.contains("No module named 'a_driver_that_is_missing'"),
        "{message}"
    );
    let data = host.data();
    let all = [
        "bad/__init__.py",
        "good/__init__.py",
        "helper/__init__.py",
        "helper/text.py",
    ];
    let all = all.map(|path| format!("inmanta_plugins/{path}"));
    assert_eq!(laid_out(&data), all);
    assert!(running.stop().success());

    // A content that is gone concerns its module only.
    let store = data.join("files");
    let text = fs::read_to_string(repo.path().join("libs/bad/plugins/__init__.py")).unwrap();
    let name = hex::encode(<sha1::Sha1 as sha1::Digest>::digest(text));
    fs::remove_file(store.join(&name[..2]).join(&name)).unwrap();
    fs::remove_dir_all(data.join("code")).unwrap();
    fs::remove_file(host.file("good")).unwrap();
    let mut running = Running::start(host.up(repo.path()));
    let event = running.wait_for(|event| event["status"] == "unavailable");
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains(&name) && message.contains("file store"),
        "{message}"
    );
    wait_until("the other is repaired", || host.read("good") == "good");
    assert!(running.stop().success());
}

#[test]
fn what_a_module_imports_by_a_name_that_it_makes_is_there() {
    let main = format!(
        "root = std::get_env(\"ROOT\")\nimport early\nimport late\nimport unused\nstd::print(unused::name())\n{}",
        thing("maker", "made")
    );
    let repo = repo(&main);
    // While it is loaded, by a function that no text shows; and later, when its handler runs.
    let head = "import importlib\nPLACE = 'inmanta' + '_plugins.'\n\
        EARLY = getattr(importlib, 'import_' + 'module')(PLACE + 'early').TEXT\nTEXT = EARLY + ' '";
    let code = handler("maker", head).replace(
        "            file.write(TEXT)\n",
        "            file.write(TEXT + importlib.import_module(PLACE + 'late').TEXT)\n",
    );
    add_module(&repo, "maker", &[("__init__.py", &code)]);
    add_module(&repo, "early", &[("__init__.py", "TEXT = 'early'\n")]);
    add_module(&repo, "late", &[("__init__.py", "TEXT = 'late'\n")]);
    add_module(
        &repo,
        "unused",
        &[("__init__.py", &handler("unused", "TEXT = ''"))],
    );
    repo.commit("modules");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    let (ran, _) = running.settled(1);
    assert_eq!(ran, ["made deployed created"]);
    assert_eq!(host.read("made"), "early late");
    assert!(running.stop().success());
}

#[test]
fn an_agent_gets_the_code_of_its_resources() {
    let of = |module: &str, agent: &str| {
        format!(
            "import {module}\n{module}::Thing(path=\"{{{{root}}}}/{module}\", agent=\"{agent}\")\n"
        )
    };
    let main = format!(
        "root = std::get_env(\"ROOT\")\n{}{}{}",
        of("one", "a"),
        of("two", "a"),
        of("three", "b")
    );
    let repo = repo(&main);
    // What a process of handlers has imported.
    let head = "import sys\ndef text():\n    found = {name.split('.')[1] for name in sys.modules if name.startswith('inmanta' + '_plugins.')}\n    return ' '.join(sorted(found))";
    for module in ["one", "two", "three"] {
        let code = handler(module, head).replace("file.write(TEXT)", "file.write(text())");
        add_module(&repo, module, &[("__init__.py", &code)]);
    }
    repo.commit("modules");
    let host = Host::new();
    let mut running = Running::start(host.up(repo.path()));
    let (mut ran, _) = running.settled(1);
    ran.sort();
    assert_eq!(
        ran,
        [
            "one deployed created",
            "three deployed created",
            "two deployed created"
        ]
    );
    let texts = ["one", "two", "three"].map(|name| host.read(name));
    assert_eq!(texts, ["one two", "one two", "three"]);

    // A change of one agent's code is nothing to the other's.
    let code = |data: &Path| fs::read_dir(data.join("code")).unwrap().count();
    assert_eq!(code(&host.data()), 2);
    repo.write("libs/three/plugins/more.py", "");
    repo.write("main.cf", &main.replace("}}/", "}}/new_"));
    repo.commit("more");
    wait_until("the next commit is deployed", || {
        let new = ["one", "two", "three"].map(|name| host.file(&format!("new_{name}")));
        new.iter().all(|file| file.exists())
    });
    assert_eq!(code(&host.data()), 3);
    assert!(running.stop().success());
}

/// Sets the times of all that is in the folders of a folder to long ago.
fn age(folder: &Path) -> usize {
    let then = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    let below = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let all = below(folder).flat_map(|folder| below(&folder.path()).collect::<Vec<_>>());
    let aged = all.map(|entry| fs::File::open(entry.path()).unwrap().set_modified(then));
    aged.filter(Result::is_ok).count()
}

#[test]
fn contents_go_with_the_last_version_that_names_them_and_young_ones_stay() {
    let upload = "\n    @staticmethod\n    def get_digest(exporter, model):\n        return exporter.upload_file(TEXT)\n";
    let module = |text: &str| {
        handler("things", &format!("TEXT = '{text}'")).replace(
            "    fields = (\"path\",)\n",
            &format!("    fields = (\"path\", \"digest\")\n{upload}"),
        )
    };
    let repo = repo(&format!(
        "root = std::get_env(\"ROOT\")\n{}",
        thing("things", "a")
    ));
    add_module(&repo, "things", &[("__init__.py", &module("first"))]);
    repo.commit("first");
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::new());
    let config = format!(
        "housekeeping: 1s\nenvironments:\n- {{project: p, name: e, repository: {}, env: {{ROOT: {}}}, settings: {{available_versions_to_keep: 0}}}}\n",
        repo.path().display(),
        host.root().display()
    );
    let served = serve(dir.path(), &config);
    wait_until("the first commit is deployed", || host.read("a") == "first");
    let name = |text: &str| hex::encode(<sha1::Sha1 as sha1::Digest>::digest(text));
    let has = |text: &str| {
        let url = format!("{}/api/v1/file/{}", served.api, name(text));
        request("HEAD", &url, None, None).0 == 200
    };
    let store = dir.path().join("data/files");
    let (first, second) = (module("first"), module("second"));
    assert!(has("first") && has(&first));
    // Of nobody, and old; of nobody, and young.
    let put = |text: &str| {
        use base64::Engine;
        let content = base64::engine::general_purpose::STANDARD.encode(text);
        let url = format!("{}/api/v1/file/{}", served.api, name(text));
        assert_eq!(
            request("PUT", &url, None, Some(&json!({"content": content}))).0,
            200
        );
    };
    put("of nobody");
    assert_eq!(age(&store), 3);
    put("young");
    wait_until("what nobody names is collected", || !has("of nobody"));
    assert!(has("first") && has(&first) && has("young"));
    add_module(&repo, "things", &[("__init__.py", &second)]);
    repo.commit("second");
    wait_until("the next version is there", || has(&second));
    wait_until("the code of the version before is collected", || {
        // Again and again: what the version before still named at a look is as good as new after it.
        age(&store);
        !has(&first) && !has("first") && !has("young")
    });
    assert!(has("second") && has(&second));
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let data = dir.path().join("data");
    let checkouts = || {
        let owners = entries(data.join("checkouts"));
        let trees = owners.flat_map(|owner| entries(owner.path()));
        trees.filter(|tree| tree.path().is_dir()).count()
    };
    wait_until("its checkout goes, too", || checkouts() == 1);
    // What was laid out of it goes when it is old, and comes back when it is needed.
    age(&data);
    wait_until("nothing is laid out", || {
        entries(data.join("code")).count() == 0
    });
    fs::remove_file(host.file("a")).unwrap();
    let repair = json!({"agent_trigger_method": "push_full_deploy"});
    call(&served, "POST", "/api/v1/deploy", &repair);
    wait_until("it is repaired", || host.read("a") == "second");
}

#[test]
fn the_api_keeps_gives_and_compares_files() {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir.path(), "");
    let url = |path: &str| format!("{}/api/v1/{path}", served.api);
    let one = "f572d396fae9206628714fb2ce00f72e94f2258f"; // "hello\n"
    let put = |name: &str, content: &str| {
        let body = json!({"content": content});
        request("PUT", &url(&format!("file/{name}")), None, Some(&body)).0
    };
    let file = url(&format!("file/{one}"));
    assert_eq!(request("HEAD", &file, None, None).0, 404);
    assert_eq!(request("GET", &file, None, None).0, 404);
    assert_eq!(put(one, &base64.encode("other")), 400);
    assert_eq!(put(one, "no base64!"), 400);
    assert_eq!(put(one, &base64.encode("hello\n")), 200);
    assert_eq!(put(one, &base64.encode("hello\n")), 200);
    assert_eq!(request("HEAD", &file, None, None).0, 200);
    assert_eq!(
        request("GET", &file, None, None).1,
        json!({"content": base64.encode("hello\n")})
    );
    let missing = json!({"files": [one, "0".repeat(40), "../../steward.db"]});
    assert_eq!(
        request("POST", &url("file"), None, Some(&missing)).1,
        json!({"files": ["0".repeat(40), "../../steward.db"]})
    );
    assert_eq!(
        request("GET", &url("file/..%2f..%2fsteward.db"), None, None).0,
        404
    );
    let ids = json!({"file_id_1": "0", "file_id_2": one});
    assert_eq!(
        request("POST", &url("filediff"), None, Some(&ids)).1,
        json!({"diff": ["--- 0\n", format!("+++ {one}\n"), "@@ -0,0 +1 @@\n", "+hello\n"]})
    );
    let ids = json!({"file_id_1": "0".repeat(40), "file_id_2": one});
    assert_eq!(request("POST", &url("filediff"), None, Some(&ids)).0, 404);
    // Larger than other bodies may be.
    let large = vec![b'x'; 20 << 20];
    let name = hex::encode(<sha1::Sha1 as sha1::Digest>::digest(&large));
    assert_eq!(put(&name, &base64.encode(large)), 200);
}
