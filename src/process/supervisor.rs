//! `steward supervise PROGRAM ARGUMENTS…`: stays with a program, so that nothing of it outlives it
//! or us, and holds what no single process can be held to.
//!
//! # Why there is a process between
//!
//! The server starts compile workers, executors and pip, and these start programs of others, which
//! start more. When the server ends, or a compile is over, all of it has to end. Nothing in the
//! kernel does that by itself: the death signal (`PR_SET_PDEATHSIG`) reaches one process and not
//! its children; a process group is left by anybody who calls `setsid`; a process whose parent ends
//! becomes a child of process 1, and nobody knows whose it was.
//!
//! So this process stays between, does nothing of its own, and
//!
//! - is the *subreaper* of all below it: whoever loses a parent there becomes its child, whatever
//!   session or group it went to. So "all that the program ever started" is always the tree below
//!   this process, and can be read from `/proc`;
//! - ends that tree when the program ends, and when its own parent dies, which it learns by the
//!   death signal;
//! - is the supervisor of the program's sandbox ([`Broker`]), which has to be outside of the
//!   sandbox;
//! - adds up the memory and counts the processes of the tree, since the limits of the kernel are
//!   for one process; memory is also what the kernel keeps for their sockets, pipes and page tables. Over the limit, first everything below the program is ended, so that a
//!   program that knows what it was doing can say so (a compile worker names the call of the
//!   plugin), then, if there is still too much, the program itself.
//!
//! ```text
//! server ── steward supervise ── compile worker ── Python host ── fork of it ── sh ── sleep
//!               │                                                               (ends)   │
//!               └───────── sleep has become a child of the subreaper ────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - The order in [`supervise`] leaves no moment in which something is lost: the program starts
//!   before signals are blocked, since it would inherit that; the death signal is asked for after
//!   they are, since it would end this process alone; and a parent that died before is noticed by
//!   its id.
//! - To end a tree, all of it is stopped first and then killed (`descendants`), or it could start
//!   processes faster than they are ended.
//! - The program itself is waited for through its handle only, so its id means nobody else before
//!   we have its status.
//! - Control groups (`cgroup`), where they can be made, are for the day on which this process
//!   itself is killed.

use std::ffi::OsString;
use std::io;
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{self, SigSet};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use super::cgroup::{self, CGROUP};
use super::descendants::{
    below, buffer_bytes, children, end_all, is_running, memory_bytes, n_locks, n_tasks, parent,
    reap,
};
use crate::sandbox::{Broker, Kin, SUPERVISOR, SupervisorLink};

/// What a program is supervised with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Supervision {
    /// The process that must be our parent still; `None`: whoever it is.
    pub parent: Option<u32>,
    /// All processes below the program are seen to, not only its process group, and the program may
    /// enter a sandbox.
    pub all: bool,
    /// The limit for the memory of all processes together, in bytes.
    pub memory_bytes: Option<u64>,
}

/// Processes that a program may have below it at the same time.
const MAX_PROCESSES: usize = 1024;
/// The time between two looks at the memory: short while it changes, up to the longest while
/// nothing happens.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(400);
/// However fast memory could grow, the time between two looks is not shorter: a look takes about a hundredth of that.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
/// What one processor fills of new memory in a second, in bytes, when it does nothing else.
const FILLED_BYTES: u64 = 4 << 30;
/// A change of memory, in bytes, that makes us look more often.
const NOTABLE_BYTES: u64 = 4 << 20;

/// Runs a program to its end, or to ours.
///
/// # Errors
/// The program cannot be started, or our parent is gone.
pub fn supervise(
    supervision: Supervision,
    program: &OsString,
    arguments: &[OsString],
) -> io::Result<ExitStatus> {
    let Supervision { parent, all, .. } = supervision;
    if parent.is_some_and(|parent| std::os::unix::process::parent_id() != parent) {
        return Err(io::Error::other("the parent is gone"));
    }
    if let Some(group) = std::env::var_os(CGROUP) {
        // Before anything is started, so that all of it is in there. Without the group this process does its work alone.
        let _ = cgroup::join(Path::new(&group));
    }
    let mut command = Command::new(program);
    command.env_remove(CGROUP);
    command.args(arguments).env_remove(SUPERVISOR);
    if std::env::var_os(super::PARENT).is_some() {
        command.env(super::PARENT, std::process::id().to_string());
    }
    let mut link = None;
    if all {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let (ours, theirs) = SupervisorLink::pair()?;
        command.env(SUPERVISOR, theirs.as_raw_fd().to_string());
        link = Some((Arc::new(ours), theirs));
    }
    // The order is what makes this sound. The program must not inherit blocked signals, so it starts first; the death
    // signal is asked for only when it can no longer end us alone; whose parent died before that sees it.
    let child = command.spawn()?;
    if all {
        // Whatever is below takes all processors that it gets, and must be ended all the same. Root may ask for more of them;
        // of others the kernel limits the number of processes.
        let _ = rustix::process::setpriority_process(None, -10);
    }
    let signals = SigSet::from_iter([signal::SIGTERM, signal::SIGCHLD]);
    signals.thread_block()?;
    let link = link.map(|(ours, _)| ours);
    if let Some(link) = &link {
        serve_sandbox(Arc::clone(link), child.id());
        watch(supervision, child.id(), Arc::clone(link));
    }
    wait(child, supervision, &signals)
}

/// Waits for the program to end, or for our parent to die; either way ends what is left.
fn wait(mut child: Child, supervision: Supervision, signals: &SigSet) -> io::Result<ExitStatus> {
    let give_up = || {
        if supervision.all {
            end_all_below();
        }
        kill_own_group()
    };
    if !super::signal_with_parent(Signal::TERM, supervision.parent) {
        return Err(give_up());
    }
    // The child's end from before the signals were blocked is seen here, any other is signalled.
    loop {
        if let Some(status) = child.try_wait()? {
            if supervision.all {
                end_all_below();
            }
            return Ok(status);
        }
        reap_orphans(child.id());
        if signals.wait()? == signal::SIGTERM {
            return Err(give_up());
        }
    }
}

/// Makes changes of attributes, and sends signals, for the program's sandbox, if it enters one.
fn serve_sandbox(link: Arc<SupervisorLink>, program: u32) {
    let kin = Kin {
        below: |process| below([process]),
        parent,
        n_tasks,
        n_locks,
    };
    std::thread::spawn(move || {
        if let Ok(Some(broker)) = Broker::accept(&link, program, kin) {
            broker.serve();
        }
    });
}

/// Looks at the memory of all processes together, and at how many there are.
fn watch(supervision: Supervision, child: u32, link: Arc<SupervisorLink>) {
    let Ok(child) = i32::try_from(child) else {
        return;
    };
    let limit = supervision.memory_bytes.unwrap_or(u64::MAX);
    let n_processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::spawn(move || {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let (mut pause, mut before, mut was_over) = (SHORTEST_PAUSE, 0, false);
        loop {
            std::thread::sleep(pause);
            let all = below([own]);
            let mut memory = memory_bytes(&all, limit);
            if limit < u64::MAX {
                memory = memory.saturating_add(buffer_bytes(&all, limit));
            }
            // What was ended a moment ago may still wait for its parent to take note.
            let n_processes = match was_over {
                true => all.iter().filter(|process| is_running(**process)).count(),
                false => all.len(),
            };
            let Some(reason) = excess(memory, limit, n_processes) else {
                was_over = false;
                pause = match memory.abs_diff(before) {
                    NOTABLE_BYTES.. => SHORTEST_PAUSE,
                    _ => (pause * 2).min(LONGEST_PAUSE),
                };
                pause = pause.min(time_to_fill(limit.saturating_sub(memory), n_processors));
                before = memory;
                continue;
            };
            link.notify(&reason);
            tell(&reason);
            // All but the program; the second time, the program itself.
            end_all(|| {
                let mut found = below([own]);
                if !was_over {
                    found.remove(&child);
                }
                found
            });
            (was_over, pause) = (true, SHORTEST_PAUSE);
        }
    });
}

/// The shortest time in which so many bytes can be filled, as far as it is worth a look.
fn time_to_fill(n_bytes: u64, n_processors: usize) -> Duration {
    let in_a_millisecond = (FILLED_BYTES / 1000).saturating_mul(n_processors as u64);
    Duration::from_millis(n_bytes / in_a_millisecond.max(1)).max(LEAST_PAUSE)
}

/// Why there is too much; `None`: there is not.
fn excess(memory_bytes: u64, limit: u64, n_processes: usize) -> Option<String> {
    if memory_bytes > limit {
        return Some(format!(
            "all processes together took {} MiB of memory, and may take {} MiB: they were ended",
            memory_bytes >> 20,
            limit >> 20
        ));
    }
    (n_processes > MAX_PROCESSES).then(|| {
        format!("there were {n_processes} processes, and may be {MAX_PROCESSES}: they were ended")
    })
}

/// Writes a line where the parent reads it, or has it logged.
#[expect(clippy::print_stderr, reason = "the parent reads it, or has it logged")]
fn tell(reason: &str) {
    eprintln!("steward: {reason}");
}

/// Ends all processes below this one.
fn end_all_below() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    end_all(|| below([own]));
}

/// Takes note of the end of processes that came to us when their parents ended.
fn reap_orphans(child: u32) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // The program stays as it is, for its handle to take note of; while it has ended, others wait until the next call.
    while let Ok(Some(_)) = rustix::process::waitid(WaitId::All, options) {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let others = children(own)
            .into_iter()
            .filter(|id| u32::try_from(*id) != Ok(child));
        if others.filter(|id| reap(*id)).count() == 0 {
            return;
        }
    }
}

/// Ends this process and the program with all of their group; comes back only if that is refused.
fn kill_own_group() -> io::Error {
    match rustix::process::kill_current_process_group(Signal::KILL) {
        Ok(()) => io::Error::other("killed"),
        Err(error) => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_processors_and_the_less_room_the_sooner_is_the_next_look() {
        assert!(time_to_fill(u64::MAX, 64) > LONGEST_PAUSE);
        assert!(time_to_fill(2 << 30, 2) > SHORTEST_PAUSE);
        assert!(time_to_fill(2 << 30, 16) < SHORTEST_PAUSE);
        assert_eq!(time_to_fill(2 << 30, 1024), LEAST_PAUSE);
        assert_eq!(time_to_fill(0, 1), LEAST_PAUSE);
    }

    #[test]
    fn what_is_too_much_is_named_with_its_limit() {
        assert_eq!(excess(5 << 20, u64::MAX, 3), None);
        let memory = excess(65 << 20, 64 << 20, 3).unwrap();
        assert!(
            memory.contains("65 MiB") && memory.contains("64 MiB"),
            "{memory}"
        );
        let processes = excess(0, u64::MAX, MAX_PROCESSES + 1).unwrap();
        assert!(processes.contains("1025 processes"), "{processes}");
    }
}
