//! What each request passes before and after the routes: its head is checked, and its answer accounted for.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::Service;
use tokio::runtime::Handle;
use warp::http::uri::Authority;
use warp::http::{HeaderName, HeaderValue, Request, Response, Version, header};
use warp::reply::Response as Reply;

use crate::api::http::body::{Quota, announced, busy};
use crate::api::http::connection::{Answering, Connection, Head};
use crate::api::http::error::ApiError;

/// Answers that are made and not yet read by their clients, in memory.
static ANSWERS: Quota = Quota::new(512 << 20);
/// Smaller ones are not counted: they fit what the kernel keeps for a connection.
const LARGE_ANSWER: u64 = 64 << 10;

/// Which environment a request is about.
const ENVIRONMENT: HeaderName = HeaderName::from_static("x-inmanta-tid");

/// What is left of a body that nobody reads to its end is read for so long, and as much, after the answer.
const LINGER: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 64 << 20;

/// What a browser may do with an answer, where it says nothing else: show it, outside of frames of other pages, take it for
/// what it says that it is, keep no copy, and tell nobody its address.
const FOR_BROWSERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    ),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
];

/// All routes, as hyper calls them.
pub(in crate::api) trait Routes:
    Service<Request<RequestBody>, Response = Reply, Error = Infallible>
{
}

impl<S: Service<Request<RequestBody>, Response = Reply, Error = Infallible>> Routes for S {}

/// The body of a request, which the routes may leave unread: a token was wrong, or it is too large. To close a connection on
/// which more arrives resets it, and then many clients lose the answer, too. So the rest is read and thrown away for a moment.
#[derive(Debug)]
pub(in crate::api) struct RequestBody {
    body: Option<Incoming>,
    connection: Arc<Connection>,
}

impl RequestBody {
    pub(in crate::api) fn new(body: Incoming, connection: Arc<Connection>) -> Self {
        Self {
            body: Some(body),
            connection,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = Pin::new(body).poll_frame(context);
        self.connection.waits_for_body(frame.is_pending());
        let frame = std::task::ready!(frame);
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.as_ref().map(Body::size_hint);
        hint.unwrap_or_else(|| SizeHint::with_exact(0))
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.connection.waits_for_body(false);
        let Some(body) = self.body.take() else { return };
        if body.is_end_stream() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(tokio::time::timeout(LINGER, throw_away(body)));
        }
    }
}

async fn throw_away(mut body: Incoming) {
    let mut n_bytes = 0;
    while n_bytes < MAX_LINGER_BYTES {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Some(Ok(frame)) = frame.await else { return };
        n_bytes += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// The routes for the requests of one connection.
pub(in crate::api) struct Guarded<S> {
    routes: S,
    connection: Arc<Connection>,
}

impl<S> Guarded<S> {
    pub(in crate::api) fn new(routes: S, connection: Arc<Connection>) -> Self {
        Self { routes, connection }
    }
}

impl<S: Routes> Service<Request<Incoming>> for Guarded<S>
where
    S::Future: Send + 'static,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.connection);
        let mut request = request.map(|body| RequestBody::new(body, Arc::clone(&connection)));
        let is_chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let n_announced = announced(request.headers()).unwrap_or(0) as u64;
        let head = connection.begin(if is_chunked { u64::MAX } else { n_announced });
        let answering = Answering(Arc::clone(&connection));
        if let Err(error) = check(head, &request) {
            let reply = error.into_reply();
            return Box::pin(async move { Ok(finish(reply, answering, true)) });
        }
        request.extensions_mut().insert(Arc::clone(&connection));
        let reply = self.routes.call(request);
        Box::pin(async move {
            let reply = match reply.await {
                Ok(reply) => account(reply, &connection),
                Err(never) => match never {},
            };
            // Where the next request begins is not known behind chunks, and nobody looked at what came too early.
            let is_last = is_chunked || connection.is_ahead();
            Ok(finish(reply, answering, is_last))
        })
    }
}

/// Refuses heads that two readers may understand differently, and what asks for no path, which no filter expects.
fn check<B>(head: Head, request: &Request<B>) -> Result<(), ApiError> {
    match head {
        Head::Good => {}
        Head::BareLf => {
            let message = "the lines of the head must end in CR and LF";
            return Err(ApiError::bad_request(message));
        }
        Head::Early => {
            let message = "it was sent before the answer to the request before it; wait for that";
            return Err(ApiError::bad_request(message));
        }
    }
    if !request.uri().path().starts_with('/') {
        let message = "a request is for a path, such as /api/v2/health";
        return Err(ApiError::bad_request(message));
    }
    let n_hosts = request.headers().get_all(header::HOST).iter().count();
    if n_hosts > 1 || (n_hosts == 0 && request.version() == Version::HTTP_11) {
        let message = format!("there must be one Host header, not {n_hosts}");
        return Err(ApiError::bad_request(message));
    }
    for name in [header::AUTHORIZATION, header::CONTENT_TYPE, ENVIRONMENT] {
        if request.headers().get_all(&name).iter().nth(1).is_some() {
            let message = format!("there may be one header {name} only");
            return Err(ApiError::bad_request(message));
        }
    }
    // A proxy may name the host in the target, too (RFC 9112 § 3.2.2); then both must name the same one.
    let target = request.uri().authority().map(Authority::as_str);
    let host = request.headers().get(header::HOST);
    if let (Some(target), Some(host)) = (target, host)
        && !host.as_bytes().eq_ignore_ascii_case(target.as_bytes())
    {
        let message = "the address that is asked for and the Host header name different hosts";
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

/// Takes the memory of a large answer from the quota of them all.
fn account(reply: Reply, connection: &Connection) -> Reply {
    let n_bytes = match reply.body().size_hint().exact() {
        Some(n_bytes) if n_bytes > LARGE_ANSWER => n_bytes,
        _ => return reply,
    };
    let mut share = ANSWERS.share();
    if !share.grow(usize::try_from(n_bytes).unwrap_or(usize::MAX)) {
        return busy("too many large answers are not read yet").into_reply();
    }
    connection.hold_answer(share);
    reply
}

fn finish(mut reply: Reply, answering: Answering, is_last: bool) -> Response<Answer> {
    for (name, value) in FOR_BROWSERS {
        // Who made the answer may know better.
        let value = HeaderValue::from_static(value);
        reply.headers_mut().entry(name).or_insert(value);
    }
    if is_last {
        let close = HeaderValue::from_static("close");
        reply.headers_mut().insert(header::CONNECTION, close);
    }
    reply.map(|body| Answer {
        body: Box::pin(body),
        _answering: answering,
    })
}

type ReplyBody = <Response<Reply> as BodyOf>::Body;

/// Names the type of a reply's body, which warp does not.
trait BodyOf {
    type Body;
}

impl<B> BodyOf for Response<Response<B>> {
    type Body = B;
}

/// The body of an answer. When it is dropped, all of it is made.
pub(in crate::api) struct Answer {
    body: Pin<Box<ReplyBody>>,
    _answering: Answering,
}

impl Body for Answer {
    type Data = bytes::Bytes;
    type Error = warp::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.body.as_mut().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
