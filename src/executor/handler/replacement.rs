//! What takes the place of a path in one step: made beside it under a name derived from the path's, and renamed.
//!
//! The name is always the same, so that what a killed executor left is found and removed the next time. A file is locked
//! while it is written: should two resources be about one path, they do not take each other's away.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::Error;

/// A file or symlink that is not in its place yet; removed if it never gets there.
#[derive(Debug)]
pub(super) struct Replacement<'a> {
    temporary: PathBuf,
    target: &'a Path,
    is_placed: bool,
}

impl<'a> Replacement<'a> {
    /// An empty file that only we may read, locked as long as it is open.
    pub(super) fn file(target: &'a Path) -> Result<(Self, File), Error> {
        let replacement = Self::new(target, "file");
        let path = &replacement.temporary;
        // Somebody may take the file for a leftover before it is locked; then there is another try.
        for _ in 0..10 {
            remove_leftover(path).map_err(Error::io("write", target))?;
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let file = match options.open(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file.map_err(Error::io("write", target))?,
            };
            if file.try_lock().is_ok() && is_same(&file, path) {
                return Ok((replacement, file));
            }
        }
        std::mem::forget(replacement);
        Err(Error::Failed(format!(
            "{} is being written by another resource; let only one resource have this path",
            target.display()
        )))
    }

    pub(super) fn symlink(target: &'a Path, leads_to: &str) -> Result<Self, Error> {
        let replacement = Self::new(target, "symlink");
        remove_leftover(&replacement.temporary).map_err(Error::io("create the link", target))?;
        std::os::unix::fs::symlink(leads_to, &replacement.temporary)
            .map_err(Error::io("create the link", target))?;
        Ok(replacement)
    }

    fn new(target: &'a Path, kind: &str) -> Self {
        let temporary = beside(target, kind);
        Self {
            temporary,
            target,
            is_placed: false,
        }
    }

    #[cfg(test)]
    pub(super) fn path(&self) -> &Path {
        &self.temporary
    }

    /// Puts the open file into its place, and nothing that somebody else has put where it was made.
    pub(super) fn place_file(self, file: &File) -> Result<(), Error> {
        if is_same(file, &self.temporary) {
            return self.place();
        }
        Err(Error::Failed(format!(
            "cannot replace {}: somebody took the new file away before it was in its place",
            self.target.display()
        )))
    }

    pub(super) fn place(mut self) -> Result<(), Error> {
        fs::rename(&self.temporary, self.target).map_err(Error::io("replace", self.target))?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Replacement<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// The place beside `target` where what replaces it is made: always the same for one target and kind.
pub(super) fn beside(target: &Path, kind: &str) -> PathBuf {
    let name = target.file_name().unwrap_or_default();
    let digest = Sha256::new_with_prefix(kind)
        .chain_update([0])
        .chain_update(name.as_encoded_bytes())
        .finalize();
    target.with_file_name(format!(".steward-{}.tmp", hex::encode(&digest[..8])))
}

/// Removes what a killed executor left. What is in use, or was never ours, stays.
fn remove_leftover(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata?,
    };
    if metadata.is_file() {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(NO_SURPRISE);
        let file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        if file.try_lock().is_err() || !is_same(&file, path) {
            return Ok(());
        }
        return gone(fs::remove_file(path));
    }
    if metadata.is_symlink() {
        return gone(fs::remove_file(path));
    }
    Err(io::Error::other(format!(
        "{} is in the way; remove it",
        path.display()
    )))
}

/// Never waits for the other end of a FIFO, never follows a symlink.
pub(super) const NO_SURPRISE: i32 = (rustix::fs::OFlags::NONBLOCK.bits()
    | rustix::fs::OFlags::NOFOLLOW.bits()
    | rustix::fs::OFlags::NOCTTY.bits()) as i32;

/// Whether `path` leads to the open file.
fn is_same(file: &File, path: &Path) -> bool {
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
