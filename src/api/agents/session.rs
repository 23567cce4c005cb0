//! One connection of an agent after its hello: what it says goes to the engine, what the engine says goes to it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::sync::{Semaphore, mpsc};
use tokio_tungstenite::tungstenite::Message as Frame;

use super::{ROOM_KIB, Socket};
use crate::domain::{AgentName, CodeModule, Content, EnvironmentId, Timestamp, chain};
use crate::executor::external::{AgentMessage, Outgoing};
use crate::executor::link::Message;
use crate::executor::progress::Progress;
use crate::executor::protocol::TaskDone;
use crate::executor::remote::{self, AgentCommand, AgentReply, BEAT, MAX_NEEDED, SILENCE, VERSION};
use crate::executor::{bounds, clock};
use crate::files::Files;

/// A message that is not taken for this long: the agent does not read.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Calls of handlers of a connection that are not answered: the next one is not read. Each answer may take 16 MiB.
const ASKS_AT_ONCE: usize = 4;

/// By how much the agent's clock is behind ours, in microseconds.
#[derive(Debug, Default)]
pub(super) struct Clock(AtomicI64);

impl Clock {
    pub(super) fn set(&self, theirs: i64) {
        self.0
            .store(Timestamp::now().0.saturating_sub(theirs), Relaxed);
    }

    /// Makes the times of a result ours, and says so in its log, if the agent's clock is wrong.
    fn correct(&self, done: &mut TaskDone) {
        let behind = self.0.load(Relaxed);
        if behind.abs() > clock::TOLERANCE_US {
            done.finished_us = done.finished_us.saturating_add(behind);
            clock::correct(&mut done.outcome.logs, behind);
        }
        // Whatever it says, nothing ends later than now.
        done.finished_us = done.finished_us.min(Timestamp::now().0);
    }
}

/// What both tasks of a connection know.
pub(super) struct Session {
    clock: Clock,
    files: Files,
    progress: Progress,
    /// Contents that code which was sent is made of: it may have no others.
    announced: Mutex<HashSet<String>>,
}

impl Session {
    pub(super) fn new(clock: Clock, files: Files, progress: Progress) -> Self {
        Self {
            clock,
            files,
            progress,
            announced: Mutex::default(),
        }
    }

    /// Reads until the connection ends; gives why.
    pub(super) async fn read(
        &self,
        mut stream: SplitStream<Socket>,
        connection: u64,
        messages: mpsc::UnboundedSender<Message>,
        room: Arc<Semaphore>,
        contents: mpsc::Sender<AgentCommand>,
    ) -> String {
        let turns = Arc::new(Semaphore::new(ASKS_AT_ONCE));
        loop {
            let document = match self.progress.while_reading(SILENCE, stream.next()).await {
                None => return format!("it said nothing for {} s", SILENCE.as_secs()),
                Some(None) => return "it hung up".to_owned(),
                Some(Some(Err(error))) => return chain(&error),
                Some(Some(Ok(Frame::Binary(document)))) => document,
                Some(Some(Ok(Frame::Close(_)))) => return "it said goodbye".to_owned(),
                Some(Some(Ok(Frame::Text(_)))) => return "it sent a text".to_owned(),
                Some(Some(Ok(_))) => continue,
            };
            let weight = bounds::weight_kib(&document);
            if weight > ROOM_KIB {
                return format!(
                    "it sent a message with so many values that they would take {} MiB, the limit is {}",
                    weight >> 10,
                    ROOM_KIB >> 10
                );
            }
            let n_kib = u32::try_from(weight).unwrap_or(u32::MAX);
            let Ok(permit) = Arc::clone(&room).acquire_many_owned(n_kib).await else {
                return "the server stops".to_owned();
            };
            let reply = match remote::decode(&document) {
                Ok(reply) => reply,
                Err(error) => {
                    return bounds::reason(format!("it sent what is no message: {error}"));
                }
            };
            let message = match reply {
                AgentReply::Hello(_) => return "it said hello twice".to_owned(),
                AgentReply::Alive { clock_us } => {
                    self.clock.set(clock_us);
                    continue;
                }
                AgentReply::Need { names } => {
                    if let Err(why) = self.give(names, &contents).await {
                        return why;
                    }
                    continue;
                }
                AgentReply::Done {
                    number, mut done, ..
                } => {
                    bounds::bound(&mut done.outcome, &bounds::RUN);
                    self.clock.correct(&mut done);
                    AgentMessage::Done {
                        number,
                        done: Box::new(done),
                    }
                }
                AgentReply::Ask {
                    id,
                    method,
                    arguments,
                } => {
                    // Its answer gives the place back when it is sent.
                    let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
                        return "the server stops".to_owned();
                    };
                    AgentMessage::Ask {
                        id,
                        method,
                        arguments,
                        turn,
                    }
                }
            };
            let held = Some(permit);
            let message = Message::Agent {
                connection,
                message,
                held,
            };
            if messages.send(message).is_err() {
                return "the environment was stopped".to_owned();
            }
        }
    }

    /// Sends contents of the code that the agent was told of.
    async fn give(
        &self,
        names: Vec<String>,
        contents: &mpsc::Sender<AgentCommand>,
    ) -> Result<(), String> {
        if names.len() > MAX_NEEDED {
            return Err(format!(
                "it asks for {} contents at once, the limit is {MAX_NEEDED}",
                names.len()
            ));
        }
        for name in names {
            let is_announced = {
                let announced = self
                    .announced
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                announced.contains(&name)
            };
            if !is_announced {
                return Err("it asks for a content that is of no code of its agents".to_owned());
            }
            let (files, wanted) = (self.files.clone(), name.clone());
            let content = tokio::task::spawn_blocking(move || files.get(&wanted)).await;
            let command = match content.ok().flatten() {
                Some(content) => AgentCommand::Content { content },
                None => AgentCommand::NoContent { name },
            };
            if contents.send(command).await.is_err() {
                return Err("the connection is closed".to_owned());
            }
        }
        Ok(())
    }

    /// Writes until the connection ends, or the engine lets go of it; gives why.
    pub(super) async fn write(
        &self,
        mut sink: SplitSink<Socket, Frame>,
        (environment_id, left_out): (EnvironmentId, Vec<AgentName>),
        mut queued: mpsc::UnboundedReceiver<Outgoing>,
        mut contents: mpsc::Receiver<AgentCommand>,
    ) -> String {
        let welcome = AgentCommand::Welcome {
            version: VERSION,
            environment_id,
            left_out,
        };
        if let Err(why) = send(&mut sink, &welcome).await {
            return why;
        }
        let mut beat = tokio::time::interval(BEAT);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut has_contents = true;
        loop {
            // Dropping a receive or a tick loses nothing; messages are written after the wait.
            let command = tokio::select! {
                outgoing = queued.recv() => match outgoing {
                    Some(Outgoing::Command(command)) => command,
                    Some(Outgoing::Answer { document, turn }) => {
                        if let Err(why) = send_document(&mut sink, document).await {
                            return why;
                        }
                        drop(turn);
                        continue;
                    }
                    None => {
                        let _ = sink.close().await;
                        return "another connection of it took over, its agents are others by now, or the environment was stopped".to_owned();
                    }
                },
                content = contents.recv(), if has_contents => match content {
                    Some(content) => content,
                    None => { has_contents = false; continue }
                },
                _ = beat.tick() => AgentCommand::Alive,
            };
            if let AgentCommand::Code { modules, .. } = &command {
                let mut announced = self
                    .announced
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                announced.extend(contents_of(modules));
            }
            if let Err(why) = send(&mut sink, &command).await {
                return why;
            }
        }
    }
}

/// The names of the contents of modules.
fn contents_of(modules: &[CodeModule]) -> impl Iterator<Item = String> {
    let files = modules.iter().flat_map(|module| &module.files);
    files.filter_map(|file| match &file.content {
        Content::Sha1(name) => Some(name.clone()),
        Content::Path(_) => None,
    })
}

pub(super) async fn send(
    sink: &mut SplitSink<Socket, Frame>,
    command: &AgentCommand,
) -> Result<(), String> {
    let document = remote::encode(command).map_err(|error| error.to_string())?;
    send_document(sink, document).await
}

async fn send_document(
    sink: &mut SplitSink<Socket, Frame>,
    document: Vec<u8>,
) -> Result<(), String> {
    let began = Instant::now();
    let sent = sink.send(Frame::Binary(document.into()));
    match tokio::time::timeout(WRITE_PATIENCE, sent).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err(format!(
            "it read nothing for {} s",
            began.elapsed().as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::domain::{ActionId, HandlerStatus, LogLevel};
    use crate::executor::protocol::{LogLine, TaskOutcome};

    const YEAR: i64 = 365 * 86_400_000_000;

    fn done(finished_us: i64) -> TaskDone {
        let line = |msg: &str, timestamp_us: i64| LogLine {
            level: LogLevel::Info,
            msg: msg.into(),
            kwargs: Map::new(),
            timestamp_us,
        };
        TaskDone {
            action: ActionId::generate(),
            finished_us,
            outcome: TaskOutcome {
                logs: vec![line("begin", finished_us - 5), line("end", finished_us)],
                ..TaskOutcome::of(HandlerStatus::Deployed)
            },
        }
    }

    /// Given: agents whose clocks are a year behind, a year ahead, and a second off. Expected: the times of the first two are
    /// ours, and their logs say so in front of what came of the run.
    #[test]
    fn a_clock_that_is_wrong_is_corrected_and_called_wrong() {
        for (off, word) in [(-YEAR, "behind"), (YEAR, "ahead")] {
            let now = Timestamp::now().0;
            let clock = Clock::default();
            clock.set(now + off);
            let mut done = done(now + off);
            clock.correct(&mut done);
            let error = (done.finished_us - now).abs();
            assert!(error < clock::TOLERANCE_US, "{word}: {error}");
            let logs = &done.outcome.logs;
            let texts: Vec<&str> = logs.iter().map(|line| &*line.msg).collect();
            assert!(
                matches!(texts[..], ["begin", warning, "end"] if warning.contains(word)),
                "{texts:?}"
            );
            assert!(
                logs.iter()
                    .all(|line| (line.timestamp_us - now).abs() < clock::TOLERANCE_US),
                "{logs:?}"
            );
        }
        let now = Timestamp::now().0;
        let clock = Clock::default();
        clock.set(now - 1_000_000);
        let mut done = done(now - 1_000_000);
        clock.correct(&mut done);
        assert_eq!(
            (done.finished_us, done.outcome.logs.len()),
            (now - 1_000_000, 2)
        );
    }
}
