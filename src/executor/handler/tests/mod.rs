//! Handlers on real files and processes.

mod checkout;
mod file;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::{native, replacement, run};
use crate::domain::{ActionId, AgentName, DryRunId, ResourceId, VersionNumber};
use crate::executor::protocol::{Dependency, Task, TaskKind, TaskOutcome};

fn deploy_with(
    resource_type: &str,
    attributes: &Value,
    change: impl FnOnce(&mut Task),
) -> TaskOutcome {
    let mut task = Task {
        action: ActionId::generate(),
        kind: TaskKind::Deploy {
            requires: Vec::new(),
            dependency_changed: false,
        },
        code: String::new(),
        agent: AgentName::new("host"),
        resource_id: ResourceId::new(format!("{resource_type}[host,path=x]")),
        resource_type: resource_type.into(),
        version: VersionNumber::new(1),
        attributes: attributes.to_string(),
        reason: "a test said so".into(),
        limit_ms: 600_000,
    };
    change(&mut task);
    run(
        native(resource_type).unwrap(),
        &task,
        attributes.as_object().unwrap(),
        &|_, _| (404, Value::Null),
    )
}

fn dry_run() -> TaskKind {
    TaskKind::DryRun {
        run: DryRunId::generate(),
        requires: Vec::new(),
    }
}

fn deploy(resource_type: &str, attributes: Value) -> (String, String) {
    let outcome = deploy_with(resource_type, &attributes, |_| ());
    (outcome.status.to_string(), outcome.change.to_string())
}

/// What status and change say in one word, with the log when it is not good.
#[track_caller]
fn check(resource_type: &str, attributes: Value, expected: &str) -> String {
    let outcome = deploy_with(resource_type, &attributes, |_| ());
    let logs: Vec<&str> = outcome.logs.iter().map(|line| line.msg.as_str()).collect();
    assert_eq!(
        format!("{} {}", outcome.status, outcome.change),
        expected,
        "{logs:#?}"
    );
    logs.join("\n")
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_file_is_created_updated_left_alone_and_purged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("motd");
    let file = |content: &str, purged: bool| json!({"path": path, "content": content, "mode": 640, "purged": purged});
    check("fs::File", file("one\n", false), "deployed created");
    assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    assert_eq!(mode_of(&path), 0o640);
    check("fs::File", file("one\n", false), "deployed nochange");
    check("fs::File", file("two\n", false), "deployed updated");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let outcome = deploy_with("fs::File", &file("two\n", false), |_| ());
    assert_eq!(
        json!(outcome.changes),
        json!({"mode": {"current": 600, "desired": 640}})
    );
    assert_eq!(mode_of(&path), 0o640);
    check("fs::File", file("two\n", true), "deployed purged");
    assert!(!path.exists());
    check("fs::File", file("two\n", true), "deployed nochange");
}

#[test]
fn a_file_keeps_mode_and_links_to_nothing_else_when_the_model_says_nothing_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o711)).unwrap();
    check(
        "fs::File",
        json!({"path": path, "content": "new", "mode": null}),
        "deployed updated",
    );
    assert_eq!(mode_of(&path), 0o711);
    // A symlink in its place is replaced, and what it led to is not touched.
    let other = dir.path().join("other");
    fs::write(&other, "precious").unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    check(
        "fs::File",
        json!({"path": path, "content": "new"}),
        "deployed updated",
    );
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        2,
        "no temporary file is left"
    );
}

/// What no host could be brought to is refused before anything is done, and so by a dry run, which would promise it.
#[test]
fn a_dry_run_refuses_what_can_never_be() {
    let path = "/nowhere/at/all";
    for (resource_type, attributes, reason) in [
        (
            "steward::File",
            json!({"path": path, "content": "", "mode": 999}),
            "`mode` 999 is no file mode",
        ),
        (
            "steward::File",
            json!({"path": path, "content": "", "sha256": "00"}),
            "not both",
        ),
        (
            "steward::User",
            json!({"name": "steward-nobody", "comment": "a:b"}),
            "`comment` holds a colon",
        ),
        (
            "steward::User",
            json!({"name": "steward-nobody", "comment": "a\nroot2::0:0::/:/bin/sh"}),
            "`comment` holds",
        ),
        (
            "steward::User",
            json!({"name": "steward-nobody", "home": "/x:0:0"}),
            "`home` holds a colon",
        ),
        (
            "steward::User",
            json!({"name": "steward-nobody", "password_hash": "!x"}),
            "is no hash of a password",
        ),
        (
            "steward::Group",
            json!({"name": "steward-nobody", "members": ["a,root"]}),
            "is no name of a user",
        ),
    ] {
        let outcome = deploy_with(resource_type, &attributes, |task| task.kind = dry_run());
        let handler = outcome.changes["handler"].to_string();
        assert!(
            handler.contains("FAILED") && handler.contains(reason),
            "{attributes}: {handler}"
        );
        let log = check(resource_type, attributes, "failed nochange");
        assert!(log.contains(reason), "{log}");
    }
}

/// Given: a file whose content a reference fills, which stands as null in it. Expected: no file without content, and a reason.
#[test]
fn what_a_reference_shall_fill_is_not_left_empty() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let destination = json!({"type": "literal", "name": "destination", "value": "content"});
    let mutators = json!([{"type": "core::Replace", "args": [destination]}]);
    let attributes = json!({"path": path, "content": null, "mutators": mutators});
    let log = check("fs::File", attributes.clone(), "failed nochange");
    assert!(log.contains("`content` is filled by a reference"), "{log}");
    assert!(!path.exists());
    check(
        "std::testing::NullResource",
        attributes,
        "deployed nochange",
    );
}

#[test]
fn a_file_that_cannot_be_written_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let log = check(
        "fs::File",
        json!({"path": dir.path().join("no/f"), "content": ""}),
        "failed nochange",
    );
    assert!(log.contains("declare it as fs::Directory"), "{log}");
    let log = check(
        "fs::File",
        json!({"path": dir.path(), "content": ""}),
        "failed nochange",
    );
    assert!(log.contains("is a directory"), "{log}");
    let log = check(
        "fs::File",
        json!({"path": dir.path().join("f"), "content": "", "mode": 999}),
        "failed nochange",
    );
    assert!(log.contains("octal"), "{log}");
    let log = check(
        "fs::File",
        json!({"path": dir.path().join("f"), "owner": "nobody-here"}),
        "failed nochange",
    );
    assert!(log.contains("no user `nobody-here`"), "{log}");
    check("fs::File", json!({"path": ""}), "failed nochange");
    check("fs::File", json!({"path": "a\u{0}b"}), "failed nochange");
    check("fs::File", json!({}), "failed nochange");
}

#[test]
fn a_directory_is_created_and_only_an_empty_one_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a/b");
    let directory = |purged: bool| json!({"path": path, "mode": 750, "purged": purged});
    check("fs::Directory", directory(false), "deployed created");
    assert_eq!(mode_of(&path), 0o750);
    check("fs::Directory", directory(false), "deployed nochange");
    fs::write(path.join("f"), "").unwrap();
    let log = check("fs::Directory", directory(true), "failed nochange");
    let why = "there is still f in it; remove what is inside first. Purged resources that require this one come after it";
    assert!(log.contains(why), "{log}");
    fs::remove_file(path.join("f")).unwrap();
    check("fs::Directory", directory(true), "deployed purged");
}

#[test]
fn a_symlink_follows_its_target() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link");
    check(
        "fs::Symlink",
        json!({"path": path, "target": "one"}),
        "deployed created",
    );
    check(
        "fs::Symlink",
        json!({"path": path, "target": "one"}),
        "deployed nochange",
    );
    check(
        "fs::Symlink",
        json!({"path": path, "target": "two"}),
        "deployed updated",
    );
    assert_eq!(fs::read_link(&path).unwrap(), Path::new("two"));
    check(
        "fs::Symlink",
        json!({"path": path, "target": "two", "purged": true}),
        "deployed purged",
    );
    fs::write(&path, "file").unwrap();
    check(
        "fs::Symlink",
        json!({"path": path, "target": "two"}),
        "failed nochange",
    );
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_it_would() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = json!({"path": path, "content": "x"});
    let outcome = deploy_with("fs::File", &file, |task| task.kind = dry_run());
    assert_eq!(outcome.status.as_str(), "dry");
    assert_eq!(
        json!(outcome.changes),
        json!({"purged": {"current": true, "desired": false}})
    );
    assert!(!path.exists());
    let outcome = deploy_with("fs::File", &json!({"path": dir.path()}), |task| {
        task.kind = dry_run()
    });
    assert_eq!(outcome.changes["handler"]["current"], "FAILED");
}

#[test]
fn report_only_compares_and_leaves_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = json!({"path": path, "content": "x", "report_only": true});
    assert_eq!(
        deploy("fs::File", file.clone()),
        ("non_compliant".into(), "nochange".into())
    );
    assert!(!path.exists());
    fs::write(&path, "x").unwrap();
    assert_eq!(
        deploy("fs::File", file),
        ("deployed".into(), "nochange".into())
    );
}

#[test]
fn a_bad_dependency_skips_and_names_it() {
    for (status, expected) in [
        ("deployed", "deployed"),
        ("failed", "skipped_for_dependency"),
        ("skipped", "skipped_for_dependency"),
        ("available", "skipped_for_dependency"),
        ("undefined", "skipped_for_dependency"),
    ] {
        let dependency = Dependency {
            resource_id: ResourceId::new("a::B[h,n=dep]"),
            status: status.parse().unwrap(),
        };
        let null = json!({"name": "x"});
        let outcome = deploy_with("std::testing::NullResource", &null, |task| {
            task.kind = TaskKind::Deploy {
                requires: vec![dependency],
                dependency_changed: false,
            }
        });
        assert_eq!(outcome.status.as_str(), expected, "{status}");
        let named = outcome
            .logs
            .iter()
            .any(|line| line.msg.contains("a::B[h,n=dep]"));
        assert_eq!(named, status != "deployed");
    }
}

#[test]
fn a_null_resource_fails_when_it_is_told_to() {
    check(
        "std::testing::NullResource",
        json!({"name": "x", "value": "v"}),
        "deployed nochange",
    );
    check(
        "std::testing::NullResource",
        json!({"name": "x", "fail": true}),
        "failed nochange",
    );
}

#[test]
fn what_a_killed_executor_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let names = || {
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let file = dir.path().join("motd");
    let (left, _) = replacement::Replacement::file(&file).unwrap();
    let name = left.path().to_owned();
    std::mem::forget(left);
    assert!(names()[0].starts_with(".steward-"), "{:?}", names());
    // Whatever it is by now.
    for leftover in ["file", "symlink"] {
        let _ = fs::remove_file(&name);
        match leftover {
            "file" => fs::write(&name, "half").unwrap(),
            _ => symlink(dir.path().join("precious"), &name).unwrap(),
        }
        let content = json!({"path": file, "content": leftover});
        let _ = fs::remove_file(&file);
        check("fs::File", content, "deployed created");
        assert_eq!(names(), ["motd"]);
    }
    fs::create_dir(&name).unwrap();
    let log = check(
        "fs::File",
        json!({"path": file, "content": "new"}),
        "failed nochange",
    );
    assert!(log.contains("is in the way"), "{log}");
    assert!(name.is_dir());
    fs::remove_dir(&name).unwrap();

    let link = dir.path().join("link");
    let left = replacement::Replacement::symlink(&link, "half").unwrap();
    std::mem::forget(left);
    symlink("one", &link).unwrap();
    check(
        "fs::Symlink",
        json!({"path": link, "target": "two"}),
        "deployed updated",
    );
    assert_eq!(names(), ["link", "motd"]);
}

#[test]
fn a_file_in_the_making_is_not_taken_for_a_leftover() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("motd");
    let (replacement, file) = replacement::Replacement::file(&path).unwrap();
    let other = json!({"path": path, "content": "other"});
    let log = check("fs::File", other.clone(), "failed nochange");
    assert!(log.contains("another resource"), "{log}");
    replacement.place().unwrap();
    drop(file);
    check("fs::File", other, "deployed updated");
}

#[test]
fn odd_things_in_the_place_of_a_file_neither_hang_nor_confuse() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let file = |name: &str| json!({"path": at(name), "content": "new"});
    let fifo = std::process::Command::new("mkfifo")
        .arg(at("fifo"))
        .status();
    assert!(fifo.unwrap().success());
    // Opened as if it had been a file a moment ago: no waiting for a writer.
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, replacement::NO_SURPRISE);
    options.read(true).open(at("fifo")).unwrap();
    check("fs::File", file("fifo"), "deployed updated");
    assert_eq!(fs::read_to_string(at("fifo")).unwrap(), "new");
    std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    check("fs::File", file("socket"), "deployed updated");
    // Who may not make devices has none to lose.
    let mut mknod = std::process::Command::new("mknod");
    let device = mknod.arg(at("device")).args(["c", "1", "3"]).output();
    if device.unwrap().status.success() {
        let log = check("fs::File", file("device"), "failed nochange");
        assert!(log.contains("is a device"), "{log}");
        let mut gone = file("device");
        gone["purged"] = json!(true);
        check("fs::File", gone, "deployed purged");
    }
    // A terabyte, of which nobody reads more than a little.
    let large = fs::File::create(at("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    let outcome = deploy_with("fs::File", &file("large"), |_| ());
    assert_eq!(outcome.status.as_str(), "deployed");
    assert!(outcome.changes["content"].to_string().len() < 1 << 20);
    assert_eq!(fs::read_to_string(at("large")).unwrap(), "new");
}

#[test]
fn what_is_above_a_path_may_be_odd_too() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    symlink("/nowhere/at/all", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    fs::write(at("file"), "").unwrap();
    let failed = |kind: &str, path: &str| {
        let attributes = json!({"path": at(path), "content": "", "target": "t"});
        let log = check(kind, attributes, "failed nochange");
        assert!(log.contains(dir.path().to_str().unwrap()), "{log}");
        log
    };
    for kind in ["fs::File", "fs::Symlink"] {
        let log = failed(kind, "dangling/f");
        assert!(
            log.contains("a symlink that leads nowhere; remove"),
            "{log}"
        );
        let log = failed(kind, "file/f");
        assert!(
            log.contains("something above it is not a directory"),
            "{log}"
        );
        let log = failed(kind, "loop/f");
        assert!(log.contains("symlinks above it lead in a circle"), "{log}");
    }
    let log = failed("fs::Directory", "dangling");
    assert!(
        log.contains("a symlink that leads nowhere; remove"),
        "{log}"
    );
    let log = failed("fs::Directory", "file/d");
    assert!(
        log.contains("something above it is not a directory"),
        "{log}"
    );
    let log = failed("fs::Symlink", "missing/f");
    assert!(log.contains("declare it as fs::Directory"), "{log}");
    fs::create_dir_all(at("full/inside")).unwrap();
    let full = json!({"path": at("full"), "purged": true});
    let log = check("fs::Directory", full, "failed nochange");
    assert!(log.contains("remove what is inside first"), "{log}");
}

#[test]
fn an_error_of_the_host_says_what_to_do() {
    let error = |number: rustix::io::Errno| {
        super::Error::io("write", Path::new("/etc/motd"))(number.into()).to_string()
    };
    use rustix::io::Errno;
    let denied = error(Errno::ACCESS);
    assert!(
        denied.starts_with("cannot write /etc/motd: Permission denied") && denied.contains("root"),
        "{denied}"
    );
    assert!(error(Errno::ROFS).ends_with("mount it writable, or leave it out of the model"));
    assert!(error(Errno::NOSPC).ends_with("make room there"));
}
