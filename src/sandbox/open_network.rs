//! Whether anything that is sandboxed may reach any port of this machine.
//!
//! A server without a token has to know who is at the other end of a connection ([`crate::process::peer_of`]), and to find that
//! out takes tens of milliseconds: all of `/proc` is read, and the table of all connections. What has no network, and what the
//! kernel holds to the port of a proxy, cannot be at the other end, and most of the time nothing else runs. So what runs with
//! [`Network::Open`](super::Network::Open) is counted.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

static N_OPEN: AtomicUsize = AtomicUsize::new(0);
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// Held from before a sandbox with an open network is entered until all that was in it has ended, and its connections with it.
#[derive(Debug)]
pub struct OpenNetwork(());

impl OpenNetwork {
    pub fn begin() -> Self {
        N_OPEN.fetch_add(1, SeqCst);
        Self(())
    }

    /// Takes note that its supervisor was killed, so that something in it may live on for as long as it likes.
    pub fn has_left_something(&self) {
        HAS_LEFT.store(true, SeqCst);
    }
}

impl Drop for OpenNetwork {
    fn drop(&mut self) {
        N_OPEN.fetch_sub(1, SeqCst);
    }
}

/// Whether something in a sandbox of this process may have a connection to any port. A connection of one that has ended is
/// closed.
pub fn may_connect_anywhere() -> bool {
    N_OPEN.load(SeqCst) > 0 || HAS_LEFT.load(SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests may hold some meanwhile, so that there are none is not to be seen here.
    #[test]
    fn what_runs_with_an_open_network_is_counted() {
        let one = OpenNetwork::begin();
        assert!(may_connect_anywhere());
        let two = OpenNetwork::begin();
        drop(one);
        assert!(may_connect_anywhere());
        drop(two);
    }
}
