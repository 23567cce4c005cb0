//! File handles of a server.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many as a server has a use for: 4096 connections, and as many again for all else. Not more, since children inherit the
/// limit and some programs (old package managers among them) go through all handles that they may have.
const WANTED: u64 = 16_384;

/// Raises the soft limit of file handles as far as the hard limit lets us, which is usually 1024 and made for programs that
/// use `select`.
pub(super) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            maximum,
        };
        // Without it there are fewer connections at once.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
