//! The unit is confined as it claims.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::harness::{Repo, finish, skip, steward, wait_until};
use crate::machine::Machine;
use crate::ssh::Sshd;

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

/// Given: handlers that take more memory together than the unit has, each less than the server of many resources. The kernel then
/// ended the server, which began all of them again when it was back. Expected: it is asked to spare the server; executors give that up.
#[test]
fn handlers_are_ended_for_memory_before_the_server() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd");
    for unit in ["steward.service", "steward-agent.service"] {
        let text = std::fs::read_to_string(folder.join(unit)).unwrap();
        assert!(text.contains("\nOOMScoreAdjust=-"), "{unit}");
    }
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

/// A plugin that makes a virtual environment, and a resource whose handler is in Python.
const WORK: &str = r#"
import os, venv
from inmanta.agent.handler import CRUDHandler, provider
from inmanta.plugins import plugin
from inmanta.resources import Resource, resource

@plugin
def place() -> "string":
    made = os.path.join(os.environ["TMPDIR"], "venv")
    venv.EnvBuilder().create(made)
    return "/var/lib/steward/made-" + str(os.path.exists(made + "/bin/activate"))

@resource("work::Mark", agent="agent", id_attribute="path")
class Mark(Resource):
    fields = ("agent", "path")

@provider("work::Mark", name="mark")
class MarkHandler(CRUDHandler):
    def read_resource(self, ctx, resource):
        self.create_resource(ctx, resource)

    def create_resource(self, ctx, resource):
        with open(resource.path, "w") as file:
            file.write("by a handler")
        ctx.set_created()
"#;

const MARK: &str = "entity Mark extends std::Resource:\n    string agent = \"internal\"\n    string path\nend\n\
    implement Mark using std::none\nindex Mark(path)\n";

/// Given: the unit of the server, installed as `systemd/README.md` says on a machine with a systemd that runs, and a repository over
/// ssh. Expected: it says that it is up, fetches, compiles with a plugin that makes a virtual environment, and deploys with a handler
/// in Python: all within what the unit permits.
#[test]
fn a_real_systemd_runs_the_unit_and_all_of_its_work() {
    let Some(sshd) = Sshd::start() else {
        return;
    };
    let Some(machine) = Machine::with_systemd() else {
        return;
    };
    let repo = Repo::new("import work\nwork::Mark(path=work::place())\n");
    repo.write_module("work", MARK, WORK);
    repo.commit("all that it does");
    std::fs::set_permissions(repo.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let unit =
        include_str!("../../systemd/steward.service").replace("/usr/bin/", "/usr/local/bin/");
    machine.sh("mkdir -p /etc/sysusers.d /etc/tmpfiles.d /etc/systemd/system/steward.service.d");
    let write = |path: &str, text: &str| std::fs::write(machine.file(path), text).unwrap();
    write("/etc/systemd/system/steward.service", &unit);
    write(
        "/etc/sysusers.d/steward.conf",
        include_str!("../../systemd/sysusers.conf"),
    );
    write(
        "/etc/tmpfiles.d/steward.conf",
        include_str!("../../systemd/tmpfiles.conf"),
    );
    write(
        "/etc/systemd/system/steward.service.d/test.conf",
        "[Service]\nStandardError=append:/var/log/steward-test\n",
    );
    machine.sh("systemd-sysusers steward.conf && systemd-tmpfiles --create steward.conf");
    let key = std::fs::read_to_string(sshd.home.path().join(".ssh/key")).unwrap();
    // A systemd in a container may have no place for credentials.
    write("/etc/steward/key", &key);
    machine.sh("chown steward /etc/steward/key && chmod 0400 /etc/steward/key");
    let known = std::fs::read_to_string(sshd.home.path().join(".ssh/known_hosts")).unwrap();
    write("/etc/steward/known_hosts", &known);
    let config = format!(
        "listen: 127.0.0.1:0\nenvironments:\n- project: p\n  name: e\n  repository: ssh://{}@127.0.0.1:{}{}\n  branch: main\n  \
         credentials: {{ssh_key: /etc/steward/key, known_hosts: /etc/steward/known_hosts}}\n",
        sshd.user,
        sshd.port,
        repo.path().display(),
    );
    write("/etc/steward/steward.yaml", &config);
    let log = || machine.read("/var/log/steward-test");
    machine.sh("systemctl daemon-reload && systemctl start steward || { systemctl status steward; false; }");
    wait_until("it is deployed", || {
        let log = log();
        assert!(
            !log.contains("ERROR") && !log.contains("WARN"),
            "{log}\n{}",
            sshd.log()
        );
        machine.read("/var/lib/steward/made-True") == "by a handler"
    });
    assert_eq!(machine.sh("systemctl is-active steward"), "active\n");
    machine.sh("systemctl stop steward");
    assert_eq!(
        machine.sh("systemctl show -P Result steward"),
        "success\n",
        "{}",
        log()
    );
}

/// Given: the server as the first process of a container, which has no other to wait for orphans. Expected: it waits for them, passes
/// signals on, and its exit code is that of its work.
#[test]
fn as_the_first_process_it_leaves_nothing_that_has_ended() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh("cp /bin/sleep /root/orphan && mkdir /root/project && echo 'name: test' > /root/project/project.yml");
    let model = "import exec\nhost = std::Host(name=\"localhost\", os=std::linux)\n\
        exec::Run(host=host, command=\"sh -c '(/root/orphan 0.1 & /root/orphan 0.2 &); touch /root/made'\")\n";
    std::fs::write(machine.file("/root/project/main.cf"), model).unwrap();
    let contained = |command: &str| {
        format!("unshare --pid --fork --mount-proc --kill-child /usr/local/bin/steward {command}")
    };
    let code =
        |command: &str| machine.sh(&format!("{} >/dev/null 2>&1; echo $?", contained(command)));
    assert_eq!(code("--version"), "0\n");
    assert_eq!(code("compile --nothing"), "2\n");
    let up = contained("up /root/project --listen 127.0.0.1:0 --data /root/data");
    let mut child = machine.command("sh").args(["-c", &up]).spawn().unwrap();
    wait_until("it is deployed", || machine.file("/root/made").exists());
    let inside = "pid=$(pgrep -f -x '/usr/local/bin/steward up .*' | head -n 1)";
    wait_until("who has ended has been waited for", || {
        machine.sh("ps -eo stat=,comm= | grep -c '^Z\\|orphan' || true") == "0\n"
    });
    machine.sh(&format!("{inside}; kill -TERM $pid"));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
