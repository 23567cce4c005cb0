//! pip, in the virtual environment that it installs into.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde::Deserialize;

use super::lock::{Lock, Package, Present, Source, folder_digest, normalized};
use super::{Error, Requirements};

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
    project: &'a Path,
    requirements: &'a Requirements,
    offline: &'a Offline,
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

impl<'a> Pip<'a> {
    /// Makes the environment, if it is not there.
    pub(super) fn make(
        environment: &Path,
        interpreter: &Path,
        project: &'a Path,
        requirements: &'a Requirements,
        offline: &'a Offline,
    ) -> Result<Self, Error> {
        let pip = Self {
            python: environment.join("bin/python"),
            project,
            requirements,
            offline,
        };
        pip.check_sources()?;
        if !pip.python.is_file() {
            let output = clean(interpreter)
                .args(["-m", "venv"])
                .arg(environment)
                .output()
                .map_err(Error::io(format!("cannot run {}", interpreter.display())))?;
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
        let pip = &self.requirements.pip;
        let offline = self.offline.no_index || !self.offline.find_links.is_empty();
        let has_source = pip.use_system_config
            || pip.index_url.is_some()
            || offline
            || !self.requirements.sources.is_empty();
        if has_source || self.requirements.is_empty() {
            return Ok(());
        }
        Err(Error::Project(
            "project.yml says nowhere to install from: set pip.index-url, or pip.use-system-config to true"
                .to_owned(),
        ))
    }

    fn command(&self) -> Command {
        let mut command = clean(&self.python);
        command.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
        ]);
        let pip = &self.requirements.pip;
        if pip.use_system_config {
            let ours = std::env::vars_os().filter(|(name, _)| {
                let name = name.to_string_lossy();
                name.starts_with("PIP_") || name.starts_with("XDG_CONFIG")
            });
            command.envs(ours);
        } else {
            command.env("PIP_CONFIG_FILE", "/dev/null");
        }
        if self.offline.no_index {
            command.arg("--no-index");
        } else if let Some(url) = &pip.index_url {
            command.arg("--index-url").arg(url);
        }
        for url in pip
            .extra_index_url
            .iter()
            .filter(|_| !self.offline.no_index)
        {
            command.arg("--extra-index-url").arg(url);
        }
        for folder in &self.offline.find_links {
            command.arg("--find-links").arg(folder);
        }
        if pip.pre == Some(true) {
            command.arg("--pre");
        }
        command.current_dir(self.project);
        command
    }

    /// Chooses versions for all that is asked for; installs nothing.
    pub(super) fn resolve(&self) -> Result<Lock, Error> {
        let mut packages = Vec::new();
        if !self.requirements.is_empty() {
            let constraints = file(&self.requirements.constraints.join("\n"))?;
            let report = file("")?;
            let mut command = self.command();
            command.args(["--dry-run", "--ignore-installed", "--report"]);
            command.arg(report.path()).arg("-c").arg(constraints.path());
            for file in &self.requirements.files {
                command.arg("-r").arg(file);
            }
            run(&mut command)?;
            let text =
                std::fs::read(report.path()).map_err(Error::io("cannot read pip's report"))?;
            let report: Report = serde_json::from_slice(&text).map_err(|error| {
                Error::Machine(format!("pip's report is not understood: {error}"))
            })?;
            for planned in report.install {
                packages.push(self.package(planned)?);
            }
        }
        Ok(Lock::new(self.requirements.digest.clone(), packages))
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
            let project = std::fs::canonicalize(self.project).unwrap_or(self.project.to_owned());
            let folder = path.strip_prefix(&project).unwrap_or(&path).to_owned();
            Source::Folder {
                sha256: folder_digest(&path)?,
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

    /// Installs exactly what the lock says.
    pub(super) fn install(&self, lock: &Lock) -> Result<(), Error> {
        for package in &lock.packages {
            if let Some(difference) = package.folder_difference(self.project)? {
                return Err(Error::Project(format!(
                    "{difference}: run `steward project update`, and commit what it writes"
                )));
            }
        }
        let mut archives = String::new();
        let mut others = Vec::new();
        for Package {
            name,
            version,
            source,
        } in &lock.packages
        {
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
                    others.push((false, format!("git+{git}@{commit}{below}")));
                }
                Source::Folder {
                    folder, editable, ..
                } => {
                    let folder = self.project.join(folder);
                    others.push((*editable, folder.to_string_lossy().into_owned()));
                }
            }
        }
        if !archives.is_empty() {
            let sources = self.requirements.sources.join("\n");
            let archives = file(&format!("{sources}\n{archives}"))?;
            let mut command = self.command();
            command.args(["--quiet", "--no-deps", "--require-hashes", "-r"]);
            run(command.arg(archives.path()))?;
        }
        for (editable, other) in others {
            let mut command = self.command();
            command.args(["--quiet", "--no-deps", "--force-reinstall"]);
            if editable {
                command.arg("--editable");
            }
            run(command.arg(other))?;
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
        direct_url: Option<Origin>,
    }
    let python = environment.join("bin/python");
    if !python.is_file() {
        return Err(Error::Project(format!(
            "there is no environment {}: run `steward project install`",
            environment.display()
        )));
    }
    let mut command = clean(&python);
    command.args([
        "-m",
        "pip",
        "inspect",
        "--local",
        "--disable-pip-version-check",
    ]);
    let output = run(command.env("PIP_CONFIG_FILE", "/dev/null"))?;
    let inspected: Inspected = serde_json::from_slice(&output.stdout)
        .map_err(|error| Error::Machine(format!("pip's answer is not understood: {error}")))?;
    let present = |distribution: Distribution| Present {
        name: normalized(&distribution.metadata.name),
        version: distribution.metadata.version,
        commit: distribution
            .direct_url
            .and_then(|origin| Some(origin.vcs_info?.commit_id)),
    };
    Ok(inspected.installed.into_iter().map(present).collect())
}

/// A command with nothing of our environment but what it takes to reach the network.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("LANG", "C.UTF-8")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    for name in [
        "HOME",
        "XDG_CACHE_HOME",
        "TMPDIR",
        "SSL_CERT_FILE",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
    ] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

fn file(text: &str) -> Result<tempfile::NamedTempFile, Error> {
    let failed = || Error::io("cannot write a temporary file");
    let mut file = tempfile::Builder::new()
        .prefix("steward-")
        .suffix(".txt")
        .tempfile()
        .map_err(failed())?;
    file.write_all(text.as_bytes()).map_err(failed())?;
    Ok(file)
}

fn run(command: &mut Command) -> Result<Output, Error> {
    let output = command.output().map_err(Error::io("cannot run pip"))?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(explained(
            &said(&output),
            &String::from_utf8_lossy(&output.stdout),
        ))
    }
}

/// What a command said before it failed.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = if text.trim().is_empty() {
        String::from_utf8_lossy(&output.stdout)
    } else {
        text
    };
    text.trim().to_owned()
}

/// pip's own explanation, without what it says besides; who wants what in a conflict is among its answers.
fn explained(said: &str, answered: &str) -> Error {
    const NETWORK: &[&str] = &[
        "NewConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "Temporary failure in name resolution",
        "Connection refused",
        "Could not resolve host",
        "Failed to connect",
        "Max retries exceeded",
    ];
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    let is_error = |line: &&str| line.trim_start().to_lowercase().starts_with("error:");
    let first = lines.iter().position(is_error).unwrap_or(0);
    let kept: Vec<&str> = lines[first..]
        .iter()
        .filter(|line| !line.starts_with("WARNING") && !line.contains("pip.pypa.io"))
        .map(|line| line.strip_prefix("ERROR: ").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .collect();
    let mut message = kept.join("\n");
    if let Some(at) = answered.find("The conflict is caused by:") {
        let who = answered[at..].lines().take_while(|line| !line.is_empty());
        message.push('\n');
        message.push_str(&who.collect::<Vec<_>>().join("\n"));
    }
    if NETWORK.iter().any(|sign| said.contains(sign)) {
        return Error::Unreachable { message };
    }
    Error::Unsatisfiable { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conflict_is_explained_and_a_dead_network_is_not_a_mistake() {
        let said = "WARNING: something\nERROR: Cannot install a==1 and b==1 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/";
        let answered = "Looking in links: x\n\nThe conflict is caused by:\n    a 1 depends on c<2\n    b 1 depends on c>=2\n\nTo fix this";
        let error = explained(said, answered);
        assert!(!error.is_transient());
        let text = error.to_string();
        assert!(text.starts_with("Cannot install a==1"), "{text}");
        assert!(text.contains("a 1 depends on c<2"), "{text}");
        assert!(!text.contains("https"), "{text}");
        let said = "WARNING: Retrying after connection broken by 'NewConnectionError(...)'\nERROR: No matching distribution found for a";
        assert!(explained(said, "").is_transient());
    }
}
