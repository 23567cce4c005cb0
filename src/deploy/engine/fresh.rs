//! Runs that were begun a moment ago.
//!
//! Ten thousand agents may each have a resource to deploy. Were all these runs handed out at once, the executor would have
//! them for half a second before it begins the last one, each would be written to the database as begun and once more as ended,
//! and what is more urgent would stand behind them. Were there a limit of runs at once, ten thousand devices that take a minute
//! each would take hours. So there is a limit of *fresh* runs: what takes longer than [`FRESH`] counts no more, and quick runs
//! are over by then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::domain::ActionId;

/// A run is fresh for so long.
pub(super) const FRESH: Duration = Duration::from_millis(50);
/// Fresh runs at once: more than an executor works off between two turns of the engine.
const MAX_FRESH: usize = 512;

/// The runs that were begun last, in their order. Some have ended.
#[derive(Debug, Default)]
pub(super) struct Fresh(VecDeque<(Instant, ActionId)>);

impl Fresh {
    pub(super) fn note(&mut self, action: ActionId) {
        self.0.push_back((Instant::now(), action));
    }

    /// How many runs may be begun now. `goes_on`: whether a run has not ended.
    pub(super) fn room(&mut self, goes_on: impl Fn(&ActionId) -> bool) -> usize {
        let is_fresh = |(begun, _): &(Instant, ActionId)| begun.elapsed() < FRESH;
        while self.0.front().is_some_and(|first| !is_fresh(first)) {
            self.0.pop_front();
        }
        if self.0.len() >= MAX_FRESH {
            self.0.retain(|(_, action)| goes_on(action));
        }
        MAX_FRESH.saturating_sub(self.0.len())
    }

    /// The time until there is room, if there is none.
    pub(super) fn until_room(&self) -> Option<Duration> {
        let (first, _) = self.0.front().filter(|_| self.0.len() >= MAX_FRESH)?;
        Some(FRESH.saturating_sub(first.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Given: as many runs as may be fresh, which go on. Expected: there is no room before they are fresh no more, and then for as
    /// many again.
    #[test]
    fn runs_that_go_on_make_room_when_they_are_fresh_no_more() {
        let mut fresh = Fresh::default();
        assert_eq!(fresh.room(|_| true), MAX_FRESH);
        assert_eq!(fresh.until_room(), None);
        let began = Instant::now();
        for _ in 0..MAX_FRESH {
            fresh.note(ActionId::generate());
        }
        let room = fresh.room(|_| true);
        assert!(room == 0 || began.elapsed() >= FRESH);
        std::thread::sleep(FRESH);
        assert!(fresh.until_room().is_none_or(|until| until.is_zero()));
        assert_eq!(fresh.room(|_| true), MAX_FRESH);
    }

    /// Given: as many runs as may be fresh, all of which are over. Expected: there is room at once.
    #[test]
    fn runs_that_are_over_make_room_at_once() {
        let mut fresh = Fresh::default();
        for _ in 0..MAX_FRESH {
            fresh.note(ActionId::generate());
        }
        assert_eq!(fresh.room(|_| false), MAX_FRESH);
    }
}
