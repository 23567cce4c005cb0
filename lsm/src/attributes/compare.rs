//! Modifiers: who may set what, and when. Source: docs/reference/lsm.md § 1.3.3, § 1.4.3, § 1.4.4.
//!
//! Both sets are complete when they are compared, so what was not given stands there with its default. Elements of lists are
//! the same element if their keys are equal, wherever they stand.

use std::collections::HashMap;

use serde_json::Value;

use super::check::{elements as placed, key_of, place_of};
use super::fill::{default_of, elements};
use super::request::{Edit, EditOperation};
use super::values::same;
use crate::definition::{EmbeddedEntity, Fields, Modifier, join};
use crate::dict_path::{Path, Section};
use crate::{Attributes, Problems};

const ONLY_COMPILES: &str = "is read-only: it is set by the orchestrator";
const ONLY_AT_CREATION: &str = "can be set at creation only";

/// The elements of a relation to an embedded entity, to be found by what tells them apart: a list may have ten thousand, and each
/// of them is looked for in another such list.
pub(super) struct Elements<'v> {
    embedded: &'v EmbeddedEntity,
    /// Of those with the same key, which a check has complained of, the first.
    by_key: HashMap<Vec<String>, &'v Attributes>,
    /// Without keys: the one object that there may be keeps its identity.
    only: Option<&'v Attributes>,
}

impl<'v> Elements<'v> {
    pub(super) fn of(embedded: &'v EmbeddedEntity, value: &'v Value) -> Self {
        let mut by_key = HashMap::new();
        for element in elements(value) {
            if let Some(key) = key_of(embedded, element) {
                by_key.entry(key).or_insert(element);
            }
        }
        let keys = embedded.fields.key_attributes.as_deref();
        let has_keys = keys.is_some_and(|keys| !keys.is_empty());
        let is_one = !has_keys && embedded.upper_limit == Some(1);
        Self {
            embedded,
            by_key,
            only: value.as_object().filter(|_| is_one),
        }
    }

    /// The element that is the same as this one of another value.
    pub(super) fn matching(&self, element: &Attributes) -> Option<&'v Attributes> {
        let key = key_of(self.embedded, element);
        let found = key.and_then(|key| self.by_key.get(&key).copied());
        found.or(self.only)
    }
}

/// Refuses edits that remove what only compiles set, at whatever depth. It would be put back without a word, as it is where a
/// client replaces attributes, or an element, as a whole and leaves it out.
pub(super) fn removed(fields: &Fields, base: &Attributes, edits: &[Edit], problems: &mut Problems) {
    let removals = edits
        .iter()
        .filter(|edit| edit.operation == EditOperation::Remove);
    let paths = removals.filter_map(|edit| Some((edit, Path::parse(&edit.target).ok()?)));
    let read_only: Vec<(&Edit, Path)> = paths
        .filter(|(_, path)| is_read_only(fields, path))
        .collect();
    if read_only.is_empty() {
        return;
    }
    let base = Value::Object(base.clone());
    for (edit, path) in read_only {
        if path.get(&base).is_ok_and(|value| !value.is_null()) {
            problems.add(edit.target.clone(), ONLY_COMPILES);
        }
    }
}

/// Whether a path leads to a whole attribute or relation that only compiles set.
fn is_read_only(fields: &Fields, path: &Path) -> bool {
    let Some((last, before)) = path.sections().split_last() else {
        return false;
    };
    let Section::Key(_) = last else {
        return false;
    };
    let mut fields = fields;
    for section in before {
        let mut embedded = fields.embedded_entities.iter();
        match embedded.find(|one| one.name == section.name()) {
            Some(one) => fields = &one.fields,
            None => return false,
        }
    }
    let attributes = fields.attributes.iter();
    let attributes = attributes.map(|one| (&one.name, one.modifier));
    let relations = fields.inter_service_relations.iter();
    let relations = relations.map(|one| (&one.name, one.modifier));
    let embedded = fields.embedded_entities.iter();
    let embedded = embedded.map(|one| (&one.name, one.modifier));
    let mut all = attributes.chain(relations).chain(embedded);
    all.any(|(name, modifier)| modifier == Modifier::ReadOnly && name == last.name())
}

/// What a client may set when something is created. Below the top it counts with strict modifiers only.
pub(super) fn created(
    fields: &Fields,
    new: &Attributes,
    is_strict: bool,
    path: &str,
    problems: &mut Problems,
) {
    for attribute in fields
        .attributes
        .iter()
        .filter(|one| one.modifier == Modifier::ReadOnly)
    {
        let value = new.get(&attribute.name).filter(|value| !value.is_null());
        if value.is_some() && value != default_of(attribute).as_ref() {
            problems.add(join(path, &attribute.name), ONLY_COMPILES);
        }
    }
    for relation in &fields.inter_service_relations {
        if relation.modifier == Modifier::ReadOnly && !is_empty(new.get(&relation.name)) {
            problems.add(join(path, &relation.name), ONLY_COMPILES);
        }
    }
    for embedded in &fields.embedded_entities {
        let Some(value) = new.get(&embedded.name) else {
            continue;
        };
        if embedded.modifier == Modifier::ReadOnly {
            if !is_empty(Some(value)) {
                problems.add(join(path, &embedded.name), ONLY_COMPILES);
            }
        } else if is_strict {
            for (path, element) in placed(embedded, value, path) {
                created(&embedded.fields, element, true, &path, problems);
            }
        }
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

/// Without strict modifiers the values at the top are compared as wholes.
pub(super) fn top(fields: &Fields, old: &Attributes, new: &Attributes, problems: &mut Problems) {
    let attributes = fields
        .attributes
        .iter()
        .map(|one| (&one.name, one.modifier));
    let embedded = fields
        .embedded_entities
        .iter()
        .map(|one| (&one.name, one.modifier));
    for (name, modifier) in attributes.chain(embedded) {
        value(old.get(name), new.get(name), modifier, name, problems);
    }
    relations(fields, old, new, "", problems);
}

fn value(
    old: Option<&Value>,
    new: Option<&Value>,
    modifier: Modifier,
    path: &str,
    problems: &mut Problems,
) {
    let is_same = match (old, new) {
        (Some(old), Some(new)) => same(old, new),
        (old, new) => old == new,
    };
    match modifier {
        Modifier::ReadOnly if !is_same => problems.add(path, ONLY_COMPILES),
        Modifier::AtCreation if !is_same => problems.add(path, ONLY_AT_CREATION),
        _ => {}
    }
}

/// The order of the ids of a relation says nothing.
fn relations(
    fields: &Fields,
    old: &Attributes,
    new: &Attributes,
    path: &str,
    problems: &mut Problems,
) {
    let sorted = |value: Option<&Value>| {
        let mut value = value.cloned();
        if let Some(Value::Array(items)) = &mut value {
            items.sort_by_key(Value::to_string);
        }
        value
    };
    for relation in &fields.inter_service_relations {
        let [old, new] = [old, new].map(|set| sorted(set.get(&relation.name)));
        let path = join(path, &relation.name);
        value(
            old.as_ref(),
            new.as_ref(),
            relation.modifier,
            &path,
            problems,
        );
    }
}

/// With strict modifiers each value at each level is compared with what it was.
pub(super) fn strict(
    fields: &Fields,
    old: &Attributes,
    new: &Attributes,
    path: &str,
    problems: &mut Problems,
) {
    for attribute in &fields.attributes {
        let [old, new] = [old, new].map(|set| set.get(&attribute.name));
        let path = join(path, &attribute.name);
        value(old, new, attribute.modifier, &path, problems);
    }
    relations(fields, old, new, path, problems);
    for embedded in &fields.embedded_entities {
        let nothing = Value::Null;
        let [old, new] = [old, new].map(|set| set.get(&embedded.name).unwrap_or(&nothing));
        strict_embedded(embedded, old, new, path, problems);
    }
}

fn strict_embedded(
    embedded: &EmbeddedEntity,
    old: &Value,
    new: &Value,
    above: &str,
    problems: &mut Problems,
) {
    let path = join(above, &embedded.name);
    if embedded.modifier == Modifier::ReadOnly {
        value(Some(old), Some(new), Modifier::ReadOnly, &path, problems);
        return;
    }
    let is_fixed = embedded.modifier == Modifier::AtCreation;
    let known = Elements::of(embedded, old);
    for (path, element) in placed(embedded, new, above) {
        match known.matching(element) {
            Some(before) => strict(&embedded.fields, before, element, &path, problems),
            None if is_fixed => problems.add(path, "can be added at creation only"),
            None => created(&embedded.fields, element, true, &path, problems),
        }
    }
    if is_fixed {
        let kept = Elements::of(embedded, new);
        for before in elements(old) {
            if kept.matching(before).is_none() {
                let place = place_of(embedded, before).unwrap_or_default();
                problems.add(
                    format!("{path}{place}"),
                    "can not be removed after the creation",
                );
            }
        }
    }
}
