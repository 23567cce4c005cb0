//! `steward sandbox PROGRAM ARGUMENTS…`: another program, in the sandbox that a variable describes.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use super::{TROUBLE, USAGE};
use crate::process::SANDBOX;
use crate::sandbox::{SUPERVISOR, SandboxPolicy, SupervisorLink, enter};

/// Enters the sandbox and becomes the other program.
#[expect(clippy::print_stderr, reason = "the parent reads it")]
pub(super) fn run(command: &[OsString]) -> ExitCode {
    let policy = std::env::var(SANDBOX).unwrap_or_default();
    let policy: SandboxPolicy = match serde_json::from_str(&policy) {
        Ok(policy) => policy,
        Err(error) => {
            eprintln!("steward: the variable {SANDBOX} describes no sandbox: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::from(USAGE);
    };
    if let Err(error) = enter(&policy, SupervisorLink::inherited().as_ref()) {
        eprintln!("steward: the process cannot be put into its sandbox: {error}");
        return ExitCode::from(TROUBLE);
    }
    let error = Command::new(program)
        .args(arguments)
        .env_remove(SANDBOX)
        .env_remove(SUPERVISOR)
        .env("HOME", &policy.scratch)
        .env("TMPDIR", &policy.scratch)
        .env("STEWARD_SCRATCH", &policy.scratch)
        // What one compile writes, the next one must not run: bytecode is read where it lies, and none is written.
        .env("STEWARD_PYCACHE", "")
        .exec();
    eprintln!("steward: cannot run {}: {error}", program.to_string_lossy());
    ExitCode::from(TROUBLE)
}
