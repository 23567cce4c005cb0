//! Which instances an instance names in relations between services. Source: docs/reference/lsm.md § 1.5.

use std::collections::BTreeSet;

use serde_json::Value;
use steward_lsm::definition::Fields;
use steward_lsm::{Attributes, Instance, ServiceEntity};
use uuid::Uuid;

/// An instance that a set of attributes names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    /// Where it is named.
    pub path: String,
    /// The service that it shall be of.
    pub entity: String,
    pub id: Uuid,
}

/// All instances that a set names, embedded entities included. What is no id is none; the check of the attributes says so.
pub(super) fn of_set(entity: &ServiceEntity, set: &Attributes) -> Vec<Reference> {
    let mut found = Vec::new();
    walk(&entity.fields, set, "", &mut found);
    found
}

/// The ids of all instances that an instance names, in any of its sets.
pub(super) fn of_instance(entity: &ServiceEntity, instance: &Instance) -> BTreeSet<Uuid> {
    let sets = [
        &instance.candidate_attributes,
        &instance.active_attributes,
        &instance.rollback_attributes,
    ];
    let sets = sets.into_iter().flatten();
    sets.flat_map(|set| of_set(entity, set))
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

fn walk(fields: &Fields, values: &Attributes, path: &str, found: &mut Vec<Reference>) {
    for relation in &fields.inter_service_relations {
        for id in elements(values.get(&relation.name)) {
            if let Some(id) = id.as_str().and_then(|id| Uuid::parse_str(id).ok()) {
                found.push(Reference {
                    path: format!("{path}{}", relation.name),
                    entity: relation.entity_type.clone(),
                    id,
                });
            }
        }
    }
    for embedded in &fields.embedded_entities {
        for element in elements(values.get(&embedded.name)) {
            if let Some(element) = element.as_object() {
                let path = format!("{path}{}.", embedded.name);
                walk(&embedded.fields, element, &path, found);
            }
        }
    }
}

/// The elements of a list; what is no list is one by itself.
fn elements(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(elements)) => elements,
        Some(value) => std::slice::from_ref(value),
        None => &[],
    }
}
