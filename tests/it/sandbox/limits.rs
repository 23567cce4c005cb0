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

const HEADLESS: &str = r#"
import ctypes, os, threading, time
from inmanta.plugins import plugin

@plugin
def headless(mib: "int") -> "string":
    ready = os.path.join(os.environ["TMPDIR"], f"ready-{mib}")
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        def work():
            kept = bytearray(os.urandom(1 << 20)) * mib
            with open(ready, "w") as file:
                file.write(open("/proc/self/task/%d/stat" % threading.get_native_id()).read())
            time.sleep(600)
        threading.Thread(target=work).start()
        # The first thread ends, and no other.
        ctypes.CDLL(None).syscall(60, 0)
    os.waitpid(child, 0)
    for _ in range(600):
        if os.path.exists(ready) and open(ready).read():
            break
        time.sleep(0.1)
    time.sleep(3 if mib > 500 else 0)
    with open(ready) as file, open("/proc/self/oom_score_adj") as score:
        return f"thread {file.read().split()[0]} of {score.read().strip()}"
"#;

/// Input: a plugin that starts a process whose first thread ends before the others, so that it looks as if it had ended (docs/reference/security.md § 4.5). Answer: it is ended after the compile; and the kernel would end it before the server if memory ran out.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_process_whose_first_thread_has_ended_does_not_outlive_the_compile() {
    let home = tempfile::tempdir().unwrap();
    let call = "std::print(headless::headless(1))\n";
    let repo = repo_with("headless", HEADLESS, call);
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let report = first_report(&served);
    let (_, behind) = report.split_once("thread ").expect(&report);
    let (thread, behind) = behind.split_once(" of ").unwrap();
    assert!(behind.starts_with("1000"), "{report}");
    let thread = format!("/proc/{thread}/stat");
    wait_until("the thread is gone", || !fs::exists(&thread).unwrap());
}

/// Input: memory of a process whose first thread has ended (docs/reference/security.md § 4.5). Answer: it counts.
#[test]
#[cfg(target_arch = "x86_64")]
fn memory_of_a_process_whose_first_thread_has_ended_counts() {
    let home = tempfile::tempdir().unwrap();
    let call = "x = headless::headless(600)\ny = headless::headless(601)\n";
    let repo = repo_with("headless", HEADLESS, call);
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
}

const SENDS: &str = r#"
import os, socket, time
from inmanta.plugins import plugin

@plugin
def sends(n: "int") -> "string":
    for _ in range(n):
        if os.fork() == 0:
            kept = []
            try:
                while True:
                    kept += socket.socketpair()
                    for end in kept[-2:]:
                        end.setblocking(False)
                        try:
                            while True:
                                end.send(b"x" * (1 << 16))
                        except BlockingIOError:
                            pass
            except OSError:
                time.sleep(600)
            os._exit(0)
    time.sleep(600)
    return "never"
"#;

/// Input: a plugin whose processes send to sockets that nobody reads, which the kernel keeps for them (docs/reference/security.md § 4.5). Answer: it counts as their memory.
#[test]
fn what_the_kernel_keeps_for_sockets_counts_as_memory() {
    if !steward::sandbox::support().seccomp {
        return crate::harness::skip("seccomp");
    }
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("sender", SENDS, "x = sender::sends(4)\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
}

const SPREADS: &str = r#"
import ctypes, os, time
from inmanta.plugins import plugin

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

@plugin
def spreads(n: "int") -> "string":
    """One byte in each GiB of the address space: a page that all have in common, and two pages of tables for each."""
    for _ in range(n):
        if os.fork() == 0:
            for number in range(60000):
                at = libc.mmap((1 << 44) + number * (1 << 30), 4096, 1, 0x22, -1, 0)
                ctypes.c_char.from_address(at).value
            time.sleep(600)
            os._exit(0)
    time.sleep(600)
    return "never"

@plugin
def one() -> "string":
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "one was started"

@plugin
def pipes(n: "int") -> "string":
    for _ in range(n):
        if os.fork() == 0:
            kept = []
            try:
                while True:
                    kept += os.pipe()
            except OSError:
                time.sleep(600)
            os._exit(0)
    time.sleep(600)
    return "never"
"#;

/// Input: a plugin whose processes touch a byte here and there of their address space, so that the tables of their pages are a hundred times as large as these (docs/reference/security.md § 4.5). Answer: they count as their memory.
#[test]
fn tables_of_pages_count_as_memory() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("spreader", SPREADS, "x = spreader::spreads(3)\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
}

/// Input: a plugin whose processes make as many pipes as they may (docs/reference/security.md § 4.5). Answer: each counts with what the kernel may keep for it.
#[test]
fn what_the_kernel_keeps_for_pipes_counts_as_memory() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("spreader", SPREADS, "x = spreader::pipes(40)\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 1024 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("all processes together took"), "{report}");
}

/// Input: a plugin that starts a process while the user of the server has thousands of others, as when another compile starts
/// them without end (docs/reference/security.md § 4.5). Answer: its own is started.
#[test]
fn what_else_the_user_has_started_keeps_no_compile_from_starting_processes() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("spreader", SPREADS, "std::print(spreader::one())\n");
    let (_, config) = server_of(home.path(), &repo);
    let is_over = std::sync::Arc::new(std::sync::Barrier::new(4501));
    let others: Vec<_> = (0..4500)
        .map(|_| {
            let is_over = std::sync::Arc::clone(&is_over);
            let thread = std::thread::Builder::new().stack_size(16 << 10);
            thread.spawn(move || is_over.wait()).unwrap()
        })
        .collect();
    let report = first_report(&serve(home.path(), &config));
    is_over.wait();
    for other in others {
        other.join().unwrap();
    }
    assert!(report.contains("one was started"), "{report}");
}

const LOCKS: &str = r#"
import errno, fcntl, os, struct
from inmanta.plugins import plugin

def lock(file, kind, start, length=1):
    fcntl.fcntl(file, fcntl.F_SETLK, struct.pack("hhqqi4x", kind, 0, start, length, 0))

@plugin
def locks() -> "string":
    """Parts of a file that do not touch one another."""
    files = [open(os.path.join(os.environ["TMPDIR"], f"locked{number}"), "w+") for number in range(100)]
    # Those that are given back do not count.
    for _ in range(10000):
        lock(files[0], fcntl.F_WRLCK, 0)
        lock(files[0], fcntl.F_UNLCK, 0)
    try:
        for number in range(100000):
            lock(files[number % 100], fcntl.F_WRLCK, number * 2)
    except OSError as error:
        refused = errno.errorcode[error.errno]
        for file in files:
            file.close()
        with open(os.path.join(os.environ["TMPDIR"], "locked"), "w+") as file:
            lock(file, fcntl.F_WRLCK, 0)
        return f"{refused} after {number // 1000} thousand"
    return "ENDLESS"
"#;

/// Input: a plugin that locks parts of files without end, each of which the kernel remembers (docs/reference/security.md § 4.5). Answer: eight thousand at a time; more are refused until some are given back.
#[test]
fn locks_of_parts_of_files_have_a_limit() {
    let support = steward::sandbox::support();
    if !support.attributes {
        return crate::harness::skip("seccomp with notifications");
    }
    let home = tempfile::tempdir().unwrap();
    let model = "std::print(locker::locks())\n";
    let repo = repo_with("locker", LOCKS, model);
    let (_, config) = server_of(home.path(), &repo);
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("ENOLCK after 8 thousand"), "{report}");
}

const FORKS: &str = r#"
import os, threading, time
from inmanta.plugins import plugin

@plugin
def forks() -> "string":
    while True:
        try:
            if os.fork() == 0:
                os.setsid()
        except OSError:
            time.sleep(0.1)

@plugin
def threads() -> "string":
    threading.stack_size(32768)
    try:
        for number in range(4000):
            threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    except RuntimeError:
        return f"{number} threads were enough"
    return "ENDLESS"
"#;

/// Input: a plugin that starts processes without end, each in a session of its own (docs/reference/security.md § 4.5). Answer: none is started before it is counted; they are ended, the report names the limit, and the server answers meanwhile.
#[test]
fn processes_without_end_are_ended() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("forker", FORKS, "x = forker::forks()\n");
    let (_, config) = server_of(home.path(), &repo);
    let served = serve(home.path(), &config);
    let most = std::sync::atomic::AtomicUsize::new(0);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::sync::atomic::Ordering::Relaxed;
            while !is_over.load(Relaxed) {
                most.fetch_max(below(served.child.id()).len(), Relaxed);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        let report = first_report(&served);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        report
    });
    assert!(
        report.contains("and may be 1024: they were ended"),
        "{report}"
    );
    let most = most.into_inner();
    // 2 048 may be there when they are counted, and each of them may have been allowed to start another one.
    assert!(most < 2 * 2048 + 200, "there were {most} processes");
    assert_eq!(served.health(), 200);
}

/// Input: a plugin that starts threads without end (docs/reference/security.md § 4.5). Answer: at a limit no more are started.
#[test]
fn threads_without_end_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("forker", FORKS, "std::print(forker::threads())\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ memory_mib: 65536 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("threads were enough"), "{report}");
    assert!(!report.contains("ENDLESS"), "{report}");
}

const HIDES: &str = r#"
import ctypes, os, time
from inmanta.plugins import plugin

@plugin
def hides() -> "string":
    assert ctypes.CDLL(None).prctl(4, 0, 0, 0, 0) == 0
    path = os.path.join(os.environ["TMPDIR"], "removed")
    with open(path, "wb") as file:
        os.unlink(path)
        file.write(b"x" * (64 << 20))
        time.sleep(600)
    return "never"
"#;

/// Input: a plugin that forbids others to look at what it has open (`PR_SET_DUMPABLE`), and writes to a file that it has removed (docs/reference/security.md § 4.5). Answer: it is ended, as its files cannot be counted.
#[test]
fn who_hides_its_open_files_is_ended() {
    let home = tempfile::tempdir().unwrap();
    let repo = repo_with("hider", HIDES, "x = hider::hides()\n");
    let (_, config) = server_of(home.path(), &repo);
    let config = format!("{config}compile: {{ scratch_mib: 32 }}\n");
    let report = first_report(&serve(home.path(), &config));
    assert!(report.contains("hides what it has open"), "{report}");
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
