//! What `encode` of a text gives: bytes, which print as Python writes them. Source: docs/reference/std.md § 7.6.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr};
use minijinja::{Error, ErrorKind, State, Value as Jinja};

use crate::template::repr::shown;

#[derive(Debug)]
pub(in crate::template) struct Bytes(Vec<u8>);

enum Encoding {
    Utf8,
    Latin1,
    Ascii,
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn encoding(name: &str) -> Result<Encoding, Error> {
    match name.to_lowercase().replace('_', "-").as_str() {
        "utf-8" | "utf8" => Ok(Encoding::Utf8),
        "latin-1" | "latin1" | "iso-8859-1" => Ok(Encoding::Latin1),
        "ascii" | "us-ascii" => Ok(Encoding::Ascii),
        _ => Err(failed(format!("unknown encoding: {name}"))),
    }
}

impl Bytes {
    pub fn encoded(text: &str, name: &str) -> Result<Jinja, Error> {
        let most = match encoding(name)? {
            Encoding::Utf8 => return Ok(Jinja::from_object(Bytes(text.as_bytes().to_vec()))),
            Encoding::Latin1 => 0xff,
            Encoding::Ascii => 0x7f,
        };
        let byte = |c: char| u8::try_from(u32::from(c)).ok().filter(|byte| *byte <= most);
        let bytes: Option<Vec<u8>> = text.chars().map(byte).collect();
        let bytes = bytes.ok_or_else(|| failed(format!("'{name}' codec can't encode the text")))?;
        Ok(Jinja::from_object(Bytes(bytes)))
    }

    fn decoded(&self, name: &str) -> Result<String, Error> {
        let text = match encoding(name)? {
            Encoding::Latin1 => return Ok(self.0.iter().copied().map(char::from).collect()),
            Encoding::Utf8 => String::from_utf8(self.0.clone()).ok(),
            Encoding::Ascii => self
                .0
                .is_ascii()
                .then(|| self.0.iter().copied().map(char::from).collect()),
        };
        text.ok_or_else(|| failed(format!("'{name}' codec can't decode the bytes")))
    }
}

impl Object for Bytes {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        !self.0.is_empty()
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &State<'_, '_>,
        method: &str,
        args: &[Jinja],
    ) -> Result<Jinja, Error> {
        match method {
            "decode" => {
                let name = args.first().map_or_else(|| "utf-8".to_owned(), shown);
                self.decoded(&name).map(Jinja::from)
            }
            "hex" => Ok(Jinja::from(
                self.0
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            )),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains(&b'\'') && !self.0.contains(&b'"') {
            '"'
        } else {
            '\''
        };
        write!(f, "b{quote}")?;
        for byte in &self.0 {
            match byte {
                b'\n' => f.write_str("\\n")?,
                b'\r' => f.write_str("\\r")?,
                b'\t' => f.write_str("\\t")?,
                b'\\' => f.write_str("\\\\")?,
                b'\'' if quote == '\'' => f.write_str("\\'")?,
                0x20..0x7f => write!(f, "{}", char::from(*byte))?,
                byte => write!(f, "\\x{byte:02x}")?,
            }
        }
        write!(f, "{quote}")
    }
}
