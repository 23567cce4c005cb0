//! Calls of plugins as Python reads them fastest, and results as it writes them fastest.
//!
//! Calls are by far the most frequent messages, and reading MessagePack value by value in Python took longer than most
//! plugins do. So a frame with calls is written in the format of Python's own `marshal` module, which reads it in one go:
//! behind the tag [`CALLS`], a list of calls, each of which is a tuple of id, plugin, list of arguments, list of pairs of
//! keyword arguments, file, line, namespace, and what it is told of open relations (none, or a dict of tuples: the number of
//! an instance, a name, and in a guess the value). The format is not documented as stable, so a host checks when it starts
//! that it reads a sample as it should (`steward_host/calls.py`), and has a reader of its own otherwise.
//!
//! Values of the model that Python has itself are themselves. The model has neither tuples nor bytes, so these stand for
//! the rest:
//!
//! | | meaning |
//! |---|---|
//! | `(number, entity)` | an instance |
//! | `(number, entity, {name: value})` | an instance, and attributes whose values Python has itself |
//! | `(number, entity, {name: value}, {name: value})` | the same, and attributes with other values |
//! | `(container,)` | a list or dict in which there are values of this table |
//! | `b"\x04…"` | an extension value of MessagePack: its type, and its payload |
//!
//! What comes back is told in `answers`.

use crate::hash::Map;

/// First byte of a frame with calls; no MessagePack value begins with it.
pub const CALLS: u8 = 0xc1;

/// Longest text that has a form with a length of one byte.
const SHORT: usize = 255;
/// With this bit, a value gets the next number, by which it can be written again.
const REMEMBERED: u8 = 0x80;
/// Bits of a digit of a long integer.
const DIGIT: u32 = 15;

/// Writes values in Python's `marshal` format. A container's items are written one after the other
/// behind its head.
#[derive(Debug, Default)]
pub struct Marshal {
    bytes: Vec<u8>,
    /// Names that were written, by their number: the next time, that is enough.
    names: Map<Box<str>, u32>,
}

impl Marshal {
    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes `None`.
    pub fn none(&mut self) {
        self.bytes.push(b'N');
    }

    /// Writes `True` or `False`.
    pub fn bool(&mut self, value: bool) {
        self.bytes.push(if value { b'T' } else { b'F' });
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64) {
        if let Ok(short) = i32::try_from(value) {
            self.bytes.push(b'i');
            self.bytes.extend_from_slice(&short.to_le_bytes());
            return;
        }
        // Digits from the lowest up; the sign is that of their number.
        let mut rest = value.unsigned_abs();
        let mut digits = Vec::with_capacity(5);
        while rest > 0 {
            digits.push((rest & ((1 << DIGIT) - 1)) as u16);
            rest >>= DIGIT;
        }
        let n_digits = digits.len() as i32;
        self.bytes.push(b'l');
        let signed = if value < 0 { -n_digits } else { n_digits };
        self.bytes.extend_from_slice(&signed.to_le_bytes());
        for digit in digits {
            self.bytes.extend_from_slice(&digit.to_le_bytes());
        }
    }

    /// Writes a float.
    pub fn float(&mut self, value: f64) {
        self.bytes.push(b'g');
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a text.
    pub fn text(&mut self, value: &str) {
        if value.len() <= SHORT && value.is_ascii() {
            self.bytes.extend_from_slice(&[b'z', value.len() as u8]);
        } else {
            self.bytes.push(b'u');
            self.size(value.len());
        }
        self.bytes.extend_from_slice(value.as_bytes());
    }

    /// Writes a text that comes again and again in a frame. What follows it must be in the same frame.
    pub fn name(&mut self, name: &str) {
        if let Some(number) = self.names.get(name) {
            self.bytes.push(b'r');
            self.bytes.extend_from_slice(&number.to_le_bytes());
        } else if name.len() <= SHORT && name.is_ascii() {
            let number = self.names.len() as u32;
            self.names.insert(name.into(), number);
            self.bytes
                .extend_from_slice(&[b'Z' | REMEMBERED, name.len() as u8]);
            self.bytes.extend_from_slice(name.as_bytes());
        } else {
            self.text(name);
        }
    }

    /// An extension value.
    pub fn extension(&mut self, code: i8, payload: &[u8]) {
        self.bytes.push(b's');
        self.size(payload.len() + 1);
        self.bytes.push(code.to_le_bytes()[0]);
        self.bytes.extend_from_slice(payload);
    }

    /// Begins a container; its items, `n_items` of them, follow.
    pub fn tuple(&mut self, n_items: usize) {
        self.bytes.push(b'(');
        self.size(n_items);
    }

    /// Begins a container; its items, `n_items` of them, follow.
    pub fn list(&mut self, n_items: usize) {
        self.bytes.push(b'[');
        self.size(n_items);
    }

    /// Keys and values follow, then [`Marshal::end_dict`].
    pub fn dict(&mut self) {
        self.bytes.push(b'{');
    }

    /// Ends what [`Marshal::dict`] began.
    pub fn end_dict(&mut self) {
        self.bytes.push(b'0');
    }

    fn size(&mut self, size: usize) {
        // A frame holds less.
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(&size.to_le_bytes());
    }

    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The body of a frame with so many calls, each of which is the content of one of these.
    pub fn frame(calls: &Marshal, n_calls: usize) -> Vec<u8> {
        let mut head = Marshal {
            bytes: Vec::with_capacity(calls.len() + 8),
            names: Map::default(),
        };
        head.bytes.push(CALLS);
        head.list(n_calls);
        head.bytes.extend_from_slice(&calls.bytes);
        head.bytes
    }
}
