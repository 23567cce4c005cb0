//! What others reach an environment's engine by.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use steward_compiler::PythonRuntime;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::{Admission, run_until_stopped};
use crate::deploy::ApiRequests;
use crate::domain::{
    AgentName, DryRunId, EnvironmentId, FactTimes, ResourceId, Severity, VersionNumber, chain,
};
use crate::executor::external::Outgoing;
use crate::executor::limits::Limits;
use crate::executor::packages::PackageInstaller;
use crate::executor::remote::AgentHello;
use crate::executor::variables::Variables;
use crate::executor::waiting::Waiting;
use crate::lsm::Services;
use crate::observe::{ActionLogs, Bus, EventKind};
use crate::store::{self, DryRunNote, Notification, ResourceState, Store};

/// How a user asks for a deployment. Source: docs/reference/deployment.md § 4.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeployKind {
    /// What is not in its desired state.
    Deploy,
    /// Everything.
    Repair,
    /// Everything, because the server was started on a version that is in force already.
    Verify,
}

/// Why a request to an engine came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("nothing has been released in this environment yet")]
    NothingReleased,
    #[error("the environment is halted")]
    Halted,
    #[error("none of these agents exists: {0}")]
    UnknownAgents(String),
    #[error("there is no version {0}")]
    NoVersion(VersionNumber),
    #[error("the scheduler of this environment has ended")]
    Gone,
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// What an engine can be asked.
pub(super) enum Request {
    /// Look at the store: a version was released, a setting changed, the environment was halted or resumed.
    Wake,
    Deploy {
        /// What is to run.
        method: DeployKind,
        agents: Option<BTreeSet<AgentName>>,
        reply: oneshot::Sender<Result<Scheduled, RequestError>>,
    },
    /// Deploys these resources, as far as the method takes them.
    DeploySome {
        method: DeployKind,
        ids: BTreeSet<ResourceId>,
        reply: oneshot::Sender<Result<Vec<ResourceId>, RequestError>>,
    },
    DryRun {
        version: VersionNumber,
        /// Only these; `None`: all of the version.
        ids: Option<BTreeSet<ResourceId>>,
        note: DryRunNote,
        reply: oneshot::Sender<Result<DryRunId, RequestError>>,
    },
    /// What is known of each resource, when all of it is in the store.
    Inspect {
        reply: oneshot::Sender<Result<Inspected, RequestError>>,
    },
    /// What a run of a resource waits for that is given to no executor yet.
    Waiting {
        resource_id: ResourceId,
        reply: oneshot::Sender<Option<Waiting>>,
    },
    /// Ask a resource's handler for its facts.
    Facts {
        resource_id: ResourceId,
    },
    /// An agent of another machine has said hello.
    Attach {
        hello: Box<AgentHello>,
        commands: mpsc::UnboundedSender<Outgoing>,
        reply: oneshot::Sender<Result<Admission, String>>,
    },
    /// Begin nothing more, and say when all that runs has ended.
    Finish {
        reply: oneshot::Sender<()>,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
    #[cfg(test)]
    Panic,
}

/// What an engine has in its memory.
#[derive(Debug)]
pub struct Inspected {
    /// The version in force.
    pub version: VersionNumber,
    /// The resources of that version, in no order.
    pub states: Vec<ResourceState>,
}

/// What a request to deploy set in motion.
#[derive(Debug, Clone)]
pub struct Scheduled {
    pub agents: Vec<AgentName>,
    /// The round of work that it is part of; [`crate::observe::Summary::round`] shows when it is done.
    pub round: u64,
}

/// The handle of an environment's engine.
#[derive(Debug, Clone)]
pub struct Engine {
    inbox: mpsc::UnboundedSender<Request>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Request")
    }
}

/// What an engine is started with.
#[derive(Debug, Clone)]
pub struct Options {
    pub environment: EnvironmentId,
    pub store: Store,
    pub bus: Bus,
    pub python: Option<PythonRuntime>,
    /// Woken when a compile was queued because a fact is known that the version in force waits for.
    pub recompile: Arc<tokio::sync::Notify>,
    /// Ends it even while it waits for a database that is away.
    pub shutdown: CancellationToken,
    pub facts: FactTimes,
    /// The files that what handlers say is written to, beside the database.
    pub action_logs: Option<ActionLogs>,
    /// Of the executor's Python hosts.
    pub executor: Limits,
    /// What handlers on this machine find in their environment.
    pub variables: Variables,
    /// Installs what the code of handlers on this machine requires.
    pub packages: PackageInstaller,
    /// A configuration file of OpenSSH's client, for agents on machines that it reaches.
    pub ssh_config: Option<PathBuf>,
    /// Answers what handlers ask of the API and the loop does not answer by itself.
    pub api: ApiRequests,
    /// Told when the resources of service instances are deployed, or failed.
    pub services: Services,
    /// Whether it brings what is released into force; else it does dry runs only.
    pub deploys: bool,
    /// Whether it waits for the first request before it does anything (the setting `autostart_on_start`).
    pub waits: bool,
}

/// How long an engine that could not go on waits before it starts again, at first.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// An engine that lived so long has not failed because of what it failed of before.
const LONG_LIFE: Duration = Duration::from_secs(60);

/// What a panic says.
fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// Closes what a panic has cut off, and says so to those who look at the log, at the prompt and at the environment.
async fn on_panic(options: &Options, why: &str, is_new: bool) {
    let (environment, store) = (options.environment, &options.store);
    tracing::error!(environment.id = %environment, why, "the scheduler panicked; it starts again");
    options.bus.emit(
        environment,
        EventKind::Trouble {
            message: format!("the scheduler panicked, which is a bug; it starts again: {why}"),
        },
    );
    // Its executors went with it. What agents on other machines go on with is opened again.
    if let Err(error) = store.action_close_interrupted(Some(environment)).await {
        let error = chain(&error);
        tracing::error!(environment.id = %environment, error, "cannot close the runs that were cut off");
    }
    if !is_new {
        return;
    }
    let message = format!(
        "This is a bug of the server. What was running is unavailable and is tried again. The log of the server says: {why}"
    );
    let title = "The scheduler panicked and has started again";
    let notification = Notification::new(Severity::Error, title, &message);
    if let Err(error) = store.notification_create(environment, &notification).await {
        let error = chain(&error);
        tracing::error!(environment.id = %environment, error, "cannot write a notification");
    }
}

impl Engine {
    /// Starts the engine of an environment; the task ends after [`Engine::stop`].
    pub fn start(options: Options) -> (Self, tokio::task::JoinHandle<()>) {
        let (inbox, mut requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let environment = options.environment;
            let mut pause = FIRST_PAUSE;
            loop {
                let began = Instant::now();
                // A panic is a bug of ours; the environment must not be dead for it. All state is read anew.
                let life = std::panic::AssertUnwindSafe(run_until_stopped(&options, &mut requests))
                    .catch_unwind()
                    .await;
                match life {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => {
                        let error = chain(&error);
                        tracing::error!(environment.id = %environment, error, "cannot read the environment; trying again");
                    }
                    Err(panic) => {
                        // One that panics again and again says so once.
                        let is_new = pause == FIRST_PAUSE || began.elapsed() > LONG_LIFE;
                        on_panic(&options, &panic_text(&*panic), is_new).await;
                    }
                }
                if began.elapsed() > LONG_LIFE {
                    pause = FIRST_PAUSE;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = options.shutdown.cancelled() => return,
                }
                pause = (pause * 2).min(Duration::from_secs(30));
            }
        });
        (Self { inbox }, task)
    }

    /// Has it panic.
    #[cfg(test)]
    pub(crate) fn panic(&self) {
        let _ = self.inbox.send(Request::Panic);
    }

    /// Tells it to look at the store.
    pub fn wake(&self) {
        let _ = self.inbox.send(Request::Wake);
    }

    /// Schedules a deploy or a repair; gives the agents touched.
    pub async fn deploy(
        &self,
        method: DeployKind,
        agents: Option<BTreeSet<AgentName>>,
    ) -> Result<Scheduled, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Request::Deploy {
                method,
                agents,
                reply,
            })
            .map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Schedules a deploy or a repair of these resources; gives those that are scheduled, sorted.
    pub async fn deploy_some(
        &self,
        method: DeployKind,
        ids: BTreeSet<ResourceId>,
    ) -> Result<Vec<ResourceId>, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Request::DeploySome { method, ids, reply })
            .map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Compares a version with what is there; `ids`: only these resources of it.
    pub async fn dry_run(
        &self,
        version: VersionNumber,
        ids: Option<BTreeSet<ResourceId>>,
        note: DryRunNote,
    ) -> Result<DryRunId, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Request::DryRun {
                version,
                ids,
                note,
                reply,
            })
            .map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Has it begin nothing more, until it is stopped and started again, and waits until what runs has ended.
    pub async fn finish(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inbox.send(Request::Finish { reply }).is_ok() {
            // It may have ended in another way: then nothing runs either.
            let _ = answer.await;
        }
    }

    /// What the run of a resource waits for that is given to no executor yet; `None`: nothing, or the engine does not say.
    pub async fn waiting_for(&self, resource_id: ResourceId) -> Option<Waiting> {
        let (reply, answer) = oneshot::channel();
        let request = Request::Waiting { resource_id, reply };
        self.inbox.send(request).ok()?;
        answer.await.ok()?
    }

    /// What it knows of each resource. What it had found out before is then in the store.
    ///
    /// # Errors
    /// The environment is halted, or has ended.
    pub async fn inspect(&self) -> Result<Inspected, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Request::Inspect { reply })
            .map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Lets the handler of a resource be asked for its facts, unless it was a moment ago. They are in the store when it
    /// has answered.
    pub fn ask_for_facts(&self, resource_id: &ResourceId) {
        let resource_id = resource_id.clone();
        let _ = self.inbox.send(Request::Facts { resource_id });
    }

    /// Takes in an agent of another machine. It is sent `commands` until they are closed.
    ///
    /// # Errors
    /// Why it may not work here, for whoever started it.
    pub(crate) async fn attach(
        &self,
        hello: AgentHello,
        commands: mpsc::UnboundedSender<Outgoing>,
    ) -> Result<Admission, String> {
        let (reply, answer) = oneshot::channel();
        let hello = Box::new(hello);
        let gone = |_| "the environment is being stopped; try again".to_owned();
        let request = Request::Attach {
            hello,
            commands,
            reply,
        };
        self.inbox.send(request).map_err(|_| gone(()))?;
        answer.await.map_err(|_| gone(()))?
    }

    /// Ends it, after what it knows is written.
    pub async fn stop(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inbox.send(Request::Stop { reply }).is_ok() {
            let _ = answer.await;
        }
    }
}
