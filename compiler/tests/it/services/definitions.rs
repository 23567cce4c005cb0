//! Definitions of services, as the catalog gets them. Source: docs/reference/lsm.md § 1.2 to § 1.8, § 2.12, § 3.1.2.

use serde_json::{Value, json};

use super::{Project, id, instance};

/// A service `thing` with this entity, and more of the model; `binding` is the end of the binding's name and its arguments.
fn thing(more: &str, body: &str, binding: (&str, &str)) -> Project {
    let (kind, arguments) = binding;
    Project::new(&format!(
        "import lsm\nimport lsm::fsm\n{more}\nentity Thing extends lsm::ServiceEntity:\n{body}\nend\nimplement Thing using parents\n\
         things = lsm::ServiceEntityBinding{kind}(service_entity=\"__config__::Thing\", service_entity_name=\"thing\",\
         lifecycle=lsm::fsm::simple{arguments})\n"
    ))
}

fn plain(body: &str) -> Project {
    thing("", body, ("V2", ""))
}

/// A service with embedded parts; `index` and `end` are of the part, `body` its attributes.
fn parts(kind: &str, relation: &str, body: &str, index: &str) -> Project {
    let more = format!(
        "entity Part extends lsm::EmbeddedEntity:\n{body}\nend\nimplement Part using parents\n{relation}\n{index}"
    );
    thing(&more, "string name", (kind, ""))
}

fn attribute<'a>(definition: &'a Value, name: &str) -> &'a Value {
    let attributes = definition["attributes"].as_array().expect("a list");
    let found = attributes.iter().find(|one| one["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {definition}"))
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().expect("a list").iter();
    items
        .map(|item| item["name"].as_str().expect("a name"))
        .collect()
}

/// `source kind target/error [operation]` of each transfer.
fn transfers(lifecycle: &Value) -> Vec<String> {
    let transfers = lifecycle["transfers"].as_array().expect("a list").iter();
    let letters = [
        ("auto", 'A'),
        ("api_set_state", 'S'),
        ("on_update", 'U'),
        ("on_delete", 'D'),
        ("resource_based", 'R'),
        ("validate", 'V'),
    ];
    transfers
        .map(|transfer| {
            let kinds = letters.iter().filter(|(name, _)| transfer[*name] == true);
            let kinds: String = kinds.map(|(_, letter)| letter).collect();
            let text = |name: &str| transfer[name].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {kinds} {}/{} [{}]",
                text("source"),
                text("target"),
                text("error"),
                text("target_operation")
            )
        })
        .collect()
}

#[test]
//: lsm 1
fn a_binding_without_versions_is_version_0_with_its_whole_lifecycle() {
    let run = Project::fixture("uplink").run(&json!({}));
    run.check();
    let definitions = run.compiled.services.definitions.expect("it was exported");
    let uplink = &definitions[0];
    assert_eq!(
        (
            uplink.name.as_str(),
            uplink.default_version,
            uplink.is_versioned
        ),
        ("uplink", 0, false)
    );
    let record = &uplink.versions[0];
    assert_eq!(
        (&record["version"], &record["service_identity"]),
        (&json!(0), &json!("site"))
    );
    assert_eq!(
        (&record["description"], &record["key_attributes"]),
        (&json!("An uplink of a site."), &json!(["site"]))
    );
    assert_eq!(names(&record["lifecycle"]["states"]).len(), 17);
    assert_eq!(record["lifecycle"]["initial_state"], "start");
}

#[test]
//: lsm 46
fn the_lifecycle_simple_has_its_transfers_and_no_others() {
    let found = transfers(&plain("string name").definition()["lifecycle"]);
    let expected = "start AV acknowledged/rejected [-]
acknowledged A creating/- [promote]
creating R up/failed [-]
creating D deleting/- [-]
up R up/failed [-]
up U update_start/- [-]
up D deleting/- [-]
failed R up/failed [-]
failed D deleting/- [-]
rejected U start/- [-]
rejected D terminated/- [-]
update_start AV update_acknowledged/update_rejected [-]
update_start R update_start/update_start_failed [-]
update_start_failed AV update_acknowledged_failed/update_rejected_failed [-]
update_start_failed R update_start/update_start_failed [-]
update_acknowledged A update_inprogress/- [promote]
update_acknowledged_failed A update_inprogress/- [promote]
update_inprogress R up/update_failed [-]
update_failed R up/update_failed [-]
update_failed S rollback/- [rollback]
update_failed D deleting/- [-]
rollback R up/failed [-]
update_rejected R update_rejected/update_rejected_failed [-]
update_rejected S up/- [clear candidate]
update_rejected U update_start/- [-]
update_rejected_failed R update_rejected/update_rejected_failed [-]
update_rejected_failed S failed/- [clear candidate]
update_rejected_failed U update_start_failed/- [-]
deleting R terminated/deleting [-]";
    assert_eq!(found, expected.lines().collect::<Vec<_>>());
}

#[test]
//: lsm 2, 3, 4
fn attributes_have_a_modifier_and_a_default_and_helpers_are_none() {
    let definition = plain(
        "    string name\n    int size = 5\n    lsm::attribute_modifier size__modifier = \"rw+\"\n    int? tag = null\n    \
         lsm::attribute_modifier tag__modifier = \"r\"\n    string? note\n    string _hidden = \"x\"\n    string alone__modifier = \"r\"",
    )
    .definition();
    assert_eq!(
        names(&definition["attributes"]),
        ["name", "size", "tag", "note", "alone__modifier"]
    );
    let told = |name: &str| {
        let found = attribute(&definition, name);
        format!(
            "{} {} {} {}",
            found["type"], found["modifier"], found["default_value_set"], found["default_value"]
        )
    };
    assert_eq!(told("name"), "\"string\" \"rw\" false null");
    assert_eq!(told("size"), "\"int\" \"rw+\" true 5");
    assert_eq!(told("tag"), "\"int?\" \"r\" true null");
    assert_eq!(told("note"), "\"string?\" \"rw\" false null");
}

#[test]
//: lsm 2
fn an_entity_that_extends_another_may_have_another_modifier_for_its_attributes() {
    let base = "entity Base extends lsm::ServiceEntity:\nstring name\nlsm::attribute_modifier name__modifier = \"rw+\"\nend\n";
    let project = Project::new(&format!(
        "import lsm\nimport lsm::fsm\n{base}entity Thing extends Base:\nlsm::attribute_modifier name__modifier = \"rw\"\nend\n\
         implement Base using parents\nimplement Thing using parents\nthings = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", \
         service_entity_name=\"thing\", lifecycle=lsm::fsm::simple)\n"
    ));
    assert_eq!(attribute(&project.definition(), "name")["modifier"], "rw");
}

#[test]
//: lsm 5
fn conditions_of_types_that_mean_something_outside_of_models_are_told() {
    let types = "typedef color as string matching self in [\"red\", \"blue\"]
typedef code as string matching /^[A-Z]+$/
typedef vlan as int matching self >= 1 and 4095 > self
typedef ratio as float matching self <= 1.5
typedef address as string matching std::validate_type(\"ipaddress.IPv4Address\", self) == true
typedef short as string matching true == std::validate_type(\"pydantic.constr\", self, {\"max_length\": 3})
typedef small as vlan matching self < 10
typedef odd as int matching self % 2 == 1
typedef either as int matching self == 1 or self > 5
";
    let body = "    color? a\n    code[] b\n    vlan c\n    ratio d\n    address e\n    short f\n    small g\n    odd h\n    either i\n    std::positive_int[]? j";
    let definition = thing(types, body, ("V2", "")).definition();
    let told = |name: &str| {
        let found = attribute(&definition, name);
        format!(
            "{} {} {}",
            found["type"], found["validation_type"], found["validation_parameters"]
        )
    };
    assert_eq!(
        told("a"),
        r#""string?" "enum?" {"names":{"red":"red","blue":"blue"},"value":"__config__::color"}"#
    );
    assert_eq!(
        told("b"),
        r#""string[]" "pydantic.constr[]" {"regex":"^[A-Z]+$"}"#
    );
    assert_eq!(told("c"), r#""int" "pydantic.conint" {"ge":1,"lt":4095}"#);
    assert_eq!(told("d"), r#""float" "pydantic.confloat" {"le":1.5}"#);
    assert_eq!(told("e"), r#""string" "ipaddress.IPv4Address" null"#);
    assert_eq!(told("f"), r#""string" "pydantic.constr" {"max_length":3}"#);
    assert_eq!(told("g"), r#""int" "pydantic.conint" {"lt":10}"#);
    assert_eq!(told("h"), r#""int" null null"#);
    assert_eq!(
        told("i"),
        r#""int" "steward.any_of" {"any_of":[{"validation_type":"enum","validation_parameters":{"names":{"1":1},"value":"__config__::either"}},{"validation_type":"pydantic.conint","validation_parameters":{"gt":5}}]}"#
    );
    assert_eq!(told("j"), r#""int[]?" "pydantic.PositiveInt[]?" null"#);
}

#[test]
//: lsm 6
fn annotations_are_told_as_they_are() {
    let lifecycle = "a = lsm::State(name=\"a\", export_resources=false, __annotations={\"web_label\": \"A\"})\n\
         cycle = lsm::LifecycleStateMachine(name=\"cycle\", initial_state=a, transfers=[lsm::StateTransfer(source=a, target=a, \
         on_update=true, __annotations={\"web_icon\": \"x\"})])\n";
    let project = Project::new(&format!(
        "import lsm\n{lifecycle}\nentity Thing extends lsm::ServiceEntity:\nstring name\ndict name__annotations = {{\"web_title\": \"N\"}}\n\
         dict __annotations = {{\"web_order\": 2}}\nend\nentity Part extends lsm::EmbeddedEntity:\nstring name\nend\nindex Part(name)\n\
         notes = lsm::RelationAnnotations(annotations={{\"web_tab\": \"t\"}})\nThing.parts [0:] lsm::__rwplus__, notes Part\n\
         implement Thing using parents\nimplement Part using parents\n\
         things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=cycle)\n"
    ));
    let definition = project.definition();
    assert_eq!(
        attribute(&definition, "name")["attribute_annotations"],
        json!({"web_title": "N"})
    );
    assert_eq!(definition["entity_annotations"], json!({"web_order": 2}));
    let parts = &definition["embedded_entities"][0];
    assert_eq!(
        (&parts["attribute_annotations"], &parts["modifier"]),
        (&json!({"web_tab": "t"}), &json!("rw+"))
    );
    assert_eq!(
        definition["lifecycle"]["states"][0]["annotations"],
        json!({"web_label": "A"})
    );
    assert_eq!(
        definition["lifecycle"]["transfers"][0]["annotations"],
        json!({"web_icon": "x"})
    );
}

#[test]
//: lsm 7, 12
fn elements_of_a_list_need_a_key_if_modifiers_are_strict() {
    let relation = "Thing.parts [0:] lsm::__rwplus__ Part._thing [1]";
    let refusal = parts("V2", relation, "string name", "").refusal(&json!({}));
    assert!(
        refusal.contains("parts: __config__::Part needs an index"),
        "{refusal}"
    );
    // The older kind of binding is not strict.
    let definition = parts("", relation, "string name", "").definition();
    assert_eq!(definition["strict_modifier_enforcement"], false);
    assert_eq!(
        definition["embedded_entities"][0]["key_attributes"],
        Value::Null
    );
    let definition = parts("V2", relation, "string name", "index Part(_thing, name)").definition();
    assert_eq!(definition["strict_modifier_enforcement"], true);
    let part = &definition["embedded_entities"][0];
    assert_eq!(
        (&part["key_attributes"], &part["type"]),
        (&json!(["name"]), &json!("__config__::Part"))
    );
    assert_eq!(
        (&part["lower_limit"], &part["upper_limit"]),
        (&json!(0), &Value::Null)
    );
    // A single one is always the same.
    let single = "Thing.part [0:1] lsm::__rwplus__ Part._thing [1]";
    parts("V2", single, "string name", "").definition();
}

#[test]
//: lsm 8
fn of_several_indexes_the_key_is_the_one_that_is_named() {
    let relation = "Thing.parts [0:] lsm::__rwplus__ Part._thing [1]";
    let indexes = "index Part(_thing, name)\nindex Part(_thing, size)";
    let body = "string name\nint size";
    let refusal = parts("V2", relation, body, indexes).refusal(&json!({}));
    assert!(refusal.contains("__lsm_key_attributes"), "{refusal}");
    let named = format!("{body}\nstring[]? __lsm_key_attributes = [\"size\"]");
    let definition = parts("V2", relation, &named, indexes).definition();
    assert_eq!(
        definition["embedded_entities"][0]["key_attributes"],
        json!(["size"])
    );
}

#[test]
//: lsm 9, 10, 11
fn rules_for_modifiers_and_relations_back_are_told_all_at_once() {
    let relation =
        "Thing.parts [0:] lsm::__rwplus__ Part.thing [1]\nThing.read [0:1] lsm::__r__ Note._of [1]";
    let body = "string name\nlsm::attribute_modifier name__modifier = \"rw+\"\nend\nentity Note extends lsm::EmbeddedEntity:\nstring text\n\
         end\nimplement Note using parents\nentity Unused:\n";
    let refusal = parts("V2", relation, body, "index Part(thing, name)").refusal(&json!({}));
    for reason in [
        "parts.name has the modifier rw+, but a key attribute must be rw",
        "named thing, and must begin with an underscore",
        "read.text has the modifier rw, but must be r",
    ] {
        assert!(refusal.contains(reason), "{reason}: {refusal}");
    }
}

#[test]
fn a_compile_of_some_instances_does_not_describe_definitions_again() {
    let one = instance(
        1,
        "up",
        json!({"active": {"site": "a", "mbps": 1, "vlan": 2000}}),
    );
    let mut services = json!({"instances": {"uplink": [one]}});
    let whole = Project::fixture("uplink").run(&services);
    whole.check();
    assert!(whole.compiled.services.definitions.is_some());
    services["requested"] = json!([one["id"]]);
    let part = Project::fixture("uplink").run(&services);
    part.check();
    assert!(part.compiled.export.is_some());
    assert_eq!(part.compiled.services.definitions, None);
}

#[test]
//: lsm 16
fn a_compile_for_definitions_sees_no_instances_and_exports_nothing() {
    let services = json!({
        "purpose": "definitions",
        "instances": {"uplink": [instance(1, "up", json!({"active": {"site": "a", "mbps": 1, "vlan": 2000}}))]},
    });
    let run = Project::fixture("uplink").run(&services);
    run.check();
    assert!(run.compiled.export.is_none());
    assert_eq!(
        run.compiled.services.definitions.map(|found| found.len()),
        Some(1)
    );
}

/// A lifecycle of the states `a` and `b` (which exports) and one transfer.
fn cycle(transfer: &str) -> Project {
    Project::new(&format!(
        "import lsm\na = lsm::State(name=\"a\", export_resources=false)\nb = lsm::State(name=\"b\", export_resources=true)\n\
         cycle = lsm::LifecycleStateMachine(name=\"cycle\", initial_state=a, transfers=[lsm::StateTransfer(source=a, target=b, {transfer})])\n\
         entity Thing extends lsm::ServiceEntity:\nend\nimplement Thing using parents\n\
         things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=cycle)\n"
    ))
}

#[test]
//: lsm 17, 18
fn lifecycles_that_make_no_sense_are_refused() {
    for (transfer, reason) in [
        (
            "auto=true, target_same_desired_state=true",
            "the states differ in export_resources",
        ),
        (
            "resource_based=true, config_name=\"x\"",
            "which only auto transfers can have",
        ),
        (
            "auto=true, validate=true",
            "validates, so it needs an error state",
        ),
        (
            "on_update=true, validate=true, error=a",
            "which only auto and api_set_state transfers can",
        ),
        ("description=\"x\"", "a -> b has no trigger"),
        (
            "resource_based=true, auto=true",
            "can have no other trigger",
        ),
    ] {
        let refusal = cycle(transfer).refusal(&json!({}));
        assert!(refusal.contains(reason), "{reason}: {refusal}");
    }
    let definition = cycle("auto=true, config_name=\"x\"").definition();
    assert_eq!(definition["config"], json!({"x": true}));
}

#[test]
fn an_older_model_state_stands_for_three_selectors_and_for_nothing_beside_them() {
    let of = |arguments: &str| {
        Project::new(&format!(
            "import lsm\na = lsm::State(name=\"a\", {arguments})\n\
             cycle = lsm::LifecycleStateMachine(name=\"cycle\", initial_state=a)\nentity Thing extends lsm::ServiceEntity:\nend\n\
             implement Thing using parents\nthings = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", \
             service_entity_name=\"thing\", lifecycle=cycle)\n"
        ))
    };
    let definition = of("model_state=\"designed\"").definition();
    let state = &definition["lifecycle"]["states"][0];
    let told = (
        &state["export_resources"],
        &state["validate_self"],
        &state["validate_others"],
    );
    assert_eq!(
        told,
        (&json!(true), &json!("candidate"), &json!("candidate"))
    );
    let refusal = of("model_state=\"active\", validate_self=\"active\"").refusal(&json!({}));
    assert!(
        refusal.contains("which stands for validate_self, too"),
        "{refusal}"
    );
    let refusal = of("label=\"info\"").refusal(&json!({}));
    assert!(refusal.contains("needs export_resources"), "{refusal}");
}

#[test]
fn a_service_may_have_several_versions_each_with_its_own_entity() {
    let project = Project::new(
        "import lsm
import lsm::fsm
entity Old extends lsm::ServiceEntity:
    string name
end
entity New extends lsm::ServiceEntity:
    string name
    int size = 1
end
implement Old using parents
implement New using parents
things = lsm::ServiceBinding(
    service_entity_name=\"thing\",
    default_version=1,
    versions=[
        lsm::ServiceBindingVersion(service_entity=\"__config__::Old\", lifecycle=lsm::fsm::simple, version=0),
        lsm::ServiceBindingVersion(service_entity=\"__config__::New\", lifecycle=lsm::fsm::service, version=1),
    ],
)
for i in lsm::all(things, max_version=0):
    Old(instance_id=i[\"id\"], entity_binding=lsm::get_service_binding_version(things, i[\"service_entity_version\"]), **i[\"attributes\"])
    std::print(\"old \" + i[\"id\"])
end
for i in lsm::all(things, min_version=1):
    New(instance_id=i[\"id\"], entity_binding=lsm::get_service_binding_version(things, i[\"service_entity_version\"]), **i[\"attributes\"])
    std::print(\"new \" + i[\"id\"])
end
",
    );
    let mut newer = instance(2, "up", json!({"active": {"name": "b", "size": 2}}));
    newer["service_entity_version"] = json!(1);
    let older = instance(1, "up", json!({"active": {"name": "a"}}));
    let run = project.run(&json!({"instances": {"thing": [older, newer.clone()]}}));
    run.check();
    let mut printed = run.printed.clone();
    printed.sort();
    assert_eq!(
        printed,
        [format!("new {}", id(2)), format!("old {}", id(1))]
    );
    let definitions = run.compiled.services.definitions.expect("it was exported");
    assert_eq!(
        (definitions[0].default_version, definitions[0].is_versioned),
        (1, true)
    );
    let versions = definitions[0].versions.iter();
    let told: Vec<String> = versions
        .map(|version| {
            format!(
                "{} {} {}",
                version["version"],
                version["lifecycle"]["name"],
                names(&version["attributes"]).len()
            )
        })
        .collect();
    assert_eq!(told, ["0 \"simple\" 1", "1 \"service\" 2"]);
    newer["service_entity_version"] = json!(7);
    let refusal = project.refusal(&json!({"instances": {"thing": [newer]}}));
    assert!(
        refusal.contains("has no version 7; it has 0, 1"),
        "{refusal}"
    );
}

#[test]
fn what_means_nothing_to_a_definition_is_a_warning() {
    let more = "entity Plain:\n    string x\nend\nimplement Plain using std::none\n\
                Thing.plains [0:] lsm::__rwplus__ Plain._thing [1]\nThing.others [0:] -- Plain._other [0:1]\n\
                entity Part extends lsm::EmbeddedEntity:\n    string name\n    lsm::attribute_modifier nme__modifier=\"r\"\nend\n\
                implement Part using parents\nThing.part [0:1] lsm::__rwplus__ Part._thing [1]\n";
    let body = "    string name\n    lsm::attribute_modifier sizes__modifier=\"rw+\"\n    lsm::attribute_modifier name__modifier=\"rw+\"";
    let run = thing(more, body, ("V2", ", allocation_spec=\"nowhere\"")).run(&json!({}));
    run.check();
    let warnings = run.compiled.diagnostics.iter();
    let warnings: Vec<&str> = warnings
        .map(|warning| warning.message.as_str())
        .filter(|message| message.starts_with("the service thing"))
        .collect();
    assert_eq!(
        warnings,
        [
            "the service thing, sizes__modifier: there is no attribute sizes that it says something about, so it is an attribute of its own",
            "the service thing, plains: the relation has a modifier, but __config__::Plain extends no lsm::EmbeddedEntity and it is no lsm::__service__ relation: clients do not see it",
            "the service thing, part.nme__modifier: there is no attribute nme that it says something about, so it is an attribute of its own",
            "the service thing, allocation_spec: no module defines an allocation spec nowhere, so no instance can be validated",
        ]
    );
}

#[test]
fn identities_and_owners_are_checked() {
    let refusal = thing(
        "",
        "string name\nlsm::attribute_modifier name__modifier = \"rw+\"",
        ("V2", ", service_identity=\"name\""),
    )
    .refusal(&json!({}));
    assert!(
        refusal.contains("the service identity name is a string with the modifier rw+"),
        "{refusal}"
    );
    let refusal =
        thing("", "string name", ("V2", ", service_identity=\"nome\"")).refusal(&json!({}));
    assert!(
        refusal.contains("the service identity nome is no attribute"),
        "{refusal}"
    );
    let refusal =
        thing("", "string name", ("V2", ", relation_to_owner=\"owner\"")).refusal(&json!({}));
    assert!(
        refusal.contains("only one of `owner` and `relation_to_owner`"),
        "{refusal}"
    );
    let other = "entity Other extends lsm::ServiceEntity:\nend\nimplement Other using parents\n\
                 others = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Other\", service_entity_name=\"other\",\
                 lifecycle=lsm::fsm::simple)";
    let refusal = thing(other, "string name", ("V2", ", owner=others")).refusal(&json!({}));
    assert!(
        refusal.contains("only one of `owner` and `relation_to_owner`"),
        "{refusal}"
    );
}

#[test]
fn the_fixture_has_services_with_all_that_services_can_have() {
    let run = Project::fixture("l3vpn").run(&json!({}));
    run.check();
    let definitions = run.compiled.services.definitions.expect("it was exported");
    let by_name = |name: &str| {
        let mut all = definitions.iter();
        &all.find(|one| one.name == name)
            .expect("a service")
            .versions[0]
    };
    let vpn = by_name("vpn");
    let sites = &vpn["embedded_entities"][0];
    assert_eq!(
        (&sites["name"], &sites["modifier"], &sites["lower_limit"]),
        (&json!("sites"), &json!("rw+"), &json!(1))
    );
    let router = &sites["inter_service_relations"][0];
    assert_eq!(
        (&router["name"], &router["entity_type"], &router["modifier"]),
        (&json!("router"), &json!("router"), &json!("rw"))
    );
    assert_eq!(names(&sites["embedded_entities"]), ["peers"]);
    assert_eq!(
        sites["embedded_entities"][0]["key_attributes"],
        json!(["address"])
    );
    assert_eq!(vpn["owned_entities"], json!(["link"]));
    let link = by_name("link");
    assert_eq!(
        (&link["owner"], &link["relation_to_owner"]),
        (&json!("vpn"), &json!("vpn"))
    );
}
