//! What comes from an executor process: bounded in size, in number and in silence.
//!
//! Handlers are code of others, and the process that runs them may send whatever it likes: a frame
//! of four gigabytes, a million small ones, half a frame and then nothing. The server must not run
//! out of memory for it, nor wait for ever. One task a process reads its frames, and three limits
//! hold it:
//!
//! - *Size.* A frame that says to be larger than [`MAX_REPLY_BYTES`] ends the reading before any of
//!   it is read.
//! - *Number.* All answers of an environment share a room, a semaphore counted in KiB. Before a
//!   frame is read, its length is taken out of the room, and before anything is made of it, what
//!   its values will take ([`bounds::weight_kib`]); the permit travels with the answer
//!   ([`Held`]) through the engine, and is given back when what the answer says is in the database.
//!   If nothing is left, the pipe is not read; it fills, and the executor blocks in its write. So a
//!   fast executor is slowed down by the database, and not stored in memory.
//! - *Silence.* An executor says every few seconds that it is alive, from a thread of its own. If
//!   neither that nor anything else comes for `silence`, it is stopped or stuck, and is given up:
//!   killed, and what it was running counts as `unavailable`. The time counts only while we read;
//!   while we wait for room, it is our fault.
//!
//! Every message names the `generation` of the process that it is from. An answer that was under
//! way when the process was given up then finds nobody waiting for it, and is not taken for one of
//! the process after it.
//!
//! The last message is always [`Message::Ended`], with the reason if it was not a clean end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::executor::bounds::{self, MAX_REPLY_BYTES};
use crate::executor::link::{Message, ROOM_KIB};
use crate::executor::progress::unless_silent;
use crate::executor::protocol::{ExecutorReply, HelloError, READ_BYTES};

/// A part of the room for answers, given back when it is dropped. `None`: of an answer that is our own.
pub(crate) type Held = Option<OwnedSemaphorePermit>;

/// Whose answers these are, where they go, and what limits them.
pub(crate) struct Source {
    /// Which start of the environment's executor this is.
    pub(crate) generation: u64,
    /// Where the answers go: the engine's queue.
    pub(crate) messages: mpsc::UnboundedSender<Message>,
    /// What answers that are not written yet may take together, in KiB.
    pub(crate) room: Arc<Semaphore>,
    /// How long the process may say nothing.
    pub(crate) silence: Duration,
    /// How long it may say nothing before its first word.
    pub(crate) startup: Duration,
}

/// Reads to the end; the last message is [`Message::Ended`].
pub(crate) async fn read(replies: impl AsyncRead + Unpin, source: Source) {
    let mut replies = BufReader::with_capacity(READ_BYTES, replies);
    let mut has_greeted = false;
    let why = loop {
        match next(&mut replies, &source, &mut has_greeted).await {
            Ok(Some(message)) => {
                if source.messages.send(message).is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(bounds::reason(error.to_string())),
        }
    };
    let generation = source.generation;
    let _ = source.messages.send(Message::Ended { generation, why });
}

/// The next message that is of use; `None`: the pipe ended, if need be in the middle of a frame.
async fn next(
    replies: &mut BufReader<impl AsyncRead + Unpin>,
    source: &Source,
    has_greeted: &mut bool,
) -> io::Result<Option<Message>> {
    let generation = source.generation;
    loop {
        let silence = match *has_greeted {
            true => source.silence,
            false => source.startup,
        };
        let length = match within(silence, replies.read_u32()).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            length => length?,
        };
        if length > MAX_REPLY_BYTES {
            return Err(io::Error::other(format!(
                "it sent a frame of {length} bytes, the limit is {MAX_REPLY_BYTES}"
            )));
        }
        let n_kib = (length >> 10) + 1;
        let room = Arc::clone(&source.room).acquire_many_owned(n_kib);
        let mut held = room.await.map_err(io::Error::other)?;
        let mut body = Vec::with_capacity((length as usize).min(1 << 16));
        let mut rest = (&mut *replies).take(u64::from(length));
        within(source.silence, rest.read_to_end(&mut body)).await?;
        if body.len() != length as usize {
            return Ok(None);
        }
        held.merge(room_for_values(source, &body, n_kib).await?);
        let held: Held = Some(held);
        let reply = rmp_serde::from_slice(&body).map_err(io::Error::other)?;
        if !*has_greeted {
            let ExecutorReply::Hello(hello) = reply else {
                let peer = "executor";
                return Err(io::Error::other(HelloError::Missing { peer }));
            };
            hello.check_executor().map_err(io::Error::other)?;
            *has_greeted = true;
            continue;
        }
        match reply {
            ExecutorReply::Alive | ExecutorReply::Hello(_) => {}
            ExecutorReply::Done(mut done) => {
                bounds::bound(&mut done.outcome, &bounds::RUN);
                let done = Box::new(done);
                return Ok(Some(Message::Done {
                    generation,
                    done,
                    held,
                }));
            }
            ExecutorReply::Ask {
                id,
                method,
                arguments,
            } => {
                return Ok(Some(Message::Ask {
                    generation,
                    id,
                    method,
                    arguments,
                    held,
                }));
            }
        }
    }
}

/// What the values of a frame take beyond the bytes that it has taken already. Nobody else takes from this room, so that what
/// fits comes free.
async fn room_for_values(
    source: &Source,
    body: &[u8],
    n_kib: u32,
) -> io::Result<OwnedSemaphorePermit> {
    let weight = bounds::weight_kib(body);
    if weight > ROOM_KIB {
        return Err(io::Error::other(format!(
            "it sent a frame with so many values that they would take {} MiB, the limit is {}",
            weight >> 10,
            ROOM_KIB >> 10
        )));
    }
    let more = u32::try_from(weight)
        .unwrap_or(u32::MAX)
        .saturating_sub(n_kib);
    let room = Arc::clone(&source.room).acquire_many_owned(more);
    room.await.map_err(io::Error::other)
}

/// Reads, and fails if nothing comes for as long as the process may be silent.
async fn within<T>(
    silence: Duration,
    reading: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    match unless_silent(silence, reading).await {
        Some(read) => read,
        None => Err(io::Error::other(format!(
            "it gave no sign of life for {} s, so it is stopped or stuck",
            silence.as_secs_f64()
        ))),
    }
}

#[cfg(test)]
mod tests;
