//! The unit is confined as it claims.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::harness::{Host, Repo, finish, skip, steward};

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

/// Given: the server as root, as the drop-in for a host of its own has it. Expected: it may make the call by which its workers give
/// up root's powers, which the unit forbids; without it no worker starts (seen in a virtual machine with the unit).
#[test]
fn workers_of_a_server_that_is_root_may_give_up_its_powers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let calls = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let filters = text
            .lines()
            .filter_map(|line| line.strip_prefix("SystemCallFilter="));
        let words = filters.flat_map(str::split_whitespace);
        words.map(str::to_owned).collect::<Vec<_>>()
    };
    // Of the group `@privileged`, as systemd has it.
    assert!(calls("steward.service").contains(&"~@privileged".to_owned()));
    let as_root = calls("steward.service.d/local-host.conf.example");
    assert!(as_root.contains(&"capset".to_owned()), "{as_root:?}");
}

/// Given: a repository over ssh. `ssh` ends with "No user exists for uid …" for a user that is not in `/etc/passwd`, and the process
/// that fetches has no socket to ask systemd for one of `DynamicUser=`. Expected: the user of the unit is one of the machine's.
#[test]
fn the_user_of_the_unit_is_one_that_ssh_finds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let unit = read("steward.service");
    let user = unit.lines().find_map(|line| line.strip_prefix("User="));
    let user = user.unwrap();
    let made = read("sysusers.conf");
    let made = made
        .lines()
        .any(|line| line.starts_with(&format!("u {user} ")));
    assert!(made, "no user {user} is made");
    assert!(read("README.md").contains("systemd-sysusers steward.conf"));
}

/// Given: a server whose stderr is the journal. Expected: each line begins with its severity, so that `journalctl -p err` finds the
/// errors; not where stderr is something else and the variable was inherited.
#[test]
fn lines_for_the_journal_have_their_severity() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    let log_of = |config: &str, is_inherited: bool| {
        let stderr = File::create(&path).unwrap();
        let at = stderr.metadata().unwrap();
        let inode = at.ino() + u64::from(is_inherited);
        let file = folder.path().join("steward.yaml");
        let data = folder.path().join("data");
        std::fs::write(
            &file,
            format!("data: {}\nlisten: 127.0.0.1:0\n{config}\n", data.display()),
        )
        .unwrap();
        let mut command = steward();
        command
            .args(["serve", "--check", "--config"])
            .arg(&file)
            .env("JOURNAL_STREAM", format!("{}:{inode}", at.dev()))
            .stderr(stderr);
        command.status().unwrap();
        std::fs::read_to_string(&path).unwrap()
    };
    let good = "environments: []";
    let log = log_of(good, false);
    assert!(log.starts_with("<6>"), "{log}");
    let log = log_of("environments: 7", false);
    assert!(log.lines().all(|line| line.starts_with("<3>")), "{log}");
    assert!(log.contains("ERROR"), "{log}");
    let log = log_of(good, true);
    assert!(!log.contains("<6>"), "{log}");
}

/// Given: the calls that the unit takes away. Expected: a plugin runs, and changes the mode of a file of its own, as the making of a
/// virtual environment does.
#[test]
fn a_plugin_runs_and_sets_modes_under_the_filters_of_the_unit() {
    if Command::new("systemd-analyze")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("systemd is not there, which knows what the unit permits");
        return;
    }
    let repo = Repo::new("import modes\nstd::print(modes::set())\n");
    let code = "import os\nfrom inmanta.plugins import plugin\n\n@plugin\ndef set() -> \"string\":\n    \
        path = os.path.join(os.environ[\"TMPDIR\"], \"mine\")\n    open(path, \"w\").close()\n    \
        os.chmod(path, 0o640)\n    return oct(os.stat(path).st_mode)\n";
    repo.write_module("modes", "", code);
    repo.commit("a plugin");
    let host = Host::new();
    let up = host.up(repo.path());
    let within = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/packages/within_unit.py");
    let mut command = Command::new("python3");
    command.arg(within).arg(up.get_program());
    command.args(up.get_args()).arg("--once");
    let output = finish(command);
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
}
