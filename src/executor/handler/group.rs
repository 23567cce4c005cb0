//! `steward::Group`: a group of `/etc/group`. Read from the file, changed by the programs that lock it.

use std::time::Duration;

use serde_json::{Value, json};

use super::accounts::{self, GROUP, database, entry, same_order};
use super::{Attributes, Context, Error, Handler, flag, texts};

/// The programs wait a moment for their lock.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) struct Group;

impl Handler for Group {
    fn read(
        &self,
        _context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let name = accounts::name(desired)?;
        let members = texts(desired, "members").unwrap_or_default();
        let is_wrong =
            |member: &&&str| member.is_empty() || member.contains([',', ':', '\n', '\0']);
        if let Some(member) = members.iter().find(is_wrong) {
            return Err(Error::Failed(format!(
                "`members` has {member:?}, which is no name of a user"
            )));
        }
        gid(desired)?;
        let groups = database(GROUP)?;
        let Some(fields) = entry(&groups, name, 4) else {
            return match nix::unistd::Group::from_name(name) {
                Ok(Some(_)) => Err(accounts::known_elsewhere("group", name, GROUP)),
                _ => Ok(None),
            };
        };
        let gid = fields[2].parse::<u32>().ok();
        let members = fields[3].split(',').filter(|member| !member.is_empty());
        let wanted = texts(desired, "members").unwrap_or_default();
        let members = same_order(members.collect(), &wanted);
        Ok(Some(Attributes::from_iter([
            ("gid".to_owned(), json!(gid)),
            ("members".to_owned(), json!(members)),
        ])))
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        let gid = gid(desired)?;
        let mut arguments = Vec::new();
        if flag(desired, "system") {
            arguments.push("--system");
        }
        if let Some(gid) = &gid {
            arguments.extend(["--gid", gid]);
        }
        arguments.push(accounts::name(desired)?);
        run(context, "groupadd", &arguments)?;
        set_members(context, desired)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        changes: &Attributes,
    ) -> Result<(), Error> {
        if let (true, Some(gid)) = (changes.contains_key("gid"), gid(desired)?) {
            let name = accounts::name(desired)?;
            run(context, "groupmod", &["--gid", &gid, name])?;
        }
        if changes.contains_key("members") {
            set_members(context, desired)?;
        }
        Ok(())
    }

    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        run(context, "groupdel", &[accounts::name(desired)?])
    }
}

fn gid(desired: &Attributes) -> Result<Option<String>, Error> {
    match desired.get("gid") {
        None | Some(Value::Null) => Ok(None),
        Some(gid) if gid.as_u64().is_some() => Ok(Some(gid.to_string())),
        Some(gid) => Err(Error::Failed(format!(
            "`gid` {gid} is no number of a group"
        ))),
    }
}

fn set_members(context: &mut Context, desired: &Attributes) -> Result<(), Error> {
    let Some(mut members) = texts(desired, "members") else {
        return Ok(());
    };
    // gpasswd would write a name down as often as it is given.
    members.sort_unstable();
    members.dedup();
    let members = members.join(",");
    let name = accounts::name(desired)?;
    run(context, "gpasswd", &["--members", &members, name])
}

fn run(context: &mut Context, program: &str, arguments: &[&str]) -> Result<(), Error> {
    accounts::run(context, program, arguments, LIMIT)
}
