//! `steward check`: what is wrong with a project, without running it. Output and exit codes are those of
//! `steward compile`.

use std::process::ExitCode;

use steward_compiler::{DirWorld, check};

use super::compile::{find_project, report, with_packages};
use super::{CheckArguments, FAILED, USAGE};
use crate::python::Pythons;

#[expect(clippy::print_stderr, reason = "diagnostics go to stderr")]
pub(super) fn run(arguments: &CheckArguments) -> ExitCode {
    let project = match find_project(arguments.project.as_deref()) {
        Ok(project) => project,
        Err(message) => {
            eprintln!("steward: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let world = DirWorld::new(project, steward_compiler::Variables::new(), |_| {});
    let world = with_packages(world, Pythons::new(None).known_below(&super::cache_dir()));
    let checked = check(&world);
    report(&checked, &world, arguments.message_format);
    if checked.succeeded() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    }
}
