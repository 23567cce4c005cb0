//! What comes from an executor process: bounded in size, in number and in silence.
//!
//! One task a process reads its frames until the pipe ends, a frame is too large, or nothing comes for too long. Each
//! answer holds a part of the room that all of them share until what it says is written; when there is none left, the pipe
//! is not read, and the executor waits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::executor::bounds::{self, MAX_REPLY_BYTES};
use crate::executor::link::Message;
use crate::executor::protocol::{ExecutorReply, HelloError};

/// A part of the room for answers, given back when it is dropped. `None`: of an answer that is our own.
pub(crate) type Held = Option<OwnedSemaphorePermit>;

/// Whose answers these are, and where they go.
pub(crate) struct Source {
    pub(crate) generation: u64,
    pub(crate) messages: mpsc::UnboundedSender<Message>,
    /// In KiB.
    pub(crate) room: Arc<Semaphore>,
    pub(crate) silence: Duration,
}

/// Reads to the end; the last message is [`Message::Ended`].
pub(crate) async fn read(replies: impl AsyncRead + Unpin, source: Source) {
    let mut replies = BufReader::new(replies);
    let mut has_greeted = false;
    let why = loop {
        match next(&mut replies, &source, &mut has_greeted).await {
            Ok(Some(message)) => {
                if source.messages.send(message).is_err() {
                    return;
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let generation = source.generation;
    let _ = source.messages.send(Message::Ended { generation, why });
}

async fn next(
    replies: &mut BufReader<impl AsyncRead + Unpin>,
    source: &Source,
    has_greeted: &mut bool,
) -> io::Result<Option<Message>> {
    let generation = source.generation;
    loop {
        let length = match within(source, replies.read_u32()).await {
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
        let held: Held = Some(room.await.map_err(io::Error::other)?);
        let mut body = Vec::with_capacity((length as usize).min(1 << 16));
        let mut rest = (&mut *replies).take(u64::from(length));
        within(source, rest.read_to_end(&mut body)).await?;
        if body.len() != length as usize {
            return Ok(None);
        }
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

async fn within<T>(source: &Source, reading: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match tokio::time::timeout(source.silence, reading).await {
        Ok(read) => read,
        Err(_) => Err(io::Error::other(format!(
            "it gave no sign of life for {} s, so it is stopped or stuck",
            source.silence.as_secs_f64()
        ))),
    }
}

#[cfg(test)]
mod tests;
