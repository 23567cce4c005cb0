//! Rules for lifecycles. Source: docs/reference/lsm.md § 3.1.2.

use std::collections::{BTreeMap, BTreeSet};

use super::{Lifecycle, ServiceEntity, State, Transfer};
use crate::Problems;

type States<'l> = BTreeMap<&'l str, &'l State>;

/// Whether a transfer has a trigger.
type Has = fn(&Transfer) -> bool;

pub(super) fn check(entity: &ServiceEntity, problems: &mut Problems) {
    let lifecycle = &entity.lifecycle;
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
    choices(lifecycle, problems);
    endless(lifecycle, problems);
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
fn choices(lifecycle: &Lifecycle, problems: &mut Problems) {
    let kinds: [(&str, Has); 4] = [
        ("on_update", |one| one.on_update),
        ("on_delete", |one| one.on_delete),
        ("resource_based", |one| one.resource_based),
        ("auto", |one| one.auto),
    ];
    for state in &lifecycle.states {
        for (kind, has) in kinds {
            let n = lifecycle
                .leaving(&state.name)
                .filter(|one| has(one))
                .count();
            if n > 1 {
                problems.add(
                    place(state),
                    format!("is left by {n} transfers {kind}: one at most can"),
                );
            }
        }
        let mut seen = BTreeSet::new();
        for one in lifecycle
            .leaving(&state.name)
            .filter(|one| one.api_set_state)
        {
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
fn endless(lifecycle: &Lifecycle, problems: &mut Problems) {
    let next = |state: &str| {
        let mut leaving = lifecycle.transfers.iter().filter(|one| one.source == state);
        // One that stays where it is and does nothing is not executed.
        let moves = |one: &Transfer| one.target != one.source || one.target_operation.is_some();
        let is_free = |one: &Transfer| !one.validate && one.config_name.is_none();
        let runs = |one: &&Transfer| one.auto && is_free(one) && moves(one);
        leaving.find(runs).map(|one| one.target.as_str())
    };
    for state in &lifecycle.states {
        let mut at = next(&state.name);
        // A way that does not come back to where it began ends, or goes into a circle that another state begins.
        for _ in 0..lifecycle.states.len() {
            match at {
                Some(name) if name == state.name => {
                    problems.add(
                        place(state),
                        "is reached again from itself by auto transfers, without an end",
                    );
                    break;
                }
                Some(name) => at = next(name),
                None => break,
            }
        }
    }
}
