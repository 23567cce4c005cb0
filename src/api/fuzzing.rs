//! For fuzzing: what a stranger sends over a connection, and what handlers ask for.

mod handler_requests;

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::http::{Request, StatusCode};
use warp::reply::Response as Reply;

use crate::api::http::connection::Connection;
use crate::api::http::listen;
use crate::api::http::middleware::RequestBody;
use crate::api::http::places::{Places, client_of};
use crate::app::App;
use crate::app::fuzzing::SECRET;

pub use handler_requests::handler_requests;

/// More than a client of the fuzzer leaves unread.
const PIPE_BYTES: usize = 1 << 20;
/// So many connections find what those before them left in the database; then there is a new one.
const CONNECTIONS_A_SITE: usize = 3_000;
/// How long a request may wait for the rest of its body, which does not come.
const BODY_PATIENCE: Duration = Duration::from_millis(20);
/// How long one may be worked on that has all.
const PATIENCE: Duration = Duration::from_secs(5);
/// Stands for the signature of what comes after the first empty line, as the forges make it.
const SIGNED: &[u8] = b"SIGNED";

static SITE: Mutex<Option<Site>> = Mutex::new(None);

/// Any bytes as what arrives on a connection: heads, queries, bodies, path segments, with the real routes over a database.
/// Answered, or closed, and no 500.
pub fn http(bytes: &[u8]) {
    let mut place = SITE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(old) = place.take_if(|site| site.n_connections >= CONNECTIONS_A_SITE) {
        old.end();
    }
    if place.is_none() {
        *place = Site::start();
    }
    let site = place.as_mut();
    assert!(site.is_some(), "the fuzzer has no database");
    if let Some(site) = site {
        site.n_connections += 1;
        let n_failed = site.serve(&signed(bytes));
        assert_eq!(n_failed, 0, "it was answered with a status of 500");
    }
}

/// The bytes with what the sender can say only if it knows the secret of the webhooks.
fn signed(bytes: &[u8]) -> Vec<u8> {
    let at = bytes.windows(SIGNED.len()).position(|part| part == SIGNED);
    let body = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let (Some(at), Some(body), Ok(mut mac)) = (at, body, Hmac::<Sha256>::new_from_slice(SECRET))
    else {
        return bytes.to_vec();
    };
    mac.update(&bytes[body + 4..]);
    let signature = hex::encode(mac.finalize().into_bytes());
    let after = &bytes[at + SIGNED.len()..];
    [&bytes[..at], signature.as_bytes(), after].concat()
}

type Answered = Pin<Box<dyn Future<Output = Result<Reply, Infallible>> + Send>>;

/// All routes, with a count of the answers, and of those that must not be.
#[derive(Clone)]
struct Counted {
    call: Arc<dyn Fn(Request<RequestBody>) -> Answered + Send + Sync>,
    n_good: Arc<AtomicUsize>,
    n_failed: Arc<AtomicUsize>,
}

impl Service<Request<RequestBody>> for Counted {
    type Response = Reply;
    type Error = Infallible;
    type Future = Answered;

    fn call(&self, request: Request<RequestBody>) -> Answered {
        let counted = self.clone();
        Box::pin(async move {
            let reply = (counted.call)(request).await?;
            if reply.status() == StatusCode::INTERNAL_SERVER_ERROR {
                counted.n_failed.fetch_add(1, Relaxed);
            } else if reply.status().is_success() {
                counted.n_good.fetch_add(1, Relaxed);
            }
            Ok(reply)
        })
    }
}

fn runtime() -> Option<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().ok()
}

/// A folder in memory, where there is such a thing.
fn folder() -> Option<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.ok()
}

/// The server's end of all connections: routes, places, and a database in memory where there is such a folder.
struct Site {
    runtime: Runtime,
    app: App,
    routes: Counted,
    places: Arc<Places<Connection>>,
    n_connections: usize,
    _folder: tempfile::TempDir,
}

impl Site {
    fn start() -> Option<Self> {
        let (runtime, folder) = (runtime()?, folder()?);
        // A program of Rust ignores this signal, but the main function is the fuzzer's: a pipe to an executor that has ended
        // would end it.
        let broken_pipes = runtime.block_on(async { signal(SignalKind::pipe()) });
        drop(broken_pipes.ok()?);
        let app = runtime.block_on(App::alone(folder.path())).ok()?;
        let routes = TowerToHyperService::new(warp::service(super::routes(app.clone())));
        let call = move |request| -> Answered { Box::pin(routes.call(request)) };
        Some(Self {
            runtime,
            app,
            routes: Counted {
                call: Arc::new(call),
                n_good: Arc::default(),
                n_failed: Arc::default(),
            },
            places: Places::new(listen::limits()),
            n_connections: 0,
            _folder: folder,
        })
    }

    fn end(self) {
        self.runtime.block_on(self.app.end());
    }

    /// One connection, from a stranger. Tells how many of its requests were answered with a status of 500.
    fn serve(&self, bytes: &[u8]) -> usize {
        self.runtime.block_on(async {
            let connection = Connection::new(client_of(IpAddr::from([192, 0, 2, 1])));
            let place = self
                .places
                .admit(connection.client, Arc::clone(&connection));
            assert!(place.is_some(), "a place was not given back");
            let (client, server) = tokio::io::duplex(PIPE_BYTES);
            // Nobody stops it: each connection ends by itself.
            let watcher = listen::Watcher::new(&CancellationToken::new(), &TaskTracker::new());
            let spoken = listen::speak(server, &connection, self.routes.clone(), watcher);
            let ((), ()) = tokio::join!(spoken, talk(client, bytes, &connection));
        });
        self.routes.n_failed.swap(0, Relaxed)
    }
}

/// The client's end: sends all in pieces of some size, and reads until nobody works for it any more.
async fn talk(mut client: DuplexStream, bytes: &[u8], connection: &Connection) {
    // The size belongs to the bytes, so that each input is always sent in the same way.
    let size = match bytes.len() % 4 {
        0 => 1,
        1 => 7,
        _ => bytes.len(),
    };
    for piece in bytes.chunks(size.max(1)) {
        if client.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
    let mut answer = vec![0; 4096];
    let begin = Instant::now();
    let is_patient = || match connection.wants_more() {
        true => begin.elapsed() < BODY_PATIENCE,
        false => begin.elapsed() < PATIENCE,
    };
    while is_patient() {
        let read = tokio::time::timeout(Duration::from_millis(1), client.read(&mut answer)).await;
        match read {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(_)) => {}
            Err(_) if connection.is_at_work() => {}
            Err(_) => break,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_fuzzer_sends_comes_to_the_handlers() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds/http");
        let site = Site::start().unwrap();
        for name in [
            "environment",
            "project_put",
            "parameter",
            "hook_github",
            "hook_gitea",
            "post",
        ] {
            let seed = std::fs::read(seeds.join(name)).unwrap();
            let n_failed = site.serve(&signed(&seed));
            let n_good = site.routes.n_good.swap(0, Relaxed);
            let expected = usize::from(name != "post");
            assert_eq!((n_good, n_failed), (expected, 0), "{name}");
        }
        site.end();
    }
}
