//! `POST /webhook/{forge}/{id}`: verify, write down, answer; the work comes later. Source: forges.md 2.

use std::time::Duration;

use bytes::Buf;
use futures_util::Stream;
use serde_json::json;
use warp::http::{HeaderMap, StatusCode};
use warp::{Filter, Reply, filters::BoxedFilter};

use super::args::{Segment, read};
use super::error::ApiError;
use super::{Body, json, with};
use crate::forge::{self, Event, Forge};
use crate::server::App;
use crate::store::Delivery;

/// GitHub sends at most 25 MB.
const MAX_BODY_BYTES: usize = 25 << 20;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    warp::path!("webhook" / Segment / Segment)
        .and(warp::post())
        .and(with(app))
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(
            |forge: Segment, id: Segment, app: App, headers: HeaderMap, body| async move {
                receive(&forge.0, &id.0, &app, &headers, body)
                    .await
                    .unwrap_or_else(ApiError::into_reply)
            },
        )
        .boxed()
}

async fn receive<B: Buf>(
    forge: &str,
    id: &str,
    app: &App,
    headers: &HeaderMap,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Body, ApiError> {
    let body = read(headers, body, MAX_BODY_BYTES, BODY_TIMEOUT).await?;
    // The same answer, after the same work, for a hook that is unknown and one that is not believed.
    let refuse = || {
        ApiError::with_status(
            StatusCode::UNAUTHORIZED,
            "unknown webhook or wrong signature",
        )
    };
    let hook = app
        .hooks
        .get(id)
        .filter(|hook| forge.parse::<Forge>() == Ok(hook.forge));
    let (kind, secret) = hook.map_or((Forge::GitHub, &b"no hook has this id"[..]), |hook| {
        (hook.forge, &hook.secret)
    });
    let values = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .map(warp::http::HeaderValue::as_bytes)
            .collect::<Vec<_>>()
    };
    let verdict = forge::verify(kind, secret, &values, &body);
    let hook = match (hook, verdict) {
        (Some(hook), Ok(())) => hook,
        (hook, verdict) => {
            let reason = match (hook, verdict) {
                (Some(_), Err(error)) => error.to_string(),
                _ => "there is no such webhook".to_owned(),
            };
            tracing::warn!(
                webhook.id = crate::git::printable(id, 100),
                reason,
                "a webhook delivery was refused"
            );
            return Err(refuse());
        }
    };
    let parsed = forge::parse(kind, &values, &body)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let delivery_id = parsed.delivery.unwrap_or_else(|| {
        use sha2::{Digest, Sha256};
        hex::encode(Sha256::digest(&body))
    });
    let push = match parsed.event {
        Event::Push(push) => push,
        Event::Ping => {
            return Ok(json(
                StatusCode::OK,
                &json!({"message": "the secret is right"}),
            ));
        }
        // An error would count against the hook on some forges.
        Event::Other(_) => return Ok(StatusCode::NO_CONTENT.into_response()),
    };
    let is_ours = match (&hook.branch, push.branch()) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(ours), Some(pushed)) => ours == pushed,
    };
    if !is_ours || push.deleted {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let delivery = Delivery {
        hook_id: id.to_owned(),
        delivery_id,
        environment_id: hook.environment,
        event: format!("push {}", push.reference),
    };
    let message = format!(
        "Compile triggered by a {kind} webhook for {}",
        push.reference
    );
    let is_new = app.store.delivery_record(&delivery, &message).await?;
    if is_new {
        tracing::info!(environment.id = %hook.environment, webhook.id = id, "{message}");
        if let Some(compiler) = app.compiler(hook.environment) {
            compiler.wake();
        }
    }
    let status = if is_new {
        StatusCode::ACCEPTED
    } else {
        StatusCode::OK
    };
    Ok(json(
        status,
        &json!({"accepted": is_new, "duplicate": !is_new}),
    ))
}
