//! Models of services as people write them (`fixtures/services`), each with a life of its own in `life.json`: instances that are
//! created, updated, refused, migrated and deleted over REST, with the files that stand for the network. And clients as people
//! have them: the client class of the reference, and the classes of pytest-inmanta-lsm.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{finish, skip};
use crate::service_world::{LINKS, World, id_of, v2};

/// The instances of a life, by the names that its steps give them: their paths.
type Names = std::collections::BTreeMap<String, String>;

/// A value with the ids of instances in the place of their names, which begin with a dollar.
fn with_ids(value: &Value, names: &Names) -> Value {
    match value {
        Value::String(text) => match text.strip_prefix('$') {
            Some(name) => json!(id_of(&names[name])),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| with_ids(item, names)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), with_ids(value, names)));
            Value::Object(fields.collect())
        }
        other => other.clone(),
    }
}

/// Whether an object has at least these fields.
fn has(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => expected.iter().all(|(name, value)| {
            let found = found.get(name);
            found.is_some_and(|found| has(found, value))
        }),
        (found, expected) => found == expected,
    }
}

/// One step, sent: the answer, and the name of the instance that it is about.
fn send(world: &World, at: usize, step: &Value, names: &Names) -> ((u16, Value), String) {
    let field = |name: &str| with_ids(&step[name], names);
    let text = |name: &str| step[name].as_str().map(str::to_owned);
    let call =
        |method: &str, path: &str, body: Value| world.running.call(method, path, Some(&body));
    if let Some(service) = text("create") {
        let mut body = json!({"attributes": field("attributes")});
        if let Some(version) = step.get("version") {
            body["service_entity_version"] = version.clone();
        }
        let path = format!("/lsm/v1/service_inventory/{service}");
        return (call("POST", &path, body), text("as").unwrap_or_default());
    }
    let kinds = ["update", "refuse", "migrate", "delete"];
    let name = kinds.into_iter().find_map(text).expect("a kind of step");
    let path = &names[&name];
    let version = world.instance(path)["version"].clone();
    let answer = if step.get("edit").is_some() {
        let body =
            json!({"patch_id": at.to_string(), "current_version": version, "edit": field("edit")});
        call("PATCH", &v2(path), body)
    } else if step.get("whole").is_some() {
        let body = json!({"put_id": at.to_string(), "current_version": version, "attributes": field("whole")});
        call("PUT", path, body)
    } else if step.get("attributes").is_some() {
        let body = json!({"attributes": field("attributes")});
        call("PATCH", &format!("{path}?current_version={version}"), body)
    } else if step.get("body").is_some() {
        let mut body = field("body");
        body["current_version"] = version;
        call("PATCH", &format!("{path}/update_entity_version"), body)
    } else {
        call(
            "DELETE",
            &format!("{path}?current_version={version}"),
            json!({}),
        )
    };
    (answer, name)
}

/// Lives the life of a fixture.
fn lives(fixture: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/services");
    let file = file.join(fixture).join("life.json");
    let life: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let settings = life["settings"].as_array().into_iter().flatten();
    let settings: Vec<&str> = settings.map(|one| one.as_str().unwrap()).collect();
    let steps = life["steps"].as_array().unwrap();
    let first = steps.iter().find_map(|step| step["create"].as_str());
    let world = World::fixture(fixture, &settings, first.unwrap());
    let mut names = Names::new();
    for (at, step) in steps.iter().enumerate() {
        let ((status, answer), name) = send(&world, at, step, &names);
        if let Some(place) = step["names"].as_str() {
            let message = answer["message"].as_str().unwrap_or_default();
            assert!([400, 409].contains(&status), "{step}: {answer}");
            assert!(message.contains(place), "{step}: {message}");
            continue;
        }
        assert_eq!(status, 200, "{step}: {answer}");
        if step.get("create").is_some() {
            let path = crate::service_world::path_of(&answer["data"]);
            names.insert(name.clone(), path);
        }
        let state = step["state"].as_str().unwrap();
        let version = step["versions"].as_u64();
        let instance = world.comes_to(&names[&name], state, version.unwrap_or_default());
        if version.is_some() {
            assert_eq!(instance["version"].as_u64(), version, "{step}: {instance}");
        }
        if let Some(active) = step.get("active") {
            let found = &instance["active_attributes"];
            assert!(has(found, &with_ids(active, &names)), "{step}: {found}");
        }
        for (file, text) in step["files"].as_object().into_iter().flatten() {
            let found = std::fs::read_to_string(world.host.file(file)).ok();
            assert_eq!(found.as_deref(), text.as_str(), "{step}: {file}");
        }
    }
}

//: lsm 71, 73
#[test]
fn lines_with_two_ends_and_a_tag_that_is_allocated() {
    lives("e_line");
}

//: lsm 21, 27, 77, 105
#[test]
fn connections_with_prefixes_options_and_an_allocator_of_their_module() {
    lives("l3_connectivity");
}

//: lsm 12, 25, 26, 28, 78
#[test]
fn ports_with_interfaces_in_interfaces_and_a_service_without_strict_modifiers() {
    lives("access_port");
}

//: lsm 47, 90
#[test]
fn trees_of_sites_cabinets_and_circuits_that_are_compiled_alone() {
    lives("circuit");
}

//: lsm 103
#[test]
fn tunnels_in_two_versions_and_one_that_goes_over() {
    lives("tunnel_versions");
}

/// Runs a script of `fixtures/services/clients` against a server with links.
fn is_driven_by(variable: &str, script: &str, is_ours: bool) {
    let Ok(python) = std::env::var(variable) else {
        skip(variable);
        return;
    };
    // A site may have any name; its file has one without slashes.
    let model = LINKS
        .replace("{{root}}/{{self.site}}", "{{root}}/{{name}}")
        .replace(
            "    self.resources += fs::File(",
            "    name = std::replace(self.site, \"/\", \"_\")\n    self.resources += fs::File(",
        );
    let world = World::with(&model, &[], "link");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(python);
    command.arg(root.join("fixtures/services/clients").join(script));
    command.arg(world.running.api.rsplit(':').next().unwrap());
    command.arg(world.running.environment());
    if is_ours {
        command.arg(world.host.data().join("project"));
        command.env("PYTHONPATH", root.join("python"));
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), "good", "{output:?}");
}

//: lsm 50, 102
#[test]
fn the_client_of_the_reference_drives_the_inventory() {
    is_driven_by("STEWARD_ORACLE", "reference.py", false);
}

#[test]
fn the_classes_that_suites_of_services_are_written_with_drive_the_inventory() {
    is_driven_by("STEWARD_PYTEST_LSM", "pytest_tools.py", true);
}
