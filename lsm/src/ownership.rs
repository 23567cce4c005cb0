//! Trees of instances that own one another: each has one resource set, and a partial compile is for whole trees.
//! Source: docs/reference/lsm.md § 4.5, § 4.6.1.

use std::collections::BTreeSet;

use serde_json::Value;
use uuid::Uuid;

use crate::Instance;
use crate::definition::SetName;

/// Which service owns the instances of another one, and by which relation of those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The name of the owning service.
    pub service: String,
    /// The relation of the owned service that holds the id of the owning instance.
    pub relation: String,
}

/// What has to be known of an inventory; instances that have ended are part of it.
pub trait Inventory {
    /// An instance.
    fn instance(&self, id: Uuid) -> Option<&Instance>;
    /// The owner of the instances of a service.
    fn owner(&self, service: &str) -> Option<Owner>;
    /// The instances that an instance owns: those whose [`owner_of`] it is.
    fn owned(&self, owner: &Instance) -> Vec<Uuid>;
}

/// The owner of an instance: the id in the first of the candidate, active and rollback sets that has anything in it.
#[must_use]
pub fn owner_of(instance: &Instance, relation: &str) -> Option<Uuid> {
    let sets = SetName::ALL
        .into_iter()
        .filter_map(|name| instance.set(name));
    let first = sets.into_iter().find(|set| !set.is_empty())?;
    Uuid::parse_str(first.get(relation).and_then(Value::as_str)?).ok()
}

/// The instance at the top of the tree that an instance belongs to. Its id is the name of the tree's resource set.
///
/// # Errors
///
/// The instance or an owner is missing, or they own one another in a circle.
pub fn root(inventory: &impl Inventory, id: Uuid) -> Result<Uuid, String> {
    let missing = |id: Uuid| format!("there is no service instance {id}");
    let mut instance = inventory.instance(id).ok_or_else(|| missing(id))?;
    let mut seen = BTreeSet::from([id]);
    while let Some(owner) = inventory.owner(&instance.service_entity) {
        let found = owner_of(instance, &owner.relation);
        let Some(found) = found.and_then(|id| inventory.instance(id)) else {
            return Err(format!(
                "the {} {} is owned by a {}, but its relation {} leads to none",
                instance.service_entity, instance.id, owner.service, owner.relation
            ));
        };
        if !seen.insert(found.id) {
            let ids: Vec<String> = seen.iter().map(Uuid::to_string).collect();
            return Err(format!(
                "these instances own one another in a circle: {}",
                ids.join(", ")
            ));
        }
        instance = found;
    }
    Ok(instance.id)
}

/// All instances of the trees that some instances belong to.
///
/// # Errors
///
/// As [`root`].
pub fn group(inventory: &impl Inventory, requested: &[Uuid]) -> Result<BTreeSet<Uuid>, String> {
    let mut found = BTreeSet::new();
    let mut waiting = Vec::new();
    for id in requested {
        waiting.push(root(inventory, *id)?);
    }
    while let Some(id) = waiting.pop() {
        if found.insert(id)
            && let Some(instance) = inventory.instance(id)
        {
            waiting.extend(inventory.owned(instance));
        }
    }
    Ok(found)
}
