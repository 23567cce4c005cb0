//! Edits of a set, one after the other. Source: docs/reference/lsm.md § 5.5.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use super::check::key_of;
use crate::attributes::{Edit, EditOperation};
use crate::definition::{EmbeddedEntity, Fields};
use crate::dict_path::{Path, PathError, Section, kind_of};
use crate::{Problem, Problems};

/// Applies edits; one that can not be done is noted, and the others go on, so that all problems are found at once.
pub(super) fn apply(fields: &Fields, set: &mut Value, edits: &[Edit], problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for edit in edits {
        if !seen.insert(&edit.edit_id) {
            problems.add(
                place(edit),
                "the edit_id is used by several edits of this call",
            );
        }
        if let Err(problem) = apply_one(fields, set, edit) {
            problems.0.push(problem);
        }
    }
}

fn place(edit: &Edit) -> String {
    format!("edit[edit_id={}]", edit.edit_id)
}

fn apply_one(fields: &Fields, set: &mut Value, edit: &Edit) -> Result<(), Problem> {
    let refuse = |error: PathError| Problem::new(place(edit), format!("{}: {error}", edit.target));
    let path = Path::parse(&edit.target).map_err(refuse)?;
    match edit.operation {
        EditOperation::Replace => path.set(set, edit.value.clone(), true).map_err(refuse),
        EditOperation::Remove => path.remove(set).map_err(refuse),
        EditOperation::Merge => merge_at(fields, set, &path, &edit.value).map_err(refuse),
        EditOperation::Add => add_at(fields, set, &path, &edit.value).map_err(refuse),
    }
}

/// What the definition has at the end of a path.
enum Node<'d> {
    /// A service, or one element of an embedded entity.
    Element(&'d Fields),
    /// A relation to an embedded entity.
    Relation(&'d EmbeddedEntity),
    /// A plain value.
    Plain,
}

fn node<'d>(fields: &'d Fields, path: &Path) -> Node<'d> {
    let mut at = Node::Element(fields);
    for section in path.sections() {
        let fields = match at {
            Node::Element(fields) => fields,
            // An embedded entity that there is one of is entered by its name.
            Node::Relation(embedded) => &embedded.fields,
            Node::Plain => return Node::Plain,
        };
        let embedded = fields
            .embedded_entities
            .iter()
            .find(|one| one.name == section.name());
        at = match (embedded, section) {
            (Some(embedded), Section::Key(_)) => Node::Relation(embedded),
            (Some(embedded), Section::Keyed { .. }) => Node::Element(&embedded.fields),
            (None, _) => Node::Plain,
        };
    }
    at
}

fn merge_at(fields: &Fields, set: &mut Value, path: &Path, value: &Value) -> Result<(), PathError> {
    let node = node(fields, path);
    // What is not there is made: a list for the elements of a list, else an object.
    let is_missing = matches!(path.get(set), Err(PathError::Missing(_)) | Ok(Value::Null));
    if is_missing && !path.sections().is_empty() {
        let made = match value {
            Value::Array(_) => Value::Array(Vec::new()),
            _ => Value::Object(Map::new()),
        };
        match path.sections().last() {
            // An element that is made has the values of its selector.
            Some(Section::Keyed { .. }) => drop(path.get_or_construct(set)?),
            _ => path.set(set, made, true)?,
        }
    }
    let target = path.get_or_construct(set)?;
    match node {
        Node::Element(fields) => merge_element(fields, target, value),
        Node::Relation(embedded) => merge_relation(embedded, target, value),
        Node::Plain => merge_plain(target, value),
    }
}

fn merge_plain(target: &mut Value, value: &Value) -> Result<(), PathError> {
    match (target, value) {
        (Value::Object(target), Value::Object(value)) => {
            target.extend(value.clone());
            Ok(())
        }
        (target, value) => Err(wrong(target, value)),
    }
}

fn merge_element(fields: &Fields, target: &mut Value, value: &Value) -> Result<(), PathError> {
    let (target, value) = match (target, value) {
        (Value::Object(target), Value::Object(value)) => (target, value),
        (target, value) => return Err(wrong(target, value)),
    };
    for (name, value) in value {
        let embedded = fields
            .embedded_entities
            .iter()
            .find(|one| one.name == *name);
        match (embedded, target.get_mut(name)) {
            (Some(embedded), Some(inner)) if !inner.is_null() && !value.is_null() => {
                merge_relation(embedded, inner, value)?;
            }
            _ => drop(target.insert(name.clone(), value.clone())),
        }
    }
    Ok(())
}

fn merge_relation(
    embedded: &EmbeddedEntity,
    target: &mut Value,
    value: &Value,
) -> Result<(), PathError> {
    if target.is_object() {
        return merge_element(&embedded.fields, target, value);
    }
    let (items, given) = match (target, value) {
        (Value::Array(items), Value::Array(given)) => (items, given),
        (target, value) => return Err(wrong(target, value)),
    };
    let key = |item: &Value| key_of(embedded, item.as_object()?);
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(key) = key(item) {
            places.entry(key).or_insert(at);
        }
    }
    for element in given {
        let key = key(element);
        match key.as_ref().and_then(|key| places.get(key)) {
            Some(at) => merge_element(&embedded.fields, &mut items[*at], element)?,
            None => {
                places.extend(key.map(|key| (key, items.len())));
                items.push(element.clone());
            }
        }
    }
    Ok(())
}

/// Where a list has the element with the keys of another one.
fn same_key(embedded: &EmbeddedEntity, items: &[Value], element: &Value) -> Option<usize> {
    let key = key_of(embedded, element.as_object()?)?;
    let mut items = items.iter();
    items.position(|item| {
        let item = item.as_object();
        item.and_then(|item| key_of(embedded, item)).as_ref() == Some(&key)
    })
}

fn add_at(fields: &Fields, set: &mut Value, path: &Path, value: &Value) -> Result<(), PathError> {
    if matches!(path.get(set), Err(PathError::Missing(_)) | Ok(Value::Null)) {
        path.set(set, Value::Array(Vec::new()), true)?;
    }
    let node = node(fields, path);
    let target = path.get_or_construct(set)?;
    let kind = kind_of(target);
    let Value::Array(items) = target else {
        return Err(PathError::Structure(format!(
            "is {kind}, and elements are added to lists"
        )));
    };
    if let Node::Relation(embedded) = node
        && same_key(embedded, items, value).is_some()
    {
        return Err(PathError::Structure(
            "there is an element with this key already".to_owned(),
        ));
    }
    items.push(value.clone());
    Ok(())
}

fn wrong(target: &Value, value: &Value) -> PathError {
    let reason = format!(
        "{} can not be merged into {}",
        kind_of(value),
        kind_of(target)
    );
    PathError::Structure(reason)
}
