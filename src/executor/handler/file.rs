//! `steward::File`, `fs::File`, `std::File`: content, owner, group and mode, replaced atomically.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::owner::Symlinks;
use super::replacement::{NO_SURPRISE, Replacement};
use super::{
    Attributes, Context, Error, Handler, fetch, flag, given, is_not_there, owner, parent,
    path_of_file, text,
};

/// A file on the host may be of any size; more of it than this beyond the desired content is not read.
const READ_BEYOND_BYTES: u64 = 64 * 1024;
/// For fetching a content that is named by its digest.
const FETCH_LIMIT: Duration = Duration::from_secs(3600);
const NOT_REGULAR: &str = "<not a regular file>";

pub(super) struct File;

impl Handler for File {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path_of_file(desired, "path")?;
        // What could never be made is refused by a dry run as well.
        owner::mode(desired)?;
        let digest = given(desired, "sha256");
        if digest.is_some() && given(desired, "content").is_some() {
            let message = "a file has `content` or `sha256`, not both";
            return Err(Error::Failed(message.to_owned()));
        }
        if flag(desired, "purged") && is_not_there(path) {
            return Ok(None);
        }
        let Some(content) = read_bytes(path, text(desired, "content").len())? else {
            return Ok(None);
        };
        let metadata = fs::symlink_metadata(path).map_err(Error::io("look at", path))?;
        let kind = metadata.file_type();
        if (kind.is_block_device() || kind.is_char_device()) && !flag(desired, "purged") {
            let message = format!(
                "{} is a device; remove it before a file can take its place",
                path.display()
            );
            return Err(Error::Failed(message));
        }
        let mut current = Attributes::new();
        match (&content, digest) {
            (Some(_), Some(_)) => {
                let file = open(path)?;
                let digest = fetch::digest(file).map_err(Error::io("read", path))?;
                current.insert("sha256".to_owned(), json!(digest));
            }
            (None, Some(_)) => {
                current.insert("sha256".to_owned(), json!(NOT_REGULAR));
            }
            (Some(bytes), None) => {
                let shown = String::from_utf8_lossy(bytes);
                current.insert("content".to_owned(), json!(shown));
            }
            (None, None)
                if !flag(desired, "purged")
                    && desired
                        .get("content")
                        .is_some_and(|content| content.is_null()) =>
            {
                return Err(Error::Failed(format!(
                    "{} is not a regular file; name the file that it leads to, or say the `content`",
                    path.display()
                )));
            }
            // A symlink, FIFO or socket: replaced by the file.
            (None, None) => {
                current.insert("content".to_owned(), json!(NOT_REGULAR));
            }
        }
        owner::observe(&metadata, desired, &mut current);
        Ok(Some(current))
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        replace(context, path_of_file(desired, "path")?, desired)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        let path = path_of_file(desired, "path")?;
        if changes.contains_key("content") || changes.contains_key("sha256") {
            replace(context, path, desired)
        } else {
            owner::apply(path, desired, Symlinks::Refused)
        }
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path_of_file(desired, "path")?;
        owner::check_links_above(path)?;
        fs::remove_file(path).map_err(Error::io("remove", path))
    }
}

/// The text of a file, as far as it is needed to see that it differs from one of `length` bytes; `None`: there is none.
pub(super) fn read_text(path: &Path, length: usize) -> Result<Option<String>, Error> {
    let content = read_bytes(path, length)?;
    Ok(content.map(|bytes| match bytes {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => NOT_REGULAR.to_owned(),
    }))
}

/// Owner, group and mode of what belongs to the system.
pub(super) fn of_root() -> Attributes {
    let attributes = [
        ("owner", json!("0")),
        ("group", json!("0")),
        ("mode", json!(644)),
    ];
    Attributes::from_iter(attributes.map(|(name, value)| (name.to_owned(), value)))
}

/// `None`: there is no such file; `Some(None)`: it is not a regular one.
fn read_bytes(path: &Path, length: usize) -> Result<Option<Option<Vec<u8>>>, Error> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io("look at", path)(error)),
    };
    if metadata.is_dir() {
        let message = format!(
            "{} is a directory; remove it before a file can take its place",
            path.display()
        );
        return Err(Error::Failed(message));
    }
    if !metadata.is_file() {
        return Ok(Some(None));
    }
    let limit = length as u64 + READ_BEYOND_BYTES;
    let mut bytes = Vec::new();
    open(path)?
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(Error::io("read", path))?;
    Ok(Some(Some(bytes)))
}

fn open(path: &Path) -> Result<fs::File, Error> {
    let mut options = fs::OpenOptions::new();
    // What was a file a moment ago may be anything now.
    options.read(true).custom_flags(NO_SURPRISE);
    options.open(path).map_err(Error::io("open", path))
}

fn replace(context: &Context, path: &Path, desired: &Attributes) -> Result<(), Error> {
    let Some(digest) = given(desired, "sha256") else {
        return put(path, text(desired, "content").as_bytes(), desired);
    };
    put_with(path, desired, |file| {
        let source = text(desired, "source");
        if source.is_empty() {
            return Err(Error::Failed(format!(
                "{} has not the digest {digest}, and no `source` says where such a content is",
                path.display()
            )));
        }
        fetch::fetch(context, source, Some(digest), FETCH_LIMIT, file).map(|_| ())
    })
}

/// Replaces a file by one with this content.
pub(super) fn put(path: &Path, content: &[u8], desired: &Attributes) -> Result<(), Error> {
    put_with(path, desired, |file| {
        file.write_all(content).map_err(Error::io("write", path))
    })
}

/// Writes the whole file beside its place and renames it there, so that a reader sees the old or the new one, and a
/// crash leaves the old one. What the model does not say of owner and mode stays as it was, and so does what else the file has
/// beside its content. Only the open file is changed, never what its name leads to: whoever may write in the directory could put
/// something else there.
pub(super) fn put_with(
    path: &Path,
    desired: &Attributes,
    write: impl FnOnce(&mut fs::File) -> Result<(), Error>,
) -> Result<(), Error> {
    parent(path)?;
    let old = fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file);
    let (uid, gid) = owner::ids(desired)?;
    let mode = owner::mode(desired)?
        .or(old.as_ref().map(|old| old.mode() & 0o7777))
        .unwrap_or(0o644);
    let (replacement, mut file) = Replacement::file(path)?;
    write(&mut file)?;
    let (uid, gid) = (
        uid.or(old.as_ref().map(MetadataExt::uid)),
        gid.or(old.as_ref().map(MetadataExt::gid)),
    );
    if uid.is_some() || gid.is_some() {
        std::os::unix::fs::fchown(&file, uid, gid)
            .map_err(Error::io("change the owner of", path))?;
    }
    if old.is_some() {
        keep_attributes(&open(path)?, &file).map_err(Error::io("keep the rights of", path))?;
    }
    // After the further rights, of which it may be the limit.
    let permissions = fs::Permissions::from_mode(mode);
    file.set_permissions(permissions)
        .map_err(Error::io("change the mode of", path))?;
    file.sync_all().map_err(Error::io("write", path))?;
    // The lock is held until it is in its place.
    replacement.place_file(&file)
}

/// The extended attribute with rights for further users and groups.
const ACL: &str = "system.posix_acl_access";
/// What is true of the old content alone.
const OF_CONTENT: &[&str] = &["security.capability", "security.evm", "security.ima"];
/// The most that Linux has of the names of a file's extended attributes, and of one value.
const ATTRIBUTE_BYTES: usize = 64 * 1024;

/// Gives a new file the extended attributes of the one that it replaces: rights of further users and groups, the label of SELinux,
/// notes of programs. Without the first, the mode would mean something else: where there are such rights, what it says of the
/// group is their limit, and would become the right of the group itself.
fn keep_attributes(old: &fs::File, new: &fs::File) -> std::io::Result<()> {
    use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};
    let mut names = vec![0_u8; ATTRIBUTE_BYTES];
    let Ok(length) = flistxattr(old, &mut names[..]) else {
        // A file system without any.
        return Ok(());
    };
    names.truncate(length);
    let names: Vec<&str> = names
        .split(|byte| *byte == 0)
        .filter_map(|name| std::str::from_utf8(name).ok())
        .filter(|name| !name.is_empty() && !OF_CONTENT.contains(name))
        .collect();
    if !names.contains(&ACL) {
        // Those that the directory gives to each new file.
        let _ = fremovexattr(new, ACL);
    }
    let mut value = vec![0_u8; if names.is_empty() { 0 } else { ATTRIBUTE_BYTES }];
    for name in names {
        let kept = fgetxattr(old, name, &mut value[..])
            .and_then(|length| fsetxattr(new, name, &value[..length], XattrFlags::empty()));
        // Who is not root may not set all of the others.
        if let Err(error) = kept
            && name == ACL
        {
            return Err(error.into());
        }
    }
    Ok(())
}
