//! Digests of folders that packages are installed from.
//!
//! A lock, and what pip reports, name such folders, and a server reads both from a repository. So each folder is read once for
//! an installation, plain files only and a part at a time, all of them together have a limit, and whoever has the
//! installation stopped need not wait.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use steward_compiler::plain_file;

use super::Error;

/// What builds leave behind, which does not count.
const LEFT_BEHIND: &[&str] = &[".git", "build", "dist", "__pycache__", ".env"];
/// Bytes and files of all folders of one installation together.
const MAX_BYTES: u64 = 8 << 30;
const MAX_FILES: usize = 1_000_000;
/// What is in memory of a file.
const PART_BYTES: usize = 64 << 10;

/// The digests that were needed in one installation.
#[derive(Debug, Default)]
pub(super) struct FolderDigests {
    n_bytes: Cell<u64>,
    n_files: Cell<usize>,
    known: RefCell<BTreeMap<PathBuf, String>>,
}

impl FolderDigests {
    /// The digest of all files below a folder, with their names. `is_over`: whether nobody waits for it any more.
    ///
    /// # Errors
    /// Something cannot be read, or is no plain file; all folders together have too much; or it is over.
    pub(super) fn of(&self, folder: &Path, is_over: &dyn Fn() -> bool) -> Result<String, Error> {
        if let Some(known) = self.known.borrow().get(folder) {
            return Ok(known.clone());
        }
        let mut files = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(directory) = open.pop() {
            let failed = || Error::io(format!("cannot read {}", directory.display()));
            for entry in std::fs::read_dir(&directory).map_err(failed())? {
                let entry = entry.map_err(failed())?;
                let name = entry.file_name().to_string_lossy().into_owned();
                if LEFT_BEHIND.contains(&name.as_str()) || name.ends_with(".egg-info") {
                    continue;
                }
                match entry.file_type().map_err(failed())?.is_dir() {
                    true => open.push(entry.path()),
                    false => files.push(entry.path()),
                }
                self.count(1, 0)?;
            }
        }
        files.sort();
        let mut hasher = Sha256::new();
        for file in files {
            let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy();
            steward_compiler::add_part(&mut hasher, name.as_bytes());
            self.add_file(&mut hasher, &file, is_over)?;
        }
        let digest = hex::encode(hasher.finalize());
        let mut known = self.known.borrow_mut();
        known.insert(folder.to_owned(), digest.clone());
        Ok(digest)
    }

    /// Adds the content of a file, as `add_part` would: its length first.
    fn add_file(
        &self,
        hasher: &mut Sha256,
        path: &Path,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(), Error> {
        let failed = || Error::io(format!("cannot read {}", path.display()));
        let mut file = plain_file::open(path).map_err(failed())?;
        let length = file.metadata().map_err(failed())?.len();
        self.count(0, length)?;
        hasher.update(length.to_be_bytes());
        let mut n_left = length;
        let mut part = vec![0; PART_BYTES];
        loop {
            if is_over() {
                return Err(Error::Machine("the installation was stopped".to_owned()));
            }
            let n_read = file.read(&mut part).map_err(failed())?;
            let is_longer = n_read as u64 > n_left;
            if is_longer || (n_read == 0 && n_left > 0) {
                return Err(Error::Machine(format!(
                    "{} was changed while it was read",
                    path.display()
                )));
            }
            if n_read == 0 {
                return Ok(());
            }
            hasher.update(&part[..n_read]);
            n_left -= n_read as u64;
        }
    }

    fn count(&self, n_files: usize, n_bytes: u64) -> Result<(), Error> {
        let n_files = self.n_files.get() + n_files;
        let n_bytes = self.n_bytes.get().saturating_add(n_bytes);
        if n_files > MAX_FILES || n_bytes > MAX_BYTES {
            return Err(Error::Project(format!(
                "the folders that packages are installed from have more than {MAX_FILES} files or {} GiB",
                MAX_BYTES >> 30
            )));
        }
        self.n_files.set(n_files);
        self.n_bytes.set(n_bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(folder: &Path) -> Result<String, Error> {
        FolderDigests::default().of(folder, &|| false)
    }

    #[test]
    fn a_folder_has_the_digest_of_its_files_without_what_builds_leave() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a/b", "text");
        write("setup.cfg", "");
        let digest = of(dir.path()).unwrap();
        let mut hasher = Sha256::new();
        for part in ["a/b", "text", "setup.cfg", ""] {
            steward_compiler::add_part(&mut hasher, part);
        }
        assert_eq!(digest, hex::encode(hasher.finalize()));
        write("build/x", "left");
        write("a/x.egg-info/PKG-INFO", "left");
        assert_eq!(of(dir.path()).unwrap(), digest);
        write("a/b", "more");
        assert_ne!(of(dir.path()).unwrap(), digest);
    }

    /// Input: a folder of a lock that holds a device or a pipe, one that is named thousands of times, and a stop of the server meanwhile
    /// (docs/reference/security.md § 4.2). Answer: an error at once; it is read once; the installation ends.
    #[test]
    fn a_folder_of_a_repository_is_read_once_plain_files_only_until_it_is_over() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a"), "text").unwrap();
        let digests = FolderDigests::default();
        let first = digests.of(dir.path(), &|| false).unwrap();
        // It would say so if it read anything.
        for _ in 0..1000 {
            assert_eq!(digests.of(dir.path(), &|| true).unwrap(), first);
        }
        let over = FolderDigests::default().of(dir.path(), &|| true);
        assert!(over.unwrap_err().to_string().contains("stopped"));
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("endless")).unwrap();
        assert!(of(dir.path()).is_err());
        let n_bytes = Cell::new(MAX_BYTES);
        let full = FolderDigests {
            n_bytes,
            ..FolderDigests::default()
        };
        std::fs::remove_file(dir.path().join("endless")).unwrap();
        let error = full.of(dir.path(), &|| false).unwrap_err().to_string();
        assert!(error.contains("8 GiB"), "{error}");
    }
}
