//! New processes and threads: the supervisor is asked before each.
//!
//! The kernel counts processes of a user, not those of a sandbox, and not at all if that user is root. Somebody who looks now
//! and then does not hold code that starts processes without end either: there are thousands before the next look, and each of
//! them takes as much of the processors as the one that looks. So `fork`, `vfork` and `clone` are handed over as changes of
//! attributes are (`attributes`): whoever wants to start something sleeps until the supervisor has answered, so nothing
//! multiplies faster than it is counted. The call itself is then made by the kernel. What the filters of `syscalls` refuse
//! stays refused.
//!
//! Kernels before Linux 5.19 let a signal interrupt the wait for an answer, which no program expects of these calls. There the
//! supervisor only looks now and then.

/// The calls that the supervisor is asked about.
pub(super) const BROKERED: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    libc::SYS_clone,
];

/// Processes and threads in one sandbox at the same time. What was allowed and is not made yet is not seen when they are counted,
/// so for a moment there may be as many more as there are that start something: twice as many at most.
pub const MAX_TASKS: usize = 2048;

/// How many of something there may be.
#[derive(Debug)]
pub(super) struct Count {
    limit: usize,
    /// How many there were when they were counted, and how many were made since then: whatever ended, there are not more.
    at_most: usize,
}

impl Count {
    /// None yet, and not more than that.
    pub(super) fn of(limit: usize) -> Self {
        Self { limit, at_most: 0 }
    }

    /// Whether one more may be made. `count`: how many there are, which takes a while to find out.
    pub(super) fn may_add(&mut self, count: impl FnOnce() -> usize) -> bool {
        if self.at_most >= self.limit {
            self.at_most = count();
        }
        let may = self.at_most < self.limit;
        self.at_most += usize::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_are_started_and_they_are_counted_when_there_may_be_too_many() {
        let mut count = Count::of(MAX_TASKS);
        let never = || panic!("there cannot be too many");
        assert!((0..MAX_TASKS).all(|_| count.may_add(never)));
        assert!(!count.may_add(|| MAX_TASKS));
        assert!(!count.may_add(|| MAX_TASKS + 5));
        // Some have ended.
        assert!(count.may_add(|| MAX_TASKS - 2));
        assert!(count.may_add(never));
        assert!(!count.may_add(|| MAX_TASKS));
    }
}
