//! Log files of what handlers say, for those who ship or follow logs. Source: docs/reference/deployment.md § 5.8.
//!
//! There is one file for each environment, with one writer, which appends many lines at once. It is opened anew each time:
//! who moves it away, as logrotate does, need not tell us.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::domain::EnvironmentId;

/// Where log files are, and how large all of them together become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionLogs {
    pub folder: PathBuf,
    /// A file of this size gets the ending `.1`, and a new one is begun.
    pub file_bytes: u64,
    /// Older files that are kept, as `.1` (the newest) and so on.
    pub n_older: usize,
}

impl ActionLogs {
    /// Adds whole lines to the file of an environment.
    ///
    /// # Errors
    /// The disk is full, or the folder is not there or not ours.
    pub fn append(&self, environment: EnvironmentId, lines: &str) -> io::Result<()> {
        let name = format!("resource-actions-{environment}.log");
        let path = self.folder.join(name);
        let mut file = open(&path)?;
        let size = file.metadata()?.len();
        if size > 0 && size.saturating_add(lines.len() as u64) > self.file_bytes {
            self.rotate(&path)?;
            file = open(&path)?;
        }
        file.write_all(lines.as_bytes())
    }

    /// Gives each file the number after its own; the last one is overwritten.
    fn rotate(&self, path: &Path) -> io::Result<()> {
        if self.n_older == 0 {
            return fs::remove_file(path);
        }
        let older = |number: usize| PathBuf::from(format!("{}.{number}", path.display()));
        for number in (1..self.n_older).rev() {
            match fs::rename(older(number), older(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(path, older(1))
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // For the server's user only: what handlers say is as confidential as what they do.
    options.append(true).create(true).mode(0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_makes_room_for_the_next_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let logs = ActionLogs {
            folder: folder.path().to_owned(),
            file_bytes: 10,
            n_older: 2,
        };
        let environment = EnvironmentId::named("p", "e");
        for line in [
            "one\n",
            "two\n",
            "three and more\n",
            "four\n",
            "five\n",
            "six\n",
            "seven\n",
        ] {
            logs.append(environment, line).unwrap();
        }
        let path = folder
            .path()
            .join(format!("resource-actions-{environment}.log"));
        let read =
            |ending: &str| fs::read_to_string(format!("{}{ending}", path.display())).unwrap();
        assert_eq!(read(""), "six\nseven\n");
        assert_eq!(read(".1"), "four\nfive\n");
        assert_eq!(read(".2"), "three and more\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
        // Somebody else moves it away.
        fs::rename(&path, folder.path().join("taken")).unwrap();
        logs.append(environment, "eight\n").unwrap();
        assert_eq!(read(""), "eight\n");
    }
}
