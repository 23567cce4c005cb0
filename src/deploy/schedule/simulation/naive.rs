//! The schedule as docs/reference/deployment.md § 4 words it, without a thought for speed: what has to run, why, and
//! what is running. It looks at all resources whenever it is asked, so there is nothing in it that could go stale.

use std::collections::BTreeMap;

use super::super::Priority;
use super::Model;
use crate::domain::{ActionId, AgentName, ResourceId, SharedText};

/// A run in progress.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) action: ActionId,
    pub(super) hash: SharedText,
    pub(super) priority: Priority,
    /// It has to run once more, for this reason.
    pub(super) again: Option<Priority>,
}

#[derive(Debug, Default)]
pub(super) struct Naive {
    pub(super) model: Model,
    /// What has to run: how urgent, and since which request.
    pub(super) queue: BTreeMap<ResourceId, (Priority, u64)>,
    pub(super) running: BTreeMap<ResourceId, Started>,
    /// Runs of resources that left the model.
    pub(super) orphans: BTreeMap<ActionId, AgentName>,
    /// Dry runs and questions for facts that wait, and those that are running.
    pub(super) tasks: BTreeMap<ActionId, (AgentName, Priority, u64)>,
    pub(super) running_tasks: BTreeMap<ActionId, AgentName>,
    /// The number of the last request. What one request schedules has no order.
    pub(super) request: u64,
}

impl Naive {
    /// Whether an ancestor of a resource is undefined, or it is itself.
    pub(super) fn is_blocked(&self, id: &ResourceId) -> bool {
        let intent = &self.model[id];
        intent.is_undefined || intent.requires.iter().any(|one| self.is_blocked(one))
    }

    /// Whether those that require it wait for it.
    pub(super) fn is_scheduled(&self, id: &ResourceId) -> bool {
        let is_current = |run: &Started| run.hash == self.model[id].attribute_hash;
        let waits = |run: &Started| is_current(run) || run.again.is_some();
        self.queue.contains_key(id) || self.running.get(id).is_some_and(waits)
    }

    pub(super) fn dependents(&self, id: &ResourceId) -> Vec<ResourceId> {
        let requires_it = self.model.values().filter(|one| one.requires.contains(id));
        requires_it.map(|one| one.resource_id.clone()).collect()
    }

    /// A reason to run a resource.
    pub(super) fn want(&mut self, id: &ResourceId, priority: Priority, forced: bool) {
        let fresh = (priority, self.request);
        if let Some(run) = self.running.get_mut(id) {
            run.priority = run.priority.min(priority);
            if forced || run.hash != self.model[id].attribute_hash {
                run.again = Some(run.again.map_or(priority, |again| again.min(priority)));
            }
            return;
        }
        if let Some(queued) = self.queue.get_mut(id) {
            if priority < queued.0 {
                *queued = fresh;
            }
            return;
        }
        self.queue.insert(id.clone(), fresh);
        for dependent in self.dependents(id) {
            let hash = &self.model[&dependent].attribute_hash;
            if let Some(run) = self.running.get_mut(&dependent)
                && run.hash == *hash
            {
                run.again = Some(run.again.map_or(priority, |again| again.min(priority)));
            }
        }
    }

    /// Takes over a version; gives those whose desired state is another.
    pub(super) fn apply(&mut self, model: Model, removed: &[ResourceId]) -> Vec<ResourceId> {
        self.request += 1;
        for id in removed {
            self.queue.remove(id);
            if let Some(run) = self.running.remove(id) {
                let agent = self.model[id].agent.clone();
                self.orphans.insert(run.action, agent);
            }
            self.model.remove(id);
        }
        let is_fresh = |(id, intent): &(&ResourceId, &super::Intent)| {
            let before = self.model.get(*id);
            before.is_none_or(|before| before.attribute_hash != intent.attribute_hash)
        };
        let fresh: Vec<ResourceId> = model
            .iter()
            .filter(is_fresh)
            .map(|(id, _)| id.clone())
            .collect();
        self.model = model;
        let blocked: Vec<ResourceId> = self
            .queue
            .keys()
            .filter(|id| self.is_blocked(id))
            .cloned()
            .collect();
        for id in blocked {
            self.queue.remove(&id);
        }
        for id in &fresh {
            if !self.is_blocked(id) {
                self.want(id, Priority::NewVersion, false);
            }
        }
        fresh
    }

    /// What an agent may run now: the most urgent of those that wait for nothing. All of one request are alike.
    pub(super) fn next_of(&self, agent: &AgentName) -> Option<(Priority, u64)> {
        let waits = |id: &ResourceId| {
            let mut requires = self.model[id].requires.iter();
            requires.any(|one| self.is_scheduled(one))
        };
        let of_agent = self
            .queue
            .iter()
            .filter(|(id, _)| self.model[*id].agent == *agent);
        let deploys = of_agent.filter(|(id, _)| !waits(id)).map(|(_, key)| *key);
        let tasks = self.tasks.values().filter(|(of, _, _)| of == agent);
        deploys
            .chain(tasks.map(|(_, priority, request)| (*priority, *request)))
            .min()
    }

    /// How many runs of an agent are in progress.
    pub(super) fn n_running(&self, agent: &AgentName) -> usize {
        let others = self.orphans.values().chain(self.running_tasks.values());
        let others = others.filter(|of| *of == agent).count();
        let of_agent = |id: &&ResourceId| self.model[*id].agent == *agent;
        others + self.running.keys().filter(of_agent).count()
    }
}
