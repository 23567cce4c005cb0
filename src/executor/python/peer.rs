//! A process of ours that speaks `steward_compiler::protocol` over a socket: a Python host, or the zygote of hosts.

use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use steward_compiler::protocol::{self, FromHost};

use super::watchdog::{Verdict, Watchdog};
use super::zygote::Zygote;
use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::protocol::Python;
use crate::executor::variables;
use crate::process::{self, memory};

/// Behind a signal that nobody here has sent, when the kernel has sent one to some process for this reason.
const USED_UP: &str = ", and the kernel had no memory left just then: the handler, or all of them together, took what the machine or \
                       the control group of the server has";
/// A report of a quick run takes about a kilobyte, and several come at once.
const READ_BYTES: usize = 32 << 10;
/// A process that was ended has this long to be gone before its status is asked for.
const END: Duration = Duration::from_secs(1);

/// The process, and our end of the socket. The process ends when this is dropped, with all that it started.
#[derive(Debug)]
pub(super) struct Peer {
    watchdog: Watchdog,
    origin: Origin,
    writer: UnixStream,
    reader: BufReader<UnixStream>,
}

/// Whose child the process is. Until its parent takes note of its end, its id is nobody else's.
#[derive(Debug)]
enum Origin {
    /// Ours.
    Started(Child),
    /// That of a zygote, which takes note when we tell it.
    Forked { pid: u32, zygote: Arc<Zygote> },
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.origin.end(Duration::ZERO);
    }
}

impl Peer {
    /// Starts a Python process; gives what it prints, too.
    pub(super) fn start(python: &Python) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        let (printed, errors) = io::pipe()?;
        let child = python
            .runtime()
            .command("executor")
            // Those that the executor was given: `executor::variables`.
            .envs(variables::of_process())
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(Stdio::from(errors))
            .process_group(0)
            .spawn()?;
        let peer = Self::new(child.id(), Origin::Started(child), ours)?;
        Ok((peer, printed.into()))
    }

    /// A process that `zygote` has forked.
    pub(super) fn forked(pid: u32, zygote: Arc<Zygote>, ours: UnixStream) -> io::Result<Self> {
        Self::new(pid, Origin::Forked { pid, zygote }, ours)
    }

    fn new(pid: u32, origin: Origin, ours: UnixStream) -> io::Result<Self> {
        Ok(Self {
            watchdog: Watchdog::new(pid),
            origin,
            writer: ours.try_clone()?,
            reader: BufReader::with_capacity(READ_BYTES, ours),
        })
    }

    pub(super) fn is_alive(&mut self) -> bool {
        match &mut self.origin {
            Origin::Started(child) => matches!(child.try_wait(), Ok(None)),
            // When its zygote ends, so does it.
            Origin::Forked { pid, .. } => process::is_alive(*pid),
        }
    }

    pub(super) fn socket(&self) -> &UnixStream {
        &self.writer
    }

    pub(super) fn write<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        protocol::write_frame(&mut self.writer, message)
    }

    /// Writes frames.
    pub(super) fn write_frames(&mut self, frames: &[u8]) -> io::Result<()> {
        self.writer.write_all(frames)
    }

    /// Whether something was read already that nobody has taken yet.
    pub(super) fn has_read(&self) -> bool {
        !self.reader.buffer().is_empty()
    }

    pub(super) fn read(&mut self) -> io::Result<FromHost> {
        protocol::read_frame_within(&mut self.reader, MAX_REPLY_BYTES)?
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Has an exchange end, `what` in words, within `limit`, which a `setting` may give: the process does not survive it
    /// otherwise.
    pub(super) fn arm(&self, limit: Duration) {
        self.watchdog.arm(limit);
    }

    /// The result of an exchange that was begun with [`Peer::arm`]; if it failed, why.
    pub(super) fn disarm<T>(
        &mut self,
        what: &str,
        limit: Duration,
        setting: &str,
        result: io::Result<T>,
    ) -> io::Result<T> {
        match self.watchdog.disarm() {
            Some(Verdict::Expired) => {
                return Err(io::Error::other(format!(
                    "{what} did not end within {} s{setting} and was stopped",
                    limit.as_secs_f64()
                )));
            }
            Some(Verdict::Stopped) => {
                return Err(io::Error::other(format!(
                    "{what} did not go on, because somebody had stopped its process (SIGSTOP); the process was ended"
                )));
            }
            None => {}
        }
        match result {
            // The exchange is over, so the process may be waited for.
            Err(error) if is_end(&error) => {
                let status = self.origin.end(END)?;
                let why = match status.contains("SIGKILL") && memory::was_used_up() {
                    true => USED_UP,
                    false => "",
                };
                let ended = format!("the Python host ended: {status}{why}");
                Err(io::Error::other(ended))
            }
            result => result,
        }
    }
}

/// A socket whose other end was closed with unread frames says so in its own way.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | BrokenPipe | ConnectionReset)
}

impl Origin {
    /// Gives the process some time to end by itself, then ends its whole group; gives its status in words.
    fn end(&mut self, patience: Duration) -> io::Result<String> {
        match self {
            Self::Started(child) => {
                process::end_group(child, patience).map(|status| status.to_string())
            }
            Self::Forked { pid, zygote } => {
                let deadline = Instant::now() + patience;
                while process::is_alive(*pid) && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(2));
                }
                process::kill_group_of(*pid);
                Ok(zygote.reap(*pid))
            }
        }
    }
}

pub(super) fn unexpected(message: &FromHost) -> io::Error {
    let text = format!("{message:?}");
    io::Error::other(format!(
        "an unexpected answer of the Python host: {}",
        text.chars().take(200).collect::<String>()
    ))
}
