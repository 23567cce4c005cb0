//! How much memory there is, and whether the kernel has ended processes because there was none left.

use std::fs;
use std::path::Path;

/// Bytes that this process and all below it may have: what the machine has, or the control groups leave.
pub fn available_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = u128::from(info.totalram) * u128::from(info.mem_unit.max(1));
    let machine = u64::try_from(machine).unwrap_or(u64::MAX);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = own.lines().find_map(|line| line.strip_prefix("0::"));
    let root = Path::new("/sys/fs/cgroup");
    group
        .and_then(|group| group_bytes(root, group))
        .map_or(machine, |limit| limit.min(machine))
}

/// The lowest limit of a group and of those that it is in; `None`: there is none.
fn group_bytes(root: &Path, group: &str) -> Option<u64> {
    let own = root.join(group.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|path| path.starts_with(root));
    let limit = |path: &Path| {
        let text = fs::read_to_string(path.join("memory.max")).ok()?;
        text.trim().parse().ok()
    };
    groups.filter_map(limit).min()
}

/// How many processes of this machine the kernel has ended so far because memory was used up, that of the machine or that of a
/// control group; `None`: it does not say.
pub fn n_oom_kills() -> Option<u64> {
    of_vmstat(&fs::read_to_string("/proc/vmstat").ok()?)
}

fn of_vmstat(text: &str) -> Option<u64> {
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{available_bytes, group_bytes, of_vmstat};

    #[test]
    fn the_lowest_limit_of_the_groups_around_counts() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let limit = || group_bytes(folder.path(), "/a/b");
        assert_eq!(limit(), None);
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        std::fs::write(folder.path().join("a/memory.max"), "1073741824\n").unwrap();
        assert_eq!(limit(), Some(1 << 30));
        std::fs::write(inner.join("memory.max"), "2147483648\n").unwrap();
        assert_eq!(limit(), Some(1 << 30));
        assert!(available_bytes() > 1 << 20);
    }

    #[test]
    fn the_kernel_counts_what_it_ended_for_memory() {
        assert_eq!(of_vmstat("pgfault 7\noom_kill 3\nx 1\n"), Some(3));
        assert_eq!(of_vmstat("pgfault 7\n"), None);
    }
}
