//! `steward project`: the modules and packages of a project on this machine.

use std::path::Path;
use std::process::ExitCode;

use super::compile::find_project;
use super::install_progress::InstallProgress;
use super::{FAILED, InstallArguments, ProjectCommand, TROUBLE, USAGE};
use crate::modules::{self, Error, Installed, LOCK_FILE, Offline};
use crate::python::Pythons;

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

/// An environment belongs to its machine: committed by mistake, its links would keep a server from checking the commit out. It
/// says so itself, as those of newer Pythons do. One where that can not be written works as well.
fn keep_out_of_git(environment: &Path) {
    let ignored = environment.join(".gitignore");
    if environment.is_dir() && !ignored.exists() {
        let _ = std::fs::write(ignored, "*\n");
    }
}

#[expect(clippy::print_stdout, reason = "it talks to a person")]
fn install(project: &Path, arguments: &InstallArguments, update: bool) -> Result<ExitCode, Error> {
    let absolute = |path: &std::path::PathBuf| std::path::absolute(path).unwrap_or(path.clone());
    let offline = Offline {
        find_links: arguments.find_links.iter().map(absolute).collect(),
        no_index: arguments.no_index,
    };
    let project = absolute(&project.to_owned());
    let pythons = Pythons::new(arguments.python.clone().map(|path| (path, "--python")));
    let shown = InstallProgress::new();
    let watcher = |progress| shown.on_progress(progress);
    let installed = modules::install(&project, &pythons, &offline, update, &watcher);
    shown.end();
    let Installed {
        environment,
        lock,
        is_new_lock,
        tool,
    } = installed?;
    keep_out_of_git(&environment);
    for package in &lock.packages {
        println!("{} {}", package.name, package.version);
    }
    let n_packages = lock.packages.len();
    let plural = if n_packages == 1 { "" } else { "s" };
    let place = environment.strip_prefix(&project).unwrap_or(&environment);
    println!(
        "{n_packages} package{plural} in {}, by {tool}",
        place.display()
    );
    if is_new_lock {
        println!("{LOCK_FILE} is written: commit it");
    }
    Ok(ExitCode::SUCCESS)
}
