//! `docs/guide/testing-modules.md`: its commands, as they stand there, on a module with a suite of pytest-inmanta.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::finish;

const PAGE: &str = include_str!("../../docs/guide/testing-modules.md");
/// Writes the packages of an environment as wheels, so that the test needs no index.
const REWHEEL: &str = include_str!("../../fixtures/packages/rewheel.py");

/// The commands of a block of the page, from 1.
fn commands(block: usize) -> Vec<&'static str> {
    let block = PAGE.split("```sh\n").nth(block).unwrap();
    let block = block.split("```").next().unwrap();
    block.lines().collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// `STEWARD_PYTEST` is a Python with pytest, pytest-inmanta, and what our own package requires.
#[test]
fn the_commands_of_the_guide_test_a_module() {
    check_block(1, "STEWARD_PYTEST", "modules/tested", "6 passed");
}

/// `STEWARD_PYTEST_LSM` has pytest-inmanta-lsm besides that, and so is a Python of 3.12 or later.
#[test]
fn the_commands_of_the_guide_test_a_module_with_services() {
    check_block(
        2,
        "STEWARD_PYTEST_LSM",
        "services/l3vpn/libs/vpn",
        "6 passed",
    );
}

/// Runs the commands of a block on a module of the fixtures; the last one says `passed`.
fn check_block(block: usize, variable: &str, fixture: &str, passed: &str) {
    let Some(tools) = std::env::var_os(variable).map(PathBuf::from) else {
        assert!(std::env::var_os("CI").is_none(), "{variable} is not set");
        eprintln!("testing_guide: SKIPPED, {variable} does not name a Python with the tools");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (wheels, module) = (dir.path().join("wheels"), dir.path().join("module"));
    let mut command = Command::new(&tools);
    command.args(["-c", REWHEEL]).arg(&wheels);
    let output = finish(command);
    assert!(output.status.success(), "{output:?}");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures")
            .join(fixture),
        &module,
    );
    let venv = dir.path().join("venv");
    let mut command = Command::new(&tools);
    command.args(["-m", "venv"]).arg(&venv);
    assert!(finish(command).status.success());
    // The environment is active, and the program is on the path, as the page takes for granted.
    let program = Path::new(env!("CARGO_BIN_EXE_steward")).parent().unwrap();
    let path = [venv.join("bin"), program.to_owned()].into_iter();
    let path = path.chain(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
    let path = std::env::join_paths(path).unwrap();
    let mut said = String::new();
    let commands = commands(block);
    assert_eq!(commands.len(), 3, "{commands:?}");
    for line in commands {
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(&module);
        command
            .env("PATH", &path)
            .env("XDG_CACHE_HOME", dir.path().join("cache"))
            .env("PIP_NO_INDEX", "1")
            .env("PIP_NO_COMPILE", "1")
            .env("PIP_FIND_LINKS", &wheels)
            .env_remove("PYTHONPATH")
            .env_remove("STEWARD_PROGRAM");
        let output = finish(command);
        said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}{errors}");
    }
    assert!(said.contains(passed), "{said}");
    // It ran on ours: the reference is nowhere.
    let mut command = Command::new(venv.join("bin/pip"));
    command.args(["list", "--disable-pip-version-check"]);
    let list = String::from_utf8(finish(command).stdout).unwrap();
    assert!(list.contains("20.1.0+steward."), "{list}");
}
