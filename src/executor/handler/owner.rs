//! Owner, group and mode of a path, as the model writes them.

use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};
use serde_json::{Value, json};

use super::{Attributes, Error};

/// Adds what `metadata` says of owner, group and mode, in the form that `desired` uses.
pub(super) fn observe(metadata: &Metadata, desired: &Attributes, current: &mut Attributes) {
    let owner = || {
        User::from_uid(Uid::from_raw(metadata.uid()))
            .ok()
            .flatten()
            .map(|user| user.name)
    };
    let group = || {
        Group::from_gid(Gid::from_raw(metadata.gid()))
            .ok()
            .flatten()
            .map(|group| group.name)
    };
    current.insert(
        "owner".to_owned(),
        same_form(desired.get("owner"), metadata.uid(), owner),
    );
    current.insert(
        "group".to_owned(),
        same_form(desired.get("group"), metadata.gid(), group),
    );
    let digits = format!("{:o}", metadata.permissions().mode() & 0o7777);
    current.insert(
        "mode".to_owned(),
        json!(digits.parse::<u64>().unwrap_or_default()),
    );
}

/// A numeric owner in the model is compared as a number, a name as a name.
fn same_form(desired: Option<&Value>, id: u32, name: impl FnOnce() -> Option<String>) -> Value {
    match desired.and_then(Value::as_str) {
        Some(text) if text.parse::<u32>().is_ok() => json!(id.to_string()),
        Some(_) => json!(name().unwrap_or_else(|| id.to_string())),
        // Not managed, so not looked up.
        None => Value::Null,
    }
}

/// The mode written as octal digits (`644` means 0644), if one is given.
pub(super) fn mode(desired: &Attributes) -> Result<Option<u32>, Error> {
    let digits = match desired.get("mode") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let mode = u32::from_str_radix(&digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o7777);
    let refuse = || {
        Error::Failed(format!(
            "`mode` {digits} is no file mode: write octal digits, such as 644"
        ))
    };
    mode.map(Some).ok_or_else(refuse)
}

/// The ids of the owner and group that the model names.
pub(super) fn ids(desired: &Attributes) -> Result<(Option<u32>, Option<u32>), Error> {
    let owner = id(desired, "owner", "user", |name| {
        User::from_name(name)
            .ok()
            .flatten()
            .map(|user| user.uid.as_raw())
    })?;
    let group = id(desired, "group", "group", |name| {
        Group::from_name(name)
            .ok()
            .flatten()
            .map(|group| group.gid.as_raw())
    })?;
    Ok((owner, group))
}

fn id(
    desired: &Attributes,
    attribute: &str,
    kind: &str,
    look_up: impl FnOnce(&str) -> Option<u32>,
) -> Result<Option<u32>, Error> {
    let Some(name) = desired.get(attribute).and_then(Value::as_str) else {
        return Ok(None);
    };
    let id = name.parse().ok().or_else(|| look_up(name));
    id.map(Some)
        .ok_or_else(|| Error::Failed(format!("there is no {kind} `{name}` on this host")))
}

/// Sets owner, group and mode of a path that is not a symlink.
pub(super) fn apply(path: &Path, desired: &Attributes) -> Result<(), Error> {
    let (owner, group) = ids(desired)?;
    if owner.is_some() || group.is_some() {
        std::os::unix::fs::chown(path, owner, group)
            .map_err(Error::io("change the owner of", path))?;
    }
    if let Some(mode) = mode(desired)? {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(path, permissions)
            .map_err(Error::io("change the mode of", path))?;
    }
    Ok(())
}
