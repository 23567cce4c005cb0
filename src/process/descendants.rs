//! The processes below a process: found in `/proc`, measured, and ended without a chance to get away.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};

/// How often a set of processes is looked at again while it is being stopped or ended.
const MAX_ROUNDS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(2);
/// What a socket may keep of what was sent, where the kernel does not say: its own default.
const SOCKET_BUFFER_BYTES: u64 = 212_992;
/// What the kernel keeps for one pipe, as it makes them; larger ones have to share a small part of the machine's memory
/// (`fs.pipe-user-pages-soft`).
const PIPE_BYTES: u64 = 64 << 10;
/// Files that a process can have open in a sandbox (`sandbox::limits`).
const MAX_OPEN_FILES: u64 = 1024;

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

/// How many processes and threads there are below a process.
pub fn n_tasks(process: i32) -> usize {
    let processes = below([process]).into_iter();
    // The folder of threads has one folder for each, its own name, and one in itself.
    let threads =
        processes.filter_map(|process| fs::metadata(format!("/proc/{process}/task")).ok());
    let threads = threads.map(|tasks| tasks.nlink().saturating_sub(2));
    threads
        .map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        .fold(0, usize::saturating_add)
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

/// Whether a process, or one of its threads, has not ended.
pub fn is_running(process: i32) -> bool {
    living_thread(process).is_some()
}

/// A thread of the process that has not ended, which the kernel is to be asked about: the first one may have ended before the
/// others. The process then looks as if it had ended, and as if it had neither memory nor open files. `None`: all have ended.
pub fn living_thread(process: i32) -> Option<i32> {
    let has_ended = |thread: i32| matches!(state(thread), None | Some('Z' | 'X'));
    if !has_ended(process) {
        return Some(process);
    }
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    let mut threads = threads
        .flatten()
        .filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    threads.find(|thread| !has_ended(*thread))
}

/// The letter by which the kernel tells what a process, or a thread, does; `None`: there is none.
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
    let resident: Vec<(i32, u64)> = processes
        .iter()
        .filter_map(|process| Some((*process, resident(*process)?)))
        .collect();
    let sum = |bytes: &mut dyn Iterator<Item = u64>| bytes.fold(0, u64::saturating_add);
    let quick = sum(&mut resident.iter().map(|(_, bytes)| *bytes));
    if quick <= limit {
        return quick;
    }
    // Whoever does not let us look at what it shares counts with all it has.
    sum(&mut resident
        .into_iter()
        .map(|(process, bytes)| share(process).unwrap_or(bytes)))
}

/// What a process has in use, in bytes; `None`: it is gone.
fn resident(process: i32) -> Option<u64> {
    match used(process)? {
        0 => used(living_thread(process)?),
        bytes => Some(bytes),
    }
}

/// The resident pages of a process, and the tables that say where they are: these are the kernel's, and may be many times as
/// large, since whoever touches a byte here and a byte there gets a page of a table for each. 0: it has no memory any more.
fn used(thread: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    Some(kib(&text, "VmRSS:").saturating_add(kib(&text, "VmPTE:")) << 10)
}

/// A number behind its name, in a text of the kernel; 0: it is not there.
fn kib(text: &str, name: &str) -> u64 {
    let number = text.lines().find_map(|line| line.strip_prefix(name));
    let number = number.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    number.unwrap_or_default()
}

/// A process's share of the memory that it has in use: what n processes share counts an nth, and each has tables of its own.
fn share(process: i32) -> Option<u64> {
    let thread = living_thread(process)?;
    let pages = fs::read_to_string(format!("/proc/{thread}/smaps_rollup")).ok()?;
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    Some(kib(&pages, "Pss:").saturating_add(kib(&status, "VmPTE:")) << 10)
}

/// What the kernel may keep for the sockets and pipes of processes, in bytes: what was sent and not read yet is no process's
/// memory. Each counts with the most that it may have, as nobody else is told how much it is; one that several have open
/// counts once. Beyond `limit` it is not counted on.
///
/// Open files that are on their way from one process to another are in a socket, and may be sockets. A process that does not
/// let us look at its open files may have as many as a process can.
pub fn buffer_bytes(processes: &BTreeSet<i32>, limit: u64) -> u64 {
    let each = socket_buffer_bytes();
    let (mut sockets, mut pipes, mut n_unseen) = (BTreeSet::new(), BTreeSet::new(), 0_u64);
    let mut sum = 0;
    for process in processes {
        match open_files(*process) {
            Err(_) => n_unseen = n_unseen.saturating_add(MAX_OPEN_FILES),
            Ok(files) => {
                for file in files {
                    if file.is_pipe() {
                        pipes.insert(file.target);
                    } else if file.is_socket() {
                        let n_sent = file.n_on_their_way();
                        if sockets.insert(file.target) {
                            n_unseen = n_unseen.saturating_add(n_sent);
                        }
                    }
                }
            }
        }
        let n_sockets = n_unseen.saturating_add(sockets.len() as u64);
        let of_pipes = PIPE_BYTES.saturating_mul(pipes.len() as u64);
        sum = n_sockets.saturating_mul(each).saturating_add(of_pipes);
        if sum > limit {
            break;
        }
    }
    sum
}

/// How many parts of files the processes below one have locked. A lock of a process that is gone, whose open files another
/// one has in common with it, counts for all.
pub fn n_locks(process: i32) -> usize {
    let list = fs::read_to_string("/proc/locks").unwrap_or_default();
    let processes = below([process]);
    // Other machines' have numbers below zero.
    let is_ours = |owner: i32| processes.contains(&owner) || (owner > 0 && !is_running(owner));
    // `7: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 9`; who waits for a lock has an arrow before the second word.
    let owners = list.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_posix = words.next()? == "POSIX";
        let owner = words.nth(2)?.parse().ok()?;
        is_posix.then_some(owner)
    });
    owners.filter(|owner| is_ours(*owner)).count()
}

/// An open file of a process.
#[derive(Debug)]
pub struct OpenFile {
    /// Its name in `/proc`, which leads to it.
    pub path: PathBuf,
    /// What it is: a path, or a kind and a number.
    pub target: PathBuf,
}

/// The open files of a process; none, if it is gone.
///
/// # Errors
/// The process does not let us look: it hides itself (`PR_SET_DUMPABLE`), or runs a program that nobody may read.
pub fn open_files(process: i32) -> io::Result<Vec<OpenFile>> {
    match open_files_of_living(process) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_ending(process) => {
            Ok(Vec::new())
        }
        found => found,
    }
}

/// Whether a process is on its way out: none of its threads has memory any more. To give back gigabytes takes a while, in which
/// it does not count as ended yet, and what is left of it belongs to root.
fn is_ending(process: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.all(|thread| {
        let sizes = fs::read_to_string(thread.path().join("statm"));
        sizes.map_or_else(|error| is_gone(&error), |sizes| sizes.starts_with("0 "))
    })
}

fn open_files_of_living(process: i32) -> io::Result<Vec<OpenFile>> {
    let Some(thread) = living_thread(process) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let handles = match fs::read_dir(format!("/proc/{thread}/fd")) {
        Err(error) if is_gone(&error) => return Ok(found),
        handles => handles?,
    };
    for handle in handles {
        let path = match handle {
            Err(error) if is_gone(&error) => break,
            handle => handle?.path(),
        };
        match fs::read_link(&path) {
            Err(error) if is_gone(&error) => {}
            target => found.push(OpenFile {
                target: target?,
                path,
            }),
        }
    }
    Ok(found)
}

/// Whether an error of `/proc` means that the process, or its open file, is not there any more.
pub fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

impl OpenFile {
    pub fn is_socket(&self) -> bool {
        let target = self.target.as_os_str().as_encoded_bytes();
        target.starts_with(b"socket:")
    }

    pub fn is_pipe(&self) -> bool {
        let target = self.target.as_os_str().as_encoded_bytes();
        target.starts_with(b"pipe:")
    }

    /// How many open files were sent into this socket, and not received yet (Linux 5.9).
    pub fn n_on_their_way(&self) -> u64 {
        let about = || {
            let folder = self.path.parent()?.with_file_name("fdinfo");
            let about = fs::read_to_string(folder.join(self.path.file_name()?)).ok()?;
            let number = about
                .lines()
                .find_map(|line| line.strip_prefix("scm_fds:"))?;
            number.trim().parse().ok()
        };
        about().unwrap_or_default()
    }
}

/// What the kernel keeps for one socket at most: a message may be begun while there is any room, and be as large as all of it.
fn socket_buffer_bytes() -> u64 {
    let text = fs::read_to_string("/proc/sys/net/core/wmem_default");
    let bytes = text.ok().and_then(|text| text.trim().parse::<u64>().ok());
    bytes.unwrap_or(SOCKET_BUFFER_BYTES).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Given: a process that runs, and one that has given its memory back and that nobody has waited for.
    #[test]
    fn a_process_without_memory_is_on_its_way_out() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        while is_running(id) {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(is_ending(id));
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(!is_ending(own));
        child.wait().unwrap();
        assert!(open_files(id).unwrap().is_empty());
    }

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
        let name = |process| fs::read_to_string(format!("/proc/{process}/comm"));
        let is_sleep = |process| name(process).is_ok_and(|name| name == "sleep\n");
        // Until then they are copies of the shell, whose memory goes when they become what they shall be.
        while below([id]).into_iter().filter(|one| is_sleep(*one)).count() < 2 {
            std::thread::sleep(PAUSE);
        }
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

    /// The first thread of a process ends, another one has 64 MiB and a socket.
    const HEADLESS: &str = r#"
import ctypes, os, socket, threading, time
def work():
    kept = (bytearray(os.urandom(1 << 20)) * 64, socket.socketpair())
    os.write(1, b"x")
    time.sleep(600)
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall(60, 0)
"#;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_process_whose_first_thread_has_ended_is_one_still() {
        let mut python = Command::new("python3")
            .args(["-c", HEADLESS])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(python.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let id = i32::try_from(python.id()).unwrap();
        while state(id) != Some('Z') {
            std::thread::sleep(PAUSE);
        }
        let processes = BTreeSet::from([id]);
        assert!(is_running(id));
        assert!(memory_bytes(&processes, u64::MAX) > 64 << 20);
        assert!(memory_bytes(&processes, 0) > 64 << 20);
        let n_sockets = buffer_bytes(&processes, u64::MAX) / socket_buffer_bytes();
        assert_eq!(n_sockets, 2);
        end_all(|| [id].into_iter().filter(|id| is_running(*id)).collect());
        assert!(!is_running(id));
        assert!(!python.wait().unwrap().success());
    }
}
