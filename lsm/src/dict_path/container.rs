//! What paths go through: objects, lists, and the values that selectors compare. Source: docs/reference/lsm.md § 6.2.

use serde_json::{Map, Value};

use super::{Key, PathError, Wanted};

impl Wanted {
    fn matches(&self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Null => value.is_null(),
            Self::Text(text) => match value {
                Value::Null => false,
                // Python's texts are those of the reference, JSON's those that clients write; as a number a bool is 0 or 1.
                Value::Bool(value) => {
                    let words = if *value {
                        ["True", "true"]
                    } else {
                        ["False", "false"]
                    };
                    words.contains(&text.as_str())
                        || number(text) == Some(f64::from(u8::from(*value)))
                }
                Value::Number(found) => {
                    let is_equal = number(text).is_some() && number(text) == found.as_f64();
                    *text == found.to_string() || is_equal
                }
                value => *text == text_of(value),
            },
        }
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// The text form of a value that is not null.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        value => value.to_string(),
    }
}

pub(super) fn matches(item: &Value, pairs: &[(Key, Wanted)]) -> bool {
    let Some(map) = item.as_object() else {
        return false;
    };
    pairs.iter().all(|(key, wanted)| match key {
        Key::Any => map.values().any(|value| wanted.matches(value)),
        Key::Name(name) => map.get(name).is_some_and(|value| wanted.matches(value)),
    })
}

pub(super) fn positions(items: &[Value], pairs: &[(Key, Wanted)]) -> Vec<usize> {
    let all = items.iter().enumerate();
    all.filter(|(_, item)| matches(item, pairs))
        .map(|(at, _)| at)
        .collect()
}

/// A new element with the values of a keyed section; they are texts, for a path has no types.
pub(super) fn constructed(pairs: &[(Key, Wanted)]) -> Value {
    let value = |wanted: &Wanted| match wanted {
        Wanted::Text(text) => Value::String(text.clone()),
        Wanted::Null | Wanted::Any => Value::Null,
    };
    let pairs = pairs.iter();
    Value::Object(
        pairs
            .map(|(key, wanted)| (key.text().to_owned(), value(wanted)))
            .collect(),
    )
}

pub(super) fn object(value: &Value) -> Result<&Map<String, Value>, PathError> {
    value.as_object().ok_or_else(|| no_object(value))
}

pub(super) fn object_mut(value: &mut Value) -> Result<&mut Map<String, Value>, PathError> {
    match value {
        Value::Object(map) => Ok(map),
        other => Err(no_object(other)),
    }
}

pub(super) fn list_mut<'v>(
    container: &'v mut Value,
    relation: &str,
    construct: bool,
) -> Result<&'v mut Vec<Value>, PathError> {
    let map = object_mut(container)?;
    if construct && !map.contains_key(relation) {
        map.insert(relation.to_owned(), Value::Array(Vec::new()));
    }
    match map.get_mut(relation) {
        Some(Value::Array(items)) => Ok(items),
        Some(other) => Err(no_list(relation, other)),
        None => Err(PathError::Missing(format!("there is no `{relation}`"))),
    }
}

pub(super) fn no_object(value: &Value) -> PathError {
    PathError::Structure(format!("{} is no object", kind_of(value)))
}

pub(super) fn no_list(relation: &str, value: &Value) -> PathError {
    PathError::Structure(format!("`{relation}` is {}, not a list", kind_of(value)))
}

/// A value as messages name it: values of clients may be long, or secret.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
