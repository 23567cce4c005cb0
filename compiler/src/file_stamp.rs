//! What tells whether a file or folder is still what it was, without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The time that file systems may give to changes that come one after the other: a clock's tick, which is 10 ms at most on
/// Linux, and more on file systems of other machines. A change within that time of another one may go unnoticed.
const TICK: Duration = Duration::from_millis(50);

/// The time by the clock that file systems take their times from, to compare stamps with. No compile sees it.
#[expect(
    clippy::disallowed_methods,
    reason = "times of files are those of this clock"
)]
pub fn now() -> SystemTime {
    SystemTime::now()
}

/// The state of a file or folder as its file system tells it.
///
/// The time of modification alone does not do: who unpacks an archive or copies a file may set it to any time. The time of the
/// last change of the entry itself can not be set, and a file that takes another one's place has another number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    device: u64,
    inode: u64,
    mode: u32,
    size: u64,
    /// Seconds and nanoseconds since 1970.
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// The stamp of what a path leads to, links followed; `None`: nothing that one may look at.
    pub fn of(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether it is a regular file's.
    pub fn is_file(&self) -> bool {
        rustix::fs::FileType::from_raw_mode(self.mode).is_file()
    }

    /// Whether it is a folder's.
    pub fn is_folder(&self) -> bool {
        rustix::fs::FileType::from_raw_mode(self.mode).is_dir()
    }

    /// Whether a change after `now` is certain to make another stamp: the last change is not of the same tick of the clock.
    pub fn is_settled(&self, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let Ok(seconds) = u64::try_from(seconds) else {
            return true;
        };
        let nanoseconds = u64::try_from(nanoseconds).unwrap_or_default();
        let since_epoch = Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds);
        SystemTime::UNIX_EPOCH + since_epoch + TICK < now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_makes_another_stamp() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        assert_eq!(FileStamp::of(&file), None);
        std::fs::write(&file, "one").unwrap();
        let first = FileStamp::of(&file).unwrap();
        let later = now() + Duration::from_secs(1);
        assert!(first.is_settled(later) && !first.is_settled(now()));
        assert_eq!(FileStamp::of(&file).as_ref(), Some(&first));

        // Of the same length and, as its writer says, the same age.
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        std::thread::sleep(2 * TICK);
        std::fs::write(&file, "two").unwrap();
        let open = std::fs::File::options().write(true).open(&file).unwrap();
        open.set_modified(modified).unwrap();
        let second = FileStamp::of(&file).unwrap();
        assert_ne!(second, first);

        let other = folder.path().join("b");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert_ne!(FileStamp::of(&file).unwrap(), second);
    }
}
