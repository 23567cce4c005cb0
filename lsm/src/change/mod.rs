//! What a changed definition does to the instances that there are. Source: docs/reference/lsm.md § 1.8, § 1.9.
//!
//! [`plan`] compares two definitions and says what has to be looked at; [`Plan::apply`] looks at one instance. So an inventory
//! of any size is gone through one by one, in the transaction that stores the definition.

mod rewrite;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::ServiceEntity;
use crate::{Attributes, Instance, Problems, attributes};

/// What follows from a changed definition.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    old: ServiceEntity,
    new: ServiceEntity,
    /// Whether attributes come or go, so that stored sets have to be rewritten, which can not be undone. The strict exporter
    /// refuses this as soon as there are instances.
    pub rewrites: bool,
    /// Whether stored values have to pass checks that they have not passed yet.
    pub checks: bool,
    /// States that are gone: no instance may be in one of them, unless it has ended.
    pub removed_states: Vec<String>,
    /// Whether the service has an identity from now on: no two instances that have not ended may have the same.
    pub adds_identity: bool,
    /// Whether another relation leads to the owner, or one does or does none any more. What owns an instance is kept beside it, so
    /// it is stored again.
    pub moves: bool,
}

/// Compares a definition with the one that takes its place.
///
/// # Errors
///
/// What can not be changed, whatever instances there are: the identity.
pub fn plan(old: &ServiceEntity, new: &ServiceEntity) -> Result<Plan, Problems> {
    let mut problems = Problems::default();
    if let Some(identity) = &old.service_identity
        && new.service_identity.as_ref() != Some(identity)
    {
        let reason = format!("is {identity} and can neither be changed nor removed");
        problems.add("service_identity", reason);
    }
    let is_there = |name: &str| new.lifecycle.state(name).is_some();
    let gone = old.lifecycle.states.iter().map(|state| &state.name);
    let plan = Plan {
        rewrites: rewrite::is_needed(&old.fields, &new.fields),
        checks: rewrite::is_stricter(&old.fields, &new.fields),
        removed_states: gone.filter(|name| !is_there(name)).cloned().collect(),
        adds_identity: old.service_identity.is_none() && new.service_identity.is_some(),
        moves: old.relation_to_owner != new.relation_to_owner,
        old: old.clone(),
        new: new.clone(),
    };
    problems.or(plan)
}

impl Plan {
    /// Whether instances have to be looked at.
    #[must_use]
    pub fn concerns_instances(&self) -> bool {
        let checks = self.rewrites || self.checks || self.adds_identity || self.moves;
        checks || !self.removed_states.is_empty()
    }

    /// An instance under the new definition; `None`: it stays as it is, and so does its owner. Its version does not change, nor is
    /// anything triggered.
    ///
    /// # Errors
    ///
    /// Why the definition can not be changed while there is this instance: `instances[id=…].active_attributes.mbps`.
    pub fn apply(&self, instance: &Instance) -> Result<Option<Instance>, Problems> {
        let mut problems = Problems::default();
        let place = format!("instances[id={}]", instance.id);
        let is_gone = self.removed_states.contains(&instance.state);
        if is_gone && !instance.deleted {
            let reason = format!(
                "is {}, which the new lifecycle does not have",
                instance.state
            );
            problems.add(format!("{place}.state"), reason);
        }
        let mut after = instance.clone();
        for name in crate::definition::SetName::ALL {
            let Some(set) = after.set_mut(name) else {
                continue;
            };
            let path = format!("{place}.{}_attributes", name.as_str());
            let mut found = Problems::default();
            // What an expert left as it may not be was so before: the new definition is not to blame for it.
            let before = match self.checks {
                true => attributes::problems(&self.old, set).0,
                false => Vec::new(),
            };
            rewrite::rewrite(&self.old.fields, &self.new.fields, set, "", &mut found);
            // The `3` of an int is the float `3.0`.
            attributes::normalize(&self.new.fields, set);
            if self.checks {
                // What is new and has no value is said once.
                let mut wrong = attributes::problems(&self.new, set).0;
                let known = found.0.iter().chain(&before);
                wrong.retain(|one| known.clone().all(|known| known.path != one.path));
                found.0.extend(wrong);
            }
            // What has ended is rewritten as far as it goes, and keeps nothing from changing.
            if !instance.deleted {
                let found = found.0.into_iter();
                found.for_each(|one| problems.add(format!("{path}.{}", one.path), one.reason));
            }
        }
        let base = after.base().or(after.rollback_attributes.as_ref());
        let identity = base.and_then(|base| attributes::identity(&self.new, base));
        after.service_identity_attribute_value = identity;
        problems.or((self.moves || after != *instance).then_some(after))
    }
}

/// The attributes whose values an instance had, and has no more: `mgmt`, and of embedded entities `ports.speed`.
#[must_use]
pub fn removed(before: &Instance, after: &Instance) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for name in crate::definition::SetName::ALL {
        if let (Some(old), Some(new)) = (before.set(name), after.set(name)) {
            removed_of_object(old, new, "", &mut found);
        }
    }
    found
}

fn removed_of_object(
    old: &Attributes,
    new: &Attributes,
    place: &str,
    found: &mut BTreeSet<String>,
) {
    for (name, value) in old {
        let path = if place.is_empty() {
            name.clone()
        } else {
            format!("{place}.{name}")
        };
        match new.get(name) {
            Some(kept) => removed_of(value, kept, &path, found),
            None if value.is_null() => {}
            None => {
                found.insert(path);
            }
        }
    }
}

/// Embedded entities keep their order when an instance is rewritten.
fn removed_of(old: &Value, new: &Value, place: &str, found: &mut BTreeSet<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => removed_of_object(old, new, place, found),
        (Value::Array(old), Value::Array(new)) => {
            let items = old.iter().zip(new);
            items.for_each(|(old, new)| removed_of(old, new, place, found));
        }
        _ => {}
    }
}

/// What a new list of all versions of a definition changes.
#[derive(Debug, Clone, PartialEq)]
pub struct VersionChange {
    /// Versions that are new.
    pub added: Vec<u64>,
    /// Versions that are gone: only if they have no instances that have not ended.
    pub removed: Vec<u64>,
    /// The one version that there is, and that may change in place: 0.
    pub updated: Option<Plan>,
}

/// Compares the versions of a definition with those that take their place.
///
/// # Errors
///
/// A published version that changed, a version that is there twice, a default version that is none of them, a change of the
/// identity.
pub fn versions(
    old: &[ServiceEntity],
    new: &[ServiceEntity],
    default_version: u64,
) -> Result<VersionChange, Problems> {
    let mut problems = Problems::default();
    let find =
        |all: &'_ [ServiceEntity], version: u64| all.iter().position(|one| one.version == version);
    if find(new, default_version).is_none() {
        problems.add(
            "default_version",
            format!("is {default_version}, which is none of the versions"),
        );
    }
    let mut change = VersionChange {
        added: Vec::new(),
        removed: Vec::new(),
        updated: None,
    };
    for (at, entity) in new.iter().enumerate() {
        let version = entity.version;
        if find(&new[..at], version).is_some() {
            problems.add(
                format!("versions[{at}]"),
                format!("the version {version} is there twice"),
            );
        }
        let Some(known) = find(old, version).map(|at| &old[at]) else {
            change.added.push(version);
            continue;
        };
        if is_same(known, entity) {
            continue;
        }
        // What has one version only is edited in place, as models without versions are.
        if version == 0 && old.len() == 1 && new.len() == 1 {
            match plan(known, entity) {
                Ok(plan) => change.updated = Some(plan),
                Err(found) => problems.extend(found),
            }
        } else {
            let reason =
                format!("the version {version} is published and can not be changed: add a new one");
            problems.add(format!("versions[{at}]"), reason);
        }
    }
    let gone = old.iter().map(|one| one.version);
    change.removed = gone
        .filter(|version| find(new, *version).is_none())
        .collect();
    problems.or(change)
}

/// Whether a definition says the same, in whatever words. Who owns whom is told by the definitions of the owned.
#[must_use]
pub fn is_same(left: &ServiceEntity, right: &ServiceEntity) -> bool {
    let mut left = left.undocumented();
    left.owned_entities.clone_from(&right.owned_entities);
    left == right.undocumented()
}
