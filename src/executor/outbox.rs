//! What an executor says to the server, in as few writes as possible.
//!
//! Each write wakes the server. Of quick runs there are thousands a second, and an answer for each would cost more than the
//! run. So an answer that others follow at once waits for them ([`Urgency::Soon`]). The run behind it may turn out to be slow,
//! or hang; so a thread of its own sees to it that no answer waits for longer than [`LONGEST`].

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use steward_compiler::protocol;

/// How long an answer waits for others.
const LONGEST: Duration = Duration::from_millis(1);

/// Frames that take so much are written at once: a pipe holds as much.
const UNSENT_BYTES: usize = 1 << 16;

/// Whether a frame may wait for those behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// It is written at once, with all that waits.
    Now,
    /// It may wait for [`LONGEST`].
    Soon,
}

/// Frames on their way to the server.
#[derive(Debug)]
pub(crate) struct Outbox<W> {
    state: Mutex<State<W>>,
    /// A frame waits, and nobody waits to write it.
    waits: Condvar,
}

#[derive(Debug)]
struct State<W> {
    writer: W,
    /// Frames that wait for others.
    unsent: Vec<u8>,
    /// The thread that writes what has waited for long has nothing to wait for.
    is_at_rest: bool,
}

impl<W: Write + Send + 'static> Outbox<W> {
    /// An outbox, and the thread that empties it: it ends with the process.
    pub(crate) fn new(writer: W) -> Arc<Self> {
        let outbox = Arc::new(Self::of(writer));
        let emptied = Arc::clone(&outbox);
        thread::spawn(move || emptied.empty());
        outbox
    }

    /// An outbox that nobody empties.
    fn of(writer: W) -> Self {
        Self {
            state: Mutex::new(State {
                writer,
                unsent: Vec::new(),
                is_at_rest: false,
            }),
            waits: Condvar::new(),
        }
    }

    /// Sends one frame.
    ///
    /// # Errors
    /// Nobody reads what is written any more.
    pub(crate) fn send(&self, frame: &impl Serialize, urgency: Urgency) -> io::Result<()> {
        let mut state = self.state();
        protocol::write_frame(&mut state.unsent, frame)?;
        if urgency == Urgency::Now || state.unsent.len() >= UNSENT_BYTES {
            return state.write();
        }
        if state.is_at_rest {
            state.is_at_rest = false;
            self.waits.notify_one();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what has waited for long, until nobody reads it any more; then [`Outbox::send`] says so.
    fn empty(&self) {
        loop {
            let mut state = self.state();
            while state.unsent.is_empty() {
                state.is_at_rest = true;
                let woken = self.waits.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
            }
            drop(state);
            thread::sleep(LONGEST);
            if self.state().write().is_err() {
                return;
            }
        }
    }
}

impl<W: Write> State<W> {
    fn write(&mut self) -> io::Result<()> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        let written = self.writer.write_all(&self.unsent);
        self.unsent.clear();
        // One large answer does not keep its memory for ever.
        self.unsent.shrink_to(2 * UNSENT_BYTES);
        written.and_then(|()| self.writer.flush())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Says what is written, write by write.
    struct Writes(mpsc::Sender<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn frames(bytes: &[u8]) -> Vec<String> {
        let mut rest = bytes;
        std::iter::from_fn(|| protocol::read_frame(&mut rest).unwrap()).collect()
    }

    /// Given: two frames that may wait, one that may not, and another one. Expected: the first three in one write, in their
    /// order, and the last in its own.
    #[test]
    fn frames_that_may_wait_travel_with_one_that_may_not() {
        let (sender, writes) = mpsc::channel();
        let outbox = Outbox::of(Writes(sender));
        outbox.send(&"one", Urgency::Soon).unwrap();
        outbox.send(&"two", Urgency::Soon).unwrap();
        assert!(writes.try_recv().is_err());
        outbox.send(&"three", Urgency::Now).unwrap();
        outbox.send(&"four", Urgency::Now).unwrap();
        assert_eq!(frames(&writes.recv().unwrap()), ["one", "two", "three"]);
        assert_eq!(frames(&writes.recv().unwrap()), ["four"]);
    }

    /// Given: frames that may wait, and more of them than a pipe holds. Expected: they do not wait for one that may not.
    #[test]
    fn frames_that_fill_a_pipe_do_not_wait() {
        let (sender, writes) = mpsc::channel();
        let outbox = Outbox::of(Writes(sender));
        let frame = "x".repeat(UNSENT_BYTES / 2);
        outbox.send(&frame, Urgency::Soon).unwrap();
        assert!(writes.try_recv().is_err());
        outbox.send(&frame, Urgency::Soon).unwrap();
        assert_eq!(frames(&writes.recv().unwrap()).len(), 2);
    }

    /// Given: a frame that may wait, and nothing behind it, again and again. Expected: each is written all the same.
    #[test]
    fn a_frame_that_nothing_follows_is_written_soon() {
        let (sender, writes) = mpsc::channel();
        let outbox = Outbox::new(Writes(sender));
        for frame in ["one", "two", "three"] {
            outbox.send(&frame, Urgency::Soon).unwrap();
            let written = writes.recv_timeout(Duration::from_secs(60)).unwrap();
            assert_eq!(frames(&written), [frame]);
        }
    }

    /// Given: nobody who reads. Expected: who sends learns of it, also when the thread beside has found it out before.
    #[test]
    fn who_sends_learns_that_nobody_reads() {
        let (sender, writes) = mpsc::channel();
        let outbox = Outbox::new(Writes(sender));
        drop(writes);
        // Whether this one fails is a matter of who writes it.
        let _ = outbox.send(&"one", Urgency::Soon);
        assert!(outbox.send(&"two", Urgency::Now).is_err());
    }
}
