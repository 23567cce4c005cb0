//! The processes below a process: found in `/proc`, measured, and ended without a chance to get away.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

/// How often a set of processes is looked at again while it is being stopped or ended.
const MAX_ROUNDS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(2);

/// The direct children of a process, whichever of its threads started them.
pub fn children(process: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let lists = threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let ids = list.split_whitespace().filter_map(|id| id.parse().ok());
            ids.collect::<Vec<i32>>()
        })
        .collect()
}

/// All processes below these, without themselves.
pub fn below(processes: impl IntoIterator<Item = i32>) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    let mut open: Vec<i32> = processes.into_iter().collect();
    let by_parent = if has_lists() { None } else { Some(parents()) };
    while let Some(process) = open.pop() {
        let children = match &by_parent {
            None => children(process),
            Some(parents) => {
                let own = parents.iter().filter(|(_, parent)| *parent == process);
                own.map(|(id, _)| *id).collect()
            }
        };
        open.extend(children.into_iter().filter(|child| found.insert(*child)));
    }
    found
}

/// Whether the kernel lists the children of a thread.
fn has_lists() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero();
    fs::exists(format!("/proc/{own}/task/{own}/children")).unwrap_or(false)
}

/// Each process with its parent.
fn parents() -> Vec<(i32, i32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let parents = entries.filter_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        Some((id, parent(id)?))
    });
    parents.collect()
}

/// The parent of a process; `None`: it is gone.
pub fn parent(process: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in brackets, may be any text.
    stat.rsplit(')')
        .next()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Ends the processes that `find` gives, until it gives none any more. They are stopped first, so that nothing multiplies
/// faster than it is ended; who loses a parent that way becomes a child of ours, if we are a subreaper.
pub fn end_all(find: impl Fn() -> BTreeSet<i32>) {
    // What has ended already waits for its parent to take note.
    let find = || -> BTreeSet<i32> { find().into_iter().filter(|id| is_running(*id)).collect() };
    for _ in 0..MAX_ROUNDS {
        let mut found = find();
        if found.is_empty() {
            return;
        }
        for _ in 0..MAX_ROUNDS {
            signal_all(&found, Signal::STOP);
            let now = find();
            let is_all = now.is_subset(&found);
            found = now;
            if is_all {
                break;
            }
        }
        signal_all(&found, Signal::KILL);
        std::thread::sleep(PAUSE);
    }
}

/// Stops processes with all that is below them, until [`resume`].
pub fn pause(processes: &BTreeSet<i32>) {
    // First those above: they start nothing more.
    signal_all(processes, Signal::STOP);
    signal_all(&below(processes.iter().copied()), Signal::STOP);
}

/// Lets processes, with all that is below them, go on.
pub fn resume(processes: &BTreeSet<i32>) {
    signal_all(&below(processes.iter().copied()), Signal::CONT);
    signal_all(processes, Signal::CONT);
}

/// Kills a child of ours and its descendants, whatever process group they went to: first the child is stopped, so that it
/// starts nothing more, then what is below it is killed, then the child. What was given away (a daemon, whose parent has
/// ended) is nobody's descendant and stays. The child must not have been waited for yet.
pub fn kill_tree(child: u32) {
    let Some(root) = super::pid(child) else {
        return;
    };
    // It may have ended by itself.
    let _ = rustix::process::kill_process(root, Signal::STOP);
    let id = root.as_raw_nonzero().get();
    end_all(|| below([id]));
    let _ = rustix::process::kill_process(root, Signal::KILL);
}

fn signal_all(processes: &BTreeSet<i32>, signal: Signal) {
    for process in processes.iter().filter_map(|id| Pid::from_raw(*id)) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(process, signal);
    }
}

fn is_running(process: i32) -> bool {
    !matches!(state(process), None | Some('Z' | 'X'))
}

/// The letter by which the kernel tells what a process does; `None`: there is none.
fn state(process: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in brackets, may be any text.
    stat.rsplit(')').next()?.trim_start().chars().next()
}

/// Whether a process runs or waits: it has not ended. One that nobody has waited for counts as ended.
pub fn is_alive(process: u32) -> bool {
    i32::try_from(process).is_ok_and(is_running)
}

/// Whether a process was stopped by a signal (SIGSTOP), and not by a debugger.
pub fn is_stopped(process: u32) -> bool {
    i32::try_from(process).is_ok_and(|process| state(process) == Some('T'))
}

/// Takes note of the end of a child of ours; whether there was one to take note of.
pub fn reap(process: i32) -> bool {
    let process = Pid::from_raw(process);
    process.is_some_and(|process| {
        let waited = rustix::process::waitpid(Some(process), WaitOptions::NOHANG);
        matches!(waited, Ok(Some(_)))
    })
}

/// The memory that processes have in use together. Pages that some of them share count once: first the sum of what each
/// has is taken, which is quick and too much, and the exact sum only where that is over `limit`.
pub fn memory_bytes(processes: &BTreeSet<i32>, limit: u64) -> u64 {
    let page = rustix::param::page_size() as u64;
    let resident = processes.iter().filter_map(|process| {
        let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(pages.saturating_mul(page))
    });
    let resident: u64 = resident.fold(0, u64::saturating_add);
    if resident <= limit {
        return resident;
    }
    let shares = processes.iter().filter_map(|process| share(*process));
    shares.fold(0, u64::saturating_add)
}

/// A process's share of the memory that it has in use: what n processes share counts an nth.
fn share(process: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_is_below_a_process_is_found_measured_and_ended() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 100 & setsid sleep 100 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let id = i32::try_from(shell.id()).unwrap();
        let found = below([id]);
        assert!(found.len() >= 2 && !found.contains(&id), "{found:?}");
        assert!(parents().iter().filter(|(_, parent)| *parent == id).count() >= 2);
        assert!(memory_bytes(&found, u64::MAX) > 0);
        let exact = memory_bytes(&found, 0);
        assert!(exact > 0 && exact <= memory_bytes(&found, u64::MAX));
        end_all(|| below([id]));
        assert!(below([id]).into_iter().all(|process| !is_running(process)));
        shell.wait().unwrap();
    }
}
