//! `steward::Checkout` where somebody else has a hand in the working copy. All else is tested with the real binary.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use serde_json::json;

use super::check;

const TYPE: &str = "steward::Checkout";

/// Given: a working copy of another user, whose configuration names a program that git runs when it compares. Expected: root does
/// not run it, neither to look nor in a directory that is the user's and has no copy yet; and may remove the copy.
#[test]
fn root_runs_no_git_in_a_working_copy_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: who is not root has no rights to lose");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (copy, empty) = (dir.path().join("copy"), dir.path().join("empty"));
    let (program, mark) = (dir.path().join("program"), dir.path().join("mark"));
    fs::create_dir(&empty).unwrap();
    chown(&empty, Some(1), Some(1)).unwrap();
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", mark.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let done = git.arg("-C").arg(&copy).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    fs::create_dir(&copy).unwrap();
    let monitor = program.to_str().unwrap();
    git(&["init", "--quiet"]);
    let commit = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "commit",
    ];
    git(&[&commit[..], &["--quiet", "--allow-empty", "-m", "one"]].concat());
    git(&["remote", "add", "origin", copy.to_str().unwrap()]);
    git(&["config", "core.fsmonitor", monitor]);
    let owned = Command::new("chown")
        .args(["-R", "1:1"])
        .arg(&copy)
        .status();
    assert!(owned.unwrap().success());
    let wanted = |path: &std::path::Path, purged: bool| json!({"path": path, "repository": copy, "revision": "HEAD", "purged": purged});
    for path in [&copy, &empty] {
        let log = check(TYPE, wanted(path, false), "failed nochange");
        assert!(log.contains("belongs to user 1"), "{log}");
    }
    assert!(!mark.exists(), "the program ran as root");
    check(TYPE, wanted(&copy, true), "deployed purged");
}
