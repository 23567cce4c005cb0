//! The members of large resource sets as they were stored last, in little memory.
//!
//! A set that has changed is compared with what is stored, resource by resource. Many environments have one set with all
//! resources, so a hundred thousand rows would be read to find the ten that changed. Therefore the digests of the members
//! of large sets are kept here: half of each, sorted. The database says of what they are the digests: it has the digest of the
//! whole set, and what is kept counts only where that one is the same. So it does not matter what else is written, or undone.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use super::plan::SetContent;
use crate::domain::EnvironmentId;
use crate::store::StoredResource;

/// Sets with fewer members are read: that is a few milliseconds. The sets of tests are small.
const LARGE: usize = if cfg!(test) { 2 } else { 1000 };

/// Members of all sets that are kept: 64 MiB.
const MAX_MEMBERS: usize = 1 << 22;

/// The members of a set.
#[derive(Debug)]
pub(super) struct Members {
    /// The digest of the set.
    digest: String,
    /// Sorted.
    members: Vec<u128>,
}

impl Members {
    /// `None`: not all of them have a digest.
    fn of(set: &SetContent<'_>) -> Option<Self> {
        let members = set.members.iter().map(|member| half(member));
        let mut members: Vec<u128> = members.collect::<Option<_>>()?;
        members.sort_unstable();
        Some(Self {
            digest: set.digest.clone(),
            members,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether the set has this resource, exactly as it is.
    pub(super) fn has(&self, resource: &StoredResource) -> bool {
        half(resource).is_some_and(|half| self.members.binary_search(&half).is_ok())
    }
}

/// The first half of the digest of a resource.
fn half(resource: &StoredResource) -> Option<u128> {
    let digits = resource.digest.get(..32)?.chars();
    let mut digits = digits.map(|digit| digit.to_digit(16));
    digits.try_fold(0, |half, digit| Some(half << 4 | u128::from(digit?)))
}

/// The members of large sets, of all environments.
#[derive(Debug, Default)]
pub(in crate::store) struct LargeSets(Mutex<HashMap<EnvironmentId, Sets>>);

type Sets = HashMap<String, Arc<Members>>;

impl LargeSets {
    /// The members of a set with this digest, if they are kept.
    pub(super) fn find(
        &self,
        environment: EnvironmentId,
        name: &str,
        digest: &str,
    ) -> Option<Arc<Members>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let members = kept.get(&environment)?.get(name)?;
        (members.digest == digest).then(|| Arc::clone(members))
    }

    /// Keeps the members of the sets of a version, in the place of those that the environment had before.
    pub(super) fn keep(&self, environment: EnvironmentId, sets: &BTreeMap<&str, SetContent<'_>>) {
        let large = sets.iter().filter(|(_, set)| set.members.len() >= LARGE);
        let members = |(&name, set): (&&str, &SetContent<'_>)| {
            let known = self.find(environment, name, &set.digest);
            let members = known.or_else(|| Members::of(set).map(Arc::new))?;
            Some((name.to_owned(), members))
        };
        let sets: Sets = large.filter_map(members).collect();
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove(&environment);
        if sets.is_empty() {
            return;
        }
        kept.insert(environment, sets);
        let n_members = |sets: &Sets| sets.values().map(|one| one.len()).sum::<usize>();
        if kept.values().map(n_members).sum::<usize>() > MAX_MEMBERS {
            // They are read again when they are needed.
            kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::resource;
    use crate::store::version::plan::sets_of;

    /// Given: a set of three resources that is kept, a set of one, and a version after it in which one of the three differs.
    /// Expected: what is kept is found by the digest of the set only, has what did not change, and gives way to what comes next.
    #[test]
    fn members_are_those_of_the_set_with_this_digest() {
        let kept = LargeSets::default();
        let (environment, other) = (EnvironmentId::generate(), EnvironmentId::generate());
        let first = ["a", "b", "c"].map(|name| resource(name, "1", ""));
        let alone = resource("d", "1", "small");
        let before = sets_of(first.iter().chain([&alone]));
        kept.keep(environment, &before);
        let digest = &before[""].digest;
        let members = kept.find(environment, "", digest).expect("it is kept");
        assert_eq!(members.len(), 3);
        let changed = resource("c", "2", "");
        assert!(first.iter().all(|one| members.has(one)));
        assert!(!members.has(&changed));
        assert!(
            kept.find(environment, "small", &before["small"].digest)
                .is_none()
        );
        assert!(kept.find(other, "", digest).is_none());
        let after = sets_of(first[..2].iter().chain([&changed]));
        assert!(kept.find(environment, "", &after[""].digest).is_none());
        kept.keep(environment, &after);
        assert!(kept.find(environment, "", digest).is_none());
        assert!(kept.find(environment, "", &after[""].digest).is_some());
    }
}
