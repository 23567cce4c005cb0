//! Types and validations of plain values. Source: docs/reference/lsm.md § 1.3.2.

use serde_json::{Map, Value};
use steward_compiler::validate_json;

use crate::Problems;
use crate::definition::EntityAttribute;
use crate::dict_path::kind_of;

/// Values that pass one of several validations, each of which is in the parameters as it would be alone.
pub(crate) const ANY_OF: &str = "steward.any_of";
/// How many values of an enumeration a message lists.
const MAX_LISTED: usize = 20;

/// Whether an attribute can have a value.
///
/// # Errors
///
/// Why not.
pub fn is_valid(attribute: &EntityAttribute, value: &Value) -> Result<(), String> {
    let problems = problems_of(attribute, "", value).0;
    let texts = problems.iter().map(|problem| match problem.path.as_str() {
        "" => problem.reason.clone(),
        place => format!("{place} {}", problem.reason),
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        Ok(())
    } else {
        Err(texts.join("; "))
    }
}

/// All that is wrong with the value of an attribute at a path: of a list, each element that is wrong by its own path.
pub(super) fn problems_of(attribute: &EntityAttribute, path: &str, value: &Value) -> Problems {
    let mut problems = Problems::default();
    let wanted = Wanted {
        type_name: &attribute.value_type,
        validation: attribute.validation_type.as_deref(),
        parameters: attribute.validation_parameters.as_ref(),
    };
    wanted.check(value, path, &mut problems);
    problems
}

/// What a value has to be: its type, and the validation with the same suffixes.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    type_name: &'a str,
    validation: Option<&'a str>,
    parameters: Option<&'a Map<String, Value>>,
}

impl<'a> Wanted<'a> {
    /// What is inside of a type with this suffix.
    fn inside(self, suffix: &str) -> Option<Wanted<'a>> {
        let stripped = |kind: &'a str| kind.strip_suffix(suffix).unwrap_or(kind);
        Some(Self {
            type_name: self.type_name.strip_suffix(suffix)?,
            validation: self.validation.map(stripped),
            parameters: self.parameters,
        })
    }

    /// A type may be null (`?`) and be a list (`[]`); the suffix at the end is the outermost.
    fn check(self, value: &Value, path: &str, problems: &mut Problems) {
        if let Some(inner) = self.inside("?") {
            if !value.is_null() {
                inner.check(value, path, problems);
            }
        } else if let Some(inner) = self.inside("[]") {
            let Some(items) = value.as_array() else {
                let reason = format!("must be {}, not {}", self.type_name, kind_of(value));
                return problems.add(path, reason);
            };
            for (at, item) in items.iter().enumerate() {
                inner.check(item, &format!("{path}[{at}]"), problems);
            }
        } else {
            let valid = has_type(self.type_name, value).and_then(|()| match self.validation {
                Some(kind) => validated(kind, self.parameters, value),
                None => Ok(()),
            });
            if let Err(reason) = valid {
                problems.add(path, reason);
            }
        }
    }
}

/// Whether a value is of a type without suffixes.
fn has_type(name: &str, value: &Value) -> Result<(), String> {
    let is_right = match name {
        "string" => value.is_string(),
        "bool" => value.is_boolean(),
        "int" => is_integral(value),
        "number" | "float" => value.is_number(),
        "list" => value.is_array(),
        "dict" => value.is_object(),
        // A type that only the model knows.
        _ => true,
    };
    if is_right {
        Ok(())
    } else {
        Err(format!("must be {name}, not {}", kind_of(value)))
    }
}

/// Integral numbers as JSON has them: `5` and `5.0`.
fn is_integral(value: &Value) -> bool {
    let is_whole = |number: f64| number.is_finite() && number.fract() == 0.0;
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole)
}

fn each(items: &[Value], check: impl Fn(&Value) -> Result<(), String>) -> Result<(), String> {
    let mut items = items.iter().enumerate();
    items.try_for_each(|(at, item)| check(item).map_err(|reason| format!("[{at}] {reason}")))
}

fn validated(
    kind: &str,
    parameters: Option<&Map<String, Value>>,
    value: &Value,
) -> Result<(), String> {
    if let Some(inner) = kind.strip_suffix('?') {
        return if value.is_null() {
            Ok(())
        } else {
            validated(inner, parameters, value)
        };
    }
    if let Some(inner) = kind.strip_suffix("[]") {
        let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
        return each(items, |item| validated(inner, parameters, item));
    }
    match kind {
        "enum" => one_of(parameters, value),
        ANY_OF => any_of(parameters, value),
        kind => match validate_json(kind, value, parameters) {
            Some(false) => Err(refused(kind, parameters)),
            // What is not known here a compile checks.
            Some(true) | None => Ok(()),
        },
    }
}

fn one_of(parameters: Option<&Map<String, Value>>, value: &Value) -> Result<(), String> {
    let names = parameters.and_then(|parameters| parameters.get("names"));
    let Some(names) = names.and_then(Value::as_object) else {
        return Ok(());
    };
    if names.values().any(|known| same(known, value)) {
        return Ok(());
    }
    let mut known: Vec<String> = names
        .values()
        .take(MAX_LISTED)
        .map(Value::to_string)
        .collect();
    if names.len() > MAX_LISTED {
        known.push("...".to_owned());
    }
    Err(format!("must be one of {}", known.join(", ")))
}

fn any_of(parameters: Option<&Map<String, Value>>, value: &Value) -> Result<(), String> {
    let choices = parameters.and_then(|parameters| parameters.get("any_of"));
    let Some(choices) = choices.and_then(Value::as_array) else {
        return Ok(());
    };
    let mut reasons = Vec::new();
    for choice in choices {
        let Some(kind) = choice.get("validation_type").and_then(Value::as_str) else {
            return Ok(());
        };
        let parameters = choice
            .get("validation_parameters")
            .and_then(Value::as_object);
        match validated(kind, parameters, value) {
            Ok(()) => return Ok(()),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join(", or "))
}

fn refused(kind: &str, parameters: Option<&Map<String, Value>>) -> String {
    let given = parameters.into_iter().flatten();
    let given = given.filter(|(_, value)| !value.is_null());
    let texts = given.map(|(name, value)| match (name.as_str(), value) {
        ("regex" | "pattern", Value::String(pattern)) => format!("must match /{pattern}/"),
        ("gt", bound) => format!("must be more than {bound}"),
        ("ge", bound) => format!("must be at least {bound}"),
        ("lt", bound) => format!("must be less than {bound}"),
        ("le", bound) => format!("must be at most {bound}"),
        (name, value) => format!("must have {name} {value}"),
    });
    let texts: Vec<String> = texts.collect();
    if texts.is_empty() {
        format!("is no {kind}")
    } else {
        texts.join(" and ")
    }
}

/// Whether two values are equal; `1` and `1.0` are.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() != right.is_f64() && left.as_f64() == right.as_f64())
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        (left, right) => left == right,
    }
}
