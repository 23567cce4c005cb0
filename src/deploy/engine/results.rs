//! What comes back from the executor, and how it is written: beginnings and ends of runs in batches, and the round of work
//! that they are part of.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::Reconciler;
use crate::deploy::facts::facts_of;
use crate::deploy::schedule::Ended;
use crate::domain::{Blocked, HandlerStatus, Timestamp, chain};
use crate::executor::bounds::bound;
use crate::executor::link::Message;
use crate::executor::protocol::TaskDone;
use crate::observe::{EventKind, ResourceDone, Summary};
use crate::store::{self, ActionEnd};

/// The work of an environment from rest to rest; its end is told in a summary.
pub(super) struct Round {
    pub(super) began: Instant,
    /// How many runs ended in it.
    pub(super) n_runs: usize,
    /// Resources that were changed and are good.
    pub(super) changed: BTreeSet<String>,
}

impl Reconciler {
    /// Takes note of what the executor says: the end of a task, a handler's call of the API, or its
    /// own end.
    pub(super) async fn on_message(&mut self, message: Message) {
        match message {
            Message::Done {
                generation,
                done,
                held,
            } => {
                self.held.push(held);
                if let Some(done) = self.executor.answered(generation, *done) {
                    self.done(done).await;
                }
            }
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
                let unfinished = self.executor.ended(generation, why.as_deref());
                if let Some(why) = why {
                    tracing::error!(environment.id = %self.environment, n_tasks = unfinished.len(), "the executor process was ended: {why}");
                } else if !unfinished.is_empty() {
                    tracing::error!(environment.id = %self.environment, n_tasks = unfinished.len(), "the executor process ended with tasks unfinished");
                }
                for done in unfinished {
                    self.done(done).await;
                }
            }
        }
    }

    pub(super) async fn done(&mut self, done: TaskDone) {
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
        let mut outcome = done.outcome;
        bound(&mut outcome, self.daily.share(&done.resource_id, now));
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
        let changes = serde_json::Value::Object(outcome.changes).to_string();
        let messages = crate::executor::bounds::messages_json(&outcome.logs);
        self.daily
            .add(&done.resource_id, changes.len() + messages.len());
        let end = ActionEnd {
            id: done.action,
            finished,
            status: status.legacy(),
            change: change.as_str(),
            changes,
            messages,
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
    pub(super) async fn flush(&mut self) {
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
            self.bus
                .emit(self.environment, EventKind::ResourceDone(event));
        }
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
        self.bus.emit(self.environment, EventKind::Settled(summary));
    }
}
