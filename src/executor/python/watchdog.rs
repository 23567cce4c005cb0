//! A limit for each exchange with a Python host: module code may hang in any way it likes, and a host may be stopped.
//!
//! One thread watches all hosts of this process. At the limit it ends a host with all that it started, so that both ends of
//! the connection close and whoever waits on them goes on. A host that somebody has stopped (SIGSTOP) would not notice any
//! limit of its own, and its limit may be an hour away; so the thread looks at the processes every second, and ends one that
//! stays stopped.
//!
//! Before a host is ended at its limit, it is asked where it is: a signal that nobody else uses has the interpreter print its
//! stack, even while native code runs (`python/steward_host/host.py`). That goes where all goes that handlers print, and so into
//! the log of the run.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::process;

/// How often processes are looked at while they work.
const LOOK: Duration = Duration::from_secs(1);
/// One that is stopped for this long counts as hanging. A person who looks at a process with a debugger stops it, too; but
/// nobody may hold up a deployment without a word.
const STOPPED: Duration = Duration::from_secs(5);

/// Has a host print where it is. Linux has never sent it.
const WHERE: Signal = Signal::STKFLT;
/// A host has this long to print where it is.
const LAST_WORD: Duration = Duration::from_millis(200);

/// The limit of one host's exchanges.
#[derive(Debug)]
pub(super) struct Watchdog(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    /// The process, which leads a group. It must not be waited for while an exchange is watched.
    leader: u32,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Resting,
    Until {
        deadline: Instant,
        /// Since when it was seen stopped.
        stopped: Option<Instant>,
        /// The limit is over, and it was asked where it is.
        is_over: bool,
    },
    Ended(Verdict),
}

/// Why a host was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It took longer than its limit.
    Expired,
    /// Somebody had stopped it.
    Stopped,
}

impl Watchdog {
    /// Watches over a process that leads a group.
    pub(super) fn new(leader: u32) -> Self {
        Self(Arc::new(Watched {
            leader,
            state: Mutex::new(State::Resting),
        }))
    }

    /// Starts the time: the host has `limit` from now on.
    pub(super) fn arm(&self, limit: Duration) {
        *self.0.state() = State::Until {
            deadline: Instant::now() + limit,
            stopped: None,
            is_over: false,
        };
        Watch::the().add(&self.0);
    }

    /// The exchange is over. Gives why the host was ended, if it was; afterwards the group is left alone.
    pub(super) fn disarm(&self) -> Option<Verdict> {
        let mut state = self.0.state();
        match *state {
            State::Ended(verdict) => Some(verdict),
            // It answers at last, or knows no such signal and has ended by it.
            State::Until { is_over: true, .. } => {
                *state = State::Ended(Verdict::Expired);
                self.0.end();
                Some(Verdict::Expired)
            }
            _ => {
                *state = State::Resting;
                None
            }
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.disarm();
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process if it is time. Gives when to look again; `None`: not any more.
    fn look(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        let State::Until {
            deadline,
            stopped,
            is_over,
        } = &mut *state
        else {
            return None;
        };
        let verdict = if now >= *deadline {
            if !*is_over {
                *is_over = true;
                *deadline = now + LAST_WORD;
                process::signal(self.leader, WHERE);
                return Some(*deadline);
            }
            Verdict::Expired
        } else if *is_over {
            return Some(*deadline);
        } else if !process::is_stopped(self.leader) {
            *stopped = None;
            return Some((now + LOOK).min(*deadline));
        } else if now - *stopped.get_or_insert(now) < STOPPED {
            return Some((now + LOOK).min(*deadline));
        } else {
            Verdict::Stopped
        };
        *state = State::Ended(verdict);
        // With the lock held: nobody takes the child's id from under us.
        self.end();
        None
    }

    /// Ends the process and what it started, also what went to a group of its own.
    fn end(&self) {
        process::kill_tree(self.leader);
        process::kill_group_of(self.leader);
    }
}

/// All exchanges that go on, and the thread that looks at them.
struct Watch {
    armed: Mutex<Vec<Arc<Watched>>>,
    changed: Condvar,
}

impl Watch {
    fn the() -> &'static Self {
        static WATCH: OnceLock<Watch> = OnceLock::new();
        static THREAD: OnceLock<()> = OnceLock::new();
        let watch = WATCH.get_or_init(|| Self {
            armed: Mutex::default(),
            changed: Condvar::new(),
        });
        // It ends with the process.
        THREAD.get_or_init(|| drop(thread::spawn(|| watch.run())));
        watch
    }

    fn armed(&self) -> MutexGuard<'_, Vec<Arc<Watched>>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, watched: &Arc<Watched>) {
        let mut armed = self.armed();
        if !armed.iter().any(|known| Arc::ptr_eq(known, watched)) {
            armed.push(Arc::clone(watched));
        }
        // It may sleep because there is nothing to look at. Otherwise it looks soon enough.
        if armed.len() == 1 {
            self.changed.notify_one();
        }
    }

    fn run(&self) {
        let mut armed = self.armed();
        loop {
            if armed.is_empty() {
                armed = self
                    .changed
                    .wait(armed)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let all = armed.clone();
            drop(armed);
            let now = Instant::now();
            let next = all.iter().filter_map(|watched| watched.look(now)).min();
            let pause = next.map_or(Duration::ZERO, |next| {
                next.saturating_duration_since(Instant::now())
            });
            armed = self.armed();
            // One that rests is added again with its next exchange.
            armed.retain(|watched| matches!(*watched.state(), State::Until { .. }));
            if !armed.is_empty() && !pause.is_zero() {
                // Who comes meanwhile is looked at after `LOOK` at the latest; no limit is that short.
                let waited = self.changed.wait_timeout(armed, pause.min(LOOK));
                armed = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
