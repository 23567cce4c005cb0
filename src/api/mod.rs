//! The HTTP API: paths, arguments and JSON of docs/reference/rest.md, for what exists so far, and webhooks.
//!
//! A table says which handler answers what ([`routes`]); handlers are plain functions of the [`App`] and the arguments of a
//! request, and answer with a value or an `ApiError`, which becomes a reply here and never a rejection.

pub(super) mod agents;
mod callers;
pub(super) mod compiles;
pub(super) mod compliance;
mod contract;
pub(super) mod deployments;
pub(super) mod discovered_resources;
mod document;
pub(super) mod environments;
mod events;
mod exported_code;
pub(super) mod exports;
pub(super) mod facts;
mod files;
mod filtered;
pub(crate) mod fuzzing;
mod handler_requests;
pub(super) mod http;
mod metrics;
mod notifications;
mod page;
pub(super) mod projects;
pub(super) mod protected_settings;
pub(super) mod resources;
mod routes;
mod scheduler;
mod self_description;
pub(super) mod services;
mod status;
mod tokens;
mod v1;
pub(super) mod versions;
pub(super) mod webhooks;
mod wire;

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;
use warp::http::{Response, StatusCode, header};
use warp::{Filter, Reply, filters::BoxedFilter};

pub(crate) use crate::api::deployments::difference;
use crate::api::document::Document;
pub use crate::api::handler_requests::answer_handlers;
use crate::api::http::error::ApiError;
pub use crate::api::http::listen::serve;
pub use crate::api::routes::reference;
use crate::app::App;

pub(crate) type Body = warp::reply::Response;

/// All routes of the server.
pub fn routes(app: App) -> BoxedFilter<(impl Reply,)> {
    let own = status::own()
        .or(compiles::own(&app))
        .unify()
        .or(files::own(&app))
        .unify();
    let work = routes::prepared()
        .map(Work::Call)
        .or(own.map(Work::Answered))
        .unify();
    let api = crate::api::http::guard::check(app.clone())
        .and(warp::method())
        .and(warp::path::full())
        .and_then(
            |principal, method: warp::http::Method, path: warp::path::FullPath| {
                let permitted = routes::permit(principal, &method, path.as_str());
                std::future::ready(permitted.map_err(http::args::reject))
            },
        )
        .and(work)
        .and(with(&app))
        .then(|principal, work, app| async move {
            match work {
                Work::Call(prepared) => prepared.run(principal, app).await,
                Work::Answered(body) => body,
            }
        });
    let open = webhooks::own(&app)
        .or(status::open(&app))
        .unify()
        .or(agents::own(&app))
        .unify()
        .boxed();
    open.or(api)
        .unify()
        .recover(crate::api::http::error::recover)
        .boxed()
}

/// A request behind the guard.
enum Work {
    /// For a handler of the table.
    Call(routes::Prepared),
    /// A filter of its own has answered it.
    Answered(Body),
}

/// Gives handlers the app.
fn with(app: &App) -> impl Filter<Extract = (App,), Error = Infallible> + Clone + use<> {
    let app = app.clone();
    warp::any().map(move || app.clone())
}

/// What a handler answers with.
enum Answer {
    /// An answer in the envelope of the API's version 2, `{"data": …}`.
    Data(Value),
    /// The body as it is: of version 1, or with metadata and links.
    Body(Value),
    /// The same, as its text: a body that was written piece by piece.
    Written(Vec<u8>),
    /// There is no body.
    Empty,
    /// A text that is no answer of the API in JSON's envelope: a page, a picture, a description for other programs.
    Document(Document),
}

/// Runs work to its end even when the client hangs up, which drops the future of its request: half a change, such as an
/// environment stopped and not deleted, would stay.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(ApiError::internal(&error)),
    }
}

/// Handlers that run at once. They run on when their clients hang up, so it is not enough to limit
/// connections.
const MAX_HANDLERS: usize = 64;
/// Others wait so long for their turn.
const HANDLER_PATIENCE: Duration = Duration::from_secs(10);
static HANDLERS: Semaphore = Semaphore::const_new(MAX_HANDLERS);

/// Runs a handler to its end and makes a reply of its answer.
async fn answer(handler: impl Future<Output = Result<Answer, ApiError>> + Send + 'static) -> Body {
    reply(work(handler).await)
}

/// Runs a handler to its end, when it is its turn.
async fn work(
    handler: impl Future<Output = Result<Answer, ApiError>> + Send + 'static,
) -> Result<Answer, ApiError> {
    let Ok(Ok(turn)) = tokio::time::timeout(HANDLER_PATIENCE, HANDLERS.acquire()).await else {
        return Err(http::body::busy("too many requests are worked on"));
    };
    let work = async move {
        let answer = handler.await;
        drop(turn);
        answer
    };
    to_its_end(work).await
}

fn reply(answer: Result<Answer, ApiError>) -> Body {
    match answer {
        Ok(Answer::Data(data)) => json(StatusCode::OK, &serde_json::json!({"data": data})),
        Ok(Answer::Body(body)) => json(StatusCode::OK, &body),
        Ok(Answer::Written(text)) => json_text(StatusCode::OK, text),
        Ok(Answer::Empty) => Response::new(Vec::new()).into_response(),
        Ok(Answer::Document(document)) => document.into_reply(),
        Err(error) => error.into_reply(),
    }
}

/// Bytes of any answer. Pages stay far below it; what has none, such as the difference of two
/// versions, may be too large to be held for each client that asks.
const MAX_ANSWER_BYTES: usize = 128 << 20;

fn json(status: StatusCode, value: &Value) -> Body {
    let mut pieces = Pieces::default();
    match pieces.value(value) {
        Ok(()) => json_text(status, pieces.0.0),
        Err(error) => error.into_reply(),
    }
}

/// Clients compare the content type as a string: no charset (docs/reference/rest.md § 0.4).
fn json_text(status: StatusCode, text: Vec<u8>) -> Body {
    let reply = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json");
    match reply.body(text) {
        Ok(reply) => reply.into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A body of JSON that is written piece by piece: what is too large for an answer is refused before all of it is in memory, and
/// no tree of values stands beside the text.
#[derive(Default)]
struct Pieces(Bounded);

impl Pieces {
    /// Adds text between values, as it is.
    fn text(&mut self, text: &str) -> Result<(), ApiError> {
        std::io::Write::write_all(&mut self.0, text.as_bytes()).map_err(|_| too_large())
    }

    /// Adds a value.
    fn value(&mut self, value: &impl serde::Serialize) -> Result<(), ApiError> {
        serde_json::to_writer(&mut self.0, value).map_err(|_| too_large())
    }

    fn finish(self) -> Answer {
        Answer::Written(self.0.0)
    }
}

fn too_large() -> ApiError {
    ApiError::bad_request(format!(
        "the answer is larger than {MAX_ANSWER_BYTES} bytes; ask for a part of it"
    ))
}

/// The text of an answer, up to the limit.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_ANSWER_BYTES {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, answer};
    use futures_util::FutureExt;
    use warp::http::StatusCode;

    #[tokio::test]
    async fn a_handler_runs_to_its_end_though_the_client_hangs_up() {
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let (done, ended) = tokio::sync::oneshot::channel::<()>();
        let mut reply = Box::pin(answer(async move {
            let _ = wait.await;
            let _ = done.send(());
            Ok(Answer::Empty)
        }));
        assert!((&mut reply).now_or_never().is_none());
        drop(reply);
        go.send(()).unwrap();
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_an_error_of_the_server() {
        let reply = answer(async { panic!("on purpose") }).await;
        assert_eq!(reply.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
