//! The queues of agents: what is ready in each, and which agents can start something.

use std::collections::BTreeSet;

use super::{Index, Priority, Schedule};
use crate::domain::{ActionId, AgentName};

/// An agent's place in [`Schedule::queues`]. Agents stay, since there are few and they come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct AgentIndex(u32);

/// What stands in a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Work {
    Deploy(Index),
    Task(ActionId),
}

/// A place in a queue: priority, number of the request, and what is to be done.
pub(super) type Place = (Priority, u64, Work);

/// The queue of one agent.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) name: AgentName,
    /// What may run when its turn comes, in order. Parked resources are not in it.
    pub(super) ready: BTreeSet<Place>,
    /// How many places of `ready` are deployments.
    n_deploys: usize,
    /// Something of this agent is in progress: a run, also one whose resource has left the model, or a task.
    is_busy: bool,
    /// Nothing is started while it is set; what is queued stays.
    paused: bool,
    /// It runs on another machine that is not connected: as paused, but nobody asked for it.
    is_away: bool,
}

impl Queue {
    /// Something of it is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
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
            is_busy: false,
            paused: false,
            is_away: false,
        });
        self.by_agent.insert(name.clone(), agent);
        agent
    }

    pub(super) fn queue(&self, agent: AgentIndex) -> &Queue {
        &self.queues[agent.0 as usize]
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

    /// The names of agents, and whether each starts nothing: it is paused, or away.
    pub fn agents(&self) -> impl Iterator<Item = (&AgentName, bool)> {
        self.queues
            .iter()
            .map(|queue| (&queue.name, queue.is_still()))
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

    pub(super) fn set_busy(&mut self, agent: AgentIndex, is_busy: bool) {
        self.change(agent, |queue| queue.is_busy = is_busy);
    }

    /// Changes a queue, and keeps true what is known of all queues together.
    fn change(&mut self, agent: AgentIndex, change: impl FnOnce(&mut Queue)) {
        self.count_steps(1);
        let queue = &mut self.queues[agent.0 as usize];
        let waiting = |queue: &Queue| if queue.is_still() { 0 } else { queue.n_deploys };
        self.n_waiting -= waiting(queue);
        change(queue);
        self.n_waiting += waiting(queue);
        if !queue.is_still() && !queue.is_busy && !queue.ready.is_empty() {
            self.startable.insert(agent);
        } else {
            self.startable.remove(&agent);
        }
    }

    /// Queues a task that is no deployment: a dry run, or a question for facts.
    pub fn add_task(&mut self, action: ActionId, agent: &AgentName, priority: Priority) {
        let agent = self.agent(agent);
        self.sequence += 1;
        self.tasks.insert(action, agent);
        self.add_ready(agent, (priority, self.sequence, Work::Task(action)));
    }

    /// Takes note of the end of a task that was started.
    pub fn task_finished(&mut self, action: ActionId) {
        if let Some(agent) = self.tasks.remove(&action) {
            self.set_busy(agent, false);
        }
    }
}
