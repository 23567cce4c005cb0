//! What compiles write: read-only attributes. Source: docs/reference/lsm.md § 2.10, § 5.11.

use serde_json::Value;

use super::{edited, is_valid};
use crate::attributes::{Edit, EditOperation, elements};
use crate::definition::{Fields, Modifier, ServiceEntity, join};
use crate::dict_path::{Path, Section};
use crate::{Attributes, Problems};

/// A set with the values that a compile has for it. `others`: the other sets of the instance. A model may see elements there that
/// the client has removed since, and allocate for them: what is written into these is left out.
///
/// # Errors
///
/// Every edit that can not be done, changes something that is for clients to set, or would make an element that no client has
/// ordered; and every value that is not of its type.
pub fn write(
    entity: &ServiceEntity,
    base: &Attributes,
    edits: &[Edit],
    others: &[&Attributes],
) -> Result<Attributes, Problems> {
    let fields = &entity.fields;
    let mut problems = Problems::default();
    for edit in edits {
        if let Ok(path) = Path::parse(&edit.target)
            && !is_read_only(fields, path.sections(), edit)
        {
            let reason = format!(
                "{} is not read-only, so compiles can not set it",
                edit.target
            );
            problems.add(place(edit), reason);
        }
    }
    let mut written = edited(fields, base, edits, &mut problems);
    if problems.0.is_empty() && makes_elements(fields, base, &written) {
        let mut kept = Vec::new();
        for edit in edits {
            let makes = |set: &Attributes| makes_by(fields, set, edit);
            if !makes(base) {
                kept.push(edit.clone());
            } else if others.iter().all(|other| makes(other)) {
                let reason = format!(
                    "{}: there is no such element, and compiles make none of what clients order",
                    edit.target
                );
                problems.add(place(edit), reason);
            }
        }
        written = edited(fields, base, &kept, &mut problems);
    }
    let mut known = Problems::default();
    wrong_values(fields, base, "", &mut known);
    let mut wrong = Problems::default();
    wrong_values(fields, &written, "", &mut wrong);
    wrong
        .0
        .retain(|one| known.0.iter().all(|known| known.path != one.path));
    problems.extend(wrong);
    problems.or(written)
}

fn place(edit: &Edit) -> String {
    format!("edit[edit_id={}]", edit.edit_id)
}

/// Whether a set has more of what clients order than one before it.
fn makes_elements(fields: &Fields, before: &Attributes, after: &Attributes) -> bool {
    n_ordered(fields, after) > n_ordered(fields, before)
}

/// Whether an edit makes such an element.
fn makes_by(fields: &Fields, set: &Attributes, edit: &Edit) -> bool {
    let mut problems = Problems::default();
    let after = edited(fields, set, std::slice::from_ref(edit), &mut problems);
    makes_elements(fields, set, &after)
}

/// How many elements of embedded entities are there that are not for compiles to make.
fn n_ordered(fields: &Fields, set: &Attributes) -> usize {
    let of_clients = fields
        .embedded_entities
        .iter()
        .filter(|embedded| embedded.modifier != Modifier::ReadOnly);
    let counts = of_clients.filter_map(|embedded| {
        let elements = elements(set.get(&embedded.name)?);
        let count = elements.map(|element| 1 + n_ordered(&embedded.fields, element));
        Some(count.sum::<usize>())
    });
    counts.sum()
}

/// Values that are not of their types. What is missing, or null, is for the next compile.
fn wrong_values(fields: &Fields, set: &Attributes, path: &str, problems: &mut Problems) {
    for attribute in &fields.attributes {
        let value = set.get(&attribute.name).filter(|value| !value.is_null());
        if let Some(Err(reason)) = value.map(|value| is_valid(attribute, value)) {
            problems.add(join(path, &attribute.name), reason);
        }
    }
    for embedded in &fields.embedded_entities {
        let path = join(path, &embedded.name);
        for element in set.get(&embedded.name).into_iter().flat_map(elements) {
            wrong_values(&embedded.fields, element, &path, problems);
        }
    }
}

/// Whether an edit stays below something that is read-only. Values that are merged into an element are looked at one by one.
fn is_read_only(fields: &Fields, path: &[Section], edit: &Edit) -> bool {
    let Some((first, rest)) = path.split_first() else {
        let is_merge = matches!(
            edit.operation,
            EditOperation::Merge | EditOperation::Replace
        );
        return is_merge
            && edit
                .value
                .as_object()
                .is_some_and(|value| all_read_only(fields, value));
    };
    if is_read_only_name(fields, first.name()) {
        return true;
    }
    let mut embedded = fields.embedded_entities.iter();
    let Some(embedded) = embedded.find(|one| one.name == first.name()) else {
        return false;
    };
    match (rest, edit.operation, &edit.value) {
        ([], EditOperation::Merge, Value::Object(value)) => below(embedded, value),
        ([], EditOperation::Merge, Value::Array(items)) => {
            let mut items = items.iter().map(Value::as_object);
            items.all(|item| item.is_some_and(|item| below(embedded, item)))
        }
        ([], _, _) => false,
        (rest, _, _) => is_read_only(&embedded.fields, rest, edit),
    }
}

/// An element is merged by its keys, which stay as they are.
fn below(embedded: &crate::definition::EmbeddedEntity, value: &Attributes) -> bool {
    let keys = embedded
        .fields
        .key_attributes
        .as_deref()
        .unwrap_or_default();
    let mut value = value.clone();
    value.retain(|name, _| !keys.contains(name));
    all_read_only(&embedded.fields, &value)
}

fn all_read_only(fields: &Fields, value: &Attributes) -> bool {
    value.iter().all(|(name, value)| {
        let mut embedded = fields.embedded_entities.iter();
        match embedded.find(|one| one.name == *name) {
            Some(one) if one.modifier != Modifier::ReadOnly => match value {
                Value::Object(value) => below(one, value),
                Value::Array(items) => {
                    let mut items = items.iter().map(Value::as_object);
                    items.all(|item| item.is_some_and(|item| below(one, item)))
                }
                _ => false,
            },
            _ => is_read_only_name(fields, name),
        }
    })
}

fn is_read_only_name(fields: &Fields, name: &str) -> bool {
    let mut all = fields.modifiers();
    all.any(|(known, modifier)| known == name && modifier == Modifier::ReadOnly)
}
