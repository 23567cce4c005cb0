//! Results on their way into the database.
//!
//! An agent runs one resource at a time, so with four agents there are never more than four results between two turns of the
//! engine. Were each turn to wait until its results are on disk, a thousand resources would cost 250 transactions, one after
//! the other, and agents would have nothing to do meanwhile. So results are written *beside* the engine: one transaction at a
//! time, and what comes in while it runs is written together by the next one. The slower the database, the larger the
//! batches; nobody waits for it but those who need to see the results in it:
//!
//! - a new version ([`Reconciler::flush_of`]): its states would be overwritten by results from before it, of the resources
//!   that it changes;
//! - a handler that asks something of the API: it must see what was done before it;
//! - whoever is told of results, in events and in the summary of a round: told is what is durable.
//!
//! What is lost when the server is killed is what nobody was told of: these resources are dirty still, or due, and run again.
//!
//! While the database does not take a batch, it is tried again after growing pauses, and nothing new is begun. Nor is anything
//! while it does not answer: a server that were killed then would have to repeat all that it had begun.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::fresh::FRESH;
use super::{Reconciler, action_log};
use crate::domain::{
    ActionId, Change, EnvironmentId, ResourceId, ResourceStatus, Timestamp, chain,
};
use crate::executor::replies::Held;
use crate::lsm::{Report, Services};
use crate::observe::{ActionLogs, Bus, EventKind, ResourceDone};
use crate::store::{self, ActionEnd, ActionStart, Compared, Store};

/// Results that may wait for the database before runs are held back: as many as one transaction takes within a tenth of a second.
/// Who begins more than the database takes gains nothing, and a new version has to wait until all that has ended is written.
const MAX_UNWRITTEN: usize = 2_000;

/// How long a transaction may go on before nothing new is begun: the database stands still, or is so slow that more results
/// would only wait longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest pause before a database that is away is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(10);

/// What happened and is not written yet.
#[derive(Debug, Default)]
pub(in crate::deploy) struct Batch {
    /// Beginnings of runs.
    pub(in crate::deploy) starts: Vec<ActionStart>,
    /// Ends of runs, with the event to publish when they are written; `None`: nobody is told.
    pub(in crate::deploy) ends: Vec<(ActionEnd, Option<ResourceDone>)>,
    /// What dry runs found.
    pub(in crate::deploy) compared: Vec<Compared>,
    /// The room that the answers in `ends` and `compared` take; it is given back when they are written.
    pub(in crate::deploy) held: Vec<Held>,
}

/// Ends that are in the database now, with their events.
#[derive(Debug)]
pub(super) struct Written {
    ends: Vec<ActionEnd>,
    events: Vec<ResourceDone>,
}

/// The transaction that goes on, if one does. Dropped, it is given up.
#[derive(Debug, Default)]
pub(super) struct Writing {
    task: JoinSet<Option<Written>>,
    /// When it began.
    began: Option<Instant>,
    /// The last attempt to write has failed.
    has_failed: Arc<AtomicBool>,
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty() && self.ends.is_empty() && self.compared.is_empty()
    }

    /// Takes out what is of other resources than these.
    fn without_others(&mut self, ids: &HashSet<ResourceId>) -> Self {
        let Self {
            starts,
            ends,
            compared,
            held,
        } = std::mem::take(self);
        let (mine, starts) = starts
            .into_iter()
            .partition(|start| ids.contains(&start.resource_id));
        self.starts = mine;
        let (mine, ends) = ends
            .into_iter()
            .partition(|(end, _)| ids.contains(&end.resource_id));
        self.ends = mine;
        Self {
            starts,
            ends,
            compared,
            held,
        }
    }

    /// Adds what came later.
    fn append(&mut self, later: Self) {
        self.starts.extend(later.starts);
        self.ends.extend(later.ends);
        self.compared.extend(later.compared);
        self.held.extend(later.held);
    }

    /// Takes out the beginnings of runs that are fresh at this moment and have not ended.
    fn without_young(&mut self, now: Timestamp) -> Vec<ActionStart> {
        // What begins later than now did so before the clock went back.
        let is_young =
            |start: &ActionStart| start.started <= now && start.started.plus(FRESH) > now;
        if !self.starts.iter().any(is_young) {
            return Vec::new();
        }
        let ended: HashSet<ActionId> = self.ends.iter().map(|(end, _)| end.id).collect();
        let is_written = |start: &ActionStart| !is_young(start) || ended.contains(&start.id);
        let (now, later) = std::mem::take(&mut self.starts)
            .into_iter()
            .partition(is_written);
        self.starts = now;
        later
    }
}

impl Writing {
    pub(super) fn is_going_on(&self) -> bool {
        !self.task.is_empty()
    }

    /// Whether it should have ended by now.
    fn is_late(&self) -> bool {
        let began = self.began.filter(|_| self.is_going_on());
        began.is_some_and(|began| began.elapsed() > PATIENCE)
    }

    /// Waits for the end of the transaction; for ever, if none goes on. `None`: it was given up. Dropping this loses nothing.
    pub(super) async fn end(&mut self) -> Option<Written> {
        match self.task.join_next().await {
            Some(Ok(written)) => written,
            // What is in memory may not be in the database: the engine reads all anew, as after any panic.
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Some(Err(error)) => {
                tracing::error!(%error, "writing results was cut off; they are verified again after the next start");
                None
            }
            None => std::future::pending().await,
        }
    }
}

impl Reconciler {
    /// Whether another run may begin: its result will find room, and a database.
    pub(super) fn may_begin(&self) -> bool {
        !self.writing.has_failed.load(Ordering::Relaxed)
            && !self.writing.is_late()
            && self.unwritten.ends.len() + self.unwritten.compared.len() < MAX_UNWRITTEN
            && self.store.is_usable().is_ok()
    }

    /// Whether all that is known is in the database.
    pub(super) fn is_all_written(&self) -> bool {
        self.unwritten.is_empty() && !self.writing.is_going_on()
    }

    /// Begins to write what is known, unless something is being written: then it has to wait for that. A run that was begun just
    /// now waits for its end, with which it is one row less to write.
    pub(super) fn begin_writing(&mut self) {
        self.write_at(Timestamp::now());
    }

    /// The same at another moment.
    fn write_at(&mut self, now: Timestamp) {
        if self.writing.is_going_on() {
            return;
        }
        let later = self.unwritten.without_young(now);
        if self.unwritten.is_empty() {
            // Of answers that came to nothing.
            self.unwritten.held.clear();
            self.unwritten.starts = later;
            return;
        }
        let attempts = Attempts {
            environment: self.environment,
            store: self.store.clone(),
            bus: self.bus.clone(),
            shutdown: self.shutdown.clone(),
            has_failed: Arc::clone(&self.writing.has_failed),
            services: self.services.clone(),
            action_logs: self.action_logs.clone(),
        };
        let batch = std::mem::take(&mut self.unwritten);
        self.unwritten.starts = later;
        let reports = std::mem::take(&mut self.reports);
        self.writing.began = Some(Instant::now());
        self.writing.task.spawn(attempts.write(reports, batch));
    }

    /// Waits until all that is known is written, or it is time to stop.
    pub(in crate::deploy) async fn flush(&mut self) {
        loop {
            // Nothing is fresh at the end of all time.
            self.write_at(Timestamp(i64::MAX));
            if !self.writing.is_going_on() {
                return;
            }
            let written = self.writing.end().await;
            if written.is_none() {
                return;
            }
            self.on_written(written).await;
        }
    }

    /// Waits until what is known of these resources is written, or it is time to stop. The rest may be thousands of results.
    pub(super) async fn flush_of(&mut self, ids: impl Iterator<Item = &ResourceId>) {
        if self.writing.is_going_on() {
            // It may have some of theirs.
            let written = self.writing.end().await;
            self.on_written(written).await;
        }
        let waiting = &self.unwritten;
        let begun = waiting.starts.iter().map(|start| &start.resource_id);
        let ended = waiting.ends.iter().map(|(end, _)| &end.resource_id);
        let waiting: HashSet<&ResourceId> = begun.chain(ended).collect();
        let ids: HashSet<ResourceId> = ids.filter(|id| waiting.contains(id)).cloned().collect();
        if ids.is_empty() {
            return;
        }
        let mut others = self.unwritten.without_others(&ids);
        self.flush().await;
        others.append(std::mem::take(&mut self.unwritten));
        self.unwritten = others;
    }

    /// Tells of what is in the database now.
    pub(super) async fn on_written(&mut self, written: Option<Written>) {
        let Some(Written { ends, events }) = written else {
            return;
        };
        self.acknowledge(ends.iter().map(|end| end.id));
        self.recompile_for_facts(&ends).await;
        for event in events {
            if event.status != ResourceStatus::Deployed {
                // What is only reported has none.
                let reason = event.message.as_deref().filter(|reason| !reason.is_empty());
                let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
                tracing::warn!(
                    environment.id = %self.environment, resource.id = %event.resource_id, status = event.status.as_str(),
                    "{} is {}{reason}", event.resource_id, event.status
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

    /// `false`: it is time to stop instead.
    pub(super) async fn complain_and_wait(
        &self,
        what: &str,
        error: &store::Error,
        pause: &mut Duration,
    ) -> bool {
        let notified = (self.environment, &self.bus);
        complain_and_wait(notified, &self.shutdown, what, error, pause).await
    }
}

/// What writing a batch needs, however often it is tried.
struct Attempts {
    environment: EnvironmentId,
    store: Store,
    bus: Bus,
    shutdown: CancellationToken,
    has_failed: Arc<AtomicBool>,
    services: Services,
    action_logs: Option<ActionLogs>,
}

impl Attempts {
    /// Lets service instances go on whose resources have come to an end, and then writes the ends, in one transaction: a run
    /// whose report was lost in a crash is a run that has not ended. A database that is away is waited for. `None`: it is time
    /// to stop instead, and what is not written is verified again after the next start.
    async fn write(self, reports: Vec<Report>, batch: Batch) -> Option<Written> {
        let Batch {
            starts,
            ends,
            compared,
            held,
        } = batch;
        let (ends, events): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let (id, store) = (self.environment, &self.store);
        let report = || self.services.reported_all(id, &reports);
        self.insist("report to service instances", report).await?;
        let write = || store.action_write(id, &starts, &ends);
        self.insist("write results", write).await?;
        let write = || store.dry_run_write(&compared);
        self.insist("write results of dry runs", write).await?;
        self.has_failed.store(false, Ordering::Relaxed);
        drop(held);
        let lines = self.action_logs.as_ref().map(|_| action_log::lines(&ends));
        if let (Some(logs), Some(lines)) = (self.action_logs, lines.filter(|text| !text.is_empty()))
        {
            action_log::write(logs, self.environment, lines).await;
        }
        let events = events.into_iter().flatten().collect();
        Some(Written { ends, events })
    }

    /// Tries until the database takes it. `None`: it is time to stop instead.
    async fn insist<F>(&self, what: &str, attempt: impl Fn() -> F) -> Option<()>
    where
        F: Future<Output = Result<(), store::Error>>,
    {
        let notified = (self.environment, &self.bus);
        let mut pause = Duration::from_millis(100);
        while let Err(error) = attempt().await {
            self.has_failed.store(true, Ordering::Relaxed);
            if !complain_and_wait(notified, &self.shutdown, what, &error, &mut pause).await {
                return None;
            }
        }
        Some(())
    }
}

/// Tells of an error of the database, and waits before it is tried again. `false`: it is time to stop instead.
async fn complain_and_wait(
    (id, bus): (EnvironmentId, &Bus),
    shutdown: &CancellationToken,
    what: &str,
    error: &store::Error,
    pause: &mut Duration,
) -> bool {
    let error = chain(error);
    tracing::error!(environment.id = %id, error, "cannot {what}; trying again in {pause:?}");
    bus.emit(
        id,
        EventKind::Trouble {
            message: format!("cannot {what}: {error}"),
        },
    );
    tokio::select! {
        () = tokio::time::sleep(*pause) => {}
        () = shutdown.cancelled() => return false,
    }
    *pause = (*pause * 2).min(MAX_PAUSE);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ActionKind, ResourceId, VersionNumber};

    /// Given: a transaction that has ended, one that began just now, and one that should have ended. Expected: only the last
    /// one keeps runs from beginning.
    #[tokio::test]
    async fn a_transaction_that_does_not_end_is_late() {
        let mut writing = Writing {
            began: Instant::now().checked_sub(PATIENCE * 2),
            ..Writing::default()
        };
        assert!(!writing.is_late(), "none goes on");
        writing.task.spawn(std::future::pending());
        assert!(writing.is_late());
        writing.began = Some(Instant::now());
        assert!(!writing.is_late(), "it may still end in time");
    }

    fn start(started: i64) -> ActionStart {
        ActionStart {
            id: ActionId::generate(),
            action: ActionKind::Deploy,
            version: VersionNumber::new(1),
            resource_id: ResourceId::new("t::R[a,name=one]"),
            started: Timestamp(started),
        }
    }

    /// Given: runs that were begun long ago, just now, and by a clock that went back since. Expected: only the one of just now waits
    /// for its end, and nothing does when all is to be written.
    #[test]
    fn only_what_was_begun_just_now_waits_for_its_end() {
        let now = 10_000_000;
        let fresh = FRESH.as_micros() as i64;
        let begun = [now - fresh, now - fresh + 1, now, now + 3_600_000_000];
        let mut batch = Batch {
            starts: begun.map(start).into(),
            ..Batch::default()
        };
        let times = |starts: &[ActionStart]| -> Vec<i64> {
            starts.iter().map(|start| start.started.0).collect()
        };
        let later = batch.without_young(Timestamp(now));
        assert_eq!(times(&batch.starts), [now - fresh, now + 3_600_000_000]);
        assert_eq!(times(&later), [now - fresh + 1, now]);
        batch.starts.extend(later);
        assert!(batch.without_young(Timestamp(i64::MAX)).is_empty());
        assert_eq!(batch.starts.len(), 4);
    }

    /// Given: runs of three resources, of which a version changes one. Expected: only those of that one are to be written before it,
    /// and what comes meanwhile stands behind the others.
    #[test]
    fn what_a_version_does_not_change_may_wait() {
        let of = |name: &str, started| ActionStart {
            resource_id: ResourceId::new(format!("t::R[a,name={name}]")),
            ..start(started)
        };
        let mut batch = Batch {
            starts: vec![of("one", 1), of("two", 2), of("three", 3), of("two", 4)],
            ..Batch::default()
        };
        let times = |batch: &Batch| -> Vec<i64> {
            let starts = batch.starts.iter();
            starts.map(|start| start.started.0).collect()
        };
        let changed = HashSet::from([ResourceId::new("t::R[a,name=two]")]);
        let mut others = batch.without_others(&changed);
        assert_eq!(times(&batch), [2, 4]);
        assert_eq!(times(&others), [1, 3]);
        others.append(Batch {
            starts: vec![of("two", 5)],
            ..Batch::default()
        });
        assert_eq!(times(&others), [1, 3, 5]);
    }
}
