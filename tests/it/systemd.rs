//! The unit is confined as it claims.

use std::path::Path;
use std::process::Command;

use crate::harness::{finish, skip};

#[test]
fn the_unit_passes_the_check_of_systemd_analyze() {
    let present = Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if !present {
        skip("systemd-analyze is not installed");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd/check.sh");
    let mut command = Command::new("bash");
    command.arg(script);
    let output = finish(command);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
}
