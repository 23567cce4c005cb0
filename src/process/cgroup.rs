//! Control groups for compile workers, where this process may make some (version 2 of the kernel's interface, as root or
//! with `Delegate=` of systemd): all that is in one ends at once, whatever it has done to its sessions, groups and parents.
//!
//! A supervisor joins its group before it starts anything, so nothing below it is outside. It ends what is below it by itself
//! (`supervisor`); the group is for the day on which the supervisor is killed.
//!
//! Where systemd has given the group of the server away (`Delegate=memory pids`), the kernel also holds each group to its
//! memory and number of processes, whatever of the kernel's own memory it is ([`prepare`]). The supervisor goes on looking: it
//! can say why something was ended. So the kernel's limit is a little above its limit. For groups below one to be held, no
//! process may be in that one itself (cgroups(7), "no internal processes"): the server goes into a group of its own beside those.
//!
//! ```text
//! steward.service               memory and processes of each group below it are held
//! ├─ steward-server             the server, executors
//! ├─ steward-sandbox-4711-0     a supervisor, a compile worker and what it starts: memory.max, memory.swap.max, pids.max
//! └─ steward-sandbox-4711-1
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sandbox::MAX_TASKS;

/// The variable that tells a supervisor which group to join.
pub const CGROUP: &str = "STEWARD_CGROUP";
/// Groups of ours are called by this, the server's process, and a number.
const PREFIX: &str = "steward-sandbox-";
/// The group of the server itself, where groups beside it are held to limits.
const SERVER: &str = "steward-server";
/// What systemd marks a group with that it has given away; the second for root only.
const DELEGATED: [&str; 2] = ["user.delegate", "trusted.delegate"];
/// By how much the kernel's limit of memory is above that of the supervisor, which counts less.
const MORE_BYTES: u64 = 64 << 20;
/// Processes and threads of ours in a group.
const OWN_TASKS: usize = 16;
/// A group is removed when its processes have ended; they have been killed, so that is soon.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

static NUMBER: AtomicU64 = AtomicU64::new(0);
/// The group whose groups are held to limits.
static HOME: OnceLock<PathBuf> = OnceLock::new();

/// Makes it so that groups can be held to limits, if the group of this process was given to it. To be called before anything
/// else is started: what has been is in the way. Whether it is so.
///
/// # Errors
/// The group was given away, and still it does not work; the text says what was refused.
pub fn prepare() -> Result<bool, String> {
    let Some(own) = own() else {
        return Ok(false);
    };
    let home = match own.ends_with(SERVER) {
        true => own.parent().map(Path::to_owned),
        false => is_delegated(&own).then_some(own),
    };
    let Some(home) = home else {
        return Ok(false);
    };
    prepare_in(&home)?;
    Ok(HOME.set(home).is_ok())
}

/// Whether systemd has given this group to who runs in it.
fn is_delegated(group: &Path) -> bool {
    DELEGATED.into_iter().any(|name| {
        let mut value = [0; 8];
        let n_bytes = rustix::fs::getxattr(group, name, &mut value);
        n_bytes.is_ok_and(|n_bytes| value.get(..n_bytes) == Some(b"1"))
    })
}

/// Goes into a group of its own below this one, then has the kernel hold those beside it.
fn prepare_in(home: &Path) -> Result<(), String> {
    let failed = |what: &'static str| move |error: io::Error| format!("{what}: {error}");
    let controllers = fs::read_to_string(home.join("cgroup.controllers"));
    let controllers = controllers.map_err(failed("cgroup.controllers"))?;
    for needed in ["memory", "pids"] {
        if !controllers.split_whitespace().any(|name| name == needed) {
            return Err(format!("the controller `{needed}` is not delegated"));
        }
    }
    let server = home.join(SERVER);
    match fs::create_dir(&server) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed(SERVER)(error));
        }
        _ => join(&server).map_err(failed("cgroup.procs"))?,
    }
    let held = fs::write(home.join("cgroup.subtree_control"), "+memory +pids");
    held.map_err(failed("cgroup.subtree_control"))
}

/// Has the kernel hold a group to this memory, and to as many processes as there may be in a sandbox.
fn limit(group: &Path, memory_bytes: u64) -> io::Result<()> {
    let most = memory_bytes
        .saturating_add(memory_bytes / 8)
        .saturating_add(MORE_BYTES);
    fs::write(group.join("memory.max"), most.to_string())?;
    let tasks = MAX_TASKS + OWN_TASKS;
    fs::write(group.join("pids.max"), tasks.to_string())?;
    // A kernel without swap has no such file.
    let _ = fs::write(group.join("memory.swap.max"), "0");
    Ok(())
}

/// A group for one supervisor and all below it. It is killed and removed when this is dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// `memory_bytes`: of all in it together, as the supervisor counts it. `None`: groups cannot be made here.
    pub fn make(memory_bytes: u64) -> Option<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = home()?.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        if HOME.get().is_some()
            && let Err(error) = limit(&group.0, memory_bytes)
        {
            tracing::warn!(%error, "a control group cannot be held to limits; the supervisor holds what is in it");
        }
        // Kernels before 5.14 cannot kill a group.
        let can_kill = group.0.join("cgroup.kill").exists();
        can_kill.then_some(group)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let path = std::mem::take(&mut self.0);
        std::thread::spawn(move || kill(&path));
    }
}

/// Ends all in a group and removes it.
fn kill(group: &Path) {
    let _ = fs::write(group.join("cgroup.kill"), "1");
    for _ in 0..ATTEMPTS {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            _ => return,
        }
    }
}

/// Moves this process into a group.
///
/// # Errors
/// The group is gone, or closed to us.
pub fn join(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), "0")
}

/// Removes the groups of servers that were killed, with what is in them.
pub fn gc_groups() {
    let Some(home) = home() else {
        return;
    };
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let server = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        let Some(server) = server.and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        let is_gone = !Path::new(&format!("/proc/{server}")).exists();
        if is_gone || server == std::process::id() {
            kill(&entry.path());
        }
    }
}

/// Where groups are made.
fn home() -> Option<PathBuf> {
    HOME.get().cloned().or_else(own)
}

/// The group of this process, where version 2 is mounted.
fn own() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let is_it = behind.split(' ').next() == Some("cgroup2");
        // The fourth field is what of the hierarchy is mounted, the fifth where.
        let mut fields = before.split(' ').skip(3);
        let (root, place) = (fields.next()?, fields.next()?);
        (is_it && root == "/").then(|| PathBuf::from(place))
    })?;
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(group))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// The files of a group, in a folder: the kernel's own are not there everywhere.
    #[test]
    fn a_group_that_was_given_away_holds_those_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let read = |name: &str| fs::read_to_string(home.join(name)).unwrap_or_default();
        assert!(!is_delegated(home));
        assert!(prepare_in(home).unwrap_err().contains("cgroup.controllers"));
        fs::write(home.join("cgroup.controllers"), "cpu pids\n").unwrap();
        let missing = prepare_in(home).unwrap_err();
        assert!(missing.contains("`memory`"), "{missing}");
        assert!(!home.join(SERVER).exists(), "nothing was changed");

        fs::write(home.join("cgroup.controllers"), "cpu io memory pids\n").unwrap();
        for _ in 0..2 {
            prepare_in(home).unwrap();
            assert_eq!(read("steward-server/cgroup.procs"), "0");
            assert_eq!(read("cgroup.subtree_control"), "+memory +pids");
        }

        limit(home, 8 << 30).unwrap();
        assert_eq!(read("memory.max"), ((9_u64 << 30) + (64 << 20)).to_string());
        assert_eq!(read("memory.swap.max"), "0");
        assert_eq!(read("pids.max"), "2064");
        limit(home, u64::MAX).unwrap();
        assert_eq!(read("memory.max"), u64::MAX.to_string());
        assert!(limit(&home.join("gone"), 1).is_err());
    }

    #[test]
    fn all_in_a_group_ends_with_it() {
        let Some(group) = Cgroup::make(1 << 30) else {
            // On CI it may be so, too: it is the kernel's and its container's to allow.
            return;
        };
        let path = group.path().to_owned();
        let script = format!(
            "echo 0 > {}/cgroup.procs; setsid sleep 600 & exec sleep 600",
            path.display()
        );
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let n_processes =
            || fs::read_to_string(path.join("cgroup.procs")).map(|text| text.lines().count());
        for _ in 0..ATTEMPTS {
            if n_processes().is_ok_and(|n_processes| n_processes == 2) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        assert_eq!(n_processes().unwrap(), 2);
        drop(group);
        assert!(!shell.wait().unwrap().success());
        for _ in 0..ATTEMPTS {
            if !path.exists() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        panic!("{} is still there", path.display());
    }
}
