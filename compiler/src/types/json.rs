//! JSON as Python writes it: keys sorted where asked, separators `", "` and `": "`, ASCII only.

use std::fmt::Write;

use super::{Heap, Value, text};

/// Why a value has no JSON form.
#[derive(Debug, Clone, Copy)]
pub enum NotJson {
    Unknown,
    /// This value, or one in it: an instance, a reference or another object.
    Object(Value),
}

/// Appends a value; `sorted`: keys of dicts are sorted.
pub fn write_json(
    heap: &Heap,
    value: Value,
    sorted: bool,
    out: &mut String,
) -> Result<(), NotJson> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(int) => {
            let _ = write!(out, "{int}");
        }
        Value::Big(id) => {
            let _ = write!(out, "{}", heap.big(id));
        }
        Value::Float(float) => out.push_str(&json_float(float)),
        Value::Str(id) => write_text(heap.str(id), out),
        Value::List(id) => {
            out.push('[');
            for (at, item) in heap.list(id).iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_json(heap, *item, sorted, out)?;
            }
            out.push(']');
        }
        Value::Dict(id) => {
            let entries = &heap.dict(id).entries;
            let mut order: Vec<usize> = (0..entries.len()).collect();
            if sorted {
                order.sort_by(|a, b| heap.str(entries[*a].0).cmp(heap.str(entries[*b].0)));
            }
            out.push('{');
            for (at, entry) in order.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                let (key, value) = entries[entry];
                write_text(heap.str(key), out);
                out.push_str(": ");
                write_json(heap, value, sorted, out)?;
            }
            out.push('}');
        }
        Value::Unknown(_) => return Err(NotJson::Unknown),
        Value::Instance(_) | Value::Opaque(_) | Value::Reference(_) | Value::Skip => {
            return Err(NotJson::Object(value));
        }
    }
    Ok(())
}

fn json_float(float: f64) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    text::float(float)
}

/// Appends a text in quotes.
pub fn write_text(text: &str, out: &mut String) {
    out.push('"');
    write_escaped(text, out);
    out.push('"');
}

/// Appends the characters of a text as they stand within quotes.
pub fn write_escaped(text: &str, out: &mut String) {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'!' | b'#'..=b'[' | b']'..=b'~');
    // Without an early end within a block, so that it becomes vector instructions.
    let all_plain = |block: &[u8]| block.iter().fold(true, |all, byte| all & is_plain(byte));
    if text.as_bytes().chunks(64).all(all_plain) {
        out.push_str(text);
        return;
    }
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}
