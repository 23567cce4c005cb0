//! Runs that were begun a moment ago.
//!
//! Ten thousand agents may each have a resource to deploy. Were all these runs handed out at once, the executor would have
//! them for half a second before it begins the last one, each would be written to the database as begun and once more as ended,
//! and what is more urgent would stand behind them. Were there a limit of runs at once, ten thousand devices that take a minute
//! each would take hours. So there is a limit of *fresh* runs: what takes longer than [`FRESH`] counts no more, and quick runs
//! are over by then.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::InFlight;
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

    /// How many runs may be begun now.
    pub(super) fn room(&mut self, in_flight: &HashMap<ActionId, InFlight>) -> usize {
        let is_fresh = |(begun, _): &(Instant, ActionId)| begun.elapsed() < FRESH;
        while self.0.front().is_some_and(|first| !is_fresh(first)) {
            self.0.pop_front();
        }
        if self.0.len() >= MAX_FRESH {
            self.0.retain(|(_, action)| in_flight.contains_key(action));
        }
        MAX_FRESH.saturating_sub(self.0.len())
    }

    /// The time until there is room, if there is none.
    pub(super) fn until_room(&self) -> Option<Duration> {
        let (first, _) = self.0.front().filter(|_| self.0.len() >= MAX_FRESH)?;
        Some(FRESH.saturating_sub(first.elapsed()))
    }
}
