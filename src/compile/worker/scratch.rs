//! The scratch folder of an environment's compiles: home, temporary files and bytecode of its Python code.
//!
//! It is emptied after each compile, but for the bytecode, which is worth keeping. While a compile runs, what lies in it is
//! added up now and then; over the quota, the compile's processes are ended. One file has a limit of its own
//! (`sandbox::limits`), so the disk cannot be filled between two looks by much.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Stays between compiles.
const BYTECODE: &str = "pycache";
/// Files and folders, whatever their size.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 200;
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// What `st_blocks` counts in.
const BLOCK_BYTES: u64 = 512;

/// Empties the folder. What cannot be removed is logged, and counts against the quota of the next compile.
pub(super) fn empty(folder: &Path) {
    for path in entries(folder) {
        if path.file_name().is_some_and(|name| name == BYTECODE) {
            continue;
        }
        if let Err(error) = remove(&path) {
            tracing::warn!(%error, "cannot remove {} after the compile", path.display());
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Removes a file, a link, or a folder with all below, also one that its owner was made not to read.
fn remove(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_folders(path, 0);
            fs::remove_dir_all(path)
        }
        removed => removed,
    }
}

/// Gives the owner all rights to folders. Links are not followed.
fn open_folders(folder: &Path, depth: usize) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    if depth == MAX_DEPTH {
        return;
    }
    for path in entries(folder) {
        if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir()) {
            open_folders(&path, depth + 1);
        }
    }
}

/// Why the folder holds too much; `None`: it does not.
fn excess(folder: &Path, max_bytes: u64) -> Option<String> {
    let (mut n_bytes, mut n_entries) = (0_u64, 0_usize);
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for path in entries(&folder) {
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            n_entries += 1;
            n_bytes = n_bytes.saturating_add(meta.blocks() * BLOCK_BYTES);
            if n_bytes > max_bytes {
                return Some(format!(
                    "the compile wrote more than {} MiB to its scratch folder",
                    max_bytes >> 20
                ));
            }
            if n_entries > MAX_ENTRIES {
                return Some(format!(
                    "the compile made more than {MAX_ENTRIES} files in its scratch folder"
                ));
            }
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    None
}

/// Looks at the folder while a compile runs.
pub(super) struct Watch {
    state: Arc<(Mutex<Watched>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Watched {
    is_over: bool,
    reason: Option<String>,
}

impl Watch {
    /// `end` is called when the folder holds too much, again and again while it does.
    pub(super) fn start(folder: PathBuf, max_bytes: u64, end: impl Fn() + Send + 'static) -> Self {
        let state = Arc::new((Mutex::new(Watched::default()), Condvar::new()));
        let watched = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            let (lock, over) = &*watched;
            loop {
                let state = lock.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = over.wait_timeout_while(state, PAUSE, |state| !state.is_over);
                let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                if state.is_over {
                    return;
                }
                drop(state);
                if let Some(reason) = excess(&folder, max_bytes) {
                    end();
                    lock.lock().unwrap_or_else(PoisonError::into_inner).reason = Some(reason);
                }
            }
        });
        Self {
            state,
            thread: Some(thread),
        }
    }

    /// Stops looking. Why there was too much, if there was.
    pub(super) fn stop(mut self) -> Option<String> {
        let (lock, over) = &*self.state;
        lock.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        over.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has no reason to panic, and its end is all that counts.
            let _ = thread.join();
        }
        let mut state = lock.lock().unwrap_or_else(PoisonError::into_inner);
        state.reason.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_bytecode_goes_and_what_links_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (scratch, other) = (dir.path().join("scratch"), dir.path().join("other"));
        for path in ["pycache/a", "tmp/b/c"] {
            fs::create_dir_all(scratch.join(path)).unwrap();
        }
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        fs::write(scratch.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&other, scratch.join("tmp/link")).unwrap();
        fs::set_permissions(scratch.join("tmp/b"), fs::Permissions::from_mode(0o000)).unwrap();
        empty(&scratch);
        assert_eq!(entries(&scratch), [scratch.join("pycache")]);
        assert!(scratch.join("pycache/a").is_dir() && other.join("kept").is_file());
    }

    #[test]
    fn what_is_over_the_quota_is_noticed_while_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(excess(dir.path(), 1 << 20), None);
        let (sender, ended) = std::sync::mpsc::channel();
        let watch = Watch::start(dir.path().to_owned(), 1 << 20, move || {
            let _ = sender.send(());
        });
        fs::write(dir.path().join("large"), vec![1; 2 << 20]).unwrap();
        ended.recv_timeout(Duration::from_secs(10)).unwrap();
        let reason = watch.stop().unwrap();
        assert!(reason.contains("more than 1 MiB"), "{reason}");
    }
}
