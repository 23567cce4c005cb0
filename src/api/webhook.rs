//! `POST /webhook/{forge}/{id}`: verify, write down, answer; the work comes later. Source: forges.md 2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Buf;
use futures_util::Stream;
use serde_json::json;
use tokio::sync::{Semaphore, SemaphorePermit};
use warp::http::{HeaderMap, StatusCode, header};
use warp::{Filter, Reply, filters::BoxedFilter};

use super::args::{Segment, read};
use super::error::ApiError;
use super::{Body, json, to_its_end, with};
use crate::forge::{self, Event, Forge};
use crate::server::App;
use crate::store::Delivery;

/// GitHub sends at most 25 MB.
const MAX_BODY_BYTES: usize = 25 << 20;
/// Announced to be at most this: what nearly all pushes are.
const SMALL_BODY_BYTES: usize = 256 << 10;
const MAX_SMALL_BODIES: usize = 256;
const MAX_LARGE_BODIES: usize = 8;
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let bodies = Arc::new(Bodies::default());
    warp::path!("webhook" / Segment / Segment)
        .and(warp::post())
        .and(with(app))
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(
            move |forge: Segment, id: Segment, app: App, headers: HeaderMap, body| {
                let bodies = Arc::clone(&bodies);
                async move {
                    receive(&forge.0, &id.0, &app, &headers, &bodies, body)
                        .await
                        .unwrap_or_else(ApiError::into_reply)
                }
            },
        )
        .boxed()
}

/// Bodies are held before anybody knows who sent them: so only so many at once. Small ones have places of their own,
/// which those that announce much, or nothing, cannot take.
struct Bodies {
    small: Semaphore,
    large: Semaphore,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            small: Semaphore::new(MAX_SMALL_BODIES),
            large: Semaphore::new(MAX_LARGE_BODIES),
        }
    }
}

impl Bodies {
    /// A place for a body, given back when dropped; `None` when all are taken.
    fn admit(&self, headers: &HeaderMap) -> Option<SemaphorePermit<'_>> {
        let announced = headers
            .get(header::CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let places = if announced.is_some_and(|length| length <= SMALL_BODY_BYTES) {
            &self.small
        } else {
            &self.large
        };
        places.try_acquire().ok()
    }
}

fn busy() -> Body {
    let message = "too many deliveries arrive at once; send it again";
    let mut reply = ApiError::with_status(StatusCode::SERVICE_UNAVAILABLE, message).into_reply();
    let seconds = header::HeaderValue::from_static("10");
    reply.headers_mut().insert(header::RETRY_AFTER, seconds);
    reply
}

async fn receive<B: Buf>(
    forge: &str,
    id: &str,
    app: &App,
    headers: &HeaderMap,
    bodies: &Bodies,
    body: impl Stream<Item = Result<B, warp::Error>>,
) -> Result<Body, ApiError> {
    let Some(_place) = bodies.admit(headers) else {
        return Ok(busy());
    };
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
    let app = app.clone();
    let is_new = to_its_end(async move {
        let is_new = app.store.delivery_record(&delivery, &message).await?;
        if is_new {
            tracing::info!(environment.id = %delivery.environment_id, webhook.id = delivery.hook_id, "{message}");
        }
        // For a known delivery too: the one before may have been written down by a server that then ended. Without a
        // wish in the store this does nothing.
        if let Some(compiler) = app.compiler(delivery.environment_id) {
            compiler.wake();
        }
        Ok(is_new)
    })
    .await?;
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

#[cfg(test)]
mod tests {
    use super::{Bodies, MAX_LARGE_BODIES, MAX_SMALL_BODIES};
    use warp::http::{HeaderMap, header};

    fn announced(length: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.parse().unwrap())])
    }

    #[test]
    fn large_bodies_and_those_of_unknown_length_have_few_places_and_leave_the_small_ones_theirs() {
        let bodies = Bodies::default();
        let mut places: Vec<_> = (0..MAX_LARGE_BODIES)
            .map(|n| {
                bodies.admit(&if n % 2 == 0 {
                    announced("9000000")
                } else {
                    HeaderMap::new()
                })
            })
            .collect();
        assert!(places.iter().all(Option::is_some));
        assert!(bodies.admit(&announced("9000000")).is_none());
        assert!(bodies.admit(&announced("many")).is_none());
        places.extend((0..MAX_SMALL_BODIES).map(|_| bodies.admit(&announced("9000"))));
        assert!(places.iter().all(Option::is_some));
        assert!(bodies.admit(&announced("9000")).is_none());
        assert_eq!(super::busy().headers()[header::RETRY_AFTER], "10");
        drop(places);
        assert!(bodies.admit(&announced("9000000")).is_some());
    }
}
