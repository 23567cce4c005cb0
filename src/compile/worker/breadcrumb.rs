//! The memory that a compile worker leaves word in of where it is ([`steward_compiler::Breadcrumb`]), and that the server
//! reads when the worker was killed.
//!
//! The server makes it before it starts the worker, which inherits it by number (in a sandbox nobody can make one): a file in
//! memory. Its first page, which the worker maps, begins with the number of the place; the table of the model's places lies
//! behind that page. The server reads it as a file, so whatever the worker does to it is at worst a place that is wrong.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use rustix::fs::MemfdFlags;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags, mmap};
use steward_compiler::{Breadcrumb, MAX_TABLE_BYTES, place_of};

/// The variable with the number of the file in the worker.
pub(super) const BREADCRUMB: &str = "STEWARD_BREADCRUMB";
const PAGE_BYTES: usize = 4096;
const TABLE_AT: u64 = PAGE_BYTES as u64;

/// The place at which a compile was, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::compile) struct Place {
    pub(in crate::compile) file: String,
    pub(in crate::compile) line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The server's end.
#[derive(Debug)]
pub(super) struct Trail(File);

impl Trail {
    pub(super) fn make() -> io::Result<Self> {
        let file = File::from(rustix::fs::memfd_create("breadcrumb", MemfdFlags::CLOEXEC)?);
        file.set_len(TABLE_AT)?;
        Ok(Self(file))
    }

    pub(super) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Where the worker was when it ended; `None`: at no place of a model.
    pub(super) fn place(&self) -> Option<Place> {
        let mut number = [0; 4];
        self.0.read_exact_at(&mut number, 0).ok()?;
        let length = self.0.metadata().ok()?.len().checked_sub(TABLE_AT)?;
        let length = usize::try_from(length).ok()?;
        if length > MAX_TABLE_BYTES {
            return None;
        }
        let mut table = vec![0; length];
        self.0.read_exact_at(&mut table, TABLE_AT).ok()?;
        let (file, line) = place_of(u32::from_le_bytes(number), &table)?;
        Some(Place { file, line })
    }
}

/// The worker's end; `None`: the server gave it none.
#[expect(
    unsafe_code,
    reason = "a file that is inherited is known by its number only, and memory that is shared has no safe form"
)]
pub(super) fn inherited() -> Option<Arc<Breadcrumb>> {
    let number: i32 = std::env::var(BREADCRUMB).ok()?.parse().ok()?;
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
    if number < 3 || !link.to_string_lossy().starts_with("/memfd:breadcrumb") {
        return None;
    }
    // SAFETY: the number is that of an open file, which the server left to this process for this purpose; it is taken once,
    // by the main function of the worker.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    fcntl_setfd(&file, FdFlags::CLOEXEC).ok()?;
    // SAFETY: the file is as long as the page, and nobody makes it shorter than that. The mapping is never undone, so the
    // reference to its first four bytes, which are aligned, lives as long as the process. Others only read them.
    let at: &'static AtomicU32 = unsafe {
        let page = mmap(
            std::ptr::null_mut(),
            PAGE_BYTES,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        );
        AtomicU32::from_ptr(page.ok()?.cast())
    };
    let write = move |table: &[u8]| {
        // Without a table, or with a half one, the place is not named.
        let _ = file.set_len(TABLE_AT);
        let _ = file.write_all_at(table, TABLE_AT);
    };
    Some(Arc::new(Breadcrumb::new(at, write)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_that_nobody_wrote_or_that_was_cut_has_no_place() {
        let trail = Trail::make().unwrap();
        assert_eq!(trail.place(), None);
        trail.0.write_all_at(&[9; 4], 0).unwrap();
        assert_eq!(trail.place(), None);
        trail.0.write_all_at(&[0xff; 64], TABLE_AT).unwrap();
        assert_eq!(trail.place(), None);
        trail.0.set_len(2).unwrap();
        assert_eq!(trail.place(), None);
    }
}
