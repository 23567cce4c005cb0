//! What is left free on the disk of the data directory, so that who may write there takes no room from all others.

use std::io;
use std::path::{Path, PathBuf};

/// What stays free for the server itself.
const RESERVE_BYTES: u64 = 512 << 20;
/// Of a small disk a smaller part stays free: one in this many bytes.
const SMALL_PART: u64 = 50;

/// A disk that somebody else's code writes to for a while. It may write as much as it likes; what it writes is gone when it
/// is stopped for that.
#[derive(Debug)]
pub struct WatchedDisk {
    folder: PathBuf,
    /// Where the code is stopped.
    least_bytes: u64,
}

impl WatchedDisk {
    /// Where hardly anything is free to begin with, half of that may be used.
    pub fn of(folder: PathBuf) -> Self {
        let free = room(&folder).map_or(0, |(free, _)| free);
        Self {
            folder,
            least_bytes: RESERVE_BYTES.min(free / 2),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is left when the code is stopped.
    pub fn least_bytes(&self) -> u64 {
        self.least_bytes
    }

    pub fn is_full(&self) -> bool {
        room(&self.folder).is_some_and(|(free, _)| free < self.least_bytes)
    }
}

/// Refuses what would leave too little on the disk of a folder.
///
/// # Errors
/// `StorageFull`.
pub fn check_room(folder: &Path, n_bytes: u64) -> io::Result<()> {
    let has_room = room(folder).is_none_or(|(free, total)| {
        free.saturating_sub(n_bytes) >= RESERVE_BYTES.min(total / SMALL_PART)
    });
    if has_room {
        Ok(())
    } else {
        Err(io::ErrorKind::StorageFull.into())
    }
}

/// Bytes that are free on the disk of a folder, and all that it has. `None`: there is no such folder.
fn room(folder: &Path) -> Option<(u64, u64)> {
    let found = rustix::fs::statvfs(folder).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some((bytes(found.f_bavail), bytes(found.f_blocks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_fill_the_disk_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (free, _) = room(dir.path()).unwrap();
        check_room(dir.path(), 0).unwrap();
        let error = check_room(dir.path(), free).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        check_room(&dir.path().join("none"), free).unwrap();
    }
}
