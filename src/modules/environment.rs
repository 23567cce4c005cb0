//! The environments of a server: one for each set of packages, kept by its digest.
//!
//! An environment counts when its mark is there, which is written last: what a crash leaves is removed and made again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, FlockOperation, Timespec, Timestamps, UTIME_NOW, flock, utimensat};
use sha2::{Digest, Sha256};

use super::pip::Pip;
use super::{Error, Installed, LOCK_FILE, Lock, Offline, Requirements};

/// Written into an environment that is whole: the lock that it holds.
const COMPLETE: &str = ".steward-complete";

/// The environments below a directory.
#[derive(Debug, Clone)]
pub struct Environments {
    directory: PathBuf,
}

impl Environments {
    /// `data`: the server's directory.
    pub fn new(data: &Path) -> Self {
        Self {
            directory: data.join("python").join("environments"),
        }
    }

    /// The environment for the project at `project`: an existing one, or a new one. `None`: it asks for nothing. Blocks.
    ///
    /// # Errors
    /// See [`Error`]. Nothing half-made is left that would be taken for an environment.
    pub fn ensure(&self, project: &Path, interpreter: &Path) -> Result<Option<Installed>, Error> {
        let requirements = Requirements::read(project)?;
        let lock = Lock::read(project)?;
        if let Some(lock) = &lock
            && lock.requirements != requirements.digest
        {
            return Err(Error::Project(format!(
                "{LOCK_FILE} was made for other requirements than those of this commit: run `steward project update` in the project, and commit what it writes"
            )));
        }
        if requirements.is_empty() {
            return Ok(None);
        }
        let environment =
            self.directory
                .join(key(&requirements, lock.as_ref(), project, interpreter));
        let failed = || Error::io(format!("cannot write {}", self.directory.display()));
        fs::create_dir_all(&self.directory).map_err(failed())?;
        // One at a time makes it; who waits finds it made.
        let guard = File::create(environment.with_extension("lock")).map_err(failed())?;
        flock(&guard, FlockOperation::LockExclusive).map_err(|error| failed()(error.into()))?;
        let mark = environment.join(COMPLETE);
        if let Ok(text) = fs::read_to_string(&mark)
            && let Ok(lock) = serde_yaml::from_str(&text)
        {
            // It is in use: see `sweep`.
            touch(&mark);
            return Ok(Some(Installed {
                environment,
                lock,
                is_new_lock: false,
            }));
        }
        if environment.exists() {
            fs::remove_dir_all(&environment).map_err(failed())?;
        }
        let made = make(&environment, project, interpreter, &requirements, lock);
        match made {
            Ok(installed) => {
                fs::write(&mark, installed.lock.text()).map_err(failed())?;
                Ok(Some(installed))
            }
            Err(error) => {
                let _ = fs::remove_dir_all(&environment);
                Err(error)
            }
        }
    }
}

/// Sets the time of a file to now.
fn touch(path: &Path) {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    // Without it the environment may be made once more.
    let _ = utimensat(CWD, path, &times, AtFlags::empty());
}

fn make(
    environment: &Path,
    project: &Path,
    interpreter: &Path,
    requirements: &Requirements,
    lock: Option<Lock>,
) -> Result<Installed, Error> {
    let offline = Offline::default();
    let pip = Pip::make(environment, interpreter, project, requirements, &offline)?;
    let is_new_lock = lock.is_none();
    let lock = match lock {
        Some(lock) => lock,
        None => pip.resolve()?,
    };
    pip.install(&lock)?;
    Ok(Installed {
        environment: environment.to_owned(),
        lock,
        is_new_lock,
    })
}

/// What decides an environment's content: the lock, or what is asked for; the interpreter; and the project, if parts of it
/// are installed.
fn key(
    requirements: &Requirements,
    lock: Option<&Lock>,
    project: &Path,
    interpreter: &Path,
) -> String {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    part(&interpreter.to_string_lossy());
    part(&requirements.digest);
    let refers_to_project = match lock {
        Some(lock) => {
            part(&lock.text());
            lock.packages.iter().any(|package| {
                matches!(
                    &package.source,
                    super::Source::Folder { editable: true, .. }
                )
            })
        }
        None => {
            // Versions are chosen once for what there is to choose from.
            for folder in requirements
                .sources
                .iter()
                .filter_map(|line| line.strip_prefix("--find-links "))
            {
                let mut names: Vec<String> = fs::read_dir(folder)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.file_name().to_string_lossy().into_owned())
                    .collect();
                names.sort();
                names.iter().for_each(|name| part(name));
            }
            requirements.in_project
        }
    };
    if refers_to_project {
        part(&project.to_string_lossy());
    }
    hex::encode(&hasher.finalize()[..12])
}

/// Removes the environments below a server's directory that nothing used for `age`, but those in `kept`. Blocks.
pub fn sweep(data: &Path, kept: &[PathBuf], age: Duration) -> usize {
    let directory = Environments::new(data).directory;
    let Ok(entries) = fs::read_dir(&directory) else {
        return 0;
    };
    let mut n_removed = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        if !path.is_dir() || kept.contains(&path) {
            continue;
        }
        let used = fs::metadata(path.join(COMPLETE)).or_else(|_| fs::metadata(&path));
        let unused = used
            .and_then(|meta| meta.modified())
            .is_ok_and(|at| at.elapsed().is_ok_and(|since| since > age));
        let Some(guard) = unused
            .then(|| File::create(path.with_extension("lock")).ok())
            .flatten()
        else {
            continue;
        };
        if flock(&guard, FlockOperation::NonBlockingLockExclusive).is_err() {
            continue;
        }
        // The mark goes first: half of an environment is none.
        let _ = fs::remove_file(path.join(COMPLETE));
        if fs::remove_dir_all(&path).is_ok() {
            n_removed += 1;
        }
    }
    n_removed
}
