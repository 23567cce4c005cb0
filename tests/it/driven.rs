//! Compiles that a Python process has run, as test tools of modules do: our package and the reference's find the same.
//! Source: docs/reference/python.md § 2.4, § 7.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{finish, skip};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/modules/driven")
}

/// What a script of the fixture finds, line by line.
#[track_caller]
fn found(script: &str, interpreter: &Path, package: Option<&Path>) -> Vec<String> {
    let (script, arguments) = script.split_once(' ').unwrap_or((script, ""));
    let projects = tempfile::tempdir().unwrap();
    let mut command = Command::new(interpreter);
    command
        .arg(fixture().join(script))
        .arg(projects.path())
        .args(arguments.split_whitespace());
    command
        .env_remove("PYTHONPATH")
        .env("STEWARD_PROGRAM", env!("CARGO_BIN_EXE_steward"));
    if let Some(package) = package {
        command.env("PYTHONPATH", package);
    }
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn ours(script: &str) -> Vec<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let interpreter = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    found(script, Path::new(&interpreter), Some(&package))
}

/// `None`: the reference is not here.
#[track_caller]
fn the_references(script: &str) -> Option<Vec<String>> {
    let oracle = std::env::var_os("STEWARD_ORACLE");
    if oracle.is_none() {
        skip("STEWARD_ORACLE, a Python with the reference");
    }
    Some(found(script, Path::new(&oracle?), None))
}

fn expected(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(fixture().join(file)).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_python_process_loads_compiles_exports_and_deploys_projects() {
    assert_eq!(ours("run.py"), expected("expected.txt"));
}

#[test]
fn python_modules_stay_imported_from_one_project_to_the_next() {
    assert_eq!(ours("stays.py"), expected("stays.txt"));
}

#[test]
fn what_a_compile_warns_of_are_warnings_of_python() {
    assert_eq!(ours("warned.py"), expected("warned.txt"));
}

/// A program that goes on printing while another one reads and clears what it printed loses lines now and then: 29 of 180
/// runs did.
#[test]
fn nothing_that_models_and_plugins_print_is_lost_or_comes_out_of_turn() {
    assert_eq!(ours("printed.py 150"), ["0 lost of 300", "True True"]);
}

/// The tool starts programs with the Python of its project, and tests install modules there while they run.
#[test]
fn a_test_tool_gives_a_project_an_environment_that_inherits_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let interpreter = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(interpreter);
    command.args(["-m", "venv"]).arg(directory.path());
    assert!(finish(command).status.success());
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let python = directory.path().join("bin/python");
    let found = found("environment.py", &python, Some(&package));
    assert_eq!(found, expected("environment.txt"));
}

#[test]
fn the_reference_finds_the_same() {
    for (script, file) in [
        ("run.py", "expected.txt"),
        ("stays.py", "stays.txt"),
        ("warned.py", "warned.txt"),
        ("environment.py", "environment.txt"),
    ] {
        if let Some(found) = the_references(script) {
            assert_eq!(found, expected(file), "{script}");
        }
    }
    if let Some(found) = the_references("printed.py 1") {
        assert_eq!(found, ["0 lost of 2", "True True"]);
    }
}

/// `STEWARD_PYTEST` is a Python with pytest and pytest-inmanta.
#[test]
fn modules_are_tested_with_the_tool_of_their_authors() {
    let Some(interpreter) = std::env::var_os("STEWARD_PYTEST") else {
        skip("STEWARD_PYTEST, a Python with pytest-inmanta");
        return;
    };
    let module = fixture().with_file_name("tested");
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let mut command = Command::new(interpreter);
    command
        .args(["-m", "pytest", "-p", "no:cacheprovider", "tests"])
        .current_dir(&module)
        .env("INMANTA_USE_MODULE_IN_PLACE", "true")
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("STEWARD_PROGRAM", env!("CARGO_BIN_EXE_steward"))
        .env(
            "PYTHONPATH",
            std::env::join_paths([package, module.clone()]).unwrap(),
        );
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("6 passed"),
        "{said}"
    );
}
