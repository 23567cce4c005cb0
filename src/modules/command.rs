//! How pip, and all that it starts, runs.
//!
//! On a server it is sandboxed as plugins are (`sandbox::SandboxPolicy`), since what is built where it is installed runs code of
//! the repository: it writes into the new environment, into a package cache that belongs to one environment of the server,
//! and into a scratch folder that is gone afterwards; the server's data and secrets are hidden; at the limit, and when the
//! server ends, all of it is killed. A person's own `steward project install` is not sandboxed: what it builds is code that
//! this person chose, with this person's rights.

use std::cell::Cell;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::{NamedTempFile, TempDir};
use tokio_util::sync::CancellationToken;

use super::Error;
use super::credentials::{self, OF_PIP};
use super::digest::FolderDigests;
use super::logins::Logins;
use super::output::check_success;
use super::progress::{Progress, Watcher};
use super::repositories::Repositories;
use super::turns::Turns;
use crate::files::{ScratchFolder, WatchedDisk};
use crate::process::cgroup::{CGROUP, Cgroup};
use crate::process::{self, Ended, Launcher};
use crate::sandbox::{CODE_FILE_BYTES, Network, OpenNetwork, SandboxPolicy};

/// What holds an installation on a server.
#[derive(Debug, Clone)]
pub struct InstallSandbox {
    /// What only the server may read, its data among it. Without links.
    pub hidden: Vec<PathBuf>,
    /// What a process may map.
    pub memory_bytes: u64,
    /// How long a whole installation may take.
    pub limit: Duration,
    /// Ends it before its time.
    pub stop: CancellationToken,
    /// How many run at the same time. `None`: whoever asks for one asks for no second.
    pub turns: Option<Turns>,
    /// Repositories that pip's git cannot have may be copied with the credentials of our user.
    pub copies_repositories: bool,
    /// The proxy over which pip, and what it builds, reach hosts. `None`: they do directly, as the
    /// host does.
    pub proxy: Option<BuildProxy>,
}

/// A proxy of the server for one installation.
#[derive(Clone)]
pub struct BuildProxy {
    /// The only port that can be reached.
    pub port: u16,
    /// The URL with its password.
    pub url: String,
}

impl fmt::Debug for BuildProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildProxy")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl InstallSandbox {
    /// The network of pip and of what it builds.
    fn network(&self) -> Network {
        match &self.proxy {
            Some(proxy) => Network::Proxy(proxy.port),
            None => Network::Open,
        }
    }

    /// What runs pip, or a git that copies for it: with a network, since it must reach indexes and repositories.
    pub(super) fn launcher(
        &self,
        network: Network,
        hidden: Vec<PathBuf>,
        readable: Vec<PathBuf>,
        scratch: &Path,
        writable: Vec<PathBuf>,
    ) -> Result<Launcher, Error> {
        let policy = SandboxPolicy {
            hidden,
            readable,
            scratch: scratch.to_owned(),
            writable,
            deposit: Vec::new(),
            network,
            is_ours: false,
            memory_bytes: Some(self.memory_bytes),
            file_bytes: CODE_FILE_BYTES,
        };
        Launcher::new(&policy).map_err(Error::io("cannot run this program again"))
    }
}

/// What `pip.use-system-config` takes over on a server: where packages come from, and which. Code that is built sees them, too.
const SYSTEM: &[&str] = &[
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_TIMEOUT",
    "PIP_RETRIES",
    "PIP_PRE",
    "PIP_PREFER_BINARY",
    "PIP_ONLY_BINARY",
    "PIP_NO_BINARY",
    "XDG_CONFIG_DIRS",
];

/// Runs the programs of one installation.
pub(super) struct Runner {
    uses_system_config: bool,
    held: Option<Held>,
    digests: FolderDigests,
}

struct Held {
    launcher: Launcher,
    proxy: Option<BuildProxy>,
    memory_bytes: u64,
    /// Home and temporary files.
    scratch: ScratchFolder,
    logins: Logins,
    repositories: Repositories,
    copies_repositories: bool,
    cache: PathBuf,
    disk: WatchedDisk,
    deadline: Instant,
    limit: Duration,
    stop: CancellationToken,
}

/// The folders of a sandboxed installation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Folders<'a> {
    /// What is installed into.
    pub(super) environment: &'a Path,
    /// What is installed from.
    pub(super) project: &'a Path,
    pub(super) cache: &'a Path,
    /// The scratch folder is made below it.
    pub(super) builds: &'a Path,
}

impl Runner {
    /// A command that runs with all our rights, and without a limit.
    pub(super) fn free(uses_system_config: bool) -> Self {
        Self {
            uses_system_config,
            held: None,
            digests: FolderDigests::default(),
        }
    }

    /// All folders exist. `repositories`: those that may be copied with the credentials of our user.
    pub(super) fn sandboxed(
        sandbox: &InstallSandbox,
        folders: Folders<'_>,
        uses_system_config: bool,
        repositories: Vec<String>,
    ) -> Result<Self, Error> {
        let failed = || Error::io("cannot make a scratch folder");
        let real = |path: &Path| std::fs::canonicalize(path).map_err(failed());
        let builds = real(folders.builds)?;
        let scratch = ScratchFolder::new("pip-", &builds).map_err(failed())?;
        let logins = Logins::new(scratch.path());
        for url in &repositories {
            // pip's lock names them without.
            logins.take_from(url).map_err(failed())?;
        }
        let repositories = Repositories::new(sandbox, &builds, scratch.path(), repositories)?;
        let mut hidden = sandbox.hidden.clone();
        hidden.extend(credentials::all(uses_system_config));
        let mut readable = vec![
            real(folders.project)?,
            repositories.copies.path().to_owned(),
        ];
        let of_pip: &[&str] = if uses_system_config { OF_PIP } else { &[] };
        let linked = credentials::link(of_pip, scratch.path(), &sandbox.hidden);
        readable.extend(linked.map_err(failed())?);
        let writable = vec![real(folders.environment)?, real(folders.cache)?];
        let network = sandbox.network();
        let launcher = sandbox.launcher(network, hidden, readable, scratch.path(), writable)?;
        Ok(Self {
            uses_system_config,
            held: Some(Held {
                launcher,
                proxy: sandbox.proxy.clone(),
                memory_bytes: sandbox.memory_bytes,
                logins,
                scratch,
                repositories,
                copies_repositories: sandbox.copies_repositories,
                cache: folders.cache.to_owned(),
                disk: WatchedDisk::of(folders.environment.to_owned()),
                deadline: Instant::now() + sandbox.limit,
                limit: sandbox.limit,
                stop: sandbox.stop.clone(),
            }),
            digests: FolderDigests::default(),
        })
    }

    pub(super) fn is_sandboxed(&self) -> bool {
        self.held.is_some()
    }

    /// A command with nothing of our environment but what it takes to reach the network and, where the project asks for
    /// it, what the machine says of indexes.
    pub(super) fn command(&self, program: &Path) -> Result<Command, Error> {
        let mut command = match &self.held {
            None => {
                let mut command = Command::new(program);
                command.stdin(Stdio::null()).env_clear();
                pass(&mut command, &["HOME", "XDG_CACHE_HOME", "TMPDIR"]);
                command
            }
            Some(held) => {
                let mut command = process::supervised_command(&held.launcher, held.memory_bytes)
                    .map_err(Error::io("cannot run this program again"))?;
                // Home and temporary files are the launcher's to set.
                command.arg(program);
                command
            }
        };
        plain(&mut command);
        if !self.uses_system_config {
            command.env("PIP_CONFIG_FILE", "/dev/null");
        } else if self.is_sandboxed() {
            pass(&mut command, SYSTEM);
        } else {
            command.envs(std::env::vars_os().filter(|(name, _)| {
                let name = name.to_string_lossy();
                ["PIP_", "UV_", "XDG_CONFIG"]
                    .iter()
                    .any(|start| name.starts_with(start))
            }));
        }
        if !self.uses_system_config || self.is_sandboxed() {
            command.env("UV_NO_CONFIG", "1");
        }
        if let Some(held) = &self.held {
            command.env("PIP_CACHE_DIR", &held.cache);
            if let Some(proxy) = &held.proxy {
                go_through(&mut command, proxy);
            }
            command.env("UV_CACHE_DIR", held.cache.join("uv"));
            // What a build writes into its cache must not be in what is installed already.
            command.env("UV_LINK_MODE", "copy");
            held.repositories.prepare(&mut command);
        }
        Ok(command)
    }

    /// A text that names URLs, for pip: on a server others read what pip makes of it ([`Logins`]).
    pub(super) fn without_logins(&self, text: &str) -> Result<String, Error> {
        match &self.held {
            None => Ok(text.to_owned()),
            Some(held) => held
                .logins
                .take_from(text)
                .map_err(Error::io("cannot write the logins of indexes")),
        }
    }

    /// Writes a requirement file of the copy of a project at `place` anew, without passwords.
    pub(super) fn take_logins_from(
        &self,
        place: &Path,
        file: &Path,
        text: &str,
    ) -> Result<(), Error> {
        let failed = || Error::io(format!("cannot write {} anew", file.display()));
        let real = |path: &Path| std::fs::canonicalize(path).map_err(failed());
        let path = place.join(file);
        let folder = real(path.parent().unwrap_or(place))?;
        // A repository may have links in the place of folders, and one in the place of the file is replaced.
        if folder.starts_with(real(place)?) {
            let text = self.without_logins(text)?;
            let mut written = NamedTempFile::new_in(&folder).map_err(failed())?;
            written.write_all(text.as_bytes()).map_err(failed())?;
            let name = path.file_name().unwrap_or_default();
            let persisted = written.persist(folder.join(name));
            persisted.map_err(|error| failed()(error.error))?;
        }
        Ok(())
    }

    /// A file for a program to read or to write.
    pub(super) fn file(&self, text: &str) -> Result<NamedTempFile, Error> {
        let failed = || Error::io("cannot write a temporary file");
        let mut builder = tempfile::Builder::new();
        builder.prefix("steward-").suffix(".txt");
        let mut file = match &self.held {
            Some(held) => builder.tempfile_in(held.scratch.path()),
            None => builder.tempfile(),
        }
        .map_err(failed())?;
        file.write_all(text.as_bytes()).map_err(failed())?;
        Ok(file)
    }

    /// A new folder for programs to read.
    pub(super) fn folder(&self) -> Result<TempDir, Error> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("steward-");
        match &self.held {
            Some(held) => builder.tempdir_in(held.scratch.path()),
            None => builder.tempdir(),
        }
        .map_err(Error::io("cannot make a temporary folder"))
    }

    /// Has a copy made of the repository that a command failed to get, with the credentials of our user. False: that was
    /// not why, and there is no use in trying again.
    pub(super) fn fetch(&self) -> Result<bool, Error> {
        let held = self.held.as_ref();
        let Some(held) = held.filter(|held| held.copies_repositories) else {
            return Ok(false);
        };
        let Some(url) = held.repositories.wanted() else {
            return Ok(false);
        };
        let mut command = held.repositories.copying(&url)?;
        plain(&mut command);
        check_success(self.run(&mut command, "copying a git repository", &|_| ())?)?;
        held.repositories.copied(url)?;
        Ok(true)
    }

    /// The digest of a folder that is installed from.
    ///
    /// # Errors
    /// It cannot be read, is too large, or the installation is over.
    pub(super) fn folder_digest(&self, folder: &Path) -> Result<String, Error> {
        let is_over = || {
            let held = self.held.as_ref();
            held.is_some_and(|held| Instant::now() >= held.deadline || held.stop.is_cancelled())
        };
        self.digests.of(folder, &is_over)
    }

    /// Runs a command to its end. `what`: in words, for whoever waits for it.
    pub(super) fn run(
        &self,
        command: &mut Command,
        what: &str,
        watcher: Watcher<'_>,
    ) -> Result<Output, Error> {
        let cannot = Error::io(format!("cannot run {}", command.get_program().display()));
        // What is killed says nothing about what it was asked for.
        let whole = |output: Output| match output.status.code() {
            Some(_) => Ok(output),
            None => Err(Error::Machine(format!(
                "{what} was cut short ({})",
                output.status
            ))),
        };
        let Some(held) = &self.held else {
            return followed(command, watcher).map_err(cannot).and_then(whole);
        };
        let is_late = || Instant::now() >= held.deadline;
        // What was written may be gone with who wrote it.
        let was_full = Cell::new(false);
        let is_full = || {
            was_full.set(held.disk.is_full());
            was_full.get()
        };
        let is_over = || is_late() || held.stop.is_cancelled() || is_full();
        // The proxy would be enough for most of them, but not for a git that copies.
        let open = OpenNetwork::begin();
        // It lives as long as the command.
        let group = Cgroup::make(held.memory_bytes);
        if let Some(group) = &group {
            command.env(CGROUP, group.path());
        }
        let ended = process::run_supervised(command, is_over);
        match ended.map_err(cannot)? {
            Ended::Done(output) => {
                if output.status.code().is_none() {
                    open.has_left_something();
                }
                whole(output)
            }
            Ended::Stopped if was_full.get() => Err(Error::DiskFull {
                what: what.to_owned(),
                folder: held.disk.folder().to_owned(),
                least_bytes: held.disk.least_bytes(),
            }),
            Ended::Stopped if is_late() => Err(Error::TooLong {
                what: what.to_owned(),
                limit: held.limit,
            }),
            Ended::Stopped => Err(Error::Machine(format!("{what} was stopped"))),
        }
    }
}

/// Runs a command to its end, and reports what it writes line by line.
fn followed(command: &mut Command, watcher: Watcher<'_>) -> std::io::Result<Output> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = std::thread::scope(|scope| {
        let errors = scope.spawn(|| lines(stderr, watcher));
        (lines(stdout, watcher), errors.join().unwrap_or_default())
    });
    Ok(Output {
        status: child.wait()?,
        stdout,
        stderr,
    })
}

/// All that comes out of a pipe, reported line by line.
fn lines(pipe: Option<impl Read>, watcher: Watcher<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    let Some(mut pipe) = pipe.map(BufReader::new) else {
        return all;
    };
    let mut begin = 0;
    while let Ok(1..) = pipe.read_until(b'\n', &mut all) {
        let line = String::from_utf8_lossy(&all[begin..]);
        watcher(Progress::Output(line.trim().to_owned()));
        begin = all.len();
    }
    all
}

/// What every program gets.
fn plain(command: &mut Command) {
    command
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("LANG", "C.UTF-8")
        .env("GIT_TERMINAL_PROMPT", "0");
    pass(command, process::NETWORK_VARIABLES);
}

/// Every HTTP client of a command, pip's and git's among them, goes through the proxy.
fn go_through(command: &mut Command, proxy: &BuildProxy) {
    for name in ["no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"] {
        command.env_remove(name);
    }
    for name in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"] {
        command.env(name, &proxy.url);
    }
}

fn pass(command: &mut Command, names: &[&str]) {
    for name in names {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
}
