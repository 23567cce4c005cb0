//! Our end of the processes that run handlers: one an environment, started when it is needed.
//!
//! Who wakes it: the engine, with tasks. What it owns: the child process and the tasks that it has not answered. A
//! child that ends fails what it was running as `unavailable`; the next task starts another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use steward_compiler::PythonRuntime;
use steward_compiler::protocol::{HandlerOutcome, LogLine};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{Semaphore, mpsc};

use crate::domain::{ActionId, EnvironmentId, Timestamp};
use crate::executor::agent_code::AgentCode;
use crate::executor::protocol::{ExecutorCommand, Python, Task, TaskDone};
use crate::process;

use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::replies::{self, Held};

/// An executor that says nothing for this long is stopped, or its host is too busy for it to do any work.
const SILENCE: Duration = Duration::from_secs(25);
/// What executors of an environment have said and what is not written yet takes so much at most, in KiB; beyond it they wait.
const ROOM_KIB: usize = 4 * (MAX_REPLY_BYTES as usize >> 10);

/// An executor reads at once; one that does not for this long is stuck.
const WRITE_PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// The executor process of one environment.
#[derive(Debug)]
pub(crate) struct Executor {
    environment: EnvironmentId,
    python: Option<PythonRuntime>,
    done: mpsc::UnboundedSender<Message>,
    running: Option<Running>,
    generation: u64,
    /// The room for answers that are not written yet, in KiB.
    room: Arc<Semaphore>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    stdin: ChildStdin,
    known_code: Vec<String>,
    open: HashMap<ActionId, (String, bool, i64)>,
}

/// What comes back from a child: `generation` tells which.
#[derive(Debug)]
pub(crate) enum Message {
    Done {
        generation: u64,
        done: Box<TaskDone>,
        held: Held,
    },
    /// The pipe ended; or why it is not read any more.
    Ended {
        generation: u64,
        why: Option<String>,
    },
    Ask {
        generation: u64,
        id: u64,
        method: String,
        arguments: serde_json::Map<String, serde_json::Value>,
        held: Held,
    },
}

impl Executor {
    pub(crate) fn new(
        environment: EnvironmentId,
        python: Option<PythonRuntime>,
        done: mpsc::UnboundedSender<Message>,
    ) -> Self {
        Self {
            environment,
            python,
            done,
            running: None,
            generation: 0,
            room: Arc::new(Semaphore::new(ROOM_KIB)),
        }
    }

    /// Starts the process if there is none, so that the first task does not wait for it.
    pub(crate) fn warm(&mut self) -> std::io::Result<()> {
        self.start().map(|_| ())
    }

    /// Hands a task over. What cannot be handed over comes back as done, `unavailable`.
    pub(crate) async fn run(&mut self, task: Task, code: &AgentCode) {
        let now = Timestamp::now().0;
        let open = (task.resource_id.clone(), task.dry_run, now);
        let action = task.action;
        if let Err(error) = self.send(task, code, open.clone()).await {
            let message = format!("cannot reach the executor process: {error}");
            if let Some(running) = &mut self.running {
                running.open.remove(&action);
            }
            let _ = self.done.send(Message::Done {
                generation: self.generation,
                done: Box::new(unavailable(action, open, message)),
                held: None,
            });
        }
    }

    async fn send(
        &mut self,
        task: Task,
        agent_code: &AgentCode,
        open: (String, bool, i64),
    ) -> std::io::Result<()> {
        let environment_id = self.environment;
        let mut python = self.python.as_ref().map(Python::from);
        if let (Some(python), Some(interpreter)) = (&mut python, &agent_code.interpreter) {
            python.interpreter.clone_from(interpreter);
        }
        let running = self.start()?;
        if !running.known_code.contains(&task.code) {
            let code = task.code.clone();
            let command = ExecutorCommand::Code {
                code: code.clone(),
                modules: agent_code.modules.clone(),
                python,
                environment_id,
            };
            process::write_frame(&mut running.stdin, &command).await?;
            running.known_code.push(code);
        }
        running.open.insert(task.action, open);
        let command = ExecutorCommand::Run(task);
        let written = process::write_frame(&mut running.stdin, &command);
        match tokio::time::timeout(WRITE_PATIENCE, written).await {
            Ok(written) => written,
            Err(_) => {
                // It does not read any more. Its end is told by the closed pipe, with all that it was running.
                end(&mut running.child);
                Ok(())
            }
        }
    }

    /// Takes note of an answer. `None`: it is from a process that was given up.
    pub(crate) fn answered(&mut self, generation: u64, done: TaskDone) -> Option<TaskDone> {
        if generation != self.generation {
            return None;
        }
        if let Some(running) = &mut self.running {
            running.open.remove(&done.action);
        }
        Some(done)
    }

    /// Gives a handler its answer, if the process that asked is still there.
    pub(crate) async fn answer(
        &mut self,
        generation: u64,
        id: u64,
        (code, body): (u16, serde_json::Value),
    ) {
        let Some(running) = self
            .running
            .as_mut()
            .filter(|_| generation == self.generation)
        else {
            return;
        };
        let command = ExecutorCommand::Answer { id, code, body };
        let written = process::write_frame(&mut running.stdin, &command);
        if !matches!(
            tokio::time::timeout(WRITE_PATIENCE, written).await,
            Ok(Ok(()))
        ) {
            end(&mut running.child);
        }
    }

    /// The process ended, or is given up: what it was running is `unavailable`.
    pub(crate) fn ended(&mut self, generation: u64, why: Option<&str>) -> Vec<TaskDone> {
        if generation != self.generation {
            return Vec::new();
        }
        let what = match why {
            None => "ended unexpectedly".to_owned(),
            Some(why) => format!("was ended: {why}"),
        };
        if let Some(running) = self.running.as_mut().filter(|_| why.is_some()) {
            end(&mut running.child);
        }
        self.stop(&format!(
            "Failure during executor execution for resource: the executor process {what}"
        ))
    }

    /// Ends the process; what it was running is `unavailable`, and says why.
    pub(crate) fn stop(&mut self, message: &str) -> Vec<TaskDone> {
        let Some(mut running) = self.running.take() else {
            return Vec::new();
        };
        process::kill_group(&mut running.child);
        let open = running.open.into_iter();
        open.map(|(action, open)| unavailable(action, open, message.to_owned()))
            .collect()
    }

    fn start(&mut self) -> std::io::Result<&mut Running> {
        if self.running.is_none() {
            self.generation += 1;
            let mut arguments = vec!["executor".to_owned()];
            // It makes files of the host, which are not for the server's user only.
            if let Some(umask) = process::original_umask() {
                arguments.extend(["--umask".to_owned(), umask]);
            }
            let mut child = process::spawn_own(&arguments)?;
            let stdin = child
                .stdin
                .take()
                .ok_or_else(|| std::io::Error::other("no pipe to the executor"))?;
            let stdout = child
                .stdout
                .take()
                .ok_or_else(|| std::io::Error::other("no pipe from the executor"))?;
            let source = replies::Source {
                generation: self.generation,
                messages: self.done.clone(),
                room: Arc::clone(&self.room),
                silence: SILENCE,
            };
            // Ends with the pipe, that is with the process, or with its silence; the engine learns of it by `Ended`.
            tokio::spawn(replies::read(stdout, source));
            self.running = Some(Running {
                child,
                stdin,
                known_code: Vec::new(),
                open: HashMap::new(),
            });
        }
        self.running
            .as_mut()
            .ok_or_else(|| std::io::Error::other("the executor is gone"))
    }
}

/// Ends a process that does not work as it should, with all that its handlers run: a Python host that is stopped would not
/// notice that it is gone.
fn end(child: &mut Child) {
    if let Some(pid) = child.id() {
        process::kill_tree(pid);
    }
    process::kill_group(child);
}

fn unavailable(
    action: ActionId,
    (resource_id, dry_run, started_us): (String, bool, i64),
    message: String,
) -> TaskDone {
    let finished_us = Timestamp::now().0;
    let log = LogLine {
        level: "ERROR".to_owned(),
        msg: message,
        kwargs: serde_json::Map::new(),
        timestamp_us: finished_us,
    };
    let outcome = HandlerOutcome {
        status: "unavailable".to_owned(),
        change: "nochange".to_owned(),
        logs: vec![log],
        ..HandlerOutcome::default()
    };
    TaskDone {
        action,
        resource_id,
        dry_run,
        started_us,
        finished_us,
        outcome,
    }
}
