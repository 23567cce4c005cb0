//! What a compile may use, and that nothing of it stays.

use std::fs;

use super::{below, first_report, only_folder, repo_with, server_of};
use crate::harness::wait_until;
use crate::serve::serve;

const LEAVES: &str = r#"
import os, subprocess
from inmanta.plugins import plugin

@plugin
def leaves(name: "string") -> "string":
    subprocess.Popen(["sh", "-c", f"exec -a {name} sleep 600 || sleep 600"], executable="/bin/bash", start_new_session=True)
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/bash", ["bash", "-c", f"exec -a {name} sleep 600"])
        os._exit(0)
    os.waitpid(child, 0)
    with open(os.path.join(os.environ["TMPDIR"], "left"), "w") as file:
        file.write(name)
    return "left"
"#;

/// Processes with this name.
fn n_processes(name: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    commands
        .filter(|command| command.starts_with(name.as_bytes()))
        .count()
}

/// Input: a plugin that forks with `setsid` and leaves files (docs/reference/security.md § 4.5). Answer: nothing of it is left after the compile.
#[test]
fn what_a_plugin_starts_and_writes_does_not_outlive_the_compile() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("left-by-plugin-{}", std::process::id());
    let repo = repo_with(
        "leaver",
        LEAVES,
        &format!("std::print(leaver::leaves(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("left"), "{report}");
    wait_until("the processes are gone", || n_processes(&name) == 0);
    let scratch = only_folder(&home.path().join("data/python/scratch"));
    wait_until("the folder is empty", || {
        fs::read_dir(&scratch).unwrap().count() == 0
    });
}

const HANGS: &str = r#"
import os, time
from inmanta.plugins import plugin

@plugin
def hangs(name: "string") -> "string":
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/bash", ["bash", "-c", f"exec -a {name} sleep 600"])
        os._exit(0)
    time.sleep(600)
    return "never"
"#;

/// Input: kill -9 of the server while a plugin hangs and has a process in a session of its own (docs/reference/security.md § 4.5). Answer: all of it ends.
#[test]
fn nothing_of_a_compile_outlives_a_server_that_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("hangs-in-plugin-{}", std::process::id());
    let repo = repo_with(
        "hanger",
        HANGS,
        &format!("std::print(hanger::hangs(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let mut served = serve(home.path(), &config);
    wait_until("the plugin hangs", || n_processes(&name) == 1);
    served.child.kill().unwrap();
    served.child.wait().unwrap();
    wait_until("the process is gone", || n_processes(&name) == 0);
}

const HUNGRY: &str = r#"
import os, time
from inmanta.plugins import plugin

@plugin
def eats(n: "int", mib: "int") -> "string":
    for _ in range(n):
        if os.fork() == 0:
            eaten = bytearray(os.urandom(1 << 20)) * mib
            time.sleep(600)
            os._exit(len(eaten))
    time.sleep(600)
    return "never"
"#;

/// Input: six forks of a plugin that each take less memory than a process may (docs/reference/security.md § 4.5). Answer: they are ended, and the report names the limit and the call.
#[test]
fn memory_is_limited_over_all_processes_of_a_compile() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("hungry", HUNGRY, "x = hungry::eats(6, 300)\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
    assert!(report.contains("may take 1024 MiB"), "{report}");
    assert!(report.contains("main.cf:2"), "{report}");
}

const WRITES: &str = r#"
import os
from inmanta.plugins import plugin

@plugin
def writes() -> "string":
    number = 0
    while True:
        number += 1
        with open(os.path.join(os.environ["TMPDIR"], f"file-{number}"), "wb") as file:
            file.write(b"x" * (1 << 20))
"#;

/// Input: a plugin that writes many files into its scratch folder (docs/reference/security.md § 4.5). Answer: it is ended, the report names the quota, the folder is emptied.
#[test]
fn the_scratch_folder_has_a_quota() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("writer", WRITES, "x = writer::writes()\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ scratch_mib: 32 }}\n");
    // Lives until the folder is empty: a server that is killed ends its workers in the middle of that.
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    assert!(report.contains("wrote more than 32 MiB"), "{report}");
    let scratch = only_folder(&home.path().join("data/python/scratch"));
    wait_until("the folder is empty", || {
        fs::read_dir(&scratch).unwrap().count() == 0
    });
}

/// Input: kill -9 of the supervisor of a compile whose plugin has a process in a session of its own (docs/reference/security.md § 4.5, § 3.34). Answer: where there are control groups, all of it ends; the compile is given another worker.
#[test]
fn a_supervisor_that_is_killed_takes_all_with_it() {
    let home = tempfile::tempdir().unwrap();
    let name = format!("outlives-supervisor-{}", std::process::id());
    let repo = repo_with(
        "hanger",
        HANGS,
        &format!("std::print(hanger::hangs(\"{name}\"))\n"),
    );
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    wait_until("the plugin hangs", || n_processes(&name) == 1);
    let hanging = || -> Vec<i32> {
        let all = below(served.child.id()).into_iter();
        all.filter(|(_, command)| command.starts_with(&name))
            .map(|(id, _)| id)
            .collect()
    };
    let first = hanging();
    let group = fs::read_to_string(format!("/proc/{}/cgroup", first[0])).unwrap();
    if !group.contains("steward-sandbox-") {
        // Nobody but root may make control groups here.
        return;
    }
    let supervisors = below(served.child.id()).into_iter();
    let supervisors = supervisors.filter(|(_, command)| command.starts_with("steward supervise"));
    for (id, _) in supervisors {
        crate::harness::signal(u32::try_from(id).unwrap(), rustix::process::Signal::KILL);
    }
    wait_until(
        "another worker compiles, and the first one's processes are gone",
        || {
            let now = hanging();
            now.len() == 1 && now != first && n_processes(&name) == 1
        },
    );
}
