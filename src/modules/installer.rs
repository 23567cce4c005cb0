//! What installs: uv where it is there, else pip, into a virtual environment.
//!
//! Both are asked for the same and give the same: versions for all that a project asks for, then exactly what the lock says.
//! Whatever requires the reference gets our own distribution (`crate::python::Distribution`): a constraint lets only its
//! version in, which no index has, and a folder with its wheel is one more place to look.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::command::Runner;
use super::lock::{Lock, Package, Source, constraints_for};
use super::output::{check_success, output_text};
use super::progress::{Part, Watcher, part};
use super::{Error, Requirements, pip, present, uv};
use crate::python::{ANOTHER, DISTRIBUTION, Distribution, Interpreter};

/// Where packages are looked for instead of an index.
#[derive(Debug, Clone, Default)]
pub struct Offline {
    /// Folders with wheels, beside the index.
    pub find_links: Vec<PathBuf>,
    /// Ask no index at all.
    pub no_index: bool,
}

/// What to install from, and how.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) project: &'a Path,
    /// The project once more, where builds may write into it; else the same.
    pub(super) place: &'a Path,
    pub(super) requirements: &'a Requirements,
    pub(super) offline: &'a Offline,
    pub(super) runner: &'a Runner,
    /// The interpreter that environments are made of.
    pub(super) interpreter: &'a Interpreter,
    pub(super) watcher: Watcher<'a>,
}

/// The program that installs.
pub(super) enum Tool {
    Uv(uv::Uv),
    Pip(pip::Pip),
}

pub(super) struct Installer<'a> {
    job: Job<'a>,
    environment: &'a Path,
    tool: Tool,
    own: Distribution,
    /// That of our distribution.
    _folder: TempDir,
}

impl<'a> Installer<'a> {
    /// Makes the environment, if it is not there. `lock`: what will be installed, if it is known.
    pub(super) fn make(
        environment: &'a Path,
        job: Job<'a>,
        lock: Option<&Lock>,
    ) -> Result<Self, Error> {
        check_sources(&job)?;
        let python = environment.join("bin/python");
        let tool = match uv::Uv::find(&job, lock, &python)? {
            Ok(uv) => Tool::Uv(uv),
            Err(why_not) => Tool::Pip(pip::Pip::new(&python, why_not)),
        };
        if !python.is_file() {
            let what = format!(
                "making a virtual environment of Python {} ({})",
                job.interpreter.version,
                job.interpreter.path.display()
            );
            part(job.watcher, Part::Environment, &what, "venv", || {
                make_environment(environment, &job)
            })?;
        }
        if let Tool::Pip(pip) = &tool {
            pip.ensure(&job)?;
        }
        let folder = job.runner.folder()?;
        let program = std::env::current_exe();
        let program = program.ok().filter(|_| !job.runner.is_sandboxed());
        let own = Distribution::write(folder.path(), program.as_deref());
        let own = own.map_err(Error::io(format!("cannot write {DISTRIBUTION}")))?;
        Ok(Self {
            job,
            environment,
            tool,
            own,
            _folder: folder,
        })
    }

    /// Which program installs, such as `uv 0.9.2`; in the place of uv with the reason.
    pub(super) fn tool(&self) -> String {
        match &self.tool {
            Tool::Uv(uv) => uv.name(),
            Tool::Pip(pip) => pip.name(self.environment),
        }
    }

    /// Chooses versions for all that is asked for; installs nothing.
    pub(super) fn resolve(&self) -> Result<Lock, Error> {
        let Job {
            project,
            requirements,
            ..
        } = self.job;
        let mut lock = Lock::new(
            requirements.digest.clone(),
            self.job.interpreter.series(),
            Vec::new(),
        );
        if requirements.is_empty() {
            return Ok(lock);
        }
        let names: Vec<_> = requirements
            .files
            .iter()
            .map(|file| file.strip_prefix(project).unwrap_or(file))
            .collect();
        let mut shown: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        if !requirements.lines.is_empty() {
            shown.push("the modules of the project".into());
        }
        let what = format!("choosing versions for {}", shown.join(", "));
        let constraints = requirements.constraints.join("\n");
        let constraints = format!(
            "{constraints}\n{}{}",
            self.own.constraints(),
            constraints_for(self.job.interpreter)
        );
        let constraints = self.job.runner.file(&constraints)?;
        let lines = self
            .job
            .runner
            .without_logins(&requirements.lines.join("\n"))?;
        let lines = self.job.runner.file(&lines)?;
        let mut files: Vec<PathBuf> = names.iter().map(|name| self.job.place.join(name)).collect();
        if !requirements.lines.is_empty() {
            files.push(lines.path().to_owned());
        }
        let tool = self.tool();
        let packages = part(
            self.job.watcher,
            Part::Versions,
            &what,
            &tool,
            || match &self.tool {
                Tool::Uv(uv) => uv.resolve(&self.job, &self.own, constraints.path(), &files, &what),
                Tool::Pip(pip) => {
                    pip.resolve(&self.job, &self.own, constraints.path(), &files, &what)
                }
            },
        );
        let packages = packages.map_err(|error| self.with_python(error))?;
        let ours = |package: Package| match package.is_own() {
            true => Package::own(&package.name),
            false => package,
        };
        lock.set_packages(packages.into_iter().map(ours).collect());
        self.check_python(&lock)?;
        Ok(lock)
    }

    /// Checks before anything is installed whether the packages run on this Python.
    fn check_python(&self, lock: &Lock) -> Result<(), Error> {
        match self.job.interpreter.unmet(&lock.needs()) {
            None => Ok(()),
            Some(unmet) => Err(Error::Project(format!("{unmet}: {ANOTHER}"))),
        }
    }

    /// Where versions are left out because of Python, which one was taken is part of the reason.
    fn with_python(&self, error: Error) -> Error {
        // pip's words, and those of uv.
        const SIGNS: [&str; 4] = [
            "Requires-Python",
            "different python version",
            "not in '",
            "does not satisfy Python",
        ];
        match error {
            Error::Unsatisfiable { message } if SIGNS.iter().any(|sign| message.contains(sign)) => {
                let Interpreter { path, version } = self.job.interpreter;
                Error::Unsatisfiable {
                    message: format!(
                        "{message}\nthe Python that was taken is {version} ({}): {ANOTHER}",
                        path.display()
                    ),
                }
            }
            other => other,
        }
    }

    /// Installs exactly what the lock says, and for `inmanta-core` what stands in for it.
    pub(super) fn install(&self, lock: &Lock) -> Result<(), Error> {
        self.check_python(lock)?;
        for package in &lock.packages {
            if let Source::Folder { folder, .. } = &package.source {
                check_folder(&self.job, folder)?;
            }
            let digest = |folder: &Path| {
                self.job
                    .runner
                    .folder_digest(&self.job.project.join(folder))
            };
            if let Some(difference) = package.folder_difference(digest)? {
                return Err(Error::Project(format!(
                    "{difference}: run `steward project update`, and commit what it writes"
                )));
            }
        }
        let n_packages = lock.packages.len();
        let plural = if n_packages == 1 { "" } else { "s" };
        let what = format!("installing {n_packages} package{plural}");
        part(
            self.job.watcher,
            Part::Packages,
            &what,
            &self.tool(),
            || {
                self.install_archives(lock)?;
                lock.packages
                    .iter()
                    .try_for_each(|package| self.install_source(package))
            },
        )
    }

    fn install_archives(&self, lock: &Lock) -> Result<(), Error> {
        let mut archives = String::new();
        let mut n_archives = 0;
        for package in &lock.packages {
            let Package { name, version, .. } = package;
            let line = match &package.source {
                _ if package.is_own() => {
                    let (version, sha256) = (&self.own.version, self.own.sha256_of(name));
                    format!("{name}=={version} --hash=sha256:{sha256}\n")
                }
                Source::Archive { url: None, sha256 } => {
                    format!("{name}=={version} --hash=sha256:{sha256}\n")
                }
                Source::Archive {
                    url: Some(url),
                    sha256,
                } => format!("{name} @ {url} --hash=sha256:{sha256}\n"),
                _ => continue,
            };
            archives.push_str(&line);
            n_archives += 1;
        }
        if n_archives == 0 {
            return Ok(());
        }
        let sources = self.job.requirements.sources.join("\n");
        let archives = format!("{sources}\n{archives}");
        let archives = self.job.runner.without_logins(&archives)?;
        let archives = self.job.runner.file(&archives)?;
        let mut command = match &self.tool {
            Tool::Uv(uv) => uv.command(&self.job, &self.own, &["pip", "install"])?,
            Tool::Pip(pip) => pip.command(&self.job, &self.own)?,
        };
        command.args(["--no-deps", "--require-hashes", "-r"]);
        let plural = if n_archives == 1 { "" } else { "s" };
        let what = format!("installing {n_archives} package{plural} of an index");
        self.run(command.arg(archives.path()), &what)
    }

    /// Builds and installs a package of a repository or a folder.
    fn install_source(&self, package: &Package) -> Result<(), Error> {
        let (is_editable, place) = match &package.source {
            _ if package.is_own() => return Ok(()),
            Source::Archive { .. } | Source::Own { .. } => return Ok(()),
            Source::Repository {
                git,
                commit,
                subdirectory,
            } => {
                let below = subdirectory
                    .as_ref()
                    .map_or(String::new(), |path| format!("#subdirectory={path}"));
                // Without its name: pip takes none before a path.
                (false, format!("git+{git}@{commit}{below}"))
            }
            Source::Folder {
                folder, editable, ..
            } => {
                let folder = self.job.place.join(folder);
                (*editable, folder.to_string_lossy().into_owned())
            }
        };
        let mut command = match &self.tool {
            Tool::Uv(uv) => {
                let mut command = uv.command(&self.job, &self.own, &["pip", "install"])?;
                command.args(["--no-deps", "--reinstall"]);
                command
            }
            Tool::Pip(pip) => {
                let mut command = pip.command(&self.job, &self.own)?;
                command.args(["--no-deps", "--force-reinstall"]);
                command
            }
        };
        if is_editable {
            command.arg("--editable");
        }
        let what = format!(
            "building and installing {} {}",
            package.name, package.version
        );
        self.run(command.arg(place), &what)
    }

    fn run(&self, command: &mut std::process::Command, what: &str) -> Result<(), Error> {
        let ran = match &self.tool {
            Tool::Uv(_) => self
                .job
                .runner
                .run(command, what, self.job.watcher)
                .and_then(check_success),
            Tool::Pip(_) => pip::run(&self.job, command, what),
        };
        ran.map(|_| ())
    }

    /// Adds what is known of packages when they are installed to a lock that was just made.
    pub(super) fn complete(&self, lock: &mut Lock) -> Result<(), Error> {
        lock.complete(&present::installed(self.environment)?);
        Ok(())
    }
}

/// Source: docs/reference/language.md § 11.2, `pip`.
fn check_sources(job: &Job<'_>) -> Result<(), Error> {
    let Job {
        requirements,
        offline,
        ..
    } = job;
    let has_source =
        requirements.says_where_from() || offline.no_index || !offline.find_links.is_empty();
    if has_source || requirements.is_empty() {
        return Ok(());
    }
    Err(Error::Project(
        "project.yml says nowhere to install from: set pip.index-url, or pip.use-system-config to true"
            .to_owned(),
    ))
}

/// Makes an environment without pip: uv needs none.
fn make_environment(environment: &Path, job: &Job<'_>) -> Result<(), Error> {
    let mut command = job.runner.command(&job.interpreter.path)?;
    command
        .args(["-m", "venv", "--without-pip"])
        .arg(environment);
    let output = job
        .runner
        .run(&mut command, "making a virtual environment", job.watcher)?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::Machine(format!(
        "cannot make the virtual environment {}: {}",
        environment.display(),
        output_text(&output)
    )))
}

/// A server reads no other folders than those of the project because a repository says so.
pub(super) fn check_folder(job: &Job<'_>, folder: &Path) -> Result<(), Error> {
    let is_plain = |part| matches!(part, std::path::Component::Normal(_));
    if !job.runner.is_sandboxed() || folder.components().all(is_plain) {
        return Ok(());
    }
    Err(Error::Project(format!(
        "the folder {} is not in the project: a server installs from folders of the project only",
        folder.display()
    )))
}
