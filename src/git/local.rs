//! Repositories on this machine's disk: telling what a folder is, and what to watch in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::repository::CommitId;
use crate::domain::printable;

/// How a folder is a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryKind {
    /// The root of a work tree, with `.git` as a folder or, in linked work trees, as a file.
    WorkTree,
    Bare,
}

/// What `path` itself is. A folder somewhere inside of a work tree is not a repository: `None`.
pub fn is_repository(path: &Path) -> Option<RepositoryKind> {
    if git_folder(&path.join(".git")).is_some() {
        Some(RepositoryKind::WorkTree)
    } else if is_git_folder(path) {
        Some(RepositoryKind::Bare)
    } else {
        None
    }
}

/// The files and folders that change when the repository at `path` gets a commit or another branch: `HEAD`,
/// `packed-refs` and `refs/heads` (to be watched with what is below). Git replaces the files by renaming, so watch
/// their folders; `packed-refs` may not exist yet. Empty when `path` is no repository.
pub fn local_watch_paths(path: &Path) -> Vec<PathBuf> {
    let own = match is_repository(path) {
        Some(RepositoryKind::WorkTree) => git_folder(&path.join(".git")),
        Some(RepositoryKind::Bare) => Some(path.to_owned()),
        None => None,
    };
    let Some(own) = own else {
        return Vec::new();
    };
    let common = common_folder(&own);
    let mut paths = vec![own.join("HEAD")];
    if common != own {
        paths.push(common.join("HEAD"));
    }
    paths.extend([common.join("packed-refs"), common.join("refs/heads")]);
    paths
}

/// The folders that the repository at `path` keeps its data in, symlinks resolved: two for a linked
/// work tree. They may be anywhere.
pub fn data_folders(path: &Path) -> Vec<PathBuf> {
    let own =
        git_folder(&path.join(".git")).or_else(|| is_git_folder(path).then(|| path.to_owned()));
    let both = own.into_iter().flat_map(|own| [common_folder(&own), own]);
    both.map(|folder| folder.canonicalize().unwrap_or(folder))
        .collect()
}

/// The git folder that `.git` is or names.
fn git_folder(dot_git: &Path) -> Option<PathBuf> {
    if dot_git.is_file() {
        let folder = read_line(dot_git)?;
        let folder = dot_git
            .parent()?
            .join(folder.strip_prefix("gitdir:")?.trim());
        return is_git_folder(&folder).then_some(folder);
    }
    is_git_folder(dot_git).then(|| dot_git.to_owned())
}

/// Whether a folder is a repository, as git decides it: a `HEAD`, and objects and refs here or in
/// the common folder.
fn is_git_folder(path: &Path) -> bool {
    let common = common_folder(path);
    let head = path.join("HEAD").symlink_metadata();
    head.is_ok_and(|head| head.is_file() || head.is_symlink())
        && common.join("objects").is_dir()
        && common.join("refs").is_dir()
}

/// A linked work tree shares objects and refs with the repository that `commondir` names.
fn common_folder(git_folder: &Path) -> PathBuf {
    match read_line(&git_folder.join("commondir")) {
        Some(common) => {
            let joined = git_folder.join(common);
            joined.canonicalize().unwrap_or(joined)
        }
        None => git_folder.to_owned(),
    }
}

/// The first line of a plain file; anything else, such as a FIFO that would block, has none.
fn read_line(path: &Path) -> Option<String> {
    const MAX_BYTES: u64 = 8192;
    let metadata = path.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.trim().to_owned())
}

/// The commit that a work tree is at, and whether there is more in it than that commit holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkTreeHead {
    pub commit: CommitId,
    /// First line of the message.
    pub summary: String,
    /// A file was changed, added or removed since, and is not ignored.
    pub is_changed: bool,
}

/// What is checked out in the work tree that `folder` is in; `None`: it is in none, or there is no commit yet, or the
/// repository cannot be read. It only says where a model came from, so nothing else depends on it.
pub fn work_tree_head(folder: &Path) -> Option<WorkTreeHead> {
    super::options::init();
    let repository = git2::Repository::discover(folder).ok()?;
    let commit = repository.head().ok()?.peel_to_commit().ok()?;
    let mut options = git2::StatusOptions::new();
    options.include_untracked(true).exclude_submodules(true);
    let statuses = repository.statuses(Some(&mut options)).ok()?;
    let summary = String::from_utf8_lossy(commit.summary_bytes().unwrap_or_default());
    Some(WorkTreeHead {
        commit: CommitId(commit.id()),
        summary: printable(&summary, 200),
        is_changed: !statuses.is_empty(),
    })
}
