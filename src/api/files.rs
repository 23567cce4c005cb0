//! The file store over the API. Source: docs/reference/rest.md § 1.8 (`filediff`), § 1.14.

use std::fs::File;
use std::io::{ErrorKind, Read};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::stream;
use serde_json::json;
use warp::http::{HeaderMap, HeaderValue, StatusCode, header};
use warp::{Filter, Reply, filters::BoxedFilter};

use super::{Answer, Body, answer, with};
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::upload::{self, Spooled};
use crate::api::routes::routes;
use crate::app::App;
use crate::files::{Files, MAX_BYTES, is_name};

routes! {
    Get "/api/v1/file/<id>" AnyEnvironment "a content of the file store" => Own;
    Put "/api/v1/file/<id>" AnyEnvironment "stores a content" => Own;
    Head "/api/v1/file/<id>" AnyEnvironment "whether there is a content: 200 or 404" => Own;
    Post "/api/v1/file" AnyEnvironment "which contents are missing" => Body missing();
    Post "/api/v1/filediff" Access "what differs between two contents" => Body diff();
}

/// The contents themselves: a stream in both directions.
pub(super) fn own(app: &App) -> BoxedFilter<(Body,)> {
    let one = warp::path!("api" / "v1" / "file" / Segment);
    let get = one
        .and(warp::get())
        .and(with(app))
        .then(async |name, app| get(name, app).await.unwrap_or_else(ApiError::into_reply));
    let put = one
        .and(warp::put())
        .and(with(app))
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(
            |name: Segment, app: App, headers: HeaderMap, body| async move {
                // Not part of the answer, whose places are not for who is still sending.
                match upload::spool(&headers, body, app.data().path()).await {
                    Ok(spooled) => answer(put(name, app, spooled)).await,
                    Err(error) => error.into_reply(),
                }
            },
        );
    let head = one.and(warp::head()).and(with(app)).then(stat);
    get.or(put).unify().or(head).unify().boxed()
}

/// Does something with the file store, which is on disk.
async fn in_store<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Files) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let files = app.files();
    let done = tokio::task::spawn_blocking(move || work(&files)).await;
    done.map_err(|error| ApiError::internal(&error))
}

fn no_file(name: &str) -> ApiError {
    ApiError::not_found(format!("there is no file {name}"))
}

async fn content_of(app: &App, name: String) -> Result<Vec<u8>, ApiError> {
    let wanted = name.clone();
    let content = in_store(app, move |files| files.get(&wanted)).await?;
    content.ok_or_else(|| no_file(&name))
}

/// `GET /api/v1/file/<sha1>`: encoded as it is sent.
async fn get(name: Segment, app: App) -> Result<Body, ApiError> {
    let wanted = name.0.clone();
    let opened = in_store(&app, move |files| files.open(&wanted)).await?;
    let (file, length) = opened.ok_or_else(|| no_file(&name.0))?;
    let n_bytes = BEFORE.len() as u64 + length.div_ceil(3) * 4 + AFTER.len() as u64;
    let parts = stream::unfold(Some((file, length, true)), |left| async move {
        let (file, n_left, is_first) = left?;
        let read = tokio::task::spawn_blocking(move || encoded(file, n_left, is_first)).await;
        match read.map_err(std::io::Error::other).flatten() {
            Ok((part, left)) => Some((Ok(part), left.map(|(file, n_left)| (file, n_left, false)))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut reply = warp::reply::stream(parts).into_response();
    let headers = reply.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(n_bytes));
    Ok(reply)
}

const BEFORE: &str = "{\"content\":\"";
const AFTER: &str = "\"}";
/// Bytes of a content that are read and encoded at once. Divisible by 3, so that the parts of
/// base64 fit together.
const PART_BYTES: u64 = 96 << 10;

/// The next part of an answer with a content of which `n_left` bytes are left, and what is left then.
fn encoded(
    mut file: File,
    n_left: u64,
    is_first: bool,
) -> std::io::Result<(String, Option<(File, u64)>)> {
    let mut bytes = vec![0; usize::try_from(n_left.min(PART_BYTES)).unwrap_or_default()];
    file.read_exact(&mut bytes)?;
    let n_left = n_left - bytes.len() as u64;
    let mut part = String::from(if is_first { BEFORE } else { "" });
    STANDARD.encode_string(bytes, &mut part);
    if n_left > 0 {
        return Ok((part, Some((file, n_left))));
    }
    part.push_str(AFTER);
    Ok((part, None))
}

/// `PUT /api/v1/file/<sha1>`: the content must have that name.
async fn put(name: Segment, app: App, body: Spooled) -> Result<Answer, ApiError> {
    let name = name.0;
    if !is_name(&name) {
        let message = format!("{name} is not the SHA-1 of the content");
        return Err(ApiError::bad_request(message));
    }
    let wanted = name.clone();
    let kept = in_store(&app, move |files| {
        let mut body = body.into_reader()?;
        let draft = upload::content(&mut body, |content| files.draft(&wanted, content))?;
        if draft.name != wanted {
            return Ok(false);
        }
        files.keep_draft(draft).map(|()| true)
    });
    match kept.await? {
        Ok(true) => Ok(Answer::Empty),
        Ok(false) => {
            let message = format!("{name} is not the SHA-1 of the content");
            Err(ApiError::bad_request(message))
        }
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(ApiError::bad_request(
            format!("the upload cannot be read: {error}"),
        )),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => Err(ApiError::with_status(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the content is larger than {MAX_BYTES} bytes"),
        )),
        Err(error) if error.kind() == ErrorKind::StorageFull => Err(upload::no_room()),
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// `HEAD /api/v1/file/<sha1>`: 200 or 404, without a body.
async fn stat(name: Segment, app: App) -> Body {
    let found = in_store(&app, move |files| files.has(&name.0)).await;
    match found {
        Ok(true) => StatusCode::OK.into_response(),
        Ok(false) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => error.into_reply(),
    }
}

/// `POST /api/v1/file`: which of these the server does not have.
async fn missing(app: App, args: Args) -> Result<Answer, ApiError> {
    let names = args.list("files")?;
    let names = names.ok_or_else(|| ApiError::bad_request("Field 'files' is required"))?;
    let lacks = |files: &Files| -> Vec<String> {
        let missing = names.into_iter().filter(|name| !files.has(name));
        missing.collect()
    };
    let missing = in_store(&app, lacks).await?;
    Ok(Answer::Body(json!({"files": missing})))
}

/// `POST /api/v1/filediff`: the unified difference of two texts, line by line. An empty name, or `0`, is an empty file.
async fn diff(app: App, args: Args) -> Result<Answer, ApiError> {
    let mut names = Vec::new();
    let mut texts = Vec::new();
    for field in ["file_id_1", "file_id_2"] {
        let name = args.required(field)?;
        let content = match name.as_str() {
            "" | "0" => Vec::new(),
            _ => content_of(&app, name.clone()).await?,
        };
        let text = String::from_utf8(content)
            .map_err(|_| ApiError::bad_request(format!("the file {name} is not a text")))?;
        if text.len() > MAX_DIFF_BYTES {
            let message = format!("the file {name} is larger than {MAX_DIFF_BYTES} bytes");
            return Err(ApiError::bad_request(message));
        }
        names.push(name);
        texts.push(text);
    }
    let compare = move || unified(&texts[0], &texts[1], &names[0], &names[1]);
    let lines = tokio::task::spawn_blocking(compare).await;
    let lines = lines.map_err(|error| ApiError::internal(&error))?;
    Ok(Answer::Body(json!({"diff": lines})))
}

/// Bytes of each text that is compared.
const MAX_DIFF_BYTES: usize = 1 << 20;

/// The lines of a unified difference, each with its end, as Python's `difflib` writes them.
fn unified(from: &str, to: &str, from_name: &str, to_name: &str) -> Vec<String> {
    let difference = similar::TextDiff::configure()
        .timeout(std::time::Duration::from_secs(5))
        .diff_lines(from, to);
    let mut lines = Vec::new();
    for hunk in difference.unified_diff().context_radius(3).iter_hunks() {
        if lines.is_empty() {
            lines.push(format!("--- {from_name}\n"));
            lines.push(format!("+++ {to_name}\n"));
        }
        lines.push(format!("{}\n", hunk.header()));
        let changes = hunk.iter_changes();
        lines.extend(changes.map(|change| format!("{}{}", change.tag(), change.value())));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn a_difference_is_written_as_difflib_does() {
        assert!(unified("a\n", "a\n", "1", "2").is_empty());
        assert_eq!(
            unified("a\nb\nc", "a\nx\nc", "1", "2"),
            [
                "--- 1\n",
                "+++ 2\n",
                "@@ -1,3 +1,3 @@\n",
                " a\n",
                "-b\n",
                "+x\n",
                " c"
            ]
        );
        let added = unified("", "a\n", "0", "2");
        assert_eq!(added, ["--- 0\n", "+++ 2\n", "@@ -0,0 +1 @@\n", "+a\n"]);
    }
}
