//! The content of a delivery, as far as Steward uses it.

use std::fmt;

use serde::Deserialize;

use super::{Forge, Headers};
use crate::domain::{is_unprintable, printable};

const MAX_REFERENCE_BYTES: usize = 1024;
const MAX_TEXT_BYTES: usize = 2048;
const MAX_ID_BYTES: usize = 128;

/// One delivery, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The forge's id of the delivery, the same when it is delivered again.
    pub delivery: Option<String>,
    pub event: Event,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A branch or tag changed, also when it was made or deleted.
    Push(Push),
    /// Somebody tries the hook.
    Ping,
    /// Something else, by the forge's name for it; to be answered with success and left alone.
    Other(String),
}

/// That a ref of a repository changed. All of it is what the sender claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The full name, such as `refs/heads/main`.
    pub reference: String,
    /// `None` when the ref is new, or when the forge does not send it.
    pub before: Option<Revision>,
    /// `None` when the ref is deleted.
    pub after: Option<Revision>,
    pub deleted: bool,
    pub repository: RepositoryHint,
}

impl Push {
    /// The branch, or `None` for a tag or another ref.
    pub fn branch(&self) -> Option<&str> {
        self.reference.strip_prefix("refs/heads/")
    }
}

/// Which repository the sender claims to speak of. Serves to notice a hook that is set up for the wrong one;
/// never an address to fetch from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryHint {
    /// `owner/name`.
    pub full_name: String,
    /// The addresses as they were sent, so perhaps with credentials: not for logs.
    pub addresses: Addresses,
}

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Addresses(Vec<String>);

impl Addresses {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl fmt::Debug for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Addresses({})", self.0.len())
    }
}

/// A commit id of a forge: 40 or 64 lower-case hexadecimal digits, not all of them zero.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Revision(String);

impl Revision {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a delivery cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the delivery has no header `{header}`, or several")]
    Header { header: String },
    #[error(
        "the content type is not supported; choose application/json in the forge's settings of the hook"
    )]
    ContentType,
    #[error("the payload is not what a {event} event holds: {reason}")]
    Payload { event: String, reason: String },
    #[error("`{field}` of the payload {reason}")]
    Field {
        field: &'static str,
        reason: &'static str,
    },
}

/// Reads a delivery that [`verify`](super::verify) accepted.
pub fn parse(forge: Forge, headers: &Headers<'_>, body: &[u8]) -> Result<Hook, Error> {
    let event = header(forge, headers, "Event")?.ok_or_else(|| Error::Header {
        header: format!("X-{}-Event", forge.prefixes()[0]),
    })?;
    let delivery = header(forge, headers, "Delivery")?;
    let event = match event.as_str() {
        "push" => Event::Push(push(&json::<PushPayload>("push", headers, body)?)?),
        // Gitea and Forgejo send no push when a ref is deleted; GitHub sends both, and the push says more.
        "delete" if forge != Forge::GitHub => {
            Event::Push(deletion(&json::<DeletePayload>("delete", headers, body)?)?)
        }
        "ping" => {
            json::<PingPayload>("ping", headers, body)?;
            Event::Ping
        }
        _ => Event::Other(event),
    };
    Ok(Hook { delivery, event })
}

#[derive(Deserialize)]
struct PushPayload {
    #[serde(rename = "ref")]
    reference: String,
    before: String,
    after: String,
    repository: RepositoryPayload,
}

#[derive(Deserialize)]
struct DeletePayload {
    #[serde(rename = "ref")]
    reference: String,
    ref_type: String,
    repository: RepositoryPayload,
}

#[derive(Deserialize)]
struct PingPayload {}

#[derive(Deserialize)]
struct RepositoryPayload {
    full_name: String,
    clone_url: Option<String>,
    ssh_url: Option<String>,
    html_url: Option<String>,
}

fn push(payload: &PushPayload) -> Result<Push, Error> {
    let after = revision("after", &payload.after)?;
    Ok(Push {
        reference: reference(&payload.reference)?,
        before: revision("before", &payload.before)?,
        deleted: after.is_none(),
        after,
        repository: repository(&payload.repository)?,
    })
}

/// A deleted ref, given by its short name.
fn deletion(payload: &DeletePayload) -> Result<Push, Error> {
    let folder = match payload.ref_type.as_str() {
        "branch" => "heads",
        "tag" => "tags",
        _ => {
            return Err(Error::Field {
                field: "ref_type",
                reason: "is neither `branch` nor `tag`",
            });
        }
    };
    let short = payload
        .reference
        .strip_prefix(&format!("refs/{folder}/"))
        .unwrap_or(&payload.reference);
    Ok(Push {
        reference: reference(&format!("refs/{folder}/{short}"))?,
        before: None,
        after: None,
        deleted: true,
        repository: repository(&payload.repository)?,
    })
}

/// The value of a header of this forge, if it is there. There may be one, made of plain characters.
fn header(forge: Forge, headers: &Headers<'_>, name: &str) -> Result<Option<String>, Error> {
    for prefix in forge.prefixes() {
        let full = format!("X-{prefix}-{name}");
        match headers(&full).as_slice() {
            [] => (),
            [value] if is_id(value) => {
                return Ok(Some(String::from_utf8_lossy(value).into_owned()));
            }
            _ => return Err(Error::Header { header: full }),
        }
    }
    Ok(None)
}

fn is_id(value: &[u8]) -> bool {
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    (1..=MAX_ID_BYTES).contains(&value.len()) && value.iter().all(plain)
}

fn json<T: serde::de::DeserializeOwned>(
    event: &'static str,
    headers: &Headers<'_>,
    body: &[u8],
) -> Result<T, Error> {
    let failed = |error: serde_json::Error| Error::Payload {
        event: event.to_owned(),
        reason: printable(&error.to_string(), 200),
    };
    match content_type(headers)? {
        ContentType::Json => serde_json::from_slice(body).map_err(failed),
        ContentType::Form => serde_json::from_slice(&form_payload(event, body)?).map_err(failed),
    }
}

enum ContentType {
    Json,
    Form,
}

fn content_type(headers: &Headers<'_>) -> Result<ContentType, Error> {
    let values = headers("Content-Type");
    let [value] = values.as_slice() else {
        return Err(Error::ContentType);
    };
    let value = String::from_utf8_lossy(value);
    let kind = value
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => Ok(ContentType::Json),
        "application/x-www-form-urlencoded" => Ok(ContentType::Form),
        _ => Err(Error::ContentType),
    }
}

/// The field `payload` of a form, which is how GitHub sends hooks unless told otherwise.
fn form_payload(event: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
    let failed = |reason: &str| Error::Payload {
        event: event.to_owned(),
        reason: reason.to_owned(),
    };
    let mut fields = body
        .split(|byte| *byte == b'&')
        .filter_map(|field| field.strip_prefix(b"payload="));
    let value = fields
        .next()
        .ok_or_else(|| failed("the form has no field `payload`"))?;
    if fields.next().is_some() {
        return Err(failed("the form has the field `payload` twice"));
    }
    let spaced: Vec<u8> = value
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    Ok(percent_encoding::percent_decode(&spaced).collect())
}

/// A full ref name by git's rules, as far as they keep it harmless.
fn reference(name: &str) -> Result<String, Error> {
    let refused = |reason| {
        Err(Error::Field {
            field: "ref",
            reason,
        })
    };
    if name.len() > MAX_REFERENCE_BYTES {
        return refused("is too long");
    }
    let Some(short) = name.strip_prefix("refs/") else {
        return refused("is not a full ref name");
    };
    let forbidden =
        |c: char| is_unprintable(c) || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    if name.contains(forbidden) {
        return refused("has characters that no ref has");
    }
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let well_formed = short.contains('/')
        && !short.split('/').any(bad_part)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.');
    if well_formed {
        Ok(name.to_owned())
    } else {
        refused("is not a ref name")
    }
}

/// `None` for the zero id, by which forges say that there is no commit.
fn revision(field: &'static str, text: &str) -> Result<Option<Revision>, Error> {
    let hexadecimal = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !matches!(text.len(), 40 | 64) || !hexadecimal {
        return Err(Error::Field {
            field,
            reason: "is not a commit id",
        });
    }
    Ok(text
        .bytes()
        .any(|byte| byte != b'0')
        .then(|| Revision(text.to_owned())))
}

fn repository(payload: &RepositoryPayload) -> Result<RepositoryHint, Error> {
    let name = &payload.full_name;
    if name.is_empty() || name.len() > MAX_TEXT_BYTES || name.contains(is_unprintable) {
        return Err(Error::Field {
            field: "repository.full_name",
            reason: "is not a name",
        });
    }
    let addresses = [&payload.clone_url, &payload.ssh_url, &payload.html_url];
    let addresses = addresses
        .into_iter()
        .flatten()
        .filter(|text| text.len() <= MAX_TEXT_BYTES);
    Ok(RepositoryHint {
        full_name: name.clone(),
        addresses: Addresses(addresses.cloned().collect()),
    })
}
