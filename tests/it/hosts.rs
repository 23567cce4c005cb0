//! kill -9 of a Python host while it works: one clear failure, then all goes on.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Host, Repo, Running, signal, wait_until};

/// Waits for as long as there is a file `wait`, and says in a file of its own which process it is.
const CODE: &str = r#"
import os, time
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.plugins import plugin
from inmanta.resources import PurgeableResource, resource

def wait(flag, told):
    if os.path.exists(flag):
        with open(told + ".new", "w") as file:
            file.write(str(os.getpid()))
        os.replace(told + ".new", told)
    while os.path.exists(flag):
        time.sleep(0.01)

@plugin
def slow(flag: "string") -> "string":
    wait(flag, os.path.join(os.environ["TMPDIR"], "told"))
    return "awake"

@resource("slow::Thing", agent="agent", id_attribute="path")
class Thing(PurgeableResource):
    fields = ("path", "flag")

@provider("slow::Thing")
class ThingHandler(CRUDHandler[Thing]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()
    def create_resource(self, ctx, resource):
        wait(resource.flag, resource.path + ".told")
        with open(resource.path, "w") as file:
            file.write("made")
        ctx.set_created()
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

const MODEL: &str = r#"
entity Thing extends std::PurgeableResource:
    string path
    string flag
    string agent = "internal"
end
implement Thing using std::none
"#;

fn repo(main: &str) -> Repo {
    let repo = Repo::new("");
    repo.write_module("slow", MODEL, CODE);
    repo.write("main.cf", main);
    repo.commit("a module");
    repo
}

/// Kills the process that a file names, once it does.
#[track_caller]
fn kill_named(file: &Path) {
    wait_until("the host says which process it is", || file.exists());
    let pid = fs::read_to_string(file).unwrap().parse().unwrap();
    signal(pid, Signal::KILL);
}

#[test]
fn a_host_that_is_killed_in_a_plugin_fails_one_compile() {
    let host = Host::new();
    let flag = host.file("wait");
    fs::write(&flag, "").unwrap();
    let call = format!(
        "import slow\nstd::print(slow::slow(\"{}\"))\n",
        flag.display()
    );
    let repo = repo(&call);
    let mut running = Running::start(host.up(repo.path()));
    let scratch = host.data().join("python/scratch");
    let told = || -> Option<PathBuf> {
        let owners = fs::read_dir(&scratch).ok()?;
        owners
            .flatten()
            .map(|owner| owner.path().join("told"))
            .find(|path| path.exists())
    };
    wait_until("the plugin runs", || told().is_some());
    kill_named(&told().unwrap());
    let compiled = running.wait_for(|event| event["event"] == "compiled");
    assert_eq!(compiled["success"], false, "{compiled}");
    let diagnostics = compiled["diagnostics"].to_string();
    assert!(
        diagnostics.contains("slow::slow") && diagnostics.contains("signal: 9"),
        "{diagnostics}"
    );
    fs::remove_file(&flag).unwrap();
    repo.write("main.cf", &format!("{call}x = 1\n"));
    repo.commit("once more");
    let compiled = running.wait_for(|event| event["event"] == "compiled");
    assert_eq!(compiled["success"], true, "{compiled}");
    assert!(running.stop().success());
}

/// Input: kill -9 of a Python host in a handler (docs/reference/security.md § 3.34). Answer: one unavailable run, then all goes on.
//: deploy 95
#[test]
fn a_host_that_is_killed_in_create_makes_its_resource_unavailable_once() {
    let host = Host::new();
    let flag = host.file("wait");
    fs::write(&flag, "").unwrap();
    let repo = repo(&format!(
        "import slow\nroot = std::get_env(\"ROOT\")\nslow::Thing(path=\"{{{{root}}}}/thing\", flag=\"{}\")\n\
         slow::Thing(path=\"{{{{root}}}}/other\", flag=\"/nowhere\", agent=\"another\")\n",
        flag.display()
    ));
    let mut command = host.up(repo.path());
    command.args(["--set", "deploy_retry_backoff=1"]);
    let mut running = Running::start(command);
    kill_named(&host.file("thing.told"));
    let is_of_thing = |event: &Value| {
        let id = event["resource"].as_str().unwrap_or_default();
        event["event"] == "resource" && id.ends_with("/thing]")
    };
    let failed = running.wait_for(is_of_thing);
    assert_eq!(failed["status"], "unavailable", "{failed}");
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("Failure during executor execution for resource slow::Thing")
            && message.contains("signal: 9"),
        "{message}"
    );
    fs::remove_file(&flag).unwrap();
    let next = running.wait_for(is_of_thing);
    assert_eq!(next["status"], "deployed", "{next}");
    assert_eq!(host.read("thing"), "made");
    // The other agent has a host of its own.
    let others = running.seen.iter().filter(|event| {
        let id = event["resource"].as_str().unwrap_or_default();
        event["event"] == "resource" && id.ends_with("/other]")
    });
    let states: Vec<&Value> = others.map(|event| &event["status"]).collect();
    assert_eq!(states, ["deployed"]);
    assert!(running.stop().success());
}

//: deploy 92
#[test]
fn two_agents_with_the_same_code_share_its_folder_and_work_at_once() {
    let host = Host::new();
    let flag = host.file("wait");
    fs::write(&flag, "").unwrap();
    let thing = |name: &str| {
        let path = format!("{{{{root}}}}/{name}");
        let flag = flag.display();
        format!("slow::Thing(path=\"{path}\", flag=\"{flag}\", agent=\"{name}\")\n")
    };
    let repo = repo(&format!(
        "import slow\nroot = std::get_env(\"ROOT\")\n{}{}",
        thing("one"),
        thing("two")
    ));
    let mut running = Running::start(host.up(repo.path()));
    let told = ["one.told", "two.told"].map(|name| host.file(name));
    wait_until("both are at work", || told.iter().all(|path| path.exists()));
    let [one, two] = told.map(|path| fs::read_to_string(path).unwrap());
    assert_ne!(one, two, "each has a process of its own");
    let folders = fs::read_dir(host.data().join("code")).unwrap().flatten();
    let folders = folders.filter(|entry| entry.path().is_dir());
    assert_eq!(folders.count(), 1);
    fs::remove_file(&flag).unwrap();
    for _ in 0..2 {
        let done = running.wait_for(|event| event["event"] == "resource");
        assert_eq!(done["status"], "deployed", "{done}");
    }
    assert!(running.stop().success());
}

/// A handler that keeps a connection, which takes a moment to close, and starts a program beside it.
const CONNECTED: &str = r#"
import os, subprocess, time
from inmanta.agent.handler import CRUDHandler, cache, provider
from inmanta.resources import PurgeableResource, resource

def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.replace(path + ".new", path)

def close(path):
    time.sleep(0.5)
    write(path + ".closed", "")

@resource("slow::Thing", agent="agent", id_attribute="path")
class Thing(PurgeableResource):
    fields = ("path", "flag")

@provider("slow::Thing")
class ThingHandler(CRUDHandler[Thing]):
    @cache(timeout=1000, call_on_delete=close)
    def connect(self, path):
        write(path + ".program", str(subprocess.Popen(["sleep", "1000"]).pid))
        with open(f"/proc/{os.getppid()}/stat") as stat:
            write(path + ".executor", stat.read().rsplit(")")[-1].split()[1])
        return path
    def read_resource(self, ctx, resource):
        self.connect(resource.path)
        while os.path.exists(resource.flag):
            time.sleep(0.01)
    def create_resource(self, ctx, resource): ...
    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

/// A server with one such resource, whose handler goes on while there is the file `wait`.
fn connected(host: &Host) -> (Repo, Running) {
    let repo = Repo::new("");
    repo.write_module("slow", MODEL, CONNECTED);
    let flag = host.file("wait");
    repo.write(
        "main.cf",
        &format!(
            "import slow\nroot = std::get_env(\"ROOT\")\nslow::Thing(path=\"{{{{root}}}}/thing\", flag=\"{}\")\n",
            flag.display()
        ),
    );
    repo.commit("a module");
    let running = Running::start(host.up(repo.path()));
    (repo, running)
}

/// The process that a file names.
fn named(file: &Path) -> u32 {
    fs::read_to_string(file).unwrap().parse().unwrap()
}

#[track_caller]
fn wait_until_gone(process: u32) {
    wait_until("the process is gone", || {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"));
        stat.map_or(true, |stat| stat.contains(") Z "))
    });
}

/// Given: a server that is stopped while its handlers have a connection open that takes half a second to close. Expected: it is
/// closed, and what was started beside it ends.
#[test]
fn what_handlers_have_cached_is_closed_when_the_server_stops() {
    let host = Host::new();
    let (_repo, mut running) = connected(&host);
    running.wait_for(|event| event["event"] == "resource" && event["status"] == "deployed");
    assert!(running.stop().success());
    assert!(host.file("thing.closed").exists());
    wait_until_gone(named(&host.file("thing.program")));
}

/// Given: an executor that is killed while a handler works, which has started a program. Expected: neither goes on beside the handler
/// of the next executor.
#[test]
fn what_a_handler_has_started_ends_when_its_executor_is_killed() {
    let host = Host::new();
    fs::write(host.file("wait"), "").unwrap();
    let (_repo, running) = connected(&host);
    let file = |name: &str| host.file(&format!("thing.{name}"));
    wait_until("the handler works", || file("executor").exists());
    let (executor, program) = (named(&file("executor")), named(&file("program")));
    signal(executor, Signal::KILL);
    wait_until_gone(executor);
    wait_until_gone(program);
    fs::remove_file(host.file("wait")).unwrap();
    assert!(running.stop().success());
}
