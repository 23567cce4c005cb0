//! How deep the values of a frame lie in each other, found without recursion: what reads them has a stack that ends.

use std::io::{Error, Result};

/// Arrays and maps in each other. A value of the model may have 200, and lies in a few of the message.
const MAX_DEPTH: usize = 400;

/// Refuses a body of MessagePack that is nested deeper, in one pass. A body that ends early, or is none, is left to who
/// reads it: nothing is read behind that place.
pub fn check(body: &[u8]) -> Result<()> {
    // Values that are still to come in each open array or map.
    let mut open: Vec<u64> = Vec::new();
    let mut rest = body;
    while let Some((&marker, behind)) = rest.split_first() {
        let Some((inner, n_bytes)) = item(marker, behind) else {
            return Ok(());
        };
        let Some(next) = behind.get(n_bytes..) else {
            return Ok(());
        };
        rest = next;
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if inner > 0 {
            if open.len() == MAX_DEPTH {
                let message = format!("a frame with values nested more than {MAX_DEPTH} deep");
                return Err(Error::other(message));
            }
            open.push(inner);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.is_empty() {
            return Ok(());
        }
    }
    Ok(())
}

/// How many values an item holds, and how many bytes it has behind its marker, those of the values not counted.
fn item(marker: u8, behind: &[u8]) -> Option<(u64, usize)> {
    let length = |n_bytes: usize| -> Option<usize> {
        let bytes = behind.get(..n_bytes)?;
        let number = bytes
            .iter()
            .fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        usize::try_from(number).ok()
    };
    let bytes = |of_length: usize, more: usize| Some((0, length(of_length)? + of_length + more));
    match marker {
        // Small numbers, nil, truth values.
        0x00..=0x7f | 0xc0..=0xc3 | 0xe0..=0xff => Some((0, 0)),
        0x80..=0x8f => Some((2 * u64::from(marker & 0x0f), 0)),
        0x90..=0x9f => Some((u64::from(marker & 0x0f), 0)),
        0xa0..=0xbf => Some((0, usize::from(marker & 0x1f))),
        // Bytes and texts.
        0xc4 | 0xd9 => bytes(1, 0),
        0xc5 | 0xda => bytes(2, 0),
        0xc6 | 0xdb => bytes(4, 0),
        // Extensions: a type and a payload.
        0xc7 => bytes(1, 1),
        0xc8 => bytes(2, 1),
        0xc9 => bytes(4, 1),
        0xd4..=0xd8 => Some((0, 1 + (1 << (marker - 0xd4)))),
        // Numbers.
        0xca => Some((0, 4)),
        0xcb => Some((0, 8)),
        0xcc..=0xcf => Some((0, 1 << (marker - 0xcc))),
        0xd0..=0xd3 => Some((0, 1 << (marker - 0xd0))),
        0xdc => Some((length(2)? as u64, 2)),
        0xdd => Some((length(4)? as u64, 4)),
        0xde => Some((2 * length(2)? as u64, 2)),
        0xdf => Some((2 * length(4)? as u64, 4)),
    }
}
