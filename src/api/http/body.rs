//! Bodies of requests on their way here: how large, how slow, and how many of them.
//!
//! A body is read to its end before anything is done with it, so all that are on their way together have a quota of memory
//! ([`Quota`]). A client pays for time with bytes ([`Pace`]): one that sends too slowly is cut off.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Buf;
use futures_util::{Stream, StreamExt};
use tokio::time::Instant;
use warp::Filter;
use warp::http::{HeaderMap, StatusCode, header};

use crate::api::http::connection::Connection;
use crate::api::http::error::ApiError;

/// Memory, or disk, that requests may take together, in bytes.
#[derive(Debug)]
pub(in crate::api) struct Quota {
    limit: usize,
    n_taken: AtomicUsize,
}

impl Quota {
    pub(in crate::api) const fn new(limit: usize) -> Self {
        Self {
            limit,
            n_taken: AtomicUsize::new(0),
        }
    }

    /// A share of nothing yet.
    pub(in crate::api) fn share(&'static self) -> Share {
        Share {
            quota: self,
            n_bytes: 0,
        }
    }
}

/// What one request has of a quota; given back when dropped.
#[derive(Debug)]
pub(in crate::api) struct Share {
    quota: &'static Quota,
    n_bytes: usize,
}

impl Share {
    /// Takes more; `false`, and nothing is taken, when there is not so much left.
    pub(in crate::api) fn grow(&mut self, n_bytes: usize) -> bool {
        let quota = self.quota;
        let n_taken = quota.n_taken.fetch_add(n_bytes, Relaxed);
        if n_taken.saturating_add(n_bytes) > quota.limit {
            quota.n_taken.fetch_sub(n_bytes, Relaxed);
            return false;
        }
        self.n_bytes += n_bytes;
        true
    }

    /// The same as [`Share::grow`], with the answer for the client as the error.
    pub(in crate::api) fn take(&mut self, n_bytes: usize) -> Result<(), ApiError> {
        if self.grow(n_bytes) {
            Ok(())
        } else {
            Err(busy("too many large requests arrive at once"))
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.quota.n_taken.fetch_sub(self.n_bytes, Relaxed);
    }
}

/// The server has no room for a request now; later it may.
pub(in crate::api) fn busy(why: &str) -> ApiError {
    ApiError::with_status(
        StatusCode::SERVICE_UNAVAILABLE,
        format!("{why}; send it again"),
    )
}

/// How slowly a body may come.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Pace {
    /// The time for all of the body.
    pub(in crate::api) timeout: Duration,
    /// The time before anything must have come.
    pub(in crate::api) grace: Duration,
    pub(in crate::api) bytes_per_second: u32,
}

impl Pace {
    /// How long after the begin the next bytes must have come, when there are `n_bytes`.
    fn deadline(self, n_bytes: usize) -> Duration {
        let paid = n_bytes as f64 / f64::from(self.bytes_per_second);
        let paid = Duration::from_secs_f64(paid.min(86_400.0));
        (self.grace + paid).min(self.timeout)
    }
}

/// What a body may be.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) struct Limits {
    pub(in crate::api) max_bytes: usize,
    pub(in crate::api) pace: Pace,
}

/// The length that a request announces, if it does.
pub(in crate::api) fn announced(headers: &HeaderMap) -> Option<usize> {
    let length = headers.get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// A body as it comes, counted: what is too large is refused before it is held, what is too slow is cut off.
pub(in crate::api) struct Parts<S> {
    stream: S,
    limits: Limits,
    begin: Instant,
    n_bytes: usize,
}

impl<S, B, E> Parts<S>
where
    S: Stream<Item = Result<B, E>> + Unpin,
    B: Buf,
    E: std::fmt::Display,
{
    pub(in crate::api) fn new(
        headers: &HeaderMap,
        stream: S,
        limits: Limits,
    ) -> Result<Self, ApiError> {
        if announced(headers).is_some_and(|length| length > limits.max_bytes) {
            return Err(too_large(limits));
        }
        Ok(Self {
            stream,
            limits,
            begin: Instant::now(),
            n_bytes: 0,
        })
    }

    /// The next part; `None` at the end.
    pub(in crate::api) async fn next(&mut self) -> Result<Option<B>, ApiError> {
        let deadline = self.begin + self.limits.pace.deadline(self.n_bytes);
        let Ok(part) = tokio::time::timeout_at(deadline, self.stream.next()).await else {
            return Err(ApiError::with_status(
                StatusCode::REQUEST_TIMEOUT,
                "the body took too long to arrive",
            ));
        };
        let part = part
            .transpose()
            .map_err(|error| ApiError::bad_request(format!("the body ended early: {error}")))?;
        self.n_bytes += part.as_ref().map_or(0, Buf::remaining);
        if self.n_bytes > self.limits.max_bytes {
            return Err(too_large(self.limits));
        }
        Ok(part)
    }
}

fn too_large(limits: Limits) -> ApiError {
    let message = format!("the body is larger than {} bytes", limits.max_bytes);
    ApiError::with_status(StatusCode::PAYLOAD_TOO_LARGE, message)
}

/// Puts all bytes of a part at the end of a buffer.
pub(in crate::api) fn append(buffer: &mut Vec<u8>, mut part: impl Buf) {
    while part.has_remaining() {
        let bytes = part.chunk();
        buffer.extend_from_slice(bytes);
        let n_bytes = bytes.len();
        part.advance(n_bytes);
    }
}

/// Reads a body into memory. With `share`, its bytes are taken from that quota.
pub(in crate::api) async fn read<B: Buf, E: std::fmt::Display>(
    headers: &HeaderMap,
    stream: impl Stream<Item = Result<B, E>>,
    limits: Limits,
    mut share: Option<&mut Share>,
) -> Result<Vec<u8>, ApiError> {
    /// What is announced is believed so far.
    const MAX_FIRST: usize = 1 << 16;
    let mut body = Vec::with_capacity(announced(headers).unwrap_or(0).min(MAX_FIRST));
    let stream = std::pin::pin!(stream);
    let mut parts = Parts::new(headers, stream, limits)?;
    while let Some(part) = parts.next().await? {
        if let Some(share) = &mut share {
            share.take(part.remaining())?;
        }
        append(&mut body, part);
    }
    Ok(body)
}

/// The connection that a request came on.
pub(in crate::api) fn connection()
-> impl Filter<Extract = (Option<Arc<Connection>>,), Error = Infallible> + Copy {
    warp::ext::optional::<Arc<Connection>>()
}

/// Whose limits count for a connection.
pub(in crate::api) fn client(connection: Option<&Arc<Connection>>) -> IpAddr {
    // All requests of the listener have one.
    connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |connection| {
        connection.client
    })
}

#[cfg(test)]
mod tests {
    use crate::api::http::body::*;
    use bytes::Bytes;
    use futures_util::stream;

    const LIMITS: Limits = Limits {
        max_bytes: 1 << 20,
        pace: Pace {
            timeout: Duration::from_secs(30),
            grace: Duration::from_millis(200),
            bytes_per_second: 1000,
        },
    };

    type Part = Result<Bytes, std::io::Error>;

    /// Parts of `size` bytes, one each `pause`.
    fn drip(size: usize, pause: Duration, n_parts: usize) -> impl Stream<Item = Part> {
        stream::unfold(0, move |n| async move {
            tokio::time::sleep(pause).await;
            (n < n_parts).then(|| (Ok(Bytes::from(vec![b'x'; size])), n + 1))
        })
    }

    /// Input: a body of 1 byte a second (docs/reference/security.md § 3.3). Answer: 408 as soon as it is below the least rate; one that is slow but steady goes through.
    #[tokio::test]
    async fn a_body_that_comes_too_slowly_is_cut_off() {
        let headers = HeaderMap::new();
        let pause = Duration::from_millis(20);
        let begin = tokio::time::Instant::now();
        let slow = read(&headers, drip(1, pause, 10_000), LIMITS, None).await;
        let reply = slow.unwrap_err().into_reply();
        assert_eq!(reply.status(), StatusCode::REQUEST_TIMEOUT);
        assert!(begin.elapsed() < Duration::from_secs(10));
        let steady = read(&headers, drip(500, pause, 20), LIMITS, None).await;
        assert_eq!(steady.unwrap().len(), 10_000);
    }

    /// Input: bodies that together are more than the server holds (docs/reference/security.md § 4.3). Answer: 503 with `Retry-After`, until others are done.
    #[tokio::test]
    async fn bodies_have_a_quota_together() {
        static QUOTA: Quota = Quota::new(1000);
        let parts = || stream::iter([Part::Ok(Bytes::from(vec![b'x'; 600]))]);
        let headers = HeaderMap::new();
        let mut first = QUOTA.share();
        let body = read(&headers, parts(), LIMITS, Some(&mut first)).await;
        assert_eq!(body.unwrap().len(), 600);
        let mut second = QUOTA.share();
        let refused = read(&headers, parts(), LIMITS, Some(&mut second)).await;
        let reply = refused.unwrap_err().into_reply();
        assert_eq!(reply.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(reply.headers().contains_key(header::RETRY_AFTER));
        drop(first);
        assert!(
            read(&headers, parts(), LIMITS, Some(&mut second))
                .await
                .is_ok()
        );
    }
}
