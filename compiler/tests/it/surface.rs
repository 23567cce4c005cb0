//! The Python surface that modules use: every name has a test, and a project of modules means the same under the
//! reference's package and under ours.
//!
//! A test says which names it uses: `#: api inmanta.plugins: plugin, Context.get_type` before a function or a class of
//! `python/tests` or `fixtures/modules`. `docs/python-surface.md` lists the names and their tests;
//! `UPDATE=1 cargo test -p steward-compiler surface` writes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use steward_compiler::Options;

use crate::checklist::{marks, root};
use crate::disk::Disk;
use crate::lang::files;
use crate::meaning::{Meaning, oracle};

/// Names of rank S and N that we do not have: nobody but test tools and the reference's own server uses them.
const NOT_BUILT: &[&str] = &[
    // A picture of the reference's own graph of dataflow: a tool of its debugging.
    "inmanta.compiler show_dataflow_graphic",
    // Works on the sources of modules (build, install): no module calls it.
    "inmanta.moduletool ModuleTool",
    // The reference's own server, in its own process.
    "inmanta.server.protocol Server",
];

type Names = BTreeMap<(String, String), Vec<String>>;

fn tests() -> Names {
    let mut tests = Names::new();
    for directory in ["python/tests", "fixtures/modules"] {
        for path in files(&root().join(directory)) {
            if path.extension().is_none_or(|extension| extension != "py") {
                continue;
            }
            for (mark, test) in marks(&path, "#: ", &["def ", "class "]) {
                let Some(mark) = mark.strip_prefix("api ") else {
                    continue;
                };
                let (module, names) = mark.split_once(':').expect("`#: api module: names`");
                for name in names.split(',') {
                    let entry = (module.to_owned(), name.trim().to_owned());
                    let known = tests.entry(entry).or_default();
                    if !known.contains(&test) {
                        known.push(test.clone());
                    }
                }
            }
        }
    }
    tests
}

/// `docs/python-surface.md` with the tests of today; every name that has none is in the second result.
fn rewritten(text: &str, mut tests: Names) -> (String, Vec<String>) {
    let mut out = String::new();
    let mut without = Vec::new();
    let mut module = "";
    for line in text.lines() {
        module = line.strip_prefix("## ").unwrap_or(module);
        let row = line.strip_prefix("| `").and_then(|row| {
            let (name, rest) = row.split_once("` | ")?;
            Some((name, rest.split_once(" | ")?.0))
        });
        if let Some((name, rank)) = row {
            let entry = (module.to_owned(), name.to_owned());
            let names = tests.remove(&entry).unwrap_or_default();
            if names.is_empty() {
                without.push(format!("{module} {name}"));
            }
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            out.push_str(&format!("| `{name}` | {rank} | {} |\n", names.join(" ")));
        } else {
            out.push_str(line);
            out.push('\n');
        }
    }
    let unknown: Vec<_> = tests.keys().collect();
    assert!(unknown.is_empty(), "not in the table: {unknown:?}");
    (out, without)
}

#[test]
fn every_name_of_the_surface_has_a_test() {
    let path = root().join("docs/python-surface.md");
    let text = std::fs::read_to_string(&path).expect("docs/python-surface.md is readable");
    let (wanted, without) = rewritten(&text, tests());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &wanted).expect("docs/python-surface.md is writable");
    }
    assert_eq!(
        without, NOT_BUILT,
        "names without a test, and those of which that is said"
    );
    assert!(
        text == wanted || std::env::var_os("UPDATE").is_some(),
        "docs/python-surface.md is stale: UPDATE=1 cargo test -p steward-compiler surface"
    );
}

fn modules() -> PathBuf {
    root().join("fixtures/modules")
}

/// The files of the project, path and text.
fn project() -> Vec<(String, String)> {
    let directory = modules().join("project");
    let of = |path: PathBuf| {
        let name = path.strip_prefix(&directory).expect("it is below");
        let text = std::fs::read_to_string(&path).expect("a file of the fixture");
        (name.display().to_string(), text)
    };
    // Python may have left its own beside them.
    let is_source = |path: &PathBuf| path.extension().is_none_or(|extension| extension != "pyc");
    let sources = files(&directory).into_iter().filter(is_source);
    sources.map(of).collect()
}

impl Meaning {
    /// The one that both must have.
    fn expected() -> Self {
        let text = std::fs::read_to_string(modules().join("expected.json"));
        let expected: Value = serde_json::from_str(&text.expect("expected.json")).expect("JSON");
        let printed = expected["printed"].as_array().expect("lines");
        let resources = expected["resources"].as_object().expect("resources");
        Self {
            printed: printed
                .iter()
                .map(|line| line.as_str().expect("a line").to_owned())
                .collect(),
            resources: resources.clone().into_iter().collect(),
        }
    }

    #[track_caller]
    fn check(&self) {
        let expected = Self::expected();
        assert_eq!(self.printed, expected.printed);
        assert_eq!(self.resources, expected.resources);
    }
}

const VARIABLE: (&str, &str) = ("OLDER_VARIABLE", "set");

#[test]
fn a_project_of_modules_means_what_the_reference_says() {
    let meaning = Meaning::ours(&Disk::new(&project()), &[VARIABLE]);
    if std::env::var_os("UPDATE").is_some() {
        let text = json!({"printed": meaning.printed, "resources": meaning.resources});
        let text = serde_json::to_string_pretty(&text).expect("JSON");
        std::fs::write(modules().join("expected.json"), text + "\n").expect("it is writable");
    }
    meaning.check();
}

#[test]
fn the_reference_says_what_is_expected_of_the_project() {
    let Some(oracle) = oracle("the project under the reference") else {
        return;
    };
    let files: BTreeMap<String, String> = project().into_iter().collect();
    Meaning::of_reference(&oracle, &files, &[VARIABLE]).check();
}

//: sdk 10
#[test]
fn what_getters_upload_comes_with_the_export() {
    let options = Options {
        export: true,
        ..Options::default()
    };
    let files = Disk::new(&project()).run(&options, &[]).compiled.files;
    let text = |digest: &str| String::from_utf8_lossy(&files[digest]).into_owned();
    let digest = "56f569eb719246e0eea24041743d4d8612f518c1";
    assert_eq!(text(digest), "content of plain");
    let kept: Vec<String> = files.keys().map(|digest| text(digest)).collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
}

/// Test and result, line by line.
fn suite(python: &Path, package: Option<&Path>) -> Vec<String> {
    let mut command = Command::new(python);
    command.arg(modules().join("suite/run.py"));
    command.env_remove("PYTHONPATH");
    if let Some(package) = package {
        command.env("PYTHONPATH", package);
    }
    let output = command.output().expect("Python starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", python.display());
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    assert!(lines.len() > 50, "{said}");
    lines
}

#[test]
fn the_suite_of_the_surface_passes_with_our_package_and_with_the_references() {
    let ours = std::env::var_os("STEWARD_PYTHON").unwrap_or_else(|| "python3".into());
    let ours = suite(Path::new(&ours), Some(&root().join("python")));
    if let Some(oracle) = oracle("the suite under the reference") {
        assert_eq!(ours, suite(&oracle, None));
    }
}
