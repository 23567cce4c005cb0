//! `steward tied PROGRAM ARGUMENTS…`: runs the program in a process group that dies when our parent does.
//!
//! A death signal of the kernel's reaches one process only, and a shell that dies leaves its children: so we stay
//! between, and kill the group when the signal comes. With `--all` we are also whom orphans below us come to, so that
//! nothing that the program started outlives it or us, whatever group it went to.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::{self, SigSet};
use rustix::process::{Pid, Resource, Rlimit, WaitOptions};

use crate::process;

#[expect(
    clippy::print_stderr,
    reason = "there is no log in the program it stands for"
)]
pub(super) fn run(parent: Option<u32>, all: bool, command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::from(super::USAGE);
    };
    // Our callers gave us a group already; a person may not have.
    let _ = rustix::process::setpgid(None, None);
    match run_tied(parent, all, Command::new(program).args(arguments)) {
        Ok(status) => end_as(status),
        Err(error) => {
            eprintln!("cannot run {}: {error}", program.to_string_lossy());
            ExitCode::from(127)
        }
    }
}

fn run_tied(parent: Option<u32>, all: bool, command: &mut Command) -> io::Result<ExitStatus> {
    if parent.is_some_and(|parent| std::os::unix::process::parent_id() != parent) {
        return Err(io::Error::other("the parent is gone"));
    }
    if all {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    // The order is what makes this sound. The program must not inherit blocked signals, so it starts first; the death
    // signal is asked for only when it can no longer end us alone; whose parent died before that sees it.
    let mut child = command.spawn()?;
    let signals = SigSet::from_iter([signal::SIGTERM, signal::SIGCHLD]);
    signals.thread_block()?;
    let give_up = || {
        if all {
            kill_descendants();
        }
        kill_own_group()
    };
    if !process::signal_with_parent(rustix::process::Signal::TERM, parent) {
        return Err(give_up());
    }
    // The child's end from before the signals were blocked is seen here, any other is signalled.
    loop {
        if let Some(status) = child.try_wait()? {
            if all {
                kill_descendants();
            }
            return Ok(status);
        }
        if signals.wait()? == signal::SIGTERM {
            return Err(give_up());
        }
    }
}

/// Kills all that is below us. It is stopped first, so that nothing multiplies faster than it is killed; who loses a
/// parent that way becomes a child of ours.
fn kill_descendants() {
    const TURNS: u32 = 1000;
    for _ in 0..TURNS {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let mut found = descendants();
        if found.is_empty() {
            return;
        }
        for _ in 0..TURNS {
            signal_all(&found, rustix::process::Signal::STOP);
            let now = descendants();
            let is_all = now.is_subset(&found);
            found = now;
            if is_all {
                break;
            }
        }
        signal_all(&found, rustix::process::Signal::KILL);
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal_all(processes: &BTreeSet<i32>, signal: rustix::process::Signal) {
    for process in processes.iter().filter_map(|id| Pid::from_raw(*id)) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, signal);
    }
}

/// All processes below this one, by what each says its parent is.
fn descendants() -> BTreeSet<i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents = entries.filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name before it, in brackets, may be any text.
        let parent = stat.rsplit(')').next()?.split_whitespace().nth(1)?;
        Some((id, parent.parse().ok()?))
    });
    let parents: Vec<(i32, i32)> = parents.collect();
    let mut found = BTreeSet::new();
    let mut open = vec![rustix::process::getpid().as_raw_pid()];
    while let Some(parent) = open.pop() {
        let below = parents.iter().filter(|(_, its)| *its == parent);
        let below = below.map(|(id, _)| *id).filter(|id| found.insert(*id));
        open.extend(below.collect::<Vec<_>>());
    }
    found
}

/// Ends this process and the program with all that it started; comes back only if that is refused.
fn kill_own_group() -> io::Error {
    match rustix::process::kill_current_process_group(rustix::process::Signal::KILL) {
        Ok(()) => io::Error::other("killed"),
        Err(error) => error.into(),
    }
}

/// Ends as the program did: with its exit status, or by its signal.
fn end_as(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt;
    if let Some(code) = status.code() {
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    let number = status.signal().unwrap_or_default();
    if let Ok(signal) = signal::Signal::try_from(number) {
        // If there is a core dump, it is the program's.
        let none = Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        let _ = rustix::process::setrlimit(Resource::Core, none);
        let _ = SigSet::all().thread_unblock();
        let _ = signal::raise(signal);
    }
    // A signal that we ignore or do not know; the code is what a shell would make of it.
    ExitCode::from(u8::try_from(128 + number).unwrap_or(u8::MAX))
}
