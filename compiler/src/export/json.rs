//! JSON as Python writes it: keys sorted where asked, separators `", "` and `": "`, ASCII only.

use std::fmt::Write;

use crate::types::{Heap, Value, text};
use crate::{Export, Resource};

/// Why a value has no JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotJson {
    Unknown,
    Object,
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
            return Err(NotJson::Object);
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

pub fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        if matches!(c, ' '..='!' | '#'..='[' | ']'..='~') {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + c.len_utf8();
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
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
    out.push_str(&text[plain..]);
    out.push('"');
}

/// The list of resources in the reference's wire form.
pub fn export_json(export: &Export) -> String {
    let mut out = String::from("[");
    for (at, resource) in export.resources.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_resource(resource, &mut out);
    }
    out.push(']');
    out
}

fn write_resource(resource: &Resource, out: &mut String) {
    let fields = resource
        .attributes
        .strip_suffix('}')
        .unwrap_or(&resource.attributes);
    out.push_str(fields);
    if fields.len() > 1 {
        out.push_str(", ");
    }
    out.push_str("\"requires\": [");
    for (at, id) in resource.requires.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_text(&format!("{id},v=0"), out);
    }
    out.push_str("], \"version\": 0, \"id\": ");
    write_text(&format!("{},v=0", resource.id), out);
    out.push('}');
}
