//! `steward::Checkout`, with the git of this machine.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::native::tasks::{check, dry_run};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["-c", "user.name=A", "-c", "user.email=a@example.org"])
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A repository with a commit on `main`.
fn repository(folder: &Path) -> String {
    fs::create_dir(folder).unwrap();
    git(folder, &["init", "-q", "-b", "main"]);
    commit(folder, "one")
}

fn commit(folder: &Path, content: &str) -> String {
    fs::write(folder.join("file"), content).unwrap();
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-q", "-m", content]);
    git(folder, &["rev-parse", "HEAD"])
}

const TYPE: &str = "steward::Checkout";

#[test]
fn a_checkout_follows_its_branch_and_stays_at_a_tag_or_commit() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    let first = repository(&source);
    let at = |revision: &str| json!({"path": copy, "repository": source, "revision": revision});
    let content = || fs::read_to_string(copy.join("file")).unwrap();
    let dry = dry_run(TYPE, &at("main"));
    assert_eq!(
        Value::Object(dry.changes),
        json!({"purged": {"current": true, "desired": false}})
    );
    assert!(!copy.exists());
    check(TYPE, at("main"), "deployed created");
    assert_eq!(content(), "one");
    check(TYPE, at("main"), "deployed nochange");
    git(&source, &["tag", "-a", "-m", "a tag with a message", "v1"]);
    let second = commit(&source, "two");
    let dry = dry_run(TYPE, &at("main"));
    let changes = json!({"commit": {"current": first, "desired": second}});
    assert_eq!(Value::Object(dry.changes), changes);
    check(TYPE, at("HEAD"), "deployed updated");
    assert_eq!(content(), "two");
    check(TYPE, at("v1"), "deployed updated");
    check(TYPE, at("v1"), "deployed nochange");
    assert_eq!(content(), "one");
    check(TYPE, at(&second), "deployed updated");
    // A commit that is there needs no repository.
    fs::rename(&source, dir.path().join("away")).unwrap();
    check(TYPE, at(&second), "deployed nochange");
    check(TYPE, at(&first), "deployed updated");
    let log = check(TYPE, at("main"), "failed nochange");
    assert!(log.contains("`git ls-remote` ended with"), "{log}");
    let purged = json!({"path": copy, "repository": source, "revision": "main", "purged": true});
    check(TYPE, purged.clone(), "deployed purged");
    check(TYPE, purged, "deployed nochange");
}

#[test]
fn local_changes_are_an_error_unless_force_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    repository(&source);
    let wanted =
        |force| json!({"path": copy, "repository": source, "revision": "main", "force": force});
    check(TYPE, wanted(false), "deployed created");
    fs::write(copy.join("file"), "mine").unwrap();
    fs::write(copy.join("other"), "not of the repository").unwrap();
    let log = check(TYPE, wanted(false), "failed nochange");
    assert!(
        log.contains("M file") && log.contains("set `force`"),
        "{log}"
    );
    check(TYPE, wanted(true), "deployed updated");
    assert_eq!(fs::read_to_string(copy.join("file")).unwrap(), "one");
    assert!(copy.join("other").exists());
}

#[test]
fn a_shallow_checkout_has_as_many_commits_as_are_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    repository(&source);
    commit(&source, "two");
    let address = format!("file://{}", source.display());
    let wanted = json!({"path": copy, "repository": address, "revision": "main", "depth": 1});
    check(TYPE, wanted.clone(), "deployed created");
    assert_eq!(git(&copy, &["rev-list", "--count", "HEAD"]), "1");
    commit(&source, "three");
    check(TYPE, wanted, "deployed updated");
    assert_eq!(fs::read_to_string(copy.join("file")).unwrap(), "three");
}

#[test]
fn an_interrupted_checkout_is_finished_and_other_things_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    repository(&source);
    let wanted = json!({"path": copy, "repository": source, "revision": "main"});
    fs::create_dir(&copy).unwrap();
    // All that was done before the end came.
    git(&copy, &["init", "-q"]);
    check(TYPE, wanted.clone(), "deployed updated");
    check(TYPE, wanted, "deployed nochange");
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("precious"), "").unwrap();
    let wanted = json!({"path": other, "repository": source, "revision": "main"});
    let log = check(TYPE, wanted, "failed nochange");
    assert!(log.contains("remove it first"), "{log}");
    assert!(other.join("precious").exists());
}

/// Given: an address where nothing is, as a revision and as a commit id, where nothing is and in an empty directory. Expected:
/// what was begun is gone, so that the next plan says what the first one said.
#[test]
fn a_checkout_that_could_not_be_made_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let (nowhere, empty) = (dir.path().join("nowhere"), dir.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    for revision in ["main", "0123456789012345678901234567890123456789"] {
        for copy in [&nowhere, &empty] {
            let wanted = json!({
                "path": copy, "repository": dir.path().join("no-repository"), "revision": revision,
            });
            let planned = dry_run(TYPE, &wanted).changes;
            check(TYPE, wanted.clone(), "failed nochange");
            assert_eq!(dry_run(TYPE, &wanted).changes, planned);
        }
    }
    assert!(!nowhere.exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

/// A value never becomes an option or a command: docs/reference/security.md § 2.
#[test]
fn an_option_is_no_repository_and_no_revision() {
    for (repository, revision) in [
        ("--upload-pack=touch x", "main"),
        ("/x", "--output=x"),
        ("", "main"),
    ] {
        let wanted =
            json!({"path": "/nowhere/copy", "repository": repository, "revision": revision});
        let log = check(TYPE, wanted, "failed nochange");
        assert!(log.contains("can not be one"), "{log}");
    }
    // `ext` would run a command; git allows it to nobody.
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let wanted = json!({
        "path": dir.path().join("copy"), "repository": format!("ext::touch {}", mark.display()), "revision": "main",
    });
    check(TYPE, wanted, "failed nochange");
    assert!(!mark.exists());
}

#[test]
fn a_password_of_an_address_is_in_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let wanted = json!({
        "path": dir.path().join("copy"), "repository": "http://user:sesame@127.0.0.1:1/x.git", "revision": "main",
    });
    let log = check(TYPE, wanted, "failed nochange");
    assert!(
        log.contains("127.0.0.1:1") && !log.contains("sesame"),
        "{log}"
    );
}
