//! The loop around an environment's schedule.
//!
//! Who wakes it: the compile service after a release, requests, timers and its executor. What it
//! owns: the schedule, the executor process and results that are not written yet. It writes
//! beginnings and ends of runs in batches, while the executor works on. At shutdown it stops
//! handing out work, waits a moment for running tasks, and writes what it knows; whatever is cut
//! off is dirty in the store and runs again after the next start.
//!
//! Each turn of the loop does the same, whatever woke it: timers that are due go into the schedule;
//! the store is read if it is time, or if somebody said so; what may run is handed to the executor;
//! what is known begins to be written, beside the loop (`writing`); then it waits for the next message, request or timer.
//! A wake-up carries no data, so one that is lost costs time and nothing else: the store is read
//! every 30 s anyway.
//!
//! Two orders matter. A run is handed to the executor *before* its beginning is in the store, since
//! that would cost a transaction for each: if the server dies in between, the resource is still
//! dirty, or its repair is still due, and it runs again. And nothing is handed out while the
//! database takes no writes ([`Store::is_usable`]), since its result would be lost.

mod action_log;
mod agent_rights;
mod agents;
mod crons;
mod dry_run;
mod handle;
mod results;
mod services;
mod writing;

pub use agents::Admission;
pub use handle::{DeployKind, Engine, Inspected, Options, RequestError, Scheduled};
pub(crate) use services::LIFECYCLE_TRANSFER;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crons::Crons;
use handle::Request;

use results::Round;
use writing::{Batch, Writing};

use super::ask::Requests;
use super::code::{Code, code_of};
use super::facts::{self, Facts};
use super::schedule::{Loading, Priority, RetryPolicy, Run, Schedule, Selection, Start};
use super::{Intent, Reading};
use crate::domain::{
    ActionId, ActionKind, AgentName, AgentPlace, EnvironmentId, ResourceId, Settings, Timestamp,
    VersionNumber, chain, read_agent_map,
};
use crate::executor::agent_code::AgentCode;
use crate::executor::bounds::Daily;
use crate::executor::link::{Message, Purpose};
use crate::executor::places::Executors;
use crate::executor::protocol::{Task, TaskKind};
use crate::lsm::{Report, Services};
use crate::observe::{ActionLogs, Bus, EventKind};
use crate::store::{self, ActionStart, ResourceRow, SeesRows, StateRow, Store};

/// Runs the engine of an environment, from reading the store until it is stopped.
async fn run_until_stopped(
    options: &Options,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> Result<(), store::Error> {
    let (messages, executor_messages) = mpsc::unbounded_channel();
    let mut engine = Reconciler::restore(options, messages).await?;
    let mut run = std::pin::pin!(engine.run(requests, executor_messages, options.waits));
    // The first search of a list shall not be the one that waits for what all searches go through.
    tokio::select! {
        () = &mut run => return Ok(()),
        prepared = options.store.names_prepare(options.environment) => if let Err(error) = prepared {
            tracing::warn!(environment.id = %options.environment, error = chain(&error), "cannot prepare searches");
        },
    }
    run.await;
    Ok(())
}

/// A deployment of one resource in progress.
struct InFlight {
    run: Run,
    started: Timestamp,
}

/// A task that is no deployment, and waits for its turn.
pub(super) struct QueuedTask {
    pub(super) task: Task,
    pub(super) code: Arc<AgentCode>,
    /// Where it runs; `None`: where its agent is.
    pub(super) place: Option<AgentPlace>,
}

/// A comparison that a handler makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparing {
    pub(super) version: VersionNumber,
    pub(super) started: Timestamp,
}

/// All that the loop owns.
pub(super) struct Reconciler {
    pub(super) environment: EnvironmentId,
    pub(super) store: Store,
    bus: Bus,
    pub(super) schedule: Schedule,
    settings: Settings,
    pub(super) executor: Executors,
    /// Some agent is, or was a moment ago, on another machine.
    has_places: bool,
    /// Where the version in force says that agents are.
    model_places: BTreeMap<AgentName, AgentPlace>,
    pub(super) code: Code,
    /// The environment is halted: nothing is started.
    halted: bool,
    /// What runs goes on to its end, and nothing is begun any more; told when that is so.
    ending: Option<Vec<oneshot::Sender<()>>>,
    /// See [`Options::deploys`].
    deploys: bool,
    in_flight: HashMap<ActionId, InFlight>,
    /// Dry runs and questions for facts that wait in the queues of their agents.
    queued_tasks: HashMap<ActionId, QueuedTask>,
    /// The comparisons of dry runs that handlers make just now.
    comparing: HashMap<ActionId, Comparing>,
    pub(super) facts: Facts,
    shutdown: CancellationToken,
    services: Services,
    /// What handlers ask of the API.
    pub(super) requests: Requests,
    /// What instances are to be told of the deployment of their resources, before the ends of these runs are written.
    reports: Vec<Report>,
    /// Beginnings and ends of runs that wait to be written.
    pub(super) unwritten: Batch,
    /// Those that are being written.
    writing: Writing,
    /// The files that what handlers say is written to, beside the database.
    action_logs: Option<ActionLogs>,
    /// How many log lines each resource has written today.
    pub(super) daily: Daily,
    /// The round of work that goes on; `None`: the environment is at rest.
    round: Option<Round>,
    n_rounds: u64,
    crons: Crons,
}

/// A wake-up may be lost with the process that gave it: the store is looked at this often without one.
const REFRESH_EVERY: Duration = Duration::from_secs(30);

/// Answers that are taken before anything else is looked at: many, since they are written in one transaction.
const MESSAGES_AT_ONCE: usize = 10_000;
/// How long that may take: a call of a handler is a message, too, and may be some thousand writes.
const MESSAGES_FOR: Duration = Duration::from_millis(100);

/// By how much resources come earlier than their interval says, at most. A tenth spreads ten thousand resources that were
/// deployed within a minute over the minute before their repair is due, and more with each repair; nobody who asks for a
/// repair every 600 s minds one after 540 s.
const SPREAD_PERCENT: u32 = 10;

/// How long shutdown waits for running tasks.
const PATIENCE: Duration = Duration::from_secs(5);

impl Reconciler {
    /// Reads the environment as the store has it. What was running when the server ended counts as
    /// not done.
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
        // A schedule of the version in force would try again what failed, and do what an interrupted run has left.
        let active = active.filter(|_| options.deploys);
        let agents = store.agent_list(environment).await?;
        let paused = agents
            .into_iter()
            .filter(|agent| agent.paused)
            .map(|agent| agent.name);
        let now = Timestamp::now();
        let unknowns = facts::unknowns(&store, environment, active).await?;
        let (schedule, code) = match active {
            None => {
                let none = Loading::new(VersionNumber::NONE, policy(&settings), paused, 0);
                (none.finish(now), Code::default())
            }
            Some(version) => {
                let schedule = load(&store, environment, version, &settings, paused, now).await?;
                let code = code_of(&store, environment, version).await?;
                let code = code.for_agents(schedule.types());
                (schedule, code)
            }
        };
        let executor = Executors::new(
            environment,
            options.python.clone(),
            options.executor,
            options.variables.clone(),
            options.ssh_config.clone(),
            options.packages.clone(),
            messages,
        );
        let model_places = match active {
            Some(version) => {
                read_agent_map(&store.version_agent_places(environment, version).await?)
            }
            None => BTreeMap::new(),
        };
        let mut engine = Self {
            environment,
            store,
            bus: options.bus.clone(),
            schedule,
            settings,
            executor,
            // What the store has of before is looked at once.
            has_places: true,
            model_places,
            code,
            halted,
            ending: None,
            deploys: options.deploys,
            in_flight: HashMap::new(),
            queued_tasks: HashMap::new(),
            comparing: HashMap::new(),
            facts: Facts::new(unknowns, options.recompile.clone(), options.facts),
            shutdown: options.shutdown.clone(),
            services: options.services.clone(),
            requests: Requests::new(options.api.clone()),
            reports: Vec::new(),
            unwritten: Batch::default(),
            writing: Writing::default(),
            action_logs: options.action_logs.clone(),
            daily: Daily::default(),
            round: None,
            n_rounds: 0,
            crons: Crons::default(),
        };
        engine.crons.plan(&engine.settings, now);
        engine.resume_dry_runs().await?;
        Ok(engine)
    }

    /// The loop, until it is stopped or nobody has its handle any more.
    async fn run(
        &mut self,
        requests: &mut mpsc::UnboundedReceiver<Request>,
        mut messages: mpsc::UnboundedReceiver<Message>,
        waits: bool,
    ) {
        // A refresh that failed is tried again; and once in a while there is one without a wake-up.
        let mut next_refresh = Instant::now();
        if waits {
            let first = requests.recv().await;
            if self
                .on_request(first, &mut messages, &mut next_refresh)
                .await
            {
                return;
            }
        }
        if let Err(error) = self.executor.prestart().await {
            tracing::error!(environment.id = %self.environment, %error, "cannot start the executor process");
        }
        loop {
            self.tick();
            self.give_up_overdue().await;
            if Instant::now() >= next_refresh {
                let pause = if self.refresh().await {
                    self.facts.times.renew_check().min(REFRESH_EVERY)
                } else {
                    Duration::from_secs(1)
                };
                next_refresh = Instant::now() + pause;
            }
            self.begin_installed().await;
            // Nothing is begun whose result could not be written. Without deploys there are tasks of dry runs only.
            if !self.halted && self.ending.is_none() && self.may_begin() {
                self.start_ready_runs().await;
            }
            self.begin_writing().await;
            self.settle();
            self.say_what_ended();
            let wait = self
                .wait()
                .min(next_refresh.saturating_duration_since(Instant::now()));
            tokio::select! {
                // Dropping a receive loses no message; the work is in the arms' bodies.
                request = requests.recv() => {
                    if self.on_request(request, &mut messages, &mut next_refresh).await {
                        return;
                    }
                }
                message = messages.recv() => {
                    if let Some(message) = message {
                        self.on_message(message).await;
                    }
                    // Not for ever, so that a fast executor cannot keep the loop from everything
                    // else.
                    let until = Instant::now() + MESSAGES_FOR;
                    for _ in 0..MESSAGES_AT_ONCE {
                        if Instant::now() >= until {
                            break;
                        }
                        let Ok(message) = messages.try_recv() else { break };
                        self.on_message(message).await;
                    }
                }
                // Dropped, it goes on. Afterwards the next batch begins.
                written = self.writing.end() => self.on_written(written).await,
                answered = self.requests.next() => {
                    if let Some((asker, answer)) = answered {
                        self.on_answer(asker, answer).await;
                    }
                }
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Does what somebody asks for; `true`: the loop ends.
    async fn on_request(
        &mut self,
        request: Option<Request>,
        messages: &mut mpsc::UnboundedReceiver<Message>,
        next_refresh: &mut Instant,
    ) -> bool {
        match request {
            None => return true,
            Some(Request::Wake) => *next_refresh = Instant::now(),
            Some(Request::Deploy {
                method,
                agents,
                reply,
            }) => {
                let _ = reply.send(self.request(method, agents));
            }
            Some(Request::DeploySome { method, ids, reply }) => {
                let _ = reply.send(self.request_some(method, &ids));
            }
            Some(Request::DryRun {
                version,
                ids,
                note,
                reply,
            }) => {
                let _ = reply.send(self.dry_run(version, ids.as_ref(), &note).await);
            }
            #[cfg(test)]
            Some(Request::Panic) => panic!("a test wants it so"),
            Some(Request::Attach {
                hello,
                commands,
                reply,
            }) => {
                let _ = reply.send(self.attach(&hello, commands).await);
            }
            Some(Request::Inspect { reply }) => {
                let _ = reply.send(self.inspect().await);
            }
            Some(Request::Installing { resource_id, reply }) => {
                let _ = reply.send(self.executor.installing_for(&resource_id));
            }
            Some(Request::Finish { reply }) => self.ending.get_or_insert_default().push(reply),
            Some(Request::Facts { resource_id }) => self.ask_for_facts(&resource_id),
            Some(Request::Stop { reply }) => {
                self.shut_down(messages).await;
                let _ = reply.send(());
                return true;
            }
        }
        false
    }

    /// Reads what changed in the store: settings, pauses, halting, released versions.
    async fn refresh(&mut self) -> bool {
        let refreshed = self.try_refresh().await;
        if let Err(error) = &refreshed {
            tracing::error!(environment.id = %self.environment, error = chain(error), "cannot read the released versions");
        }
        refreshed.is_ok()
    }

    async fn try_refresh(&mut self) -> Result<(), store::Error> {
        let now = Timestamp::now();
        self.settings = self.store.settings_fetch(self.environment).await?;
        self.schedule.set_policy(policy(&self.settings), now);
        self.crons.plan(&self.settings, now);
        let Some(record) = self.store.environment_fetch(self.environment).await? else {
            return Ok(());
        };
        self.halted = record.halted;
        self.place_agents().await?;
        if !self.deploys {
            return Ok(());
        }
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
        // Results that wait to be written were got before the version: afterwards they would write over what it brings.
        self.flush().await;
        let (changed, removed) = if active == VersionNumber::NONE {
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
        let places = self.store.version_agent_places(self.environment, number);
        self.model_places = read_agent_map(&places.await?);
        let activation = self.schedule.apply(number, changed, &removed, now);
        self.code = code.for_agents(self.schedule.types());
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
            environment.id = %self.environment, version = number.get(), n_new = activation.n_new,
            n_updated = activation.n_updated, n_removed = activation.removed.len(), "version {number} is in force"
        );
        self.bus.emit(
            self.environment,
            EventKind::Activated {
                version: number,
                n_new: activation.n_new,
                n_updated: activation.n_updated,
                n_removed: activation.removed.len(),
                n_total: self.schedule.len(),
            },
        );
        self.tell_who_waits(&activation.changed).await;
        self.recompile_for_known(now).await?;
        // Before anything runs: some of the new ones may be out of reach.
        self.place_agents().await?;
        // Even a version that changes nothing ends in a summary.
        self.begin_round();
        if self.settings.redeploy_failed_on_export() {
            let reason = "a new version was released, and what failed is tried again";
            self.schedule
                .request(Selection::Dirty, Priority::NewVersion, reason, None);
        }
        Ok(())
    }

    /// How long a handler may take for one run that begins now.
    pub(super) fn limit_ms(&self) -> u64 {
        u64::try_from(self.settings.deploy_timeout().as_millis()).unwrap_or(u64::MAX)
    }

    /// Schedules what is due by timers and by cron expressions. What comes due while the environment is halted is not made up
    /// for.
    fn tick(&mut self) {
        let now = Timestamp::now();
        let due = self.crons.take(now);
        if self.halted {
            return;
        }
        self.schedule.tick(now);
        if due.deploy {
            let reason = "a global deploy was triggered by a cron expression";
            self.schedule
                .request(Selection::Dirty, Priority::IntervalDeploy, reason, None);
        }
        if due.repair {
            let reason = "a global repair was triggered by a cron expression";
            self.schedule
                .request(Selection::All, Priority::IntervalRepair, reason, None);
        }
    }

    /// Hands out all that may run.
    async fn start_ready_runs(&mut self) {
        // What runs here is over at once, so that something else may be ready by then.
        while self.start_some().await {}
    }

    /// Hands out what may run now; `true`: some of it has ended already.
    async fn start_some(&mut self) -> bool {
        let mut has_ended = false;
        for start in self.schedule.take() {
            match start {
                Start::Deploy(run) => has_ended |= self.start_deploy(run).await,
                Start::Task(action) => self.start_task(action).await,
            }
        }
        self.executor.flush().await;
        has_ended
    }

    /// `true`: it has ended already.
    async fn start_deploy(&mut self, run: Run) -> bool {
        self.begin_round();
        let started = Timestamp::now();
        self.unwritten.starts.push(ActionStart {
            id: run.action,
            action: ActionKind::Deploy,
            version: run.version,
            resource_id: run.intent.resource_id.clone(),
            started,
        });
        if run.intent.resource_type == services::LIFECYCLE_TRANSFER {
            self.report(run, started);
            return true;
        }
        let code = Arc::clone(self.code.of(&run.intent.agent));
        let task = Task {
            action: run.action,
            kind: TaskKind::Deploy {
                requires: run.requires.clone(),
                dependency_changed: run.dependency_changed,
            },
            code: code.key.clone(),
            agent: run.intent.agent.clone(),
            resource_id: run.intent.resource_id.clone(),
            resource_type: run.intent.resource_type.to_string(),
            version: run.version,
            attributes: run.intent.attributes.to_string(),
            reason: run.reason.clone(),
            limit_ms: self.limit_ms(),
        };
        self.in_flight.insert(run.action, InFlight { run, started });
        self.executor.run(task, &code).await;
        false
    }

    /// Lets a task that is no deployment wait for its turn in the queue of its agent.
    pub(super) fn queue_task(&mut self, queued: QueuedTask, priority: Priority) {
        let task = &queued.task;
        self.schedule.add_task(task.action, &task.agent, priority);
        self.queued_tasks.insert(task.action, queued);
    }

    async fn start_task(&mut self, action: ActionId) {
        let Some(QueuedTask { task, code, place }) = self.queued_tasks.remove(&action) else {
            self.schedule.task_finished(action);
            return;
        };
        if matches!(task.kind, TaskKind::CollectFacts) {
            self.facts.on_started(&task.resource_id);
            self.unwritten.starts.push(ActionStart {
                id: action,
                action: ActionKind::CollectFacts,
                version: task.version,
                resource_id: task.resource_id.clone(),
                started: Timestamp::now(),
            });
        }
        if task.is_dry_run() {
            let comparing = Comparing {
                version: task.version,
                started: Timestamp::now(),
            };
            self.comparing.insert(action, comparing);
        }
        match place {
            None => self.executor.run(task, &code).await,
            Some(place) => self.executor.run_at(place, task, &code).await,
        }
    }

    /// Schedules what somebody asks for.
    fn request(
        &mut self,
        method: DeployKind,
        agents: Option<BTreeSet<AgentName>>,
    ) -> Result<Scheduled, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        if self.schedule.version() == VersionNumber::NONE {
            return Err(RequestError::NothingReleased);
        }
        if let Some(agents) = &agents
            && !agents.iter().any(|agent| self.schedule.knows_agent(agent))
        {
            let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
            return Err(RequestError::UnknownAgents(names.join(", ")));
        }
        let round = self.begin_round();
        let (which, priority, reason) = what_is_asked(method);
        let agents = self
            .schedule
            .request(which, priority, reason, agents.as_ref());
        Ok(Scheduled {
            agents: agents.into_iter().collect(),
            round,
        })
    }

    /// Schedules what somebody asks for of some resources, and gives those that the model has.
    fn request_some(
        &mut self,
        method: DeployKind,
        ids: &BTreeSet<ResourceId>,
    ) -> Result<Vec<ResourceId>, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        self.begin_round();
        let (which, priority, reason) = what_is_asked(method);
        Ok(self.schedule.request_some(which, priority, reason, ids))
    }

    /// Tells those who wait for it that nothing runs any more.
    fn say_what_ended(&mut self) {
        if self.in_flight.is_empty() && self.is_all_written() {
            for reply in self.ending.iter_mut().flat_map(std::mem::take) {
                let _ = reply.send(());
            }
        }
    }

    /// The time until the next timer fires, at most a minute.
    fn wait(&self) -> Duration {
        let due = [self.schedule.next_due(), self.crons.next()];
        let due = due.into_iter().flatten().min();
        // At most a minute: a clock that jumps is noticed then.
        let longest = Duration::from_secs(60);
        if self.halted {
            longest
        } else {
            due.map_or(longest, |due| due.since(Timestamp::now()).min(longest))
        }
    }

    /// Waits a moment for running tasks, cuts off those that go on, and writes what is known.
    async fn shut_down(&mut self, messages: &mut mpsc::UnboundedReceiver<Message>) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while self
            .in_flight
            .keys()
            .any(|action| !self.executor.goes_on_without_us(*action))
        {
            tokio::select! {
                message = messages.recv() => match message {
                    Some(message) => self.on_message(message).await,
                    None => break,
                },
                // A handler that has asked something can end when it is answered.
                answered = self.requests.next() => {
                    if let Some((asker, answer)) = answered {
                        self.on_answer(asker, answer).await;
                    }
                }
                () = tokio::time::sleep_until(deadline) => break,
            }
        }
        // What is still running is cut off; the executor goes with us.
        for done in self
            .executor
            .close("the server stopped during this run; the resource is verified again")
            .await
        {
            // A dry run goes on after the next start.
            if !matches!(done.purpose, Purpose::DryRun(_)) {
                self.on_task_done(done).await;
            }
        }
        self.flush().await;
    }
}

/// The schedule of the version in force, with the states of its resources.
async fn load(
    store: &Store,
    environment: EnvironmentId,
    version: VersionNumber,
    settings: &Settings,
    paused: impl IntoIterator<Item = AgentName>,
    now: Timestamp,
) -> Result<Schedule, store::Error> {
    let known = store.version_fetch(environment, version).await?;
    let n_resources = known.map_or(0, |known| usize::try_from(known.n_resources).unwrap_or(0));
    let mut restoring = Restoring {
        loading: Loading::new(version, policy(settings), paused, n_resources),
        reading: Reading::default(),
    };
    let with_states = !settings.reset_deploy_progress_on_start();
    store
        .rows_each(environment, version, with_states, &mut restoring)
        .await?;
    let Restoring { loading, reading } = restoring;
    drop(reading);
    Ok(loading.finish(now))
}

/// Takes over what the store has of the version in force.
struct Restoring {
    loading: Loading,
    reading: Reading,
}

impl SeesRows for Restoring {
    fn resource(&mut self, row: &ResourceRow<'_>) -> Result<(), store::Error> {
        self.loading.intent(self.reading.intent(row)?);
        Ok(())
    }

    fn state(&mut self, row: &StateRow<'_>) {
        self.loading.state(row);
    }

    fn has_seen(&self, resource_id: &str) -> bool {
        self.loading.has(resource_id)
    }
}

/// What a request is to run, how urgent that is, and the reason that is noted with it.
fn what_is_asked(method: DeployKind) -> (Selection, Priority, &'static str) {
    match method {
        DeployKind::Deploy => (
            Selection::Dirty,
            Priority::UserDeploy,
            "user requested a deploy",
        ),
        DeployKind::Verify => (
            Selection::All,
            Priority::UserRepair,
            "the server was started",
        ),
        DeployKind::Repair => (
            Selection::All,
            Priority::UserRepair,
            "user requested a repair",
        ),
    }
}

/// Ids of resources that are undefined or require one that is, however far.
fn blocked_ids(intents: &[Intent]) -> BTreeSet<ResourceId> {
    let mut blocked: BTreeSet<ResourceId> = BTreeSet::new();
    let mut provides: HashMap<&ResourceId, Vec<&ResourceId>> = HashMap::new();
    for intent in intents {
        for require in &intent.requires {
            provides
                .entry(require)
                .or_default()
                .push(&intent.resource_id);
        }
    }
    let mut queue: Vec<&ResourceId> = intents
        .iter()
        .filter(|intent| intent.is_undefined)
        .map(|intent| &intent.resource_id)
        .collect();
    while let Some(id) = queue.pop() {
        if blocked.insert(id.clone()) {
            queue.extend(provides.get(id).into_iter().flatten());
        }
    }
    blocked
}

/// How often resources run by themselves, of the settings.
fn policy(settings: &Settings) -> RetryPolicy {
    RetryPolicy {
        deploy: settings.deploy_interval().every(),
        repair: settings.repair_interval().every(),
        backoff: settings.retry_backoff(),
        spread_percent: SPREAD_PERCENT,
    }
}
