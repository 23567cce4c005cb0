//! `steward tied PROGRAM ARGUMENTS…`: becomes the program, which then dies when its parent does.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

#[expect(
    clippy::print_stderr,
    reason = "there is no log in the program it would have become"
)]
pub(super) fn run(command: &[OsString]) -> ExitCode {
    crate::process::die_with_parent();
    let Some((program, arguments)) = command.split_first() else {
        return ExitCode::from(super::USAGE);
    };
    let error = Command::new(program).args(arguments).exec();
    eprintln!("cannot run {}: {error}", program.to_string_lossy());
    ExitCode::from(127)
}
