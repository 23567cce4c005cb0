//! Rules for lifecycles. Source: docs/reference/lsm.md § 3.1.2.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Lifecycle, ServiceEntity, State, Transfer};
use crate::Problems;

type States<'l> = BTreeMap<&'l str, &'l State>;

/// The transfers that leave each state, in their order.
type Leaving<'l> = HashMap<&'l str, Vec<&'l Transfer>>;

/// States and transfers of one lifecycle. Those that people write have tens; all work on a lifecycle is bounded by these.
const MAX_STATES: usize = 1_000;
const MAX_TRANSFERS: usize = 10_000;

/// Whether a transfer has a trigger.
type Has = fn(&Transfer) -> bool;

pub(super) fn check(entity: &ServiceEntity, problems: &mut Problems) {
    let lifecycle = &entity.lifecycle;
    let counts = [
        ("lifecycle.states", lifecycle.states.len(), MAX_STATES),
        (
            "lifecycle.transfers",
            lifecycle.transfers.len(),
            MAX_TRANSFERS,
        ),
    ];
    let mut is_too_large = false;
    for (path, n, most) in counts {
        if n > most {
            problems.add(path, format!("are {n}: a lifecycle has {most} at most"));
            is_too_large = true;
        }
    }
    if is_too_large {
        return;
    }
    let mut states = States::new();
    for state in &lifecycle.states {
        if states.insert(&state.name, state).is_some() {
            problems.add(place(state), "is the name of several states");
        }
        if state.deleted && state.export_resources {
            problems.add(place(state), "is deleted, so it can not export resources");
        }
    }
    let initial = &lifecycle.initial_state;
    known(&states, "lifecycle.initial_state", initial, problems);
    for name in &lifecycle.alternative_initial_states {
        known(
            &states,
            "lifecycle.alternative_initial_states",
            name,
            problems,
        );
    }
    for (at, transfer) in lifecycle.transfers.iter().enumerate() {
        check_transfer(
            &format!("lifecycle.transfers[{at}]"),
            transfer,
            &states,
            problems,
        );
    }
    let mut leaving = Leaving::new();
    for transfer in &lifecycle.transfers {
        leaving.entry(&transfer.source).or_default().push(transfer);
    }
    choices(lifecycle, &leaving, problems);
    endless(lifecycle, &leaving, problems);
}

fn place(state: &State) -> String {
    format!("lifecycle.states[name={}]", state.name)
}

fn known(states: &States<'_>, path: &str, name: &str, problems: &mut Problems) {
    if !states.contains_key(name) {
        problems.add(
            path,
            format!("is {name}, which is no state of the lifecycle"),
        );
    }
}

fn check_transfer(path: &str, transfer: &Transfer, states: &States<'_>, problems: &mut Problems) {
    let ends = [&transfer.source, &transfer.target];
    for name in ends.into_iter().chain(&transfer.error) {
        known(states, path, name, problems);
    }
    let mut refuse = |reason: &str| {
        let what = format!("{} -> {}", transfer.source, transfer.target);
        problems.add(path, format!("{what} {reason}"));
    };
    let others = [
        transfer.auto,
        transfer.api_set_state,
        transfer.on_update,
        transfer.on_delete,
    ];
    let n_others = others.into_iter().filter(|set| *set).count();
    if n_others == 0 && !transfer.resource_based {
        refuse("has no trigger");
    }
    if n_others > 0 && transfer.resource_based {
        refuse("is resource_based, so it can have no other trigger");
    }
    if transfer.config_name.is_some() && !transfer.auto {
        refuse("has a config_name, which only auto transfers can have");
    }
    if transfer.validate && transfer.error.is_none() {
        refuse("validates, so it needs an error state");
    }
    if transfer.validate && !(transfer.auto || transfer.api_set_state) {
        refuse("validates, which only auto and api_set_state transfers can");
    }
    let source = states.get(transfer.source.as_str());
    if source.is_some_and(|source| source.deleted) {
        refuse("leaves a state in which instances have ended");
    }
    let same = [
        (transfer.target_same_desired_state, Some(&transfer.target)),
        (transfer.error_same_desired_state, transfer.error.as_ref()),
    ];
    for (is_same, end) in same {
        let end = end.and_then(|end| states.get(end.as_str()));
        if let (true, Some(source), Some(end)) = (is_same, source, end) {
            if source.export_resources != end.export_resources {
                refuse("keeps the desired state, but the states differ in export_resources");
            }
            if source.purge_resources != end.purge_resources {
                refuse("keeps the desired state, but the states differ in purge_resources");
            }
        }
    }
}

/// In a state, an instance knows one way to go for each trigger.
fn choices(lifecycle: &Lifecycle, leaving: &Leaving<'_>, problems: &mut Problems) {
    let kinds: [(&str, Has); 4] = [
        ("on_update", |one| one.on_update),
        ("on_delete", |one| one.on_delete),
        ("resource_based", |one| one.resource_based),
        ("auto", |one| one.auto),
    ];
    for state in &lifecycle.states {
        let leaving = leaving.get(state.name.as_str()).into_iter().flatten();
        for (kind, has) in kinds {
            let n = leaving.clone().filter(|one| has(one)).count();
            if n > 1 {
                problems.add(
                    place(state),
                    format!("is left by {n} transfers {kind}: one at most can"),
                );
            }
        }
        let mut seen = BTreeSet::new();
        for one in leaving.filter(|one| one.api_set_state) {
            if !seen.insert((&one.target, one.validate, &one.error)) {
                let reason = format!(
                    "is left by two transfers api_set_state to {} that do the same",
                    one.target
                );
                problems.add(place(state), reason);
            }
        }
    }
}

/// Auto transfers that no switch and no validation stops must not lead in a circle: an instance would run in it for ever.
///
/// Of such transfers each state has one at most, so the ways are followed from each state as far as nobody has been before.
/// Where a way meets itself, all from there on is a circle; so each state is visited once.
fn endless(lifecycle: &Lifecycle, leaving: &Leaving<'_>, problems: &mut Problems) {
    let next = |state: &str| {
        // One that stays where it is and does nothing is not executed.
        let moves = |one: &Transfer| one.target != one.source || one.target_operation.is_some();
        let is_free = |one: &Transfer| !one.validate && one.config_name.is_none();
        let runs = |one: &&&Transfer| one.auto && is_free(one) && moves(one);
        let mut leaving = leaving.get(state).into_iter().flatten();
        leaving.find(runs).map(|one| one.target.as_str())
    };
    // On which way, by the number of the state that it began at, and at which step of it a state was met.
    let mut met: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut endless = BTreeSet::new();
    for (number, state) in lifecycle.states.iter().enumerate() {
        let mut way: Vec<&str> = Vec::new();
        let mut at = Some(state.name.as_str());
        while let Some(name) = at {
            match met.get(name) {
                Some((way_of, step)) if *way_of == number => {
                    endless.extend(way[*step..].iter().copied());
                    break;
                }
                Some(_) => break,
                None => {
                    met.insert(name, (number, way.len()));
                    way.push(name);
                    at = next(name);
                }
            }
        }
    }
    for state in &lifecycle.states {
        if endless.contains(state.name.as_str()) {
            problems.add(
                place(state),
                "is reached again from itself by auto transfers, without an end",
            );
        }
    }
}
