//! The queues of agents: what is ready in each, and which agents can start something.

use std::collections::btree_map::Keys;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::startable::{Next, Permit, Room};
use super::{Index, Priority, Schedule};
use crate::deploy::Intent;
use crate::domain::{ActionId, AgentName, SharedText, Timestamp};

/// An agent's place in [`Schedule::queues`]. Agents stay, since there are few and they come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AgentIndex(u32);

impl AgentIndex {
    pub(super) fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

/// What stands in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Deploy(Index),
    Task(ActionId),
}

/// A place in a queue: priority, number of the request, and what is to be done.
pub(super) type Place = (Priority, u64, Work);

/// A run that takes no longer is quick.
const QUICK: Duration = Duration::from_millis(1);

/// Runs after which an agent gives its permit to others, though it has more to do; or two seconds, for each [`PART`] of which counts
/// as a run. Until then it keeps what its executor has for it: a process with what its handlers have cached, that would have to be
/// made anew.
const TURN: usize = 64;
const PART: Duration = Duration::from_millis(32);

/// Deployments of one agent in progress, at most: with quick ones about what an executor does until it is handed more.
const MAX_AHEAD: usize = 32;

/// The queue of one agent.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: AgentName,
    /// What may run when its turn comes, in order. Parked resources are not in it.
    pub(super) ready: BTreeSet<Place>,
    /// How many places of `ready` are deployments.
    n_deploys: usize,
    /// Deployments of this agent in progress, also those whose resources have left the model.
    n_running: usize,
    /// How many of these are of resources that have left the model.
    n_orphans: usize,
    /// A task of this agent is in progress.
    has_task: bool,
    /// How many deployments of it may be in progress at once: see [`Schedule::measured`].
    n_ahead: usize,
    /// The type of resource whose last runs were quick; only such are begun while another is in progress.
    quick_type: Option<SharedText>,
    /// What comes next has to wait until what is in progress has ended.
    is_held: bool,
    /// When the last deployment of it ended.
    last_end: Timestamp,
    /// Nothing is started while it is set; what is queued stays.
    paused: bool,
    /// It runs on another machine that is not connected: as paused, but nobody asked for it.
    is_away: bool,
    /// What it needs to be at work.
    permit: Permit,
    /// It has its permit: it is at work, or was a moment ago and goes on.
    has_permit: bool,
    /// How many runs it has begun since it has the permit, and how many parts of a turn these took.
    n_in_turn: usize,
    /// What it could start now.
    startable_as: Option<Next>,
    /// How urgent that is which is in progress, or behind it: its executor knows so.
    pace: Option<Priority>,
    /// The types of its resources, each with how many it has: what changes with a version is known without looking at all
    /// resources.
    types: BTreeMap<SharedText, usize>,
}

impl Queue {
    /// Something of it is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.n_running > 0 || self.has_task
    }

    /// Whether deployments of it that were begun elsewhere may be taken up. However many: an agent brings results that nobody
    /// has acknowledged together with the run that it is at.
    pub(super) fn may_take_up(&self) -> bool {
        !self.has_task && self.n_orphans == 0
    }

    /// Whether something more may be begun, if that is quick.
    fn has_room(&self) -> bool {
        !self.is_busy() || (!self.has_task && !self.is_held && self.n_running < self.n_ahead)
    }

    /// What is in progress is as urgent as this; `true`: it was less so.
    pub(super) fn quicken(&mut self, priority: Priority) -> bool {
        let is_more_urgent = self.pace.is_none_or(|pace| priority < pace);
        if is_more_urgent {
            self.pace = Some(priority);
        }
        is_more_urgent
    }

    /// Something has ended.
    fn slow_down(&mut self) {
        if !self.is_busy() {
            self.pace = None;
        }
    }

    /// Nothing of it is started.
    fn is_still(&self) -> bool {
        self.paused || self.is_away
    }
}

impl Schedule {
    /// The agent of this name. One that is new gets a queue.
    pub(super) fn agent(&mut self, name: &AgentName) -> AgentIndex {
        if let Some(agent) = self.by_agent.get(name) {
            return *agent;
        }
        let agent = AgentIndex(u32::try_from(self.queues.len()).expect("fewer than 2^32 agents"));
        self.queues.push(Queue {
            name: name.clone(),
            ready: BTreeSet::new(),
            n_deploys: 0,
            n_running: 0,
            n_orphans: 0,
            has_task: false,
            n_ahead: 1,
            quick_type: None,
            is_held: false,
            last_end: Timestamp(0),
            paused: false,
            is_away: false,
            permit: Permit::NONE,
            has_permit: false,
            n_in_turn: 0,
            startable_as: None,
            pace: None,
            types: BTreeMap::new(),
        });
        self.by_agent.insert(name.clone(), agent);
        agent
    }

    pub(super) fn queue(&self, agent: AgentIndex) -> &Queue {
        &self.queues[agent.0 as usize]
    }

    pub(super) fn queue_mut(&mut self, agent: AgentIndex) -> &mut Queue {
        &mut self.queues[agent.0 as usize]
    }

    /// Pauses an agent, or lets it go on.
    pub fn pause(&mut self, agent: &AgentName, paused: bool) {
        let agent = self.agent(agent);
        self.change(agent, |queue| queue.paused = paused);
    }

    /// Says whether the machine of an agent is out of reach, so that nothing of it can start. What runs there goes on.
    pub fn set_away(&mut self, agent: &AgentName, is_away: bool) {
        let agent = self.agent(agent);
        self.change(agent, |queue| queue.is_away = is_away);
    }

    /// Says what each agent needs to be at work, by its name and the types of its resources.
    pub fn set_permits(
        &mut self,
        mut permit_of: impl FnMut(&AgentName, Keys<'_, SharedText, usize>) -> Permit,
    ) {
        for number in 0..self.queues.len() {
            let queue = &self.queues[number];
            let permit = permit_of(&queue.name, queue.types.keys());
            if permit != queue.permit {
                self.change(AgentIndex(number as u32), |queue| queue.permit = permit);
            }
        }
    }

    /// For how many agents there is room.
    pub fn set_room(&mut self, room: Room) {
        if !self.startable.set_room(room) {
            return;
        }
        // Whoever is not at work looks for room anew.
        for number in 0..self.queues.len() {
            self.change(AgentIndex(number as u32), |queue| queue.n_in_turn = TURN);
        }
    }

    /// The names of the agents that are paused.
    pub fn paused(&self) -> impl Iterator<Item = &AgentName> {
        let paused = self.queues.iter().filter(|queue| queue.paused);
        paused.map(|queue| &queue.name)
    }

    /// The names of the agents that are away.
    pub fn away(&self) -> impl Iterator<Item = &AgentName> {
        let away = self.queues.iter().filter(|queue| queue.is_away);
        away.map(|queue| &queue.name)
    }

    /// Whether an agent is paused.
    pub fn is_paused(&self, agent: &AgentName) -> bool {
        let agent = self.by_agent.get(agent);
        agent.is_some_and(|agent| self.queue(*agent).paused)
    }

    /// The types of resources that each agent has.
    pub fn types(&self) -> impl Iterator<Item = (&AgentName, &str)> {
        self.queues.iter().flat_map(|queue| {
            let types = queue.types.keys();
            types.map(|resource_type| (&queue.name, &**resource_type))
        })
    }

    /// An agent has one more resource of this type.
    pub(super) fn add_type(&mut self, agent: AgentIndex, resource_type: &SharedText) {
        let types = &mut self.queues[agent.0 as usize].types;
        match types.get_mut(resource_type) {
            Some(n_resources) => *n_resources += 1,
            None => {
                types.insert(resource_type.clone(), 1);
            }
        }
    }

    /// An agent has one resource less of this type.
    pub(super) fn remove_type(&mut self, agent: AgentIndex, resource_type: &SharedText) {
        let types = &mut self.queues[agent.0 as usize].types;
        if let Some(n_resources) = types.get_mut(resource_type) {
            *n_resources -= 1;
            if *n_resources == 0 {
                types.remove(resource_type);
            }
        }
    }

    /// Whether an agent has resources or work, or had.
    pub fn knows_agent(&self, agent: &AgentName) -> bool {
        self.by_agent.contains_key(agent)
    }

    pub(super) fn add_ready(&mut self, agent: AgentIndex, place: Place) {
        self.change(agent, |queue| {
            if queue.ready.insert(place) && matches!(place.2, Work::Deploy(_)) {
                queue.n_deploys += 1;
            }
        });
    }

    pub(super) fn remove_ready(&mut self, agent: AgentIndex, place: &Place) {
        self.change(agent, |queue| {
            if queue.ready.remove(place) && matches!(place.2, Work::Deploy(_)) {
                queue.n_deploys -= 1;
            }
        });
    }

    /// A deployment of the agent begins.
    pub(super) fn run_began(&mut self, agent: AgentIndex, priority: Priority) {
        self.change(agent, |queue| {
            queue.n_running += 1;
            queue.n_in_turn += 1;
            queue.quicken(priority);
        });
    }

    /// Something of this priority stands in the queue of an agent. What is in progress may wait for a connection, for minutes where
    /// ten thousand machines are repaired: it goes before them then.
    pub(super) fn hurry(&mut self, agent: AgentIndex, priority: Priority) {
        let queue = self.queue_mut(agent);
        if queue.is_busy() && queue.quicken(priority) {
            self.hurried.push(agent);
        }
    }

    /// A resource left the model while it was being deployed.
    pub(super) fn run_orphaned(&mut self, agent: AgentIndex) {
        self.change(agent, |queue| queue.n_orphans += 1);
    }

    /// A deployment of a resource that has left the model has ended.
    pub(super) fn orphan_ended(&mut self, agent: AgentIndex) {
        self.change(agent, |queue| queue.n_orphans -= 1);
        self.run_ended(agent);
    }

    /// A deployment of the agent has ended.
    pub(super) fn run_ended(&mut self, agent: AgentIndex) {
        self.change(agent, |queue| {
            queue.n_running -= 1;
            queue.is_held = false;
            queue.slow_down();
        });
    }

    pub(super) fn set_has_task(&mut self, agent: AgentIndex, has_task: bool) {
        self.change(agent, |queue| {
            queue.has_task = has_task;
            queue.slow_down();
        });
    }

    /// Nothing more of the agent is begun before something of it has ended.
    pub(super) fn hold(&mut self, agent: AgentIndex) {
        self.change(agent, |queue| queue.is_held = true);
    }

    /// Whether a resource may be handed out while another one of its agent is in progress. Not while that is one that has left
    /// the model: it may have come back, and must not run twice.
    pub(super) fn may_go_ahead(&self, index: Index) -> bool {
        let entry = self.entry(index);
        let queue = self.queue(entry.agent);
        queue.n_orphans == 0 && queue.quick_type.as_ref() == Some(&entry.intent.resource_type)
    }

    /// Takes note of how long a run took that an executor on this machine did. The executor works off the runs of an agent
    /// one after the other, in the order in which they are handed over. So after quick runs it is handed several at once:
    /// otherwise it would wait for the next one after each, longer than the runs take. What is handed over is begun, even if
    /// its agent is paused then, or a new version comes; so they are no more than what takes a moment, and of a type whose last
    /// run was quick.
    pub fn measured(&mut self, intent: &Intent, started: Timestamp, finished: Timestamp) {
        let agent = self.agent(&intent.agent);
        let resource_type = &intent.resource_type;
        self.change(agent, |queue| {
            // It may have waited behind the one before it.
            let took = finished.since(started.max(queue.last_end));
            queue.last_end = finished;
            let n_parts = usize::try_from(took.as_millis() / PART.as_millis());
            queue.n_in_turn = queue.n_in_turn.saturating_add(n_parts.unwrap_or(TURN));
            if took > QUICK {
                (queue.n_ahead, queue.quick_type) = (1, None);
                return;
            }
            queue.n_ahead = (queue.n_ahead * 2).min(MAX_AHEAD);
            if queue.quick_type.as_ref() != Some(resource_type) {
                queue.quick_type = Some(resource_type.clone());
            }
        });
    }

    /// Changes a queue, and keeps true what is known of all queues together.
    fn change(&mut self, agent: AgentIndex, change: impl FnOnce(&mut Queue)) {
        self.count_steps(1);
        let queue = &mut self.queues[agent.0 as usize];
        let waiting = |queue: &Queue| if queue.is_still() { 0 } else { queue.n_deploys };
        self.n_waiting -= waiting(queue);
        let had = queue.has_permit.then_some(queue.permit);
        let permit = queue.permit;
        change(queue);
        let first = queue.ready.first().map(|(priority, ..)| *priority);
        let goes_on = |queue: &Queue| {
            let may = queue.has_permit && !queue.is_still() && queue.n_in_turn < TURN;
            let is_first = |priority| !self.startable.is_more_urgent(permit, priority);
            may && permit == queue.permit && first.is_some_and(is_first)
        };
        queue.has_permit = queue.is_busy() || goes_on(queue);
        if !queue.has_permit {
            queue.n_in_turn = 0;
        }
        let has = queue.has_permit.then_some(queue.permit);
        if had != has {
            if let Some(permit) = had {
                self.startable.give_back(permit);
            }
            if let Some(permit) = has {
                self.startable.take(permit);
            }
        }
        self.n_waiting += waiting(queue);
        let may_start = !queue.is_still() && queue.has_room();
        let permit = if queue.has_permit {
            Permit::NONE
        } else {
            queue.permit
        };
        let is = first
            .filter(|_| may_start)
            .map(|priority| (priority, permit));
        let was = std::mem::replace(&mut queue.startable_as, is);
        self.startable.change(agent, was, is);
    }

    /// Queues a task that is no deployment: a dry run, or a question for facts.
    pub fn add_task(&mut self, action: ActionId, agent: &AgentName, priority: Priority) {
        let agent = self.agent(agent);
        self.sequence += 1;
        self.tasks.insert(action, agent);
        self.add_ready(agent, (priority, self.sequence, Work::Task(action)));
        self.hurry(agent, priority);
    }

    /// Takes note of the end of a task that was started.
    pub fn task_finished(&mut self, action: ActionId) {
        if let Some(agent) = self.tasks.remove(&action) {
            self.set_has_task(agent, false);
        }
    }
}
