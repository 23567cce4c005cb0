//! Being the first process of a container.
//!
//! The kernel gives processes whose parent has ended to process 1, which has to wait for them: until somebody does, each one
//! that ends keeps its number, and some day there are no more of them. It also treats signals to process 1 differently. So as
//! process 1 this program only does that, and runs itself once more for its work, as the small programs do that containers are
//! otherwise started with (`docker run --init`).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode};

use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Signals that are for the program: all that a container's manager, or `kill`, may send to end it or to have it look again.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];
/// `si_code` of a signal that a terminal sends (`sigaction(2)`): the program gets that one itself.
const OF_KERNEL: i32 = 0x80;

/// As process 1, runs this program with the same arguments and waits for all that ends until it does. The answer is its exit
/// code, 128 and the number of a signal if one ended it; `None`: this is another process, which does its work itself.
///
/// Call it before there is any thread.
pub fn run_as_init() -> Option<ExitCode> {
    if std::process::id() != 1 {
        // What such a process 1 holds back is for it alone, and its child began with the same signals blocked.
        if std::os::unix::process::parent_id() == 1 {
            let _ = held_back().thread_unblock();
        }
        return None;
    }
    match started().and_then(|(signals, child)| wait(&signals, &child)) {
        Ok(code) => Some(ExitCode::from(code)),
        Err(error) => {
            // Better with what nobody waits for than not at all.
            eprintln!("steward: as the first process, cannot start itself: {error}");
            None
        }
    }
}

fn held_back() -> SigSet {
    let mut signals: SigSet = PASSED_ON.into_iter().collect();
    signals.add(Signal::SIGCHLD);
    signals
}

fn started() -> io::Result<(SignalFd, Child)> {
    let signals = held_back();
    signals.thread_block()?;
    let signals = SignalFd::new(&signals)?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(super::own_program()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let child = command.args(arguments).spawn()?;
    Ok((signals, child))
}

fn wait(signals: &SignalFd, child: &Child) -> io::Result<u8> {
    let child = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    loop {
        let Some(info) = signals.read_signal()? else {
            continue;
        };
        let number = i32::try_from(info.ssi_signo).map_err(io::Error::other)?;
        let signal = Signal::try_from(number)?;
        if signal == Signal::SIGCHLD {
            if let Some(code) = reap(child)? {
                return Ok(code);
            }
        } else if info.ssi_code != OF_KERNEL {
            // It may have ended just now: the next thing that is read says so.
            let _ = kill(child, signal);
        }
    }
}

/// Waits for all that has ended; the exit code of `child`, if it is among them.
fn reap(child: Pid) -> io::Result<Option<u8>> {
    let mut ended = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => ended = Some(code as u8),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                ended = Some(128 + signal as u8);
            }
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(ended),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
