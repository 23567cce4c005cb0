//! `steward project`: the modules and packages of a project on this machine.

use std::path::Path;
use std::process::ExitCode;

use super::compile::find_project;
use super::{FAILED, InstallArguments, ProjectCommand, TROUBLE, USAGE};
use crate::modules::{self, Error, Installed, LOCK_FILE, Offline};

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to a person"
)]
pub(super) fn run(command: &ProjectCommand) -> ExitCode {
    let project = match command {
        ProjectCommand::Install(arguments) | ProjectCommand::Update(arguments) => {
            &arguments.project
        }
        ProjectCommand::Verify { project } => project,
    };
    let project = match find_project(project.as_deref()) {
        Ok(project) => project,
        Err(message) => {
            eprintln!("steward: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let result = match command {
        ProjectCommand::Install(arguments) => install(&project, arguments, false),
        ProjectCommand::Update(arguments) => install(&project, arguments, true),
        ProjectCommand::Verify { .. } => modules::verify(&project).map(|differences| {
            for difference in &differences {
                println!("{difference}");
            }
            if differences.is_empty() {
                println!("all is as {LOCK_FILE} says");
                ExitCode::SUCCESS
            } else {
                ExitCode::from(FAILED)
            }
        }),
    };
    result.unwrap_or_else(|error| {
        eprintln!("steward: {error}");
        ExitCode::from(if error.is_transient() {
            TROUBLE
        } else {
            FAILED
        })
    })
}

#[expect(clippy::print_stdout, reason = "it talks to a person")]
fn install(project: &Path, arguments: &InstallArguments, update: bool) -> Result<ExitCode, Error> {
    let python = crate::compile::interpreter().ok_or_else(|| {
        Error::Machine("no Python of 3.11 or later was found on this machine".to_owned())
    })?;
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path).unwrap_or(path.clone());
    let offline = Offline {
        find_links: arguments.find_links.iter().map(absolute).collect(),
        no_index: arguments.no_index,
    };
    let project = absolute(&project.to_owned());
    let Installed {
        environment,
        lock,
        is_new_lock,
    } = modules::install(&project, &python, &offline, update)?;
    for package in &lock.packages {
        println!("{} {}", package.name, package.version);
    }
    let n_packages = lock.packages.len();
    let plural = if n_packages == 1 { "" } else { "s" };
    let place = environment.strip_prefix(&project).unwrap_or(&environment);
    println!("{n_packages} package{plural} in {}", place.display());
    if is_new_lock {
        println!("{LOCK_FILE} is written: commit it");
    }
    Ok(ExitCode::SUCCESS)
}
