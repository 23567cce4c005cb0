//! `steward::Archive`, with the tar and unzip of this machine.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{DEADLINE, skip};
use crate::machine::Machine;
use crate::native::tasks::{check, deploy, dry_run};

const TYPE: &str = "steward::Archive";

fn run(folder: &Path, script: &str) {
    let mut shell = Command::new("sh");
    let status = shell.current_dir(folder).args(["-ec", script]).status();
    assert!(status.unwrap().success(), "{script}");
}

/// `name` in `folder` with `app/bin/tool`, whose content is `content`, and `app/link`.
fn archive(folder: &Path, name: &str, content: &str) {
    let script = format!(
        "mkdir -p app/bin; printf {content} > app/bin/tool; chmod 755 app/bin/tool; ln -sf bin/tool app/link;
         tar czf ./{name} --force-local app; rm -r app"
    );
    run(folder, &script);
}

#[test]
fn an_archive_is_unpacked_updated_repaired_and_purged() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    archive(dir.path(), "app:1.tar.gz", "one");
    archive(dir.path(), "app-2.tar.gz", "two");
    let wanted =
        |name: &str| json!({"path": at("place"), "source": at(name), "strip": 1, "timeout": 60});
    let tool = || fs::read_to_string(at("place/bin/tool")).unwrap();
    let dry = dry_run(TYPE, &wanted("app:1.tar.gz"));
    assert_eq!(
        Value::Object(dry.changes),
        json!({"purged": {"current": true, "desired": false}})
    );
    assert!(!at("place").exists());
    check(TYPE, wanted("app:1.tar.gz"), "deployed created");
    check(TYPE, wanted("app:1.tar.gz"), "deployed nochange");
    assert_eq!(tool(), "one");
    assert_eq!(fs::read_to_string(at("place/link")).unwrap(), "one");
    // Somebody changes one file and removes another.
    fs::write(at("place/bin/tool"), "mine").unwrap();
    fs::remove_file(at("place/link")).unwrap();
    let dry = dry_run(TYPE, &wanted("app:1.tar.gz"));
    let mut changed = dry.changes["changed_files"]["current"]
        .as_array()
        .unwrap()
        .clone();
    changed.sort_by_key(Value::to_string);
    assert_eq!(changed, [json!("bin/tool"), json!("link")]);
    check(TYPE, wanted("app:1.tar.gz"), "deployed updated");
    assert_eq!(tool(), "one");
    fs::write(at("place/extra"), "").unwrap();
    check(TYPE, wanted("app-2.tar.gz"), "deployed updated");
    assert_eq!(tool(), "two");
    assert!(!at("place/extra").exists());
    let mut purged = wanted("app-2.tar.gz");
    purged["purged"] = json!(true);
    check(TYPE, purged.clone(), "deployed purged");
    check(TYPE, purged, "deployed nochange");
    // Nothing is left beside it.
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 2);
}

#[test]
fn a_zip_archive_is_unpacked_too() {
    if Command::new("unzip").arg("-v").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI must have unzip");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let script = "import zipfile; zipfile.ZipFile('a.zip', 'w').writestr('sub/file', 'hello')";
    run(dir.path(), &format!("python3 -c \"{script}\""));
    let wanted = json!({"path": dir.path().join("place"), "source": dir.path().join("a.zip")});
    check(TYPE, wanted.clone(), "deployed created");
    check(TYPE, wanted, "deployed nochange");
    let file = dir.path().join("place/sub/file");
    assert_eq!(fs::read_to_string(file).unwrap(), "hello");
}

#[test]
fn an_archive_that_is_not_the_right_one_or_broken_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    archive(dir.path(), "good.tar", "one");
    check(
        TYPE,
        json!({"path": at("place"), "source": at("good.tar")}),
        "deployed created",
    );
    fs::write(at("broken.tar"), "this is no archive").unwrap();
    let log = check(
        TYPE,
        json!({"path": at("place"), "source": at("broken.tar")}),
        "failed nochange",
    );
    assert!(
        log.contains("tar --extract") && log.contains("exit status"),
        "{log}"
    );
    let wrong = json!({"path": at("place"), "source": at("good.tar"), "sha256": "0".repeat(64)});
    let log = check(TYPE, wrong, "failed nochange");
    assert!(log.contains("has the SHA-256 digest"), "{log}");
    assert_eq!(fs::read_to_string(at("place/app/bin/tool")).unwrap(), "one");
    fs::create_dir(at("other")).unwrap();
    fs::write(at("other/precious"), "").unwrap();
    let log = check(
        TYPE,
        json!({"path": at("other"), "source": at("good.tar")}),
        "failed nochange",
    );
    assert!(log.contains("not of an archive of Steward"), "{log}");
    let address = json!({"path": at("x"), "source": "https://example.org/x.tar"});
    check(TYPE, address.clone(), "failed nochange");
    let log = check(
        TYPE,
        json!({"path": at("x"), "source": "relative.tar"}),
        "failed nochange",
    );
    assert!(log.contains("nor an absolute path"), "{log}");
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 4);
}

/// Names never lead out of a directory: docs/reference/security.md § 2.
#[test]
fn an_archive_writes_nothing_outside_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let script = "
import io, tarfile
archive = tarfile.open('evil.tar', 'w')
for name in ['../escaped', '/tmp/steward-test-escaped']:
    archive.addfile(tarfile.TarInfo(name), io.BytesIO())
link = tarfile.TarInfo('link'); link.type = tarfile.SYMTYPE; link.linkname = '..'
archive.addfile(link)
archive.addfile(tarfile.TarInfo('link/escaped'), io.BytesIO())
archive.close()
";
    fs::write(dir.path().join("make.py"), script).unwrap();
    run(dir.path(), "python3 make.py");
    let wanted = json!({"path": dir.path().join("place"), "source": dir.path().join("evil.tar")});
    check(TYPE, wanted, "failed nochange");
    assert!(!dir.path().join("escaped").exists());
    assert!(!Path::new("/tmp/steward-test-escaped").exists());
    assert!(!dir.path().join("place").exists());
}

/// Given: an archive that has a symlink, a FIFO, a file or a directory where Steward keeps its record. Expected: it is left out,
/// nothing is written to where the symlink leads, and the archive is deployed once.
#[test]
fn what_an_archive_has_in_the_place_of_the_record_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let script = "
import io, sys, tarfile
archive = tarfile.open('archive.tar', 'w')
record = tarfile.TarInfo('.steward-archive.json')
record.type, record.linkname, record.mode = sys.argv[1].encode(), 'VICTIM', 0o755
archive.addfile(record)
archive.addfile(tarfile.TarInfo('file'), io.BytesIO())
archive.close()
";
    let script = script.replace("VICTIM", &at("victim").display().to_string());
    fs::write(at("make.py"), script).unwrap();
    fs::write(at("victim"), "mine").unwrap();
    for (kind, name) in [
        ("2", "symlink"),
        ("6", "fifo"),
        ("0", "file"),
        ("5", "directory"),
    ] {
        run(dir.path(), &format!("python3 make.py {kind}"));
        let wanted = json!({"path": at(name), "source": at("archive.tar"), "timeout": 60});
        let log = check(TYPE, wanted.clone(), "deployed created");
        assert!(log.contains("is left out"), "{name}: {log}");
        check(TYPE, wanted, "deployed nochange");
        assert_eq!(fs::read_to_string(at("victim")).unwrap(), "mine", "{name}");
        let mut names: Vec<_> = fs::read_dir(at(name))
            .unwrap()
            .map(|one| one.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, [".steward-archive.json", "file"]);
    }
}

#[test]
fn a_program_of_an_archive_stays_setuid_when_its_owner_is_set() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    run(
        dir.path(),
        "mkdir app; touch app/tool app/plain; chmod 4755 app/tool; chmod 644 app/plain; ln -s tool app/link
         tar cf app.tar app",
    );
    let id = |word: &str| {
        let output = Command::new("id").arg(word).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let wanted = json!({
        "path": at("place"), "source": at("app.tar"), "strip": 1, "owner": id("-u"), "group": id("-g"), "timeout": 60,
    });
    check(TYPE, wanted.clone(), "deployed created");
    check(TYPE, wanted, "deployed nochange");
    let mode = |name: &str| fs::metadata(at("place").join(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("tool"), mode("plain")), (0o4755, 0o644));
}

/// Given: an archive that has a device node, which tar makes as root. Expected: all but the device is unpacked, and the log says so.
#[test]
fn a_device_of_an_archive_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let script = "mkdir app && printf x > app/file && mknod app/disk b 7 7";
    let made = Command::new("sh")
        .current_dir(dir.path())
        .args(["-ec", script])
        .status();
    if !made.unwrap().success() {
        skip("device nodes can not be made (as root, in a container that may)");
        return;
    }
    run(dir.path(), "tar cf app.tar app");
    let place = dir.path().join("place");
    let wanted = json!({"path": place, "source": dir.path().join("app.tar"), "strip": 1});
    let log = check(TYPE, wanted.clone(), "deployed created");
    assert!(log.contains("disk of the archive is a device"), "{log}");
    assert!(place.join("file").exists() && !place.join("disk").exists());
    check(TYPE, wanted, "deployed nochange");
}

/// Given: what can never be an archive's place, and places below a file, where nothing can be, of archives and working copies that
/// are purged. Expected: the first is refused, a dry run included, and there is nothing to do for the second.
#[test]
fn odd_places_of_archives_are_refused_and_need_not_be_purged() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    archive(dir.path(), "app.tar", "one");
    for (attributes, reason) in [
        (
            json!({"path": at("app"), "source": at("app.tar"), "strip": -1}),
            "`strip` -1 is no number of directories",
        ),
        (
            json!({"path": "app", "source": at("app.tar")}),
            "`path` is not absolute",
        ),
    ] {
        let planned = dry_run(TYPE, &attributes).changes["handler"].to_string();
        assert!(planned.contains(reason), "{planned}");
        let log = check(TYPE, attributes, "failed nochange");
        assert!(log.contains(reason), "{log}");
    }
    let below = json!({
        "path": at("app.tar/below"), "source": at("app.tar"), "repository": "/srv/git", "revision": "HEAD", "purged": true,
    });
    for kind in [TYPE, "steward::Checkout"] {
        check(kind, below.clone(), "deployed nochange");
    }
}

/// Given: a server whose umask lets nobody else in. Expected: the directory of an archive is as open as ever, as are its files.
#[test]
fn the_umask_of_the_server_does_not_close_the_directory_of_an_archive() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let model = r#"import steward
host = std::Host(name="localhost", os=std::linux)
steward::Archive(host=host, path="/srv/app", source="/srv/app.tar")
"#;
    machine.sh("mkdir /root/project && echo 'name: test' > /root/project/project.yml");
    fs::write(machine.file("/root/project/main.cf"), model).unwrap();
    machine.sh("cd /srv && echo one > file && chmod 644 file && tar -cf app.tar file");
    machine.sh("cd /root/project && umask 077 && steward deploy");
    assert_eq!(
        machine.sh("stat -c %a /srv/app /srv/app/file"),
        "755\n644\n"
    );
}

/// Given: somebody who may write in the directory above an archive's, and puts a symlink in the place of what is being unpacked.
/// Expected: nothing is written to where it leads, and nothing there is given away.
#[test]
fn nobody_gets_the_files_of_another_while_an_archive_is_unpacked() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["files", "victim", "above"] {
        fs::create_dir(at(name)).unwrap();
    }
    fs::write(at("victim/other"), "of another").unwrap();
    run(
        dir.path(),
        "cd files && touch $(seq 2000) && tar -cf ../app.tar .",
    );
    let before = fs::metadata(at("victim/other")).unwrap().uid();
    let owner = if before == 0 { 1 } else { before };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while !is_over.load(Ordering::Relaxed) && begun.elapsed() < DEADLINE {
                for entry in fs::read_dir(at("above")).unwrap().flatten() {
                    let is_new = entry.file_name().to_string_lossy().starts_with(".steward-");
                    if is_new && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                        let _ = fs::rename(entry.path(), at("taken"));
                        let _ = symlink(at("victim"), entry.path());
                        return;
                    }
                }
            }
        });
        let wanted =
            json!({"path": at("above/app"), "source": at("app.tar"), "owner": owner.to_string()});
        // It may have been quick enough for the archive to be refused.
        let outcome = deploy(TYPE, &wanted);
        is_over.store(true, Ordering::Relaxed);
        assert!(!outcome.logs.is_empty());
    });
    assert_eq!(fs::read_dir(at("victim")).unwrap().count(), 1);
    assert_eq!(fs::metadata(at("victim/other")).unwrap().uid(), before);
}
