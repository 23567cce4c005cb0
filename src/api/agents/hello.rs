//! Connections whose hello is awaited: few at once of an environment, and no more is read of each than a hello may have.
//!
//! Whoever has the token of one environment's agents is to keep neither the agents of others out nor the memory of the server.
//! After the hello a connection has its place by the names of its agents, each of which the operator has declared. One machine
//! that holds its connections back keeps out no other machine of its environment, since each address has a part of the turns only.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::EnvironmentId;

/// Connections of an environment whose hello is awaited at once; others wait for one of them.
const AT_ONCE: usize = 16;
/// Those from one address.
const AT_ONCE_OF_ADDRESS: usize = 4;
/// What a WebSocket has around a message: its frames, pings.
const FRAMING_BYTES: usize = 16 << 10;

/// The turns of all environments.
#[derive(Debug, Default)]
pub(super) struct Hellos(Mutex<HashMap<EnvironmentId, Turns>>);

/// The turns of an environment.
#[derive(Debug)]
struct Turns {
    all: Arc<Semaphore>,
    /// Those of addresses of which somebody waits or is heard.
    by_address: HashMap<IpAddr, Weak<Semaphore>>,
}

/// A connection's turn, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    _of_environment: OwnedSemaphorePermit,
    _of_address: OwnedSemaphorePermit,
}

impl Turns {
    fn new() -> Self {
        Self {
            all: Arc::new(Semaphore::new(AT_ONCE)),
            by_address: HashMap::new(),
        }
    }

    fn of(&mut self, address: IpAddr) -> Arc<Semaphore> {
        if let Some(turns) = self.by_address.get(&address).and_then(Weak::upgrade) {
            return turns;
        }
        self.by_address.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(AT_ONCE_OF_ADDRESS));
        self.by_address.insert(address, Arc::downgrade(&turns));
        turns
    }
}

impl Hellos {
    /// Waits until a connection from this address may say hello to this environment.
    pub(super) async fn turn(&self, environment: EnvironmentId, address: IpAddr) -> Option<Turn> {
        let (all, of_address) = {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let turns = known.entry(environment).or_insert_with(Turns::new);
            (Arc::clone(&turns.all), turns.of(address))
        };
        // The address comes first: who waits for that does not stand in the way of others.
        let of_address = of_address.acquire_owned().await.ok()?;
        let of_environment = all.acquire_owned().await.ok()?;
        Some(Turn {
            _of_environment: of_environment,
            _of_address: of_address,
        })
    }
}

/// A stream of which so much may be read and no more, until that is lifted.
#[derive(Debug)]
pub(super) struct Limited<S> {
    stream: S,
    left: Arc<AtomicUsize>,
}

/// Lifts the limit of a stream.
#[derive(Debug)]
pub(super) struct Limit(Arc<AtomicUsize>);

impl Limit {
    pub(super) fn lift(&self) {
        self.0.store(usize::MAX, Relaxed);
    }
}

impl<S> Limited<S> {
    /// `limit`: bytes of the first message.
    pub(super) fn new(stream: S, limit: usize) -> (Self, Limit) {
        let left = Arc::new(AtomicUsize::new(limit + FRAMING_BYTES));
        let limit = Limit(Arc::clone(&left));
        (Self { stream, left }, limit)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if matches!(read, Poll::Ready(Ok(()))) {
            let n_read = buffer.filled().len() - before;
            let left = self.left.load(Relaxed);
            if left == usize::MAX {
                return read;
            }
            if n_read > left {
                return Poll::Ready(Err(io::Error::other("its first message is no hello")));
            }
            // Lifted meanwhile, it stays lifted.
            let _ = self
                .left
                .compare_exchange(left, left - n_read, Relaxed, Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn no_more_is_read_than_the_limit_until_it_is_lifted() {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let (mut stream, limit) = Limited::new(server, 1000);
        client.write_all(&[0; 60_000]).await.unwrap();
        let mut read = vec![0; 1000 + FRAMING_BYTES];
        stream.read_exact(&mut read).await.unwrap();
        let error = stream.read_exact(&mut [0; 1]).await.unwrap_err();
        assert_eq!(error.to_string(), "its first message is no hello");
        limit.lift();
        stream.read_exact(&mut [0; 1000]).await.unwrap();
    }

    /// Whether a connection gets its turn without waiting for others.
    async fn turn_at_once(
        hellos: &Hellos,
        environment: EnvironmentId,
        address: u8,
    ) -> Option<Turn> {
        let turn = hellos.turn(environment, IpAddr::from([10, 0, 0, address]));
        let patience = std::time::Duration::from_millis(50);
        tokio::time::timeout(patience, turn).await.ok().flatten()
    }

    #[tokio::test]
    async fn environments_and_addresses_have_turns_of_their_own() {
        let hellos = Hellos::default();
        let (one, other) = (
            EnvironmentId::named("p", "a"),
            EnvironmentId::named("p", "b"),
        );
        let mut turns = Vec::new();
        for address in 1..=4 {
            for _ in 0..AT_ONCE_OF_ADDRESS {
                turns.push(turn_at_once(&hellos, one, address).await.unwrap());
            }
            // Whoever holds all turns of one address keeps out nobody else.
            assert!(turn_at_once(&hellos, one, address).await.is_none());
        }
        assert_eq!(turns.len(), AT_ONCE);
        assert!(turn_at_once(&hellos, one, 5).await.is_none());
        assert!(turn_at_once(&hellos, other, 1).await.is_some());
        turns.pop();
        assert!(turn_at_once(&hellos, one, 5).await.is_some());
        // Addresses of which nobody is there any more are forgotten.
        turns.clear();
        assert!(turn_at_once(&hellos, one, 6).await.is_some());
        let known = hellos.0.lock().unwrap();
        assert_eq!(known[&one].by_address.len(), 1);
    }
}
