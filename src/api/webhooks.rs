//! `POST /webhook/{forge}/{id}`: verify, write down, answer; the work comes later.
//! Source: docs/reference/forges.md § 2.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Buf;
use futures_util::Stream;
use serde_json::json;
use tokio::sync::Notify;
use warp::http::{HeaderMap, StatusCode};
use warp::{Filter, Reply, filters::BoxedFilter};

use crate::api::http::args::Segment;
use crate::api::http::body::{self, Pace, announced, busy};
use crate::api::http::connection::Connection;
use crate::api::http::error::ApiError;
use crate::api::http::places::{Holder, Limits, Place, Places};
use crate::api::routes::routes;
use crate::api::{Body, json, to_its_end, with};
use crate::app::{App, Hook};
use crate::forge::{self, Event, Forge};
use crate::observe::LineLimit;
use crate::store::Delivery;

/// GitHub sends at most 25 MB.
const MAX_BODY_BYTES: usize = 25 << 20;
/// Announced to be at most this: what nearly all pushes are.
const SMALL_BODY_BYTES: usize = 256 << 10;
/// So bodies on their way take at most 64 MiB if small, and 200 MiB if large.
const SMALL_PLACES: Limits = Limits {
    total: 256,
    by_address: 128,
    for_loopback: 16,
};
const LARGE_PLACES: Limits = Limits {
    total: 8,
    by_address: 4,
    for_loopback: 1,
};
const BODY: body::Limits = body::Limits {
    max_bytes: MAX_BODY_BYTES,
    pace: Pace {
        timeout: Duration::from_secs(10),
        grace: Duration::from_secs(3),
        bytes_per_second: 64 << 10,
    },
};

static REFUSED: LineLimit = LineLimit::new(20, Duration::from_secs(60));

routes! {
    Post "/webhook/<forge>/<id>" Signature "takes the delivery of a forge" => Own;
}

pub(in crate::api) fn own(app: &App) -> BoxedFilter<(Body,)> {
    let bodies = Arc::new(Bodies::default());
    warp::path!("webhook" / Segment / Segment)
        .and(warp::post())
        .and(with(app))
        .and(warp::header::headers_cloned())
        .and(body::connection())
        .and(warp::body::stream())
        .then(
            move |forge: Segment,
                  id: Segment,
                  app: App,
                  headers: HeaderMap,
                  connection: Option<Arc<Connection>>,
                  body| {
                let bodies = Arc::clone(&bodies);
                async move {
                    let client = body::client(connection.as_ref());
                    let body = match bodies.receive(client, &headers, body).await {
                        Ok(body) => body,
                        Err(error) => return error.into_reply(),
                    };
                    deliver(&forge.0, &id.0, &app, &headers, &body.bytes)
                        .await
                        .unwrap_or_else(ApiError::into_reply)
                }
            },
        )
        .boxed()
}

/// Bodies are held before anybody knows who sent them: so only so many at once, in total and from one address. Small ones
/// have places of their own, which those that announce much, or nothing, cannot take. When all places are taken, the oldest
/// body that has not arrived gives its place up: a delivery that is sent as forges do it, at once, gets in.
struct Bodies {
    small: Arc<Places<Arrival>>,
    large: Arc<Places<Arrival>>,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            small: Places::new(SMALL_PLACES),
            large: Places::new(LARGE_PLACES),
        }
    }
}

/// A body on its way.
#[derive(Debug, Default)]
struct Arrival {
    is_here: AtomicBool,
    ended: Notify,
}

impl Holder for Arrival {
    fn rank(&self) -> Option<u8> {
        (!self.is_here.load(Relaxed)).then_some(0)
    }

    fn end(&self) {
        self.ended.notify_one();
    }
}

/// A body that has arrived, with the place that it takes.
struct Received {
    bytes: Vec<u8>,
    _place: Place<Arrival>,
}

impl Bodies {
    /// A place for a body, given back when dropped; `None` when all are taken.
    fn admit(&self, client: IpAddr, headers: &HeaderMap) -> Option<(Place<Arrival>, Arc<Arrival>)> {
        let is_small = announced(headers).is_some_and(|length| length <= SMALL_BODY_BYTES);
        let places = if is_small { &self.small } else { &self.large };
        let arrival = Arc::new(Arrival::default());
        let place = places.admit(client, Arc::clone(&arrival))?;
        Some((place, arrival))
    }

    async fn receive<B: Buf>(
        &self,
        client: IpAddr,
        headers: &HeaderMap,
        body: impl Stream<Item = Result<B, warp::Error>>,
    ) -> Result<Received, ApiError> {
        let busy = || busy("too many deliveries arrive at once");
        let (place, arrival) = self.admit(client, headers).ok_or_else(busy)?;
        let bytes = tokio::select! {
            bytes = body::read(headers, body, BODY, None) => bytes?,
            () = arrival.ended.notified() => return Err(busy()),
        };
        arrival.is_here.store(true, Relaxed);
        Ok(Received {
            bytes,
            _place: place,
        })
    }
}

/// Logs how many lines about refused deliveries were left out, if no later line has given their number.
pub(in crate::api) fn log_left_out() {
    if let Some(n_left_out) = REFUSED.left_out() {
        tracing::warn!(n_left_out, "more webhook deliveries were refused");
    }
}

/// What a delivery does whose body is here.
async fn deliver(
    forge: &str,
    id: &str,
    app: &App,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Body, ApiError> {
    let values = |name: &str| {
        headers
            .get_all(name)
            .iter()
            .map(warp::http::HeaderValue::as_bytes)
            .collect::<Vec<_>>()
    };
    let hook = believed(forge, id, app, &values, body)?;
    let parsed = forge::parse(hook.forge, &values, body)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    let delivery_id = parsed.delivery.unwrap_or_else(|| {
        use sha2::{Digest, Sha256};
        hex::encode(Sha256::digest(body))
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
        "Compile triggered by a {} webhook for {}",
        hook.forge, push.reference
    );
    record(app, delivery, message).await
}

/// The webhook of that id, if the delivery is from somebody who has its secret.
fn believed<'a>(
    forge: &str,
    id: &str,
    app: &'a App,
    values: &forge::Headers<'_>,
    body: &[u8],
) -> Result<&'a Hook, ApiError> {
    let hook = app
        .hooks
        .get(id)
        .filter(|hook| forge.parse::<Forge>() == Ok(hook.forge));
    // The same answer, after the same work, for a hook that is unknown and one that is not believed.
    let (kind, secret) = hook.map_or((Forge::GitHub, &b"no hook has this id"[..]), |hook| {
        (hook.forge, &hook.secret)
    });
    let reason = match (hook, forge::verify(kind, secret, values, body)) {
        (Some(hook), Ok(())) => return Ok(hook),
        (Some(_), Err(error)) => error.to_string(),
        (None, _) => "there is no such webhook".to_owned(),
    };
    if let Some(n_left_out) = REFUSED.permit() {
        tracing::warn!(
            webhook.id = crate::domain::printable(id, 100),
            reason,
            n_left_out,
            "a webhook delivery was refused"
        );
    }
    Err(ApiError::with_status(
        StatusCode::UNAUTHORIZED,
        "unknown webhook or wrong signature",
    ))
}

/// Notes a push, unless that was done before, and lets the environment look at its repository.
async fn record(app: &App, delivery: Delivery, message: String) -> Result<Body, ApiError> {
    let app = app.clone();
    let is_new = to_its_end(async move {
        let is_new = app.store.delivery_record(&delivery, &message).await?;
        if is_new {
            tracing::info!(environment.id = %delivery.environment_id, webhook.id = delivery.hook_id, "{message}");
        }
        // For a known delivery too: the one before may have been written down by a server that then ended. Without a
        // request in the store this does nothing.
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
    use crate::api::webhooks::*;
    use bytes::Bytes;
    use futures_util::stream;
    use warp::http::header;

    fn announced(length: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::CONTENT_LENGTH, length.parse().unwrap())])
    }

    fn client(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    #[test]
    fn large_bodies_and_those_of_unknown_length_have_few_places_and_leave_the_small_ones_theirs() {
        let bodies = Bodies::default();
        let here = |client: IpAddr, headers: &HeaderMap| {
            let admitted = bodies.admit(client, headers)?;
            admitted.1.is_here.store(true, Relaxed);
            Some(admitted)
        };
        let large = [announced("9000000"), HeaderMap::new(), announced("many")];
        let free = LARGE_PLACES.total - LARGE_PLACES.for_loopback;
        let places: Vec<_> = (0..free)
            .map(|n| here(client(n as u8), &large[n % 3]))
            .collect();
        assert!(places.iter().all(Option::is_some));
        assert!(
            large
                .iter()
                .all(|headers| here(client(100), headers).is_none())
        );
        let free = SMALL_PLACES.by_address;
        let small: Vec<_> = (0..free)
            .map(|_| here(client(1), &announced("9000")))
            .collect();
        assert!(small.iter().all(Option::is_some));
        assert!(here(client(1), &announced("9000")).is_none());
        assert!(here(client(2), &announced("9000")).is_some());
        drop(places);
        assert!(here(client(100), &announced("9000000")).is_some());
    }

    /// Input: bodies that do not arrive, in all places (docs/reference/security.md § 4.3). Answer: the oldest of them is answered with 503, and a delivery that is sent at once gets in.
    #[tokio::test]
    async fn slow_bodies_give_way_to_one_that_is_here() {
        type Part = Result<Bytes, warp::Error>;
        let bodies = Bodies::default();
        let headers = announced("10");
        let slow = stream::pending::<Part>;
        let mut waiting: Vec<_> = (0..SMALL_PLACES.by_address)
            .map(|_| Box::pin(bodies.receive(client(1), &headers, slow())))
            .collect();
        for body in &mut waiting {
            assert!(futures_util::poll!(body).is_pending());
        }
        let good = || stream::iter([Part::Ok(Bytes::from_static(b"0123456789"))]);
        let received = bodies.receive(client(1), &headers, good()).await;
        assert_eq!(received.unwrap_or_else(|_| unreachable!()).bytes.len(), 10);
        let refused = waiting.remove(0).await;
        let reply = refused.err().unwrap().into_reply();
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(reply.headers()[header::RETRY_AFTER], "10");
    }
}
