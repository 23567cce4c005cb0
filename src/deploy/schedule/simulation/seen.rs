//! What happened in lives, so that a simulation in which nothing does fails.

use std::collections::BTreeMap;

/// How often what happened.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    pub(super) fn note(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (what, n) in &other.0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    pub(super) fn assert_all_happened(&self) {
        let all = [
            "run",
            "stale run",
            "run of an orphan",
            "recovery",
            "temporarily blocked",
            "event",
            "kill",
            "run cut off",
            "retry",
            "repair",
            "request",
            "version",
            "burst",
            "freed by a version",
            "freed with an event",
            "rest",
            "result lost",
            "outstanding event",
            "ran again",
            "task",
            "away",
            "several at once",
            "taken up",
            "no room",
        ];
        for what in all {
            assert!(self.0.contains_key(what), "there was no {what}: {self:?}");
        }
    }
}
