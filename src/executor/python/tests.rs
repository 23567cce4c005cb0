//! A real interpreter with a module of a test.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::domain::{ActionId, AgentName, EnvironmentId, ResourceId, VersionNumber};
use crate::domain::{CodeFile, CodeModule, Content};
use crate::executor::protocol::{Python, TaskKind};

const HANDLER: &str = r#"
import subprocess, time
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource

@resource("net::Row", agent="host", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name",)

@provider("net::Row", name="row")
class RowHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        if resource.name.startswith("/"):
            with open(resource.name, "w") as pid:
                pid.write(str(subprocess.Popen(["sleep", "1000"]).pid))
        if resource.name == "hang" or resource.name.startswith("/hang"):
            time.sleep(1000)

    def create_resource(self, ctx, resource):
        pass

    update_resource = delete_resource = create_resource
"#;

/// Code with the module `net` below `dir`.
pub(in crate::executor) fn code(dir: &Path, source: &str) -> Code {
    let path = dir.join("net/plugins/__init__.py");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, source).unwrap();
    let file = CodeFile {
        module: "inmanta_plugins.net".into(),
        content: Content::Path(path),
        package: true,
    };
    let module = CodeModule {
        name: "net".into(),
        files: vec![file],
    };
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let python = Python {
        interpreter: interpreter.into(),
        package: Path::new(env!("CARGO_MANIFEST_DIR")).join("python"),
        files: None,
    };
    Code::new(vec![module], Some(python), EnvironmentId::generate())
}

fn task(name: &str) -> (Task, Map<String, Value>) {
    let attributes = json!({"name": name, "purged": false, "purge_on_delete": false, "report_only": false, "references": [], "mutators": [], "receive_events": true, "send_event": true});
    let task = Task {
        action: ActionId::generate(),
        kind: TaskKind::Deploy {
            requires: Vec::new(),
            dependency_changed: false,
        },
        code: "code".into(),
        agent: AgentName::new("host"),
        resource_id: ResourceId::new(format!("net::Row[host,name={name}]")),
        resource_type: "net::Row".into(),
        version: VersionNumber::new(1),
        attributes: attributes.to_string(),
        reason: "a test said so".into(),
        limit_ms: 600_000,
    };
    (task, attributes.as_object().unwrap().clone())
}

/// These handlers ask for nothing.
fn nobody() -> Ask {
    Box::new(|method, _| panic!("{method}"))
}

#[track_caller]
fn wait_until_gone(pid: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat"));
    while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < deadline, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_handler_started_ends_with_its_host() {
    let dir = tempfile::tempdir().unwrap();
    let mut host =
        PythonHost::start(&code(dir.path(), HANDLER), "host", Limits::default()).unwrap();
    let pid_file = dir.path().join("pid");
    let (task, resource) = task(pid_file.to_str().unwrap());
    let outcome = host.deploy(&task, resource, &nobody()).unwrap();
    let pid = fs::read_to_string(&pid_file).unwrap_or_else(|_| panic!("{outcome:?}"));
    drop(host);
    wait_until_gone(pid.parse().unwrap());
}

#[test]
fn a_handler_that_hangs_is_stopped_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits::default();
    let source = HANDLER.replace("\"/hang\"", "\"/\"");
    let mut host = PythonHost::start(&code(dir.path(), &source), "host", limits).unwrap();
    let pid_file = dir.path().join("pid");
    let (mut task, resource) = task(pid_file.to_str().unwrap());
    task.limit_ms = 1500;
    let error = host
        .deploy(&task, resource, &nobody())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "its handler did not end within 1.5 s (setting `deploy_timeout`) and was stopped"
    );
    wait_until_gone(fs::read_to_string(&pid_file).unwrap().parse().unwrap());
    // The worker names the resource, and starts another host for the next.
    let code = std::sync::Arc::new(code(dir.path(), &source));
    let mut worker = crate::executor::agent::Worker::new(AgentName::new("host"), limits, nobody());
    let run = |worker: &mut crate::executor::agent::Worker, name: &str| {
        let mut task = self::task(name).0;
        task.limit_ms = 1500;
        let done = worker.run(task, &code);
        let logs: Vec<String> = done.outcome.logs.into_iter().map(|line| line.msg).collect();
        (done.outcome.status.as_str(), logs.join("\n"))
    };
    let (status, log) = run(&mut worker, "hang");
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("net::Row[host,name=hang]") && log.contains("within 1.5 s"),
        "{log}"
    );
    let (status, log) = run(&mut worker, "good");
    assert_eq!(status, "deployed", "{log}");
}

#[test]
fn an_import_that_hangs_or_ends_the_host_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        import: Duration::from_millis(1500),
    };
    let start = |source: &str| {
        let host = PythonHost::start(&code(dir.path(), source), "host", limits);
        host.unwrap_err().to_string()
    };
    assert_eq!(
        start("import time\ntime.sleep(1000)"),
        "importing the Python modules did not end within 1.5 s and was stopped"
    );
    assert_eq!(
        start("import os\nos._exit(3)"),
        "the Python host ended: exit status: 3"
    );
}

const PID: &str = r#"
import os, time
from inmanta.agent.handler import CRUDHandler, cache, provider
from inmanta.resources import PurgeableResource, resource

@resource("net::Row", agent="host", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name",)

@provider("net::Row", name="row")
class RowHandler(CRUDHandler):
    @cache(timeout=600, call_on_delete=lambda path: open(path + ".deleted", "w").close())
    def connection(self):
        return self.path

    def read_resource(self, ctx, resource):
        self.path = resource.name
        self.connection()
        with open(resource.name, "a") as pids:
            pids.write(f"{os.getpid()}\n")

    def create_resource(self, ctx, resource):
        pass

    update_resource = delete_resource = create_resource
"#;

#[test]
fn a_commit_that_changes_no_python_keeps_the_host_and_one_at_rest_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut worker =
        crate::executor::agent::Worker::new(AgentName::new("host"), Limits::default(), nobody());
    let name = at("pids").to_str().unwrap().to_owned();
    let mut run = |code: Code| {
        let done = worker.run(self::task(&name).0, &std::sync::Arc::new(code));
        assert_eq!(
            done.outcome.status.as_str(),
            "deployed",
            "{:?}",
            done.outcome
        );
        let pids = fs::read_to_string(&name).unwrap();
        pids.lines().last().unwrap().to_owned()
    };
    let first = run(code(&at("one"), PID));
    // What lies beside the code is none of a handler's business.
    fs::create_dir_all(at("two/net/files")).unwrap();
    fs::write(at("two/net/files/data"), "data").unwrap();
    assert_eq!(run(code(&at("two"), PID)), first);
    // Other code, or files that are gone.
    let changed = format!("{PID}\n# changed");
    let third = run(code(&at("three"), &changed));
    assert_ne!(third, first);
    assert!(at("pids.deleted").exists());
    let fifth = code(&at("five"), &changed);
    assert_eq!(run(fifth), third);
    fs::remove_dir_all(at("three")).unwrap();
    let last = run(code(&at("six"), &changed));
    assert_ne!(last, third);
    fs::remove_file(at("pids.deleted")).unwrap();
    assert!(worker.has_host());
    worker.end_host();
    assert!(!worker.has_host() && at("pids.deleted").exists());
    wait_until_gone(last.parse().unwrap());
}
