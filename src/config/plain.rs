//! Small plain files. A FIFO would block whoever opens it, and a device such as `/dev/zero` never ends.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reads a text of at most `max_bytes`.
///
/// # Errors
/// It is no plain file, is longer, is no UTF-8, or cannot be read.
pub(super) fn read(path: &Path, max_bytes: u64) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.take(max_bytes + 1).read_to_string(&mut text)?;
    if text.len() as u64 > max_bytes {
        return Err(io::Error::other(format!(
            "the file is larger than {} KiB",
            max_bytes >> 10
        )));
    }
    Ok(text)
}

/// Opens a plain file for reading, and at once: what is looked at is what was opened, whatever its name leads to by then.
///
/// # Errors
/// It is something else, or may not be read.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let refuse = || Err(io::Error::other("it is no plain file"));
    // Opening some devices does something already.
    if !fs::metadata(path)?.is_file() {
        return refuse();
    }
    let nonblocking = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking.bits().cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        refuse()
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    /// Input: a FIFO, `/dev/zero`, a folder or a file of 2 GiB where a text is expected (issue 16.2). Answer: an error at once.
    #[test]
    fn what_is_no_small_plain_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let made = std::process::Command::new("mkfifo")
            .arg(at("fifo"))
            .status();
        assert!(made.unwrap().success());
        std::fs::File::create(at("large"))
            .unwrap()
            .set_len(2 << 30)
            .unwrap();
        std::fs::write(at("good"), "text").unwrap();
        std::os::unix::fs::symlink(at("good"), at("link")).unwrap();
        for (path, expected) in [
            (at("fifo").as_path(), "plain file"),
            (Path::new("/dev/zero"), "plain file"),
            (dir.path(), "plain file"),
            (&at("large"), "larger than 64 KiB"),
            (&at("missing"), "No such file"),
        ] {
            let error = read(path, 64 << 10).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        for name in ["good", "link"] {
            assert_eq!(read(&at(name), 64 << 10).unwrap(), "text");
        }
    }
}
