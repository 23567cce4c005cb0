//! What clients and compiles may write: every offending field in one answer, by path.

use serde_json::{Value, json};
use steward_lsm::lifecycle::{Change, Edit, EditOperation};
use steward_lsm::{Attributes, Problems, attributes};

use crate::support::{edit, id, object, paths, vpn};

fn router() -> String {
    id(7).to_string()
}

fn site(name: &str) -> Value {
    json!({"name": name, "router": router()})
}

fn ordered() -> Value {
    json!({"customer": "ABC12", "sites": [site("ams"), {
        "name": "bru", "router": router(),
        "peers": [{"address": "10.0.0.1", "remote_as": 65000}],
    }]})
}

/// What is stored after the first validation: with values of allocators.
fn stored() -> Attributes {
    let mut stored = attributes::create(&vpn(true), object(ordered())).unwrap();
    stored.insert("route_target".to_owned(), json!(100));
    for (at, vlan) in [(0, 10), (1, 20)] {
        stored["sites"][at]["vlan"] = json!(vlan);
    }
    stored
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Problems>, expected: &[&str]) {
    let problems = result.unwrap_err();
    assert_eq!(paths(&problems), expected, "{problems}");
}

fn edits(edits: Vec<Edit>) -> Change {
    Change::Edits(edits)
}

fn replace(attributes: Value, ignore_read_only: bool) -> Change {
    Change::Replace {
        attributes: object(attributes),
        ignore_read_only,
    }
}

//: lsm 21
#[test]
fn what_is_missing_is_filled_in_at_every_level() {
    let made = attributes::create(&vpn(true), object(ordered())).unwrap();
    assert_eq!(
        Value::Object(made),
        json!({
            "customer": "ABC12", "route_target": null, "note": null, "tags": [], "backups": [], "contact": null,
            "sites": [
                {"name": "ams", "routing": "static", "vlan": null, "router": router(), "peers": []},
                {"name": "bru", "routing": "static", "vlan": null, "router": router(),
                 "peers": [{"address": "10.0.0.1", "remote_as": 65000}]},
            ],
        })
    );
}

//: lsm 20, 21, 24, 27
/// Given: attributes of a new instance that are unknown, missing, of wrong types, or not for clients. Answer: 400 with the path of each.
#[test]
fn everything_that_is_wrong_with_a_new_instance_is_in_one_answer() {
    let given = json!({
        "customer": "abc", "route_target": 5, "tags": ["a", 1], "nothing": 1,
        "sites": [
            {"name": "a.b", "routing": "rip", "vlan": 9, "router": "r1", "colour": "red",
             "peers": [{"address": "10.0.0", "remote_as": 0}, {"remote_as": true}]},
            {"routing": 5, "router": router()},
            {"name": "x", "router": router()},
            {"name": "x", "router": router()},
        ],
        "contact": [], "backups": [router(), router(), 5],
    });
    refused(
        attributes::create(&vpn(true), object(given)),
        &[
            "nothing",
            r"sites[name=a\.b].colour",
            "route_target",
            r"sites[name=a\.b].vlan",
            "customer",
            "tags[1]",
            "backups[1]",
            "backups[2]",
            "backups",
            "sites",
            r"sites[name=a\.b].routing",
            r"sites[name=a\.b].router",
            r"sites[name=a\.b].peers[address=10\.0\.0].address",
            r"sites[name=a\.b].peers[address=10\.0\.0].remote_as",
            r"sites[name=a\.b].peers[1].address",
            r"sites[name=a\.b].peers[1].remote_as",
            "sites[1].name",
            "sites[1].routing",
            "sites[name=x]",
            "contact",
        ],
    );
}

//: lsm 24
#[test]
fn a_value_that_can_not_be_says_why() {
    let site = |fields: Value| {
        let mut site = site("a");
        site.as_object_mut().unwrap().extend(object(fields));
        json!({"sites": [site]})
    };
    let cases = [
        (
            json!({"customer": "abc"}),
            "customer: must match /^[A-Z]{3}[0-9]{2}$/",
        ),
        (
            json!({"customer": 5}),
            "customer: must be string, not a number",
        ),
        (
            json!({"tags": ["a", null]}),
            "tags[1]: must be string, not null",
        ),
        (
            site(json!({"routing": "rip"})),
            r#"sites[name=a].routing: must be one of "static", "bgp""#,
        ),
        (
            site(json!({"peers": [{"address": "1.2.3.4", "remote_as": 0}]})),
            r"sites[name=a].peers[address=1\.2\.3\.4].remote_as: must be at least 1 and must be at most 4294967295",
        ),
        (
            json!({"sites": []}),
            "sites: has 0 elements: at least 1 are needed",
        ),
    ];
    for (change, expected) in cases {
        let mut given = object(ordered());
        given.extend(object(change));
        let problems = attributes::create(&vpn(true), given).unwrap_err();
        assert_eq!(problems.to_string(), expected);
    }
}

#[test]
fn numbers_bools_and_texts_are_not_taken_for_one_another() {
    let cases = [
        (
            "int",
            json!([1, 1.0, -5, u64::MAX]),
            json!([true, "1", 1.5, null, [], {}]),
        ),
        ("number", json!([1, 1.5]), json!([true, "1", null])),
        ("bool", json!([true, false]), json!([0, 1, "true", null])),
        ("string", json!(["", "1"]), json!([1, true, null, []])),
        ("dict", json!([{}]), json!([[], "a", null])),
        ("list", json!([[], [1, "a"]]), json!([{}, "a", null])),
        ("int?", json!([1, null]), json!(["1"])),
        (
            "int[]",
            json!([[], [1, 2]]),
            json!([1, null, [null], ["1"]]),
        ),
        ("int?[]?", json!([null, [null, 1]]), json!([["1"]])),
    ];
    for (name, good, wrong) in cases {
        let record = json!({"name": "s", "attributes": [{"name": "x", "type": name}],
            "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a"}]}});
        let entity = crate::support::entity(&record);
        let create = |value: &Value| attributes::create(&entity, object(json!({"x": value})));
        for value in good.as_array().unwrap() {
            assert!(create(value).is_ok(), "{name} {value}");
        }
        for value in wrong.as_array().unwrap() {
            assert!(create(value).is_err(), "{name} {value}");
        }
    }
}
/// Given: numbers and ids as different clients write them, at every level. Expected: one form is stored, whatever way they came.
#[test]
fn numbers_and_ids_have_one_form() {
    let plain = |name: &str, kind: &str, modifier: &str| json!({"name": name, "type": kind, "modifier": modifier});
    let record = json!({
        "name": "s", "service_identity": "number", "strict_modifier_enforcement": true,
        "attributes": [plain("number", "int", "rw"), plain("share", "float?", "rw+"), plain("shares", "float[]", "rw+"), plain("any", "number", "rw+")],
        "inter_service_relations": [
            {"name": "one", "entity_type": "s", "lower_limit": 0, "upper_limit": 1, "modifier": "rw+"},
            {"name": "all", "entity_type": "s", "lower_limit": 0, "modifier": "rw+"},
        ],
        "embedded_entities": [{
            "name": "parts", "lower_limit": 0, "modifier": "rw+", "key_attributes": ["at"],
            "attributes": [plain("at", "int", "rw")],
        }],
        "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a"}], "transfers": []},
    });
    let entity = crate::support::entity(&record);
    let (id, other) = (id(0xabc), id(0xdef));
    let given = json!({
        "number": 5.0, "share": 3, "shares": [1, 2.5], "any": 4.0,
        "one": id.to_string().to_uppercase(), "all": [other.simple().to_string()], "parts": [{"at": 7.0}],
    });
    let made = attributes::create(&entity, object(given)).unwrap();
    let expected = r#"{"number":5,"share":3.0,"shares":[1.0,2.5],"any":4.0,"#.to_owned()
        + &format!(r#""one":"{id}","all":["{other}"],"parts":[{{"at":7}}]}}"#);
    assert_eq!(serde_json::to_string(&made).unwrap(), expected);
    assert_eq!(attributes::identity(&entity, &made).unwrap(), "5");
    // The same with other spellings is no change, and an edit is written like the rest.
    let shouted = json!(id.to_string().to_uppercase());
    let change = edits(vec![
        edit(EditOperation::Replace, "share", json!(8)),
        edit(EditOperation::Replace, "one", shouted),
    ]);
    let updated = attributes::update(&entity, &made, &change).unwrap();
    assert_eq!(
        serde_json::to_string(&updated).unwrap(),
        expected.replace("3.0", "8.0")
    );
    // A number that no integer of this size is stays what it is, for the compile to judge.
    let huge = json!({"number": 1e300, "shares": [], "any": 1});
    let made = attributes::create(&entity, object(huge)).unwrap();
    assert_eq!(made["number"], json!(1e300));
}

#[test]
fn one_of_several_validations_is_enough_and_unknown_ones_are_left_to_compiles() {
    let choices = json!([
        {"validation_type": "pydantic.conint", "validation_parameters": {"lt": 5}},
        {"validation_type": "pydantic.conint", "validation_parameters": {"gt": 10}},
    ]);
    let record = json!({"name": "s", "attributes": [
        {"name": "x", "type": "int[]", "validation_type": "steward.any_of[]", "validation_parameters": {"any_of": choices}},
        {"name": "y", "type": "string?", "validation_type": "mine.Own?"},
    ], "lifecycle": {"name": "l", "initial_state": "a", "states": [{"name": "a"}]}});
    let entity = crate::support::entity(&record);
    let create = |x: Value| attributes::create(&entity, object(json!({"x": x, "y": "?"})));
    assert!(create(json!([1, 11])).is_ok());
    // Every element that is wrong is named, whatever is wrong with it.
    let problems = create(json!([1, 7, "a"])).unwrap_err();
    assert_eq!(
        problems.to_string(),
        "x[1]: must be less than 5, or must be more than 10; x[2]: must be int, not a string"
    );
}

//: lsm 22, 23, 25
#[test]
fn an_update_changes_what_may_change_and_names_all_that_may_not() {
    let entity = vpn(true);
    let good = edits(vec![
        edit(EditOperation::Replace, "note", json!("new")),
        edit(
            EditOperation::Replace,
            "sites[name=ams].routing",
            json!("bgp"),
        ),
        edit(
            EditOperation::Replace,
            r"sites[name=bru].peers[address=10\.0\.0\.1].remote_as",
            json!(5),
        ),
        edit(
            EditOperation::Replace,
            "backups",
            json!([id(8).to_string()]),
        ),
        // Unchanged values are no changes.
        edit(EditOperation::Replace, "route_target", json!(100)),
    ]);
    let after = attributes::update(&entity, &stored(), &good).unwrap();
    assert_eq!(after["sites"][0]["routing"], "bgp");
    assert_eq!(after["sites"][0]["vlan"], 10);
    assert_eq!(after["sites"][1]["peers"][0]["remote_as"], 5);
    let wrong = edits(vec![
        edit(EditOperation::Replace, "customer", json!("XYZ99")),
        edit(EditOperation::Replace, "route_target", json!(101)),
        edit(EditOperation::Replace, "sites[name=ams].vlan", json!(11)),
        edit(
            EditOperation::Replace,
            "sites[name=ams].router",
            json!(id(8).to_string()),
        ),
        edit(EditOperation::Merge, "contact", json!({"mail": "a@b"})),
        edit(
            EditOperation::Replace,
            "sites[name=bru].routing",
            json!("rip"),
        ),
    ]);
    refused(
        attributes::update(&entity, &stored(), &wrong),
        &[
            "customer",
            "route_target",
            "sites[name=ams].vlan",
            "sites[name=ams].router",
            "contact",
            "sites[name=bru].routing",
        ],
    );
    let removed = edits(vec![edit(
        EditOperation::Remove,
        "route_target",
        Value::Null,
    )]);
    refused(
        attributes::update(&entity, &stored(), &removed),
        &["route_target"],
    );
}

//: lsm 26, 27, 105
#[test]
fn elements_come_and_go_under_rw_plus_with_all_that_they_need() {
    let entity = vpn(true);
    let change = edits(vec![
        edit(
            EditOperation::Merge,
            "sites",
            json!([{"name": "ams", "routing": "bgp"}, site("cdg")]),
        ),
        edit(EditOperation::Remove, "sites[name=bru]", Value::Null),
        edit(EditOperation::Remove, "sites[name=gone]", Value::Null),
        edit(EditOperation::Remove, "note", Value::Null),
    ]);
    let after = attributes::update(&entity, &stored(), &change).unwrap();
    let sites = json!([
        {"name": "ams", "routing": "bgp", "vlan": 10, "router": router(), "peers": []},
        {"name": "cdg", "routing": "static", "vlan": null, "router": router(), "peers": []},
    ]);
    assert_eq!((&after["sites"], &after["note"]), (&sites, &Value::Null));
    // A new element gets no value that only allocators give, and keys stay unique.
    let mut allocated = site("cdg");
    allocated["vlan"] = json!(5);
    let change = edits(vec![edit(EditOperation::Add, "sites", allocated)]);
    refused(
        attributes::update(&entity, &stored(), &change),
        &["sites[name=cdg].vlan"],
    );
    let twice = edits(vec![edit(EditOperation::Add, "sites", site("ams"))]);
    refused(
        attributes::update(&entity, &stored(), &twice),
        &["edit[edit_id=sites/Add]"],
    );
    let many = edits(vec![edit(
        EditOperation::Merge,
        "sites",
        json!([site("1"), site("2")]),
    )]);
    refused(attributes::update(&entity, &stored(), &many), &["sites"]);
    // Another name is another element: the old one goes, with what it had.
    let renamed = edits(vec![edit(
        EditOperation::Replace,
        "sites[name=ams].name",
        json!("lhr"),
    )]);
    refused(
        attributes::update(&entity, &stored(), &renamed),
        &["sites[name=lhr].vlan"],
    );
}

//: lsm 26
#[test]
fn what_only_compiles_set_is_not_removed_by_an_edit_at_any_depth() {
    let removed = |targets: &[&str]| {
        let removal = |target: &&str| edit(EditOperation::Remove, target, Value::Null);
        let change = edits(targets.iter().map(removal).collect());
        attributes::update(&vpn(true), &stored(), &change)
    };
    let targets = ["route_target", "sites[name=ams].vlan"];
    refused(removed(&targets), &targets);
    // An element goes with what it has, and what may be changed may go.
    assert!(removed(&["sites[name=bru]", "note"]).is_ok());
    // Where nothing is set there is nothing to keep.
    let mut unset = stored();
    unset["sites"][0]["vlan"] = Value::Null;
    let change = edits(vec![edit(
        EditOperation::Remove,
        "sites[name=ams].vlan",
        Value::Null,
    )]);
    let written = attributes::update(&vpn(true), &unset, &change).unwrap();
    assert_eq!(written["sites"][0]["vlan"], Value::Null);
    // A relation that only compiles fill stays as a whole, too.
    let mut entity = vpn(true);
    entity.fields.embedded_entities[0].modifier = steward_lsm::definition::Modifier::ReadOnly;
    let change = edits(vec![edit(EditOperation::Remove, "sites", Value::Null)]);
    refused(attributes::update(&entity, &stored(), &change), &["sites"]);
}

//: lsm 26
#[test]
fn elements_under_rw_stay() {
    let mut entity = vpn(true);
    entity.fields.embedded_entities[0].modifier = steward_lsm::definition::Modifier::AtCreation;
    let change = edits(vec![
        edit(EditOperation::Add, "sites", site("cdg")),
        edit(EditOperation::Remove, "sites[name=bru]", Value::Null),
        edit(
            EditOperation::Replace,
            "sites[name=ams].routing",
            json!("bgp"),
        ),
    ]);
    refused(
        attributes::update(&entity, &stored(), &change),
        &["sites[name=cdg]", "sites[name=bru]"],
    );
    let change = edits(vec![edit(
        EditOperation::Replace,
        "sites[name=ams].routing",
        json!("bgp"),
    )]);
    assert!(attributes::update(&entity, &stored(), &change).is_ok());
}

//: lsm 28
#[test]
fn without_strict_modifiers_only_the_top_counts() {
    let mut entity = vpn(false);
    let merge = |value: Value| Change::Merge(object(value));
    let mut sites = stored()["sites"].clone();
    sites[0]["vlan"] = json!(99);
    sites[1]["router"] = json!(id(9).to_string());
    let change = merge(json!({"sites": sites}));
    let after = attributes::update(&entity, &stored(), &change).unwrap();
    assert_eq!(
        (&after["sites"][0]["vlan"], &after["customer"]),
        (&json!(99), &json!("ABC12"))
    );
    entity.fields.embedded_entities[0].modifier = steward_lsm::definition::Modifier::AtCreation;
    refused(attributes::update(&entity, &stored(), &change), &["sites"]);
    refused(
        attributes::update(&entity, &stored(), &merge(json!({"route_target": 1}))),
        &["route_target"],
    );
    // Each kind of service has its own kind of update.
    for (entity, change) in [
        (vpn(false), edits(Vec::new())),
        (vpn(false), replace(json!({}), true)),
        (vpn(true), merge(json!({}))),
    ] {
        refused(attributes::update(&entity, &stored(), &change), &[""]);
    }
}

//: lsm 102
#[test]
fn a_whole_update_keeps_what_is_read_only() {
    let entity = vpn(true);
    let mut given = ordered();
    given["note"] = json!("n");
    // Nothing read-only is given: it stays.
    let after = attributes::update(&entity, &stored(), &replace(given.clone(), false)).unwrap();
    let mut expected = stored();
    expected.insert("note".to_owned(), json!("n"));
    assert_eq!(after, expected);
    // Given and different: refused, or dropped.
    given["route_target"] = json!(7);
    given["sites"][0]["vlan"] = json!(7);
    let change = replace(given.clone(), false);
    refused(
        attributes::update(&entity, &stored(), &change),
        &["route_target", "sites[name=ams].vlan"],
    );
    let after = attributes::update(&entity, &stored(), &replace(given.clone(), true)).unwrap();
    assert_eq!(after, expected);
    // What is not given gets its default.
    given.as_object_mut().unwrap().remove("note");
    let after = attributes::update(&entity, &expected, &replace(given, true)).unwrap();
    assert_eq!(after["note"], Value::Null);
}

#[test]
fn an_edit_that_can_not_be_done_is_named_and_the_others_are_looked_at() {
    let one = |id: &str, operation, target: &str, value| Edit {
        edit_id: id.to_owned(),
        operation,
        target: target.to_owned(),
        value,
    };
    let change = edits(vec![
        one("1", EditOperation::Replace, "sites[name=*].vlan", json!(1)),
        one("2", EditOperation::Remove, ".", Value::Null),
        one("3", EditOperation::Replace, "note.text", json!(1)),
        one("4", EditOperation::Merge, "sites", json!({"name": "ams"})),
        one("4", EditOperation::Add, "customer", json!("x")),
        one("6", EditOperation::Replace, "note", json!(1)),
    ]);
    refused(
        attributes::update(&vpn(true), &stored(), &change),
        &[
            "edit[edit_id=1]",
            "edit[edit_id=2]",
            "edit[edit_id=3]",
            "edit[edit_id=4]",
            "edit[edit_id=4]",
            "edit[edit_id=4]",
            "note",
        ],
    );
}

#[test]
fn compiles_write_what_is_read_only_and_nothing_else() {
    let entity = vpn(true);
    let write = |edits: &[Edit]| attributes::write(&entity, &stored(), edits, &[]);
    let after = write(&[
        edit(EditOperation::Replace, "route_target", json!(5)),
        edit(EditOperation::Replace, "sites[name=ams].vlan", json!(6)),
        edit(
            EditOperation::Merge,
            "sites",
            json!([{"name": "bru", "vlan": 7}]),
        ),
    ]);
    let after = after.unwrap();
    assert_eq!(
        (
            &after["route_target"],
            &after["sites"][0]["vlan"],
            &after["sites"][1]["vlan"]
        ),
        (&json!(5), &json!(6), &json!(7))
    );
    for (operation, target, value) in [
        (EditOperation::Replace, "customer", json!("XYZ99")),
        (
            EditOperation::Replace,
            "sites[name=ams].routing",
            json!("bgp"),
        ),
        (
            EditOperation::Replace,
            "sites[name=ams]",
            json!({"vlan": 1}),
        ),
        (EditOperation::Remove, "sites[name=ams]", Value::Null),
        (
            EditOperation::Merge,
            "sites",
            json!([{"name": "bru", "routing": "bgp"}]),
        ),
        (EditOperation::Merge, ".", json!({"customer": "XYZ99"})),
    ] {
        assert!(
            write(&[edit(operation, target, value)]).is_err(),
            "{target}"
        );
    }
}

/// Given: values of a compile for an element that there is not, for one that the client has removed and another set still has, and
/// of wrong types. Expected: the first and the last are refused with their paths; the second is left out, and the rest is written.
#[test]
fn compiles_make_no_elements_of_clients_and_write_values_of_their_types() {
    let entity = vpn(true);
    let without = |name: &str| {
        let mut set = stored();
        let sites = set["sites"].as_array_mut().unwrap();
        sites.retain(|site| site["name"] != name);
        set
    };
    let vlan = |name: &str, value: Value| {
        let target = format!("sites[name={name}].vlan");
        edit(EditOperation::Replace, &target, value)
    };
    let before = stored();
    let write = |edits: &[Edit]| attributes::write(&entity, &without("bru"), edits, &[&before]);
    let after = write(&[vlan("ams", json!(6)), vlan("bru", json!(7))]).unwrap();
    assert_eq!(after["sites"].as_array().unwrap().len(), 1);
    assert_eq!(after["sites"][0]["vlan"], 6);
    let problems = write(&[vlan("nowhere", json!(6))]).unwrap_err();
    assert!(
        problems.to_string().contains("there is no such element"),
        "{problems}"
    );
    let merged = edit(
        EditOperation::Merge,
        "sites",
        json!([{"name": "nowhere", "vlan": 7}]),
    );
    assert!(write(&[merged]).is_err());
    for (target, value) in [
        ("route_target", json!("five")),
        ("route_target", json!({"a": 1})),
        ("sites[name=ams].vlan", json!("six")),
    ] {
        let problems = write(&[edit(EditOperation::Replace, target, value.clone())]).unwrap_err();
        let (path, _) = target.split_once('[').unwrap_or((target, ""));
        assert!(problems.to_string().contains(path), "{value}: {problems}");
    }
    // One form is stored.
    let after = write(&[vlan("ams", json!(6.0))]).unwrap();
    assert_eq!(after["sites"][0]["vlan"], json!(6));
}

#[test]
fn references_to_other_instances_are_named_with_their_places() {
    let mut set = stored();
    set["backups"] = json!([id(8).to_string()]);
    let found = attributes::references(&vpn(true), &set);
    let found: Vec<_> = found
        .iter()
        .map(|one| (one.path.as_str(), one.service_entity.as_str(), one.id))
        .collect();
    let expected = [
        ("backups", "vpn", id(8)),
        ("sites[name=ams].router", "router", id(7)),
        ("sites[name=bru].router", "router", id(7)),
    ];
    assert_eq!(found, expected);
    assert_eq!(
        attributes::identity(&vpn(true), &set).as_deref(),
        Some("ABC12")
    );
}

/// The processor time of this thread so far, in nanoseconds: other tests run beside this one.
fn spent() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

/// How long an update of one element takes where a list has so many, at least.
fn update_of_one_of(n_elements: usize) -> u64 {
    let entity = vpn(true);
    let peers = (0..n_elements).map(|at| {
        let address = format!("10.{}.{}.{}", at / 65_536, at / 256 % 256, at % 256);
        json!({"address": address, "remote_as": 1})
    });
    let mut set = stored();
    set["sites"][0]["peers"] = peers.collect();
    let change = json!({"peers": [{"address": "10.0.0.7", "remote_as": 2}]});
    let merged = edits(vec![edit(EditOperation::Merge, "sites[name=ams]", change)]);
    let runs = (0..3).map(|_| {
        let before = spent();
        let after = attributes::update(&entity, &set, &merged).unwrap();
        assert_eq!(after["sites"][0]["peers"][7]["remote_as"], 2);
        spent() - before
    });
    runs.min().unwrap_or_default()
}

#[test]
fn an_update_of_one_of_ten_thousand_elements_does_not_look_at_all_of_them_for_each() {
    let (some, many) = (update_of_one_of(500), update_of_one_of(10_000));
    // Twenty times as many: it would be four hundred times as long.
    assert!(many < 100 * some, "{some} {many}");
}

/// Given: a list of which each of very many elements is wrong.
/// Expected: the first are named, and the others take no memory: it is said that there are more.
#[test]
fn of_very_many_mistakes_the_first_are_named() {
    let mut given = object(ordered());
    given.insert("tags".to_owned(), json!(vec![Value::Null; 200_000]));
    let problems = attributes::create(&vpn(true), given).unwrap_err();
    assert_eq!(problems.0.len(), 10_000);
    let text = problems.to_string();
    assert!(text.starts_with("tags[0]: must be string, not null; tags[1]: "));
    assert!(text.ends_with("; and at least 9000 more"), "{text}");
    let mut given = object(ordered());
    given.insert("tags".to_owned(), json!(vec![Value::Null; 1002]));
    let problems = attributes::create(&vpn(true), given).unwrap_err();
    assert!(problems.to_string().ends_with("; and 2 more"), "{problems}");
}
