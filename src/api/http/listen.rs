//! Connections to the API: who may have one, for how long, and what is refused before it is a request.
//!
//! HTTP/1.1 only: forges, the Python client, browsers and proxies speak it, and HTTP/2 without TLS has no client here, but
//! streams, resets and header tables of its own to be limited.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::api::http::connection::{Connection, Watched};
use crate::api::http::middleware::{Guarded, Routes};
use crate::api::http::places::{Limits, Place, Places, client_of};
use crate::app::App;
use crate::observe::LineLimit;
use crate::process::{self, Peer};
use crate::sandbox;

/// Pause after a connection that could not be taken: files may have run out.
const PAUSE: Duration = Duration::from_millis(100);
/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// More are of no use to anybody, and each takes some 20 KiB even when nothing is sent.
const MAX_CONNECTIONS: usize = 4096;
const MIN_CONNECTIONS: usize = 8;
/// Bytes of a head, and of what is read or written at once.
const MAX_HEAD_BYTES: usize = 32 << 10;
/// Clients that are looked at for being sandboxed at once, which reads all of /proc.
const MAX_LOOKS: usize = 4;

static NO_CONNECTION: LineLimit = LineLimit::new(1, Duration::from_secs(10));
static CROWDED: LineLimit = LineLimit::new(1, Duration::from_secs(10));
static CONFINED: LineLimit = LineLimit::new(10, Duration::from_secs(60));

/// How many connections there may be: half of the file handles that this process may have. The other half is for the
/// database, git, child processes (three handles each), and files.
pub(in crate::api) fn limits() -> Limits {
    let handles = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    // No limit is given as `None`.
    let handles = handles.and_then(|handles| usize::try_from(handles).ok());
    let total = handles.map_or(MAX_CONNECTIONS, |handles| handles / 2);
    let total = total.clamp(MIN_CONNECTIONS, MAX_CONNECTIONS);
    Limits {
        total,
        by_address: (total / 4).max(4),
        for_loopback: (total / 16).clamp(2, 16),
    }
}

/// What the connections of a server share.
struct Door {
    places: Arc<Places<Connection>>,
    limits: Limits,
    /// Open connections, with those that have lost their place and are about to close.
    n_open: AtomicUsize,
    n_refused: AtomicU64,
    n_overdue: AtomicU64,
    /// Without a token whoever reaches the port may use the API, so Python that we sandboxed must not reach it.
    is_open: bool,
    looks: Semaphore,
    stop: CancellationToken,
}

/// Answers requests until the server stops, and those that are open then to their end.
pub async fn serve(app: App, listener: TcpListener) {
    let limits = limits();
    let door = Arc::new(Door {
        places: Places::new(limits),
        limits,
        n_open: AtomicUsize::new(0),
        n_refused: AtomicU64::new(0),
        n_overdue: AtomicU64::new(0),
        is_open: app.api_token.is_none(),
        looks: Semaphore::new(MAX_LOOKS),
        stop: app.stop_signal(),
    });
    let service = TowerToHyperService::new(warp::service(crate::api::routes(app)));
    let open = TaskTracker::new();
    let watch = tokio::spawn(watch(Arc::clone(&door)));
    loop {
        let accepted = tokio::select! {
            accepted = door.accept(&listener) => accepted,
            () = door.stop.cancelled() => break,
        };
        let Some((stream, place, connection, client)) = accepted else {
            continue;
        };
        let visit = Visit {
            door: Arc::clone(&door),
            connection,
            client,
            _place: place,
        };
        door.n_open.fetch_add(1, Relaxed);
        let service = service.clone();
        let watcher = Watcher::new(&door.stop, &open);
        tokio::spawn(async move {
            tokio::select! {
                () = visit.serve(stream, service, watcher) => {}
                // Whatever it was at, the client is not heard any more.
                () = visit.connection.ended() => {}
            }
        });
    }
    drop(listener);
    open.close();
    open.wait().await;
    watch.abort();
}

impl Door {
    /// A connection that has a place.
    async fn accept(
        &self,
        listener: &TcpListener,
    ) -> Option<(TcpStream, Place<Connection>, Arc<Connection>, SocketAddr)> {
        // Those that lost their place need a moment to close; meanwhile their handles count.
        while self.n_open.load(Relaxed) > self.limits.total + self.limits.total / 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(n_left_out) = NO_CONNECTION.permit() {
                    tracing::warn!(%error, n_left_out, "cannot take a connection");
                }
                // Usually file handles have run out, and an idle client can spare one.
                self.places.displace_any();
                tokio::time::sleep(PAUSE).await;
                return None;
            }
        };
        let connection = Connection::new(client_of(client.ip()));
        let holder = Arc::clone(&connection);
        let Some(place) = self.places.admit(connection.client, holder) else {
            self.n_refused.fetch_add(1, Relaxed);
            const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 10\r\n\
                                  Connection: close\r\nContent-Length: 0\r\n\r\n";
            let _ = stream.try_write(FULL);
            return None;
        };
        Some((stream, place, connection, client))
    }

    async fn is_refused(&self, stream: &TcpStream, client: SocketAddr) -> bool {
        if !sandbox::may_connect_anywhere() {
            return has_hung_up(stream);
        }
        let Ok(server) = stream.local_addr() else {
            return true;
        };
        let Ok(_look) = self.looks.acquire().await else {
            return true;
        };
        let looked = tokio::task::spawn_blocking(move || process::peer_of(client, server)).await;
        match looked {
            // One that has ended since it sent its request was not found.
            Ok(Peer::Free) => has_hung_up(stream),
            Ok(Peer::Sandboxed) => {
                if let Some(n_left_out) = CONFINED.permit() {
                    tracing::warn!(
                        n_left_out,
                        "refused a connection of Python code that is sandboxed; with an `api_token`, the API is closed to it"
                    );
                }
                true
            }
            Ok(Peer::Gone) | Err(_) => true,
        }
    }
}

/// Whether the other end is closed, be it that its process has ended.
fn has_hung_up(stream: &impl AsFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut asked = [PollFd::new(stream, PollFlags::RDHUP)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut asked, Some(&now)) {
        Ok(n_ready) => n_ready > 0,
        Err(_) => true,
    }
}

/// Closes connections that take too long, and says now and then that there are too many.
async fn watch(door: Arc<Door>) {
    let mut timer = tokio::time::interval(LOOK_EVERY);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut n_displaced_logged = 0;
    loop {
        timer.tick().await;
        crate::api::http::guard::log_left_out();
        crate::api::webhooks::log_left_out();
        let mut n_overdue = 0;
        door.places.each(|connection| {
            if connection.is_overdue() {
                use crate::api::http::places::Holder;
                connection.end();
                n_overdue += 1;
            }
        });
        door.n_overdue.fetch_add(n_overdue, Relaxed);
        let n_displaced = door.places.n_displaced();
        let is_crowded = n_displaced > n_displaced_logged || door.n_refused.load(Relaxed) > 0;
        if is_crowded && CROWDED.permit().is_some() {
            tracing::warn!(
                n_open = door.n_open.load(Relaxed),
                n_places = door.limits.total,
                n_refused = door.n_refused.swap(0, Relaxed),
                n_idle_closed = n_displaced - n_displaced_logged,
                n_late_closed = door.n_overdue.swap(0, Relaxed),
                "there are more connections than places for them; idle ones are closed for new ones"
            );
            n_displaced_logged = n_displaced;
        }
    }
}

/// Lets a connection end with the request that it is at when the server stops, and the server wait for that. (hyper's own has
/// none for connections that may become something else, as those of agents do.)
pub(in crate::api) struct Watcher {
    stop: CancellationToken,
    _open: TaskTrackerToken,
}

impl Watcher {
    pub(in crate::api) fn new(stop: &CancellationToken, open: &TaskTracker) -> Self {
        Self {
            stop: stop.clone(),
            _open: open.token(),
        }
    }
}

/// One connection from its begin to its end.
struct Visit {
    door: Arc<Door>,
    connection: Arc<Connection>,
    client: SocketAddr,
    _place: Place<Connection>,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.door.n_open.fetch_sub(1, Relaxed);
    }
}

impl Visit {
    async fn serve<S>(&self, stream: TcpStream, service: S, watcher: Watcher)
    where
        S: Routes,
        S::Future: Send + 'static,
    {
        if self.door.is_open {
            // A connection that sends nothing needs no look.
            let is_refused = async {
                if stream.readable().await.is_err() {
                    return true;
                }
                self.connection.looked_at(true);
                let is_refused = self.door.is_refused(&stream, self.client).await;
                self.connection.looked_at(false);
                is_refused
            };
            let is_refused = tokio::select! {
                is_refused = is_refused => is_refused,
                () = self.door.stop.cancelled() => true,
            };
            if is_refused {
                return;
            }
        }
        speak(stream, &self.connection, service, watcher).await;
    }
}

/// Answers the requests that come over a stream, until either end closes it.
pub(in crate::api) async fn speak<IO, S>(
    stream: IO,
    connection: &Arc<Connection>,
    service: S,
    watcher: Watcher,
) where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Routes,
    S::Future: Send + 'static,
{
    let guarded = Guarded::new(service, Arc::clone(connection));
    let stream = Watched::new(stream, Arc::clone(connection));
    let spoken = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), guarded)
        .with_upgrades();
    let mut spoken = std::pin::pin!(spoken);
    // What strangers send is no error of ours.
    tokio::select! {
        _ = spoken.as_mut() => {}
        () = watcher.stop.cancelled() => {
            spoken.as_mut().graceful_shutdown();
            let _ = spoken.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::api::http::listen::has_hung_up;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    /// Input: a process that sends a request to a server without a token and ends at once, so that nobody finds out whether it is sandboxed (docs/reference/security.md § 4.18). Answer: the connection is closed.
    #[test]
    fn a_client_that_has_hung_up_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        client.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
        assert!(!has_hung_up(&stream));
        drop(client);
        until(|| has_hung_up(&stream));
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let begin = std::time::Instant::now();
        while !is_so() {
            assert!(begin.elapsed().as_secs() < 10);
            std::thread::yield_now();
        }
    }
}
