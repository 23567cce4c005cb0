//! A program that runs to its end, and no longer than it may: with what it writes, and with nothing
//! left of it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{Captured, Launcher, kill_group_of, own_program, pid};

/// Bytes that are kept of each of the outputs of a program; the rest is read and dropped.
const KEPT_BYTES: usize = 4 << 20;
/// The time between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(10);
/// The time that is given for killing everything, and for what is still in a pipe then.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a program was left.
#[derive(Debug)]
pub enum Ended {
    /// It ended by itself.
    Done(Output),
    /// It was killed, with all that it started.
    Stopped,
}

/// A command before which others can be put: what is to be run, with an environment of its own.
///
/// `launcher`, which puts the program into its sandbox, comes after `steward supervise`, which takes all of it down when it
/// ends, or when we do. `memory_bytes`: of all its processes together. The command's environment is empty but for what the
/// launcher needs.
///
/// # Errors
/// This program is not found.
pub fn supervised_command(launcher: &Launcher, memory_bytes: u64) -> io::Result<Command> {
    let mut command = Command::new(own_program()?);
    let (name, policy) = &launcher.variable;
    command
        .env_clear()
        .env(name, policy)
        .args(["supervise", "--all", "--parent"])
        .arg(std::process::id().to_string())
        .arg("--memory-bytes")
        .arg(memory_bytes.to_string())
        .arg("--")
        .args(&launcher.words)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok(command)
}

/// Runs a [`supervised_command`] to its end, or until `is_over`. Blocks.
///
/// # Errors
/// It cannot be started.
pub fn run_supervised(command: &mut Command, is_over: impl Fn() -> bool) -> io::Result<Ended> {
    let mut child = command.spawn()?;
    let outputs =
        capture(child.stdout.take()).and_then(|stdout| Ok((stdout, capture(child.stderr.take())?)));
    let (stdout, stderr) = match outputs {
        Ok(outputs) => outputs,
        Err(error) => {
            stop(&mut child)?;
            return Err(error);
        }
    };
    let status = loop {
        match child.try_wait()? {
            Some(status) => break Some(status),
            None if is_over() => break None,
            None => std::thread::sleep(LOOK),
        }
    };
    let Some(status) = status else {
        stop(&mut child)?;
        return Ok(Ended::Stopped);
    };
    let deadline = Instant::now() + PATIENCE;
    Ok(Ended::Done(Output {
        status,
        stdout: stdout.map_or_else(Vec::new, |stdout| stdout.take(deadline)),
        stderr: stderr.map_or_else(Vec::new, |stderr| stderr.take(deadline)),
    }))
}

fn capture(pipe: Option<impl Into<OwnedFd>>) -> io::Result<Option<Captured>> {
    pipe.map(|pipe| Captured::begin(pipe, KEPT_BYTES))
        .transpose()
}

/// Lets the process between us and the program end all of it, then makes sure.
fn stop(child: &mut Child) -> io::Result<ExitStatus> {
    if let Some(pid) = pid(child.id()) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(pid, Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(LOOK);
    }
    kill_group_of(child.id());
    child.wait()
}
