//! Services on the real server: instances over REST, how they go through their states, also when the server is killed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::request;
use crate::service_world::{LINKS, World, bandwidth, path_of, v2};

//: lsm 23, 29, 31, 33, 43, 45, 69
#[test]
fn an_instance_is_validated_deployed_updated_and_deleted() {
    let world = World::new();
    let path = world.create("ams1", 100);
    let up = world.reaches(&path, "up");
    assert_eq!(up["candidate_attributes"], Value::Null);
    assert_eq!(
        up["active_attributes"],
        json!({"site": "ams1", "mbps": 100, "vlan": null})
    );
    assert_eq!(world.host.read("ams1"), "100\n");
    assert_eq!(
        world.states(&path),
        ["start", "acknowledged", "creating", "up"]
    );
    // By its identity, too.
    let same = world.instance("/lsm/v1/service_inventory/link/site=ams1");
    assert_eq!(same["id"], up["id"]);

    let updated = world.call("PATCH", &v2(&path), bandwidth(200, &up["version"], "p1"));
    assert_eq!(
        (&updated["state"], &updated["version"]),
        (&json!("update_start"), &json!(5))
    );
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while world.instance(&path)["version"].as_u64() < Some(8) {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            world.instance(&path)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let up = world.reaches(&path, "up");
    assert_eq!(world.host.read("ams1"), "200\n");
    assert_eq!(up["rollback_attributes"]["mbps"], 100);

    let resources = world.running.get_ok(&format!("{path}/resources"))["data"].clone();
    assert_eq!(resources.as_array().unwrap().len(), 1, "{resources}");
    assert_eq!(resources[0]["resource_state"], "deployed");
    let progress = world.instance(&format!("{path}?include_deployment_progress=True"));
    assert_eq!(
        progress["deployment_progress"],
        json!({"total": 1, "failed": 0, "deployed": 1, "waiting": 0})
    );

    let version = up["version"].as_u64().unwrap();
    world.call(
        "DELETE",
        &format!("{path}?current_version={version}"),
        json!({}),
    );
    let ended = world.reaches(&path, "terminated");
    assert_eq!(ended["deleted"], json!(true));
    assert!(!world.host.file("ams1").exists());
    let list = |more: &str| {
        let list = world
            .running
            .get_ok(&format!("/lsm/v1/service_inventory/link?{more}"));
        list["data"].as_array().unwrap().len()
    };
    assert_eq!(
        (
            list(""),
            list("include_deleted=true"),
            list("filter.deleted=True")
        ),
        (0, 1, 1)
    );
    // Its identity is free again.
    let path = world.create("ams1", 50);
    world.reaches(&path, "up");
}

//: lsm 34, 43, 98
#[test]
fn a_model_that_refuses_an_instance_rejects_it_and_the_diagnosis_says_why() {
    let world = World::new();
    let path = world.create("bad", 666);
    let rejected = world.reaches(&path, "rejected");
    assert_eq!(rejected["candidate_attributes"]["mbps"], 666);
    assert_eq!(rejected["active_attributes"], Value::Null);
    let found = world.running.get_ok(&format!("{path}/diagnose"))["data"].clone();
    let errors = found["rejections"][0]["errors"].clone();
    assert!(
        errors[0]["message"].as_str().unwrap().contains("mbps"),
        "{found:#}"
    );
    assert!(found["rejections"][0]["compile_id"].is_string());
    // Corrected, it goes its way.
    world.call(
        "PATCH",
        &v2(&path),
        bandwidth(10, &rejected["version"], "p1"),
    );
    world.reaches(&path, "up");
    assert_eq!(world.host.read("bad"), "10\n");
}

//: lsm 65, 98
#[test]
fn a_failed_deployment_fails_the_instance_until_a_repair_succeeds() {
    let world = World::new();
    // A directory with something in it is where the file shall be.
    std::fs::create_dir(world.host.file("ams1")).unwrap();
    std::fs::write(world.host.file("ams1").join("x"), "").unwrap();
    let path = world.create("ams1", 100);
    let failed = world.reaches(&path, "failed");
    assert_eq!(failed["desired_state_version"], json!(4));
    // The instance hears of its deployment a moment before the runs of its resources are in the database.
    crate::harness::wait_until("the diagnosis has the failed run", || {
        let found = world.running.get_ok(&format!("{path}/diagnose"))["data"].clone();
        let resource = found["failures"][0]["resource_id"].as_str();
        resource.is_some_and(|resource| resource.contains("fs::File"))
    });
    std::fs::remove_dir_all(world.host.file("ams1")).unwrap();
    world.call(
        "POST",
        "/api/v1/deploy",
        json!({"agent_trigger_method": "push_full_deploy"}),
    );
    world.reaches(&path, "up");
    assert_eq!(world.host.read("ams1"), "100\n");
}

//: lsm 44, 51
#[test]
fn of_two_updates_with_one_version_one_succeeds_and_the_same_update_again_has_no_effect() {
    let world = World::new();
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    let (api, environment) = (world.running.api.clone(), world.running.environment());
    let update = |patch: &str, mbps: i64| {
        let url = format!("{api}{}", v2(&path));
        let body = bandwidth(mbps, &up["version"], patch);
        let environment = environment.clone();
        std::thread::spawn(move || request("PATCH", &url, Some(&environment), Some(&body)).0)
    };
    let threads: Vec<_> = (0..8).map(|n| update(&format!("p{n}"), 10 + n)).collect();
    let statuses: Vec<u16> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    let good: Vec<_> = (0..8).filter(|n| statuses[*n as usize] == 200).collect();
    assert_eq!(good.len(), 1, "{statuses:?}");
    assert!(
        statuses.iter().all(|status| [200, 409].contains(status)),
        "{statuses:?}"
    );
    let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
    while world.instance(&path)["version"].as_u64() < Some(8) {
        assert!(
            std::time::Instant::now() < deadline,
            "{}",
            world.instance(&path)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let after = world.reaches(&path, "up");
    // The version is long out of date, and still it is no conflict: it was done.
    let again = bandwidth(99, &up["version"], &format!("p{}", good[0]));
    let answer = world.call("PATCH", &v2(&path), again);
    assert_eq!(answer["version"], after["version"]);
    assert_eq!(world.instance(&path), after);
}

//: lsm 49
#[test]
fn automatic_transfers_that_a_crash_interrupts_are_taken_up_again_and_none_twice() {
    let mut world = World::new();
    let paths: Vec<String> = (0..5).map(|n| world.create(&format!("s{n}"), n)).collect();
    world.crashes(&[]);
    for path in &paths {
        world.reaches(path, "up");
        let states = ["start", "acknowledged", "creating", "up"];
        assert_eq!(world.states(path), states);
    }
    let reports = world.running.get_ok("/api/v2/compilereport?limit=1000")["data"].clone();
    let reports = reports.as_array().unwrap().iter();
    let validated = reports.filter(|report| report["metadata"]["type"] == "lsm");
    let mut validated: Vec<String> = validated
        .map(|report| report["remote_id"].to_string())
        .collect();
    validated.sort_unstable();
    let n_validated = validated.len();
    validated.dedup();
    assert_eq!((n_validated, validated.len()), (5, 5), "{validated:?}");
}

/// Given: dicts whose keys a client sends in any order. Expected: the answers, the record and the model have them as the reference's
/// database keeps them, shorter keys first, so that what a model makes of them is the same text.
#[test]
fn keys_of_dicts_come_back_and_reach_the_model_in_the_order_of_the_reference() {
    let extra = "    dict extra = {}\n    lsm::attribute_modifier extra__modifier = \"rw+\"\n    int? vlan = null\n";
    let model = LINKS
        .replacen("    int? vlan = null\n", extra, 1)
        .replace("{{self.mbps}}\\n", "{{self.extra}}");
    let world = World::with(&model, &[], "link");
    // As a client writes it; the order of its keys is a part of the test.
    let sent: Value = serde_json::from_str(
        r#"{"zeta": {"long": 1, "ab": 2, "c": 3}, "ü": [{"bb": 1, "a": 2}], "a": 1, "Z": 2}"#,
    )
    .unwrap();
    let kept = r#"{"Z":2,"a":1,"ü":[{"a":2,"bb":1}],"zeta":{"c":3,"ab":2,"long":1}}"#;
    let body = json!({"attributes": {"site": "a", "extra": sent}});
    let created = world.call("POST", "/lsm/v1/service_inventory/link", body);
    assert_eq!(created["candidate_attributes"]["extra"].to_string(), kept);
    let path = path_of(&created);
    let up = world.reaches(&path, "up");
    assert_eq!(up["active_attributes"]["extra"].to_string(), kept);
    let text = "{'Z': 2, 'a': 1, 'ü': [{'a': 2, 'bb': 1}], 'zeta': {'c': 3, 'ab': 2, 'long': 1}}";
    assert_eq!(world.host.read("a"), text);
    // A key that is added takes its place.
    let (status, answer) = world.edit(&path, &[("replace", "extra.b", json!(5))]);
    assert_eq!(status, 200, "{answer}");
    let updated = world.comes_to(&path, "up", 8);
    let kept = kept.replacen("\"ü\"", "\"b\":5,\"ü\"", 1);
    assert_eq!(updated["active_attributes"]["extra"].to_string(), kept);
}
