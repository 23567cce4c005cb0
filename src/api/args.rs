//! Arguments of a request: JSON body and query string, merged; and its path segments. Source: rest-api.md 0.2.

use std::str::FromStr;
use std::time::Duration;

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use serde_json::{Map, Value};
use warp::http::{HeaderMap, StatusCode, header};
use warp::{Filter, Rejection};

use super::error::{ApiError, Refusal};
use crate::domain::EnvironmentId;

/// Of a body as sent, and unpacked.
const MAX_BODY_BYTES: usize = 16 << 20;
const MAX_UPLOAD_BYTES: usize = 100 << 20;
/// Within which a body must have arrived.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// One path segment, percent-decoded once.
#[derive(Debug, Clone)]
pub(super) struct Segment(pub(super) String);

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
pub(super) struct Args {
    values: Map<String, Value>,
    /// Of the query string, as they came.
    pairs: Vec<String>,
    pub(super) headers: HeaderMap,
}

/// Arguments of the query string.
pub(super) fn query() -> impl Filter<Extract = (Args,), Error = std::convert::Infallible> + Clone {
    raw_query()
        .and(warp::header::headers_cloned())
        .map(|query: String, headers| {
            let mut args = Args {
                headers,
                ..Args::default()
            };
            args.add_query(&query);
            args
        })
}

/// Arguments of body and query string; the query wins.
pub(super) fn body() -> impl Filter<Extract = (Args,), Error = Rejection> + Clone {
    body_up_to(MAX_BODY_BYTES)
}

/// As [`body`], with room for a file as base64.
pub(super) fn upload() -> impl Filter<Extract = (Args,), Error = Rejection> + Clone {
    body_up_to(MAX_UPLOAD_BYTES)
}

fn body_up_to(limit: usize) -> impl Filter<Extract = (Args,), Error = Rejection> + Clone {
    raw_query()
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .and_then(
            move |query: String, headers: HeaderMap, stream| async move {
                let parse = async {
                    let bytes = read(&headers, stream, limit, BODY_TIMEOUT).await?;
                    let bytes = unpack(&headers, bytes, limit)?;
                    let mut args = Args {
                        values: object(&bytes)?,
                        headers,
                        ..Args::default()
                    };
                    args.add_query(&query);
                    Ok(args)
                };
                parse
                    .await
                    .map_err(|error: ApiError| warp::reject::custom(Refusal::from(error)))
            },
        )
}

fn raw_query() -> impl Filter<Extract = (String,), Error = std::convert::Infallible> + Clone {
    warp::query::raw().or(warp::any().map(String::new)).unify()
}

/// Reads a body, counting as it comes: what is too large is refused before it is held, what is too slow is cut off.
pub(super) async fn read<B: Buf, E: std::fmt::Display>(
    headers: &HeaderMap,
    stream: impl Stream<Item = Result<B, E>>,
    limit: usize,
    timeout: Duration,
) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message = format!("the body is larger than {limit} bytes");
        ApiError::with_status(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let announced = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let collect = async {
        let mut body = Vec::with_capacity(announced.unwrap_or(0).min(1 << 16));
        let mut stream = std::pin::pin!(stream);
        while let Some(chunk) = stream.next().await {
            let mut chunk = chunk
                .map_err(|error| ApiError::bad_request(format!("the body ended early: {error}")))?;
            if body.len() + chunk.remaining() > limit {
                return Err(too_large());
            }
            while chunk.has_remaining() {
                let part = chunk.chunk();
                body.extend_from_slice(part);
                let n_bytes = part.len();
                chunk.advance(n_bytes);
            }
        }
        Ok(body)
    };
    match tokio::time::timeout(timeout, collect).await {
        Ok(body) => body,
        Err(_) => Err(ApiError::with_status(
            StatusCode::REQUEST_TIMEOUT,
            "the body took too long to arrive",
        )),
    }
}

/// Undoes `Content-Encoding: gzip`, which the Python client uses for longer bodies.
fn unpack(headers: &HeaderMap, bytes: Vec<u8>, limit: usize) -> Result<Vec<u8>, ApiError> {
    use std::io::Read;
    match headers
        .get(header::CONTENT_ENCODING)
        .map(|value| value.as_bytes())
    {
        None | Some(b"identity" | b"") => Ok(bytes),
        Some(b"gzip") => {
            let mut unpacked = Vec::new();
            let reader = flate2::read::GzDecoder::new(bytes.as_slice()).take(limit as u64 + 1);
            let read = std::io::BufReader::new(reader).read_to_end(&mut unpacked);
            match read {
                Ok(_) if unpacked.len() <= limit => Ok(unpacked),
                Ok(_) => Err(ApiError::with_status(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the unpacked body is too large",
                )),
                Err(error) => Err(ApiError::bad_request(format!(
                    "the body is no gzip: {error}"
                ))),
            }
        }
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
    match serde_json::from_slice(bytes) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(ApiError::bad_request("the body must be a JSON object")),
        Err(error) => Err(ApiError::bad_request(format!(
            "the body is no JSON: {error}"
        ))),
    }
}

impl Args {
    fn add_query(&mut self, query: &str) {
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
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
    }

    /// The query string without what is about pages: filters and the like, each with a `&` before it.
    pub(super) fn of_the_list(&self) -> String {
        let about_pages = ["limit", "start", "end"];
        let pairs = self.pairs.iter().filter(|pair| {
            let name = pair.split_once('=').map_or(pair.as_str(), |(name, _)| name);
            !about_pages.contains(&name)
        });
        pairs.map(|pair| format!("&{pair}")).collect()
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn text(&self, name: &str) -> Result<Option<String>, ApiError> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(ApiError::bad_request(format!(
                "Field '{name}' must be a text"
            ))),
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<String, ApiError> {
        self.text(name)?
            .ok_or_else(|| ApiError::bad_request(format!("Field '{name}' is required")))
    }

    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.value(name) {
            None => Ok(default),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) => match text.to_lowercase().as_str() {
                "true" | "1" | "yes" | "on" | "t" => Ok(true),
                "false" | "0" | "no" | "off" | "f" => Ok(false),
                _ => Err(ApiError::bad_request(format!(
                    "Field '{name}' must be true or false"
                ))),
            },
            Some(_) => Err(ApiError::bad_request(format!(
                "Field '{name}' must be true or false"
            ))),
        }
    }

    pub(super) fn parsed<T: FromStr>(&self, name: &str) -> Result<Option<T>, ApiError> {
        let text = self.text(name)?;
        let refuse = |_| ApiError::bad_request(format!("Field '{name}' cannot be read"));
        text.map(|text| text.parse().map_err(refuse)).transpose()
    }

    /// A list; one value counts as a list of one.
    pub(super) fn list(&self, name: &str) -> Result<Option<Vec<String>>, ApiError> {
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

    /// The environment of the request: header or `tid`. Source: rest-api.md 0.3.
    pub(super) fn environment(&self) -> Result<EnvironmentId, ApiError> {
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
    pub(super) fn filter(&self, name: &str) -> Result<Vec<String>, ApiError> {
        Ok(self.list(&format!("filter.{name}"))?.unwrap_or_default())
    }

    /// Refuses filters other than these. Source: rest-api.md 0.7.
    pub(super) fn only_filters(&self, known: &[&str]) -> Result<(), ApiError> {
        let unknown = self
            .values
            .keys()
            .filter_map(|name| name.strip_prefix("filter."));
        match unknown.into_iter().find(|name| !known.contains(name)) {
            Some(name) => Err(ApiError::bad_request(format!(
                "there is no filter `{name}`; there are {known:?}"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
impl Args {
    pub(super) fn from_query(query: &str) -> Self {
        let mut args = Self::default();
        args.add_query(query);
        args
    }
}
