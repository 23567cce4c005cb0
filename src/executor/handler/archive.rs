//! `steward::Archive`: a directory with the files of an archive, and nothing else.
//!
//! The files are unpacked into a directory beside it that nobody else may enter, which then takes its place in one step, so there
//! is never a mixture of two versions. A record inside says which archive it was and what every file looked like; so a look at
//! each file's size and time shows whether somebody has changed one, and the archive itself is only fetched when another one is
//! wanted.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steward_compiler::without_credentials;

use super::program::Program;
use super::replacement::beside;
use super::{
    Attributes, Context, Error, Handler, change, differences, fetch, flag, given, is_not_there,
    owner,
};
use super::{parent, path, seconds, text};

/// The record in the directory.
const RECORD: &str = ".steward-archive.json";
/// A record has about 100 bytes a file.
const RECORD_BYTES: u64 = 256 * 1024 * 1024;
const DEFAULT_TIMEOUT_SECONDS: u64 = 300;
/// Names of files that a difference shows.
const SHOWN_FILES: usize = 20;
/// Directories within each other.
const DEPTH: usize = 100;

#[derive(Serialize, Deserialize)]
struct Record {
    sha256: String,
    strip: u64,
    owner: Value,
    group: Value,
    entries: Vec<Entry>,
}

/// What a file, directory or symlink looked like after it was unpacked.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct Entry {
    name: String,
    mode: u32,
    user: u32,
    group: u32,
    /// Size and time of the last change, in seconds and nanoseconds; 0 for directories, which change with what is in them.
    size: u64,
    time: (i64, i64),
}

pub(super) struct Archive;

impl Handler for Archive {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        let is_purged = flag(desired, "purged");
        if is_purged && is_not_there(path) {
            return Ok(None);
        }
        if !is_purged {
            check_attributes(desired)?;
        }
        let Some(record) = read_record(path)? else {
            return Ok(None);
        };
        let mut current = Attributes::from_iter([
            ("sha256".to_owned(), json!(record.sha256)),
            ("strip".to_owned(), json!(record.strip)),
            ("owner".to_owned(), record.owner),
            ("group".to_owned(), record.group),
        ]);
        if given(desired, "sha256").is_none() && !is_purged {
            current.insert("wanted".to_owned(), json!(digest_of_source(desired)?));
        }
        let changed: Vec<&str> = changed(path, &record.entries).take(SHOWN_FILES).collect();
        if !changed.is_empty() {
            current.insert("changed_files".to_owned(), json!(changed));
        }
        Ok(Some(current))
    }

    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        let mut changes = differences(current, desired);
        if let Some(wanted) = current
            .get("wanted")
            .filter(|one| **one != current["sha256"])
        {
            changes.extend([change("sha256", &current["sha256"], wanted)]);
        }
        if let Some(changed) = current.get("changed_files") {
            changes.extend([change("changed_files", changed, &json!([]))]);
        }
        changes
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        replace(context, desired)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        replace(context, desired)
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        owner::check_links_above(path)?;
        fs::remove_dir_all(path).map_err(Error::io("remove", path))
    }
}

/// What could never be made is refused by a dry run as well.
fn check_attributes(desired: &Attributes) -> Result<(), Error> {
    if !path(desired)?.is_absolute() {
        let message = "`path` is not absolute: begin it with a slash";
        return Err(Error::Failed(message.to_owned()));
    }
    match desired.get("strip") {
        Some(strip) if !strip.is_null() && strip.as_u64().is_none() => Err(Error::Failed(format!(
            "`strip` {strip} is no number of directories"
        ))),
        _ => Ok(()),
    }
}

/// The record of a directory; `None`: there is no directory, or an empty one. What we did not make is not ours to replace.
fn read_record(path: &Path) -> Result<Option<Record>, Error> {
    let mut entries = match fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(Error::io("look into", path))?,
    };
    let record = path.join(RECORD);
    let is_small = fs::symlink_metadata(&record)
        .is_ok_and(|found| found.is_file() && found.len() <= RECORD_BYTES);
    let known = is_small.then(|| fs::read(&record).ok()).flatten();
    match known.and_then(|text| serde_json::from_slice(&text).ok()) {
        Some(record) => Ok(Some(record)),
        None if entries.next().is_none() => Ok(None),
        None => Err(Error::Failed(format!(
            "{} has things that are not of an archive of Steward; remove it, or name another path",
            path.display()
        ))),
    }
}

fn changed<'a>(path: &'a Path, entries: &'a [Entry]) -> impl Iterator<Item = &'a str> {
    let is_changed = move |entry: &&Entry| {
        let found = fs::symlink_metadata(path.join(&entry.name));
        found.map_or(true, |found| {
            Entry::of(entry.name.clone(), &found) != **entry
        })
    };
    entries
        .iter()
        .filter(is_changed)
        .map(|entry| entry.name.as_str())
}

impl Entry {
    fn of(name: String, metadata: &fs::Metadata) -> Self {
        let is_dir = metadata.is_dir();
        Self {
            name,
            mode: metadata.mode(),
            user: metadata.uid(),
            group: metadata.gid(),
            size: if is_dir { 0 } else { metadata.size() },
            time: if is_dir {
                (0, 0)
            } else {
                (metadata.mtime(), metadata.mtime_nsec())
            },
        }
    }
}

fn digest_of_source(desired: &Attributes) -> Result<String, Error> {
    let source = text(desired, "source");
    if fetch::is_address(source) {
        let message = "an archive at an address needs `sha256`: without it there is no telling whether it is the right one";
        return Err(Error::Failed(message.to_owned()));
    }
    fetch::digest(fetch::open(source)?).map_err(Error::io("read", Path::new(source)))
}

/// Fetches and unpacks the archive, and puts it into its place.
fn replace(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let path = path(desired)?;
    parent(path)?;
    let (uid, gid) = owner::ids(desired)?;
    let format = format(desired)?;
    let source = text(desired, "source");
    let limit = seconds(desired, "timeout", DEFAULT_TIMEOUT_SECONDS);
    let wanted = given(desired, "sha256");
    if wanted.is_none() {
        digest_of_source(desired)?;
    }
    let folder = Folder::new(path)?;
    let inside = folder.inside();
    // A copy where nobody else comes: what is unpacked is what was checked.
    let copy = folder.way(COPY);
    let mut file = fs::File::create_new(&copy).map_err(Error::io("write", path))?;
    let digest = fetch::fetch(context, source, wanted, limit, &mut file)?;
    unpack(context, desired, format, &inside)?;
    fs::remove_file(&copy).map_err(Error::io("remove", &copy))?;
    free_record(context, &inside)?;
    let mut entries = Vec::new();
    remove_devices(context, &inside, DEPTH)?;
    own_and_list(&inside, Path::new(""), (uid, gid), &mut entries, DEPTH)?;
    let record = Record {
        sha256: digest,
        strip: strip(desired),
        owner: desired.get("owner").cloned().unwrap_or_default(),
        group: desired.get("group").cloned().unwrap_or_default(),
        entries,
    };
    let text = serde_json::to_vec(&record).map_err(|error| Error::Failed(error.to_string()))?;
    write_record(&inside, &text).map_err(Error::io("write into", path))?;
    context.info(&format!(
        "{} files of {} are unpacked",
        record.entries.len(),
        without_credentials(source)
    ));
    folder.place(path)
}

/// Leaves out what the archive itself has under the name of the record: a symlink there would lead our writing to another
/// place, and a FIFO would hold it up.
fn free_record(context: &mut Context, folder: &Path) -> Result<(), Error> {
    let place = folder.join(RECORD);
    let removed = match fs::symlink_metadata(&place) {
        Err(_) => return Ok(()),
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(&place),
        Ok(_) => fs::remove_file(&place),
    };
    context.warning(&format!(
        "{RECORD} of the archive is left out: Steward has a file of its own there"
    ));
    removed.map_err(Error::io("remove", &place))
}

fn write_record(folder: &Path, text: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .open(folder.join(RECORD))?;
    file.write_all(text)
}

fn strip(desired: &Attributes) -> u64 {
    desired.get("strip").and_then(Value::as_u64).unwrap_or(0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Tar,
    Zip,
}

fn format(desired: &Attributes) -> Result<Format, Error> {
    let source = text(desired, "source").to_ascii_lowercase();
    let format = match text(desired, "format") {
        "zip" => Format::Zip,
        "tar" => Format::Tar,
        "" if source.ends_with(".zip") => Format::Zip,
        "" => Format::Tar,
        other => {
            return Err(Error::Failed(format!(
                "`format` {other} is not known: write tar or zip"
            )));
        }
    };
    if format == Format::Zip && strip(desired) > 0 {
        let message = "`strip` is for tar archives; unzip can not leave out directories";
        return Err(Error::Failed(message.to_owned()));
    }
    Ok(format)
}

/// Both programs keep names within the directory: they leave out a leading slash and refuse `..`.
fn unpack(
    context: &mut Context,
    desired: &Attributes,
    format: Format,
    into: &Path,
) -> Result<(), Error> {
    let limit = seconds(desired, "timeout", DEFAULT_TIMEOUT_SECONDS);
    let archive = format!("../{COPY}");
    let strip = format!("--strip-components={}", strip(desired));
    let program = match format {
        Format::Tar => Program::changing("tar", limit)?.arguments([
            "--extract",
            // A colon in its name does not mean another machine.
            "--force-local",
            "--file",
            &archive,
            "--no-same-owner",
            &strip,
        ]),
        Format::Zip => Program::changing("unzip", limit)?.arguments(["-q", "-o", &archive]),
    };
    let source = without_credentials(text(desired, "source"));
    let shown = match format {
        Format::Tar => format!("tar --extract {source}"),
        Format::Zip => format!("unzip {source}"),
    };
    let program = program.directory(into).shown_as(shown);
    program.must_succeed(context).map(|_| ())
}

/// Leaves out the device nodes of an archive, which tar makes as root: who has one has the disk behind it.
fn remove_devices(context: &mut Context, folder: &Path, depth: usize) -> Result<(), Error> {
    let Some(depth) = depth.checked_sub(1) else {
        // The next look says that it is too deep.
        return Ok(());
    };
    let fail = || Error::io("look into", folder);
    for entry in fs::read_dir(folder).map_err(fail())? {
        let entry = entry.map_err(fail())?;
        let kind = entry.file_type().map_err(fail())?;
        let place = entry.path();
        if kind.is_dir() {
            remove_devices(context, &place, depth)?;
        } else if kind.is_block_device() || kind.is_char_device() {
            fs::remove_file(&place).map_err(Error::io("remove", &place))?;
            context.warning(&format!(
                "{} of the archive is a device, which is left out",
                entry.file_name().display()
            ));
        }
    }
    Ok(())
}

/// Gives all that was unpacked its owner, and writes down what it looks like.
fn own_and_list(
    root: &Path,
    below: &Path,
    (uid, gid): (Option<u32>, Option<u32>),
    entries: &mut Vec<Entry>,
    depth: usize,
) -> Result<(), Error> {
    if depth == 0 {
        let message = format!("the archive has more than {DEPTH} directories within each other");
        return Err(Error::Failed(message));
    }
    let folder = root.join(below);
    let fail = || Error::io("look into", &folder);
    for entry in fs::read_dir(&folder).map_err(fail())? {
        let entry = entry.map_err(fail())?;
        let name = below.join(entry.file_name());
        let place = root.join(&name);
        if uid.is_some() || gid.is_some() {
            own(&place, uid, gid).map_err(Error::io("change the owner of", &name))?;
        }
        let metadata = entry.metadata().map_err(Error::io("look at", &place))?;
        if metadata.is_dir() {
            own_and_list(root, &name, (uid, gid), entries, depth - 1)?;
        }
        // A name that is no text can not be looked up later; it is unpacked all the same.
        if let Some(name) = name.to_str() {
            entries.push(Entry::of(name.to_owned(), &metadata));
        }
    }
    if below.as_os_str().is_empty() && (uid.is_some() || gid.is_some()) {
        std::os::unix::fs::chown(root, uid, gid).map_err(Error::io("change the owner of", root))?;
    }
    Ok(())
}

/// Gives what was unpacked its owner. The kernel takes away the modes setuid and setgid with that, so they are set again, by way
/// of one open file: the new owner of the directory may have put something else there meanwhile.
fn own(place: &Path, uid: Option<u32>, gid: Option<u32>) -> std::io::Result<()> {
    use rustix::fs::{AtFlags, FileType, Mode, OFlags, chownat, fstat, open};
    use rustix::process::{Gid, Uid};
    let file = open(
        place,
        OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let mode = fstat(&file)?.st_mode;
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    chownat(&file, "", uid, gid, AtFlags::EMPTY_PATH)?;
    if mode & 0o6000 != 0 && FileType::from_raw_mode(mode) == FileType::RegularFile {
        let way = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(way, fs::Permissions::from_mode(mode & 0o7777))?;
    }
    Ok(())
}

/// A directory beside its place that only we may enter, and in it the one that is to be placed; both are removed if it never gets
/// there. What is in it is reached by way of the open directory: whoever may write where it stands could put a symlink there, and
/// we would give them what that leads to.
struct Folder {
    place: PathBuf,
    open: OwnedFd,
}

/// The names of the directory that is to be placed, and of the archive, beside it.
const INSIDE: &str = "content";
const COPY: &str = "archive";

impl Folder {
    fn new(path: &Path) -> Result<Self, Error> {
        use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, mkdirat, open};
        let place = beside(path, "folder");
        let fail = |error: rustix::io::Errno| Error::io("create", path)(error.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = FlockOperation::NonBlockingLockExclusive;
        if fs::symlink_metadata(&place).is_ok() {
            let other = open(&place, flags, Mode::empty());
            if other.is_ok_and(|other| flock(&other, lock).is_err()) {
                return Err(Error::Failed(format!(
                    "{} is being written by another resource; let only one resource have this path",
                    path.display()
                )));
            }
            // A killed executor left it.
            fs::remove_dir_all(&place).map_err(Error::io("remove", &place))?;
        }
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
            .create(&place)
            .map_err(Error::io("create", &place))?;
        let open = open(&place, flags, Mode::empty()).map_err(fail)?;
        let folder = Self { place, open };
        let found = fstat(&folder.open).map_err(fail)?;
        if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
            return Err(Error::Failed(format!(
                "somebody has put another directory in the place of {}",
                folder.place.display()
            )));
        }
        flock(&folder.open, lock).map_err(fail)?;
        mkdirat(&folder.open, INSIDE, Mode::from_raw_mode(0o755)).map_err(fail)?;
        // Whatever our umask is: others are to use what is in it.
        let inside = folder.inside();
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o755))
            .map_err(Error::io("create", path))?;
        Ok(folder)
    }

    /// The way to what is to be placed, for us and for programs that we start there.
    fn inside(&self) -> PathBuf {
        self.way(INSIDE)
    }

    fn way(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.open.as_raw_fd()))
    }

    /// Takes the place of what is at `path`, which is removed.
    fn place(self, path: &Path) -> Result<(), Error> {
        use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
        if fs::symlink_metadata(path).is_err() {
            let renamed = renameat(&self.open, INSIDE, CWD, path);
            return renamed.map_err(|error| Error::io("create", path)(error.into()));
        }
        let exchanged = renameat_with(&self.open, INSIDE, CWD, path, RenameFlags::EXCHANGE);
        // What was there is in our place now, and goes with us.
        exchanged.map_err(|error| Error::io("replace", path)(error.into()))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.inside());
        let _ = fs::remove_dir_all(&self.place);
    }
}
