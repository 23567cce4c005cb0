//! What a Python host, and what it starts, says on its standard error.

use std::io::Read;
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What Python code wrote to its standard error, and its children to either output. Longer texts are cut.
#[derive(Debug, Clone, Default)]
pub struct Output(Arc<(Mutex<Kept>, Condvar)>);

#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    n_dropped: usize,
    /// How many sessions have ended, by the marks that they wrote.
    n_ended: u64,
    is_closed: bool,
}

/// Bytes that are kept of the output of one compile.
const OUTPUT_BYTES: usize = 1 << 20;
/// What a host writes to its standard error when a session ends.
const END_MARK: &[u8] = b"\0end of the session\0\n";

impl Output {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text so far, which is forgotten.
    pub fn take(&self) -> String {
        let mut kept = self.kept();
        let mut text = String::from_utf8_lossy(&std::mem::take(&mut kept.bytes)).into_owned();
        if kept.n_dropped > 0 {
            text.push_str(&format!("\n… and {} bytes more\n", kept.n_dropped));
            kept.n_dropped = 0;
        }
        text
    }

    /// Adds a line.
    pub(in crate::python_host) fn add_line(&self, line: &str) {
        let mut kept = self.kept();
        kept.add(line.as_bytes());
        kept.add(b"\n");
    }

    /// Nothing will come.
    pub(in crate::python_host) fn close(&self) {
        self.kept().is_closed = true;
    }

    /// Moves the text of one to another.
    pub(in crate::python_host) fn move_to(&self, other: &Output) {
        let (bytes, n_dropped) = {
            let mut kept = self.kept();
            (
                std::mem::take(&mut kept.bytes),
                std::mem::take(&mut kept.n_dropped),
            )
        };
        let mut kept = other.kept();
        kept.bytes.extend_from_slice(&bytes);
        kept.n_dropped += n_dropped;
    }

    /// Keeps what comes, until the pipe is closed.
    pub(in crate::python_host) fn follow(&self, mut pipe: ChildStderr) {
        let mut chunk = [0; 8192];
        let mut pending = Vec::new();
        loop {
            let n_read = pipe.read(&mut chunk).unwrap_or(0);
            let mut kept = self.kept();
            pending.extend_from_slice(&chunk[..n_read]);
            while let Some(at) = find(&pending, END_MARK) {
                kept.add(&pending[..at]);
                pending.drain(..at + END_MARK.len());
                kept.n_ended += 1;
            }
            // The beginning of a mark may be at the end.
            let held = (1..END_MARK.len())
                .rev()
                .find(|length| pending.ends_with(&END_MARK[..*length]));
            let held = held.filter(|_| n_read > 0).unwrap_or(0);
            let n_kept = pending.len() - held;
            kept.add(&pending[..n_kept]);
            pending.drain(..n_kept);
            kept.is_closed = n_read == 0;
            self.0.1.notify_all();
            if n_read == 0 {
                return;
            }
        }
    }

    /// Whether nothing was written up to the `n`th mark, which is waited for.
    pub(in crate::python_host) fn is_silent(&self, n_ended: u64) -> bool {
        self.wait(n_ended);
        let kept = self.kept();
        kept.n_ended == n_ended && kept.bytes.is_empty() && kept.n_dropped == 0
    }

    /// Waits until all that was written before the end of so many sessions is here, or the pipe is closed.
    ///
    /// The mark is in the pipe by now, and on a busy machine it may take a while until the thread that reads it gets a
    /// processor: what it has not read by then would be taken for the output of the next session. Code that has put something
    /// else into the place of its standard error writes no mark, and is waited for in vain.
    pub(in crate::python_host) fn wait(&self, n_ended: u64) {
        let limit = Duration::from_secs(1);
        let waits = |kept: &mut Kept| kept.n_ended < n_ended && !kept.is_closed;
        let _ = self.0.1.wait_timeout_while(self.kept(), limit, waits);
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|part| part == wanted)
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let room = OUTPUT_BYTES.saturating_sub(self.bytes.len());
        let (kept, dropped) = bytes.split_at(room.min(bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.n_dropped += dropped.len();
    }
}
