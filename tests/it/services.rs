//! Services on the real server: the catalog that follows the model, instances over REST, and how they go through their states.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, request, wait_until};

/// A service whose instances are a file each, named after their site, with their bandwidth in it. 666 is refused by the model.
pub const LINKS: &str = r#"import lsm
import lsm::fsm
import fs

entity Link extends lsm::ServiceEntity:
    """ A link to a site.

    :attr site: what it leads to, and how people name it
    :attr mbps: its bandwidth
    """
    string site
    int mbps = 100
    lsm::attribute_modifier mbps__modifier = "rw+"
    int? vlan = null
    lsm::attribute_modifier vlan__modifier = "r"
end

index Link(site)

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)

implementation deploy for Link:
    self.resources += fs::File(
        host=host,
        path="{{root}}/{{self.site}}",
        content="{{self.mbps}}\n",
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

implement Link using deploy, parents
implement Link using refused when mbps == 666

links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link",
    service_entity_name="link",
    lifecycle=lsm::fsm::simple,
    service_identity="site",
)

for i in lsm::all(links):
    Link(instance_id=i["id"], entity_binding=links, **i["attributes"])
end
"#;

/// A server with the service, and calls to it.
struct World {
    repo: Repo,
    host: Host,
    running: Running,
}

impl World {
    fn new() -> Self {
        let (repo, host) = (Repo::new(LINKS), Host::new());
        let running = Running::start(host.up(repo.path()));
        let world = Self {
            repo,
            host,
            running,
        };
        wait_until("the service is in the catalog", || {
            world.get("/lsm/v1/service_catalog/link").0 == 200
        });
        world
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.running.get(path)
    }

    #[track_caller]
    fn call(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.running.call(method, path, Some(&body));
        assert_eq!(status, 200, "{method} {path} {body}: {answer}");
        answer["data"].clone()
    }

    /// The status of a call that is refused, and what it says.
    #[track_caller]
    fn refused(&self, method: &str, path: &str, body: Value) -> (u16, String) {
        let (status, answer) = self.running.call(method, path, Some(&body));
        assert_ne!(status, 200, "{method} {path} {body}: {answer}");
        (
            status,
            answer["message"].as_str().unwrap_or_default().to_owned(),
        )
    }

    /// Creates an instance; gives its path.
    #[track_caller]
    fn create(&self, site: &str, mbps: i64) -> String {
        let body = json!({"attributes": {"site": site, "mbps": mbps}});
        let instance = self.call("POST", "/lsm/v1/service_inventory/link", body);
        assert_eq!(
            (&instance["version"], &instance["state"]),
            (&json!(1), &json!("start"))
        );
        path_of(&instance)
    }

    fn instance(&self, path: &str) -> Value {
        self.running.get_ok(path)["data"].clone()
    }

    /// Waits for a state; gives the instance in it.
    #[track_caller]
    fn reaches(&self, path: &str, state: &str) -> Value {
        let deadline = std::time::Instant::now() + crate::harness::DEADLINE;
        loop {
            let instance = self.instance(path);
            if instance["state"] == state {
                return instance;
            }
            if std::time::Instant::now() > deadline {
                let events = self.get(&format!("{path}/events?limit=50")).1;
                let reports = self.get("/api/v2/compilereport?limit=5").1;
                panic!("never {state}: {instance:#}\n{events:#}\n{reports:#}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The states that an instance went through, by version.
    fn states(&self, path: &str) -> Vec<String> {
        let log = self
            .running
            .get_ok(&format!("{path}/log?sort=version.asc&limit=1000"));
        let log = log["data"].as_array().unwrap().iter();
        let states = log.enumerate().map(|(at, item)| {
            assert_eq!(
                item["version"],
                json!(at + 1),
                "no version is skipped or repeated"
            );
            item["state"].as_str().unwrap().to_owned()
        });
        states.collect()
    }
}

fn path_of(instance: &Value) -> String {
    format!(
        "/lsm/v1/service_inventory/link/{}",
        instance["id"].as_str().unwrap()
    )
}

fn v2(path: &str) -> String {
    path.replace("/lsm/v1/", "/lsm/v2/")
}

fn bandwidth(mbps: i64, version: &Value, patch: &str) -> Value {
    let edit = json!({"edit_id": "1", "operation": "replace", "target": "mbps", "value": mbps});
    json!({"patch_id": patch, "current_version": version, "edit": [edit]})
}

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
    let found = world.running.get_ok(&format!("{path}/diagnose"))["data"].clone();
    assert!(
        found["failures"][0]["resource_id"]
            .as_str()
            .unwrap()
            .contains("fs::File"),
        "{found:#}"
    );
    std::fs::remove_dir_all(world.host.file("ams1")).unwrap();
    world.call(
        "POST",
        "/api/v1/deploy",
        json!({"agent_trigger_method": "push_full_deploy"}),
    );
    world.reaches(&path, "up");
    assert_eq!(world.host.read("ams1"), "100\n");
}

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

//: lsm 95, 96, 97
#[test]
fn lists_are_paged_filtered_and_counted() {
    let world = World::new();
    let mut ids = BTreeSet::new();
    for n in 0..7 {
        let path = world.create(&format!("s{n}"), if n == 3 { 666 } else { n });
        ids.insert(path.rsplit('/').next().unwrap().to_owned());
        world.reaches(&path, if n == 3 { "rejected" } else { "up" });
    }
    for sort in [
        "created_at.desc",
        "created_at.asc",
        "state.asc",
        "id.desc",
        "identity.asc",
    ] {
        let (mut seen, mut next) = (
            Vec::new(),
            format!("/lsm/v1/service_inventory/link?limit=2&sort={sort}"),
        );
        let mut last;
        loop {
            last = world.running.get_ok(&next);
            assert_eq!(last["metadata"]["before"], json!(seen.len()), "{sort}");
            let rows = last["data"].as_array().unwrap().iter();
            seen.extend(rows.map(|row| row["id"].as_str().unwrap().to_owned()));
            assert_eq!(last["metadata"]["total"], 7);
            match last["links"]["next"].as_str() {
                Some(link) => next = link.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen.len(), 7, "{sort}: {seen:?}");
        assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), ids);
        let mut back = vec![last["data"].clone()];
        while let Some(link) = last["links"]["prev"].as_str() {
            last = world.running.get_ok(link);
            back.insert(0, last["data"].clone());
        }
        let back = back.iter().flat_map(|page| page.as_array().unwrap());
        let back: Vec<_> = back
            .map(|row| row["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(back, seen, "{sort}");
    }
    let count = |query: &str| {
        let path = format!("/lsm/v1/service_inventory/link?{query}");
        world.running.get_ok(&path)["metadata"]["total"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(count("filter.state=up"), 6);
    assert_eq!(count("filter.state=up&filter.state=rejected"), 7);
    assert_eq!(count("filter.attribute_set_empty=active_attributes"), 1);
    assert_eq!(
        count("filter.attribute_set_not_empty=candidate_attributes"),
        1
    );
    assert_eq!(count("filter.id_or_service_identity=S3"), 1);
    assert_eq!(count("filter.service_entity_version=ge:1"), 0);
    assert_eq!(
        count("filter.service_entity_version=le:0&filter.deleted=False&&"),
        7
    );
    for wrong in [
        "filter.colour=red",
        "sort=colour.asc",
        "limit=1001",
        "limit=0",
        "filter.service_entity_version=x",
    ] {
        let path = format!("/lsm/v1/service_inventory/link?{wrong}");
        assert_eq!(world.get(&path).0, 400, "{wrong}");
    }
    let catalog = world
        .running
        .get_ok("/lsm/v1/service_catalog?instance_summary=true");
    let summary = &catalog["data"][0]["instance_summary"];
    assert_eq!(
        (&summary["total"], &summary["by_state"]["up"]),
        (&json!(7), &json!(6))
    );
    assert_eq!(
        (
            &summary["by_label"]["success"],
            &summary["by_label"]["danger"]
        ),
        (&json!(6), &json!(1))
    );
}

//: lsm 99
#[test]
fn history_says_what_happened_in_which_version() {
    let world = World::new();
    let path = world.create("a", 1);
    world.reaches(&path, "up");
    let log = world
        .running
        .get_ok(&format!("{path}/log?filter.version=ge:3"));
    let versions: Vec<_> = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["version"].clone())
        .collect();
    assert_eq!(versions, [json!(4), json!(3)]);
    let events = world
        .running
        .get_ok(&format!("{path}/events?sort=timestamp.asc&limit=100"));
    let events = events["data"].as_array().unwrap().clone();
    let created: Vec<_> = events
        .iter()
        .filter(|one| one["event_type"] == "CREATE_TRANSITION")
        .collect();
    assert!(!created.is_empty());
    assert!(
        created
            .iter()
            .all(|one| one["service_instance_version"] == 0),
        "{created:?}"
    );
    let validating: Vec<_> = events
        .iter()
        .filter(|one| {
            one["event_type"] == "AUTO_TRANSITION" && one["service_instance_version"] == 1
        })
        .collect();
    let ids: BTreeSet<_> = validating
        .iter()
        .map(|one| one["event_correlation_id"].to_string())
        .collect();
    assert_eq!(
        ids.len(),
        1,
        "one trigger, one correlation id: {validating:#?}"
    );
    assert!(
        validating
            .iter()
            .any(|one| one["id_compile_report"].is_string())
    );
    let some = world.running.get_ok(&format!(
        "{path}/events?filter.destination=up&filter.event_type=RESOURCE_TRANSITION"
    ));
    assert!(!some["data"].as_array().unwrap().is_empty());
    assert_eq!(
        world.get(&format!("{path}/events?filter.colour=red")).0,
        400
    );
    let first = world.running.get_ok(&format!("{path}/events?limit=1"));
    let next = first["links"]["next"].as_str().unwrap();
    assert_ne!(
        world.running.get_ok(next)["data"][0]["id"],
        first["data"][0]["id"]
    );
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

#[test]
fn callbacks_get_the_events_that_they_are_for() {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, bodies) = std::sync::mpsc::channel::<Value>();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).unwrap_or(0) > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let mut stream = stream;
            let _ = stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            let _ = sender.send(serde_json::from_slice(&body).unwrap());
        }
    });
    let world = World::new();
    let callback = json!({
        "callback_url": format!("http://{address}/hook"), "service_entity": "link",
        "event_types": ["ON_DELETE_TRANSITION", "CREATE_TRANSITION"], "minimal_log_level": "INFO",
    });
    let id = world.call("POST", "/lsm/v1/callbacks", callback);
    let list = world.running.get_ok("/lsm/v1/callbacks")["data"].clone();
    assert_eq!(
        (&list[0]["callback_id"], &list[0]["minimal_log_level"]),
        (&id, &json!(20))
    );
    for wrong in [
        json!({"callback_url": "file:///etc/passwd", "service_entity": "link"}),
        json!({"callback_url": "http://x", "service_entity": "link", "event_types": ["NONE"]}),
        json!({"callback_url": "http://x", "service_entity": "link", "minimal_log_level": "LOUD"}),
    ] {
        assert_eq!(world.refused("POST", "/lsm/v1/callbacks", wrong).0, 400);
    }
    let path = world.create("a", 1);
    let up = world.reaches(&path, "up");
    world.call(
        "DELETE",
        &format!("{path}?current_version={}", up["version"]),
        json!({}),
    );
    world.reaches(&path, "terminated");
    let mut kinds = BTreeSet::new();
    while !kinds.contains("ON_DELETE_TRANSITION") {
        let body = bodies.recv_timeout(crate::harness::DEADLINE).unwrap();
        assert_eq!(
            (&body["service_entity"], &body["service_instance_id"]),
            (&json!("link"), &up["id"])
        );
        kinds.insert(body["event_type"].as_str().unwrap().to_owned());
    }
    assert!(
        kinds
            .iter()
            .all(|kind| ["ON_DELETE_TRANSITION", "CREATE_TRANSITION"].contains(&kind.as_str()))
    );
    let gone = format!("/lsm/v1/callbacks/{}", id.as_str().unwrap());
    world.call("DELETE", &gone, json!({}));
    assert_eq!(world.refused("DELETE", &gone, json!({})).0, 404);
}
