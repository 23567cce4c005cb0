//! `fs::Directory`: existence, owner, group and mode. Never removes what is inside.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::owner::Symlinks;
use super::{Attributes, Context, Error, Handler, flag, is_not_there, owner, path};

pub(super) struct Directory;

impl Handler for Directory {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        if flag(desired, "purged") {
            if is_not_there(path) {
                return Ok(None);
            }
            if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
                return Err(Error::Failed(format!(
                    "{} is a symlink and no directory of its own; remove it as steward::Symlink",
                    path.display()
                )));
            }
        }
        // A symlink to a directory is a directory here: hosts mount and link them freely.
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                if fs::symlink_metadata(path).is_ok() {
                    return Err(Error::Failed(format!(
                        "{} is a symlink that leads nowhere; remove it or create what it leads to",
                        path.display()
                    )));
                }
                return Ok(None);
            }
            Err(error) => return Err(Error::io("look at", path)(error)),
        };
        if !metadata.is_dir() {
            let message = format!("{} is not a directory; remove it first", path.display());
            return Err(Error::Failed(message));
        }
        let mut current = Attributes::new();
        owner::observe(&metadata, desired, &mut current);
        Ok(Some(current))
    }

    fn create(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        owner::check_links_above(path)?;
        fs::create_dir_all(path).map_err(Error::io("create", path))?;
        owner::apply(path, desired, Symlinks::Followed)
    }

    fn update(
        &self,
        _context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        owner::apply(path(desired)?, desired, Symlinks::Followed)
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        owner::check_links_above(path)?;
        fs::remove_dir(path).map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty => Error::Failed(not_empty(path)),
            _ => Error::io("remove", path)(error),
        })
    }
}

/// Names that are shown of what is in a directory.
const SHOWN: usize = 3;

/// Why a directory is not removed, and what to do. What is in it commonly requires it, as it is made behind it: in this order it
/// would be removed behind it, too, and so never.
fn not_empty(path: &Path) -> String {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        n_more => format!(" and {n_more} more"),
    };
    names.truncate(SHOWN);
    format!(
        "cannot remove {}: there is still {}{more} in it; remove what is inside first. Purged resources that require this one come \
         after it: let this one require them instead, or purge them in a version before",
        path.display(),
        names.join(", ")
    )
}
