//! Files below given directories, and no others.
//!
//! A path from a repository may have `..` and lead over links; to compare texts is not enough, and to resolve first and open
//! then leaves a gap between the two. The kernel resolves such paths itself, below a directory that is open
//! (`openat2` with `RESOLVE_BENEATH`). Where it cannot (before Linux 5.6), the resolved path of what was opened is compared.

use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// To be read. What is a pipe or a device does not keep us waiting.
    Content,
    /// Its names are to be listed.
    Folder,
    /// It is to be looked at, whatever it is and leads to.
    Target,
    /// It is to be looked at, without following a link at the end of its path.
    Entry,
}

/// Directories below which files are found.
pub(super) struct Roots {
    /// The folders that paths may begin with, each with an open handle.
    open: Vec<(PathBuf, File)>,
}

impl Roots {
    /// Those of `directories` that are there.
    pub(super) fn new(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        let opened = directories
            .into_iter()
            .filter_map(|directory| Some((directory.clone(), File::open(directory).ok()?)));
        Self {
            open: opened.collect(),
        }
    }

    /// Opens an absolute path that lies below a root.
    pub(super) fn open(&self, path: &Path, want: Want) -> io::Result<File> {
        let outside = || {
            let message = format!("{} is not below the project", path.display());
            io::Error::new(io::ErrorKind::PermissionDenied, message)
        };
        let found = self
            .open
            .iter()
            .find_map(|(name, root)| Some((root, path.strip_prefix(name).ok()?)));
        let (root, below) = found.ok_or_else(outside)?;
        let below = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        sys::open_beneath(root, below, want).map_err(|error| {
            if sys::is_escape(&error) {
                outside()
            } else {
                error
            }
        })
    }

    pub(super) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.open(path, Want::Target)?.metadata()
    }

    /// Whether a path leads out of the roots. One that leads nowhere does not.
    pub(super) fn is_outside(&self, path: &Path) -> bool {
        let opened = self.open(path, Want::Target);
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// Opens any file.
pub(super) fn open(path: &Path, want: Want) -> io::Result<File> {
    sys::open(path, want)
}

/// Names in a directory that is open, which is at `path`, with what they are where that is known at once.
pub(super) fn entries(folder: &File, path: &Path) -> io::Result<Vec<(String, Option<FileType>)>> {
    let path = sys::path_of(folder).unwrap_or(path.to_owned());
    let entries = fs::read_dir(path)?.filter_map(Result::ok);
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some((name, entry.file_type().ok()))
    });
    Ok(named.collect())
}

#[cfg(target_os = "linux")]
mod sys {
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    use rustix::io::Errno;

    use super::{File, Path, PathBuf, Want, fs, io};

    fn flags(want: Want) -> OFlags {
        let flags = match want {
            Want::Content => OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
            Want::Folder => OFlags::RDONLY | OFlags::DIRECTORY,
            Want::Target => OFlags::PATH,
            Want::Entry => OFlags::PATH | OFlags::NOFOLLOW,
        };
        flags | OFlags::CLOEXEC
    }

    pub(super) fn open(path: &Path, want: Want) -> io::Result<File> {
        Ok(openat(CWD, path, flags(want), Mode::empty())?.into())
    }

    pub(super) fn open_beneath(root: &File, below: &Path, want: Want) -> io::Result<File> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        match openat2(root, below, flags(want), Mode::empty(), resolve) {
            Ok(file) => Ok(file.into()),
            // The kernel does not have it, or a filter of system calls keeps it from us.
            Err(Errno::NOSYS | Errno::PERM) => open_and_compare(root, below, want),
            Err(error) => Err(error.into()),
        }
    }

    fn open_and_compare(root: &File, below: &Path, want: Want) -> io::Result<File> {
        let file: File = openat(root, below, flags(want), Mode::empty())?.into();
        let places = (path_of(&file), path_of(root));
        let real = |place: Option<PathBuf>| place.and_then(|place| fs::read_link(place).ok());
        match (real(places.0), real(places.1)) {
            (Some(place), Some(root)) if place.starts_with(&root) => Ok(file),
            _ => Err(Errno::XDEV.into()),
        }
    }

    /// Whether a path was refused because it leads out.
    pub(super) fn is_escape(error: &io::Error) -> bool {
        let number = Errno::from_io_error(error);
        matches!(number, Some(Errno::XDEV | Errno::LOOP))
    }

    /// A name for what is open.
    pub(super) fn path_of(file: &File) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
    }
}

#[cfg(not(target_os = "linux"))]
mod sys {
    use super::{File, Path, PathBuf, Want, io};

    pub(super) fn open(path: &Path, _: Want) -> io::Result<File> {
        File::open(path)
    }

    /// There are servers on Linux only.
    pub(super) fn open_beneath(_: &File, _: &Path, _: Want) -> io::Result<File> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn is_escape(_: &io::Error) -> bool {
        false
    }

    pub(super) fn path_of(_: &File) -> Option<PathBuf> {
        None
    }
}
