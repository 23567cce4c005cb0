//! The module `lsm`: services, their definitions, and what their instances bring into the model. Source: docs/reference/lsm.md.
//!
//! Each test compiles a project on disk with the module as the binary carries it, and the instances as inputs of the compile.

mod allocation;
mod definitions;
mod equivalence;
mod partial;
mod selection;
mod warm;

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use steward_compiler::{
    Compiled, DirWorld, Inputs, Options, Partial, Resource, ServiceInventory, ServicePurpose,
    ServicesInput, Variables, WarmHosts, compile,
};

use crate::disk;

/// A project of one file, or one of `fixtures/services`.
pub struct Project {
    dir: tempfile::TempDir,
}

/// The outcome of a compile.
pub struct Run {
    pub compiled: Compiled,
    /// What the model printed.
    pub printed: Vec<String>,
}

impl Project {
    /// `main` is the text of `main.cf`; the modules of all fixtures can be imported.
    pub fn new(main: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let libs = |name: &str| fixtures().join(name).join("libs").display().to_string();
        let project = format!(
            "name: case\nmodulepath: [libs, '{}', '{}']\n",
            libs("uplink"),
            libs("l3vpn")
        );
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            let folder = path.parent().expect("it is below the project");
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(path, text).expect("a file");
        };
        write("project.yml", &project);
        write("main.cf", main);
        Self { dir }
    }

    /// A project of the fixtures.
    pub fn fixture(name: &str) -> Self {
        let main = fixtures().join(name).join("main.cf");
        Self::new(&std::fs::read_to_string(main).expect("a fixture"))
    }

    /// The same with a module `own` whose Python code is this.
    pub fn with_plugins(self, code: &str) -> Self {
        for (name, text) in [
            (
                "libs/own/setup.cfg",
                "[metadata]\nname = inmanta-module-own\nversion = 1.0.0\nlicense = X\n",
            ),
            ("libs/own/model/_init.cf", "import lsm\n"),
            ("libs/own/inmanta_plugins/own/__init__.py", code),
        ] {
            let path = self.dir.path().join(name);
            let folder = path.parent().expect("it is below the project");
            std::fs::create_dir_all(folder).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        self
    }

    /// Compiles it with these services, as [`ServicesInput`] is written.
    pub fn run(&self, services: &Value) -> Run {
        self.run_among(services, None)
    }

    /// The same with the hosts of other compiles.
    pub fn run_among(&self, services: &Value, hosts: Option<&Arc<WarmHosts>>) -> Run {
        let services: ServicesInput =
            serde_json::from_value(services.clone()).expect("the services are well formed");
        self.compile(services, hosts, None)
    }

    /// Compiles it; instances that `services` leave out are asked of `inventory`.
    pub fn compile(
        &self,
        services: ServicesInput,
        hosts: Option<&Arc<WarmHosts>>,
        inventory: Option<Arc<dyn ServiceInventory>>,
    ) -> Run {
        let is_partial =
            services.requested.is_some() && services.purpose == ServicePurpose::Production;
        let printed: Arc<Mutex<Vec<String>>> = Arc::default();
        let sink = Arc::clone(&printed);
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
        let world = DirWorld::new(
            self.dir.path().to_owned(),
            services.variables().into_iter().collect::<Variables>(),
            move |line: &str| sink.lock().expect("one at a time").push(line.to_owned()),
        )
        .with_carried(package.join("steward_modules"));
        let options = Options {
            export: true,
            python: disk::python(),
            environment_id: Some("00000000-0000-4000-8000-00000000000e".to_owned()),
            inputs: Inputs {
                services: Some(services),
                ..Inputs::default()
            },
            hosts: hosts.map(Arc::clone),
            partial: is_partial.then(Partial::default),
            inventory,
            ..Options::default()
        };
        let compiled = compile(&world, &options);
        let printed = std::mem::take(&mut *printed.lock().expect("it is done"));
        Run { compiled, printed }
    }

    /// What a compile with these instances prints; it has no mistakes.
    #[track_caller]
    pub fn printed(&self, services: &Value) -> Vec<String> {
        let run = self.run(services);
        run.check();
        run.printed
    }

    /// The one definition that the model has.
    #[track_caller]
    pub fn definition(&self) -> Value {
        let run = self.run(&json!({}));
        run.check();
        let definitions = run.compiled.services.definitions.expect("it was exported");
        assert_eq!(definitions.len(), 1);
        definitions[0].versions[0].clone()
    }

    /// Why a compile fails.
    #[track_caller]
    pub fn refusal(&self, services: &Value) -> String {
        let run = self.run(services);
        assert!(!run.compiled.succeeded(), "it compiles");
        format!("{:?}", run.compiled.diagnostics)
    }
}

impl Run {
    #[track_caller]
    pub fn check(&self) {
        let errors = &self.compiled.diagnostics;
        assert!(
            self.compiled.succeeded(),
            "{errors:#?}\n{}",
            self.compiled.plugin_output
        );
    }

    /// The resources; the compile has no mistakes.
    #[track_caller]
    pub fn resources(&self) -> &[Resource] {
        self.check();
        &self
            .compiled
            .export
            .as_ref()
            .expect("it was exported")
            .resources
    }

    /// `id set<requires` of every resource, sorted.
    #[track_caller]
    pub fn summary(&self) -> Vec<String> {
        let resources = self.resources().iter();
        let mut all: Vec<String> = resources
            .map(|resource| {
                let set = resource.resource_set.as_deref().unwrap_or("-");
                format!("{} {set}<{}", resource.id, resource.requires.join(" "))
            })
            .collect();
        all.sort();
        all
    }

    /// The writes to attributes, as `instance set target=value`.
    pub fn writes(&self) -> Vec<String> {
        let writes = serde_json::to_value(&self.compiled.services.writes).expect("it is JSON");
        let writes = writes.as_array().cloned().unwrap_or_default();
        let mut found = Vec::new();
        for write in writes.iter().map(|write| &write["attributes"]) {
            for edit in write["edits"].as_array().into_iter().flatten() {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (instance, set) = (text(&write["instance"]), text(&write["set"]));
                found.push(format!(
                    "{instance} {set} {}={}",
                    text(&edit["target"]),
                    edit["value"]
                ));
            }
        }
        found
    }
}

fn fixtures() -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/services");
    folder.canonicalize().expect("the fixtures are there")
}

/// The services of a file of a fixture.
pub fn services_of(file: &str) -> Value {
    let text = std::fs::read_to_string(fixtures().join(file)).expect("a fixture");
    let inputs: Value = serde_json::from_str(&text).expect("it is JSON");
    inputs["services"].clone()
}

/// The id of the instance with this number.
pub fn id(number: u32) -> String {
    format!("{number:08}-0000-4000-8000-000000000000")
}

/// An instance of version 1.
pub fn instance(number: u32, state: &str, sets: Value) -> Value {
    let mut made = json!({"id": id(number), "version": 1, "state": state});
    for (name, attributes) in sets.as_object().expect("sets by name") {
        made[format!("{name}_attributes")] = attributes.clone();
    }
    made
}

/// The purpose of a validation of an instance of version 1.
pub fn validation(number: u32) -> Value {
    json!({"validation": {"instance": id(number), "version": 1}})
}
