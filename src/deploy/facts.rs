//! Facts of resources: when handlers are asked for them, and what follows when one is known.
//! Source: docs/reference/deployment.md § 5.7.
//!
//! A handler reports facts in any run. It is asked for them when somebody wants one that is missing or old, when one grows
//! old, and for what the model of the version in force could not know. A fact that this version waits for queues a compile.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::Notify;

use super::engine::{QueuedTask, Reconciler};
use super::schedule::Priority;
use crate::domain::{
    ActionId, Change, EnvironmentId, FactTimes, ResourceId, Timestamp, VersionNumber, chain,
};
use crate::executor::bounds::bound;
use crate::executor::link::TaskResult;
use crate::executor::protocol::{Task, TaskKind, TaskOutcome};
use crate::facts::{SetFact, is_known, message_of, queue_compile};
use crate::store::{self, ActionEnd, Store};

/// (resource, name of the fact)
pub(super) type Unknown = (ResourceId, String);

/// Which questions are open, and what the model waits for.
pub(super) struct Facts {
    asked: HashMap<ResourceId, Instant>,
    /// Whose question waits in the queue of its agent, which may be paused: there is one at most.
    queued: HashSet<ResourceId>,
    /// Asked without anybody wanting to know now.
    renewed: HashMap<ResourceId, Instant>,
    unknowns: BTreeSet<Unknown>,
    /// Whether what the model waits for may be known already, and when those were set that a compile was queued for since.
    is_unchecked: bool,
    caught_up: HashMap<Unknown, Timestamp>,
    recompile: Arc<Notify>,
    /// Why a compile is needed that could not be queued yet.
    owed_compile: Option<String>,
    pub(super) times: FactTimes,
}

impl Facts {
    pub(super) fn new(
        unknowns: BTreeSet<Unknown>,
        recompile: Arc<Notify>,
        times: FactTimes,
    ) -> Self {
        Self {
            asked: HashMap::new(),
            queued: HashSet::new(),
            renewed: HashMap::new(),
            unknowns,
            is_unchecked: true,
            caught_up: HashMap::new(),
            recompile,
            owed_compile: None,
            times,
        }
    }

    pub(super) fn set_unknowns(&mut self, unknowns: BTreeSet<Unknown>) {
        self.unknowns = unknowns;
        self.is_unchecked = true;
        self.renewed.clear();
    }

    /// Those of `wanted` that were not asked lately; a handler that has no answer is not asked all the time.
    fn renewable(&mut self, wanted: BTreeSet<ResourceId>, now: Instant) -> Vec<ResourceId> {
        let renew = self.times.renew;
        self.renewed.retain(|_, at| now.duration_since(*at) < renew);
        let mut wanted: Vec<ResourceId> = wanted.into_iter().collect();
        wanted.retain(|resource_id| !self.renewed.contains_key(resource_id));
        let noted = wanted.iter().map(|resource_id| (resource_id.clone(), now));
        self.renewed.extend(noted);
        wanted
    }

    /// Whether the resource is to be asked now, which is noted.
    fn may_ask(&mut self, resource_id: &ResourceId, now: Instant) -> bool {
        let block = self.times.resource_block;
        self.asked.retain(|_, at| now.duration_since(*at) < block);
        if self.asked.contains_key(resource_id) || self.queued.contains(resource_id) {
            return false;
        }
        self.asked.insert(resource_id.clone(), now);
        self.queued.insert(resource_id.clone());
        true
    }

    /// The question about a resource has left the queue.
    pub(super) fn on_started(&mut self, resource_id: &ResourceId) {
        self.queued.remove(resource_id);
    }
}

/// The facts that the model of a version asked for and did not get.
pub(super) async fn unknowns(
    store: &Store,
    environment: EnvironmentId,
    version: Option<VersionNumber>,
) -> Result<BTreeSet<Unknown>, store::Error> {
    let Some(version) = version else {
        return Ok(BTreeSet::new());
    };
    let unknowns = store.fact_unknowns(environment, version).await?;
    Ok(unknowns.into_iter().collect())
}

/// What a run found: name, value, whether it may expire.
pub(super) fn facts_of(outcome: &TaskOutcome) -> Vec<(String, String, bool)> {
    let facts = outcome.facts.iter();
    facts
        .map(|fact| (fact.name.clone(), fact.value.clone(), fact.expires))
        .collect()
}

impl Reconciler {
    /// Asks for what grows old, and for what the model waits for.
    pub(super) async fn renew_facts(&mut self, now: Timestamp) -> Result<(), store::Error> {
        if let Some(message) = self.facts.owed_compile.take() {
            self.compile_for_facts(&message).await;
        }
        self.recompile_for_known(now).await?;
        let before = Timestamp(now.0 - self.facts.times.renew.as_micros() as i64);
        let outdated = self.store.fact_outdated(self.environment, before).await?;
        let unknown = self.facts.unknowns.iter().map(|(id, _)| id.clone());
        let wanted = outdated.into_iter().chain(unknown).collect();
        for resource_id in self.facts.renewable(wanted, Instant::now()) {
            self.ask_for_facts(&resource_id);
        }
        Ok(())
    }

    /// Asks a resource that was deployed just now for the facts that the model waits for and that its run did not find: it
    /// may have been asked before it was there.
    pub(super) async fn ask_for_awaited(
        &mut self,
        resource_id: &ResourceId,
        found: &[(String, String, bool)],
    ) {
        let is_found = |name: &String| found.iter().any(|(known, _, _)| known == name);
        let mut unknowns = self.facts.unknowns.iter();
        if unknowns.any(|(id, name)| id == resource_id && !is_found(name)) {
            self.facts.asked.remove(resource_id);
            self.ask_for_facts(resource_id);
        }
    }

    /// Asks the handler of a resource of the version in force.
    pub(super) fn ask_for_facts(&mut self, resource_id: &ResourceId) {
        let Some(intent) = self.schedule.intent(resource_id).cloned() else {
            return;
        };
        // Of a resource that is not known there is nothing that can be asked.
        if intent.is_undefined || !self.facts.may_ask(resource_id, Instant::now()) {
            return;
        }
        let code = Arc::clone(self.code.of(&intent.agent));
        let task = Task {
            action: ActionId::generate(),
            kind: TaskKind::CollectFacts,
            code: code.key.clone(),
            agent: intent.agent,
            resource_id: intent.resource_id,
            resource_type: intent.resource_type.to_string(),
            version: self.schedule.version(),
            attributes: intent.attributes.into(),
            reason: "its facts were asked for".to_owned(),
            limit_ms: self.limit_ms(),
        };
        let queued = QueuedTask {
            task,
            code,
            place: None,
        };
        self.queue_task(queued, Priority::CollectFacts);
    }

    /// Notes what a handler answered, to be written. The state of the resource is as it was.
    pub(super) fn on_facts_collected(&mut self, done: TaskResult) {
        self.schedule.task_finished(done.action);
        let mut outcome = done.outcome;
        bound(
            &mut outcome,
            self.daily.share(&done.resource_id, Timestamp::now()),
        );
        let messages = crate::executor::bounds::messages_json(&outcome.logs);
        self.daily.add(&done.resource_id, messages.len());
        let end = ActionEnd {
            id: done.action,
            finished: done.finished,
            status: outcome.status.legacy(),
            change: Change::NoChange,
            changes: "{}".to_owned(),
            messages,
            state: None,
            facts: facts_of(&outcome),
            discovered: Vec::new(),
            resource_id: done.resource_id,
        };
        self.unwritten.ends.push((end, None));
    }

    /// Queues a compile if one of the facts in these ends is what the version in force waits for.
    pub(super) async fn recompile_for_facts(&mut self, ends: &[ActionEnd]) {
        let found = ends.iter().flat_map(|end| {
            let names = end.facts.iter().map(|(name, _, _)| name.clone());
            names.map(|name| (end.resource_id.clone(), name))
        });
        self.recompile_for(&found.collect::<Vec<_>>()).await;
    }

    /// Queues a compile if a fact is known by now that the version in force waits for: whoever set it while the model was
    /// compiled, or before the version was released, or a moment before the server ended, had nothing to wait for it.
    ///
    /// Once for each time that it was set, so that a model that does not see it is not compiled for ever.
    pub(super) async fn recompile_for_known(&mut self, now: Timestamp) -> Result<(), store::Error> {
        if !self.facts.is_unchecked {
            return Ok(());
        }
        let givers: BTreeSet<&ResourceId> = self.facts.unknowns.iter().map(|(id, _)| id).collect();
        let givers: Vec<&ResourceId> = givers.into_iter().collect();
        let ages = self.store.fact_ages_of(self.environment, &givers).await?;
        let mut known = Vec::new();
        for age in ages {
            let is_good = is_known(age.expires, age.updated, now, self.facts.times.expire);
            let unknown = (age.resource_id, age.name);
            let is_new = self.facts.caught_up.get(&unknown) != Some(&age.updated);
            if is_good && is_new && self.facts.unknowns.contains(&unknown) {
                self.facts.caught_up.insert(unknown.clone(), age.updated);
                known.push(unknown);
            }
        }
        self.recompile_for(&known).await;
        self.facts.is_unchecked = false;
        Ok(())
    }

    /// Queues a compile if one of these facts is what the version in force waits for.
    pub(super) async fn recompile_for(&mut self, found: &[Unknown]) {
        let mut resolved = false;
        for unknown in found {
            resolved |= self.facts.unknowns.remove(unknown);
        }
        if !resolved {
            return;
        }
        let message = "Recompile model because one or more facts were updated";
        self.compile_for_facts(message).await;
    }

    /// A handler has set a fact or a parameter over the API.
    pub(super) async fn on_fact_set(&mut self, set: &SetFact) {
        let fact = &set.fact;
        // A parameter is of no resource, which an unknown has as an empty id.
        let of = fact.resource_id.clone();
        let of = of.unwrap_or_else(|| ResourceId::new(""));
        let is_waited_for = self.facts.unknowns.remove(&(of, fact.name.clone()));
        if set.needs_compile(is_waited_for) {
            self.compile_for_facts(&message_of(&fact.name)).await;
        }
    }

    /// Queues a compile. If the database does not take it, the next look at the store tries again.
    async fn compile_for_facts(&mut self, message: &str) {
        match queue_compile(&self.store, self.environment, message).await {
            Ok(()) => self.facts.recompile.notify_one(),
            Err(error) => {
                tracing::error!(environment.id = %self.environment, error = chain(&error), "cannot queue a compile for a fact; trying again later");
                self.facts.owed_compile = Some(message.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_asked_now_and_then() {
        let mut facts = Facts::new(BTreeSet::new(), Arc::default(), FactTimes::default());
        let (began, id) = (Instant::now(), |name| ResourceId::new(name));
        let at = |seconds| began + std::time::Duration::from_secs(seconds);
        assert!(facts.may_ask(&id("a"), at(0)) && facts.may_ask(&id("b"), at(0)));
        assert!(!facts.may_ask(&id("a"), at(59)));
        // A question that is not asked yet is not asked twice, however long its agent is paused.
        assert!(!facts.may_ask(&id("a"), at(60)));
        facts.on_started(&id("a"));
        assert!(facts.may_ask(&id("a"), at(60)));
        let mut renew = |seconds: u64| {
            let wanted = ["a", "b"].map(ResourceId::new).into_iter().collect();
            facts.renewable(wanted, at(seconds)).len()
        };
        assert_eq!(
            [renew(0), renew(60), renew(1199), renew(1200)],
            [2, 0, 0, 2]
        );
        facts.set_unknowns(BTreeSet::new());
        let wanted = BTreeSet::from([ResourceId::new("a")]);
        assert_eq!(facts.renewable(wanted, at(1201)), ["a"]);
    }
}
