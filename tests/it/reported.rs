//! Resources that are only reported: compared, and left as they are. Source: docs/reference/deployment.md § 3.5.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Host, Repo, Running, segment, wait_until};

fn model(report_only: bool) -> String {
    format!(
        r#"
import fs
root = std::get_env("ROOT")
host = std::Host(name="localhost", os=std::linux)
seen = fs::File(host=host, path="{{{{root}}}}/seen", content="desired\n", report_only={report_only})
after = fs::File(host=host, path="{{{{root}}}}/after", content="after\n", requires=seen)
"#
    )
}

fn state(running: &Running, name: &str) -> Value {
    let list = running.get_ok("/api/v2/resource");
    let rows = list["data"].as_array().unwrap();
    let row = rows.iter().find(|row| {
        let id = row["resource_id"].as_str().unwrap();
        id.ends_with(&format!("/{name}]"))
    });
    row.unwrap().clone()
}

//: deploy 57, 58, 59
#[test]
fn a_reported_difference_is_told_and_left_and_holds_up_dependents_until_it_is_gone() {
    let (repo, host) = (Repo::new(&model(true)), Host::new());
    fs::create_dir_all(host.root()).unwrap();
    fs::write(host.file("seen"), "what is there\n").unwrap();
    let mut running = Running::start(host.up(repo.path()));
    let (mut ran, _) = running.settled(1);
    ran.sort();
    assert_eq!(
        ran,
        ["after skipped nochange", "seen non_compliant nochange"]
    );
    assert_eq!(host.read("seen"), "what is there\n");
    let seen = state(&running, "seen");
    assert_eq!(seen["status"], "non_compliant");
    assert_eq!(seen["compliance"], "non_compliant");
    assert_eq!(state(&running, "after")["status"], "skipped");
    // The difference is in the action, and in the report of the resource.
    let actions = running.get_ok("/api/v2/resource_actions?agent=localhost&limit=100");
    let id = seen["resource_id"].as_str().unwrap();
    let rvid = seen["resource_version_id"].as_str().unwrap();
    let ours = actions["data"].as_array().unwrap().iter();
    let ours = ours.filter(|action| action["resource_version_ids"] == json!([rvid]));
    let changes: Vec<&Value> = ours
        .map(|action| &action["changes"][rvid]["content"])
        .collect();
    let difference = json!({"current": "what is there\n", "desired": "desired\n"});
    assert_eq!(changes, [&difference]);
    let details = running.get_ok(&format!("/api/v2/resource/{}", segment(id)));
    assert_eq!(details["data"]["last_handler_run"], "successful");
    let (status, report) = running.call(
        "POST",
        "/api/v2/compliance_report",
        Some(&json!({"resource_ids": [id]})),
    );
    assert_eq!(status, 200, "{report}");
    let report = &report["data"][id];
    assert_eq!(report["report_only"], true);
    assert_eq!(report["compliance"], "non_compliant");
    assert_eq!(report["last_handler_run"], "successful");
    assert_eq!(report["attribute_diff"]["content"], difference);
    let path = format!("/api/v2/resource/{}/explain", segment(id));
    let why = &running.get_ok(&path)["data"]["chain"][0];
    assert_eq!(why["reason"], "non_compliant", "{why}");
    assert_eq!(why["attribute_diff"]["content"], difference);

    // The difference goes away. A deploy of what differs does not look; a repair does, and frees the dependent.
    fs::write(host.file("seen"), "desired\n").unwrap();
    let deploy = |method: &str| {
        let body = json!({"agent_trigger_method": method});
        let (status, answer) = running.call("POST", "/api/v1/deploy", Some(&body));
        assert_eq!(status, 200, "{answer}");
    };
    deploy("push_incremental_deploy");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(state(&running, "seen")["status"], "non_compliant");
    deploy("push_full_deploy");
    wait_until("it is found good, and its dependent is deployed", || {
        state(&running, "seen")["status"] == "deployed"
            && state(&running, "after")["status"] == "deployed"
    });
    assert_eq!(host.read("after"), "after\n");
    running.stop();
}

//: deploy 59
#[test]
fn a_reported_resource_that_is_to_be_changed_after_all_is_changed_with_its_dependents() {
    let (repo, host) = (Repo::new(&model(true)), Host::new());
    fs::create_dir_all(host.root()).unwrap();
    fs::write(host.file("seen"), "what is there\n").unwrap();
    let mut running = Running::start(host.up(repo.path()));
    running.settled(1);
    repo.write("main.cf", &model(false));
    repo.commit("no longer only reported");
    wait_until("both are as desired", || {
        host.read("seen") == "desired\n" && host.file("after").exists()
    });
    wait_until("the states say so", || {
        state(&running, "seen")["compliance"] == "compliant"
            && state(&running, "after")["compliance"] == "compliant"
    });
    running.stop();
}
