//! What to deploy next, as a pure value: every ordering can be a test.
//!
//! Events go in (a version, an end of a run, a request, a tick of the clock), and [`Start`]s come out
//! of [`Schedule::take`]. There is no clock, store or task in here: times are arguments, and the
//! engine around it ([`super::engine`]) reads the store, starts runs and writes states. Source:
//! docs/reference/deployment.md § 3.4 and § 4.
//!
//! # Which run comes next
//!
//! Each agent has a queue of its own, and at most one of its resources runs at a time; agents do
//! not wait for one another, except through dependencies. Of resources whose runs take next to no
//! time, several are handed to the executor at once, which runs them in this order, one at a time
//! ([`Schedule::measured`]); they count as running from then on, and what requires one of them waits. A queue is ordered by priority, then by
//! how long a resource has been in it. A resource is in its queue at most once: a second reason to
//! run it keeps the better priority, and a *better* priority counts as a fresh request, behind the
//! others of that priority. Dry runs and questions for facts ([`Schedule::add_task`]) stand in the
//! same queues; they wait for no dependency, and change no state.
//!
//! Nobody looks through the queues for one that has work: [`Schedule::startable`] holds exactly the
//! agents that could start something, so a decision costs the same whatever is idle. Where not all of them may start something at
//! once, the most urgent of what they have goes first, as a rule; and what is in progress but may wait for a connection is
//! hurried there ([`Schedule::take_hurried`]). What an executor on this machine has no room for is not started ([`Permit`]): were it
//! handed over, nothing could keep it from being done minutes later, though its agent is paused by then, or a version came.
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
//! what it was started for ([`InProgress`](entry::InProgress)). If the resource shall be something else when it
//! ends, the run is *stale*: it counts as a run, but says nothing about the new intent, and another
//! run follows. If the resource is gone by then, it is an *orphan*, and only frees its agent.
//!
//! # Invariants
//!
//! - A resource's `phase` says where it is: `Queued` and not parked means exactly that the key
//!   (priority, sequence, index) is in `ready` of its agent's queue.
//! - An agent is in `startable`, by the priority of the first in its queue, exactly if it is not paused, has room for a run (in general: it runs
//!   nothing), and `ready` of its queue is not empty.
//! - A parked resource is among the `waiters` of one that it requires and that is scheduled. The end
//!   of that one's run frees it ([`Schedule::unpark_waiters`]), and so does a version that changes
//!   what it requires; if the other one gets blocked, it is blocked, too.
//! - `n_running` counts the deployments in progress, and orphans with them.
//! - A timer is set only while a resource is idle; scheduling it stops the timer, and the end of
//!   its run plans the next.
//! - What is blocked (undefined, or with an undefined ancestor) is never queued.
//!
//! `simulation` checks them, and what follows from them, in random lives of environments.

mod agents;
mod counts;
mod entry;
mod finish;
mod graph;
mod loading;
mod queues;
mod startable;
mod timers;
mod version;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState as FastHash;

use super::Intent;
pub use crate::domain::Priority;
use crate::domain::{
    ActionId, AgentName, Blocked, HandlerStatus, ResourceId, Timestamp, VersionNumber,
};
use crate::executor::protocol::Dependency;
use crate::store::ResourceState;
use agents::{AgentIndex, Queue};
pub use counts::Counts;
use entry::ScheduledResource;
pub use loading::Loading;
use startable::Startable;
pub use startable::{Permit, Room};

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
    /// By how much of each of these times, in per cent, resources come earlier than it says: each
    /// by another part of it, always the same. So what was deployed together is not verified
    /// together for ever after.
    pub spread_percent: u32,
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

/// What shall start now.
#[derive(Debug, Clone)]
pub enum Start {
    Deploy(Run),
    /// A task that [`Schedule::add_task`] got; it is running until [`Schedule::task_finished`].
    Task(ActionId),
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

/// The scheduling state of one environment: see the head of this file.
#[derive(Debug, Default)]
pub struct Schedule {
    /// All resources of the version in force; `None`: one that left.
    entries: Vec<Option<ScheduledResource>>,
    by_id: HashMap<ResourceId, Index, FastHash>,
    queues: Vec<Queue>,
    by_agent: HashMap<AgentName, AgentIndex>,
    /// The agents that can start something now.
    startable: Startable,
    /// Agents whose runs in progress have got something more urgent behind them, since they were asked for.
    hurried: Vec<AgentIndex>,
    /// When idle resources run by themselves, the next one first.
    timers: BTreeSet<(Timestamp, Index)>,
    /// The last time that timers were asked about.
    ticked: Option<Timestamp>,
    /// Those whose turn came while the first one was scheduled: they are parked until it is done.
    waiters: HashMap<Index, Vec<Index>>,
    /// Resources with a run in progress.
    running: BTreeSet<Index>,
    /// Runs in progress whose resource left the model.
    orphans: HashMap<ActionId, AgentIndex>,
    /// Tasks that are no deployments, queued or running.
    tasks: HashMap<ActionId, AgentIndex>,
    policy: RetryPolicy,
    version: VersionNumber,
    /// The number of the last request; it orders those of one priority.
    sequence: u64,
    /// Deployments in progress of all agents.
    n_running: usize,
    /// Deployments that are ready, of agents that are not paused.
    n_waiting: usize,
    counts: Counts,
    /// How often an entry, a queue or a dependency was looked at, for tests of what a decision costs.
    #[cfg(test)]
    steps: std::sync::atomic::AtomicU64,
}

impl Schedule {
    pub fn version(&self) -> VersionNumber {
        self.version
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether nothing is deploying or may start to; what waits on a paused agent does not count,
    /// and neither do dry runs and questions for facts.
    pub fn is_idle(&self) -> bool {
        self.n_running == 0 && self.n_waiting == 0
    }

    /// How many resources are how, when nothing is running.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The desired state of a resource.
    pub fn intent(&self, resource_id: &ResourceId) -> Option<&Intent> {
        let index = self.by_id.get(resource_id)?;
        Some(&self.entry(*index).intent)
    }

    /// What is known of a resource of the version in force.
    pub fn state(&self, resource_id: &ResourceId) -> Option<&ResourceState> {
        let index = self.by_id.get(resource_id)?;
        Some(&self.entry(*index).state)
    }

    /// What is known of each resource.
    pub fn states(&self) -> impl Iterator<Item = &ResourceState> {
        self.entries.iter().flatten().map(|entry| &entry.state)
    }

    /// Schedules what a user or a cron expression asks for, and gives the agents that have
    /// something to do; where all is asked for, those whose resources are all blocked, too. `agents`: only theirs; `None`:
    /// everybody's.
    pub fn request(
        &mut self,
        which: Selection,
        priority: Priority,
        reason: &str,
        agents: Option<&BTreeSet<AgentName>>,
    ) -> BTreeSet<AgentName> {
        let mut touched = BTreeSet::new();
        let reason: Arc<str> = reason.into();
        for index in self.indices() {
            let wanted = self.is_wanted(index, which);
            let entry = self.entry(index);
            if agents.is_some_and(|agents| !agents.contains(&entry.intent.agent)) {
                continue;
            }
            if wanted || which == Selection::All {
                touched.insert(entry.agent);
            }
            if wanted {
                self.enqueue(index, priority, Arc::clone(&reason), false);
            }
        }
        let name = |agent: AgentIndex| self.queue(agent).name.clone();
        touched.into_iter().map(name).collect()
    }

    /// As [`request`](Self::request), of these resources only; gives those that the model has, sorted, also where nothing is to
    /// be done.
    pub fn request_some(
        &mut self,
        which: Selection,
        priority: Priority,
        reason: &str,
        ids: &BTreeSet<ResourceId>,
    ) -> Vec<ResourceId> {
        let reason: Arc<str> = reason.into();
        let mut known = Vec::new();
        for id in ids {
            let Some(index) = self.by_id.get(id).copied() else {
                continue;
            };
            known.push(id.clone());
            if self.is_wanted(index, which) {
                self.enqueue(index, priority, Arc::clone(&reason), false);
            }
        }
        known
    }

    /// Whether a request is about a resource.
    fn is_wanted(&self, index: Index, which: Selection) -> bool {
        let entry = self.entry(index);
        match which {
            Selection::Dirty => entry.is_dirty(),
            Selection::All => entry.state.blocked != Blocked::Blocked,
        }
    }

    /// What may start now, `most` at most and as far as there is room ([`Schedule::set_room`]), the most urgent first of what all
    /// agents have. Each counts as running until the
    /// schedule is told its end. What is left waits for the next call, which goes on with the agents where this one stopped: all
    /// have their turns.
    pub fn take(&mut self, most: usize) -> Vec<Start> {
        let mut starts = Vec::new();
        while starts.len() < most {
            let Some(agent) = self.startable.next() else {
                break;
            };
            // In the end the agent has no room, or nothing of it may start: it is in `startable` no more.
            starts.extend(self.start_next_of(agent));
        }
        self.startable.end_of_turn(starts.len() >= most);
        starts
    }

    /// The agents whose runs in progress have got something behind them that is more urgent than they are: where these runs have
    /// not begun yet, they are as urgent. Each is named once for each priority.
    pub fn take_hurried(&mut self) -> Vec<AgentName> {
        let hurried = std::mem::take(&mut self.hurried);
        let named = hurried.into_iter();
        named.map(|agent| self.queue(agent).name.clone()).collect()
    }

    /// The indices of all resources that are in the model.
    fn indices(&self) -> Vec<Index> {
        (0..self.entries.len())
            .filter(|slot| self.entries[*slot].is_some())
            .map(|slot| Index(slot as u32))
            .collect()
    }

    fn entry(&self, index: Index) -> &ScheduledResource {
        self.count_steps(1);
        self.entries[index.0 as usize]
            .as_ref()
            .expect("an index of a resource that is in the model")
    }

    fn entry_mut(&mut self, index: Index) -> &mut ScheduledResource {
        self.count_steps(1);
        self.entries[index.0 as usize]
            .as_mut()
            .expect("an index of a resource that is in the model")
    }

    #[cfg(test)]
    fn count_steps(&self, n: u64) {
        self.steps
            .fetch_add(n, std::sync::atomic::Ordering::Relaxed);
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "only tests count")]
    fn count_steps(&self, _n: u64) {}
}

#[cfg(test)]
mod cost;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
