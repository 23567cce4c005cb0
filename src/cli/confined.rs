//! `steward confined`: another program, with less rights than this one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::{TROUBLE, USAGE};
use crate::process::Policy;

/// Confines this process and becomes the other program.
#[expect(clippy::print_stderr, reason = "the parent reads it")]
pub(super) fn run(policy: &str, command: &[OsString]) -> ExitCode {
    let policy: Policy = match serde_json::from_str(policy) {
        Ok(policy) => policy,
        Err(error) => {
            eprintln!("steward: this is no policy: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::from(USAGE);
    };
    if let Err(error) = crate::process::confine(&policy) {
        eprintln!("steward: the process cannot be confined: {error}");
        return ExitCode::from(TROUBLE);
    }
    let error = Command::new(program)
        .args(arguments)
        .env("HOME", &policy.scratch)
        .env("TMPDIR", &policy.scratch)
        .env("STEWARD_SCRATCH", &policy.scratch)
        .env("STEWARD_PYCACHE", policy.scratch.join("pycache"))
        .exec();
    eprintln!("steward: cannot run {}: {error}", program.to_string_lossy());
    ExitCode::from(TROUBLE)
}
