//! Stored sets under a changed definition, at all levels.

use serde_json::Value;

use crate::attributes::{default_of, element_path, elements_mut, nothing};
use crate::definition::{EmbeddedEntity, Fields, Modifier, join};
use crate::{Attributes, Problems};

fn names(fields: &Fields) -> Vec<&str> {
    let attributes = fields.attributes.iter().map(|one| one.name.as_str());
    let embedded = fields.embedded_entities.iter().map(|one| one.name.as_str());
    let relations = fields
        .inter_service_relations
        .iter()
        .map(|one| one.name.as_str());
    let mut all: Vec<&str> = attributes.chain(embedded).chain(relations).collect();
    all.sort_unstable();
    all
}

/// Embedded entities that both definitions have.
fn common<'f>(
    old: &'f Fields,
    new: &'f Fields,
) -> impl Iterator<Item = (&'f EmbeddedEntity, &'f EmbeddedEntity)> {
    old.embedded_entities.iter().filter_map(|old| {
        let new = new
            .embedded_entities
            .iter()
            .find(|new| new.name == old.name)?;
        Some((old, new))
    })
}

/// Whether names come or go.
pub(super) fn is_needed(old: &Fields, new: &Fields) -> bool {
    names(old) != names(new)
        || common(old, new).any(|(old, new)| is_needed(&old.fields, &new.fields))
}

/// Whether something that is stored may not pass any more: another type, validation, arity or key.
pub(super) fn is_stricter(old: &Fields, new: &Fields) -> bool {
    let attributes = new.attributes.iter().any(|one| {
        let known = old.attributes.iter().find(|old| old.name == one.name);
        known.is_none_or(|known| {
            (
                &known.value_type,
                &known.validation_type,
                &known.validation_parameters,
            ) != (
                &one.value_type,
                &one.validation_type,
                &one.validation_parameters,
            )
        })
    });
    let relations = new.inter_service_relations.iter().any(|one| {
        let known = old
            .inter_service_relations
            .iter()
            .find(|old| old.name == one.name);
        known.is_none_or(|known| {
            (known.lower_limit, known.upper_limit, &known.entity_type)
                != (one.lower_limit, one.upper_limit, &one.entity_type)
        })
    });
    let embedded = new.embedded_entities.iter().any(|one| {
        let known = old
            .embedded_entities
            .iter()
            .find(|old| old.name == one.name);
        known.is_none_or(|known| {
            (
                known.lower_limit,
                known.upper_limit,
                &known.fields.key_attributes,
            ) != (one.lower_limit, one.upper_limit, &one.fields.key_attributes)
                || is_stricter(&known.fields, &one.fields)
        })
    });
    attributes || relations || embedded
}

/// Takes away what is gone, and adds what is new, with its default.
pub(super) fn rewrite(
    old: &Fields,
    new: &Fields,
    set: &mut Attributes,
    path: &str,
    problems: &mut Problems,
) {
    let kept = names(new);
    set.retain(|name, _| kept.binary_search(&name.as_str()).is_ok());
    for attribute in &new.attributes {
        if !set.contains_key(&attribute.name) {
            // A set that an expert left without it is as incomplete as before: that is no matter of the definition.
            let is_new = old.attributes.iter().all(|one| one.name != attribute.name);
            if !is_new && default_of(attribute).is_none() {
                continue;
            }
            if default_of(attribute).is_none() {
                let reason =
                    "is new, and has neither a default nor may it be null: give it one of both";
                problems.add(join(path, &attribute.name), reason);
            }
            let value = default_of(attribute).unwrap_or(Value::Null);
            set.insert(attribute.name.clone(), value);
        }
    }
    for relation in &new.inter_service_relations {
        let mut known = old.inter_service_relations.iter();
        let is_new = known.all(|one| one.name != relation.name);
        if !set.contains_key(&relation.name) && (is_new || relation.lower_limit == 0) {
            let path = join(path, &relation.name);
            needs_elements(relation.lower_limit, relation.modifier, path, problems);
            set.insert(relation.name.clone(), nothing(relation.upper_limit));
        }
    }
    for embedded in &new.embedded_entities {
        let path = join(path, &embedded.name);
        let known = old
            .embedded_entities
            .iter()
            .find(|old| old.name == embedded.name);
        match (known, set.get_mut(&embedded.name)) {
            (Some(known), Some(value)) => {
                let is_list = value.is_array();
                for (at, element) in elements_mut(value).enumerate() {
                    let path = element_path(embedded, element, &path, is_list.then_some(at));
                    rewrite(&known.fields, &embedded.fields, element, &path, problems);
                }
            }
            (None, Some(_)) => {}
            (Some(known), None) if known.lower_limit > 0 => {}
            (_, None) => {
                needs_elements(embedded.lower_limit, embedded.modifier, path, problems);
                set.insert(embedded.name.clone(), nothing(embedded.upper_limit));
            }
        }
    }
}

fn needs_elements(lower: u64, modifier: Modifier, path: String, problems: &mut Problems) {
    if lower > 0 && modifier != Modifier::ReadOnly {
        problems.add(
            path,
            "is new, and needs elements, which stored instances do not have",
        );
    }
}
