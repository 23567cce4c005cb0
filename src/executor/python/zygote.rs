//! The zygote of some code: a Python process that has imported its modules once, and of which each agent's host is a fork.
//!
//! The Python side (`steward_host/zygote.py`) tells how forks come to be, and when there can be none.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use steward_compiler::protocol::{self, BrokenModule, FromHost, ToHost};

use super::PythonHost;
use super::ahead::{self, Ahead};
use super::peer::{Peer, unexpected};
use crate::executor::output_capture::Output;

/// A fork takes a millisecond; on a machine that is very busy, some seconds.
const FORK: Duration = Duration::from_secs(30);
/// Longer than the zygote waits for a process that was killed.
const REAP: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Zygote {
    peer: Mutex<Peer>,
    broken: Arc<[BrokenModule]>,
}

impl Zygote {
    /// Of a process that has imported its modules, and reported that it can be forked.
    pub(super) fn new(peer: Peer, broken: Arc<[BrokenModule]>) -> Self {
        Self {
            peer: Mutex::new(peer),
            broken,
        }
    }

    /// Modules that could not be imported.
    pub(crate) fn broken(&self) -> &[BrokenModule] {
        &self.broken
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.peer().is_alive()
    }

    /// Makes the host of an agent.
    ///
    /// # Errors
    /// The zygote does not answer, or has ended. It is of no use any more.
    pub(crate) fn fork(self: &Arc<Self>, agent: &str) -> io::Result<PythonHost> {
        let (ours, theirs) = UnixStream::pair()?;
        let (printed, errors) = io::pipe()?;
        let reads = memfd_create("reads", MemfdFlags::CLOEXEC)?;
        let message = ToHost::Fork {
            agent: agent.to_owned(),
        };
        let mut frame = Vec::new();
        protocol::write_frame(&mut frame, &message)?;
        let answer = self.exchange("forking a Python host", FORK, |peer| {
            let files = [theirs.as_fd(), errors.as_fd(), reads.as_fd()];
            send_with_files(peer.socket(), &frame, &files)
        })?;
        let FromHost::Forked { pid } = answer else {
            return Err(unexpected(&answer));
        };
        let peer = Peer::forked(pid, Arc::clone(self), ours)?;
        let output = Output::follow(printed.into(), Some(reads.into()), agent)?;
        Ok(PythonHost::new(
            peer,
            output,
            Arc::clone(&self.broken),
            Ahead::new(ahead::MOST),
        ))
    }

    /// Lets the id of a host that was ended go; gives how it ended, in words.
    pub(super) fn reap(&self, pid: u32) -> String {
        let reap = ToHost::Reap { pid };
        match self.exchange("the end of a Python host", REAP, |peer| peer.write(&reap)) {
            Ok(FromHost::Reaped { status }) => {
                status.unwrap_or_else(|| "it does not end, although it was killed".to_owned())
            }
            Ok(answer) => unexpected(&answer).to_string(),
            Err(_) => "the process that it was forked from has ended".to_owned(),
        }
    }

    fn exchange(
        &self,
        what: &str,
        limit: Duration,
        ask: impl FnOnce(&mut Peer) -> io::Result<()>,
    ) -> io::Result<FromHost> {
        let mut peer = self.peer();
        peer.arm(limit);
        let answer = ask(&mut peer).and_then(|()| peer.read());
        peer.disarm(what, limit, "", answer)
    }

    fn peer(&self) -> MutexGuard<'_, Peer> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a frame with open files. The other end has them when it has read the frame's first byte.
fn send_with_files(socket: &UnixStream, frame: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many open files for one frame"));
    }
    let n_sent = sendmsg(
        socket,
        &[IoSlice::new(frame)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    io::Write::write_all(&mut &*socket, &frame[n_sent..])
}
