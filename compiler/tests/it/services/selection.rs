//! Which instances take part in a compile, with which attributes, and what they bring along. Source: docs/reference/lsm.md
//! § 2.3, § 2.6, § 3.3, § 3.8.

use serde_json::{Value, json};

use super::{Project, id, instance, validation};

/// Things that say which attributes they have, and have a resource each.
const THINGS: &str = "
import lsm
import lsm::fsm
import std::testing
entity Thing extends lsm::ServiceEntity:
    string name
    string? note
end
implementation deployed for Thing:
    self.resources += std::testing::NullResource(
        name=self.name, requires=self.requires, provides=self.provides, value=\"{{ self.purge_resources }}\"
    )
    self.resources += std::testing::NullResource(name=\"{{ self.name }}2\", requires=self.requires, provides=self.provides)
    self.owned_resources += self.resources
end
implement Thing using deployed, parents
things = lsm::ServiceEntityBindingV2(
    service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::service_with_delete_validate
)
for i in lsm::all(things):
    thing = Thing(instance_id=i[\"id\"], entity_binding=things, **i[\"attributes\"])
    state = i[\"state\"]
    is_up = lsm::has_current_state(thing, \"up\")
    std::print(\"{{ state }} {{ thing.name }} {{ is_up }}\")
end
";

/// The instances p, q, r, t and x of the reference: each set has a name of its own.
fn five() -> Value {
    let sets = |name: &str, kinds: &[&str]| {
        let sets = kinds.iter().map(|kind| {
            (
                (*kind).to_owned(),
                json!({"name": format!("{name}-{kind}")}),
            )
        });
        Value::Object(sets.collect())
    };
    json!({"thing": [
        instance(1, "up", sets("p", &["active"])),
        instance(2, "update_start", sets("q", &["active", "candidate"])),
        instance(3, "designed", sets("r", &["candidate"])),
        instance(4, "start", sets("t", &["candidate"])),
        instance(5, "delete_validating_up", sets("x", &["active"])),
        {"id": id(6), "version": 9, "state": "terminated", "deleted": true, "active_attributes": {"name": "gone"}},
    ]})
}

/// The names of the things that a compile prints, in the order of the instances.
fn names(purpose: Value) -> Vec<String> {
    let services = json!({"purpose": purpose, "instances": five()});
    let printed = Project::new(THINGS).printed(&services);
    let names = printed
        .iter()
        .map(|line| line.split(' ').nth(1).expect("a name").to_owned());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
//: lsm 54, 55, 56, 57
fn the_state_of_an_instance_says_which_of_its_sets_counts_in_which_compile() {
    assert_eq!(
        names(json!("production")),
        ["p-active", "q-active", "x-active"]
    );
    assert_eq!(
        names(validation(2)),
        ["p-active", "q-candidate", "r-candidate", "x-active"]
    );
    assert_eq!(
        names(validation(4)),
        [
            "p-active",
            "q-active",
            "r-candidate",
            "t-candidate",
            "x-active"
        ]
    );
    assert_eq!(
        names(validation(5)),
        ["p-active", "q-active", "r-candidate"]
    );
}

#[test]
//: lsm 53
fn a_validation_exports_nothing() {
    let run = Project::new(THINGS).run(&json!({"purpose": validation(2), "instances": five()}));
    run.check();
    assert!(run.compiled.export.is_none() && run.compiled.services.definitions.is_none());
}

#[test]
//: lsm 58
fn what_is_unrolled_is_the_record_and_the_attributes_that_count() {
    let model = "
import lsm
import lsm::fsm
entity Thing extends lsm::ServiceEntity:
    string name
    string? note
end
implement Thing using parents
things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::simple)
for i in lsm::all(things):
    std::print([i[\"id\"], i[\"state\"], i[\"version\"], i[\"service_entity\"], i[\"service_entity_version\"]])
    std::print([i[\"attributes\"], i[\"candidate_attributes\"], i[\"active_attributes\"], i[\"rollback_attributes\"], i[\"config\"]])
end
";
    let mut thing = instance(
        1,
        "up",
        json!({"active": {"name": "a", "gone": 1}, "candidate": {"name": "b", "note": "n"}}),
    );
    thing["config"] = json!({"auto_x": false});
    let printed = Project::new(model).printed(&json!({"instances": {"thing": [thing]}}));
    let printed: Vec<&str> = printed.iter().map(String::as_str).rev().collect();
    assert_eq!(printed[0], format!("@['{}', 'up', 1, 'thing', 0]", id(1)));
    assert_eq!(
        printed[1],
        "@[{'name': 'a', 'note': null}, {'name': 'b', 'note': 'n'}, {'name': 'a', 'gone': 1}, null, {'auto_x': False}]"
    );
}

#[test]
//: lsm 64
fn an_exported_instance_has_one_lifecycle_transfer_behind_all_of_its_resources() {
    let services = json!({"instances": {"thing": [
        instance(1, "up", json!({"active": {"name": "a"}})),
        instance(2, "start", json!({"candidate": {"name": "b"}})),
    ]}});
    let (first, transfer) = (
        id(1),
        format!("lsm::LifecycleTransfer[internal,instance_id={}]", id(1)),
    );
    let resources =
        "std::testing::NullResource[internal,name=a2] std::testing::NullResource[internal,name=a]";
    let expected = [
        format!("{transfer} {first}<{resources}"),
        format!("std::testing::NullResource[internal,name=a2] {first}<"),
        format!("std::testing::NullResource[internal,name=a] {first}<"),
    ];
    let run = Project::new(THINGS).run(&services);
    let mut expected = expected.to_vec();
    expected.sort();
    assert_eq!(run.summary(), expected);
    let attributes = run
        .resources()
        .iter()
        .find(|one| one.id == transfer)
        .map(|one| one.attributes.clone());
    let attributes: Value =
        serde_json::from_str(&attributes.expect("it is there")).expect("it is JSON");
    let told = (
        &attributes["instance_id"],
        &attributes["service_entity"],
        &attributes["next_version"],
    );
    assert_eq!(told, (&json!(first), &json!("thing"), &json!(1)));
}

#[test]
//: lsm 69
fn a_state_may_say_that_resources_are_to_be_removed() {
    let services = json!({"instances": {"thing": [
        instance(1, "deleting", json!({"active": {"name": "a"}})),
        instance(2, "up", json!({"active": {"name": "b"}})),
    ]}});
    let run = Project::new(THINGS).run(&services);
    let value = |name: &str| {
        let end = format!("name={name}]");
        let found = run.resources().iter().find(|one| one.id.ends_with(&end));
        let attributes: Value =
            serde_json::from_str(&found.expect("it is there").attributes).expect("it is JSON");
        attributes["value"].clone()
    };
    assert_eq!((value("a"), value("b")), (json!("True"), json!("False")));
}

#[test]
fn models_know_in_which_state_an_instance_is() {
    let services = json!({"instances": {"thing": [
        instance(1, "up", json!({"active": {"name": "a"}})),
        instance(2, "failed", json!({"active": {"name": "b"}})),
    ]}});
    assert_eq!(
        Project::new(THINGS).printed(&services),
        ["up a True", "failed b False"]
    );
}

#[test]
fn a_service_without_resources_needs_no_implementation_of_ours() {
    let model = THINGS.replace("using deployed, parents", "using std::none");
    let services =
        json!({"instances": {"thing": [instance(1, "up", json!({"active": {"name": "a"}}))]}});
    assert_eq!(
        Project::new(&model).run(&services).summary(),
        Vec::<String>::new()
    );
}

#[test]
fn an_instance_that_does_not_fit_its_lifecycle_is_told() {
    let lost =
        json!({"instances": {"thing": [instance(1, "lost", json!({"active": {"name": "a"}}))]}});
    let refusal = Project::new(THINGS).refusal(&lost);
    assert!(
        refusal.contains(&format!("the thing {} is in the state 'lost'", id(1))),
        "{refusal}"
    );
    let empty = json!({"purpose": validation(1), "instances": {"thing": [instance(1, "start", json!({}))]}});
    let refusal = Project::new(THINGS).refusal(&empty);
    assert!(
        refusal.contains("has no candidate attributes, with which it is to be validated"),
        "{refusal}"
    );
}

#[test]
fn a_part_of_a_service_gives_its_resources_to_it_and_is_purged_with_it() {
    let model = "
import lsm
import lsm::fsm
import std::testing
entity Thing extends lsm::ServiceEntity:
    string name
end
implementation owned for Thing:
    self.owned_resources += self.resources
end
implement Thing using owned, parents
entity Part extends lsm::EmbeddedEntity, lsm::ServiceBase:
    string name
end
Thing.parts [0:] lsm::__rwplus__ Part._thing [1]
index Part(_thing, name)
implementation part for Part:
    self.parent = self._thing
    self.resources += std::testing::NullResource(
        name=self.name, value=\"{{ self.purge_resources }}\", requires=self.requires, provides=self.provides
    )
end
implement Part using part, parents
things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::simple)
for i in lsm::all(things):
    thing = Thing(instance_id=i[\"id\"], entity_binding=things, name=i[\"attributes\"][\"name\"])
    for part in i[\"attributes\"][\"parts\"]:
        Part(_thing=thing, name=part[\"name\"])
    end
    Part(_thing=thing, name=\"{{ thing.name }}-old\", purge_resources=thing.purge_resources or true)
end
";
    let services = json!({"instances": {"thing": [
        instance(1, "up", json!({"active": {"name": "a", "parts": [{"name": "x"}]}})),
        instance(2, "deleting", json!({"active": {"name": "b", "parts": [{"name": "y"}]}})),
    ]}});
    let run = Project::new(model).run(&services);
    let told = run
        .resources()
        .iter()
        .filter(|one| one.id.contains("Null"))
        .map(|one| {
            let attributes: Value = serde_json::from_str(&one.attributes).expect("it is JSON");
            let set = one.resource_set.clone().unwrap_or_default();
            format!(
                "{} {} {}",
                attributes["name"],
                attributes["value"],
                &set[7..8]
            )
        });
    let mut told: Vec<String> = told.collect();
    told.sort();
    assert_eq!(
        told,
        [
            r#""a-old" "True" 1"#,
            r#""b-old" "True" 2"#,
            r#""x" "False" 1"#,
            r#""y" "True" 2"#
        ]
    );
    let requires = run
        .resources()
        .iter()
        .find(|one| one.id.contains(&id(1)))
        .map(|one| one.requires.len());
    assert_eq!(requires, Some(2));
}

#[test]
//: lsm 63
fn the_purpose_of_a_compile_is_in_variables_that_models_can_read() {
    let model = "
for name in [\"inmanta_model_state\", \"inmanta_instance_id\", \"inmanta_instance_version\", \"inmanta_lsm_partial_compile\", \"lsm_no_instances\"]:
    value = std::get_env(name, \"-\")
    std::print(\"{{ name }}={{ value }}\")
end
";
    let values = |services: Value| {
        let mut values = Project::new(model).printed(&services);
        values.sort();
        let values = values
            .iter()
            .map(|line| line.split_once('=').expect("a value").1.to_owned());
        values.collect::<Vec<_>>().join(" ")
    };
    // instance id, instance version, partial, state, none
    assert_eq!(values(json!({})), "- - False active -");
    let partial = json!({"purpose": validation(1), "requested": [id(1)]});
    assert_eq!(values(partial), format!("{} 1 True candidate -", id(1)));
    assert_eq!(
        values(json!({"requested": ["a", "b"]})),
        "a b - True active -"
    );
    assert_eq!(
        values(json!({"purpose": "definitions"})),
        "- - False - true"
    );
}
