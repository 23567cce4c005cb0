//! Whether bytes move on a connection, as documents on a slow line take longer than the silence after which a connection counts as
//! cut: a file of a module, or a result with a long log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{InspectReader, InspectWriter};

/// A stream whose bytes are counted.
pub(crate) type Counted<S> = InspectWriter<InspectReader<S, Count>, Count>;
type Count = Box<dyn FnMut(&[u8]) + Send>;

/// How many bytes a stream has moved so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    read: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

/// Counts the bytes of a stream from now on.
pub(crate) fn counted<S: AsyncRead + AsyncWrite>(stream: S) -> (Counted<S>, Progress) {
    let progress = Progress::default();
    let stream = InspectReader::new(stream, count(&progress.read));
    let stream = InspectWriter::new(stream, count(&progress.written));
    (stream, progress)
}

fn count(n_bytes: &Arc<AtomicU64>) -> Count {
    let n_bytes = Arc::clone(n_bytes);
    Box::new(move |bytes| {
        n_bytes.fetch_add(bytes.len() as u64, Relaxed);
    })
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

/// The parts in which a silence is waited for, see [`unless_silent`].
const PARTS: u32 = 5;

/// Waits for what shall come within `silence`; `None`: it did not. Time in which this process itself stood still, as in a container
/// that is paused, counts as one of its parts at most: whoever was to say something stood still, too.
pub(crate) async fn unless_silent<F: Future>(silence: Duration, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    for _ in 0..PARTS {
        if let Ok(output) = tokio::time::timeout(silence / PARTS, &mut future).await {
            return Some(output);
        }
    }
    None
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
        let (mut near, progress) = counted(near);
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
