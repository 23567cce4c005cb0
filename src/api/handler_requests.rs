//! What handlers ask of the API. Source: docs/reference/python.md § 2.8.
//!
//! They have no token: their requests come by way of the loop of their environment, which says whose they are, and are answered
//! by the same table as those of clients. A handler on this machine may do in its environment what the client type `agent`
//! may, read whatever there is, and make a few calls besides (`callers::of_handlers_here`); one on another machine reads some
//! of it (`callers::of_handlers_elsewhere`).

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use warp::http::{HeaderMap, HeaderValue, StatusCode};

use crate::api::http::args::Args;
use crate::api::http::body::busy;
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

/// Requests of handlers on this machine that are worked on at once, of all environments: less than the places of the API, so
/// that its clients have their turn.
static PLACES_HERE: Semaphore = Semaphore::const_new(16);
/// The same for handlers on other machines.
static PLACES_ELSEWHERE: Semaphore = Semaphore::const_new(4);
/// How long they wait for their turn.
const PATIENCE: Duration = Duration::from_secs(30);

/// Answers one request.
pub(in crate::api) async fn answer(app: App, mut request: ApiRequest) {
    let places = match request.is_from_here {
        true => &PLACES_HERE,
        false => &PLACES_ELSEWHERE,
    };
    let (status, body) = match tokio::time::timeout(PATIENCE, places.acquire()).await {
        Ok(Ok(_place)) => match prepare(app, &mut request) {
            Ok(call) => of(work(call).await),
            Err(error) => error.into_parts(),
        },
        _ => busy("too many requests of handlers are worked on").into_parts(),
    };
    // Nobody waits for it when the executor has ended.
    let _ = request.reply.send((status.as_u16(), body));
}

/// Finds what answers a request, which it may make.
fn prepare(app: App, request: &mut ApiRequest) -> Result<routes::Working, ApiError> {
    let body = std::mem::take(&mut request.body);
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let mut headers = HeaderMap::new();
    if let Some(named) = &request.named {
        let named = HeaderValue::try_from(named)
            .map_err(|_| ApiError::bad_request(format!("`{named}` is no environment id")))?;
        headers.insert("x-inmanta-tid", named);
    }
    let args = Args::of_handler(body, query, headers)?;
    routes::of_handler(request, path, args, app)
}

fn of(answer: Result<Answer, ApiError>) -> (StatusCode, Value) {
    match answer {
        Ok(Answer::Data(data)) => (StatusCode::OK, json!({ "data": data })),
        Ok(Answer::Body(body)) => (StatusCode::OK, body),
        Ok(Answer::Written(text)) => match serde_json::from_slice(&text) {
            Ok(body) => (StatusCode::OK, body),
            Err(error) => ApiError::internal(&error).into_parts(),
        },
        Ok(Answer::Empty) => (StatusCode::OK, Value::Null),
        Ok(Answer::Document(document)) => (StatusCode::OK, document.into_text().into()),
        Err(error) => error.into_parts(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Map;
    use tokio::sync::oneshot;

    use super::*;
    use crate::domain::EnvironmentId;

    /// The two environments of the app.
    fn own() -> EnvironmentId {
        EnvironmentId::named("p", "e")
    }

    fn other() -> EnvironmentId {
        EnvironmentId::named("p", "other")
    }

    async fn app(folder: &std::path::Path) -> App {
        let app = App::alone(folder).await.unwrap();
        app.add_other(BTreeMap::new()).await.unwrap();
        app
    }

    async fn ask(app: &App, is_from_here: bool, verb: &str, path: &str) -> (u16, Value) {
        ask_about(own(), app, is_from_here, (verb, path)).await
    }

    async fn ask_about(
        named: EnvironmentId,
        app: &App,
        is_from_here: bool,
        (verb, path): (&str, &str),
    ) -> (u16, Value) {
        let (reply, answered) = oneshot::channel();
        let request = ApiRequest {
            environment: own(),
            is_from_here,
            verb: verb.to_owned(),
            path: path.to_owned(),
            named: Some(named.to_string()),
            body: Map::from_iter([("value".to_owned(), json!(true))]),
            reply,
        };
        answer(app.clone(), request).await;
        answered.await.unwrap()
    }

    const SETTING: &str = "/api/v2/environment_settings/auto_deploy";

    #[tokio::test]
    async fn a_handler_asks_about_its_own_environment() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path()).await;
        let environment = format!("/api/v1/environment/{}", own());
        for (verb, path) in [
            ("GET", environment.as_str()),
            ("GET", "/api/v1/environment_settings"),
            ("GET", SETTING),
            ("POST", SETTING),
            ("GET", "/api/v1/version"),
            ("GET", "/api/v2/resource?limit=5"),
            ("GET", "/api/v2/notification"),
        ] {
            let (status, body) = ask(&app, true, verb, path).await;
            assert_eq!(status, 200, "{verb} {path}: {body}");
        }
        let (_, body) = ask(&app, true, "GET", "/api/v2/environment").await;
        let listed = body["data"].as_array().unwrap().iter();
        let listed: Vec<&Value> = listed.map(|one| &one["id"]).collect();
        assert_eq!(listed, [&json!(own())]);
        // As over HTTP, with the reason.
        let (status, body) = ask(&app, true, "GET", "/api/v2/resource/x/events").await;
        assert_eq!(status, 400, "{body}");
        assert_eq!(ask(&app, true, "GET", "/nowhere").await.0, 404);
        // Another environment is none of its business, wherever it is named.
        let environment = format!("/api/v1/environment/{}", other());
        assert_eq!(ask(&app, true, "GET", &environment).await.0, 403);
        let (status, body) = ask_about(other(), &app, true, ("GET", SETTING)).await;
        assert_eq!(status, 403, "{body}");
    }

    /// Input: requests of a handler to the API that make or delete what it is not to control, on this machine and on another one (docs/reference/security.md § 3.43). Answer: 403, and what it can ask instead.
    #[tokio::test]
    async fn a_handler_does_not_control_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path()).await;
        let clear = format!("/api/v2/decommission/{}", own());
        let notify = format!("/api/v1/notify/{}", own());
        let nobody = [
            ("GET", "/api/v2/project"),
            ("PUT", "/api/v2/environment"),
            ("DELETE", clear.as_str()),
            ("POST", "/api/v2/environment_auth"),
            ("POST", "/api/v2/agents/pause"),
            ("POST", "/api/v1/version/1"),
            ("DELETE", "/api/v1/version/1"),
            ("PUT", "/api/v1/version"),
        ];
        for is_from_here in [true, false] {
            for (verb, path) in nobody {
                let (status, body) = ask(&app, is_from_here, verb, path).await;
                assert_eq!(status, 403, "{verb} {path}: {body}");
                let message = body["message"].as_str().unwrap();
                assert!(message.contains("this handler cannot call"), "{message}");
            }
        }
        for (verb, path) in [
            ("POST", SETTING),
            ("POST", notify.as_str()),
            ("GET", "/api/v1/version"),
            ("GET", "/lsm/v1/service_catalog"),
        ] {
            assert_eq!(ask(&app, false, verb, path).await.0, 403, "{verb} {path}");
        }
        assert_eq!(ask(&app, false, "GET", SETTING).await.0, 200);
    }
}
