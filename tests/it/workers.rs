//! Compile workers: what a compile says whose worker was killed, and what of one goes on after it.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use steward::domain::DataDir;

use crate::harness::{Repo, signal, skip, wait_until, wrapper};
use crate::sandbox::{below, first_report, repo_with, report_of, server_of};
use crate::serve::{Served, serve};

/// The report of the compile of a model with 1 GiB of memory.
#[track_caller]
fn report(model: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new(model);
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("limited to 1024 MiB"), "{report}");
    report
}

/// Input: a model that constructs instances without end (docs/reference/security.md § 4.17). Answer: the compile fails, and its error names file and line of what was constructed.
#[test]
fn a_model_that_takes_all_memory_is_told_where_it_was() {
    let model = "entity Thing:\n    list texts\nend\nimplement Thing using std::none\n\n\
                 for i in std::sequence(2000):\n    for j in std::sequence(4000):\n        \
                 Thing(texts=[\"{{i}}\", \"{{j}}\", \"{{i}} {{j}}\"])\n    end\nend\n";
    let report = report(model);
    assert!(report.contains("it was at main.cf:8"), "{report}");
}

/// Input: calls of a plugin that together make more than there is memory (docs/reference/security.md § 4.17). Answer: the error names the line of the call.
#[test]
fn a_call_that_takes_all_memory_is_named() {
    let model = "x = 1\n\nnumbers = [std::sequence(9000000) for i in std::sequence(50)]\n";
    let report = report(model);
    assert!(report.contains("it was at main.cf:3"), "{report}");
}

/// Input: texts and lists that double, which are made long after the statements that say so were read (docs/reference/security.md § 4.17). Answer: the error names a line of these.
#[test]
fn texts_that_take_all_memory_are_told_where_they_were() {
    let doubled = (0..30).map(|n| format!("x{} = [\"{{{{x{n}}}}}{{{{x{n}}}}}\", \"a\"]\n", n + 1));
    let model = format!(
        "x0 = \"{}\"\n{}std::print(x30)\n",
        "a".repeat(64),
        doubled.collect::<String>()
    );
    let report = report(&model);
    assert!(report.contains("it was at main.cf:"), "{report}");
}

const ENDLESS: &str = r#"
import warnings
from inmanta.plugins import plugin

@plugin
def warns() -> "string":
    for number in range(20000):
        warnings.warn(f"warning {number}")
    return "warned"

@plugin
def fails() -> "string":
    raise Exception("begin" + "E" * (20 << 20) + "end")
"#;

/// Input: a plugin that warns 20 000 times, and one whose exception has 20 MB (docs/reference/security.md § 4.22). Answer: each is cut with a mark, and server, database and log stay small.
#[test]
fn what_a_compile_says_is_cut_and_server_database_and_log_stay_small() {
    for (call, marks) in [
        ("warns", ["warning 0", "more warnings are left out here"]),
        ("fails", ["Exception: beginEEE", "bytes were left out here"]),
    ] {
        let home = tempfile::tempdir().unwrap();
        let repo = repo_with("endless", ENDLESS, &format!("x = endless::{call}()\n"));
        let (_, config) = server_of(home.path(), &repo);
        let served = serve(home.path(), &config);
        let report = first_report(&served);
        for mark in marks {
            assert!(
                report.contains(mark),
                "{call}: no {mark} in {} bytes",
                report.len()
            );
        }
        let peak = crate::bounds::peak_mib(served.child.id());
        assert!(peak < 200, "{call}: {peak} MiB");
        let database = crate::bounds::bytes_of_database(&home.path().join("data"));
        assert!(database < 20 << 20, "{call}: {database} bytes");
        let log = served.log.lock().unwrap().len();
        assert!(log < 1 << 20, "{call}: {log} bytes");
    }
}

const LARGE: &str = r#"
from inmanta.plugins import plugin

@plugin
def large(number: "int") -> "string":
    return chr(65 + number) * (64 << 20)
"#;

/// Input: a model whose resources are together larger than what a worker may say (docs/reference/security.md § 3.25). Answer: the compile fails and says so, and is not made again.
#[test]
fn a_result_that_is_too_large_is_told_and_not_made_again() {
    let home = tempfile::tempdir().unwrap();
    let model = "import std::testing\nfor i in std::sequence(5):\n    \
                 std::testing::NullResource(name=\"{{i}}\", agentname=\"a\", value=maker::large(i))\nend\n";
    let repo = repo_with("maker", LARGE, model);
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("a frame of more than 256 MiB"), "{report}");
    assert!(report.contains("\"success\":false"), "{report}");
    let log = served.log.lock().unwrap().clone();
    assert!(!log.contains("another compile worker"), "{log}");
}

const SPINS: &str = r#"
import _thread
from inmanta.plugins import plugin

def spin():
    while True:
        pass

_thread.start_new_thread(spin, ())

@plugin
def works(name: "string") -> "string":
    return f"works {name}"
"#;

/// State and processor time of a process, in ticks.
fn state_and_time(process: i32) -> (String, u64) {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let time = |at: usize| fields[at].parse::<u64>().unwrap();
    (fields[0].to_owned(), time(11) + time(12))
}

/// Input: a module that starts a thread when it is imported, which is not one of `threading` (docs/reference/security.md § 4.5). Answer: no process with that thread runs between two compiles; the next one works.
#[test]
fn threads_of_modules_do_not_run_between_compiles() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("spinner", SPINS, "std::print(spinner::works(\"one\"))\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("works one"), "{report}");
    let hosts = || hosts(&served);
    let is_stopped = |id: &i32| state_and_time(*id).0 == "T";
    // A process with it cannot be forked for another compile, so it ends; one that was kept would be stopped.
    wait_until("the hosts are stopped", || hosts().iter().all(is_stopped));
    let time = || {
        hosts()
            .into_iter()
            .map(|id| state_and_time(id).1)
            .sum::<u64>()
    };
    let before = time();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(time(), before);
    repo.write(
        "main.cf",
        "import spinner\nstd::print(spinner::works(\"two\"))\n",
    );
    let commit = repo.commit("another model");
    let report = report_of(&served, &commit);
    assert!(report.contains("works two"), "{report}");
}

/// A server has nothing to do for longer than threads without work live in it (10 s). The workers that it has started ahead of
/// need are the same ones afterwards; else one of them would be ended in the middle of a compile that it gets meanwhile.
#[test]
fn workers_outlive_the_threads_that_started_them() {
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("std::print(\"a model\")\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    first_report(&served);
    // By their numbers: one that has just been forked shows the words of its parent for a moment.
    let workers = || -> BTreeSet<i32> {
        let all = below(served.child.id()).into_iter();
        let workers = all.filter(|(_, command)| command.contains("compile-worker"));
        workers.map(|(id, _)| id).collect()
    };
    // The one that has worked and a spare one, each with the process above it.
    wait_until("there is a spare worker", || workers().len() == 4);
    let before = workers();
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!(workers(), before, "{}", served.log());
}

/// Else they would count as workers that the next compile has ended, and three of those are its fault.
#[test]
fn idle_workers_that_were_killed_are_not_asked() {
    let home = tempfile::tempdir().unwrap();
    let repo = Repo::new("std::print(\"a model\")\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    first_report(&served);
    let workers = || -> Vec<u32> {
        let all = below(served.child.id()).into_iter();
        let workers = all.filter(|(_, command)| command.contains("compile-worker"));
        workers.map(|(id, _)| id.cast_unsigned()).collect()
    };
    wait_until("there is a spare worker", || workers().len() == 4);
    workers().iter().for_each(|id| signal(*id, Signal::KILL));
    wait_until("they are gone", || workers().is_empty());
    let commit = repo.commit("once more");
    let report = report_of(&served, &commit);
    assert!(report.contains("\"success\":true"), "{report}");
    let log = served.log();
    assert!(!log.contains("another compile worker is asked"), "{log}");
}

/// What counts, until a file is there.
const WAITS: &str = r#"
import os, time
from inmanta.plugins import plugin

@plugin
def waits(path: "string") -> "string":
    while not os.path.exists(path):
        time.sleep(0.05)
    return "waited"
"#;

/// Input: a compile worker with the process above it, then its Python host, stopped with SIGSTOP in the middle of a compile (docs/reference/security.md § 4.8). Answer: it is noticed within seconds, ended with all below it, and named in the log; the compile is made again by another worker.
#[test]
fn a_stopped_compile_worker_is_noticed_named_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let model = "std::print(waiter::waits(std::get_env(\"DONE\")))\n";
    let repo = repo_with("waiter", WAITS, model);
    let (_, config) = server_of(home.path(), &repo);
    let done = home.path().join("done");
    let variable = format!("  env: {{DONE: '{}'}}\napi_token", done.display());
    let served = serve(home.path(), &config.replace("api_token", &variable));
    let server = served.child.id();
    let found = |is_meant: &dyn Fn(&str) -> bool| -> Vec<u32> {
        let all = below(server).into_iter();
        let meant = all.filter(|(_, command)| is_meant(command));
        meant.map(|(id, _)| id.cast_unsigned()).collect()
    };
    let hosts = || found(&|command| command.contains("steward_host"));
    // A worker and the process above it have the same words at the end.
    let is_worker = |command: &str| command.contains(" compile-worker ");
    for (what, name) in [
        ("worker", "the supervisor of the"),
        ("host", "its Python host"),
    ] {
        // The host, and the fork of it in which the plugin runs.
        wait_until("the plugin runs", || hosts().len() >= 2);
        let stopped = match what {
            "host" => hosts(),
            // There may be a spare one, too, which has none.
            _ => found(&is_worker)
                .into_iter()
                .filter(|id| {
                    let own = steward::process::descendants::below([id.cast_signed()]);
                    hosts().iter().any(|host| own.contains(&host.cast_signed()))
                })
                .collect(),
        };
        let began = Instant::now();
        stopped.iter().for_each(|id| signal(*id, Signal::STOP));
        wait_until("all of them are gone", || {
            !stopped.iter().any(|id| steward::process::is_alive(*id))
        });
        let took = began.elapsed();
        assert!(took.as_secs() < 30, "{what}: {took:?}");
        wait_until("they are named", || {
            let log = served.log();
            let mut lines = log
                .lines()
                .filter(|line| line.contains("was stopped (SIGSTOP)"));
            lines.any(|line| line.contains(name))
        });
    }
    fs::write(&done, "").unwrap();
    let report = first_report(&served);
    assert!(report.contains("waited"), "{report}");
}

/// The Python hosts of a server's compile workers.
fn hosts(served: &Served) -> Vec<i32> {
    let all = below(served.child.id()).into_iter();
    let hosts = all.filter(|(_, command)| command.contains("steward_host"));
    hosts.map(|(id, _)| id).collect()
}

const NAMES: &str = r#"
from inmanta.plugins import plugin

@plugin
def name_of(site: "string") -> "string":
    return "site-" + site
"#;

fn names(sites: &[&str], rest: &str) -> String {
    let calls = sites
        .iter()
        .map(|site| format!("std::print(names::name_of(\"{site}\"))\n"));
    format!("import names\n{}{rest}", calls.collect::<String>())
}

/// A server compiles a commit after a commit; the Python code is the same in all, and only computes. Python is started for what was
/// never asked before, in a worker, and in a server, that did not see the compile before.
#[test]
fn a_commit_that_asks_python_nothing_new_starts_no_python() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("names", NAMES, "std::print(names::name_of(\"a\"))\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("site-a"), "{report}");
    assert!(!hosts(&served).is_empty(), "the first compile needs Python");
    for round in 1..=2 {
        for host in hosts(&served) {
            signal(u32::try_from(host).unwrap(), Signal::KILL);
        }
        wait_until("no host is left", || hosts(&served).is_empty());
        repo.write(
            "main.cf",
            &names(&["a"], &format!("std::print(\"{round}\")\n")),
        );
        let report = report_of(&served, &repo.commit("the same call"));
        assert!(report.contains("site-a"), "{report}");
        assert!(hosts(&served).is_empty(), "round {round}");
    }
    drop(served);
    let served = serve(home.path(), &config);
    repo.write(
        "main.cf",
        &names(&["a"], "std::print(\"after a restart\")\n"),
    );
    let report = report_of(&served, &repo.commit("the same call again"));
    assert!(report.contains("site-a"), "{report}");
    assert!(hosts(&served).is_empty());
    // What is new is asked of Python, and what Python says by now counts.
    for (sites, code, expected) in [
        (vec!["a", "b"], NAMES.to_owned(), "site-a\\nsite-b"),
        (vec!["c"], NAMES.to_owned(), "site-c"),
        (vec!["a"], NAMES.replace("site-", "place-"), "place-a"),
    ] {
        repo.write_module("names", "", &code);
        repo.write("main.cf", &names(&sites, ""));
        let report = report_of(&served, &repo.commit("something new"));
        assert!(report.contains(expected), "{report}");
    }
}

const HELPED: &str = r#"
import os, sys
from inmanta.plugins import plugin

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools"))
import helper

@plugin
def value(n: "int") -> "string":
    return "honest %d" % n
"#;

/// Has the process say that it has read nothing, and that any function only computes.
const LIAR: &str = r#"
import gc
import inmanta.plugins
import steward_host.purity

steward_host.purity.Purity.is_pure = lambda self, function: True
for found in gc.get_objects():
    if type(found).__name__ == "Dependencies":
        found.found = lambda modules: {"read": [], "looked_at": []}

def lying(function):
    def value(n: "int") -> "string":
        return "A LIE %d" % n
    value.__module__ = function.__module__
    return honest(value)

honest = inmanta.plugins.plugin
import sys
sys.modules["inmanta_plugins.helped"].plugin = lying
"#;

/// Input: a commit with Python code outside of modules that has its process say that nothing was read and all only computes; then it is taken back (docs/reference/security.md § 4.1). Answer: nothing of what it said is known any more, in this server or the next.
#[test]
fn a_commit_that_was_taken_back_leaves_no_answers() {
    let home = tempfile::tempdir().unwrap();
    let model = |n| format!("import helped\nstd::print(helped::value(1))\nstd::print(\"{n}\")\n");
    let repo = repo_with("helped", HELPED, "");
    repo.write("main.cf", &model(0));
    repo.write("tools/helper.py", "");
    let honest = repo.commit("with a helper");
    let (_, config) = server_of(home.path(), &repo);
    let mut served = serve(home.path(), &config);
    let report = report_of(&served, &honest);
    assert!(report.contains("honest 1"), "{report}");
    repo.write("tools/helper.py", LIAR);
    for n in 1..4 {
        // What was written just now is not kept.
        std::thread::sleep(Duration::from_millis(150));
        repo.write("main.cf", &model(n));
        let report = report_of(&served, &repo.commit("a liar"));
        assert!(report.contains("A LIE 1"), "{report}");
    }
    repo.write("tools/helper.py", "");
    for n in 4..7 {
        repo.write("main.cf", &model(n));
        let report = report_of(&served, &repo.commit("taken back"));
        assert!(report.contains("honest 1"), "{report}");
        if n == 5 {
            drop(served);
            served = serve(home.path(), &config);
        }
    }
}

const RESOLVES: &str = r#"
import os
from pathlib import Path
from inmanta.plugins import plugin

HERE = Path(__file__).resolve().parent
FILES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "files")
BEGUN = (HERE.parent / "files" / "data.txt").read_text()

@plugin
def read(n: "int") -> "string":
    one = (HERE.parent / "files" / "data.txt").read_text()
    with open(os.path.join(FILES, "data.txt")) as other:
        return f"{BEGUN}, {one}, {other.read()}, {sorted(os.listdir(FILES))}"
"#;

/// A process that has imported modules serves commits with the same Python code one after the other; what modules have
/// resolved then is the folder of the commit in hand all the same.
#[test]
fn modules_that_resolve_where_they_are_read_the_files_of_their_commit() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("resolves", RESOLVES, "std::print(resolves::read(1))\n");
    let (_, config) = server_of(home.path(), &repo);
    repo.write("libs/resolves/files/data.txt", "first");
    let commit = repo.commit("data");
    let served = serve(home.path(), &config);
    let report = report_of(&served, &commit);
    let wanted = "first, first, first, ['data.txt']";
    assert!(report.contains(wanted), "{report}");
    repo.write("libs/resolves/files/data.txt", "second");
    repo.write("libs/resolves/files/more.txt", "more");
    let report = report_of(&served, &repo.commit("other data"));
    let wanted = "second, second, second, ['data.txt', 'more.txt']";
    assert!(report.contains(wanted), "{report}");
    repo.write("libs/resolves/files/data.txt", "first");
    let report = report_of(&served, &repo.commit("the first data again"));
    let wanted = "first, first, first, ['data.txt', 'more.txt']";
    assert!(report.contains(wanted), "{report}");
}

const READS: &str = r#"
import os
from pathlib import Path
from inmanta.plugins import plugin

HERE = Path(__file__).resolve().parent
FILES = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "files")

@plugin
def read(n: "int") -> "string":
    one = (HERE.parent / "files" / "data.txt").read_text()
    with open(os.path.join(FILES, "data.txt")) as other:
        return f"{one}, {other.read()}, {n}"
"#;

/// Given: plugins that do no more than to read files of their module, whose results are known from commit to commit, and commits that
/// change a file, another one, or nothing; also over a restart. Expected: each has what its own files say.
#[test]
fn what_a_plugin_has_read_is_known_for_commits_with_the_same_files_only() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("reads", READS, "std::print(reads::read(1))\n");
    let (_, config) = server_of(home.path(), &repo);
    repo.write("libs/reads/files/data.txt", "first");
    let mut commit = repo.commit("data");
    let mut served = serve(home.path(), &config);
    for (at, data) in ["second", "second", "first", "third", "first"]
        .iter()
        .enumerate()
    {
        let before = if at == 0 {
            "first"
        } else {
            ["second", "second", "first", "third"][at - 1]
        };
        let report = report_of(&served, &commit);
        assert!(
            report.contains(&format!("{before}, {before}, 1")),
            "{report}"
        );
        repo.write("libs/reads/files/data.txt", data);
        repo.write("libs/reads/files/other.txt", &at.to_string());
        commit = repo.commit("other data");
        if at == 2 {
            drop(served);
            served = serve(home.path(), &config);
        }
    }
    let report = report_of(&served, &commit);
    assert!(report.contains("first, first, 1"), "{report}");
}

const STARTS: &str = r#"
import os, subprocess
from inmanta.plugins import plugin

FILE = os.path.join(os.path.dirname(__file__), "..", "files", "data.txt")
SHOWN = subprocess.run(["cat", FILE], capture_output=True, text=True).stdout

@plugin
def read(n: "int") -> "string":
    return f"{SHOWN} {n}"
"#;

/// What a process has read that a module starts when it is imported, nobody knows; so that is done again for the next commit.
#[test]
fn modules_that_start_a_process_are_imported_for_each_commit() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("starts", STARTS, "std::print(starts::read(1))\n");
    let (_, config) = server_of(home.path(), &repo);
    repo.write("libs/starts/files/data.txt", "first");
    let commit = repo.commit("data");
    let served = serve(home.path(), &config);
    let report = report_of(&served, &commit);
    assert!(report.contains("first 1"), "{report}");
    repo.write("libs/starts/files/data.txt", "second");
    let report = report_of(&served, &repo.commit("other data"));
    assert!(report.contains("second 1"), "{report}");
}

const UNBLOCKS: &str = r#"
import fcntl, os
from inmanta.plugins import plugin

@plugin
def unblocks(n: "int") -> "string":
    """As an event loop does, of all files that it is given, and as programs do that inherit them; and packets, which are cut."""
    for number in os.listdir("/proc/self/fd"):
        try:
            fcntl.fcntl(int(number), fcntl.F_SETFL, os.O_NONBLOCK | os.O_DIRECT)
        except OSError:
            pass
    return f"unblocked {n}" + " " * 100000 + "whole"
"#;

/// Input: a plugin that makes all files of its process not block, which it has in common with the one that later compiles of the same Python code are forked from (docs/reference/security.md § 3.38). Answer: these block again.
#[test]
fn what_a_plugin_makes_of_the_files_of_its_process_harms_no_later_compile() {
    let home = tempfile::tempdir().unwrap();
    let model = |n| format!("import unblocker\nstd::print(unblocker::unblocks({n}))\n");
    let repo = repo_with(
        "unblocker",
        UNBLOCKS,
        "std::print(unblocker::unblocks(0))\n",
    );
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    for n in 1..4 {
        repo.write("main.cf", &model(n));
        let report = report_of(&served, &repo.commit("once more"));
        assert!(report.contains(&format!("unblocked {n}")), "{report}");
        assert!(report.contains("  whole"), "{report}");
    }
}

const ENVIRONMENT: &str = r#"
import os
from inmanta.plugins import Runtime, plugin

FACTS = dict(Runtime.inputs.get("facts") or {})

@plugin
def n_facts() -> "int":
    return len(FACTS)
"#;

/// A module that looks at what one compile was given while it is imported is imported anew for the next one.
#[test]
fn what_an_import_took_from_one_compile_is_not_kept() {
    let home = tempfile::tempdir().unwrap();
    let model = "n = facts::n_facts()\nstd::print(\"facts: {{n}}\")\n";
    let repo = repo_with("facts", ENVIRONMENT, model);
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("facts: 0"), "{report}");
    wait_until("its host has ended", || hosts(&served).is_empty());
    let answers = DataDir::new(home.path().join("data")).answers();
    let folders = fs::read_dir(answers).unwrap().flatten();
    let kept: usize = folders
        .map(|folder| fs::read_dir(folder.path()).unwrap().count())
        .sum();
    assert_eq!(kept, 0);
}

const FORGER: &str = r#"
import os
from inmanta.plugins import plugin

@plugin
def forge(folder: "string") -> "string":
    said = []
    for path in [os.path.join(folder, "new")] + [os.path.join(folder, name) for name in os.listdir(folder)]:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            said.append("written")
        except OSError as error:
            said.append(os.strerror(error.errno))
    return ", ".join(sorted(set(said)))
"#;

/// Input: a plugin that writes to the folder in which answers of Python code are kept for later commits (docs/reference/security.md § 4.1). Answer: it is refused, so no commit decides what the Python code of another one gives.
#[test]
fn python_code_does_not_write_what_later_compiles_take_for_its_answers() {
    let has_landlock = steward::sandbox::support().landlock > 0 && wrapper().is_empty();
    if !has_landlock && wrapper().is_empty() {
        return skip("Landlock");
    }
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("names", NAMES, "std::print(names::name_of(\"a\"))\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    first_report(&served);
    let answers = DataDir::new(home.path().join("data")).answers();
    let folder = fs::read_dir(answers)
        .unwrap()
        .flatten()
        .next()
        .unwrap()
        .path();
    assert!(fs::read_dir(&folder).unwrap().count() > 0);
    repo.write_module("forger", "", FORGER);
    let model = format!(
        "import forger\nstd::print(\"it was {{{{said}}}}\")\nsaid = forger::forge(\"{}\")\n",
        folder.display()
    );
    repo.write("main.cf", &model);
    let report = report_of(&served, &repo.commit("a forger"));
    // What starts the server for this test may have taken Landlock away; the rest of the way works without it.
    let expected = match has_landlock {
        true => "it was Permission denied\\n",
        false => "it was ",
    };
    assert!(report.contains(expected), "{report}");
}
