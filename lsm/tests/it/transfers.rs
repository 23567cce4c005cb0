//! What is refused, what is ignored, and what counts for versions and compiles.

use serde_json::{Value, json};
use steward_lsm::definition::{Operation, SetName};
use steward_lsm::lifecycle::{
    EditOperation, Effect, EventType, Migration, NewInstance, Next, Request, Settings, Severity,
    Trigger, create, decide, effective_config, migrate,
};
use steward_lsm::{Moment, Problems, ServiceEntity};

use crate::support::{World, edge, edit, entity, id, object, paths, set_state, update, uplink};

fn up() -> World {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.validated(true).reported(true);
    world
}

//: lsm 36
#[test]
fn a_promotion_without_a_candidate_leaves_everything_and_is_remembered() {
    let record = json!({"name": "s", "lifecycle": {
        "name": "l", "initial_state": "a",
        "states": [{"name": "a"}, {"name": "b"}],
        "transfers": [
            {"source": "a", "target": "b", "api_set_state": true, "target_operation": "promote"},
            {"source": "b", "target": "b", "api_set_state": true, "target_operation": "promote"},
            {"source": "b", "target": "a", "api_set_state": true, "target_operation": "rollback"},
        ],
    }});
    let mut world = World::new(entity(&record), json!({}));
    world.set_state("b");
    let before = world.instance.clone();
    for target in ["b", "a"] {
        world.set_state(target);
        assert_eq!(world.instance, before);
        let event = world.events.last().unwrap();
        assert_eq!(event.severity.as_str(), "ERROR");
        assert!(event.message.contains("failed"), "{}", event.message);
    }
    assert_eq!(world.log.len(), 2);
}

//: lsm 35
#[test]
fn operations_change_the_sets_all_at_once() {
    let set = |text: &str| (text != "∅").then(|| object(json!({"mbps": 1, "set": text})));
    let cases = [
        (Operation::Promote, "c a r", "∅ c a"),
        (Operation::Promote, "c ∅ r", "∅ c ∅"),
        (Operation::Rollback, "c a r", "a r ∅"),
        (Operation::Rollback, "∅ ∅ r", "∅ r ∅"),
        (Operation::ClearCandidate, "c a r", "∅ a r"),
        (Operation::ClearActive, "c a r", "c ∅ r"),
        (Operation::ClearRollback, "c a r", "c a ∅"),
        (Operation::ClearRollback, "∅ ∅ ∅", "∅ ∅ ∅"),
    ];
    for (operation, before, after) in cases {
        let mut world = up();
        world.settings.expert_mode = true;
        for (name, text) in SetName::ALL.into_iter().zip(before.split(' ')) {
            *world.instance.set_mut(name) = set(text);
        }
        world.happens(Trigger::ForceState {
            target: "up".to_owned(),
            operation: Some(operation),
            message: "test".to_owned(),
        });
        for (name, text) in SetName::ALL.into_iter().zip(after.split(' ')) {
            assert_eq!(
                world.instance.set(name),
                set(text).as_ref(),
                "{operation:?} of {before}"
            );
        }
    }
}

//: lsm 40, 42
#[test]
fn what_a_state_does_not_accept_is_refused_and_says_where_it_would_be() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    let before = world.instance.clone();
    let cases = [
        (
            update("mbps", json!(2)),
            409,
            "these do: rejected, up, update_rejected",
        ),
        (
            Trigger::Deleted,
            409,
            "these do: creating, failed, rejected, up, update_failed",
        ),
        (set_state("up"), 400, "from start it can be set to: none"),
        (set_state("nowhere"), 400, "nowhere"),
    ];
    for (trigger, status, text) in cases {
        let refusal = world.asks(Some(1), trigger).unwrap_err();
        assert_eq!(refusal.status, status);
        assert!(refusal.message.contains(text), "{}", refusal.message);
    }
    assert_eq!(world.instance, before);
    world
        .validated(true)
        .reported(true)
        .happens(Trigger::Deleted)
        .reported(true);
    assert_eq!(world.line(), "6 terminated ∅ 1 ∅");
    let refusal = world.asks(Some(6), update("mbps", json!(2))).unwrap_err();
    assert_eq!(refusal.status, 404);
}

//: lsm 50, 51, 52
#[test]
fn whoever_has_seen_another_version_is_refused_and_nothing_changes() {
    let mut world = up();
    world.settings.environment_name = "prod".to_owned();
    let before = world.instance.clone();
    let triggers = [
        update("mbps", json!(2)),
        Trigger::Deleted,
        set_state("rollback"),
        Trigger::Configured { values: [].into() },
        Trigger::Annotated {
            key: "k".to_owned(),
            value: "v".to_owned(),
        },
        Trigger::Wrote {
            set: SetName::Candidate,
            edits: Vec::new(),
        },
    ];
    for trigger in triggers {
        let refusal = world.asks(Some(3), trigger).unwrap_err();
        assert_eq!(refusal.status, 409);
        for fact in [
            "version 3",
            "version 4",
            &id(1).to_string(),
            &id(2).to_string(),
            "prod",
        ] {
            assert!(refusal.message.contains(fact), "{}", refusal.message);
        }
    }
    assert_eq!(world.instance, before);
    // Of two clients that saw the same version the first one wins.
    assert!(world.asks(Some(4), update("mbps", json!(2))).is_ok());
    let refusal = world.asks(Some(4), update("mbps", json!(3))).unwrap_err();
    assert_eq!(
        (refusal.status, world.line().as_str()),
        (409, "5 update_start 2 1 ∅")
    );
    // Experts need not say a version.
    world.settings.expert_mode = true;
    let edits = vec![edit(EditOperation::Replace, "mbps", json!(9))];
    let trigger = Trigger::ForceAttributes {
        set: SetName::Rollback,
        edits,
        comment: None,
    };
    assert!(world.asks(None, trigger).is_ok());
    assert_eq!(world.line(), "6 update_start 2 1 9");
}

//: lsm 32
#[test]
fn an_instance_begins_in_the_initial_state_or_an_alternative_one() {
    let record = json!({"name": "s", "lifecycle": {
        "name": "l", "initial_state": "a", "alternative_initial_states": ["b", "out", "in"],
        "states": [{"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "out", "export_resources": true},
            {"name": "in", "export_resources": true}],
        "transfers": [{"source": "in", "target": "out", "auto": true, "target_operation": "promote"}],
    }});
    let entity = entity(&record);
    let begin = |state: Option<&str>| {
        let new = NewInstance {
            id: id(1),
            environment: id(2),
            attributes: object(json!({})),
            initial_state: state.map(str::to_owned),
            config: [].into(),
            correlation_id: id(3),
        };
        create(&entity, new, Moment(5))
    };
    let state = |state: Option<&str>| begin(state).unwrap().instance.unwrap().state;
    assert_eq!(state(None), "a");
    assert_eq!(state(Some("b")), "b");
    assert_eq!(state(Some("in")), "in");
    for (wrong, reason) in [
        ("c", "they can in: a, b, out, in"),
        ("out", "no automatic transfer promotes"),
    ] {
        let refusal = begin(Some(wrong)).unwrap_err();
        assert_eq!(refusal.status, 400);
        assert!(refusal.message.contains(reason), "{}", refusal.message);
    }
    let decision = begin(None).unwrap();
    let events = decision.events.iter();
    let events: Vec<_> = events
        .map(|one| (one.service_instance_version, one.destination.as_deref()))
        .collect();
    assert_eq!(events, [(0, Some("a")), (0, Some("a"))]);
}

//: lsm 39
#[test]
fn a_switch_holds_an_automatic_transfer_and_an_instance_overrides_the_service() {
    let mut service = uplink("service");
    service.config = [("auto_designed", false), ("auto_creating", true)]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
    let mut world = World::new(service, json!({"mbps": 1}));
    world.validated(true).is("2 acknowledged 1 ∅ ∅");
    assert!(world.validations.is_empty());
    let config = effective_config(&world.entity, &world.instance);
    assert_eq!(
        (config["auto_designed"], config["auto_update_designed"]),
        (false, true)
    );
    let on = |value: bool| Trigger::Configured {
        values: [("auto_designed".to_owned(), value)].into(),
    };
    // No version, but what waits goes on.
    world.happens(on(true)).is("2 acknowledged 1 ∅ ∅");
    world.validated(true).is("4 creating ∅ 1 ∅");
    let unknown = Trigger::Configured {
        values: [("nothing".to_owned(), true)].into(),
    };
    let refusal = world.asks(Some(4), unknown).unwrap_err();
    assert_eq!(
        (refusal.status, paths(&refusal.problems)),
        (400, vec!["nothing"])
    );
}

//: lsm 41
#[test]
fn a_state_that_is_asked_for_and_not_valid_leads_to_the_error_state() {
    let mut service = uplink("service");
    service.config = [("auto_designed".to_owned(), false)].into();
    let mut world = World::new(service, json!({"mbps": 1}));
    world.validated(true).is("2 acknowledged 1 ∅ ∅");
    // It is accepted at once, and decided later.
    world.set_state("designed").is("2 acknowledged 1 ∅ ∅");
    assert_eq!(
        world.validations[0].cause.as_str(),
        "API_SET_STATE_TRANSITION"
    );
    world.validated(false).is("3 rejected 1 ∅ ∅");
    let event = world.events.last().unwrap();
    assert!(event.is_error_transition);
    assert_eq!(event.id_compile_report, Some(id(77)));
}

//: lsm 61, 62
#[test]
fn edges_that_keep_the_desired_state_compile_only_if_transfers_are_not_optimized() {
    let mut service = uplink("simple");
    for transfer in &mut service.lifecycle.transfers {
        transfer.target_same_desired_state = transfer.source == "up" && transfer.on_update;
        transfer.error_same_desired_state = transfer.source == "update_start" && transfer.auto;
    }
    service.check().unwrap();
    for is_on in [false, true] {
        let settings = Settings {
            transfer_optimization: is_on,
            ..Settings::default()
        };
        let mut world = World::with(service.clone(), settings, json!({"mbps": 1}));
        world.validated(true).reported(true).is("4 up ∅ 1 ∅");
        let (version, n) = (world.instance.desired_state_version, world.n_compiles);
        world
            .updated("mbps", json!(2))
            .validated(false)
            .is("6 update_rejected 2 1 ∅");
        assert_eq!(world.instance.desired_state_version, version);
        assert_eq!(world.n_compiles, if is_on { n } else { n + 2 });
    }
}

#[test]
fn a_result_that_is_known_counts_where_nothing_will_be_deployed_again() {
    let record = json!({"name": "s", "lifecycle": {
        "name": "l", "initial_state": "a",
        "states": [{"name": "a", "export_resources": true}, {"name": "b", "export_resources": true},
            {"name": "good", "export_resources": true}, {"name": "bad", "export_resources": true}],
        "transfers": [
            {"source": "a", "target": "b", "api_set_state": true, "target_same_desired_state": true},
            {"source": "b", "target": "good", "error": "bad", "resource_based": true},
        ],
    }});
    for is_on in [true, false] {
        let settings = Settings {
            transfer_optimization: is_on,
            ..Settings::default()
        };
        let mut world = World::with(entity(&record), settings, json!({}));
        world.reported(true);
        assert_eq!(world.instance.transfer_context(), "stable");
        assert_eq!(world.instance.version, 1);
        world.set_state("b");
        assert_eq!(
            (
                world.instance.state.as_str(),
                world.instance.transfer_context()
            ),
            ("good", "auto")
        );
    }
}

/// Given: ways that results decide about and that keep the desired state, one behind the other, from a state that clients set
/// too; and two states that lead to one another. Expected: a result leads on as far as it goes, at once, and stays known where it
/// ends; where it would lead in a circle, each report is one step.
#[test]
fn a_result_leads_on_through_states_of_the_same_desired_state() {
    let states = ["work", "ok", "c1", "c2", "c3", "end", "ping", "pong"];
    let states = states.map(|name| json!({"name": name, "export_resources": true}));
    let by_result = |source: &str, target: &str| json!({"source": source, "target": target, "resource_based": true, "target_same_desired_state": true});
    let by_client = |source: &str, target: &str| json!({"source": source, "target": target, "api_set_state": true, "target_same_desired_state": true});
    let record = json!({"name": "s", "lifecycle": {
        "name": "l", "initial_state": "work",
        "states": states,
        "transfers": [
            by_result("work", "ok"), by_client("ok", "c1"), by_client("ok", "c2"), by_client("end", "ping"),
            {"source": "c1", "target": "c2", "auto": true, "target_same_desired_state": true},
            by_result("c2", "c3"), by_result("c3", "end"), by_result("ping", "pong"), by_result("pong", "ping"),
        ],
    }});
    for (is_on, first) in [(true, "c1"), (true, "c2"), (false, "c1"), (false, "c2")] {
        let settings = Settings {
            transfer_optimization: is_on,
            ..Settings::default()
        };
        let mut world = World::with(entity(&record), settings, json!({}));
        world.reported(true);
        assert_eq!(world.instance.state, "ok");
        world.set_state(first);
        assert_eq!(world.instance.state, "end", "{is_on} {first}");
        // It is known still; from here on it would go round.
        world.set_state("ping");
        assert_eq!(world.instance.state, "pong");
        world.reported(true);
        assert_eq!(world.instance.state, "ping");
    }
}

//: lsm 68
#[test]
fn a_report_of_an_older_desired_state_has_no_effect() {
    let mut world = up();
    let stale = world.instance.desired_state_version - 1;
    let before = (world.instance.clone(), world.events.len());
    world.happens(Trigger::Reported {
        next_version: stale,
        succeeded: false,
    });
    world.happens(Trigger::Reported {
        next_version: stale + 2,
        succeeded: false,
    });
    assert_eq!((world.instance.clone(), world.events.len()), before);
}

#[test]
fn an_instance_that_waits_for_a_value_says_so_and_stays_as_it_is() {
    let mut world = up();
    let stuck = |next_version| Trigger::Stuck {
        next_version,
        resources: vec!["a::B[c,d=e]".to_owned()],
    };
    let (before, version) = (world.instance.clone(), world.instance.desired_state_version);
    let n_events = world.events.len();
    // Of an older desired state.
    world.happens(stuck(version - 1));
    assert_eq!(world.events.len(), n_events);
    world.happens(stuck(version));
    assert_eq!(world.instance, before);
    let event = world.events.last().unwrap();
    assert_eq!(
        (event.event_type, event.severity),
        (EventType::ResourceEvent, Severity::Warning)
    );
    assert!(event.message.contains("a::B[c,d=e]"), "{}", event.message);
}

//: lsm 99
#[test]
fn events_of_one_trigger_share_an_id_and_name_the_version_before() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    let asked = world.events.last().unwrap().clone();
    let validation = world.validations[0].clone();
    assert_eq!(
        (asked.service_instance_version, asked.event_correlation_id),
        (1, validation.correlation_id)
    );
    assert_eq!(
        validation.event.event_correlation_id,
        validation.correlation_id
    );
    // The id is made of instance and version: looking again asks for the same validation.
    world.happens(Trigger::Auto {
        known_result: false,
    });
    assert_eq!(
        world.validations[1].correlation_id,
        validation.correlation_id
    );
    // The UUID of version 3 of `1` in the name space of the instance, as Python's `uuid.uuid3` gives it.
    assert_eq!(
        validation.correlation_id.to_string(),
        "9a8c1dbb-b571-338b-8a4b-062ee4067ce9"
    );
}

//: lsm 101
#[test]
fn experts_need_the_setting() {
    let mut world = up();
    let triggers = || {
        let target = "rollback".to_owned();
        [
            Trigger::ForceState {
                target,
                operation: None,
                message: "m".to_owned(),
            },
            Trigger::ForceAttributes {
                set: SetName::Active,
                edits: Vec::new(),
                comment: None,
            },
            Trigger::ForceDeleted {
                message: "m".to_owned(),
            },
        ]
    };
    for trigger in triggers() {
        assert_eq!(world.asks(None, trigger).unwrap_err().status, 403);
    }
    world.settings.expert_mode = true;
    let request = |trigger: Trigger| Request {
        trigger,
        current_version: None,
        correlation_id: id(9),
    };
    for (trigger, effect) in
        triggers()
            .into_iter()
            .zip([Effect::NewVersion, Effect::NewVersion, Effect::Removed])
    {
        let decision = decide(
            &world.entity,
            &world.instance,
            &request(trigger),
            &world.settings,
            Moment(9),
        );
        let decision = decision.unwrap();
        assert_eq!(decision.effect, effect);
        assert_eq!(decision.events.len(), 1);
        let compiles = decision
            .next
            .iter()
            .any(|next| matches!(next, Next::Compile { .. }));
        assert_eq!(
            compiles,
            effect == Effect::NewVersion && decision.instance.unwrap().state == "rollback"
        );
    }
}

fn target() -> ServiceEntity {
    let mut target = uplink("simple");
    target.version = 1;
    target.fields.attributes[0].validation_type = Some("pydantic.conint".to_owned());
    target.fields.attributes[0].validation_parameters = Some(object(json!({"ge": 1000})));
    target
}

#[track_caller]
fn refused(world: &World, migration: Migration, current: u64) -> (u16, Problems) {
    let request = Request {
        trigger: Trigger::Deleted,
        current_version: Some(current),
        correlation_id: id(4),
    };
    let now = Moment(9);
    let refusal = migrate(
        &target(),
        &world.instance,
        migration,
        &request,
        &world.settings,
        now,
    )
    .unwrap_err();
    (refusal.status, refusal.problems)
}

//: lsm 50, 103
#[test]
fn a_migration_needs_sets_that_the_other_version_allows_and_overwrites_all_three() {
    let world = up();
    let migration = |state: &str, candidate: Option<Value>, active: Option<Value>| Migration {
        state: state.to_owned(),
        candidate: candidate.map(object),
        active: active.map(object),
        rollback: None,
    };
    let good = || Some(json!({"mbps": 2000}));
    assert_eq!(refused(&world, migration("start", None, None), 4).0, 400);
    assert_eq!(refused(&world, migration("start", good(), None), 3).0, 409);
    let (status, problems) = refused(
        &world,
        migration("nowhere", Some(json!({"mbps": 1, "x": 2})), None),
        4,
    );
    assert_eq!(status, 400);
    assert_eq!(
        paths(&problems),
        [
            "state",
            "candidate_attributes.x",
            "candidate_attributes.mbps"
        ]
    );
    // Whoever has ended has ended.
    let mut ended = up();
    ended.instance.deleted = true;
    assert_eq!(refused(&ended, migration("start", good(), None), 4).0, 404);
    let request = Request {
        trigger: Trigger::Deleted,
        current_version: Some(4),
        correlation_id: id(4),
    };
    let now = Moment(9);
    let migration = migration("start", good(), None);
    let decision = migrate(
        &target(),
        &world.instance,
        migration,
        &request,
        &world.settings,
        now,
    )
    .unwrap();
    let after = decision.instance.unwrap();
    assert_eq!(
        (
            after.version,
            after.state.as_str(),
            after.service_entity_version
        ),
        (5, "start", 1)
    );
    // A read-only attribute that is not given is null until it is allocated.
    assert_eq!(
        after.candidate_attributes,
        Some(object(json!({"mbps": 2000, "vlan": null})))
    );
    assert_eq!(
        (after.active_attributes, after.rollback_attributes),
        (None, None)
    );
    assert!(
        decision
            .next
            .contains(&Next::FireAuto { known_result: true })
    );
}

#[test]
fn a_validation_whose_transfer_is_gone_has_no_effect_and_the_instance_goes_on() {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.validations.clear();
    world.happens(Trigger::Validated {
        edge: edge("start", "acknowledged", "elsewhere"),
        cause: steward_lsm::lifecycle::EventType::AutoTransition,
        version: 1,
        succeeded: true,
        compile: id(5),
    });
    world.is("1 start 1 ∅ ∅");
    assert!(world.events.iter().any(|event| event.ignored_transition));
    assert_eq!(world.validations.len(), 1);
}

/// Given: a new instance with a switch that its lifecycle does not have. Expected: it is refused, and the switch is named.
#[test]
fn an_instance_is_not_made_with_a_switch_that_there_is_not() {
    let new = NewInstance {
        id: id(1),
        environment: id(2),
        attributes: object(json!({"mbps": 1})),
        initial_state: None,
        config: [("nope".to_owned(), true)].into(),
        correlation_id: id(3),
    };
    let refusal = create(&uplink("simple"), new, Moment(0)).unwrap_err();
    assert_eq!(refusal.status, 400);
    assert_eq!(paths(&refusal.problems), ["nope"]);
}
