//! One random life of an environment: what happens, to the schedule and to the naive one, and what is stored of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rand::{Rng, rngs::StdRng};

use super::super::entry::Phase;
use super::super::{Priority, RetryPolicy, Run, Schedule, Selection};
use super::naive::Naive;
use super::room::Rooms;
use super::seen::Seen;
use super::{AGENTS, Intent, Model, changed_model, random_model};
use crate::domain::{
    ActionId, AgentName, Blocked, LastRun, ResourceId, ResourceStatus, SharedText, Timestamp,
    VersionNumber,
};
use crate::store::ResourceState;

const SECOND: i64 = 1_000_000;

pub(super) struct Held {
    pub(super) run: Run,
    pub(super) started: Timestamp,
}

/// What is to be written with the next transaction.
pub(super) enum Write {
    Start(ActionId, ResourceId, Timestamp),
    End(ActionId, ResourceId, Option<Box<ResourceState>>),
}

/// What is known of how fast the runs of an agent are.
pub(super) struct Pace {
    pub(super) last_end: Timestamp,
    /// The type of resources whose last run was quick.
    pub(super) quick: Option<SharedText>,
    /// How many runs may be in progress at once.
    pub(super) n_ahead: usize,
}

/// What a kill leaves.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) version: VersionNumber,
    pub(super) model: Model,
    pub(super) states: BTreeMap<ResourceId, ResourceState>,
    pub(super) open: BTreeMap<ActionId, (ResourceId, Timestamp)>,
}

pub(super) struct Life {
    pub(super) random: StdRng,
    pub(super) now: Timestamp,
    pub(super) schedule: Schedule,
    pub(super) naive: Naive,
    pub(super) stored: Stored,
    /// The models of all versions.
    pub(super) history: Vec<Model>,
    /// Released and not taken over.
    pub(super) released: Vec<(VersionNumber, Model)>,
    pub(super) held: Vec<Held>,
    pub(super) unwritten: Vec<Write>,
    pub(super) paused: BTreeSet<AgentName>,
    /// On machines that are not connected.
    pub(super) away: BTreeSet<AgentName>,
    /// Whether runs are measured, as those on the machine of the server are: after quick ones an agent is handed several.
    pub(super) is_measured: bool,
    pub(super) pace: BTreeMap<AgentName, Pace>,
    pub(super) rooms: Rooms,
    pub(super) halted: bool,
    pub(super) healed: bool,
    pub(super) seen: Seen,
}

pub(super) fn agents() -> impl Iterator<Item = AgentName> {
    (0..AGENTS).map(|n| AgentName::new(format!("a{n}")))
}

pub(super) fn ran_badly(state: &ResourceState) -> bool {
    matches!(
        state.last_run,
        LastRun::New | LastRun::Failed | LastRun::Skipped
    )
}

/// Not as it shall be, as far as its own state says: what a user deploy runs.
pub(super) fn is_dirty(state: &ResourceState) -> bool {
    let has_update = state.deployed_hash.as_deref() != Some(&state.intent_hash);
    state.blocked == Blocked::NotBlocked && (has_update || ran_badly(state))
}

/// Whether something that a resource requires ran after its last success, and sends events of that. What has no state is new.
pub(super) fn has_missed_event(
    intent: &Intent,
    state: &ResourceState,
    model: &Model,
    states: &BTreeMap<ResourceId, ResourceState>,
) -> bool {
    let is_missed = |one: &ResourceId| {
        let events = states.get(one).and_then(|state| state.last_events);
        let is_after = |at| state.last_success.is_none_or(|success| at > success);
        model[one].send_event && events.is_some_and(is_after)
    };
    intent.receive_events && intent.requires.iter().any(is_missed)
}

impl Life {
    pub(super) fn new(mut random: StdRng) -> Self {
        let mut life = Self {
            is_measured: random.random_bool(0.5),
            random,
            now: Timestamp(SECOND),
            schedule: Schedule::default(),
            naive: Naive::default(),
            stored: Stored::default(),
            history: Vec::new(),
            released: Vec::new(),
            held: Vec::new(),
            unwritten: Vec::new(),
            paused: BTreeSet::new(),
            away: BTreeSet::new(),
            pace: BTreeMap::new(),
            rooms: Rooms::default(),
            halted: false,
            healed: false,
            seen: Seen::default(),
        };
        life.set_policy();
        life
    }

    pub(super) fn live(&mut self, n_steps: usize) {
        for _ in 0..n_steps {
            self.now = Timestamp(self.now.0 + 1);
            match self.random.random_range(0..100) {
                0..20 => self.release(),
                20..40 => self.refresh(),
                40..50 => self.request(),
                50..55 => self.add_task(),
                55..65 => self.pause(),
                65..70 => self.halted = !self.halted && self.random.random_bool(0.4),
                70..72 => self.set_policy(),
                72 => self.change_room(),
                73..90 => {
                    let seconds = [1, 30, 100, 700, 4000][self.random.random_range(0..5)];
                    self.pass(seconds);
                }
                90..96 => self.write(),
                _ => self.kill(),
            }
            self.check();
            let n_turns = [0, 0, 1, 2, 4][self.random.random_range(0..5)];
            for _ in 0..n_turns {
                self.start();
                self.end_some();
            }
        }
    }

    /// From here on all goes well: everything that is not undefined is deployed soon.
    pub(super) fn heal(&mut self) {
        (self.halted, self.healed) = (false, true);
        self.refresh();
        for agent in std::mem::take(&mut self.paused) {
            self.schedule.pause(&agent, false);
        }
        for agent in std::mem::take(&mut self.away) {
            self.schedule.set_away(&agent, false);
        }
        let policy = RetryPolicy {
            deploy: Some(Duration::from_secs(60)),
            repair: Some(Duration::from_secs(600)),
            ..RetryPolicy::default()
        };
        self.schedule.set_policy(policy, self.now);
        // The first repair may find what was not compliant, the next ones free what waited for that.
        for _ in 0..6 {
            for _ in 0..1000 {
                self.start();
                if self.held.is_empty() && self.naive.running_tasks.is_empty() {
                    break;
                }
                self.end_some();
            }
            assert!(self.schedule.is_idle(), "it never comes to rest");
            self.pass(700);
        }
        for state in self.schedule.states() {
            let wanted = match self.naive.is_blocked(&state.resource_id) {
                true if state.is_undefined => ResourceStatus::Undefined,
                true => ResourceStatus::SkippedForUndefined,
                false => ResourceStatus::Deployed,
            };
            // It may have become due with the last step.
            let wanted = if state.is_deploying {
                ResourceStatus::Deploying
            } else {
                wanted
            };
            assert_eq!(state.status(), wanted, "{state:?}");
        }
    }

    fn set_policy(&mut self) {
        let seconds = |random: &mut StdRng, all: [u64; 3]| {
            let seconds = all[random.random_range(0..all.len())];
            (seconds > 0).then(|| Duration::from_secs(seconds))
        };
        let policy = RetryPolicy {
            deploy: seconds(&mut self.random, [0, 60, 3600]),
            repair: seconds(&mut self.random, [0, 600, 3600]),
            backoff: seconds(&mut self.random, [0, 0, 5]).unwrap_or_default(),
            spread_percent: [0, 10][self.random.random_range(0..2)],
        };
        self.schedule.set_policy(policy, self.now);
    }

    fn release(&mut self) {
        let newest = self
            .released
            .last()
            .map_or(&self.stored.model, |(_, model)| model)
            .clone();
        let n_before = self.history.len();
        let model = match self.random.random_range(0..10) {
            // Somebody reverts a commit.
            0..3 if n_before > 1 => self.history[self
                .random
                .random_range(n_before.saturating_sub(4)..n_before)]
            .clone(),
            3..9 if !newest.is_empty() => changed_model(&mut self.random, &newest),
            _ => random_model(&mut self.random),
        };
        self.history.push(model.clone());
        let before = self
            .released
            .last()
            .map_or(self.stored.version, |(version, _)| *version);
        self.released
            .push((VersionNumber::new(before.get() + 1), model));
    }

    /// Takes over the newest released version, and writes it at once.
    fn refresh(&mut self) {
        let Some((version, model)) = self.released.last().cloned() else {
            return;
        };
        if self.halted {
            return;
        }
        self.write();
        self.seen.note(if self.released.len() > 1 {
            "burst"
        } else {
            "version"
        });
        let before = std::mem::take(&mut self.stored.model);
        // What some version in between does not have is new afterwards.
        let is_gone = |id: &ResourceId| {
            self.released
                .iter()
                .any(|(_, model)| !model.contains_key(id))
        };
        let removed: Vec<ResourceId> = before.keys().filter(|id| is_gone(id)).cloned().collect();
        let is_changed = |id: &ResourceId| is_gone(id) || before.get(id) != model.get(id);
        let changed = model
            .values()
            .filter(|intent| is_changed(&intent.resource_id))
            .cloned();
        let changed = changed.collect();
        self.released.clear();
        let mut states = self.states();
        states.retain(|id, _| !removed.contains(id));
        let was_blocked: BTreeSet<ResourceId> = before
            .keys()
            .filter(|id| self.naive.is_blocked(id))
            .cloned()
            .collect();
        let activation = self.schedule.apply(version, changed, &removed, self.now);
        let fresh = self.naive.apply(model.clone(), &removed);
        for (id, intent) in &model {
            let Some(state) = states.get(id) else {
                continue;
            };
            if fresh.contains(id) || self.naive.is_blocked(id) {
                continue;
            }
            // It waited for the recovery of something that it does not require any more.
            let is_bad = |one: &ResourceId| {
                let state = states.get(one);
                state.is_some_and(|state| state.last_run_compliant == Some(false))
            };
            let freed =
                state.blocked == Blocked::TemporarilyBlocked && !intent.requires.iter().any(is_bad);
            let has_update = state.deployed_hash.as_deref() != Some(&intent.attribute_hash);
            let missed = has_missed_event(intent, state, &model, &states);
            let known = was_blocked.contains(id) && (has_update || ran_badly(state) || missed);
            if missed && known && !(freed || has_update || ran_badly(state)) {
                self.seen.note("freed with an event");
            }
            if freed || known {
                self.seen.note("freed by a version");
                self.naive.want(id, Priority::NewVersion, false);
            }
        }
        for state in activation.changed {
            self.stored.states.insert(state.resource_id.clone(), state);
        }
        for id in &activation.removed {
            if !model.contains_key(id)
                && let Some(state) = self.stored.states.get_mut(id)
            {
                state.orphaned_after = Some(version.previous());
            }
        }
        (self.stored.version, self.stored.model) = (version, model);
        for state in self
            .states()
            .into_values()
            .filter(|state| fresh.contains(&state.resource_id))
        {
            assert_eq!(state.n_failures, 0, "failures of another intent: {state:?}");
        }
        self.check_stored();
    }

    pub(super) fn states(&self) -> BTreeMap<ResourceId, ResourceState> {
        let states = self.schedule.states();
        states
            .map(|state| (state.resource_id.clone(), state.clone()))
            .collect()
    }

    fn request(&mut self) {
        self.seen.note("request");
        let (which, priority) = [
            (Selection::Dirty, Priority::UserDeploy),
            (Selection::All, Priority::UserRepair),
            (Selection::Dirty, Priority::IntervalDeploy),
            (Selection::All, Priority::IntervalRepair),
        ][self.random.random_range(0..4)];
        let some: BTreeSet<AgentName> = agents().filter(|_| self.random.random_bool(0.6)).collect();
        let some = self.random.random_bool(0.5).then_some(some);
        let touched = self.schedule.request(which, priority, "r", some.as_ref());
        self.naive.request += 1;
        let mut wanted = BTreeSet::new();
        for (id, state) in self.states() {
            let is_meant = some.as_ref().is_none_or(|some| some.contains(&state.agent));
            let is_wanted = match which {
                Selection::Dirty => is_dirty(&state),
                Selection::All => !self.naive.is_blocked(&id),
            };
            // A repair of all is about agents of which nothing can run, too.
            if is_meant && (is_wanted || which == Selection::All) {
                wanted.insert(state.agent);
            }
            if is_meant && is_wanted {
                self.naive.want(&id, priority, false);
            }
        }
        assert_eq!(touched, wanted);
    }

    /// Somebody wants a dry run, or a fact.
    fn add_task(&mut self) {
        let agent = agents().nth(self.random.random_range(0..AGENTS)).unwrap();
        let priority = [Priority::DryRun, Priority::CollectFacts][self.random.random_range(0..2)];
        let action = ActionId::generate();
        self.schedule.add_task(action, &agent, priority);
        self.naive.request += 1;
        let request = self.naive.request;
        self.naive.tasks.insert(action, (agent, priority, request));
    }

    /// Nothing of an agent starts.
    pub(super) fn is_still(&self, agent: &AgentName) -> bool {
        self.paused.contains(agent) || self.away.contains(agent)
    }

    /// Somebody pauses an agent or lets it go on, or it loses its connection or has it again.
    fn pause(&mut self) {
        let agent = agents().nth(self.random.random_range(0..AGENTS)).unwrap();
        if self.random.random_bool(0.4) {
            self.seen.note("away");
            let is_away = !self.away.remove(&agent);
            if is_away {
                self.away.insert(agent.clone());
            }
            return self.schedule.set_away(&agent, is_away);
        }
        let paused = !self.paused.remove(&agent);
        if paused {
            self.paused.insert(agent.clone());
        }
        self.schedule.pause(&agent, paused);
    }

    /// Time goes on; what is due is scheduled, unless the environment is halted.
    fn pass(&mut self, seconds: i64) {
        self.now = Timestamp(self.now.0 + seconds * SECOND);
        if self.halted {
            return;
        }
        let idle: Vec<ResourceState> = self
            .states()
            .into_values()
            .filter(|state| self.is_idle(state))
            .collect();
        self.schedule.tick(self.now);
        self.naive.request += 1;
        for state in idle {
            let due = self.due(&state);
            let id = state.resource_id;
            let index = self.schedule.by_id[&id];
            let Phase::Queued { priority, .. } = &self.schedule.entry(index).phase else {
                let late = due.iter().find(|(_, latest, _)| *latest <= self.now);
                assert!(
                    late.is_none(),
                    "{id} is overdue since {late:?}, it is {:?}",
                    self.now
                );
                continue;
            };
            let mut why = due
                .iter()
                .filter(|(earliest, _, why)| why == priority && *earliest <= self.now);
            assert!(
                why.next().is_some(),
                "{id} is not due: {due:?}, it is {:?}",
                self.now
            );
            self.seen.note(if *priority == Priority::IntervalRepair {
                "repair"
            } else {
                "retry"
            });
            let priority = *priority;
            self.naive.want(&id, priority, false);
        }
    }
}
