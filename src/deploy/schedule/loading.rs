//! The schedule after a start of the server: what the store knows, row by row, so that a million resources are never in
//! memory twice.

use std::sync::Arc;

use super::{Index, Priority, RetryPolicy, Schedule, ScheduledResource};
use crate::deploy::Intent;
use crate::domain::{AgentName, Blocked, SharedText, Timestamp, VersionNumber};
use crate::store::StateRow;

/// A schedule that is being filled: with intents, and with the states of those that are there.
#[derive(Debug)]
pub struct Loading {
    schedule: Schedule,
    /// The entry behind the one whose state came last. Both come by id, so it is the next one's as a rule, which saves the
    /// search for it.
    next: usize,
}

impl Loading {
    /// `n_resources`: as many are expected.
    pub fn new(
        version: VersionNumber,
        policy: RetryPolicy,
        paused: impl IntoIterator<Item = AgentName>,
        n_resources: usize,
    ) -> Self {
        let mut schedule = Schedule {
            policy,
            version,
            ..Schedule::default()
        };
        for agent in paused {
            schedule.pause(&agent, true);
        }
        schedule.entries.reserve_exact(n_resources);
        schedule.by_id.reserve(n_resources);
        Self { schedule, next: 0 }
    }

    /// Whether the version has the resource, as far as they have come here.
    pub fn has(&self, resource_id: &str) -> bool {
        let is_last = |last: &ScheduledResource| last.intent.resource_id.as_str() == resource_id;
        self.schedule
            .entries
            .last()
            .is_some_and(|last| last.as_ref().is_some_and(is_last))
            || self.schedule.by_id.contains_key(resource_id)
    }

    /// Enters a resource of the version. They stand in queues in the order in which they come here.
    pub fn intent(&mut self, intent: Intent) {
        self.schedule.insert(intent);
    }

    /// Takes over what is known of a resource. That of others is left out.
    pub fn state(&mut self, row: &StateRow<'_>) {
        let is_it =
            |entry: &ScheduledResource| entry.intent.resource_id.as_str() == row.resource_id;
        let next = self
            .schedule
            .entries
            .get(self.next)
            .and_then(Option::as_ref);
        let index = match next.is_some_and(is_it) {
            true => Index(self.next as u32),
            false => match self.schedule.by_id.get(row.resource_id) {
                Some(index) => *index,
                None => return,
            },
        };
        self.next = index.0 as usize + 1;
        let entry = self.schedule.entry_mut(index);
        let intended = &entry.intent.attribute_hash;
        let state = &mut entry.state;
        state.created = row.created;
        state.blocked = row.blocked;
        state.deployed_hash = row.deployed_hash.map(|hash| match *intended == hash {
            // One text for both, not one of each from the store.
            true => intended.clone(),
            false => SharedText::from(hash),
        });
        state.deployed_version = row.deployed_version;
        state.last_run = row.last_run;
        state.last_run_compliant = row.last_run_compliant;
        state.last_run_at = row.last_run_at;
        state.last_success = row.last_success;
        state.last_events = row.last_events;
        state.last_change = row.last_change;
        state.last_status = row.last_status;
        state.n_failures = row.n_failures;
    }

    /// The schedule. What is dirty, or missed an event, is scheduled; the timers of others go on from their last runs.
    pub fn finish(self, now: Timestamp) -> Schedule {
        let Self { mut schedule, .. } = self;
        let all = schedule.indices();
        for &index in &all {
            schedule.link(index);
            let entry = schedule.entry_mut(index);
            // The recovery that it waits for may be past: it is tried once. Source: docs/reference/deployment.md § 3.4.
            if entry.state.blocked == Blocked::TemporarilyBlocked {
                entry.state.blocked = Blocked::NotBlocked;
            }
        }
        schedule.propagate_blocked(&all);
        schedule.set_back(now);
        let reason: Arc<str> = "the resource scheduler was started".into();
        let mut timers: Vec<(Timestamp, Index)> = Vec::new();
        for index in all {
            schedule.recount(index);
            let entry = schedule.entry(index);
            if entry.is_dirty() || entry.has_outstanding_event(&schedule) {
                schedule.enqueue(index, Priority::IntervalDeploy, Arc::clone(&reason), false);
            } else if let Some((due, priority)) = schedule.timer_of(index, now) {
                schedule.entry_mut(index).timer = Some((due, priority));
                timers.push((due, index));
            }
        }
        // Built at once: a million insertions would take half a second.
        schedule.timers = timers.into_iter().collect();
        schedule
    }
}

#[cfg(test)]
impl Schedule {
    /// The schedule of these intents and states.
    pub(super) fn restore(
        version: VersionNumber,
        intents: Vec<Intent>,
        states: Vec<crate::store::ResourceState>,
        policy: RetryPolicy,
        paused: impl IntoIterator<Item = AgentName>,
        now: Timestamp,
    ) -> Self {
        let mut loading = Loading::new(version, policy, paused, intents.len());
        for intent in intents {
            loading.intent(intent);
        }
        for state in states.iter().filter(|state| state.orphaned_after.is_none()) {
            loading.state(&StateRow {
                resource_id: state.resource_id.as_str(),
                created: state.created,
                blocked: state.blocked,
                deployed_hash: state.deployed_hash.as_deref(),
                deployed_version: state.deployed_version,
                last_run: state.last_run,
                last_run_compliant: state.last_run_compliant,
                last_run_at: state.last_run_at,
                last_success: state.last_success,
                last_events: state.last_events,
                last_change: state.last_change,
                last_status: state.last_status,
                n_failures: state.n_failures,
            });
        }
        loading.finish(now)
    }
}
