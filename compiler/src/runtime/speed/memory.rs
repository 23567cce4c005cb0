//! The memory of large models.
//!
//! The arenas of a model take gigabytes. With pages of 4 KiB the processor spends much of its time
//! on finding out where a page lies, because so many do not fit its tables. So the memory of a
//! model that grows large is marked for large pages (2 MiB), again whenever it has grown by a
//! quarter.
//!
//! A model may also grow without end, and faster in breadth than the other limits notice. One that takes most of what the
//! process may have is stopped, with the instances that it was constructing, before the machine has nothing left for others.

use crate::diagnostics::{Fail, runtime};
use crate::runtime::Machine;
use crate::span::Loc;

/// Bytes of an arena before it has to grow. So large an arena has pages of its own, which exist only when they are used, and
/// grows by moving them: nothing is copied, and no hole stays behind. It is above the largest size (32 MiB) that glibc takes
/// from what was freed before. With what glibc adds it is a multiple of large pages (2 MiB), and so is its double: they are
/// moved as they are.
pub(in crate::runtime) const ARENA_BYTES: usize = (34 << 20) - 128;

/// Instances of a model whose memory is looked after for the first time. Smaller ones are done
/// before it would pay.
const FIRST_LOOK: usize = 50_000;

/// When the memory of the model is looked after again.
pub(in crate::runtime) struct MemoryWatch {
    /// With so many instances.
    n_next_look: usize,
}

impl Default for MemoryWatch {
    fn default() -> MemoryWatch {
        MemoryWatch {
            n_next_look: FIRST_LOOK,
        }
    }
}

/// An empty vector that may become large; see [`ARENA_BYTES`].
pub(in crate::runtime) fn arena<T>() -> Vec<T> {
    Vec::with_capacity(ARENA_BYTES / size_of::<T>())
}

impl Machine<'_> {
    /// To be called now and then while a model grows: marks its memory if it has grown enough.
    ///
    /// # Errors
    /// It has grown too much.
    #[inline]
    pub(in crate::runtime) fn look_after_memory(&mut self) -> Result<(), Fail> {
        if self.state.instances.len() >= self.memory.n_next_look {
            self.prefer_large_pages();
            return self.check_memory();
        }
        Ok(())
    }

    #[cold]
    fn check_memory(&self) -> Result<(), Fail> {
        let most = match self.options.limits.memory_bytes {
            Some(bytes) => Some(bytes),
            None => allowed_bytes().map(|bytes| bytes / 4 * 3),
        };
        let (Some(taken), Some(most)) = (resident_bytes(), most) else {
            return Ok(());
        };
        if taken <= most {
            return Ok(());
        }
        let chain = self.state.construct_chain();
        let message = format!(
            "the model takes more than {} MiB of memory: {chain}",
            most >> 20
        );
        Err(runtime(Loc::NONE, message).help("look for what is constructed again and again"))
    }

    #[cold]
    fn prefer_large_pages(&mut self) {
        self.memory.n_next_look = self.state.instances.len() + self.state.instances.len() / 4;
        self.state.prefer_large_pages();
        self.scheduler.prefer_large_pages();
    }
}

/// The memory of this process; `None`: the system does not say.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let n_pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(n_pages * rustix::param::page_size() as u64)
}

/// What this process may have: as much as the machine or its container has, or less by a limit of its own.
fn allowed_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.split_whitespace().next()?.parse().ok()?;
    let container = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let container = container.and_then(|text| text.trim().parse().ok());
    let own = rustix::process::getrlimit(rustix::process::Resource::As).current;
    [container, own]
        .into_iter()
        .flatten()
        .chain([kib << 10])
        .min()
}
