//! How much memory there is, and whether the kernel has ended processes because there was none left.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How often the kernel had ended a process for memory, at the last two looks ([`look`]).
static LOOKS: Mutex<[Option<u64>; 2]> = Mutex::new([None; 2]);

/// The file by which the kernel is asked to spare a process when memory is used up, or to end it first.
const SCORE: &str = "/proc/self/oom_score_adj";

/// Bytes that this process and all below it may have: what the machine has, or the control groups leave.
pub fn available_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = u128::from(info.totalram) * u128::from(info.mem_unit.max(1));
    let machine = u64::try_from(machine).unwrap_or(u64::MAX);
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limits = groups(&own).filter_map(|(root, file, group)| group_bytes(root, file, group));
    limits.fold(machine, u64::min)
}

/// Where the limit of memory is: the root of a hierarchy, the file of a group, and the group of this process. The second version
/// of the kernel's interface has one hierarchy, the first, which older machines give their containers, one for memory.
fn groups(own: &str) -> impl Iterator<Item = (&'static Path, &'static str, &str)> {
    own.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        match line.split_once(':')? {
            ("", group) => Some((Path::new("/sys/fs/cgroup"), "memory.max", group)),
            (names, group) if names.split(',').any(|name| name == "memory") => {
                let root = Path::new("/sys/fs/cgroup/memory");
                Some((root, "memory.limit_in_bytes", group))
            }
            _ => None,
        }
    })
}

/// The lowest limit of a group and of those that it is in; `None`: there is none.
fn group_bytes(root: &Path, file: &str, group: &str) -> Option<u64> {
    let own = root.join(group.trim_start_matches('/'));
    let groups = own.ancestors().take_while(|path| path.starts_with(root));
    let limit = |path: &Path| {
        let text = fs::read_to_string(path.join(file)).ok()?;
        text.trim().parse().ok()
    };
    groups.filter_map(limit).min()
}

/// How many processes of this machine the kernel has ended so far because memory was used up, that of the machine or that of a
/// control group; `None`: it does not say.
pub fn n_oom_kills() -> Option<u64> {
    of_vmstat(&fs::read_to_string("/proc/vmstat").ok()?)
}

/// Takes note of how often the kernel has ended a process until now. Who asks [`was_used_up`] does it every few seconds: to read
/// the counter before each task would cost more than the task.
pub fn look() {
    let mut looks = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    *looks = [looks[1], n_oom_kills()];
}

/// Whether the kernel has ended a process because memory was used up, since the look before the last one.
pub fn was_used_up() -> bool {
    let looks = LOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    has_risen(*looks, n_oom_kills())
}

fn has_risen([earlier, last]: [Option<u64>; 2], now: Option<u64>) -> bool {
    earlier
        .or(last)
        .zip(now)
        .is_some_and(|(before, now)| now > before)
}

/// Gives up what systemd has asked of the kernel for the server (`OOMScoreAdjust=`): where memory is used up, a process that
/// runs code of others, and what it starts, shall not be spared. What is asked the other way stays.
pub fn claim_nothing() {
    let score = fs::read_to_string(SCORE).ok();
    let is_spared = score.is_some_and(|score| score.trim().starts_with('-'));
    if is_spared && let Err(error) = fs::write(SCORE, "0") {
        tracing::warn!(%error, "handlers are spared when memory is used up, as the server is");
    }
}

fn of_vmstat(text: &str) -> Option<u64> {
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{available_bytes, group_bytes, groups, has_risen, of_vmstat};

    #[test]
    fn the_lowest_limit_of_the_groups_around_counts() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let limit = || group_bytes(folder.path(), "memory.max", "/a/b");
        assert_eq!(limit(), None);
        std::fs::write(inner.join("memory.max"), "max\n").unwrap();
        std::fs::write(folder.path().join("a/memory.max"), "1073741824\n").unwrap();
        assert_eq!(limit(), Some(1 << 30));
        std::fs::write(inner.join("memory.max"), "2147483648\n").unwrap();
        assert_eq!(limit(), Some(1 << 30));
        assert!(available_bytes() > 1 << 20);
    }

    /// Given: the groups of a process by both versions of the kernel's interface. Expected: those that hold its memory are found.
    #[test]
    fn the_groups_that_limit_memory_are_found() {
        let own = "5:cpu,cpuacct:/x\n4:memory:/docker/1a2b\n1:name=systemd:/y\n0::/z:1\n";
        let found: Vec<_> = groups(own).map(|(_, file, group)| (file, group)).collect();
        let expected = [
            ("memory.limit_in_bytes", "/docker/1a2b"),
            ("memory.max", "/z:1"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn the_kernel_counts_what_it_ended_for_memory() {
        assert_eq!(of_vmstat("pgfault 7\noom_kill 3\nx 1\n"), Some(3));
        assert_eq!(of_vmstat("pgfault 7\n"), None);
    }

    /// Given: the counter at the last two looks and now. Expected: what it has counted since the earlier one is noticed, as the end
    /// of a process may be seen only after the next look.
    #[test]
    fn memory_was_used_up_if_the_counter_has_risen_since_the_look_before_the_last() {
        assert!(!has_risen([None, None], Some(1)));
        assert!(!has_risen([None, Some(1)], Some(1)));
        assert!(has_risen([None, Some(1)], Some(2)));
        assert!(has_risen([Some(1), Some(2)], Some(2)));
        assert!(!has_risen([Some(2), Some(2)], Some(2)));
        assert!(!has_risen([Some(2), Some(2)], None));
    }
}
