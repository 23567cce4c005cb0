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
