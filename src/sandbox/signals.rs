//! Signals that code in the sandbox sends, on kernels whose Landlock lets them out of it (before version 6, Linux 6.12).
//!
//! Without this, a plugin ends the server, other compiles, and the supervisor that holds it to its limits, all of which run
//! under the same user. To refuse signals is no answer: whoever starts a process ends it by one, and `abort` sends one to
//! itself. So the supervisor sends them on behalf of the sandbox, as it does changes of attributes (`attributes`): to what is
//! below it, which is all that the sandbox ever started and nothing else. Where the program that entered the sandbox starts
//! others in a second layer, these do not reach it.
//!
//! A number may be that of another process by the time it is used. So the process is opened first, looked at, and signalled
//! through what is open, which never means another one. A signal to one thread is taken as one to its process, except in the
//! caller's own process, which waits for the answer.
//!
//! Sources: seccomp_unotify(2), pidfd_open(2), kill(2), tgkill(2).

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpgid, pidfd_open};

use super::attributes::Process;

/// The version of Landlock that ends signals at the border of the sandbox.
pub(super) const LANDLOCK: u8 = 6;

/// The calls that the supervisor makes on behalf of the sandbox.
pub(super) const BROKERED: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
];

/// A signal that a process of the sandbox wants to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sent {
    to: Receiver,
    /// 0: none, whoever sends only wants to know whether it could.
    signal: i32,
}

#[derive(Debug, PartialEq, Eq)]
enum Receiver {
    Process(i32),
    /// A thread of the process that sends.
    OwnThread {
        process: i32,
        thread: i32,
    },
    /// All processes of a group.
    Group(i32),
}

/// How the processes of this machine descend from one another, as the supervisor knows it.
#[derive(Debug, Clone, Copy)]
pub struct Kin {
    /// All processes below one, without itself.
    pub below: fn(i32) -> BTreeSet<i32>,
    /// `None`: the process is gone.
    pub parent: fn(i32) -> Option<i32>,
    /// How many processes and threads there are below one.
    pub n_tasks: fn(i32) -> usize,
    /// How many parts of files the processes below one have locked.
    pub n_locks: fn(i32) -> usize,
}

/// Whose signals are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender {
    pub(super) kin: Kin,
    /// A process below the supervisor that it may not reach.
    pub(super) hidden: Option<i32>,
}

/// What a call means; `None`: it sends no signal.
pub(super) fn decode(process: &Process, call: &libc::seccomp_data) -> Result<Option<Sent>, Errno> {
    let [a, b, c, d, ..] = call.args;
    let own = || process.group().map(u32::cast_signed).ok_or(Errno::SRCH);
    let of_thread = |group: Option<i32>, thread: i32, signal: u64| -> Result<Sent, Errno> {
        let process = own()?;
        let is_own = Process(thread.cast_unsigned()).group() == Some(process.cast_unsigned());
        let to = if is_own && group.is_none_or(|group| group == process) {
            Receiver::OwnThread { process, thread }
        } else {
            Receiver::Process(group.unwrap_or(thread))
        };
        Ok(Sent {
            to,
            signal: signal as i32,
        })
    };
    let sent = match i64::from(call.nr) {
        libc::SYS_kill => Sent {
            to: match a as i32 {
                // Everybody whom it may reach: that is for nobody but process 1.
                -1 => return Err(Errno::PERM),
                0 => Receiver::Group(group_of(own()?).ok_or(Errno::SRCH)?),
                group @ ..0 => Receiver::Group(group.checked_neg().ok_or(Errno::SRCH)?),
                process => Receiver::Process(process),
            },
            signal: b as i32,
        },
        libc::SYS_tkill => of_thread(None, a as i32, b)?,
        libc::SYS_tgkill => of_thread(Some(a as i32), b as i32, c)?,
        // Neither what comes with the signal nor options.
        libc::SYS_pidfd_send_signal if c == 0 && d as u32 == 0 => Sent {
            to: Receiver::Process(process.opened(a as i32)?),
            signal: b as i32,
        },
        libc::SYS_pidfd_send_signal => return Err(Errno::PERM),
        _ => return Ok(None),
    };
    Ok(Some(sent))
}

impl Kin {
    /// Whether a process descends from another.
    fn is_below(&self, process: i32, ancestor: i32) -> bool {
        let parent = |process: &i32| (self.parent)(*process);
        let parents = std::iter::successors(parent(&process), parent);
        parents
            .take_while(|parent| *parent > 1)
            .any(|parent| parent == ancestor)
    }
}

impl Sent {
    /// Sends it to those that the sender may reach.
    pub(super) fn deliver(&self, sender: Sender) -> Result<(), Errno> {
        match self.to {
            Receiver::Process(process) => self.to_process(process, sender),
            Receiver::OwnThread { process, thread } => to_thread(process, thread, self.signal),
            Receiver::Group(group) => {
                let supervisor = std::process::id().cast_signed();
                let members = (sender.kin.below)(supervisor).into_iter();
                let members = members.filter(|process| group_of(*process) == Some(group));
                let mut all = Err(Errno::SRCH);
                for process in members {
                    all = match (self.to_process(process, sender), all) {
                        (Ok(()), _) | (_, Ok(())) => Ok(()),
                        (failed, _) => failed,
                    };
                }
                match all {
                    // Its members are elsewhere, if it has any.
                    Err(Errno::SRCH) if is_group(group) => Err(Errno::PERM),
                    done => done,
                }
            }
        }
    }

    #[expect(
        unsafe_code,
        reason = "the safe form of the call does not know real-time signals"
    )]
    fn to_process(&self, process: i32, sender: Sender) -> Result<(), Errno> {
        // The number may be that of one of its threads.
        let leader = Process(process.cast_unsigned())
            .group()
            .ok_or(Errno::SRCH)?;
        let leader = leader.cast_signed();
        let pid = Pid::from_raw(leader).ok_or(Errno::SRCH)?;
        let open = pidfd_open(pid, PidfdFlags::empty())?;
        let is_hidden = sender.hidden == Some(leader);
        if is_hidden
            || !sender
                .kin
                .is_below(leader, std::process::id().cast_signed())
        {
            return Err(Errno::PERM);
        }
        let number = open.as_raw_fd();
        // SAFETY: the call takes numbers, and no address, as it needs none for a plain signal.
        done(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, number, self.signal, 0, 0) })
    }
}

fn group_of(process: i32) -> Option<i32> {
    let pid = Pid::from_raw(process)?;
    getpgid(Some(pid))
        .ok()
        .map(Pid::as_raw_nonzero)
        .map(i32::from)
}

/// Whether there is a group of this number, whoever is in it.
fn is_group(group: i32) -> bool {
    let group = Pid::from_raw(group);
    group.is_some_and(|group| rustix::process::test_kill_process_group(group) != Err(Errno::SRCH))
}

#[expect(unsafe_code, reason = "there is no safe form of tgkill(2)")]
fn to_thread(process: i32, thread: i32, signal: i32) -> Result<(), Errno> {
    // SAFETY: the call takes three numbers and no memory.
    done(unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) })
}

/// What a system call has returned.
fn done(returned: libc::c_long) -> Result<(), Errno> {
    match returned {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::PERM)),
    }
}
