//! A machine of its own for what changes the host: the root directory of this one with a layer above it that takes all
//! changes, in namespaces for mounts and processes, and if wanted with a systemd of its own.
//!
//! # What it can not reach
//!
//! It must never do harm to the host, whatever the programs in it do. So nothing but the root directory below the layer is
//! shared: `/tmp`, `/var/tmp`, `/run` and `/dev` are its own, `/sys` and `/proc/sys` are read only, and the host's mounts
//! are taken out of its namespace. Its systemd knows the units that are written here and no others: not those of the
//! distribution, one of which empties `/tmp` at a start. It sees a control group of its own. Files go in and out through
//! `/proc/PID/root`, and all is gone when it is dropped.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{DEADLINE, events, skip, wait_until};

/// Makes the root directory below `$1`, with the binary `$2`, and goes there.
const ROOT: &str = r#"set -e
mount --make-rprivate /
mount -t tmpfs steward "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
touch usr/local/bin/steward
mount --bind "$2" usr/local/bin/steward
mount -o remount,bind,ro usr/local/bin/steward
for own in tmp var/tmp run dev; do mount -t tmpfs own "$own"; done
chmod 1777 tmp var/tmp
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/full c 1 7
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
ln -s /proc/self/fd dev/fd
mkdir dev/shm
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mkdir -p mnt
"#;

/// Leaves the host's mounts behind.
const PIVOT: &str = r#"pivot_root . mnt
umount -l /mnt
cd /
[ -z "$(ls -A /tmp)" ]
"#;

const SLEEP: &str = "echo ready\nexec sleep 1000\n";

/// A control group for the systemd, `$3` of the host, while it is in reach.
const GROUP: &str = r#"mkdir "$3"
echo 0 > "$3/cgroup.procs"
"#;

/// systemd as the first process, with these units and no others.
const SYSTEMD: &str = r#"for folder in usr/lib/systemd lib/systemd usr/local/lib/systemd; do
    for kind in system system-generators system-environment-generators; do
        if [ -d "$folder/$kind" ]; then mount -t tmpfs own "$folder/$kind"; fi
    done
done
rm -rf etc/systemd
mkdir -p etc/systemd/system
# Without it, units have no devices of their own.
ln -s pts/ptmx dev/ptmx
for target in test sysinit basic shutdown; do
    printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $target > usr/lib/systemd/system/$target.target
done
echo 0123456789abcdef0123456789abcdef > etc/machine-id
export container=test
echo ready
exec unshare --cgroup sh -c 'mount -t cgroup2 cgroup /sys/fs/cgroup && exec /lib/systemd/systemd --system \
    --unit=test.target --show-status=0 --log-target=null --default-standard-output=null >/dev/null 2>&1'
"#;

pub struct Machine {
    /// What holds the namespaces.
    holder: Child,
    /// The first process inside.
    inner: u32,
    /// Its control group on the host.
    group: Option<PathBuf>,
    /// Where the root directory is mounted, for the machine only.
    _dir: TempDir,
}

impl Machine {
    /// `None`, and says so: this machine allows none.
    pub fn start() -> Option<Self> {
        Self::with(&format!("{ROOT}{PIVOT}{SLEEP}"), None)
    }

    pub fn with_systemd() -> Option<Self> {
        if !Path::new("/lib/systemd/systemd").exists() {
            skip("systemd is not installed");
            return None;
        }
        let unified = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
        let unified = unified.iter().find(|one| one.join("cgroup.procs").exists());
        let Some(unified) = unified else {
            eprintln!("SKIPPED: control groups (version 2) are not mounted");
            return None;
        };
        let name = format!("steward-test-{}-{}", std::process::id(), next());
        let machine = Self::with(
            &format!("{ROOT}{GROUP}{PIVOT}{SYSTEMD}"),
            Some(unified.join(name)),
        )?;
        wait_until("systemd runs", || {
            let mut command = machine.command("systemctl");
            command.args(["is-active", "test.target"]);
            command.output().unwrap().stdout == b"active\n"
        });
        Some(machine)
    }

    fn with(script: &str, group: Option<PathBuf>) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        // It ends with us, whatever becomes of us.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "unshare"])
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--uts",
                "--ipc",
            ])
            .args(["sh", "-c", script, "sh"])
            .arg(dir.path())
            .arg(env!("CARGO_BIN_EXE_steward"))
            .args(&group)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut holder = command.spawn().ok()?;
        let mut line = String::new();
        let mut stdout = BufReader::new(holder.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        if line != "ready\n" {
            let output = holder.wait_with_output().unwrap();
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            // Also in CI: what the kernel of a machine permits can not be installed.
            eprintln!(
                "SKIPPED: namespaces, an overlay and devices (as root, or in a container that may): {why}"
            );
            return None;
        }
        let outer = holder.id();
        let children = fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        let inner = children.unwrap().trim().parse().unwrap();
        Some(Self {
            holder,
            inner,
            group,
            _dir: dir,
        })
    }

    /// A program of the machine.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        // A folder of the host, which is not in the machine.
        command.env_remove("TMPDIR");
        command.args(["--target", &self.inner.to_string()]);
        command.args(["--mount", "--pid", "--uts", "--ipc", "--root", "--wd=/"]);
        // It would go on when what entered the machine is ended.
        let limit = DEADLINE.as_secs().to_string();
        command.args(["--", "timeout", "--signal=KILL", &limit, program]);
        command
    }

    /// Runs a script of the shell in the machine; gives what it prints.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let mut command = self.command("sh");
        let output = command.args(["-c", script]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {text}{errors}");
        text
    }

    /// Where a file of the machine is for us.
    pub fn file(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        let below = path.strip_prefix("/").unwrap_or(path);
        Path::new(&format!("/proc/{}/root", self.inner)).join(below)
    }

    #[track_caller]
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.file(path)).unwrap_or_else(|error| format!("<{error}>"))
    }

    /// Deploys a model (of one host, `host`) by the binary in the machine, from the beginning; gives what it reported of
    /// each resource.
    #[track_caller]
    pub fn deploy(&self, resources: &str) -> Vec<Value> {
        let (project, data) = (
            format!("/root/project-{0}", next()),
            format!("/root/data-{}", next()),
        );
        let model = format!(
            "import steward\nhost = std::Host(name=\"localhost\", os=std::linux)\n{resources}\n"
        );
        fs::create_dir(self.file(&project)).unwrap();
        fs::write(self.file(&project).join("main.cf"), model).unwrap();
        fs::write(self.file(&project).join("project.yml"), "name: test\n").unwrap();
        let mut command = self.command("/usr/local/bin/steward");
        command.args(["up", &project, "--once", "--format", "json"]);
        command.args(["--listen", "127.0.0.1:0", "--data", &data]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let all = events(&output);
        let ran: Vec<Value> = all
            .iter()
            .filter(|event| event["event"] == "resource")
            .cloned()
            .collect();
        assert!(!ran.is_empty(), "nothing ran: {all:#?}");
        ran
    }

    /// Deploys a model; gives `type status change` of each resource, sorted.
    #[track_caller]
    pub fn summary(&self, resources: &str) -> Vec<String> {
        let mut lines: Vec<String> = self.deploy(resources).iter().map(line).collect();
        lines.sort();
        lines
    }

    /// Deploys one resource and checks its status and change; gives its event.
    #[track_caller]
    pub fn check(&self, resource: &str, expected: &str) -> Value {
        let event = self.deploy(resource).swap_remove(0);
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let result = format!("{} {}", text("status"), text("change"));
        assert_eq!(result, expected, "{event:#}");
        event
    }
}

fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let id = text("resource");
    let kind = id.split('[').next().unwrap_or_default();
    let name = id.rsplit('=').next().unwrap_or_default();
    format!(
        "{kind} {} {} {}{}",
        name.trim_end_matches(']'),
        text("status"),
        text("change"),
        match text("message") {
            "" => String::new(),
            message => format!(": {message}"),
        }
    )
}

/// A number of its own for everything.
fn next() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        if let Some(group) = &self.group {
            wait_until("the control group is empty", || {
                remove_group(group);
                !group.exists()
            });
        }
    }
}

/// Removes a control group and those below it. The files in them can not be removed, and need not.
fn remove_group(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    for entry in below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_group(&entry.path());
    }
    let _ = fs::remove_dir(group);
}
