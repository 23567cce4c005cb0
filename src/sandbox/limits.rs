//! Limits of one process, and root's powers that a sandbox has no use for.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Files that one process can have open.
const MAX_OPEN_FILES: u64 = 1024;
/// Processes and threads of the user, all together, from which a sandbox starts no more: the kernel counts no other way.
/// Far above what one sandbox can have, which its supervisor counts: a server's own hosts, and another compile that starts
/// processes without end, must not keep this one from starting its few.
const MAX_PROCESSES: u64 = 16384;

/// Whether limits can be set at all.
pub(super) fn are_supported() -> bool {
    setrlimit(Resource::Core, rustix::process::getrlimit(Resource::Core)).is_ok()
}

/// Asks the kernel, where it runs out of memory, to end processes like this one before any other: what gets past the limits
/// must not cost the server, or the database. The children inherit it. Whoever may not ask is left as others are.
pub(super) fn end_first() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
}

/// Whether all are in force.
pub(super) fn apply(memory_bytes: Option<u64>, file_bytes: u64) -> bool {
    let limits = [
        (Resource::Fsize, file_bytes),
        (Resource::Nofile, MAX_OPEN_FILES),
        (Resource::Nproc, MAX_PROCESSES),
        // A core would hold what the process had read.
        (Resource::Core, 0),
    ];
    let memory = memory_bytes.map(|bytes| (Resource::As, bytes));
    let applied: Vec<bool> = limits
        .into_iter()
        .chain(memory)
        .map(|(resource, most)| lower(resource, most).is_ok())
        .collect();
    applied.into_iter().all(|is_applied| is_applied)
}

/// Limits are lowered only.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let known = rustix::process::getrlimit(resource);
    let least = |limit: Option<u64>| Some(limit.map_or(most, |limit| limit.min(most)));
    let limits = Rlimit {
        current: least(known.current),
        maximum: least(known.maximum),
    };
    Ok(setrlimit(resource, limits)?)
}

/// Of root's powers those over files stay: what is hidden is so by Landlock, and attributes are the supervisor's to change.
/// The others do not come back with another program, since Landlock and seccomp forbid new privileges.
pub(super) fn drop_capabilities() -> io::Result<()> {
    let kept = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID;
    let mut sets = capabilities(None)?;
    // Who has none to drop may not be allowed to ask.
    if (sets.effective | sets.permitted | sets.inheritable) & !kept == CapabilitySet::empty() {
        return Ok(());
    }
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable &= kept;
    Ok(set_capabilities(None, sets)?)
}
