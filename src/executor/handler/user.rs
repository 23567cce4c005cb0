//! `steward::User`: an account of `/etc/passwd`. Read from the files, changed by the programs that lock them; a password
//! goes to its program over a pipe, since everybody on the host can read arguments.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::accounts::{
    self, GROUP, PASSWD, SHADOW, database, entry, group_name, groups_with, same_order,
};
use super::program::Program;
use super::{Attributes, Context, Error, Handler, flag, given, texts};

/// Making, moving and removing a home directory takes its time.
const LIMIT: Duration = Duration::from_secs(300);

pub(super) struct User;

impl Handler for User {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let name = accounts::name(desired)?;
        if !flag(desired, "purged") {
            // What could never be made is refused by a dry run as well.
            options(desired, |_| true)?;
            check_groups(desired)?;
            check_hash(desired)?;
        }
        let accounts = database(PASSWD)?;
        let Some(fields) = entry(&accounts, name, 7) else {
            return match nix::unistd::User::from_name(name) {
                Ok(Some(_)) => Err(accounts::known_elsewhere("user", name, PASSWD)),
                _ => Ok(None),
            };
        };
        let groups = database(GROUP)?;
        let mut current = Attributes::from_iter([
            ("uid".to_owned(), json!(fields[2].parse::<u32>().ok())),
            ("group".to_owned(), first_group(&groups, fields[3], desired)),
            (
                "groups".to_owned(),
                json!(further_groups(&groups, name, desired)),
            ),
            ("comment".to_owned(), json!(fields[4])),
            ("home".to_owned(), json!(fields[5])),
            ("shell".to_owned(), json!(fields[6])),
        ]);
        let is_managed = |name| desired.get(name).is_some_and(|value| !value.is_null());
        if is_managed("password_hash") || is_managed("locked") {
            let secrets = database(SHADOW)?;
            let hash = entry(&secrets, name, 2).map_or("", |fields| fields[1]);
            let password = hash.trim_start_matches('!');
            let is_locked = hash.starts_with('!');
            // Without a password there is nothing to unlock: nobody logs in by one.
            let has_none = is_locked && password.is_empty();
            let is_unlocked = desired.get("locked") == Some(&Value::Bool(false));
            if has_none && is_unlocked && given(desired, "password_hash").is_none() {
                context.debug(&format!("{name} has no password that could be unlocked"));
                current.insert("locked".to_owned(), json!(false));
            } else {
                current.insert("locked".to_owned(), json!(is_locked));
            }
            current.insert("password_hash".to_owned(), json!(password));
        }
        Ok(Some(current))
    }

    fn secrets(&self) -> &'static [&'static str] {
        &["password_hash"]
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let name = accounts::name(desired)?;
        let home = if flag(desired, "create_home") {
            "--create-home"
        } else {
            "--no-create-home"
        };
        let mut arguments = vec![home];
        if flag(desired, "system") {
            arguments.push("--system");
        }
        let all = options(desired, |_| true)?;
        arguments.extend(all.iter().map(String::as_str));
        let is_group = entry(&database(GROUP)?, name, 4).is_some();
        if given(desired, "group").is_none() && is_group {
            // It would make a group of this name, and does not take one that is there for it.
            arguments.extend(["--gid", name]);
        }
        arguments.push(name);
        run(context, "useradd", &arguments)?;
        set_password(context, desired)?;
        set_lock(context, desired)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        let name = accounts::name(desired)?;
        let options = options(desired, |attribute| changes.contains_key(attribute))?;
        if flag(desired, "move_home") && changes.contains_key("home") {
            check_move(context, desired, changes)?;
        }
        if !options.is_empty() {
            let mut arguments: Vec<&str> = options.iter().map(String::as_str).collect();
            if flag(desired, "append_groups") && changes.contains_key("groups") {
                arguments.push("--append");
            }
            if flag(desired, "move_home") && changes.contains_key("home") {
                arguments.push("--move-home");
            }
            arguments.push(name);
            run(context, "usermod", &arguments)?;
        }
        if changes.contains_key("password_hash") {
            // Which also unlocks it.
            set_password(context, desired)?;
        }
        if changes.contains_key("locked") || changes.contains_key("password_hash") {
            set_lock(context, desired)?;
        }
        Ok(())
    }

    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let name = accounts::name(desired)?;
        if flag(desired, "remove_home") {
            check_home(name)?;
            run(context, "userdel", &["--remove", name])
        } else {
            run(context, "userdel", &[name])
        }
    }
}

/// As a name or a number, as the model has it.
fn first_group(groups: &str, gid: &str, desired: &Attributes) -> Value {
    match given(desired, "group") {
        // A number with zeros before it is the same one.
        Some(wanted)
            if wanted
                .parse::<u32>()
                .is_ok_and(|wanted| gid.parse() == Ok(wanted)) =>
        {
            json!(wanted)
        }
        Some(wanted) if wanted.parse::<u32>().is_ok() => json!(gid),
        _ => json!(group_name(groups, gid).unwrap_or(gid)),
    }
}

fn further_groups<'a>(groups: &'a str, name: &str, desired: &'a Attributes) -> Vec<&'a str> {
    let current = groups_with(groups, name);
    let wanted = texts(desired, "groups").unwrap_or_default();
    let has_all = wanted.iter().all(|group| current.contains(group));
    if flag(desired, "append_groups") && has_all {
        return wanted;
    }
    same_order(current, &wanted)
}

/// The options of `useradd` and `usermod` for the attributes that are managed and `wanted` now.
fn options(desired: &Attributes, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, Error> {
    let mut options = Vec::new();
    for (attribute, option) in [
        ("uid", "--uid"),
        ("group", "--gid"),
        ("groups", "--groups"),
        ("home", "--home"),
        ("shell", "--shell"),
        ("comment", "--comment"),
    ] {
        let text = match desired.get(attribute).filter(|_| wanted(attribute)) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(_)) => texts(desired, attribute).unwrap_or_default().join(","),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        if text.contains([':', '\n', '\0']) {
            return Err(Error::Failed(format!(
                "`{attribute}` holds a colon, a line break or a NUL character, which {PASSWD} can not"
            )));
        }
        options.extend([option.to_owned(), text]);
    }
    Ok(options)
}

/// Further groups are compared by their names, and a comma stands between them.
fn check_groups(desired: &Attributes) -> Result<(), Error> {
    let groups = texts(desired, "groups").unwrap_or_default();
    let is_wrong = |group: &&&str| {
        group.is_empty() || group.contains(',') || group.bytes().all(|one| one.is_ascii_digit())
    };
    match groups.iter().find(is_wrong) {
        None => Ok(()),
        Some(group) => Err(Error::Failed(format!(
            "`groups` has {group:?}, which is no name of a group: write one name for each"
        ))),
    }
}

/// `usermod` writes down the new home directory before it sees that it cannot move the old one there, and nobody would do it
/// the next time.
fn check_move(
    context: &mut Context,
    desired: &Attributes,
    changes: &Attributes,
) -> Result<(), Error> {
    let new = given(desired, "home").unwrap_or_default();
    if Path::new(new).symlink_metadata().is_ok() {
        return Err(Error::Failed(format!(
            "the home directory cannot be moved to {new}, where something is already: remove that, or set `move_home` \
             to false"
        )));
    }
    let old = changes["home"]["current"].as_str().unwrap_or_default();
    if !Path::new(old).is_dir() {
        context.warning(&format!("there is no {old} that could be moved to {new}"));
    }
    Ok(())
}

/// `userdel` removes the account before it sees that it does not remove the home directory.
fn check_home(name: &str) -> Result<(), Error> {
    let accounts = database(PASSWD)?;
    let Some(fields) = entry(&accounts, name, 7) else {
        return Ok(());
    };
    let (uid, home) = (fields[2], fields[5]);
    let owner = Path::new(home).symlink_metadata().map(|found| found.uid());
    match owner {
        Ok(owner) if uid.parse() != Ok(owner) => Err(Error::Failed(format!(
            "the home directory {home} of {name} belongs to user {owner}, so it is not removed with the account: remove \
             it, or set `remove_home` to false"
        ))),
        _ => Ok(()),
    }
}

fn check_hash(desired: &Attributes) -> Result<(), Error> {
    let Some(hash) = given(desired, "password_hash") else {
        return Ok(());
    };
    // With an empty one everybody logs in.
    if hash.is_empty() || hash.contains([':', '\n', '\0']) || hash.starts_with('!') {
        let message = "`password_hash` is no hash of a password: make one with `openssl passwd -6`; \
                       to lock the account, set `locked`";
        return Err(Error::Failed(message.to_owned()));
    }
    Ok(())
}

fn set_password(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let Some(hash) = given(desired, "password_hash") else {
        return Ok(());
    };
    check_hash(desired)?;
    let line = format!("{}:{hash}\n", accounts::name(desired)?);
    let program = Program::changing("chpasswd", LIMIT)?.arguments(["--encrypted"]);
    program.input(line).must_succeed(context).map(|_| ())
}

fn set_lock(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let option = match desired.get("locked").and_then(Value::as_bool) {
        None => return Ok(()),
        Some(true) => "--lock",
        Some(false) => "--unlock",
    };
    run(context, "usermod", &[option, accounts::name(desired)?])
}

fn run(context: &mut Context, program: &str, arguments: &[&str]) -> Result<(), Error> {
    accounts::run(context, program, arguments, LIMIT)
}
