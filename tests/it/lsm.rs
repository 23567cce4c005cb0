//! Services from the command line. What models can do with them: `compiler/tests/it/services`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::harness::{finish, steward};
use crate::moving::wheels_with_a_reference;
use crate::packages::{good, project, run};

fn fixture(name: &str) -> PathBuf {
    let services = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/services");
    services.join(name)
}

/// Compiles the minimal model with inputs; what it exports and what it leaves are written into `dir`.
fn compile(dir: &Path, inputs: &Value) -> Output {
    let file = dir.join("inputs.json");
    fs::write(&file, inputs.to_string()).unwrap();
    let mut command = steward();
    command.args(["compile", "--project"]);
    command.arg(fixture("uplink")).arg("--inputs").arg(&file);
    command.arg("--export-json").arg(dir.join("resources.json"));
    command
        .arg("--services-json")
        .arg(dir.join("services.json"));
    finish(command)
}

fn read(dir: &Path, name: &str) -> Value {
    serde_json::from_slice(&fs::read(dir.join(name)).unwrap()).unwrap()
}

#[test]
fn the_minimal_service_gives_the_resources_of_what_is_up_and_its_definition() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = serde_json::from_slice(&fs::read(fixture("uplink/two.json")).unwrap()).unwrap();
    good(compile(dir.path(), &inputs));
    let resources = read(dir.path(), "resources.json");
    let ids = resources.as_array().unwrap().iter();
    let ids: Vec<&str> = ids.map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(
        ids,
        [
            "net::Port[router,site=ams1],v=0",
            "lsm::LifecycleTransfer[internal,instance_id=11111111-0000-4000-8000-000000000001],v=0",
        ]
    );
    assert_eq!(
        (&resources[0]["rate"], &resources[0]["tag"]),
        (&json!(200), &json!(2001))
    );
    assert_eq!(resources[1]["requires"], json!([ids[0]]));
    let services = read(dir.path(), "services.json");
    assert_eq!(services["definitions"][0]["name"], "uplink");
    assert_eq!(services["writes"], json!([]));
}

#[test]
fn what_was_allocated_is_told_also_if_the_model_has_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let id = |number: u32| format!("{number:08}-0000-4000-8000-000000000000");
    let new = json!({"site": "a", "mbps": 1, "vlan": null});
    let twice = json!({"site": "a", "mbps": 2, "vlan": 2002});
    let inputs = json!({"services": {
        "purpose": {"validation": {"instance": id(1), "version": 1}},
        "instances": {"uplink": [
            {"id": id(1), "version": 1, "state": "start", "candidate_attributes": new},
            {"id": id(2), "version": 4, "state": "up", "active_attributes": twice},
        ]},
    }});
    let output = compile(dir.path(), &inputs);
    assert_eq!(output.status.code(), Some(1));
    let writes = read(dir.path(), "services.json")["writes"].clone();
    let written = &writes[0]["attributes"];
    assert_eq!(
        (
            &written["instance"],
            &written["set"],
            &written["edits"][0]["target"]
        ),
        (&json!(id(1)), &json!("candidate"), &json!("vlan"))
    );
    assert!(!dir.path().join("resources.json").exists());
}

/// A lifecycle as it is after reading it, its states and transfers in an order of their own.
fn lifecycle(record: &Value) -> (Value, Vec<String>, Vec<String>) {
    let entity = json!({"name": "s", "lifecycle": record});
    let entity = steward_lsm::ServiceEntity::from_value(&entity).unwrap();
    let mut read = serde_json::to_value(entity.lifecycle).unwrap();
    let mut taken = |list: &str| {
        let items = read[list].take();
        let items = items.as_array().unwrap().iter();
        let mut items: Vec<String> = items.map(Value::to_string).collect();
        items.sort_unstable();
        items
    };
    let (states, transfers) = (taken("states"), taken("transfers"));
    (read, states, transfers)
}

//: lsm 46
#[test]
fn the_ready_made_lifecycles_are_those_that_the_rules_are_tested_with() {
    let dir = tempfile::tempdir().unwrap();
    let fixtures = fixture("").join("../lifecycles.json");
    let fixtures: Value = serde_json::from_slice(&fs::read(fixtures).unwrap()).unwrap();
    let fixtures = fixtures.as_object().unwrap();
    let mut model = "import lsm\nimport lsm::fsm\nentity S extends lsm::ServiceEntity: end\nimplement S using parents\n".to_owned();
    for name in fixtures.keys() {
        model += &format!(
            "lsm::ServiceEntityBindingV2(service_entity=\"__config__::S\", service_entity_name=\"{name}\", lifecycle=lsm::fsm::{name})\n"
        );
    }
    fs::write(dir.path().join("main.cf"), model).unwrap();
    fs::write(dir.path().join("project.yml"), "name: lifecycles\n").unwrap();
    let mut command = steward();
    command.args(["compile", "--project"]).arg(dir.path());
    command
        .arg("--services-json")
        .arg(dir.path().join("services.json"));
    good(finish(command));
    let services = read(dir.path(), "services.json");
    let definitions = services["definitions"].as_array().unwrap();
    assert_eq!(definitions.len(), fixtures.len());
    for definition in definitions {
        let name = definition["name"].as_str().unwrap();
        let made = lifecycle(&definition["versions"][0]["lifecycle"]);
        assert_eq!(made, lifecycle(&fixtures[name]), "{name}");
    }
}

#[test]
fn inputs_that_are_not_understood_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let inputs = json!({"services": {"instances": {"uplink": [{"id": "a", "version": 1, "state": "up", "attributes": {}}]}}});
    let output = compile(dir.path(), &inputs);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unknown field `attributes`"), "{said}");
}

#[test]
fn modules_that_require_services_by_name_get_those_of_steward() {
    let wheels = wheels_with_a_reference();
    let requires = ["inmanta-core", "inmanta-lsm", "inmanta-module-lsm"];
    wheels.module("greet", "2.0", &requires);
    let repo = project("", "inmanta-module-greet>=2\n");
    let said = good(run(repo.path(), &["project", "install"], Some(&wheels)));
    assert!(said.contains("inmanta-module-lsm"), "{said}");
    let lock = fs::read_to_string(repo.path().join("steward.lock")).unwrap();
    assert_eq!(lock.matches("provided_by: steward").count(), 3, "{lock}");
    assert_eq!(good(run(repo.path(), &["compile"], None)), "2.0\n");
    good(run(repo.path(), &["project", "verify"], None));
    let main = repo.path().join("main.cf");
    let model = fs::read_to_string(&main).unwrap();
    fs::write(&main, format!("import lsm::fsm\n{model}")).unwrap();
    assert_eq!(good(run(repo.path(), &["compile"], None)), "2.0\n");
}
