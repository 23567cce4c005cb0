//! What the server's processes make is for its user only. Executors are different: they make files of the host, with the modes
//! that the server's starter wanted.

use std::sync::OnceLock;

use rustix::fs::Mode;

/// The umask that this process was started with.
static STARTED_WITH: OnceLock<u32> = OnceLock::new();

/// Keeps what this process and its children make from being read by others. Call it first thing:
/// the umask is that of the whole process.
pub fn keep_private() {
    let before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
    // A second call must not take the first one's for the original.
    let _ = STARTED_WITH.set(before.bits());
}

/// The umask that this process was started with, for a child that is to have it; `None`: the child
/// has it anyway.
pub fn original_umask() -> Option<String> {
    STARTED_WITH.get().map(|umask| format!("{umask:03o}"))
}

/// Takes over the umask that [`original_umask`] gave to a parent.
pub fn restore_umask(umask: u32) {
    rustix::process::umask(Mode::from_bits_truncate(umask));
}
