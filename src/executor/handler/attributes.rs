//! Reading the attributes of a resource.

use std::path::Path;

use serde_json::Value;

use super::{Attributes, Error, owner};

pub(super) fn flag(attributes: &Attributes, name: &str) -> bool {
    attributes
        .get(name)
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

pub(super) fn text<'a>(attributes: &'a Attributes, name: &str) -> &'a str {
    attributes
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The path a resource is about; a relative one counts from the executor's working directory.
pub(super) fn path(attributes: &Attributes) -> Result<&Path, Error> {
    path_in(attributes, "path")
}

/// The path in an attribute.
pub(super) fn path_in<'a>(attributes: &'a Attributes, name: &str) -> Result<&'a Path, Error> {
    match text(attributes, name) {
        "" => Err(Error::Failed(format!("the attribute `{name}` is empty"))),
        path if path.contains('\0') => Err(Error::Failed(format!(
            "the attribute `{name}` holds a NUL character"
        ))),
        path => Ok(Path::new(path)),
    }
}

/// The path of what is no directory.
pub(super) fn path_of_file<'a>(attributes: &'a Attributes, name: &str) -> Result<&'a Path, Error> {
    let path = path_in(attributes, name)?;
    if path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(Error::Failed(format!(
            "the attribute `{name}` is {} with a slash at its end, which means a directory: leave the slash out",
            path.display()
        )));
    }
    Ok(path)
}

/// Whether nothing is at `path`, and nothing could be: what would be a directory above it is something else.
pub(super) fn is_not_there(path: &Path) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    std::fs::symlink_metadata(path)
        .is_err_and(|error| matches!(error.kind(), NotFound | NotADirectory))
}

/// Makes sure that a thing at `path` has a directory to be in, to which nobody leads us astray.
pub(super) fn parent(path: &Path) -> Result<(), Error> {
    owner::check_links_above(path)?;
    let Some(parent) = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    else {
        return Ok(());
    };
    let is_dir = std::fs::metadata(parent).map(|metadata| metadata.is_dir());
    let shown = parent.display();
    let message = match is_dir {
        Ok(true) => return Ok(()),
        Ok(false) => format!("{shown} is not a directory; remove it first"),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            if std::fs::symlink_metadata(parent).is_ok() {
                format!(
                    "{shown} is a symlink that leads nowhere; remove it or create what it leads to"
                )
            } else {
                format!(
                    "the directory {shown} does not exist; declare it as fs::Directory or steward::Directory"
                )
            }
        }
        Err(error) => return Err(Error::io("look at", parent)(error)),
    };
    Err(Error::Failed(message))
}

/// The items of a list of texts; `None`: it is not managed.
pub(super) fn texts<'a>(attributes: &'a Attributes, name: &str) -> Option<Vec<&'a str>> {
    let items = attributes.get(name)?.as_array()?;
    Some(items.iter().filter_map(Value::as_str).collect())
}

/// A text that is given; `None`: it is null, and not managed.
pub(super) fn given<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
    attributes.get(name)?.as_str()
}

/// A time limit in seconds; at least one.
pub(super) fn seconds(attributes: &Attributes, name: &str, default: u64) -> std::time::Duration {
    let given = attributes.get(name).and_then(Value::as_u64);
    std::time::Duration::from_secs(given.filter(|seconds| *seconds > 0).unwrap_or(default))
}
