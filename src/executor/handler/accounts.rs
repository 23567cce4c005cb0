//! The machine's own databases of accounts, read as the files that they are: no program is started to see that all is well.

use std::path::Path;
use std::time::Duration;

use super::program::Program;
use super::{Attributes, Context, Error, text};

pub(super) const PASSWD: &str = "/etc/passwd";
pub(super) const GROUP: &str = "/etc/group";
pub(super) const SHADOW: &str = "/etc/shadow";

/// The text of a database.
pub(super) fn database(path: &str) -> Result<String, Error> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        // A new root directory has none yet.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Error::io("read", Path::new(path))(error)),
    }
}

/// Runs one of the programs that change the databases; they wait for each other's lock.
pub(super) fn run(
    context: &mut Context,
    program: &str,
    arguments: &[&str],
    limit: Duration,
) -> Result<(), Error> {
    let program = Program::changing(program, limit)?;
    let program = program.arguments(arguments.iter().copied());
    program.must_succeed(context).map(|_| ())
}

/// An account or group that the machine knows, and that is not in its own database.
pub(super) fn known_elsewhere(kind: &str, name: &str, database: &str) -> Error {
    Error::Failed(format!(
        "the {kind} {name} is not in {database}, but known from elsewhere (such as LDAP): manage it there"
    ))
}

/// The fields of the line that begins with `name`, at least `n_fields`.
pub(super) fn entry<'a>(database: &'a str, name: &str, n_fields: usize) -> Option<Vec<&'a str>> {
    let mut lines = database.lines().map(|line| line.split(':').collect());
    lines.find(|fields: &Vec<&str>| fields[0] == name && fields.len() >= n_fields)
}

/// The name of a group in `/etc/group`.
pub(super) fn group_name<'a>(groups: &'a str, gid: &str) -> Option<&'a str> {
    let mut lines = groups.lines().map(|line| line.split(':'));
    lines.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == gid).then_some(name)
    })
}

/// The names of the groups that list `user` as a member.
pub(super) fn groups_with<'a>(groups: &'a str, user: &str) -> Vec<&'a str> {
    let named = |line: &'a str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let mut members = fields.nth(2)?.split(',');
        members.any(|member| member == user).then_some(name)
    };
    groups.lines().filter_map(named).collect()
}

/// The name of the account or group; it goes into commands and files, so not every text is one.
pub(super) fn name(desired: &Attributes) -> Result<&str, Error> {
    let name = text(desired, "name");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.-$".contains(letter);
    if name.is_empty() || name.starts_with('-') || !name.chars().all(is_plain) {
        return Err(Error::Failed(format!(
            "`{name}` can not be the name of an account: use letters, digits, `_`, `-` and `.`"
        )));
    }
    Ok(name)
}

/// Without repetition: the wanted items in the wanted order if they are the same ones, so that order makes no difference; otherwise those that
/// there are, sorted.
pub(super) fn same_order<'a>(mut current: Vec<&'a str>, desired: &[&'a str]) -> Vec<&'a str> {
    let mut sorted = desired.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    current.sort_unstable();
    current.dedup();
    if sorted == current {
        desired.to_vec()
    } else {
        current
    }
}
