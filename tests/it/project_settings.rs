//! `environment_settings` of a project, which every compile of it applies. Source: docs/reference/deployment.md § 1.5.

use serde_json::{Value, json};

use crate::environments::{Logged, configure};
use crate::harness::{Repo, wait_until};

//: deploy 9
#[test]
fn a_commit_decides_settings_of_its_environment_until_it_names_them_no_more() {
    let repo = Repo::new("");
    let project = |settings: &str| {
        repo.write("project.yml", &format!("name: test\n{settings}"));
        repo.commit("settings");
    };
    // The last one is of older models.
    project(
        "environment_settings:\n  available_versions_to_keep: 7\n  auto_deploy: false\n  purge_on_delete: true\n",
    );
    let dir = tempfile::tempdir().unwrap();
    let config = format!(
        "environments:\n  - {{project: infra, name: prod, repository: {}, branch: main}}\n",
        repo.path().display()
    );
    let served = Logged::start(&configure(dir.path(), &config));
    let id = served.environment("prod")["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let versions = || served.get("/api/v2/desiredstate", &id)["data"].clone();
    let path = "/api/v2/environment_settings/available_versions_to_keep";
    let kept = || {
        let setting = served.get(path, &id);
        setting["data"]["settings"]["available_versions_to_keep"].clone()
    };
    let set = |value: Value| served.call("POST", path, &id, &json!({"value": value})).0;
    wait_until("it is compiled", || versions()[0]["version"] == 1);
    // They are in force for this very version.
    assert_eq!(versions()[0]["status"], "candidate");
    assert_eq!((kept(), set(json!(9))), (json!(7), 403));
    project("");
    wait_until("the next one is stored", || versions()[0]["version"] == 2);
    assert_eq!((kept(), set(json!(9)), kept()), (json!(7), 200, json!(9)));
    project("environment_settings:\n  available_versions_to_keep: few\n");
    wait_until("it says what is wrong", || {
        let reports = served.get("/api/v2/compilereport", &id);
        let report = reports["data"][0]["id"].as_str().unwrap().to_owned();
        let report = served.get(&format!("/api/v2/compilereport/{report}"), &id);
        report.to_string().contains("available_versions_to_keep")
    });
    assert_eq!(versions()[0]["version"], 2);
}
