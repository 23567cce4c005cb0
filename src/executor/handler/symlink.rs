//! `fs::Symlink`: the link at `path` leads to `target`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::replacement::Replacement;
use super::{Attributes, Context, Error, Handler, parent, path, text};

pub(super) struct Symlink;

impl Handler for Symlink {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(path).map_err(Error::io("read the link", path))?;
                Ok(Some(Attributes::from_iter([(
                    "target".to_owned(),
                    json!(target.to_string_lossy()),
                )])))
            }
            Ok(_) => Err(Error::Failed(format!(
                "{} is not a symlink; remove it first",
                path.display()
            ))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("look at", path)(error)),
        }
    }

    fn create(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        parent(path)?;
        symlink(text(desired, "target"), path).map_err(Error::io("create the link", path))
    }

    fn update(
        &self,
        _context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        let path = path(desired)?;
        // Made beside it and renamed over it: the name always leads somewhere.
        Replacement::symlink(path, text(desired, "target"))?.place()
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        fs::remove_file(path).map_err(Error::io("remove", path))
    }
}
