//! The file store. Source: rest-api.md 1.8 (`filediff`), 1.14.

use serde_json::json;
use warp::http::StatusCode;
use warp::{Filter, Reply, filters::BoxedFilter};

use super::args::{self, Args, Segment};
use super::error::ApiError;
use super::{Answer, Body, answer, with};
use crate::files::{Files, name_of};
use crate::server::App;

pub(super) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let one = warp::path!("api" / "v1" / "file" / Segment);
    let get = one
        .and(warp::get())
        .and(with(app))
        .then(|name, app| answer(get(name, app)));
    let put = one
        .and(warp::put())
        .and(with(app))
        .and(args::upload())
        .then(|name, app, args| answer(put(name, app, args)));
    let head = one.and(warp::head()).and(with(app)).then(stat);
    let missing = warp::path!("api" / "v1" / "file")
        .and(warp::post())
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(missing(app, args)));
    let diff = warp::path!("api" / "v1" / "filediff")
        .and(warp::post())
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(diff(app, args)));
    get.or(put)
        .unify()
        .or(head)
        .unify()
        .or(missing)
        .unify()
        .or(diff)
        .unify()
        .boxed()
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

/// `GET /api/v1/file/<sha1>`.
async fn get(name: Segment, app: App) -> Result<Answer, ApiError> {
    use base64::Engine;
    let content = content_of(&app, name.0).await?;
    let content = base64::engine::general_purpose::STANDARD.encode(content);
    Ok(Answer::Whole(json!({"content": content})))
}

/// `PUT /api/v1/file/<sha1>`: the content must have that name.
async fn put(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    use base64::Engine;
    let content = args.required("content")?;
    let content = base64::engine::general_purpose::STANDARD.decode(content);
    let content = content
        .map_err(|error| ApiError::bad_request(format!("the content is not base64: {error}")))?;
    if name_of(&content) != name.0 {
        let message = format!("{} is not the SHA-1 of the content", name.0);
        return Err(ApiError::bad_request(message));
    }
    let kept = in_store(&app, move |files| files.put(&content)).await?;
    kept.map_err(|error| ApiError::internal(&error))?;
    Ok(Answer::Empty)
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
    Ok(Answer::Whole(json!({"files": missing})))
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
    Ok(Answer::Whole(json!({"diff": lines})))
}

/// Of each text that is compared.
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
