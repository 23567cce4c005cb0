//! A real interpreter with a module of a test.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use super::*;
use crate::domain::{ActionId, AgentName, EnvironmentId, ResourceId, VersionNumber};
use crate::domain::{CodeFile, CodeModule, Content};
use crate::executor::agent::Worker;
use crate::executor::hosts::{Host, Hosts};
use crate::executor::limits::Limits;
use crate::executor::protocol::{Python, TaskDone, TaskKind};

mod ahead;

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
        requirements: Default::default(),
    };
    let interpreter = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let python = Python {
        interpreter: interpreter.into(),
        package: Path::new(env!("CARGO_MANIFEST_DIR")).join("python"),
        files: None,
    };
    Code::new(vec![module], Some(python), EnvironmentId::generate())
}

fn task(name: &str) -> Task {
    let attributes = json!({"name": name, "purged": false, "purge_on_delete": false, "report_only": false, "references": [], "mutators": [], "receive_events": true, "send_event": true});
    Task {
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
    }
}

/// These handlers ask for nothing.
fn nobody() -> Ask {
    Arc::new(|method, _| panic!("{method}"))
}

/// A host of its own for a test.
fn start(code: &Code) -> PythonHost {
    match load(code, "host", Limits::default().import).unwrap() {
        Loaded::Zygote(zygote) => zygote.fork("host").unwrap(),
        Loaded::Host(host, _) => *host,
    }
}

/// An agent, its hosts and what it has at hand.
struct Agent {
    worker: Worker,
    hosts: Arc<Hosts>,
    host: Option<Host>,
}

impl Agent {
    fn new(limits: Limits) -> Self {
        Self {
            worker: Worker::new(AgentName::new("host"), nobody()),
            hosts: Hosts::new(limits),
            host: None,
        }
    }

    fn run(&mut self, task: Task, code: &Arc<Code>) -> (String, String) {
        let (done, left) = self.run_all([task], code);
        assert!(left.is_empty());
        let done = done.into_iter().next().unwrap();
        let logs: Vec<String> = done.outcome.logs.into_iter().map(|line| line.msg).collect();
        (done.outcome.status.as_str().to_owned(), logs.join("\n"))
    }

    /// Runs tasks that the agent gets together; what came of them, and those that were not begun.
    fn run_all(
        &mut self,
        tasks: impl IntoIterator<Item = Task>,
        code: &Arc<Code>,
    ) -> (Vec<TaskDone>, VecDeque<Task>) {
        let done = RefCell::new(Vec::new());
        let reply = |task, _| done.borrow_mut().push(task);
        let tasks = tasks.into_iter().collect();
        let left = self
            .worker
            .run(tasks, code, &self.hosts, &mut self.host, reply);
        (done.into_inner(), left)
    }

    /// Has its host come to rest.
    fn rest(&mut self) {
        if let Some(host) = self.host.take() {
            self.hosts.rest(AgentName::new("host"), host);
        }
    }
}

/// Runs one task.
fn deploy(host: &mut PythonHost, task: &Task) -> io::Result<TaskOutcome> {
    assert!(host.give(task).unwrap());
    host.next_end(&nobody()).outcome
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
    let mut host = start(&code(dir.path(), HANDLER));
    let pid_file = dir.path().join("pid");
    let task = task(pid_file.to_str().unwrap());
    let outcome = deploy(&mut host, &task).unwrap();
    let pid = fs::read_to_string(&pid_file).unwrap_or_else(|_| panic!("{outcome:?}"));
    drop(host);
    wait_until_gone(pid.parse().unwrap());
}

#[test]
fn a_handler_gets_the_keys_of_dicts_in_the_order_of_the_reference() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER
        .replace("(\"name\",)", "(\"name\", \"value\")")
        .replace(
            "    def create",
            "        ctx.info(repr(resource.value))\n\n    def create",
        );
    let mut task = task("good");
    let mut attributes: Value = serde_json::from_str(&task.attributes).unwrap();
    // As they are stored: by their letters.
    attributes["value"] = json!({"a": 1, "aaa": [{"deep": 1, "x": 2}], "ccc": 3, "z": 4, "ü": 5});
    task.attributes = attributes.to_string();
    let code = Arc::new(code(dir.path(), &source));
    let (status, log) = Agent::new(Limits::default()).run(task, &code);
    assert_eq!(status, "deployed", "{log}");
    let wanted = "{'a': 1, 'z': 4, 'ü': 5, 'aaa': [{'x': 2, 'deep': 1}], 'ccc': 3}";
    assert!(log.contains(wanted), "{log}");
}

#[test]
fn a_handler_that_hangs_is_stopped_with_all_it_started() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER.replace("\"/hang\"", "\"/\"");
    let mut host = start(&code(dir.path(), &source));
    let pid_file = dir.path().join("pid");
    let mut task = task(pid_file.to_str().unwrap());
    task.limit_ms = 1500;
    let error = deploy(&mut host, &task).unwrap_err().to_string();
    assert_eq!(
        error,
        "its handler did not end within 1.5 s (setting `deploy_timeout`) and was stopped"
    );
    wait_until_gone(fs::read_to_string(&pid_file).unwrap().parse().unwrap());
    // The worker names the resource, and starts another host for the next.
    let code = Arc::new(code(dir.path(), &source));
    let mut agent = Agent::new(Limits::default());
    let mut run = |name: &str| {
        let mut task = self::task(name);
        task.limit_ms = 1500;
        agent.run(task, &code)
    };
    let (status, log) = run("hang");
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("net::Row[host,name=hang]") && log.contains("within 1.5 s"),
        "{log}"
    );
    // Its log says where it was.
    let place = "net/plugins/__init__.py\", line 17 in read_resource\n";
    assert!(
        log.contains(place) && !log.contains("steward_host"),
        "{log}"
    );
    let (status, log) = run("good");
    assert_eq!(status, "deployed", "{log}");
}

#[test]
fn an_import_that_hangs_or_ends_the_host_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let start = |source: &str| {
        let loaded = load(
            &code(dir.path(), source),
            "host",
            Duration::from_millis(1500),
        );
        loaded.unwrap_err().to_string()
    };
    let hangs = start("import time\ntime.sleep(1000)");
    let (what, place) = hangs.split_once('\n').unwrap();
    assert_eq!(
        what,
        "importing the Python modules did not end within 1.5 s (`executor.import_timeout`) and was stopped"
    );
    assert!(
        place.contains("net/plugins/__init__.py\", line 2 in <module>"),
        "{place}"
    );
    assert_eq!(
        start("import os\nos._exit(3)"),
        "the Python host ended: exit status: 3"
    );
    assert_eq!(
        start("import os\nos.write(2, b'no licence\\nserver not reached')\nos._exit(4)"),
        "the Python host ended: exit status: 4\nprinted: no licence\nprinted: server not reached"
    );
}

/// What failed for one agent would fail for the next thousand as well, and take as long each time.
#[test]
fn an_import_that_hangs_is_tried_once_for_all_agents() {
    let dir = tempfile::tempdir().unwrap();
    let tries = dir.path().join("tries");
    let source = format!(
        "import time\nwith open({:?}, 'a') as file: file.write('x')\ntime.sleep(1000)",
        tries.to_str().unwrap()
    );
    let code = Arc::new(code(dir.path(), &source));
    let hosts = Hosts::new(Limits {
        import: Duration::from_millis(1500),
        ..Limits::default()
    });
    let began = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (hosts, code) = (&hosts, &code);
            scope.spawn(move || {
                let agent = AgentName::new(format!("agent{n}"));
                let error = hosts.of(&agent, code, None).unwrap_err().to_string();
                assert!(error.contains("importing the Python modules"), "{error}");
            });
        }
    });
    assert_eq!(fs::read_to_string(&tries).unwrap(), "x");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(hosts.n_hosts(), 0, "each place was given back");
}

/// Threads and connections do not live on in a fork.
#[test]
fn modules_that_start_a_thread_or_open_a_connection_are_imported_by_each_agent() {
    for head in [
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
        "import socket\npair = socket.socketpair()\n",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let source = format!("{head}{HANDLER}");
        let code = Arc::new(code(dir.path(), &source));
        let loaded = load(&code, "host", Limits::default().import).unwrap();
        assert!(matches!(loaded, Loaded::Host(..)), "{head}");
        let mut agent = Agent::new(Limits::default());
        for _ in 0..2 {
            let (status, log) = agent.run(task("good"), &code);
            assert_eq!(status, "deployed", "{log}");
        }
        let other = agent.hosts.of(&AgentName::new("other"), &code, None);
        assert!(other.unwrap().python.is_alive());
    }
}

/// Input: kill -9 of the process that hosts are forked from (docs/reference/security.md § 3.34). Answer: its hosts end, and the next task starts another one.
#[test]
fn a_zygote_that_is_killed_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER.replace(
        "if resource.name == \"hang\"",
        "if resource.name == \"parent\":\n            import os, signal\n            \
         os.kill(os.getppid(), signal.SIGKILL)\n            time.sleep(1000)\n        if resource.name == \"hang\"",
    );
    let code = Arc::new(code(dir.path(), &source));
    let mut agent = Agent::new(Limits::default());
    let (status, log) = agent.run(task("good"), &code);
    assert_eq!(status, "deployed", "{log}");
    let (status, log) = agent.run(task("parent"), &code);
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("net::Row[host,name=parent]")
            && log.contains("the process that it was forked from has ended"),
        "{log}"
    );
    let (status, log) = agent.run(task("good"), &code);
    assert_eq!(status, "deployed", "{log}");
    assert_eq!(agent.hosts.n_hosts(), 1);
}

/// Input: a Python host that somebody stops (docs/reference/security.md § 4.8). Answer: it is ended within seconds, whatever the limit of its task.
#[test]
fn a_host_that_is_stopped_is_noticed_long_before_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER.replace(
        "if resource.name == \"hang\"",
        "if resource.name == \"stop\":\n            import os, signal\n            \
         os.kill(os.getpid(), signal.SIGSTOP)\n        if resource.name == \"hang\"",
    );
    let code = Arc::new(code(dir.path(), &source));
    let mut agent = Agent::new(Limits::default());
    let began = Instant::now();
    let (status, log) = agent.run(task("stop"), &code);
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("net::Row[host,name=stop]") && log.contains("SIGSTOP"),
        "{log}"
    );
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn what_a_handler_prints_is_in_the_log_of_its_run_and_of_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER.replace(
        "if resource.name == \"hang\"",
        "print(f\"I am {resource.name}\")\n        subprocess.run([\"echo\", f\"child of {resource.name}\"])\n        \
         if resource.name == \"much\":\n            print(\"x\\n\" * 5000)\n        if resource.name == \"die\":\n            \
         import os\n            os.write(2, b\"my last words\")\n            os._exit(7)\n        if resource.name == \"hang\"",
    );
    let code = Arc::new(code(dir.path(), &source));
    let mut agent = Agent::new(Limits::default());
    let (_, one) = agent.run(task("one"), &code);
    assert!(
        one.contains("printed: I am one\nprinted: child of one\n"),
        "{one}"
    );
    assert!(one.lines().last().unwrap().starts_with("End run"), "{one}");
    let (_, two) = agent.run(task("two"), &code);
    assert!(
        two.contains("printed: I am two") && !two.contains("one"),
        "{two}"
    );
    let (_, much) = agent.run(task("much"), &code);
    assert!(much.contains("more printed lines were cut"), "{much}");
    assert!(much.lines().count() < 120);
    let (status, died) = agent.run(task("die"), &code);
    assert_eq!(status, "unavailable");
    assert!(
        died.contains("printed: my last words") && died.contains("exit status: 7"),
        "{died}"
    );
}

/// Whoever wants to know where a handler hangs, or what it floods its log with, finds what it logged until then.
//: deploy 102
#[test]
fn what_a_handler_logged_before_it_was_stopped_is_in_the_log_of_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let source = HANDLER.replace(
        "if resource.name == \"hang\"",
        "ctx.info(\"I open %(what)s\", what=\"the door\")\n        if resource.name == \"flood\":\n            \
         for at in range(10 ** 9):\n                ctx.info(\"drop %(at)s\", at=at)\n        if resource.name == \"hang\"",
    );
    let code = Arc::new(code(dir.path(), &source));
    let mut agent = Agent::new(Limits::default());
    let mut run = |name: &str| {
        let mut task = task(name);
        task.limit_ms = 5000;
        agent.run(task, &code)
    };
    let (status, hung) = run("hang");
    assert_eq!(status, "unavailable", "{hung}");
    let lines: Vec<&str> = hung.lines().collect();
    assert!(lines[0].starts_with("Start run because a test said so"));
    assert_eq!(
        lines
            .iter()
            .filter(|line| **line == "I open the door")
            .count(),
        1,
        "{hung}"
    );
    assert!(lines.last().unwrap().contains("within 5 s"), "{hung}");
    let (status, good) = run("good");
    assert_eq!(status, "deployed");
    assert_eq!(good.matches("Start run").count(), 1, "{good}");
    let (_, flooded) = run("flood");
    assert!(
        flooded.contains("drop 0\ndrop 1\ndrop 2\n") && flooded.contains("more lines were cut"),
        "{}",
        &flooded[flooded.len() - 2000..]
    );
    assert!(flooded.lines().count() <= 1000);
    assert!(flooded.lines().last().unwrap().contains("within 5 s"));
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

//: deploy 93, 97
#[test]
fn a_commit_that_changes_no_python_keeps_the_host_and_one_at_rest_ends_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let mut agent = Agent::new(Limits {
        keep: Duration::ZERO,
        ..Limits::default()
    });
    let name = at("pids").to_str().unwrap().to_owned();
    let mut run = |code: Code| {
        let (status, log) = agent.run(self::task(&name), &Arc::new(code));
        assert_eq!(status, "deployed", "{log}");
        // It is found again where hosts rest.
        agent.rest();
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
    agent.rest();
    assert_eq!(agent.hosts.n_hosts(), 1);
    agent.hosts.tidy();
    assert_eq!(agent.hosts.n_hosts(), 0);
    assert!(at("pids.deleted").exists());
    wait_until_gone(last.parse().unwrap());
}

/// Agents take turns with two hosts: one that needs a place gets that of the agent without work.
//: deploy 96
#[test]
fn the_host_without_work_for_longest_makes_room_and_lets_go_of_its_cache() {
    let dir = tempfile::tempdir().unwrap();
    let code = Arc::new(code(dir.path(), PID));
    let hosts = Hosts::new(Limits {
        hosts: 2,
        ..Limits::default()
    });
    let run = |name: &str| {
        let path = dir.path().join(name);
        let agent = AgentName::new(name);
        let mut host = None;
        let mut worker = Worker::new(agent.clone(), nobody());
        let task = self::task(path.to_str().unwrap());
        let reply = |done: TaskDone, _| assert_eq!(done.outcome.status.as_str(), "deployed");
        let left = worker.run([task].into(), &code, &hosts, &mut host, reply);
        assert!(left.is_empty());
        hosts.rest(agent, host.unwrap());
        assert!(hosts.n_hosts() <= 2);
        let pids = fs::read_to_string(path).unwrap();
        pids.lines().last().unwrap().to_owned()
    };
    let is_closed = |name: &str| dir.path().join(format!("{name}.deleted")).exists();
    let (a, b) = (run("a"), run("b"));
    assert_eq!(run("a"), a, "each keeps its own while there is room");
    assert_ne!(a, b);
    run("c");
    assert!(is_closed("b") && !is_closed("a"));
    assert_ne!(run("b"), b);
    assert!(is_closed("a"));
}

/// Given: more agents, one after the other, than hosts are kept without work, and a place for each. Expected: the later ones get the
/// places of the first, so that many places take memory only while handlers work.
#[test]
fn where_many_hosts_rest_the_next_one_takes_the_place_of_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let code = Arc::new(code(dir.path(), HANDLER));
    let most = Limits::at_rest();
    let hosts = Hosts::new(Limits {
        hosts: most + 10,
        ..Limits::default()
    });
    for n in 0..most + 5 {
        let agent = AgentName::new(format!("agent{n}"));
        let host = hosts.of(&agent, &code, None).unwrap();
        hosts.rest(agent, host);
    }
    std::thread::sleep(Duration::from_millis(100));
    let n_before = hosts.n_hosts();
    let agent = AgentName::new("last");
    hosts.rest(agent.clone(), hosts.of(&agent, &code, None).unwrap());
    assert_eq!(hosts.n_hosts(), n_before);
}

/// Given: modules whose import raises what is meant to end a program, a task or a generator, beside one that is good. Expected: the
/// process lives on, and only the resources of the bad module are unavailable and say why.
#[test]
fn an_import_that_raises_what_ends_programs_breaks_its_module_only() {
    for raised in [
        "KeyboardInterrupt()",
        "GeneratorExit()",
        "__import__('asyncio').CancelledError()",
        "type('Own', (BaseException,), {'__str__': lambda self: 1 / 0})()",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let code = Arc::new(code(dir.path(), &format!("raise {raised}\n")));
        let (status, log) = Agent::new(Limits::default()).run(task("x"), &code);
        assert_eq!(status, "unavailable", "{log}");
        assert!(
            log.contains("failed to load the following modules: net: inmanta_plugins.net: "),
            "{raised}: {log}"
        );
    }
}

/// Given: a module that has the kernel forget how processes end that it starts. Expected: it is still told how its host ended.
#[test]
fn a_module_that_ignores_the_ends_of_processes_does_not_hide_that_of_its_host() {
    const IGNORING: &str = r#"
import os, signal, sys
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.resources import PurgeableResource, resource
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.stdout = None

@resource("net::Row", agent="host", id_attribute="name")
class Row(PurgeableResource):
    fields = ("name",)

@provider("net::Row", name="row")
class RowHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN
        if resource.name == "end":
            os._exit(7)

    def create_resource(self, ctx, resource):
        pass

    update_resource = delete_resource = create_resource
"#;
    let dir = tempfile::tempdir().unwrap();
    let code = Arc::new(code(dir.path(), IGNORING));
    let mut agent = Agent::new(Limits::default());
    let (status, log) = agent.run(task("stay"), &code);
    assert_eq!(status, "deployed", "{log}");
    let (status, log) = agent.run(task("end"), &code);
    assert_eq!(status, "unavailable", "{log}");
    assert!(
        log.contains("the Python host ended: exit status: 7"),
        "{log}"
    );
}
