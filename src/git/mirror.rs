//! Bare mirrors: one a repository, holding what was fetched from it.
//!
//! A mirror is a cache. It holds only the branches somebody asked for, under `refs/steward/heads/`, never a
//! tag or a foreign ref, and its configuration is ours. It is made under a temporary name and renamed, and one
//! that does not open is made anew. Fetches of one mirror take turns through a lock file beside it, also between
//! processes; reading needs no lock.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use git2::{AutotagOption, Direction, RemoteCallbacks, RemoteRedirect, RemoteUpdateFlags};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::echo;
use super::error::Error;
use super::local::is_repository;
use super::options::init;
use super::repository::{CommitId, Repository};
use super::rules::Reach;
use super::transport::{self, Credentials, Session};
use super::upkeep::{self, Tolerance, Unreadable};
use super::url::RepositoryUrl;
use crate::domain::{is_unprintable, printable};

/// Where a fetch lands before it is known to be complete.
pub(super) const INCOMING: &str = "refs/steward/incoming";

/// Limits of one fetch, and the way to the remote.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FetchOptions {
    /// The time for the fetch as a whole, waiting for another one of the same mirror included.
    pub time: Duration,
    /// How long a remote may be silent before it has answered anything.
    pub silence: Duration,
    /// Bytes that may be received.
    pub bytes: u64,
    /// What one object of a pack may take, packed.
    pub object_bytes: u64,
    pub objects: usize,
    /// `http://host:port` of a proxy for http and https; the environment is not asked.
    pub proxy: Option<String>,
    /// The program to call for ssh.
    pub ssh: PathBuf,
    /// Hosts that may be connected to. Who sets a proxy lets that one decide.
    pub reach: Reach,
}

/// Without the proxy, whose address may hold a password.
impl fmt::Debug for FetchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchOptions")
            .field("time", &self.time)
            .field("silence", &self.silence)
            .field("bytes", &self.bytes)
            .field("object_bytes", &self.object_bytes)
            .field("objects", &self.objects)
            .field("ssh", &self.ssh)
            .finish_non_exhaustive()
    }
}

impl Default for FetchOptions {
    fn default() -> FetchOptions {
        FetchOptions {
            time: Duration::from_secs(300),
            silence: Duration::from_secs(30),
            bytes: 2 << 30,
            // Twice what a checkout takes of one file.
            object_bytes: 256 << 20,
            objects: 5_000_000,
            proxy: None,
            ssh: PathBuf::from("/usr/bin/ssh"),
            reach: Reach::Any,
        }
    }
}

/// The bare mirror of one repository. Reads like any [`Repository`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    repository: Repository,
    url: RepositoryUrl,
}

impl Deref for Mirror {
    type Target = Repository;

    fn deref(&self) -> &Repository {
        &self.repository
    }
}

impl Mirror {
    /// The mirror of `url` in the folder `dir`, made empty when there is none yet. Asks no remote.
    pub fn open_or_create(dir: &Path, url: &RepositoryUrl) -> Result<Mirror, Error> {
        let path = Self::place(dir, url);
        let mirror = Mirror {
            repository: Repository::at(&path),
            url: url.clone(),
        };
        if mirror.open().is_err() {
            fs::create_dir_all(dir).map_err(Error::io("create the folder", dir))?;
            let _lock = lock(&path, url.as_str(), FetchOptions::default().time)?;
            create_bare(&path)?;
        }
        Ok(mirror)
    }

    /// Where the mirror of a repository is, below the folder of all.
    pub fn place(dir: &Path, url: &RepositoryUrl) -> PathBuf {
        let digest = hex::encode(Sha256::digest(url.as_str()));
        dir.join(&digest[..16])
    }

    pub fn url(&self) -> &RepositoryUrl {
        &self.url
    }

    /// Brings the newest commit of `branch` into the mirror and returns its id. `None` takes the branch that
    /// the remote's HEAD names. When the branch is gone from the remote, the mirror forgets it too.
    pub fn fetch(
        &self,
        branch: Option<&str>,
        credentials: &Credentials,
        options: &FetchOptions,
    ) -> Result<CommitId, Error> {
        let branch = branch.map(check_branch).transpose()?;
        let deadline = Instant::now() + options.time;
        let _lock = lock(self.path(), self.url.as_str(), options.time)?;
        upkeep::remove_leftovers(self.path())?;
        let attempt = || {
            let repository = self.open()?;
            let session = Session::new(&self.url, credentials, options, deadline);
            transport::with_session(&session, || {
                self.fetch_locked(&repository, branch, &session)
            })
        };
        let is_damaged = || {
            !self
                .open()
                .is_ok_and(|store| upkeep::refs_are_sound(&store))
        };
        let result = match attempt() {
            // Without memory nothing looks sound.
            Err(error @ Error::OutOfMemory { .. }) => Err(error),
            Err(error) if matches!(error, Error::Incomplete { .. }) || is_damaged() => {
                create_anew(self.path())?;
                attempt()
            }
            result => result,
        };
        if let Err(error) = upkeep::compact(self.path(), Tolerance::default()) {
            tracing::warn!(path = %self.path().display(), %error, "cannot compact the mirror");
        }
        result.map_err(|error| echo::without_login(error, credentials.login.as_ref()))
    }

    /// Throws away all that was fetched, so that the next fetch starts from nothing. For a mirror
    /// whose commits cannot be checked out although they are there.
    pub fn reset(&self) -> Result<(), Error> {
        let _lock = lock(self.path(), self.url.as_str(), FetchOptions::default().time)?;
        create_anew(self.path())
    }

    fn fetch_locked(
        &self,
        repository: &git2::Repository,
        branch: Option<&str>,
        session: &Arc<Session>,
    ) -> Result<CommitId, Error> {
        let failed = |error: git2::Error| {
            session
                .take_failure()
                .unwrap_or_else(|| self.classify(session, branch, &error))
        };
        let mut remote = repository
            .remote_anonymous(&self.remote_address()?)
            .map_err(failed)?;
        let mut connection = remote
            .connect_auth(Direction::Fetch, Some(callbacks(session)), None)
            .map_err(failed)?;
        if connection.list().map_err(failed)?.is_empty() {
            return Err(Error::EmptyRepository {
                url: session.url.clone(),
            });
        }
        let default = default_branch(&connection, session);
        let (branch, hint) = match branch {
            Some(branch) => (branch.to_owned(), instead_of(branch, default.ok())),
            None => (default?, String::new()),
        };

        let mut fetch = git2::FetchOptions::new();
        fetch
            .remote_callbacks(callbacks(session))
            .follow_redirects(RemoteRedirect::None)
            .download_tags(AutotagOption::None)
            .update_fetchhead(false);
        let refspec = format!("+refs/heads/{branch}:{INCOMING}");
        let packs = upkeep::packs(self.path());
        connection
            .remote()
            .download(&[refspec.as_str()], Some(&mut fetch))
            .map_err(failed)?;
        connection
            .remote()
            .update_tips(
                None,
                RemoteUpdateFlags::empty(),
                AutotagOption::None,
                Some("fetch"),
            )
            .map_err(failed)?;
        drop(connection);
        upkeep::sync_new_packs(self.path(), &packs)?;
        self.take_incoming(repository, &branch, hint)
    }

    /// Moves what arrived to its branch in the mirror. `hint`: what there is if it is not there.
    fn take_incoming(
        &self,
        repository: &git2::Repository,
        branch: &str,
        hint: String,
    ) -> Result<CommitId, Error> {
        let kept = format!("refs/steward/heads/{branch}");
        let Ok(mut incoming) = repository.find_reference(INCOMING) else {
            let _ = repository
                .find_reference(&kept)
                .and_then(|mut reference| reference.delete());
            return Err(Error::BranchMissing {
                url: self.url.as_str().to_owned(),
                branch: printable(branch, 200),
                hint,
            });
        };
        let known = repository.refname_to_id(&kept).ok();
        let commit = match newest_commit(repository, &incoming, known) {
            Ok(commit) => commit,
            Err(Unreadable::Missing) => {
                return Err(Error::Incomplete {
                    url: self.url.as_str().to_owned(),
                });
            }
            Err(Unreadable::Malformed(cause)) => {
                // No fault of the mirror's, which a ref to it would look like.
                incoming
                    .delete()
                    .map_err(Error::git("forget the fetched branch"))?;
                return Err(Error::Malformed {
                    url: self.url.as_str().to_owned(),
                    branch: printable(branch, 200),
                    cause,
                });
            }
        };
        let set = || {
            repository
                .reference(&kept, commit, true, "fetch")
                .map(|_| ())
        };
        if set().is_err() {
            // `a` cannot be beside `a/b`: what the remote has now wins over what it had.
            forget_conflicting(repository, &kept)?;
            set().map_err(Error::git("record the fetched branch"))?;
        }
        incoming
            .delete()
            .map_err(Error::git("record the fetched branch"))?;
        Ok(CommitId(commit))
    }

    /// What a failure means that no transport of ours has named, by what libgit2 says.
    fn classify(&self, session: &Session, branch: Option<&str>, error: &git2::Error) -> Error {
        let url = session.url.clone();
        let cause = printable(error.message(), 300);
        let lower = cause.to_lowercase();
        if session.remaining().is_none() {
            session.timed_out()
        } else if is_of_object(error) {
            Error::Malformed {
                url,
                branch: printable(branch.unwrap_or("HEAD"), 200),
                cause,
            }
        } else if error.class() == git2::ErrorClass::NoMemory {
            Error::OutOfMemory { cause }
        } else if lower.contains("no space left") || lower.contains("quota exceeded") {
            Error::io("write into the mirror", self.path())(io::ErrorKind::StorageFull.into())
        } else if lower.contains("target oid for the reference doesn't exist") {
            Error::Incomplete { url }
        } else if lower.contains("unsupported extension") || lower.contains("object format") {
            let feature = match () {
                () if lower.contains("refstorage") => "the reftable format of refs".to_owned(),
                () if lower.contains("sha256") => "SHA-256 object ids".to_owned(),
                () => format!("a repository format ({cause})"),
            };
            Error::UnsupportedFormat { url, feature }
        } else if self.url.local_path().is_some() {
            // It was reached: nothing lies between it and us.
            let cause = format!("{cause}; it is there, and `git fsck` in it says what is damaged");
            Error::Unreachable { url, cause }
        } else {
            Error::Unreachable { url, cause }
        }
    }

    fn remote_address(&self) -> Result<String, Error> {
        let Some(path) = self.url.local_path() else {
            return Ok(format!("{}://remote/", transport::SCHEME));
        };
        let url = || self.url.as_str().to_owned();
        if !path.is_dir() {
            return Err(Error::Unreachable {
                url: url(),
                cause: "there is no such folder".to_owned(),
            });
        }
        if is_repository(path).is_none() {
            let cause = "the folder is neither a work tree's root nor a bare repository".to_owned();
            return Err(Error::NotARepository { url: url(), cause });
        }
        let escaped = percent_encoding::utf8_percent_encode(self.url.as_str(), LOCAL_PATH);
        Ok(format!("file://{escaped}"))
    }
}

const LOCAL_PATH: &percent_encoding::AsciiSet = &percent_encoding::NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_');

/// Whether an object was read, and is none, or not of its type.
fn is_of_object(error: &git2::Error) -> bool {
    use git2::ErrorClass::{Invalid, Object, Tag, Tree};
    let of_invalid = ["failed to parse", "does not match the type"];
    match error.class() {
        Object | Tag | Tree => true,
        Invalid => of_invalid.iter().any(|text| error.message().contains(text)),
        _ => false,
    }
}

/// What a remote has if it has not that branch, as the end of a sentence. Only its default branch is named: of its other refs
/// nobody knows that their names are UTF-8, and git2 panics on those that are not.
fn instead_of(branch: &str, default: Option<String>) -> String {
    match default.filter(|default| default != branch) {
        Some(default) => format!(
            "; tags are not followed, and its default branch is `{}`",
            printable(&default, 200)
        ),
        None => String::new(),
    }
}

/// The branch that the remote's HEAD names; a detached or unborn HEAD names none.
fn default_branch(
    connection: &git2::RemoteConnection<'_, '_, '_>,
    session: &Session,
) -> Result<String, Error> {
    let missing = || Error::NoDefaultBranch {
        url: session.url.clone(),
    };
    let name = connection.default_branch().map_err(|_| missing())?;
    let name = name.as_str().map_err(|_| missing())?.trim_end_matches('\0');
    let branch = name.strip_prefix("refs/heads/").ok_or_else(missing)?;
    let checked = check_branch(branch).map_err(|_| Error::Malformed {
        url: session.url.clone(),
        branch: printable(branch, 200),
        cause:
            "the repository's HEAD names it, and no branch may be called so; name the branch to \
                take"
                .to_owned(),
    })?;
    Ok(checked.to_owned())
}

/// Whether a branch may be called so: its name is safe as a part of a refspec and of a ref of ours.
pub fn check_branch(name: &str) -> Result<&str, Error> {
    let valid = git2::Reference::is_valid_name(&format!("refs/heads/{name}"))
        && name.len() <= 1000
        && !name.starts_with('-')
        && !name.contains(is_unprintable);
    if valid {
        Ok(name)
    } else {
        Err(Error::InvalidBranch {
            name: printable(name, 200),
        })
    }
}

/// The commit that `reference` leads to, with all that is in it, unless it is the `known` one.
fn newest_commit(
    repository: &git2::Repository,
    reference: &git2::Reference<'_>,
    known: Option<git2::Oid>,
) -> Result<git2::Oid, Unreadable> {
    let commit = reference.peel_to_commit().map_err(|_| {
        let target = reference.target();
        target.map_or(Unreadable::Missing, |id| {
            Unreadable::of(repository, id, git2::ObjectType::Commit)
        })
    })?;
    let (commit, tree) = (commit.id(), commit.tree_id());
    if known == Some(commit) {
        return Ok(commit);
    }
    upkeep::unreadable_below(repository, tree).map_or(Ok(commit), Err)
}

fn forget_conflicting(repository: &git2::Repository, kept: &str) -> Result<(), Error> {
    let below = format!("{kept}/");
    let names: Vec<String> = repository
        .references_glob("refs/steward/heads/*")
        .map_err(Error::git("list the branches of the mirror"))?
        .filter_map(|reference| reference.ok()?.name().ok().map(str::to_owned))
        .filter(|name| name.starts_with(&below) || kept.starts_with(&format!("{name}/")))
        .collect();
    for name in names {
        repository
            .find_reference(&name)
            .and_then(|mut reference| reference.delete())
            .map_err(Error::git("forget a branch of the mirror"))?;
    }
    Ok(())
}

/// Callbacks that stop the transfer at its limits. There is none for credentials: those of libgit2 are not used.
fn callbacks(session: &Arc<Session>) -> RemoteCallbacks<'static> {
    let mut callbacks = RemoteCallbacks::new();
    let progress = session.clone();
    callbacks.transfer_progress(move |progress_now| {
        progress.objects_are_complete(progress_now.received_objects());
        let options = &progress.options;
        let too_large = |limit| Error::TooLarge {
            url: progress.url.clone(),
            limit,
        };
        if progress_now.received_bytes() as u64 > options.bytes {
            progress.fail(too_large(format!("{} MiB", options.bytes >> 20)));
        } else if progress_now.total_objects() > options.objects {
            progress.fail(too_large(format!("{} objects", options.objects)));
        } else if progress.remaining().is_none() {
            progress.fail(progress.timed_out());
        } else {
            return true;
        }
        false
    });
    callbacks
}

/// Makes an empty bare repository at `path` in one step; whatever is there and does not open is removed.
/// The caller holds the lock of `path`.
pub(super) fn create_bare(path: &Path) -> Result<(), Error> {
    init();
    if path.exists() {
        if git2::Repository::open_bare(path).is_ok() {
            return Ok(());
        }
        tracing::warn!(path = %path.display(), "the mirror is damaged and is made anew");
        fs::remove_dir_all(path).map_err(Error::io("remove the damaged mirror", path))?;
    }
    let fresh = path.with_extension("new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(Error::io("remove the unfinished mirror", &fresh))?;
    }
    let mut options = git2::RepositoryInitOptions::new();
    options
        .bare(true)
        .no_reinit(true)
        .external_template(false)
        .initial_head("main");
    git2::Repository::init_opts(&fresh, &options)
        .map_err(Error::git("create a bare repository"))?;
    fs::rename(&fresh, path).map_err(Error::io("create the mirror", path))
}

/// Makes the bare repository at `path` empty again.
pub(super) fn create_anew(path: &Path) -> Result<(), Error> {
    tracing::warn!(path = %path.display(), "the repository is damaged or unwanted and is made anew");
    upkeep::remove_all(path)?;
    create_bare(path)
}

/// Takes the lock of the repository at `path`, held until the file is dropped, the process's death included.
/// A program that is being started elsewhere in this process may hold it a moment longer, until it runs.
pub(super) fn lock(path: &Path, name: &str, patience: Duration) -> Result<File, Error> {
    let path = path.with_extension("lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(Error::io("open the lock", &path))?;
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Busy {
                    url: name.to_owned(),
                    waited: patience,
                });
            }
            Err(TryLockError::Error(source)) => {
                return Err(Error::io("take the lock", &path)(source));
            }
        }
    }
}
