//! The end of a folder that somebody else filled, who may not have wanted it to end.
//!
//! The standard library goes down a tree by recursion, with a file handle and a piece of the stack for each level: ten
//! thousand levels end the process. Here each folder is emptied where it is, and its own folders are moved up to the top first,
//! to be emptied there: three handles and no recursion, whatever the depth and whatever the length of a path. Folders that
//! their owner was made not to read are opened up. Links are removed, and never followed.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// What folders that are moved up are called.
const MOVED: &str = ".steward-removed-";
/// Looks at a folder that does not get empty, at least one for each level below it: somebody fills it.
const MAX_LOOKS: u32 = 1_000_000;

/// Removes a file, a link, or a folder with all below.
///
/// # Errors
/// It is not there, or something of it cannot be removed.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let kind = FileType::from_raw_mode(statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    if !kind.is_dir() {
        return Ok(unlinkat(CWD, path, AtFlags::empty())?);
    }
    let top = open_folder(CWD, path)?;
    let mut n_moved = 0;
    empty_top(&top, &mut n_moved)?;
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Removes all that is in a folder.
///
/// # Errors
/// See [`remove_tree`].
pub fn empty_folder(path: &Path) -> io::Result<()> {
    let top = open_folder(CWD, path)?;
    Ok(empty_top(&top, &mut 0)?)
}

fn empty_top(top: &File, n_moved: &mut u64) -> Result<(), Errno> {
    for _ in 0..MAX_LOOKS {
        let mut is_empty = true;
        each(top, |name, kind| {
            is_empty = false;
            if !kind.is_dir() {
                return ignore_missing(unlinkat(top, name, AtFlags::empty()));
            }
            let folder = open_folder(top.as_fd(), name)?;
            empty_one(&folder, top, n_moved)?;
            // Not empty only if somebody still fills it; the next look sees it again.
            match unlinkat(top, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) => Ok(()),
                removed => ignore_missing(removed),
            }
        })?;
        if is_empty {
            return Ok(());
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Removes the files of a folder, and moves its folders up to the top.
fn empty_one(folder: &File, top: &File, n_moved: &mut u64) -> Result<(), Errno> {
    each(folder, |name, kind| {
        if !kind.is_dir() {
            return ignore_missing(unlinkat(folder, name, AtFlags::empty()));
        }
        // A folder that is moved is written to: `..` in it changes.
        drop(open_folder(folder.as_fd(), name)?);
        *n_moved += 1;
        let own = fstat(folder)?.st_ino;
        renameat(folder, name, top, format!("{MOVED}{own}-{n_moved}"))
    })
}

/// Calls for each entry of a folder but `.` and `..`, with what it is.
fn each(
    folder: &File,
    mut work: impl FnMut(&CStr, FileType) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut entries = Dir::read_from(folder)?;
    entries.rewind();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error),
            },
            kind => kind,
        };
        work(name, kind)?;
    }
    Ok(())
}

/// Opens a folder, no link, and gives its owner the right to it if that is missing.
fn open_folder<P: rustix::path::Arg + Copy>(
    parent: BorrowedFd<'_>,
    name: P,
) -> Result<File, Errno> {
    const ALL: Mode = Mode::RWXU;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = openat(parent, name, flags, Mode::empty());
    let folder: File = match opened {
        Err(Errno::ACCESS) => {
            chmodat(parent, name, ALL, AtFlags::empty())?;
            openat(parent, name, flags, Mode::empty())?.into()
        }
        opened => opened?.into(),
    };
    if !Mode::from_raw_mode(fstat(&folder)?.st_mode).contains(ALL) {
        // Root needs no right, and others own it or could not have got here.
        let _ = rustix::fs::fchmod(&folder, ALL);
    }
    Ok(folder)
}

fn ignore_missing(removed: Result<(), Errno>) -> Result<(), Errno> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => removed,
    }
}

/// A folder that is removed with its value, whatever has been put into it.
#[derive(Debug)]
pub struct ScratchFolder(tempfile::TempDir);

impl ScratchFolder {
    /// # Errors
    /// The disk refuses.
    pub fn new(prefix: &str, parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Err(error) = empty_folder(self.path()) {
            tracing::warn!(%error, "cannot empty {}", self.path().display());
            // What is left would be followed down by recursion.
            self.0.disable_cleanup(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Folders in folders, deeper than a path can be long.
    fn deep(path: &Path, n_levels: usize) {
        fs::create_dir(path).unwrap();
        let mut folder = open_folder(CWD, path).unwrap();
        for level in 0..n_levels {
            rustix::fs::mkdirat(&folder, "folder-with-a-name", Mode::RWXU).unwrap();
            let file = openat(&folder, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
            file.unwrap();
            let below = open_folder(folder.as_fd(), "folder-with-a-name").unwrap();
            if level % 100 == 7 {
                chmodat(
                    &folder,
                    "folder-with-a-name",
                    Mode::empty(),
                    AtFlags::empty(),
                )
                .unwrap();
            }
            folder = below;
        }
    }

    /// Input: folders nested 20 000 deep that a plugin or a build leaves (docs/reference/security.md § 4.5, § 3.22). Answer: they are removed, with a bounded stack and number of file handles.
    #[test]
    fn a_tree_of_any_depth_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep");
        deep(&path, 20_000);
        let small = std::thread::Builder::new().stack_size(256 << 10);
        let removed = path.clone();
        let thread = small.spawn(move || remove_tree(&removed)).unwrap();
        thread.join().unwrap().unwrap();
        assert!(!path.exists());
        let scratch = ScratchFolder::new("scratch-", dir.path()).unwrap();
        deep(&scratch.path().join("deep"), 5_000);
        drop(scratch);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_are_removed_and_what_they_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, other) = (dir.path().join("tree"), dir.path().join("other"));
        for path in ["tree/a/b", "other"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(other.join("kept"), "x").unwrap();
        symlink(&other, tree.join("a/link")).unwrap();
        symlink(&other, tree.join("link")).unwrap();
        fs::set_permissions(tree.join("a/b"), fs::Permissions::from_mode(0o000)).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && other.join("kept").exists());
        symlink(&other, &tree).unwrap();
        remove_tree(&tree).unwrap();
        assert!(tree.symlink_metadata().is_err() && other.join("kept").exists());
        assert!(remove_tree(&tree).is_err());
        remove_tree(&other.join("kept")).unwrap();
    }
}
