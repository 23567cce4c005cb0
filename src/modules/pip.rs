//! pip: its commands, and its report of what it would install.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;

use super::Error;
use super::installer::{Job, check_folder};
use super::lock::{Package, Source, normalized};
use super::output::{check_success, output_text};
use super::present::site_packages;
use crate::python::Distribution;

/// The pip of an environment.
pub(super) struct Pip {
    python: PathBuf,
    /// Why it is not uv that installs; empty: there is none.
    why_not_uv: &'static str,
}

/// What pip says that it would install.
#[derive(Deserialize)]
struct Report {
    install: Vec<Planned>,
}

#[derive(Deserialize)]
struct Planned {
    metadata: Metadata,
    download_info: Origin,
    #[serde(default)]
    is_direct: bool,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Origin {
    url: String,
    archive_info: Option<Archive>,
    vcs_info: Option<Repository>,
    dir_info: Option<Folder>,
    subdirectory: Option<String>,
}

#[derive(Deserialize)]
struct Archive {
    hash: Option<String>,
    hashes: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Repository {
    commit_id: String,
}

#[derive(Deserialize)]
struct Folder {
    #[serde(default)]
    editable: bool,
}

/// What puts the pip of an interpreter into an environment of it, in a tenth of ensurepip's time.
const BUNDLED: &str = include_str!("bundled_pip.py");
/// It exits so where it does not find that pip.
const NOT_BUNDLED: i32 = 3;

/// A report is never larger, unless somebody wants to fill our memory.
const REPORT_BYTES: u64 = 64 << 20;

impl Pip {
    pub(super) fn new(python: &Path, why_not_uv: &'static str) -> Self {
        Self {
            python: python.to_owned(),
            why_not_uv,
        }
    }

    /// `pip 25.0`, as its own metadata say.
    pub(super) fn name(&self, environment: &Path) -> String {
        let found = installed_version(environment)
            .map_or_else(|| "pip".to_owned(), |version| format!("pip {version}"));
        match self.why_not_uv {
            "" => found,
            why => format!("{found}, not uv: {why}"),
        }
    }

    /// Puts pip into an environment that has none: a new one, or one that uv installed into.
    pub(super) fn ensure(&self, job: &Job<'_>) -> Result<(), Error> {
        let environment = self.python.ancestors().nth(2).unwrap_or(&self.python);
        if installed_version(environment).is_some() {
            return Ok(());
        }
        let what = "putting pip into the virtual environment";
        let run = |arguments: &[&str]| {
            let mut command = job.runner.command(&self.python)?;
            job.runner.run(command.args(arguments), what, job.watcher)
        };
        let mut output = run(&["-I", "-c", BUNDLED])?;
        if output.status.code() == Some(NOT_BUNDLED) {
            output = run(&["-m", "ensurepip", "--default-pip"])?;
        }
        if output.status.success() {
            return Ok(());
        }
        Err(Error::Machine(format!(
            "cannot put pip into the virtual environment {} (on Debian it needs the package python3-venv): {}",
            environment.display(),
            output_text(&output)
        )))
    }

    pub(super) fn command(&self, job: &Job<'_>, own: &Distribution) -> Result<Command, Error> {
        let mut command = job.runner.command(&self.python)?;
        command.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        let (pip, offline) = (&job.requirements.pip, job.offline);
        if offline.no_index {
            command.arg("--no-index");
        } else if let Some(url) = &pip.index_url {
            command
                .arg("--index-url")
                .arg(job.runner.without_logins(url)?);
        }
        for url in pip.extra_index_url.iter().filter(|_| !offline.no_index) {
            command
                .arg("--extra-index-url")
                .arg(job.runner.without_logins(url)?);
        }
        for folder in offline.find_links.iter().chain([&own.folder]) {
            command.arg("--find-links").arg(folder);
        }
        if pip.pre == Some(true) {
            command.arg("--pre");
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
        let mut report = job.runner.file("")?;
        let mut command = self.command(job, own)?;
        command.args(["--dry-run", "--ignore-installed", "--report"]);
        command.arg(report.path()).arg("-c").arg(constraints);
        for file in files {
            command.arg("-r").arg(file);
        }
        run(job, &mut command, what)?;
        // Through the file that we have open: its name may be another's by now.
        let mut text = String::new();
        let file = report.as_file_mut();
        file.rewind()
            .and_then(|()| file.take(REPORT_BYTES).read_to_string(&mut text))
            .map_err(Error::io("cannot read pip's report"))?;
        let report: Report = serde_json::from_str(&text)
            .map_err(|error| Error::Machine(format!("pip's report is not understood: {error}")))?;
        let planned = report.install.into_iter();
        planned.map(|planned| package(job, planned)).collect()
    }
}

/// Runs pip; where its git could not have a repository, once more when there is a copy of it.
pub(super) fn run(job: &Job<'_>, command: &mut Command, what: &str) -> Result<Output, Error> {
    loop {
        let output = job.runner.run(command, what, job.watcher)?;
        let is_git =
            |output: &str| output.contains("git ") && output.contains("did not run successfully");
        if output.status.success() || !is_git(&output_text(&output)) || !job.runner.fetch()? {
            return check_success(output);
        }
    }
}

fn package(job: &Job<'_>, planned: Planned) -> Result<Package, Error> {
    let Origin {
        url,
        archive_info,
        vcs_info,
        dir_info,
        subdirectory,
    } = planned.download_info;
    let source = if let Some(repository) = vcs_info {
        Source::Repository {
            git: url,
            commit: repository.commit_id,
            subdirectory,
        }
    } else if let Some(info) = dir_info {
        let path = PathBuf::from(url.strip_prefix("file://").unwrap_or(&url));
        folder(job, &path, info.editable)?
    } else {
        let sha256 = archive_info.and_then(|archive| {
            let hash = archive
                .hashes
                .and_then(|hashes| hashes.get("sha256").cloned());
            hash.or_else(|| archive.hash?.strip_prefix("sha256=").map(str::to_owned))
        });
        Source::Archive {
            sha256: sha256.ok_or_else(|| {
                Error::Machine(format!("pip gives no digest of {}", planned.metadata.name))
            })?,
            url: planned.is_direct.then_some(url),
        }
    };
    Ok(Package {
        name: normalized(&planned.metadata.name),
        version: planned.metadata.version,
        python: None,
        source,
    })
}

/// A folder that is installed from, as the lock names it.
pub(super) fn folder(job: &Job<'_>, path: &Path, editable: bool) -> Result<Source, Error> {
    let place = job.place;
    let real = std::fs::canonicalize(place).unwrap_or(place.to_owned());
    let folder = path.strip_prefix(&real).unwrap_or(path).to_owned();
    check_folder(job, &folder)?;
    Ok(Source::Folder {
        sha256: job.runner.folder_digest(&job.project.join(&folder))?,
        folder,
        editable,
    })
}

/// The version of the pip in an environment; `None`: it has none.
fn installed_version(environment: &Path) -> Option<String> {
    site_packages(environment).find_map(|path| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let version = name.strip_prefix("pip-")?.strip_suffix(".dist-info")?;
        Some(version.to_owned())
    })
}

/// For fuzzing: a text as the report of pip.
pub(super) fn read_any(text: &str) {
    if let Ok(report) = serde_json::from_str::<Report>(text) {
        let names = report.install.iter();
        let _: Vec<String> = names.map(|one| normalized(&one.metadata.name)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(command: &mut Command) -> Output {
        command.output().expect("it starts")
    }

    #[test]
    fn the_bundled_pip_is_laid_out_where_nothing_is_and_can_be_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        // Longer than the first line of a script may be, and with a space.
        let environment = dir.path().join("a b").join("x".repeat(120));
        let made = ran(Command::new("python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&environment));
        assert!(made.status.success(), "{}", output_text(&made));
        let python = environment.join("bin/python");
        let laid_out = ran(Command::new(&python).args(["-I", "-c", BUNDLED]));
        assert!(laid_out.status.success(), "{}", output_text(&laid_out));
        let version = installed_version(&environment).expect("there is a pip");
        let script = environment.join("bin/pip");
        let printed = ran(Command::new(&script).arg("--version"));
        let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
        assert!(printed.starts_with(&format!("pip {version} ")), "{printed}");
        let removed =
            ran(Command::new(&python).args(["-m", "pip", "uninstall", "-q", "-y", "pip"]));
        assert!(removed.status.success(), "{}", output_text(&removed));
        assert_eq!(
            (installed_version(&environment), script.exists()),
            (None, false)
        );
    }

    #[test]
    fn a_python_without_a_bundled_pip_is_told_from_one_that_fails() {
        let hidden = format!("import sys; sys.modules['ensurepip'] = None; exec({BUNDLED:?})");
        let ended = ran(Command::new("python3").args(["-I", "-c", &hidden]));
        assert_eq!(
            ended.status.code(),
            Some(NOT_BUNDLED),
            "{}",
            output_text(&ended)
        );
    }
}
