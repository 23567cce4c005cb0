//! The list of resources as the reference writes it: JSON in its wire form (docs/reference/compile-contract.md).

use super::sink::{ResourceRef, ResourceSink};
use crate::Export;
use crate::types::json::write_escaped;

/// Writes the list of resources in the reference's wire form (docs/reference/compile-contract.md), as they come.
pub struct JsonWriter<W> {
    out: W,
    buffer: String,
    any: bool,
    error: Option<std::io::Error>,
}

const BUFFER_BYTES: usize = 64 << 10;

impl<W: std::io::Write> JsonWriter<W> {
    /// A writer of resources as a JSON array. [`JsonWriter::finish`] ends the array and says what
    /// went wrong.
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
