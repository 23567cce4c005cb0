//! `int(x)` and its kin. Source: docs/reference/language.md § 4.3.

use num_bigint::BigInt;
use num_traits::FromPrimitive;

use super::Type;
use super::text::Instances;
use super::value::{Heap, Value};

impl Heap {
    /// `None`: the value can not be cast. Unknown must be handled before.
    pub fn cast(&mut self, to: &Type, value: Value, instances: &dyn Instances) -> Option<Value> {
        match to {
            Type::String => Some(match value {
                Value::Str(_) => value,
                Value::Bool(true) => self.new_str("true"),
                Value::Bool(false) => self.new_str("false"),
                value => {
                    let text = self.to_text(value, instances);
                    self.new_str(&text)
                }
            }),
            Type::Bool => Some(Value::Bool(self.truthy(value))),
            Type::Int => match value {
                Value::Int(_) | Value::Big(_) => Some(value),
                Value::Bool(value) => Some(Value::Int(i64::from(value))),
                Value::Float(value) if value.is_finite() => {
                    BigInt::from_f64(value.trunc()).map(|int| self.new_int(int))
                }
                Value::Str(id) => parse_int(self.str(id)).map(|int| self.new_int(int)),
                _ => None,
            },
            Type::Number => match value {
                Value::Int(_) | Value::Big(_) => Some(value),
                Value::Bool(value) => Some(Value::Int(i64::from(value))),
                value => self.cast(&Type::Float, value, instances),
            },
            Type::Float => match value {
                Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Big(_) => {
                    self.to_float(value).map(Value::Float)
                }
                Value::Str(id) => parse_float(self.str(id)).map(Value::Float),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether Python takes the value for true.
    pub fn truthy(&self, value: Value) -> bool {
        match value {
            Value::Null => false,
            Value::Bool(value) => value,
            Value::Int(value) => value != 0,
            Value::Float(value) => value != 0.0,
            Value::Str(id) => !self.str(id).is_empty(),
            Value::List(id) => !self.list(id).is_empty(),
            Value::Dict(id) => !self.dict(id).entries.is_empty(),
            Value::Big(_)
            | Value::Instance(_)
            | Value::Unknown(_)
            | Value::Opaque(_)
            | Value::Reference(_)
            | Value::Skip => true,
        }
    }
}

/// Reads a text as Python's `int()` does: blanks around, a sign, `_` between digits.
pub fn parse_int(text: &str) -> Option<BigInt> {
    let text = text.trim();
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let digits = without_underscores(digits)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) || digits.is_empty() || digits.len() > 4300 {
        return None;
    }
    digits.parse::<BigInt>().ok().map(|int| int * sign)
}

fn without_underscores(digits: &str) -> Option<String> {
    if digits.starts_with('_') || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    Some(digits.replace('_', ""))
}

/// Reads a text as Python's `float()` does.
pub fn parse_float(text: &str) -> Option<f64> {
    let text = without_underscores(text.trim())?;
    let body = text.trim_start_matches(['+', '-']);
    if text.len() - body.len() > 1 {
        return None;
    }
    let lower = body.to_ascii_lowercase();
    if matches!(lower.as_str(), "inf" | "infinity" | "nan") {
        let value = if lower == "nan" {
            f64::NAN
        } else {
            f64::INFINITY
        };
        return Some(if text.starts_with('-') { -value } else { value });
    }
    if !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    text.parse().ok()
}
