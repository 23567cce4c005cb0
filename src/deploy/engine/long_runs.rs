//! Runs that take long.
//!
//! A handler may take an hour for a run (`deploy_timeout`), and some need it. One that hangs looks the same, and nobody but the
//! author of a handler knows which of the two it is. So runs that have not ended after a while are reported, in the log of
//! the server and in the terminal: soon, and then at growing distances.

use std::time::{Duration, Instant};

use super::Reconciler;
use crate::domain::{ResourceId, Timestamp};
use crate::observe::EventKind;

/// How long a run has gone on each time that it is reported.
const AFTER: [Duration; 4] = [
    Duration::from_secs(10),
    Duration::from_secs(60),
    Duration::from_secs(600),
    Duration::from_secs(3600),
];
/// How often the runs that go on are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// How often a run is to be reported that has taken so long.
fn n_due(took: Duration) -> usize {
    AFTER.iter().filter(|after| took >= **after).count()
}

impl Reconciler {
    /// The time until runs are looked at; `None`: nothing runs.
    pub(super) fn until_look_at_runs(&self) -> Option<Duration> {
        let goes_on = !self.in_flight.is_empty();
        goes_on.then(|| self.look_at_runs.saturating_duration_since(Instant::now()))
    }

    /// Reports which runs take long, if it is time to look at them: the longest by its name, since ten thousand may wait for the
    /// same.
    pub(super) fn report_long_runs(&mut self) {
        if self.in_flight.is_empty() || Instant::now() < self.look_at_runs {
            return;
        }
        self.look_at_runs = Instant::now() + LOOK;
        let now = Timestamp::now();
        let mut longest: Option<(Timestamp, &ResourceId)> = None;
        let mut n_long = 0;
        for one in self.in_flight.values_mut() {
            let n_due = n_due(now.since(one.started));
            if n_due <= one.n_noted {
                continue;
            }
            one.n_noted = n_due;
            n_long += 1;
            if longest.is_none_or(|(started, _)| one.started < started) {
                longest = Some((one.started, &one.run.intent.resource_id));
            }
        }
        let Some((started, resource_id)) = longest else {
            return;
        };
        let (took, n_others) = (now.since(started), n_long - 1);
        tracing::warn!(
            environment.id = %self.environment, resource.id = %resource_id, n_others,
            "the run of {resource_id} has not ended for {} s: its agent does nothing else until then, or until `deploy_timeout`",
            took.as_secs()
        );
        let event = EventKind::LongRun {
            resource_id: resource_id.clone(),
            took,
            n_others,
        };
        self.bus.emit(self.environment, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_reported_soon_and_then_at_growing_distances() {
        let seconds = [0, 9, 10, 59, 60, 599, 600, 3599, 3600, 100_000];
        let due = seconds.map(|seconds| n_due(Duration::from_secs(seconds)));
        assert_eq!(due, [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]);
    }
}
