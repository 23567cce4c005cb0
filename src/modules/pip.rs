//! pip, in the virtual environment that it installs into.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;

use super::command::Runner;
use super::lock::{Lock, Package, Present, Source, folder_digest, normalized};
use super::said::{good, said};
use super::{Error, Requirements, record};

/// Where packages are looked for instead of an index.
#[derive(Debug, Clone, Default)]
pub struct Offline {
    /// Folders with wheels, beside the index.
    pub find_links: Vec<PathBuf>,
    /// Ask no index at all.
    pub no_index: bool,
}

pub(super) struct Pip<'a> {
    python: PathBuf,
    job: Job<'a>,
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

/// A report is never larger, unless somebody wants to fill our memory.
const REPORT_BYTES: u64 = 64 << 20;

impl<'a> Pip<'a> {
    /// Makes the environment, if it is not there.
    pub(super) fn make(
        environment: &Path,
        interpreter: &Path,
        job: Job<'a>,
    ) -> Result<Self, Error> {
        let pip = Self {
            python: environment.join("bin/python"),
            job,
        };
        pip.check_sources()?;
        if !pip.python.is_file() {
            let mut command = job.runner.command(interpreter)?;
            command.args(["-m", "venv"]).arg(environment);
            let output = job
                .runner
                .run(&mut command, "making a virtual environment")?;
            if !output.status.success() {
                let said = said(&output);
                return Err(Error::Machine(format!(
                    "cannot make the virtual environment {} (on Debian it needs the package python3-venv): {said}",
                    environment.display()
                )));
            }
        }
        Ok(pip)
    }

    /// Source: language.md 11.2, `pip`.
    fn check_sources(&self) -> Result<(), Error> {
        let Job {
            requirements,
            offline,
            ..
        } = self.job;
        let pip = &requirements.pip;
        let has_source = pip.use_system_config
            || pip.index_url.is_some()
            || offline.no_index
            || !offline.find_links.is_empty()
            || !requirements.sources.is_empty();
        if has_source || requirements.is_empty() {
            return Ok(());
        }
        Err(Error::Project(
            "project.yml says nowhere to install from: set pip.index-url, or pip.use-system-config to true"
                .to_owned(),
        ))
    }

    fn command(&self) -> Result<Command, Error> {
        let mut command = self.job.runner.command(&self.python)?;
        command.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        let (pip, offline) = (&self.job.requirements.pip, self.job.offline);
        if offline.no_index {
            command.arg("--no-index");
        } else if let Some(url) = &pip.index_url {
            command.arg("--index-url").arg(url);
        }
        for url in pip.extra_index_url.iter().filter(|_| !offline.no_index) {
            command.arg("--extra-index-url").arg(url);
        }
        for folder in &offline.find_links {
            command.arg("--find-links").arg(folder);
        }
        if pip.pre == Some(true) {
            command.arg("--pre");
        }
        command.current_dir(self.job.place);
        Ok(command)
    }

    fn run(&self, command: &mut Command, what: &str) -> Result<Output, Error> {
        loop {
            let output = self.job.runner.run(command, what)?;
            let is_git =
                |said: &str| said.contains("git ") && said.contains("did not run successfully");
            if output.status.success() || !is_git(&said(&output)) || !self.job.runner.fetch()? {
                return good(output);
            }
        }
    }

    /// Chooses versions for all that is asked for; installs nothing.
    pub(super) fn resolve(&self) -> Result<Lock, Error> {
        let Job {
            project,
            place,
            requirements,
            runner,
            ..
        } = self.job;
        let mut packages = Vec::new();
        if !requirements.is_empty() {
            let constraints = runner.file(&requirements.constraints.join("\n"))?;
            let mut report = runner.file("")?;
            let mut command = self.command()?;
            command.args(["--dry-run", "--ignore-installed", "--report"]);
            command.arg(report.path()).arg("-c").arg(constraints.path());
            let mut names = Vec::new();
            for file in &requirements.files {
                let name = file.strip_prefix(project).unwrap_or(file);
                command.arg("-r").arg(place.join(name));
                names.push(name.to_string_lossy());
            }
            let what = format!("choosing versions for {}", names.join(", "));
            self.run(&mut command, &what)?;
            // Through the file that we have open: its name may be another's by now.
            let mut text = String::new();
            let file = report.as_file_mut();
            file.rewind()
                .and_then(|()| file.take(REPORT_BYTES).read_to_string(&mut text))
                .map_err(Error::io("cannot read pip's report"))?;
            let report: Report = serde_json::from_str(&text).map_err(|error| {
                Error::Machine(format!("pip's report is not understood: {error}"))
            })?;
            for planned in report.install {
                packages.push(self.package(planned)?);
            }
        }
        Ok(Lock::new(requirements.digest.clone(), packages))
    }

    fn package(&self, planned: Planned) -> Result<Package, Error> {
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
            let place = self.job.place;
            let real = std::fs::canonicalize(place).unwrap_or(place.to_owned());
            let folder = path.strip_prefix(&real).unwrap_or(&path).to_owned();
            self.check_folder(&folder)?;
            Source::Folder {
                sha256: folder_digest(&self.job.project.join(&folder))?,
                folder,
                editable: info.editable,
            }
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
            source,
        })
    }

    /// A server reads no other folders than those of the project because a repository says so.
    fn check_folder(&self, folder: &Path) -> Result<(), Error> {
        let is_plain = |part| matches!(part, std::path::Component::Normal(_));
        if !self.job.runner.is_sandboxed() || folder.components().all(is_plain) {
            return Ok(());
        }
        Err(Error::Project(format!(
            "the folder {} is not in the project: a server installs from folders of the project only",
            folder.display()
        )))
    }

    /// Installs exactly what the lock says.
    pub(super) fn install(&self, lock: &Lock) -> Result<(), Error> {
        for package in &lock.packages {
            if let Source::Folder { folder, .. } = &package.source {
                self.check_folder(folder)?;
            }
            if let Some(difference) = package.folder_difference(self.job.project)? {
                return Err(Error::Project(format!(
                    "{difference}: run `steward project update`, and commit what it writes"
                )));
            }
        }
        let mut archives = String::new();
        let mut n_archives = 0;
        let mut others = Vec::new();
        for Package {
            name,
            version,
            source,
        } in &lock.packages
        {
            let named = format!("{name} {version}");
            n_archives += usize::from(matches!(source, Source::Archive { .. }));
            match source {
                Source::Archive { url: None, sha256 } => {
                    archives.push_str(&format!("{name}=={version} --hash=sha256:{sha256}\n"));
                }
                Source::Archive {
                    url: Some(url),
                    sha256,
                } => archives.push_str(&format!("{name} @ {url} --hash=sha256:{sha256}\n")),
                Source::Repository {
                    git,
                    commit,
                    subdirectory,
                } => {
                    let below = subdirectory
                        .as_ref()
                        .map_or(String::new(), |path| format!("#subdirectory={path}"));
                    // Without its name: pip takes none before a path.
                    others.push((named, false, format!("git+{git}@{commit}{below}")));
                }
                Source::Folder {
                    folder, editable, ..
                } => {
                    let folder = self.job.place.join(folder);
                    others.push((named, *editable, folder.to_string_lossy().into_owned()));
                }
            }
        }
        if !archives.is_empty() {
            let sources = self.job.requirements.sources.join("\n");
            let archives = self.job.runner.file(&format!("{sources}\n{archives}"))?;
            let mut command = self.command()?;
            command.args(["--quiet", "--no-deps", "--require-hashes", "-r"]);
            let plural = if n_archives == 1 { "" } else { "s" };
            let what = format!("installing {n_archives} package{plural} of an index");
            self.run(command.arg(archives.path()), &what)?;
        }
        for (named, editable, other) in others {
            let mut command = self.command()?;
            command.args(["--quiet", "--no-deps", "--force-reinstall"]);
            if editable {
                command.arg("--editable");
            }
            let what = format!("building and installing {named}");
            self.run(command.arg(other), &what)?;
        }
        Ok(())
    }
}

/// What is installed in an environment.
pub(super) fn installed(environment: &Path) -> Result<Vec<Present>, Error> {
    #[derive(Deserialize)]
    struct Inspected {
        installed: Vec<Distribution>,
    }
    #[derive(Deserialize)]
    struct Distribution {
        metadata: Metadata,
        metadata_location: Option<PathBuf>,
        direct_url: Option<Origin>,
    }
    let python = environment.join("bin/python");
    if !python.is_file() {
        return Err(Error::Project(format!(
            "there is no environment {}: run `steward project install`",
            environment.display()
        )));
    }
    let runner = Runner::free(false);
    let mut command = runner.command(&python)?;
    command.args([
        "-m",
        "pip",
        "inspect",
        "--local",
        "--disable-pip-version-check",
    ]);
    let output = good(runner.run(&mut command, "looking at what is installed")?)?;
    let inspected: Inspected = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Machine(format!("pip's answer is not understood: {error}")))?;
    let present = |distribution: Distribution| Present {
        name: normalized(&distribution.metadata.name),
        version: distribution.metadata.version,
        commit: distribution
            .direct_url
            .and_then(|origin| Some(origin.vcs_info?.commit_id)),
        changed: distribution
            .metadata_location
            .map_or_else(Vec::new, |directory| record::changed(&directory)),
    };
    Ok(inspected.installed.into_iter().map(present).collect())
}
