//! Keeps a bare repository of ours whole over power cuts and small over years.
//!
//! Every fetch adds a pack and every snapshot some loose files; [`compact`] puts the small ones together. A pack is
//! synced to disk before a ref leads to it, so a mirror stays whole; the loose files of snapshots are not, and are
//! read through once after each boot instead. All of it runs under the lock of the repository.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::error::Error;
use super::mirror::{INCOMING, create_bare};

/// Packs larger than this are left alone: packing them again would take longer than it gains.
const SMALL_PACK_BYTES: u64 = 32 << 20;

/// What is packed again at one time, so that no fetch takes long because of it.
const ONE_TIME_BYTES: u64 = 2 * SMALL_PACK_BYTES;

/// How many small packs and loose files may gather before they are put together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerance {
    pub(super) n_packs: usize,
    pub(super) n_loose: usize,
}

impl Default for Tolerance {
    fn default() -> Tolerance {
        Tolerance {
            n_packs: 50,
            n_loose: 5000,
        }
    }
}

/// An identification of the time since the machine was started, or `None` where that is hidden from us.
pub(super) fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// The packs that are complete, which is when they have an index.
pub(super) fn packs(path: &Path) -> BTreeSet<PathBuf> {
    let indexes = files(&path.join("objects/pack")).into_iter();
    let indexed =
        indexes.filter(|file| file.extension().is_some_and(|extension| extension == "idx"));
    indexed
        .map(|index| index.with_extension("pack"))
        .filter(|pack| pack.exists())
        .collect()
}

/// Brings the packs that are not among `before` to the disk.
pub(super) fn sync_new_packs(path: &Path, before: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let mut any = false;
    for pack in packs(path).difference(before) {
        any = true;
        for file in [pack.clone(), pack.with_extension("idx")] {
            sync(&file)?;
        }
    }
    if any {
        sync(&path.join("objects/pack"))
    } else {
        Ok(())
    }
}

fn sync(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(Error::io("bring to the disk", path))
}

/// Whether all refs lead to commits whose root can be read. Cheap, and finds what a power cut does
/// to refs. Reads the files itself, since libgit2 leaves damaged ones out of its list.
pub(super) fn refs_are_sound(store: &git2::Repository) -> bool {
    let is_sound = |name: &str| {
        let commit = store
            .find_reference(name)
            .and_then(|reference| reference.peel_to_commit());
        match commit.and_then(|commit| commit.tree()) {
            Ok(_) => true,
            // Of the system, such as too many open files: says nothing about the repository.
            Err(error) => matches!(
                error.class(),
                git2::ErrorClass::Os | git2::ErrorClass::NoMemory
            ),
        }
    };
    files_below(&store.path().join("refs")).iter().all(|file| {
        let name = file.strip_prefix(store.path()).ok().and_then(Path::to_str);
        name.is_some_and(is_sound)
    })
}

/// Why something below the folder `root` cannot be had; `None`: all is there. The content of files is not read.
pub(super) fn unreadable_below(store: &git2::Repository, root: git2::Oid) -> Option<Unreadable> {
    let missing = Some(Unreadable::Missing);
    let Ok(odb) = store.odb() else {
        return missing;
    };
    let mut seen = HashSet::from([root]);
    let mut pending = vec![root];
    while let Some(id) = pending.pop() {
        let Ok(tree) = store.find_tree(id) else {
            return Some(Unreadable::of(store, id, git2::ObjectType::Tree));
        };
        for entry in tree.iter().filter(|entry| seen.insert(entry.id())) {
            match entry.kind() {
                Some(git2::ObjectType::Tree) => pending.push(entry.id()),
                // A submodule, whose commit is in another repository.
                Some(git2::ObjectType::Commit) => (),
                Some(_) | None if odb.exists(entry.id()) => (),
                Some(_) | None => return missing,
            }
        }
    }
    None
}

/// Why an object cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is not here, or it is not what its id says: another fetch may bring it.
    Missing,
    /// It is here as it was made, and that is wrong: another fetch brings the same.
    Malformed(String),
}

impl Unreadable {
    /// Of an object that is not to be had as the `wanted` one that it should be.
    pub(super) fn of(store: &git2::Repository, id: git2::Oid, wanted: git2::ObjectType) -> Self {
        // Reading compares the content with the id.
        let read = store.odb().and_then(|odb| Ok(odb.read(id)?.kind()));
        match read {
            Err(_) => Self::Missing,
            Ok(kind) if kind != wanted => Self::Malformed(format!(
                "{id} is a {}, where a {} should be",
                kind.str(),
                wanted.str()
            )),
            Ok(_) => Self::Malformed(format!("the {} {id} is malformed", wanted.str())),
        }
    }
}

/// Whether every object can be read and is what its id says. Takes as long as reading all of them.
pub(super) fn objects_are_sound(store: &git2::Repository) -> bool {
    let Ok(odb) = store.odb() else {
        return false;
    };
    let mut all_sound = true;
    let walked = odb.foreach(|id| {
        all_sound = odb.read(*id).is_ok();
        all_sound
    });
    walked.is_ok() && all_sound
}

/// Removes what a killed process left in the repository at `path`: locks that nobody holds, which
/// would stop every later change of a ref, and unfinished packs and objects. The caller holds our own
/// lock, so nobody is at work.
pub(super) fn remove_leftovers(path: &Path) -> Result<(), Error> {
    let named = |file: &Path, test: fn(&str) -> bool| {
        file.file_name()
            .and_then(|name| name.to_str())
            .is_some_and(test)
    };
    let incoming = path.join(INCOMING);
    if incoming.exists() {
        fs::remove_file(&incoming).map_err(Error::io("remove the left file", &incoming))?;
    }
    let mut leftovers: Vec<PathBuf> = files(path);
    leftovers.extend(files_below(&path.join("refs")));
    leftovers.retain(|file| named(file, |name| name.ends_with(".lock")));
    let unfinished =
        |name: &str| name.starts_with("pack_git2_") || name.starts_with("tmp_object_git2_");
    let folders = files(&path.join("objects"));
    let unfinished = folders
        .iter()
        .flat_map(|folder| files(folder))
        .filter(|file| named(file, unfinished));
    for file in leftovers.into_iter().chain(unfinished) {
        tracing::info!(path = %file.display(), "removing what a killed process left");
        fs::remove_file(&file).map_err(Error::io("remove the left file", &file))?;
    }
    Ok(())
}

/// Puts small packs and loose files of the repository at `path` into one pack when there are too many.
///
/// The new pack is complete on disk before the old files go. Whoever reads meanwhile may miss an object for a moment
/// and has to open the repository again.
pub(super) fn compact(path: &Path, tolerance: Tolerance) -> Result<(), Error> {
    let mut packs: Vec<(u64, PathBuf)> = packs(path)
        .into_iter()
        .filter_map(|pack| Some((pack.metadata().ok()?.len(), pack)))
        .filter(|(n_bytes, _)| *n_bytes <= SMALL_PACK_BYTES)
        .collect();
    let loose = loose_files(path);
    if packs.len() <= tolerance.n_packs && loose.len() <= tolerance.n_loose {
        return Ok(());
    }
    packs.sort();
    let mut left = ONE_TIME_BYTES;
    let packs: Vec<PathBuf> = packs
        .into_iter()
        .map_while(|(n_bytes, pack)| {
            left = left.checked_sub(n_bytes)?;
            Some(pack)
        })
        .collect();
    // A repository of nothing but these files, as libgit2 lists and packs whole repositories.
    let aside = path.with_extension("compact");
    remove_all(&aside)?;
    create_bare(&aside)?;
    let packed = pack_together(path, &aside, &packs, &loose);
    remove_all(&aside)?;
    let kept = packed?;
    for pack in packs.iter().filter(|pack| **pack != kept) {
        // The index first: a pack without one does not count.
        for file in [pack.with_extension("idx"), pack.clone()] {
            fs::remove_file(&file).map_err(Error::io("remove the old pack", &file))?;
        }
    }
    for file in &loose {
        fs::remove_file(file).map_err(Error::io("remove the packed file", file))?;
    }
    Ok(())
}

/// Writes the pack of all objects in `packs` and `loose` into the repository at `path`, and returns its name.
fn pack_together(
    path: &Path,
    aside: &Path,
    packs: &[PathBuf],
    loose: &[PathBuf],
) -> Result<PathBuf, Error> {
    let indexes = packs.iter().map(|pack| pack.with_extension("idx"));
    for file in packs
        .iter()
        .cloned()
        .chain(indexes)
        .chain(loose.iter().cloned())
    {
        let relative = file.strip_prefix(path).unwrap_or(&file);
        let link = aside.join(relative);
        if let Some(folder) = link.parent() {
            fs::create_dir_all(folder).map_err(Error::io("create the folder", folder))?;
        }
        fs::hard_link(&file, &link).map_err(Error::io("link", &link))?;
    }
    let failed = Error::git;
    let store = git2::Repository::open_bare(aside).map_err(failed("open what is to be packed"))?;
    let mut builder = store.packbuilder().map_err(failed("pack objects"))?;
    builder.set_threads(1);
    let mut ids = BTreeSet::new();
    let odb = store.odb().map_err(failed("list objects"))?;
    odb.foreach(|id| {
        ids.insert(*id);
        true
    })
    .map_err(failed("list objects"))?;
    for id in ids {
        builder
            .insert_object(id, None)
            .map_err(failed("pack objects"))?;
    }
    let before = self::packs(path);
    let folder = path.join("objects/pack");
    builder
        .write(&folder, 0o444)
        .map_err(failed("write the pack"))?;
    sync_new_packs(path, &before)?;
    let name = builder
        .name()
        .ok()
        .flatten()
        .map(|name| folder.join(format!("pack-{name}.pack")));
    name.filter(|pack| pack.exists()).ok_or_else(|| Error::Git {
        doing: "pack objects".into(),
        cause: "the pack that was written is not there".to_owned(),
    })
}

/// The files of single objects: `objects/ab/cdef…`.
fn loose_files(path: &Path) -> Vec<PathBuf> {
    let is_shard = |folder: &PathBuf| folder.file_name().is_some_and(|name| name.len() == 2);
    let is_object = |file: &PathBuf| file.file_name().is_some_and(|name| name.len() == 38);
    let shards = files(&path.join("objects")).into_iter().filter(is_shard);
    shards
        .flat_map(|shard| files(&shard))
        .filter(is_object)
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

/// The files in `folder` and in the folders below it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in files(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

pub(super) fn remove_all(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove the folder", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
