//! `steward::Cron`: a command that cron runs, as a file of its own in `/etc/cron.d`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{
    Attributes, Context, Error, Handler, change, differences, file, flag, is_not_there, parent,
    program, text,
};

const FOLDER: &str = "/etc/cron.d";
/// cron takes no file that others may write.
const MODE: u32 = 0o644;
/// The longest command, and the longest line with a variable.
const MOST_BYTES: usize = 998;
/// The fields of a job, with their smallest and largest number and their names.
const FIELDS: [(&str, u32, u32, &[&str]); 5] = [
    ("minute", 0, 59, &[]),
    ("hour", 0, 23, &[]),
    ("day", 1, 31, &[]),
    (
        "month",
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (
        "weekday",
        0,
        7,
        &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
    ),
];
const SPECIAL: &[&str] = &[
    "reboot", "hourly", "daily", "weekly", "monthly", "yearly", "annually", "midnight",
];

pub(super) struct Cron;

impl Handler for Cron {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let path = path(desired)?;
        if flag(desired, "purged") {
            // Whatever its job was, also one that cron would not take.
            return Ok((!is_not_there(&path)).then(Attributes::new));
        }
        let wanted = render(desired)?;
        let Some(content) = file::read_text(&path, wanted.len())? else {
            return Ok(None);
        };
        let mut current = Attributes::new();
        if content != wanted {
            current = parse(&content, desired).unwrap_or_default();
            if differences(&current, desired).is_empty() {
                // A comment, another order: what the attributes do not show.
                current.insert("content".to_owned(), json!([content, wanted]));
            }
        }
        let metadata = fs::symlink_metadata(&path).map_err(Error::io("look at", &path))?;
        if metadata.mode() & 0o7777 != MODE || metadata.uid() != 0 {
            let is = format!("{:o} of user {}", metadata.mode() & 0o7777, metadata.uid());
            current.insert("mode".to_owned(), json!(is));
        }
        Ok(Some(current))
    }

    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        let mut changes = differences(current, desired);
        if let Some([is, shall]) = current
            .get("content")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
        {
            changes.extend([change("content", is, shall)]);
        }
        if let Some(mode) = current.get("mode") {
            changes.extend([change("mode", mode, &json!("644 of user 0"))]);
        }
        changes
    }

    fn create(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        write(desired)
    }

    fn update(
        &self,
        _context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        write(desired)
    }

    fn delete(&self, _context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let path = path(desired)?;
        fs::remove_file(&path).map_err(Error::io("remove", &path))
    }
}

fn write(desired: &Attributes) -> Result<(), Error> {
    let path = path(desired)?;
    parent(&path)?;
    file::put(&path, render(desired)?.as_bytes(), &file::of_root())
}

/// cron does not read files with a dot in their name.
fn path(desired: &Attributes) -> Result<PathBuf, Error> {
    let name = text(desired, "name");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Error::Failed(format!(
            "`{name}` can not be the name of a file of cron: use letters, digits, `_` and `-`"
        )));
    }
    Ok(Path::new(FOLDER).join(name))
}

/// The whole file.
fn render(desired: &Attributes) -> Result<String, Error> {
    let mut lines = vec!["# Written by Steward; what is changed here is changed back.".to_owned()];
    let environment = desired.get("environment").and_then(Value::as_object);
    for (name, value) in environment.into_iter().flatten() {
        let other = value.to_string();
        lines.push(variable(name, value.as_str().unwrap_or(&other))?);
    }
    let when = match text(desired, "special") {
        "" => schedule(desired)?,
        special if SPECIAL.contains(&special) => format!("@{special}"),
        special => {
            return Err(Error::Failed(format!(
                "`special` {special} is not known: write one of {}",
                SPECIAL.join(", ")
            )));
        }
    };
    let (user, command) = (text(desired, "user"), text(desired, "command"));
    if user.is_empty() || user.contains(char::is_whitespace) {
        return Err(Error::Failed(format!("`user` {user:?} is no user")));
    }
    if command.trim().is_empty() || command.contains(['\n', '\0']) {
        let message =
            "`command` is empty or has more than one line: put it into a file, and run that";
        return Err(Error::Failed(message.to_owned()));
    }
    let command = escaped(command);
    check_length("`command`", &command)?;
    lines.push(format!("{when} {user} {command}\n"));
    Ok(lines.join("\n"))
}

/// cron 3.0pl1 of Debian leaves a whole file alone that has a longer command or variable; the one of Fedora, which comes with the
/// program `cronnext`, takes it.
fn check_length(what: &str, text: &str) -> Result<(), Error> {
    if text.len() <= MOST_BYTES || program::has("cronnext") {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "{what} has {} bytes in the file, and cron takes no more than {MOST_BYTES}: put it into a file of its own, and run that",
        text.len()
    )))
}

/// A command as cron reads it. A percent sign means a line break to cron, unless a backslash is before it; and of two backslashes
/// it takes one for the shell. A single one before anything else it leaves alone.
fn escaped(command: &str) -> String {
    let mut shown = String::with_capacity(command.len());
    let mut rest = command;
    while let Some(at) = rest.find(['\\', '%']) {
        shown.push_str(&rest[..at]);
        rest = &rest[at..];
        let n_slashes = rest.len() - rest.trim_start_matches('\\').len();
        let is_alone = n_slashes == 1 && !rest[1..].starts_with('%');
        let n_shown = if is_alone { 1 } else { 2 * n_slashes };
        shown.extend(std::iter::repeat_n('\\', n_shown));
        rest = &rest[n_slashes..];
        if let Some(after) = rest.strip_prefix('%') {
            shown.push_str("\\%");
            rest = after;
        }
    }
    shown + rest
}

/// What cron gives to the shell.
fn unescaped(shown: &str) -> String {
    let mut command = String::with_capacity(shown.len());
    let mut letters = shown.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_escape = letter == '\\' && letters.peek().is_some_and(|next| "\\%".contains(*next));
        command.extend(if is_escape {
            letters.next()
        } else {
            Some(letter)
        });
    }
    command
}

fn variable(name: &str, value: &str) -> Result<String, Error> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(Error::Failed(format!(
            "`{name}` can not be the name of a variable"
        )));
    }
    let quote = match (value.contains('"'), value.contains('\'')) {
        (false, _) => '"',
        (true, false) => '\'',
        (true, true) => {
            return Err(Error::Failed(format!(
                "the variable {name} has both kinds of quotes, which cron can not read"
            )));
        }
    };
    if value.contains(['\n', '\0']) {
        return Err(Error::Failed(format!(
            "the variable {name} has more than one line, which cron can not read"
        )));
    }
    let line = format!("{name}={quote}{value}{quote}");
    check_length(&format!("the variable {name}"), &line)?;
    Ok(line)
}

fn schedule(desired: &Attributes) -> Result<String, Error> {
    let mut parts = Vec::new();
    for (field, least, most, names) in FIELDS {
        let value = text(desired, field);
        let is_good = value
            .split(',')
            .all(|part| is_part(&part.to_ascii_lowercase(), least, most, names));
        if !is_good {
            return Err(Error::Failed(format!(
                "`{field}` {value:?} is no schedule: write `*`, numbers from {least} to {most}, ranges (`1-5`), steps \
                 (`*/5`) or lists of these"
            )));
        }
        parts.push(value);
    }
    Ok(parts.join(" "))
}

/// Whether a part of a list is `*`, a number or a name, or a range, perhaps with a step.
fn is_part(part: &str, least: u32, most: u32, names: &[&str]) -> bool {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let is_number = |text: &str| {
        !text.is_empty() && text.len() <= 2 && text.bytes().all(|one| one.is_ascii_digit())
    };
    if step.is_some_and(|step| !is_number(step) || step.parse() == Ok(0)) {
        return false;
    }
    let number = |text: &str| match names.iter().position(|name| *name == text) {
        Some(at) => Some(at as u32 + least),
        None => is_number(text).then(|| text.parse().ok()).flatten(),
    };
    let is_in = |number: Option<u32>| number.is_some_and(|number| (least..=most).contains(&number));
    match range.split_once('-') {
        _ if range == "*" => true,
        None => step.is_none() && is_in(number(range)),
        Some((first, last)) => {
            let (first, last) = (number(first), number(last));
            is_in(first) && is_in(last) && first <= last
        }
    }
}

/// The attributes of a file like ours; `None`: it is another kind of file.
fn parse(content: &str, desired: &Attributes) -> Option<Attributes> {
    let mut environment = Map::new();
    let mut job = None;
    for line in content.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((name, value)) = line.split_once('=')
            && !name.contains(char::is_whitespace)
        {
            let quote = value.chars().next().filter(|first| "\"'".contains(*first));
            let inner = quote.and_then(|quote| value.strip_prefix(quote)?.strip_suffix(quote));
            environment.insert(name.to_owned(), json!(inner.unwrap_or(value)));
        } else if job.replace(line).is_some() {
            return None;
        }
    }
    let mut current = Attributes::from_iter([("environment".to_owned(), json!(environment))]);
    let mut rest = job?;
    let mut next = || {
        let (word, after) = rest.split_once(char::is_whitespace)?;
        rest = after.trim_start();
        Some(word)
    };
    let first = next()?;
    if let Some(special) = first.strip_prefix('@') {
        current.insert("special".to_owned(), json!(special));
        // They say nothing beside it.
        for (field, ..) in FIELDS {
            current.insert(field.to_owned(), desired.get(field)?.clone());
        }
    } else {
        current.insert("special".to_owned(), json!(""));
        current.insert("minute".to_owned(), json!(first));
        for (field, ..) in &FIELDS[1..] {
            current.insert((*field).to_owned(), json!(next()?));
        }
    }
    current.insert("user".to_owned(), json!(next()?));
    current.insert("command".to_owned(), json!(unescaped(rest)));
    Some(current)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: commands with percent signs and backslashes. Expected: they stand in the file as cron 3.0pl1 of Debian takes them, which
    /// was tried, and are read again as they were.
    #[test]
    fn a_command_gets_through_cron_as_it_is() {
        for (command, shown) in [
            ("date +%F", "date +\\%F"),
            (r"date +\%F", r"date +\\\%F"),
            (r"printf 'a\n'", r"printf 'a\n'"),
            (r"sed 's/\\/x/'", r"sed 's/\\\\/x/'"),
            (r"a\\\%%", r"a\\\\\\\%\%"),
            (r"ends with \", r"ends with \"),
        ] {
            assert_eq!(escaped(command), shown);
            assert_eq!(unescaped(shown), command);
        }
    }

    #[test]
    fn a_schedule_is_checked_part_by_part() {
        let names = FIELDS[4].3;
        for good in ["*", "*/5", "1", "1-5", "1-5/2", "mon", "mon-fri", "7"] {
            assert!(is_part(good, 0, 7, names), "{good}");
        }
        for bad in [
            "", "8", "5-1", "*/0", "1/2", "-1", "1-", "x", "1 2", "+1", "001",
        ] {
            assert!(!is_part(bad, 0, 7, names), "{bad}");
        }
    }

    /// Given: commands and variables at the limit of cron, a percent sign among them, which takes two bytes, and beyond it. Expected:
    /// what cron would leave alone without a word is refused.
    #[test]
    fn what_is_too_long_for_cron_is_refused() {
        let job = |command: &str, value: &str| {
            let attributes = json!({
                "command": command, "user": "root", "special": "daily", "environment": {"A": value},
            });
            render(attributes.as_object().unwrap())
        };
        let long = |n: usize| "x".repeat(n);
        assert!(job(&long(998), &long(994)).is_ok());
        if program::has("cronnext") {
            return;
        }
        for (command, value, what) in [
            (long(999), String::new(), "`command`"),
            (format!("%{}", long(997)), String::new(), "`command`"),
            (long(1), long(995), "the variable A"),
        ] {
            let error = job(&command, &value).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{what} has 999 bytes")),
                "{error}"
            );
        }
    }
}
