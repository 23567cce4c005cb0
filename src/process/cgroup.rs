//! Control groups for compile workers, where this process may make some (version 2 of the kernel's interface, as root or
//! with `Delegate=` of systemd): all that is in one ends at once, whatever it has done to its sessions, groups and parents.
//!
//! A supervisor joins its group before it starts anything, so nothing below it is outside. It ends what is below it by itself
//! (`supervisor`); the group is for the day on which the supervisor is killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The variable that tells a supervisor which group to join.
pub const CGROUP: &str = "STEWARD_CGROUP";
/// Groups of ours are called by this, the server's process, and a number.
const PREFIX: &str = "steward-sandbox-";
/// A group is removed when its processes have ended; they have been killed, so that is soon.
const ATTEMPTS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A group for one supervisor and all below it. It is killed and removed when this is dropped.
#[derive(Debug)]
pub struct Cgroup(PathBuf);

impl Cgroup {
    /// `None`: groups cannot be made here.
    pub fn make() -> Option<Self> {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = own()?.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
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
    let Some(own) = own() else {
        return;
    };
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
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

    #[test]
    fn all_in_a_group_ends_with_it() {
        let Some(group) = Cgroup::make() else {
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
