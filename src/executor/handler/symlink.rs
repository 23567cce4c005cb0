//! `fs::Symlink`, `steward::Symlink`: the link at `path` leads to `target`; `std::Symlink`: the link at `target` leads to
//! `source`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::replacement::Replacement;
use super::{
    Attributes, Context, Error, Handler, flag, is_not_there, owner, parent, path_in, path_of_file,
    text,
};

pub(super) struct Symlink {
    /// The attribute with the place of the link.
    link: &'static str,
    /// The attribute with what it points to.
    target: &'static str,
}

pub(super) const SYMLINK: Symlink = Symlink {
    link: "path",
    target: "target",
};
pub(super) const OF_STD: Symlink = Symlink {
    link: "target",
    target: "source",
};

impl Handler for Symlink {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path_of_file(desired, self.link)?;
        let is_purged = flag(desired, "purged");
        if is_purged && is_not_there(path) {
            return Ok(None);
        }
        if !is_purged {
            // A link to nothing can not be made.
            path_in(desired, self.target)?;
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => {
                let target = fs::read_link(path).map_err(Error::io("read the link", path))?;
                Ok(Some(Attributes::from_iter([(
                    self.target.to_owned(),
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
        let path = path_of_file(desired, self.link)?;
        parent(path)?;
        symlink(text(desired, self.target), path).map_err(Error::io("create the link", path))
    }

    fn update(
        &self,
        _context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        let path = path_of_file(desired, self.link)?;
        owner::check_links_above(path)?;
        // Made beside it and renamed over it: the name always leads somewhere.
        Replacement::symlink(path, text(desired, self.target))?.place()
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path_of_file(desired, self.link)?;
        owner::check_links_above(path)?;
        fs::remove_file(path).map_err(Error::io("remove", path))
    }
}
