//! What can go wrong with a repository, one variant for each thing a caller handles differently.
//!
//! Texts name the repository, branch or path and are safe to log: whatever a remote or a tree said passes
//! through [`printable`] first. No text holds a secret, since a [`RepositoryUrl`](super::RepositoryUrl) has none.
//!
//! Errors of the git worker reach the server in a frame, so each of them can be written as data and read again.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::repository::CommitId;
use super::url::UrlError;
use crate::domain::printable;

#[derive(Debug, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Error {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("`{name}` is not a branch name")]
    InvalidBranch { name: String },
    /// `hint`: what there is instead, as the end of the sentence, or nothing.
    #[error("{url} has no branch `{branch}`{hint}")]
    BranchMissing {
        url: String,
        branch: String,
        hint: String,
    },
    #[error("{url} is empty: it has no commits yet")]
    EmptyRepository { url: String },
    #[error("{url} does not say which branch is its default; name the branch")]
    NoDefaultBranch { url: String },
    #[error("{url} is not a git repository: {cause}")]
    NotARepository { url: String, cause: String },
    #[error("{url} uses {feature}, which is not supported")]
    UnsupportedFormat { url: String, feature: String },
    #[error("cannot reach {url}: {cause}")]
    Unreachable { url: String, cause: String },
    #[error(
        "{url} is at {address}, an address of a private network or this machine; `repositories: {{allow_private: true}}` \
         in the configuration allows such hosts"
    )]
    PrivateHost { url: String, address: String },
    #[error("{url} wants authentication: {cause}")]
    Authentication { url: String, cause: String },
    #[error(
        "{url} redirects to {target}, which is another server; configure that address if it is the right one"
    )]
    Redirected { url: String, target: String },
    #[error("fetching {url} passed its limit of {limit}")]
    TooLarge { url: String, limit: String },
    #[error("fetching {url} took longer than {} s", .limit.as_secs())]
    TimedOut { url: String, limit: Duration },
    #[error("another fetch of {url} has not finished within {} s", .waited.as_secs())]
    Busy { url: String, waited: Duration },
    #[error("{url} did not send all objects of its newest commit")]
    Incomplete { url: String },
    /// All of it came, and it is how the remote has it.
    #[error("the branch `{branch}` of {url} cannot be read: {cause}")]
    Malformed {
        url: String,
        branch: String,
        cause: String,
    },
    #[error("commit {commit} is not in the repository")]
    CommitMissing { commit: CommitId },
    #[error("`{path}` in the repository {reason}")]
    UnsafePath { path: String, reason: String },
    #[error("symlink `{path}` in the repository points to `{target}`, which {reason}")]
    UnsafeSymlink {
        path: String,
        target: String,
        reason: Cow<'static, str>,
    },
    #[error("`{path}` is a Git LFS pointer, not the file itself; store this file without LFS")]
    LfsPointer { path: String },
    #[error("the tree passes the limit of {limit} at `{path}`")]
    TreeTooLarge { path: String, limit: String },
    #[error("cannot {doing} {}", .path.display())]
    Io {
        doing: Cow<'static, str>,
        path: PathBuf,
        #[serde(with = "io_error")]
        source: io::Error,
    },
    #[error("cannot {doing}: {cause}")]
    Git {
        doing: Cow<'static, str>,
        cause: String,
    },
    /// libgit2 could get no more memory, in a process whose memory is limited.
    #[error("git has no memory left: {cause}")]
    OutOfMemory { cause: String },
    /// The git worker passed its limit of memory.
    #[error(
        "what {url} sent takes more than {limit_mib} MiB of memory to read; is it the right repository? If it is, \
         `compile: {{fetch_memory_mib: ...}}` in the configuration allows more"
    )]
    MemoryLimit { url: String, limit_mib: u64 },
    /// The git worker did not answer in time and was killed.
    #[error(
        "reading {url} took longer than {} s and was stopped; is it the right repository? If it is, `compile: \
         {{fetch_timeout: ...}}` in the configuration allows more", .limit.as_secs()
    )]
    TimeLimit { url: String, limit: Duration },
    /// The git worker ended without an answer, or gave one that is none.
    #[error("the process that reads {url} ended: {how}")]
    WorkerEnded { url: String, how: String },
    /// There is no git worker that could be given anything of a repository.
    #[error("cannot start the process that reads {url}: {how}")]
    WorkerStart { url: String, how: String },
}

/// An error of the system as data: by its number, where it has one.
mod io_error {
    use std::io;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// `ENOSPC`. A full disk that a library reported in words has no number.
    const NO_SPACE: i32 = 28;

    pub(super) fn serialize<S: Serializer>(
        error: &io::Error,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let number = error.raw_os_error();
        let number =
            number.or_else(|| (error.kind() == io::ErrorKind::StorageFull).then_some(NO_SPACE));
        (number, error.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<io::Error, D::Error> {
        let (number, text) = <(Option<i32>, String)>::deserialize(deserializer)?;
        Ok(number.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error))
    }
}

impl Error {
    pub(super) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io {
            doing: doing.into(),
            path,
            source,
        }
    }

    pub(super) fn git(doing: &'static str) -> impl FnOnce(git2::Error) -> Error {
        move |error| {
            let cause = printable(error.message(), 300);
            match error.class() {
                git2::ErrorClass::NoMemory => Error::OutOfMemory { cause },
                _ => Error::Git {
                    doing: doing.into(),
                    cause,
                },
            }
        }
    }

    /// Whether trying again later may help without anybody changing a setting or the repository.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Unreachable { .. }
            | Error::TimedOut { .. }
            | Error::Busy { .. }
            | Error::Io { .. }
            | Error::WorkerEnded { .. }
            | Error::WorkerStart { .. } => true,
            Error::Url(_)
            | Error::InvalidBranch { .. }
            | Error::BranchMissing { .. }
            | Error::EmptyRepository { .. }
            | Error::NoDefaultBranch { .. }
            | Error::NotARepository { .. }
            | Error::UnsupportedFormat { .. }
            | Error::PrivateHost { .. }
            | Error::Authentication { .. }
            | Error::Redirected { .. }
            | Error::TooLarge { .. }
            | Error::Incomplete { .. }
            | Error::Malformed { .. }
            | Error::CommitMissing { .. }
            | Error::UnsafePath { .. }
            | Error::UnsafeSymlink { .. }
            | Error::LfsPointer { .. }
            | Error::TreeTooLarge { .. }
            | Error::OutOfMemory { .. }
            | Error::MemoryLimit { .. }
            | Error::TimeLimit { .. }
            | Error::Git { .. } => false,
        }
    }
}
