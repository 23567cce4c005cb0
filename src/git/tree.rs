//! Reads the whole tree of a commit from the object store and checks it, before anything is written.
//!
//! What comes out is safe to write below a folder: plain names, links that stay inside, sizes
//! within the limits. The content of files is not read here.

use std::collections::{BTreeMap, HashSet};

use git2::{ObjectType, Oid};

use super::checkout::CheckoutLimits;
use super::error::Error;
use super::names::{Node, check_link, check_name};
use crate::domain::printable;

const MODE_TREE: i32 = 0o040000;
const MODE_FILE: i32 = 0o100644;
const MODE_FILE_GROUP_WRITABLE: i32 = 0o100664;
const MODE_EXECUTABLE: i32 = 0o100755;
const MODE_LINK: i32 = 0o120000;
const MODE_SUBMODULE: i32 = 0o160000;

/// The longest path Linux takes.
const LINK_MAX_BYTES: u64 = 4096;
/// All paths and targets of links together: a small tree that is used over and over could otherwise
/// take much memory, since each place in it has a path of its own.
const TEXT_MAX_BYTES: usize = 64 << 20;
/// One folder as git stores it; this is more than a million entries.
const FOLDER_MAX_BYTES: usize = 64 << 20;
/// How many steps all links together may take; each is a look-up.
const LINK_STEPS: usize = 2_000_000;

pub(super) struct Entry {
    pub(super) path: String,
    pub(super) kind: Kind,
}

#[derive(PartialEq, Eq)]
pub(super) enum Kind {
    Folder,
    File { blob: Oid, executable: bool },
    Link { target: String },
    Submodule,
}

/// All entries of the tree `root`, folders before what is in them.
pub(super) fn scan(
    store: &git2::Repository,
    root: Oid,
    limits: &CheckoutLimits,
) -> Result<Vec<Entry>, Error> {
    let odb = store.odb().map_err(Error::git("open the object store"))?;
    let mut scan = Scan {
        store,
        odb,
        limits,
        entries: Vec::new(),
        content_bytes: 0,
        text_bytes: 0,
    };
    let mut pending = vec![(String::new(), root, 0)];
    while let Some((path, id, depth)) = pending.pop() {
        for (folder, id) in scan.folder(&path, id)? {
            if depth >= limits.depth {
                return exceeds(&folder, format!("{} nested folders", limits.depth));
            }
            pending.push((folder, id, depth + 1));
        }
    }
    check_links(&scan.entries)?;
    Ok(scan.entries)
}

/// One walk over a tree, counting towards the limits.
struct Scan<'a> {
    store: &'a git2::Repository,
    odb: git2::Odb<'a>,
    limits: &'a CheckoutLimits,
    entries: Vec<Entry>,
    content_bytes: u64,
    text_bytes: usize,
}

impl Scan<'_> {
    /// Adds what is directly in the folder at `path`, and returns the folders in it.
    fn folder(&mut self, path: &str, id: Oid) -> Result<Vec<(String, Oid)>, Error> {
        let failed = || Error::git("read a tree of the commit");
        let (size, _) = self.odb.read_header(id).map_err(failed())?;
        if size > FOLDER_MAX_BYTES {
            return exceeds(
                path,
                format!("{} MiB for one folder", FOLDER_MAX_BYTES >> 20),
            );
        }
        let tree = self.store.find_tree(id).map_err(failed())?;
        let mut folders = Vec::new();
        let mut paths = HashSet::new();
        for entry in tree.iter() {
            let path = check_path(path, entry.name_bytes(), self.limits)?;
            if !paths.insert(path.clone()) {
                let path = printable(&path, 300);
                let reason = "is there twice".to_owned();
                return Err(Error::UnsafePath { path, reason });
            }
            if self.entries.len() >= self.limits.entries {
                return exceeds(&path, format!("{} entries", self.limits.entries));
            }
            let kind = match entry.filemode_raw() {
                MODE_TREE => {
                    folders.push((path.clone(), entry.id()));
                    Kind::Folder
                }
                MODE_SUBMODULE => Kind::Submodule,
                MODE_LINK => self.link(&path, entry.id())?,
                mode @ (MODE_FILE | MODE_FILE_GROUP_WRITABLE | MODE_EXECUTABLE) => {
                    self.count_content(&path, entry.id())?;
                    Kind::File {
                        blob: entry.id(),
                        executable: mode == MODE_EXECUTABLE,
                    }
                }
                mode => {
                    let reason = format!("has the unknown mode {mode:o}");
                    return Err(Error::UnsafePath { path, reason });
                }
            };
            self.count_text(&path, path.len())?;
            self.entries.push(Entry { path, kind });
        }
        Ok(folders)
    }

    fn link(&mut self, path: &str, id: Oid) -> Result<Kind, Error> {
        let unsafe_link = |target: &[u8], reason: &'static str| Error::UnsafeSymlink {
            path: path.to_owned(),
            target: printable(&String::from_utf8_lossy(target), 300),
            reason: reason.into(),
        };
        if self.count_content(path, id)? > LINK_MAX_BYTES {
            return Err(unsafe_link(b"...", "is too long"));
        }
        let blob = self
            .store
            .find_blob(id)
            .map_err(Error::git("read a symlink of the commit"))?;
        let target = std::str::from_utf8(blob.content());
        let target = target
            .map_err(|_| unsafe_link(blob.content(), "is not UTF-8"))?
            .to_owned();
        self.count_text(path, target.len())?;
        Ok(Kind::Link { target })
    }

    /// Counts the content of the file at `path`, and returns its size.
    fn count_content(&mut self, path: &str, id: Oid) -> Result<u64, Error> {
        let header = self
            .odb
            .read_header(id)
            .map_err(Error::git("read a file of the commit"))?;
        let (size, ObjectType::Blob) = header else {
            let reason = "is not a file inside".to_owned();
            return Err(Error::UnsafePath {
                path: path.to_owned(),
                reason,
            });
        };
        let (size, limits) = (size as u64, self.limits);
        self.content_bytes += size;
        if size > limits.file_bytes {
            return exceeds(
                path,
                format!("{} MiB for one file", limits.file_bytes >> 20),
            );
        }
        if self.content_bytes > limits.total_bytes {
            return exceeds(path, format!("{} MiB in all", limits.total_bytes >> 20));
        }
        Ok(size)
    }

    fn count_text(&mut self, path: &str, n_bytes: usize) -> Result<(), Error> {
        self.text_bytes += n_bytes;
        if self.text_bytes > TEXT_MAX_BYTES {
            return exceeds(path, format!("{} MiB for all paths", TEXT_MAX_BYTES >> 20));
        }
        Ok(())
    }
}

fn exceeds<T>(path: &str, limit: String) -> Result<T, Error> {
    Err(Error::TreeTooLarge {
        path: printable(path, 300),
        limit,
    })
}

fn check_path(folder: &str, name: &[u8], limits: &CheckoutLimits) -> Result<String, Error> {
    let join = |name: &str| match folder {
        "" => name.to_owned(),
        _ => format!("{folder}/{name}"),
    };
    let name = check_name(name).map_err(|reason| Error::UnsafePath {
        path: printable(&join(&with_escapes(name)), 300),
        reason: reason.to_owned(),
    })?;
    let path = join(name);
    if path.len() > limits.path_bytes {
        return exceeds(&path, format!("{} bytes for one path", limits.path_bytes));
    }
    Ok(path)
}

/// A name for people: what is no text in it, byte by byte as shells and git print it.
fn with_escapes(name: &[u8]) -> String {
    let chunks = name.utf8_chunks();
    let shown = chunks.map(|chunk| format!("{}{}", chunk.valid(), chunk.invalid().escape_ascii()));
    shown.collect()
}

fn check_links(entries: &[Entry]) -> Result<(), Error> {
    if !entries
        .iter()
        .any(|entry| matches!(entry.kind, Kind::Link { .. }))
    {
        return Ok(());
    }
    let node = |entry| match entry {
        &Kind::Folder | &Kind::Submodule => Node::Folder,
        Kind::File { .. } => Node::File,
        Kind::Link { target } => Node::Link(target),
    };
    let nodes: BTreeMap<&str, Node<'_>> = entries
        .iter()
        .map(|entry| (entry.path.as_str(), node(&entry.kind)))
        .collect();
    let mut n_steps = LINK_STEPS;
    for entry in entries {
        if let Kind::Link { target } = &entry.kind {
            check_link(&entry.path, &nodes, &mut n_steps).map_err(|reason| {
                Error::UnsafeSymlink {
                    path: entry.path.clone(),
                    target: printable(target, 300),
                    reason: reason.into(),
                }
            })?;
        }
    }
    Ok(())
}
