//! Secrets leave no trace, and what the server keeps is for its user only.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::environments::{Logged, TOKEN, configure};
use crate::harness::{Host, Repo, send, wait_until};

const PLUGIN: &str = r#"
import hashlib, logging, os, subprocess, sys
from inmanta.plugins import plugin

@plugin
def tell(text: "string") -> "string":
    print("told:", text, repr(text), {"value": text})
    print("environment:", dict(os.environ))
    print("on stderr:", text, file=sys.stderr)
    logging.getLogger("tell").warning("logged %s", text)
    os.write(2, f"raw {text}\n".encode())
    subprocess.run(["sh", "-c", "echo child $0; echo child $0 >&2; env", text])
    print("digest", hashlib.sha256(text.encode()).hexdigest()[:12])
    return text

@plugin
def fail(text: "string") -> "string":
    raise Exception(f"cannot use {text!r}")
"#;

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// All that the API says of the only environment, with the reports of all its compiles.
fn answers(served: &Logged) -> String {
    let environment = served.environment("e");
    let id = environment["id"].as_str().unwrap();
    let mut all = environment.to_string();
    for path in [
        "/api/v2/environment",
        "/api/v2/project?environment_details=true",
        "/api/v2/environment_settings",
        "/api/v1/serverstatus",
        "/api/v2/desiredstate",
        "/api/v2/resource",
        "/api/v2/compilereport",
    ] {
        all.push_str(&served.get(path, id).to_string());
    }
    for report in served.get("/api/v2/compilereport", id)["data"]
        .as_array()
        .unwrap()
    {
        let report = report["id"].as_str().unwrap();
        let path = format!("/api/v2/compilereport/{report}");
        all.push_str(&served.get(&path, id).to_string());
    }
    all
}

fn digest(text: &str) -> String {
    use sha2::{Digest, Sha256};
    format!("digest {}", &hex::encode(Sha256::digest(text))[..12])
}

struct Canary {
    name: &'static str,
    value: &'static str,
}

const CANARIES: [Canary; 5] = [
    Canary {
        name: "hook",
        value: "canary-webhook-secret",
    },
    Canary {
        name: "git",
        value: "canary-git-token",
    },
    Canary {
        name: "key",
        value: "canary-env-secret-\"quoted\"-ümlaut",
    },
    Canary {
        name: "pem",
        value: "canary-first-line-of-pem\ncanary-second-line-of-pem",
    },
    Canary {
        name: "next",
        value: "canary-env-secret-of-later",
    },
];

fn project(commit: &str) -> Repo {
    let repo = Repo::new(commit);
    repo.write_module("t", "", PLUGIN);
    repo.commit("module");
    repo
}

/// Nothing that was kept or said has a secret in it.
#[track_caller]
fn assert_clean(served: &Logged, data: &Path) {
    let (log, api) = (served.said(), answers(served));
    let secrets = CANARIES.iter().flat_map(|canary| canary.value.split('\n'));
    for secret in secrets.chain([TOKEN]) {
        let json = Value::from(secret).to_string();
        for form in [secret, &json[1..json.len() - 1]] {
            assert!(!log.contains(form), "{form} is in the log:\n{log}");
            assert!(!api.contains(form), "{form} is in an answer:\n{api}");
            for file in files_below(data) {
                let content = fs::read(&file).unwrap_or_default();
                assert!(!holds(&content, form), "{form} is in {}", file.display());
            }
        }
    }
}

/// Input: a unique text in each secret (API token, webhook secret, git token, variables), and a model that prints all it can get, fails with it, and starts programs that print it (docs/reference/security.md § 3.37, § 4.12). Answer: no hit in database, log, answers of the API and files of the data directory; marks stand in the reports; a changed secret is compiled with.
#[test]
fn secrets_leave_no_trace_in_database_log_and_answers() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(format!("{name}.secret"));
    for canary in &CANARIES {
        fs::write(at(canary.name), format!("{}\n", canary.value)).unwrap();
    }
    let model = "import t\nstd::print(std::get_env(\"KEY\"))\nstd::print(t::tell(std::get_env(\"KEY\")))\n\
                 std::print(t::tell(std::get_env(\"PEM\")))\nstd::print(\"plain \" + std::get_env(\"PLAIN\"))\n";
    let repo = project(model);
    let config = format!(
        "environments:\n- project: p\n  name: e\n  repository: {}\n  branch: main\n  \
         env: {{PLAIN: in-clear, KEY: {{file: {}}}, PEM: {{file: {}}}}}\n  \
         credentials: {{token: {{file: {}}}}}\n  \
         webhooks: [{{id: h, forge: github, secret: {{file: {}}}}}]\n",
        repo.path().display(),
        at("key").display(),
        at("pem").display(),
        at("git").display(),
        at("hook").display(),
    );
    let config = configure(dir.path(), &config);
    let data = dir.path().join("data");
    let served = Logged::start(&config);
    let reported = |served: &Logged, text: &str| answers(served).contains(text);
    let key = CANARIES[2].value;
    wait_until("it is compiled", || reported(&served, &digest(key)));
    for mark in ["told: <redacted: KEY>", "<redacted: PEM>", "plain in-clear"] {
        assert!(reported(&served, mark), "{mark}: {}", answers(&served));
    }
    // A delivery that is not believed, and a wrong token.
    let url = format!("{}/webhook/github/h", served.api);
    assert_eq!(send("POST", &url, &[], b"{}").0, 401);
    assert_clean(&served, &data);
    // It is in a diagnostic.
    repo.write(
        "main.cf",
        "import t\nstd::print(t::fail(std::get_env(\"KEY\")))\n",
    );
    repo.commit("fails");
    wait_until("it is rejected", || {
        reported(&served, "cannot use '<redacted: KEY>'")
    });
    // Asked for over the API.
    let id = served.environment("e")["id"].as_str().unwrap().to_owned();
    let (status, body) = served.call("POST", &format!("/api/v1/notify/{id}"), &id, &json!({}));
    assert_eq!(status, 200, "{body}");
    assert_clean(&served, &data);
    // Another secret is another input.
    repo.write(
        "main.cf",
        "import t\nstd::print(t::tell(std::get_env(\"KEY\")))\n",
    );
    repo.commit("tells");
    wait_until("the commit is compiled", || {
        answers(&served).matches(&digest(key)).count() >= 2
    });
    served.stop();
    assert!(!holds(
        &fs::read(data.join("steward.db")).unwrap(),
        "canary"
    ));
    let next = CANARIES[4].value;
    fs::write(at("key"), next).unwrap();
    let served = Logged::start(&config);
    wait_until("it is compiled with the new one", || {
        reported(&served, &digest(next))
    });
    assert_clean(&served, &data);
}

const HANDLER: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

@resource("t::Thing", agent="agent", id_attribute="path")
class Thing(PurgeableResource):
    fields = ("path",)

@provider("t::Thing")
class ThingHandler(CRUDHandler[Thing]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()
    def create_resource(self, ctx, resource):
        os.mkdir(resource.path)
        with open(resource.path + "/file", "w") as file:
            file.write("x")
        ctx.set_created()
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

const THING: &str = "entity Thing extends std::PurgeableResource:\n    string path\n    string agent = \"internal\"\nend\n\
                     implement Thing using std::none\n";

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

/// Input: a server that is started with the umask 022 (docs/reference/security.md § 4.19). Answer: all in its data directory is for its user only; what handlers make has the modes that this umask gives.
#[test]
fn what_the_server_keeps_is_private_and_what_is_deployed_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new();
    let model = r#"
import fs
import exec
import t
root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
fs::File(host=host, path="{{root}}/native", content="x")
fs::Directory(host=host, path="{{root}}/folder")
exec::Run(host=host, cwd=root, command="echo x > shell", creates="shell")
t::Thing(path="{{root}}/python")
"#;
    let repo = project(model);
    repo.write("libs/t/model/_init.cf", THING);
    repo.write("libs/t/plugins/__init__.py", HANDLER);
    repo.commit("handler");
    let config = format!(
        "environments:\n- {{project: p, name: e, repository: {}, branch: main, env: {{ROOT: {}}}}}\n",
        repo.path().display(),
        host.root().display()
    );
    let config = configure(dir.path(), &config);
    let data = dir.path().join("data");
    // As an older version left it.
    fs::create_dir_all(data.join("mirrors")).unwrap();
    fs::write(data.join("mirrors/old"), "").unwrap();
    let served = Logged::start(&config);
    for name in ["native", "folder", "shell", "python/file"] {
        wait_until(name, || host.file(name).exists());
    }
    let modes = ["native", "folder", "shell", "python", "python/file"];
    let modes = modes.map(|name| mode(&host.file(name)));
    assert_eq!(modes, [0o644, 0o755, 0o644, 0o755, 0o644]);
    wait_until("all is told", || {
        let id = served.environment("e")["id"].as_str().unwrap().to_owned();
        let path = "/api/v2/resource?deploy_summary=true";
        served.get(path, &id)["metadata"]["deploy_summary"]["by_state"]["deployed"] == 4
    });
    served.stop();
    assert_eq!(mode(&data), 0o700);
    for path in files_below(&data) {
        // What Python compiled has the modes of its sources, in a folder that nobody else gets to.
        let is_bytecode = path.components().any(|part| part.as_os_str() == ".pycache");
        let is_open = mode(&path) & 0o077 != 0;
        let is_link = fs::symlink_metadata(&path).unwrap().is_symlink();
        assert!(is_bytecode || is_link || !is_open, "{}", path.display());
    }
}

const TELLING_HANDLER: &str = r#"
import json, os, subprocess
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

@resource("t::Thing", agent="agent", id_attribute="path")
class Thing(PurgeableResource):
    fields = ("path",)

@provider("t::Thing")
class ThingHandler(CRUDHandler[Thing]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()
    def create_resource(self, ctx, resource):
        inherited = subprocess.run(["sh", "-c", "echo $KEY"], capture_output=True, text=True).stdout.strip()
        with open(resource.path, "w") as file:
            json.dump({**os.environ, "inherited": inherited}, file)
        ctx.set_created()
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

/// Given: variables and secrets in `env:` of the configuration, others in the environment of the server, and a handler that
/// writes what it finds in its own. Expected: those of the configuration, `HOME`, and nothing else of the server's.
#[test]
fn handlers_find_what_the_configuration_gives_them_and_nothing_else_of_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (key, found) = (dir.path().join("key"), dir.path().join("found.json"));
    fs::write(&key, "canary-env-secret").unwrap();
    let repo = Repo::new(&format!(
        "import t\nt::Thing(path=\"{}\")\n",
        found.display()
    ));
    repo.write_module("t", THING, TELLING_HANDLER);
    repo.commit("a handler");
    let environment = format!(
        "environments:\n- {{project: p, name: e, repository: {}, env: {{REGION: eu, KEY: {{file: {}}}}}}}\n",
        repo.path().display(),
        key.display()
    );
    let config = configure(dir.path(), &environment);
    let served = Logged::start(&config);
    let written = || serde_json::from_slice::<Value>(&fs::read(&found).unwrap_or_default()).ok();
    wait_until("the handler ran", || written().is_some());
    let written = written().unwrap();
    assert_eq!(
        (&written["REGION"], &written["KEY"]),
        (&json!("eu"), &json!("canary-env-secret"))
    );
    assert_eq!(written["inherited"], "canary-env-secret");
    assert_eq!(written["HOME"], json!(std::env::var("HOME").unwrap()));
    assert!(
        !written
            .to_string()
            .contains("canary-variable-of-the-server"),
        "{written:#}"
    );
    let said = served.said();
    assert!(!said.contains("canary-env-secret"), "{said}");
}

const REFERRING: &str = r#"
import json, os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.plugins import plugin
from inmanta.references import Reference, reference
from inmanta.resources import PurgeableResource, resource

@reference("v::Secret")
class Secret(Reference[str]):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
    def resolve(self, logger) -> str:
        return "-".join(["canary", "of", "a", "reference"])

@plugin
def secret(name: str) -> Reference[str]:
    return Secret(name)

@resource("v::Login", agent="agent", id_attribute="path")
class Login(PurgeableResource):
    fields = ("path", "user", "word")

@provider("v::Login", name="login")
class LoginHandler(CRUDHandler[Login]):
    def read_resource(self, ctx, resource):
        ctx.info("logging in as %(user)s with %(given)s", user=resource.user, given=resource.word)
        print("logging in with", resource.word)
        if not os.path.exists(resource.path):
            raise ResourcePurged()
        with open(resource.path) as file:
            resource.user, resource.word = json.load(file)
    def write(self, resource):
        with open(resource.path, "w") as file:
            json.dump([resource.user, resource.word], file)
        if resource.user == "nobody":
            raise Exception(f"{resource.word} is not the word of {resource.user}")
    def create_resource(self, ctx, resource):
        self.write(resource)
        ctx.set_created()
    def update_resource(self, ctx, changes, resource):
        self.write(resource)
        ctx.set_updated()
    def delete_resource(self, ctx, resource): ...
"#;

const LOGIN: &str = "entity Login extends std::PurgeableResource:\n    string path\n    string user\n    string word\n    \
                     string agent = \"internal\"\nend\nimplement Login using std::none\n";

/// Input: a secret that a reference resolves to on its target, a handler that logs it, finds another in its place, and fails with
/// it (docs/reference/security.md § 3.37). Answer: no hit in the database, the server's log, the log file of resource
/// actions, dry runs and answers of the API; the host has it.
#[test]
fn what_a_reference_resolves_to_is_known_to_its_target_alone() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new();
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let model = |user: &str| {
        let path = host.file("login").display().to_string();
        format!("import v\nv::Login(path=\"{path}\", user=\"{user}\", word=v::secret(\"x\"))\n")
    };
    let repo = Repo::new(&model("somebody"));
    repo.write_module("v", LOGIN, REFERRING);
    repo.commit("a login");
    let config = format!(
        "action_logs: {{folder: {}}}\nenvironments:\n- {{project: p, name: e, repository: {}, branch: main, \
         settings: {{autostart_agent_deploy_interval: 0, autostart_agent_repair_interval: 0}}}}\n",
        logs.display(),
        repo.path().display()
    );
    let config = configure(dir.path(), &config);
    let data = dir.path().join("data");
    let served = Logged::start(&config);
    let secret = "canary-of-a-reference";
    let id = || served.environment("e")["id"].as_str().unwrap().to_owned();
    let actions = || served.get("/api/v2/resource_actions", &id()).to_string();
    wait_until("it is deployed", || {
        host.file("login").exists() && actions().contains("created")
    });
    assert!(host.read("login").contains(secret), "the host has it");
    // Somebody changes it, and the model asks for another user, with whom it fails.
    fs::write(host.file("login"), r#"["somebody", "canary-on-the-host"]"#).unwrap();
    repo.write("main.cf", &model("nobody"));
    repo.commit("fails");
    wait_until("it has failed", || {
        actions().contains("is not the word of nobody")
    });
    fs::write(host.file("login"), r#"["somebody", "canary-on-the-host"]"#).unwrap();
    let (status, body) = served.call("POST", "/api/v2/dryrun/2", &id(), &json!({}));
    assert_eq!(status, 200, "{body}");
    let run = body["data"].as_str().unwrap().to_owned();
    let path = format!("/api/v2/dryrun/2/{run}");
    let compared = || served.get(&path, &id());
    wait_until("it is compared", || {
        compared()["data"]["summary"]["todo"] == 0
    });
    let difference = &compared()["data"]["diff"][0]["attributes"];
    assert_eq!(difference["word"]["from_value"], "(hidden)", "{difference}");
    assert_eq!(difference["word"]["to_value"], "(hidden)", "{difference}");
    assert_eq!(difference["user"]["from_value"], "somebody", "{difference}");

    let said = answers(&served) + &actions() + &compared().to_string() + &served.said();
    assert!(!said.contains("canary"), "{said}");
    let log = logs.join(format!("resource-actions-{}.log", id()));
    let log = fs::read_to_string(log).unwrap();
    let rid = format!("v::Login[internal,path={}]", host.file("login").display());
    assert!(
        log.contains(&format!(
            "INFO     {rid}: logging in as somebody with (hidden)\n"
        )),
        "{log}"
    );
    assert!(log.contains("printed: logging in with (hidden)\n"), "{log}");
    assert!(
        log.contains("(hidden) is not the word of nobody") && log.contains("\n    Traceback"),
        "{log}"
    );
    served.stop();
    assert!(!log.contains("canary"), "{log}");
    for file in files_below(&data) {
        let content = fs::read(&file).unwrap_or_default();
        for canary in [secret, "canary-on-the-host"] {
            assert!(
                !holds(&content, canary),
                "{canary} is in {}",
                file.display()
            );
        }
    }
}

/// Input: secrets that references of `std` in resources of native types resolve to, in a file, in a command that prints one and
/// fails, and in a variable that is not set (docs/reference/security.md § 3.37). Answer: the host has them; no hit in the database, the
/// server's log, the log file of resource actions, dry runs and answers of the API.
#[test]
fn what_native_handlers_resolve_is_known_to_its_target_alone() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new();
    let (logs, word) = (dir.path().join("logs"), dir.path().join("word"));
    fs::create_dir(&logs).unwrap();
    let secret = "canary \"of\" a variable";
    fs::write(&word, secret).unwrap();
    let place = |name: &str| host.file(name).display().to_string();
    let main = format!(
        "import steward\nimport exec\nimport std::testing\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         word = std::create_environment_reference(\"WORD\")\n\
         steward::File(host=host, path=\"{}\", content=word)\n\
         fact = std::testing::NullResource(name=\"giver\")\n\
         steward::File(host=host, path=\"{}\", content=std::create_fact_reference(fact, \"size\"))\n\
         exec::Run(host=host, command=\"/bin/sh -c 'echo said $PASS; exit 3'\", environment={{\"PASS\": word}})\n\
         steward::File(host=host, path=\"{}\", content=std::create_environment_reference(\"NOT_THERE\"))\n",
        place("key"),
        place("size"),
        place("unset"),
    );
    let repo = Repo::new(&main);
    let config = format!(
        "action_logs: {{folder: {}}}\nenvironments:\n- {{project: p, name: e, repository: {}, branch: main, \
         env: {{WORD: {{file: {}}}}}, settings: {{autostart_agent_deploy_interval: 0, autostart_agent_repair_interval: 0}}}}\n",
        logs.display(),
        repo.path().display(),
        word.display()
    );
    let config = configure(dir.path(), &config);
    let data = dir.path().join("data");
    let served = Logged::start(&config);
    let id = || served.environment("e")["id"].as_str().unwrap().to_owned();
    let actions = || {
        served
            .get("/api/v2/resource_actions?limit=1000", &id())
            .to_string()
    };
    wait_until("it is deployed", || host.file("key").exists());
    assert_eq!(host.read("key"), secret, "the host has it");
    for reason in [
        "Environment variable NOT_THERE is not set",
        "fact size of std::testing::NullResource[internal,name=giver] is not known (HTTP",
        "said (hidden)",
    ] {
        wait_until(reason, || actions().contains(reason));
    }
    assert!(!host.file("unset").exists() && !host.file("size").exists());
    // The fact is known, and the file is changed by hand.
    let fact = json!({
        "value": "17 m", "source": "fact", "resource_id": "std::testing::NullResource[internal,name=giver]",
    });
    let (status, body) = served.call("PUT", "/api/v2/facts/size", &id(), &fact);
    assert_eq!(status, 200, "{body}");
    fs::write(host.file("key"), "canary-on-the-host").unwrap();
    let (_, body) = served.call("POST", "/api/v2/dryrun/1", &id(), &json!({}));
    let path = format!("/api/v2/dryrun/1/{}", body["data"].as_str().unwrap());
    let compared = || served.get(&path, &id());
    wait_until("it is compared", || {
        compared()["data"]["summary"]["todo"] == 0
    });
    let differences = compared()["data"]["diff"].as_array().unwrap().clone();
    let of_key = differences.iter().find(|one| {
        let id = one["resource_id"].as_str().unwrap_or_default();
        id.ends_with("key]")
    });
    let content = &of_key.unwrap()["attributes"]["content"];
    assert_eq!(content["from_value"], "(hidden)", "{content}");
    assert_eq!(content["to_value"], "(hidden)", "{content}");
    let all = json!({"agent_trigger_method": "push_full_deploy"});
    let (status, body) = served.call("POST", "/api/v1/deploy", &id(), &all);
    assert_eq!(status, 200, "{body}");
    wait_until("it is mended", || {
        host.read("key") == secret && host.read("size") == "17 m"
    });
    wait_until("that is recorded", || actions().contains("\"updated\""));

    let said = answers(&served) + &actions() + &compared().to_string() + &served.said();
    let log = logs.join(format!("resource-actions-{}.log", id()));
    served.stop();
    assert!(!said.contains("canary"), "{said}");
    let log = fs::read_to_string(log).unwrap();
    assert!(
        log.contains("said (hidden)") && !log.contains("canary"),
        "{log}"
    );
    for file in files_below(&data) {
        let content = fs::read(&file).unwrap_or_default();
        assert!(!holds(&content, "canary"), "it is in {}", file.display());
    }
}
