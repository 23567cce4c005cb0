//! The stream of a connection: it tells the connection what comes and goes, and looks at the ends of lines in heads.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Connection, Phase};

/// The stream of a connection, which is watched.
#[derive(Debug)]
pub(in crate::api) struct Watched<S> {
    stream: S,
    connection: Arc<Connection>,
    scan: Scan,
}

impl<S> Watched<S> {
    pub(in crate::api) fn new(stream: S, connection: Arc<Connection>) -> Self {
        Self {
            stream,
            connection,
            scan: Scan::default(),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let connection = &self.connection;
        let phase = connection.phase();
        if bytes.is_empty() {
            return;
        }
        if matches!(phase, Phase::Request | Phase::Delayed) {
            connection.n_after.fetch_add(bytes.len() as u64, Relaxed);
            return;
        }
        if phase == Phase::Waiting {
            // What came before the answer to the last request is the begin of this one, and nobody looked at it.
            self.scan = Scan {
                is_early: connection.is_ahead(),
                ..Scan::default()
            };
            connection.n_after.store(0, Relaxed);
            connection.enter(Phase::Head);
        }
        if self.scan.is_done {
            connection.n_after.fetch_add(bytes.len() as u64, Relaxed);
        } else if let Some(n_rest) = self.scan.look(bytes) {
            // The phase is that of hyper, which begins the request when it finds the head to be complete, too.
            self.scan.is_done = true;
            connection.n_after.store(n_rest as u64, Relaxed);
            connection.is_bare.store(self.scan.is_bare, Relaxed);
            connection.is_seen.store(!self.scan.is_early, Relaxed);
        }
    }
}

/// Looks for the end of a head, and at the ends of its lines.
#[derive(Debug, Default)]
struct Scan {
    previous: u8,
    /// Bytes of the line so far, without CR.
    n_in_line: usize,
    /// Empty lines before the first count for nothing.
    is_begun: bool,
    is_bare: bool,
    is_early: bool,
    is_done: bool,
}

impl Scan {
    /// How many bytes there are after the end of the head; `None`: it has not ended.
    fn look(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' {
                self.is_bare |= self.previous != b'\r';
                if self.n_in_line == 0 && self.is_begun {
                    return Some(bytes.len() - at - 1);
                }
                self.n_in_line = 0;
            } else if byte != b'\r' {
                self.n_in_line += 1;
                self.is_begun = true;
            }
            self.previous = byte;
        }
        None
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let n_before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        this.read(&buffer.filled()[n_before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.connection.wrote(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.connection.wrote(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        if result.is_ready() {
            self.connection.flushed();
        }
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::Scan;

    #[track_caller]
    fn check(head: &str, expected: Option<usize>, is_bare: bool) {
        for size in [1, 2, 3, head.len().max(1)] {
            let mut scan = Scan::default();
            let mut found = None;
            let mut n_left = head.len();
            for part in head.as_bytes().chunks(size) {
                n_left -= part.len();
                found = scan.look(part).map(|n_rest| n_rest + n_left);
                if found.is_some() {
                    break;
                }
            }
            assert_eq!(
                (found, scan.is_bare),
                (expected, is_bare),
                "{head:?} {size}"
            );
        }
    }

    #[test]
    fn the_end_of_a_head_and_bare_lines_are_found_however_it_is_cut() {
        check("GET / HTTP/1.1\r\nHost: x\r\n\r\n", Some(0), false);
        check("GET / HTTP/1.1\r\nHost: x\r\n\r\nbody\n", Some(5), false);
        check("\r\n\r\nGET / HTTP/1.1\r\n\r\nb", Some(1), false);
        check("GET / HTTP/1.1\r\nHost: x\r\n", None, false);
        check("GET / HTTP/1.1\nHost: x\n\n", Some(0), true);
        check("GET / HTTP/1.1\r\nHost: x\nY: z\r\n\r\n", Some(0), true);
        check("GET / HTTP/1.1\r\nHost: x\r\n\n", Some(0), true);
    }
}
