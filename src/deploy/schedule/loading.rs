//! The schedule after a start of the server: what the store knows, row by row, so that a million resources are never in
//! memory twice.

use std::sync::Arc;

use super::{Index, Priority, RetryPolicy, Schedule};
use crate::deploy::Intent;
use crate::domain::{AgentName, Blocked, SharedText, Timestamp, VersionNumber};
use crate::store::StateRow;

/// A schedule that is being filled: first all intents, then the states of those that have one.
#[derive(Debug)]
pub struct Loading(Schedule);

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
        Self(schedule)
    }

    /// Enters a resource of the version. They stand in queues in the order in which they come here.
    pub fn intent(&mut self, intent: Intent) {
        self.0.insert(intent);
    }

    /// Takes over what is known of a resource. That of others is left out.
    pub fn state(&mut self, row: &StateRow<'_>) {
        let Some(index) = self.0.by_id.get(row.resource_id).copied() else {
            return;
        };
        let entry = self.0.entry_mut(index);
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
        let Self(mut schedule) = self;
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
