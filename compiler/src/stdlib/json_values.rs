//! `std::validate_type` for values outside of a model: those that clients of the service inventory send.

use serde_json::{Map, Value as Json};

use crate::hir::plugin::PluginError;
use crate::stdlib::validate::validate;
use crate::types::{Heap, Value};

/// Types that are checked; whatever else a definition names is left to compiles.
const PREFIXES: [&str; 4] = ["pydantic.", "datetime.", "ipaddress.", "uuid."];

/// Whether a value is of a type of `std::validate_type`. `None`: the type is unknown, or its parameters make no sense, so that
/// only a compile can tell. Source: docs/reference/std.md § 6, docs/reference/lsm.md § 1.3.2.
#[must_use]
pub fn validate_json(
    name: &str,
    value: &Json,
    parameters: Option<&Map<String, Json>>,
) -> Option<bool> {
    if !PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let mut heap = Heap::default();
    let value = converted(&mut heap, value);
    let parameters = parameters.and_then(|map| {
        let mut entries = Vec::with_capacity(map.len());
        for (key, value) in map {
            let value = converted(&mut heap, value);
            entries.push((heap.add_str(key), value));
        }
        match heap.new_dict(entries) {
            Value::Dict(dict) => Some(dict),
            _ => None,
        }
    });
    let checked: Result<bool, PluginError> = validate(&heap, name, value, parameters);
    checked.ok()
}

/// A JSON value in the memory of a model. Types of values are those of plain values only, so what a list or an object has in it
/// does not matter.
fn converted(heap: &mut Heap, value: &Json) -> Value {
    match value {
        Json::Null | Json::Array(_) | Json::Object(_) => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(int), _) => Value::Int(int),
            (None, float) => Value::Float(float.unwrap_or(f64::NAN)),
        },
        Json::String(text) => heap.new_str(text),
    }
}
