//! How long an environment waits before it tries again what failed.

use std::time::Duration;

use super::run::Verdict;

/// What failed in a row and is tried again by itself.
#[derive(Debug, Default)]
pub(super) struct Failures {
    pub(super) n_fetches: u32,
    /// Compiles without a verdict. A good fetch before each of them says nothing of the next one.
    n_compiles: u32,
}

/// Of two to this power seconds is the longest pause: some four minutes.
const MAX_PAUSE_POWER: u32 = 8;

impl Failures {
    pub(super) fn compiled(&mut self, verdict: Verdict) {
        self.n_compiles = match verdict {
            Verdict::Aborted => self.n_compiles + 1,
            _ => 0,
        };
    }

    /// Until the next attempt; each failure doubles it. `None`: nothing has failed.
    pub(super) fn pause(&self) -> Option<Duration> {
        let n_failures = self.n_fetches.max(self.n_compiles);
        (n_failures > 0).then(|| Duration::from_secs(1 << n_failures.min(MAX_PAUSE_POWER)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of these compiles has a good fetch before it.
    #[test]
    fn pauses_get_longer_while_compiles_have_no_verdict() {
        let mut failures = Failures::default();
        assert_eq!(failures.pause(), None);
        let pauses: Vec<u64> = (0..10)
            .map(|_| {
                failures.n_fetches = 0;
                failures.compiled(Verdict::Aborted);
                failures.pause().unwrap().as_secs()
            })
            .collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 256, 256]);
        failures.n_fetches = 3;
        failures.compiled(Verdict::Rejected);
        assert_eq!(failures.pause(), Some(Duration::from_secs(8)));
    }
}
