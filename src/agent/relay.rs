//! The loop of an agent: runs go from the server to the executor, results from the executor to the server, by way of the journal.
//!
//! Who wakes it: the connection, the executor, and the signal to stop. What it owns: the journal, the executor, and what is known of
//! code. A run that is handed over twice is begun once, since the journal knows it. While there is no connection, the executor goes
//! on, and its results wait. At shutdown it waits a moment for what runs; the rest is told as cut off at the next start.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::Options;
use super::code::{Codes, Ready};
use super::dial::{self, Event, Target};
use super::journal::{Journal, interrupted, unavailable};
use super::packages::PackageVenvs;
use crate::domain::{ActionId, AgentName, EnvironmentId, Timestamp};
use crate::executor::bounds::MAX_REPLY_BYTES;
use crate::executor::far_python::FarPython;
use crate::executor::limits::Limits;
use crate::executor::packages::not_installed;
use crate::executor::progress::unless_silent;
use crate::executor::protocol::{ExecutorCommand, ExecutorReply, Hello, Task, TaskDone};
use crate::executor::remote::{AgentCommand, AgentHello, AgentReply, Carried, VERSION};
use crate::executor::transport::{self, Commands, Connection, Pipe, RemoteProcess, Transport};
use crate::executor::variables;
use crate::process;

/// An executor says every 5 s that it runs; one that is silent for longer is stuck.
const EXECUTOR_SILENCE: Duration = Duration::from_secs(15);
/// How long the end of the agent waits for runs, and for the server to take their results.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the executor says, and which one.
struct Heard {
    generation: u64,
    /// `None`: it has ended.
    reply: Option<ExecutorReply>,
}

/// The executor on this machine.
struct Executor {
    commands: Box<dyn Commands>,
    process: Box<dyn RemoteProcess>,
    /// Runs that it was given.
    given: HashSet<ActionId>,
}

struct Relay {
    options: Options,
    instance: Uuid,
    /// Made anew at each start.
    process: Uuid,
    journal: Journal,
    codes: Codes,
    limits: Limits,
    executor: Option<Executor>,
    generation: u64,
    heard: mpsc::UnboundedSender<Heard>,
    /// To the server, while there is a connection on which it has let us in.
    replies: Option<mpsc::UnboundedSender<AgentReply>>,
    environment: Option<EnvironmentId>,
    /// The server has taken it, and the connection stands.
    is_welcome: bool,
}

/// Runs until it is stopped.
pub(super) async fn run(
    options: Options,
    instance: Uuid,
    journal: Journal,
    target: Target,
    stop: CancellationToken,
) {
    let (heard, mut of_executor) = mpsc::unbounded_channel();
    let (events, mut of_server) = mpsc::unbounded_channel();
    let (installed, mut of_installers) = mpsc::unbounded_channel();
    let named = options.python.clone().map(|path| (path, "--python"));
    let mut relay = Relay {
        codes: Codes::new(
            FarPython::new(&options.data, named),
            PackageVenvs::new(&options, installed),
        ),
        limits: options.limits,
        options,
        instance,
        process: Uuid::new_v4(),
        journal,
        executor: None,
        generation: 0,
        heard,
        replies: None,
        environment: None,
        is_welcome: false,
    };
    let hang_up = CancellationToken::new();
    let dialing = tokio::spawn(dial::run(target, events, hang_up.clone()));
    let mut deadline = None;
    loop {
        if deadline.is_some() && relay.is_done() {
            break;
        }
        let is_over = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        // Dropping a receive loses nothing; what is done is done in the bodies.
        let done = tokio::select! {
            Some(event) = of_server.recv() => relay.on_event(event, deadline.is_some()).await,
            Some(heard) = of_executor.recv() => relay.on_heard(heard).await,
            Some(installed) = of_installers.recv() => {
                let ready = relay.codes.on_installed(installed);
                relay.on_ready(ready).await
            }
            () = stop.cancelled(), if deadline.is_none() => {
                deadline = Some(tokio::time::Instant::now() + PATIENCE);
                Ok(())
            }
            () = is_over => break,
        };
        if let Err(error) = done {
            // Without the journal nothing can be promised.
            tracing::error!(%error, "cannot write the journal; the agent ends");
            break;
        }
    }
    hang_up.cancel();
    if let Some(executor) = relay.executor.take() {
        transport::close(executor.commands, executor.process).await;
    }
    let _ = dialing.await;
}

impl Relay {
    /// Nothing runs, and the server has all results, or cannot be told.
    fn is_done(&self) -> bool {
        let is_reported = self.replies.is_none() || self.journal.results().next().is_none();
        self.journal.running().is_empty() && is_reported
    }

    /// `is_ending`: runs are not begun any more.
    async fn on_event(&mut self, event: Event, is_ending: bool) -> io::Result<()> {
        match event {
            Event::Open { replies } => {
                let hello = AgentHello {
                    version: VERSION,
                    instance: self.instance,
                    process: self.process,
                    names: self.options.names.clone(),
                    clock_us: Timestamp::now().0,
                    carried: self.journal.carried(),
                };
                let _ = replies.send(AgentReply::Hello(hello));
                self.replies = Some(replies);
            }
            Event::Cut => {
                self.replies = None;
                // They have not begun, and could not before the server comes back.
                for action in self.codes.on_cut() {
                    self.journal.give_back(action)?;
                }
                // Not of a server that would not have it: that is in the log already, and nothing changed.
                if std::mem::take(&mut self.is_welcome) {
                    tracing::info!("runs go on without the server; their results are kept");
                }
            }
            Event::Command(command) => return self.on_command(*command, is_ending).await,
        }
        Ok(())
    }

    async fn on_command(&mut self, command: AgentCommand, is_ending: bool) -> io::Result<()> {
        match command {
            AgentCommand::Welcome {
                environment_id,
                left_out,
                ..
            } => {
                self.environment = Some(environment_id);
                self.is_welcome = true;
                tracing::info!("connected to {}", self.options.server);
                if !left_out.is_empty() {
                    let names: Vec<&str> = left_out.iter().map(AgentName::as_str).collect();
                    tracing::warn!(
                        "these agents run elsewhere: {}; the setting `agent_map` of the environment has to say `external:` for each",
                        names.join(", ")
                    );
                }
                for kept in self.journal.results() {
                    self.tell(AgentReply::Done {
                        number: kept.number,
                        carried: kept.carried.clone(),
                        done: kept.done.clone(),
                    });
                }
            }
            AgentCommand::Code {
                code,
                modules,
                packages,
            } => {
                self.codes.announce(code, modules, packages);
                self.ask_for_contents();
                self.codes.remove_old().await;
            }
            AgentCommand::Content { content } => {
                let ready = self.codes.take(&content);
                self.on_ready(ready).await?;
            }
            AgentCommand::NoContent { name } => {
                let ready = self.codes.has_come(&name);
                self.on_ready(ready).await?;
            }
            AgentCommand::Run(task) => {
                let is_ours = self.options.names.contains(&task.agent);
                if is_ending || !is_ours || self.journal.knows(task.action) {
                    return Ok(());
                }
                self.journal.begin(Carried::from(&task))?;
                if self.codes.look_again(&task.code) {
                    self.ask_for_contents();
                }
                let readiness = self.codes.ready(task);
                self.on_ready(readiness).await?;
            }
            AgentCommand::Answer { id, code, body } => {
                self.command(&ExecutorCommand::Answer { id, code, body })
                    .await;
            }
            AgentCommand::Acknowledged { numbers } => self.journal.acknowledge(&numbers)?,
            AgentCommand::Alive | AgentCommand::Refused { .. } => {}
        }
        Ok(())
    }

    /// Begins runs that wait for nothing more, and ends those that cannot begin.
    async fn on_ready(&mut self, ready: Ready) -> io::Result<()> {
        for task in ready.tasks {
            self.start(task).await?;
        }
        for (task, why) in ready.failed {
            let why = not_installed(&task.resource_type, &why);
            self.end(unavailable(task.action, why))?;
        }
        Ok(())
    }

    fn ask_for_contents(&self) {
        let names = self.codes.missing();
        if !names.is_empty() {
            self.tell(AgentReply::Need { names });
        }
    }

    /// Says something to the server, if it can be said now.
    fn tell(&self, reply: AgentReply) {
        if let Some(replies) = &self.replies {
            let _ = replies.send(reply);
        }
    }

    /// Gives a run to the executor.
    async fn start(&mut self, task: Task) -> io::Result<()> {
        let action = task.action;
        match self.hand_over(task).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let why = format!("cannot reach the executor process: {error}");
                self.end(interrupted(action, &why))
            }
        }
    }

    async fn hand_over(&mut self, task: Task) -> io::Result<()> {
        self.ensure_executor().await?;
        let environment = self
            .environment
            .unwrap_or_else(|| EnvironmentId::named("", ""));
        let announced = self.codes.command(&task.code, environment);
        let Some(executor) = &mut self.executor else {
            return Err(io::Error::other("it has ended"));
        };
        if let Some(code) = announced {
            process::write_frame(&mut executor.commands, &code).await?;
        }
        executor.given.insert(task.action);
        process::write_frame(&mut executor.commands, &ExecutorCommand::Run(task)).await
    }

    async fn ensure_executor(&mut self) -> io::Result<()> {
        if self.executor.is_some() {
            return Ok(());
        }
        self.generation += 1;
        self.codes.on_new_executor();
        let transport = Pipe {
            limits: self.limits,
            variables: variables::of_process(),
        };
        let Connection {
            mut commands,
            mut replies,
            process,
            is_reached: _,
        } = transport.connect()?;
        process::write_frame(&mut commands, &ExecutorCommand::Hello(Hello::ours())).await?;
        let (heard, generation) = (self.heard.clone(), self.generation);
        // It ends with the executor, or with the relay.
        tokio::spawn(async move {
            loop {
                let read = process::read_frame_within(&mut replies, MAX_REPLY_BYTES);
                let reply = match unless_silent(EXECUTOR_SILENCE, read).await {
                    Some(Ok(reply)) => reply,
                    Some(Err(_)) | None => None,
                };
                let is_end = reply.is_none();
                if heard.send(Heard { generation, reply }).is_err() || is_end {
                    return;
                }
            }
        });
        self.executor = Some(Executor {
            commands,
            process,
            given: HashSet::new(),
        });
        Ok(())
    }

    async fn command(&mut self, command: &ExecutorCommand) {
        if let Some(executor) = &mut self.executor {
            // One that does not take it has ended, which is told elsewhere.
            let _ = process::write_frame(&mut executor.commands, command).await;
        }
    }

    async fn on_heard(&mut self, heard: Heard) -> io::Result<()> {
        if heard.generation != self.generation {
            return Ok(());
        }
        match heard.reply {
            Some(ExecutorReply::Hello(_) | ExecutorReply::Alive) => {}
            Some(ExecutorReply::Done(done)) => {
                if let Some(executor) = &mut self.executor {
                    executor.given.remove(&done.action);
                }
                self.end(done)?;
            }
            Some(ExecutorReply::Ask {
                id,
                method,
                arguments,
            }) => match &self.replies {
                Some(_) => self.tell(AgentReply::Ask {
                    id,
                    method,
                    arguments,
                }),
                None => {
                    let body = json!({"message": "the server is not connected"});
                    let code = 503;
                    self.command(&ExecutorCommand::Answer { id, code, body })
                        .await;
                }
            },
            None => {
                let Some(mut executor) = self.executor.take() else {
                    return Ok(());
                };
                tracing::error!(
                    "the executor process ended or is stuck; the next run starts another one"
                );
                executor.process.abort();
                for action in executor.given {
                    let why = "the executor process of the agent ended during this run";
                    self.end(interrupted(action, why))?;
                }
            }
        }
        Ok(())
    }

    /// Keeps the result of a run, and tells the server.
    fn end(&mut self, done: TaskDone) -> io::Result<()> {
        if let Some(kept) = self.journal.end(done)? {
            self.tell(AgentReply::Done {
                number: kept.number,
                carried: kept.carried,
                done: kept.done,
            });
        }
        Ok(())
    }
}
