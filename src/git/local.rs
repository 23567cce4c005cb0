//! Repositories on this machine's disk: telling what a folder is, and what to watch in it.

use std::fs;
use std::path::{Path, PathBuf};

use super::repository::{CommitId, shown_author};
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

/// How many folders a repository may have its objects in, its own among them.
const MAX_ALTERNATES: usize = 100;
/// Bytes of a list of repositories that objects are borrowed from.
const MAX_ALTERNATES_BYTES: u64 = 64 << 10;

/// The folders that the repository at `path` keeps its data in, symlinks resolved: its git folder; for a linked work tree that of
/// the repository it belongs to; objects and refs that are links; and the objects of repositories that it borrows from
/// (`objects/info/alternates`). They may be anywhere.
pub fn data_folders(path: &Path) -> Vec<PathBuf> {
    let own =
        git_folder(&path.join(".git")).or_else(|| is_git_folder(path).then(|| path.to_owned()));
    let Some(own) = own else {
        return Vec::new();
    };
    let common = common_folder(&own);
    let parts = ["objects", "refs"].map(|part| real(common.join(part)));
    let mut folders = vec![real(common), real(own)];
    // A repository may borrow from one that borrows itself, even in a circle.
    let [objects, refs] = parts;
    let mut objects = vec![objects];
    let mut at = 0;
    while let Some(from) = objects.get(at).filter(|_| at < MAX_ALTERNATES) {
        for folder in alternates(from) {
            if objects.len() < MAX_ALTERNATES && !objects.contains(&folder) {
                objects.push(folder);
            }
        }
        at += 1;
    }
    for folder in objects.into_iter().chain([refs]) {
        if !folders.iter().any(|known| folder.starts_with(known)) {
            folders.push(folder);
        }
    }
    folders
}

fn real(path: PathBuf) -> PathBuf {
    path.canonicalize().unwrap_or(path)
}

/// Where else the objects of a repository are, by its folder of objects.
fn alternates(objects: &Path) -> Vec<PathBuf> {
    let list = objects.join("info/alternates");
    let metadata = list.metadata();
    let is_list = metadata.is_ok_and(|data| data.is_file() && data.len() <= MAX_ALTERNATES_BYTES);
    let text = match is_list {
        true => fs::read_to_string(&list).unwrap_or_default(),
        false => String::new(),
    };
    let lines = text.lines().map(str::trim_end);
    let named = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    named.map(|line| real(objects.join(line))).collect()
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
    /// `Name <address>`.
    pub author: String,
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
        author: shown_author(&commit.author()),
        is_changed: !statuses.is_empty(),
    })
}
