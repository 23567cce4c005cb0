//! The end of a run: what it says of the resource, and whom it concerns.

use std::sync::Arc;

use super::entry::{InProgress, Phase};
use super::{Ended, Index, Priority, Schedule};
use crate::domain::{ActionId, Blocked, HandlerStatus, ResourceId, Timestamp};
use crate::store::ResourceState;

impl Schedule {
    /// Takes note of the end of a run: its state changes, dependents get events, what waited for it
    /// may go on, and the next run of the resource is planned. Returns the state to write; `None`:
    /// the resource left the model, or the run is not known.
    pub fn finished(
        &mut self,
        resource_id: &ResourceId,
        action: ActionId,
        ended: Ended,
        now: Timestamp,
    ) -> Option<ResourceState> {
        if let Some(agent) = self.orphans.remove(&action) {
            self.n_running -= 1;
            self.orphan_ended(agent);
            return None;
        }
        let index = *self.by_id.get(resource_id)?;
        let version = self.version;
        let entry = self.entry_mut(index);
        let is_this_run = matches!(&entry.phase, Phase::Running(run) if run.action == action);
        if !is_this_run {
            return None;
        }
        let Phase::Running(run) = std::mem::replace(&mut entry.phase, Phase::Idle) else {
            return None;
        };
        let InProgress {
            hash,
            priority,
            again,
            ..
        } = *run;
        let is_stale = hash != entry.intent.attribute_hash;
        let was_compliant = entry.state.last_run_compliant;
        let agent = entry.agent;
        entry.record(&ended, is_stale, version);
        self.n_running -= 1;
        self.running.remove(&index);
        self.run_ended(agent);
        if !is_stale && ended.status == HandlerStatus::SkippedForDependency {
            self.wait_for_recovery(index);
        }
        let recovered = ended.status == HandlerStatus::Deployed && was_compliant == Some(false);
        self.notify_dependents(index, priority, is_stale, recovered);
        self.plan_next(index, again, now);
        self.unpark_waiters(index);
        self.recount(index);
        Some(self.entry(index).state.clone())
    }

    /// Marks a resource that was skipped for a dependency: only when one of those that are not good
    /// recovers it makes sense to try again.
    fn wait_for_recovery(&mut self, index: Index) {
        if self.entry(index).state.blocked == Blocked::Blocked {
            return;
        }
        self.entry_mut(index).state.blocked = if self.has_bad_dependency(index) {
            Blocked::TemporarilyBlocked
        } else {
            Blocked::NotBlocked
        };
    }

    /// What follows the end of a run: another one, or a timer. A stale run has a successor since the version came that
    /// made it stale, unless that is blocked.
    fn plan_next(&mut self, index: Index, again: Option<(Priority, Arc<str>)>, now: Timestamp) {
        match again {
            Some((priority, reason)) if self.entry(index).state.blocked != Blocked::Blocked => {
                self.enqueue(index, priority, reason, false);
            }
            _ => self.set_timer(index, now),
        }
    }

    /// Schedules direct dependents: those that were skipped because of this resource when it has
    /// recovered, and those that want its events. Source: docs/reference/deployment.md § 4.5.
    fn notify_dependents(
        &mut self,
        index: Index,
        priority: Priority,
        is_stale: bool,
        recovered: bool,
    ) {
        let sender = self.entry(index).intent.clone();
        let sends = sender.send_event && !is_stale;
        if !sends && !recovered {
            return;
        }
        for dependent in self.entry(index).provides.clone() {
            let entry = self.entry_mut(dependent);
            let what = match entry.state.blocked {
                Blocked::TemporarilyBlocked if recovered => {
                    entry.state.blocked = Blocked::NotBlocked;
                    "a recovery event"
                }
                Blocked::NotBlocked if sends && entry.intent.receive_events => "an event",
                _ => continue,
            };
            let reason = format!("{what} was received from {}", sender.resource_id);
            self.enqueue(dependent, priority, reason.into(), true);
        }
    }
}
