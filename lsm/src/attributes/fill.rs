//! What takes the place of what is missing. Source: docs/reference/lsm.md § 1.3.4, § 5.5.

use serde_json::Value;

use crate::Attributes;
use crate::attributes::compare::Elements;
use crate::definition::{EmbeddedEntity, EntityAttribute, Fields, Modifier};

/// Fills in defaults, and null or an empty list where there may be nothing; what has to be given stays missing.
pub(super) fn fill(fields: &Fields, attributes: &mut Attributes) {
    for attribute in &fields.attributes {
        if !attributes.contains_key(&attribute.name)
            && let Some(value) = default_of(attribute)
        {
            attributes.insert(attribute.name.clone(), value);
        }
    }
    for relation in &fields.inter_service_relations {
        let may_lack = relation.lower_limit == 0 || relation.modifier == Modifier::ReadOnly;
        if may_lack && !attributes.contains_key(&relation.name) {
            attributes.insert(relation.name.clone(), nothing(relation.upper_limit));
        }
    }
    for embedded in &fields.embedded_entities {
        let may_lack = embedded.lower_limit == 0 || embedded.modifier == Modifier::ReadOnly;
        match attributes.get_mut(&embedded.name) {
            Some(value) => elements_mut(value).for_each(|element| fill(&embedded.fields, element)),
            None if may_lack => {
                attributes.insert(embedded.name.clone(), nothing(embedded.upper_limit));
            }
            None => {}
        }
    }
}

/// What an attribute has that nobody gave; `None`: it has to be given.
pub(crate) fn default_of(attribute: &EntityAttribute) -> Option<Value> {
    // Compiles give read-only attributes their values later.
    let may_be_null =
        attribute.value_type.ends_with('?') || attribute.modifier == Modifier::ReadOnly;
    if attribute.default_value_set {
        Some(attribute.default_value.clone())
    } else {
        may_be_null.then_some(Value::Null)
    }
}

/// A relation without elements.
pub(crate) fn nothing(upper_limit: Option<u64>) -> Value {
    match upper_limit {
        Some(1) => Value::Null,
        _ => Value::Array(Vec::new()),
    }
}

/// The elements of a relation to an embedded entity, whether it has one or many.
pub(crate) fn elements(value: &Value) -> impl Iterator<Item = &Attributes> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        value => std::slice::from_ref(value),
    };
    items.iter().filter_map(Value::as_object)
}

/// The same, to be changed.
pub(crate) fn elements_mut(value: &mut Value) -> impl Iterator<Item = &mut Attributes> {
    let items = match value {
        Value::Array(items) => items.as_mut_slice(),
        value => std::slice::from_mut(value),
    };
    items.iter_mut().filter_map(Value::as_object_mut)
}

/// Puts the read-only values that an instance has into a new set that lacks them: clients need not send what only compiles write.
/// With `always`, also in place of what was given.
pub(super) fn keep_read_only(
    fields: &Fields,
    old: &Attributes,
    new: &mut Attributes,
    always: bool,
) {
    let read_only = |modifier: Modifier| modifier == Modifier::ReadOnly;
    let attributes = fields.attributes.iter();
    let attributes = attributes
        .filter(|one| read_only(one.modifier))
        .map(|one| &one.name);
    let relations = fields.inter_service_relations.iter();
    let relations = relations
        .filter(|one| read_only(one.modifier))
        .map(|one| &one.name);
    let embedded = fields.embedded_entities.iter();
    let embedded = embedded
        .filter(|one| read_only(one.modifier))
        .map(|one| &one.name);
    for name in attributes.chain(relations).chain(embedded) {
        if !always && new.contains_key(name) {
            continue;
        }
        match old.get(name) {
            Some(value) => drop(new.insert(name.clone(), value.clone())),
            None => drop(new.shift_remove(name)),
        }
    }
    for embedded in &fields.embedded_entities {
        keep_in_elements(embedded, old, new, always);
    }
}

fn keep_in_elements(
    embedded: &EmbeddedEntity,
    old: &Attributes,
    new: &mut Attributes,
    always: bool,
) {
    if embedded.modifier == Modifier::ReadOnly {
        return;
    }
    let nothing = Attributes::new();
    let Some(value) = new.get_mut(&embedded.name) else {
        return;
    };
    let known = old.get(&embedded.name);
    let known = known.map(|before| Elements::of(embedded, before));
    for element in elements_mut(value) {
        let before = known.as_ref().and_then(|known| known.matching(element));
        keep_read_only(
            &embedded.fields,
            before.unwrap_or(&nothing),
            element,
            always,
        );
    }
}
