//! What to deploy next, as a pure value: every ordering can be a test.
//!
//! Events go in (a version, an end of a run, a request, a tick of the clock), and [`Run`]s come out
//! of [`Schedule::take`]. There is no clock, store or task in here: times are arguments, and the
//! engine around it ([`super::engine`]) reads the store, starts runs and writes states. Source:
//! docs/reference/deployment.md § 3.4 and § 4.
//!
//! # Which run comes next
//!
//! Each agent has a queue of its own, and at most one of its resources runs at a time; agents do
//! not wait for one another, except through dependencies. A queue is ordered by priority, then by
//! how long a resource has been in it. A resource is in its queue at most once: a second reason to
//! run it keeps the better priority, and a *better* priority counts as a fresh request, behind the
//! others of that priority.
//!
//! # Dependencies
//!
//! A resource waits while one that it *directly* requires is scheduled: queued, waiting itself, or
//! running for what it shall be now ([`ScheduledResource::is_scheduled`]). Direct is enough, since
//! the required one waits for its own. A dependency that is not scheduled does not hold anybody up,
//! even if it failed: the handler gets its status and decides to skip.
//!
//! The rule is looked at when a resource's turn comes, not when it is queued, since its
//! dependencies may be queued later. One whose turn comes too early is *parked*: it leaves the
//! ready part of its queue and is entered with its blocker as a waiter; when the blocker is done,
//! or will not run after all, it goes back to its old place. So each end of a run costs what waits
//! for it, and not the whole graph.
//!
//! ```text
//! router requires link, both on one agent
//! version 1       queue: link, router       runs link, then router
//! link fails      its timer retries link alone; router is told the status and has skipped
//! new router      queue: router             link is not scheduled, so router runs at once
//! new link while router runs                router runs once more after link ("rescheduling")
//! ```
//!
//! # What a run was for
//!
//! A run that has begun is never cut off, not by a new version either. It remembers the hash of
//! what it was started for ([`Phase::Running`]). If the resource shall be something else when it
//! ends, the run is *stale*: it counts as a run, but says nothing about the new intent, and another
//! run follows. If the resource is gone by then, it is an *orphan*, and only frees its agent.
//!
//! # Invariants
//!
//! - A resource's `phase` says where it is: `Queued` and not parked means exactly that the key
//!   (priority, sequence, index) is in `ready` of its agent's queue.
//! - A parked resource is among the `waiters` of exactly one other. Whoever is done, is taken out
//!   of its queue or leaves the model frees its waiters ([`Schedule::unpark_waiters`]).
//! - `n_running` is the sum of `running` over all queues, and counts orphans.
//! - A timer is set only while a resource is idle; scheduling it stops the timer, and the end of
//!   its run plans the next.
//! - What is blocked (undefined, or with an undefined ancestor) is never started.

mod entry;
mod graph;
mod queues;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::Intent;
use crate::domain::{
    ActionId, AgentName, Blocked, HandlerStatus, ResourceId, Timestamp, VersionNumber,
};
use crate::executor::protocol::Dependency;
use crate::store::ResourceState;
use entry::{Phase, ScheduledResource};

/// Why a resource is to run, and how urgent that is: the earlier of these runs first. Source:
/// docs/reference/deployment.md § 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody asked to deploy what is not in its desired state.
    UserDeploy,
    /// A new version has another desired state for it.
    NewVersion,
    /// Somebody asked to verify everything.
    UserRepair,
    /// The timer of a retry after a failure, or the schedule's start.
    IntervalDeploy,
    /// The timer that verifies what is good.
    IntervalRepair,
}

/// Which resources a request to deploy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Those not in their desired state.
    Dirty,
    /// All that are not blocked.
    All,
}

/// How often resources run by themselves: the environment's settings.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetryPolicy {
    /// The longest time between a failure and the next attempt; `None`: there is none, or it is a
    /// cron expression, which the engine sees to.
    pub deploy: Option<Duration>,
    /// The time after which a good resource is verified; `None`: never, or by cron.
    pub repair: Option<Duration>,
    /// The time before the first retry after a failure; it doubles with each failure up to
    /// `deploy`. Zero: always `deploy`.
    pub backoff: Duration,
}

/// One run that shall start now. It counts as running until [`Schedule::finished`] is told its end.
#[derive(Debug, Clone)]
pub struct Run {
    /// The id that the run has in the history.
    pub action: ActionId,
    /// What the resource shall be, as of the newest version.
    pub intent: Arc<Intent>,
    pub version: VersionNumber,
    /// With their statuses, as the handler gets them, by id.
    pub requires: Vec<Dependency>,
    /// Some dependency changed since this resource's last success: its handler may have to reload.
    pub dependency_changed: bool,
    /// Why it runs, for the history.
    pub reason: String,
}

/// How a run ended, by its executor's report.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub status: HandlerStatus,
    /// The handler changed something.
    pub changed: bool,
    pub started: Timestamp,
    pub finished: Timestamp,
}

/// What taking over a new version changed, for the store to write in one transaction.
#[derive(Debug, Default)]
pub struct Activation {
    /// The states of resources that are new, differ, or are blocked otherwise than before.
    pub changed: Vec<ResourceState>,
    pub removed: Vec<ResourceId>,
    /// Agents of new resources.
    pub agents: Vec<AgentName>,
    /// How many resources are new.
    pub n_new: usize,
    /// How many resources shall be something else than before.
    pub n_updated: usize,
}

/// A resource's place in [`Schedule::entries`]. It is never given to another one, so a stale index
/// finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Index(u32);

/// The queue of one agent.
#[derive(Debug, Default)]
struct Queue {
    /// What may run when its turn comes, in order: priority, number of the request, resource.
    /// Parked resources are not in it.
    ready: BTreeSet<(Priority, u64, Index)>,
    /// Runs of this agent in progress: 0 or 1. One whose resource has left the model counts until
    /// it ends.
    running: usize,
    /// Nothing is started while it is set; what is queued stays.
    paused: bool,
}

/// The scheduling state of one environment: see the head of this file.
#[derive(Debug, Default)]
pub struct Schedule {
    /// All resources of the version in force; `None`: one that left.
    entries: Vec<Option<ScheduledResource>>,
    by_id: HashMap<ResourceId, Index>,
    queues: BTreeMap<AgentName, Queue>,
    /// When idle resources run by themselves, the next one first.
    timers: BTreeSet<(Timestamp, Index)>,
    /// Runs in progress whose resource left the model.
    orphans: HashMap<ActionId, AgentName>,
    policy: RetryPolicy,
    version: VersionNumber,
    /// The number of the last request; it orders those of one priority.
    sequence: u64,
    /// Runs in progress of all agents.
    n_running: usize,
}

impl Schedule {
    /// The schedule after a start of the server. Known states are kept; what is dirty, or missed an
    /// event, is scheduled; the timers of others go on from their last runs. `changes`: the starts
    /// of the last runs that changed something, by resource.
    pub fn restore(
        version: VersionNumber,
        intents: Vec<Intent>,
        states: Vec<ResourceState>,
        changes: &HashMap<ResourceId, Timestamp>,
        policy: RetryPolicy,
        paused: impl IntoIterator<Item = AgentName>,
        now: Timestamp,
    ) -> Self {
        let mut schedule = Self {
            policy,
            version,
            ..Self::default()
        };
        for agent in paused {
            schedule.queues.entry(agent).or_default().paused = true;
        }
        let mut states: HashMap<ResourceId, ResourceState> = states
            .into_iter()
            .map(|state| (state.resource_id.clone(), state))
            .collect();
        for intent in intents {
            let state = states
                .remove(&intent.resource_id)
                .filter(|state| state.orphaned_after.is_none());
            schedule.insert(intent, state);
        }
        schedule.link_all();
        for index in schedule.indices() {
            let entry = schedule.entry_mut(index);
            entry.last_change = changes.get(&entry.intent.resource_id).copied();
            // The recovery that it waits for may be past: it is tried once. Source: docs/reference/deployment.md § 3.4.
            if entry.state.blocked == Blocked::TemporarilyBlocked {
                entry.state.blocked = Blocked::NotBlocked;
            }
        }
        schedule.propagate_blocked();
        for index in schedule.indices() {
            let entry = schedule.entry(index);
            if entry.is_dirty() || entry.has_outstanding_event(&schedule) {
                let reason = "the resource scheduler was started".to_owned();
                schedule.enqueue(index, Priority::IntervalDeploy, reason, false);
            } else {
                schedule.set_timer(index, now);
            }
        }
        schedule
    }

    pub fn version(&self) -> VersionNumber {
        self.version
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing is running or may start; what waits on a paused agent does not count.
    pub fn is_idle(&self) -> bool {
        self.n_running == 0
            && self
                .queues
                .values()
                .all(|queue| queue.paused || queue.ready.is_empty())
    }

    /// The desired state of a resource.
    pub fn intent(&self, resource_id: &ResourceId) -> Option<&Intent> {
        let index = self.by_id.get(resource_id)?;
        Some(&self.entry(*index).intent)
    }

    /// Agent and type of each resource.
    pub fn types(&self) -> impl Iterator<Item = (&AgentName, &str)> {
        let intents = self.entries.iter().flatten().map(|entry| &entry.intent);
        intents.map(|intent| (&intent.agent, intent.resource_type.as_str()))
    }

    pub fn states(&self) -> impl Iterator<Item = &ResourceState> {
        self.entries.iter().flatten().map(|entry| &entry.state)
    }

    /// When [`Schedule::tick`] has something to do next; `None`: no timer is set.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Takes over new interval settings: the timers of all idle resources are planned anew.
    pub fn set_policy(&mut self, policy: RetryPolicy, now: Timestamp) {
        if policy == self.policy {
            return;
        }
        self.policy = policy;
        for index in self.indices() {
            if matches!(self.entry(index).phase, Phase::Idle) {
                self.set_timer(index, now);
            }
        }
    }

    /// Takes over a version: `changed` are the resources that are new or differ, `removed` the ids
    /// that left. New and changed resources are scheduled unless they are blocked, and so are those
    /// that were blocked until now and never ran for what they shall be. Returns what the store has
    /// to write.
    pub fn apply(
        &mut self,
        version: VersionNumber,
        changed: Vec<Intent>,
        removed: &[ResourceId],
        now: Timestamp,
    ) -> Activation {
        self.version = version;
        let mut activation = Activation::default();
        let before: HashMap<Index, Blocked> = self
            .indices()
            .into_iter()
            .map(|index| (index, self.entry(index).state.blocked))
            .collect();
        for id in removed {
            if self.remove(id) {
                activation.removed.push(id.clone());
            }
        }
        let mut touched = BTreeSet::new();
        let mut fresh = Vec::new();
        let mut agents = BTreeSet::new();
        for intent in changed {
            match self.by_id.get(&intent.resource_id).copied() {
                None => {
                    activation.n_new += 1;
                    agents.insert(intent.agent.clone());
                    let index = self.insert(intent, None);
                    touched.insert(index);
                    fresh.push(index);
                }
                Some(index) => {
                    let entry = self.entry_mut(index);
                    let is_new_intent = entry.intent.attribute_hash != intent.attribute_hash
                        || entry.intent.is_undefined != intent.is_undefined;
                    entry.state.intent_hash.clone_from(&intent.attribute_hash);
                    entry.state.is_undefined = intent.is_undefined;
                    entry.intent = Arc::new(intent);
                    if is_new_intent {
                        activation.n_updated += 1;
                        entry.state.n_failures = 0;
                        if entry.state.blocked == Blocked::TemporarilyBlocked {
                            entry.state.blocked = Blocked::NotBlocked;
                        }
                        fresh.push(index);
                    }
                    touched.insert(index);
                }
            }
        }
        if !touched.is_empty() || !activation.removed.is_empty() {
            self.link_all();
        }
        self.free_temporarily_blocked_without_bad_dependency(&touched, &mut fresh);
        self.propagate_blocked();
        for index in self.indices() {
            let entry = self.entry(index);
            let Some(before) = before.get(&index) else {
                continue;
            };
            if *before == entry.state.blocked {
                continue;
            }
            touched.insert(index);
            // What waited for a value of a dependency, and never ran for what it shall be, runs now.
            if *before == Blocked::Blocked && entry.is_dirty() {
                fresh.push(index);
            }
        }
        for index in fresh {
            if self.entry(index).state.blocked != Blocked::Blocked {
                self.enqueue(
                    index,
                    Priority::NewVersion,
                    "a new version was released".to_owned(),
                    false,
                );
            }
        }
        for &index in &touched {
            if self.entry(index).state.blocked == Blocked::Blocked {
                self.unqueue(index);
            }
            if matches!(self.entry(index).phase, Phase::Idle) {
                self.set_timer(index, now);
            }
        }
        activation.changed = touched
            .iter()
            .map(|index| self.entry(*index).state.clone())
            .collect();
        activation.agents = agents.into_iter().collect();
        activation
    }

    /// Schedules what a user or a cron expression asks for, and gives the agents that have
    /// something to do. `agents`: only theirs; `None`: everybody's.
    pub fn request(
        &mut self,
        which: Selection,
        priority: Priority,
        reason: &str,
        agents: Option<&BTreeSet<AgentName>>,
    ) -> BTreeSet<AgentName> {
        let mut touched = BTreeSet::new();
        for index in self.indices() {
            let entry = self.entry(index);
            let wanted = match which {
                Selection::Dirty => entry.is_dirty(),
                Selection::All => entry.state.blocked != Blocked::Blocked,
            };
            if wanted && agents.is_none_or(|agents| agents.contains(&entry.intent.agent)) {
                touched.insert(entry.intent.agent.clone());
                self.enqueue(index, priority, reason.to_owned(), false);
            }
        }
        touched
    }

    /// Puts resources whose timers are due into their queues.
    pub fn tick(&mut self, now: Timestamp) {
        while let Some(&(due, index)) = self.timers.first() {
            if due > now {
                break;
            }
            self.timers.remove(&(due, index));
            let Some((_, priority)) = self.entry_mut(index).timer.take() else {
                continue;
            };
            let last = self
                .entry(index)
                .state
                .last_run_at
                .map_or(0, |last| now.since(last).as_secs());
            let kind = if priority == Priority::IntervalDeploy {
                "deploy"
            } else {
                "repair"
            };
            self.enqueue(
                index,
                priority,
                format!("previous {kind} happened more than {last}s ago"),
                false,
            );
        }
    }

    pub fn pause(&mut self, agent: &AgentName, paused: bool) {
        self.queues.entry(agent.clone()).or_default().paused = paused;
    }

    /// The names of agents, and whether each is paused.
    pub fn agents(&self) -> impl Iterator<Item = (&AgentName, bool)> {
        self.queues.iter().map(|(name, queue)| (name, queue.paused))
    }

    /// All runs that may start now. Each counts as running until [`Schedule::finished`].
    pub fn take(&mut self) -> Vec<Run> {
        let mut runs = Vec::new();
        let agents: Vec<AgentName> = self.queues.keys().cloned().collect();
        for agent in agents {
            while let Some(index) = self.next_of(&agent) {
                runs.push(self.start(index));
            }
        }
        runs
    }

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
            self.queues.entry(agent).or_default().running -= 1;
            return None;
        }
        let index = *self.by_id.get(resource_id)?;
        let version = self.version;
        let entry = self.entry_mut(index);
        let Phase::Running {
            action: running, ..
        } = &entry.phase
        else {
            return None;
        };
        if *running != action {
            return None;
        }
        let Phase::Running {
            hash,
            priority,
            again,
            ..
        } = std::mem::replace(&mut entry.phase, Phase::Idle)
        else {
            return None;
        };
        let is_stale = hash != entry.intent.attribute_hash;
        let was_compliant = entry.state.last_run_compliant;
        let agent = entry.intent.agent.clone();
        entry.record(&ended, is_stale, version);
        self.n_running -= 1;
        self.queues.entry(agent).or_default().running -= 1;
        if !is_stale
            && ended.status == HandlerStatus::SkippedForDependency
            && self.has_bad_dependency(index)
        {
            self.entry_mut(index).state.blocked = Blocked::TemporarilyBlocked;
        }
        let recovered = ended.status == HandlerStatus::Deployed && was_compliant == Some(false);
        self.notify_dependents(index, priority, is_stale, recovered);
        match again {
            Some((priority, reason)) => self.enqueue(index, priority, reason, false),
            None if is_stale && self.entry(index).state.blocked != Blocked::Blocked => {
                self.enqueue(
                    index,
                    Priority::NewVersion,
                    "a new version was released".to_owned(),
                    false,
                );
            }
            None => self.set_timer(index, now),
        }
        self.unpark_waiters(index);
        Some(self.entry(index).state.clone())
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
        for dependent in self.entry(index).provides.clone() {
            let entry = self.entry_mut(dependent);
            let freed = recovered && entry.state.blocked == Blocked::TemporarilyBlocked;
            if freed {
                entry.state.blocked = Blocked::NotBlocked;
                let reason = format!("a recovery event was received from {}", sender.resource_id);
                self.enqueue(dependent, priority, reason, true);
            } else if !is_stale
                && sender.send_event
                && entry.intent.receive_events
                && entry.state.blocked == Blocked::NotBlocked
            {
                let reason = format!("an event was received from {}", sender.resource_id);
                self.enqueue(dependent, priority, reason, true);
            }
        }
    }

    /// The indices of all resources that are in the model.
    fn indices(&self) -> Vec<Index> {
        (0..self.entries.len())
            .filter(|slot| self.entries[*slot].is_some())
            .map(|slot| Index(slot as u32))
            .collect()
    }

    fn entry(&self, index: Index) -> &ScheduledResource {
        self.entries[index.0 as usize]
            .as_ref()
            .expect("an index of a resource that is in the model")
    }

    fn entry_mut(&mut self, index: Index) -> &mut ScheduledResource {
        self.entries[index.0 as usize]
            .as_mut()
            .expect("an index of a resource that is in the model")
    }
}

#[cfg(test)]
mod tests;
