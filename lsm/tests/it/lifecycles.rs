//! The ready-made lifecycles, each driven over every way of every transfer: the state, the sets and the counters afterwards are
//! what the transfer says, and nothing else happens. Source: docs/reference/lsm.md § 2.9, § 3.4, § 3.5.

use std::collections::{BTreeMap, VecDeque};

use serde_json::json;
use steward_lsm::definition::{Lifecycle, Operation, Transfer};
use steward_lsm::lifecycle::{Trigger, switches};
use steward_lsm::{Attributes, Instance};

use crate::support::{World, fixture, object, uplink};

/// A transfer, and whether it is followed to its error state.
type Step<'l> = (&'l Transfer, bool);

fn end<'l>((transfer, is_error): Step<'l>) -> Option<&'l str> {
    if is_error {
        transfer.error.as_deref()
    } else {
        Some(&transfer.target)
    }
}

fn operation((transfer, is_error): Step<'_>) -> Option<Operation> {
    if is_error {
        transfer.error_operation
    } else {
        transfer.target_operation
    }
}

/// Whether both ways of a transfer can be followed: something decides between them.
fn is_decided(transfer: &Transfer) -> bool {
    transfer.validate || transfer.resource_based
}

fn steps(lifecycle: &Lifecycle) -> Vec<Step<'_>> {
    let ways = |transfer| {
        let error = is_decided(transfer).then_some((transfer, true));
        std::iter::once((transfer, false)).chain(error)
    };
    lifecycle.transfers.iter().flat_map(ways).collect()
}

/// The shortest way to every state that can be reached with all switches off, but for those that a step turns on.
fn ways(lifecycle: &Lifecycle) -> BTreeMap<&str, Vec<Step<'_>>> {
    let start = lifecycle.initial_state.as_str();
    let mut found: BTreeMap<&str, Vec<Step<'_>>> = BTreeMap::from([(start, Vec::new())]);
    let mut queue = VecDeque::from([start]);
    while let Some(state) = queue.pop_front() {
        let way = found[state].clone();
        for step in steps(lifecycle) {
            let Some(next) = end(step).filter(|_| step.0.source == state) else {
                continue;
            };
            if !found.contains_key(next) {
                found.insert(next, way.iter().copied().chain([step]).collect());
                queue.push_back(next);
            }
        }
    }
    found
}

fn switch(name: &str, is_on: bool) -> Trigger {
    let values = BTreeMap::from([(name.to_owned(), is_on)]);
    Trigger::Configured { values }
}

/// The sets after an operation, as § 3.4 writes them.
fn operated(
    operation: Option<Operation>,
    sets: [Option<Attributes>; 3],
) -> [Option<Attributes>; 3] {
    let [c, a, r] = sets;
    match operation {
        None => [c, a, r],
        Some(Operation::Promote) => [None, c, a],
        Some(Operation::Rollback) => [a, r, None],
        Some(Operation::ClearCandidate) => [None, a, r],
        Some(Operation::ClearActive) => [c, None, r],
        Some(Operation::ClearRollback) => [c, a, None],
    }
}

fn sets(instance: &Instance) -> [Option<Attributes>; 3] {
    [
        instance.candidate_attributes.clone(),
        instance.active_attributes.clone(),
        instance.rollback_attributes.clone(),
    ]
}

/// Makes one step happen, and checks the version that it leaves. `at` versions were there before it; gives how many are now.
#[track_caller]
fn take(world: &mut World, step: Step<'_>, at: usize) -> usize {
    let (transfer, is_error) = step;
    let before = world.log[at - 1].clone();
    let mut given = None;
    let waits = |world: &World| world.log.len() == at;
    let is_followed_on_arrival =
        transfer.auto && !transfer.validate && transfer.config_name.is_none();
    if !is_followed_on_arrival {
        assert!(waits(world), "the instance rests in {}", transfer.source);
        if transfer.auto {
            if let Some(name) = &transfer.config_name {
                world.happens(switch(name, true));
            }
        } else if transfer.api_set_state {
            world.set_state(&transfer.target);
        } else if transfer.on_update {
            let next = json!(100 + at);
            world.updated("mbps", next.clone());
            given = Some(next);
        } else if transfer.on_delete {
            world.happens(Trigger::Deleted);
        } else {
            world.reported(!is_error);
        }
        if transfer.validate {
            world.validated(!is_error);
        }
    }
    let is_idle = end(step).is_none_or(|end| end == transfer.source) && operation(step).is_none();
    if is_idle && given.is_none() {
        assert!(waits(world), "{} stays where it is", transfer.source);
        assert_eq!(sets(&world.instance), sets(&before));
        return at;
    }
    let after = &world.log[at];
    let mut expected = sets(&before);
    if let Some(mbps) = given {
        let mut base = expected[0].clone().or(expected[1].clone()).unwrap();
        base.insert("mbps".to_owned(), mbps);
        expected[0] = Some(base);
    }
    assert_eq!(Some(after.state.as_str()), end(step), "{transfer:?}");
    assert_eq!(
        sets(after),
        operated(operation(step), expected),
        "{transfer:?}"
    );
    assert_eq!(after.version, before.version + 1);
    assert_eq!(
        after.desired_state_version,
        before.desired_state_version + 1
    );
    let state = world.entity.lifecycle.state(&after.state).unwrap();
    assert_eq!(after.deleted, state.deleted);
    at + 1
}

/// An instance in its first state, with all switches off.
fn begun(name: &str) -> World {
    let mut world = World::new(uplink(name), json!({"mbps": 1}));
    let names: Vec<String> = switches(&world.entity.lifecycle)
        .map(str::to_owned)
        .collect();
    for name in names {
        world.happens(switch(&name, false));
    }
    world
}

#[test]
fn every_way_of_the_ready_made_lifecycles_ends_where_it_says_with_the_sets_that_it_says() {
    let mut n_taken = 0;
    for (name, _) in object(fixture("lifecycles.json")) {
        let lifecycle = uplink(&name).lifecycle;
        let ways = ways(&lifecycle);
        let states = lifecycle.states.iter().map(|state| state.name.as_str());
        let lost: Vec<&str> = states.filter(|state| !ways.contains_key(state)).collect();
        assert_eq!(lost, Vec::<&str>::new(), "{name}: no way leads there");
        for step in steps(&lifecycle) {
            let mut world = begun(&name);
            let mut at = 1;
            let way = ways[step.0.source.as_str()].iter().copied();
            for one in way.chain([step]) {
                at = take(&mut world, one, at);
            }
            n_taken += 1;
        }
    }
    // Nothing was left out: this is how many ways the seven lifecycles have.
    assert_eq!(n_taken, 488);
}

#[test]
fn an_instance_comes_out_of_every_state_of_the_ready_made_lifecycles() {
    for (name, _) in object(fixture("lifecycles.json")) {
        let lifecycle = uplink(&name).lifecycle;
        for state in &lifecycle.states {
            let mut ways = steps(&lifecycle).into_iter();
            let leaves = ways.any(|step| {
                step.0.source == state.name && end(step).is_some_and(|end| end != state.name)
            });
            assert_eq!(leaves, !state.deleted, "{name}: {}", state.name);
        }
    }
}

/// What § 2.9 says can be done in which state by clients, for the lifecycle `simple`.
#[test]
fn clients_can_update_and_delete_in_the_states_that_let_them_and_in_no_others() {
    let lifecycle = uplink("simple").lifecycle;
    for (state, way) in ways(&lifecycle) {
        let begin = || {
            let mut world = begun("simple");
            let mut at = 1;
            for step in &way {
                at = take(&mut world, *step, at);
            }
            (world.instance.state == state).then_some(world)
        };
        // One does not rest in states with an automatic transfer that nothing decides about.
        let Some(mut world) = begin() else { continue };
        let version = Some(world.instance.version);
        let may_update = [
            "up",
            "rejected",
            "update_rejected",
            "update_rejected_failed",
        ];
        let update = crate::support::update("mbps", json!(2));
        let answer = world.asks(version, update);
        assert_eq!(answer.is_ok(), may_update.contains(&state), "{state}");
        if let Err(refusal) = answer {
            assert!([404, 409].contains(&refusal.status), "{state}: {refusal:?}");
        }
        let Some(mut world) = begin() else { continue };
        let may_delete = ["up", "creating", "failed", "rejected", "update_failed"];
        let answer = world.asks(version, Trigger::Deleted);
        assert_eq!(answer.is_ok(), may_delete.contains(&state), "{state}");
    }
}
