//! Allocation, and values that a compile stores. Source: docs/reference/lsm.md § 2.7, § 2.10; tracking: § 1.4.5.

use serde_json::{Value, json};

use super::{Project, id, instance, services_of, validation};

fn uplink(number: u32, state: &str, sets: Value) -> Value {
    instance(number, state, sets)
}

fn site(name: &str, vlan: Value) -> Value {
    json!({"site": name, "mbps": 1, "vlan": vlan})
}

#[test]
//: lsm 71, 75
fn a_missing_value_is_allocated_in_the_validation_and_stored_in_the_candidate() {
    let instances =
        json!({"uplink": [uplink(1, "start", json!({"candidate": site("a", Value::Null)}))]});
    let project = Project::fixture("uplink");
    let run = project.run(&json!({"purpose": validation(1), "instances": instances}));
    run.check();
    let writes = run.writes();
    assert_eq!(writes.len(), 1);
    let value = writes[0]
        .strip_prefix(&format!("{} candidate vlan=", id(1)))
        .expect("the vlan");
    assert!((2000..=2002).contains(&value.parse::<u32>().expect("a number")));
    // The same compile gives the same value.
    assert_eq!(
        project
            .run(&json!({"purpose": validation(1), "instances": instances}))
            .writes(),
        writes
    );
    // The desired state takes what there is.
    let up = json!({"uplink": [uplink(1, "up", json!({"active": site("a", Value::Null)}))]});
    let run = project.run(&json!({"instances": up}));
    run.check();
    assert_eq!(run.writes(), Vec::<String>::new());
}

#[test]
//: lsm 72
fn a_value_that_is_there_is_not_allocated_again() {
    let instances =
        json!({"uplink": [uplink(1, "start", json!({"candidate": site("a", json!(2001))}))]});
    let run =
        Project::fixture("uplink").run(&json!({"purpose": validation(1), "instances": instances}));
    run.check();
    assert_eq!(run.writes(), Vec::<String>::new());
}

#[test]
//: lsm 73, 74
fn a_pool_gives_no_value_that_any_set_of_a_living_instance_has() {
    let ended = json!({"id": id(4), "version": 9, "state": "terminated", "deleted": true, "active_attributes": site("d", json!(2002))});
    let mut instances = vec![
        uplink(1, "start", json!({"candidate": site("a", Value::Null)})),
        uplink(2, "up", json!({"active": site("b", json!(2000))})),
        uplink(
            3,
            "update_inprogress",
            json!({"active": site("c", Value::Null), "rollback": site("c", json!(2001))}),
        ),
        ended,
    ];
    let project = Project::fixture("uplink");
    let services =
        |instances: &[Value]| json!({"purpose": validation(1), "instances": {"uplink": instances}});
    let run = project.run(&services(&instances));
    run.check();
    assert_eq!(run.writes(), [format!("{} candidate vlan=2002", id(1))]);
    instances.push(uplink(
        5,
        "start",
        json!({"candidate": site("e", json!(2002))}),
    ));
    let refusal = project.refusal(&services(&instances));
    assert!(
        refusal.contains("no number between 2000 and 2002 is free"),
        "{refusal}"
    );
}

const WRAPPED: &str = "
from inmanta_plugins.lsm.allocation import AllocationSpec, AllocatorWrapper, ExternalAttributeAllocator, ExternalServiceIdAllocator

class Rack(ExternalAttributeAllocator[str]):
    def allocate_for_attribute(self, id_attribute_value):
        return f'rack of {id_attribute_value}'

class Unit(ExternalServiceIdAllocator[str]):
    def allocate_for_id(self, serviceid):
        return str(serviceid)[:8]

class Broken(ExternalServiceIdAllocator[int]):
    def allocate_for_id(self, serviceid):
        raise ValueError('the inventory does not answer')

AllocationSpec('whole', Rack('rack', 'name'), Unit('unit'))
AllocationSpec('wrapped', AllocatorWrapper(Rack('rack', 'name'), Broken('port'), Unit('unit')))
AllocationSpec('bare', Rack('rack', 'name'), Broken('port'))
";

fn racked(spec: &str) -> Project {
    Project::new(&format!(
        "import lsm\nimport lsm::fsm\nimport own\nentity Thing extends lsm::ServiceEntity:\nstring name\nstring? rack\nstring? unit\nint? port\n\
         lsm::attribute_modifier rack__modifier = \"r\"\nlsm::attribute_modifier unit__modifier = \"r\"\nlsm::attribute_modifier port__modifier = \"r\"\n\
         end\nimplement Thing using parents\nthings = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", \
         service_entity_name=\"thing\", lifecycle=lsm::fsm::simple, allocation_spec=\"{spec}\")\nfor i in lsm::all(things):\n\
         std::print(i[\"attributes\"])\nend\n"
    ))
    .with_plugins(WRAPPED)
}

#[test]
fn allocators_may_ask_other_inventories() {
    let services = json!({"purpose": validation(1), "instances": {"thing": [instance(1, "start", json!({"candidate": {"name": "a"}}))]}});
    let run = racked("whole").run(&services);
    run.check();
    let expected = [
        format!("{} candidate rack=\"rack of a\"", id(1)),
        format!("{} candidate unit=\"00000001\"", id(1)),
    ];
    assert_eq!(run.writes(), expected);
    assert_eq!(
        run.printed,
        ["@{'name': 'a', 'rack': 'rack of a', 'unit': '00000001', 'port': null}"]
    );
    let refusal = racked("unheard").refusal(&services);
    assert!(
        refusal.contains("there is no allocation spec unheard: there is bare, whole, wrapped"),
        "{refusal}"
    );
}

#[test]
//: lsm 76
fn what_was_found_before_a_wrapped_allocator_failed_is_kept() {
    let services = json!({"purpose": validation(1), "instances": {"thing": [instance(1, "start", json!({"candidate": {"name": "a"}}))]}});
    let run = racked("wrapped").run(&services);
    assert!(!run.compiled.succeeded());
    assert!(format!("{:?}", run.compiled.diagnostics).contains("the inventory does not answer"));
    assert_eq!(
        run.writes(),
        [format!("{} candidate rack=\"rack of a\"", id(1))]
    );
    let run = racked("bare").run(&services);
    assert!(!run.compiled.succeeded());
    assert_eq!(run.writes(), Vec::<String>::new());
}

#[test]
//: lsm 77
fn allocators_that_are_called_fill_in_embedded_entities_in_the_order_of_their_arguments() {
    let model = "
import lsm
import lsm::allocators
import lsm::fsm
import own
entity Thing extends lsm::ServiceEntity:
    string name
    int? first
    string? second
    lsm::attribute_modifier first__modifier = \"r\"
    lsm::attribute_modifier second__modifier = \"r\"
end
entity Part extends lsm::EmbeddedEntity:
    string name
    int? number
    lsm::attribute_modifier number__modifier = \"r\"
end
Thing.parts [0:] lsm::__rwplus__ Part._thing [1]
index Part(_thing, name)
implement Thing using parents
implement Part using parents
things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::simple)
for i in lsm::all(things):
    thing = Thing(
        instance_id=i[\"id\"],
        entity_binding=things,
        name=i[\"attributes\"][\"name\"],
        first=lsm::allocators::get_first_free_integer(
            thing, \"first\", range_start=5, range_end=9, used_values=lsm::allocators::get_used_values(things, \"first\")
        ),
        second=own::named(thing, \"second\", after=thing.first),
    )
    for part in i[\"attributes\"][\"parts\"]:
        Part(
            _thing=thing,
            name=part[\"name\"],
            number=lsm::allocators::get_first_free_integer(
                thing,
                lsm::format(\"parts[name={}].number\", [part[\"name\"]], {}),
                range_start=1,
                range_end=3,
                used_values=lsm::allocators::get_used_values(things, \"parts[name=*].number\"),
            ),
        )
    end
    std::print([thing.first, thing.second, [part.number for part in std::key_sort(thing.parts, \"name\")]])
end
";
    let plugins = "
from inmanta_plugins.lsm.allocation_helpers import allocator

@allocator()
def named(service: 'lsm::ServiceEntity', attribute_path: 'string', *, after: 'int?') -> 'string?':
    return f'{service.name} after {after}'
";
    let parts = json!([{"name": "x", "number": null}, {"name": "y", "number": null}, {"name": "z", "number": 2}]);
    let services = |purpose: Value| {
        json!({"purpose": purpose, "instances": {"thing": [
            instance(1, "update_start", json!({"candidate": {"name": "a", "first": null, "second": null, "parts": parts},
                                               "active": {"name": "a", "first": null, "second": null, "parts": []}})),
            instance(2, "up", json!({"active": {"name": "b", "first": 5, "second": "s", "parts": []}})),
        ]}})
    };
    let project = Project::new(model).with_plugins(plugins);
    let run = project.run(&services(validation(1)));
    run.check();
    assert_eq!(run.printed, ["@[6, 'a after 6', 1, 3, 2]", "@[5, 's']"]);
    let mut writes = run.writes();
    writes.sort();
    let expected = [
        "first=6",
        "parts[name=x].number=1",
        "parts[name=y].number=3",
        "second=\"a after 6\"",
    ];
    assert_eq!(
        writes,
        expected.map(|edit| format!("{} candidate {edit}", id(1)))
    );
    // Nothing is allocated for the desired state.
    let run = project.run(&services(json!("production")));
    run.check();
    assert_eq!(
        (run.printed, run.compiled.services.writes.len()),
        (vec!["@[null, null]".to_owned(), "@[5, 's']".to_owned()], 0)
    );
}

#[test]
fn an_allocator_that_is_called_has_two_arguments_by_position() {
    let code = "
from inmanta_plugins.lsm.allocation_helpers import allocator
@allocator
def wrong(service: 'lsm::ServiceEntity') -> 'int':
    return 1
";
    let project = Project::new("import own\n").with_plugins(code);
    let refusal = project.refusal(&json!({}));
    assert!(
        refusal.contains("the allocator wrong needs two positional arguments"),
        "{refusal}"
    );
}

#[test]
//: lsm 77
fn allocators_of_the_second_kind_run_for_each_embedded_entity() {
    let mut services = services_of("l3vpn/one.json");
    services["purpose"] =
        json!({"validation": {"instance": "30000000-0000-4000-8000-000000000002", "version": 1}});
    let run = Project::fixture("l3vpn").run(&services);
    run.check();
    let expected = [
        "sites[name=one].vlan=13",
        "sites[name=two].vlan=14",
        "route_target=101",
    ];
    assert_eq!(
        run.writes(),
        expected.map(|edit| format!("30000000-0000-4000-8000-000000000002 candidate {edit}"))
    );
}

#[test]
fn values_inside_of_older_services_are_collected_in_one_attribute() {
    let model = "
import lsm
import lsm::fsm
import own
entity Thing extends lsm::ServiceEntity:
    string name
    dict? kept = null
    lsm::attribute_modifier kept__modifier = \"r\"
end
entity Part extends lsm::EmbeddedEntity:
    string name
    int? number = null
end
Thing.parts [0:] lsm::__rwplus__ Part
implement Thing using parents
implement Part using parents
things = lsm::ServiceEntityBinding(
    service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::simple, allocation_spec=\"parts\"
)
for i in lsm::context_v2_unwrapper(lsm::all(things), \"kept\", track_deletes=true):
    std::print(i[\"attributes\"])
end
";
    let plugins = "
from inmanta_plugins.lsm.allocation import AllocationSpecV2
from inmanta_plugins.lsm.allocation_v2.framework import AllocatorV2, ContextV2Wrapper, ForEach

class Number(AllocatorV2):
    def needs_allocation(self, context):
        return context.get_instance().get('number') is None
    def allocate(self, context):
        context.set_value('number', len(context.get_instance()['name']))

AllocationSpecV2('parts', ContextV2Wrapper('kept', ForEach(item='part', in_list='parts', identified_by='name', apply=[Number()]), track_deletes=True))
";
    let attributes = json!({"name": "a", "parts": [{"name": "one"}, {"name": "three"}], "kept": {"parts[name=one].number": 7, "parts[name=gone].number": 8}});
    let services = json!({"purpose": validation(1), "instances": {"thing": [instance(1, "start", json!({"candidate": attributes}))]}});
    let run = Project::new(model).with_plugins(plugins).run(&services);
    run.check();
    assert_eq!(
        run.printed,
        [
            "@{'name': 'a', 'parts': [{'name': 'one', 'number': 7}, {'name': 'three', 'number': 5}], \
             'kept': {'parts[name=one].number': 7, 'parts[name=three].number': 5}}"
        ]
    );
    let expected = r#"kept={"parts[name=one].number":7,"parts[name=three].number":5}"#;
    assert_eq!(run.writes(), [format!("{} candidate {expected}", id(1))]);
}

#[test]
fn read_only_attributes_are_stored_where_they_differ() {
    let model = "
import lsm
import lsm::fsm
entity Thing extends lsm::ServiceEntity:
    string name
    string? text = null
    lsm::attribute_modifier text__modifier = \"r\"
end
implement Thing using parents
things = lsm::ServiceEntityBindingV2(service_entity=\"__config__::Thing\", service_entity_name=\"thing\", lifecycle=lsm::fsm::simple)
for i in lsm::all(things):
    thing = Thing(instance_id=i[\"id\"], entity_binding=things, name=i[\"attributes\"][\"name\"], text=lsm::update_read_only_attribute(
        thing, \"text\", value=\"# {{ thing.name }}\"
    ))
    std::print(thing.text)
end
";
    let things = json!([
        instance(1, "up", json!({"active": {"name": "a", "text": null}})),
        instance(2, "up", json!({"active": {"name": "b", "text": "# b"}})),
    ]);
    let run = Project::new(model).run(&json!({"instances": {"thing": things}}));
    run.check();
    assert_eq!(run.printed, ["# a", "# b"]);
    assert_eq!(run.writes(), [format!("{} active text=\"# a\"", id(1))]);
}

#[test]
fn suggested_values_are_part_of_what_a_compile_leaves() {
    let run =
        Project::new("import lsm\nlsm::set_suggested_values(\"colors\", [\"red\", \"blue\"])\n")
            .run(&json!({}));
    run.check();
    let written = serde_json::to_value(&run.compiled.services.writes).expect("it is JSON");
    assert_eq!(
        written,
        json!([{"suggested_values": {"name": "colors", "values": ["red", "blue"]}}])
    );
}

#[test]
//: lsm 78
fn embedded_entities_that_came_or_went_are_flagged_while_an_update_is_under_way() {
    let model = "
import lsm
import vpn::unroll
for i in lsm::all(vpn::unroll::vpns, include_purged_embedded_entities=true, added_attribute=\"_new\"):
    for site in i[\"attributes\"][\"sites\"]:
        std::print([site[\"name\"], site[\"_removed\"], site[\"_new\"], [peer[\"_new\"] for peer in site[\"peers\"]]])
    end
end
";
    let project = Project::new(model);
    let mut services = services_of("l3vpn/one.json");
    let mut printed = project.printed(&services);
    printed.sort();
    assert_eq!(
        printed,
        [
            "@['north', False, False]",
            "@['south', True, False]",
            "@['west', False, True, True]"
        ]
    );
    services["instances"]["vpn"][0]["state"] = json!("up");
    let mut printed = project.printed(&services);
    printed.sort();
    assert_eq!(
        printed,
        ["@['north', False, False]", "@['west', False, False, False]"]
    );
}
