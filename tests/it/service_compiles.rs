//! Compiles that services ask for, on the real server: of some instances only, beside one another, and what goes wrong with
//! them. Source: docs/reference/lsm.md § 3.8, § 4.6.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{DEADLINE, Repo, wait_until};
use crate::service_world::{World, id_of};

/// Sites that own links; each is a file. What all sites share is a file, too: with the content of whoever is compiled.
const MODEL: &str = r#"import lsm
import lsm::fsm
import fs

entity Thing extends lsm::ServiceEntity:
    string name
    string text = "x"
    lsm::attribute_modifier text__modifier = "rw+"
    string shared = "same"
end
Thing.file [1] -- fs::File
entity Site extends Thing: end
entity Link extends Thing: end
Link.site [1] lsm::__service__ Site
index Site(instance_id)

root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)

implementation deploy for Thing:
    self.file = fs::File(
        host=host, path="{{root}}/{{self.name}}", content=self.text, purged=self.purge_resources, requires=self.requires,
        provides=self.provides
    )
    self.resources += self.file
    self.owned_resources += self.resources
end
implementation share for Site:
    fs::File(host=host, path="{{root}}/shared", content=self.shared)
end
implementation below for Link:
    self.file.requires += self.site.file
end
implement Thing using deploy, parents
implement Site using share, parents
implement Link using below, parents

sites = lsm::ServiceEntityBindingV2(service_entity="__config__::Site", service_entity_name="site", lifecycle=lsm::fsm::simple)
links = lsm::ServiceEntityBindingV2(
    service_entity="__config__::Link", service_entity_name="link", lifecycle=lsm::fsm::simple, owner=sites, relation_to_owner="site"
)
for i in lsm::all(sites):
    Site(instance_id=i["id"], entity_binding=sites, **i["attributes"])
end
for i in lsm::all(links):
    a = i["attributes"]
    Link(
        instance_id=i["id"], entity_binding=links, name=a["name"], text=a["text"], shared=a["shared"],
        site=Site[instance_id=a["site"]],
    )
end
"#;

/// Holds up each export while there is a file `shut` among those of the host, and the validation of an instance while there is
/// one with its id.
const GATE: &str = r#"import os, time
from inmanta.plugins import plugin


@plugin
def wait(root: "string", state: "string", instance: "string") -> "bool":
    gate = root + "/" + ("shut" if state == "active" else instance or "none")
    while os.path.exists(gate):
        time.sleep(0.01)
    return True
"#;

fn push(world: &World, model: &str) {
    world.repo.write("main.cf", model);
    world.repo.commit("another model");
}

/// The newest reports first.
fn reports(world: &World) -> Value {
    world.running.get_ok("/api/v2/compilereport?limit=100")["data"].clone()
}

/// The newest report that is of this kind, with its details.
fn newest_report(world: &World, is_wanted: impl Fn(&Value) -> bool) -> Value {
    let reports = reports(world);
    let mut reports = reports.as_array().unwrap().iter();
    let found = reports.find(|report| is_wanted(report));
    let id = found.expect("there is one")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    world.running.get_ok(&format!("/api/v2/compilereport/{id}"))["data"].clone()
}

fn is_export(report: &Value) -> bool {
    report["metadata"]["type"] == "lsm_export"
}

//: deploy 126
#[test]
//: lsm 53, 60, 63, 91, 92
fn a_tree_is_exported_alone_and_goes_with_its_last_member() {
    let world = World::with(MODEL, &["lsm_partial_compile=true"], "link");
    let site = world.order("site", json!({"name": "s1"}));
    world.reaches(&site, "up");
    let other = world.order("site", json!({"name": "s2"}));
    world.reaches(&other, "up");
    let link = world.order("link", json!({"name": "l1", "site": id_of(&site)}));
    world.reaches(&link, "up");
    for (file, text) in [("s1", "x"), ("s2", "x"), ("l1", "x"), ("shared", "same")] {
        assert_eq!(world.host.read(file), text, "{file}");
    }
    let report = newest_report(&world, is_export);
    let variables = &report["environment_variables"];
    assert_eq!(report["partial"], true);
    assert_eq!(variables["inmanta_model_state"], "active");
    assert_eq!(variables["inmanta_instance_id"], id_of(&link));
    assert_eq!(variables["inmanta_lsm_partial_compile"], "True");
    let validation = newest_report(&world, |report| report["metadata"]["type"] == "lsm");
    assert_eq!(
        (&validation["do_export"], &validation["version"]),
        (&json!(false), &Value::Null)
    );
    assert_eq!(
        validation["environment_variables"]["inmanta_model_state"],
        "candidate"
    );
    assert_eq!(
        validation["environment_variables"]["inmanta_instance_version"],
        "1"
    );
    assert!(validation["remote_id"].is_string(), "{validation}");

    world.delete(&link);
    world.reaches(&link, "terminated");
    world.delete(&site);
    world.reaches(&site, "terminated");
    // The last export removes the set; what stays is the other tree, with its lifecycle transfer, and what is shared.
    let deadline = Instant::now() + DEADLINE;
    let ids = loop {
        let resources = world
            .running
            .get_ok("/api/v2/resource?limit=100&filter.status=!orphaned");
        let resources = resources["data"].as_array().unwrap().iter();
        let ids = resources.map(|one| one["resource_id"].as_str().unwrap().to_owned());
        let ids: Vec<String> = ids.collect();
        if ids.len() == 3 {
            break ids;
        }
        assert!(Instant::now() < deadline, "{ids:#?} {:#}", reports(&world));
        std::thread::sleep(Duration::from_millis(20));
    };
    let other = ["/s2]", "/shared]", id_of(&other)];
    assert!(
        other
            .iter()
            .all(|part| ids.iter().any(|id| id.contains(part))),
        "{ids:?}"
    );
    assert_eq!(world.host.read("s2"), "x");
    assert!(!world.host.file("s1").exists() && !world.host.file("l1").exists());
    assert!(
        reports(&world)
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| is_export(one))
            .all(|one| one["success"] == true)
    );
}

#[test]
//: lsm 84
fn a_shared_resource_that_differs_is_refused_with_a_reason_in_the_report_and_the_instance_waits() {
    let world = World::with(MODEL, &["lsm_partial_compile=true"], "link");
    let first = world.order("site", json!({"name": "s1"}));
    world.reaches(&first, "up");
    let second = world.order("site", json!({"name": "s2", "shared": "other"}));
    world.reaches(&second, "creating");
    wait_until("its export is refused", || {
        let reports = reports(&world);
        reports[0]["success"] == false && is_export(&reports[0])
    });
    let report = newest_report(&world, is_export);
    let error = &report["compile_data"]["errors"][0];
    let message = error["message"].as_str().unwrap_or_default();
    assert!(
        message.contains("shared") && message.contains("may not change it"),
        "{report:#}"
    );
    assert_eq!(report["failure"].as_str(), Some(message));
    assert_eq!(world.running.get_ok(&second)["data"]["state"], "creating");
    assert!(
        !world.host.file("s2").exists(),
        "the desired state of before stays"
    );
}

#[test]
fn a_commit_that_instances_do_not_allow_is_refused_and_orders_go_on_with_the_one_before() {
    let world = World::with(MODEL, &["lsm_partial_compile=true"], "link");
    let first = world.order("site", json!({"name": "s1"}));
    world.reaches(&first, "up");
    let refused = |commit: &str| {
        wait_until(commit, || {
            let report = &reports(&world)[0];
            report["success"] == false && report["metadata"]["type"] != "lsm"
        });
    };
    // A model that is good without instances.
    let late = MODEL.replace("**i[\"attributes\"])", "**i[\"attribute\"])");
    push(&world, &late);
    refused("the commit that fails with instances is refused");
    let between = world.order("site", json!({"name": "s0"}));
    world.reaches(&between, "up");
    // An attribute that instances can not have, and one that they get.
    let broken = MODEL.replace(
        "string shared = \"same\"",
        "string shared = \"same\"\n    string missing",
    );
    push(&world, &broken);
    refused("the commit is refused");
    let report = newest_report(&world, |report| report["success"] == false);
    let reason = report["failure"].as_str().unwrap().to_owned();
    assert!(
        reason.contains("missing") && reason.contains(id_of(&first)),
        "{reason}"
    );
    let second = world.order("site", json!({"name": "s2"}));
    world.reaches(&second, "up");

    let better = MODEL.replace(
        "string shared = \"same\"",
        "string shared = \"same\"\n    string more = \"much\"",
    );
    push(&world, &better);
    wait_until("the instances have the new attribute", || {
        world.running.get_ok(&first)["data"]["active_attributes"]["more"] == "much"
    });
    wait_until("it is exported", || reports(&world)[0]["success"] == true);
    let report = newest_report(&world, |report| {
        report["commit"].is_string() && !is_export(report) && report["success"] == true
    });
    let stages = report["reports"].as_array().unwrap().iter();
    let names: Vec<&str> = stages
        .map(|stage| stage["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"Compiling the definitions of services"),
        "{names:?}"
    );
    let third = world.order("site", json!({"name": "s3", "more": "little"}));
    world.reaches(&third, "up");
}

#[test]
//: lsm 59, 93
fn orders_that_come_at_once_are_exported_together_where_batching_is_on() {
    let settings = [
        "lsm_partial_compile=true",
        "enable_batched_partial_compiles=true",
    ];
    let world = gated(MODEL, &settings);
    let gate = world.host.file("shut");
    std::fs::write(&gate, "").unwrap();
    let paths: Vec<String> = (0..12)
        .map(|number| world.order("site", json!({"name": format!("s{number}")})))
        .collect();
    for path in &paths {
        world.reaches(path, "creating");
    }
    wait_until("the exports of all of them wait", || {
        let (_, waiting) = world.get("/api/v1/compilequeue");
        let waiting = waiting["queue"].as_array().unwrap();
        let has_no_data = |one: &Value| one.get("compile_data") == Some(&Value::Null);
        assert!(waiting.iter().all(has_no_data), "{waiting:?}");
        waiting.len() >= 11
    });
    std::fs::remove_file(&gate).unwrap();
    for path in &paths {
        world.reaches(path, "up");
    }
    let reports = reports(&world);
    let exports = reports
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| is_export(one));
    let (merged, run): (Vec<&Value>, Vec<&Value>) =
        exports.partition(|report| report["substitute_compile_id"].is_string());
    let (n_run, n_merged) = (run.len(), merged.len());
    assert!(n_run + n_merged >= 12, "{n_run} and {n_merged}");
    let largest = run.iter().map(|one| {
        let of_it = merged
            .iter()
            .filter(|other| other["substitute_compile_id"] == one["id"]);
        of_it.count()
    });
    let largest = largest.max();
    assert!(
        largest >= Some(10),
        "eleven exports waited for one, and {largest:?} of them were made with another"
    );
    for report in merged {
        let of = run
            .iter()
            .find(|one| one["id"] == report["substitute_compile_id"])
            .unwrap();
        let joined = of["mergeable_environment_variables"]["inmanta_instance_id"]
            .as_str()
            .unwrap();
        assert!(joined.contains(' '), "{of}");
    }
}

//: lsm 93
/// Given: exports of six instances that wait to be made one, two of which mean the same file. Expected: the export of all fails,
/// and then each is exported but the one to blame, whose diagnosis says why.
#[test]
fn of_a_batch_that_fails_only_the_instance_to_blame_is_not_exported() {
    let settings = [
        "lsm_partial_compile=true",
        "enable_batched_partial_compiles=true",
    ];
    let world = gated(MODEL, &settings);
    let gate = world.host.file("shut");
    std::fs::write(&gate, "").unwrap();
    let names = ["s0", "s1", "s2", "s3", "s4", "s2"];
    let mut paths: Vec<String> = names
        .iter()
        .map(|name| world.order("site", json!({"name": name})))
        .collect();
    for path in &paths {
        world.reaches(path, "creating");
    }
    wait_until("the exports of all of them wait", || {
        let (_, waiting) = world.get("/api/v1/compilequeue");
        waiting["queue"].as_array().unwrap().len() >= 5
    });
    std::fs::remove_file(&gate).unwrap();
    let to_blame = paths.pop().unwrap();
    for path in &paths {
        world.reaches(path, "up");
    }
    let diagnosis = || world.running.get_ok(&format!("{to_blame}/diagnose"))["data"].clone();
    wait_until("the export of the last one has failed", || {
        let reason = diagnosis()["exports"][0]["errors"][0]["message"].to_string();
        reason.contains("resource set") || reason.contains("/s2")
    });
    assert_eq!(world.running.get_ok(&to_blame)["data"]["state"], "creating");
    // Some were made together, after a batch of more had failed.
    let reports = reports(&world);
    let mut all = reports.as_array().unwrap().iter();
    assert!(all.any(|one| one["substitute_compile_id"].is_string()));
    for (path, name) in paths.iter().zip(names) {
        let exports = &world.running.get_ok(&format!("{path}/diagnose"))["data"]["exports"];
        assert_eq!(*exports, json!([]), "{name}");
    }
}

/// A server with [`MODEL`], whose exports wait at the [`GATE`].
fn gated(model: &str, settings: &[&str]) -> World {
    let repo = Repo::new(&format!(
        "import gate\n{model}\ngate::wait(root, std::get_env(\"inmanta_model_state\", \"\"), \
         std::get_env(\"inmanta_instance_id\", \"\"))\n"
    ));
    repo.write_module("gate", "", GATE);
    repo.commit("exports wait at a gate");
    World::start(repo, settings, "link")
}

#[test]
fn an_order_that_names_an_instance_on_its_way_out_is_rejected_and_holds_up_nobody() {
    let model = MODEL.replacen(
        "lsm::fsm::simple",
        "lsm::fsm::simple_with_delete_validate",
        1,
    );
    let world = gated(&model, &["lsm_partial_compile=true"]);
    let site = world.order("site", json!({"name": "s1"}));
    world.reaches(&site, "up");
    let gate = world.host.file("shut");
    std::fs::write(&gate, "").unwrap();
    world.delete(&site);
    world.reaches(&site, "deleting");
    // The model still has the site: it compiles, and would not any more in a moment.
    let link = world.order("link", json!({"name": "l1", "site": id_of(&site)}));
    world.reaches(&link, "rejected");
    let found = world.get(&format!("{link}/diagnose")).1["data"].clone();
    let why = found["rejections"][0]["errors"][0]["message"].to_string();
    assert!(
        why.contains("site: ") && why.contains(id_of(&site)) && why.contains("deleting"),
        "{found:#}"
    );
    std::fs::remove_file(&gate).unwrap();
    world.reaches(&site, "terminated");
    let other = world.order("site", json!({"name": "s2"}));
    world.reaches(&other, "up");
}

#[test]
fn of_a_deletion_and_an_order_that_are_validated_at_once_one_is_refused() {
    let model = MODEL.replacen(
        "lsm::fsm::simple",
        "lsm::fsm::simple_with_delete_validate",
        1,
    );
    let settings = ["lsm_partial_compile=true", "lsm_parallel_validations=2"];
    let world = gated(&model, &settings);
    let site = world.order("site", json!({"name": "s1"}));
    world.reaches(&site, "up");
    // Both validations read the inventory before either has ended.
    let link = uuid::Uuid::new_v4().to_string();
    let gates = [world.host.file(&link), world.host.file(id_of(&site))];
    for gate in &gates {
        std::fs::write(gate, "").unwrap();
    }
    let attributes = json!({"name": "l1", "site": id_of(&site)});
    let body = json!({"service_instance_id": link, "attributes": attributes});
    world.call("POST", "/lsm/v1/service_inventory/link", body);
    let link = format!("/lsm/v1/service_inventory/link/{link}");
    world.delete(&site);
    wait_until("both are validated", || {
        let reports = reports(&world);
        let under_way = reports.as_array().unwrap().iter();
        let under_way =
            under_way.filter(|one| one["started"].is_string() && one["completed"].is_null());
        // An export may wait behind them.
        let under_way = under_way.filter(|one| one["metadata"]["type"] == "lsm");
        under_way.count() == 2
    });
    std::fs::remove_file(&gates[0]).unwrap();
    world.reaches(&link, "up");
    std::fs::remove_file(&gates[1]).unwrap();
    world.reaches(&site, "up");
    let found = world.get(&format!("{site}/diagnose")).1["data"].clone();
    let why = found["rejections"][0]["errors"][0]["message"].to_string();
    assert!(why.contains(id_of(&link)), "{found:#}");
}

#[test]
fn what_an_instance_that_has_ended_breaks_is_said_with_who_still_names_it() {
    let world = World::with(MODEL, &["lsm_partial_compile=true"], "link");
    let site = world.order("site", json!({"name": "s1"}));
    world.reaches(&site, "up");
    let link = world.order("link", json!({"name": "l1", "site": id_of(&site)}));
    world.reaches(&link, "up");
    // Nothing validates its deletion.
    world.delete(&site);
    world.reaches(&site, "terminated");
    push(&world, &format!("{MODEL}# The same.\n"));
    wait_until("a compile has failed", || {
        reports(&world)[0]["success"] == false
    });
    let report = newest_report(&world, |report| report["success"] == false);
    let errors = report["compile_data"]["errors"].as_array().unwrap();
    let (last, others) = errors.split_last().unwrap();
    let speaks_of = |error: &Value, id: &str| error["message"].as_str().unwrap().contains(id);
    assert!(
        speaks_of(last, id_of(&site)) && speaks_of(last, id_of(&link)),
        "{report:#}"
    );
    assert!(
        !others.iter().any(|error| speaks_of(error, id_of(&link))),
        "the model alone does not say who names it: {report:#}"
    );
}

/// As [`MODEL`], with sites that may want another site to be there, by its file.
fn friendly() -> String {
    MODEL
        .replace("entity Site extends Thing: end\n", "entity Site extends Thing:\n    string? friend = null\nend\n")
        .replace(
            "implement Thing using deploy",
            "implementation befriended for Site:\n    other = Site[instance_id=self.friend]\n    self.file.requires += other.file\nend\n\
             implement Site using befriended when self.friend is defined\nimplement Thing using deploy",
        )
}

/// The newest export that failed, in words.
fn refusal(world: &World, path: &str) -> String {
    world.reaches(path, "creating");
    let mut found = String::new();
    wait_until("its export is refused", || {
        let reports = reports(world);
        let reports = reports.as_array().unwrap().iter();
        let mut failed = reports.filter(|one| is_export(one) && one["success"] == false);
        let of_it = failed.find(|one| {
            let ids = one["environment_variables"]["inmanta_instance_id"].as_str();
            ids.is_some_and(|ids| ids.contains(id_of(path)))
        });
        found = of_it
            .map(|one| one["failure"].to_string())
            .unwrap_or_default();
        !found.is_empty()
    });
    assert_eq!(world.running.get_ok(path)["data"]["state"], "creating");
    found
}

#[test]
fn each_way_in_which_partial_compiles_go_wrong_shows_where_it_is_said_to() {
    let world = World::with(&friendly(), &[], "link");
    let site = |name: &str, friend: Option<&str>| {
        world.order("site", json!({"name": name, "friend": friend}))
    };
    // A full export takes what goes from tree to tree.
    let first = site("s1", None);
    world.reaches(&first, "up");
    let second = site("s2", Some(id_of(&first)));
    world.reaches(&second, "up");
    let setting = "/api/v2/environment_settings/lsm_partial_compile";
    let set = |value: bool| {
        let (status, answer) = world
            .running
            .call("POST", setting, Some(&json!({"value": value})));
        assert_eq!(status, 200, "{answer}");
    };
    set(true);
    // The next partial export is not made on such a base.
    let third = site("s3", None);
    let message = refusal(&world, &third);
    assert!(message.contains("requires"), "{message}");
    set(false);
    world.delete(&second);
    world.reaches(&second, "terminated");
    world.reaches(&third, "up");
    set(true);
    // Two trees make the same resource: each validation passes, the second export does not.
    let same = site("s1", None);
    let message = refusal(&world, &same);
    assert!(message.contains("/s1]"), "{message}");
    // What the model wants is not part of the tree, so it is missing: the validation fails, and says so.
    let lonely = site("s4", Some(id_of(&first)));
    world.reaches(&lonely, "rejected");
    let found = world.running.get_ok(&format!("{lonely}/diagnose"))["data"].clone();
    let error = found["rejections"][0]["errors"][0].to_string();
    assert!(error.contains("Site"), "{found}");
    assert!(!world.host.file("s4").exists());
}
