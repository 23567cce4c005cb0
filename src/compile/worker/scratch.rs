//! The scratch folder of an environment's compiles: home and temporary files of its Python code.
//!
//! It is emptied after each compile. While a compile runs, what lies in it is added up now and then, also what has no name any
//! more but is open or mapped; over the quota, the compile's processes are ended. One file has a limit of its own (`sandbox::limits`), so
//! the disk cannot be filled between two looks by much. A folder that cannot be read, or lies deeper than any honest one,
//! counts as too much: what cannot be added up is no reason to let it be.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::files::empty_folder;
use crate::process::descendants;

/// Files and folders, whatever their size.
const MAX_ENTRIES: usize = 100_000;
/// A file handle is held for each level.
const MAX_DEPTH: usize = 100;
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(200);
/// The time after which a process that hides itself is looked at once more.
const PATIENCE: Duration = Duration::from_millis(100);
/// What `st_blocks` counts in.
const BLOCK_BYTES: u64 = 512;
/// What is behind the name of a file in `/proc` that was removed.
const REMOVED: &[u8] = b" (deleted)";
/// Removed files that are mapped and not open. They may be longer than what is known of them, so there can be few: an honest
/// one is a library that was unpacked, loaded, and removed.
const MAX_MAPPED_ONLY: usize = 8;
/// Open files that were sent from one process to another, and not received yet. They may be removed files.
const MAX_ON_THEIR_WAY: u64 = 64;

/// Empties the folder. What cannot be removed is logged, and counts against the quota of the next compile.
pub(super) fn empty(folder: &Path) {
    // Its code may have closed it to us.
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    if let Err(error) = empty_folder(folder) {
        tracing::warn!(%error, "cannot empty {} after the compile", folder.display());
    }
}

/// What is added up.
struct Sum {
    n_bytes: u64,
    n_entries: usize,
    max_bytes: u64,
    /// Device and number of files that were counted over an open handle.
    seen: BTreeSet<(u64, u64)>,
}

impl Sum {
    /// Counts something; why it is too much, if it is.
    fn add(&mut self, blocks: u64) -> Result<(), String> {
        self.n_entries += 1;
        self.n_bytes = self
            .n_bytes
            .saturating_add(blocks.saturating_mul(BLOCK_BYTES));
        if self.n_bytes > self.max_bytes {
            return Err(format!(
                "the compile wrote more than {} MiB to its scratch folder",
                self.max_bytes >> 20
            ));
        }
        if self.n_entries > MAX_ENTRIES {
            return Err(format!(
                "the compile made more than {MAX_ENTRIES} files in its scratch folder"
            ));
        }
        Ok(())
    }

    fn add_folder(&mut self, folder: &File, depth: usize) -> Result<(), String> {
        let unreadable = |_| "the compile closed a folder in its scratch folder".to_owned();
        if depth > MAX_DEPTH {
            return Err(format!(
                "the compile nested folders deeper than {MAX_DEPTH} in its scratch folder"
            ));
        }
        for entry in Dir::read_from(folder).map_err(unreadable)? {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Ok(found) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            self.add(u64::try_from(found.st_blocks).unwrap_or_default())?;
            if FileType::from_raw_mode(found.st_mode).is_dir() {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                match openat(folder, name, flags, Mode::empty()) {
                    Ok(below) => self.add_folder(&below.into(), depth + 1)?,
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(error) => return Err(unreadable(error)),
                }
            }
        }
        Ok(())
    }

    /// Counts files of the folder that were removed while a process below this one has them open, or mapped.
    fn add_removed(&mut self, folder: &Path) -> Result<(), String> {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        let (mut n_sent, mut sockets) = (0, BTreeSet::new());
        let mut mapped = BTreeMap::new();
        for process in descendants::below([own]) {
            let files = patiently(|| descendants::open_files(process))?;
            for file in files {
                if file.is_socket() {
                    let n_in_it = file.n_on_their_way();
                    if sockets.insert(file.target) {
                        n_sent += n_in_it;
                    }
                    continue;
                }
                let meta = is_removed(&file.target, folder).then(|| fs::metadata(&file.path).ok());
                if let Some(meta) = meta.flatten()
                    && self.seen.insert((meta.dev(), meta.ino()))
                {
                    self.add(meta.blocks())?;
                }
            }
            patiently(|| collect_mapped(process, folder, &mut mapped))?;
        }
        if n_sent > MAX_ON_THEIR_WAY {
            return Err(format!(
                "the compile had more than {MAX_ON_THEIR_WAY} open files on their way between its processes"
            ));
        }
        let open: BTreeSet<u64> = self.seen.iter().map(|(_, number)| *number).collect();
        mapped.retain(|number, _| !open.contains(number));
        if mapped.len() > MAX_MAPPED_ONLY {
            return Err(format!(
                "the compile kept more than {MAX_MAPPED_ONLY} removed files of its scratch folder in memory"
            ));
        }
        mapped
            .into_values()
            .try_for_each(|n_bytes| self.add(n_bytes.div_ceil(BLOCK_BYTES)))
    }
}

/// Whether what `/proc` calls a file says that it was removed from the folder.
fn is_removed(target: &Path, folder: &Path) -> bool {
    let is_below = target.starts_with(folder);
    is_below && target.as_os_str().as_encoded_bytes().ends_with(REMOVED)
}

/// Adds removed files of the folder that a process has mapped, by their numbers, with the length of the part up to the end of
/// what is mapped. How long they are the kernel tells root only.
fn collect_mapped(process: i32, folder: &Path, found: &mut BTreeMap<u64, u64>) -> io::Result<()> {
    let Some(thread) = descendants::living_thread(process) else {
        return Ok(());
    };
    let maps = match fs::read(format!("/proc/{thread}/maps")) {
        Err(error) if descendants::is_gone(&error) => return Ok(()),
        maps => maps?,
    };
    for line in maps
        .split(|byte| *byte == b'\n')
        .filter(|line| line.ends_with(REMOVED))
    {
        // Addresses, rights, offset, device, number, and the path behind blanks.
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut text = || fields.next().and_then(|field| str::from_utf8(field).ok());
        let (addresses, _, offset, _, number) = (text(), text(), text(), text(), text());
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let read = || {
            let (from, to) = addresses?.split_once('-')?;
            let length = hexadecimal(to)?.checked_sub(hexadecimal(from)?)?;
            let end = hexadecimal(offset?)?.saturating_add(length);
            Some((number?.parse().ok()?, end))
        };
        let Some((number, end)) = read() else {
            continue;
        };
        let path = fields.next().unwrap_or_default().trim_ascii_start();
        if is_removed(Path::new(OsStr::from_bytes(path)), folder) {
            let most: &mut u64 = found.entry(number).or_default();
            *most = end.max(*most);
        }
    }
    Ok(())
}

/// Looks into a process. A program that nobody may read hides itself, also if it only ends at once: so a refusal counts when
/// it lasts.
fn patiently<T>(mut look: impl FnMut() -> io::Result<T>) -> Result<T, String> {
    look().or_else(|_| {
        std::thread::sleep(PATIENCE);
        look().map_err(|error| format!("a process of the compile hides what it has open: {error}"))
    })
}

/// Why the folder holds too much; `None`: it does not.
fn excess(folder: &Path, max_bytes: u64) -> Option<String> {
    let mut sum = Sum {
        n_bytes: 0,
        n_entries: 0,
        max_bytes,
        seen: BTreeSet::new(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened: File = match openat(CWD, folder, flags, Mode::empty()) {
        Ok(opened) => opened.into(),
        Err(error) => return Some(format!("the scratch folder cannot be read: {error}")),
    };
    let added = sum.add_folder(&opened, 0);
    added.and_then(|()| sum.add_removed(folder)).err()
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
    fn all_goes_and_what_links_lead_to_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (scratch, other) = (dir.path().join("scratch"), dir.path().join("other"));
        fs::create_dir_all(scratch.join("tmp/b/c")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join("kept"), "x").unwrap();
        fs::write(scratch.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&other, scratch.join("tmp/link")).unwrap();
        fs::set_permissions(scratch.join("tmp/b"), fs::Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(&scratch, fs::Permissions::from_mode(0o300)).unwrap();
        empty(&scratch);
        assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
        assert!(other.join("kept").is_file());
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

    /// Input: files that are removed while they are open, folders nested without end (docs/reference/security.md § 4.5). Answer: they count.
    #[test]
    fn what_has_no_name_or_too_long_a_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        let script = "exec 3>large; head -c 2097152 /dev/zero >&3; rm large; echo; exec sleep 600";
        let mut holder = std::process::Command::new("sh")
            .args(["-c", script])
            .current_dir(&real)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let reason = excess(&real, 1 << 20);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert!(reason.unwrap().contains("more than 1 MiB"));
        let nested: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 2).collect();
        fs::create_dir_all(real.join(nested)).unwrap();
        assert!(excess(&real, 1 << 20).unwrap().contains("nested folders"));
    }

    /// Opens a file, writes 2 MiB, maps one page of it, and removes and closes it, as often as it is told to; or sends it into
    /// a socket; or hides itself.
    const KEEPS: &str = r#"
import array, ctypes, os, socket, sys, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
ends = socket.socketpair()
for number in range(int(sys.argv[2])):
    file = os.open(f"file {number}", os.O_RDWR | os.O_CREAT)
    os.write(file, b"x" * (2 << 20))
    os.unlink(f"file {number}")
    if sys.argv[1] == "map":
        assert libc.mmap(None, 4096, 1, 1, file, (2 << 20) - 4096) != 2**64 - 1
    elif sys.argv[1] == "begin":
        assert libc.mmap(None, 4096, 1, 1, file, 0) != 2**64 - 1
    else:
        ends[0].sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [file]))])
    os.close(file)
os.write(1, b"x")
time.sleep(600)
"#;

    /// What is said of a folder in which a process keeps so many files, by this means.
    fn kept(means: &str, n_files: usize) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        let mut holder = std::process::Command::new("python3")
            .args(["-c", KEEPS, means, &n_files.to_string()])
            .current_dir(&real)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let reason = excess(&real, 1 << 20);
        holder.kill().unwrap();
        holder.wait().unwrap();
        reason
    }

    /// Input: files that are removed and closed, and only mapped still, or on their way in a socket (docs/reference/security.md § 4.5). Answer: they count with what is known of them, and may be few.
    #[test]
    fn what_is_removed_and_only_mapped_or_on_its_way_counts() {
        let map = kept("map", 1).unwrap();
        assert!(map.contains("more than 1 MiB"), "{map}");
        assert_eq!(kept("begin", 2), None);
        let many = kept("begin", MAX_MAPPED_ONLY + 1).unwrap();
        assert!(many.contains("removed files"), "{many}");
        assert_eq!(kept("send", 3), None);
        let sent = kept("send", 65).unwrap();
        assert!(sent.contains("on their way"), "{sent}");
    }
}
