//! Reads a source: what is the newest commit, and the files of a commit.
//!
//! What a remote repository sends and what is in its mirror is read by git workers, whose sandbox is described here. A plain
//! folder is recorded by the server itself: its files become commits of our own making, and nothing that somebody else has
//! packed is read.

use std::fs;
use std::path::{Path, PathBuf};

use super::Source;
use super::install::hidden;
use super::run::blocking;
use super::source::Head;
use super::worker::Pool;
use crate::domain::{DataDir, EnvironmentId};
use crate::git::{
    self, CommitId, Credentials, Reach, Remote, Repository, RepositoryUrl, TreeId, WorkerLimits,
};
use crate::modules;
use crate::sandbox::{Network, SandboxPolicy};

/// A pack may be as large as all that a fetch may receive, and what a server sends as deltas grows little in it.
const PACK_FILE_BYTES: u64 = 4 << 30;

/// Reads sources on behalf of one environment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) data: &'a DataDir,
    pub(super) environment: EnvironmentId,
    pub(super) pool: &'a Pool,
}

impl Reader<'_> {
    /// Fetches (or records) the newest commit; connects only to hosts within `reach`. `known`: what the last fetch brought.
    pub(super) async fn fetch(
        &self,
        source: &Source,
        credentials: &Credentials,
        reach: Reach,
        known: Option<CommitId>,
    ) -> Result<Head, git::Error> {
        let info = match source {
            Source::Repository { url, branch } => {
                let remote = self.remote(url);
                let sandbox = self.sandbox(&remote, Some(credentials))?;
                let fetch = git::Fetch {
                    branch: branch.as_deref(),
                    credentials,
                    reach,
                    known,
                    dir: &self.data.real().checkouts_of(self.environment),
                };
                self.pool.git().fetch(&sandbox, &remote, fetch).await?
            }
            Source::Folder { folder, repository } => {
                let (folder, place) = (folder.clone(), repository.clone());
                blocking(move || {
                    let commit = git::snapshot(&folder, &place, "snapshot of the folder")?;
                    let empty = || git::Error::EmptyRepository {
                        url: folder.display().to_string(),
                    };
                    git::commit_info(&Repository::at(place), commit.ok_or_else(empty)?)
                })
                .await?
            }
        };
        Ok(Head {
            source: source.clone(),
            info,
        })
    }

    /// The files of a commit, by content, without asking the remote. `tree`: of the commit, if it is known; what is there
    /// already is then found without a process.
    pub(super) async fn check_out(
        &self,
        source: &Source,
        commit: CommitId,
        tree: Option<TreeId>,
    ) -> Result<PathBuf, git::Error> {
        let dir = self.data.checkouts_of(self.environment);
        if let Some(tree) = tree {
            let dir = dir.clone();
            let finished = blocking(move || git::finished_checkout(&dir, tree)).await?;
            if let Some(finished) = finished {
                return Ok(finished);
            }
        }
        match source {
            Source::Repository { url, .. } => {
                let remote = self.remote(url);
                let sandbox = self.sandbox(&remote, None)?;
                let dir = self.data.real().checkouts_of(self.environment);
                let workers = self.pool.git();
                workers.check_out(&sandbox, &remote, commit, &dir).await
            }
            Source::Folder { repository, .. } => {
                let repository = Repository::at(repository);
                blocking(move || git::checkout(&repository, commit, &dir)).await
            }
        }
    }

    fn remote(&self, url: &RepositoryUrl) -> Remote {
        Remote {
            url: url.clone(),
            mirrors: self.data.real().mirrors(),
            environment: crate::domain::shown_environment(self.environment),
        }
    }

    /// What a git worker may do: write mirrors, and checkouts of this environment; read what `ssh` logs in with, if it is
    /// to connect; reach the network, if the repository is elsewhere. Its folders are made, since a folder that is made
    /// later is not in it.
    fn sandbox(
        &self,
        remote: &Remote,
        credentials: Option<&Credentials>,
    ) -> Result<SandboxPolicy, git::Error> {
        let checkouts = self.data.real().checkouts_of(self.environment);
        for folder in [&remote.mirrors, &checkouts] {
            fs::create_dir_all(folder).map_err(|source| git::Error::Io {
                doing: "make".into(),
                path: folder.clone(),
                source,
            })?;
        }
        let of_user = modules::credentials();
        let mut hidden = hidden(self.data, self.environment, self.pool);
        let mut readable = vec![remote.mirrors.clone(), checkouts.clone()];
        match credentials {
            Some(credentials) => {
                let named = [&credentials.ssh_key, &credentials.known_hosts];
                let named = named.into_iter().flatten().map(PathBuf::as_path);
                readable.extend(named.filter_map(real));
                // They may lie in a folder that belongs to another environment.
                readable.extend(self.pool.local_sources().folders_of(self.environment));
                let for_ssh = |path: &PathBuf| remote.url.is_ssh() && path.ends_with(".ssh");
                hidden.extend(of_user.into_iter().filter(|path| !for_ssh(path)));
            }
            None => hidden.extend(of_user),
        }
        let connects = credentials.is_some() && remote.url.host().is_some();
        Ok(SandboxPolicy {
            hidden,
            readable,
            // It makes no temporary files elsewhere.
            scratch: remote.mirrors.clone(),
            writable: vec![checkouts],
            deposit: Vec::new(),
            network: match connects {
                true => Network::Open,
                false => Network::None,
            },
            is_ours: true,
            memory_bytes: Some(WorkerLimits::default().memory_bytes),
            file_bytes: PACK_FILE_BYTES,
        })
    }
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
