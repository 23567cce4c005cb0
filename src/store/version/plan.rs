//! What is to be written for a version: decided without the database.

use std::collections::{BTreeMap, HashMap};

use crate::domain::ResourceId;
use crate::store::StoredResource;

/// What storing a version wrote: the laws of docs/design.md § 3 are about this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetChange {
    /// Sets that are new, changed, or gone.
    pub n_sets_written: usize,
    /// Resources that are new or changed.
    pub n_resources_written: usize,
}

/// A resource set of a version that is to be stored.
pub(super) struct SetContent<'a> {
    /// Of the members' digests, in order of resource id.
    pub(super) digest: String,
    /// In order of resource id.
    pub(super) members: Vec<&'a StoredResource>,
}

/// Groups resources by set.
pub(super) fn sets_of<'a>(
    resources: impl IntoIterator<Item = &'a StoredResource>,
) -> BTreeMap<&'a str, SetContent<'a>> {
    use sha2::{Digest, Sha256};
    let mut sets: BTreeMap<&str, SetContent<'_>> = BTreeMap::new();
    for resource in resources {
        let set = sets
            .entry(&resource.set_name)
            .or_insert_with(|| SetContent {
                digest: String::new(),
                members: Vec::new(),
            });
        set.members.push(resource);
    }
    for set in sets.values_mut() {
        set.members
            .sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
        let mut hasher = Sha256::new();
        for member in &set.members {
            hasher.update(member.digest.as_bytes());
            hasher.update(b"\n");
        }
        set.digest = hex::encode(hasher.finalize());
    }
    sets
}

/// A dependency of a resource of one set on one of another, as `id requires id`; empty if there is none.
pub(super) fn crossing_of(resources: &[StoredResource]) -> String {
    let named = || {
        resources
            .iter()
            .filter(|resource| !resource.set_name.is_empty())
    };
    let set_of: HashMap<&ResourceId, &str> = named()
        .map(|resource| (&resource.resource_id, resource.set_name.as_str()))
        .collect();
    let mut found = named().flat_map(|resource| {
        let elsewhere = resource.requires.iter().filter(|require| {
            set_of
                .get(require)
                .is_some_and(|set| *set != resource.set_name)
        });
        elsewhere.map(move |require| format!("{} requires {require}", resource.resource_id))
    });
    found.next().unwrap_or_default()
}

/// The rows of the sets that differ: which end, and which begin.
#[derive(Default)]
pub(super) struct Plan<'a> {
    pub(super) ended_sets: Vec<&'a str>,
    pub(super) begun_sets: Vec<(&'a str, &'a SetContent<'a>)>,
    pub(super) ended: Vec<ResourceId>,
    pub(super) begun: Vec<&'a StoredResource>,
}

impl<'a> Plan<'a> {
    /// Which sets differ: `open` has the digests of those in force, by name.
    pub(super) fn of_sets(
        open: &'a HashMap<String, String>,
        sets: &'a BTreeMap<&'a str, SetContent<'a>>,
    ) -> Self {
        let mut plan = Self::default();
        let gone = open.keys().filter(|name| !sets.contains_key(name.as_str()));
        plan.ended_sets.extend(gone.map(String::as_str));
        for (&name, set) in sets {
            match open.get(name) {
                Some(digest) if *digest == set.digest => continue,
                Some(_) => plan.ended_sets.push(name),
                None => {}
            }
            plan.begun_sets.push((name, set));
        }
        plan.ended_sets.sort_unstable();
        plan
    }

    /// Adds what the resources are about; `old` are those of all sets that end. Of sets in `new` they are those that do not stay
    /// as they are, and the resources there are those that the set did not have so.
    pub(super) fn with_resources(
        mut self,
        old: Vec<OpenResource>,
        new: &HashMap<&str, Vec<&'a StoredResource>>,
    ) -> Self {
        let mut old: HashMap<ResourceId, OpenResource> = old
            .into_iter()
            .map(|row| (row.resource_id.clone(), row))
            .collect();
        for &(name, set) in &self.begun_sets {
            for &member in new.get(name).unwrap_or(&set.members) {
                let same = |row: &OpenResource| row.digest == member.digest && row.set_name == name;
                if old.get(&member.resource_id).is_some_and(same) {
                    old.remove(&member.resource_id);
                } else {
                    self.begun.push(member);
                }
            }
        }
        self.ended = old.into_keys().collect();
        self.ended.sort_unstable();
        // In the order of the key, in which an index grows at the least cost.
        self.begun
            .sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
        self
    }

    pub(super) fn change(&self) -> SetChange {
        let begun = self.begun_sets.iter().map(|(name, _)| *name);
        let mut names: Vec<&str> = begun.chain(self.ended_sets.iter().copied()).collect();
        names.sort_unstable();
        names.dedup();
        SetChange {
            n_sets_written: names.len(),
            n_resources_written: self.begun.len(),
        }
    }
}

crate::store::macros::row! {
    /// A resource of the newest version, without what it says.
    pub(super) struct OpenResource {
        pub(super) resource_id: ResourceId,
        pub(super) digest: String,
        pub(super) set_name: String,
    }
}
