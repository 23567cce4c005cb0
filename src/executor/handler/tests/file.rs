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
