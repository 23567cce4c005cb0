//! The file store: contents by their SHA-1, each in a file of that name below the first two digits
//! of it (`files/04/040f06fd…`).
//!
//! What is in it: what getters and handlers upload (`exporter.upload_file`), what clients of the
//! API upload, and the Python code of handlers (`deploy::VersionCode`). Who writes: compile
//! workers, the server, and the Python hosts of executors (`python/inmanta/protocol/files.py`), all
//! at the same time, without asking one another. Three rules make that safe:
//!
//! 1. *A name says its content.* It is checked whenever a content is written or read, so nobody
//!    needs to trust another writer, and two writers of one name write the same. A file that was
//!    cut off is noticed by its length when it is written again, by its digest when it is read.
//! 2. *A file has its name only when it is whole.* It is written under another name beside it
//!    (`.new-…`) and renamed, which is one step for everybody else.
//! 3. *The time of modification is the time of the last use.* Who would write a content that is
//!    there touches it instead.
//!
//! # Removing what nobody names
//!
//! A content is removed when no stored version names it, and nobody has written it for a while: a
//! compile uploads contents before its version is stored. [`Files::gc`] has to be sure that
//! nobody touches the file between its look at the time and the removal. So it takes the file away
//! first, by renaming it, and looks then: a writer who comes now finds nothing and writes it anew;
//! one who came before has set the time, so the file is put back. Whatever happens in between, a
//! writer that was told "kept" has its content in the store.

mod age;
mod answers;
mod disk;
mod draft;
mod remove;

pub use age::{entries, folders, is_older, touch};
pub use answers::KeptAnswers;
pub use disk::{WatchedDisk, check_room};
pub use draft::Draft;
pub use remove::{ScratchFolder, empty_folder, remove_tree};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha1::{Digest, Sha1};

/// The largest content, in bytes.
pub const MAX_BYTES: usize = 64 << 20;

/// The file store of a data directory.
#[derive(Debug, Clone)]
pub struct Files {
    directory: PathBuf,
}

/// The name of a content.
pub fn name_of(content: &[u8]) -> String {
    hex::encode(Sha1::digest(content))
}

/// Makes a folder, with those above it, that only its owner may look into; whatever the umask is.
///
/// # Errors
/// The disk refuses.
pub fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
}

/// Whether a text may be the name of a content.
pub fn is_name(text: &str) -> bool {
    text.len() == 40
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl Files {
    /// The store in this folder, which need not exist yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Keeps contents under their names.
    ///
    /// # Errors
    /// A name is not that of its content, a content is too large, or the disk refuses.
    pub fn keep_all(&self, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
        for (name, content) in files {
            if name_of(content) != *name {
                return Err(io::Error::other(format!(
                    "{name} is not the SHA-1 of its content"
                )));
            }
            self.keep(name, content)?;
        }
        Ok(())
    }

    /// Keeps a content, and gives its name.
    ///
    /// # Errors
    /// It is too large, or the disk refuses.
    pub fn put(&self, content: &[u8]) -> io::Result<String> {
        let name = name_of(content);
        self.keep(&name, content)?;
        Ok(name)
    }

    /// Keeps a content under its name, or touches it if it is there.
    fn keep(&self, name: &str, content: &[u8]) -> io::Result<()> {
        if content.len() > MAX_BYTES {
            let length = content.len();
            return Err(io::Error::other(format!(
                "a file of {length} bytes is too large, the limit is {MAX_BYTES}"
            )));
        }
        let path = self.path(name);
        // Its name says its content, so one of the same length is the same, or was cut off and has another length. It is
        // as good as new for `collect`, unless that has just taken it away.
        let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64);
        if is_there && touch(&path).is_ok() {
            return Ok(());
        }
        let mut fresh = self.fresh(name, content.len() as u64)?;
        fresh.write_all(content)?;
        fresh.persist(path)?;
        Ok(())
    }

    /// An empty file beside the one of a name, for its content before it is whole, of `n_bytes`.
    fn fresh(&self, name: &str, n_bytes: u64) -> io::Result<tempfile::NamedTempFile> {
        let path = self.path(name);
        let directory = path.parent().unwrap_or(&self.directory);
        make_private(directory)?;
        check_room(directory, n_bytes)?;
        // Contents may have secrets in them. For writing only: whoever is in the sandbox of a compile may leave contents
        // here, but not read any.
        let make = |path: &Path| {
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(path)
        };
        tempfile::Builder::new()
            .prefix(".new-")
            .make_in(directory, make)
    }

    /// The content of a name; `None`: there is none, or it is not what its name says.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let content = fs::read(is_name(name).then(|| self.path(name))?).ok()?;
        (name_of(&content) == name).then_some(content)
    }

    /// Whether there is one; its content is not looked at.
    pub fn has(&self, name: &str) -> bool {
        is_name(name) && self.path(name).is_file()
    }

    /// As [`Files::has`]; it counts as just written, so that it stays for another while.
    pub fn renew_if_there(&self, name: &str) -> bool {
        self.has(name) && touch(&self.path(name)).is_ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(&name[..2]).join(name)
    }

    /// The names of contents that nobody has written for `age`.
    pub fn older_than(&self, age: Duration) -> BTreeSet<String> {
        let folders = entries(&self.directory);
        let files = folders.iter().flat_map(|folder| entries(folder));
        let old = files.filter(|path| is_older(path, age));
        let names = old.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        names.filter(|name| is_name(name)).collect()
    }

    /// Counts contents as just written, so that they stay for another while.
    pub fn renew<'a>(&self, names: impl Iterator<Item = &'a String>) {
        for name in names {
            let _ = touch(&self.path(name));
        }
    }

    /// Removes these contents, but those that somebody wrote meanwhile, and what interrupted writers left; gives how many.
    pub fn gc(&self, names: &BTreeSet<String>, age: Duration) -> usize {
        let mut n_removed = 0;
        for name in names {
            let path = self.path(name);
            let taken = path.with_file_name(format!(".{name}.collected"));
            // Looked at again only when nobody can find it any more: who comes now writes it anew.
            if fs::rename(&path, &taken).is_err() {
                continue;
            }
            if is_older(&taken, age) {
                n_removed += usize::from(fs::remove_file(taken).is_ok());
            } else {
                let _ = fs::rename(taken, path);
            }
        }
        for path in entries(&self.directory)
            .iter()
            .flat_map(|folder| entries(folder))
        {
            let name = path.file_name().and_then(|name| name.to_str());
            if !name.is_some_and(is_name) && is_older(&path, age) {
                let _ = fs::remove_file(path);
            }
        }
        n_removed
    }
}

/// Takes the names that occur anywhere in a text out of a set.
pub fn drop_named(names: &mut BTreeSet<String>, text: &str) {
    let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    for word in text.split(|c| !is_hex(c)).filter(|word| word.len() == 40) {
        names.remove(word);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

    use super::*;

    const NAME: &str = "040f06fd774092478d450774f5ba30c5da78acc8";

    fn files() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().to_owned());
        (dir, files)
    }

    #[test]
    fn a_content_is_written_once_and_a_broken_one_again() {
        let (_dir, files) = files();
        assert_eq!(files.put(b"content").unwrap(), NAME);
        let path = files.path(NAME);
        let first = fs::metadata(&path).unwrap().ino();
        files.put(b"content").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        fs::write(&path, "con").unwrap();
        assert!(files.get(NAME).is_none());
        files.put(b"content").unwrap();
        assert_eq!(files.get(NAME).unwrap(), b"content");
    }

    #[test]
    fn names_that_are_not_of_their_content_and_contents_that_are_too_large_are_refused() {
        let (_dir, files) = files();
        for name in [
            format!("../{}", &NAME[3..]),
            NAME.replace('0', "1"),
            NAME.to_uppercase(),
        ] {
            assert!(files.get(&name).is_none());
            let out = BTreeMap::from([(name, b"content".to_vec())]);
            assert!(files.keep_all(&out).is_err());
        }
        assert!(files.put(&vec![0; MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn old_contents_go_and_one_that_is_written_again_stays() {
        let (dir, files) = files();
        let day = Duration::from_secs(24 * 3600);
        let (one, two, young) = (
            files.put(b"one").unwrap(),
            files.put(b"two").unwrap(),
            files.put(b"young").unwrap(),
        );
        let left = dir.path().join("ab/.abc.1");
        fs::create_dir_all(left.parent().unwrap()).unwrap();
        fs::write(&left, "").unwrap();
        let then = Timespec {
            tv_sec: 1_000_000,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: then,
            last_modification: then,
        };
        for path in [&files.path(&one), &files.path(&two), &left] {
            utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
        }
        let old = files.older_than(day);
        assert_eq!(old, BTreeSet::from([one.clone(), two.clone()]));
        files.put(b"two").unwrap();
        assert_eq!(files.gc(&old, day), 1);
        assert!(!files.has(&one) && files.has(&two) && files.has(&young) && !left.exists());
    }

    #[test]
    fn names_are_found_in_any_text() {
        let mut names = BTreeSet::from([NAME.to_owned(), NAME.replace('0', "1")]);
        drop_named(
            &mut names,
            &format!("{{\"hash\": \"sha1:{NAME}\", \"x\": \"{NAME}0\"}}"),
        );
        assert_eq!(names, BTreeSet::from([NAME.replace('0', "1")]));
    }
}
