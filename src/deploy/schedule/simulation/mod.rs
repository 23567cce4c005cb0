//! Random lives of an environment in simulated time, thousands of runs a second.
//!
//! A life is a random series of what can happen: versions are released (all of the model anew, or a few resources
//! changed), taken over one by one or several at once, handlers end as they like, people ask for deploys and repairs,
//! pause agents and halt the environment, agents lose their connections, the clock goes on, and the server is killed and hears
//! of runs that go on. After each step the schedule is
//! compared with `naive`, the same rules written down without a thought for speed, and what must hold is checked:
//!
//! - Nothing starts before what it requires; nothing runs twice at once; an agent is handed one thing at a time, or, after quick
//!   runs, a few of the same type, in their order.
//! - Nothing of an agent that is paused or away starts, nothing that is blocked, and nothing for another intent than the newest.
//! - An agent that has something to run and is free runs it, if there is room, the most urgent first, in the order of the requests. So
//!   nothing starves, and a repair is not lost when a deploy comes in the middle.
//! - A run counts for the intent that it was started for, and for no newer one.
//! - At rest each resource is deployed, failed, skipped or blocked, and the reason is there: a failure of its own, a
//!   dependency that is not good, an undefined ancestor, a paused agent.
//! - What is good is verified within the repair interval, what is not is tried again within the deploy interval.
//! - When all handlers succeed everything that is not undefined is deployed in the end.

mod checks;
mod life;
mod naive;
mod room;
mod runs;
mod seen;

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::Intent;
use crate::domain::{AgentName, ResourceId, Timestamp};
use life::Life;
use seen::Seen;

/// A version: what each resource shall be.
type Model = BTreeMap<ResourceId, Intent>;

/// Resources there may be in a model.
const RESOURCES: usize = 12;
const AGENTS: usize = 4;

/// The id of resource `n`, which has always the same agent.
fn id(n: usize) -> ResourceId {
    ResourceId::new(format!("{}[a{},name=r{n}]", type_of(n), n % AGENTS))
}

/// Each agent has resources of two types.
fn type_of(n: usize) -> &'static str {
    if n < RESOURCES / 2 { "t::R" } else { "t::S" }
}

/// A resource with a random content, which requires some of `before`.
fn random_intent(random: &mut StdRng, n: usize, before: &[ResourceId]) -> Intent {
    let few = random.random_bool(0.5);
    let requires = before
        .iter()
        .filter(|_| random.random_bool(if few { 0.15 } else { 0.4 }));
    let requires: Vec<ResourceId> = requires.cloned().collect();
    let (send_event, receive_events) = (random.random_bool(0.4), random.random_bool(0.8));
    let is_undefined = random.random_bool(0.1);
    let content = random.random_range(0..3);
    Intent {
        resource_id: id(n),
        resource_type: type_of(n).into(),
        agent: AgentName::new(format!("a{}", n % AGENTS)),
        id_value: format!("r{n}").into(),
        attributes: "{}".into(),
        attribute_hash: format!("{content} {send_event} {receive_events} {is_undefined}").into(),
        requires: requires.into(),
        is_undefined,
        send_event,
        receive_events,
        created: Timestamp(0),
    }
}

/// A model that has nothing to do with another one. Which resource requires which follows a random order.
fn random_model(random: &mut StdRng) -> Model {
    let mut order: Vec<usize> = (0..RESOURCES).filter(|_| random.random_bool(0.7)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, random.random_range(0..=last));
    }
    let mut ids = Vec::new();
    let mut model = Model::new();
    for n in order {
        let intent = random_intent(random, n, &ids);
        ids.push(intent.resource_id.clone());
        model.insert(intent.resource_id.clone(), intent);
    }
    model
}

/// A model in which one resource is another, came or left.
fn changed_model(random: &mut StdRng, model: &Model) -> Model {
    let mut model = model.clone();
    let n = random.random_range(0..RESOURCES);
    let id = id(n);
    let is_left = random.random_bool(0.3);
    let Some(before) = model.remove(&id) else {
        // A new one requires any of those that are there.
        let ids: Vec<ResourceId> = model.keys().cloned().collect();
        model.insert(id, random_intent(random, n, &ids));
        return model;
    };
    if is_left {
        for intent in model.values_mut() {
            let left = intent.requires.iter().filter(|one| **one != id);
            intent.requires = left.cloned().collect();
        }
        return model;
    }
    let mut intent = random_intent(random, n, &before.requires);
    if random.random_bool(0.5) {
        intent.requires = before.requires;
    }
    model.insert(id, intent);
    model
}

/// How many lives a test run has; `STEWARD_SIMULATIONS` asks for others.
fn n_lives() -> u64 {
    let asked = std::env::var("STEWARD_SIMULATIONS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(1000)
}

//: deploy 64, 65
#[test]
fn random_lives_of_environments_keep_what_the_scheduler_promises() {
    let mut seen = Seen::default();
    let began = std::time::Instant::now();
    for seed in 0..n_lives() {
        // Shown when it fails.
        println!("seed {seed}");
        let mut life = Life::new(StdRng::seed_from_u64(seed));
        life.live(80);
        life.heal();
        seen.add(&life.seen);
    }
    println!("{seen:?} in {:?}", began.elapsed());
    // A simulation in which nothing happens could not fail.
    seen.assert_all_happened();
}
