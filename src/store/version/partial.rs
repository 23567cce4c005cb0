//! A version that is made of the one before and of some resource sets: the rules, without the database.
//! Source: docs/reference/deployment.md § 2.4.
//!
//! What a partial export has replaces its sets, and all else stays as the newest version has it.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::NewVersion;
use crate::domain::ResourceId;
use crate::store::{Error, Result, StoredResource};

/// Some resource sets of a desired state, to be put in the place of the same sets of the newest version.
#[derive(Debug)]
pub struct PartialVersion {
    /// Its resources are those that were sent; its code counts with `code` alone.
    pub new: NewVersion,
    /// The sets that shall be no more. One that there is not does not matter.
    pub removed_sets: Vec<String>,
    /// What handlers need.
    pub code: PartialCode,
}

/// What becomes of the code of handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialCode {
    /// That of the base.
    Keep,
    /// That of the base with the modules that were sent; one that both have must be the same.
    Same,
    /// That of the base with the modules that were sent in place of its own.
    Replace,
}

/// What the newest version has, as far as a partial export is about it.
#[derive(Default)]
pub(super) struct Base {
    /// All resources in no set, and those of the sets that are replaced or removed.
    pub(super) old: HashMap<ResourceId, StoredResource>,
    /// The sets of resources that were sent or are required by them, and that the base has.
    pub(super) sets: HashMap<ResourceId, String>,
}

impl PartialVersion {
    /// The sets that are sent.
    fn sent_sets(&self) -> BTreeSet<&str> {
        let names = self.new.resources.iter().map(|one| one.set_name.as_str());
        names.filter(|name| !name.is_empty()).collect()
    }

    /// The sets whose resources are not kept.
    pub(super) fn replaced_sets(&self) -> BTreeSet<&str> {
        let removed = self.removed_sets.iter().map(String::as_str);
        self.sent_sets().into_iter().chain(removed).collect()
    }

    /// What can be wrong with it, whatever the base.
    fn check(&self) -> Result<()> {
        let sent = self.sent_sets();
        let removed = self.removed_sets.iter().map(String::as_str);
        let both: BTreeSet<&str> = removed.filter(|name| sent.contains(name)).collect();
        if !both.is_empty() {
            let names = both.into_iter().collect::<Vec<_>>().join(", ");
            return Err(Error::Refused(format!(
                "resource sets are sent and removed at once: {names}"
            )));
        }
        let mut seen = BTreeSet::new();
        match self
            .new
            .resources
            .iter()
            .find(|one| !seen.insert(&one.resource_id))
        {
            None => Ok(()),
            Some(twice) => Err(Error::Refused(format!(
                "resource {} is sent twice",
                twice.resource_id
            ))),
        }
    }

    /// The resources in no set and those of the sent sets, as the new version has them.
    pub(super) fn merge(&self, base: &Base) -> Result<Vec<StoredResource>> {
        self.check()?;
        let replaced = self.replaced_sets();
        let sent: HashMap<&ResourceId, &StoredResource> = self
            .new
            .resources
            .iter()
            .map(|one| (&one.resource_id, one))
            .collect();
        for one in &self.new.resources {
            check_move(one, base, &replaced)?;
            check_requires(one, base, &replaced, &sent)?;
        }
        // A resource in no set may require resources of sets. Of a replaced set it requires what was sent with it.
        let is_kept = |id: &ResourceId| {
            let known = base.old.get(id);
            !known.is_some_and(|known| replaced.contains(known.set_name.as_str()))
        };
        let mut merged = Vec::new();
        for known in base.old.values().filter(|one| one.set_name.is_empty()) {
            let mut requires: BTreeSet<ResourceId> = known
                .requires
                .iter()
                .filter(|id| is_kept(id))
                .cloned()
                .collect();
            if let Some(one) = sent.get(&known.resource_id) {
                if one.attribute_hash != known.attribute_hash {
                    return Err(Error::Refused(format!(
                        "resource {} is in no resource set and differs from the one that is there: a partial export may \
                         not change it",
                        one.resource_id
                    )));
                }
                requires.extend(one.requires.iter().cloned());
            }
            merged.push(known.with_requires(requires.into_iter().collect()));
        }
        let is_new = |one: &&StoredResource| {
            let known = base.old.get(&one.resource_id);
            !(one.set_name.is_empty() && known.is_some_and(|known| known.set_name.is_empty()))
        };
        merged.extend(self.new.resources.iter().filter(is_new).cloned());
        Ok(merged)
    }

    /// What sent resources require, and what they did not require in the base.
    pub(super) fn new_requirements<'a>(
        &'a self,
        base: &'a Base,
    ) -> impl Iterator<Item = &'a ResourceId> {
        self.new.resources.iter().flat_map(|one| {
            let known = base.old.get(&one.resource_id);
            let known = known.map_or(&[][..], |known| &known.requires);
            let is_new = |id: &&ResourceId| known.binary_search(id).is_err();
            one.requires.iter().filter(is_new)
        })
    }

    /// What the model waits for: what was sent, and that of the base about resources that stay.
    pub(super) fn unknowns(&self, base: &Base, known: &Value) -> Value {
        let replaced = self.replaced_sets();
        let stays = |unknown: &&Value| {
            let id = ResourceId::new(unknown["resource"].as_str().unwrap_or_default());
            let known = base.old.get(&id);
            !known.is_some_and(|known| replaced.contains(known.set_name.as_str()))
        };
        let mut all: Vec<Value> = Vec::new();
        let kept = known.as_array().into_iter().flatten().filter(stays);
        for unknown in self
            .new
            .unknowns
            .as_array()
            .into_iter()
            .flatten()
            .chain(kept)
        {
            if !all.contains(unknown) {
                all.push(unknown.clone());
            }
        }
        Value::Array(all)
    }
}

/// A resource changes its set only if the set that it leaves is sent, too.
fn check_move(one: &StoredResource, base: &Base, replaced: &BTreeSet<&str>) -> Result<()> {
    let Some(from) = base.sets.get(&one.resource_id) else {
        return Ok(());
    };
    if *from == one.set_name || (!from.is_empty() && replaced.contains(from.as_str())) {
        return Ok(());
    }
    let shown = |set: &str| {
        if set.is_empty() {
            "no resource set".to_owned()
        } else {
            format!("resource set {set}")
        }
    };
    Err(Error::Refused(format!(
        "resource {} moves from {} to {}: a partial export has to have both sets",
        one.resource_id,
        shown(from),
        shown(&one.set_name)
    )))
}

/// What a resource requires is there, and in no other set.
fn check_requires(
    one: &StoredResource,
    base: &Base,
    replaced: &BTreeSet<&str>,
    sent: &HashMap<&ResourceId, &StoredResource>,
) -> Result<()> {
    for require in &one.requires {
        let set = match (sent.get(require), base.sets.get(require)) {
            (Some(other), _) => Some(other.set_name.as_str()),
            (None, Some(set)) if !replaced.contains(set.as_str()) => Some(set.as_str()),
            (None, _) => None,
        };
        let Some(set) = set else {
            return Err(Error::Refused(format!(
                "resource {} requires {require}, which is not in this version",
                one.resource_id
            )));
        };
        if !set.is_empty() && !one.set_name.is_empty() && set != one.set_name {
            return Err(crossing(&format!("{} requires {require}", one.resource_id)));
        }
    }
    Ok(())
}

pub(super) fn crossing(what: &str) -> Error {
    Error::Refused(format!(
        "a dependency goes from one resource set into another, which a partial export can not keep true: {what}"
    ))
}
