//! How much memory a message takes once it is read.
//!
//! A message of MessagePack may be small and mean much: an empty list is one byte there, and some hundred in memory. So the
//! limits of what is not worked off yet count values besides bytes, before anything is made of them.

/// Bytes that a value takes in memory, besides those of its text: a list of one element takes so much with what it lies in.
const VALUE_BYTES: usize = 200;

/// What a MessagePack document takes at most, in KiB, and at least one.
pub(crate) fn weight_kib(document: &[u8]) -> usize {
    let n_bytes = n_values(document).saturating_mul(VALUE_BYTES);
    (n_bytes.saturating_add(document.len()) >> 10) + 1
}

/// How many values a document holds, lists, maps and keys of maps among them. Of one that is damaged, those up to there: reading
/// it ends there, too.
fn n_values(document: &[u8]) -> usize {
    let mut rest = document;
    let mut n_values = 0;
    while let Some((marker, behind)) = rest.split_first() {
        n_values += 1;
        let Some(next) = content_bytes(*marker, behind).and_then(|n_bytes| behind.get(n_bytes..))
        else {
            break;
        };
        rest = next;
    }
    n_values
}

/// How many bytes behind its marker belong to a value. The elements of lists and maps are values of their own. `None`: there
/// are too few.
fn content_bytes(marker: u8, behind: &[u8]) -> Option<usize> {
    // The length that comes behind the marker, of so many bytes, and what it is the length of.
    let counted = |n_bytes: usize| {
        let length = behind.get(..n_bytes)?;
        let length = length
            .iter()
            .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
        Some(n_bytes + length)
    };
    Some(match marker {
        // Texts that are short.
        0xa0..=0xbf => usize::from(marker & 0x1f),
        // Bytes and texts.
        0xc4 | 0xd9 => counted(1)?,
        0xc5 | 0xda => counted(2)?,
        0xc6 | 0xdb => counted(4)?,
        // Extensions have a byte for their type besides.
        0xc7 => counted(1)? + 1,
        0xc8 => counted(2)? + 1,
        0xc9 => counted(4)? + 1,
        0xd4..=0xd8 => (1 << (marker - 0xd4)) + 1,
        // Numbers.
        0xcc | 0xd0 => 1,
        0xcd | 0xd1 => 2,
        0xca | 0xce | 0xd2 => 4,
        0xcb | 0xcf | 0xd3 => 8,
        // Numbers of elements.
        0xdc | 0xde => 2,
        0xdd | 0xdf => 4,
        // Small numbers, null, flags, and lists and maps that are short.
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The values of a document as they are counted when it is read.
    fn counted(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(counted).sum(),
            Value::Object(fields) => fields.values().map(|field| 1 + counted(field)).sum(),
            _ => 0,
        }
    }

    #[test]
    fn all_values_of_a_document_are_counted() {
        let long = vec![json!(null); 70_000];
        let wide: serde_json::Map<String, Value> = (0..70_000)
            .map(|number| (number.to_string(), json!(number)))
            .collect();
        for value in [
            json!({"a": [1, -1, 300, -300, 70_000, -70_000, 1_u64 << 40, -(1_i64 << 40), 1.5, true, null]}),
            json!([
                "",
                "x".repeat(31),
                "x".repeat(32),
                "x".repeat(300),
                "x".repeat(70_000)
            ]),
            json!([[[[]]], {}, {"a": {"b": {}}}]),
            Value::Array(long),
            Value::Object(wide),
        ] {
            let document = rmp_serde::to_vec(&value).unwrap();
            assert_eq!(n_values(&document), counted(&value));
        }
        let bytes = rmpv::Value::Array(vec![
            rmpv::Value::Binary(vec![1; 300]),
            rmpv::Value::Ext(3, vec![1; 4]),
            rmpv::Value::Ext(3, vec![1; 300]),
        ]);
        let mut document = Vec::new();
        rmpv::encode::write_value(&mut document, &bytes).unwrap();
        assert_eq!(n_values(&document), 4);
    }

    #[test]
    fn what_is_cut_off_is_counted_up_to_there() {
        let document = rmp_serde::to_vec(&json!([1, "a long text that is cut off"])).unwrap();
        assert_eq!(n_values(&document[..10]), 3);
        assert_eq!(n_values(&[0xdb, 0xff]), 1);
        assert_eq!(n_values(&[]), 0);
    }
}
