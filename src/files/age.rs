//! How long ago something on disk was last used: its time of modification, which who uses it sets.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

/// Sets the time of a file or folder to now.
///
/// # Errors
/// It is not there, or somebody else's.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(utimensat(CWD, path, &times, AtFlags::empty())?)
}

/// Whether it is there, and was not touched for `age`.
pub fn is_older(path: &Path, age: Duration) -> bool {
    fs::symlink_metadata(path)
        .and_then(|meta| meta.modified())
        .is_ok_and(|at| at.elapsed().is_ok_and(|since| since > age))
}

/// What is in a folder; nothing if it is none.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The folders in a folder; links to some are none.
pub fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut entries = entries(folder);
    entries.retain(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir()));
    entries
}
