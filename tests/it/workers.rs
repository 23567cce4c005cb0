//! Compile workers: what a compile says whose worker was killed, and what of one goes on after it.

use std::fs;
use std::time::Duration;

use crate::harness::{Repo, wait_until};
use crate::sandbox::{below, first_report, repo_with, report_of, server_of};
use crate::serve::serve;

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

/// Input: a module that starts a thread when it is imported, which is not one of `threading` (docs/reference/security.md § 4.5). Answer: the process that keeps the imported modules for the next compile is stopped until then; the next compile works.
#[test]
fn threads_of_modules_do_not_run_between_compiles() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("spinner", SPINS, "std::print(spinner::works(\"one\"))\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("works one"), "{report}");
    let server = served.child.id();
    let hosts = || -> Vec<i32> {
        let all = below(server).into_iter();
        let hosts = all.filter(|(_, command)| command.contains("steward_host"));
        hosts.map(|(id, _)| id).collect()
    };
    let is_stopped = |id: &i32| state_and_time(*id).0 == "T";
    wait_until("the hosts are stopped", || {
        !hosts().is_empty() && hosts().iter().all(is_stopped)
    });
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
