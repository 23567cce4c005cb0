//! `steward::Unit`: a unit of systemd, or a file that adds to one, in `/etc/systemd/system`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::program::Program;
use super::{Attributes, Context, Error, Handler, file, text};

const UNITS: &str = "/etc/systemd/system";
/// There only where systemd runs.
const RUNNING: &str = "/run/systemd/system";
/// What the name of a unit ends in; systemd takes any other name for that of a service, and reads no such file.
pub(super) const SUFFIXES: &[&str] = &[
    "service",
    "socket",
    "device",
    "mount",
    "automount",
    "swap",
    "target",
    "path",
    "timer",
    "slice",
    "scope",
];
/// systemd reads all units again.
const LIMIT: Duration = Duration::from_secs(120);

pub(super) struct Unit;

impl Handler for Unit {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        let Some(content) = file::read_text(&path, text(desired, "content").len())? else {
            return Ok(None);
        };
        let attributes = [("content".to_owned(), json!(content))];
        Ok(Some(Attributes::from_iter(attributes)))
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        write(context, desired)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        write(context, desired)
    }

    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        if let Some(folder) = path.parent().filter(|folder| folder != &Path::new(UNITS)) {
            // It stays when there are other files that add to the unit.
            let _ = fs::remove_dir(folder);
        }
        reload_units(context)
    }
}

/// Writes the file and has systemd read it. If that fails the file is as it was, or nobody would ever try again.
fn write(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let path = path(desired)?;
    let old = fs::read(&path).ok();
    if let Some(folder) = path.parent().filter(|folder| folder != &Path::new(UNITS)) {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    }
    file::put(&path, text(desired, "content").as_bytes(), &file::of_root())?;
    let done = reload_units(context);
    if done.is_err() {
        match old {
            Some(old) => file::put(&path, &old, &file::of_root())?,
            None => fs::remove_file(&path).map_err(Error::io("remove", &path))?,
        }
    }
    done
}

/// Whether this host was started by systemd: not so in most containers.
pub(super) fn is_systemd_running() -> bool {
    Path::new(RUNNING).is_dir()
}

pub(super) fn reload_units(context: &mut Context) -> Result<(), Error> {
    if !is_systemd_running() {
        context.debug("systemd does not run here: it reads its units when it starts");
        return Ok(());
    }
    let program = Program::changing("systemctl", LIMIT)?.arguments(["daemon-reload"]);
    program.must_succeed(context).map(|_| ())
}

/// The place of the file; its name goes into a path.
fn path(desired: &Attributes) -> Result<PathBuf, Error> {
    let name = text(desired, "name");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || ":_.@-\\".contains(letter);
    let is_name =
        |part: &str| part.contains('.') && !part.starts_with('.') && part.chars().all(is_plain);
    let is_unit = |unit: &str| {
        let suffix = unit.rsplit_once('.').map(|(_, suffix)| suffix);
        is_name(unit) && suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix))
    };
    let is_good = match name.split_once('/') {
        None => is_unit(name),
        Some((unit, file)) => unit.strip_suffix(".d").is_some_and(is_unit) && is_name(file),
    };
    if is_good {
        return Ok(Path::new(UNITS).join(name));
    }
    Err(Error::Failed(format!(
        "`{name}` can not be the name of a unit: write it with its suffix, `backup.service`, or what adds to one, \
         `backup.service.d/limits.conf`"
    )))
}
