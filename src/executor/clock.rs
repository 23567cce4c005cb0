//! Times that come from another machine, whose clock may be wrong.

use serde_json::Map;

use super::protocol::LogLine;
use crate::domain::{LogLevel, Timestamp};

/// By how much a clock may be wrong before the times that it says are corrected, in microseconds.
pub(crate) const TOLERANCE_US: i64 = 2_000_000;

/// The named value of the line that says so, in seconds: who looks for what came of a run passes over that line.
pub(crate) const ERROR_OF_CLOCK: &str = "clock_error_seconds";

/// By how much the clock of who ran something is behind ours, in microseconds, as far as the end that it says proves it: it is
/// after now, or before the run was given away. A result may have been long on its way, which is no wrong clock.
pub(crate) fn error_shown_by(finished: Timestamp, started: Timestamp, now: Timestamp) -> i64 {
    let behind = now.0.saturating_sub(finished.0);
    let before_it_began = started.0.saturating_sub(finished.0);
    let is_ahead = behind < -TOLERANCE_US;
    let is_behind = before_it_began > TOLERANCE_US && behind > TOLERANCE_US;
    if is_ahead || is_behind { behind } else { 0 }
}

/// Makes the times of a run's log ours, and says so in it.
pub(crate) fn correct(logs: &mut Vec<LogLine>, behind_us: i64) {
    for line in logs.iter_mut() {
        line.timestamp_us = line.timestamp_us.saturating_add(behind_us);
    }
    let way = if behind_us > 0 { "behind" } else { "ahead" };
    let seconds = behind_us.saturating_abs() / 1_000_000;
    let first = logs.first().map(|line| line.timestamp_us);
    let line = LogLine {
        level: LogLevel::Warning,
        msg: format!(
            "the clock of the agent's machine is {seconds} s {way}; the times of this run are corrected"
        ),
        kwargs: Map::from_iter([(ERROR_OF_CLOCK.to_owned(), (behind_us / 1_000_000).into())]),
        timestamp_us: first.unwrap_or_else(|| Timestamp::now().0),
    };
    // After the line that says why it was begun, and before all that came of it.
    logs.insert(logs.len().min(1), line);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    /// Given: ends of runs by clocks that are ahead, behind, and right, and of a result that was on its way for an hour. Expected:
    /// only what no right clock says is an error.
    #[test]
    fn a_clock_is_wrong_where_no_right_one_says_such_an_end() {
        let (started, now) = (Timestamp(10 * HOUR), Timestamp(12 * HOUR));
        let error = |finished: i64| error_shown_by(Timestamp(finished), started, now);
        assert_eq!(error(13 * HOUR), -HOUR);
        assert_eq!(error(9 * HOUR), 3 * HOUR);
        assert_eq!(error(12 * HOUR + TOLERANCE_US), 0);
        assert_eq!(error(10 * HOUR - TOLERANCE_US), 0);
        assert_eq!(error(11 * HOUR), 0);
        // Our own clock went back while it ran.
        let (started, now) = (Timestamp(12 * HOUR), Timestamp(10 * HOUR));
        assert_eq!(error_shown_by(now, started, now), 0);
    }
}
