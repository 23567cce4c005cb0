//! `steward::File` with a digest instead of a content.

use std::fs;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::{check, mode_of};

const TYPE: &str = "steward::File";

#[test]
fn a_file_that_is_named_by_its_digest_is_fetched_when_it_differs() {
    let dir = tempfile::tempdir().unwrap();
    let (path, source) = (dir.path().join("file"), dir.path().join("source"));
    fs::write(&source, "hello").unwrap();
    let digest = hex::encode(Sha256::digest("hello"));
    let wanted =
        json!({"path": path, "content": null, "sha256": digest, "source": source, "mode": 600});
    check(TYPE, wanted.clone(), "deployed created");
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), mode_of(&path)),
        ("hello", 0o600)
    );
    fs::remove_file(&source).unwrap();
    check(TYPE, wanted.clone(), "deployed nochange");
    fs::write(&path, "changed").unwrap();
    let log = check(TYPE, wanted.clone(), "failed nochange");
    assert!(log.contains("cannot open"), "{log}");
    fs::write(&source, "another content").unwrap();
    let log = check(TYPE, wanted, "failed nochange");
    assert!(log.contains("has the SHA-256 digest"), "{log}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "changed");
    let both = json!({"path": path, "content": "x", "sha256": digest});
    let log = check(TYPE, both, "failed nochange");
    assert!(log.contains("not both"), "{log}");
}

#[test]
fn a_file_without_a_content_has_its_mode_managed_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "mine").unwrap();
    let wanted = json!({"path": path, "content": null, "mode": 640});
    check(TYPE, wanted.clone(), "deployed updated");
    check(TYPE, wanted.clone(), "deployed nochange");
    assert_eq!(
        (fs::read_to_string(&path).unwrap().as_str(), mode_of(&path)),
        ("mine", 0o640)
    );
    // Not that of another file behind a symlink.
    let other = dir.path().join("other");
    fs::rename(&path, &other).unwrap();
    std::os::unix::fs::symlink(&other, &path).unwrap();
    let log = check(
        TYPE,
        json!({"path": path, "content": null, "mode": 600}),
        "failed nochange",
    );
    assert!(log.contains("is not a regular file"), "{log}");
    assert_eq!(mode_of(&other), 0o640);
}

/// Given: a path that is not to be, below what is no directory, or with a symlink or FIFO at it. Expected: nothing is to be done in the
/// first case, and the thing itself is removed in the others, without a look at what it leads to.
#[test]
fn what_is_purged_needs_no_directory_above_it_and_no_regular_file() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("file"), "mine").unwrap();
    for kind in ["steward::File", "steward::Directory", "steward::Symlink"] {
        let wanted =
            json!({"path": at("file/below"), "content": null, "target": "t", "purged": true});
        check(kind, wanted, "deployed nochange");
    }
    std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
    let mut mkfifo = std::process::Command::new("mkfifo");
    assert!(mkfifo.arg(at("fifo")).status().unwrap().success());
    for name in ["link", "fifo"] {
        let wanted = json!({"path": at(name), "content": null, "purged": true});
        check(TYPE, wanted.clone(), "deployed purged");
        check(TYPE, wanted, "deployed nochange");
        assert!(fs::symlink_metadata(at(name)).is_err());
    }
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
    fs::create_dir(at("real")).unwrap();
    std::os::unix::fs::symlink(at("real"), at("linked")).unwrap();
    let linked = json!({"path": at("linked"), "purged": true});
    let log = check("steward::Directory", linked, "failed nochange");
    assert!(log.contains("is a symlink and no directory"), "{log}");
    let empty = json!({"path": at("new"), "target": ""});
    let log = check("steward::Symlink", empty, "failed nochange");
    assert!(log.contains("`target` is empty"), "{log}");
}
