//! Our end of the processes that run handlers: one an environment, started when it is needed.
//!
//! Who wakes it: the engine, with tasks. What it owns: the connection and the tasks that are not answered, with what each is
//! for. An executor that ends fails what it was running as `unavailable`; the next task starts another.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use steward_compiler::{PythonRuntime, protocol};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Semaphore, mpsc};

use crate::domain::{
    ActionId, CodeModule, Content, DryRunId, EnvironmentId, HandlerStatus, LogLevel, ResourceId,
    Timestamp,
};
use crate::executor::agent_code::AgentCode;
use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::clock;
use crate::executor::external::AgentMessage;
use crate::executor::packages::HandlerVenv;
use crate::executor::protocol::{
    ExecutorCommand, Hello, LogLine, Python, Task, TaskDone, TaskKind, TaskOutcome,
};
use crate::executor::replies::{self, Held};
use crate::executor::transport::{self, Commands, Connection, Far, RemoteProcess, Transport};
use crate::executor::unreached::Unreached;
use crate::files::Files;
use crate::process;

/// An executor that says nothing for this long is stopped, or its host is too busy for it to do any work.
const SILENCE: Duration = Duration::from_secs(15);
/// What executors of an environment have said and what is not written yet takes so much at most, in KiB; beyond it they wait.
pub(super) const ROOM_KIB: usize = 4 * (MAX_REPLY_BYTES as usize >> 10);

/// An executor reads at once; one that does not for this long is stuck.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);

/// Tasks are sent when their frames take so much, at the latest.
const UNSENT_BYTES: usize = 1 << 18;

/// The executor of one environment.
#[derive(Debug)]
pub(crate) struct Executor {
    environment: EnvironmentId,
    python: Option<PythonRuntime>,
    transport: Box<dyn Transport>,
    messages: mpsc::UnboundedSender<Message>,
    running: Option<Running>,
    unreached: Unreached,
    generation: u64,
    /// The room for answers that are not written yet, in KiB.
    room: Arc<Semaphore>,
}

#[derive(Debug)]
struct Running {
    commands: Box<dyn Commands>,
    process: Box<dyn RemoteProcess>,
    is_reached: Arc<AtomicBool>,
    known_code: Vec<String>,
    in_flight: HashMap<ActionId, InFlight>,
    /// Frames of tasks that are sent together.
    unsent: Vec<u8>,
    /// When a task was handed over, or ended, last.
    used: Instant,
}

/// A task that is not answered.
#[derive(Debug, Clone)]
struct InFlight {
    resource_id: ResourceId,
    purpose: Purpose,
    /// When it was handed over.
    given: Timestamp,
}

/// What a result is for: the kind of its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Deploy,
    DryRun(DryRunId),
    CollectFacts,
}

impl From<&TaskKind> for Purpose {
    fn from(kind: &TaskKind) -> Self {
        match kind {
            TaskKind::Deploy { .. } => Self::Deploy,
            TaskKind::DryRun { run, .. } => Self::DryRun(*run),
            TaskKind::CollectFacts => Self::CollectFacts,
        }
    }
}

/// The result of a task that was handed over.
#[derive(Debug)]
pub(crate) struct TaskResult {
    pub(crate) action: ActionId,
    pub(crate) resource_id: ResourceId,
    pub(crate) purpose: Purpose,
    pub(crate) finished: Timestamp,
    pub(crate) outcome: TaskOutcome,
}

impl TaskResult {
    /// Of a task that nobody runs any more, now; `why` is its one log line.
    pub(crate) fn unavailable(
        action: ActionId,
        resource_id: ResourceId,
        purpose: Purpose,
        why: String,
    ) -> Self {
        let finished = Timestamp::now();
        let line = LogLine {
            level: LogLevel::Error,
            msg: why,
            kwargs: Map::new(),
            timestamp_us: finished.0,
        };
        Self {
            action,
            resource_id,
            purpose,
            finished,
            outcome: TaskOutcome {
                logs: vec![line],
                ..TaskOutcome::of(HandlerStatus::Unavailable)
            },
        }
    }
}

/// What the engine hears: `generation` tells of which executor.
#[derive(Debug)]
pub(crate) enum Message {
    Done {
        generation: u64,
        done: Box<TaskDone>,
        held: Held,
    },
    /// The task never reached an executor.
    NotSent(Box<TaskResult>),
    /// The installation of packages has ended.
    Installed {
        digest: String,
        made: Result<HandlerVenv, String>,
    },
    /// The connection ended; or why it is not read any more.
    Ended {
        generation: u64,
        why: Option<String>,
    },
    Ask {
        generation: u64,
        id: u64,
        method: String,
        arguments: Map<String, Value>,
        held: Held,
    },
    /// From an agent on another machine.
    Agent {
        connection: u64,
        message: AgentMessage,
        held: Held,
    },
}

/// The number of the executor on this machine; those of other machines come after it.
pub(crate) const EXECUTOR_HERE: usize = 0;

/// The number of the executor that a generation is of.
pub(crate) fn executor_of(generation: u64) -> usize {
    (generation >> 32) as usize
}

impl Executor {
    /// `number`: which of the environment's executors it is.
    pub(crate) fn new(
        environment: EnvironmentId,
        python: Option<PythonRuntime>,
        transport: Box<dyn Transport>,
        messages: mpsc::UnboundedSender<Message>,
        number: u32,
    ) -> Self {
        Self {
            environment,
            python,
            transport,
            messages,
            running: None,
            unreached: Unreached::default(),
            // So that generations of all executors differ; see `executor_of`.
            generation: u64::from(number) << 32,
            room: Arc::new(Semaphore::new(ROOM_KIB)),
        }
    }

    /// Starts the process if there is none, so that the first task does not wait for it.
    pub(crate) async fn prestart(&mut self) -> io::Result<()> {
        self.start().await.map(|_| ())
    }

    /// Hands a task over, to be sent with others by [`Executor::flush`]. What cannot be handed over comes back as done,
    /// `unavailable`. `interpreter`: that of the virtual environment with the packages of the code.
    pub(crate) async fn run(&mut self, task: Task, code: &AgentCode, interpreter: Option<&Path>) {
        let action = task.action;
        let in_flight = InFlight {
            resource_id: task.resource_id.clone(),
            purpose: Purpose::from(&task.kind),
            given: Timestamp::now(),
        };
        let sent = self.send(task, code, interpreter, in_flight.clone());
        if let Err(error) = sent.await {
            let message = format!("cannot reach the executor process: {error}");
            if let Some(running) = &mut self.running {
                running.in_flight.remove(&action);
            }
            let result = Box::new(unavailable(action, in_flight, message));
            let _ = self.messages.send(Message::NotSent(result));
        }
    }

    async fn send(
        &mut self,
        task: Task,
        agent_code: &AgentCode,
        interpreter: Option<&Path>,
        in_flight: InFlight,
    ) -> io::Result<()> {
        let environment_id = self.environment;
        let mut python = self.python.as_ref().map(Python::from);
        let interpreter = interpreter.or(agent_code.interpreter.as_deref());
        if let (Some(python), Some(interpreter)) = (&mut python, interpreter) {
            python.interpreter = interpreter.to_owned();
        }
        let far = self.transport.far();
        if let Some(far) = &far {
            python = far_python(far);
        }
        let packages = agent_code.packages_elsewhere_for(&task.resource_type);
        let packages = packages.filter(|_| far.is_some());
        let files = self.python.as_ref().and_then(|python| python.files.clone());
        let running = self.start().await?;
        if far.is_some() && !running.known_code.contains(&task.code) {
            send_contents(&mut running.commands, &agent_code.modules, files).await?;
        }
        if !running.known_code.contains(&task.code) {
            let code = task.code.clone();
            let command = ExecutorCommand::Code {
                code: code.clone(),
                modules: agent_code.modules.clone(),
                python,
                environment_id,
                packages: packages.cloned(),
            };
            process::write_frame(&mut running.commands, &command).await?;
            running.known_code.push(code);
        }
        running.in_flight.insert(task.action, in_flight);
        running.used = Instant::now();
        let command = ExecutorCommand::Run(task);
        protocol::write_frame(&mut running.unsent, &command)?;
        if running.unsent.len() >= UNSENT_BYTES {
            self.flush().await;
        }
        Ok(())
    }

    /// Sends the tasks that were handed over since the last time, in one piece.
    pub(crate) async fn flush(&mut self) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|running| !running.unsent.is_empty())
        else {
            return;
        };
        let unsent = std::mem::take(&mut running.unsent);
        let commands = &mut running.commands;
        let written = async {
            commands.write_all(&unsent).await?;
            commands.flush().await
        };
        // One that does not read any more, or is gone: its end is told by the closed pipe, with all that it was running.
        if !matches!(
            tokio::time::timeout(WRITE_PATIENCE, written).await,
            Ok(Ok(()))
        ) {
            running.process.abort();
        }
    }

    /// Takes note of a result, and says what it is for. `None`: it is from an executor that was given up, or nobody asked.
    pub(crate) fn on_done(&mut self, generation: u64, done: TaskDone) -> Option<TaskResult> {
        let running = self.running.as_mut()?;
        if generation != self.generation {
            return None;
        }
        let InFlight {
            resource_id,
            purpose,
            given,
        } = running.in_flight.remove(&done.action)?;
        running.used = Instant::now();
        let (mut outcome, finished) = (done.outcome, Timestamp(done.finished_us));
        // It may be on another machine. Facts would be years old, and lines of its log in the future.
        let behind_us = clock::error_shown_by(finished, given, Timestamp::now());
        if behind_us != 0 {
            clock::correct(&mut outcome.logs, behind_us);
        }
        Some(TaskResult {
            action: done.action,
            resource_id,
            purpose,
            finished: Timestamp(finished.0.saturating_add(behind_us)),
            outcome,
        })
    }

    /// Gives a handler its answer, if the executor that asked is still there.
    pub(crate) async fn answer(&mut self, generation: u64, id: u64, (code, body): (u16, Value)) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|_| generation == self.generation)
        else {
            return;
        };
        let command = ExecutorCommand::Answer { id, code, body };
        let written = process::write_frame(&mut running.commands, &command);
        if !matches!(
            tokio::time::timeout(WRITE_PATIENCE, written).await,
            Ok(Ok(()))
        ) {
            running.process.abort();
        }
    }

    /// The resources that it runs just now, if it is that of this generation.
    pub(crate) fn running(&self, generation: u64) -> Vec<ResourceId> {
        let running = self.running.as_ref();
        let running = running.filter(|_| generation == self.generation);
        let tasks = running
            .into_iter()
            .flat_map(|running| running.in_flight.values());
        tasks.map(|task| task.resource_id.clone()).collect()
    }

    /// The executor ended, or is given up: what it was running is `unavailable`. `None`: it was let go of before.
    pub(crate) fn on_ended(
        &mut self,
        generation: u64,
        why: Option<&str>,
    ) -> Option<Vec<TaskResult>> {
        if generation != self.generation || self.running.is_none() {
            return None;
        }
        let what = match why {
            None => {
                let running = self.running.as_mut();
                let status = running.and_then(|running| running.process.status());
                let status = status.map(|status| format!(": {status}"));
                format!("ended unexpectedly{}", status.unwrap_or_default())
            }
            Some(why) => format!("was ended: {why}"),
        };
        if let Some((running, why)) = self.running.as_mut().zip(why) {
            running.process.abort();
            if !running.is_reached.load(Relaxed) {
                self.unreached.note(why);
            }
        }
        Some(self.stop(&what))
    }

    /// Ends the process; what it was running is `unavailable`, and says what became of the process.
    fn stop(&mut self, what: &str) -> Vec<TaskResult> {
        let Some(mut running) = self.running.take() else {
            return Vec::new();
        };
        running.process.end();
        let in_flight = running.in_flight.into_iter();
        in_flight
            .map(|(action, task)| {
                let why = format!(
                    "Failure during executor execution for resource {}: the executor process {what}",
                    task.resource_id
                );
                unavailable(action, task, why)
            })
            .collect()
    }

    /// Ends the process in order ([`transport::close`]); what it was running is `unavailable`, and says why.
    pub(crate) async fn close(&mut self, message: &str) -> Vec<TaskResult> {
        let Some(running) = self.running.take() else {
            return Vec::new();
        };
        transport::close(running.commands, running.process).await;
        let in_flight = running.in_flight.into_iter();
        in_flight
            .map(|(action, task)| unavailable(action, task, message.to_owned()))
            .collect()
    }

    /// Whether there is a process.
    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// How long the process had nothing to do, if there is one and it has nothing to do now.
    pub(crate) fn idle_for(&self) -> Option<Duration> {
        let running = self.running.as_ref()?;
        let is_idle = running.in_flight.is_empty();
        is_idle.then(|| running.used.elapsed())
    }

    /// Ends the process in order ([`transport::close`]), beside everything else. The next task starts another one.
    pub(crate) fn leave(&mut self) {
        if let Some(Running {
            commands, process, ..
        }) = self.running.take()
        {
            // It ends with the process, which has a limit for that.
            tokio::spawn(transport::close(commands, process));
        }
    }

    async fn start(&mut self) -> io::Result<&mut Running> {
        if self.running.is_none() {
            self.unreached.check()?;
            self.generation += 1;
            let Connection {
                mut commands,
                replies,
                process,
                is_reached,
            } = self.transport.connect()?;
            let source = replies::Source {
                generation: self.generation,
                messages: self.messages.clone(),
                room: Arc::clone(&self.room),
                silence: SILENCE,
                startup: self.transport.far().map_or(SILENCE, |far| far.startup),
            };
            // Its hello is awaited by whoever reads its replies: tasks that are on their way to one that we do not
            // understand come back as `unavailable`.
            let hello = ExecutorCommand::Hello(Hello::ours());
            process::write_frame(&mut commands, &hello).await?;
            // Ends with the connection, that is with the process, or with its silence; the engine learns of it by `Ended`.
            tokio::spawn(replies::read(replies, source));
            self.running = Some(Running {
                commands,
                process,
                is_reached,
                known_code: Vec::new(),
                in_flight: HashMap::new(),
                unsent: Vec::new(),
                used: Instant::now(),
            });
        }
        self.running
            .as_mut()
            .ok_or_else(|| io::Error::other("the executor is gone"))
    }
}

/// The Python of an executor that does not see our files: it has its own, and our package with it.
fn far_python(far: &Far) -> Option<Python> {
    Some(Python {
        interpreter: far.python.clone().unwrap_or_default().into(),
        package: PathBuf::new(),
        files: None,
    })
}

/// Sends the contents that some code is made of. What is not in the file store breaks its module there, which says so.
async fn send_contents(
    commands: &mut Box<dyn Commands>,
    modules: &[CodeModule],
    files: Option<PathBuf>,
) -> io::Result<()> {
    let Some(files) = files.map(Files::new) else {
        return Ok(());
    };
    let all = modules.iter().flat_map(|module| &module.files);
    for file in all {
        let Content::Sha1(name) = &file.content else {
            continue;
        };
        if let Some(content) = files.get(name) {
            process::write_frame(commands, &ExecutorCommand::Content { content }).await?;
        }
    }
    Ok(())
}

fn unavailable(action: ActionId, in_flight: InFlight, why: String) -> TaskResult {
    TaskResult::unavailable(action, in_flight.resource_id, in_flight.purpose, why)
}
