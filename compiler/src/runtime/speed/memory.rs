//! The memory of large models.
//!
//! The arenas of a model take gigabytes. With pages of 4 KiB the processor spends much of its time
//! on finding out where a page lies, because so many do not fit its tables. So the memory of a
//! model that grows large is marked for large pages (2 MiB), again whenever it has grown by a
//! quarter.

use crate::runtime::Machine;

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
    #[inline]
    pub(in crate::runtime) fn look_after_memory(&mut self) {
        if self.state.instances.len() >= self.memory.n_next_look {
            self.prefer_large_pages();
        }
    }

    #[cold]
    fn prefer_large_pages(&mut self) {
        self.memory.n_next_look = self.state.instances.len() + self.state.instances.len() / 4;
        self.state.prefer_large_pages();
        self.scheduler.prefer_large_pages();
    }
}
