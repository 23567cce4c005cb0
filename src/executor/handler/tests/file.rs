//! `steward::File` with a digest instead of a content.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::super::file::put_with;
use super::{check, mode_of, replacement};

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

/// Given: a file with rights for a further user, of whom the mode knows only the limit, and with a note; another content. Expected:
/// both are there still, and its group has no more rights than before.
#[test]
fn rights_of_further_users_and_notes_stay_when_a_file_is_replaced() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    // user::rw- user:1:rw- group::r-- mask::rw- other::r--, as the kernel takes it.
    const RIGHTS: &[u8] = b"\x02\0\0\0\
        \x01\0\x06\0\xff\xff\xff\xff\x02\0\x06\0\x01\0\0\0\
        \x04\0\x04\0\xff\xff\xff\xff\x10\0\x06\0\xff\xff\xff\xff\x20\0\x04\0\xff\xff\xff\xff";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "old").unwrap();
    for (name, value) in [
        ("system.posix_acl_access", RIGHTS),
        ("user.note", b"kept".as_slice()),
    ] {
        if setxattr(&path, name, value, XattrFlags::empty()).is_err() {
            eprintln!("SKIPPED: the file system has no {name}");
            return;
        }
    }
    check(
        TYPE,
        json!({"path": path, "content": "new"}),
        "deployed updated",
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    let mut value = [0; 100];
    let length = getxattr(&path, "user.note", &mut value).unwrap();
    assert_eq!(&value[..length], b"kept");
    let length = getxattr(&path, "system.posix_acl_access", &mut value).unwrap();
    assert_eq!(&value[..length], RIGHTS);
    // The mode is the limit of the further rights, as `chmod` has it.
    check(
        TYPE,
        json!({"path": path, "content": "newer", "mode": 640}),
        "deployed updated",
    );
    assert_eq!(mode_of(&path), 0o640);
}

/// Given: a directory whose owner puts a symlink in the place of the new file while it is written. Expected: nothing happens to
/// what the symlink leads to, and the resource fails.
#[test]
fn nobody_gets_the_file_of_another_by_a_symlink_in_the_place_of_the_new_one() {
    use std::os::unix::fs::{MetadataExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("other"), "of another").unwrap();
    fs::set_permissions(at("other"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = fs::metadata(at("other")).unwrap();
    let owner = if before.uid() == 0 { 1 } else { before.uid() };
    let desired = json!({"owner": owner.to_string(), "mode": 644});
    let path = at("file");
    let done = put_with(&path, desired.as_object().unwrap(), |_| {
        let new = replacement::beside(&path, "file");
        fs::rename(&new, at("taken")).unwrap();
        symlink(at("other"), &new).unwrap();
        Ok(())
    });
    let message = done.unwrap_err().to_string();
    assert!(message.contains("took the new file away"), "{message}");
    let after = fs::metadata(at("other")).unwrap();
    assert_eq!(
        (after.uid(), after.mode()),
        (before.uid(), before.mode()),
        "{message}"
    );
    assert!(fs::symlink_metadata(&path).is_err());
}

/// Given: symlinks that another user made, to a directory of root and to one of their own. Expected: root changes nothing behind the
/// first one, neither in it nor the directory itself, and works behind the second.
#[test]
fn root_follows_symlinks_of_others_only_to_what_is_theirs() {
    use std::os::unix::fs::{MetadataExt, chown, lchown, symlink};
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: who is not root has nothing to give away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["of-root", "theirs"] {
        fs::create_dir(at(name)).unwrap();
        fs::write(at(name).join("old"), "").unwrap();
        symlink(at(name), at(&format!("to-{name}"))).unwrap();
        lchown(at(&format!("to-{name}")), Some(1), Some(1)).unwrap();
    }
    chown(at("theirs"), Some(1), Some(1)).unwrap();
    let file = |folder: &str, name: &str, purged: bool| json!({"path": at(folder).join(name), "content": "x", "owner": "1", "purged": purged});
    let folder = |name: &str| json!({"path": at(name), "owner": "1", "mode": 700});
    for (resource_type, attributes) in [
        (TYPE, file("to-of-root", "new", false)),
        (TYPE, file("to-of-root", "old", false)),
        (TYPE, file("to-of-root", "old", true)),
        ("steward::Directory", folder("to-of-root")),
        ("steward::Directory", folder("to-of-root/new")),
        (
            "steward::Symlink",
            json!({"path": at("to-of-root").join("link"), "target": "old"}),
        ),
    ] {
        let log = check(resource_type, attributes, "failed nochange");
        assert!(
            log.contains("is a symlink that user 1 made to what belongs to user 0"),
            "{log}"
        );
    }
    let names: Vec<_> = fs::read_dir(at("of-root")).unwrap().collect();
    assert_eq!(names.len(), 1);
    assert_eq!(fs::metadata(at("of-root")).unwrap().uid(), 0);
    assert_eq!(fs::metadata(at("of-root/old")).unwrap().uid(), 0);
    check(TYPE, file("to-theirs", "new", false), "deployed created");
    check(
        "steward::Directory",
        folder("to-theirs"),
        "deployed updated",
    );
    assert_eq!(mode_of(&at("theirs")), 0o700);
}
