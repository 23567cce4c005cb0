//! Contents that are too large for memory: written as they are read, and read as they are sent.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};

use sha1::{Digest, Sha1};

use super::{Files, MAX_BYTES, check_room, is_name, touch};

/// How much is in memory of a content.
const PART_BYTES: usize = 64 << 10;

/// A content that is written and not in the store yet. It is gone when dropped.
#[derive(Debug)]
pub struct Draft {
    file: tempfile::NamedTempFile,
    /// The name of the content, as its digest says.
    pub name: String,
    length: u64,
}

impl Files {
    /// Writes down what comes, which is said to have this name. Ask [`Draft::name`] for what it has.
    ///
    /// # Errors
    /// `InvalidInput`: that is no name. `FileTooLarge`: it is more than [`MAX_BYTES`]. `StorageFull`: so little is left on the disk
    /// that it is kept for the server itself. Else what reading or the disk said.
    pub fn draft(&self, name: &str, content: &mut dyn Read) -> io::Result<Draft> {
        if !is_name(name) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut file = self.fresh(name, 0)?;
        let mut part = vec![0; PART_BYTES];
        let (mut digest, mut length) = (Sha1::new(), 0);
        loop {
            let n_read = match content.read(&mut part) {
                Ok(0) => break,
                Ok(n_read) => n_read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            length += n_read as u64;
            if length > MAX_BYTES as u64 {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            check_room(&self.directory, n_read as u64)?;
            digest.update(&part[..n_read]);
            file.write_all(&part[..n_read])?;
        }
        Ok(Draft {
            file,
            name: hex::encode(digest.finalize()),
            length,
        })
    }

    /// Puts a draft into the store, by the name that it has.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep_draft(&self, draft: Draft) -> io::Result<()> {
        let path = self.path(&draft.name);
        let is_there = fs::metadata(&path).is_ok_and(|found| found.len() == draft.length);
        if is_there && touch(&path).is_ok() {
            return Ok(());
        }
        draft.file.persist(path)?;
        Ok(())
    }

    /// A content to be read, from its begin, and its length in bytes. `None`: there is none, or it is not what its name says.
    pub fn open(&self, name: &str) -> Option<(File, u64)> {
        let mut file = File::open(is_name(name).then(|| self.path(name))?).ok()?;
        let mut part = vec![0; PART_BYTES];
        let (mut digest, mut length) = (Sha1::new(), 0);
        loop {
            match file.read(&mut part).ok()? {
                0 => break,
                n_read => {
                    digest.update(&part[..n_read]);
                    length += n_read as u64;
                }
            }
        }
        if hex::encode(digest.finalize()) != name {
            return None;
        }
        file.rewind().ok()?;
        Some((file, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_draft_is_kept_under_the_name_that_it_has_and_nobody_else_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path().to_owned());
        let content = vec![7; 200_000];
        let name = super::super::name_of(&content);
        let draft = files.draft(&name, &mut content.as_slice()).unwrap();
        assert_eq!(draft.name, name);
        assert!(!files.has(&name));
        files.keep_draft(draft).unwrap();
        assert_eq!(files.get(&name).unwrap(), content);
        let (mut file, length) = files.open(&name).unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).unwrap();
        assert_eq!((read, length), (content, 200_000));
        let mode = fs::metadata(files.path(&name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(files.path(&name), "other").unwrap();
        assert!(files.open(&name).is_none());
        let zeros = "0".repeat(40);
        let draft = files.draft(&zeros, &mut &b"content"[..]).unwrap();
        assert_ne!(draft.name, zeros);
        drop(draft);
        assert_eq!(fs::read_dir(dir.path().join("00")).unwrap().count(), 0);
        assert!(files.draft("../x", &mut &b""[..]).is_err());
        let mut endless = io::repeat(1);
        let error = files.draft(&zeros, &mut endless).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
