//! Dependencies that follow from what resources are: a file needs the directories above it.

use crate::Resource;
use crate::hash::Map;
use crate::runtime::Machine;
use crate::types::{InstId, Value};

/// A file, symbolic link or directory requires every exported directory of its host that is an ancestor of its path.
pub(super) fn add(
    machine: &Machine,
    resources: &[Resource],
    owners: &[InstId],
    requires: &mut [Vec<u32>],
) {
    let mut directories: Map<(InstId, &str), u32> = Map::default();
    let host = |owner: InstId| match machine.read_attribute(owner, "host") {
        Ok(Value::Instance(host)) => Some(host),
        _ => None,
    };
    for (at, resource) in resources.iter().enumerate() {
        if matches!(
            resource.entity_type.as_str(),
            "fs::Directory" | "std::Directory"
        ) && let Some(host) = host(owners[at])
        {
            directories.insert((host, trimmed(&resource.id_value)), at as u32);
        }
    }
    if directories.is_empty() {
        return;
    }
    for (at, resource) in resources.iter().enumerate() {
        let placed = matches!(
            resource.entity_type.as_str(),
            "fs::File" | "fs::Directory" | "fs::Symlink" | "std::File" | "std::Directory"
        );
        let Some(host) = placed.then(|| host(owners[at])).flatten() else {
            continue;
        };
        let path = trimmed(&resource.id_value);
        for (end, _) in path.match_indices('/') {
            let ancestor = if end == 0 { "/" } else { &path[..end] };
            if ancestor.len() < path.len()
                && let Some(directory) = directories.get(&(host, ancestor))
                && *directory != at as u32
            {
                requires[at].push(*directory);
            }
        }
    }
}

fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}
