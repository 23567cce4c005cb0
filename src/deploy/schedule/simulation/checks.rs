//! What must hold in a life.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::super::entry::Phase;
use super::super::{Counts, Ended, Priority, Run};
use super::life::{Life, agents, is_dirty};
use crate::domain::{
    AgentName, Blocked, HandlerStatus, LastRun, ResourceId, ResourceStatus, SharedText, Timestamp,
};
use crate::store::ResourceState;

impl Life {
    pub(super) fn is_idle(&self, state: &ResourceState) -> bool {
        let id = &state.resource_id;
        !self.naive.queue.contains_key(id)
            && !self.naive.running.contains_key(id)
            && !self.naive.is_blocked(id)
    }

    /// When a resource at rest runs by itself: the earliest moment and the latest, and why.
    pub(super) fn due(&self, state: &ResourceState) -> Vec<(Timestamp, Timestamp, Priority)> {
        let policy = &self.schedule.policy;
        let last = state.last_run_at.expect("what never ran is queued");
        let retry = policy.deploy.filter(|_| is_dirty(state)).map(|deploy| {
            match policy.backoff.as_secs() {
                0 => deploy,
                first => {
                    Duration::from_secs(first << (state.n_failures - 1).clamp(0, 20)).min(deploy)
                }
            }
        });
        let is_reported = state.last_run == LastRun::Successful
            && state.last_run_compliant == Some(false)
            && state.blocked == Blocked::NotBlocked
            && !is_dirty(state);
        let all = [
            (retry, Priority::IntervalDeploy),
            (
                policy.deploy.filter(|_| is_reported),
                Priority::IntervalDeploy,
            ),
            (policy.repair, Priority::IntervalRepair),
        ];
        let due = |(every, why): (Option<Duration>, Priority)| {
            let every = every?;
            let early = every * policy.spread_percent / 100;
            Some((last.plus(every - early), last.plus(every), why))
        };
        all.into_iter().filter_map(due).collect()
    }

    /// An agent may start what has this place in its queue.
    /// `resource_type`: of what is deployed; `None`: it is a task.
    pub(super) fn check_agent(
        &self,
        agent: &AgentName,
        key: (Priority, u64),
        resource_type: Option<&SharedText>,
    ) {
        assert!(!self.is_still(agent), "{agent} is paused or away");
        let n_running = self.naive.n_running(agent);
        assert!(n_running > 0 || self.has_room(agent), "{agent} has no room");
        if n_running > 0 {
            // Only what is quick is handed out ahead, and nothing beside a task.
            let pace = self.pace.get(agent).expect("something of it was quick");
            assert!(n_running < pace.n_ahead, "{agent} is busy");
            assert!(pace.quick.is_some() && pace.quick.as_ref() == resource_type);
            let mut tasks = self.naive.running_tasks.values();
            assert!(tasks.all(|of| of != agent), "{agent} is at a task");
        }
        assert_eq!(
            Some(key),
            self.naive.next_of(agent),
            "something of {agent} is more urgent"
        );
    }

    pub(super) fn check_start(&self, run: &Run) {
        let (id, agent) = (&run.intent.resource_id, &run.intent.agent);
        assert_eq!(*run.intent, self.naive.model[id], "the newest intent");
        assert!(!self.naive.is_blocked(id), "{id} is blocked");
        assert!(
            self.held
                .iter()
                .all(|held| held.run.intent.resource_id != *id),
            "{id} runs twice"
        );
        let key = self.naive.queue.get(id).copied();
        let resource_type = Some(&run.intent.resource_type);
        self.check_agent(agent, key.expect("a reason to run it"), resource_type);
        let requires: BTreeSet<&ResourceId> = run.intent.requires.iter().collect();
        let known: BTreeSet<&ResourceId> =
            run.requires.iter().map(|one| &one.resource_id).collect();
        assert_eq!(requires, known);
        for one in &run.requires {
            let index = self.schedule.by_id[&one.resource_id];
            let state = &self.schedule.entry(index).state;
            let has_run = state.deployed_hash.as_deref() == Some(&state.intent_hash);
            assert!(has_run, "{id} starts before {}", one.resource_id);
            assert!(
                !self.naive.is_scheduled(&one.resource_id),
                "{id} starts before {}",
                one.resource_id
            );
            let is_good = state.last_run_compliant == Some(true);
            assert_eq!(
                one.status == ResourceStatus::Deployed,
                is_good,
                "{id} is told of {state:?}"
            );
        }
    }

    /// The rows "run ends" of docs/reference/deployment.md § 3.4.
    pub(super) fn check_end(
        &mut self,
        before: &ResourceState,
        after: &ResourceState,
        ended: Ended,
        is_stale: bool,
    ) {
        assert_eq!(after.last_run, ended.status.last_run());
        assert_eq!(after.last_run_at, Some(ended.finished));
        assert!(!after.is_deploying);
        if is_stale {
            self.seen.note("stale run");
            let of_intent = |state: &ResourceState| {
                let (deployed, compliant) = (state.deployed_hash.clone(), state.last_run_compliant);
                (
                    deployed,
                    compliant,
                    state.last_success,
                    state.last_events,
                    state.n_failures,
                )
            };
            assert_eq!(
                of_intent(before),
                of_intent(after),
                "a result of an older intent"
            );
            return;
        }
        let is_good = ended.status == HandlerStatus::Deployed;
        assert_eq!(after.deployed_hash.as_ref(), Some(&after.intent_hash));
        assert_eq!(after.last_run_compliant, Some(is_good));
        assert_eq!(after.last_events, Some(ended.finished));
        assert_eq!(
            after.last_success,
            if is_good {
                Some(ended.started)
            } else {
                before.last_success
            }
        );
        if after.blocked == Blocked::TemporarilyBlocked {
            self.seen.note("temporarily blocked");
            assert!(!matches!(
                ended.status,
                HandlerStatus::Deployed | HandlerStatus::NonCompliant
            ));
        }
    }

    /// The schedule knows what the naive one does.
    pub(super) fn check(&self) {
        let mut queued = BTreeMap::new();
        let mut running = BTreeMap::new();
        for entry in self.schedule.entries.iter().flatten() {
            let id = entry.intent.resource_id.clone();
            assert_eq!(
                entry.state.blocked == Blocked::Blocked,
                self.naive.is_blocked(&id),
                "{entry:?}"
            );
            match &entry.phase {
                Phase::Idle => {}
                Phase::Queued { priority, .. } => {
                    queued.insert(id, *priority);
                }
                Phase::Running(run) => {
                    let again = run.again.as_ref().map(|(priority, _)| *priority);
                    running.insert(id, (run.priority, again));
                }
            }
        }
        let wanted: BTreeMap<_, _> = self
            .naive
            .queue
            .iter()
            .map(|(id, (priority, _))| (id.clone(), *priority))
            .collect();
        assert_eq!(queued, wanted, "what has to run");
        let wanted: BTreeMap<_, _> = self
            .naive
            .running
            .iter()
            .map(|(id, run)| (id.clone(), (run.priority, run.again)))
            .collect();
        assert_eq!(running, wanted, "what is running");
        self.check_counts();
        self.check_types();
    }

    /// The types of each agent are those of its resources.
    fn check_types(&self) {
        let known: Vec<_> = self.schedule.types().collect();
        let wanted = self.schedule.entries.iter().flatten();
        let wanted = wanted.map(|entry| (&entry.intent.agent, &*entry.intent.resource_type));
        let distinct: BTreeSet<_> = wanted.collect();
        assert_eq!(known.len(), distinct.len());
        assert_eq!(known.into_iter().collect::<BTreeSet<_>>(), distinct);
    }

    /// What is counted along the way is what there is.
    pub(super) fn check_counts(&self) {
        let mut counts = Counts::default();
        for state in self.schedule.states() {
            let at_rest = ResourceState {
                is_deploying: false,
                ..state.clone()
            };
            *match at_rest.status() {
                ResourceStatus::Undefined | ResourceStatus::SkippedForUndefined => {
                    &mut counts.undefined
                }
                ResourceStatus::Deployed => &mut counts.deployed,
                ResourceStatus::Available | ResourceStatus::Skipped => &mut counts.skipped,
                ResourceStatus::NonCompliant => &mut counts.reported,
                _ => &mut counts.failed,
            } += 1;
        }
        assert_eq!(*self.schedule.counts(), counts);
        let mut agents = agents().filter(|agent| !self.is_still(agent));
        let could_start = agents.any(|agent| {
            self.naive.next_of(&agent).is_some_and(|(_, request)| {
                !self.naive.tasks.values().any(|task| task.2 == request)
            })
        });
        assert!(
            !self.schedule.is_idle() || !could_start,
            "something may start"
        );
        let goes_on = |id: &ResourceId| !self.is_still(&self.naive.model[id].agent);
        let waits = self.naive.queue.keys().any(goes_on);
        let is_busy = self.naive.running.len() + self.naive.orphans.len() > 0;
        // What waits for a resource of a paused agent waits as long.
        assert!(!self.schedule.is_idle() || !is_busy);
        assert!(self.schedule.is_idle() || is_busy || waits);
    }

    /// Nothing runs, and nothing may start: each resource has a reason to be as it is.
    pub(super) fn check_rest(&mut self) {
        self.seen.note("rest");
        assert!(self.schedule.is_idle());
        for state in self.schedule.states() {
            let id = &state.resource_id;
            let mut requires = self.naive.model[id].requires.iter();
            if self.naive.is_blocked(id) {
                continue;
            }
            if self.naive.queue.contains_key(id) {
                let is_held_up = self.is_still(&state.agent)
                    || requires.any(|one| self.naive.queue.contains_key(one));
                assert!(is_held_up, "{id} waits for nothing");
                continue;
            }
            assert_ne!(
                state.status(),
                ResourceStatus::Available,
                "{id} did not run"
            );
            let entry = self.schedule.entry(self.schedule.by_id[id]);
            let due = self.due(state);
            let timer = entry.timer.map(|(due, _)| due);
            let earliest = due.iter().map(|(earliest, _, _)| *earliest).min();
            let latest = due.iter().map(|(_, latest, _)| *latest).min();
            assert!(
                earliest <= timer && timer <= latest,
                "{id} is forgotten: {timer:?}, due {due:?}"
            );
            if state.blocked == Blocked::TemporarilyBlocked {
                let is_bad = |one: &ResourceId| {
                    let state = &self.schedule.entry(self.schedule.by_id[one]).state;
                    state.last_run_compliant == Some(false)
                };
                assert!(
                    requires.any(is_bad),
                    "{id} waits for the recovery of nothing"
                );
            }
        }
    }

    /// A transaction has been written: what is stored is what the schedule knows, but for runs that have begun, and for
    /// recoveries, which a restart tries again anyway.
    pub(super) fn check_stored(&self) {
        for (id, state) in self.states() {
            let plain = |state: &ResourceState| ResourceState {
                is_deploying: false,
                blocked: match state.blocked {
                    Blocked::TemporarilyBlocked => Blocked::NotBlocked,
                    other => other,
                },
                ..state.clone()
            };
            assert_eq!(plain(&self.stored.states[&id]), plain(&state));
        }
    }
}
