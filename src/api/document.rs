//! Answers that are no JSON in an envelope: pages, pictures, and texts for other programs.

use sha2::{Digest, Sha256};
use warp::Reply;
use warp::http::{Response, StatusCode, header};

use super::Body;
use crate::api::http::args::Args;

/// What browsers may do with what is in a document: show it, and nothing else. Names in it come from models.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox";
/// Bytes of a digest that name a content.
const TAG_BYTES: usize = 16;

/// A text with its type, and a tag that changes with it.
pub(super) struct Document {
    content_type: &'static str,
    text: String,
    tag: String,
    /// The client has this one already.
    is_known: bool,
}

impl Document {
    /// The answer to a request: without its text if the request says (`If-None-Match`) that the client has it.
    pub(super) fn new(args: &Args, content_type: &'static str, text: String) -> Self {
        let digest = Sha256::digest(text.as_bytes());
        let digits = digest
            .iter()
            .take(TAG_BYTES)
            .map(|byte| format!("{byte:02x}"));
        let tag = format!("\"{}\"", digits.collect::<String>());
        let known = args.headers.get(header::IF_NONE_MATCH);
        let known = known.and_then(|value| value.to_str().ok());
        let is_same = |one: &str| one.trim().trim_start_matches("W/") == tag || one.trim() == "*";
        Self {
            content_type,
            is_known: known.is_some_and(|tags| tags.split(',').any(is_same)),
            text,
            tag,
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn into_reply(self) -> Body {
        let reply = Response::builder()
            .header(header::ETAG, self.tag)
            .header(header::CACHE_CONTROL, "no-cache")
            .header(header::CONTENT_SECURITY_POLICY, POLICY)
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        let reply = if self.is_known {
            reply.status(StatusCode::NOT_MODIFIED).body(Vec::new())
        } else {
            let reply = reply.header(header::CONTENT_TYPE, self.content_type);
            reply.body(self.text.into_bytes())
        };
        match reply {
            Ok(reply) => reply.into_response(),
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}
