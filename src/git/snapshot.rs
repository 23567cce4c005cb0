//! Records a plain folder as commits, so that a folder without git can be compiled like a repository.
//!
//! The commits are kept in a bare repository of ours, on its branch `main`; nothing is written into the folder.
//! `.gitignore` files of the folder count; filters and attributes do not: a file is recorded byte for byte.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::Oid;

use super::error::Error;
use super::mirror::{create_anew, create_bare, lock};
use super::names::check_name;
use super::repository::{CommitId, Repository};
use super::upkeep::{self, Tolerance};
use crate::domain::printable;

const BRANCH: &str = "refs/heads/main";
const MODE_TREE: i32 = 0o040000;
const MODE_FILE: i32 = 0o100644;
const MODE_EXECUTABLE: i32 = 0o100755;
const MODE_LINK: i32 = 0o120000;
/// How long to wait for another snapshot of the same folder.
const PATIENCE: Duration = Duration::from_secs(60);

/// How large a folder may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLimits {
    pub entries: usize,
    pub total_bytes: u64,
    pub file_bytes: u64,
    pub depth: usize,
}

impl Default for SnapshotLimits {
    fn default() -> SnapshotLimits {
        SnapshotLimits {
            entries: 250_000,
            total_bytes: 2 << 30,
            file_bytes: 256 << 20,
            depth: 64,
        }
    }
}

/// Records what is in `folder` now in the bare repository at `repository`, made when there is none, and returns
/// the commit that holds it: a new one if something changed since the last, else the last. `None` means that
/// the folder is empty and always was. Read the commits through [`Repository::at`] the same path.
pub fn snapshot(
    folder: &Path,
    repository: &Path,
    message: &str,
) -> Result<Option<CommitId>, Error> {
    snapshot_with(folder, repository, message, &SnapshotLimits::default())
}

pub fn snapshot_with(
    folder: &Path,
    repository: &Path,
    message: &str,
    limits: &SnapshotLimits,
) -> Result<Option<CommitId>, Error> {
    if let Some(parent) = repository.parent() {
        fs::create_dir_all(parent).map_err(Error::io("create the folder", parent))?;
    }
    let _lock = lock(repository, &folder.display().to_string(), PATIENCE)?;
    create_bare(repository)?;
    upkeep::remove_leftovers(repository)?;
    check_after_boot(repository)?;
    if let Err(error) = upkeep::compact(repository, Tolerance::default()) {
        tracing::warn!(path = %repository.display(), %error, "cannot compact the snapshots");
    }
    let store = Repository::at(repository).open()?;
    // Kept in memory only; it tells libgit2 where to look for `.gitignore`.
    store
        .set_workdir(folder, false)
        .map_err(Error::git("look into the folder"))?;
    let mut walk = Walk {
        store: &store,
        own: repository
            .canonicalize()
            .map_err(Error::io("find", repository))?,
        folder,
        limits,
        n_entries: 0,
        total_bytes: 0,
    };
    let tree = walk.folder("", 0)?;
    commit(&store, tree, message)
}

/// The first snapshot after a boot reads all that was recorded before: a power cut leaves empty
/// files, which would never be written again. If anything is wrong, recording starts over.
fn check_after_boot(repository: &Path) -> Result<(), Error> {
    let stamp = repository.join("steward-boot");
    let Some(boot) = upkeep::boot_id() else {
        return Ok(());
    };
    if fs::read_to_string(&stamp).is_ok_and(|stamped| stamped == boot) {
        return Ok(());
    }
    let store = Repository::at(repository).open()?;
    if !upkeep::refs_are_sound(&store) || !upkeep::objects_are_sound(&store) {
        create_anew(repository)?;
    }
    fs::write(&stamp, boot).map_err(Error::io("write", &stamp))
}

fn commit(
    store: &git2::Repository,
    tree: Option<Oid>,
    message: &str,
) -> Result<Option<CommitId>, Error> {
    let failed = Error::git;
    let head = store
        .find_reference(BRANCH)
        .and_then(|reference| reference.peel_to_commit())
        .ok();
    let tree = match (tree, &head) {
        (None, None) => return Ok(None),
        (Some(tree), _) => tree,
        (None, Some(_)) => {
            let builder = store
                .treebuilder(None)
                .map_err(failed("record the empty folder"))?;
            builder.write().map_err(failed("record the empty folder"))?
        }
    };
    if let Some(head) = &head
        && head.tree_id() == tree
    {
        return Ok(Some(CommitId(head.id())));
    }
    let tree = store
        .find_tree(tree)
        .map_err(failed("read the recorded folder"))?;
    let steward =
        git2::Signature::now("steward", "steward@localhost").map_err(failed("read the clock"))?;
    let parents: Vec<&git2::Commit<'_>> = head.iter().collect();
    let id = store
        .commit(Some(BRANCH), &steward, &steward, message, &tree, &parents)
        .map_err(failed("commit the recorded folder"))?;
    Ok(Some(CommitId(id)))
}

/// One walk over the folder, counting towards the limits.
struct Walk<'a> {
    store: &'a git2::Repository,
    /// Where the store is; recording it would change it, without end.
    own: PathBuf,
    folder: &'a Path,
    limits: &'a SnapshotLimits,
    n_entries: usize,
    total_bytes: u64,
}

impl Walk<'_> {
    /// Records the folder at `prefix`, which is empty or ends in `/`. `None` when there is nothing in it to
    /// record; git knows no empty folders.
    fn folder(&mut self, prefix: &str, depth: usize) -> Result<Option<Oid>, Error> {
        let path = self.folder.join(prefix);
        if depth > self.limits.depth {
            return Err(self.exceeds(prefix, format!("{} nested folders", self.limits.depth)));
        }
        check_ignore_file(&path.join(".gitignore"))?;
        let mut builder = self
            .store
            .treebuilder(None)
            .map_err(Error::git("record a folder"))?;
        for entry in fs::read_dir(&path).map_err(Error::io("read the folder", &path))? {
            let entry = entry.map_err(Error::io("read the folder", &path))?;
            let name = entry.file_name();
            if name == ".git" {
                continue;
            }
            let recorded = self.entry(prefix, name.as_bytes(), depth)?;
            if let Some((id, mode)) = recorded {
                builder
                    .insert(name, id, mode)
                    .map_err(Error::git("record a file"))?;
            }
        }
        if builder.is_empty() {
            return Ok(None);
        }
        builder
            .write()
            .map(Some)
            .map_err(Error::git("record a folder"))
    }

    /// Records one file, link or folder. `None` when it is ignored, gone meanwhile, or of a kind git does not know.
    fn entry(
        &mut self,
        prefix: &str,
        name: &[u8],
        depth: usize,
    ) -> Result<Option<(Oid, i32)>, Error> {
        let name = check_name(name).map_err(|reason| Error::UnsafePath {
            path: printable(&format!("{prefix}{}", String::from_utf8_lossy(name)), 300),
            reason: reason.to_owned(),
        })?;
        let relative = format!("{prefix}{name}");
        let path = self.folder.join(&relative);
        let Some(metadata) = absent_as_none(path.symlink_metadata(), &path)? else {
            return Ok(None);
        };
        let pattern = if metadata.is_dir() {
            format!("{relative}/")
        } else {
            relative.clone()
        };
        if self
            .store
            .is_path_ignored(&pattern)
            .map_err(Error::git("read .gitignore"))?
        {
            return Ok(None);
        }
        self.n_entries += 1;
        if self.n_entries > self.limits.entries {
            return Err(self.exceeds(&relative, format!("{} entries", self.limits.entries)));
        }
        if metadata.is_dir() {
            if path.canonicalize().is_ok_and(|path| path == self.own) {
                let reason = "is where Steward records this very folder: keep its data elsewhere, or in .gitignore";
                return Err(Error::UnsafePath {
                    path: relative,
                    reason: reason.to_owned(),
                });
            }
            let tree = self.folder(&pattern, depth + 1)?;
            return Ok(tree.map(|tree| (tree, MODE_TREE)));
        }
        let (content, mode) = if metadata.is_symlink() {
            let Some(target) = absent_as_none(fs::read_link(&path), &path)? else {
                return Ok(None);
            };
            (target.as_os_str().as_bytes().to_owned(), MODE_LINK)
        } else if metadata.is_file() {
            let Some(content) = self.read(&path, &relative)? else {
                return Ok(None);
            };
            (
                content,
                if metadata.mode() & 0o100 == 0 {
                    MODE_FILE
                } else {
                    MODE_EXECUTABLE
                },
            )
        } else {
            tracing::warn!(path = %path.display(), "left out of the snapshot: neither a file, a link nor a folder");
            return Ok(None);
        };
        let blob = self
            .store
            .blob(&content)
            .map_err(Error::git("record a file"))?;
        Ok(Some((blob, mode)))
    }

    fn read(&mut self, path: &Path, relative: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(file) = absent_as_none(open_plain(path), path)? else {
            return Ok(None);
        };
        let mut content = Vec::new();
        file.take(self.limits.file_bytes + 1)
            .read_to_end(&mut content)
            .map_err(Error::io("read the file", path))?;
        self.total_bytes += content.len() as u64;
        if content.len() as u64 > self.limits.file_bytes {
            return Err(self.exceeds(
                relative,
                format!("{} MiB for one file", self.limits.file_bytes >> 20),
            ));
        }
        if self.total_bytes > self.limits.total_bytes {
            return Err(self.exceeds(
                relative,
                format!("{} MiB in all", self.limits.total_bytes >> 20),
            ));
        }
        Ok(Some(content))
    }

    fn exceeds(&self, path: &str, limit: String) -> Error {
        Error::TreeTooLarge {
            path: path.to_owned(),
            limit,
        }
    }
}

/// libgit2 reads this file itself, and would wait for the other end of a FIFO.
fn check_ignore_file(path: &Path) -> Result<(), Error> {
    match path.metadata() {
        Ok(metadata) if !metadata.is_file() => {
            let path = printable(&path.display().to_string(), 300);
            Err(Error::UnsafePath {
                path,
                reason: "is not a plain file".to_owned(),
            })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Opens a file that was plain a moment ago: if a link or a FIFO has taken its place, neither is followed nor
/// waited for.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no longer a plain file"));
    }
    Ok(file)
}

/// A file that vanishes while the folder is read was simply not there.
fn absent_as_none<T>(result: io::Result<T>, path: &Path) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path)(error)),
    }
}
