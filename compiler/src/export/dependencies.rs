//! Dependencies that follow from what resources are: a file needs the directories above it.

use crate::Resource;
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map;
use crate::protocol::DependResource;
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

/// Dependency managers of Python modules see all resources of Python classes, and may add to what they require.
pub(super) fn ask_python(
    machine: &mut Machine,
    resources: &[Resource],
    owners: &[InstId],
    classes: &[Option<u32>],
    requires: &mut [Vec<u32>],
) -> Result<(), Fail> {
    if !machine.has_dependency_managers {
        return Ok(());
    }
    let mut seen = Vec::new();
    let mut described = Vec::new();
    for (at, resource) in resources.iter().enumerate() {
        let Some(class) = classes[at] else {
            continue;
        };
        seen.push(at);
        described.push(DependResource {
            class,
            id: resource.id.clone(),
            attributes: serde_json::from_str(&resource.attributes).unwrap_or_default(),
            requires: requires[at]
                .iter()
                .map(|required| resources[*required as usize].id.clone())
                .collect(),
            instance: machine.to_wire(Value::Instance(owners[at])),
        });
    }
    let by_id: Map<&str, u32> = resources
        .iter()
        .enumerate()
        .map(|(at, resource)| (resource.id.as_str(), at as u32))
        .collect();
    for (position, ids) in machine.manage_dependencies(described)? {
        let Some(at) = seen.get(position as usize) else {
            continue;
        };
        let mut required = Vec::with_capacity(ids.len());
        for id in &ids {
            match by_id.get(id.as_str()) {
                Some(index) => required.push(*index),
                None => {
                    let message = format!(
                        "A dependency manager made {} require {id}, which does not exist",
                        resources[*at].id
                    );
                    return Err(runtime(machine.instance(owners[*at]).loc, message));
                }
            }
        }
        requires[*at] = required;
    }
    Ok(())
}

fn trimmed(path: &str) -> &str {
    let short = path.trim_end_matches('/');
    if short.is_empty() { "/" } else { short }
}
