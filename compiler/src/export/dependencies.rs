//! Dependencies that follow from what resources are: a file needs the directories above it.

use super::catalog::{Catalog, Requires};
use crate::hash::Map;
use crate::runtime::Machine;
use crate::types::{InstId, Value};

/// A file, symbolic link or directory requires every exported directory of its host that is an ancestor of its path.
pub(super) fn add(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) {
    let mut directories: Map<(InstId, &str), u32> = Map::default();
    let host = |owner: InstId| match machine.state.read_attribute(owner, "host") {
        Ok(Value::Instance(host)) => Some(host),
        _ => None,
    };
    for at in 0..catalog.len() {
        if matches!(
            catalog.entity_type(machine, at),
            "fs::Directory" | "std::Directory"
        ) && let Some(host) = host(catalog.owner(at))
        {
            let (_, path) = catalog.agent_and_value(machine, at);
            directories.insert((host, trimmed(path)), at as u32);
        }
    }
    if directories.is_empty() {
        return;
    }
    for (at, requires) in requires.iter_mut().enumerate() {
        let placed = matches!(
            catalog.entity_type(machine, at),
            "fs::File" | "fs::Directory" | "fs::Symlink" | "std::File" | "std::Directory"
        );
        let Some(host) = placed.then(|| host(catalog.owner(at))).flatten() else {
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

fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}
