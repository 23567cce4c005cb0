//! How large pages of lists are, and what is the same of all. Source: docs/reference/rest.md § 0.6.
//!
//! Which rows a page has: [`cut`](super::cut).

use std::collections::VecDeque;
use std::ops::Range;

use serde_json::Value;

use crate::api::http::args::Args;
use crate::api::http::error::ApiError;

/// Bytes of the rows of a page. They are in memory as values and as text, for each client that
/// asks.
pub(in crate::api) const MAX_PAGE_BYTES: usize = 8 << 20;

/// Rows of a page, unless a list gives all when it is asked for none.
pub(in crate::api) const MAX_ROWS: usize = 1000;

/// Rows of a page as the request asks for them; `None`: all. Clients ask for all by 0, and by what is below.
pub(in crate::api) fn limit(args: &Args) -> Result<Option<usize>, ApiError> {
    let limit = args.parsed::<i64>("limit")?.unwrap_or(MAX_ROWS as i64);
    let limit = usize::try_from(limit).unwrap_or_default();
    if limit > MAX_ROWS {
        return Err(ApiError::bad_request(format!(
            "limit may be at most {MAX_ROWS}"
        )));
    }
    Ok(Some(limit).filter(|limit| *limit > 0))
}

/// A page begins at one boundary, or ends at one. The ids that clients know beside them are of the same two sides.
pub(in crate::api) fn one_boundary(args: &Args) -> Result<(), ApiError> {
    let is_given = |names: [&str; 2]| names.iter().any(|name| args.value(name).is_some());
    if is_given(["start", "first_id"]) && is_given(["end", "last_id"]) {
        return Err(ApiError::bad_request("start and end exclude each other"));
    }
    Ok(())
}

/// A key as it stands in a link.
pub(in crate::api) fn encode(key: &str) -> String {
    percent_encoding::utf8_percent_encode(key, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// As many of the rows that are asked for as fit an answer, at least one, from the side where the last page ended: a page
/// may have less rows than its limit, and its links lead to the others.
pub(in crate::api) fn fitting<T>(
    rows: &[T],
    asked: Range<usize>,
    is_backwards: bool,
    to_json: impl Fn(&T) -> Value,
) -> (Range<usize>, Vec<Value>) {
    let mut places: Box<dyn Iterator<Item = usize>> = if is_backwards {
        Box::new(asked.clone().rev())
    } else {
        Box::new(asked.clone())
    };
    let (mut data, mut n_bytes) = (VecDeque::new(), 0);
    while let Some(row) = places.next().and_then(|place| rows.get(place)) {
        let value = to_json(row);
        n_bytes += n_bytes_of(&value);
        if n_bytes > MAX_PAGE_BYTES && !data.is_empty() {
            break;
        }
        if is_backwards {
            data.push_front(value);
        } else {
            data.push_back(value);
        }
    }
    let shown = if is_backwards {
        asked.end - data.len()..asked.end
    } else {
        asked.start..asked.start + data.len()
    };
    (shown, data.into())
}

/// About as many bytes as a value has as JSON.
fn n_bytes_of(value: &Value) -> usize {
    /// Bytes that a number, a word, quotes or brackets take with what is between values.
    const OTHER: usize = 8;
    OTHER
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(n_bytes_of).sum(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| name.len() + n_bytes_of(value))
                .sum(),
        }
}
