//! A limit for each exchange with a Python host: module code may hang in any way it likes.
//!
//! One thread a host. At the limit it ends the host with all that it started, so that both ends of the pipe close and
//! whoever waits on them goes on. It ends with its handle.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::process;

#[derive(Debug)]
pub(super) struct Watchdog(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Resting,
    Until(Instant),
    Expired,
    Ended,
}

impl Watchdog {
    /// Watches over the group of a child that leads one. The child must not be waited for while an exchange is watched.
    pub(super) fn start(leader: u32) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::Resting),
            changed: Condvar::new(),
        });
        let watched = Arc::clone(&shared);
        thread::spawn(move || watched.watch(leader));
        Self(shared)
    }

    /// Starts the time: the host has `limit` from now on.
    pub(super) fn arm(&self, limit: Duration) {
        self.0.set(State::Until(Instant::now() + limit));
    }

    /// The exchange is over. Gives whether the limit came before; afterwards the group is left alone.
    pub(super) fn disarm(&self) -> bool {
        let mut state = self.0.state();
        match *state {
            State::Expired => true,
            _ => {
                *state = State::Resting;
                false
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.set(State::Ended);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, state: State) {
        *self.state() = state;
        self.changed.notify_one();
    }

    fn watch(&self, leader: u32) {
        let mut state = self.state();
        loop {
            state = match *state {
                State::Resting => self.changed.wait(state),
                State::Until(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        // With the lock held: nobody takes the child's id from under us.
                        *state = State::Expired;
                        // Also what went to a group of its own.
                        process::kill_tree(leader);
                        process::kill_group_of(leader);
                        return;
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    waited
                        .map(|(state, _)| state)
                        .map_err(|error| PoisonError::new(error.into_inner().0))
                }
                State::Expired | State::Ended => return,
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
