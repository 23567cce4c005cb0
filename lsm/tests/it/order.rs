//! Orders: which item waits for which, and when an item has ended.

use std::collections::BTreeSet;

use serde_json::json;
use steward_lsm::lifecycle::EditOperation;
use steward_lsm::order::{
    Action, Failure, ItemState, Planned, Progress, Step, dependencies, order_state, progress,
};
use uuid::Uuid;

use crate::support::{edit, object, uplink};

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn planned(number: u128, action: Action, names: &[u128], named: &[u128]) -> Planned {
    let ids = |numbers: &[u128]| {
        numbers
            .iter()
            .map(|number| id(*number))
            .collect::<BTreeSet<_>>()
    };
    Planned {
        instance: id(number),
        action: Some(action),
        names: ids(names),
        named: ids(named),
    }
}

#[test]
fn what_names_an_instance_waits_for_the_item_that_makes_it_wherever_that_stands() {
    let items = [
        planned(1, Action::Create, &[2], &[]),
        planned(2, Action::Create, &[], &[]),
        planned(3, Action::Update, &[2, 9], &[]),
    ];
    assert_eq!(dependencies(&items), [vec![id(2)], vec![], vec![id(2)]]);
}

#[test]
fn a_deletion_waits_for_those_who_named_the_instance() {
    let items = [
        planned(1, Action::Delete, &[], &[]),
        planned(2, Action::Update, &[], &[1]),
        planned(3, Action::Delete, &[], &[1]),
        // Whatever the own attributes name: it waits for nobody.
        planned(4, Action::Delete, &[1], &[]),
    ];
    assert_eq!(
        dependencies(&items),
        [vec![id(2), id(3)], vec![], vec![], vec![]]
    );
}

#[test]
fn an_order_has_ended_when_all_of_its_items_have() {
    use ItemState::{Acknowledged, Completed, Failed, InProgress};
    for (items, state) in [
        (vec![Acknowledged, Completed], "in_progress"),
        (vec![Failed, InProgress], "in_progress"),
        (vec![Completed, Completed], "success"),
        (vec![Failed, Failed], "failed"),
        (vec![Completed, Failed], "partial"),
    ] {
        assert_eq!(order_state(items), state);
    }
}

fn step(state: &str, is_error: bool, is_deployment: bool) -> Step {
    Step {
        state: state.to_owned(),
        is_error,
        is_deployment,
    }
}

/// An instance of `simple` in a state.
fn instance(state: &str) -> steward_lsm::Instance {
    let entity = uplink("simple");
    let state = entity.lifecycle.state(state).unwrap();
    serde_json::from_value(json!({
        "id": id(1), "environment": id(0), "service_entity": "uplink", "service_entity_version": 0, "version": 7,
        "desired_state_version": 3, "state": state.name, "candidate_attributes": null, "active_attributes": {},
        "rollback_attributes": null, "config": {}, "deleted": state.deleted, "created_at": 1, "last_updated": 2,
        "service_identity_attribute_value": null, "known_result": null, "callback": [], "metadata": {},
    }))
    .unwrap()
}

fn failure(progress: &Progress) -> Option<Failure> {
    match progress {
        Progress::Failed(failure, _) => Some(*failure),
        Progress::Running | Progress::Completed => None,
    }
}

#[test]
fn an_item_ends_with_the_first_state_that_decides_wherever_the_instance_is_by_then() {
    let entity = uplink("simple");
    let ended = |action, state: &str, steps: &[Step]| {
        progress(&entity, action, &[], Some(&instance(state)), steps, false)
    };
    let on_the_way = [
        step("acknowledged", false, false),
        step("creating", false, false),
    ];
    assert_eq!(
        ended(Action::Create, "creating", &on_the_way),
        Progress::Running
    );
    let mut all = on_the_way.to_vec();
    all.push(step("up", false, true));
    assert_eq!(ended(Action::Create, "up", &all), Progress::Completed);
    // Nothing has happened to it yet: `up` is where the update found it.
    assert_eq!(ended(Action::Update, "up", &[]), Progress::Running);
    let rejected = [step("rejected", true, false)];
    let rejected = ended(Action::Create, "rejected", &rejected);
    assert_eq!(failure(&rejected), Some(Failure::ValidationCompileFailed));
    // It went on from the failure by itself, and is well by now: the order failed.
    let failed = [
        step("creating", false, false),
        step("failed", true, true),
        step("up", false, true),
    ];
    let failed = ended(Action::Create, "up", &failed);
    assert_eq!(failure(&failed), Some(Failure::ExecutionFailed));
    let deleted = [
        step("deleting", false, false),
        step("terminated", false, true),
    ];
    assert_eq!(
        ended(Action::Delete, "terminated", &deleted),
        Progress::Completed
    );
    assert_eq!(ended(Action::Delete, "up", &[]), Progress::Running);
    // A validation refused it: it is where it was, which is good, or on its way.
    for back in ["up", "creating"] {
        let refused = [step("deleting", false, false), step(back, true, false)];
        let refused = ended(Action::Delete, back, &refused);
        assert_eq!(failure(&refused), Some(Failure::ValidationCompileFailed));
    }
    let refused = [step("acknowledged", false, false), step("up", true, false)];
    let refused = ended(Action::Update, "up", &refused);
    assert_eq!(failure(&refused), Some(Failure::ValidationCompileFailed));
}

#[test]
fn an_item_whose_instance_others_changed_is_inconclusive() {
    let entity = uplink("simple");
    let steps = [step("up", false, true)];
    let disturbed = progress(
        &entity,
        Action::Update,
        &[],
        Some(&instance("up")),
        &steps,
        true,
    );
    assert_eq!(failure(&disturbed), Some(Failure::Inconclusive));
    let gone = progress(&entity, Action::Update, &[], None, &steps, false);
    assert_eq!(failure(&gone), Some(Failure::Inconclusive));
}

#[test]
fn an_update_completes_with_what_was_ordered_and_not_where_somebody_led_the_instance_back() {
    let entity = uplink("simple");
    let steps = [step("update_start", false, false), step("up", false, false)];
    let of = |mbps: u64| {
        let mut up = instance("up");
        up.active_attributes = Some(object(json!({"mbps": mbps, "vlan": null})));
        let edits = [edit(EditOperation::Replace, "mbps", json!(20))];
        progress(&entity, Action::Update, &edits, Some(&up), &steps, false)
    };
    assert_eq!(of(20), Progress::Completed);
    assert_eq!(failure(&of(10)), Some(Failure::Inconclusive));
}

#[test]
fn words_of_orders_are_read_as_they_are_written() {
    assert!(
        Action::ALL
            .iter()
            .all(|one| Action::parse(one.as_str()) == Some(*one))
    );
    assert!(
        ItemState::ALL
            .iter()
            .all(|one| ItemState::parse(one.as_str()) == Some(*one))
    );
    assert!(
        Failure::ALL
            .iter()
            .all(|one| Failure::parse(one.as_str()) == Some(*one))
    );
}
