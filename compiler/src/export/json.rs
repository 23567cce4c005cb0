//! JSON as Python writes it: keys sorted where asked, separators `", "` and `": "`, ASCII only.

use std::fmt::Write;

use super::sink::{ResourceRef, ResourceSink};
use crate::Export;
use crate::types::{Heap, Value, text};

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
    write_escaped(text, out);
    out.push('"');
}

fn write_escaped(text: &str, out: &mut String) {
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

/// Writes the list of resources in the reference's wire form (compile-contract.md), as they come.
pub struct JsonWriter<W> {
    out: W,
    buffer: String,
    any: bool,
    error: Option<std::io::Error>,
}

const BUFFER_BYTES: usize = 64 << 10;

impl<W: std::io::Write> JsonWriter<W> {
    pub fn new(out: W) -> Self {
        JsonWriter {
            out,
            buffer: String::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 2)),
            any: false,
            error: None,
        }
    }

    fn flush(&mut self) {
        if self.error.is_none()
            && let Err(error) = self.out.write_all(self.buffer.as_bytes())
        {
            self.error = Some(error);
        }
        self.buffer.clear();
    }

    /// Ends the list. Errors: what the destination said at any time.
    pub fn finish(mut self) -> std::io::Result<()> {
        self.buffer.push_str(if self.any { "]" } else { "[]" });
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }
}

impl<W: std::io::Write + Send> ResourceSink for JsonWriter<W> {
    fn take(&mut self, resource: ResourceRef<'_>) {
        self.buffer.push_str(if self.any { ", " } else { "[" });
        self.any = true;
        let requires = resource.requires.iter().copied();
        write_resource(resource.attributes, requires, resource.id, &mut self.buffer);
        if self.buffer.len() > BUFFER_BYTES {
            self.flush();
        }
    }
}

/// The list of resources in the reference's wire form.
pub fn export_json(export: &Export) -> String {
    let mut out = String::from("[");
    for (at, resource) in export.resources.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        let requires = resource.requires.iter().map(String::as_str);
        write_resource(&resource.attributes, requires, &resource.id, &mut out);
    }
    out.push(']');
    out
}

fn write_resource<'a>(
    attributes: &str,
    requires: impl Iterator<Item = &'a str>,
    id: &str,
    out: &mut String,
) {
    let fields = attributes.strip_suffix('}').unwrap_or(attributes);
    out.push_str(fields);
    if fields.len() > 1 {
        out.push_str(", ");
    }
    out.push_str("\"requires\": [");
    for (at, id) in requires.enumerate() {
        out.push_str(if at > 0 { ", \"" } else { "\"" });
        write_escaped(id, out);
        out.push_str(",v=0\"");
    }
    out.push_str("], \"version\": 0, \"id\": \"");
    write_escaped(id, out);
    out.push_str(",v=0\"}");
}
