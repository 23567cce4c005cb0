//! A copy of a project that builds may write into: its checkout belongs to all commits of that content.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Copies a tree; links stay links, and what is neither file, folder nor link is left out.
pub(super) fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&source)?, target)?;
        } else if kind.is_file() {
            fs::copy(&source, target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_copied_as_links() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::write(from.join("a/file"), "x").unwrap();
        symlink("/etc/passwd", from.join("a/link")).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/file")).unwrap(), "x");
        assert_eq!(
            fs::read_link(to.join("a/link")).unwrap(),
            Path::new("/etc/passwd")
        );
    }
}
