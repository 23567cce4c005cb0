//! Frames: a length and a body of MessagePack.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

use crate::protocol::{FromHost, answers, depth};

/// No frame may be larger: 256 MiB.
pub const MAX_FRAME_BYTES: u32 = 256 << 20;

/// Writes one frame and flushes.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> io::Result<()> {
    let mut frame = vec![0; 4];
    rmp_serde::encode::write_named(&mut frame, message).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4)
        .ok()
        .filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a frame of more than 256 MiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    writer.write_all(&frame)?;
    writer.flush()
}

/// Writes one frame with a body that is there already, and flushes.
pub fn write_body(writer: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a frame of more than 256 MiB"))?;
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(body)?;
    writer.flush()
}

/// As [`read_frame`], of the host of a compile, whose answers may have forms of their own (`answers`).
pub fn read_answer(reader: &mut impl Read) -> io::Result<Option<FromHost>> {
    let Some(body) = read_body(reader, MAX_FRAME_BYTES)? else {
        return Ok(None);
    };
    answers::in_own_form(&body)
        .unwrap_or_else(|| decode(&body))
        .map(Some)
}

/// Reads one frame; `Ok(None)` at a clean end of the stream.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<Option<T>> {
    read_frame_within(reader, MAX_FRAME_BYTES)
}

/// As [`read_frame`], of a process that may send no frame of more than `max_bytes`.
pub fn read_frame_within<T: DeserializeOwned>(
    reader: &mut impl Read,
    max_bytes: u32,
) -> io::Result<Option<T>> {
    match read_body(reader, max_bytes)? {
        Some(body) => decode(&body).map(Some),
        None => Ok(None),
    }
}

fn read_body(reader: &mut impl Read, max_bytes: u32) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match reader.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(length);
    if length > max_bytes {
        return Err(io::Error::other(format!(
            "a frame of {length} bytes is too large, the limit is {max_bytes}"
        )));
    }
    // Grow with what arrives rather than trust the announced length.
    let mut body = Vec::with_capacity((length as usize).min(1 << 16));
    reader
        .by_ref()
        .take(u64::from(length))
        .read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

/// Reads the body of a frame.
///
/// # Errors
/// It is not such a message, or nested deeper than messages are.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    depth::check(body)?;
    rmp_serde::from_slice(body).map_err(io::Error::other)
}
