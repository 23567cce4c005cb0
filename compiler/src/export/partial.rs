//! Partial exports: a compile of some resource sets, and how it is merged with the rest.
//! Source: docs/reference/language.md § 12.9.

use std::collections::{BTreeMap, BTreeSet};

use super::catalog::{Catalog, Requires};
use super::sets::Sets;
use crate::diagnostics::{Fail, runtime};
use crate::runtime::Machine;
use crate::{Export, Partial, Resource};

/// What a partial compile may export: only the sets it is for, and no dependency from one set to another. Sets it is for
/// that have no resource are removed.
pub(super) fn check(
    machine: &Machine,
    partial: &Partial,
    catalog: &Catalog,
    requires: &[Requires],
    sets: &mut Sets,
) -> Result<(), Fail> {
    let mut exported = BTreeSet::new();
    for (at, required) in requires.iter().enumerate() {
        let Some(set) = sets.name(at) else {
            continue;
        };
        let loc = machine.state.instance(catalog.owner(at)).loc;
        exported.insert(set.to_owned());
        if !partial.sets.is_empty() && !partial.sets.iter().any(|known| known == set) {
            let message = format!(
                "resource {} is part of ResourceSet {set}, which this partial compile is not for",
                catalog.id(at)
            );
            return Err(runtime(loc, message));
        }
        for other in required {
            let other = *other as usize;
            if sets.name(other).is_some_and(|other| other != set) {
                return Err(runtime(loc, crossing(catalog.id(at), catalog.id(other))));
            }
        }
    }
    let absent = partial.sets.iter().filter(|set| !exported.contains(*set));
    let removed: BTreeSet<String> = sets.removed.drain(..).chain(absent.cloned()).collect();
    sets.removed = removed.into_iter().collect();
    Ok(())
}

fn crossing(from: &str, to: &str) -> String {
    format!(
        "A dependency exists between resources {from} and {to}, but they belong to different resource sets."
    )
}

/// Why a partial export does not go together with the resources that are there.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PartialError {
    /// A resource is in another set than before, and that set is not one of those that are
    /// replaced.
    #[error(
        "A partial compile only migrate resources between resource set that are pushed together: trying to move {id} from resource set {from} to {to}."
    )]
    Moved {
        /// The resource's id.
        id: String,
        /// The set that it was in.
        from: String,
        /// The set that it would be in.
        to: String,
    },
    /// A resource that is in no set differs from the one that is there; its id.
    #[error("Resource ({0}) without a resource set cannot be updated via a partial compile")]
    SharedChanged(String),
    /// A resource of one set requires one of another set; their ids.
    #[error("{}", crossing(.0, .1))]
    Crossing(String, String),
    /// Sets that are to be removed have resources all the same; their names.
    #[error(
        "Following resource sets are present in the removed resource sets and in the resources that are exported: {0}"
    )]
    RemovedAndExported(String),
}

/// The whole desired state after a partial export: its sets replace those of `base`, removed sets are gone, all others
/// stay. Shared resources come together; one that both have must be the same.
pub fn merge_partial(base: &[Resource], partial: &Export) -> Result<Vec<Resource>, PartialError> {
    let updated: BTreeSet<&str> = sets_of(&partial.resources).collect();
    let removed: BTreeSet<&str> = partial.removed_sets.iter().map(String::as_str).collect();
    let both: Vec<&str> = updated.intersection(&removed).copied().collect();
    if !both.is_empty() {
        return Err(PartialError::RemovedAndExported(both.join(", ")));
    }
    let is_replaced = |set: &str| updated.contains(set) || removed.contains(set);
    let old: BTreeMap<&str, &Resource> = base.iter().map(|it| (it.id.as_str(), it)).collect();
    let new: BTreeMap<&str, &Resource> = partial
        .resources
        .iter()
        .map(|it| (it.id.as_str(), it))
        .collect();
    check_moves(partial, &old, is_replaced)?;
    check_crossing(partial, &old)?;
    let is_gone = |id: &str| {
        let set = old.get(id).and_then(|known| known.resource_set.as_deref());
        set.is_some_and(is_replaced) && !new.contains_key(id)
    };
    let mut merged = Vec::with_capacity(base.len() + partial.resources.len());
    for resource in base {
        if new.contains_key(resource.id.as_str()) {
            continue;
        }
        match resource.resource_set.as_deref() {
            Some(set) if is_replaced(set) => continue,
            Some(_) => merged.push(resource.clone()),
            None => {
                let mut resource = resource.clone();
                // What of the replaced sets it required comes with the partial export, or not at all.
                resource.requires.retain(|id| {
                    let set = old
                        .get(id.as_str())
                        .and_then(|known| known.resource_set.as_deref());
                    !set.is_some_and(is_replaced)
                });
                merged.push(resource);
            }
        }
    }
    for resource in &partial.resources {
        let mut resource = resource.clone();
        if let (None, Some(known)) = (&resource.resource_set, old.get(resource.id.as_str()))
            && known.resource_set.is_none()
        {
            if known.attribute_hash != resource.attribute_hash {
                return Err(PartialError::SharedChanged(resource.id));
            }
            let kept = known.requires.iter().filter(|id| {
                let set = old
                    .get(id.as_str())
                    .and_then(|known| known.resource_set.as_deref());
                !is_gone(id) && !set.is_some_and(is_replaced)
            });
            let all: BTreeSet<String> = kept.chain(&resource.requires).cloned().collect();
            resource.requires = all.into_iter().collect();
        }
        merged.push(resource);
    }
    Ok(merged)
}

fn sets_of(resources: &[Resource]) -> impl Iterator<Item = &str> {
    resources
        .iter()
        .filter_map(|resource| resource.resource_set.as_deref())
}

fn check_moves(
    partial: &Export,
    old: &BTreeMap<&str, &Resource>,
    is_replaced: impl Fn(&str) -> bool,
) -> Result<(), PartialError> {
    let printable = |set: &Option<String>| set.clone().unwrap_or_else(|| "<SHARED>".to_owned());
    for resource in &partial.resources {
        let Some(known) = old.get(resource.id.as_str()) else {
            continue;
        };
        let moves = known.resource_set != resource.resource_set;
        if moves && !known.resource_set.as_deref().is_some_and(&is_replaced) {
            return Err(PartialError::Moved {
                id: resource.id.clone(),
                from: printable(&known.resource_set),
                to: printable(&resource.resource_set),
            });
        }
    }
    Ok(())
}

fn check_crossing(partial: &Export, old: &BTreeMap<&str, &Resource>) -> Result<(), PartialError> {
    let sets: BTreeMap<&str, Option<&str>> = old
        .values()
        .copied()
        .chain(&partial.resources)
        .map(|resource| (resource.id.as_str(), resource.resource_set.as_deref()))
        .collect();
    for resource in &partial.resources {
        let Some(set) = resource.resource_set.as_deref() else {
            continue;
        };
        for required in &resource.requires {
            let other = sets.get(required.as_str()).copied().flatten();
            if other.is_some_and(|other| other != set) {
                return Err(PartialError::Crossing(
                    resource.id.clone(),
                    required.clone(),
                ));
            }
        }
    }
    Ok(())
}
