//! Small plain files. A FIFO would block whoever opens it, and a device such as `/dev/zero` never ends.

pub(super) use steward_compiler::plain_file::read_text as read;

#[cfg(test)]
mod tests {
    use super::read;
    use std::path::Path;

    /// Input: a FIFO, `/dev/zero`, a folder or a file of 2 GiB where a text is expected (docs/reference/security.md § 4.2). Answer: an error at once.
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
            (&at("large"), "larger than 65536 bytes"),
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
