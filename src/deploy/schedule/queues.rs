//! The queues of agents and the timers of resources: what waits, what may start, what has to wait
//! for another.

use super::entry::{Phase, ScheduledResource};
use super::{Index, Priority, Run, Schedule};
use crate::domain::{ActionId, AgentName, Blocked, Timestamp};
use crate::executor::protocol::Dependency;

impl Schedule {
    pub(super) fn next_of(&mut self, agent: &AgentName) -> Option<Index> {
        loop {
            let queue = self.queues.get_mut(agent)?;
            if queue.paused || queue.running > 0 {
                return None;
            }
            let (_, _, index) = queue.ready.pop_first()?;
            let entry = self.entry(index);
            if entry.state.blocked == Blocked::Blocked {
                self.entry_mut(index).phase = Phase::Idle;
                self.unpark_waiters(index);
                continue;
            }
            let blocker = entry
                .requires
                .iter()
                .copied()
                .find(|require| self.entry(*require).is_scheduled());
            let Some(blocker) = blocker else {
                return Some(index);
            };
            if let Phase::Queued { parked, .. } = &mut self.entry_mut(index).phase {
                *parked = true;
            }
            self.entry_mut(blocker).waiters.push(index);
        }
    }

    /// Marks a resource as running, and says what the run needs to know: the intent as it is now,
    /// the dependencies' statuses, and whether one of them changed since the last success.
    pub(super) fn start(&mut self, index: Index) -> Run {
        let action = ActionId::generate();
        let version = self.version;
        let requires = self.entry(index).requires.iter();
        let dependency = |entry: &ScheduledResource| Dependency {
            resource_id: entry.intent.resource_id.clone(),
            status: entry.status_for_dependents(),
        };
        let mut requires: Vec<Dependency> = requires
            .map(|require| dependency(self.entry(*require)))
            .collect();
        requires.sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
        requires.dedup_by(|a, b| a.resource_id == b.resource_id);
        let last_success = self.entry(index).state.last_success;
        let dependency_changed = self.entry(index).requires.iter().any(|require| {
            self.entry(*require)
                .last_change
                .is_some_and(|change| last_success.is_none_or(|success| change > success))
        });
        self.stop_timer(index);
        let entry = self.entry_mut(index);
        let hash = entry.intent.attribute_hash.clone();
        let (priority, reason) = match &entry.phase {
            Phase::Queued {
                priority, reason, ..
            } => (*priority, reason.clone()),
            Phase::Idle | Phase::Running { .. } => (Priority::NewVersion, String::new()),
        };
        entry.phase = Phase::Running {
            hash,
            action,
            priority,
            again: None,
        };
        entry.state.is_deploying = true;
        let intent = entry.intent.clone();
        self.n_running += 1;
        self.queues.entry(intent.agent.clone()).or_default().running += 1;
        Run {
            action,
            intent,
            version,
            requires,
            dependency_changed,
            reason,
        }
    }

    /// Puts a resource into its agent's queue, or improves its place there. One that is running for
    /// its current intent runs again only if `forced` (an event); one that is running for an older
    /// intent runs again in any case.
    pub(super) fn enqueue(
        &mut self,
        index: Index,
        priority: Priority,
        reason: String,
        forced: bool,
    ) {
        self.stop_timer(index);
        self.sequence += 1;
        let new_sequence = self.sequence;
        let entry = self.entry_mut(index);
        let agent = entry.intent.agent.clone();
        match &mut entry.phase {
            Phase::Queued {
                priority: old,
                sequence,
                reason: old_reason,
                parked,
            } => {
                if priority < *old {
                    let was = (*old, *sequence, index);
                    (*old, *sequence) = (priority, new_sequence);
                    *old_reason = reason;
                    let parked = *parked;
                    let queue = self.queues.entry(agent).or_default();
                    if !parked {
                        queue.ready.remove(&was);
                        queue.ready.insert((priority, new_sequence, index));
                    }
                }
            }
            Phase::Running {
                hash,
                priority: running,
                again,
                ..
            } => {
                let is_current = *hash == entry.intent.attribute_hash;
                *running = (*running).min(priority);
                if forced || !is_current {
                    let better = again.as_ref().is_none_or(|(old, _)| priority < *old);
                    if better {
                        *again = Some((priority, reason));
                    }
                }
            }
            Phase::Idle => {
                entry.phase = Phase::Queued {
                    priority,
                    sequence: new_sequence,
                    reason,
                    parked: false,
                };
                self.queues
                    .entry(agent)
                    .or_default()
                    .ready
                    .insert((priority, new_sequence, index));
                self.rerun_running_dependents(index, priority);
            }
        }
    }

    /// A dependency was scheduled while its dependent is running: that runs once more after it.
    /// Source: docs/reference/deployment.md § 4.3.
    pub(super) fn rerun_running_dependents(&mut self, index: Index, priority: Priority) {
        for dependent in self.entry(index).provides.clone() {
            let entry = self.entry_mut(dependent);
            if let Phase::Running {
                hash,
                again: again @ None,
                ..
            } = &mut entry.phase
                && *hash == entry.intent.attribute_hash
            {
                let reason =
                    "rescheduling because a dependency was scheduled while it was deploying";
                *again = Some((priority, reason.to_owned()));
            }
        }
    }

    /// Takes a resource out of its queue. Those that waited for it may go on.
    pub(super) fn unqueue(&mut self, index: Index) {
        let entry = self.entry_mut(index);
        if let Phase::Queued {
            priority, sequence, ..
        } = entry.phase
        {
            let agent = entry.intent.agent.clone();
            entry.phase = Phase::Idle;
            self.queues
                .entry(agent)
                .or_default()
                .ready
                .remove(&(priority, sequence, index));
            self.unpark_waiters(index);
        }
    }

    /// Lets those that waited for a resource go back to their places in their queues. A waiter that
    /// finds another dependency scheduled when its turn comes is parked again.
    pub(super) fn unpark_waiters(&mut self, index: Index) {
        for waiter in std::mem::take(&mut self.entry_mut(index).waiters) {
            let Some(entry) = self.entries[waiter.0 as usize].as_mut() else {
                continue;
            };
            if let Phase::Queued {
                priority,
                sequence,
                parked: parked @ true,
                ..
            } = &mut entry.phase
            {
                *parked = false;
                let key = (*priority, *sequence, waiter);
                let agent = entry.intent.agent.clone();
                self.queues.entry(agent).or_default().ready.insert(key);
            }
        }
    }

    /// Plans when an idle resource runs by itself: the earlier of its retry, if it is dirty, and
    /// its repair, counted from its last run. A blocked one is not planned.
    pub(super) fn set_timer(&mut self, index: Index, now: Timestamp) {
        self.stop_timer(index);
        let entry = self.entry(index);
        if entry.state.blocked == Blocked::Blocked {
            return;
        }
        let last = entry.state.last_run_at.unwrap_or(now);
        let repair = self
            .policy
            .repair
            .map(|every| (last.plus(every), Priority::IntervalRepair));
        let retry = entry
            .is_dirty()
            .then(|| entry.retry_delay(&self.policy))
            .flatten();
        let retry = retry.map(|delay| (last.plus(delay), Priority::IntervalDeploy));
        let timer = [retry, repair].into_iter().flatten().min();
        if let Some((due, _)) = timer {
            self.timers.insert((due, index));
            self.entry_mut(index).timer = timer;
        }
    }

    /// Takes back what [`Schedule::set_timer`] planned.
    pub(super) fn stop_timer(&mut self, index: Index) {
        if let Some((due, _)) = self.entry_mut(index).timer.take() {
            self.timers.remove(&(due, index));
        }
    }
}
