//! `fs::File`: content, owner, group and mode, replaced atomically.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use serde_json::json;

use super::replacement::{NO_SURPRISE, Replacement};
use super::{Attributes, Context, Error, Handler, owner, parent, path, text};

/// A file on the host may be of any size; more of it than this beyond the desired content is not read.
const READ_BEYOND_BYTES: u64 = 64 * 1024;

pub(super) struct File;

impl Handler for File {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        let metadata = match fs::symlink_metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("look at", path)(error)),
        };
        let mut current = Attributes::new();
        if metadata.is_file() {
            let limit = text(desired, "content").len() as u64 + READ_BEYOND_BYTES;
            let mut bytes = Vec::new();
            let mut options = fs::OpenOptions::new();
            // What was a file a moment ago may be anything now.
            options.read(true).custom_flags(NO_SURPRISE);
            let file = options.open(path).map_err(Error::io("open", path))?;
            file.take(limit)
                .read_to_end(&mut bytes)
                .map_err(Error::io("read", path))?;
            current.insert("content".to_owned(), json!(String::from_utf8_lossy(&bytes)));
        } else if metadata.is_dir() {
            let message = format!(
                "{} is a directory; remove it before a file can take its place",
                path.display()
            );
            return Err(Error::Failed(message));
        } else {
            // A symlink, socket or device: replaced by the file.
            current.insert("content".to_owned(), json!("<not a regular file>"));
        }
        owner::observe(&metadata, desired, &mut current);
        Ok(Some(current))
    }

    fn create(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        replace(path(desired)?, desired)
    }

    fn update(
        &self,
        _context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        let path = path(desired)?;
        if changes.contains_key("content") {
            replace(path, desired)
        } else {
            owner::apply(path, desired)
        }
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        fs::remove_file(path).map_err(Error::io("remove", path))
    }
}

/// Writes the whole file beside its place and renames it there, so that a reader sees the old or the new one, and a
/// crash leaves the old one. What the model does not say of owner and mode stays as it was.
fn replace(path: &Path, desired: &Attributes) -> Result<(), Error> {
    parent(path)?;
    let old = fs::symlink_metadata(path)
        .ok()
        .filter(fs::Metadata::is_file);
    let (uid, gid) = owner::ids(desired)?;
    let mode = owner::mode(desired)?
        .or(old.as_ref().map(|old| old.mode() & 0o7777))
        .unwrap_or(0o644);
    let (replacement, mut file) = Replacement::file(path)?;
    file.write_all(text(desired, "content").as_bytes())
        .map_err(Error::io("write", path))?;
    let (uid, gid) = (
        uid.or(old.as_ref().map(MetadataExt::uid)),
        gid.or(old.as_ref().map(MetadataExt::gid)),
    );
    if uid.is_some() || gid.is_some() {
        std::os::unix::fs::chown(replacement.path(), uid, gid)
            .map_err(Error::io("change the owner of", path))?;
    }
    let permissions = fs::Permissions::from_mode(mode);
    file.set_permissions(permissions)
        .map_err(Error::io("change the mode of", path))?;
    file.sync_all().map_err(Error::io("write", path))?;
    // The lock is held until it is in its place.
    replacement.place()
}
