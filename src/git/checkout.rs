//! Lays the tree of a commit out as files, once for each content.
//!
//! The tree is read from the object store and every name, link and size in it is checked before anything is
//! written; libgit2's own checkout, with its filters and attributes, is not used. The folder is written under a
//! temporary name and renamed, so it is there whole or not at all, and concurrent callers end with one.
//!
//! Nothing is synced to disk: a kill loses nothing, but a power cut may leave empty files. So the folder of all
//! checkouts remembers the boot it was filled in, and after another boot it is emptied and filled anew.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::error::Error;
use super::mirror::lock;
use super::repository::{CommitId, Repository, TreeId, find_commit};
use super::tree::{Entry, Kind, scan};
use super::upkeep::boot_id;

/// Files whose text a compile reads, so that a pointer in their place can only be a mistake.
const MODEL_EXTENSIONS: [&str; 6] = ["cf", "py", "yml", "yaml", "j2", "tmpl"];
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
const LFS_POINTER_MAX_BYTES: usize = 1024;

/// How the name of an unfinished checkout begins.
const TEMPORARY: &str = ".new-";
/// A folder under a temporary name that is older than this belongs to nobody any more.
const ABANDONED_AFTER: Duration = Duration::from_secs(3600);

/// How large a tree may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckoutLimits {
    /// Files, links and folders together.
    pub entries: usize,
    pub total_bytes: u64,
    pub file_bytes: u64,
    /// Folders within folders.
    pub depth: usize,
    pub path_bytes: usize,
}

impl Default for CheckoutLimits {
    fn default() -> CheckoutLimits {
        CheckoutLimits {
            entries: 250_000,
            total_bytes: 2 << 30,
            file_bytes: 256 << 20,
            depth: 64,
            path_bytes: 2048,
        }
    }
}

/// The folder with the content of `commit`, below `dir`, made if it is not there yet. It is shared: do not
/// write into it. Submodules become empty folders; [`submodules`] names them.
pub fn checkout(repository: &Repository, commit: CommitId, dir: &Path) -> Result<PathBuf, Error> {
    checkout_with(repository, commit, dir, &CheckoutLimits::default())
}

/// The folder below `dir` with the content of a tree, if it is there. Reads nothing of a repository.
pub fn finished_checkout(dir: &Path, tree: TreeId) -> Result<Option<PathBuf>, Error> {
    prepare(dir)?;
    let done = dir.join(tree.to_string());
    let is_folder = done.symlink_metadata().is_ok_and(|found| found.is_dir());
    Ok(is_folder.then_some(done))
}

pub fn checkout_with(
    repository: &Repository,
    commit: CommitId,
    dir: &Path,
    limits: &CheckoutLimits,
) -> Result<PathBuf, Error> {
    let tree = find_commit(&repository.open()?, commit)?.tree_id();
    if let Some(done) = finished_checkout(dir, TreeId(tree))? {
        return Ok(done);
    }
    let done = dir.join(tree.to_string());
    remove_abandoned(dir)?;
    let fill = || {
        let store = repository.open()?;
        let content = scan(&store, tree, limits)?;
        let fresh = Temporary::new(dir)?;
        write(&store, &content, &fresh.0)?;
        Ok(fresh)
    };
    let fresh = match fill() {
        // The repository may be compacted at this moment; opened again, it is whole.
        Err(Error::Git { .. }) => fill()?,
        filled => filled?,
    };
    if boot_id().is_none() {
        let folder = File::open(&fresh.0).map_err(Error::io("open", &fresh.0))?;
        rustix::fs::syncfs(folder)
            .map_err(|error| Error::io("bring to the disk", &fresh.0)(error.into()))?;
    }
    match fs::rename(&fresh.0, &done) {
        Ok(()) => Ok(done),
        // Another caller was faster, with the same content.
        Err(_) if done.is_dir() => Ok(done),
        Err(source) => Err(Error::io("move the checkout into place at", &done)(source)),
    }
}

/// Removes the checkouts in `dir` other than those of the trees to `keep`, and returns how many went. The caller
/// keeps what is in use.
pub fn gc_checkouts(dir: &Path, keep: &HashSet<TreeId>) -> Result<usize, Error> {
    let keep: HashSet<String> = keep.iter().map(TreeId::to_string).collect();
    let mut n_removed = 0;
    for (name, path) in entries(dir)? {
        if is_checkout(&name) && !keep.contains(&name) {
            // First out of sight, so that nobody finds half of one.
            let gone = dir.join(format!("{TEMPORARY}{:016x}", rand::random::<u64>()));
            fs::rename(&path, &gone).map_err(Error::io("remove the checkout", &path))?;
            fs::remove_dir_all(&gone).map_err(Error::io("remove the checkout", &path))?;
            n_removed += 1;
        }
    }
    Ok(n_removed)
}

/// Where the tree of `commit` holds submodules, whose content is not fetched.
pub fn submodules(repository: &Repository, commit: CommitId) -> Result<Vec<String>, Error> {
    let store = repository.open()?;
    let tree = find_commit(&store, commit)?.tree_id();
    let entries = scan(&store, tree, &CheckoutLimits::default())?;
    Ok(entries
        .into_iter()
        .filter(|entry| entry.kind == Kind::Submodule)
        .map(|entry| entry.path)
        .collect())
}

/// Writes the entries below `root`. Links come last, so that nothing is ever written through one, even if a
/// tree holds one name twice; and everything must be new.
fn write(store: &git2::Repository, entries: &[Entry], root: &Path) -> Result<(), Error> {
    for entry in entries {
        let path = root.join(&entry.path);
        match &entry.kind {
            Kind::Folder => make_folder(&path)?,
            Kind::Submodule => {
                tracing::warn!(
                    path = entry.path,
                    "the submodule is left out: submodules are not fetched"
                );
                make_folder(&path)?;
            }
            Kind::File { blob, executable } => {
                let blob = store
                    .find_blob(*blob)
                    .map_err(Error::git("read a file of the commit"))?;
                check_lfs(&entry.path, blob.content())?;
                write_file(&path, blob.content(), *executable)?;
            }
            Kind::Link { .. } => (),
        }
    }
    for entry in entries {
        if let Kind::Link { target } = &entry.kind {
            let path = root.join(&entry.path);
            symlink(target, &path).map_err(Error::io("create the symlink", path))?;
        }
    }
    Ok(())
}

/// What a repository holds is for the server only.
const FOLDER_MODE: u32 = 0o700;

/// The mode is set after creation where the umask of the process has cut it. Mostly it has not, and in the sandbox each
/// change of a mode is asked for at another process.
fn set_mode(path: &Path, found: io::Result<fs::Metadata>, mode: u32) -> Result<(), Error> {
    if found.is_ok_and(|found| found.permissions().mode() & 0o7777 == mode) {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(Error::io("set the mode of", path))
}

fn make_folder(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .mode(FOLDER_MODE)
        .create(path)
        .map_err(Error::io("create the folder", path))?;
    set_mode(path, path.symlink_metadata(), FOLDER_MODE)
}

fn write_file(path: &Path, content: &[u8], executable: bool) -> Result<(), Error> {
    let mode = if executable { 0o700 } else { 0o600 };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(Error::io("create the file", path))?;
    file.write_all(content)
        .map_err(Error::io("write the file", path))?;
    set_mode(path, file.metadata(), mode)
}

fn check_lfs(path: &str, content: &[u8]) -> Result<(), Error> {
    let is_pointer = content.len() <= LFS_POINTER_MAX_BYTES && content.starts_with(LFS_POINTER);
    let extension = path
        .rsplit_once('.')
        .map(|(_, extension)| extension)
        .unwrap_or_default();
    if is_pointer && MODEL_EXTENSIONS.contains(&extension) {
        return Err(Error::LfsPointer {
            path: path.to_owned(),
        });
    }
    Ok(())
}

/// A folder that is removed when dropped; once it is renamed there is nothing left to remove.
struct Temporary(PathBuf);

impl Temporary {
    fn new(dir: &Path) -> Result<Temporary, Error> {
        let path = dir.join(format!("{TEMPORARY}{:016x}", rand::random::<u64>()));
        make_folder(&path)?;
        Ok(Temporary(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes `dir`, and empties it when it was filled before the last boot.
fn prepare(dir: &Path) -> Result<(), Error> {
    // Where the boot cannot be told, each checkout is synced instead.
    let boot = boot_id().unwrap_or_default();
    let stamp = dir.join(".boot");
    if fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == boot) {
        return Ok(());
    }
    fs::create_dir_all(dir).map_err(Error::io("create the folder", dir))?;
    let _lock = lock(&dir.join(".boot"), "the checkouts", Duration::from_secs(60))?;
    if fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == boot) {
        return Ok(());
    }
    gc_checkouts(dir, &HashSet::new())?;
    fs::write(&stamp, boot).map_err(Error::io("write", &stamp))
}

/// Removes what was left by processes that ended while they wrote.
fn remove_abandoned(dir: &Path) -> Result<(), Error> {
    for (name, path) in entries(dir)? {
        if name.starts_with(TEMPORARY) && is_abandoned(&path) {
            // Another process may be about to remove it too.
            let _ = fs::remove_dir_all(&path);
        }
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "compared with times of files only"
)]
fn is_abandoned(path: &Path) -> bool {
    let modified = path.metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|time| {
        SystemTime::now()
            .duration_since(time)
            .is_ok_and(|age| age > ABANDONED_AFTER)
    })
}

fn is_checkout(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn entries(dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("read the folder", dir))? {
        let entry = entry.map_err(Error::io("read the folder", dir))?;
        entries.push((
            entry.file_name().to_string_lossy().into_owned(),
            entry.path(),
        ));
    }
    Ok(entries)
}
