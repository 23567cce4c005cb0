//! The command line of the reference, `inmanta-cli`, drives our server: each of its commands that speaks to a server.
//! Source: docs/reference/rest.md § 4.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::environments::{Logged, TOKEN, configure};
use crate::harness::{Host, Repo, files, finish, skip, wait_until};

/// What a command did.
#[derive(Debug, serde::Deserialize)]
struct Done {
    code: i32,
    output: String,
    error: String,
}

/// A server with one environment `prod`, whose one version is deployed.
struct Setting {
    python: PathBuf,
    served: Logged,
    host: Host,
    environment: String,
    _repo: Repo,
}

impl Setting {
    /// `None`: the reference is not there.
    fn new() -> Option<Self> {
        let Some(python) = std::env::var_os("STEWARD_ORACLE") else {
            skip("STEWARD_ORACLE, a Python with the reference");
            return None;
        };
        let (host, repo) = (Host::new(), Repo::new(&files(&[("motd", "hello")])));
        let environment = format!(
            "environments:\n  - {{project: infra, name: prod, repository: {}, branch: main, env: {{ROOT: {}}}}}\n",
            repo.path().display(),
            host.root().display()
        );
        let dir = host.data();
        let config = configure(dir.parent().unwrap(), &environment);
        let served = Logged::start(&config);
        let token = format!("[cmdline_rest_transport]\ntoken={TOKEN}\n");
        std::fs::write(dir.parent().unwrap().join(".inmanta"), token).unwrap();
        let environment = served.environment("prod")["id"]
            .as_str()
            .unwrap()
            .to_owned();
        wait_until("the version is deployed", || {
            let path = "/api/v2/resource?deploy_summary=true";
            let summary = &served.get(path, &environment)["metadata"]["deploy_summary"];
            summary["by_state"]["deployed"] == 2
        });
        Some(Self {
            python: python.into(),
            served,
            host,
            environment,
            _repo: repo,
        })
    }

    /// Runs commands, one after the other; spaces separate their arguments.
    fn run(&self, commands: &[&str]) -> Vec<Done> {
        let commands: Vec<Vec<&str>> = commands
            .iter()
            .map(|command| command.split(' ').collect())
            .collect();
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/inmanta_cli.py");
        let mut command = Command::new(&self.python);
        command
            .arg(program)
            .arg(self.served.api.rsplit(':').next().unwrap())
            .arg(json!(commands).to_string())
            .current_dir(self.host.data().parent().unwrap());
        let output = finish(command);
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Runs commands that must succeed, each with a text that it must print.
    #[track_caller]
    fn all_print(&self, commands: &[(&str, &str)]) {
        let names: Vec<&str> = commands.iter().map(|(command, _)| *command).collect();
        for ((command, wanted), done) in commands.iter().zip(self.run(&names)) {
            assert!(
                done.code == 0 && done.output.contains(wanted),
                "{command}: {done:?}"
            );
        }
    }
}

#[test]
fn the_command_line_of_the_reference_reads_and_changes_all_that_it_knows() {
    let Some(setting) = Setting::new() else {
        return;
    };
    let motd = setting.host.file("motd");
    let logs = format!(
        "action-log list -e prod --rvid fs::File[localhost,path={}],v=1",
        motd.display()
    );
    setting.all_print(&[
        ("project list", "infra"),
        ("project create -n second", "second"),
        ("project show second", "second"),
        ("project modify second -n third", "third"),
        (
            "environment create -n e2 -p third -r https://git.example.org/x.git -b main",
            "e2",
        ),
        ("environment list", "third"),
        ("environment show e2", "https://git.example.org/x.git"),
        (
            "environment modify e2 -n e3 -r https://git.example.org/y.git -b main",
            "y.git",
        ),
        // Without a repository: the command line sends an empty one then, and a branch.
        ("environment create -n e4 -p third", "e4"),
        ("environment modify e4 -n e5", "e5"),
        ("environment modify e3 -n e6", "y.git"),
        ("environment delete e5", "successfully deleted"),
        ("environment delete e6", "successfully deleted"),
        ("project delete third", "successfully deleted"),
        (
            "environment setting list -e prod",
            "autostart_agent_repair_interval",
        ),
        (
            "environment setting set -e prod -k auto_deploy -o false",
            "",
        ),
        ("environment setting get -e prod -k auto_deploy", "False"),
        ("environment setting delete -e prod -k auto_deploy", ""),
        ("environment setting get -e prod -k auto_deploy", "True"),
        ("agent list -e prod", "localhost"),
        (
            &format!("agent pause -e {} --agent localhost", setting.environment),
            "",
        ),
        ("agent list -e prod", "True"),
        (
            &format!("agent unpause -e {} --all", setting.environment),
            "",
        ),
        ("version list -e prod", "active"),
        ("version report -e prod -i 1 -l", "fs::File"),
        ("param set -e prod --name zone --value eu", "zone"),
        ("param get -e prod --name zone", "eu"),
        ("param list -e prod", "zone"),
        ("monitor -e prod", "2/2"),
        (&logs, "deploy"),
        ("environment recompile prod", "triggered successfully"),
        ("token create -e prod --api --compiler", "eyJ"),
    ]);
}

#[test]
fn the_command_line_of_the_reference_shows_why_something_fails() {
    let Some(setting) = Setting::new() else {
        return;
    };
    let done = setting.run(&[
        "project create -n infra",
        "environment setting set -e prod -k auto_deploy -o maybe",
        "environment setting get -e prod -k nothing",
        "version release -e prod 1",
        "version release -e prod 77",
        "version report -e prod -i 77",
        "action-log list -e prod --rvid fs::File[localhost,path=/x],v=1",
        "project show nowhere",
    ]);
    let reasons = [
        "infra",
        "maybe",
        "not found",
        "already",
        "not found",
        "not found",
        "not found",
        "Unable to find a project",
    ];
    for (reason, done) in reasons.iter().zip(done) {
        assert!(
            done.code != 0 && (done.error.contains(reason) || done.output.contains(reason)),
            "{reason}: {done:?}"
        );
    }
}

#[test]
fn versions_of_the_first_version_of_the_api_have_resources_unknowns_and_actions() {
    let Some(setting) = Setting::new() else {
        return;
    };
    let environment = &setting.environment;
    let versions = setting
        .served
        .get("/api/v1/version?start=0&limit=5", environment);
    assert_eq!(versions["count"], 1, "{versions}");
    assert_eq!(versions["versions"][0]["released"], true, "{versions}");
    let version = setting.served.get(
        "/api/v1/version/1?include_logs=true&log_filter=deploy&limit=1",
        environment,
    );
    assert_eq!(version["model"]["undeployable"], json!([]), "{version}");
    assert_eq!(
        version["model"]["is_suitable_for_partial_compiles"], true,
        "{version}"
    );
    assert_eq!(version["unknowns"], json!([]), "{version}");
    let resources = version["resources"].as_array().unwrap();
    assert_eq!(resources.len(), 2, "{version}");
    for resource in resources {
        let actions = resource["actions"].as_array().unwrap();
        assert_eq!(actions.len(), 1, "{resource}");
        assert_eq!(actions[0]["action"], "deploy", "{resource}");
    }
    let (status, answer) =
        setting
            .served
            .call("GET", "/api/v1/resource/x", environment, &Value::Null);
    assert_eq!(status, 400, "{answer}");
}
