//! `steward::Command`: what it has beyond `exec::Run`, whose tests are in `tests/it/exec.rs`.

use std::fs;

use serde_json::json;

use crate::native::tasks::check;

const TYPE: &str = "steward::Command";

#[test]
fn a_command_may_say_that_it_found_nothing_to_do() {
    for (command, expected) in [
        ("exit 0", "deployed updated"),
        ("exit 80", "deployed nochange"),
        ("exit 81", "failed nochange"),
        ("echo all up to date", "deployed nochange"),
        ("echo up to date >&2; exit 3", "failed nochange"),
    ] {
        let wanted = json!({
            "command": command, "returns": [0], "unchanged_returns": [80], "unchanged_output": "up to date",
        });
        check(TYPE, wanted, expected);
    }
}

#[test]
fn a_command_is_run_only_while_what_it_removes_exists() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("lock"), "").unwrap();
    let wanted = json!({"command": "rm lock", "removes": "lock", "cwd": dir.path()});
    check(TYPE, wanted.clone(), "deployed updated");
    check(TYPE, wanted, "deployed nochange");
}

#[test]
fn the_values_of_variables_are_not_logged() {
    let wanted = json!({"command": "test \"$TOKEN\" = sesame", "environment": {"TOKEN": "sesame"}});
    let log = check(TYPE, wanted, "deployed updated");
    assert!(!log.replace("= sesame", "").contains("sesame"), "{log}");
}
