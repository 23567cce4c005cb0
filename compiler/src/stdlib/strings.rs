//! Texts. Source: docs/reference/std.md § 5.1.

use crate::stdlib::{
    Bound, Model, NativeDef, PluginError, Value, external, native, pyformat, str_arg, text_value,
};
use md5::{Digest, Md5};
use num_bigint::Sign;
use num_traits::ToPrimitive;

/// No plugin makes a longer text: 256 MiB.
const MAX_TEXT: usize = 256 << 20;

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "replace",
            "string: string, old: string, new: string -> string",
            replace
        ),
        native!("upper", "string: string -> string", |model, args| {
            let text = str_arg(model.heap_ref(), args, 0).to_uppercase();
            text_value(model, &text)
        }),
        native!("lower", "string: string -> string", |model, args| {
            let text = str_arg(model.heap_ref(), args, 0).to_lowercase();
            text_value(model, &text)
        }),
        native!("capitalize", "string: string -> string", capitalize),
        native!("limit", "string: string, length: int -> string", limit),
        native!("length", "value: string -> int", |model, args| {
            Ok(Value::Int(
                str_arg(model.heap_ref(), args, 0).chars().count() as i64,
            ))
        }),
        native!("split", "string_list: string, delim: string -> list", split),
        native!("hostname", "fqdn: string -> string", hostname),
        native!(
            "unique_file",
            "prefix: string, seed: string, suffix: string, length: int = 20 -> string",
            unique_file
        ),
        native!(
            "format",
            "__string: string, *args: any, **kwargs: any -> string",
            |model, args| {
                let template = str_arg(model.heap_ref(), args, 0).to_owned();
                let text = pyformat::format(model, &template, &args.var_args, &args.keywords)?;
                text_value(model, &text)
            }
        ),
        native!("is_base64_encoded", "s: string -> bool", |model, args| {
            Ok(Value::Bool(is_base64(str_arg(model.heap_ref(), args, 0))))
        }),
        native!("json_loads", "s: string -> any", json_loads),
        native!("json_dumps", "obj: any -> string", json_dumps),
    ]
}

fn replace(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let heap = model.heap_ref();
    let (text, old) = (str_arg(heap, args, 0), str_arg(heap, args, 1));
    let new = str_arg(heap, args, 2);
    let length = text.matches(old).count().saturating_mul(new.len());
    if length > MAX_TEXT {
        return external("MemoryError", "the text is too long");
    }
    let text = text.replace(old, new);
    text_value(model, &text)
}

fn capitalize(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let mut chars = str_arg(model.heap_ref(), args, 0).chars();
    let first: String = chars
        .next()
        .map(|c| c.to_uppercase().collect())
        .unwrap_or_default();
    let text = first + &chars.as_str().to_lowercase();
    text_value(model, &text)
}

fn limit(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let heap = model.heap_ref();
    let length = match heap.to_big(args.arg(1)) {
        Some(big) if big.sign() == Sign::Minus => big.to_i64().unwrap_or(i64::MIN),
        big => big.and_then(|big| big.to_i64()).unwrap_or(i64::MAX),
    };
    let text = str_arg(model.heap_ref(), args, 0);
    let n_chars = text.chars().count() as i64;
    let take = if length < 0 {
        n_chars.saturating_add(length)
    } else {
        length
    };
    let take = take.clamp(0, n_chars);
    let text: String = text.chars().take(take as usize).collect();
    text_value(model, &text)
}

fn split(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let delimiter = str_arg(model.heap_ref(), args, 1);
    if delimiter.is_empty() {
        return external("ValueError", "empty separator");
    }
    let parts: Vec<String> = str_arg(model.heap_ref(), args, 0)
        .split(delimiter)
        .map(str::to_owned)
        .collect();
    let values: Vec<Value> = parts
        .iter()
        .map(|part| model.heap().new_str(part))
        .collect();
    Ok(model.heap().new_list(&values))
}

fn hostname(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let text = str_arg(model.heap_ref(), args, 0)
        .split('.')
        .next()
        .unwrap_or("")
        .to_owned();
    text_value(model, &text)
}

fn unique_file(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let heap = model.heap_ref();
    let digest = Md5::digest(str_arg(heap, args, 1).as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{}{hex}{}", str_arg(heap, args, 0), str_arg(heap, args, 2));
    text_value(model, &text)
}

fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(4) {
        return false;
    }
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    padding <= 2
        && bytes[..bytes.len() - padding]
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
}

fn json_loads(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let text = str_arg(model.heap_ref(), args, 0);
    // Python reads numbers that JSON does not have, and integers of any size.
    let parsed = serde_json::from_str::<serde_json::Value>(&with_marks(text));
    match parsed {
        Ok(value) => Ok(from_json(model, &value)),
        Err(error) => external(
            "JSONDecodeError",
            format!(
                "Expecting value: line {} column {}",
                error.line(),
                error.column()
            ),
        ),
    }
}

/// Begins a text that stands for a number which the parser does not take, or not exactly.
const MARK: &str = "\0";

/// Integers with fewer characters fit.
const MIN_BIG_LENGTH: usize = 19;

/// The text with `NaN`, `Infinity`, `-Infinity` and big numbers as marked texts.
fn with_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c == '"' {
            string_length(rest)
        } else if let Some((length, mark)) = odd_number(rest) {
            out.push_str(&format!("\"\\u0000{mark}\""));
            rest = &rest[length..];
            continue;
        } else {
            number_length(rest).max(c.len_utf8())
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    out
}

/// The length of the string at the start of a text.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let inside = text[1..].find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    inside.map_or(text.len(), |end| end + 2)
}

fn number_length(text: &str) -> usize {
    text.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c))
        .unwrap_or(text.len())
}

/// The length of the number at the start of a text that is to be marked, and its mark.
fn odd_number(text: &str) -> Option<(usize, &str)> {
    let words = ["NaN", "Infinity", "-Infinity"];
    if let Some(word) = words.into_iter().find(|word| text.starts_with(word)) {
        return Some((word.len(), word));
    }
    let number = &text[..number_length(text)];
    let digits = number.strip_prefix('-').unwrap_or(number);
    if number == "-0" {
        return Some((number.len(), digits));
    }
    if digits.is_empty()
        || (digits.starts_with('0') && digits[1..].starts_with(|c: char| c.is_ascii_digit()))
    {
        return None;
    }
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return (number.len() >= MIN_BIG_LENGTH).then_some((number.len(), number));
    }
    let exponent = digits.find(['e', 'E'])?;
    let is_plain = digits[..exponent].ends_with(|c: char| c.is_ascii_digit());
    match number.parse::<f64>() {
        Ok(value) if value.is_infinite() && is_plain => {
            let word = if value > 0.0 { "Infinity" } else { "-Infinity" };
            Some((number.len(), word))
        }
        _ => None,
    }
}

pub(super) fn from_json(model: &mut dyn Model, value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) if text.starts_with(MARK) => {
            match &text[MARK.len()..] {
                "NaN" => Value::Float(f64::NAN),
                "Infinity" => Value::Float(f64::INFINITY),
                "-Infinity" => Value::Float(f64::NEG_INFINITY),
                digits => match digits.parse::<num_bigint::BigInt>() {
                    Ok(int) => model.heap().new_int(int),
                    // A text of the model that looks like a mark.
                    Err(_) => model.heap().new_str(text),
                },
            }
        }
        serde_json::Value::String(text) => model.heap().new_str(text),
        serde_json::Value::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| from_json(model, item)).collect();
            model.heap().new_list(&items)
        }
        serde_json::Value::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, value)| {
                    let value = from_json(model, value);
                    (model.heap().add_str(key), value)
                })
                .collect();
            model.heap().new_dict(entries)
        }
    }
}

fn json_dumps(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    if model.heap_ref().is_longer(args.arg(0), MAX_TEXT) {
        return external("MemoryError", "the text is too long");
    }
    let mut out = String::new();
    match crate::types::json::write_json(model.heap_ref(), args.arg(0), false, &mut out) {
        Ok(()) => text_value(model, &out),
        Err(crate::types::json::NotJson::Unknown) => Err(PluginError::Unknown),
        Err(crate::types::json::NotJson::Object(value)) => {
            // An instance as Python code sees it.
            let mark = if matches!(value, Value::Instance(_)) {
                "@"
            } else {
                ""
            };
            let text = model.repr(value);
            external(
                "TypeError",
                format!("{mark}{text} is not JSON serializable"),
            )
        }
    }
}
