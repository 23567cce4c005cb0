//! Orders: which item waits for which, and when an item has ended.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use steward_lsm::lifecycle::EditOperation;
use steward_lsm::order::{
    Action, Failure, ItemState, Planned, Progress, Step, dependencies, in_circles, order_state,
    progress,
};
use uuid::Uuid;

use crate::model::lifecycles::Random;
use crate::support::{edit, entity, lifecycle, object, uplink};

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

/// Random waits against the definition, letter by letter; and the most that an order can have.
#[test]
fn items_in_circles_are_those_that_wait_for_themselves() {
    let reaches = |waiting: &BTreeMap<Uuid, &[Uuid]>, start: Uuid| {
        let mut reached = BTreeSet::new();
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            let others = waiting.get(&at).copied().unwrap_or_default();
            next.extend(others.iter().filter(|other| reached.insert(**other)));
        }
        reached.contains(&start)
    };
    let mut random = Random(7);
    for _ in 0..2000 {
        let n_items = random.below(8) + 1;
        let waits: Vec<Vec<Uuid>> = (0..n_items)
            .map(|_| {
                let others = (0..n_items + 1).filter(|_| random.percent(20));
                others.map(|other| id(other as u128)).collect()
            })
            .collect();
        let items = (0..).map(id).zip(waits.iter().map(Vec::as_slice));
        let waiting: BTreeMap<Uuid, &[Uuid]> = items.collect();
        let expected = waiting.keys().copied();
        let expected = expected.filter(|id| reaches(&waiting, *id)).collect();
        assert_eq!(in_circles(&waiting), expected, "{waits:?}");
    }
    let all: Vec<Uuid> = (0..1000).map(id).collect();
    let waiting = all.iter().map(|id| (*id, &all[..])).collect();
    let began = std::time::Instant::now();
    assert_eq!(in_circles(&waiting).len(), 1000);
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
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
    let mut instance = instance(state);
    instance.version = 6;
    Step {
        instance,
        is_error,
        is_deployment,
        is_foreign: false,
    }
}

/// An instance in a state.
fn instance(state: &str) -> steward_lsm::Instance {
    serde_json::from_value(json!({
        "id": id(1), "environment": id(0), "service_entity": "uplink", "service_entity_version": 0, "version": 7,
        "desired_state_version": 3, "state": state, "candidate_attributes": null, "active_attributes": {},
        "rollback_attributes": null, "config": {}, "deleted": state == "terminated", "created_at": 1, "last_updated": 2,
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
        progress(&entity, action, &[], Some(&instance(state)), steps)
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
    let update = |instance: Option<&_>, steps: &[Step]| {
        let progress = progress(&entity, Action::Update, &[], instance, steps);
        failure(&progress)
    };
    let ours = [step("update_start", false, false)];
    assert_eq!(update(None, &ours), Some(Failure::Inconclusive));
    let mut deleted = ours.to_vec();
    deleted.push(Step {
        is_foreign: true,
        ..step("deleting", false, false)
    });
    let deleting = instance("deleting");
    assert_eq!(
        update(Some(&deleting), &deleted),
        Some(Failure::Inconclusive)
    );
}

/// What happens after an instance has arrived, before anybody looks at the order, is no matter of the order.
#[test]
fn an_item_whose_instance_has_arrived_stays_completed_whatever_happens_to_it() {
    let entity = uplink("simple");
    let ended = |state: &str, more: Step| {
        let mut steps = vec![
            step("acknowledged", false, false),
            step("creating", false, false),
            step("up", false, true),
        ];
        steps.push(more);
        let now = instance(state);
        progress(&entity, Action::Create, &[], Some(&now), &steps)
    };
    assert_eq!(
        ended("failed", step("failed", true, true)),
        Progress::Completed
    );
    let deleted = Step {
        is_foreign: true,
        ..step("deleting", false, false)
    };
    assert_eq!(ended("deleting", deleted), Progress::Completed);
}

/// A lifecycle in which people can call a deletion off, put it on hold, or leave it lying.
fn revocable() -> steward_lsm::ServiceEntity {
    let mut lifecycle = lifecycle("simple");
    for name in ["on_hold", "forgotten"] {
        let all = lifecycle["states"].as_array_mut().unwrap();
        let mut state = all
            .iter()
            .find(|one| one["name"] == "creating")
            .unwrap()
            .clone();
        state["name"] = json!(name);
        state["label"] = json!("info");
        all.push(state);
    }
    let all = lifecycle["transfers"].as_array_mut().unwrap();
    let asked = |source: &str, target: &str| json!({"source": source, "target": target, "error": null, "api_set_state": true});
    all.extend([
        asked("deleting", "up"),
        asked("deleting", "on_hold"),
        asked("on_hold", "deleting"),
        asked("deleting", "forgotten"),
    ]);
    entity(&json!({"name": "uplink", "lifecycle": lifecycle}))
}

#[test]
fn a_deletion_that_somebody_calls_off_is_inconclusive_and_one_that_can_go_on_waits() {
    let entity = revocable();
    let ended = |action, state: &str, steps: &[Step]| {
        progress(&entity, action, &[], Some(&instance(state)), steps)
    };
    for (state, expected) in [
        ("up", Some(Failure::Inconclusive)),
        ("forgotten", Some(Failure::Inconclusive)),
        ("on_hold", None),
    ] {
        let steps = [step("deleting", false, false), step(state, false, false)];
        let ended = ended(Action::Delete, state, &steps);
        assert_eq!(failure(&ended), expected, "{state}: {ended:?}");
    }
    // Nothing leads on for what was to be made, either.
    let steps = [step("start", false, false), step("forgotten", false, false)];
    let ended = ended(Action::Create, "forgotten", &steps);
    assert_eq!(failure(&ended), Some(Failure::Inconclusive), "{ended:?}");
}

#[test]
fn an_update_completes_with_what_was_ordered_and_not_where_somebody_led_the_instance_back() {
    let entity = uplink("simple");
    let of = |mbps: u64| {
        let mut up = step("up", false, false);
        up.instance.active_attributes = Some(object(json!({"mbps": mbps, "vlan": null})));
        let steps = [step("update_start", false, false), up];
        let edits = [edit(EditOperation::Replace, "mbps", json!(20))];
        let now = instance("up");
        progress(&entity, Action::Update, &edits, Some(&now), &steps)
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
