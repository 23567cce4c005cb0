//! `exec::Run` through the whole path: guards, output, timeouts and exit codes.

use serde_json::Value;

use crate::harness::{Host, Repo, Running, events, finish};

/// Runs one command resource; gives its event.
#[track_caller]
fn run(host: &Host, arguments: &str) -> Value {
    let model = format!(
        "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         exec::Run(host=host, cwd=root, {arguments})\n"
    );
    let repo = Repo::new(&model);
    let data = tempfile::tempdir().unwrap();
    let mut command = crate::harness::steward();
    command.arg("up").arg(repo.path()).args([
        "--once",
        "--format",
        "json",
        "--listen",
        "127.0.0.1:0",
        "--data",
    ]);
    command
        .arg(data.path())
        .arg("--env")
        .arg(format!("ROOT={}", host.root().display()));
    let output = finish(command);
    let said = events(&output);
    let resource = said.iter().find(|event| event["event"] == "resource");
    resource
        .unwrap_or_else(|| panic!("no resource ran: {said:#?}"))
        .clone()
}

#[test]
fn a_command_runs_where_and_with_what_it_says() {
    let host = Host::new();
    let event = run(
        &host,
        r#"command="echo $A $HOME > out; pwd >> out", environment={"A": "b"}"#,
    );
    assert_eq!(
        (&event["status"], &event["change"]),
        (&"deployed".into(), &"updated".into()),
        "{event}"
    );
    assert_eq!(host.read("out"), format!("b\n{}\n", host.root().display()));
}

#[test]
fn guards_keep_a_command_from_running() {
    let host = Host::new();
    std::fs::write(host.file("there"), "").unwrap();
    for guard in [
        r#"creates="there""#,
        r#"unless="true""#,
        r#"onlyif="false""#,
        "reload_only=true",
    ] {
        let event = run(&host, &format!(r#"command="touch ran", {guard}"#));
        assert_eq!(
            (&event["status"], &event["change"]),
            (&"deployed".into(), &"nochange".into()),
            "{guard}: {event}"
        );
        assert!(!host.file("ran").exists(), "{guard}");
    }
    for (n, guard) in [
        r#"creates="absent""#,
        r#"unless="false""#,
        r#"onlyif="true""#,
    ]
    .iter()
    .enumerate()
    {
        let event = run(&host, &format!(r#"command="touch ran-{n}", {guard}"#));
        assert_eq!(event["change"], "updated", "{guard}: {event}");
        assert!(host.file(&format!("ran-{n}")).exists(), "{guard}");
    }
}

#[test]
fn a_command_that_fails_shows_its_output_and_one_that_hangs_is_stopped() {
    let host = Host::new();
    let event = run(&host, r#"command="echo out; echo err >&2; exit 3""#);
    assert_eq!(event["status"], "failed");
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("exit status: 3") && message.contains("out") && message.contains("err"),
        "{message}"
    );
    let event = run(&host, r#"command="exit 3", returns=[0, 3]"#);
    assert_eq!(event["status"], "deployed");
    let event = run(&host, r#"command="exit 3", skip_on_fail=true"#);
    assert_eq!(event["status"], "skipped");
    let event = run(&host, r#"command="sleep 100 & sleep 100", timeout=1"#);
    assert_eq!(event["status"], "failed");
    assert!(
        event["message"]
            .as_str()
            .unwrap()
            .contains("did not end within 1 s"),
        "{event}"
    );
}

/// Given: commands of two agents that do not end. Expected: within seconds one is named to whoever watches, long before it is ended.
#[test]
fn a_run_that_does_not_end_is_named_within_seconds() {
    let host = Host::new();
    let repo = Repo::new(
        "import exec\nroot = std::get_env(\"ROOT\")\n\
         for name in [\"localhost\", \"another\"]:\n    host = std::Host(name=name, os=std::linux)\n    \
         exec::Run(host=host, cwd=root, command=\"sleep 1000\")\nend\n",
    );
    let mut running = Running::start(host.up(repo.path()));
    let event = running.wait_for(|event| event["event"] == "long_run");
    let seconds = event["seconds"].as_u64().unwrap();
    assert!((10..60).contains(&seconds), "{event}");
    let resource = event["resource"].as_str().unwrap();
    assert!(resource.starts_with("exec::Run["), "{event}");
    assert!(running.stop().success());
}

#[test]
fn a_command_dies_with_its_executor() {
    let host = Host::new();
    let repo = Repo::new(
        "import exec\nroot = std::get_env(\"ROOT\")\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
         exec::Run(host=host, cwd=root, command=\"sh -c 'echo $$ > pid; exec sleep 1000' && true\", unless=\"test -f stop\")\n",
    );
    let mut running = Running::start(host.up(repo.path()));
    crate::harness::wait_until("the command runs", || {
        host.read("pid").trim().parse::<u32>().is_ok()
    });
    let pid: u32 = host.read("pid").trim().parse().unwrap();
    let is_alive = || std::path::Path::new(&format!("/proc/{pid}/stat")).exists();
    assert!(is_alive());
    std::fs::write(host.file("stop"), "").unwrap();
    let executor = crate::crash::descendants(running.child.id())
        .into_iter()
        .find(|child| child.role == "executor")
        .unwrap();
    crate::harness::signal(executor.pid, rustix::process::Signal::KILL);
    crate::harness::wait_until("the command is gone with it", || !is_alive());
    // The run counts as unavailable, and is retried by a new executor.
    let event = running.wait_for(|event| event["event"] == "resource");
    assert_eq!(event["status"], "unavailable", "{event}");
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("for resource exec::Run[")
            && message.contains("the executor process ended unexpectedly: signal: 9"),
        "{message}"
    );
    running.wait_for(|event| event["event"] == "resource" && event["status"] == "deployed");
}

#[test]
fn a_command_that_is_supervised_keeps_its_exit_status_and_its_signals() {
    let host = Host::new();
    let event = run(&host, r#"command="kill -9 $$""#);
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("signal: 9"), "{message}");
    // No signal is blocked in it.
    let event = run(
        &host,
        r#"command="grep SigBlk /proc/self/status > signals""#,
    );
    assert_eq!(event["status"], "deployed", "{event}");
    assert_eq!(host.read("signals"), "SigBlk:\t0000000000000000\n");
}
