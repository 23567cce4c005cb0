//! Connections whose hello is awaited: few at once of an environment, and no more is read of each than a hello may have.
//!
//! Whoever has the token of one environment's agents is to keep neither the agents of others out nor the memory of the server.
//! After the hello a connection has its place by the names of its agents, each of which the operator has declared.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::EnvironmentId;

/// Connections of an environment whose hello is awaited at once; others wait for one of them.
const AT_ONCE: usize = 16;
/// What a WebSocket has around a message: its frames, pings.
const FRAMING_BYTES: usize = 16 << 10;

/// The turns of all environments.
#[derive(Debug, Default)]
pub(super) struct Hellos(Mutex<HashMap<EnvironmentId, Arc<Semaphore>>>);

impl Hellos {
    /// Waits until a connection of this environment may say hello.
    pub(super) async fn turn(&self, environment: EnvironmentId) -> Option<OwnedSemaphorePermit> {
        let turns = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let turns = all
                .entry(environment)
                .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
            Arc::clone(turns)
        };
        turns.acquire_owned().await.ok()
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

    #[tokio::test]
    async fn an_environment_has_so_many_turns_and_another_one_has_its_own() {
        let hellos = Hellos::default();
        let (one, other) = (
            EnvironmentId::named("p", "a"),
            EnvironmentId::named("p", "b"),
        );
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(hellos.turn(one).await.unwrap());
        }
        assert!(hellos.turn(other).await.is_some());
        let waits = tokio::time::timeout(std::time::Duration::from_millis(50), hellos.turn(one));
        assert!(waits.await.is_err());
        turns.pop();
        assert!(hellos.turn(one).await.is_some());
    }
}
