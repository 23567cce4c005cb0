//! The traces of the specification, line by line, with the ready-made lifecycle `simple`.
//! Source: docs/reference/lsm.md § 3.16.

use serde_json::json;
use steward_lsm::definition::SetName;
use steward_lsm::lifecycle::{EditOperation, EventType, Trigger};

use crate::support::{World, edit, uplink};

//: lsm 31, 33, 37, 38, 62, 70, 71
#[test]
fn an_instance_is_created_fails_to_be_deployed_and_recovers() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.is("1 start 1 ∅ ∅");
    assert_eq!((world.validations.len(), world.n_compiles), (1, 0));
    // Allocation during the validation changes the candidate and no version.
    let edits = vec![edit(EditOperation::Replace, "vlan", json!(7))];
    world.happens(Trigger::Wrote {
        set: SetName::Candidate,
        edits,
    });
    world.is("1 start 1 ∅ ∅");
    let candidate = world.instance.candidate_attributes.as_ref().unwrap();
    assert_eq!(candidate["vlan"], json!(7));
    let last = world.events.last().unwrap();
    assert_eq!(last.event_type, EventType::AllocationUpdate);
    // The validation succeeds; the promotion follows by itself, so two compiles are asked for.
    world.validated(true).is("3 creating ∅ 1 ∅");
    assert_eq!(world.log[1].state, "acknowledged");
    assert_eq!(
        world.instance.active_attributes.as_ref().unwrap()["vlan"],
        json!(7)
    );
    assert_eq!(world.n_compiles, 2);
    world.reported(false).is("4 failed ∅ 1 ∅");
    assert_eq!(world.n_compiles, 3);
    world.reported(true).is("5 up ∅ 1 ∅");
    assert_eq!(world.n_compiles, 4);
    // Further successes are no transfers.
    world.reported(true).reported(true).is("5 up ∅ 1 ∅");
    assert_eq!((world.n_compiles, world.log.len()), (4, 5));
    // One log record a version, equal to the instance.
    let versions: Vec<u64> = world.log.iter().map(|record| record.version).collect();
    assert_eq!(versions, [1, 2, 3, 4, 5]);
    assert_eq!(world.log.last(), Some(&world.instance));
}

//: lsm 35, 43, 45, 69
#[test]
fn an_update_is_rejected_corrected_fails_and_is_rolled_back() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.validated(true).reported(false).reported(true);
    world.is("5 up ∅ 1 ∅");
    world.updated("mbps", json!(2)).is("6 update_start 2 1 ∅");
    world.validated(false).is("7 update_rejected 2 1 ∅");
    // What is corrected is the candidate that was refused.
    world.updated("mbps", json!(3)).is("8 update_start 3 1 ∅");
    world.validated(true).is("10 update_inprogress ∅ 3 1");
    assert_eq!(world.log[8].state, "update_acknowledged");
    world.reported(false).is("11 update_failed ∅ 3 1");
    world.set_state("rollback").is("12 rollback 3 1 ∅");
    world.reported(true).is("13 up 3 1 ∅");
    world.happens(Trigger::Deleted).is("14 deleting 3 1 ∅");
    assert!(!world.instance.deleted);
    world.reported(true).is("15 terminated 3 1 ∅");
    assert!(world.instance.deleted);
}

//: lsm 34
#[test]
fn a_rejected_instance_keeps_its_candidate_and_can_be_corrected() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.validated(false).is("2 rejected 1 ∅ ∅");
    world.updated("mbps", json!(2)).is("3 start 2 ∅ ∅");
    world.validated(true).is("5 creating ∅ 2 ∅");
}

//: lsm 47
#[test]
fn a_parent_that_is_still_needed_goes_back_to_where_it_was() {
    let mut world = World::new(uplink("simple_with_delete_validate"), json!({"mbps": 1}));
    world.validated(true).reported(true).is("4 up ∅ 1 ∅");
    world
        .happens(Trigger::Deleted)
        .is("5 delete_validating_up ∅ 1 ∅");
    world.validated(false).is("6 up ∅ 1 ∅");
    world
        .happens(Trigger::Deleted)
        .is("7 delete_validating_up ∅ 1 ∅");
    world.validated(true).is("8 deleting ∅ 1 ∅");
}

//: lsm 48
#[test]
fn resources_that_fail_during_a_validation_move_the_instance_and_its_result_does_not_count() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world
        .validated(true)
        .reported(true)
        .updated("mbps", json!(2));
    world.is("5 update_start 2 1 ∅");
    world.reported(false).is("6 update_start_failed 2 1 ∅");
    // The state asks for a validation of its own. The first one ends first.
    let [first, second] = <[_; 2]>::try_from(std::mem::take(&mut world.validations)).unwrap();
    assert_ne!(first.correlation_id, second.correlation_id);
    world.validations.push(first);
    world.validated(true).is("6 update_start_failed 2 1 ∅");
    assert!(world.events.last().unwrap().ignored_transition);
    world.validations.push(second);
    world.validated(true).is("8 update_inprogress ∅ 2 1");
}
