//! The file store: contents that modules upload for their handlers, each in a file of its SHA-1's name.
//!
//! Written by compile workers, read by the Python hosts of executors (`python/inmanta/protocol/files.py`), which check a
//! content against its name. A content that is there already is not written again.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Of one content.
const MAX_BYTES: usize = 64 << 20;

pub(super) fn keep(directory: &Path, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    for (name, content) in files {
        let is_digest = name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_digest {
            return Err(io::Error::other(format!("{name} is no SHA-1")));
        }
        if content.len() > MAX_BYTES {
            let length = content.len();
            return Err(io::Error::other(format!(
                "a file of {length} bytes is too large, the limit is {MAX_BYTES}"
            )));
        }
        let directory = directory.join(&name[..2]);
        let path = directory.join(name);
        // Its name says its content, so one of the same length is the same, or was cut off and has another length.
        if fs::metadata(&path).is_ok_and(|found| found.len() == content.len() as u64) {
            continue;
        }
        fs::create_dir_all(&directory)?;
        let fresh = directory.join(format!(".{name}.{}", std::process::id()));
        fs::write(&fresh, content)?;
        fs::rename(fresh, path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::MetadataExt;

    use super::{MAX_BYTES, keep};

    const NAME: &str = "040f06fd774092478d450774f5ba30c5da78acc8";

    #[test]
    fn a_content_is_written_once_and_a_broken_one_again() {
        let dir = tempfile::tempdir().unwrap();
        let files = BTreeMap::from([(NAME.to_owned(), b"content".to_vec())]);
        let path = dir.path().join("04").join(NAME);
        keep(dir.path(), &files).unwrap();
        let first = std::fs::metadata(&path).unwrap().ino();
        keep(dir.path(), &files).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), first);
        std::fs::write(&path, "con").unwrap();
        keep(dir.path(), &files).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
    }

    #[test]
    fn names_that_are_no_digests_and_contents_that_are_too_large_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let out = BTreeMap::from([(format!("../{}", &NAME[3..]), Vec::new())]);
        assert!(keep(dir.path(), &out).is_err());
        let large = BTreeMap::from([(NAME.to_owned(), vec![0; MAX_BYTES + 1])]);
        assert!(keep(dir.path(), &large).is_err());
    }
}
