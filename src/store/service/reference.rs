//! Which instances an instance names in relations between services. Source: docs/reference/lsm.md § 1.5.

use std::collections::BTreeSet;

use steward_lsm::attributes::references;
use steward_lsm::{Instance, ServiceEntity};
use uuid::Uuid;

/// The ids of all instances that an instance names, in any of its sets.
pub(super) fn of_instance(entity: &ServiceEntity, instance: &Instance) -> BTreeSet<Uuid> {
    let sets = [
        &instance.candidate_attributes,
        &instance.active_attributes,
        &instance.rollback_attributes,
    ];
    let sets = sets.into_iter().flatten();
    sets.flat_map(|set| references(entity, set))
        .map(|reference| reference.id)
        .collect()
}

/// The instance that owns an instance: what the relation to the owning service says in the first of its sets that says
/// anything. Source: docs/reference/lsm.md § 4.5.
pub(super) fn owner(entity: &ServiceEntity, instance: &Instance) -> Option<Uuid> {
    let relation = entity.relation_to_owner.as_ref()?;
    let sets = [
        &instance.candidate_attributes,
        &instance.active_attributes,
        &instance.rollback_attributes,
    ];
    let mut sets = sets.into_iter().flatten();
    let set = sets.find(|set| !set.is_empty())?;
    set.get(relation)?.as_str()?.parse().ok()
}
