//! What clients of services give is looked at before anything changes. Source: docs/reference/lsm.md § 1.3, § 3.14, § 3.15, § 5.

use serde_json::{Value, json};

use crate::harness::send;
use crate::service_world::{LINKS, World, bandwidth, v2};

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

/// The environment of a world as messages name it: by its name, and its id.
fn shown_environment(world: &World) -> String {
    let list = world.running.get_ok("/api/v2/environment");
    let environment = &list["data"][0];
    let name = environment["name"].as_str().unwrap();
    let id = environment["id"].as_str().unwrap();
    format!("{name} ({id})")
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
    let (status, message) = world.refused("POST", &format!("{path}/metadata/owner"), stale);
    assert_eq!(status, 409, "{message}");
    assert!(message.contains(&shown_environment(&world)), "{message}");
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
    // What the definition does not allow is done, and said.
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "vlan", "value": "seven"});
    let body = json!({"attribute_set_name": "active", "patch_id": "e2", "comment": "oops", "edit": [edit]});
    let (status, forced) =
        world
            .running
            .call("PATCH", &format!("{}/expert", v2(&path)), Some(&body));
    assert_eq!(
        (status, &forced["data"]["active_attributes"]["vlan"]),
        (200, &json!("seven"))
    );
    let warning = forced["metadata"]["warnings"][0].as_str().unwrap();
    assert!(warning.contains("vlan"), "{warning}");
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

/// The links of [`LINKS`] with an object of anything.
fn with_extra() -> World {
    let extra = "    dict extra = {}\n    lsm::attribute_modifier extra__modifier = \"rw+\"\n    int? vlan = null\n";
    let model = LINKS.replace("    int? vlan = null\n", extra);
    World::with(&model, &[], "link")
}

/// Bodies of a call that creates a link, which are refused, and a word that the answer has.
fn strange() -> Vec<(String, &'static str)> {
    let nested = |depth: usize| {
        let (open, close) = ("{\"a\":".repeat(depth), "}".repeat(depth));
        format!("{{\"attributes\":{{\"site\":\"s{depth}\",\"extra\":{open}1{close}}}}}")
    };
    vec![
        (nested(120), "100 levels"),
        (nested(100_000), "recursion"),
        (
            "{\"attributes\":{\"site\":\"n\",\"mbps\":NaN}}".to_owned(),
            "no JSON",
        ),
        (
            "{\"attributes\":{\"site\":\"n\",\"mbps\":1e999}}".to_owned(),
            "no JSON",
        ),
        (
            "{\"attributes\":{\"site\":\"\\ud800\"}}".to_owned(),
            "no JSON",
        ),
        (
            "{\"attributes\":{\"site\":\"n\",\"mbps\":1.5}}".to_owned(),
            "mbps",
        ),
        (
            "{\"attributes\":{\"site\":\"n\",\"mbps\":true}}".to_owned(),
            "mbps",
        ),
        ("{\"attributes\":{\"site\":5}}".to_owned(), "site"),
        (
            "{\"attributes\":{\"site\":\"n\",\"extra\":[1]}}".to_owned(),
            "extra",
        ),
        ("{\"attributes\":\"x\"}".to_owned(), "attributes"),
        ("[1]".to_owned(), "object"),
        (
            "{\"attributes\":{\"site\":\"n\"},\"service_instance_id\":\"x\"}".to_owned(),
            "service_instance_id",
        ),
        (
            "{\"attributes\":{\"site\":\"n\"},\"service_entity_version\":-1}".to_owned(),
            "service_entity_version",
        ),
        (
            "{\"attributes\":{\"site\":\"n\"},\"initial_state\":\"up\"}".to_owned(),
            "up",
        ),
    ]
}

/// Input: attributes of a service instance that are nested without end, no numbers, no text, 100 000 of them that nobody knows, of other types; ids, versions and pages that are none (docs/reference/security.md § 3.42). Answer: 400 that names the field, and the server is well.
#[test]
fn strange_attributes_of_instances_are_refused_and_named() {
    let world = with_extra();
    let url = format!("{}/lsm/v1/service_inventory/link", world.running.api);
    let headers = [("X-Inmanta-tid".to_owned(), world.running.environment())];
    let raw = |body: &[u8]| send("POST", &url, &headers, body);
    for (body, word) in strange() {
        let (status, answer) = raw(body.as_bytes());
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            status == 400 && message.contains(word),
            "{word}: {status} {answer}"
        );
    }
    assert_eq!(raw(b"{\"attributes\":{\"site\":\"\xff\"}}").0, 400);
    let long = format!("{{\"attributes\":{{\"site\":\"{}\"}}}}", "x".repeat(1001));
    let (status, answer) = raw(long.as_bytes());
    assert!(
        status == 400 && answer.to_string().contains("1001 bytes"),
        "{answer}"
    );
    let unknown = (0..100_000).map(|n| format!("\"f{n}\":{n}"));
    let unknown: Vec<String> = unknown.collect();
    let (status, answer) = raw(format!("{{\"attributes\":{{{}}}}}", unknown.join(",")).as_bytes());
    let message = answer["message"].as_str().unwrap();
    // The first thousand, and how many more.
    assert!(
        status == 400 && message.ends_with(" more") && message.len() < 100_000,
        "{status}"
    );
    for query in [
        "limit=99999999999999999999",
        "limit=-1",
        "limit=1001",
        "start=zzz&first_id=1",
        "sort=id",
        "filter.state[]=up",
    ] {
        let (status, answer) = world.get(&format!("/lsm/v1/service_inventory/link?{query}"));
        assert_eq!(status, 400, "{query}: {answer}");
    }
    for filter in ["id_or_service_identity=a", "service_entity_version=ge:0"] {
        let query = format!("filter.{filter}&").repeat(600);
        let (status, answer) = world.get(&format!("/lsm/v1/service_inventory/link?{query}"));
        assert_eq!(status, 400, "{filter}: {answer}");
    }
    // Names may be any text; a model that does not look at them takes them.
    let names = json!({"\u{202e}\u{1f600}ß": 1, "": 2, "a.b": 3, "*": 4, "[x=1]": 5, "a\\": 6});
    let path = world.order("link", json!({"site": "names", "extra": names}));
    let up = world.reaches(&path, "up");
    assert_eq!(up["active_attributes"]["extra"], names);
    let (status, answer) = world.edit(
        &path,
        &[
            ("replace", "extra.a\\.b", json!(7)),
            ("remove", "extra.\\[x\\=1\\]", json!(null)),
        ],
    );
    assert_eq!(status, 200, "{answer}");
    let extra = &answer["data"]["candidate_attributes"]["extra"];
    assert_eq!((&extra["a.b"], extra.get("[x=1]")), (&json!(7), None));
}

/// Input: edits of a service instance whose paths have 20 000 sections or selectors, wildcards, nothing; many that together nest a value without end; 10 001 of one call (docs/reference/security.md § 3.42). Answer: 400 that names the edit, and the server is well.
#[test]
fn paths_and_edits_without_end_are_refused_and_nothing_changes() {
    let world = with_extra();
    let path = world.order(
        "link",
        json!({"site": "a", "extra": {"l": [{"k": 1}, {"k": 2}]}}),
    );
    let up = world.reaches(&path, "up");
    let long = format!("extra{}", ".a".repeat(20_000));
    let selectors: Vec<String> = (0..20_000).map(|n| format!("[s{n}=1]")).collect();
    let selectors = format!("extra.l{}", selectors.concat());
    let deep = format!("extra{}", ".b".repeat(99));
    let ninety = (0..90).fold(json!(1), |inner, _| json!({"c": inner}));
    let one = |operation, target, value| vec![(operation, target, value)];
    for (edits, word) in [
        (one("replace", long.as_str(), json!(1)), "100 sections"),
        (one("remove", &long, json!(1)), "100 sections"),
        (one("merge", &selectors, json!({})), "100 selectors"),
        (one("replace", &deep, ninety), "100 levels"),
        (one("replace", "extra.l[k=*]", json!(1)), "wildcard"),
        (one("replace", "", json!(1)), "no section"),
        (one("replace", "extra.l[k=1][k=2]", json!(1)), "same key"),
        (one("replace", ".", json!(1)), "edit_id"),
        (one("replace", "mbps.x", json!(1)), "mbps"),
        (one("jump", "mbps", json!(1)), "jump"),
        (one("replace", "site", json!("b")), "site"),
        (vec![("replace", "mbps", json!(1)); 10_001], "10000 edits"),
    ] {
        let (status, answer) = world.edit(&path, &edits);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            status == 400 && message.contains(word),
            "{word}: {status} {message:.300}"
        );
    }
    for body in [
        json!({}),
        json!({"patch_id": null, "current_version": 4, "edit": []}),
        json!({"patch_id": "p".repeat(1001), "current_version": 4, "edit": []}),
        json!({"patch_id": "p", "current_version": "x", "edit": []}),
    ] {
        assert_eq!(world.refused("PATCH", &v2(&path), body).0, 400);
    }
    assert_eq!(world.instance(&path), up);
    // Many that are good are one update.
    let appended: Vec<_> = (10..1000)
        .map(|k| ("add", "extra.l", json!({"k": k})))
        .collect();
    let (status, answer) = world.edit(&path, &appended);
    assert_eq!(status, 200, "{answer}");
    world.comes_to(&path, "up", 8);
}

//: lsm 39
#[test]
fn a_switch_of_a_service_holds_instances_back_until_their_own_or_a_client_lets_them_go() {
    let world = World::fixture("l3_connectivity", &[], "l3_connection");
    let config = "/lsm/v1/service_catalog/l3_connection/config";
    let off = json!({"values": {"auto_creating": false}});
    let switches = world.call("POST", config, off);
    assert_eq!(
        (&switches["auto_creating"], &switches["auto_designed"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(world.running.get_ok(config)["data"], switches);
    let unknown =
        json!({"values": {"auto_nothing": false, "auto_creating": true, "auto_else": true}});
    let (status, message) = world.refused("POST", config, unknown);
    assert_eq!(status, 400, "{message}");
    for name in ["auto_nothing", "auto_else", "auto_designed"] {
        assert_eq!(message.matches(name).count(), 1, "{message}");
    }
    assert_eq!(world.running.get_ok(config)["data"], switches);
    let strange = json!({"force_update": "x"});
    let (status, message) = world.refused(
        "POST",
        "/lsm/v1/exporter/export_service_definition",
        strange,
    );
    assert!(
        status == 400 && message.contains("force_update"),
        "{message}"
    );
    let order = |name: &str| world.order("l3_connection", json!({"name": name, "router": "r"}));
    let (own, other) = (order("a"), order("b"));
    let designed = world.reaches(&own, "designed");
    world.reaches(&other, "designed");
    assert_eq!(designed["active_attributes"], Value::Null);
    let stale = json!({"current_version": 1, "values": {"auto_creating": true}});
    assert_eq!(
        world.refused("POST", &format!("{own}/config"), stale).0,
        409
    );
    let on = json!({"current_version": designed["version"], "values": {"auto_creating": true}});
    let switches = world.call("POST", &format!("{own}/config"), on);
    assert_eq!(switches["auto_creating"], true);
    world.reaches(&own, "up");
    let waiting = world.instance(&other);
    assert_eq!(waiting["state"], "designed");
    assert!(!world.host.file("r-b").exists());
    let creating = json!({"current_version": waiting["version"], "target_state": "creating", "message": "now"});
    world.call("POST", &format!("{other}/state"), creating);
    world.reaches(&other, "up");
    assert!(world.host.file("r-b").exists());
}
