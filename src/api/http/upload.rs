//! Uploads: `{"content": "<base64>"}` of up to 100 MiB, which no memory holds.
//!
//! The body goes to a file without a name in the data directory as it comes ([`spool`]); all unfinished ones have one quota
//! of disk. When it is whole, it is read from there, and unpacked, parsed and decoded as it is read ([`content`]). So a
//! client costs some hundred KiB of memory whatever it sends.

mod json;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

use base64::engine::general_purpose::STANDARD;
use bytes::Buf;
use futures_util::Stream;
use warp::http::{HeaderMap, StatusCode};

use crate::api::http::args::is_packed;
use crate::api::http::body::{Limits, Pace, Parts, Quota, Share, append};
use crate::api::http::error::ApiError;
use crate::api::http::upload::json::Json;
use crate::files::check_room;

/// Bytes of a body, as it was sent and unpacked.
const MAX_UPLOAD_BYTES: usize = 100 << 20;
const LIMITS: Limits = Limits {
    max_bytes: MAX_UPLOAD_BYTES,
    pace: Pace {
        timeout: Duration::from_secs(300),
        grace: Duration::from_secs(5),
        bytes_per_second: 256 << 10,
    },
};
/// So much is gathered before it is written to disk; what is smaller never gets there.
const BUFFER_BYTES: usize = 256 << 10;
/// What uploads have in memory together.
static IN_MEMORY: Quota = Quota::new(32 << 20);
/// What uploads have on disk together until they are decoded.
static ON_DISK: Quota = Quota::new(1 << 30);

/// A body that has arrived.
#[derive(Debug)]
pub(in crate::api) struct Spooled {
    buffer: Vec<u8>,
    file: Option<File>,
    is_packed: bool,
    _shares: [Share; 2],
}

/// Reads a body to its end, to memory or to a file that is gone with us.
pub(in crate::api) async fn spool<B: Buf>(
    headers: &HeaderMap,
    stream: impl Stream<Item = Result<B, warp::Error>>,
    directory: &Path,
) -> Result<Spooled, ApiError> {
    let is_packed = is_packed(headers)?;
    let (mut memory, mut disk) = (IN_MEMORY.share(), ON_DISK.share());
    let (mut buffer, mut file) = (Vec::new(), None);
    let mut n_in_memory = 0;
    let stream = std::pin::pin!(stream);
    let mut parts = Parts::new(headers, stream, LIMITS)?;
    while let Some(part) = parts.next().await? {
        let n_bytes = buffer.len() + part.remaining();
        if n_bytes > n_in_memory {
            memory.take(n_bytes - n_in_memory)?;
            n_in_memory = n_bytes;
        }
        append(&mut buffer, part);
        if buffer.len() >= BUFFER_BYTES {
            disk.take(buffer.len())?;
            (buffer, file) = write(buffer, file, directory).await?;
        }
    }
    if file.is_some() {
        disk.take(buffer.len())?;
        (buffer, file) = write(buffer, file, directory).await?;
    }
    Ok(Spooled {
        buffer,
        file,
        is_packed,
        _shares: [memory, disk],
    })
}

/// Writes a buffer to the end of a file, which is made if there is none; gives the buffer back, empty.
async fn write(
    mut buffer: Vec<u8>,
    file: Option<File>,
    directory: &Path,
) -> Result<(Vec<u8>, Option<File>), ApiError> {
    let directory = directory.to_owned();
    let written = tokio::task::spawn_blocking(move || -> io::Result<_> {
        let mut file = match file {
            Some(file) => file,
            // Without a name, and with mode 0600.
            None => tempfile::tempfile_in(&directory)?,
        };
        check_room(&directory, buffer.len() as u64)?;
        file.write_all(&buffer)?;
        buffer.clear();
        Ok((buffer, Some(file)))
    });
    let written = written.await.map_err(|error| ApiError::internal(&error))?;
    written.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => no_room(),
        _ => ApiError::internal(&error),
    })
}

/// What is said where an upload would leave too little on the disk.
pub(in crate::api) fn no_room() -> ApiError {
    ApiError::with_status(
        StatusCode::INSUFFICIENT_STORAGE,
        "the disk of the server is all but full, so nothing is uploaded; it goes on when there is room",
    )
}

impl Spooled {
    /// The body from its begin, unpacked. What is wrong with it is an error of kind `InvalidData`.
    pub(in crate::api) fn into_reader(self) -> io::Result<impl BufRead> {
        let Self {
            buffer,
            file,
            is_packed,
            _shares: shares,
        } = self;
        let raw: Box<dyn Read> = match file {
            Some(mut file) => {
                file.rewind()?;
                Box::new(file)
            }
            None => Box::new(Cursor::new(buffer)),
        };
        let unpacked: Box<dyn Read> = if is_packed {
            Box::new(flate2::read::GzDecoder::new(BufReader::new(raw)))
        } else {
            raw
        };
        Ok(BufReader::with_capacity(
            64 << 10,
            Unpacked {
                reader: unpacked,
                n_left: MAX_UPLOAD_BYTES,
                _shares: shares,
            },
        ))
    }
}

/// A body that is read, up to the limit for what is unpacked. It has its quota until it is dropped.
struct Unpacked {
    reader: Box<dyn Read>,
    n_left: usize,
    _shares: [Share; 2],
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_read = self
            .reader
            .read(buffer)
            .map_err(|error| match error.kind() {
                io::ErrorKind::Interrupted => error,
                _ => invalid(format!("it is no gzip: {error}")),
            })?;
        self.n_left = self
            .n_left
            .checked_sub(n_read)
            .ok_or_else(|| invalid("unpacked it is too large"))?;
        Ok(n_read)
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Reads `{"content": "<base64>"}`, gives the decoded content to `keep` as it is read, and then what `keep` gave.
///
/// # Errors
/// `InvalidData` with a message for the client, or what `keep` says.
pub(in crate::api) fn content<T>(
    body: &mut dyn BufRead,
    keep: impl FnOnce(&mut dyn Read) -> io::Result<T>,
) -> io::Result<T> {
    let mut json = Json { body };
    let (mut keep, mut kept) = (Some(keep), None);
    json.expect(b'{')?;
    let mut is_first = true;
    loop {
        match json.next_token()? {
            b'}' => break,
            b',' if !is_first => json.expect(b'"')?,
            b'"' if is_first => {}
            other => return Err(unexpected(other)),
        }
        is_first = false;
        let name = json.name()?;
        json.expect(b':')?;
        if name != b"content" {
            json.skip_value()?;
            continue;
        }
        let keep = keep
            .take()
            .ok_or_else(|| invalid("Field 'content' is given twice"))?;
        let first = json.next_token()?;
        if first != b'"' {
            return Err(invalid("Field 'content' must be a text"));
        }
        let mut text = json.text();
        let mut decoder = base64::read::DecoderReader::new(&mut text, &STANDARD);
        kept = Some(keep(&mut decoder)?);
        text.is_at_end()?;
    }
    if json.peek_token()?.is_some() {
        return Err(invalid("there is more after the JSON object"));
    }
    kept.ok_or_else(|| invalid("Field 'content' is required"))
}

fn unexpected(byte: u8) -> io::Error {
    let byte = char::from(byte).escape_default();
    invalid(format!("it is no JSON object: unexpected `{byte}`"))
}

#[cfg(test)]
mod tests {
    use crate::api::http::upload::*;

    fn decode(body: &str) -> Result<Vec<u8>, String> {
        let read = |content: &mut dyn Read| {
            let mut bytes = Vec::new();
            content.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        // However it is cut.
        let mut results = [1, 7, 4096].map(|size| {
            let mut reader = BufReader::with_capacity(size, body.as_bytes());
            content(&mut reader, read).map_err(|error| {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                error.to_string()
            })
        });
        assert!(results.iter().all(|result| *result == results[0]));
        std::mem::replace(&mut results[0], Err(String::new()))
    }

    #[test]
    fn the_content_is_found_among_other_fields() {
        for body in [
            r#"{"content": "aGVsbG8="}"#,
            " {\n\"content\"\t:\"aGVsbG8=\" } \n",
            r#"{"id": "x\"}", "more": [1, {"a": [null, -1.5e3, "]"]}], "content": "aGVsbG8=", "last": true}"#,
            r#"{"cont\u0065nt": "aGVsb\u00478="}"#,
        ] {
            assert_eq!(decode(body).unwrap(), b"hello", "{body}");
        }
        assert_eq!(decode(r#"{"content": ""}"#).unwrap(), b"");
        assert_eq!(decode(r#"{"content": "\/\/\/\/"}"#).unwrap(), [255; 3]);
    }

    /// Input: bodies of uploads that are no JSON, cut off, nested 100 000 deep, not base64 (docs/reference/security.md § 3.4). Answer: 400 that says what is wrong.
    #[test]
    fn what_is_no_upload_is_refused() {
        let deep = format!("{{\"x\": {}", "[".repeat(100_000));
        let long = format!("{{\"{}\": 1}}", "x".repeat(5000));
        for (body, expected) in [
            ("", "cut off"),
            ("null", "unexpected"),
            ("[]", "unexpected"),
            ("{}", "required"),
            ("{\"content\": \"aGVs", "cut off"),
            ("{\"content\": \"aGVsbG8=\"", "cut off"),
            ("{\"content\": \"aGVsbG8=\"} x", "more after"),
            ("{\"content\": 1}", "must be a text"),
            ("{\"content\": \"aGVsbG8=\", \"content\": \"\"}", "twice"),
            ("{\"content\": \"aGVsbG8=\",}", "unexpected"),
            ("{,\"content\": \"aGVsbG8=\"}", "unexpected"),
            ("{\"x\": ]}", "unexpected"),
            ("{\"content\": \"a\nb\"}", "control character"),
            ("{\"content\": \"a\\qb\"}", "wrong escape"),
            (deep.as_str(), "nested"),
            (long.as_str(), "too long"),
        ] {
            let error = decode(body).unwrap_err();
            assert!(error.contains(expected), "{body:.60}: {error}");
        }
        for body in ["{\"content\": \"a\"}", "{\"content\": \"aGVs bG8=\"}"] {
            assert!(decode(body).is_err(), "{body}");
        }
    }
}
