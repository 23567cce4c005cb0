//! The modules and Python packages that a project asks for, in a virtual environment.
//!
//! What is asked for: the project's `requirements.txt`, those of the v1 modules in its module path, and as constraints the
//! `requires` of `project.yml`. pip decides which versions fit; `steward.lock` keeps its decision: exact versions, commits,
//! digests. Sources: docs/reference/language.md § 11.2, § 11.6.

mod command;
mod copy;
mod credentials;
mod digest;
mod environment;
mod handlers;
mod hosts;
mod installer;
mod links;
mod lock;
mod logins;
mod machine;
mod needs;
mod output;
mod pip;
mod present;
mod progress;
mod project;
mod record;
mod repositories;
mod requires;
mod turns;
mod uv;

pub use command::{BuildProxy, InstallSandbox};
pub use credentials::credentials;
pub use environment::{Environments, gc_venvs, packages_of_venv};
pub use handlers::HandlerRequest;
pub use hosts::MachineNetwork;
pub use installer::Offline;
pub use lock::{LOCK_FILE, Lock, Package, Source, normalized};
pub use machine::missing_on_machine;
#[doc(hidden)]
pub use present::read_any_answer;
pub use progress::{Part, Progress, Watcher, with_tool};
pub use project::read_any;
pub use project::{Inspection, Requirements};
pub use requires::requirements_of_module;
pub use turns::Turns;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::remove_tree;
use crate::python::Pythons;

/// Why a project's modules cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The project's files are wrong: trying again gives the same.
    #[error("{0}")]
    Project(String),
    /// No versions fit all that is asked for, or what is asked for does not exist.
    #[error("{message}")]
    Unsatisfiable { message: String },
    /// An index or a repository did not answer; it may, later.
    #[error("{message}")]
    Unreachable { message: String },
    /// pip, or what it built, did not end.
    #[error(
        "{what} did not end within {} s and was stopped, with all that it had started; the limit is `compile.install_timeout` of the configuration",
        limit.as_secs_f64()
    )]
    TooLong { what: String, limit: Duration },
    /// What was installed, or built for it, would have filled the disk.
    #[error(
        "{what} was stopped, since less than {} MiB were left on the disk of {}; what it wrote is removed",
        least_bytes >> 20, folder.display()
    )]
    DiskFull {
        what: String,
        folder: PathBuf,
        least_bytes: u64,
    },
    /// No Python of this machine fits.
    #[error("{0}")]
    Python(String),
    /// This machine lacks something.
    #[error("{0}")]
    Machine(String),
    #[error("{what}: {error}")]
    Io {
        what: String,
        #[source]
        error: std::io::Error,
    },
}

impl Error {
    /// Trying again may help.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            // A network that hangs looks like a build that does.
            Self::Unreachable { .. }
                | Self::TooLong { .. }
                | Self::DiskFull { .. }
                | Self::Machine(_)
                | Self::Io { .. }
        )
    }

    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |error| Self::Io { what, error }
    }
}

/// What an installation did.
#[derive(Debug)]
pub struct Installed {
    /// Where the environment is.
    pub environment: PathBuf,
    pub lock: Lock,
    /// The lock was made now.
    pub is_new_lock: bool,
    /// The program that installed, such as `uv 0.9.2`; empty: nothing was to be done.
    pub tool: String,
}

/// The environment that `steward project install` makes, and the compiler finds.
pub const PROJECT_ENVIRONMENT: &str = ".env";

/// Installs what the lock says into the project's own environment; without a lock, or with `update`, versions are chosen
/// first and the lock is written.
///
/// # Errors
/// See [`Error`]. The lock and what was installed before stay as they were when versions cannot be chosen.
pub fn install(
    project: &Path,
    pythons: &Pythons,
    offline: &Offline,
    update: bool,
    watcher: Watcher<'_>,
) -> Result<Installed, Error> {
    let requirements = Requirements::read(project)?;
    let known = Lock::read(project)?;
    if let Some(lock) = known.as_ref().filter(|_| !update)
        && lock.requirements != requirements.digest
    {
        return Err(Error::Project(format!(
            "{LOCK_FILE} was made for other requirements than those of the project now: run `steward project update`, and commit what it writes"
        )));
    }
    let known = known.filter(|_| !update);
    let environment = project.join(PROJECT_ENVIRONMENT);
    let (needs, wishes) = needs::of_project(&requirements, known.as_ref());
    let interpreter = needs::interpreter_for(&environment, pythons, &needs, &wishes)?;
    // A lock names versions that fit the Python it was made for; without one, the index is asked, which takes its time.
    if known.is_none()
        && let Some(doubt) = needs::doubt(&interpreter, &wishes)
    {
        watcher(Progress::Doubt(doubt));
    }
    let runner = command::Runner::free(requirements.pip.use_system_config);
    let job = installer::Job {
        project,
        place: project,
        requirements: &requirements,
        offline,
        runner: &runner,
        interpreter: &interpreter,
        watcher,
    };
    let is_new = !environment.exists();
    let installer = installer::Installer::make(&environment, job, known.as_ref())?;
    let is_new_lock = known.is_none();
    let mut lock = match known {
        Some(lock) => lock,
        None => installer.resolve().inspect_err(|_| {
            // Nothing is in it; another Python may be named next.
            if is_new {
                let _ = remove_tree(&environment);
            }
        })?,
    };
    installer.install(&lock)?;
    if is_new_lock {
        installer.complete(&mut lock)?;
    }
    // For `verify`: an index has no digest of what is installed.
    lock.write(&environment)?;
    if is_new_lock {
        lock.write(project)?;
    }
    let tool = installer.tool();
    Ok(Installed {
        environment,
        lock,
        is_new_lock,
        tool,
    })
}

/// Compares the project's environment with its lock; each line of the answer is a difference.
///
/// # Errors
/// There is no lock or no environment, or they cannot be read.
pub fn verify(project: &Path) -> Result<Vec<String>, Error> {
    let requirements = Requirements::read(project)?;
    let lock = Lock::read(project)?.ok_or_else(|| {
        Error::Project(format!(
            "the project has no {LOCK_FILE}: run `steward project install`"
        ))
    })?;
    let mut differences = Vec::new();
    if lock.requirements != requirements.digest {
        differences.push(format!(
            "{LOCK_FILE} was made for other requirements than those of the project now: run `steward project update`"
        ));
    }
    let environment = project.join(PROJECT_ENVIRONMENT);
    let installed = present::compared(&environment)?;
    differences.extend(lock.differences(project, &installed)?);
    // As it was when it was installed; the environment of an older Steward has none.
    if let Ok(Some(was)) = Lock::read(&environment) {
        differences.extend(lock.other_sources(&was));
    }
    Ok(differences)
}
