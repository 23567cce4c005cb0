//! Answers of a compile's host as Python writes them fastest.
//!
//! Python writes MessagePack value by value, in Python; its own `marshal` module writes a whole list at once. So answers
//! to the calls of a frame ([`super::calls`]) come in forms of their own, each of which begins with a byte that no message
//! in MessagePack begins with, and the number of the request (64 bits, big-endian):
//!
//! | first byte | behind the number |
//! |---|---|
//! | [`TEXT`] | a result that is a text, as UTF-8 |
//! | [`VALUE`] | a result in `marshal`'s format, version 2 |
//! | [`COMPUTED`] | in the same format a tuple: a result, and what the plugin has read: `False` (it does more than compute), null (not known), or a list of tuples of the number of an instance and the name of an attribute, before which stands `True` if the plugin may go on where an attribute has no value yet |
//! | [`RENDERED`] | in the same format a tuple: the values of fields, then what the id is made of: a tuple of its four parts or an empty one, and a tuple of the id attribute's value or an empty one; then, in some, what the getters have read, as above |
//!
//! Only values come so that the model and MessagePack have, too: null, booleans, numbers, texts, lists, and dicts whose
//! keys are texts. An instance in a result of [`COMPUTED`] is the decimal digits of its number as bytes, an object
//! that is nothing but its fields is the letter `d` as a byte and behind it what stands in [`EXT_DATACLASS`], and a reference
//! that is nothing but its arguments the letter `r` and what stands in [`EXT_REFERENCE`]; the letter `u` is an Unknown. What has more to it (instances, Unknowns, objects) comes in MessagePack. The host looks at its start
//! whether its Python writes the format as it is read here (`steward_host/calls.py`).

use std::io;

use num_bigint::{BigInt, BigUint};
use rmpv::Value as Wire;

use super::{
    EXT_BIGINT, EXT_DATACLASS, EXT_INSTANCE, EXT_REFERENCE, EXT_UNKNOWN, FromHost, OwnId, Reads,
};

/// First byte of a result that is a text.
pub const TEXT: u8 = 0xc1;
/// First byte of a result that is something else. In MessagePack it is nil, and no message.
pub const VALUE: u8 = 0xc0;
/// First byte of what the getters of a resource gave. In MessagePack it is false, and no message.
pub const RENDERED: u8 = 0xc2;
/// First byte of the result of a plugin of which is said whether it only computes. In MessagePack it is true, and no message.
pub const COMPUTED: u8 = 0xc3;

/// Lists and dicts in each other: as in MessagePack's frames.
const MAX_DEPTH: usize = 400;
/// Bits of a digit of a long integer.
const DIGIT: u32 = 15;
/// Digits of a long integer at most: Python writes none of more than 4 300 decimal digits as a text, and to make a text of
/// one takes time that grows with the square of its length.
const MOST_DIGITS: u32 = 1000;

/// The answer in the body of a frame, if it has one of the forms above; `None`: it is MessagePack.
pub(super) fn in_own_form(body: &[u8]) -> Option<io::Result<FromHost>> {
    let (&tag, rest) = body.split_first()?;
    if !matches!(tag, TEXT | VALUE | RENDERED | COMPUTED) {
        return None;
    }
    Some(match rest.split_first_chunk() {
        Some((id, content)) => answer(tag, u64::from_be_bytes(*id), content),
        None => Err(broken("an answer that ends inside of its number")),
    })
}

fn answer(tag: u8, id: u64, content: &[u8]) -> io::Result<FromHost> {
    if tag == TEXT {
        let text = std::str::from_utf8(content).map_err(|_| broken("a text that is not UTF-8"))?;
        let value = Wire::from(text);
        return Ok(result(id, value));
    }
    let mut reader = Reader { rest: content };
    let value = reader.value(0)?;
    if !reader.rest.is_empty() {
        return Err(broken("more than one value in an answer"));
    }
    match tag {
        VALUE => Ok(result(id, value)),
        COMPUTED => computed(id, value).ok_or_else(|| broken("a result that has another form")),
        _ => rendered(id, value).ok_or_else(|| broken("fields that have another form")),
    }
}

fn result(id: u64, value: Wire) -> FromHost {
    FromHost::Result {
        id,
        value,
        is_last: false,
    }
}

/// A result, and what was read for it.
fn computed(id: u64, value: Wire) -> Option<FromHost> {
    let Wire::Array(parts) = value else {
        return None;
    };
    let mut parts = parts.into_iter();
    let (value, reads) = (parts.next()?, what_was_read(&parts.next()?)?);
    let logged = match parts.next() {
        Some(logged) => what_was_logged(&logged)?,
        None => Vec::new(),
    };
    if parts.next().is_some() {
        return None;
    }
    Some(FromHost::Computed {
        id,
        value,
        reads,
        logged,
    })
}

/// Levels and texts by turns.
pub(crate) fn what_was_logged(wire: &Wire) -> Option<Vec<(String, String)>> {
    let (pairs, []) = wire.as_array()?.as_chunks() else {
        return None;
    };
    let pairs = pairs.iter();
    let pair =
        |[level, text]: &[Wire; 2]| Some((level.as_str()?.to_owned(), text.as_str()?.to_owned()));
    pairs.map(pair).collect()
}

fn what_was_read(wire: &Wire) -> Option<Reads> {
    match wire {
        Wire::Boolean(false) => Some(Reads::Impure),
        Wire::Nil => Some(Reads::Untold),
        Wire::Array(reads) => {
            let catches = reads.first() == Some(&Wire::Boolean(true));
            let reads = reads.iter().skip(usize::from(catches)).map(read);
            let reads = reads.collect::<Option<_>>()?;
            Some(Reads::Told { reads, catches })
        }
        _ => None,
    }
}

/// The number of an instance and the name of an attribute.
fn read(wire: &Wire) -> Option<(u32, String)> {
    let [number, name] = wire.as_array()?.as_slice() else {
        return None;
    };
    let number = u32::try_from(number.as_u64()?).ok()?;
    Some((number, name.as_str()?.to_owned()))
}

/// The values of fields, and what the id is made of; null for the fields of a resource that is left out.
fn rendered(id: u64, value: Wire) -> Option<FromHost> {
    let Wire::Array(mut parts) = value else {
        return None;
    };
    let reads = match parts.len() {
        4 => Some(what_was_read(&parts.pop()?)?),
        _ => None,
    };
    if matches!(parts.first(), Some(Wire::Nil)) {
        let reason = String::new();
        return Some(FromHost::Ignored { id, reason, reads });
    }
    let [
        Wire::Array(values),
        Wire::Array(identity),
        Wire::Array(id_value),
    ] = <[Wire; 3]>::try_from(parts).ok()?
    else {
        return None;
    };
    let identity = match &*identity {
        [] => None,
        [entity_type, agent, attribute, value] => Some(OwnId {
            entity_type: entity_type.as_str()?.to_owned(),
            agent: agent.as_str()?.to_owned(),
            attribute: attribute.as_str()?.to_owned(),
            value: value.as_str()?.to_owned(),
        }),
        _ => return None,
    };
    Some(FromHost::FieldsRendered {
        id,
        values,
        identity,
        id_value: id_value.into_iter().next(),
        reads,
    })
}

fn broken(what: &str) -> io::Error {
    io::Error::other(what)
}

/// Reads values in `marshal`'s format.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> io::Result<Wire> {
        if depth > MAX_DEPTH {
            return Err(broken("a frame with values that are nested too deeply"));
        }
        Ok(match self.byte()? {
            b'N' => Wire::Nil,
            b'T' => Wire::Boolean(true),
            b'F' => Wire::Boolean(false),
            b'i' => Wire::from(i32::from_le_bytes(self.array()?)),
            b'l' => self.long()?,
            b'g' => Wire::F64(f64::from_le_bytes(self.array()?)),
            b'u' => Wire::from(self.text()?),
            b's' => self.instance_or_object()?,
            b'[' | b'(' => {
                let n_items = self.size()?;
                let mut items = Vec::with_capacity(n_items.min(self.rest.len()));
                for _ in 0..n_items {
                    items.push(self.value(depth + 1)?);
                }
                Wire::Array(items)
            }
            b'{' => {
                let mut entries = Vec::new();
                while self.rest.first() != Some(&b'0') {
                    let key = self.value(depth + 1)?;
                    entries.push((key, self.value(depth + 1)?));
                }
                self.byte()?;
                Wire::Map(entries)
            }
            other => {
                let message = format!("an answer with a value of kind {other:#04x}");
                return Err(io::Error::other(message));
            }
        })
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let chunk = self.rest.split_first_chunk();
        let (array, rest) = chunk.ok_or_else(|| broken("an answer that ends inside of a value"))?;
        self.rest = rest;
        Ok(*array)
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.array().map(|[byte]| byte)
    }

    fn size(&mut self) -> io::Result<usize> {
        Ok(u32::from_le_bytes(self.array()?) as usize)
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let size = self.size()?;
        let split = self.rest.split_at_checked(size);
        let (bytes, rest) = split.ok_or_else(|| broken("an answer that ends inside of a text"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> io::Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| broken("a text that is not UTF-8"))
    }

    /// An instance: its number in decimal digits; or an object or a reference that is nothing but what it was made of.
    fn instance_or_object(&mut self) -> io::Result<Wire> {
        let bytes = self.bytes()?;
        if let Some(payload) = bytes.strip_prefix(b"d") {
            return Ok(Wire::Ext(EXT_DATACLASS, payload.to_vec()));
        }
        if bytes == b"u" {
            return Ok(Wire::Ext(EXT_UNKNOWN, Vec::new()));
        }
        if let Some(payload) = bytes.strip_prefix(b"r") {
            return Ok(Wire::Ext(EXT_REFERENCE, payload.to_vec()));
        }
        let number = std::str::from_utf8(bytes).ok();
        let number: Option<u32> = number.and_then(|number| number.parse().ok());
        let number = number.ok_or_else(|| broken("an instance without a number"))?;
        Ok(Wire::Ext(EXT_INSTANCE, number.to_be_bytes().to_vec()))
    }

    /// An integer of more than 32 bits: its digits from the lowest up, and their number with its sign.
    fn long(&mut self) -> io::Result<Wire> {
        let n_digits = i32::from_le_bytes(self.array()?);
        if n_digits.unsigned_abs() > MOST_DIGITS {
            for _ in 0..n_digits.unsigned_abs() {
                self.array::<2>()?;
            }
            // Without digits, so that who makes a value of it says that it can not be read.
            return Ok(Wire::Ext(EXT_BIGINT, Vec::new()));
        }
        let mut magnitude = Vec::new();
        let (mut bits, mut n_bits) = (0_u64, 0);
        for _ in 0..n_digits.unsigned_abs() {
            bits |= u64::from(u16::from_le_bytes(self.array()?)) << n_bits;
            n_bits += DIGIT;
            if n_bits >= u32::BITS {
                magnitude.push(bits as u32);
                bits >>= u32::BITS;
                n_bits -= u32::BITS;
            }
        }
        magnitude.push(bits as u32);
        let magnitude = BigUint::new(magnitude);
        let mut value = BigInt::from(magnitude);
        if n_digits < 0 {
            value = -value;
        }
        Ok(match i64::try_from(&value) {
            Ok(value) => Wire::from(value),
            Err(_) => Wire::Ext(EXT_BIGINT, value.to_string().into_bytes()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `marshal.dumps(([1, None, True, 1.5, "é", {"k": [2 ** 40]}, -(2 ** 70)], (), ("x",)), 2)`
    const SAMPLE: &[u8] =
        b"(\x03\0\0\0[\x07\0\0\0i\x01\0\0\0NTg\0\0\0\0\0\0\xf8?u\x02\0\0\0\xc3\xa9\
        {u\x01\0\0\0k[\x01\0\0\0l\x03\0\0\0\0\0\0\0\0\x040l\xfb\xff\xff\xff\0\0\0\0\0\0\0\0\0\x04\
        (\0\0\0\0(\x01\0\0\0u\x01\0\0\0x";

    fn framed(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut body = vec![tag, 0, 0, 0, 0, 0, 0, 0, 7];
        body.extend_from_slice(content);
        body
    }

    #[test]
    fn fields_are_read_as_marshal_writes_them() {
        let answer = in_own_form(&framed(RENDERED, SAMPLE)).expect("it has our form");
        let dict = vec![(
            Wire::from("k"),
            Wire::Array(vec![Wire::from(1_099_511_627_776_i64)]),
        )];
        let big = Wire::Ext(EXT_BIGINT, b"-1180591620717411303424".to_vec());
        let expected = FromHost::FieldsRendered {
            id: 7,
            values: vec![
                Wire::from(1),
                Wire::Nil,
                Wire::from(true),
                Wire::F64(1.5),
                Wire::from("\u{e9}"),
                Wire::Map(dict),
                big,
            ],
            identity: None,
            id_value: Some(Wire::from("x")),
            reads: None,
        };
        assert_eq!(answer.expect("it is good"), expected);
    }

    /// Given: the answer of getters that only compute. Expected: what they have read comes with the fields.
    #[test]
    fn what_getters_read_comes_with_their_fields() {
        // marshal.dumps((["a"], (), (), [(3, "name")]), 2)
        const NOTED: &[u8] = b"(\x04\0\0\0[\x01\0\0\0u\x01\0\0\0a(\0\0\0\0(\0\0\0\0[\x01\0\0\0(\x02\0\0\0i\x03\0\0\0u\x04\0\0\0name";
        let answer = in_own_form(&framed(RENDERED, NOTED)).expect("it has our form");
        let expected = FromHost::FieldsRendered {
            id: 7,
            values: vec![Wire::from("a")],
            identity: None,
            id_value: None,
            reads: Some(Reads::Told {
                reads: vec![(3, "name".to_owned())],
                catches: false,
            }),
        };
        assert_eq!(answer.expect("it is good"), expected);
    }

    /// Input: an answer of a Python host that ends early, or with changed bytes (docs/reference/security.md § 4.2). Answer: an error, or another value; no panic, no memory beyond the frame.
    #[test]
    fn broken_answers_are_errors() {
        let whole = framed(RENDERED, SAMPLE);
        for end in 1..whole.len() {
            let answer = in_own_form(&whole[..end]).expect("it has our form");
            assert!(answer.is_err(), "cut at {end}");
        }
        for at in 1..whole.len() {
            for byte in [0, b'[', b'l', 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                // Whatever it means now, it is read to its end.
                let _ = in_own_form(&changed).expect("it has our form");
            }
        }
        let deep = framed(VALUE, &b"[\x01\0\0\0".repeat(1_000_000));
        assert!(in_own_form(&deep).expect("it has our form").is_err());
    }
}
