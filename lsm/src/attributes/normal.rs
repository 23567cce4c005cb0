//! One form for values that JSON writes in several: what a client sends as `3` is a float where the attribute is one.
//!
//! JavaScript writes whole numbers without a fraction, whatever they are, and some clients write all numbers with one; ids are
//! written in capitals or without dashes. A model tells `3` from `3.0`, finds instances by the text of their ids, and two
//! spellings of one identity would be two instances: so one form is stored. Source: docs/reference/lsm.md § 1.3.2, § 1.5.

use serde_json::Value;
use uuid::Uuid;

use super::fill::elements_mut;
use crate::Attributes;
use crate::definition::Fields;

/// Integers below this have a float of the same value, and the other way round.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Puts the values of a set into the form of their types. What is of no such form stays as it is.
pub(crate) fn normalize(fields: &Fields, set: &mut Attributes) {
    for attribute in &fields.attributes {
        if let Some(value) = set.get_mut(&attribute.name) {
            number(&attribute.value_type, value);
        }
    }
    for relation in &fields.inter_service_relations {
        match set.get_mut(&relation.name) {
            Some(Value::Array(items)) => items.iter_mut().for_each(id),
            Some(value) => id(value),
            None => {}
        }
    }
    for embedded in &fields.embedded_entities {
        if let Some(value) = set.get_mut(&embedded.name) {
            elements_mut(value).for_each(|element| normalize(&embedded.fields, element));
        }
    }
}

/// A type may be null (`?`) and be a list (`[]`), as in [`super::is_valid`].
fn number(name: &str, value: &mut Value) {
    if let Some(inner) = name.strip_suffix('?') {
        number(inner, value);
    } else if let (Some(inner), Value::Array(items)) = (name.strip_suffix("[]"), &mut *value) {
        items.iter_mut().for_each(|item| number(inner, item));
    } else if let Some(found) = value.as_f64().filter(|found| found.abs() < EXACT) {
        match name {
            "int" if value.is_f64() && found.fract() == 0.0 => {
                // It is whole, and small enough to be the same as an integer.
                let whole = found as i64;
                *value = Value::from(whole);
            }
            "float" if !value.is_f64() => *value = Value::from(found),
            _ => {}
        }
    }
}

fn id(value: &mut Value) {
    if let Some(found) = value.as_str().and_then(|text| Uuid::parse_str(text).ok()) {
        *value = Value::from(found.to_string());
    }
}
