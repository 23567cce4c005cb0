//! Many agents and few Python hosts: who gets one, what they see of one another, and what is said when their code is bad
//! (docs/reference/deployment.md § 5.3).

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::crash::descendants;
use crate::harness::{Host, Repo, Running, request, signal, wait_until};
use crate::serve::{Served, serve};

/// Writes down what a module's global and the cache say of earlier tasks, which version it is, and which process.
const CODE: &str = r#"
import os
from inmanta.agent.handler import CRUDHandler, ResourcePurged, cache, provider
from inmanta.resources import PurgeableResource, resource
#HEAD#

VERSION = 1
SEEN = []

@resource("row::Row", agent="agent", id_attribute="path")
class Row(PurgeableResource):
    fields = ("path", "value")

@provider("row::Row")
class RowHandler(CRUDHandler[Row]):
    @cache(timeout=600)
    def first(self):
        return self.path

    def read_resource(self, ctx, resource):
        self.path = os.path.basename(resource.path)
        SEEN.append(self.path)
        with open(resource.path + ".new", "w") as file:
            file.write(f"v{VERSION} cached {self.first()} seen {' '.join(SEEN)} pid {os.getpid()}")
        os.replace(resource.path + ".new", resource.path)
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

const MODEL: &str = r#"
entity Row extends std::PurgeableResource:
    string path
    string agent
    int value = 0
end
implement Row using std::none
"#;

fn repo(main: &str, code: &str) -> Repo {
    let repo = Repo::new("");
    repo.write_module("row", MODEL, code);
    repo.write("main.cf", main);
    repo.commit("a module");
    repo
}

/// Two resources for each of `n_agents` agents.
fn rows(n_agents: usize, value: usize) -> String {
    format!(
        "import row\nroot = std::get_env(\"ROOT\")\nfor a in std::sequence({n_agents}):\n    \
         for n in std::sequence(2):\n        \
         row::Row(path=\"{{{{root}}}}/{{{{a}}}}_{{{{n}}}}\", agent=\"agent{{{{a}}}}\", value={value})\n    end\nend\n"
    )
}

fn config(repo: &Repo, host: &Host, more: &str) -> String {
    format!(
        "{more}environments:\n  - project: infra\n    name: prod\n    repository: {}\n    branch: main\n    \
         env: {{ROOT: {}}}\n    settings: {{deploy_retry_backoff: 1}}\n",
        repo.path().display(),
        host.root().display()
    )
}

/// The Python processes of handlers: zygotes and hosts.
fn hosts(served: &Served) -> usize {
    let all = descendants(served.child.id());
    let of_handlers = all.iter().filter(|process| {
        let command = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        words.any(|word| word == b"executor") && process.role == "python"
    });
    of_handlers.count()
}

#[test]
fn fifty_agents_take_turns_with_four_hosts_and_see_nothing_of_one_another() {
    const AGENTS: usize = 50;
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::new());
    let repo = repo(&rows(AGENTS, 0), CODE);
    let config = config(&repo, &host, "executor: {hosts: 4}\n");
    let served = serve(dir.path(), &config);
    let mut most = 0;
    let mut is_done = |version: &str| {
        wait_until("all are deployed", || {
            most = most.max(hosts(&served));
            let all = (0..AGENTS).flat_map(|a| (0..2).map(move |n| format!("{a}_{n}")));
            all.into_iter()
                .all(|name| host.read(&name).starts_with(version))
        });
    };
    is_done("v1 ");
    let (mut pids, mut n_kept) = (BTreeMap::new(), 0);
    for a in 0..AGENTS {
        let both = [0, 1].map(|n| host.read(&format!("{a}_{n}")));
        let own = [0, 1].map(|n| format!("{a}_{n}"));
        let words = both.each_ref().map(|text| -> Vec<&str> {
            let (_, rest) = text.split_once(" cached ").unwrap();
            rest.split(' ')
                .filter(|word| !["seen", "pid"].contains(word))
                .collect()
        });
        for seen in &words {
            let (pid, names) = seen.split_last().unwrap();
            assert!(
                names.iter().all(|name| own.iter().any(|own| own == name)),
                "only what it did itself: {both:?}"
            );
            pids.entry((*pid).to_owned()).or_insert(a);
            assert_eq!(pids[*pid], a, "agents share no process");
        }
        // By one host, unless the second task came late: then the second one sees the first, and has its value cached.
        if words[0].last() == words[1].last() {
            assert_eq!(words[0][0], words[1][0], "{both:?}");
            assert_eq!(words[0].len() + words[1].len(), 3 + 4, "{both:?}");
            n_kept += 1;
        }
    }
    assert!(n_kept > AGENTS / 4, "{n_kept} agents kept their host");
    // Other code, while hosts with the old one are still there.
    repo.write(
        "libs/row/plugins/__init__.py",
        &CODE.replace("VERSION = 1", "VERSION = 2"),
    );
    repo.write("main.cf", &rows(AGENTS, 1));
    repo.commit("new code");
    is_done("v2 ");
    // The zygotes of the old code and of the new one come on top.
    assert!(
        (1..=6).contains(&most),
        "there were {most} Python processes"
    );
}

/// Input: a Python module that cannot be imported, for thirty agents (docs/reference/security.md § 4.8). Answer: it is imported once, and each resource says why, with the agent and the module.
#[test]
fn an_import_that_fails_is_tried_once_and_named_at_each_resource() {
    const AGENTS: usize = 30;
    let host = Host::new();
    let tries = host.file("tries");
    let head = format!(
        "import sys\nif sys.argv[1:] == ['executor']:\n    with open('{}', 'a') as file:\n        file.write('x')\n    \
         raise RuntimeError('no such library')\n",
        tries.display()
    );
    let repo = repo(&rows(AGENTS, 0), &CODE.replace("#HEAD#", &head));
    let mut command = host.up(repo.path());
    // Once is enough here.
    command.args(["--set", "deploy_retry_backoff=500"]);
    let mut running = Running::start(command);
    let (ran, summary) = running.settled(1);
    assert_eq!(
        (ran.len(), &summary["failed"]),
        (2 * AGENTS, &(2 * AGENTS).into())
    );
    let failed = running
        .seen
        .iter()
        .filter(|event| event["event"] == "resource");
    for event in failed {
        let message = event["message"].as_str().unwrap();
        let id = event["resource"].as_str().unwrap();
        let agent = id.split(['[', ',']).nth(1).unwrap();
        assert_eq!(event["status"], "unavailable", "{event}");
        assert!(
            message.contains(&format!(
                "agent {agent} failed to load the following modules: row"
            )) && message.contains("RuntimeError: no such library"),
            "{message}"
        );
    }
    assert_eq!(host.read("tries"), "x", "one import for all agents");
    assert!(running.stop().success());
}

/// Input: kill -9 of all Python processes of handlers at once, while they work (docs/reference/security.md § 3.34). Answer: what they were running is unavailable and retried, and all is deployed in the end.
#[test]
fn when_all_python_processes_are_killed_everything_is_deployed_in_the_end() {
    const AGENTS: usize = 20;
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::new());
    let slow = CODE.replace(
        "        self.path = os",
        "        import time\n        time.sleep(0.05)\n        self.path = os",
    );
    let repo = repo(&rows(AGENTS, 0), &slow);
    let served = serve(dir.path(), &config(&repo, &host, "executor: {hosts: 6}\n"));
    for n in 0..3 {
        wait_until("some are deployed", || {
            host.file(&format!("{n}_0")).exists()
        });
        let all = descendants(served.child.id());
        for process in all.iter().filter(|process| process.role == "python") {
            signal(process.pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let environment = served.environment("prod");
    wait_until("all are deployed", || {
        let summary = served.get(&environment, "/api/v2/resource?deploy_summary=true");
        summary["metadata"]["deploy_summary"]["by_state"]["deployed"] == 2 * AGENTS
    });
}

/// Given: sixty agents and two hosts, all of which are being verified again, when a version is released that changes a resource of
/// the last agent. Expected: it is deployed at once, and not behind all that was to be done before. Then the environment is halted.
/// Expected: what was not begun is not begun before it goes on.
#[test]
fn a_change_goes_before_the_repair_of_all_others_and_what_is_halted_is_not_begun() {
    const AGENTS: usize = 60;
    const ORDER: &str = "        import time\n        time.sleep(0.15)\n        \
                         with open(os.path.dirname(resource.path) + '/order', 'a') as file:\n            \
                         file.write(f'{resource.value}\\n')\n        self.path = os";
    let (dir, host) = (tempfile::tempdir().unwrap(), Host::new());
    let main = |value: usize| {
        format!(
            "import row\nroot = std::get_env(\"ROOT\")\nfor a in std::sequence({AGENTS}):\n    \
             row::Row(path=\"{{{{root}}}}/{{{{a}}}}\", agent=\"agent{{{{a}}}}\", value=a == {AGENTS} - 1 ? {value} : 0)\nend\n"
        )
    };
    let repo = repo(&main(0), &CODE.replace("        self.path = os", ORDER));
    let config = config(&repo, &host, "executor: {hosts: 2}\n");
    let config = config.replace("settings: {", "settings: {auto_deploy: false, ");
    let served = serve(dir.path(), &config);
    let environment = served.environment("prod");
    let post = |path: &str, body: &Value| {
        let url = format!("{}{path}", served.api);
        let (status, answer) = request("POST", &url, Some(&environment), Some(body));
        assert_eq!(status, 200, "{answer}");
    };
    let order = || -> Vec<String> {
        let text = fs::read_to_string(host.file("order")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let is_stored = |n_versions: usize| {
        wait_until("the version is stored", || {
            let versions = served.get(&environment, "/api/v2/desiredstate");
            versions["data"].as_array().map(Vec::len) == Some(n_versions)
        });
    };
    is_stored(1);
    post("/api/v2/desiredstate/1/promote", &json!({}));
    wait_until("all are deployed", || order().len() == AGENTS);
    repo.write("main.cf", &main(1));
    repo.commit("one change");
    is_stored(2);
    post(
        "/api/v1/deploy",
        &json!({"agent_trigger_method": "push_full_deploy"}),
    );
    wait_until("the repair goes on", || order().len() > AGENTS + 2);
    let before = order().len();
    post("/api/v2/desiredstate/2/promote", &json!({}));
    wait_until("it is deployed", || order().contains(&"1".to_owned()));
    post("/api/v2/actions/environment/halt", &json!({}));
    std::thread::sleep(Duration::from_millis(500));
    let halted = order().len();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(order().len(), halted, "what runs has come to its end");
    let place = order().iter().position(|value| value == "1").unwrap();
    assert!(place < before + AGENTS / 2, "{place} of {before}");
    assert!(halted < 2 * AGENTS, "{halted}");
    post("/api/v2/actions/environment/resume", &json!({}));
    // The repair of what was changed meanwhile is none of its own.
    wait_until("all are verified", || order().len() >= 2 * AGENTS);
}
