//! Owner, group and mode of a path, as the model writes them.

use std::fs::{self, Metadata, Permissions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use nix::unistd::{Gid, Group, Uid, User};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
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
    // The largest number means "no change" to the kernel, and nobody.
    let number = name.parse::<u32>().ok().filter(|id| *id != u32::MAX);
    let id = number.or_else(|| look_up(name));
    id.map(Some)
        .ok_or_else(|| Error::Failed(format!("there is no {kind} `{name}` on this host")))
}

/// What becomes of a symlink in the place of what is to be changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Symlinks {
    Refused,
    Followed,
}

/// Sets owner, group and mode of what is at a path. It is opened once, and only what is open is changed: whoever may write in its
/// directory could put a symlink to something else in its place meanwhile.
pub(super) fn apply(path: &Path, desired: &Attributes, symlinks: Symlinks) -> Result<(), Error> {
    check_links_above(path)?;
    let (owner, group) = ids(desired)?;
    let mode = mode(desired)?;
    let file = open(path, symlinks)?;
    if owner.is_some() || group.is_some() {
        let owner = owner.map(rustix::process::Uid::from_raw);
        let group = group.map(rustix::process::Gid::from_raw);
        rustix::fs::chownat(&file, "", owner, group, AtFlags::EMPTY_PATH)
            .map_err(|error| Error::io("change the owner of", path)(error.into()))?;
    }
    if let Some(mode) = mode {
        // It is open without the right to read it, so that its mode is changed by way of this link.
        let way = format!("/proc/self/fd/{}", file.as_raw_fd());
        fs::set_permissions(way, Permissions::from_mode(mode))
            .map_err(Error::io("change the mode of", path))?;
    }
    Ok(())
}

/// Opens a path for its attributes, whatever its mode is.
fn open(path: &Path, symlinks: Symlinks) -> Result<OwnedFd, Error> {
    let fail = |error: Errno| Error::io("open", path)(error.into());
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(fail)?;
    let found = fstat(&file).map_err(fail)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Ok(file);
    }
    if symlinks == Symlinks::Refused {
        return Err(Error::Failed(format!(
            "{} has just become a symlink: nothing that it leads to is changed",
            path.display()
        )));
    }
    let target = rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?;
    let leads_to = fstat(&target).map_err(fail)?;
    check_link(path, found.st_uid, leads_to.st_uid)?;
    Ok(target)
}

/// Refuses symlinks on the way to a path that somebody made to what is not theirs: what is changed behind one would be what they
/// chose, with rights that they do not have.
pub(super) fn check_links_above(path: &Path) -> Result<(), Error> {
    for above in path.ancestors().skip(1) {
        let is_link = |found: &Metadata| found.is_symlink();
        let Some(link) = fs::symlink_metadata(above).ok().filter(is_link) else {
            continue;
        };
        if let Ok(target) = fs::metadata(above) {
            check_link(above, link.uid(), target.uid())?;
        }
    }
    Ok(())
}

/// Symlinks of root and our own are good, and those of others that lead to what belongs to them.
fn check_link(path: &Path, maker: u32, owner: u32) -> Result<(), Error> {
    let own = rustix::process::geteuid().as_raw();
    if maker == 0 || maker == own || maker == owner {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{} is a symlink that user {maker} made to what belongs to user {owner}: name the place that it leads to, or remove it",
        path.display()
    )))
}
