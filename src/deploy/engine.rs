//! The loop around an environment's schedule.
//!
//! Who wakes it: the compile service after a release, requests, timers and its executor. What it owns: the schedule, the
//! executor process and results that are not written yet. It writes beginnings and ends of runs in batches, while the
//! executor works on. At shutdown it stops handing out work, waits a moment for running tasks, and writes what it knows;
//! whatever is cut off is dirty in the store and runs again after the next start.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::code::{Code, code_of};
use super::facts::{self, Facts, facts_of};
use futures_util::FutureExt;
use steward_compiler::PythonRuntime;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Intent;
use super::executor::{Executor, Message, Task, TaskDone};
use super::schedule::{Ended, Policy, Priority, Run, Schedule, Which};
use crate::domain::{
    ActionId, Blocked, DryRunId, EnvironmentId, HandlerStatus, Settings, Timestamp, chain,
};
use crate::observe::{Bus, ResourceDone, Summary, What};
use crate::store::{self, ActionEnd, ActionStart, Store};

/// How a user asks for a deployment. Source: deploy.md 4.15.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// What is not in its desired state.
    Deploy,
    /// Everything.
    Repair,
    /// Everything, because the server was started on a version that is in force already.
    Verify,
}

#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("nothing has been released in this environment yet")]
    NothingReleased,
    #[error("the environment is halted")]
    Halted,
    #[error("none of these agents exists: {0}")]
    UnknownAgents(String),
    #[error("there is no version {0}")]
    NoVersion(i64),
    #[error("the scheduler of this environment has ended")]
    Gone,
    #[error(transparent)]
    Store(#[from] store::Error),
}

enum Request {
    /// Look at the store: a version was released, a setting changed, the environment was halted or resumed.
    Wake,
    Deploy {
        method: Method,
        agents: Option<BTreeSet<String>>,
        reply: oneshot::Sender<Result<Scheduled, RequestError>>,
    },
    DryRun {
        version: i64,
        reply: oneshot::Sender<Result<DryRunId, RequestError>>,
    },
    /// Ask a resource's handler for its facts.
    Facts {
        resource_id: String,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
}

/// What a request to deploy set in motion.
#[derive(Debug, Clone)]
pub struct Scheduled {
    pub agents: Vec<String>,
    /// The round of work that it is part of; [`Summary::round`] tells when it is done.
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
}

impl Engine {
    /// Starts the engine of an environment; the task ends after [`Engine::stop`].
    pub fn start(options: Options) -> (Self, tokio::task::JoinHandle<()>) {
        let (inbox, mut requests) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let environment = options.environment;
            let mut pause = Duration::from_millis(200);
            loop {
                // A panic is a bug of ours; the environment must not be dead for it. All state is read anew.
                let life = std::panic::AssertUnwindSafe(live(&options, &mut requests))
                    .catch_unwind()
                    .await;
                match life {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => {
                        let error = chain(&error);
                        tracing::error!(environment.id = %environment, error, "cannot read the environment; trying again");
                    }
                    Err(_) => {
                        tracing::error!(environment.id = %environment, "the scheduler panicked; it starts again")
                    }
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

    /// Tells it to look at the store.
    pub fn wake(&self) {
        let _ = self.inbox.send(Request::Wake);
    }

    /// Schedules a deploy or a repair; gives the agents touched.
    pub async fn deploy(
        &self,
        method: Method,
        agents: Option<BTreeSet<String>>,
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

    pub async fn dry_run(&self, version: i64) -> Result<DryRunId, RequestError> {
        let (reply, answer) = oneshot::channel();
        self.inbox
            .send(Request::DryRun { version, reply })
            .map_err(|_| RequestError::Gone)?;
        answer.await.map_err(|_| RequestError::Gone)?
    }

    /// Lets the handler of a resource be asked for its facts, unless it was a moment ago. They are in the store when it
    /// has answered.
    pub fn ask_for_facts(&self, resource_id: &str) {
        let resource_id = resource_id.to_owned();
        let _ = self.inbox.send(Request::Facts { resource_id });
    }

    /// Ends it, after what it knows is written.
    pub async fn stop(&self) {
        let (reply, answer) = oneshot::channel();
        if self.inbox.send(Request::Stop { reply }).is_ok() {
            let _ = answer.await;
        }
    }
}

/// From reading the store to the end.
async fn live(
    options: &Options,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> Result<(), store::Error> {
    let (messages, executor_messages) = mpsc::unbounded_channel();
    let mut engine = Loop::restore(options, messages).await?;
    engine.run(requests, executor_messages).await;
    Ok(())
}

/// A run in progress.
struct Open {
    run: Run,
    started: Timestamp,
}

pub(super) struct Loop {
    pub(super) environment: EnvironmentId,
    pub(super) store: Store,
    bus: Bus,
    pub(super) schedule: Schedule,
    settings: Settings,
    pub(super) executor: Executor,
    pub(super) code: Code,
    halted: bool,
    open: HashMap<ActionId, Open>,
    dry_runs: HashMap<ActionId, DryRunId>,
    pub(super) facts: Facts,
    shutdown: CancellationToken,
    starts: Vec<ActionStart>,
    ends: Vec<(ActionEnd, ResourceDone)>,
    round: Option<Round>,
    n_rounds: u64,
    next_deploy_cron: Option<Timestamp>,
    next_repair_cron: Option<Timestamp>,
}

/// Work since the engine was last at rest.
struct Round {
    began: Instant,
    n_runs: usize,
    /// Resources that were changed and are good.
    changed: BTreeSet<String>,
}

/// A wake-up may be lost with the process that gave it: the store is looked at this often without one.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// How long shutdown waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(5);

impl Loop {
    async fn restore(
        options: &Options,
        messages: mpsc::UnboundedSender<Message>,
    ) -> Result<Self, store::Error> {
        let (environment, store) = (options.environment, options.store.clone());
        let settings = store.settings_fetch(environment).await?;
        let record = store.environment_fetch(environment).await?;
        let (active, halted) = record.map_or((None, false), |record| {
            (record.active_version, record.halted)
        });
        let agents = store.agent_list(environment).await?;
        let paused = agents
            .into_iter()
            .filter(|agent| agent.paused)
            .map(|agent| agent.name);
        let now = Timestamp::now();
        let unknowns = facts::unknowns(&store, environment, active).await?;
        let (intents, states, code) = match active {
            None => (Vec::new(), Vec::new(), Code::default()),
            Some(version) => {
                let resources = store.resource_list(environment, version).await?;
                let intents = resources.into_iter().map(Intent::from).collect();
                (
                    intents,
                    store.state_list(environment).await?,
                    code_of(&store, environment, version).await?,
                )
            }
        };
        let schedule = Schedule::restore(
            active.unwrap_or(0),
            intents,
            states,
            &store.last_changes(environment).await?,
            policy(&settings),
            paused,
            now,
        );
        let executor = Executor::new(environment, options.python.clone(), messages);
        let mut engine = Self {
            environment,
            store,
            bus: options.bus.clone(),
            schedule,
            settings,
            executor,
            code,
            halted,
            open: HashMap::new(),
            dry_runs: HashMap::new(),
            facts: Facts::new(unknowns, options.recompile.clone()),
            shutdown: options.shutdown.clone(),
            starts: Vec::new(),
            ends: Vec::new(),
            round: None,
            n_rounds: 0,
            next_deploy_cron: None,
            next_repair_cron: None,
        };
        engine.plan_crons(now);
        Ok(engine)
    }

    async fn run(
        &mut self,
        requests: &mut mpsc::UnboundedReceiver<Request>,
        mut messages: mpsc::UnboundedReceiver<Message>,
    ) {
        if let Err(error) = self.executor.warm() {
            tracing::error!(environment.id = %self.environment, %error, "cannot start the executor process");
        }
        // A look that failed is tried again; and once in a while one is taken without a wake-up.
        let mut next_look = Instant::now();
        loop {
            // Before a look, which plans the crons anew.
            if !self.halted {
                self.tick();
            }
            if Instant::now() >= next_look {
                let pause = if self.look().await {
                    LOOK_EVERY
                } else {
                    Duration::from_secs(1)
                };
                next_look = Instant::now() + pause;
            }
            if !self.halted {
                self.pump().await;
            }
            self.flush().await;
            self.settle();
            let wait = self
                .wait()
                .min(next_look.saturating_duration_since(Instant::now()));
            tokio::select! {
                // Dropping a receive loses no message; the work is in the arms' bodies.
                request = requests.recv() => match request {
                    None => return,
                    Some(Request::Wake) => next_look = Instant::now(),
                    Some(Request::Deploy { method, agents, reply }) => {
                        let _ = reply.send(self.request(method, agents));
                    }
                    Some(Request::DryRun { version, reply }) => {
                        let _ = reply.send(self.dry_run(version).await);
                    }
                    Some(Request::Facts { resource_id }) => self.ask_for_facts(&resource_id).await,
                    Some(Request::Stop { reply }) => {
                        self.shut_down(&mut messages).await;
                        let _ = reply.send(());
                        return;
                    }
                },
                message = messages.recv() => {
                    if let Some(message) = message {
                        self.hear(message).await;
                    }
                    while let Ok(message) = messages.try_recv() {
                        self.hear(message).await;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Reads what changed in the store: settings, pauses, halting, released versions.
    async fn look(&mut self) -> bool {
        let looked = self.try_look().await;
        if let Err(error) = &looked {
            tracing::error!(environment.id = %self.environment, error = chain(error), "cannot read the released versions");
        }
        looked.is_ok()
    }

    async fn try_look(&mut self) -> Result<(), store::Error> {
        let now = Timestamp::now();
        self.settings = self.store.settings_fetch(self.environment).await?;
        self.schedule.set_policy(policy(&self.settings), now);
        self.plan_crons(now);
        let Some(record) = self.store.environment_fetch(self.environment).await? else {
            return Ok(());
        };
        self.halted = record.halted;
        for agent in self.store.agent_list(self.environment).await? {
            self.schedule.pause(&agent.name, agent.paused);
        }
        if self.halted {
            return Ok(());
        }
        self.renew_facts(now).await?;
        let Some(released) = self.store.version_released(self.environment).await? else {
            return Ok(());
        };
        let (active, number) = (self.schedule.version(), released.number);
        if number <= active {
            return Ok(());
        }
        let (changed, removed) = if active == 0 {
            (
                self.store.resource_list(self.environment, number).await?,
                Vec::new(),
            )
        } else {
            self.store
                .resource_changes(self.environment, active, number)
                .await?
        };
        let code = code_of(&self.store, self.environment, number).await?;
        let changed = changed.into_iter().map(Intent::from).collect();
        let unknowns = facts::unknowns(&self.store, self.environment, Some(number)).await?;
        let activation = self.schedule.apply(number, changed, &removed, now);
        self.code = code;
        self.facts.set_unknowns(unknowns);
        // The schedule has moved on; the store must follow before anything runs, however long that takes.
        let mut pause = Duration::from_millis(100);
        loop {
            let (changed, removed, agents) =
                (&activation.changed, &activation.removed, &activation.agents);
            match self
                .store
                .version_activate(self.environment, number, changed, removed, agents)
                .await
            {
                Ok(()) => break,
                Err(error)
                    if self
                        .complain_and_wait("put the version in force", &error, &mut pause)
                        .await => {}
                // It is read and applied again after the next start.
                Err(error) => return Err(error),
            }
        }
        tracing::info!(
            environment.id = %self.environment, version = number, n_new = activation.n_new,
            n_updated = activation.n_updated, n_removed = activation.removed.len(), "version {number} is in force"
        );
        self.bus.emit(
            self.environment,
            What::Activated {
                version: number,
                n_new: activation.n_new,
                n_updated: activation.n_updated,
                n_removed: activation.removed.len(),
                n_total: self.schedule.len(),
            },
        );
        // Even a version that changes nothing ends in a summary.
        self.begin_round();
        Ok(())
    }

    fn tick(&mut self) {
        let now = Timestamp::now();
        self.schedule.tick(now);
        if self.next_deploy_cron.is_some_and(|due| due <= now) {
            let reason = "a global deploy was triggered by a cron expression";
            self.schedule
                .request(Which::Dirty, Priority::IntervalDeploy, reason, None);
            self.plan_crons(now);
        }
        if self.next_repair_cron.is_some_and(|due| due <= now) {
            let reason = "a global repair was triggered by a cron expression";
            self.schedule
                .request(Which::All, Priority::IntervalRepair, reason, None);
            self.plan_crons(now);
        }
    }

    fn plan_crons(&mut self, now: Timestamp) {
        self.next_deploy_cron = self.settings.deploy_interval().next_cron(now);
        self.next_repair_cron = self.settings.repair_interval().next_cron(now);
    }

    /// Hands out all that may run.
    async fn pump(&mut self) {
        for run in self.schedule.take() {
            self.begin_round();
            let started = Timestamp::now();
            self.starts.push(ActionStart {
                id: run.action,
                action: "deploy",
                version: run.version,
                resource_id: run.intent.resource_id.clone(),
                started,
            });
            let task = Task {
                action: run.action,
                code: self.code.key.clone(),
                agent: run.intent.agent.clone(),
                resource_id: run.intent.resource_id.clone(),
                resource_type: run.intent.resource_type.clone(),
                version: run.version,
                attributes: run.intent.attributes.clone(),
                requires: run.requires.clone(),
                dependency_changed: run.dependency_changed,
                dry_run: false,
                facts: false,
                reason: run.reason.clone(),
            };
            self.open.insert(run.action, Open { run, started });
            self.executor.run(task, &self.code.version).await;
        }
    }

    async fn hear(&mut self, message: Message) {
        match message {
            Message::Done { generation, done } => {
                if let Some(done) = self.executor.answered(generation, *done) {
                    self.done(done).await;
                }
            }
            Message::Ask {
                generation,
                id,
                method,
                arguments,
            } => {
                let answer = self.asked(&method, &arguments).await;
                self.executor.answer(generation, id, answer).await;
            }
            Message::Ended { generation } => {
                let unfinished = self.executor.ended(generation);
                if !unfinished.is_empty() {
                    tracing::error!(environment.id = %self.environment, n_tasks = unfinished.len(), "the executor process ended with tasks unfinished");
                }
                for done in unfinished {
                    self.done(done).await;
                }
            }
        }
    }

    async fn done(&mut self, done: TaskDone) {
        let now = Timestamp::now();
        if let Some(dry_run) = self.dry_runs.remove(&done.action) {
            let mut changes = done.outcome.changes;
            if done.outcome.status != "dry" && changes.is_empty() {
                let last = done
                    .outcome
                    .logs
                    .iter()
                    .rev()
                    .find(|line| line.level == "ERROR");
                let why = last.map_or("Handler failed", |line| line.msg.as_str());
                changes.insert(
                    "handler".to_owned(),
                    serde_json::json!({"current": "FAILED", "desired": why}),
                );
            }
            let changes = serde_json::Value::Object(changes).to_string();
            if let Err(error) = self
                .store
                .dry_run_result(dry_run, &done.resource_id, &changes)
                .await
            {
                tracing::error!(dry_run.id = %dry_run, error = chain(&error), "cannot write the result of a dry run");
            }
            return;
        }
        if self.facts.answered(&done.action) {
            self.facts_told(done).await;
            return;
        }
        let Some(open) = self.open.remove(&done.action) else {
            return;
        };
        let outcome = done.outcome;
        let status = HandlerStatus::parse(&outcome.status).unwrap_or(HandlerStatus::Failed);
        let change = crate::domain::Change::parse(&outcome.change)
            .unwrap_or(crate::domain::Change::NoChange);
        let changed = change != crate::domain::Change::NoChange;
        let (started, finished) = (open.started, Timestamp(done.finished_us).max(open.started));
        let ended = Ended {
            status,
            changed,
            started,
            finished,
        };
        let state = self
            .schedule
            .finished(&done.resource_id, done.action, ended, now);
        if let Some(round) = &mut self.round {
            round.n_runs += 1;
            if changed && status == HandlerStatus::Deployed {
                round.changed.insert(done.resource_id.clone());
            }
        }
        let trouble = outcome
            .logs
            .iter()
            .rev()
            .find(|line| matches!(line.level.as_str(), "ERROR" | "CRITICAL" | "WARNING"));
        let skip = outcome
            .logs
            .iter()
            .rev()
            .find(|line| status == HandlerStatus::SkippedForDependency && line.level == "INFO");
        let event = ResourceDone {
            resource_id: done.resource_id.clone(),
            version: open.run.version,
            status: status.legacy().to_owned(),
            change: change.as_str().to_owned(),
            changes: outcome.changes.clone().into_iter().collect(),
            reason: open.run.reason.clone(),
            message: trouble.or(skip).map(|line| line.msg.clone()),
            duration: finished.since(started),
        };
        let facts = facts_of(&outcome);
        let end = ActionEnd {
            id: done.action,
            finished,
            status: status.legacy(),
            change: change.as_str(),
            changes: serde_json::Value::Object(outcome.changes).to_string(),
            messages: messages_json(&outcome.logs),
            state,
            facts,
            discovered: outcome
                .discovered
                .into_iter()
                .map(|found| {
                    let values = serde_json::Value::Object(found.values);
                    (found.resource_id, values.to_string())
                })
                .collect(),
            resource_id: done.resource_id,
        };
        self.ends.push((end, event));
    }

    /// Writes what happened, in one transaction; a database that is away is waited for.
    async fn flush(&mut self) {
        if self.starts.is_empty() && self.ends.is_empty() {
            return;
        }
        let starts = std::mem::take(&mut self.starts);
        let (ends, events): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ends).into_iter().unzip();
        let mut pause = Duration::from_millis(100);
        loop {
            match self
                .store
                .action_write(self.environment, &starts, &ends)
                .await
            {
                Ok(()) => break,
                Err(error)
                    if self
                        .complain_and_wait("write results", &error, &mut pause)
                        .await => {}
                // What is not written is verified again after the next start.
                Err(_) => return,
            }
        }
        self.recompile_for_facts(&ends).await;
        for event in events {
            if event.status != "deployed" {
                tracing::warn!(
                    environment.id = %self.environment, resource.id = event.resource_id, status = event.status,
                    "{} is {}: {}", event.resource_id, event.status, event.message.as_deref().unwrap_or_default()
                );
            } else if event.change != "nochange" {
                tracing::info!(
                    environment.id = %self.environment, resource.id = event.resource_id, change = event.change,
                    "{} was {}", event.resource_id, event.change
                );
            }
            self.bus.emit(self.environment, What::ResourceDone(event));
        }
    }

    /// `false`: it is time to stop instead.
    async fn complain_and_wait(
        &self,
        what: &str,
        error: &store::Error,
        pause: &mut Duration,
    ) -> bool {
        let (id, error) = (self.environment, chain(error));
        tracing::error!(environment.id = %id, error, "cannot {what}; trying again in {pause:?}");
        self.bus.emit(
            id,
            What::Trouble {
                message: format!("cannot {what}: {error}"),
            },
        );
        tokio::select! {
            () = tokio::time::sleep(*pause) => {}
            () = self.shutdown.cancelled() => return false,
        }
        *pause = (*pause * 2).min(Duration::from_secs(10));
        true
    }

    /// Gives the number of the round that work from now on belongs to.
    fn begin_round(&mut self) -> u64 {
        if self.round.is_none() {
            self.n_rounds += 1;
            self.round = Some(Round {
                began: Instant::now(),
                n_runs: 0,
                changed: BTreeSet::new(),
            });
        }
        self.n_rounds
    }

    /// Says so when everything is done.
    fn settle(&mut self) {
        if !self.open.is_empty() || !self.schedule.is_idle() {
            return;
        }
        let Some(round) = self.round.take() else {
            return;
        };
        let mut summary = Summary {
            round: self.n_rounds,
            version: self.schedule.version(),
            total: self.schedule.len(),
            n_runs: round.n_runs,
            duration: round.began.elapsed(),
            ..Summary::default()
        };
        for state in self.schedule.states() {
            let count = match state.status() {
                _ if state.is_undefined || state.blocked == Blocked::Blocked => {
                    &mut summary.undefined
                }
                "deployed" if round.changed.contains(&state.resource_id) => &mut summary.deployed,
                "deployed" => &mut summary.unchanged,
                "failed" | "unavailable" | "non_compliant" => &mut summary.failed,
                _ => &mut summary.skipped,
            };
            *count += 1;
        }
        self.bus.emit(self.environment, What::Settled(summary));
    }

    fn request(
        &mut self,
        method: Method,
        agents: Option<BTreeSet<String>>,
    ) -> Result<Scheduled, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        if self.schedule.version() == 0 {
            return Err(RequestError::NothingReleased);
        }
        if let Some(agents) = &agents {
            let known: BTreeSet<&str> = self.schedule.agents().map(|(name, _)| name).collect();
            if !agents.iter().any(|agent| known.contains(agent.as_str())) {
                return Err(RequestError::UnknownAgents(
                    agents.iter().cloned().collect::<Vec<_>>().join(", "),
                ));
            }
        }
        let round = self.begin_round();
        let (which, priority, reason) = match method {
            Method::Deploy => (
                Which::Dirty,
                Priority::UserDeploy,
                "user requested a deploy",
            ),
            Method::Verify => (Which::All, Priority::UserRepair, "the server was started"),
            Method::Repair => (Which::All, Priority::UserRepair, "user requested a repair"),
        };
        let agents = self
            .schedule
            .request(which, priority, reason, agents.as_ref());
        Ok(Scheduled {
            agents: agents.into_iter().collect(),
            round,
        })
    }

    /// Sends every defined resource of a version through its handler, which only compares. Source: deploy.md 5.10.
    async fn dry_run(&mut self, version: i64) -> Result<DryRunId, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        if self
            .store
            .version_fetch(self.environment, version)
            .await?
            .is_none()
        {
            return Err(RequestError::NoVersion(version));
        }
        let resources = self.store.resource_list(self.environment, version).await?;
        let code = code_of(&self.store, self.environment, version).await?;
        let intents: Vec<Intent> = resources.into_iter().map(Intent::from).collect();
        let undefined = blocked_ids(&intents);
        let paused: BTreeSet<String> = self
            .schedule
            .agents()
            .filter(|(_, paused)| *paused)
            .map(|(name, _)| name.to_owned())
            .collect();
        let known: Vec<(String, &'static str)> = intents
            .iter()
            .filter_map(|intent| {
                let status = if intent.is_undefined {
                    "undefined"
                } else if undefined.contains(&intent.resource_id) {
                    "skipped_for_undefined"
                } else if paused.contains(&intent.agent) {
                    "agent_down"
                } else {
                    return None;
                };
                Some((intent.resource_id.clone(), status))
            })
            .collect();
        let id = self
            .store
            .dry_run_create(self.environment, version, intents.len() as i64, &known)
            .await?;
        let known: BTreeSet<String> = known.into_iter().map(|(id, _)| id).collect();
        for intent in intents
            .into_iter()
            .filter(|intent| !known.contains(&intent.resource_id))
        {
            let action = ActionId::generate();
            self.dry_runs.insert(action, id);
            let task = Task {
                action,
                code: code.key.clone(),
                agent: intent.agent,
                resource_id: intent.resource_id,
                resource_type: intent.resource_type,
                version,
                attributes: intent.attributes,
                requires: intent
                    .requires
                    .into_iter()
                    .map(|id| (id, "deployed".to_owned()))
                    .collect(),
                dependency_changed: false,
                dry_run: true,
                facts: false,
                reason: "a dry run was requested".to_owned(),
            };
            self.executor.run(task, &code.version).await;
        }
        Ok(id)
    }

    /// Until when there is nothing to do on our own.
    fn wait(&self) -> Duration {
        let due = [
            self.schedule.next_due(),
            self.next_deploy_cron,
            self.next_repair_cron,
        ];
        let due = due.into_iter().flatten().min();
        // At most a minute: a clock that jumps is noticed then.
        let longest = Duration::from_secs(60);
        if self.halted {
            longest
        } else {
            due.map_or(longest, |due| due.since(Timestamp::now()).min(longest))
        }
    }

    async fn shut_down(&mut self, messages: &mut mpsc::UnboundedReceiver<Message>) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.open.is_empty() {
            match tokio::time::timeout_at(deadline, messages.recv()).await {
                Ok(Some(message)) => self.hear(message).await,
                Ok(None) | Err(_) => break,
            }
        }
        // What is still running is cut off; the executor goes with us.
        for done in self
            .executor
            .stop("the server stopped during this run; the resource is verified again")
        {
            self.done(done).await;
        }
        self.flush().await;
    }
}

/// Ids of resources that are undefined or require one that is, however far.
fn blocked_ids(intents: &[Intent]) -> BTreeSet<String> {
    let mut blocked: BTreeSet<String> = BTreeSet::new();
    let mut provides: HashMap<&str, Vec<&str>> = HashMap::new();
    for intent in intents {
        for require in &intent.requires {
            provides
                .entry(require)
                .or_default()
                .push(&intent.resource_id);
        }
    }
    let mut queue: Vec<&str> = intents
        .iter()
        .filter(|intent| intent.is_undefined)
        .map(|intent| intent.resource_id.as_str())
        .collect();
    while let Some(id) = queue.pop() {
        if blocked.insert(id.to_owned()) {
            queue.extend(provides.get(id).into_iter().flatten());
        }
    }
    blocked
}

fn policy(settings: &Settings) -> Policy {
    Policy {
        deploy: settings.deploy_interval().every(),
        repair: settings.repair_interval().every(),
        backoff: settings.retry_backoff(),
    }
}

pub(super) fn messages_json(logs: &[steward_compiler::protocol::LogLine]) -> String {
    let line = |line: &steward_compiler::protocol::LogLine| {
        serde_json::json!({
            "level": line.level, "msg": line.msg, "args": [], "kwargs": line.kwargs, "timestamp_us": line.timestamp_us,
        })
    };
    serde_json::Value::Array(logs.iter().map(line).collect()).to_string()
}
