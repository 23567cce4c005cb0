//! Arguments of a request: JSON body and query string, merged; and its path segments.
//! Source: docs/reference/rest.md § 0.2.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use futures_util::Stream;
use serde_json::{Map, Value};
use warp::http::{HeaderMap, StatusCode, header};
use warp::{Filter, Rejection};

use crate::api::contract::Endpoint;
use crate::api::http::body::{self, Limits, Pace, Quota, Share};
use crate::api::http::error::{ApiError, Refusal};
use crate::api::http::principal::Principal;
use crate::domain::{EnvironmentId, ResourceId, VersionNumber};
use crate::executor::bounds::is_deep;

/// Bytes of a body, as it was sent and unpacked.
const LIMITS: Limits = Limits {
    max_bytes: 16 << 20,
    pace: Pace {
        timeout: Duration::from_secs(30),
        grace: Duration::from_secs(5),
        bytes_per_second: 16 << 10,
    },
};
/// All bodies, and what is read out of them, as long as their requests are worked on.
static BODIES: Quota = Quota::new(256 << 20);
/// Bodies with all resources of a version, and what is read out of them.
static EXPORTS: Quota = Quota::new(1 << 30);
/// What a JSON value takes beside its text, in bytes: so `[0,0,0,...]` is counted as what it becomes.
const VALUE_BYTES: usize = 80;
/// Arrays and objects in each other. Readers of JSON stop at 128 levels, and answers have some around what a body had.
const MAX_BODY_DEPTH: usize = 100;
/// Pairs of a query string. The names of all of them are looked up for each.
const MAX_QUERY_PAIRS: usize = 1000;

/// How large a body may be. Source: docs/reference/rest.md § 0.2.
#[derive(Debug)]
pub(in crate::api) struct Size {
    limits: Limits,
    /// JSON values: with `VALUE_BYTES` each they fit the quota.
    max_values: usize,
    quota: &'static Quota,
}

/// What nearly all requests have.
pub(in crate::api) const USUAL: Size = Size {
    limits: LIMITS,
    max_values: 2_000_000,
    quota: &BODIES,
};

/// The resources of a version, which an exporter sends in one request: as much as the reference takes, where the memory for it is
/// there.
pub(in crate::api) const EXPORT: Size = Size {
    limits: Limits {
        max_bytes: 100 << 20,
        pace: Pace {
            timeout: Duration::from_secs(300),
            ..LIMITS.pace
        },
    },
    max_values: 10_000_000,
    quota: &EXPORTS,
};

/// One path segment, percent-decoded once.
#[derive(Debug, Clone, Default)]
pub(in crate::api) struct Segment(pub(in crate::api) String);

impl Segment {
    /// The resource of that id, if there is one.
    pub(in crate::api) fn resource_id(&self) -> ResourceId {
        ResourceId::new(self.0.as_str())
    }
}

/// The version of that number, which the table of routes lets through as a number only.
impl From<Segment> for VersionNumber {
    fn from(segment: Segment) -> Self {
        segment.0.parse().unwrap_or_default()
    }
}

impl FromStr for Segment {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        percent_encoding::percent_decode_str(text)
            .decode_utf8()
            .map(|text| Self(text.into_owned()))
            .map_err(|_| ())
    }
}

/// The arguments of a request, by name.
#[derive(Debug, Clone, Default)]
pub(in crate::api) struct Args {
    values: Map<String, Value>,
    /// The pairs of the query string, as they came.
    pairs: Vec<String>,
    pub(in crate::api) headers: HeaderMap,
    /// Who sent it.
    pub(in crate::api) principal: Principal,
    /// What it asks for; `None`: not known, as in tests.
    pub(in crate::api) endpoint: Option<&'static Endpoint>,
    /// What the body takes of the quota.
    _share: Option<Arc<Share>>,
}

/// Arguments of body and query string; the query wins.
pub(in crate::api) async fn parse<B: Buf>(
    query: &str,
    headers: HeaderMap,
    stream: impl Stream<Item = Result<B, warp::Error>>,
    size: &Size,
) -> Result<Args, ApiError> {
    let mut share = size.quota.share();
    let bytes = body::read(&headers, stream, size.limits, Some(&mut share)).await?;
    let bytes = unpack(&headers, bytes, size.limits.max_bytes, &mut share)?;
    let n_values = count_values(&bytes);
    if n_values > size.max_values {
        let message = format!("the body has more than {} JSON values", size.max_values);
        return Err(ApiError::with_status(
            StatusCode::PAYLOAD_TOO_LARGE,
            message,
        ));
    }
    share.take(n_values * VALUE_BYTES)?;
    let mut args = Args {
        values: object(&bytes)?,
        headers,
        _share: Some(Arc::new(share)),
        ..Args::default()
    };
    args.add_query(query)?;
    Ok(args)
}

pub(in crate::api) fn reject(error: ApiError) -> Rejection {
    warp::reject::custom(Refusal::from(error))
}

/// The query string as it came; empty if there is none.
pub(in crate::api) fn raw_query()
-> impl Filter<Extract = (String,), Error = std::convert::Infallible> + Clone {
    warp::query::raw().or(warp::any().map(String::new)).unify()
}

/// At most so many values are in a JSON text: each but the first follows one of these.
fn count_values(bytes: &[u8]) -> usize {
    let mut n_values = 0;
    let (mut is_text, mut is_escaped) = (false, false);
    for &byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' | b':' if !is_text => n_values += 1,
            _ => {}
        }
    }
    n_values
}

/// Undoes `Content-Encoding: gzip`, which the Python client uses for longer bodies.
fn unpack(
    headers: &HeaderMap,
    bytes: Vec<u8>,
    limit: usize,
    share: &mut Share,
) -> Result<Vec<u8>, ApiError> {
    use std::io::Read;
    const PART: usize = 64 << 10;
    if !is_packed(headers)? {
        return Ok(bytes);
    }
    let mut reader = flate2::read::GzDecoder::new(bytes.as_slice());
    let mut unpacked = Vec::new();
    loop {
        share.take(PART)?;
        let read = reader.by_ref().take(PART as u64).read_to_end(&mut unpacked);
        let n_read =
            read.map_err(|error| ApiError::bad_request(format!("the body is no gzip: {error}")))?;
        if unpacked.len() > limit {
            return Err(ApiError::with_status(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the unpacked body is too large",
            ));
        }
        if n_read < PART {
            return Ok(unpacked);
        }
    }
}

/// Whether a body came as gzip.
pub(in crate::api) fn is_packed(headers: &HeaderMap) -> Result<bool, ApiError> {
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes())
    {
        None | Some(b"identity" | b"") => Ok(false),
        Some(b"gzip") => Ok(true),
        Some(_) => {
            let message = "only gzip is understood as a content encoding";
            Err(ApiError::with_status(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                message,
            ))
        }
    }
}

/// JSON whatever the content type says; nothing and `null` mean no arguments.
fn object(bytes: &[u8]) -> Result<Map<String, Value>, ApiError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let value = serde_json::from_slice(bytes);
    match value {
        Ok(value) if is_deep(&value, MAX_BODY_DEPTH) => Err(too_deep()),
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ApiError::bad_request("the body must be a JSON object")),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body is no JSON: {error}"
        ))),
    }
}

fn too_deep() -> ApiError {
    ApiError::bad_request(format!(
        "the body is nested more than {MAX_BODY_DEPTH} levels deep"
    ))
}

impl Args {
    /// Arguments of the query string.
    pub(in crate::api) fn of_query(query: &str, headers: HeaderMap) -> Result<Self, ApiError> {
        let mut args = Self {
            headers,
            ..Self::default()
        };
        args.add_query(query).map(|()| args)
    }

    /// Arguments of a request that did not come over HTTP; it is no larger than what one frame holds.
    pub(in crate::api) fn of_handler(
        body: Map<String, Value>,
        query: &str,
        headers: HeaderMap,
    ) -> Result<Self, ApiError> {
        let body = Value::Object(body);
        if is_deep(&body, MAX_BODY_DEPTH) {
            return Err(too_deep());
        }
        let Value::Object(values) = body else {
            return Self::of_query(query, headers);
        };
        let mut args = Self {
            values,
            headers,
            ..Self::default()
        };
        args.add_query(query).map(|()| args)
    }

    fn add_query(&mut self, query: &str) -> Result<(), ApiError> {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if self.pairs.len() == MAX_QUERY_PAIRS {
                let message = format!("the query has more than {MAX_QUERY_PAIRS} arguments");
                return Err(ApiError::bad_request(message));
            }
            self.pairs.push(pair.to_owned());
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decode = |text: &str| {
                let text = text.replace('+', " ");
                percent_encoding::percent_decode_str(&text)
                    .decode_utf8_lossy()
                    .into_owned()
            };
            let (name, value) = (decode(name), Value::String(decode(value)));
            match self.values.get_mut(&name) {
                Some(Value::Array(values)) => values.push(value),
                Some(first @ Value::String(_)) => *first = Value::Array(vec![first.take(), value]),
                _ => {
                    self.values.insert(name, value);
                }
            }
        }
        Ok(())
    }

    /// The query string without what is about pages: filters and the like, each with a `&` before it.
    pub(in crate::api) fn of_the_list(&self) -> String {
        let about_pages = [
            ["limit", "start", "end", "before", "first_id", "last_id"].as_slice(),
            &["first_timestamp", "last_timestamp", "action_id"],
        ]
        .concat();
        let pairs = self.pairs.iter().filter(|pair| {
            let name = pair.split_once('=').map_or(pair.as_str(), |(name, _)| name);
            !about_pages.contains(&name)
        });
        pairs.map(|pair| format!("&{pair}")).collect()
    }

    pub(in crate::api) fn value(&self, name: &str) -> Option<&Value> {
        self.check_described(name);
        self.values.get(name).filter(|value| !value.is_null())
    }

    /// Builds with debug assertions know only arguments that the OpenAPI document describes.
    fn check_described(&self, name: &str) {
        // The environment is of every request, and a header in the document.
        let is_known = |endpoint: &Endpoint| name == "tid" || endpoint.takes(name);
        debug_assert!(
            self.endpoint.is_none_or(is_known),
            "the argument `{name}` is not in src/api/contract/endpoints.txt"
        );
    }

    pub(in crate::api) fn text(&self, name: &str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(ApiError::bad_request(format!(
                "Field '{name}' must be a text"
            ))),
        }
    }

    /// A text, or a number as one.
    fn text_or_number(&self, name: &str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            Some(Value::Number(number)) => Ok(Some(match number.as_f64() {
                // `7.0` is the number that `7` is.
                Some(float) if number.is_f64() && float.fract() == 0.0 => format!("{float:.0}"),
                _ => number.to_string(),
            })),
            _ => self.text(name),
        }
    }

    pub(in crate::api) fn required(&self, name: &str) -> Result<String, ApiError> {
        self.text(name)?
            .ok_or_else(|| ApiError::bad_request(format!("Field '{name}' is required")))
    }

    pub(in crate::api) fn flag(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::Number(number)) if number.as_f64() == Some(1.0) => Ok(true),
            Some(Value::Number(number)) if number.as_f64() == Some(0.0) => Ok(false),
            Some(Value::String(text)) => match text.to_lowercase().as_str() {
                "true" | "1" | "yes" | "on" | "t" | "y" => Ok(true),
                "false" | "0" | "no" | "off" | "f" | "n" => Ok(false),
                _ => Err(ApiError::bad_request(format!(
                    "Field '{name}' must be true or false"
                ))),
            },
            Some(_) => Err(ApiError::bad_request(format!(
                "Field '{name}' must be true or false"
            ))),
        }
    }

    pub(in crate::api) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text_or_number(name)? else {
            return Ok(None);
        };
        let whole = || {
            let (whole, zeros) = text.split_once('.')?;
            let is_whole = !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0');
            whole.parse().ok().filter(|_| is_whole)
        };
        match text.parse().ok().or_else(whole) {
            Some(value) => Ok(Some(value)),
            None => Err(ApiError::bad_request(format!(
                "Field '{name}' cannot be read"
            ))),
        }
    }

    /// A list; one value counts as a list of one.
    pub(in crate::api) fn list(&self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(vec![text.clone()])),
            Some(Value::Array(values)) => {
                let texts: Option<Vec<String>> = values
                    .iter()
                    .map(|value| value.as_str().map(str::to_owned))
                    .collect();
                texts.map(Some).ok_or_else(|| {
                    ApiError::bad_request(format!("Field '{name}' must be a list of texts"))
                })
            }
            Some(_) => Err(ApiError::bad_request(format!(
                "Field '{name}' must be a list of texts"
            ))),
        }
    }

    /// Whether a request says at all which environment it is about.
    pub(in crate::api) fn names_environment(&self) -> bool {
        self.headers.contains_key("x-inmanta-tid") || matches!(self.text("tid"), Ok(Some(_)))
    }

    /// The environment of the request: header or `tid`. Source: docs/reference/rest.md § 0.3.
    pub(in crate::api) fn environment(&self) -> Result<EnvironmentId, ApiError> {
        let header = self
            .headers
            .get("x-inmanta-tid")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let argument = self.text("tid")?;
        if header.is_some() && argument.is_some() && header != argument {
            return Err(ApiError::bad_request(
                "the header X-Inmanta-tid and the argument tid differ",
            ));
        }
        let id = header
            .or(argument)
            .ok_or_else(|| ApiError::bad_request("the header X-Inmanta-tid is required"))?;
        id.parse()
            .map_err(|_| ApiError::bad_request(format!("`{id}` is no environment id")))
    }

    /// Values of `filter.<name>`.
    pub(in crate::api) fn filter(&self, name: &str) -> Result<Vec<String>, ApiError> {
        Ok(self.list(&format!("filter.{name}"))?.unwrap_or_default())
    }

    /// The value of `filter.<name>`, of which there may be one. Source: docs/reference/rest.md § 0.7.
    pub(in crate::api) fn filter_flag(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let name = format!("filter.{name}");
        let is_given = self.value(&name).is_some();
        is_given.then(|| self.flag(&name, false)).transpose()
    }

    /// Values of `filter.<name>`, each of which is one of these words. A word that is none of them would be found nowhere, and
    /// whoever mistyped it would take that for an answer.
    pub(in crate::api) fn filter_of(
        &self,
        name: &str,
        words: &[&str],
    ) -> Result<Vec<String>, ApiError> {
        let values = self.filter(name)?;
        let unknown = values.iter().find(|value| !words.contains(&value.as_str()));
        match unknown {
            Some(value) => Err(ApiError::bad_request(format!(
                "`{value}` is nothing that `filter.{name}` can be; it is one of {}",
                words.join(", ")
            ))),
            None => Ok(values),
        }
    }

    /// Refuses filters other than these. Source: docs/reference/rest.md § 0.7.
    pub(in crate::api) fn only_filters(&self, known: &[&str]) -> Result<(), ApiError> {
        for name in known {
            self.check_described(&format!("filter.{name}"));
        }
        if self.values.contains_key("filter") {
            return Err(ApiError::bad_request(format!(
                "a filter is written as filter.NAME=VALUE; {}",
                there_are(known)
            )));
        }
        let unknown = self
            .values
            .keys()
            .filter_map(|name| name.strip_prefix("filter."));
        match unknown.into_iter().find(|name| !known.contains(name)) {
            Some(name) => Err(ApiError::bad_request(format!(
                "there is no filter `{name}`; {}",
                there_are(known)
            ))),
            None => Ok(()),
        }
    }
}

/// The filters of a list, for a message.
fn there_are(known: &[&str]) -> String {
    match known {
        [] => "this list has none".to_owned(),
        known => format!("there are {}", known.join(", ")),
    }
}

#[cfg(test)]
impl Args {
    pub(in crate::api) fn from_query(query: &str) -> Self {
        let mut args = Self::default();
        args.add_query(query).unwrap();
        args
    }
}
