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
mod asking;
mod crons;
mod dry_run;
mod fresh;
mod handle;
mod long_runs;
mod permits;
mod refresh;
mod restoring;
mod results;
mod services;
mod starting;
mod stopping;
mod writing;

pub use agents::Admission;
pub use handle::{DeployKind, Engine, Inspected, Options, RequestError, Scheduled};
pub(crate) use services::LIFECYCLE_TRANSFER;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crons::Crons;
use fresh::{FRESH, Fresh};
use handle::Request;

use results::Round;
use writing::{Batch, Writing};

use super::ask::Requests;
use super::code::Code;
use super::facts::Facts;
use super::schedule::{Priority, Run, Schedule, Selection};
use crate::domain::{
    ActionId, AgentName, AgentPlace, EnvironmentId, Settings, Timestamp, VersionNumber, chain,
};
use crate::executor::agent_code::AgentCode;
use crate::executor::bounds::Daily;
use crate::executor::link::Message;
use crate::executor::places::Executors;
use crate::executor::protocol::Task;
use crate::lsm::{Report, Services};
use crate::observe::{ActionLogs, Bus};
use crate::store::{self, Store};

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
    /// How often it was reported as one that takes long.
    n_noted: usize,
}

impl InFlight {
    fn new(run: Run, started: Timestamp) -> Self {
        Self {
            run,
            started,
            n_noted: 0,
        }
    }
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
    /// When they are looked at again, for those that take long.
    look_at_runs: Instant,
    fresh: Fresh,
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

/// Requests that are taken before anything else is looked at.
const REQUESTS_AT_ONCE: usize = 100;

/// Answers that are taken before anything else is looked at: many, since they are written in one transaction.
const MESSAGES_AT_ONCE: usize = 10_000;
/// How long that may take: a call of a handler is a message, too, and may be some thousand writes.
const MESSAGES_FOR: Duration = Duration::from_millis(100);

impl Reconciler {
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
            // Somebody waits for these, while the executor may have answers without end: below, what is ready is taken by chance.
            for _ in 0..REQUESTS_AT_ONCE {
                let Ok(request) = requests.try_recv() else {
                    break;
                };
                if self
                    .on_request(Some(request), &mut messages, &mut next_refresh)
                    .await
                {
                    return;
                }
            }
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
            self.begin_waiting().await;
            // Nothing is begun whose result could not be written. Without deploys there are tasks of dry runs only.
            if self.begins_runs() {
                self.start_ready_runs().await;
            }
            self.begin_writing();
            self.settle();
            self.say_what_ended();
            self.report_long_runs();
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
            Some(Request::Waiting { resource_id, reply }) => {
                let _ = reply.send(self.executor.waiting_for(&resource_id));
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

    /// Tells those who wait for it that nothing runs any more.
    fn say_what_ended(&mut self) {
        if self.in_flight.is_empty() && self.is_all_written() {
            for reply in self.ending.iter_mut().flat_map(std::mem::take) {
                let _ = reply.send(());
            }
        }
    }

    /// Whether anything is begun just now.
    fn begins_runs(&self) -> bool {
        !self.halted && self.ending.is_none() && self.may_begin()
    }

    /// The time until the next timer fires, at most a minute.
    fn wait(&self) -> Duration {
        let due = [self.schedule.next_due(), self.crons.next()];
        let due = due.into_iter().flatten().min();
        // At most a minute: a clock that jumps is noticed then.
        let longest = Duration::from_secs(60);
        let due = due.filter(|_| !self.halted);
        let wait = due.map_or(longest, |due| due.since(Timestamp::now()).min(longest));
        // What was begun a moment ago is written when it is not over by then.
        let young = self.unwritten.starts.first().map(|start| {
            let until = start.started.plus(FRESH);
            until.since(Timestamp::now()).min(FRESH)
        });
        let young = young.filter(|_| !self.writing.is_going_on());
        let look = self.executor.next_look().filter(|_| !self.halted);
        // Room is looked for where runs are begun only.
        let room = self.fresh.until_room().filter(|_| self.begins_runs());
        let waits = [look, room, young, self.until_look_at_runs()];
        waits.into_iter().flatten().fold(wait, Duration::min)
    }
}
