//! The catalog of services follows the model. Source: docs/reference/lsm.md § 1.8, § 1.9, § 5.2.

use serde_json::{Value, json};

use crate::harness::wait_until;
use crate::service_world::{LINKS, World};

#[test]
fn a_push_that_does_not_fit_the_instances_fails_and_names_them() {
    let mut world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    // An attribute that no instance has, and that has no default.
    let broken = LINKS.replace(
        "    int mbps = 100\n",
        "    int mbps = 100\n    string colour\n",
    );
    world.repo.write("main.cf", &broken);
    world.repo.commit("links have colours");
    let failed = |event: &Value| event["event"] == "compiled" && event["success"] == json!(false);
    world.running.wait_for(failed);
    let report = world.running.get_ok("/api/v2/compilereport?limit=1");
    let id = report["data"][0]["id"].as_str().unwrap().to_owned();
    let report = world.running.get_ok(&format!("/api/v2/compilereport/{id}"));
    let text = report.to_string();
    assert!(
        text.contains(up["id"].as_str().unwrap()) && text.contains("colour"),
        "{report:#}"
    );
    let entity = world.running.get_ok("/lsm/v1/service_catalog/link");
    assert!(!entity.to_string().contains("colour"));
    // With a default it is filled in, without a new version.
    let good = LINKS.replace(
        "    int mbps = 100\n",
        "    int mbps = 100\n    string colour = \"red\"\n",
    );
    world.repo.write("main.cf", &good);
    world.repo.commit("links are red");
    wait_until("instances have the new attribute", || {
        world.instance(&path)["active_attributes"]["colour"] == "red"
    });
    assert_eq!(world.instance(&path)["version"], up["version"]);
    assert_eq!(
        world
            .refused("DELETE", "/lsm/v1/service_catalog/link", json!({}))
            .0,
        409
    );
}

/// Given: pushes that rename an attribute of a service with an instance, and that have the service no more. Expected: the report,
/// a notification and the log say whose values were removed, and which instances nothing deploys any more.
#[test]
fn a_push_says_which_values_and_services_it_takes_away() {
    let world = World::new();
    let path = world.create("a", 1);
    world.reaches(&path, "up");
    let stage = |world: &World| {
        let report = world.running.get_ok("/api/v2/compilereport?limit=1");
        let id = report["data"][0]["id"].as_str().unwrap().to_owned();
        let report = world.running.get_ok(&format!("/api/v2/compilereport/{id}"));
        let stages = report["data"]["reports"].as_array().unwrap().clone();
        let mut about = stages
            .into_iter()
            .filter(|stage| stage["name"] == "Updating the service catalog");
        let text = about
            .next()
            .map(|stage| stage["errstream"].as_str().unwrap().to_owned());
        assert_eq!(about.next(), None, "it is said once");
        text
    };
    assert_eq!(stage(&world), None);
    let renamed = LINKS
        .replace("mbps", "speed")
        .replace("speed = 100", "speed = 10");
    world.repo.write("main.cf", &renamed);
    world.repo.commit("links have a speed");
    wait_until("it is said what is lost", || stage(&world).is_some());
    let lost = stage(&world).unwrap();
    assert!(
        lost.contains("the service link has no attribute mbps any more: its values in 1 instance"),
        "{lost}"
    );
    let (_, after) = world.get(&path);
    assert_eq!(after["data"]["active_attributes"]["speed"], 10);
    let notification = world.running.get_ok("/api/v2/notification?limit=1")["data"][0].clone();
    assert_eq!(
        (&notification["severity"], &notification["message"]),
        (&json!("warning"), &json!(lost))
    );
    world.repo.write("main.cf", "import lsm\n");
    world.repo.commit("no links");
    let gone = "the service link is in the catalog with 1 instance, and not in the model";
    wait_until("it is said what is gone", || {
        stage(&world).is_some_and(|text| text.contains(gone))
    });
}

//: lsm 1
#[test]
fn the_catalog_has_records_schemas_and_versions() {
    let world = World::new();
    let record = world.running.get_ok("/lsm/v1/service_catalog/link")["data"].clone();
    assert_eq!(
        (&record["name"], &record["version"]),
        (&json!("link"), &json!(0))
    );
    assert_eq!(record["environment"], json!(world.running.environment()));
    assert_eq!(record["lifecycle"]["states"].as_array().unwrap().len(), 17);
    assert_eq!(
        record["lifecycle"]["transfers"].as_array().unwrap().len(),
        29
    );
    let schema = world.running.get_ok("/lsm/v1/service_catalog/link/schema")["data"].clone();
    assert_eq!(schema["required"], json!(["site"]));
    assert_eq!(schema["properties"]["mbps"]["default"], 100);
    assert_eq!(schema["properties"]["vlan"]["readOnly"], true);
    let versions = world.running.get_ok("/lsm/v2/service_catalog/link")["data"].clone();
    assert_eq!(versions["default_version"], 0);
    assert_eq!(versions["versions"], json!([record]));
    assert_eq!(
        world.running.get_ok("/lsm/v2/service_catalog/link/0")["data"],
        record
    );
    assert_eq!(world.get("/lsm/v2/service_catalog/link/1").0, 404);
    assert_eq!(world.get("/lsm/v1/service_catalog/none").0, 404);
    let definition = json!({"service_entity_definition": record});
    assert_eq!(
        world
            .refused("POST", "/lsm/v1/service_catalog", definition.clone())
            .0,
        409
    );
    // What was removed comes back by an export of the definitions, and nothing else is exported.
    let versions = |world: &World| {
        world.running.get_ok("/api/v2/desiredstate")["data"]
            .as_array()
            .unwrap()
            .len()
    };
    let n_versions = versions(&world);
    world.call("DELETE", "/lsm/v1/service_catalog/link", json!({}));
    assert_eq!(world.get("/lsm/v1/service_catalog/link").0, 404);
    world.call(
        "POST",
        "/lsm/v1/exporter/export_service_definition",
        json!({}),
    );
    wait_until("the definition is there again", || {
        world.get("/lsm/v1/service_catalog/link").0 == 200
    });
    assert_eq!(versions(&world), n_versions);
}

//: lsm 14
#[test]
fn a_strict_change_that_would_rewrite_instances_is_refused_and_names_them_and_a_free_one_does_it() {
    let world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    let service = "/lsm/v1/service_catalog/link";
    let record = world.running.get_ok(service)["data"].clone();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut record = record.clone();
        change(&mut record);
        json!({"service_entity_definition": record})
    };
    let note = json!({"name": "note", "type": "string", "modifier": "rw+", "default_value": "new", "default_value_set": true});
    let with_note = changed(&|record| {
        record["attributes"]
            .as_array_mut()
            .unwrap()
            .push(note.clone())
    });
    let (status, message) =
        world.refused("PUT", &format!("{service}?strict=true"), with_note.clone());
    assert!([400, 409].contains(&status), "{status} {message}");
    let id = up["id"].as_str().unwrap();
    assert!(
        message.contains(id) && message.contains("note"),
        "{message}"
    );
    assert_eq!(world.instance(&path), up);
    world.call("PUT", service, with_note);
    let after = world.instance(&path);
    assert_eq!(after["active_attributes"]["note"], "new");
    assert_eq!(
        (&after["version"], &after["state"]),
        (&up["version"], &up["state"])
    );
    // What no stored value allows, and what would lose what instances are known by.
    let stated = |value_type: &str| {
        let value_type = value_type.to_owned();
        changed(&move |record| record["attributes"][0]["type"] = json!(value_type))
    };
    let named = |body: Value, word: &str| {
        let (status, message) = world.refused("PUT", service, body);
        assert!([400, 409].contains(&status), "{status} {message}");
        assert!(message.contains(word), "{word}: {message}");
    };
    assert_eq!(record["attributes"][0]["name"], "site");
    named(stated("int"), id);
    named(
        changed(&|record| record["service_identity"] = json!(null)),
        "identity",
    );
    let without_up = |record: &mut Value| {
        let lifecycle = &mut record["lifecycle"];
        let keeps = |one: &Value| !one.to_string().contains("\"up\"");
        for list in ["states", "transfers"] {
            lifecycle[list].as_array_mut().unwrap().retain(keeps);
        }
    };
    named(changed(&without_up), "up");
    named(changed(&|record| record["name"] = json!("other")), "other");
    named(json!({"service_entity_definition": "x"}), "definition");
}

/// Without a version the default one of the tunnels is meant, which is the second.
fn is_shown_in_its_default_version(world: &World) {
    let service = world.running.get_ok("/lsm/v1/service_catalog/tunnel")["data"].clone();
    assert_eq!(service["version"], 1);
    let list = world.running.get_ok("/lsm/v1/service_catalog")["data"].clone();
    assert_eq!(list, json!([service]));
    let all = world.running.get_ok("/lsm/v2/service_catalog")["data"].clone();
    assert_eq!(all.as_array().unwrap().len(), 2);
    let schema = world
        .running
        .get_ok("/lsm/v1/service_catalog/tunnel/schema")["data"]
        .clone();
    assert!(schema["properties"].get("mbps").is_some(), "{schema}");
    let first = world.running.get_ok("/lsm/v2/service_catalog/tunnel/0")["data"].clone();
    let body = json!({"service_entity_definition": first});
    assert_eq!(
        world
            .refused("PUT", "/lsm/v1/service_catalog/tunnel", body)
            .0,
        400
    );
}

//: lsm 15, 19, 103
#[test]
fn a_service_has_versions_and_its_instances_go_from_one_to_another() {
    let world = World::fixture("tunnel_versions", &[], "tunnel");
    is_shown_in_its_default_version(&world);
    let inventory = "/lsm/v1/service_inventory/tunnel";
    let body = json!({"attributes": {"name": "t", "kbps": 1}, "service_entity_version": 0});
    let made = world.call("POST", inventory, body);
    let path = crate::service_world::path_of(&made);
    let up = world.reaches(&path, "up");
    let old = world
        .running
        .get_ok(&format!("{inventory}?filter.service_entity_version=lt:1"));
    assert_eq!(old["metadata"]["total"], 1);
    let conflict = world.refused("DELETE", "/lsm/v2/service_catalog/tunnel/0", json!({}));
    assert_eq!(conflict.0, 409, "{}", conflict.1);

    let migration = format!("{path}/update_entity_version");
    let set = json!({"name": "t", "mbps": 1});
    let good = json!({
        "current_version": up["version"], "target_entity_version": 1, "state": "update_start",
        "candidate_attributes": set, "active_attributes": set,
    });
    for (field, value, status, word) in [
        ("current_version", json!(1), 409, "version"),
        ("current_version", json!(null), 400, "current_version"),
        ("target_entity_version", json!(7), 404, "7"),
        (
            "target_entity_version",
            json!(null),
            400,
            "target_entity_version",
        ),
        ("state", json!("nowhere"), 400, "nowhere"),
        ("state", json!(null), 400, "state"),
        (
            "active_attributes",
            json!({"name": "t", "kbps": 1}),
            400,
            "active_attributes.kbps",
        ),
        (
            "rollback_attributes",
            json!({"name": "t", "mbps": "x"}),
            400,
            "rollback_attributes.mbps",
        ),
        (
            "candidate_attributes",
            json!([]),
            400,
            "candidate_attributes",
        ),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let (found, message) = world.refused("PATCH", &migration, body);
        assert!(
            found == status && message.contains(word),
            "{field}: {found} {message}"
        );
    }
    let mut nothing = good.clone();
    nothing["candidate_attributes"] = json!(null);
    nothing["active_attributes"] = json!(null);
    assert_eq!(world.refused("PATCH", &migration, nothing).0, 400);
    assert_eq!(world.instance(&path), up);
    let moved = world.call("PATCH", &migration, good);
    assert_eq!(
        (
            &moved["service_entity_version"],
            &moved["state"],
            &moved["version"]
        ),
        (&json!(1), &json!("update_start"), &json!(5))
    );
    let after = world.comes_to(&path, "up", 8);
    assert_eq!(
        after["active_attributes"],
        json!({"name": "t", "mbps": 1, "path": []})
    );
    assert_eq!(world.host.read("t"), "1 Mbit/s over []");
    // Nothing is of the old version any more, so it may go.
    world.call("DELETE", "/lsm/v2/service_catalog/tunnel/0", json!({}));
    assert_eq!(world.get("/lsm/v2/service_catalog/tunnel/0").0, 404);
}
