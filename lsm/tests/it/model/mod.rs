//! Random orders of events against a simple model of the specification.
//!
//! Each round takes a lifecycle, random or ready-made, and one instance. At each step something happens to it: clients with the
//! version of now or an older one, compiles and deployments that end in any order and more than once, writes of compiles,
//! switches, experts, and crashes, before or after a decision is stored. After each step the record must be what the reference
//! has, with one record of the log for each version.
//!
//! `STEWARD_MODEL_STEPS` and `STEWARD_MODEL_SEED` say how many steps and which ones; a failure names its seed.

pub mod lifecycles;
mod orders;
mod reference;

use std::cell::Cell;
use std::rc::Rc;

use serde_json::{Value, json};
use steward_lsm::definition::SetName;
use steward_lsm::lifecycle::{
    Change, Decision, EditOperation, Effect, NewInstance, Next, Refusal, Request, Settings,
    Trigger, Validation, auto_states, create, decide, result_states,
};
use steward_lsm::{Attributes, Instance, Moment, ServiceEntity, attributes};

use self::lifecycles::Random;
use self::reference::{Pending, Reference, Snapshot};
use crate::support::{edit, entity, fixture, id, object, set_state, update};

/// Steps of one round; then another lifecycle follows.
const STEPS_A_ROUND: usize = 200;
/// How many steps a test takes where nobody says it.
const STEPS: usize = 120_000;
/// Validations that are remembered, so that their results can come late and again.
const REMEMBERED: usize = 6;

/// A server with one instance.
struct Server {
    entity: ServiceEntity,
    settings: Settings,
    instance: Instance,
    log: Vec<Instance>,
    /// Validations, as they were asked for.
    validations: Vec<Validation>,
    n_requests: u128,
    /// It died where a known result did not count, and starts where it does: see [`Reference::is_started_anew`].
    is_started_anew: Rc<Cell<bool>>,
    /// What happened, for the message of a failure.
    story: Vec<String>,
}

impl Server {
    fn decide(
        &mut self,
        current_version: Option<u64>,
        trigger: Trigger,
    ) -> Result<Decision, Refusal> {
        self.n_requests += 1;
        let correlation_id = id(self.n_requests);
        let request = Request {
            trigger,
            current_version,
            correlation_id,
        };
        let now = Moment(i64::try_from(self.n_requests).unwrap());
        decide(&self.entity, &self.instance, &request, &self.settings, now)
    }

    /// Stores a decision. What is to be done after the commit comes back.
    fn store(&mut self, decision: Decision) -> Vec<Trigger> {
        if let Some(after) = decision.instance {
            let is_next = after.version == self.instance.version + 1;
            assert_eq!(is_next, decision.effect == Effect::NewVersion);
            assert!(is_next || after.version == self.instance.version);
            if is_next {
                self.log.push(after.clone());
            }
            self.instance = after;
        } else {
            assert_eq!(decision.effect, Effect::Unchanged);
        }
        let mut after_commit = Vec::new();
        for next in decision.next {
            match next {
                Next::Compile { .. } => {}
                Next::FireAuto { known_result } => {
                    after_commit.push(Trigger::Auto { known_result })
                }
                Next::Validate(validation) => {
                    let mut known = self.validations.iter();
                    // One with this id is queued already for this transfer.
                    let id = |of: &Validation| (of.correlation_id, of.edge.clone());
                    if known.all(|one| id(one) != id(&validation)) {
                        self.validations.push(validation);
                    }
                }
            }
        }
        after_commit
    }

    /// What a server that starts does with the instance: it looks at those alone that may have something to do.
    fn found_at_start(&self) -> Option<Trigger> {
        let (lifecycle, state) = (&self.entity.lifecycle, self.instance.state.as_str());
        let known = self.instance.known_result;
        let is_found = auto_states(lifecycle).contains(&state)
            || known.is_some_and(|known| result_states(lifecycle, known).contains(&state));
        is_found.then_some(Trigger::Auto { known_result: true })
    }

    /// Does something and all that comes of it. Sometimes the server dies after a commit; then it starts again, and looks at
    /// its instances.
    fn handle(
        &mut self,
        trigger: Trigger,
        current_version: Option<u64>,
        random: &mut Random,
    ) -> Result<(), Refusal> {
        self.is_started_anew.set(false);
        let decision = self.decide(current_version, trigger)?;
        let mut waiting = self.store(decision);
        // A circle of automatic transfers would never end.
        for _ in 0..100 {
            if random.percent(3) && !waiting.is_empty() {
                self.story.push("crash after a commit".to_owned());
                if !matches!(waiting[..], [Trigger::Auto { known_result: true }]) {
                    self.is_started_anew.set(true);
                }
                waiting = self.found_at_start().into_iter().collect();
            }
            let Some(trigger) = waiting.pop() else {
                return Ok(());
            };
            let decision = self
                .decide(None, trigger)
                .expect("nobody is refused what comes by itself");
            waiting.extend(self.store(decision));
        }
        panic!("automatic transfers never end:\n{}", self.story.join("\n"));
    }
}

fn value(set: Option<&Attributes>) -> Option<u64> {
    set.map(|set| set["mbps"].as_u64().unwrap())
}

fn snapshot(instance: &Instance) -> Snapshot {
    Snapshot {
        state: instance.state.clone(),
        version: instance.version,
        desired: instance.desired_state_version,
        candidate: value(instance.set(SetName::Candidate)),
        active: value(instance.set(SetName::Active)),
        rollback: value(instance.set(SetName::Rollback)),
    }
}

fn service(lifecycle: &Value) -> ServiceEntity {
    entity(&json!({
        "name": "s", "lifecycle": lifecycle, "strict_modifier_enforcement": true,
        "attributes": [{"name": "mbps", "type": "int", "modifier": "rw+"}, {"name": "vlan", "type": "int?", "modifier": "r"}],
    }))
}

/// Both sides of a round.
struct Round {
    server: Server,
    reference: Reference,
    /// What the reference asked for, beside what the server asked for.
    pending: Vec<(Validation, Pending)>,
}

impl Round {
    fn new(lifecycle: &Value, is_optimized: bool, random: &mut Random) -> Self {
        let entity = service(lifecycle);
        let settings = Settings {
            transfer_optimization: is_optimized,
            expert_mode: true,
            environment_name: "e".to_owned(),
        };
        let attributes = attributes::create(&entity, object(json!({"mbps": 1}))).unwrap();
        let new = NewInstance {
            id: id(1),
            environment: id(2),
            attributes,
            initial_state: None,
            config: [].into(),
            correlation_id: id(3),
        };
        let decision = create(&entity, new, Moment(0)).unwrap();
        let instance = decision.instance.clone().unwrap();
        let log = vec![instance.clone()];
        let (validations, story) = (Vec::new(), Vec::new());
        let mut server = Server {
            entity,
            settings,
            instance,
            log,
            validations,
            n_requests: 10,
            is_started_anew: Rc::default(),
            story,
        };
        server
            .handle(
                Trigger::Auto {
                    known_result: false,
                },
                None,
                random,
            )
            .unwrap();
        let mut reference = Reference::new(lifecycle, 1);
        server.is_started_anew.set(false);
        reference.is_started_anew = Rc::clone(&server.is_started_anew);
        let mut round = Self {
            server,
            reference,
            pending: Vec::new(),
        };
        round.compare();
        round
    }

    /// One thing happens on both sides.
    fn step(&mut self, random: &mut Random) {
        let version = self.server.instance.version;
        // Some clients have read the instance before somebody else changed it.
        let is_stale = version > 1 && random.percent(15);
        let seen = if is_stale {
            1 + random.below(version as usize - 1) as u64
        } else {
            version
        };
        let dies = random.percent(5);
        match random.below(100) {
            0..20 => {
                let value = random.next() % 1000;
                let trigger = update("mbps", json!(value));
                self.client(trigger, seen, dies, random, |reference| {
                    reference.update(value)
                });
            }
            20..26 => self.client(Trigger::Deleted, seen, dies, random, Reference::delete),
            26..42 => {
                let states = &self.server.entity.lifecycle.states;
                let target = states[random.below(states.len())].name.clone();
                self.client(set_state(&target), seen, dies, random, |reference| {
                    reference.set_state(&target)
                });
            }
            42..66 => self.validation_ends(dies, random),
            66..86 => self.deployment_ends(dies, random),
            86..91 => self.compile_writes(seen, random),
            91..95 => self.switched(random),
            95..97 => self.wrong_value(seen, random),
            _ => self.expert(random),
        }
        self.compare();
    }

    /// A client's call. `expected` is what the reference says to it, if nobody was faster.
    fn client(
        &mut self,
        trigger: Trigger,
        seen: u64,
        dies: bool,
        random: &mut Random,
        expected: impl FnOnce(&mut Reference) -> bool,
    ) {
        self.server
            .story
            .push(format!("{trigger:?} by one who saw {seen}"));
        if dies {
            // The server dies before it stores anything: the client has no answer, and nothing happened.
            let _ = self.server.decide(Some(seen), trigger);
            return;
        }
        let is_stale = seen != self.server.instance.version;
        let before = self.server.instance.clone();
        let answer = self.server.handle(trigger, Some(seen), random);
        match answer {
            Err(refusal) if is_stale => assert_eq!(refusal.status, 409),
            Err(refusal) => {
                assert!([400, 404, 409].contains(&refusal.status));
                assert!(
                    !expected(&mut self.reference),
                    "refused: {}",
                    refusal.message
                );
            }
            Ok(()) => {
                assert!(!is_stale, "somebody else was faster");
                assert!(expected(&mut self.reference), "not refused");
                return;
            }
        }
        assert_eq!(self.server.instance, before, "a refusal changes nothing");
    }

    /// Any validation of the last ones, also one that has ended before.
    fn validation_ends(&mut self, dies: bool, random: &mut Random) {
        if self.pending.is_empty() {
            return;
        }
        let at = self.pending.len() - 1 - random.below(self.pending.len().min(REMEMBERED));
        let (validation, pending) = self.pending[at].clone();
        let succeeded = random.percent(60);
        self.server
            .story
            .push(format!("{pending:?} ends: {succeeded}"));
        let trigger = Trigger::Validated {
            edge: validation.edge,
            cause: validation.cause,
            version: validation.version,
            succeeded,
            compile: id(9),
        };
        if dies {
            let _ = self.server.decide(None, trigger);
            return;
        }
        self.server.handle(trigger, None, random).unwrap();
        self.reference.validated(&pending, succeeded);
    }

    fn deployment_ends(&mut self, dies: bool, random: &mut Random) {
        let desired = self.server.instance.desired_state_version;
        let next_version = if random.percent(75) {
            desired
        } else {
            desired.saturating_sub(1)
        };
        let succeeded = random.percent(60);
        self.server
            .story
            .push(format!("deployment of {next_version} ends: {succeeded}"));
        let trigger = Trigger::Reported {
            next_version,
            succeeded,
        };
        if dies {
            let _ = self.server.decide(None, trigger);
            return;
        }
        self.server.handle(trigger, None, random).unwrap();
        self.reference.reported(next_version, succeeded);
    }

    /// Allocation: the candidate gets a value, and nothing of the lifecycle changes but that there is a candidate.
    fn compile_writes(&mut self, seen: u64, random: &mut Random) {
        let edits = vec![edit(
            EditOperation::Replace,
            "vlan",
            json!(random.below(100)),
        )];
        self.server
            .story
            .push(format!("allocation by one who saw {seen}"));
        let before = self.server.instance.clone();
        let trigger = Trigger::Wrote {
            set: SetName::Candidate,
            edits,
        };
        match self.server.handle(trigger, Some(seen), random) {
            Ok(()) => {
                assert_eq!(seen, before.version);
                let now = &mut self.reference.now;
                now.candidate = now.candidate.or(now.active);
            }
            Err(refusal) => {
                assert_eq!(
                    refusal.status,
                    if seen == before.version { 400 } else { 409 }
                );
                assert_eq!(self.server.instance, before);
            }
        }
    }

    fn switched(&mut self, random: &mut Random) {
        let name = *random.pick(&["c0", "c1", "auto_designed", "auto_creating"]);
        let is_on = random.percent(60);
        let trigger = Trigger::Configured {
            values: [(name.to_owned(), is_on)].into(),
        };
        self.server.story.push(format!("switch {name}: {is_on}"));
        let version = self.server.instance.version;
        if self.server.handle(trigger, Some(version), random).is_ok() {
            self.reference.switch(name, is_on);
        }
    }

    fn wrong_value(&mut self, seen: u64, random: &mut Random) {
        self.server.story.push("a wrong value".to_owned());
        let edits = vec![edit(EditOperation::Replace, "mbps", json!("fast"))];
        let trigger = Trigger::Updated {
            change: Change::Edits(edits),
            comment: None,
        };
        let before = self.server.instance.clone();
        let refusal = self.server.handle(trigger, Some(seen), random).unwrap_err();
        assert!([400, 404, 409].contains(&refusal.status));
        assert_eq!(self.server.instance, before);
    }

    /// What has ended stays ended, unless an expert says otherwise; here none does.
    fn expert(&mut self, random: &mut Random) {
        if self.reference.has_ended() {
            return;
        }
        if random.percent(50) {
            let states = &self.server.entity.lifecycle.states;
            let target = states[random.below(states.len())].name.clone();
            self.server.story.push(format!("force {target}"));
            let trigger = Trigger::ForceState {
                target: target.clone(),
                operation: None,
                message: String::new(),
            };
            self.server.handle(trigger, None, random).unwrap();
            self.reference.force_state(&target);
        } else {
            let value = random.next() % 1000;
            self.server.story.push(format!("force candidate {value}"));
            let edits = vec![edit(EditOperation::Replace, "mbps", json!(value))];
            let trigger = Trigger::ForceAttributes {
                set: SetName::Candidate,
                edits,
                comment: None,
            };
            self.server.handle(trigger, None, random).unwrap();
            self.reference.force_candidate(value);
        }
    }

    /// Both sides are the same, and no rule is broken.
    #[track_caller]
    fn compare(&mut self) {
        let server = &mut self.server;
        let story = || server.story.join("\n");
        assert_eq!(
            snapshot(&server.instance),
            self.reference.now,
            "{}",
            story()
        );
        assert_eq!(
            server.instance.deleted,
            self.reference.has_ended(),
            "{}",
            story()
        );
        assert_eq!(
            server.log.last().map(|last| (last.version, &last.state)),
            Some((server.instance.version, &server.instance.state))
        );
        let versions: Vec<u64> = server.log.iter().map(|record| record.version).collect();
        let last = versions.len() as u64;
        assert!(
            versions.iter().copied().eq(1..=last),
            "versions {versions:?}\n{}",
            story()
        );
        // The same validations were asked for. One that is asked for again by itself is the same.
        let asked = std::mem::take(&mut self.reference.asked);
        let mut new = std::mem::take(&mut server.validations);
        for pending in asked {
            let transfer = &server.entity.lifecycle.transfers[pending.transfer];
            let is_it = |one: &Validation| {
                one.version == pending.version
                    && one.edge.source == transfer.source
                    && one.edge.target == transfer.target
            };
            let found = new.iter().position(is_it);
            let again = self.pending.iter().any(|(known, _)| is_it(known));
            match found {
                Some(at) => self.pending.push((new.remove(at), pending)),
                None => assert!(again, "{pending:?} was not asked for\n{}", story()),
            }
        }
        new.retain(|one| {
            self.pending
                .iter()
                .all(|(known, _)| known.correlation_id != one.correlation_id)
        });
        assert!(new.is_empty(), "nobody expected {new:?}\n{}", story());
    }
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Plays rounds, each of its own seed, with the ready-made lifecycles, until there are enough steps. A round gives how many it
/// took, and figures of which the sums are returned.
fn rounds<const N: usize>(
    n_steps: usize,
    play: fn(u64, &[&Value]) -> (usize, [usize; N]),
) -> (usize, [usize; N]) {
    let n_steps = number("STEWARD_MODEL_STEPS").unwrap_or(n_steps);
    let first_seed = number("STEWARD_MODEL_SEED").unwrap_or(1) as u64;
    let ready_made = object(fixture("lifecycles.json"));
    let ready_made: Vec<&Value> = ready_made.values().collect();
    let (mut n_done, mut sums) = (0, [0; N]);
    for seed in first_seed.. {
        if n_done >= n_steps {
            break;
        }
        let played = std::panic::catch_unwind(|| play(seed, &ready_made));
        let (n_steps, figures) = played.unwrap_or_else(|_| panic!("STEWARD_MODEL_SEED={seed}"));
        n_done += n_steps;
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    (n_done, sums)
}

//: lsm 49, 50, 51
#[test]
fn instances_do_what_the_specification_says_whatever_happens_in_whatever_order() {
    let (n_done, [n_ended, n_versions]) = rounds(STEPS, play);
    println!("{n_done} steps, {n_versions} versions, {n_ended} instances ended");
    assert!(n_versions > n_done / 10, "too little happens");
}

fn play(seed: u64, ready_made: &[&Value]) -> (usize, [usize; 2]) {
    let mut random = Random(seed);
    let lifecycle = match random.below(2) {
        0 => (*random.pick(ready_made)).clone(),
        _ => lifecycles::lifecycle(&mut random),
    };
    let is_optimized = random.percent(50);
    let mut round = Round::new(&lifecycle, is_optimized, &mut random);
    let mut n_versions = 0;
    let mut has_ended = false;
    for _ in 0..STEPS_A_ROUND {
        round.step(&mut random);
        if round.reference.has_ended() && random.percent(20) {
            // What has ended has shown for some steps that it stays so.
            has_ended = true;
            n_versions += round.server.log.len();
            round = Round::new(&lifecycle, is_optimized, &mut random);
        }
    }
    let n_versions = n_versions + round.server.log.len();
    (STEPS_A_ROUND, [usize::from(has_ended), n_versions])
}
