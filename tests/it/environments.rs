//! Environments of the configuration that cannot run, `serve --check`, and repositories that are set over the API.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    DEADLINE, Host, Repo, files, finish, request, send, signal, steward, wait_until, wrapper,
};
use crate::unpacked;

pub const TOKEN: &str = "canary-token-0123456789";

/// A server whose log is a file.
pub struct Logged {
    pub child: Child,
    pub api: String,
    pub log: PathBuf,
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes a configuration with a token, for a server with its data in `dir`.
pub fn configure(dir: &Path, config: &str) -> PathBuf {
    let file = dir.join("steward.yaml");
    let data = dir.join("data");
    let token = dir.join("token");
    fs::write(&token, TOKEN).unwrap();
    let config = format!(
        "listen: 127.0.0.1:0\ndata: {}\napi_token: {{file: {}}}\n{config}",
        data.display(),
        token.display()
    );
    fs::write(&file, config).unwrap();
    file
}

impl Logged {
    /// Starts the server of a configuration file; it listens when this returns.
    #[track_caller]
    pub fn start(config: &Path) -> Self {
        let log = config.with_extension("log");
        unpacked::lay_out(&config.with_file_name("data"));
        // What somebody types at a prompt has this umask.
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 022; exec \"$@\"", "sh"])
            .args(wrapper())
            .arg(env!("CARGO_BIN_EXE_steward"))
            .args(["serve", "--config"])
            .arg(config)
            .env("STEWARD_LOG", "debug")
            .env("CANARY_OF_THE_SERVER", "canary-variable-of-the-server")
            .stdin(Stdio::null())
            .stderr(fs::File::create(&log).unwrap());
        let mut served = Self {
            child: command.spawn().unwrap(),
            api: String::new(),
            log,
        };
        let deadline = Instant::now() + DEADLINE;
        while served.api.is_empty() {
            let said = served.said();
            assert!(Instant::now() < deadline, "it does not listen: {said}");
            if let Some((_, rest)) = said.split_once("listening on http://") {
                let address = rest.split_whitespace().next().unwrap_or_default();
                served.api = format!("http://{address}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn call(&self, method: &str, path: &str, environment: &str, body: &Value) -> (u16, Value) {
        let mut headers = vec![("Authorization".to_owned(), format!("Bearer {TOKEN}"))];
        if !environment.is_empty() {
            headers.push(("X-Inmanta-tid".to_owned(), environment.to_owned()));
        }
        let body = match body {
            Value::Null => Vec::new(),
            body => body.to_string().into_bytes(),
        };
        send(method, &format!("{}{path}", self.api), &headers, &body)
    }

    #[track_caller]
    pub fn get(&self, path: &str, environment: &str) -> Value {
        let (status, body) = self.call("GET", path, environment, &Value::Null);
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    #[track_caller]
    pub fn environment(&self, name: &str) -> Value {
        let all = self.get("/api/v2/environment", "");
        let mut all = all["data"].as_array().unwrap().iter();
        let found = all.find(|environment| environment["name"] == name);
        found
            .unwrap_or_else(|| panic!("there is no {name}"))
            .clone()
    }

    /// As systemd does it.
    pub fn stop(mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        assert!(self.child.wait().unwrap().success());
    }
}

fn section(name: &str, repository: &Path, rest: &str) -> String {
    let repository = repository.display();
    format!("  - {{project: infra, name: {name}, repository: {repository}, {rest}}}\n")
}

/// Everything that may be wrong with one environment, beside one that is good.
fn bad_ones(dir: &Path, good: &Repo, host: &Host) -> String {
    let path = good.path();
    let root = host.root().display().to_string();
    let hook = "webhooks: [{id: late, forge: github, secret: correct-horse}]";
    let good_hook = "webhooks: [{id: good, forge: github, secret: correct-horse}]";
    let missing = format!(
        "webhooks: [{{id: m, forge: github, secret: {{file: {}}}}}]",
        dir.join("no-secret").display()
    );
    [
        section(
            "folder",
            &dir.join("later"),
            &format!("env: {{ROOT: {root}}}, {hook}"),
        ),
        section("address", Path::new("ext::sh"), "branch: main"),
        section("secret", path, &missing),
        section("setting", path, "settings: {auto_deploy: perhaps}"),
        section(
            "hook",
            path,
            "webhooks: [{id: x, forge: svn, secret: correct-horse}]",
        ),
        section("device", path, "credentials: {token: {file: /dev/zero}}"),
        section("good", path, &format!("env: {{ROOT: {root}}}, {good_hook}")),
        section("good", &dir.join("no-other"), "branch: main"),
    ]
    .concat()
}

const BAD: [(&str, &str); 6] = [
    ("folder", "environments[0].repository"),
    ("address", "environments[1].repository"),
    ("secret", "environments[2].webhooks[0].secret"),
    ("setting", "environments[3].settings.auto_deploy"),
    ("hook", "environments[4].webhooks[0].forge"),
    ("device", "environments[5].credentials.token"),
];

/// Input: seven bad environments beside a good one: folder missing, unusable URL, secret missing, `/dev/zero` as token, wrong setting, wrong webhook, a name twice (docs/reference/security.md § 4.7). Answer: the good one is deployed; each other one says why in the log and over the API; the one whose folder appears runs then by itself.
#[test]
fn one_bad_environment_does_not_keep_the_others_from_running() {
    let dir = tempfile::tempdir().unwrap();
    let (good, host) = (Repo::new(&files(&[("a", "x")])), Host::new());
    let environments = bad_ones(dir.path(), &good, &host);
    let config = configure(dir.path(), &format!("environments:\n{environments}"));
    let served = Logged::start(&config);
    wait_until("the good one is deployed", || host.read("a") == "x\n");
    assert_eq!(served.environment("good")["failure"], Value::Null);
    for (name, field) in BAD {
        let environment = served.environment(name);
        let failure = environment["failure"].as_str().unwrap().to_owned();
        assert!(failure.starts_with(field), "{name}: {failure}");
        assert!(served.said().contains(&format!("infra/{name}")), "{name}");
        assert!(served.said().contains(field), "{field}");
        let id = environment["id"].as_str().unwrap();
        let one = served.get(&format!("/api/v2/environment/{id}"), "");
        assert_eq!(one["data"]["failure"], failure.as_str());
        let (status, body) = served.call("POST", "/api/v1/deploy", id, &json!({}));
        assert!(status == 404 && body.to_string().contains(field), "{body}");
    }
    let status = served.get("/api/v1/serverstatus", "");
    let slices = status["data"]["slices"].as_array().unwrap().iter();
    let mut not_running = slices.filter_map(|slice| slice["status"]["not_running"].as_array());
    let not_running = not_running.next().unwrap();
    assert_eq!(not_running.len(), BAD.len() + 1, "{not_running:?}");
    assert_eq!(not_running[6]["field"], "environments[7]");
    assert_eq!(not_running[6]["environment"], Value::Null);
    // A webhook of one that does not run is as unknown as one that is nowhere.
    let push = |id: &str| {
        send(
            "POST",
            &format!("{}/webhook/github/{id}", served.api),
            &[],
            b"{}",
        )
    };
    assert_eq!(push("late"), push("nowhere"));
    assert_eq!(push("late").0, 401);
    assert!(served.said().contains("there is no such webhook"));
    // Its folder appears.
    let later = Repo::new(&files(&[("b", "y")]));
    std::os::unix::fs::symlink(later.path(), dir.path().join("later")).unwrap();
    wait_until("it runs by itself", || host.read("b") == "y\n");
    wait_until("it says so", || {
        served.environment("folder")["failure"].is_null()
    });
    assert!(served.said().contains("environment infra/folder runs now"));
    served.stop();
    // It was one of the good ones when the server starts anew, and its state is kept when it is bad again.
    fs::remove_file(dir.path().join("later")).unwrap();
    let served = Logged::start(&config);
    let environment = served.environment("folder");
    assert!(environment["failure"].is_string());
    let later = later.path().display().to_string();
    assert_eq!(environment["repo_url"], later.as_str());
}

#[track_caller]
fn check(config: &Path) -> (Option<i32>, String) {
    let mut command = steward();
    command.args(["serve", "--check", "--config"]).arg(config);
    let began = Instant::now();
    let output = finish(command);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it waits for something"
    );
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

/// Given: an environment that is taken out of the configuration. Expected: it goes on, and the log says so at each start; not of one
/// that is halted.
#[test]
fn an_environment_that_the_configuration_does_not_name_any_more_is_said_to_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (Repo::new("x = 1\n"), Repo::new("x = 2\n"));
    let both = section("kept", first.path(), "") + &section("left", second.path(), "");
    let config = configure(dir.path(), &format!("environments:\n{both}"));
    let served = Logged::start(&config);
    assert!(!served.said().contains("does not name"));
    served.stop();
    let kept = section("kept", first.path(), "");
    let config = configure(dir.path(), &format!("environments:\n{kept}"));
    let served = Logged::start(&config);
    let said = served.said();
    let line = said
        .lines()
        .find(|line| line.contains("does not name this environment any more"));
    assert!(
        line.is_some_and(|line| line.contains("infra/left")),
        "{said}"
    );
    let id = served.environment("left")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let halt = "/api/v2/actions/environment/halt";
    assert_eq!(served.call("POST", halt, &id, &json!({})).0, 200);
    served.stop();
    let served = Logged::start(&config);
    assert!(!served.said().contains("does not name"));
    served.stop();
}

/// Input: the same bad environments, given to `serve --check` (docs/reference/security.md § 4.7). Answer: exit code 1, each is named with its field, and nothing is written.
#[test]
fn the_check_names_every_bad_environment() {
    let dir = tempfile::tempdir().unwrap();
    let (good, host) = (Repo::new("x = 1\n"), Host::new());
    let environments = bad_ones(dir.path(), &good, &host);
    let config = configure(dir.path(), &format!("environments:\n{environments}"));
    let (code, said) = check(&config);
    assert_eq!(code, Some(1), "{said}");
    for (name, field) in BAD.iter().chain(&[("good", "environments[7]")]) {
        assert!(said.contains(field), "{name}: {said}");
    }
    assert!(said.contains("7 of 8 environments do not run"), "{said}");
    assert!(!dir.path().join("data").exists());
    let config = configure(
        dir.path(),
        &format!("environments:\n{}", section("good", good.path(), "")),
    );
    let (code, said) = check(&config);
    assert_eq!(code, Some(0), "{said}");
}

/// Input: a FIFO as secret, ssh key, known hosts and configuration (docs/reference/security.md § 4.2). Answer: refused at once, by `--check` and at the start.
#[test]
fn a_fifo_in_the_place_of_a_file_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::new("x = 1\n");
    let fifo = dir.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let shown = fifo.display();
    for (rest, field) in [
        (
            format!("credentials: {{ssh_key: {shown}}}"),
            "credentials.ssh_key",
        ),
        (
            format!("credentials: {{known_hosts: {shown}}}"),
            "credentials.known_hosts",
        ),
        (
            format!("credentials: {{token: {{file: {shown}}}}}"),
            "credentials.token",
        ),
        (format!("env: {{A: {{file: {shown}}}}}"), "env.A"),
    ] {
        let environment = section("e", repo.path(), &rest);
        let config = configure(dir.path(), &format!("environments:\n{environment}"));
        let (code, said) = check(&config);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains(field) && said.contains("no plain file"),
            "{said}"
        );
        let served = Logged::start(&config);
        let failure = served.environment("e")["failure"].to_string();
        assert!(failure.contains("no plain file"), "{failure}");
    }
    let (code, said) = check(&fifo);
    assert_eq!(code, Some(2), "{said}");
}

/// Input: a data directory that is a file, cannot be made, or holds a folder or another file in the place of the database; a database URL that is none, or where nothing listens (docs/reference/security.md § 4.7). Answer: `--check` refuses with exit code 2 what the server would not start with, and so does the server.
#[test]
fn what_keeps_a_server_from_starting_is_known_to_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("steward.yaml");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(data.join("steward.db")).unwrap();
    let text = dir.path().join("text");
    fs::create_dir(&text).unwrap();
    fs::write(text.join("steward.db"), "no database").unwrap();
    // Nobody listens where somebody has just listened.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let good = dir.path().join("good");
    for text in [
        format!("data: {}\n", file.display()),
        format!("data: {}/below\n", file.display()),
        format!("data: {}\n", data.display()),
        format!(
            "data: {}\ndatabase: postgres://u:p4ssword@h:port/x\n",
            good.display()
        ),
        format!("data: {}\n", text.display()),
        format!(
            "data: {}\ndatabase: postgres://u:p4ssword@127.0.0.1:{port}/x\n",
            good.display()
        ),
    ] {
        fs::write(&config, format!("listen: 127.0.0.1:0\n{text}")).unwrap();
        let (code, said) = check(&config);
        assert_eq!(code, Some(2), "{text}: {said}");
        assert!(!said.contains("p4ssword"), "{said}");
        let mut command = steward();
        command.args(["serve", "--config"]).arg(&config);
        assert_eq!(finish(command).status.code(), Some(3), "{text}");
    }
    // No address of this machine. That somebody listens already is no mistake: it may be this very server.
    let listens = |address: &str| {
        let data = dir.path().join("d");
        let text = format!(
            "listen: {address}\ndata: {}\napi_token: {TOKEN}\n",
            data.display()
        );
        fs::write(&config, text).unwrap();
        check(&config)
    };
    let (code, output) = listens("203.0.113.9:8888");
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("203.0.113.9:8888"), "{output}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, output) = listens(&taken.local_addr().unwrap().to_string());
    assert_eq!(code, Some(0), "{output}");
}

/// Given: a project with an environment. Expected: it cannot be deleted in either version of the API before that is gone.
#[test]
fn a_project_is_deleted_when_it_has_no_environments() {
    let dir = tempfile::tempdir().unwrap();
    let served = Logged::start(&configure(dir.path(), "environments: []\n"));
    let put = |path: &str, body: &Value| {
        let (status, body) = served.call("PUT", path, "", body);
        assert_eq!(status, 200, "{body}");
        body["data"]["id"].as_str().unwrap().to_owned()
    };
    let project = put("/api/v2/project", &json!({"name": "p"}));
    let asked = json!({"name": "e", "project_id": project});
    let environment = put("/api/v2/environment", &asked);
    let delete = |path: String| served.call("DELETE", &path, "", &Value::Null).0;
    for version in ["v1", "v2"] {
        assert_eq!(delete(format!("/api/{version}/project/{project}")), 409);
    }
    assert_eq!(delete(format!("/api/v2/environment/{environment}")), 200);
    assert_eq!(delete(format!("/api/v2/project/{project}")), 200);
    assert_eq!(delete(format!("/api/v1/project/{project}")), 404);
    served.stop();
}

/// Given: an environment whose repository cannot be fetched, and which is renamed. Expected: the lines of the log name it as it is
/// called at that moment, beside its id.
#[test]
fn the_log_names_environments_as_they_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    git2::Repository::init(&empty).unwrap();
    let entry = format!(
        "environments:\n  - {{project: infra, name: prod, repository: {}, branch: main, poll: 1s}}\n",
        empty.display()
    );
    let served = crate::serve::serve(dir.path(), &entry);
    let id = served.environment("prod");
    let line = |name: &str| format!("environment=infra/{name} environment.id={id}");
    wait_until("it is named", || {
        let log = served.log();
        let mut lines = log.lines();
        lines.any(|one| one.contains("cannot fetch") && one.contains(&line("prod")))
    });
    let path = format!("{}/api/v2/environment/{id}", served.api);
    let renamed = request("POST", &path, None, Some(&json!({"name": "live"})));
    assert_eq!(renamed.0, 200, "{}", renamed.1);
    wait_until("it is named anew", || served.log().contains(&line("live")));
}

/// Input: `http://127.0.0.1`, private, link-local and decimal hosts, `file:///etc`, local paths as a repository over the API, with the token (docs/reference/security.md § 3.15, § 3.16, § 4.13). Answer: 400, and the setting that allows it is named; local paths need `allow_local`.
#[test]
fn repositories_of_private_hosts_and_folders_are_refused_over_the_api() {
    let dir = tempfile::tempdir().unwrap();
    let make = |served: &Logged, name: &str, url: &str| {
        let (status, body) = served.call("PUT", "/api/v2/project", "", &json!({"name": name}));
        assert_eq!(status, 200, "{body}");
        let project = body["data"]["id"].clone();
        let body = json!({"name": "e", "project_id": project, "repository": url, "branch": "main"});
        let (status, body) = served.call("PUT", "/api/v2/environment", "", &body);
        (status, body.to_string())
    };
    let repo = Repo::new("x = 1\n");
    let local = repo.path().display().to_string();
    let served = Logged::start(&configure(dir.path(), ""));
    for (index, (url, expected)) in [
        ("http://127.0.0.1/x", "allow_private"),
        ("https://[::ffff:10.0.0.1]/x", "allow_private"),
        ("ssh://git@192.168.0.1/x", "allow_private"),
        ("git@localhost:x", "allow_private"),
        ("https://169.254.169.254/x", "link-local"),
        ("https://2130706433/x", "host"),
        ("file:///etc", "not allowed"),
        (local.as_str(), "not allowed"),
    ]
    .iter()
    .enumerate()
    {
        let (status, body) = make(&served, &format!("p{index}"), url);
        assert!(status == 400 && body.contains(expected), "{url}: {body}");
    }
    served.stop();
    let rules = format!("repositories: {{allow_private: true, allow_local: [{local}]}}\n");
    let served = Logged::start(&configure(dir.path(), &rules));
    assert_eq!(make(&served, "q1", "http://127.0.0.1:9/x").0, 200);
    assert_eq!(make(&served, "q2", &local).0, 200);
    assert_eq!(make(&served, "q3", "/etc").0, 400);
}
