//! Machines that could not be reached a moment ago.
//!
//! A machine that is switched off takes ten seconds to say nothing. If each resource of it waited so long by itself, one after
//! the other, a thousand of them would take hours, and each of their repairs, too. So when a connection ends before anything ran
//! on the other side, what comes next is refused at once, for a while, in the words of that attempt.

use std::io;
use std::time::{Duration, Instant};

/// How long a machine is left alone. What was refused meanwhile is tried again by itself, after pauses of its own.
const PAUSE: Duration = Duration::from_secs(30);

/// Whether one machine could be reached, the last time.
#[derive(Debug, Default)]
pub(super) struct Unreached(Option<(Instant, String)>);

impl Unreached {
    /// Notes that it could not be reached just now, and why.
    pub(super) fn note(&mut self, why: &str) {
        self.0 = Some((Instant::now(), why.to_owned()));
    }

    /// # Errors
    /// It could not be reached a moment ago.
    pub(super) fn check(&self) -> io::Result<()> {
        let Some((at, why)) = &self.0 else {
            return Ok(());
        };
        match PAUSE.checked_sub(at.elapsed()) {
            Some(left) => Err(io::Error::other(format!(
                "{why} (a moment ago; its machine is tried again in {} s)",
                left.as_secs() + 1
            ))),
            None => Ok(()),
        }
    }
}
