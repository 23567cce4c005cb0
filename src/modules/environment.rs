//! The environments of a server: one for each of its environments and set of packages, kept by digest.
//!
//! They are not shared between environments of the server: what a build of one wrote must not run in another.
//! An environment counts when its mark is there, which is written last, and beside it, where no build can write: what a
//! crash leaves is removed and made again.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, syncfs};
use sha2::{Digest, Sha256};
use steward_compiler::yaml::{self, LIMITS};

use super::command::{Folders, InstallSandbox, Runner};
use super::copy::copy_tree;
use super::installer::{Installer, Job};
use super::{
    Error, Inspection, Installed, Lock, Offline, Requirements, Source, Watcher, links, needs,
};
use crate::domain::DataDir;
use crate::files::{folders, is_older, remove_tree, touch};
use crate::python::{Interpreter, Pythons};

/// The extension of the mark of an environment that is whole, which holds its lock.
const COMPLETE: &str = "complete";
/// In an environment, the project, if parts of it are installed.
const PROJECT: &str = "project";

/// The Python environments of one environment of a server.
#[derive(Debug, Clone)]
pub struct Environments {
    directory: PathBuf,
    /// pip's cache directory, shared by this environment's builds.
    cache: PathBuf,
    builds: PathBuf,
    sandbox: InstallSandbox,
}

/// What an environment is made for, and of.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// What is installed from.
    pub(super) project: &'a Path,
    pub(super) requirements: &'a Requirements,
    pub(super) interpreter: &'a Interpreter,
    /// What is installed for the interpreter can be imported, too, behind what the environment has.
    pub(super) inherits: bool,
}

impl Environments {
    /// `data`: the server's directory; `owner`: the environment of the server.
    pub fn new(data: &DataDir, owner: &str, sandbox: InstallSandbox) -> Self {
        Self {
            directory: Self::directory(data, owner),
            cache: data.package_caches().join(owner),
            builds: data.builds(),
            sandbox,
        }
    }

    /// Where those of `owner` are.
    pub fn directory(data: &DataDir, owner: &str) -> PathBuf {
        data.venvs().join(owner)
    }

    /// The environment for the project at `project`, which asks for what a worker has read: an existing one, or a new one.
    /// `None`: it asks for nothing. Blocks.
    ///
    /// # Errors
    /// See [`Error`]. Nothing half-made is left that would be taken for an environment.
    pub fn ensure(
        &self,
        project: &Path,
        pythons: &Pythons,
        inspection: Inspection,
        watcher: Watcher<'_>,
    ) -> Result<Option<Installed>, Error> {
        let Inspection { requirements, lock } = inspection;
        if requirements.is_empty() {
            return Ok(None);
        }
        let (needs, wishes) = needs::of_project(&requirements, lock.as_ref());
        let interpreter = pythons.choose(&needs, &wishes).map_err(Error::Python)?;
        let key = key(&requirements, lock.as_ref(), project, &interpreter.path);
        let wanted = Wanted {
            project,
            requirements: &requirements,
            interpreter: &interpreter,
            inherits: false,
        };
        self.ensure_at(&key, wanted, lock, watcher).map(Some)
    }

    /// The environment with this key.
    pub(super) fn ensure_at(
        &self,
        key: &str,
        wanted: Wanted<'_>,
        lock: Option<Lock>,
        watcher: Watcher<'_>,
    ) -> Result<Installed, Error> {
        let environment = self.directory.join(key);
        let failed = || Error::io(format!("cannot write {}", self.directory.display()));
        fs::create_dir_all(&self.directory).map_err(failed())?;
        // One at a time makes it; who waits finds it made.
        let guard = File::create(environment.with_extension("lock")).map_err(failed())?;
        flock(&guard, FlockOperation::LockExclusive).map_err(|error| failed()(error.into()))?;
        let mark = environment.with_extension(COMPLETE);
        if let Ok(text) = fs::read_to_string(&mark)
            && let Ok(lock) = yaml::from_str(&text, &LIMITS)
            && environment.join("bin/python").exists()
        {
            // It is in use: see `gc_venvs`.
            let _ = touch(&mark);
            return Ok(Installed {
                environment,
                lock,
                is_new_lock: false,
                tool: String::new(),
            });
        }
        let turns = self.sandbox.turns.as_ref();
        let turn = turns.map(|turns| turns.take(&self.sandbox.stop, watcher));
        let _turn = turn.transpose()?;
        let _ = fs::remove_file(&mark);
        if environment.exists() {
            remove_tree(&environment).map_err(failed())?;
        }
        match self.make(&environment, wanted, lock, watcher) {
            Ok(installed) => {
                // Before the mark: a power cut must not leave one without the rest.
                let synced = File::open(&environment).and_then(|file| Ok(syncfs(file)?));
                synced.map_err(failed())?;
                fs::write(&mark, installed.lock.text()).map_err(failed())?;
                Ok(installed)
            }
            Err(error) => {
                let _ = remove_tree(&environment);
                if matches!(error, Error::DiskFull { .. }) {
                    // A build may have written there, too.
                    let _ = remove_tree(&self.cache);
                }
                Err(error)
            }
        }
    }

    fn make(
        &self,
        environment: &Path,
        wanted: Wanted<'_>,
        lock: Option<Lock>,
        watcher: Watcher<'_>,
    ) -> Result<Installed, Error> {
        let Wanted {
            project,
            requirements,
            interpreter,
            inherits,
        } = wanted;
        let failed = || Error::io(format!("cannot write {}", environment.display()));
        for directory in [environment, &self.cache, &self.builds] {
            fs::create_dir_all(directory).map_err(failed())?;
        }
        touch(&self.cache).map_err(failed())?;
        let is_folder = |source: &Source| matches!(source, Source::Folder { .. });
        let installs_project = match &lock {
            Some(lock) => lock
                .packages
                .iter()
                .any(|package| is_folder(&package.source)),
            // The files are written anew without their passwords.
            None => requirements.in_project || !requirements.with_logins.is_empty(),
        };
        let place = if installs_project {
            let place = environment.join(PROJECT);
            copy_tree(project, &place).map_err(failed())?;
            place
        } else {
            project.to_owned()
        };
        let folders = Folders {
            environment,
            project,
            cache: &self.cache,
            builds: &self.builds,
        };
        let uses_system_config = requirements.pip.use_system_config;
        let locked = lock.iter().flat_map(|lock| &lock.packages);
        let locked = locked.filter_map(|package| match &package.source {
            Source::Repository { git, .. } => Some(git.clone()),
            Source::Folder { .. } | Source::Archive { .. } | Source::Own { .. } => None,
        });
        let named = requirements.repositories.iter().cloned().chain(locked);
        let runner =
            Runner::sandboxed(&self.sandbox, folders, uses_system_config, named.collect())?;
        if lock.is_none() {
            for (file, text) in &requirements.with_logins {
                runner.take_logins_from(&place, file, text)?;
            }
        }
        let offline = Offline::default();
        let job = Job {
            project,
            place: &place,
            requirements,
            offline: &offline,
            runner: &runner,
            interpreter,
            watcher,
        };
        let installer = Installer::make(environment, job, lock.as_ref())?;
        let is_new_lock = lock.is_none();
        let mut lock = match lock {
            Some(lock) => lock,
            None => installer.resolve()?,
        };
        installer.install(&lock)?;
        // Before anything that the builds have left is read or written with the rights of the server. They have ended.
        links::check(environment, &self.sandbox.hidden)?;
        if is_new_lock {
            installer.complete(&mut lock)?;
        }
        if inherits {
            // Not before: what is to be installed must not be there already.
            inherit(environment, interpreter).map_err(failed())?;
        }
        let tool = installer.tool();
        Ok(Installed {
            environment: environment.to_owned(),
            lock,
            is_new_lock,
            tool,
        })
    }
}

/// Lets an environment have what is installed for its interpreter, which may be one of a virtual environment itself: so
/// handlers find what they import without requiring it.
fn inherit(environment: &Path, interpreter: &Interpreter) -> std::io::Result<()> {
    const ASK: &str =
        "import sys; print(*(p for p in sys.path if p.endswith('-packages')), sep='\\n')";
    let mut command = std::process::Command::new(&interpreter.path);
    let output = command.args(["-I", "-c", ASK]).output()?;
    let root = fs::canonicalize(environment)?;
    for python in folders(&environment.join("lib")) {
        let packages = python.join("site-packages");
        // A build may have made links of both.
        let is_inside = |path: PathBuf| path.starts_with(&root);
        if !packages.is_dir() || !fs::canonicalize(&packages).is_ok_and(is_inside) {
            continue;
        }
        let file = packages.join("steward-inherited.pth");
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => File::create_new(&file)?.write_all(&output.stdout)?,
        }
    }
    Ok(())
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
    let mut part = |text: &str| steward_compiler::add_part(&mut hasher, text);
    part(&interpreter.to_string_lossy());
    part(&requirements.digest);
    let refers_to_project = match lock {
        Some(lock) => {
            part(&lock.text());
            lock.packages
                .iter()
                .any(|package| matches!(&package.source, Source::Folder { editable: true, .. }))
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

/// The digest of the packages of handlers that an environment is for, if it is one of them; its name has it.
pub fn packages_of_venv(environment: &Path) -> Option<&str> {
    let (digest, _python) = environment.file_name()?.to_str()?.split_once('-')?;
    Some(digest)
}

/// Removes the Python environments and package caches below a server's directory that nothing used for `age`, but the
/// environments that are needed, and what interrupted builds left. Blocks.
pub fn gc_venvs(data: &DataDir, is_needed: impl Fn(&Path) -> bool, age: Duration) -> usize {
    let mut n_removed = 0;
    for path in folders(&data.venvs()) {
        // Of a version of this program that kept them all in one folder.
        if path.join("pyvenv.cfg").is_file() {
            n_removed += usize::from(remove_unused(&path, &is_needed, age));
            continue;
        }
        // Compile workers see this folder and no other of its name, so it stays as long as there is such an environment of the
        // server, also while it is empty.
        for path in folders(&path) {
            n_removed += usize::from(remove_unused(&path, &is_needed, age));
        }
    }
    // Nothing else keeps a build from being one that runs.
    const LONGEST_BUILD: Duration = Duration::from_secs(24 * 3600);
    for (directory, age) in [
        (data.package_caches(), age),
        (data.builds(), age.max(LONGEST_BUILD)),
    ] {
        for path in folders(&directory) {
            if is_older(&path, age) {
                let _ = remove_tree(&path);
            }
        }
    }
    n_removed
}

fn remove_unused(environment: &Path, is_needed: impl Fn(&Path) -> bool, age: Duration) -> bool {
    let mark = environment.with_extension(COMPLETE);
    let used = if mark.exists() { &mark } else { environment };
    if is_needed(environment) || !is_older(used, age) {
        return false;
    }
    let lock = environment.with_extension("lock");
    let Ok(guard) = File::create(&lock) else {
        return false;
    };
    if flock(&guard, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // The mark goes first: half of an environment is none.
    let _ = fs::remove_file(mark);
    remove_tree(environment).is_ok()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::domain::Timestamp;

    const WEEK: Duration = Duration::from_secs(7 * 86_400);

    /// An environment whose mark is a week and a day old.
    fn old(folder: &Path, name: &str) -> PathBuf {
        let environment = folder.join(name);
        fs::create_dir_all(&environment).unwrap();
        let mark = environment.with_extension(COMPLETE);
        let file = File::create(mark).unwrap();
        let now = u64::try_from(Timestamp::now().0).unwrap();
        let then = SystemTime::UNIX_EPOCH + Duration::from_micros(now)
            - WEEK
            - Duration::from_secs(86_400);
        file.set_modified(then).unwrap();
        environment
    }

    /// Input: a build leaves links where the server writes afterwards (docs/reference/security.md § 4.1). Answer: nothing outside of the environment is
    /// written.
    #[test]
    fn what_is_inherited_is_written_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let python = Pythons::new(None).any().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir_all(outside.join("site-packages")).unwrap();
        fs::write(outside.join("precious"), "precious").unwrap();
        let environment = dir.path().join("venv");
        let lib = environment.join("lib");
        fs::create_dir_all(lib.join("python3.1/site-packages")).unwrap();
        let link = |target: &str, name: &str| {
            std::os::unix::fs::symlink(outside.join(target), lib.join(name)).unwrap();
        };
        link("precious", "python3.1/site-packages/steward-inherited.pth");
        link(".", "python3.2");
        inherit(&environment, &python).unwrap();
        assert_eq!(
            fs::read_to_string(outside.join("precious")).unwrap(),
            "precious"
        );
        assert!(!outside.join("site-packages/steward-inherited.pth").exists());
        let own = lib.join("python3.1/site-packages/steward-inherited.pth");
        assert!(own.symlink_metadata().unwrap().is_file());
    }

    /// A version names packages, not the folder, which depends on the Python besides.
    #[test]
    fn an_environment_of_packages_that_a_version_needs_stays_whatever_python_it_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path());
        let folder = Environments::directory(&data, "owner");
        let names = ["needed-1", "needed-2", "other-1", "needed"];
        let [one, two, other, of_compile] = names.map(|name| old(&folder, name));
        let is_needed = |venv: &Path| packages_of_venv(venv) == Some("needed");
        assert_eq!(gc_venvs(&data, is_needed, WEEK), 2);
        assert!(one.exists() && two.exists());
        assert!(!other.exists() && !of_compile.exists());
    }

    //: deploy 98
    #[test]
    fn an_environment_that_was_not_used_for_a_week_goes_unless_a_version_needs_it() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path());
        let folder = Environments::directory(&data, "owner");
        let [unused, needed, used] = ["unused", "needed", "used"].map(|name| old(&folder, name));
        // To use one touches its mark.
        File::create(used.with_extension(COMPLETE)).unwrap();
        assert_eq!(gc_venvs(&data, |venv| venv == needed, WEEK), 1);
        assert!(!unused.exists() && !unused.with_extension(COMPLETE).exists());
        assert!(needed.exists() && used.exists());
        assert_eq!(gc_venvs(&data, |_| false, WEEK), 1);
        assert!(!needed.exists() && used.exists());
    }
}
