//! Records of definitions, their checks, and what a changed one does to instances.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use steward_lsm::definition::SetName;
use steward_lsm::ownership::{Inventory, Owner, group, owner_of, root};
use steward_lsm::select::{Purpose, Selected, select};
use steward_lsm::{Instance, ServiceEntity, change};
use uuid::Uuid;

use crate::support::{World, entity, fixture, id, lifecycle, object, paths, service, uplink, vpn};

#[test]
fn ready_made_lifecycles_are_right_and_are_written_as_they_were_read() {
    for (name, record) in object(fixture("lifecycles.json")) {
        let entity = entity(&json!({"name": "s", "lifecycle": record}));
        assert_eq!(entity.lifecycle.name, name);
        let written = serde_json::to_value(&entity).unwrap();
        assert_eq!(ServiceEntity::from_value(&written), Ok(entity), "{name}");
    }
    let written = serde_json::to_value(vpn(true)).unwrap();
    assert_eq!(ServiceEntity::from_value(&written), Ok(vpn(true)));
    let fields = object(written);
    for name in [
        "attributes",
        "embedded_entities",
        "key_attributes",
        "entity_annotations",
        "config",
        "owner",
    ] {
        assert!(fields.contains_key(name), "{name}");
    }
}

/// Given: a record of a definition with wrong types and unknown words. Answer: every field that is wrong, by path.
#[test]
fn a_record_with_mistakes_names_all_of_them() {
    let record = json!({
        "version": -1, "attributes": [{"name": "x", "modifier": "w"}, 5], "embedded_entities": {},
        "config": {"a": 1}, "strict_modifier_enforcement": "yes",
        "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a", "label": "red"}],
            "transfers": [{"source": "a", "target": "a", "auto": 1, "target_operation": "jump"}]},
    });
    let problems = ServiceEntity::from_value(&record).unwrap_err();
    assert_eq!(
        paths(&problems),
        [
            "name",
            "version",
            "attributes[1]",
            "embedded_entities",
            "attributes[0].type",
            "attributes[0].modifier",
            "lifecycle.states[0].label",
            "lifecycle.transfers[0].auto",
            "lifecycle.transfers[0].target_operation",
            "config.a",
            "strict_modifier_enforcement",
        ]
    );
    for wrong in [json!(null), json!([]), json!("x")] {
        assert!(ServiceEntity::from_value(&wrong).is_err());
    }
}

#[test]
fn a_definition_that_makes_no_sense_is_refused_with_all_reasons() {
    let record = json!({
        "name": "s", "strict_modifier_enforcement": true, "service_identity": "x", "relation_to_owner": "r",
        "attributes": [{"name": "x", "type": "int?"}, {"name": "x", "type": "int"}],
        "embedded_entities": [
            {"name": "many", "attributes": [{"name": "k", "type": "int"}]},
            {"name": "keyed", "key_attributes": ["k"], "attributes": [{"name": "k", "type": "int", "modifier": "rw+"}]},
            {"name": "made", "modifier": "r", "upper_limit": 1, "attributes": [{"name": "k", "type": "int"}]},
        ],
        "lifecycle": {
            "name": "l", "initial_state": "nowhere",
            "states": [{"name": "a"}, {"name": "b", "export_resources": true},
                {"name": "end", "deleted": true, "export_resources": true}, {"name": "c"}, {"name": "d"}],
            "transfers": [
                {"source": "a", "target": "b", "auto": true, "target_same_desired_state": true},
                {"source": "a", "target": "gone", "auto": true, "validate": true},
                {"source": "end", "target": "a", "on_delete": true, "config_name": "x"},
                {"source": "b", "target": "b"},
                {"source": "b", "target": "a", "resource_based": true, "on_update": true},
                {"source": "b", "target": "a", "on_delete": true, "validate": true, "error": "b"},
                {"source": "c", "target": "d", "auto": true}, {"source": "d", "target": "c", "auto": true},
            ],
        },
    });
    let problems = ServiceEntity::from_value(&record)
        .unwrap()
        .check()
        .unwrap_err();
    let expected = [
        "x: is there twice",
        "many: has no key_attributes",
        "keyed.k: has the modifier rw+",
        "made.k: has the modifier rw, but must be r",
        "service_identity: is x, which must be",
        "relation_to_owner: and owner are given together",
        "lifecycle.states[name=end]: is deleted, so it can not export",
        "lifecycle.initial_state: is nowhere",
        "lifecycle.transfers[0]: a -> b keeps the desired state, but the states differ in export_resources",
        "lifecycle.transfers[1]: is gone, which is no state",
        "lifecycle.transfers[1]: a -> gone validates, so it needs an error state",
        "lifecycle.transfers[2]: end -> a has a config_name",
        "lifecycle.transfers[2]: end -> a leaves a state in which instances have ended",
        "lifecycle.transfers[3]: b -> b has no trigger",
        "lifecycle.transfers[4]: b -> a is resource_based",
        "lifecycle.transfers[5]: b -> a validates, which only",
        "lifecycle.states[name=a]: is left by 2 transfers auto",
        "lifecycle.states[name=c]: is reached again",
        "lifecycle.states[name=d]: is reached again",
    ];
    for text in expected {
        let found = problems
            .0
            .iter()
            .filter(|one| one.to_string().starts_with(text));
        assert_eq!(found.count(), 1, "{text}\n{problems}");
    }
    assert_eq!(problems.0.len(), expected.len(), "{problems}");
}

fn up() -> Instance {
    let mut world = World::new(uplink("simple"), json!({"mbps": 1}));
    world.validated(true).reported(true);
    world.instance
}

fn with(attributes: Value, identity: Option<&str>) -> ServiceEntity {
    service(
        "simple",
        json!({"attributes": attributes, "service_identity": identity}),
    )
}

//: lsm 13
#[test]
fn an_identity_can_be_added_and_then_stays() {
    let attributes = || json!([{"name": "a", "type": "string"}, {"name": "b", "type": "string"}]);
    let [none, a, b] = [None, Some("a"), Some("b")].map(|one| with(attributes(), one));
    let plan = change::plan(&none, &a).unwrap();
    assert!(plan.adds_identity && plan.concerns_instances() && !plan.rewrites);
    let mut instance = up();
    instance.active_attributes = Some(object(json!({"a": "x", "b": "y"})));
    let named = plan.apply(&instance).unwrap().unwrap();
    assert_eq!(named.service_identity_attribute_value.as_deref(), Some("x"));
    for new in [&b, &none] {
        assert_eq!(
            paths(&change::plan(&a, new).unwrap_err()),
            ["service_identity"]
        );
    }
}

/// What owns an instance is kept beside it, so each is looked at and stored again, though nothing of its record changes.
#[test]
fn instances_are_stored_again_when_their_definition_gets_another_owner() {
    let relation = |name: &str| json!({"name": name, "entity_type": "site", "upper_limit": 1});
    let owned_by = |relation_to_owner: Option<&str>| {
        let fields = json!({
            "attributes": [{"name": "mbps", "type": "int", "modifier": "rw+"}],
            "inter_service_relations": [relation("a"), relation("b")],
            "owner": relation_to_owner.map(|_| "site"),
            "relation_to_owner": relation_to_owner,
        });
        service("simple", fields)
    };
    let mut instance = up();
    instance.active_attributes = Some(object(json!({"mbps": 1, "a": "x", "b": "y"})));
    let [none, a, b] = [None, Some("a"), Some("b")].map(owned_by);
    for (old, new) in [(&none, &a), (&a, &b), (&b, &none)] {
        let plan = change::plan(old, new).unwrap();
        assert!(plan.concerns_instances() && !plan.rewrites);
        assert_eq!(plan.apply(&instance).unwrap().as_ref(), Some(&instance));
    }
    assert!(!change::plan(&a, &a).unwrap().concerns_instances());
}

//: lsm 14
#[test]
fn stored_sets_follow_a_changed_definition_where_they_can() {
    let int = |name: &str| json!({"name": name, "type": "int", "modifier": "rw+"});
    let old = with(json!([int("mbps"), {"name": "vlan", "type": "int?"}]), None);
    let mut instance = up();
    instance.rollback_attributes = Some(object(json!({"mbps": 3, "vlan": 4})));
    let added =
        json!({"name": "mtu", "type": "int", "default_value": 1500, "default_value_set": true});
    let new = with(
        json!([int("mbps"), added, {"name": "note", "type": "string?"}]),
        None,
    );
    let plan = change::plan(&old, &new).unwrap();
    assert!(plan.rewrites);
    let after = plan.apply(&instance).unwrap().unwrap();
    assert_eq!(
        after.active_attributes,
        Some(object(json!({"mbps": 1, "mtu": 1500, "note": null})))
    );
    assert_eq!(
        after.rollback_attributes,
        Some(object(json!({"mbps": 3, "mtu": 1500, "note": null})))
    );
    assert_eq!(
        (after.candidate_attributes, after.version),
        (None, instance.version)
    );
    // Refused: no default; values that do not pass any more; with the instance and the attribute.
    let bound = json!({"gt": 2});
    let tight = json!({"name": "mbps", "type": "int", "validation_type": "pydantic.conint", "validation_parameters": bound});
    let plan = change::plan(&old, &with(json!([tight, int("new")]), None)).unwrap();
    let place = format!("instances[id={}]", instance.id);
    let expected = [
        format!("{place}.active_attributes.new"),
        format!("{place}.active_attributes.mbps"),
        format!("{place}.rollback_attributes.new"),
    ];
    assert_eq!(paths(&plan.apply(&instance).unwrap_err()), expected);
    instance.deleted = true;
    assert!(plan.apply(&instance).is_ok());
}

/// Given: attributes and lists of whole numbers, and definitions by which they are floats, numbers and ints again. Expected: the stored
/// values are of the form of their new type, in all sets.
#[test]
fn values_have_the_form_of_their_new_type() {
    let attributes = |name: &str| {
        with(
            json!([{"name": "speed", "type": name}, {"name": "all", "type": format!("{name}[]")}]),
            None,
        )
    };
    let set = |value: Value| Some(object(json!({"speed": value, "all": [value]})));
    let mut instance = up();
    instance.active_attributes = set(json!(8));
    instance.candidate_attributes = set(json!(9));
    instance.rollback_attributes = None;
    let plan = change::plan(&attributes("int"), &attributes("float")).unwrap();
    let floats = plan.apply(&instance).unwrap().unwrap();
    assert_eq!(floats.active_attributes, set(json!(8.0)));
    assert_eq!(floats.candidate_attributes, set(json!(9.0)));
    let plan = change::plan(&attributes("float"), &attributes("number")).unwrap();
    assert_eq!(plan.apply(&floats).unwrap(), None);
    let plan = change::plan(&attributes("float"), &attributes("int")).unwrap();
    assert_eq!(
        plan.apply(&floats).unwrap().unwrap().active_attributes,
        instance.active_attributes
    );
}

/// Given: a set that an expert left without an attribute and with a wrong value. Expected: a definition that changes something else
/// is not refused for it, and the set is as incomplete as before.
#[test]
fn what_an_expert_left_incomplete_holds_up_no_definition() {
    let text = json!({"name": "site", "type": "string"});
    let int = json!({"name": "mbps", "type": "int", "modifier": "rw+"});
    let old = with(json!([text, int]), None);
    let mut instance = up();
    instance.active_attributes = Some(object(json!({"site": "a", "mbps": 1})));
    instance.candidate_attributes = Some(object(json!({"mbps": "fast"})));
    let added = json!({"name": "note", "type": "string?"});
    let tight = json!({"name": "mbps", "type": "number", "modifier": "rw+"});
    let plan = change::plan(&old, &with(json!([text, tight, added]), None)).unwrap();
    assert!(plan.rewrites && plan.checks);
    let after = plan.apply(&instance).unwrap().unwrap();
    assert_eq!(
        after.candidate_attributes,
        Some(object(json!({"mbps": "fast", "note": null})))
    );
    // What is wrong by the new definition alone is still refused.
    instance.active_attributes = Some(object(json!({"site": "a", "mbps": 1})));
    let bool = json!({"name": "mbps", "type": "bool", "modifier": "rw+"});
    let plan = change::plan(&old, &with(json!([text, bool]), None)).unwrap();
    let place = format!("instances[id={}].active_attributes.mbps", instance.id);
    assert_eq!(paths(&plan.apply(&instance).unwrap_err()), [place]);
}

/// Given: elements with a key that lack a new attribute without a default, in three sets. Expected: each element of each set is
/// named once, by its own path.
#[test]
fn what_elements_lack_is_named_once_for_each() {
    let name = json!({"name": "name", "type": "string"});
    let entity_with = |attributes: Value| {
        let sites = json!([{"name": "sites", "lower_limit": 0, "attributes": attributes, "key_attributes": ["name"]}]);
        let mut record =
            json!({"name": "link", "lifecycle": lifecycle("simple"), "embedded_entities": sites});
        record["attributes"] = json!([{"name": "note", "type": "string?"}]);
        entity(&record)
    };
    let old = entity_with(json!([name]));
    let new = entity_with(json!([name, {"name": "vlan", "type": "int"}]));
    let mut instance = up();
    let sites = object(json!({"note": null, "sites": [{"name": "a"}, {"name": "b"}]}));
    instance.active_attributes = Some(sites.clone());
    instance.candidate_attributes = Some(sites);
    let problems = change::plan(&old, &new)
        .unwrap()
        .apply(&instance)
        .unwrap_err();
    let place = format!("instances[id={}]", instance.id);
    let mut expected = Vec::new();
    for set in ["candidate", "active"] {
        for site in ["a", "b"] {
            expected.push(format!("{place}.{set}_attributes.sites[name={site}].vlan"));
        }
    }
    assert_eq!(paths(&problems), expected);
}

#[test]
fn changes_of_transfers_touch_no_instance_and_a_state_that_is_needed_stays() {
    let old = uplink("simple");
    let mut new = old.clone();
    new.lifecycle
        .transfers
        .retain(|transfer| !transfer.on_delete);
    new.lifecycle.states[4].label = None;
    new.description = Some("new".to_owned());
    assert!(!change::plan(&old, &new).unwrap().concerns_instances());
    new.lifecycle.states.retain(|state| state.name != "up");
    let plan = change::plan(&old, &new).unwrap();
    assert_eq!(plan.removed_states, ["up"]);
    let mut instance = up();
    let problems = plan.apply(&instance).unwrap_err();
    assert_eq!(
        paths(&problems),
        [format!("instances[id={}].state", instance.id)]
    );
    instance.state = "failed".to_owned();
    assert_eq!(plan.apply(&instance), Ok(None));
}

//: lsm 15
#[test]
fn a_published_version_stays_as_it_is() {
    let version = |number: u64, display_name: &str| {
        let mut entity = uplink("simple");
        entity.version = number;
        entity.service_identity_display_name = Some(display_name.to_owned());
        entity
    };
    let [zero, one, two] = [0, 1, 2].map(|number| version(number, "a"));
    let added =
        change::versions(std::slice::from_ref(&zero), &[zero.clone(), one.clone()], 1).unwrap();
    assert_eq!(
        (added.added, added.removed, added.updated),
        (vec![1], vec![], None)
    );
    // The only version, if it is 0, is changed in place.
    let updated = change::versions(std::slice::from_ref(&zero), &[version(0, "b")], 0).unwrap();
    assert!(updated.updated.is_some());
    let both = [zero.clone(), one.clone()];
    let changed = change::versions(&both, &[zero, version(1, "b"), two.clone(), two], 7);
    assert_eq!(
        paths(&changed.unwrap_err()),
        ["default_version", "versions[1]", "versions[3]"]
    );
    let changed = change::versions(&both, &[version(0, "b"), one.clone()], 1);
    assert_eq!(paths(&changed.unwrap_err()), ["versions[0]"]);
    assert_eq!(change::versions(&both, &[one], 1).unwrap().removed, [0]);
}

#[test]
fn a_published_version_may_be_described_in_other_words() {
    let versions = [0, 1].map(|number| ServiceEntity {
        version: number,
        ..vpn(true)
    });
    let mut described = versions.clone();
    for entity in &mut described {
        let text = Some("in other words".to_owned());
        entity.description.clone_from(&text);
        entity.fields.attributes[0].description.clone_from(&text);
        let embedded = &mut entity.fields.embedded_entities[0];
        embedded.description.clone_from(&text);
        embedded.fields.attributes[0].description = text;
    }
    assert_ne!(versions, described);
    let changed = change::versions(&versions, &described, 0).unwrap();
    assert_eq!(
        (changed.added, changed.removed, changed.updated),
        (vec![], vec![], None)
    );
}

//: lsm 54, 55, 56
#[test]
fn the_state_of_an_instance_says_with_which_set_it_takes_part() {
    // Source: the worked example of docs/reference/lsm.md § 3.3.
    let services = ["simple", "service", "simple_with_delete_validate"].map(uplink);
    let instances = [
        ("up", 0, "∅ a ∅"),
        ("update_start", 0, "c a ∅"),
        ("designed", 1, "c ∅ ∅"),
        ("start", 0, "c ∅ ∅"),
        ("delete_validating_up", 2, "∅ a ∅"),
    ];
    let made = |at: usize| {
        let (state, service, sets) = instances[at];
        let mut instance = up();
        instance.id = id(at as u128);
        instance.state = state.to_owned();
        for (name, text) in SetName::ALL.into_iter().zip(sets.split(' ')) {
            *instance.set_mut(name) = (text != "∅").then(|| object(json!({"set": text})));
        }
        (&services[service], instance)
    };
    let rows = [
        (Purpose::Production, "active active - - active"),
        (
            Purpose::Validation(id(1)),
            "active candidate candidate - active",
        ),
        (
            Purpose::Validation(id(3)),
            "active active candidate candidate active",
        ),
        (Purpose::Validation(id(4)), "active active candidate - -"),
        (Purpose::Definitions, "- - - - -"),
    ];
    for (purpose, expected) in rows {
        let found = (0..instances.len()).map(|at| {
            let (entity, instance) = made(at);
            match select(entity, &instance, purpose, None).unwrap() {
                Selected::With(set, _) => set.as_str(),
                Selected::Excluded => "-",
                Selected::Lacks(_) => "lacks",
            }
        });
        assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{purpose:?}");
    }
    let (entity, mut instance) = made(1);
    instance.candidate_attributes = None;
    assert!(select(entity, &instance, Purpose::Validation(id(1)), None).is_err());
    instance.active_attributes = None;
    let lacks = select(entity, &instance, Purpose::Production, None);
    assert_eq!(lacks, Ok(Selected::Lacks(SetName::Active)));
    let outside = [id(2)].into();
    let found = select(entity, &instance, Purpose::Production, Some(&outside));
    assert_eq!(found, Ok(Selected::Excluded));
}

/// Sites own links, which own ends.
struct Sites(BTreeMap<Uuid, Instance>);

impl Inventory for Sites {
    fn instance(&self, id: Uuid) -> Option<&Instance> {
        self.0.get(&id)
    }

    fn owner(&self, service: &str) -> Option<Owner> {
        let owner = |service: &str| Owner {
            service: service.to_owned(),
            relation: "up".to_owned(),
        };
        match service {
            "link" => Some(owner("site")),
            "end" => Some(owner("link")),
            _ => None,
        }
    }

    fn owned(&self, owner: &Instance) -> Vec<Uuid> {
        let below = |one: &&Instance| owner_of(one, "up") == Some(owner.id);
        self.0.values().filter(below).map(|one| one.id).collect()
    }
}

//: lsm 89, 90
#[test]
fn a_child_brings_its_root_and_all_that_the_root_owns_and_nothing_else() {
    let rows = [
        (1, "site", 0),
        (2, "site", 0),
        (11, "link", 1),
        (12, "link", 1),
        (21, "link", 2),
        (111, "end", 11),
        (9, "end", 9),
        (8, "link", 404),
    ];
    let instances = rows.map(|(number, service, owner)| {
        let mut instance = up();
        instance.id = id(number);
        instance.service_entity = service.to_owned();
        let set = object(json!({"up": id(owner).to_string()}));
        // The newest set that has anything in it says who owns it.
        let is_newer = number == 12;
        instance.candidate_attributes = is_newer.then(|| set.clone());
        instance.active_attributes = Some(if is_newer {
            object(json!({"up": "x"}))
        } else {
            set
        });
        (instance.id, instance)
    });
    let sites = Sites(instances.into());
    let expect = |requested: &[u128], expected: &[u128]| {
        let requested: Vec<Uuid> = requested.iter().map(|number| id(*number)).collect();
        let expected = expected.iter().map(|number| id(*number)).collect();
        assert_eq!(group(&sites, &requested), Ok(expected));
    };
    expect(&[111], &[1, 11, 12, 111]);
    expect(&[12, 1], &[1, 11, 12, 111]);
    expect(&[2, 12], &[1, 2, 11, 12, 21, 111]);
    assert_eq!(root(&sites, id(111)), Ok(id(1)));
    for (number, reason) in [(9, "circle"), (8, "leads to none"), (404, "there is no")] {
        let error = root(&sites, id(number)).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn states_in_which_instances_wait_are_known() {
    let entity = entity(&json!({"name": "s", "lifecycle": lifecycle("simple")}));
    let expected = [
        "acknowledged",
        "start",
        "update_acknowledged",
        "update_acknowledged_failed",
        "update_start",
        "update_start_failed",
    ];
    assert_eq!(
        steward_lsm::lifecycle::auto_states(&entity.lifecycle),
        expected
    );
}

/// A definition whose lifecycle has these states and transfers.
fn with_lifecycle(n_states: usize, transfers: Vec<Value>) -> Value {
    let states: Vec<Value> = (0..n_states)
        .map(|state| json!({"name": format!("s{state}"), "label": "info"}))
        .collect();
    json!({"name": "s", "lifecycle": {
        "name": "l", "initial_state": "s0", "states": states, "transfers": transfers,
    }})
}

/// Ways through 8 states in which each state has one auto transfer at most. Expected: what is refused are the states that come
/// back to themselves, as found by following each of them.
#[test]
fn circles_of_auto_transfers_are_found_from_each_of_their_states() {
    const STATES: u64 = 8;
    let mut seed = 1_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    let mut n_endless = 0;
    for round in 0..500 {
        let mut next = Vec::new();
        let mut transfers = Vec::new();
        for state in 0..STATES {
            let (kind, target) = (random(6), random(STATES));
            let name = |state: u64| format!("s{state}");
            let mut one = json!({"source": name(state), "target": name(target), "auto": true});
            match kind {
                0 => {
                    next.push(None);
                    continue;
                }
                1 => {
                    one["validate"] = true.into();
                    one["error"] = name(0).into();
                }
                2 => one["config_name"] = "switch".into(),
                _ => {}
            }
            // One that stays where it is does nothing.
            let is_free = kind > 2 && target != state;
            next.push(is_free.then_some(target));
            transfers.push(one);
        }
        let comes_back = |state: u64| {
            let mut at = next[state as usize];
            for _ in 0..STATES {
                match at {
                    Some(now) if now == state => return true,
                    Some(now) => at = next[now as usize],
                    None => return false,
                }
            }
            false
        };
        let expected = (0..STATES).filter(|state| comes_back(*state));
        let expected: Vec<String> = expected
            .map(|state| format!("lifecycle.states[name=s{state}]"))
            .collect();
        n_endless += expected.len();
        let record = with_lifecycle(STATES as usize, transfers);
        let checked = ServiceEntity::from_value(&record).unwrap().check();
        let found = checked.err().map_or_else(Vec::new, |problems| {
            paths(&problems).into_iter().map(str::to_owned).collect()
        });
        assert_eq!(found, expected, "round {round}: {record}");
    }
    assert!(n_endless > 100, "{n_endless}");
}

/// Input: a lifecycle of thousands of states, in a row by auto transfers, as a model or a client of the catalog may send it
/// (docs/reference/security.md § 3.42). Answer: it is refused by its size; the largest that is not is checked at once.
#[test]
fn a_lifecycle_has_a_thousand_states_at_most() {
    let in_a_row = |n_states: usize| {
        let transfers = (1..n_states).map(|state| {
            json!({"source": format!("s{}", state - 1), "target": format!("s{state}"), "auto": true})
        });
        let record = with_lifecycle(n_states, transfers.collect());
        ServiceEntity::from_value(&record).unwrap().check()
    };
    assert_eq!(in_a_row(1000), Ok(()));
    assert_eq!(paths(&in_a_row(1001).unwrap_err()), ["lifecycle.states"]);
    let many = (0..10_001).map(|_| json!({"source": "s0", "target": "s1", "on_update": true}));
    let record = with_lifecycle(2, many.collect());
    let problems = ServiceEntity::from_value(&record).unwrap().check();
    assert_eq!(paths(&problems.unwrap_err()), ["lifecycle.transfers"]);
}

#[test]
fn the_name_of_a_service_can_stand_in_a_url() {
    let named = |name: &str| {
        let mut record = with_lifecycle(1, Vec::new());
        record["name"] = name.into();
        ServiceEntity::from_value(&record).unwrap().check()
    };
    for good in ["vpn", "module::Vpn", "a link, 10G", "größe"] {
        assert_eq!(named(good), Ok(()), "{good}");
    }
    for bad in ["a/../b", "a\0b", "a\n", " ", ".", "..", &"x".repeat(257)] {
        assert_eq!(paths(&named(bad).unwrap_err()), ["name"], "{bad:?}");
    }
}
