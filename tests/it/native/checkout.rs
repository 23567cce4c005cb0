//! `steward::Checkout`, with the git of this machine.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{skip, wait_until};
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

/// Serves repositories by an address, since git takes no submodule from a path.
struct Daemon {
    child: Child,
    url: String,
}

impl Daemon {
    /// `None`: this machine's git has none.
    fn serve(base: &Path) -> Option<Self> {
        let program = Path::new(&git(base, &["--exec-path"])).join("git-daemon");
        if !program.exists() {
            skip("git daemon is not installed");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let child = Command::new(program)
            .args(["--reuseaddr", "--export-all", "--listen=127.0.0.1"])
            .arg(format!("--port={port}"))
            .arg(format!("--base-path={}", base.display()))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the daemon listens", || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        let url = format!("git://127.0.0.1:{port}");
        Some(Self { child, url })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Given: a repository with a submodule whose server is away at first, moves, is wanted later only, and is not wanted any more. Expected:
/// each copy has the submodule in the end that it wants, and nothing of it counts as a change by somebody.
#[test]
fn submodules_that_could_not_be_had_are_checked_out_later() {
    let dir = tempfile::tempdir().unwrap();
    let (source, sub) = (dir.path().join("source"), dir.path().join("sub"));
    let (away, copy) = (dir.path().join("away"), dir.path().join("copy"));
    repository(&source);
    repository(&sub);
    let Some(daemon) = Daemon::serve(dir.path()) else {
        return;
    };
    let url = format!("{}/sub", daemon.url);
    git(&source, &["submodule", "--quiet", "add", &url, "sub"]);
    git(&source, &["commit", "-q", "-m", "with a submodule"]);
    let wanted = |submodules| json!({"path": copy, "repository": source, "revision": "main", "submodules": submodules});
    let content = || fs::read_to_string(copy.join("sub/file")).unwrap_or_default();
    fs::rename(&sub, &away).unwrap();
    check(TYPE, wanted(true), "failed nochange");
    fs::rename(&away, &sub).unwrap();
    let missing = json!({"missing_submodules": {"current": ["sub"], "desired": []}});
    assert_eq!(Value::Object(dry_run(TYPE, &wanted(true)).changes), missing);
    check(TYPE, wanted(true), "deployed updated");
    check(TYPE, wanted(true), "deployed nochange");
    assert_eq!(content(), "one");
    let move_on = |text: &str| {
        commit(&sub, text);
        git(&source.join("sub"), &["pull", "--quiet", "origin", "main"]);
        git(&source, &["commit", "--quiet", "-a", "-m", text]);
    };
    move_on("two");
    fs::rename(&sub, &away).unwrap();
    check(TYPE, wanted(true), "failed nochange");
    fs::rename(&away, &sub).unwrap();
    check(TYPE, wanted(true), "deployed updated");
    assert_eq!(content(), "two");
    move_on("three");
    check(TYPE, wanted(false), "deployed updated");
    check(TYPE, wanted(false), "deployed nochange");
    assert_eq!(content(), "two");
    check(TYPE, wanted(true), "deployed updated");
    assert_eq!(content(), "three");
    fs::write(copy.join("sub/file"), "mine").unwrap();
    let log = check(TYPE, wanted(true), "failed nochange");
    assert!(log.contains(" M sub"), "{log}");
    let mut forced = wanted(true);
    forced["force"] = json!(true);
    check(TYPE, forced.clone(), "deployed updated");
    check(TYPE, forced, "deployed nochange");
    assert_eq!(content(), "three");
}

/// Given: a directory in a working copy of somebody, with a `.git` that is empty, as one has it that was interrupted. Expected: it becomes
/// a copy of its own, and nothing happens to the one around it.
#[test]
fn a_copy_that_is_none_yet_is_not_part_of_one_around_it() {
    let dir = tempfile::tempdir().unwrap();
    let (source, around) = (dir.path().join("source"), dir.path().join("around"));
    repository(&source);
    repository(&around);
    let config = fs::read_to_string(around.join(".git/config")).unwrap();
    let copy = around.join("copy");
    fs::create_dir_all(copy.join(".git")).unwrap();
    let wanted = json!({"path": copy, "repository": source, "revision": "main", "force": true});
    check(TYPE, wanted.clone(), "deployed updated");
    check(TYPE, wanted, "deployed nochange");
    assert_eq!(fs::read_to_string(copy.join("file")).unwrap(), "one");
    assert_eq!(
        fs::read_to_string(around.join(".git/config")).unwrap(),
        config
    );
}

/// Given: the lock of a git that was killed an hour ago, and one that is new. Expected: the old one is removed, and the new one is
/// somebody's.
#[test]
fn an_old_lock_of_git_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    repository(&source);
    let wanted = json!({"path": copy, "repository": source, "revision": "main"});
    check(TYPE, wanted.clone(), "deployed created");
    commit(&source, "two");
    let lock = fs::File::create(copy.join(".git/index.lock")).unwrap();
    check(TYPE, wanted.clone(), "failed nochange");
    let hour = std::time::Duration::from_secs(3600);
    let changed = lock.metadata().unwrap().modified().unwrap() - hour;
    lock.set_modified(changed).unwrap();
    let log = check(TYPE, wanted, "deployed updated");
    assert!(log.contains("index.lock, which is removed"), "{log}");
}

/// Given: a tag's own id, which is not that of its commit, a repository without a commit, and paths that lead nowhere. Expected: the first
/// is checked out once; the others say what is wrong.
#[test]
fn odd_revisions_and_places_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
    repository(&source);
    git(&source, &["tag", "-a", "-m", "a tag with a message", "v1"]);
    let id = git(&source, &["rev-parse", "v1"]);
    let wanted = json!({"path": copy, "repository": source, "revision": id});
    check(TYPE, wanted.clone(), "deployed created");
    check(TYPE, wanted, "deployed nochange");
    let empty = dir.path().join("empty");
    git(dir.path(), &["init", "-q", "--bare", "empty"]);
    let (link, file) = (dir.path().join("link"), dir.path().join("file"));
    std::os::unix::fs::symlink("/nowhere/at/all", &link).unwrap();
    fs::write(&file, "").unwrap();
    for (path, repository, reason) in [
        (
            &dir.path().join("new"),
            &empty,
            "names no main branch that has a commit",
        ),
        (&link, &source, "is a symlink that leads nowhere"),
        (&file, &source, "is not a directory; remove it first"),
    ] {
        let wanted = json!({"path": path, "repository": repository, "revision": "HEAD"});
        let log = check(TYPE, wanted, "failed nochange");
        assert!(log.contains(reason), "{log}");
    }
}
