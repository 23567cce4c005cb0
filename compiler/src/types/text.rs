//! Values as text, the way Python writes them. Source: docs/reference/language.md § 1.6.1.

use std::fmt::Write;

use super::value::{Heap, InstId, Value};

/// How instances are written; only the running model knows.
pub trait Instances {
    /// `m::E (instantiated at FILE:LINE)`
    fn instance_text(&self, id: InstId) -> String;
    /// `m::E 7f0000000001`, inside of lists and dicts.
    fn instance_handle(&self, id: InstId) -> String;
}

/// Shortest text that reads back as the same float, as Python's `repr`.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = format!("{value}");
        return if plain.contains('.') {
            plain
        } else {
            plain + ".0"
        };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// Python's `repr` of a text.
pub fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || (0x7f..0xa1).contains(&(c as u32)) || c == '\u{ad}' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if is_unprintable(c) => {
                let code = c as u32;
                let _ = if code > 0xffff {
                    write!(out, "\\U{code:08x}")
                } else {
                    write!(out, "\\u{code:04x}")
                };
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

fn is_unprintable(c: char) -> bool {
    matches!(c as u32,
        0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xe000..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0x2000..=0x200a
        | 0x202f | 0x205f | 0x3000 | 0x1680)
}

impl Heap {
    /// The text inside of containers.
    pub fn repr(&self, value: Value, instances: &dyn Instances) -> String {
        match value {
            Value::Null => "null".to_owned(),
            Value::Bool(true) => "True".to_owned(),
            Value::Bool(false) => "False".to_owned(),
            Value::Int(value) => value.to_string(),
            Value::Big(id) => self.big(id).to_string(),
            Value::Float(value) => float(value),
            Value::Str(id) => quoted(self.str(id)),
            Value::List(id) => {
                let items: Vec<String> = self
                    .list(id)
                    .iter()
                    .map(|item| self.repr(*item, instances))
                    .collect();
                format!("[{}]", items.join(", "))
            }
            Value::Dict(id) => {
                let entries: Vec<String> = self
                    .dict(id)
                    .entries
                    .iter()
                    .map(|(key, value)| {
                        format!(
                            "{}: {}",
                            quoted(self.str(*key)),
                            self.repr(*value, instances)
                        )
                    })
                    .collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Instance(id) => instances.instance_handle(id),
            Value::Unknown(id) => format!(
                "<inmanta.execute.util.Unknown object at 0x7e{:010x}>",
                u64::from(id.0) * 16
            ),
            Value::Opaque(number) => self.object_repr(number),
            Value::Reference(id) => self.reference_repr(id),
            Value::Skip => String::new(),
        }
    }

    /// The text of a value by itself, as Python's `str`.
    pub fn to_text(&self, value: Value, instances: &dyn Instances) -> String {
        match value {
            Value::Str(id) => self.str(id).to_owned(),
            Value::Instance(id) => instances.instance_text(id),
            Value::Reference(id) => self.reference_text(id),
            Value::Opaque(number) => self.object_text(number),
            value => self.repr(value, instances),
        }
    }

    /// Appends the text for `{{ }}` and f-strings: whole floats lose their fraction.
    pub fn write_interpolated(&self, value: Value, instances: &dyn Instances, out: &mut String) {
        match value {
            Value::Str(id) => out.push_str(self.str(id)),
            Value::Int(value) => {
                let _ = write!(out, "{value}");
            }
            // As an integer, which has no negative zero.
            Value::Float(value) if value.fract() == 0.0 && value.is_finite() => {
                let _ = write!(out, "{:.0}", value + 0.0);
            }
            value => out.push_str(&self.to_text(value, instances)),
        }
    }

    /// Python's name of a value's type.
    pub fn python_type(&self, value: Value) -> &str {
        match value {
            Value::Null => "NoneValue",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Big(_) => "int",
            Value::Float(_) => "float",
            Value::Str(_) => "str",
            Value::List(_) => "list",
            Value::Dict(_) => "dict",
            Value::Instance(_) => "Instance",
            Value::Unknown(_) => "Unknown",
            Value::Opaque(number) => self.object_class(number),
            Value::Skip => "object",
            Value::Reference(id) => self.reference_class(id),
        }
    }
}
