//! Whether bytes move on a connection, as documents on a slow line take longer than the silence after which a connection counts as
//! cut: a file of a module, or a result with a long log.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the bytes of a stream.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    progress: Progress,
}

/// How many bytes a stream has moved so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    read: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Progress) {
        let progress = Progress::default();
        let watched = Self {
            stream,
            progress: progress.clone(),
        };
        (watched, progress)
    }
}

impl Progress {
    /// Waits for what is read from the stream; `None`: not a byte came for so long.
    pub(crate) async fn while_reading<F: Future>(
        &self,
        silence: Duration,
        future: F,
    ) -> Option<F::Output> {
        while_moving(&self.read, silence, future).await
    }

    /// Waits until something is written to the stream; `None`: it took not a byte for so long.
    pub(crate) async fn while_writing<F: Future>(
        &self,
        silence: Duration,
        future: F,
    ) -> Option<F::Output> {
        while_moving(&self.written, silence, future).await
    }
}

async fn while_moving<F: Future>(
    n_bytes: &AtomicU64,
    silence: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    loop {
        let before = n_bytes.load(Relaxed);
        if let Ok(output) = tokio::time::timeout(silence, &mut future).await {
            return Some(output);
        }
        if n_bytes.load(Relaxed) == before {
            return None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let n_read = buffer.filled().len().saturating_sub(before);
        self.progress.read.fetch_add(n_read as u64, Relaxed);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(n_bytes)) = &written {
            self.progress.written.fetch_add(*n_bytes as u64, Relaxed);
        }
        written
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

    /// Given: a document that takes longer than the silence, in pieces that come more often; and a stream on which nothing comes.
    /// Expected: the first is waited for, the second is given up.
    #[tokio::test]
    async fn a_slow_document_is_no_silence() {
        let silence = Duration::from_millis(500);
        let (near, mut far) = tokio::io::duplex(1);
        let (mut near, progress) = Watched::new(near);
        let mut document = [0; 30];
        let n_bytes = document.len();
        let slow = async {
            for _ in 0..n_bytes {
                tokio::time::sleep(silence / 10).await;
                far.write_u8(1).await.unwrap();
            }
        };
        let (read, ()) = tokio::join!(
            progress.while_reading(silence, near.read_exact(&mut document)),
            slow
        );
        read.unwrap().unwrap();
        let nothing = progress.while_reading(silence, near.read_u8()).await;
        assert!(nothing.is_none());
        // The other end has room for one byte, and reads none.
        let stuck = progress
            .while_writing(silence, near.write_all(&document))
            .await;
        assert!(stuck.is_none());
    }
}
