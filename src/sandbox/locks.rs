//! Locks of parts of files: the supervisor is asked before each change of them.
//!
//! The kernel keeps a record for each part of a file that is locked, in memory that is no process's, and one process may lock
//! as many parts as a file has bytes: nothing limits them (`RLIMIT_LOCKS` has meant nothing for twenty years). So the requests
//! of `fcntl` that lock or unlock are handed over as starts of processes are (`starts`), and counted in the same way. Such a
//! lock belongs to a process, and is in the kernel's list of all locks. Those that belong to an open file instead are refused:
//! the file may be on its way in a socket, where nobody sees it. Locks of whole files (`flock`) are as many as open files.

/// `F_SETLK`, `F_SETLKW`.
pub(super) const REQUESTS: [libc::c_int; 2] = [libc::F_SETLK, libc::F_SETLKW];

/// Records of locked parts in one sandbox, some two MiB. A request splits a record in three at most, and what was allowed is not
/// seen before the kernel has done it: for a moment there may be three times as many.
pub(super) const MAX_LOCKS: usize = 8192;
