//! The Python package has its own tests; they run with the rest.

use std::path::Path;
use std::process::Command;

use crate::harness::finish;

#[test]
fn the_tests_of_the_python_package_pass() {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("python");
    let interpreter = std::env::var("STEWARD_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(interpreter);
    command.args([
        "-m",
        "unittest",
        "discover",
        "-s",
        "python/tests",
        "-t",
        "python",
    ]);
    command
        .current_dir(python.parent().unwrap())
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = finish(command);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let ran = said.lines().find_map(|line| {
        line.strip_prefix("Ran ")?
            .split(' ')
            .next()?
            .parse::<u32>()
            .ok()
    });
    assert!(ran.is_some_and(|ran| ran > 20), "{said}");
}
