//! What comes back from the executor, and how it is written: beginnings and ends of runs in batches, and the round of work
//! that they are part of.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{InFlight, Reconciler};
use crate::deploy::facts::facts_of;
use crate::deploy::schedule::Ended;
use crate::domain::{
    ActionId, Change, DryRunId, DryRunStatus, HandlerStatus, LogLevel, ResourceId, ResourceStatus,
    Timestamp, chain,
};
use crate::executor::bounds::{bound, messages_json};
use crate::executor::link::{Message, Purpose, TaskResult};
use crate::executor::protocol::TaskOutcome;
use crate::observe::{EventKind, ResourceDone, Summary};
use crate::store::{self, ActionEnd, ActionStart};

/// The work of an environment from rest to rest; it ends with a summary.
pub(super) struct Round {
    pub(super) began: Instant,
    /// How many runs ended in it.
    pub(super) n_runs: usize,
    /// Resources that were changed and are good.
    pub(super) changed: BTreeSet<ResourceId>,
}

impl Reconciler {
    /// Handles a message of the executor: the end of a task, a handler's call of the API, or its
    /// own end.
    pub(super) async fn on_message(&mut self, message: Message) {
        match message {
            Message::Done {
                generation,
                done,
                held,
            } => {
                self.held.push(held);
                if let Some(done) = self.executor.on_done(generation, *done) {
                    self.on_task_done(done).await;
                }
            }
            Message::Agent {
                connection,
                message,
                held,
            } => {
                self.held.push(held);
                self.on_agent(connection, message).await;
            }
            Message::NotSent(result) => self.on_task_done(*result).await,
            Message::Ask {
                generation,
                id,
                method,
                arguments,
                held: _held,
            } => {
                let answer = self.handle_api_call(&method, &arguments).await;
                self.executor.answer(generation, id, answer).await;
            }
            Message::Ended { generation, why } => {
                let unfinished = self.executor.on_ended(generation, why.as_deref());
                if let Some(why) = why {
                    tracing::error!(environment.id = %self.environment, n_tasks = unfinished.len(), "the executor process was ended: {why}");
                } else if !unfinished.is_empty() {
                    tracing::error!(environment.id = %self.environment, n_tasks = unfinished.len(), "the executor process ended with tasks unfinished");
                }
                for done in unfinished {
                    self.on_task_done(done).await;
                }
            }
        }
    }

    pub(super) async fn on_task_done(&mut self, result: TaskResult) {
        match result.purpose {
            Purpose::Deploy => {
                let resource_id = result.resource_id.clone();
                let found = facts_of(&result.outcome);
                let is_there = result.outcome.status == HandlerStatus::Deployed;
                self.on_deployed(result);
                if is_there {
                    self.ask_for_awaited(&resource_id, &found).await;
                }
            }
            Purpose::DryRun(run) => self.on_compared(run, result).await,
            Purpose::CollectFacts => self.on_facts_collected(result).await,
        }
    }

    /// Writes what a dry run would change on one resource.
    async fn on_compared(&mut self, run: DryRunId, result: TaskResult) {
        self.schedule.task_finished(result.action);
        let (status, changes) = comparison(result.outcome);
        let changes = serde_json::Value::Object(changes).to_string();
        let written = self
            .store
            .dry_run_result(run, &result.resource_id, status, &changes)
            .await;
        if let Err(error) = written {
            tracing::error!(dry_run.id = %run, error = chain(&error), "cannot write the result of a dry run");
        }
    }

    /// Takes the end of a deployment into the schedule, and notes what is to be written.
    pub(super) fn on_deployed(&mut self, result: TaskResult) {
        let Some(InFlight { run, started }) = self.in_flight.remove(&result.action) else {
            return;
        };
        let (now, resource_id) = (Timestamp::now(), result.resource_id);
        let mut outcome = result.outcome;
        bound(&mut outcome, self.daily.share(&resource_id, now));
        let (status, change) = (outcome.status, outcome.change);
        let ended = Ended {
            status,
            changed: change != Change::NoChange,
            started,
            finished: result.finished.max(started),
        };
        let state = self
            .schedule
            .finished(&resource_id, result.action, ended, now);
        if let Some(round) = &mut self.round {
            round.n_runs += 1;
            if ended.changed && status == HandlerStatus::Deployed {
                round.changed.insert(resource_id.clone());
            }
        }
        let event = ResourceDone {
            resource_id: resource_id.clone(),
            version: run.version,
            status: status.legacy(),
            change,
            changes: outcome.changes.clone().into_iter().collect(),
            reason: run.reason,
            message: message_of(&outcome),
            duration: ended.finished.since(started),
        };
        let facts = facts_of(&outcome);
        let changes = serde_json::Value::Object(outcome.changes).to_string();
        let messages = messages_json(&outcome.logs);
        self.daily.add(&resource_id, changes.len() + messages.len());
        let discovered = outcome.discovered.into_iter().map(|found| {
            let values = serde_json::Value::Object(found.values);
            (found.resource_id, values.to_string())
        });
        let end = ActionEnd {
            id: result.action,
            finished: ended.finished,
            status: status.legacy(),
            change,
            changes,
            messages,
            state,
            facts,
            discovered: discovered.collect(),
            resource_id,
        };
        self.ends.push((end, event));
    }

    /// Writes what happened, in one transaction; a database that is away is waited for.
    pub(super) async fn flush(&mut self) {
        // Before the ends of their runs: a run whose report was lost in a crash is a run that has not ended.
        self.hand_on_reports().await;
        // Answers whose words are in `ends` hold their room until these are written.
        let _held = std::mem::take(&mut self.held);
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
        self.acknowledge(ends.iter().map(|end| end.id));
        self.recompile_for_facts(&ends).await;
        for event in events {
            if event.status != ResourceStatus::Deployed {
                tracing::warn!(
                    environment.id = %self.environment, resource.id = %event.resource_id, status = event.status.as_str(),
                    "{} is {}: {}", event.resource_id, event.status, event.message.as_deref().unwrap_or_default()
                );
            } else if event.change != Change::NoChange {
                tracing::info!(
                    environment.id = %self.environment, resource.id = %event.resource_id, change = event.change.as_str(),
                    "{} was {}", event.resource_id, event.change
                );
            }
            self.bus
                .emit(self.environment, EventKind::ResourceDone(event));
        }
    }

    /// The beginning of a run that is to be written with its end.
    pub(in crate::deploy) fn take_start_of(&mut self, action: ActionId) -> Vec<ActionStart> {
        let is_meant = |start: &mut ActionStart| start.id == action;
        self.starts.extract_if(.., is_meant).collect()
    }

    /// `false`: it is time to stop instead.
    pub(super) async fn complain_and_wait(
        &self,
        what: &str,
        error: &store::Error,
        pause: &mut Duration,
    ) -> bool {
        let (id, error) = (self.environment, chain(error));
        tracing::error!(environment.id = %id, error, "cannot {what}; trying again in {pause:?}");
        self.bus.emit(
            id,
            EventKind::Trouble {
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
    pub(super) fn begin_round(&mut self) -> u64 {
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
    pub(super) fn settle(&mut self) {
        if !self.in_flight.is_empty() || !self.schedule.is_idle() {
            return;
        }
        let Some(round) = self.round.take() else {
            return;
        };
        let counts = *self.schedule.counts();
        let is_good = |id: &&ResourceId| {
            let state = self.schedule.state(id);
            state.is_some_and(|state| state.status() == ResourceStatus::Deployed)
        };
        let n_changed = round.changed.iter().filter(is_good).count();
        let summary = Summary {
            round: self.n_rounds,
            version: self.schedule.version(),
            total: self.schedule.len(),
            n_runs: round.n_runs,
            duration: round.began.elapsed(),
            deployed: n_changed,
            unchanged: counts.deployed.saturating_sub(n_changed),
            failed: counts.failed,
            skipped: counts.skipped,
            undefined: counts.undefined,
        };
        self.bus.emit(self.environment, EventKind::Settled(summary));
    }
}

/// What a dry run says of a resource whose handler was asked. Source: docs/reference/deployment.md § 5.10.
fn comparison(outcome: TaskOutcome) -> (DryRunStatus, serde_json::Map<String, serde_json::Value>) {
    let is_skipped = matches!(
        outcome.status,
        HandlerStatus::Skipped | HandlerStatus::SkippedForDependency
    );
    if is_skipped && outcome.changes.is_empty() {
        let reason = message_of(&outcome).unwrap_or_default();
        let reason = [("reason".to_owned(), reason.into())];
        return (DryRunStatus::Skipped, reason.into_iter().collect());
    }
    let mut changes = outcome.changes;
    if outcome.status != HandlerStatus::Dry && !is_skipped && changes.is_empty() {
        let mut newest_first = outcome.logs.iter().rev();
        let last = newest_first.find(|line| line.level == LogLevel::Error);
        let why = last.map_or("Handler failed", |line| line.msg.as_str());
        let failed = serde_json::json!({"current": "FAILED", "desired": why});
        changes.insert("handler".to_owned(), failed);
    }
    (DryRunStatus::Changes, changes)
}

/// The line of a run's log that best explains its result: its last trouble, else why it waits for something.
fn message_of(outcome: &TaskOutcome) -> Option<String> {
    let last = |is_meant: &dyn Fn(LogLevel) -> bool| {
        let mut newest_first = outcome.logs.iter().rev();
        newest_first.find(|line| is_meant(line.level))
    };
    let trouble = last(&|level| level <= LogLevel::Warning);
    let skip = || {
        let is_skipped = outcome.status == HandlerStatus::SkippedForDependency;
        last(&|level| is_skipped && level == LogLevel::Info)
    };
    trouble.or_else(skip).map(|line| line.msg.clone())
}
