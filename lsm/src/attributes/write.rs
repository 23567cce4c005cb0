//! What compiles write: read-only attributes. Source: docs/reference/lsm.md § 2.10, § 5.11.

use serde_json::Value;

use super::edited;
use crate::attributes::{Edit, EditOperation};
use crate::definition::{Fields, Modifier, ServiceEntity};
use crate::dict_path::{Path, Section};
use crate::{Attributes, Problems};

/// A set with the values that a compile has for it.
///
/// # Errors
///
/// Every edit that can not be done, or changes something that is for clients to set.
pub fn write(
    entity: &ServiceEntity,
    base: &Attributes,
    edits: &[Edit],
) -> Result<Attributes, Problems> {
    let mut problems = Problems::default();
    for edit in edits {
        if let Ok(path) = Path::parse(&edit.target)
            && !is_read_only(&entity.fields, path.sections(), edit)
        {
            let place = format!("edit[edit_id={}]", edit.edit_id);
            let reason = format!(
                "{} is not read-only, so compiles can not set it",
                edit.target
            );
            problems.add(place, reason);
        }
    }
    let written = edited(&entity.fields, base, edits, &mut problems);
    problems.or(written)
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
