//! Dependencies that follow from what resources are: a file needs the directories above it.
//!
//! Where both are to be removed it is the other way round, since a directory has to be empty, a group nobody's first one, and
//! a service stopped and disabled before its unit goes.

use std::borrow::Cow;
use std::iter;

use super::catalog::{Catalog, Requires};
use crate::hash::{Map, Set};
use crate::runtime::Machine;
use crate::types::{InstId, Value};

/// Resources that are looked at to see whether one requires another, for one pair that is to be removed.
const MOST_STEPS: usize = 10_000;
/// What the name of a unit ends in; systemd takes any other name for that of a service.
const UNIT_SUFFIXES: &[&str] = &[
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

/// Pairs of which one comes before the other unless the model says otherwise. What is to be removed: what is in a place, or uses
/// it, goes before the place. What is to be there: an account before what belongs to it.
pub(super) struct Preferences(Vec<Preference>);

struct Preference {
    first: u32,
    then: u32,
}

impl Preferences {
    fn note(&mut self, first: usize, then: u32) {
        let first = first as u32;
        self.0.push(Preference { first, then });
    }

    /// Adds what follows from them to all other dependencies. It is left out where the model has it the other way round:
    /// what fails then is tried again, when the other one is gone.
    pub(super) fn add_to(self, requires: &mut [Requires]) {
        for Preference { first, then } in self.0 {
            if !leads_to(requires, first, then) {
                requires[then as usize].push(first);
            }
        }
    }
}

/// Whether one resource requires the other one, perhaps by way of others. When that takes too long to find out, it does.
fn leads_to(requires: &[Requires], from: u32, to: u32) -> bool {
    let mut seen = Set::default();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        if at == to || seen.len() > MOST_STEPS {
            return true;
        }
        if seen.insert(at) {
            open.extend(&requires[at as usize]);
        }
    }
    false
}

/// A file, symbolic link or directory requires every exported directory of its host that is an ancestor of its path; a user
/// the groups, and a service the units, of its host that it names; and what belongs to a user or a group, that account.
pub(super) fn add(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) -> Preferences {
    let mut preferences = Preferences(Vec::new());
    add_directories(machine, catalog, requires, &mut preferences);
    add_named(machine, catalog, requires, &mut preferences);
    add_owners(machine, catalog, &mut preferences);
    preferences
}

fn is_purged(machine: &Machine, owner: InstId) -> bool {
    matches!(
        machine.state.read_attribute(owner, "purged"),
        Ok(Value::Bool(true))
    )
}

/// The host of the instance behind a resource.
fn host_of(machine: &Machine, owner: InstId) -> Option<InstId> {
    match machine.state.read_attribute(owner, "host") {
        Ok(Value::Instance(host)) => Some(host),
        _ => None,
    }
}

fn add_directories(
    machine: &Machine,
    catalog: &Catalog,
    requires: &mut [Requires],
    preferences: &mut Preferences,
) {
    let mut directories: Map<(InstId, &str), u32> = Map::default();
    for at in 0..catalog.len() {
        if matches!(
            catalog.entity_type(machine, at),
            "fs::Directory" | "std::Directory" | "steward::Directory"
        ) && let Some(host) = host_of(machine, catalog.owner(at))
        {
            let (_, path) = catalog.agent_and_value(machine, at);
            directories.insert((host, trimmed(path)), at as u32);
        }
    }
    if directories.is_empty() {
        return;
    }
    for (at, requires) in requires.iter_mut().enumerate() {
        let placed = is_placed(catalog.entity_type(machine, at));
        let host = placed.then(|| host_of(machine, catalog.owner(at)));
        let Some(host) = host.flatten() else {
            continue;
        };
        let path = trimmed(catalog.agent_and_value(machine, at).1);
        let is_removed = is_purged(machine, catalog.owner(at));
        for (end, _) in path.match_indices('/') {
            let ancestor = if end == 0 { "/" } else { &path[..end] };
            if ancestor.len() < path.len()
                && let Some(directory) = directories.get(&(host, ancestor))
                && *directory != at as u32
            {
                if is_removed && is_purged(machine, catalog.owner(*directory as usize)) {
                    preferences.note(at, *directory);
                } else {
                    requires.push(*directory);
                }
            }
        }
    }
}

/// Whether the value of its id is a path that has to be in a directory.
fn is_placed(entity_type: &str) -> bool {
    matches!(
        entity_type,
        "fs::File"
            | "fs::Directory"
            | "fs::Symlink"
            | "std::File"
            | "std::Directory"
            | "std::Symlink"
            | "steward::File"
            | "steward::Directory"
            | "steward::Symlink"
            | "steward::Checkout"
            | "steward::Archive"
    )
}

/// Groups and units by their host, kind and name. A unit may have several files.
type Named<'a> = Map<(InstId, &'static str, &'a str), Requires>;

fn add_named(
    machine: &Machine,
    catalog: &Catalog,
    requires: &mut [Requires],
    preferences: &mut Preferences,
) {
    let mut named: Named = Map::default();
    for at in 0..catalog.len() {
        let kind = match catalog.entity_type(machine, at) {
            "steward::Group" => "group",
            "steward::Unit" => "unit",
            _ => continue,
        };
        if let Some(host) = host_of(machine, catalog.owner(at)) {
            let (_, name) = catalog.agent_and_value(machine, at);
            // A file that adds to a unit belongs to this unit.
            let name = name.split_once(".d/").map_or(name, |(unit, _)| unit);
            named.entry((host, kind, name)).or_default().push(at as u32);
        }
    }
    if named.is_empty() {
        return;
    }
    for (at, requires) in requires.iter_mut().enumerate() {
        let kind = match catalog.entity_type(machine, at) {
            "steward::User" => "group",
            "steward::Service" => "unit",
            _ => continue,
        };
        let owner = catalog.owner(at);
        let Some(host) = host_of(machine, owner) else {
            continue;
        };
        let names = if kind == "unit" {
            units_of(catalog.agent_and_value(machine, at).1)
        } else {
            groups_of(machine, owner)
        };
        for name in names {
            for found in named.get(&(host, kind, &*name)).into_iter().flatten() {
                let used = *found as usize;
                let members = members_of(machine, catalog.owner(used));
                if goes_first(machine, catalog, at, used) {
                    preferences.note(at, *found);
                } else if let Some(members) = members {
                    // One that lists its members comes after these, and before others.
                    let (_, user) = catalog.agent_and_value(machine, at);
                    if !members.contains(&user) {
                        preferences.note(used, at as u32);
                    }
                } else {
                    requires.push(*found);
                }
            }
        }
    }
}

/// What belongs to an account of its host, or is run by it, comes after the account. Not where the model has it the other way
/// round: a home directory may have to be there before its user.
fn add_owners(machine: &Machine, catalog: &Catalog, preferences: &mut Preferences) {
    let mut accounts: Map<(InstId, &str, &str), u32> = Map::default();
    for at in 0..catalog.len() {
        let kind = match catalog.entity_type(machine, at) {
            "steward::User" => "user",
            "steward::Group" => "group",
            _ => continue,
        };
        let owner = catalog.owner(at);
        if !is_purged(machine, owner)
            && let Some(host) = host_of(machine, owner)
        {
            let (_, name) = catalog.agent_and_value(machine, at);
            accounts.insert((host, kind, name), at as u32);
        }
    }
    if accounts.is_empty() {
        return;
    }
    for at in 0..catalog.len() {
        if catalog.entity_type(machine, at) == "steward::Group" {
            add_members(machine, catalog, at, &accounts, preferences);
            continue;
        }
        let named: &[(&str, &str)] = match catalog.entity_type(machine, at) {
            "steward::File" | "steward::Directory" | "steward::Archive" | "fs::File"
            | "fs::Directory" | "std::File" | "std::ConfigFile" | "std::Directory" => {
                &[("owner", "user"), ("group", "group")]
            }
            "steward::Cron" => &[("user", "user")],
            _ => continue,
        };
        let owner = catalog.owner(at);
        let Some(host) = host_of(machine, owner) else {
            continue;
        };
        if is_purged(machine, owner) {
            continue;
        }
        for (attribute, kind) in named {
            let Ok(Value::Str(name)) = machine.state.read_attribute(owner, attribute) else {
                continue;
            };
            let name = machine.state.heap.str(name);
            if let Some(account) = accounts.get(&(host, *kind, name)) {
                preferences.note(*account as usize, at as u32);
            }
        }
    }
}

/// A group that lists its members comes after those of its host, but for one that names the group itself.
fn add_members(
    machine: &Machine,
    catalog: &Catalog,
    at: usize,
    accounts: &Map<(InstId, &str, &str), u32>,
    preferences: &mut Preferences,
) {
    let group = catalog.owner(at);
    let Some(host) = host_of(machine, group).filter(|_| !is_purged(machine, group)) else {
        return;
    };
    let (_, name) = catalog.agent_and_value(machine, at);
    for member in members_of(machine, group).into_iter().flatten() {
        if let Some(user) = accounts.get(&(host, "user", member))
            && !groups_of(machine, catalog.owner(*user as usize)).contains(&Cow::Borrowed(name))
        {
            preferences.note(*user as usize, at as u32);
        }
    }
}

/// Whether a user or a service goes, or is stopped, before the group or unit that it uses is removed.
fn goes_first(machine: &Machine, catalog: &Catalog, at: usize, used: usize) -> bool {
    if !is_purged(machine, catalog.owner(used)) {
        return false;
    }
    match catalog.entity_type(machine, used) {
        // A service goes on without a file that adds to its unit, and is started anew for that.
        "steward::Unit" => !catalog.agent_and_value(machine, used).1.contains(".d/"),
        _ => is_purged(machine, catalog.owner(at)),
    }
}

/// The units that a service is made of: its own, for `web@one` the template `web@`, and for a timer or a path the service of
/// that name, without which systemd does not start them.
fn units_of(name: &str) -> Vec<Cow<'_, str>> {
    let activated = name
        .strip_suffix(".timer")
        .or_else(|| name.strip_suffix(".path"));
    let activated = activated.map(|stem| format!("{stem}.service"));
    let of_activated = activated.iter().flat_map(|name| {
        let names = with_template(name).into_iter();
        names.map(|name| Cow::Owned(name.into_owned()))
    });
    with_template(name)
        .into_iter()
        .chain(of_activated)
        .collect()
}

fn with_template(name: &str) -> Vec<Cow<'_, str>> {
    let name = match name.rsplit_once('.') {
        Some((_, suffix)) if UNIT_SUFFIXES.contains(&suffix) => Cow::Borrowed(name),
        _ => Cow::Owned(format!("{name}.service")),
    };
    let template = name.split_once('@').and_then(|(before, rest)| {
        let (_, suffix) = rest.rsplit_once('.')?;
        Some(Cow::Owned(format!("{before}@.{suffix}")))
    });
    iter::once(name).chain(template).collect()
}

/// The members that a group lists, if it does.
fn members_of<'m>(machine: &'m Machine, group: InstId) -> Option<Vec<&'m str>> {
    let Ok(Value::List(members)) = machine.state.read_attribute(group, "members") else {
        return None;
    };
    let heap = &machine.state.heap;
    let text = |value: &Value| match value {
        Value::Str(text) => Some(heap.str(*text)),
        _ => None,
    };
    Some(heap.list(members).iter().filter_map(text).collect())
}

/// The names of the first and the further groups of a user.
fn groups_of<'a>(machine: &'a Machine, user: InstId) -> Vec<Cow<'a, str>> {
    let heap = &machine.state.heap;
    let mut values = Vec::new();
    for attribute in ["group", "groups"] {
        match machine.state.read_attribute(user, attribute) {
            Ok(Value::List(list)) => values.extend(heap.list(list).iter().copied()),
            Ok(value) => values.push(value),
            Err(_) => (),
        }
    }
    let text = |value: Value| match value {
        Value::Str(text) => Some(Cow::Borrowed(heap.str(text))),
        _ => None,
    };
    values.into_iter().filter_map(text).collect()
}

fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}
