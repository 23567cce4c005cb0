//! uv: does what pip does, in a tenth of the time. Nobody must have it: where it is, it is used.
//!
//! It is not used for what it does otherwise than pip: repositories (ours are copied with credentials that it would not
//! find), options of requirement files that it does not know, and indexes that `pip.conf` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::installer::Job;
use super::lock::{Lock, Package, Source, normalized};
use super::output::check_success;
use super::{Error, pip};
use crate::python::Distribution;

/// A uv of this machine.
pub(super) struct Uv {
    program: PathBuf,
    version: String,
    /// The Python of the environment.
    python: PathBuf,
}

/// `pylock.toml`, of which uv writes one for this machine. Source: the packaging specification of that name.
#[derive(Deserialize)]
struct Resolution {
    #[serde(default)]
    packages: Vec<Planned>,
}

#[derive(Deserialize)]
struct Planned {
    name: String,
    version: Option<String>,
    /// The one that fits this machine; others are left out, since the resolution is for it.
    #[serde(default)]
    wheels: Vec<Archive>,
    sdist: Option<Archive>,
    /// The archive, if the package comes from a URL of its own.
    archive: Option<Archive>,
    directory: Option<Directory>,
}

#[derive(Deserialize)]
struct Archive {
    url: Option<String>,
    path: Option<PathBuf>,
    #[serde(default)]
    hashes: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Directory {
    path: PathBuf,
    #[serde(default)]
    editable: bool,
}

/// Names the program that installs, `uv` or `pip`, instead of the first that is there.
const VARIABLE: &str = "STEWARD_INSTALLER";

impl Uv {
    /// Finds one; else why pip installs (nothing to be said: there is none).
    ///
    /// # Errors
    /// The variable names no program that there is.
    pub(super) fn find(
        job: &Job<'_>,
        lock: Option<&Lock>,
        python: &Path,
    ) -> Result<Result<Self, &'static str>, Error> {
        let named = std::env::var(VARIABLE).unwrap_or_default();
        match named.as_str() {
            "" | "uv" => {}
            "pip" => return Ok(Err("STEWARD_INSTALLER says so")),
            other => {
                let message = format!("{VARIABLE} is {other}: it may be uv or pip");
                return Err(Error::Machine(message));
            }
        }
        // What the builds of a repository left in an environment of a server does not run outside of a sandbox.
        let of_environment = Some(python).filter(|_| !job.runner.is_sandboxed());
        let beside = of_environment
            .into_iter()
            .chain([job.interpreter.path.as_path()]);
        let beside = beside.filter_map(|path| Some(path.parent()?.to_owned()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = beside.chain(std::env::split_paths(&path));
        let found = folders.find_map(|folder| program(&folder.join("uv")));
        let Some((program, version)) = found else {
            if named.is_empty() {
                return Ok(Err(""));
            }
            let message = format!("{VARIABLE} is uv, but there is no uv on the path");
            return Err(Error::Machine(message));
        };
        Ok(match unfit(job, lock) {
            Some(why) => Err(why),
            None => Ok(Self {
                program,
                version,
                python: python.to_owned(),
            }),
        })
    }

    pub(super) fn name(&self) -> String {
        format!("uv {}", self.version)
    }

    pub(super) fn command(
        &self,
        job: &Job<'_>,
        own: &Distribution,
        words: &[&str],
    ) -> Result<Command, Error> {
        let mut command = job.runner.command(&self.program)?;
        command.args(words).arg("--python").arg(&self.python);
        // As pip does: the newest of all indexes.
        command.args(["--index-strategy", "unsafe-best-match", "--color", "never"]);
        command.env("UV_PYTHON_DOWNLOADS", "never");
        let (pip, offline) = (&job.requirements.pip, job.offline);
        let system = |name: &str| {
            let value = std::env::var(name).unwrap_or_default();
            let words = value.split_whitespace().map(str::to_owned);
            words.filter(|_| pip.use_system_config).collect::<Vec<_>>()
        };
        if offline.no_index || !system("PIP_NO_INDEX").is_empty() {
            command.arg("--no-index");
        } else {
            let first = pip.index_url.clone();
            let first = first.or_else(|| system("PIP_INDEX_URL").into_iter().next());
            // They may have passwords, and everybody on the machine reads arguments.
            if let Some(url) = first {
                command.env("UV_DEFAULT_INDEX", url);
            }
            let more = pip.extra_index_url.iter().cloned();
            let more: Vec<_> = more.chain(system("PIP_EXTRA_INDEX_URL")).collect();
            if !more.is_empty() {
                command.env("UV_INDEX", more.join(" "));
            }
        }
        let folders = offline.find_links.iter().chain([&own.folder]).cloned();
        let of_system = system("PIP_FIND_LINKS").into_iter().map(PathBuf::from);
        for folder in folders.chain(of_system) {
            command.arg("--find-links").arg(folder);
        }
        if pip.pre == Some(true) {
            command.args(["--prerelease", "allow"]);
        }
        command.current_dir(job.place);
        Ok(command)
    }

    pub(super) fn resolve(
        &self,
        job: &Job<'_>,
        own: &Distribution,
        constraints: &Path,
        files: &[PathBuf],
        what: &str,
    ) -> Result<Vec<Package>, Error> {
        let mut command = self.command(job, own, &["pip", "compile"])?;
        command.args(["--format", "pylock.toml", "--no-header", "--no-annotate"]);
        command.arg("-c").arg(constraints).args(files);
        let output = check_success(job.runner.run(&mut command, what, job.watcher)?)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let resolution: Resolution = toml::from_str(&text)
            .map_err(|error| Error::Machine(format!("uv's answer is not understood: {error}")))?;
        let planned = resolution.packages.into_iter();
        planned.map(|planned| package(job, planned)).collect()
    }
}

/// Why pip has to do the job instead; `None`: uv can.
fn unfit(job: &Job<'_>, lock: Option<&Lock>) -> Option<&'static str> {
    let requirements = job.requirements;
    let is_repository = |package: &Package| matches!(package.source, Source::Repository { .. });
    let in_lock = |lock: &Lock| lock.packages.iter().any(is_repository);
    if !requirements.repositories.is_empty() || lock.is_some_and(in_lock) {
        return Some("packages come from git");
    }
    if requirements.needs_pip {
        return Some("requirement files have options that are pip's");
    }
    (requirements.pip.use_system_config && is_pip_configured())
        .then_some("pip.conf says where packages come from")
}

/// Whether a `pip.conf` of this machine says where packages come from.
fn is_pip_configured() -> bool {
    const KEYS: [&str; 5] = [
        "index-url",
        "extra-index-url",
        "find-links",
        "no-index",
        "trusted-host",
    ];
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let of_home = [".config/pip/pip.conf", ".pip/pip.conf"];
    let of_home = home
        .iter()
        .flat_map(|home| of_home.iter().map(|name| home.join(name)));
    let config =
        std::env::var_os("XDG_CONFIG_HOME").map(|home| PathBuf::from(home).join("pip/pip.conf"));
    let named = std::env::var_os("PIP_CONFIG_FILE").map(PathBuf::from);
    let of_system = ["/etc/pip.conf", "/etc/xdg/pip/pip.conf"].map(PathBuf::from);
    let files = of_home.chain(config).chain(named).chain(of_system);
    files
        .filter_map(|file| std::fs::read_to_string(file).ok())
        .any(|text| {
            let keys = text.lines().filter_map(|line| line.split_once('='));
            let mut keys = keys.map(|(key, _)| key.trim().replace('_', "-"));
            keys.any(|key| KEYS.contains(&key.as_str()))
        })
}

/// A uv at `path`, and its version.
fn program(path: &Path) -> Option<(PathBuf, String)> {
    if !path.is_file() {
        return None;
    }
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // `uv 0.9.2 (…)`.
    let version = text.split_whitespace().nth(1)?.to_owned();
    output.status.success().then(|| (path.to_owned(), version))
}

fn package(job: &Job<'_>, planned: Planned) -> Result<Package, Error> {
    let Planned {
        name,
        version,
        wheels,
        sdist,
        archive,
        directory,
    } = planned;
    let digest = |archive: &Archive| {
        let sha256 = archive.hashes.get("sha256").cloned();
        sha256.ok_or_else(|| Error::Machine(format!("uv gives no digest of {name}")))
    };
    let mut version = version;
    let source = if let Some(directory) = &directory {
        let path = job.place.join(&directory.path);
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        pip::folder(job, &path, directory.editable)?
    } else if let Some(archive) = &archive {
        let of_path = || Some(format!("file://{}", archive.path.as_ref()?.display()));
        let url = archive.url.clone().or_else(of_path);
        version = version.or_else(|| version_of(url.as_deref()?));
        Source::Archive {
            sha256: digest(archive)?,
            url,
        }
    } else {
        let chosen = wheels.first().or(sdist.as_ref());
        let chosen = chosen
            .ok_or_else(|| Error::Machine(format!("uv does not say where {name} comes from")))?;
        Source::Archive {
            sha256: digest(chosen)?,
            url: None,
        }
    };
    Ok(Package {
        name: normalized(&name),
        version: version.unwrap_or_default(),
        python: None,
        source,
    })
}

/// For fuzzing: a text as the answer of uv.
pub(super) fn read_any(text: &str) {
    if let Ok(resolution) = toml::from_str::<Resolution>(text) {
        for planned in &resolution.packages {
            let _ = normalized(&planned.name);
            let _ = planned
                .archive
                .as_ref()
                .and_then(|one| version_of(one.url.as_deref()?));
        }
    }
}

/// The version in the name of an archive.
fn version_of(url: &str) -> Option<String> {
    let file = url.rsplit('/').next()?;
    let file = file.strip_suffix(".tar.gz").or(file.strip_suffix(".whl"))?;
    Some(file.split('-').nth(1)?.to_owned())
}
