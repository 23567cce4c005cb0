//! What a project means: what its model prints and is exported as, by our compiler and by the reference.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steward_compiler::{Options, export_json};

use crate::disk::Disk;

/// What the model prints, line by line, and the resources it is exported as, by id.
#[derive(Debug, PartialEq)]
pub struct Meaning {
    pub printed: Vec<String>,
    pub resources: BTreeMap<String, Value>,
}

impl Meaning {
    pub fn new(printed: &str, resources: Vec<Value>) -> Self {
        let mut by_id = BTreeMap::new();
        for mut resource in resources {
            let fields = resource.as_object_mut().expect("a resource is an object");
            let id = fields.remove("id").expect("a resource has an id");
            fields.remove("version");
            let id = without_version(&id);
            let requires = fields["requires"].as_array().expect("a list of ids");
            let requires: BTreeSet<String> = requires.iter().map(without_version).collect();
            fields.insert("requires".to_owned(), json!(requires));
            by_id.insert(id, resource);
        }
        Self {
            printed: printed.lines().map(str::to_owned).collect(),
            resources: by_id,
        }
    }

    /// Of a project on disk, compiled by us.
    #[track_caller]
    pub fn ours(disk: &Disk, variables: &[(&str, &str)]) -> Self {
        let options = Options {
            export: true,
            ..Options::default()
        };
        let variables: Vec<_> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let outcome = disk.run(&options, &variables);
        let errors = &outcome.compiled.diagnostics;
        assert!(outcome.compiled.succeeded(), "{errors:#?}");
        let export = outcome.compiled.export.as_ref().expect("an export");
        let resources: Vec<Value> = serde_json::from_str(&export_json(export)).expect("JSON");
        Self::new(&outcome.printed, resources)
    }

    /// Of the files of a project, compiled by the reference, whose Python is given.
    #[track_caller]
    pub fn of_reference(
        oracle: &Path,
        files: &BTreeMap<String, String>,
        variables: &[(&str, &str)],
    ) -> Self {
        let answer = asked(oracle, files, variables);
        assert_eq!(answer["outcome"], "accepted", "{answer:#}");
        let resources = answer["resources"].as_array().expect("resources").clone();
        Self::new(answer["output"].as_str().expect("output"), resources)
    }
}

/// The answer of the reference, whose Python is given, for the files of a project.
pub fn asked(oracle: &Path, files: &BTreeMap<String, String>, variables: &[(&str, &str)]) -> Value {
    let variables: BTreeMap<_, _> = variables.iter().copied().collect();
    let request = json!({"files": files, "export": true, "env": variables});
    let mut child = Command::new(oracle)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differential/oracle.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the reference starts");
    let mut stdin = child.stdin.take().expect("its input");
    writeln!(stdin, "{request}").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    serde_json::from_slice(&output.stdout).expect("an answer")
}

fn without_version(id: &Value) -> String {
    let id = id.as_str().expect("an id is text");
    id.split(",v=").next().unwrap_or(id).to_owned()
}

/// The Python of the reference; without it, the test says so and is over, except in CI.
pub fn oracle(test: &str) -> Option<PathBuf> {
    let found = std::env::var_os("STEWARD_ORACLE").map(PathBuf::from);
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "STEWARD_ORACLE is not set"
        );
        eprintln!("{test}: SKIPPED, STEWARD_ORACLE does not name a Python with the reference");
    }
    found
}
