//! `steward supervise PROGRAM ARGUMENTS…`: see `process::supervisor`.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use nix::sys::signal::{self, SigSet};
use rustix::process::{Resource, Rlimit};

use crate::process::{Supervision, supervise};

#[expect(
    clippy::print_stderr,
    reason = "there is no log in the program it stands for"
)]
pub(super) fn run(supervision: Supervision, command: &[OsString]) -> ExitCode {
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::from(super::USAGE);
    };
    // Our callers gave us a group already; a person may not have.
    let _ = rustix::process::setpgid(None, None);
    match supervise(supervision, program, arguments) {
        Ok(status) => end_as(status),
        Err(error) => {
            eprintln!("cannot run {}: {error}", program.to_string_lossy());
            ExitCode::from(127)
        }
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
