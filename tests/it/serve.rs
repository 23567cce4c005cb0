//! `steward serve` with a configuration file: many environments, SQLite and PostgreSQL, systemd's readiness.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{
    DEADLINE, Host, Repo, files, finish, request, signal, skip, steward, wait_until,
};
use crate::unpacked;

pub struct Served {
    pub child: Child,
    pub api: String,
    pub log: Arc<Mutex<String>>,
}

/// Lines of the server's log that a test shows when it fails.
const SHOWN_LINES: usize = 60;

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let n_lines = log.lines().count();
            let end = log.lines().skip(n_lines.saturating_sub(SHOWN_LINES));
            println!("the end of the server's log:");
            end.for_each(|line| println!("| {line}"));
        }
    }
}

/// Starts a server on a port of its own choice; ready when this returns.
#[track_caller]
pub fn serve(dir: &Path, config: &str) -> Served {
    serve_with(dir, config, &[])
}

/// As [`serve`], with variables in the server's environment.
#[track_caller]
pub fn serve_with(dir: &Path, config: &str, variables: &[(&str, &str)]) -> Served {
    let served = start(dir, config, "0", variables);
    is_well(&served);
    served
}

/// As [`serve`], on a port that another server had.
#[track_caller]
pub fn serve_on(dir: &Path, config: &str, port: &str) -> Served {
    let served = start(dir, config, port, &[]);
    is_well(&served);
    served
}

/// As [`serve`], where the API wants a token.
#[track_caller]
pub fn serve_unasked(dir: &Path, config: &str) -> Served {
    start(dir, config, "0", &[])
}

#[track_caller]
fn is_well(served: &Served) {
    let health = format!("{}/api/v2/health", served.api);
    assert_eq!(request("GET", &health, None, None).0, 200);
}

#[track_caller]
fn start(dir: &Path, config: &str, port: &str, variables: &[(&str, &str)]) -> Served {
    let file = dir.join("steward.yaml");
    let data = dir.join("data");
    let config = format!(
        "listen: 127.0.0.1:{port}\ndata: {}\n{config}",
        data.display()
    );
    std::fs::write(&file, config).unwrap();
    unpacked::lay_out(&data);
    let mut child = steward()
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .env("STEWARD_LOG", "info")
        .envs(variables.iter().copied())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sender, lines) = channel();
    let log: Arc<Mutex<String>> = Arc::default();
    let kept = Arc::clone(&log);
    // To its end, or the server would wait for somebody to read.
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            kept.lock().unwrap().push_str(&format!("{line}\n"));
            let _ = sender.send(line);
        }
    });
    let mut served = Served {
        child,
        api: String::new(),
        log,
    };
    let mut said = Vec::new();
    while served.api.is_empty() {
        let Ok(line) = lines.recv_timeout(DEADLINE) else {
            panic!("the server does not listen: {}", said.join("\n"));
        };
        if let Some((_, address)) = line.split_once("listening on http://") {
            served.api = format!("http://{}", address.trim());
        }
        said.push(line);
    }
    served
}

impl Served {
    /// What the server has written into its log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    pub fn environment(&self, name: &str) -> String {
        let (_, body) = request(
            "GET",
            &format!("{}/api/v2/environment", self.api),
            None,
            None,
        );
        let environments = body["data"].as_array().unwrap();
        let found = environments
            .iter()
            .find(|environment| environment["name"] == name);
        found.unwrap()["id"].as_str().unwrap().to_owned()
    }

    pub fn get(&self, environment: &str, path: &str) -> Value {
        request(
            "GET",
            &format!("{}{path}", self.api),
            Some(environment),
            None,
        )
        .1
    }
}

fn environment(name: &str, repo: &Repo, host: &Host) -> String {
    format!(
        "  - project: infra\n    name: {name}\n    repository: {}\n    branch: main\n    env: {{ROOT: {}}}\n",
        repo.path().display(),
        host.root().display()
    )
}

fn two_environments(database: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (repos, hosts) = (
        [
            Repo::new(&files(&[("a", "x")])),
            Repo::new(&files(&[("a", "y")])),
        ],
        [Host::new(), Host::new()],
    );
    let config = format!(
        "{database}environments:\n{}{}",
        environment("one", &repos[0], &hosts[0]),
        environment("two", &repos[1], &hosts[1])
    );
    let served = serve(dir.path(), &config);
    wait_until("both are deployed", || {
        hosts[0].read("a") == "x\n" && hosts[1].read("a") == "y\n"
    });
    repos[1].write("main.cf", &files(&[("a", "z")]));
    repos[1].commit("next");
    wait_until("the commit is deployed", || hosts[1].read("a") == "z\n");
    assert_eq!(hosts[0].read("a"), "x\n");
    let (one, two) = (served.environment("one"), served.environment("two"));
    wait_until("the state says so", || {
        let state = |id| {
            served.get(id, "/api/v2/resource?deploy_summary=true")["metadata"]["deploy_summary"]["by_state"]["deployed"].clone()
        };
        state(&one) == 2 && state(&two) == 2
    });
    assert_eq!(
        served.get(&two, "/api/v2/desiredstate")["data"][0]["version"],
        2
    );
    // A restart finds everything again and changes nothing.
    signal(served.child.id(), rustix::process::Signal::TERM);
    let mut served = served;
    assert!(served.child.wait().unwrap().success());
    let served = serve(dir.path(), &config);
    assert_eq!(served.environment("one"), one);
    wait_until("it is up again", || {
        served.get(&two, "/api/v2/desiredstate")["data"][0]["status"] == "active"
    });
    assert_eq!(
        served.get(&two, "/api/v2/desiredstate")["data"][0]["version"],
        2
    );
}

//: deploy 120
#[test]
fn two_environments_of_one_server_do_not_touch_each_other() {
    two_environments("");
}

#[tokio::test]
async fn the_same_on_postgresql() {
    let Ok(url) = std::env::var("STEWARD_TEST_POSTGRES") else {
        skip("STEWARD_TEST_POSTGRES names no PostgreSQL server");
        return;
    };
    let name = format!("steward_it_{}", std::process::id());
    let admin = sqlx::PgPool::connect(&url).await.unwrap();
    sqlx::query(&format!("CREATE DATABASE {name}"))
        .execute(&admin)
        .await
        .unwrap();
    let base = url.rsplit_once('/').unwrap().0.to_owned();
    let config = format!("database: {base}/{name}\n");
    let outcome = tokio::task::spawn_blocking(move || two_environments(&config)).await;
    sqlx::query(&format!("DROP DATABASE {name} WITH (FORCE)"))
        .execute(&admin)
        .await
        .unwrap();
    outcome.unwrap();
}

/// Given: a server whose log leads to a full disk. Expected: commits are compiled and deployed all the same, and it ends when it
/// is asked to.
#[test]
fn a_log_that_cannot_be_written_does_not_stop_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let (repo, host) = (Repo::new(&files(&[("a", "first")])), Host::new());
    let file = dir.path().join("steward.yaml");
    let data = dir.path().join("data");
    unpacked::lay_out(&data);
    let environment = environment("one", &repo, &host);
    let data = data.display();
    let config = format!("listen: 127.0.0.1:0\ndata: {data}\nenvironments:\n{environment}");
    std::fs::write(&file, config).unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = steward();
    command.arg("serve").arg("--config").arg(&file);
    let mut child = command.stderr(full.unwrap()).spawn().unwrap();
    wait_until("the first commit is deployed", || {
        host.read("a") == "first\n"
    });
    repo.write("main.cf", &files(&[("a", "second")]));
    repo.commit("second");
    wait_until("the next commit is deployed", || {
        host.read("a") == "second\n"
    });
    signal(child.id(), rustix::process::Signal::TERM);
    assert!(child.wait().unwrap().success());
}

#[test]
fn readiness_and_the_watchdog_are_told_to_systemd() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("notify");
    let notify = UnixDatagram::bind(&socket).unwrap();
    notify
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let file = dir.path().join("steward.yaml");
    std::fs::write(&file, "listen: 127.0.0.1:0\n").unwrap();
    // systemd names the process that must report; only that one knows its id before it is this server.
    let script = "WATCHDOG_PID=$$ exec \"$0\" serve --config \"$1\"";
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", script, env!("CARGO_BIN_EXE_steward")])
        .arg(&file)
        .stderr(Stdio::null());
    command
        .env("NOTIFY_SOCKET", &socket)
        .env("STATE_DIRECTORY", dir.path().join("state"))
        .env("WATCHDOG_USEC", "300000");
    let mut child = command.spawn().unwrap();
    let receive = || {
        let mut buffer = [0; 1024];
        let length = notify.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let first = receive();
    assert!(
        first.contains("READY=1") && first.contains("STATUS=Listening"),
        "{first}"
    );
    assert!(receive().contains("WATCHDOG=1"));
    assert!(receive().contains("WATCHDOG=1"));
    signal(child.id(), rustix::process::Signal::TERM);
    let stopping = (0..20)
        .map(|_| receive())
        .any(|message| message.contains("STOPPING=1"));
    assert!(stopping);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_bad_configuration_is_named_with_file_and_field() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("steward.yaml");
    for (text, expected) in [
        ("listen: everywhere\ndata: /tmp", "listen"),
        ("data: /tmp\nenvironments: [{project: p}]", "name"),
        ("data: [", "steward.yaml"),
        ("data: /tmp\nlisten: 0.0.0.0:80", "api_token"),
    ] {
        std::fs::write(&file, text).unwrap();
        let mut command = steward();
        command.arg("serve").arg("--config").arg(&file);
        let output = finish(command);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains(expected) && said.contains("steward.yaml"),
            "{said}"
        );
    }
}

#[test]
fn an_environment_whose_repository_is_gone_harms_no_other_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let (good, bad, hosts) = (
        Repo::new(&files(&[("a", "x")])),
        Repo::new(&files(&[("a", "y")])),
        [Host::new(), Host::new()],
    );
    let config = format!(
        "environments:\n{}{}",
        environment("bad", &bad, &hosts[1]),
        environment("good", &good, &hosts[0])
    );
    let hidden = bad.path().join(".git-hidden");
    std::fs::rename(bad.path().join(".git/objects"), &hidden).unwrap();
    let served = serve(dir.path(), &config);
    wait_until("the good one is deployed", || hosts[0].read("a") == "x\n");
    std::fs::rename(&hidden, bad.path().join(".git/objects")).unwrap();
    wait_until("the other one recovers by itself", || {
        hosts[1].read("a") == "y\n"
    });
    drop(served);
}

/// Input: no token, or a wrong one (docs/reference/security.md § 3.36). Answer: 401 and 403.
#[test]
fn with_a_token_requests_must_show_it() {
    let dir = tempfile::tempdir().unwrap();
    let served = serve(
        dir.path(),
        "api_token: 0123456789abcdef\nrepositories: {allow_private: true}\n",
    );
    let url = format!("{}/api/v2/environment", served.api);
    let with = |token: &str| {
        let headers = [("Authorization".to_owned(), format!("Bearer {token}"))];
        crate::harness::send("GET", &url, &headers, b"").0
    };
    assert_eq!(request("GET", &url, None, None).0, 401);
    assert_eq!(with("wrong"), 403);
    assert_eq!(with("0123456789abcdef"), 200);
    // With it, an environment may get a repository, in its checked form.
    let call = |method: &str, path: &str, body: Value| {
        let headers = [(
            "Authorization".to_owned(),
            "Bearer 0123456789abcdef".to_owned(),
        )];
        let url = format!("{}{path}", served.api);
        crate::harness::send(method, &url, &headers, body.to_string().as_bytes())
    };
    let (status, body) = call("PUT", "/api/v2/project", json!({"name": "p"}));
    assert_eq!(status, 200, "{body}");
    let project = body["data"]["id"].clone();
    let make = |url: &str| {
        let body = json!({"name": "e", "project_id": project, "repository": url, "branch": "main"});
        call("PUT", "/api/v2/environment", body)
    };
    assert_eq!(make("folder:/etc").0, 400);
    let (status, body) = make(" http://127.0.0.1:80/x/ ");
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["data"]["repo_url"], "http://127.0.0.1/x");
    assert_eq!(
        request("GET", &format!("{}/api/v2/health", served.api), None, None).1,
        json!({"data": null})
    );
}

#[test]
fn the_example_configuration_is_good() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/steward.yaml.example");
    let state = tempfile::tempdir().unwrap();
    let mut command = steward();
    command
        .args(["serve", "--check", "--config"])
        .arg(example)
        .env("STATE_DIRECTORY", state.path());
    let output = finish(command);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Given: `python:` names a program that is no Python. Expected: `--check` refuses it as the start does.
#[test]
fn a_check_refuses_a_python_with_which_no_server_starts() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("steward.yaml");
    let text = format!(
        "data: {}\npython: /bin/ls\n",
        dir.path().join("data").display()
    );
    std::fs::write(&config, text).unwrap();
    for arguments in [
        &["serve", "--check", "--config"][..],
        &["serve", "--config"],
    ] {
        let mut command = steward();
        command.args(arguments).arg(&config);
        let output = finish(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}: {said}");
        assert!(
            said.contains("/bin/ls (named by `python:`"),
            "{arguments:?}: {said}"
        );
    }
}
