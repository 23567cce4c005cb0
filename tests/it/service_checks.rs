//! What clients of services give is looked at before anything changes. Source: docs/reference/lsm.md § 1.3, § 3.14, § 3.15, § 5.

use serde_json::{Value, json};

use crate::service_world::{World, bandwidth, v2};

//: lsm 20, 22, 30, 40, 101
#[test]
fn what_a_client_gives_is_checked_before_anything_changes() {
    let world = World::new();
    let inventory = "/lsm/v1/service_inventory/link";
    let create =
        |attributes: Value| world.refused("POST", inventory, json!({"attributes": attributes}));
    for (attributes, status, reason) in [
        (json!({"mbps": 1}), 400, "site"),
        (json!({"site": "a", "vlan": 3}), 400, "vlan"),
        (json!({"site": "a", "mbps": "fast"}), 400, "mbps"),
        (json!({"site": "a", "colour": "red"}), 400, "colour"),
    ] {
        let (code, message) = create(attributes);
        assert_eq!(code, status, "{message}");
        assert!(message.contains(reason), "{message}");
    }
    let (status, message) = create(json!({"mbps": "fast", "colour": 1}));
    let all = ["site", "mbps", "colour"];
    assert!(
        status == 400 && all.iter().all(|name| message.contains(name)),
        "{message}"
    );
    assert_eq!(
        world
            .refused(
                "POST",
                "/lsm/v1/service_inventory/none",
                json!({"attributes": {}})
            )
            .0,
        404
    );
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    let (status, message) = create(json!({"site": "a"}));
    assert_eq!(status, 409, "{message}");
    let id = json!({"attributes": {"site": "b"}, "service_instance_id": up["id"]});
    assert_eq!(world.refused("POST", inventory, id).0, 409);

    let stale = world.refused("PATCH", &v2(&path), bandwidth(2, &json!(2), "p"));
    let version = up["version"].to_string();
    assert!(
        stale.0 == 409 && stale.1.contains(&version) && stale.1.contains('2'),
        "{stale:?}"
    );
    assert_eq!(
        world
            .refused("DELETE", &format!("{path}?current_version=1"), json!({}))
            .0,
        409
    );
    let state = |target: &str| json!({"current_version": up["version"], "target_state": target, "message": "m"});
    assert_eq!(
        world
            .refused("POST", &format!("{path}/state"), state("rollback"))
            .0,
        400
    );
    let seed = path.replace("service_inventory", "services") + "/state";
    assert_eq!(world.refused("POST", &seed, state("rollback")).0, 400);
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "site", "value": "z"});
    let site = json!({"patch_id": "q", "current_version": up["version"], "edit": [edit]});
    let (status, message) = world.refused("PATCH", &v2(&path), site);
    assert!(status == 400 && message.contains("site"), "{message}");
    let expert = json!({"target_state": "failed", "message": "m"});
    assert_eq!(
        world
            .refused("POST", &format!("{path}/expert/state"), expert)
            .0,
        403
    );
    assert_eq!(world.instance(&path), up, "nothing of this has changed it");
}

#[test]
fn switches_and_metadata_are_kept_with_the_instance_without_a_new_version() {
    let world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    assert_eq!(world.get(&format!("{path}/metadata/owner")).0, 404);
    let value = json!({"current_version": up["version"], "value": "jo"});
    world.call("POST", &format!("{path}/metadata/owner"), value);
    assert_eq!(
        world.running.get_ok(&format!("{path}/metadata/owner"))["data"],
        "jo"
    );
    let shown = world.instance(&format!("{path}?include_metadata=true"));
    assert_eq!(
        (&shown["metadata"], &shown["version"]),
        (&json!({"owner": "jo"}), &up["version"])
    );
    let stale = json!({"current_version": 1, "value": "x"});
    assert_eq!(
        world
            .refused("POST", &format!("{path}/metadata/owner"), stale)
            .0,
        409
    );
    assert_eq!(
        world.running.get_ok(&format!("{path}/config"))["data"],
        json!({})
    );
    let unknown = json!({"current_version": up["version"], "values": {"auto_nothing": true}});
    assert_eq!(
        world.refused("POST", &format!("{path}/config"), unknown).0,
        400
    );
}

//: lsm 52, 101
#[test]
fn experts_go_around_the_lifecycle_where_the_setting_lets_them() {
    let world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    let setting = "/api/v2/environment_settings/enable_lsm_expert_mode";
    world.call("POST", setting, json!({"value": true}));
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "vlan", "value": 7});
    let body = json!({"attribute_set_name": "active", "patch_id": "e1", "comment": "by hand", "edit": [edit]});
    let forced = world.call("PATCH", &format!("{}/expert", v2(&path)), body);
    assert_eq!(forced["active_attributes"]["vlan"], 7);
    assert_eq!(
        forced["version"].as_u64(),
        up["version"].as_u64().map(|version| version + 1)
    );
    let body = json!({"target_state": "rejected", "message": "to be rid of it", "operation": "clear active"});
    let forced = world.call("POST", &format!("{path}/expert/state"), body);
    assert_eq!(
        (&forced["state"], &forced["active_attributes"]),
        (&json!("rejected"), &Value::Null)
    );
    world.call(
        "DELETE",
        &format!("{}/expert", v2(&path)),
        json!({"message": "gone"}),
    );
    assert_eq!(world.get(&path).0, 404);
}
