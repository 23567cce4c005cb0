//! Orders on the real server: changes to several instances in one call.

use serde_json::{Value, json};

use crate::service_world::World;

/// Two services: sites, and links that name one. Links of 666 are refused by the model; a link at the path `blocked` cannot be
/// deployed.
const MODEL: &str = r#"import lsm
import lsm::fsm
import fs

entity Thing extends lsm::ServiceEntity:
    string name
    string note = ""
    lsm::attribute_modifier note__modifier = "rw+"
end

index Thing(name)

entity Site extends Thing:
end

index Site(instance_id)

entity Link extends Thing:
    int mbps = 100
    lsm::attribute_modifier mbps__modifier = "rw+"
end

Link.site [0:1] lsm::__service__, lsm::__rwplus__ Site

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)

implementation deploy for Thing:
    self.resources += fs::File(
        host=host,
        path="{{root}}/{{self.name}}",
        content="{{self.note}}\n",
        purged=self.purge_resources,
        send_event=true,
        requires=self.requires,
        provides=self.provides,
    )
    self.owned_resources += self.resources
end

implementation refused for Link:
    self.mbps = 667
end

implement Thing using parents
implement Site using deploy, parents
implement Link using deploy, parents
implement Link using refused when mbps == 666

sites = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Site",
    service_entity_name="site",
    lifecycle=lsm::fsm::simple,
    service_identity="name",
)
links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link",
    service_entity_name="link",
    lifecycle=lsm::fsm::simple,
    service_identity="name",
)

for i in lsm::all(sites):
    Site(instance_id=i["id"], entity_binding=sites, name=i["attributes"]["name"], note=i["attributes"]["note"])
end
for i in lsm::all(links):
    Link(
        instance_id=i["id"],
        entity_binding=links,
        name=i["attributes"]["name"],
        note=i["attributes"]["note"],
        mbps=i["attributes"]["mbps"],
        site=i["attributes"]["site"] == null ? null : Site[instance_id=i["attributes"]["site"]],
    )
end
"#;

fn id(number: u8) -> String {
    format!("0a8d6a1e-0000-4000-8000-0000000000{number:02x}")
}

fn create(number: u8, entity: &str, attributes: Value) -> Value {
    json!({"instance_id": id(number), "service_entity": entity, "action": "create", "attributes": attributes, "edits": null, "config": {}})
}

fn update(number: u8, entity: &str, target: &str, value: Value) -> Value {
    let edit = json!({"edit_id": "1", "operation": "replace", "target": target, "value": value});
    json!({"instance_id": id(number), "service_entity": entity, "action": "update", "edits": [edit]})
}

fn delete(number: u8, entity: &str) -> Value {
    json!({"instance_id": id(number), "service_entity": entity, "action": "delete"})
}

fn world() -> World {
    World::with(MODEL, &[], "link")
}

#[track_caller]
fn place(world: &World, items: &[Value]) -> String {
    let body = json!({"description": "a change", "service_order_items": items});
    let (status, answer) = world.running.call("POST", "/lsm/v2/order", Some(&body));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["data"]["status"]["state"], "in_progress");
    answer["data"]["id"].as_str().unwrap().to_owned()
}

/// The order when it has ended: its state, and state and failure of each item.
#[track_caller]
fn ended(world: &World, order: &str) -> (Value, Vec<String>) {
    let path = format!("/lsm/v2/order/{order}");
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    loop {
        let order = world.running.get_ok(&path)["data"].clone();
        if order["status"]["state"] != "in_progress" {
            assert_ne!(order["completed_at"], Value::Null);
            let items = order["service_order_items"].as_array().unwrap();
            let words = items.iter().map(|item| {
                let status = &item["status"];
                let failure = status["failure_type"].as_str().unwrap_or_default();
                format!("{} {failure}", status["state"].as_str().unwrap())
                    .trim()
                    .to_owned()
            });
            let words = words.collect();
            return (order, words);
        }
        assert_eq!(order["completed_at"], Value::Null);
        assert!(
            std::time::Instant::now() < deadline,
            "never ended: {order:#}"
        );
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn instance(world: &World, entity: &str, number: u8) -> Value {
    let path = format!("/lsm/v1/service_inventory/{entity}/{}", id(number));
    world.running.get(&path).1["data"].clone()
}

//: lsm 104
#[test]
fn items_are_carried_out_in_the_order_of_their_relations_and_each_has_its_result() {
    let world = world();
    // The link names a site that stands behind it.
    let order = place(
        &world,
        &[
            create(1, "link", json!({"name": "l1", "site": id(2)})),
            create(2, "site", json!({"name": "s1", "note": "hello"})),
        ],
    );
    let (order, words) = ended(&world, &order);
    assert_eq!(words, ["completed", "completed"], "{order:#}");
    assert_eq!(order["status"]["state"], "success");
    assert_eq!(order["description"], "a change");
    let first = &order["service_order_items"][0]["status"];
    assert_eq!(first["direct_dependencies"], json!({id(2): "completed"}));
    assert_eq!(first["service_identity_attribute_value"], "l1");
    assert_eq!(first["instance_state_label"], "success");
    assert_eq!(first["reason"], Value::Null);
    assert_eq!(world.host.read("s1"), "hello\n");

    // One changes, one is refused by the model, one can not be deployed, one depends on that, one changes nothing.
    std::fs::create_dir_all(world.host.file("blocked/x")).unwrap();
    let before = instance(&world, "site", 2);
    let order = place(
        &world,
        &[
            update(1, "link", "note", json!("new")),
            create(3, "link", json!({"name": "l3", "mbps": 666})),
            create(4, "site", json!({"name": "blocked"})),
            create(5, "link", json!({"name": "l5", "site": id(4)})),
            update(2, "site", "note", json!("hello")),
            update(9, "site", "note", json!("nobody")),
        ],
    );
    let (order, words) = ended(&world, &order);
    let expected = [
        "completed",
        "failed VALIDATION_COMPILE_FAILED",
        "failed EXECUTION_FAILED",
        "failed EXECUTION_SKIPPED",
        "completed",
        "failed INVALID_ORDER_ITEM",
    ];
    assert_eq!(words, expected, "{order:#}");
    assert_eq!(order["status"]["state"], "partial");
    let status = |at: usize| &order["service_order_items"][at]["status"];
    assert!(status(1)["validation_compile_id"].is_string(), "{order:#}");
    let said = status(2)["reason"].as_str().unwrap();
    assert!(said.contains("blocked"), "{said}");
    assert!(status(3)["reason"].as_str().unwrap().contains(&id(4)));
    assert_eq!(world.host.read("l1"), "new\n");
    // What changes nothing makes no version.
    assert_eq!(instance(&world, "site", 2)["version"], before["version"]);
    assert_eq!(
        world
            .running
            .get(&format!("/lsm/v1/service_inventory/link/{}", id(5)))
            .0,
        404
    );

    // Who is named is deleted when nobody names it any more.
    let order = place(&world, &[delete(2, "site"), delete(1, "link")]);
    let (order, words) = ended(&world, &order);
    assert_eq!(words, ["completed", "completed"], "{order:#}");
    assert_eq!(
        order["service_order_items"][0]["status"]["direct_dependencies"],
        json!({id(1): "completed"})
    );
    assert!(!world.host.file("s1").exists() && !world.host.file("l1").exists());

    // What can not begin says why, in words of its own.
    let mut switched = create(7, "site", json!({"name": "s7"}));
    switched["config"] = json!({"nope": true});
    let order = place(&world, &[update(2, "site", "note", json!("x")), switched]);
    let (order, words) = ended(&world, &order);
    assert_eq!(words, ["failed INVALID_ORDER_ITEM"; 2], "{order:#}");
    let reason = |at: usize| order["service_order_items"][at]["status"]["reason"].to_string();
    let gone = format!("there is no instance {}, as it has ended", id(2));
    assert!(reason(0).contains(&gone), "{}", reason(0));
    assert!(reason(1).contains("nope: is no switch"), "{}", reason(1));

    // Lists, and what is wrong with a call.
    let list = world.running.get_ok("/lsm/v2/order?limit=2");
    assert_eq!(list["data"].as_array().unwrap().len(), 2);
    assert_eq!(list["metadata"]["total"], 4);
    let next = list["links"]["next"].as_str().unwrap();
    assert_eq!(
        world.running.get_ok(next)["data"].as_array().unwrap().len(),
        2
    );
    assert_eq!(world.running.get("/lsm/v2/order/none").0, 404);
    let twice =
        json!({"service_order_items": [delete(1, "link"), delete(1, "link"), {"action": "eat"}]});
    let (status, answer) = world.running.call("POST", "/lsm/v2/order", Some(&twice));
    let message = answer["message"].as_str().unwrap();
    assert_eq!(status, 400);
    assert!(
        message.contains("[1]: another item")
            && message.contains("[2].action: must be create, update or delete")
            && message.contains("[2].instance_id: must be a UUID"),
        "{message}"
    );
    let same = json!({"id": list["data"][0]["id"], "service_order_items": [delete(1, "link")]});
    assert_eq!(
        world.running.call("POST", "/lsm/v2/order", Some(&same)).0,
        409
    );
}

/// Given: an instance whose resource can not be deployed; before it is tried, another instance is exported into a newer version.
/// Expected: what the run in the newer version said is the reason of the item, and is in the diagnosis.
#[test]
fn what_failed_in_a_version_that_was_exported_for_another_instance_is_told() {
    let world = world();
    std::fs::create_dir_all(world.host.file("blocked/x")).unwrap();
    let agent = |action: &str| {
        let path = format!("/api/v2/agent/localhost/{action}");
        assert_eq!(world.running.call("POST", &path, None).0, 200);
    };
    // There is an agent as soon as it has a resource.
    let first = place(&world, &[create(1, "site", json!({"name": "s1"}))]);
    assert_eq!(ended(&world, &first).1, ["completed"]);
    agent("pause");
    let exported = |name: &str| {
        let path = world.host.file(name).display().to_string();
        crate::harness::wait_until(&path, || {
            let list = world.running.get_ok("/api/v2/resource?limit=100");
            list["data"].to_string().contains(&path)
        });
    };
    let order = place(&world, &[create(4, "site", json!({"name": "blocked"}))]);
    exported("blocked");
    let other = place(&world, &[create(6, "site", json!({"name": "s6"}))]);
    exported("s6");
    agent("unpause");
    assert_eq!(ended(&world, &other).1, ["completed"]);
    let (order, words) = ended(&world, &order);
    assert_eq!(words, ["failed EXECUTION_FAILED"], "{order:#}");
    let said = &order["service_order_items"][0]["status"]["reason"];
    assert!(said.as_str().unwrap().contains("blocked]: "), "{said}");
    let path = format!(
        "/lsm/v1/service_inventory/site/{}/diagnose?failure_lookbehind=9",
        id(4)
    );
    let diagnosis = world.running.get_ok(&path)["data"].clone();
    let failures = diagnosis["failures"][0]["failures"].as_array().unwrap();
    // It came into the state `creating` as its version 3; the state that it failed into is exported, too.
    let of_creation = failures.iter().find(|one| one["instance_version"] == 3);
    let message = &of_creation.unwrap_or_else(|| panic!("{diagnosis:#}"))["message"];
    assert!(
        message.as_str().unwrap().contains("is a directory"),
        "{message}"
    );
}

#[test]
fn a_change_that_its_validation_refuses_fails_wherever_the_instance_is_led_back_to() {
    let lifecycle = "lsm::fsm::simple_with_delete_validate";
    let model = MODEL.replacen("lsm::fsm::simple", lifecycle, 1);
    let world = World::with(&model, &[], "link");
    let items = [
        create(1, "site", json!({"name": "s1"})),
        create(2, "link", json!({"name": "l1", "site": id(1)})),
    ];
    let (_, words) = ended(&world, &place(&world, &items));
    assert_eq!(words, ["completed", "completed"]);
    // It is as good as before, and not gone.
    let (order, words) = ended(&world, &place(&world, &[delete(1, "site")]));
    assert_eq!(words, ["failed VALIDATION_COMPILE_FAILED"]);
    let status = &order["service_order_items"][0]["status"];
    assert!(status["validation_compile_id"].is_string(), "{order:#}");
    assert!(
        status["reason"].as_str().unwrap().contains(&id(1)),
        "the compiler's first error: {order:#}"
    );
    assert_eq!(instance(&world, "site", 1)["state"], "up");
    // What changes nothing is done at once, and says what the instance is like.
    let same =
        json!({"instance_id": id(1), "service_entity": "site", "action": "update", "edits": []});
    let (again, words) = ended(&world, &place(&world, &[same]));
    assert_eq!(words, ["completed"], "{again:#}");
    let label =
        |order: &Value| order["service_order_items"][0]["status"]["instance_state_label"].clone();
    assert!(label(&again).is_string(), "{again:#}");
    assert_eq!(label(&again), label(&order));
}

#[test]
fn what_an_expert_removed_can_be_ordered_again() {
    let world = world();
    let item = [create(1, "site", json!({"name": "s1"}))];
    let (_, words) = ended(&world, &place(&world, &item));
    assert_eq!(words, ["completed"]);
    // What happens to the first one is no matter of the second one, though its versions have the same numbers.
    let change = [update(1, "site", "note", json!("new"))];
    let (_, words) = ended(&world, &place(&world, &change));
    assert_eq!(words, ["completed"]);
    let setting = "/api/v2/environment_settings/enable_lsm_expert_mode";
    world.call("POST", setting, json!({"value": true}));
    let expert = format!("/lsm/v2/service_inventory/site/{}/expert", id(1));
    world.call("DELETE", &expert, json!({"message": "it hangs"}));
    let (_, words) = ended(&world, &place(&world, &item));
    assert_eq!(words, ["completed"]);
    assert_eq!(instance(&world, "site", 1)["state"], "up");
}

/// Given: an order deletes an instance whose resource is not removed yet, and somebody leads the instance back.
/// Expected: the item ends, since nothing but another deletion can end the instance now.
#[test]
fn a_deletion_that_somebody_calls_off_ends_its_order() {
    let world = world();
    let item = [create(1, "site", json!({"name": "s1"}))];
    assert_eq!(ended(&world, &place(&world, &item)).1, ["completed"]);
    let setting = "/api/v2/environment_settings/enable_lsm_expert_mode";
    world.call("POST", setting, json!({"value": true}));
    let pause = "/api/v2/agent/localhost/pause";
    assert_eq!(world.running.call("POST", pause, None).0, 200);
    let order = place(&world, &[delete(1, "site")]);
    crate::harness::wait_until("it is to be deleted", || {
        instance(&world, "site", 1)["state"] == "deleting"
    });
    let expert = format!("/lsm/v1/service_inventory/site/{}/expert/state", id(1));
    world.call(
        "POST",
        &expert,
        json!({"target_state": "up", "message": "it is still needed"}),
    );
    let (order, words) = ended(&world, &order);
    assert_eq!(words, ["failed INCONCLUSIVE"], "{order:#}");
    assert_eq!(instance(&world, "site", 1)["state"], "up");
}

#[test]
fn an_order_goes_on_after_the_server_was_killed_in_the_middle_of_it() {
    let mut world = world();
    let items: Vec<Value> = (1..=12)
        .map(|number| match number % 3 {
            0 => create(
                number,
                "link",
                json!({"name": format!("t{number}"), "site": id(number - 1)}),
            ),
            _ => create(number, "site", json!({"name": format!("t{number}")})),
        })
        .collect();
    let body = json!({"id": id(99), "service_order_items": items});
    world.call("POST", "/lsm/v2/order", body);
    for pause in [0, 30, 120, 400, 900] {
        std::thread::sleep(std::time::Duration::from_millis(pause));
        world.crashes(&[]);
    }
    let (order, words) = ended(&world, &id(99));
    assert_eq!(words, ["completed"; 12], "{order:#}");
    for number in 1..=12_u8 {
        let entity = if number % 3 == 0 { "link" } else { "site" };
        let path = format!(
            "/lsm/v1/service_inventory/{entity}/{}/log?sort=version.asc",
            id(number)
        );
        let log = world.running.get_ok(&path)["data"].clone();
        let states: Vec<&str> = log
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["state"].as_str().unwrap())
            .collect();
        assert_eq!(
            states,
            ["start", "acknowledged", "creating", "up"],
            "made once"
        );
    }
}

/// A service whose instances are kept as soon as they are made. They can not be deleted, since that would promote candidate
/// attributes, which they do not have; and go on only when their switch says so.
const KEPT: &str = r#"import lsm

entity Kept extends lsm::ServiceEntity:
    string name
    string note = ""
    lsm::attribute_modifier note__modifier = "rw+"
end

index Kept(name)
implement Kept using parents

start = lsm::State(name="start", export_resources=false, validate_self="candidate")
kept = lsm::State(name="kept", label="success", export_resources=false, validate_self="active")
changing = lsm::State(name="changing", label="info", export_resources=false, validate_self="active")
gone = lsm::State(name="gone", export_resources=false, deleted=true)

lifecycle = lsm::LifecycleStateMachine(name="kept", initial_state=start, transfers=[
    lsm::StateTransfer(source=start, target=kept, auto=true, target_operation="promote"),
    lsm::StateTransfer(source=kept, target=changing, on_update=true),
    lsm::StateTransfer(source=kept, target=changing, auto=true, config_name="goes_on"),
    lsm::StateTransfer(source=kept, target=gone, on_delete=true, target_operation="promote"),
])

keeping = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Kept",
    service_entity_name="kept",
    lifecycle=lifecycle,
    service_identity="name",
)

for i in lsm::all(keeping):
    Kept(instance_id=i["id"], entity_binding=keeping, name=i["attributes"]["name"], note=i["attributes"]["note"])
end
"#;

//: lsm 104
#[test]
fn an_item_that_comes_to_nothing_ends_and_sets_no_switch() {
    let world = World::with(KEPT, &[], "kept");
    let mut made = create(1, "kept", json!({"name": "k1"}));
    made["config"] = json!({"goes_on": false});
    let (order, words) = ended(&world, &place(&world, &[made]));
    assert_eq!(words, ["completed"], "{order:#}");

    // The transfer is there, and its operation can not be done.
    let (order, words) = ended(&world, &place(&world, &[delete(1, "kept")]));
    assert_eq!(words, ["failed EXECUTION_FAILED"], "{order:#}");
    let reason = &order["service_order_items"][0]["status"]["reason"];
    let reason = reason.as_str().unwrap();
    assert!(reason.contains("from kept to gone failed"), "{reason}");

    let mut wrong = update(1, "kept", "nonsense", json!(1));
    wrong["config"] = json!({"goes_on": true});
    let (order, words) = ended(&world, &place(&world, &[wrong]));
    assert_eq!(words, ["failed INVALID_ORDER_ITEM"], "{order:#}");
    let kept = instance(&world, "kept", 1);
    assert_eq!(kept["state"], "kept");
    assert_eq!(kept["config"], json!({"goes_on": false}));

    // A switch is all that this one changes.
    let mut right = update(1, "kept", "note", json!(""));
    right["config"] = json!({"goes_on": true});
    let (order, words) = ended(&world, &place(&world, &[right]));
    assert_eq!(words, ["completed"], "{order:#}");
    assert_eq!(instance(&world, "kept", 1)["state"], "changing");
}
