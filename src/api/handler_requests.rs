//! What handlers ask of the API. Source: docs/reference/python.md § 2.8.
//!
//! They have no token: their requests come by way of the loop of their environment, which says whose they are, and get to the
//! handlers of the same table as those of clients. A handler may do in its environment what the agents of the reference may,
//! which is what tokens with the client type `agent` are for; read whatever there is; and make a few calls besides
//! ([`callers::of_handlers`]).

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use warp::http::{HeaderMap, HeaderValue, StatusCode};

use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::routes;
use crate::api::{Answer, work};
use crate::app::App;
use crate::deploy::ApiRequest;

/// Answers requests of handlers until the server stops, or nobody can ask any more.
pub async fn answer_handlers(app: App, mut requests: mpsc::UnboundedReceiver<ApiRequest>) {
    let stop = app.stop_signal();
    let mut working = JoinSet::new();
    loop {
        tokio::select! {
            // Dropping a receive loses nothing. What is begun and not ended at the end is given up, which who waits for it is told.
            request = requests.recv() => match request {
                Some(request) => {
                    let answering = answer(app.clone(), request);
                    working.spawn(answering);
                }
                None => return,
            },
            Some(_) = working.join_next() => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn answer(app: App, mut request: ApiRequest) {
    let (status, body) = match prepare(app, &mut request) {
        Ok(call) => of(work(call).await),
        Err(error) => error.into_parts(),
    };
    // Nobody waits for it when the executor has ended.
    let _ = request.reply.send((status.as_u16(), body));
}

/// Finds what answers a request, which it may make.
fn prepare(app: App, request: &mut ApiRequest) -> Result<routes::Working, ApiError> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut headers = HeaderMap::new();
    if let Some(named) = &request.named {
        let named = HeaderValue::try_from(named)
            .map_err(|_| ApiError::bad_request(format!("`{named}` is no environment id")))?;
        headers.insert("x-inmanta-tid", named);
    }
    let body = std::mem::take(&mut request.body);
    let args = Args::of_handler(body, query, headers)?;
    routes::of_handler(request.environment, &request.verb, path, args, app)
}

fn of(answer: Result<Answer, ApiError>) -> (StatusCode, Value) {
    match answer {
        Ok(Answer::Data(data)) => (StatusCode::OK, json!({ "data": data })),
        Ok(Answer::Body(body)) => (StatusCode::OK, body),
        Ok(Answer::Empty) => (StatusCode::OK, Value::Null),
        Ok(Answer::Document(document)) => (StatusCode::OK, document.into_text().into()),
        Err(error) => error.into_parts(),
    }
}
