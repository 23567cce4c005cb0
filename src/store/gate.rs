//! Whether the database is the one that this server opened: asked before and after every write.
//!
//! A file that is deleted or overwritten goes on taking writes through the descriptors that are open, and all of them are
//! lost. So the file that the path leads to has to be the one that was opened, and its header has to carry the number that
//! this start of the server put there. It never gets shorter, since nothing of it is given back while a server runs; and the
//! log of writes that are not in it yet, beside it, keeps its header: without that, whoever opens the file next sees none of
//! them. What is wrong in other ways [`Store::check`](super::Store::check) finds, and notes
//! here.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::Error;

const MAGIC: &[u8] = b"SQLite format 3\0";
/// Where `PRAGMA user_version` stands in the header.
const USER_VERSION: std::ops::Range<usize> = 60..64;
/// How a write-ahead log begins; the last bit says in which order the bytes of its checksums are.
const LOG_MAGIC: u32 = 0x377f_0682;

/// One for all clones of a store.
#[derive(Debug, Default)]
pub(super) struct Gate {
    file: Option<Opened>,
    /// What this start of the server will be called, where its connections carry the name from the beginning.
    pub(super) start: Option<String>,
    /// Names this start of the server, once it has the database for itself.
    pub(super) nonce: OnceLock<String>,
    /// What was found to be wrong with the database.
    lost: Mutex<Option<String>>,
}

/// The file that was opened.
#[derive(Debug)]
struct Opened {
    path: PathBuf,
    device: u64,
    inode: u64,
    /// Never closed: closing any descriptor of the file would drop the locks that SQLite has on it in this process.
    file: &'static File,
    /// The `user_version` of this start; 0: none was written yet.
    stamp: AtomicU32,
    /// The longest that it was found to be.
    n_bytes: AtomicU64,
    /// The inode of the log, once it was found to have a header; 0: it was not.
    log: AtomicU64,
}

impl Gate {
    /// The gate of the SQLite file at `path`, which SQLite has opened.
    pub(super) fn of_file(path: &Path) -> std::io::Result<Self> {
        let file: &'static File = Box::leak(Box::new(File::open(path)?));
        let metadata = file.metadata()?;
        Ok(Self {
            file: Some(Opened {
                path: path.to_owned(),
                device: metadata.dev(),
                inode: metadata.ino(),
                file,
                stamp: AtomicU32::new(0),
                n_bytes: AtomicU64::new(0),
                log: AtomicU64::new(0),
            }),
            ..Self::default()
        })
    }

    /// The gate of a database whose sessions are named after this start of the server.
    pub(super) fn of_sessions(start: String) -> Self {
        Self {
            start: Some(start),
            ..Self::default()
        }
    }

    /// An error says what to do; nothing may be written then.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_file()?;
        match &*self.lost.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(why) => Err(Error::Lost(why.clone())),
            None => Ok(()),
        }
    }

    /// Whether the file is still the one that was opened.
    pub(super) fn check_file(&self) -> Result<(), Error> {
        match &self.file {
            Some(file) => file.check().map_err(Error::Lost),
            None => Ok(()),
        }
    }

    /// From now on nothing is written; `None`: it is again.
    pub(super) fn set_lost(&self, why: Option<String>) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }

    pub(super) fn path(&self) -> Option<&Path> {
        Some(&self.file.as_ref()?.path)
    }

    /// Tells the number that the header carries from now on. `false`: it is not there, so it is not looked for.
    pub(super) fn stamped(&self, stamp: u32) -> bool {
        let Some(file) = &self.file else { return true };
        file.stamp.store(stamp, Ordering::Relaxed);
        let is_there = file.check().is_ok();
        if !is_there {
            file.stamp.store(0, Ordering::Relaxed);
        }
        is_there
    }
}

impl Opened {
    /// Whether the log has its header, if it had one before. One that is not there any more is another matter: a new one begins
    /// without.
    fn has_log(&self) -> bool {
        let mut path = self.path.clone().into_os_string();
        path.push("-wal");
        // SQLite has no locks on this file, which closing it would drop.
        let Ok(file) = File::open(path) else {
            return true;
        };
        let Ok(metadata) = file.metadata() else {
            return true;
        };
        let mut magic = [0; 4];
        let has_header = file.read_exact_at(&mut magic, 0).is_ok()
            && u32::from_be_bytes(magic) & !1 == LOG_MAGIC;
        let inode = metadata.ino();
        if has_header {
            self.log.store(inode, Ordering::Relaxed);
        }
        has_header || self.log.load(Ordering::Relaxed) != inode
    }

    fn check(&self) -> Result<(), String> {
        let shown = self.path.display();
        // Before it is looked at: another thread may see it longer at any moment.
        let longest = self.n_bytes.load(Ordering::Relaxed);
        let n_bytes = match fs::metadata(&self.path) {
            Err(error) => {
                return Err(format!(
                    "the database file {shown} is not there any more ({error}): nothing is written; put that file back, or \
                     restart the server to begin with a new one"
                ));
            }
            Ok(now) if (now.dev(), now.ino()) != (self.device, self.inode) => {
                return Err(format!(
                    "the database file {shown} was replaced by another file while the server ran: nothing is written; \
                     restart the server to use that file"
                ));
            }
            Ok(now) => now.len(),
        };
        let stamp = self.stamp.load(Ordering::Relaxed);
        if stamp == 0 {
            return Ok(());
        }
        let mut header = [0; 100];
        let is_ours = self.file.read_exact_at(&mut header, 0).is_ok()
            && header.starts_with(MAGIC)
            && header[USER_VERSION] == stamp.to_be_bytes();
        self.n_bytes.fetch_max(n_bytes, Ordering::Relaxed);
        let what = if !is_ours {
            "was overwritten"
        } else if n_bytes < longest {
            "was cut off"
        } else if !self.has_log() {
            "has lost what was written last, since its log was cut off or overwritten"
        } else {
            return Ok(());
        };
        Err(format!(
            "the database file {shown} {what} while the server ran: nothing is written; stop the server, restore a \
             backup (and remove {shown}-wal and {shown}-shm), and start it again"
        ))
    }
}
