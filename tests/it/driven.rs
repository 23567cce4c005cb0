//! Compiles that a Python process has run, as test tools of modules do: our package and the reference's find the same.
//! Source: python-sdk.md 2.4, 7.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::finish;

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/modules/driven")
}

/// What `run.py` finds, line by line.
#[track_caller]
fn found(interpreter: &Path, package: Option<&Path>) -> Vec<String> {
    let projects = tempfile::tempdir().unwrap();
    let mut command = Command::new(interpreter);
    command.arg(fixture().join("run.py")).arg(projects.path());
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

fn expected() -> Vec<String> {
    let text = std::fs::read_to_string(fixture().join("expected.txt")).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_python_process_loads_compiles_exports_and_deploys_projects() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let interpreter = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    assert_eq!(found(Path::new(&interpreter), Some(&package)), expected());
}

#[test]
fn the_reference_finds_the_same() {
    match std::env::var_os("STEWARD_ORACLE") {
        Some(oracle) => assert_eq!(found(Path::new(&oracle), None), expected()),
        None => {
            assert!(
                std::env::var_os("CI").is_none(),
                "STEWARD_ORACLE is not set"
            );
            eprintln!("driven: SKIPPED, STEWARD_ORACLE does not name a Python with the reference");
        }
    }
}

/// `STEWARD_PYTEST` is a Python with pytest and pytest-inmanta.
#[test]
fn modules_are_tested_with_the_tool_of_their_authors() {
    let Some(interpreter) = std::env::var_os("STEWARD_PYTEST") else {
        assert!(
            std::env::var_os("CI").is_none(),
            "STEWARD_PYTEST is not set"
        );
        eprintln!("driven: SKIPPED, STEWARD_PYTEST does not name a Python with pytest-inmanta");
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
