//! The beginning of what a program writes to a pipe, read while it runs.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// What comes out of a pipe. A thread reads it, so that the program never waits for us, to its end: a daemon that the program
/// left behind may hold the pipe open for as long as it likes, and is drained meanwhile.
///
/// The thread may get no processor for a while. So whoever wants to know what was written takes what is still in the pipe
/// himself, and a program that has ended has written all it will: nothing of that is lost, however busy the machine is.
#[derive(Debug)]
pub struct Captured(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Reading it never blocks.
    pipe: OwnedFd,
    kept: Mutex<Kept>,
    ended: Condvar,
}

#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    /// More is read and dropped.
    limit: usize,
    has_ended: bool,
}

/// Bytes that are read in one go: no less than a pipe can hold, and not for ever, as somebody may write without end.
const AT_ONCE: usize = 1 << 20;

impl Captured {
    /// Begins to read a pipe, of which so many bytes are kept.
    ///
    /// # Errors
    /// The system refuses to read it without blocking.
    pub fn begin(pipe: impl Into<OwnedFd>, limit: usize) -> std::io::Result<Self> {
        let pipe = pipe.into();
        rustix::io::ioctl_fionbio(&pipe, true)?;
        let kept = Kept {
            bytes: Vec::new(),
            limit,
            has_ended: false,
        };
        let shared = Arc::new(Shared {
            pipe,
            kept: Mutex::new(kept),
            ended: Condvar::new(),
        });
        let reading = Arc::clone(&shared);
        std::thread::spawn(move || reading.read_to_its_end());
        Ok(Self(shared))
    }

    /// What was kept, at the end of the pipe or at the deadline. All that was written before this call is in it.
    pub fn take(self, deadline: Instant) -> Vec<u8> {
        let patience = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .0
            .ended
            .wait_timeout_while(self.0.kept(), patience, |kept| !kept.has_ended);
        let (mut kept, _) = waited.unwrap_or_else(PoisonError::into_inner);
        kept.read(&self.0.pipe);
        kept.limit = 0;
        std::mem::take(&mut kept.bytes)
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_to_its_end(&self) {
        loop {
            let mut awaited = [PollFd::new(&self.pipe, PollFlags::IN)];
            // An error is a signal that came: the pipe is looked at, and waited for again.
            let _ = poll(&mut awaited, None);
            let mut kept = self.kept();
            kept.read(&self.pipe);
            if kept.has_ended {
                self.ended.notify_all();
                return;
            }
        }
    }
}

impl Kept {
    /// Takes what is in the pipe.
    fn read(&mut self, pipe: &OwnedFd) {
        let mut chunk = [0; 8192];
        let mut n_read = 0;
        while !self.has_ended && n_read < AT_ONCE {
            match rustix::io::read(pipe, &mut chunk) {
                Ok(n_bytes @ 1..) => {
                    n_read += n_bytes;
                    let room = self.limit.saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&chunk[..n_bytes.min(room)]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(0) | Err(_) => self.has_ended = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Given: what a program wrote before it ended, in a pipe that something else holds open; and nobody has had time to read it.
    /// Expected: it is there at once.
    #[test]
    fn what_was_written_is_there_however_busy_the_machine_is() {
        for _ in 0..100 {
            let (reader, mut writer) = std::io::pipe().unwrap();
            writer.write_all(b"all of it").unwrap();
            let captured = Captured::begin(reader, 1000).unwrap();
            assert_eq!(captured.take(Instant::now()), b"all of it");
        }
    }

    /// Given: a program that writes more than is kept, and more than the pipe holds. Expected: it comes to its end, and the beginning
    /// of it is kept.
    #[test]
    fn the_beginning_is_kept_and_the_rest_is_read() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let captured = Captured::begin(reader, 5).unwrap();
        for _ in 0..100 {
            writer.write_all(&[b'x'; 10_000]).unwrap();
        }
        drop(writer);
        let minute = Instant::now() + std::time::Duration::from_secs(60);
        assert_eq!(captured.take(minute), b"xxxxx");
    }
}
