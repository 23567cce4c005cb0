//! What handlers say, and how long they take, has limits, end to end (docs/reference/security.md § 4.8).

use std::fs;
use std::path::Path;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use crate::crash::descendants;
use crate::harness::{Host, Repo, Running, signal, wait_until};

const CODE: &str = r#"
import os, subprocess, time
from inmanta.agent.handler import CRUDHandler, ResourcePurged, provider
from inmanta.resources import PurgeableResource, resource

@resource("talk::Talker", agent="agent", id_attribute="path")
class Talker(PurgeableResource):
    fields = ("path", "does")

def deep(n):
    return [deep(n - 1)] if n else None

@provider("talk::Talker")
class TalkerHandler(CRUDHandler[Talker]):
    def read_resource(self, ctx, resource):
        if not os.path.exists(resource.path):
            raise ResourcePurged()

    def create_resource(self, ctx, resource):
        if resource.does == "lines":
            for n in range(200000):
                ctx.info("line %(n)s of too many, with an argument", n=n)
        if resource.does == "raise":
            raise Exception("x" * (50 << 20))
        if resource.does == "print":
            block = b"a printed line of a handler\n" * 40000
            for _ in range(1000):
                os.write(1, block)
            print("\x1b[2J the last line")
        if resource.does == "much":
            ctx.info("deep %(deep)s", deep=deep(300))
            ctx.set_fact("long", "v" * (20 << 20))
            for n in range(5000):
                ctx.set_fact(f"fact{n}", "v")
            ctx.add_change("content", current="c" * (20 << 20), desired=deep(300))
        if resource.does == "hang":
            wait = resource.path + ".wait"
            away = subprocess.Popen(["sleep", "1000"], start_new_session=True)
            with open(resource.path + ".new", "w") as file:
                file.write(f"{os.getpid()} {away.pid}")
            os.replace(resource.path + ".new", resource.path + ".told")
            while os.path.exists(wait):
                time.sleep(0.01)
            away.kill()
        with open(resource.path, "w") as file:
            file.write("made")
        ctx.set_created()

    def update_resource(self, ctx, changes, resource): ...
    def delete_resource(self, ctx, resource): ...
"#;

const MODEL: &str = r#"
entity Talker extends std::PurgeableResource:
    string path
    string does
    string agent = "internal"
end
implement Talker using std::none
"#;

fn repo(main: &str) -> Repo {
    let repo = Repo::new("");
    repo.write_module("talk", MODEL, CODE);
    repo.write(
        "main.cf",
        &format!("import talk\nroot = std::get_env(\"ROOT\")\n{main}"),
    );
    repo.commit("a module");
    repo
}

fn talker(name: &str, does: &str, agent: &str) -> String {
    format!(
        "talk::Talker(path=\"{{{{root}}}}/{name}\", does=\"{does}\", agent=\"{agent}\", send_event=false)\n"
    )
}

fn is_of(event: &Value, name: &str) -> bool {
    let id = event["resource"].as_str().unwrap_or_default();
    event["event"] == "resource" && id.ends_with(&format!("/{name}]"))
}

/// The most memory that a process ever had, in MiB.
pub fn peak_mib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() / 1024
}

pub fn bytes_of_database(data: &Path) -> u64 {
    let files = fs::read_dir(data).unwrap().flatten();
    files
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("steward.db")
        })
        .map(|entry| entry.metadata().unwrap().len())
        .sum()
}

/// The messages of the last run of a resource, and all of them together.
fn last_run(running: &Running, id: &str) -> (Vec<String>, usize) {
    let all = running.get_ok("/api/v2/resource_actions?limit=1000");
    let action = all["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|action| action["resource_version_ids"].to_string().contains(id))
        .unwrap_or_else(|| panic!("no run of {id}: {all}"))
        .clone();
    let messages = action["messages"].as_array().unwrap();
    let texts = messages
        .iter()
        .map(|line| line["msg"].as_str().unwrap().to_owned());
    (texts.collect(), action.to_string().len())
}

/// Input: 200 000 log lines, an exception of 50 MB, 1 GB printed, facts and differences of 20 MB (docs/reference/security.md § 4.8). Answer: each is cut with a mark, and memory, database and log stay small.
#[test]
fn what_a_handler_says_is_cut_and_server_database_and_log_stay_small() {
    let host = Host::new();
    let talkers: String = ["lines", "raise", "print", "much"]
        .map(|does| talker(does, does, does))
        .concat();
    let repo = repo(&talkers);
    let log = host.root().with_file_name("log");
    let mut command = host.up(repo.path());
    command.stderr(fs::File::create(&log).unwrap());
    // Once is enough here.
    command.args(["--set", "deploy_retry_backoff=500"]);
    let mut running = Running::start(command);
    let (mut ran, _) = running.settled(1);
    ran.sort();
    assert_eq!(
        ran,
        [
            "lines deployed created",
            "much deployed created",
            "print deployed created",
            "raise failed nochange"
        ],
        "{:?}\n{}",
        ["/lines", "/raise", "/print", "/much"].map(|name| {
            let (said, _) = last_run(&running, name);
            said.last().cloned()
        }),
        fs::read_to_string(&log).unwrap_or_default()
    );
    let (lines, _) = last_run(&running, "/lines");
    assert!(lines.len() <= 1000, "{}", lines.len());
    let says = |lines: &[String], text: &str| lines.iter().any(|line| line.contains(text));
    assert!(says(&lines, "line 0 of too many"));
    assert!(says(
        &lines,
        "more lines were cut; the limit is 1000 lines and 1 MiB a run"
    ));
    let (raised, size) = last_run(&running, "/raise");
    assert!(
        says(&raised, "characters were cut, the limit is"),
        "{raised:?}"
    );
    assert!(size < 64 << 10, "{size}");
    let (much, _) = last_run(&running, "/much");
    assert!(says(&much, "The fact long was not taken"), "{much:?}");
    let facts = running.get_ok("/api/v2/facts?limit=1000");
    assert!(facts["data"].as_array().unwrap().len() <= 1000);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.len() < 512 << 10, "{} bytes of log", said.len());
    assert!(said.contains("handlers of print: a printed line of a handler"));
    assert!(!said.contains('\x1b'), "nothing moves the cursor");
    let (peak, database) = (
        peak_mib(running.child.id()),
        bytes_of_database(&host.data()),
    );
    let executor = descendants(running.child.id());
    let executor = executor
        .iter()
        .find(|child| child.role == "executor")
        .unwrap();
    let of_executor = peak_mib(executor.pid);
    #[expect(clippy::print_stderr, reason = "figures that a person may want")]
    {
        eprintln!(
            "server {peak} MiB, executor {of_executor} MiB, database {database}, log {}",
            said.len()
        );
    }
    assert!(peak < 250, "the server had {peak} MiB");
    assert!(of_executor < 250, "the executor had {of_executor} MiB");
    assert!(database < 16 << 20, "the database has {database} bytes");
    assert!(running.stop().success());
}

/// Starts a server whose resource `stuck` hangs in its handler; gives it with the pids of the host and of what it started.
fn hanging(host: &Host, settings: &[&str]) -> (Running, u32, u32, Repo) {
    fs::write(host.file("stuck.wait"), "").unwrap();
    let repo = repo(&(talker("stuck", "hang", "one") + &talker("other", "nothing", "two")));
    let mut command = host.up(repo.path());
    command
        .args(["--set", "deploy_retry_backoff=1"])
        .args(settings);
    let running = Running::start(command);
    wait_until("the handler hangs", || host.file("stuck.told").exists());
    let told = host.read("stuck.told");
    let (python, away) = told.split_once(' ').unwrap();
    (
        running,
        python.parse().unwrap(),
        away.parse().unwrap(),
        repo,
    )
}

fn is_gone(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Input: a handler that hangs, and a Python host that is stopped (docs/reference/security.md § 4.8). Answer: both are ended at `deploy_timeout` with all that is below them (a daemon, whose parent has ended, stays: it may be what the resource is about), the resource is unavailable with the setting's name, and it is retried.
#[test]
fn a_hung_handler_ends_at_its_limit_with_all_it_started_and_others_go_on() {
    for stopped in [false, true] {
        let host = Host::new();
        let (mut running, python, away, _repo) = hanging(&host, &["--set", "deploy_timeout=2.5"]);
        if stopped {
            signal(python, Signal::STOP);
        }
        let failed = running.wait_for(|event| is_of(event, "stuck"));
        let others = running.seen.iter().filter(|event| is_of(event, "other"));
        let others: Vec<&Value> = others.map(|event| &event["status"]).collect();
        assert_eq!(failed["status"], "unavailable", "{failed}");
        let message = failed["message"].as_str().unwrap();
        assert!(
            message.contains("within 2.5 s (setting `deploy_timeout`)"),
            "{message}"
        );
        assert_eq!(others, ["deployed"], "the other agent goes on");
        wait_until("all of it is gone", || is_gone(python) && is_gone(away));
        fs::remove_file(host.file("stuck.wait")).unwrap();
        let next = running.wait_for(|event| is_of(event, "stuck"));
        // A retry may have begun before the file was gone.
        let next = match next["status"] == "deployed" {
            true => next,
            false => running.wait_for(|event| is_of(event, "stuck")),
        };
        assert_eq!(next["status"], "deployed", "{next}");
        assert!(running.stop().success());
    }
}

/// Input: an executor process that is stopped with SIGSTOP (docs/reference/security.md § 4.8). Answer: it is noticed within 20 s and ended with its hosts, its resource is unavailable, and a new executor takes over.
#[test]
fn a_stopped_executor_is_noticed_ended_and_replaced() {
    let host = Host::new();
    let (mut running, python, away, _repo) = hanging(&host, &[]);
    running.wait_for(|event| is_of(event, "other"));
    let executor = descendants(running.child.id());
    let executor = executor
        .iter()
        .find(|child| child.role == "executor")
        .unwrap();
    signal(python, Signal::STOP);
    signal(executor.pid, Signal::STOP);
    let began = Instant::now();
    let failed = running.wait_for(|event| is_of(event, "stuck"));
    assert!(began.elapsed().as_secs() < 22, "{:?}", began.elapsed());
    assert_eq!(failed["status"], "unavailable", "{failed}");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("no sign of life for 15 s"), "{message}");
    wait_until("all of it is gone", || {
        is_gone(executor.pid) && is_gone(python) && is_gone(away)
    });
    fs::remove_file(host.file("stuck.wait")).unwrap();
    running.wait_for(|event| is_of(event, "stuck") && event["status"] == "deployed");
    assert!(running.stop().success());
}
