//! Answers to calls that the host holds back until they are waited for.
//!
//! # What for
//!
//! Many calls go to Python in one frame. If each answer is written to the pipe as soon as it is there, the system wakes us for
//! each, which takes longer than most plugins do. So the host writes them together: at the end of the frame, or before
//! anything else that it has to say. But we also have to know which calls were done when a host dies, or when nobody hears
//! of it for long. So the answers lie in memory that both processes see from when they are there
//! (`python/steward_host/held.py`), and we look there
//!
//! - when the host has ended, whatever ended it: the answers before the call that it was in are good;
//! - when nothing came for some time ([`PATIENCE`]): the model goes on with what there is, up to the call that takes so long.
//!   So who asks where a compile is (`breadcrumb`) is told of that call.
//!
//! # Invariant
//!
//! Calls of a session have rising numbers. The memory holds the answers of one frame in order, and begins anew with the next
//! frame, which is sent only when all answers to this one were taken. So an answer in memory is new if its number is above that
//! of the last one that was taken; and of those in the pipe, the ones that were taken from memory already are known by their numbers.
//! The next session of a process numbers its calls from the start again: the host empties the memory before it says that a
//! session is over, and then we begin anew, too.
//!
//! The host opens the memory as a file and says under which number; we open it by way of `/proc`. Where that is not possible,
//! nothing is held back.

use std::fs::File;
use std::io::Cursor;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::protocol::{self, FromHost};

/// How long the pipe is waited for before the memory is looked at, in nanoseconds: much longer than a frame of calls takes
/// whose plugins do little, and nothing to somebody who waits.
const PATIENCE: i64 = 10_000_000;
/// The same for a call that takes long already.
const MOST_PATIENCE: i64 = 200_000_000;
/// Bytes of the memory: as in `held.py`.
const BYTES: usize = 64 << 10;

/// See the head of this file.
pub(in crate::python_host) struct HeldAnswers {
    memory: File,
    /// The pipe that they come through.
    pipe: OwnedFd,
    /// The number of the last call whose answer was taken.
    last: u64,
    /// The number of the last one that was taken from memory.
    last_held: u64,
}

impl HeldAnswers {
    /// Those of the process `pid`, in its file `number`, when its pipe is the other way that they take. `None`: the file can
    /// not be opened.
    pub(in crate::python_host) fn of(pid: u32, number: u32, pipe: impl AsFd) -> Option<Self> {
        Some(HeldAnswers {
            memory: File::open(format!("/proc/{pid}/fd/{number}")).ok()?,
            pipe: pipe.as_fd().try_clone_to_owned().ok()?,
            last: 0,
            last_held: 0,
        })
    }

    /// Waits until there is something to read in the pipe, or it is closed; or for an answer in memory, if that takes long.
    pub(in crate::python_host) fn wait(&mut self) -> Option<FromHost> {
        let mut patience = PATIENCE;
        loop {
            let limit = Timespec {
                tv_sec: 0,
                tv_nsec: patience,
            };
            let mut files = [PollFd::new(&self.pipe, PollFlags::IN)];
            // What goes wrong with waiting, goes wrong with reading.
            if !matches!(poll(&mut files, Some(&limit)), Ok(0)) {
                return None;
            }
            let answer = self.next();
            if answer.is_some() {
                return answer;
            }
            patience = (2 * patience).min(MOST_PATIENCE);
        }
    }

    /// The next answer in memory that was not taken yet.
    pub(in crate::python_host) fn next(&mut self) -> Option<FromHost> {
        let mut bytes = vec![0; BYTES];
        let n_read = self.memory.read_at(&mut bytes, 0).ok()?;
        let mut rest = Cursor::new(&bytes[..n_read]);
        // Zeros behind the last one are no message.
        while let Ok(Some(answer)) = protocol::read_answer(&mut rest) {
            if let Some(id) = number_of(&answer)
                && id > self.last
            {
                (self.last, self.last_held) = (id, id);
                return Some(answer);
            }
        }
        None
    }

    /// A session is over, and the memory is empty.
    pub(in crate::python_host) fn begin_session(&mut self) {
        (self.last, self.last_held) = (0, 0);
    }

    /// A message of the pipe has come; whether it is new, and not an answer that was taken from memory.
    pub(in crate::python_host) fn is_new(&mut self, message: &FromHost) -> bool {
        let Some(id) = number_of(message) else {
            return true;
        };
        let is_new = id > self.last_held;
        self.last = self.last.max(id);
        is_new
    }
}

/// The number of an answer that may be held.
fn number_of(message: &FromHost) -> Option<u64> {
    match message {
        FromHost::Result { id, .. }
        | FromHost::Computed { id, .. }
        | FromHost::FieldsRendered { id, .. }
        | FromHost::Unset { id, .. } => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn frame(id: u64, text: &str) -> Vec<u8> {
        let mut body = vec![0xc1];
        body.extend_from_slice(&id.to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.append(&mut body);
        frame
    }

    fn id_of(message: Option<FromHost>) -> Option<u64> {
        match message {
            Some(FromHost::Result { id, .. }) => Some(id),
            _ => None,
        }
    }

    #[test]
    fn answers_of_a_frame_that_takes_long_are_taken_from_memory_once() {
        let memory = tempfile::tempfile().expect("a file");
        memory.set_len(BYTES as u64).expect("zeros");
        let (mut host, ours) = UnixStream::pair().expect("a pipe");
        let number = memory.as_raw_fd().cast_unsigned();
        let held = HeldAnswers::of(std::process::id(), number, &ours);
        let mut held = held.expect("our own file can be opened");

        let both = [frame(7, "seven"), frame(8, "eight")].concat();
        memory.write_all_at(&both, 0).expect("written");
        assert_eq!(id_of(held.wait()), Some(7));
        assert_eq!(id_of(held.wait()), Some(8));
        assert_eq!(id_of(held.next()), None);

        // Now the host sends what it held, and one more.
        host.write_all(b"x").expect("written");
        assert_eq!(id_of(held.wait()), None, "the pipe comes first");
        for (id, is_new) in [(7, false), (8, false), (9, true)] {
            let message = FromHost::Result {
                id,
                value: rmpv::Value::Nil,
                is_last: false,
            };
            assert_eq!(held.is_new(&message), is_new, "{id}");
        }

        // The next frame begins anew; one answer of it has come already, and one is not whole.
        let mut next = [frame(9, "nine"), frame(10, "ten"), frame(11, "eleven")].concat();
        let length = next.len();
        next[length - 19..].fill(0);
        memory.write_all_at(&next, 0).expect("written");
        assert_eq!(id_of(held.next()), Some(10));
        assert_eq!(id_of(held.next()), None);
    }
}
