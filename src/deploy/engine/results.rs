//! What comes back from the executor: ends of runs, and the round of work that they are part of.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Comparing, InFlight, Reconciler};
use crate::deploy::ask::Asker;
use crate::deploy::facts::facts_of;
use crate::deploy::schedule::Ended;
use crate::domain::{
    ActionKind, Change, DryRunId, DryRunStatus, HandlerStatus, LogLevel, ResourceId,
    ResourceStatus, Timestamp,
};
use crate::executor::bounds::{bound, messages_json};
use crate::executor::clock::ERROR_OF_CLOCK;
use crate::executor::link::{Message, Purpose, TaskResult};
use crate::executor::protocol::{Task, TaskOutcome};
use crate::executor::secret_names;
use crate::executor::waiting::Begin;
use crate::observe::{EventKind, ResourceDone, Summary};
use crate::store::{ActionEnd, ActionStart, Compared};

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
                self.unwritten.held.push(held);
                if let Some(done) = self.executor.on_done(generation, *done) {
                    self.on_task_done(done).await;
                }
            }
            Message::Agent {
                connection,
                message,
                held,
            } => {
                self.unwritten.held.push(held);
                self.on_agent(connection, message).await;
            }
            Message::NotSent(result) => self.on_task_done(*result).await,
            Message::Installed { digest, made } => self.executor.on_installed(digest, made),
            Message::Ask {
                generation,
                id,
                method,
                arguments,
                held,
            } => {
                let asker = Asker::Executor { generation, id };
                self.on_api_call(asker, &method, &arguments, held).await;
            }
            Message::Ended { generation, why } => {
                let Some(unfinished) = self.executor.on_ended(generation, why.as_deref()) else {
                    return;
                };
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

    pub(super) async fn on_task_done(&mut self, mut result: TaskResult) {
        secret_names::hide(&mut result.outcome, &result.resource_id);
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
            Purpose::DryRun(run) => self.on_compared(run, result),
            Purpose::CollectFacts => self.on_facts_collected(result),
        }
    }

    /// Begins runs that have waited for packages or a connection, as far as what is wanted has not changed meanwhile.
    pub(super) async fn begin_waiting(&mut self) {
        let (halted, schedule, in_flight) = (self.halted, &self.schedule, &self.in_flight);
        let may_begin = |task: &Task| {
            let begun = in_flight.get(&task.action);
            let hash = begun.map(|begun| &begun.run.intent.attribute_hash);
            let version = schedule.version();
            match (hash, schedule.intent(&task.resource_id)) {
                (Some(_), None) => Begin::Never(format!(
                    "was not begun: while it waited, version {version} came, which does not have it"
                )),
                (Some(hash), Some(intent)) if intent.attribute_hash != *hash => {
                    Begin::Never(format!(
                        "was not begun: while it waited, version {version} came, which has another desired state for it"
                    ))
                }
                _ if halted || schedule.is_paused(&task.agent) => Begin::Later,
                _ => Begin::Now,
            }
        };
        for result in self.executor.begin_waiting(may_begin).await {
            self.on_task_done(result).await;
        }
    }

    /// Notes what a dry run would change on one resource, and what the handler said of it, to be written.
    fn on_compared(&mut self, dry_run: DryRunId, result: TaskResult) {
        let (action, resource_id) = (result.action, result.resource_id);
        self.schedule.task_finished(action);
        let outcome = result.outcome;
        if let Some(Comparing { version, started }) = self.comparing.remove(&action) {
            let now = Timestamp::now();
            let mut logged = outcome.clone();
            // They are in the result of the dry run.
            logged.changes.clear();
            bound(&mut logged, self.daily.share(&resource_id, now));
            let mut lines = logged.logs;
            if let Some(first) = lines.first_mut() {
                let known = [
                    ("dry_run_id", dry_run.to_string()),
                    ("resource_id", format!("{resource_id},v={version}")),
                ];
                let known = known.map(|(name, text)| (name.to_owned(), text.into()));
                first.kwargs.extend(known);
            }
            let messages = messages_json(&lines);
            self.daily.add(&resource_id, messages.len());
            let start = ActionStart {
                id: action,
                action: ActionKind::DryRun,
                version,
                resource_id: resource_id.clone(),
                started,
            };
            let status = match outcome.status {
                HandlerStatus::Unavailable => ResourceStatus::Unavailable,
                _ => ResourceStatus::Dry,
            };
            let end = ActionEnd {
                id: action,
                finished: finished_at(result.finished, started, now),
                status,
                change: Change::NoChange,
                changes: "{}".to_owned(),
                messages,
                state: None,
                facts: Vec::new(),
                discovered: Vec::new(),
                resource_id: resource_id.clone(),
            };
            self.unwritten.starts.push(start);
            self.unwritten.ends.push((end, None));
        }
        let (status, changes) = comparison(outcome);
        self.unwritten.compared.push(Compared {
            dry_run,
            resource_id,
            status,
            changes: serde_json::Value::Object(changes).to_string(),
        });
    }

    /// Takes the end of a deployment into the schedule, and notes what is to be written.
    pub(super) fn on_deployed(&mut self, result: TaskResult) {
        let Some(InFlight { run, started, .. }) = self.in_flight.remove(&result.action) else {
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
            finished: finished_at(result.finished, started, now),
        };
        let state = self
            .schedule
            .finished(&resource_id, result.action, ended, now);
        if self.executor.is_here(&run.intent.agent) {
            self.schedule.measured(&run.intent, started, ended.finished);
        }
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
        self.unwritten.ends.push((end, Some(event)));
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
        if !self.in_flight.is_empty() || !self.schedule.is_idle() || !self.is_all_written() {
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
            reported: counts.reported,
            skipped: counts.skipped,
            undefined: counts.undefined,
        };
        self.bus.emit(self.environment, EventKind::Settled(summary));
    }
}

/// When a run ended, by the clock of the server. The executor may be on another machine, whose clock is wrong: a run that
/// ended next year would not be repaired before.
fn finished_at(ended: Timestamp, started: Timestamp, now: Timestamp) -> Timestamp {
    ended.min(now).max(started)
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
    // Handlers may end a dry run as any run: one that only reports, and finds nothing to report, says that all is deployed.
    let has_failed = matches!(
        outcome.status,
        HandlerStatus::Failed | HandlerStatus::Unavailable
    );
    let mut changes = outcome.changes;
    if has_failed && changes.is_empty() {
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
        let lines = outcome.logs.iter().rev();
        let mut newest_first = lines.filter(|line| !line.kwargs.contains_key(ERROR_OF_CLOCK));
        newest_first.find(|line| is_meant(line.level))
    };
    let trouble = last(&|level| level <= LogLevel::Warning);
    let skip = || {
        let is_skipped = outcome.status == HandlerStatus::SkippedForDependency;
        last(&|level| is_skipped && level == LogLevel::Info)
    };
    trouble.or_else(skip).map(|line| line.msg.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::clock;
    use crate::executor::protocol::LogLine;

    /// Input: an executor whose clock is a year ahead, or a year behind (docs/reference/security.md § 4.8). Answer: its runs end between their beginning and now.
    #[test]
    fn a_run_ends_now_at_the_latest_whatever_the_clock_of_its_executor_says() {
        const YEAR: i64 = 365 * 86_400_000_000;
        let (started, now) = (Timestamp(1_000_000), Timestamp(5_000_000));
        let at = |ended| finished_at(Timestamp(ended), started, now).0;
        assert_eq!(at(2_000_000), 2_000_000);
        assert_eq!(at(5_000_000 + YEAR), 5_000_000);
        assert_eq!(at(1_000_000 - YEAR), 1_000_000);
    }

    /// Given: dry runs that end without a difference, with each status. Expected: only those that could not be made failed, and
    /// a skipped one says why.
    #[test]
    fn a_dry_run_without_a_difference_failed_only_if_its_handler_did() {
        let changes_of = |status| comparison(TaskOutcome::of(status)).1;
        for status in [
            HandlerStatus::Dry,
            HandlerStatus::Deployed,
            HandlerStatus::NonCompliant,
        ] {
            assert!(changes_of(status).is_empty(), "{status:?}");
        }
        for status in [HandlerStatus::Failed, HandlerStatus::Unavailable] {
            assert!(changes_of(status).contains_key("handler"), "{status:?}");
        }
        let (status, changes) = comparison(TaskOutcome::of(HandlerStatus::Skipped));
        assert_eq!(status, DryRunStatus::Skipped);
        assert!(changes.contains_key("reason"));
    }

    /// Given: failed and skipped runs of a machine whose clock is wrong. Expected: why they failed is not the clock.
    #[test]
    fn a_clock_that_is_wrong_is_not_why_a_run_failed() {
        let line = |level, msg: &str| LogLine {
            level,
            msg: msg.into(),
            kwargs: serde_json::Map::new(),
            timestamp_us: 1,
        };
        let reason = |status, level| {
            let mut logs = vec![line(LogLevel::Debug, "begin"), line(level, "why")];
            clock::correct(&mut logs, 3_600_000_000);
            message_of(&TaskOutcome {
                logs,
                ..TaskOutcome::of(status)
            })
        };
        let why = Some("why".to_owned());
        assert_eq!(reason(HandlerStatus::Failed, LogLevel::Error), why);
        assert_eq!(reason(HandlerStatus::Skipped, LogLevel::Warning), why);
        let skipped = reason(HandlerStatus::SkippedForDependency, LogLevel::Info);
        assert_eq!(skipped, why);
        assert_eq!(reason(HandlerStatus::Failed, LogLevel::Debug), None);
    }
}
