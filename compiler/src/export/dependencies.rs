//! Dependencies that follow from what resources are: a file needs the directories above it.

use super::catalog::{Catalog, Requires};
use crate::hash::Map;
use crate::runtime::Machine;
use crate::types::{InstId, Value};

/// A file, symbolic link or directory requires every exported directory of its host that is an ancestor of its path; a user
/// the groups, and a service the units, of its host that it names.
pub(super) fn add(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) {
    add_directories(machine, catalog, requires);
    add_named(machine, catalog, requires);
}

/// The host of the instance behind a resource.
fn host_of(machine: &Machine, owner: InstId) -> Option<InstId> {
    match machine.state.read_attribute(owner, "host") {
        Ok(Value::Instance(host)) => Some(host),
        _ => None,
    }
}

fn add_directories(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) {
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
        for (end, _) in path.match_indices('/') {
            let ancestor = if end == 0 { "/" } else { &path[..end] };
            if ancestor.len() < path.len()
                && let Some(directory) = directories.get(&(host, ancestor))
                && *directory != at as u32
            {
                requires.push(*directory);
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

fn add_named(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) {
    let mut named: Named = Map::default();
    for at in 0..catalog.len() {
        let kind = match catalog.entity_type(machine, at) {
            // One that lists its members comes after these.
            "steward::Group" if has_members(machine, catalog.owner(at)) => continue,
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
        let with_suffix;
        let names = if kind == "unit" {
            let name = catalog.agent_and_value(machine, at).1;
            with_suffix = format!("{name}.service");
            vec![if name.contains('.') {
                name
            } else {
                &with_suffix
            }]
        } else {
            groups_of(machine, owner)
        };
        for name in names {
            if let Some(found) = named.get(&(host, kind, name)) {
                requires.extend(found.iter().copied());
            }
        }
    }
}

fn has_members(machine: &Machine, group: InstId) -> bool {
    !matches!(
        machine.state.read_attribute(group, "members"),
        Ok(Value::Null) | Err(_)
    )
}

/// The names of the first and the further groups of a user.
fn groups_of<'a>(machine: &'a Machine, user: InstId) -> Vec<&'a str> {
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
        Value::Str(text) => Some(heap.str(text)),
        _ => None,
    };
    values.into_iter().filter_map(text).collect()
}

fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}
