//! Dependencies that follow from what resources are: a file needs the directories above it.

use super::resources::{Catalog, Requires};
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map;
use crate::protocol::DependResource;
use crate::runtime::Machine;
use crate::types::{InstId, Value};

/// A file, symbolic link or directory requires every exported directory of its host that is an ancestor of its path.
pub(super) fn add(machine: &Machine, catalog: &Catalog, requires: &mut [Requires]) {
    let mut directories: Map<(InstId, &str), u32> = Map::default();
    let host = |owner: InstId| match machine.read_attribute(owner, "host") {
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

/// Dependency managers of Python modules see all resources of Python classes, and may add to what they require.
pub(super) fn ask_python(
    machine: &mut Machine,
    catalog: &Catalog,
    requires: &mut [Requires],
) -> Result<(), Fail> {
    if !machine.has_dependency_managers {
        return Ok(());
    }
    let mut seen = Vec::new();
    let mut described = Vec::new();
    let mut attributes = String::new();
    for (at, required) in requires.iter().enumerate() {
        let Some(class) = catalog.plan(machine, at).registration.class else {
            continue;
        };
        seen.push(at);
        attributes.clear();
        catalog.attributes(machine, at, &mut attributes)?;
        described.push(DependResource {
            class,
            id: catalog.id(at).to_owned(),
            attributes: serde_json::from_str(&attributes).unwrap_or_default(),
            requires: required
                .iter()
                .map(|required| catalog.id(*required as usize).to_owned())
                .collect(),
            instance: machine.to_wire(Value::Instance(catalog.owner(at))),
        });
    }
    let by_id: Map<&str, u32> = (0..catalog.len())
        .map(|at| (catalog.id(at), at as u32))
        .collect();
    for (position, ids) in machine.manage_dependencies(described)? {
        let Some(at) = seen.get(position as usize) else {
            continue;
        };
        let mut required = Requires::with_capacity(ids.len());
        for id in &ids {
            match by_id.get(id.as_str()) {
                Some(index) => required.push(*index),
                None => {
                    let message = format!(
                        "A dependency manager made {} require {id}, which does not exist",
                        catalog.id(*at)
                    );
                    let loc = machine.instance(catalog.owner(*at)).loc;
                    return Err(runtime(loc, message));
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
