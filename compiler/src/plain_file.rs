//! Files that somebody else named: opened without waiting, and read only as far as a limit.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read, Result};
use std::path::Path;

/// Opens a plain file. A pipe, a device, a socket or a directory is an error at once: opening does not wait for a writer.
///
/// # Errors
/// There is no such file, or it is no plain file.
pub fn open(path: &Path) -> Result<File> {
    // Opening some devices does something already. What was opened is looked at again: the name may lead elsewhere by then.
    if !path.metadata()?.is_file() {
        return Err(no_plain_file());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    plain(&file)?;
    Ok(file)
}

/// The text of a plain file.
///
/// # Errors
/// See [`open`]; it has more bytes, or is not UTF-8.
pub fn read_text(path: &Path, max_bytes: u64) -> Result<String> {
    read_text_of(open(path)?, max_bytes)
}

/// The text of a file that is open already, from its start.
///
/// # Errors
/// It is no plain file, has more bytes, or is not UTF-8.
pub fn read_text_of(file: File, max_bytes: u64) -> Result<String> {
    plain(&file)?;
    let too_large = || Error::other(format!("it is larger than {max_bytes} bytes"));
    if file.metadata()?.len() > max_bytes {
        return Err(too_large());
    }
    let mut text = String::new();
    // It may grow while it is read, and files of the kernel have no length.
    let n_read = file.take(max_bytes + 1).read_to_string(&mut text)?;
    if n_read as u64 > max_bytes {
        return Err(too_large());
    }
    Ok(text)
}

fn plain(file: &File) -> Result<()> {
    match file.metadata()?.is_file() {
        true => Ok(()),
        false => Err(no_plain_file()),
    }
}

fn no_plain_file() -> Error {
    Error::other("it is no plain file")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Input: a FIFO, a device, a directory where a file is expected (docs/reference/security.md § 3.22). Answer: an error at once.
    #[test]
    fn what_is_no_plain_file_is_an_error_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for path in [fifo.as_path(), Path::new("/dev/zero"), dir.path()] {
            let error = read_text(path, 100).unwrap_err().to_string();
            assert!(error.contains("no plain file"), "{path:?}: {error}");
        }
        let file = dir.path().join("file");
        std::fs::write(&file, "a".repeat(101)).unwrap();
        let error = read_text(&file, 100).unwrap_err().to_string();
        assert!(error.contains("larger than 100 bytes"), "{error}");
        assert_eq!(read_text(&file, 101).unwrap().len(), 101);
        // Its length is said to be 0.
        assert!(read_text(Path::new("/proc/self/maps"), 10).is_err());
        std::fs::write(&file, b"\xff").unwrap();
        let error = read_text(&file, 100).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    }
}
