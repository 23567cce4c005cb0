//! A bare repository of ours, and questions about the commits in it.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::options::init;
use crate::domain::printable;

/// A commit with its message. Nobody writes more.
const COMMIT_MAX_BYTES: usize = 16 << 20;

/// The id of a commit: 40 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(pub(super) git2::Oid);

/// The id of a tree, that is of a folder's whole content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TreeId(pub(super) git2::Oid);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an object id: 40 hexadecimal digits are expected")]
pub struct NotAnId;

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for TreeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for CommitId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<CommitId, NotAnId> {
        parse_id(text).map(CommitId)
    }
}

impl FromStr for TreeId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<TreeId, NotAnId> {
        parse_id(text).map(TreeId)
    }
}

impl TryFrom<String> for CommitId {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<CommitId, NotAnId> {
        text.parse()
    }
}

impl TryFrom<String> for TreeId {
    type Error = NotAnId;

    fn try_from(text: String) -> Result<TreeId, NotAnId> {
        text.parse()
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> String {
        id.to_string()
    }
}

impl From<TreeId> for String {
    fn from(id: TreeId) -> String {
        id.to_string()
    }
}

/// libgit2 itself would pad a short id with zeros.
fn parse_id(text: &str) -> Result<git2::Oid, NotAnId> {
    if text.len() != 40 {
        return Err(NotAnId);
    }
    git2::Oid::from_str(text).map_err(|_| NotAnId)
}

/// What a person wants to know of a commit. The texts are whatever its author wrote, made printable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitInfo {
    pub id: CommitId,
    pub tree: TreeId,
    /// `Name <address>`.
    pub author: String,
    /// When it was committed, in seconds since 1970 UTC, as the committer's clock said.
    pub time: i64,
    /// First line of the message.
    pub summary: String,
}

/// A bare repository that belongs to Steward. Only a path: each operation opens it anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    path: PathBuf,
}

impl Repository {
    /// Names the bare repository at `path`; nothing is read yet.
    pub fn at(path: impl Into<PathBuf>) -> Repository {
        Repository { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn open(&self) -> Result<git2::Repository, Error> {
        init();
        git2::Repository::open_bare(&self.path).map_err(Error::git("open the repository's store"))
    }
}

pub fn tree_id(repository: &Repository, commit: CommitId) -> Result<TreeId, Error> {
    let repository = repository.open()?;
    let tree = find_commit(&repository, commit)?.tree_id();
    Ok(TreeId(tree))
}

/// `Name <address>`, made printable.
pub(super) fn shown_author(author: &git2::Signature<'_>) -> String {
    let lossy = |bytes: &[u8]| printable(&String::from_utf8_lossy(bytes), 200);
    format!(
        "{} <{}>",
        lossy(author.name_bytes()),
        lossy(author.email_bytes())
    )
}

pub fn commit_info(repository: &Repository, commit: CommitId) -> Result<CommitInfo, Error> {
    let repository = repository.open()?;
    let found = find_commit(&repository, commit)?;
    let lossy = |bytes: &[u8]| printable(&String::from_utf8_lossy(bytes), 200);
    Ok(CommitInfo {
        id: commit,
        tree: TreeId(found.tree_id()),
        author: shown_author(&found.author()),
        time: found.time().seconds(),
        summary: lossy(found.summary_bytes().unwrap_or_default()),
    })
}

/// Whether `new` contains `old`, so that going from one to the other is a fast-forward. A commit that
/// the repository does not have (any more), or whose history is cut before it, is an ancestor of
/// nothing.
pub fn is_ancestor(repository: &Repository, old: CommitId, new: CommitId) -> Result<bool, Error> {
    let repository = repository.open()?;
    find_commit(&repository, new)?;
    if old == new {
        return Ok(true);
    }
    if repository.find_commit(old.0).is_err() {
        return Ok(false);
    }
    match repository.graph_descendant_of(new.0, old.0) {
        Err(error) if error.code() == git2::ErrorCode::NotFound => {
            Ok(is_ancestor_of_what_is_there(&repository, old.0, new.0))
        }
        compared => compared.map_err(Error::git("compare two commits")),
    }
}

/// The same for a history with holes, as a shallow clone has; libgit2 stops at the first.
fn is_ancestor_of_what_is_there(
    repository: &git2::Repository,
    old: git2::Oid,
    new: git2::Oid,
) -> bool {
    let mut pending = vec![new];
    let mut seen = HashSet::new();
    while let Some(id) = pending.pop() {
        if id == old {
            return true;
        }
        if seen.insert(id)
            && let Ok(commit) = repository.find_commit(id)
        {
            pending.extend(commit.parent_ids());
        }
    }
    false
}

pub(super) fn find_commit(
    repository: &git2::Repository,
    commit: CommitId,
) -> Result<git2::Commit<'_>, Error> {
    let failed = |error: git2::Error| match error.code() {
        git2::ErrorCode::NotFound => Error::CommitMissing { commit },
        _ => Error::git("read a commit")(error),
    };
    let (size, _) = repository
        .odb()
        .and_then(|odb| odb.read_header(commit.0))
        .map_err(failed)?;
    if size > COMMIT_MAX_BYTES {
        return Err(Error::Git {
            doing: "read a commit".into(),
            cause: "it is too large".to_owned(),
        });
    }
    repository.find_commit(commit.0).map_err(failed)
}
