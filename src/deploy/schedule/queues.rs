//! What waits in the queues, what may start, and what has to wait for another.

use std::sync::Arc;

use super::agents::{AgentIndex, Work};
use super::entry::{InProgress, Phase, ScheduledResource};
use super::{Index, Priority, Run, Schedule, Start};
use crate::domain::{ActionId, Blocked, ResourceId};
use crate::executor::protocol::Dependency;

impl Schedule {
    /// Starts the first of an agent's queue that waits for nothing; what has to wait is parked on the
    /// way. `None`: all of it has to wait.
    pub(super) fn start_next_of(&mut self, agent: AgentIndex) -> Option<Start> {
        loop {
            let place = *self.queue(agent).ready.first()?;
            let may_go_ahead = match place.2 {
                Work::Task(_) => false,
                Work::Deploy(index) => self.may_go_ahead(index),
            };
            if self.queue(agent).is_busy() && !may_go_ahead {
                self.hold(agent);
                return None;
            }
            self.remove_ready(agent, &place);
            let index = match place.2 {
                Work::Task(action) => {
                    self.set_has_task(agent, true);
                    self.queue_mut(agent).quicken(place.0);
                    return Some(Start::Task(action));
                }
                Work::Deploy(index) => index,
            };
            let Some(blocker) = self.blocker_of(index) else {
                return Some(Start::Deploy(self.start(index)));
            };
            if let Phase::Queued { parked, .. } = &mut self.entry_mut(index).phase {
                *parked = true;
            }
            self.waiters.entry(blocker).or_default().push(index);
        }
    }

    /// Something that a resource requires and that is scheduled. The search begins where the last
    /// one ended: what requires a thousand others, which end one after the other, looks at each of
    /// them about twice, and not at all of them a thousand times.
    fn blocker_of(&mut self, index: Index) -> Option<Index> {
        let entry = self.entry(index);
        let (from, n_requires) = (entry.first_to_look_at, entry.requires.len());
        let places = (from..n_requires).chain(0..from.min(n_requires));
        let mut places = places.map(|place| (place, entry.requires[place]));
        let (place, blocker) = places.find(|(_, one)| self.entry(*one).is_scheduled())?;
        self.entry_mut(index).first_to_look_at = place;
        Some(blocker)
    }

    /// Marks a resource as running, and says what the run needs to know: the intent as it is now,
    /// the dependencies' statuses, and whether one of them changed since the last success.
    pub(super) fn start(&mut self, index: Index) -> Run {
        self.start_as(index, ActionId::generate())
    }

    /// Takes a run up that was begun before this schedule was made, by an agent on another machine that is still at it, or
    /// has its result. `None`: the resource is no more, is blocked or in progress, or its agent is at something
    /// else than deployments of the model.
    pub fn adopt(&mut self, resource_id: &ResourceId, action: ActionId) -> Option<Run> {
        let index = self.adoptable(resource_id)?;
        self.unqueue(index);
        Some(self.start_as(index, action))
    }

    /// Whether a run of this resource could be taken up.
    pub fn can_adopt(&self, resource_id: &ResourceId) -> bool {
        self.adoptable(resource_id).is_some()
    }

    fn adoptable(&self, resource_id: &ResourceId) -> Option<Index> {
        let index = *self.by_id.get(resource_id)?;
        let entry = self.entry(index);
        let is_idle = !matches!(entry.phase, Phase::Running(_));
        let is_free = self.queue(entry.agent).may_take_up();
        let is_blocked = entry.state.is_undefined || entry.state.blocked == Blocked::Blocked;
        (is_idle && is_free && !is_blocked).then_some(index)
    }

    fn start_as(&mut self, index: Index, action: ActionId) -> Run {
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
        let last_success = self.entry(index).state.last_success;
        let dependency_changed = self.entry(index).requires.iter().any(|require| {
            let state = &self.entry(*require).state;
            state
                .last_change
                .is_some_and(|change| last_success.is_none_or(|success| change > success))
        });
        self.stop_timer(index);
        let entry = self.entry_mut(index);
        let hash = entry.intent.attribute_hash.clone();
        let (priority, reason) = match &entry.phase {
            Phase::Queued {
                priority, reason, ..
            } => (*priority, reason.to_string()),
            Phase::Idle | Phase::Running(_) => (Priority::NewVersion, String::new()),
        };
        entry.phase = Phase::Running(Box::new(InProgress {
            hash,
            action,
            priority,
            again: None,
        }));
        entry.state.is_deploying = true;
        let intent = entry.intent.clone();
        let agent = entry.agent;
        self.n_running += 1;
        self.running.insert(index);
        self.run_began(agent, priority);
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
        reason: Arc<str>,
        forced: bool,
    ) {
        self.stop_timer(index);
        self.sequence += 1;
        let new_sequence = self.sequence;
        let entry = self.entry_mut(index);
        let agent = entry.agent;
        match &mut entry.phase {
            Phase::Queued {
                priority: old,
                sequence,
                reason: old_reason,
                parked,
            } => {
                if priority < *old {
                    let was = (*old, *sequence, Work::Deploy(index));
                    (*old, *sequence) = (priority, new_sequence);
                    *old_reason = reason;
                    if !*parked {
                        self.remove_ready(agent, &was);
                        self.add_ready(agent, (priority, new_sequence, Work::Deploy(index)));
                    }
                }
            }
            Phase::Running(run) => {
                let is_current = run.hash == entry.intent.attribute_hash;
                run.priority = run.priority.min(priority);
                if forced || !is_current {
                    run_again(&mut run.again, priority, reason);
                }
            }
            Phase::Idle => {
                entry.phase = Phase::Queued {
                    priority,
                    sequence: new_sequence,
                    reason,
                    parked: false,
                };
                self.add_ready(agent, (priority, new_sequence, Work::Deploy(index)));
                self.rerun_running_dependents(index, priority);
            }
        }
        self.hurry(agent, priority);
    }

    /// A dependency was scheduled while its dependent is running: that runs once more after it.
    /// Source: docs/reference/deployment.md § 4.3.
    fn rerun_running_dependents(&mut self, index: Index, priority: Priority) {
        const REASON: &str =
            "rescheduling because a dependency was scheduled while it was deploying";
        // Whichever is shorter is looked through: a directory may have a million files that require it, of which a few
        // are running.
        let provides = &self.entry(index).provides;
        let dependents: Vec<Index> = if provides.len() <= self.running.len() {
            let is_running = |one: &&Index| self.running.contains(*one);
            provides.iter().filter(is_running).copied().collect()
        } else {
            let depends = |one: &&Index| self.entry(**one).requires.binary_search(&index).is_ok();
            self.running.iter().filter(depends).copied().collect()
        };
        if dependents.is_empty() {
            return;
        }
        let reason: Arc<str> = REASON.into();
        for dependent in dependents {
            let entry = self.entry_mut(dependent);
            if let Phase::Running(run) = &mut entry.phase
                && run.hash == entry.intent.attribute_hash
            {
                run_again(&mut run.again, priority, Arc::clone(&reason));
            }
        }
    }

    /// Takes a resource out of its queue. Those that are parked for it are the caller's: either they are blocked with it,
    /// or they are linked anew.
    pub(super) fn unqueue(&mut self, index: Index) {
        let entry = self.entry_mut(index);
        if let Phase::Queued {
            priority, sequence, ..
        } = entry.phase
        {
            let agent = entry.agent;
            entry.phase = Phase::Idle;
            self.remove_ready(agent, &(priority, sequence, Work::Deploy(index)));
        }
    }

    /// Lets those that waited for a resource go back to their places in their queues. A waiter that
    /// finds another dependency scheduled when its turn comes is parked again.
    pub(super) fn unpark_waiters(&mut self, index: Index) {
        for waiter in self.waiters.remove(&index).unwrap_or_default() {
            // It may have left the model.
            if self.entries[waiter.0 as usize].is_some() {
                self.unpark(waiter);
            }
        }
    }

    /// Lets a resource that is parked go back to its place.
    pub(super) fn unpark(&mut self, index: Index) {
        let entry = self.entry_mut(index);
        if let Phase::Queued {
            priority,
            sequence,
            parked: parked @ true,
            ..
        } = &mut entry.phase
        {
            *parked = false;
            let place = (*priority, *sequence, Work::Deploy(index));
            let agent = entry.agent;
            self.add_ready(agent, place);
        }
    }
}

/// Notes that a running resource runs once more; the better of two reasons counts.
fn run_again(again: &mut Option<(Priority, Arc<str>)>, priority: Priority, reason: Arc<str>) {
    if again.as_ref().is_none_or(|(old, _)| priority < *old) {
        *again = Some((priority, reason));
    }
}
