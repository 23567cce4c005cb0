//! Whether a complete set has the shape that the definition describes. Source: docs/reference/lsm.md § 1.3, § 1.4, § 1.5.

use std::collections::BTreeSet;

use serde_json::Value;
use uuid::Uuid;

use crate::attributes::Reference;
use crate::attributes::values::problems_of;
use crate::definition::{EmbeddedEntity, Fields, InterServiceRelation, Modifier, join};
use crate::dict_path::{escaped, kind_of, text_of};
use crate::{Attributes, Problems};

/// Names that the definition does not have.
pub(super) fn unknown(fields: &Fields, given: &Attributes, path: &str, problems: &mut Problems) {
    for (name, value) in given {
        let embedded = fields
            .embedded_entities
            .iter()
            .find(|one| one.name == *name);
        let is_known = embedded.is_some()
            || fields.attributes.iter().any(|one| one.name == *name)
            || fields
                .inter_service_relations
                .iter()
                .any(|one| one.name == *name);
        if !is_known {
            problems.add(
                join(path, &escaped(name)),
                "is not an attribute of this service",
            );
        }
        if let Some(embedded) = embedded {
            for (path, element) in elements(embedded, value, path) {
                unknown(&embedded.fields, element, &path, problems);
            }
        }
    }
}

/// Types, values, numbers of elements, keys.
pub(super) fn check(fields: &Fields, set: &Attributes, path: &str, problems: &mut Problems) {
    for attribute in &fields.attributes {
        let path = join(path, &attribute.name);
        match set.get(&attribute.name) {
            // Compiles give it a value later.
            Some(Value::Null) if attribute.modifier == Modifier::ReadOnly => {}
            Some(value) => {
                problems.extend(problems_of(attribute, &path, value));
            }
            None => problems.add(path, format!("is missing: give {}", attribute.value_type)),
        }
    }
    for relation in &fields.inter_service_relations {
        check_relation(
            relation,
            set.get(&relation.name),
            &join(path, &relation.name),
            problems,
        );
    }
    for embedded in &fields.embedded_entities {
        check_embedded(embedded, set.get(&embedded.name), path, problems);
    }
}

fn check_relation(
    relation: &InterServiceRelation,
    value: Option<&Value>,
    path: &str,
    problems: &mut Problems,
) {
    let what = format!("the id of a {}", relation.entity_type);
    let Some(value) = value else {
        problems.add(path, format!("is missing: give {what}"));
        return;
    };
    let is_read_only = relation.modifier == Modifier::ReadOnly;
    if relation.upper_limit == Some(1) {
        let may_lack = value.is_null() && (relation.lower_limit == 0 || is_read_only);
        if !may_lack && id(value).is_none() {
            problems.add(path, format!("must be {what}"));
        }
        return;
    }
    let Some(items) = value.as_array() else {
        problems.add(path, format!("must be a list, each item {what}"));
        return;
    };
    let mut seen = BTreeSet::new();
    for (at, item) in items.iter().enumerate() {
        match id(item) {
            None => problems.add(format!("{path}[{at}]"), format!("must be {what}")),
            Some(id) if !seen.insert(id) => {
                problems.add(format!("{path}[{at}]"), format!("{id} is there twice"));
            }
            Some(_) => {}
        }
    }
    if !is_read_only {
        count(
            items.len(),
            relation.lower_limit,
            relation.upper_limit,
            path,
            problems,
        );
    }
}

fn id(value: &Value) -> Option<Uuid> {
    Uuid::parse_str(value.as_str()?).ok()
}

fn count(n: usize, lower: u64, upper: Option<u64>, path: &str, problems: &mut Problems) {
    let n = n as u64;
    if n < lower {
        problems.add(
            path,
            format!("has {n} elements: at least {lower} are needed"),
        );
    }
    if let Some(upper) = upper.filter(|upper| n > *upper) {
        problems.add(
            path,
            format!("has {n} elements: at most {upper} are allowed"),
        );
    }
}

fn check_embedded(
    embedded: &EmbeddedEntity,
    value: Option<&Value>,
    above: &str,
    problems: &mut Problems,
) {
    let path = join(above, &embedded.name);
    let is_read_only = embedded.modifier == Modifier::ReadOnly;
    let is_single = embedded.upper_limit == Some(1);
    let may_lack = embedded.lower_limit == 0 || is_read_only;
    let value = match value {
        None => return problems.add(path, "is missing"),
        Some(value) => value,
    };
    match value {
        Value::Null if is_single && may_lack => return,
        Value::Object(_) if is_single => {}
        Value::Array(items) if !is_single => {
            for (at, item) in items.iter().enumerate() {
                if !item.is_object() {
                    let reason = format!("must be an object, not {}", kind_of(item));
                    problems.add(format!("{path}[{at}]"), reason);
                }
            }
            if !is_read_only {
                count(
                    items.len(),
                    embedded.lower_limit,
                    embedded.upper_limit,
                    &path,
                    problems,
                );
            }
        }
        value => {
            let wanted = if is_single {
                "an object"
            } else {
                "a list of objects"
            };
            return problems.add(path, format!("must be {wanted}, not {}", kind_of(value)));
        }
    }
    let mut seen = BTreeSet::new();
    for (path, element) in elements(embedded, value, above) {
        if let Some(key) = key_of(embedded, element)
            && !seen.insert(key)
        {
            let keys = embedded
                .fields
                .key_attributes
                .as_deref()
                .unwrap_or_default();
            problems.add(
                &path,
                format!("there are several elements with this {}", keys.join(", ")),
            );
        }
        check(&embedded.fields, element, &path, problems);
    }
}

/// What tells an element of a list from the others, as text; `None`: it has no keys, or not all of them.
pub(super) fn key_of(embedded: &EmbeddedEntity, element: &Attributes) -> Option<Vec<String>> {
    let keys = embedded
        .fields
        .key_attributes
        .as_deref()
        .unwrap_or_default();
    if keys.is_empty() {
        return None;
    }
    // A text and a number never are the same key, so the type is part of it.
    let text = |value: &Value| match value.as_f64() {
        Some(number) => number.to_string(),
        None => value.to_string(),
    };
    keys.iter().map(|key| element.get(key).map(text)).collect()
}

/// The elements of an embedded entity, each with its path.
pub(super) fn elements<'v>(
    embedded: &'v EmbeddedEntity,
    value: &'v Value,
    above: &str,
) -> impl Iterator<Item = (String, &'v Attributes)> {
    let path = join(above, &embedded.name);
    let is_list = value.is_array();
    super::fill::elements(value)
        .enumerate()
        .map(move |(at, element)| {
            let place = element_path(embedded, element, &path, is_list.then_some(at));
            (place, element)
        })
}

/// The path of one element: `sites[name=a]`, or `sites[0]` of a list where it has no key. `path`: of all elements.
pub(crate) fn element_path(
    embedded: &EmbeddedEntity,
    element: &Attributes,
    path: &str,
    at: Option<usize>,
) -> String {
    match (place_of(embedded, element), at) {
        (Some(place), _) => format!("{path}{place}"),
        (None, Some(at)) => format!("{path}[{at}]"),
        (None, None) => path.to_owned(),
    }
}

/// The selectors that mean an element: `[name=a]`.
pub(super) fn place_of(embedded: &EmbeddedEntity, element: &Attributes) -> Option<String> {
    let keys = embedded
        .fields
        .key_attributes
        .as_deref()
        .unwrap_or_default();
    if keys.is_empty() || embedded.upper_limit == Some(1) {
        return None;
    }
    let selector = |key: &String| {
        let value = element.get(key).filter(|value| !value.is_null())?;
        Some(format!("[{}={}]", escaped(key), escaped(&text_of(value))))
    };
    keys.iter().map(selector).collect()
}

/// Whether there is a relation between services in these fields, or below them.
fn leads_anywhere(fields: &Fields) -> bool {
    let mut below = fields.embedded_entities.iter();
    !fields.inter_service_relations.is_empty() || below.any(|one| leads_anywhere(&one.fields))
}

/// All instances that a set leads to. What is no id was found before.
pub(super) fn references(
    fields: &Fields,
    set: &Attributes,
    path: &str,
    found: &mut Vec<Reference>,
) {
    for relation in &fields.inter_service_relations {
        let path = join(path, &relation.name);
        let items = match set.get(&relation.name) {
            Some(Value::Array(items)) => items.as_slice(),
            Some(value) => std::slice::from_ref(value),
            None => &[],
        };
        found.extend(items.iter().filter_map(id).map(|id| Reference {
            path: path.clone(),
            service_entity: relation.entity_type.clone(),
            id,
        }));
    }
    for embedded in &fields.embedded_entities {
        // A set may have thousands of elements, and each path is a text that is made.
        let value = set.get(&embedded.name);
        let Some(value) = value.filter(|_| leads_anywhere(&embedded.fields)) else {
            continue;
        };
        for (path, element) in elements(embedded, value, path) {
            references(&embedded.fields, element, &path, found);
        }
    }
}
