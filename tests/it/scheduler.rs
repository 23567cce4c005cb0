//! The scheduler from outside: states of resources, timers, agents that are paused, environments that are halted, dry
//! runs in the queue (docs/reference/deployment.md § 1.3, § 3, § 4).

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, files, segment, wait_until};

/// A handler that does what a file beside its resource says: `raise`, `skip`, or `wait` until it says something else.
const CODE: &str = r#"
import os, time
from inmanta.agent.handler import CRUDHandler, ResourcePurged, SkipResource, provider
from inmanta.resources import PurgeableResource, resource

@resource("act::Act", agent="agent", id_attribute="path")
class Act(PurgeableResource):
    fields = ("path", "value")

@provider("act::Act")
class ActHandler(CRUDHandler[Act]):
    def mode(self, resource):
        try:
            with open(resource.path + ".mode") as file:
                return file.read().strip()
        except FileNotFoundError:
            return ""

    def read_resource(self, ctx, resource):
        with open(resource.path + ".runs", "a") as file:
            file.write("x")
        while self.mode(resource) == "wait":
            time.sleep(0.02)
        if self.mode(resource) == "raise":
            raise Exception("no such device")
        if self.mode(resource) == "skip":
            raise SkipResource("not now")
        try:
            with open(resource.path) as file:
                resource.value = file.read()
        except FileNotFoundError:
            raise ResourcePurged()

    def create_resource(self, ctx, resource):
        self.write(resource)
        ctx.set_created()

    def update_resource(self, ctx, changes, resource):
        self.write(resource)
        ctx.set_updated()

    def write(self, resource):
        with open(resource.path + ".new", "w") as file:
            file.write(resource.value)
        os.replace(resource.path + ".new", resource.path)

    def delete_resource(self, ctx, resource):
        os.unlink(resource.path)
        ctx.set_purged()
"#;

const MODEL: &str = r#"
entity Act extends std::PurgeableResource:
    string path
    string agent
    string value = "1"
end
implement Act using std::none
"#;

/// Lines `name agent value` become resources; a third word `?` is a value that is not known.
fn model(lines: &str) -> String {
    let mut model = "import act\nroot = std::get_env(\"ROOT\")\n".to_owned();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let value = match words[2] {
            "?" => "std::get_env(\"NOT_KNOWN_ANYWHERE\")".to_owned(),
            value => format!("\"{value}\""),
        };
        let requires: Vec<String> = words[3..].iter().map(|name| format!("r_{name}")).collect();
        model.push_str(&format!(
            "r_{0} = act::Act(path=\"{{{{root}}}}/{0}\", agent=\"{1}\", value={value}, send_event=false, requires=[{2}])\n",
            words[0],
            words[1],
            requires.join(", ")
        ));
    }
    model
}

fn repo(lines: &str) -> Repo {
    let repo = Repo::new("");
    repo.write_module("act", MODEL, CODE);
    repo.write("main.cf", &model(lines));
    repo.commit("a module");
    repo
}

/// A server whose timers fire when a test says so.
fn start(repo: &Repo, host: &Host, settings: &[&str]) -> Running {
    let mut command = host.up(repo.path());
    let quiet = [
        "autostart_agent_repair_interval=0",
        "autostart_agent_deploy_interval=0",
        "deploy_retry_backoff=0",
    ];
    for setting in quiet.iter().chain(settings) {
        command.args(["--set", setting]);
    }
    Running::start(command)
}

fn set(running: &Running, name: &str, value: &Value) {
    let path = format!("/api/v2/environment_settings/{name}");
    let (status, body) = running.call("POST", &path, Some(&json!({ "value": value })));
    assert_eq!(status, 200, "{body}");
}

fn post(running: &Running, path: &str) -> u16 {
    running.call("POST", path, None).0
}

fn resource(running: &Running, name: &str) -> Value {
    let all = running.get_ok("/api/v2/resource?limit=1000");
    let all = all["data"].as_array().unwrap();
    let suffix = format!("/{name}]");
    let is_meant = |one: &&Value| one["resource_id"].as_str().unwrap().ends_with(&suffix);
    all.iter().find(is_meant).cloned().unwrap_or(Value::Null)
}

fn status(running: &Running, name: &str) -> String {
    resource(running, name)["status"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

fn n_runs(host: &Host, name: &str) -> usize {
    let runs = std::fs::read_to_string(host.file(&format!("{name}.runs")));
    runs.unwrap_or_default().len()
}

fn say(host: &Host, name: &str, mode: &str) {
    // In one step: the handler may be reading it.
    std::fs::write(host.data().join("mode"), mode).unwrap();
    std::fs::rename(host.data().join("mode"), host.file(&format!("{name}.mode"))).unwrap();
}

fn logs(running: &Running, name: &str) -> String {
    let id = resource(running, name)["resource_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/api/v2/resource/{}/logs?limit=1000", segment(&id));
    running.get_ok(&path)["data"].to_string()
}

//: deploy 45, 49, 50, 51
#[test]
fn a_resource_is_available_then_deploying_then_what_its_handler_says() {
    let (repo, host) = (repo("a agent 1"), Host::new());
    let running = start(&repo, &host, &["auto_deploy=false"]);
    wait_until("the version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 1
    });
    std::fs::create_dir_all(host.root()).unwrap();
    say(&host, "a", "wait");
    assert_eq!(post(&running, "/api/v2/agents/pause"), 200);
    assert_eq!(post(&running, "/api/v2/desiredstate/1/promote"), 200);
    // Its agent is there since the version is stored, so it could be paused before.
    wait_until("it is in force", || status(&running, "a") == "available");
    assert_eq!(n_runs(&host, "a"), 0);
    assert_eq!(post(&running, "/api/v2/agents/unpause"), 200);
    wait_until("its handler runs", || n_runs(&host, "a") == 1);
    wait_until("it is deploying", || status(&running, "a") == "deploying");
    let actions = running.get_ok("/api/v2/resource_actions?limit=10");
    let is_open = |action: &&Value| action["action"] == "deploy" && action["finished"].is_null();
    assert_eq!(
        actions["data"]
            .as_array()
            .unwrap()
            .iter()
            .filter(is_open)
            .count(),
        1,
        "{actions}"
    );
    say(&host, "a", "raise");
    wait_until("it has failed", || status(&running, "a") == "failed");
    assert_eq!(resource(&running, "a")["compliance"], "non_compliant");
    let said = logs(&running, "a");
    assert!(
        said.contains("no such device") && said.contains("Traceback") && said.contains("ERROR"),
        "{said}"
    );
    // A new version while its agent is paused: it waits, and nothing of it has been run.
    assert_eq!(post(&running, "/api/v2/agents/pause"), 200);
    repo.write("main.cf", &model("a agent 2\nb agent 1"));
    repo.commit("next");
    wait_until("the version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    assert_eq!(post(&running, "/api/v2/desiredstate/2/promote"), 200);
    wait_until("it is in force", || status(&running, "b") == "available");
    let b = resource(&running, "b");
    assert_eq!(
        (&b["compliance"], &b["last_deploy"]),
        (&"has_update".into(), &Value::Null),
        "{b}"
    );
    say(&host, "a", "skip");
    assert_eq!(post(&running, "/api/v2/agents/unpause"), 200);
    wait_until("both have run", || {
        status(&running, "a") == "skipped" && status(&running, "b") == "deployed"
    });
    let said = logs(&running, "a");
    assert!(
        said.contains("WARNING") && said.contains("not now"),
        "{said}"
    );
    // What was skipped is tried again by the deploy interval.
    say(&host, "a", "");
    set(&running, "autostart_agent_deploy_interval", &json!("1"));
    wait_until("it is retried", || {
        status(&running, "a") == "deployed" && host.read("a") == "2"
    });
    running.stop();
}

//: deploy 6, 7
#[test]
fn changed_intervals_are_in_force_at_once_and_a_cron_repairs_the_whole_environment() {
    let (repo, host) = (repo("a agent 1\nb other 1"), Host::new());
    std::fs::create_dir_all(host.root()).unwrap();
    std::fs::write(host.file("a.mode"), "raise").unwrap();
    let mut running = start(&repo, &host, &["autostart_agent_deploy_interval=600"]);
    running.settled(1);
    assert_eq!(
        (status(&running, "a").as_str(), n_runs(&host, "a")),
        ("failed", 1)
    );
    // It failed long ago, as far as an interval of one second is concerned.
    set(&running, "autostart_agent_deploy_interval", &json!(1));
    wait_until("it is retried twice", || n_runs(&host, "a") >= 3);
    assert_eq!(n_runs(&host, "b"), 1, "what is good is not retried");
    set(&running, "autostart_agent_deploy_interval", &json!(0));
    say(&host, "a", "");
    set(
        &running,
        "autostart_agent_repair_interval",
        &json!("*/1 * * * * * *"),
    );
    wait_until("both are repaired", || {
        status(&running, "a") == "deployed" && n_runs(&host, "b") >= 3
    });
    assert!(logs(&running, "b").contains("a global repair was triggered by a cron expression"));
    running.stop();
}

//: deploy 10, 11, 14, 15, 16
#[test]
fn resuming_unpauses_the_agents_that_it_is_told_to() {
    let lines = "a runs 1\nb rests 1\nc woken 1\nd kept 1";
    let (repo, host) = (repo(lines), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    let agents = |running: &Running| -> Vec<(String, bool, Value)> {
        let all = running.get_ok("/api/v2/agents?limit=1000")["data"].clone();
        let agent = |one: &Value| {
            let name = one["name"].as_str().unwrap().to_owned();
            (
                name,
                one["paused"].as_bool().unwrap(),
                one["unpause_on_resume"].clone(),
            )
        };
        all.as_array().unwrap().iter().map(agent).collect()
    };
    let named = |name: &str, paused: bool, unpause: Value| (name.to_owned(), paused, unpause);
    for agent in ["rests", "woken"] {
        assert_eq!(post(&running, &format!("/api/v2/agent/{agent}/pause")), 200);
    }
    for action in ["keep_paused_on_resume", "unpause_on_resume"] {
        assert_eq!(post(&running, &format!("/api/v2/agent/kept/{action}")), 403);
        assert_eq!(post(&running, &format!("/api/v2/agents/{action}")), 403);
    }
    for action in ["pause", "unpause", "keep_paused_on_resume"] {
        assert_eq!(
            post(&running, &format!("/api/v2/agent/$__scheduler/{action}")),
            400
        );
    }
    // Twice: the second time changes nothing.
    for _ in 0..2 {
        assert_eq!(post(&running, "/api/v2/actions/environment/halt"), 200);
        let expected = [
            named("kept", true, json!(true)),
            named("rests", true, json!(false)),
            named("runs", true, json!(true)),
            named("woken", true, json!(false)),
        ];
        assert_eq!(agents(&running), expected);
    }
    assert_eq!(post(&running, "/api/v2/agent/kept/pause"), 403);
    assert_eq!(post(&running, "/api/v2/agents/unpause"), 403);
    assert_eq!(
        post(&running, "/api/v2/agent/kept/keep_paused_on_resume"),
        200
    );
    assert_eq!(post(&running, "/api/v2/agent/woken/unpause_on_resume"), 200);
    assert_eq!(
        post(&running, "/api/v2/agent/nobody/unpause_on_resume"),
        404
    );
    assert_eq!(post(&running, "/api/v2/actions/environment/resume"), 200);
    let expected = [
        named("kept", true, Value::Null),
        named("rests", true, Value::Null),
        named("runs", false, Value::Null),
        named("woken", false, Value::Null),
    ];
    assert_eq!(agents(&running), expected);
    // What a version brings that was stored before the halt ended: also an agent that is new with it.
    set(&running, "auto_deploy", &json!(false));
    let next = "a runs 2\nb rests 2\nc woken 2\nd kept 2\ne new 2";
    repo.write("main.cf", &model(next));
    repo.commit("next");
    wait_until("the version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    assert_eq!(post(&running, "/api/v2/actions/environment/halt"), 200);
    assert_eq!(post(&running, "/api/v2/desiredstate/2/promote"), 200);
    assert_eq!(post(&running, "/api/v2/actions/environment/resume"), 200);
    wait_until("those that go on are deployed", || {
        ["a", "c", "e"].iter().all(|name| host.read(name) == "2")
    });
    assert_eq!(
        ["b", "d"].map(|name| host.read(name)),
        ["1", "1"],
        "and the others are not"
    );
    assert_eq!(post(&running, "/api/v2/agents/unpause"), 200);
    wait_until("they go on", || {
        ["b", "d"].iter().all(|name| host.read(name) == "2")
    });
    running.stop();
}

//: deploy 23, 24
#[test]
fn versions_that_are_not_released_wait_and_those_that_are_passed_over_say_so() {
    let (repo, host) = (repo("a agent 1"), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    set(&running, "auto_deploy", &json!(false));
    for version in 2..=3 {
        repo.write("main.cf", &model(&format!("a agent {version}")));
        repo.commit("next");
        wait_until("the version is stored", || {
            running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == version
        });
    }
    let statuses = |running: &Running| -> Vec<String> {
        let all = running.get_ok("/api/v2/desiredstate")["data"].clone();
        let status = |one: &Value| one["status"].as_str().unwrap().to_owned();
        all.as_array().unwrap().iter().map(status).collect()
    };
    assert_eq!(statuses(&running), ["candidate", "candidate", "active"]);
    assert_eq!((n_runs(&host, "a"), host.read("a").as_str()), (1, "1"));
    assert_eq!(post(&running, "/api/v2/desiredstate/3/promote"), 200);
    wait_until("it is deployed", || host.read("a") == "3");
    wait_until("all say what they are", || {
        statuses(&running) == ["active", "skipped_candidate", "retired"]
    });
    assert_eq!(n_runs(&host, "a"), 2);
    running.stop();
}

//: deploy 112, 113, 114
#[test]
fn a_dry_run_says_of_each_resource_what_would_become_of_it() {
    let lines = "same agent 1\nchanged agent 1\nbad agent 1\nof_paused resting 1";
    let (repo, host) = (repo(lines), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    set(&running, "auto_deploy", &json!(false));
    let next = "same agent 1\nchanged agent 2\nbad agent 2\nof_paused resting 2\nnew agent 1\nunknown agent ?\nbehind agent 1 unknown";
    let removed = model(next)
        + "act::Act(path=\"{{root}}/gone\", agent=\"agent\", purged=true, send_event=false)\n";
    repo.write("main.cf", &removed);
    repo.commit("next");
    wait_until("the version is stored", || {
        running.get_ok("/api/v2/desiredstate")["data"][0]["version"] == 2
    });
    std::fs::write(host.file("gone"), "1").unwrap();
    say(&host, "bad", "raise");
    assert_eq!(post(&running, "/api/v2/agent/resting/pause"), 200);
    let (status, body) = running.call("POST", "/api/v2/dryrun/2", None);
    assert_eq!(status, 200, "{body}");
    wait_until("it is done", || {
        running.get_ok("/api/v2/dryrun/2")["data"][0]["todo"] == 0
    });
    let path = format!("/api/v2/dryrun/2/{}", body["data"].as_str().unwrap());
    let report = running.get_ok(&path)["data"]["diff"].clone();
    let one = |diff: &Value| {
        let id = diff["resource_id"].as_str().unwrap();
        let name = id.rsplit('/').next().unwrap().trim_end_matches(']');
        format!("{name} {}", diff["status"].as_str().unwrap())
    };
    let mut found: Vec<String> = report.as_array().unwrap().iter().map(one).collect();
    found.sort();
    let expected = [
        "bad modified",
        "behind skipped_for_undefined",
        "changed modified",
        "gone deleted",
        "new added",
        "of_paused agent_down",
        "same unmodified",
        "unknown undefined",
    ];
    assert_eq!(found, expected, "{report}");
    let of = |name: &str| {
        let mut all = report.as_array().unwrap().iter();
        all.find(|diff| one(diff).starts_with(name)).unwrap()
    };
    let bad = of("bad");
    assert_eq!(
        bad["attributes"]["handler"]["from_value"], "FAILED",
        "{bad}"
    );
    let new = &of("new")["attributes"]["purged"];
    let sides = (&new["from_value"], &new["to_value"]);
    assert_eq!(sides, (&Value::Null, &json!(false)), "{new}");
    // Version 1 of the API says of what was not compared only why.
    let path = format!("/api/v1/dryrun/{}", body["data"].as_str().unwrap());
    let whole = running.get_ok(&path)["dryrun"]["resources"].clone();
    for (name, status) in [
        ("unknown", json!("undefined")),
        ("behind", json!("skipped_for_undefined")),
        ("of_paused", json!("agent_down")),
        ("same", Value::Null),
    ] {
        let id = format!("{},v=2", of(name)["resource_id"].as_str().unwrap());
        let found = (&whole[&id]["changes"], &whole[&id]["diff_status"]);
        assert_eq!(found, (&json!({}), &status), "{name}: {whole}");
    }
    let versions = running.get_ok("/api/v1/version")["versions"].clone();
    let blocked = |of: &str| &versions[0][of];
    assert_eq!(
        (blocked("undeployable"), blocked("skipped_for_undeployable")),
        (
            &json!([of("unknown")["resource_id"]]),
            &json!([of("behind")["resource_id"]])
        ),
        "{versions}"
    );
    assert_eq!(versions[1]["undeployable"], json!([]), "{versions}");
    let never = ["behind", "unknown", "of_paused"].map(|name| n_runs(&host, name));
    assert_eq!(never, [0, 0, 1], "none of these was run");
    assert_eq!(
        (host.read("changed").as_str(), host.read("gone").as_str()),
        ("1", "1")
    );
    running.stop();
}

#[test]
fn a_dry_run_goes_on_after_a_kill_where_it_was() {
    let (repo, host) = (repo("a agent 1\nb agent 1\nc agent 1"), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    for name in ["a", "b", "c"] {
        std::fs::write(host.file(&format!("{name}.mode")), "wait").unwrap();
    }
    let (status, body) = running.call("POST", "/api/v2/dryrun/1", None);
    assert_eq!(status, 200, "{body}");
    let total = |host: &Host| {
        ["a", "b", "c"]
            .map(|name| n_runs(host, name))
            .iter()
            .sum::<usize>()
    };
    wait_until("the first one runs", || total(&host) == 4);
    // A deploy that is asked for now waits for its turn: the agent does one thing at a time.
    assert_eq!(post(&running, "/api/v1/deploy"), 200);
    assert_eq!(total(&host), 4);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    for name in ["a", "b", "c"] {
        say(&host, name, "");
    }
    let running = start(&repo, &host, &[]);
    wait_until("it is done", || {
        running.get_ok("/api/v2/dryrun/1")["data"][0]["todo"] == 0
    });
    let path = format!("/api/v2/dryrun/1/{}", body["data"].as_str().unwrap());
    let report = running.get_ok(&path)["data"]["diff"].clone();
    let statuses: Vec<&Value> = report
        .as_array()
        .unwrap()
        .iter()
        .map(|diff| &diff["status"])
        .collect();
    assert_eq!(
        statuses,
        ["unmodified", "unmodified", "unmodified"],
        "{report}"
    );
    running.stop();
}

//: deploy 76
#[test]
fn a_deploy_request_names_the_agents_that_it_does_not_know() {
    let (repo, host) = (repo("a agent 1"), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    let ask = |agents: Value| {
        let body = json!({"agent_trigger_method": "push_full_deploy", "agents": agents});
        running.call("POST", "/api/v1/deploy", Some(&body))
    };
    let (status, body) = ask(json!(["agent", "nobody"]));
    assert_eq!((status, &body["agents"]), (200, &json!(["agent"])));
    assert!(
        body["metadata"]["warnings"].to_string().contains("nobody"),
        "{body}"
    );
    assert_eq!(ask(json!(["nobody", "no one"])).0, 404);
    running.stop();
}

//: deploy 1, 2, 3, 4
#[test]
fn settings_have_the_documented_defaults_and_refuse_what_they_are_not() {
    let (repo, host) = (Repo::new(&files(&[("a", "one")])), Host::new());
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    let get = |name: &str| {
        let path = format!("/api/v2/environment_settings/{name}");
        running.get_ok(&path)["data"]["settings"][name].clone()
    };
    let defaults = [
        ("auto_deploy", json!(true)),
        ("autostart_agent_deploy_interval", json!("600")),
        ("autostart_agent_repair_interval", json!("600")),
        ("available_versions_to_keep", json!(100)),
        ("reset_deploy_progress_on_start", json!(false)),
    ];
    for (name, default) in defaults {
        assert_eq!(get(name), default, "{name}");
    }
    set(&running, "available_versions_to_keep", &json!(3));
    assert_eq!(get("available_versions_to_keep"), 3);
    let path = "/api/v2/environment_settings/available_versions_to_keep";
    assert_eq!(running.call("DELETE", path, None).0, 200);
    assert_eq!(get("available_versions_to_keep"), 100);
    // Of older models, without effect.
    assert_eq!(get("purge_on_delete"), json!(false));
    set(&running, "purge_on_delete", &json!(true));
    assert_eq!(get("purge_on_delete"), json!(true));
    let path = "/api/v2/environment_settings/purge_on_delete";
    assert_eq!(running.call("DELETE", path, None).0, 200);
    assert_eq!(get("purge_on_delete"), json!(false));
    let listed = running.get_ok("/api/v2/environment_settings");
    let method = &listed["data"]["definition"]["environment_agent_trigger_method"];
    assert_eq!(method["allowed_values"][1], "push_full_deploy", "{listed}");
    let refused = [
        ("no_such_setting", json!(1), 404),
        ("auto_deploy", json!("maybe"), 400),
        (
            "autostart_agent_repair_interval",
            json!("now and then"),
            400,
        ),
        ("autostart_agent_repair_interval", json!(-1), 400),
        ("agent_auth", json!("perhaps"), 400),
        ("autostart_agent_map", json!({"x": "local:"}), 400),
    ];
    for (name, value, expected) in refused {
        let path = format!("/api/v2/environment_settings/{name}");
        let (status, body) = running.call("POST", &path, Some(&json!({ "value": value })));
        assert_eq!(status, expected, "{name}: {body}");
    }
    let project = running.get_ok("/api/v2/project")["data"][0]["id"].clone();
    for (name, given) in [
        ("repository", "https://example.org/x.git"),
        ("branch", "main"),
    ] {
        let body = json!({"project_id": project, "name": "half", name: given});
        let (status, answer) = running.call("PUT", "/api/v2/environment", Some(&body));
        assert_eq!(status, 400, "{name}: {answer}");
    }
    running.stop();
}

//: deploy 86
#[test]
fn progress_is_forgotten_at_a_start_if_the_setting_says_so() {
    let (repo, host) = (repo("a agent 1\nb agent 1"), Host::new());
    let config = |reset: bool| {
        format!(
            "environments:\n  - project: infra\n    name: e\n    repository: {}\n    branch: main\n    env: {{ROOT: {}}}\n    \
             settings: {{reset_deploy_progress_on_start: {reset}, autostart_agent_repair_interval: 0}}\n",
            repo.path().display(),
            host.root().display()
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let both = |host: &Host| [n_runs(host, "a"), n_runs(host, "b")];
    for (reset, expected) in [(false, [1, 1]), (false, [1, 1]), (true, [2, 2])] {
        let served = crate::serve::serve(dir.path(), &config(reset));
        let environment = served.environment("e");
        wait_until("all is deployed", || {
            let summary = served.get(&environment, "/api/v2/resource?deploy_summary=true");
            let summary = &summary["metadata"]["deploy_summary"];
            summary["by_state"]["deployed"] == 2 && both(&host) == expected
        });
    }
    // Nothing more has run, and with the setting off again nothing does.
    let served = crate::serve::serve(dir.path(), &config(false));
    let environment = served.environment("e");
    let summary = served.get(&environment, "/api/v2/resource?deploy_summary=true");
    assert_eq!(
        summary["metadata"]["deploy_summary"]["by_state"]["deployed"],
        2
    );
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(both(&host), [2, 2]);
}

//: deploy 74
#[test]
fn events_are_told_of_a_resource_that_is_deploying_and_of_no_other() {
    let (repo, host) = (repo("a agent 1\nb other 1 a"), Host::new());
    let mut running = start(&repo, &host, &[]);
    running.settled(1);
    let a = resource(&running, "a")["resource_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let b = resource(&running, "b")["resource_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let ask = |running: &Running, what: &str| {
        let id = segment(&format!("{b},v=2"));
        running.get(&format!("/api/v2/resource/{id}/{what}"))
    };
    assert_eq!(ask(&running, "events").0, 400);
    assert_eq!(ask(&running, "did_dependency_change").0, 400);
    std::fs::write(host.file("b.mode"), "wait").unwrap();
    repo.write("main.cf", &model("a agent 2\nb other 2 a"));
    repo.commit("next");
    wait_until("it is deploying", || status(&running, "b") == "deploying");
    let (code, body) = ask(&running, "events");
    assert_eq!(code, 200, "{body}");
    let changes: Vec<&Value> = body["data"][&a]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["change"])
        .collect();
    assert_eq!(
        changes,
        ["updated"],
        "only what came after its last success: {body}"
    );
    assert_eq!(
        ask(&running, "events?exclude_change=updated").1["data"][&a],
        json!([])
    );
    assert_eq!(
        ask(&running, "did_dependency_change"),
        (200, json!({"data": true}))
    );
    assert_eq!(
        running
            .get(&format!("/api/v2/resource/{}/events", segment(&b)))
            .0,
        400
    );
    let nobody = segment("act::Act[agent,path=/nowhere],v=1");
    let unknown = running.get(&format!("/api/v2/resource/{nobody}/events"));
    assert_eq!(unknown.0, 404, "{}", unknown.1);
    let newest = running.get_ok("/api/v2/resource_actions?limit=1")["data"][0].clone();
    assert_eq!(newest["status"], "deploying", "{newest}");
    say(&host, "b", "");
    wait_until("it is deployed", || status(&running, "b") == "deployed");
    assert_eq!(ask(&running, "events").0, 400);
    // What it requires does nothing: nothing has changed since.
    std::fs::write(host.file("b.mode"), "wait").unwrap();
    assert_eq!(post(&running, "/api/v1/deploy"), 200);
    wait_until("it is deploying", || status(&running, "b") == "deploying");
    assert_eq!(
        ask(&running, "did_dependency_change"),
        (200, json!({"data": false}))
    );
    say(&host, "b", "");
    running.stop();
}

#[test]
fn what_failed_is_tried_again_with_an_export_if_the_setting_says_so() {
    let (repo, host) = (repo("a agent 1"), Host::new());
    std::fs::write(host.file("a.mode"), "raise").unwrap();
    let mut running = start(&repo, &host, &[]);
    let (_, summary) = running.settled(1);
    assert_eq!(n_runs(&host, "a"), 1, "{summary}");
    // A version that says nothing new of it leaves it as it is.
    let next = |lines: &str| {
        repo.write("main.cf", &model(lines));
        repo.commit("more");
    };
    next("a agent 1\nb agent 1");
    running.settled(2);
    assert_eq!((n_runs(&host, "a"), n_runs(&host, "b")), (1, 1));
    set(&running, "redeploy_failed_on_export", &json!(true));
    say(&host, "a", "");
    next("a agent 1\nb agent 1\nc agent 1");
    running.settled(3);
    wait_until("it is deployed", || status(&running, "a") == "deployed");
    let runs = ["a", "b", "c"].map(|name| n_runs(&host, name));
    assert_eq!(runs, [2, 1, 1], "what is deployed is left alone");
    running.stop();
}

#[test]
fn an_environment_whose_deploying_does_not_start_with_the_server_waits_to_be_asked() {
    let names = ["prompt", "waiting"];
    let hosts = [Host::new(), Host::new()];
    let repos = [(); 2].map(|()| repo("a agent 1"));
    let mut config = "environments:\n".to_owned();
    for (at, name) in names.iter().enumerate() {
        config.push_str(&format!(
            "  - project: infra\n    name: {name}\n    repository: {}\n    branch: main\n    env: {{ROOT: {}}}\n    \
             settings: {{autostart_on_start: {}, autostart_agent_repair_interval: 1}}\n",
            repos[at].path().display(),
            hosts[at].root().display(),
            at == 0
        ));
    }
    let dir = tempfile::tempdir().unwrap();
    let runs = || [n_runs(&hosts[0], "a"), n_runs(&hosts[1], "a")];
    let mut served = crate::serve::serve(dir.path(), &config);
    // A release asks for it.
    wait_until("both are deployed", || runs().iter().all(|runs| *runs > 0));
    crate::harness::signal(served.child.id(), rustix::process::Signal::TERM);
    served.child.wait().unwrap();
    let [before, waiting] = runs();
    let served = crate::serve::serve(dir.path(), &config);
    // In the time in which the one is repaired twice, the other would have been, too.
    wait_until("the prompt one is repaired", || runs()[0] >= before + 3);
    assert_eq!(runs()[1], waiting);
    let environment = served.environment("waiting");
    let url = format!("{}/api/v1/deploy", served.api);
    let (status, body) = crate::harness::request("POST", &url, Some(&environment), None);
    assert_eq!(status, 200, "{body}");
    wait_until("it is deployed again", || runs()[1] > waiting);
}
