//! One connection: the state it is in, and the stream that reports its changes.
//!
//! A connection goes from waiting to the head of a request, to the request, and back to waiting. How long each may take is
//! decided here ([`Connection::is_overdue`]) and looked at once a second by `listen`; the request itself has the limits of
//! `body`. The stream also looks at the bytes of each head, as hyper takes lines that end in a bare LF, where two readers of
//! one stream can come to see different requests.

mod stream;

pub(in crate::api) use crate::api::http::connection::stream::Watched;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::api::http::body::Share;
use crate::api::http::places::Holder;

/// The time from connecting to the first byte, and from the first byte of a head to its last. Heads
/// are a few packets, sent at once.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// The time from an answer to the next request. Proxies and browsers keep connections for about so
/// long.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time in which a client that has not read all that there is for it must read
/// `MIN_READ_BYTES`.
const READ_WINDOW: Duration = Duration::from_secs(20);
/// 8 KiB a second: slower than any line that people work on. The largest pages then go within 20 minutes.
const MIN_READ_BYTES: u64 = 8 * 1024 * READ_WINDOW.as_secs();
/// A client that has read nothing of its answer, or sent nothing of a body, for so long may lose its place to another.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// What a connection is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    /// Nothing of a request has come.
    Waiting,
    /// A part of a head.
    Head,
    /// From the end of the head to the end of the answer, as far as we make it.
    Request,
    /// The client has to wait for us: it showed wrong tokens, or it is being looked at.
    Delayed,
}

/// How the head of a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Head {
    Good,
    /// The head has a line that ends in LF without CR.
    BareLf,
    /// It came before the answer to the request before it.
    Early,
}

/// The state of one connection, shared by its stream, its requests and the listener.
#[derive(Debug)]
pub(in crate::api) struct Connection {
    /// The address of the client, by `places::client_of`.
    pub(in crate::api) client: IpAddr,
    opened: Instant,
    phase: AtomicU8,
    /// When the phase began, and when the last bytes of an answer went; in milliseconds since `opened`.
    since: AtomicU64,
    /// Whether a line of the head that is being read ended in LF without CR.
    is_bare: AtomicBool,
    is_seen: AtomicBool,
    /// Bytes that came after the head in hand, and how many of them its request announced.
    n_after: AtomicU64,
    n_announced: AtomicU64,
    was_answered: AtomicBool,
    /// A request of this connection has shown the right token, and none after it a wrong one.
    pub(in crate::api) is_trusted: AtomicBool,
    /// There is something to write and the client does not read: since when, and 0 if not so.
    stuck_since: AtomicU64,
    n_written: AtomicU64,
    /// A request waits for more of its body: since when, and 0 if not so.
    body_awaited_since: AtomicU64,
    /// The running window of a client that reads slowly: its begin, and `n_written` then.
    window: Mutex<Option<(u64, u64)>>,
    /// The memory of an answer until the client has it.
    answer: Mutex<Option<Share>>,
    ended: Notify,
}

impl Connection {
    pub(in crate::api) fn new(client: IpAddr) -> Arc<Self> {
        Arc::new(Self {
            client,
            opened: Instant::now(),
            phase: AtomicU8::new(Phase::Waiting as u8),
            since: AtomicU64::new(0),
            is_bare: AtomicBool::new(false),
            is_seen: AtomicBool::new(false),
            n_after: AtomicU64::new(0),
            n_announced: AtomicU64::new(0),
            was_answered: AtomicBool::new(false),
            is_trusted: AtomicBool::new(false),
            stuck_since: AtomicU64::new(0),
            n_written: AtomicU64::new(0),
            body_awaited_since: AtomicU64::new(0),
            window: Mutex::new(None),
            answer: Mutex::new(None),
            ended: Notify::new(),
        })
    }

    /// Whether a request is worked on.
    pub(in crate::api) fn is_at_work(&self) -> bool {
        matches!(self.phase(), Phase::Request | Phase::Delayed)
    }

    /// Whether some of the body that was announced has not come.
    pub(in crate::api) fn wants_more(&self) -> bool {
        self.n_after.load(Relaxed) < self.n_announced.load(Relaxed)
    }

    /// Comes back when the connection shall be closed.
    pub(in crate::api) async fn ended(&self) {
        self.ended.notified().await;
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Waiting,
            1 => Phase::Head,
            2 => Phase::Request,
            _ => Phase::Delayed,
        }
    }

    fn enter(&self, phase: Phase) {
        self.since.store(self.now(), Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// A request begins, with a body of so many bytes; how its head came.
    pub(in crate::api) fn begin(&self, n_announced: u64) -> Head {
        self.n_announced.store(n_announced, Relaxed);
        self.enter(Phase::Request);
        let is_seen = self.is_seen.swap(false, Relaxed);
        match (is_seen, self.is_bare.swap(false, Relaxed)) {
            (_, true) => Head::BareLf,
            (true, false) => Head::Good,
            (false, false) => Head::Early,
        }
    }

    /// Whether more came than the request in hand has. What more there is was not looked at, so the connection ends.
    pub(in crate::api) fn is_ahead(&self) -> bool {
        self.n_after.load(Relaxed) > self.n_announced.load(Relaxed)
    }

    /// The answer is made.
    fn answered(&self) {
        self.was_answered.store(true, Relaxed);
        self.enter(Phase::Waiting);
    }

    /// Keeps the memory of an answer accounted for until the client has it.
    pub(in crate::api) fn hold_answer(&self, share: Share) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    }

    /// While the request waits on purpose, the connection may lose its place.
    pub(in crate::api) fn delayed(&self, is_delayed: bool) {
        self.enter(if is_delayed {
            Phase::Delayed
        } else {
            Phase::Request
        });
    }

    /// While the server finds out who the client is, which takes longer when there are many, the time is not the client's.
    pub(in crate::api) fn looked_at(&self, is_looking: bool) {
        self.enter(if is_looking {
            Phase::Delayed
        } else {
            Phase::Waiting
        });
    }

    /// Whether it took too long, for what it is at. Asked once a second.
    pub(in crate::api) fn is_overdue(&self) -> bool {
        let since = Duration::from_millis(self.now().saturating_sub(self.since.load(Relaxed)));
        let is_late = match self.phase() {
            Phase::Waiting if self.was_answered.load(Relaxed) => since > IDLE_TIMEOUT,
            Phase::Waiting | Phase::Head => since > HEAD_TIMEOUT,
            Phase::Request | Phase::Delayed => false,
        };
        is_late || self.is_read_too_slowly()
    }

    fn is_read_too_slowly(&self) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stuck_since.load(Relaxed) == 0 {
            *window = None;
            return false;
        }
        let (now, n_written) = (self.now(), self.n_written.load(Relaxed));
        match *window {
            Some((begin, n_before)) if now - begin >= READ_WINDOW.as_millis() as u64 => {
                *window = Some((now, n_written));
                n_written - n_before < MIN_READ_BYTES
            }
            Some(_) => false,
            None => {
                *window = Some((now, n_written));
                false
            }
        }
    }

    /// Whether the request in hand waits for more of its body.
    pub(in crate::api) fn waits_for_body(&self, is_waiting: bool) {
        if is_waiting {
            let now = self.now().max(1);
            let since = &self.body_awaited_since;
            let _ = since.compare_exchange(0, now, Relaxed, Relaxed);
        } else {
            self.body_awaited_since.store(0, Relaxed);
        }
    }

    fn wrote(&self, result: &Poll<io::Result<usize>>) {
        match result {
            Poll::Pending => {
                let now = self.now().max(1);
                let _ = self.stuck_since.compare_exchange(0, now, Relaxed, Relaxed);
            }
            Poll::Ready(Ok(n_bytes)) => {
                self.n_written.fetch_add(*n_bytes as u64, Relaxed);
                self.stuck_since.store(0, Relaxed);
                if self.phase() == Phase::Waiting {
                    self.since.store(self.now(), Relaxed);
                }
            }
            Poll::Ready(Err(_)) => {}
        }
    }

    /// All that was to be written has gone to the kernel.
    fn flushed(&self) {
        if self.phase() == Phase::Waiting {
            self.answer
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
        }
    }
}

impl Holder for Connection {
    fn rank(&self) -> Option<u8> {
        let stuck_since = self.stuck_since.load(Relaxed);
        let is_long = |since: u64| {
            since > 0 && self.now().saturating_sub(since) > STUCK_AFTER.as_millis() as u64
        };
        let is_stuck = is_long(stuck_since) || is_long(self.body_awaited_since.load(Relaxed));
        match self.phase() {
            _ if is_stuck => Some(3),
            // An answer is on its way.
            _ if stuck_since > 0 => None,
            Phase::Waiting | Phase::Head if !self.was_answered.load(Relaxed) => Some(0),
            Phase::Waiting | Phase::Head => Some(1),
            Phase::Delayed => Some(2),
            Phase::Request => None,
        }
    }

    fn end(&self) {
        self.ended.notify_one();
    }
}

/// Tells the connection when the answer is made, or given up.
#[derive(Debug)]
pub(in crate::api) struct Answering(pub(in crate::api) Arc<Connection>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.answered();
    }
}
