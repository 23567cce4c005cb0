//! A limit for log lines that strangers can cause: so many in a period, and then how many were left out.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lets `n_lines` lines through in each `period`. Made to be a `static` beside the line that it limits.
///
/// ```ignore
/// static REFUSED: LineLimit = LineLimit::new(10, Duration::from_secs(60));
/// if let Some(n_left_out) = REFUSED.permit() {
///     tracing::warn!(n_left_out, "a delivery was refused");
/// }
/// ```
#[derive(Debug)]
pub struct LineLimit {
    n_lines: u32,
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// `None`: no line was written yet.
    since: Option<Instant>,
    n_written: u32,
    n_left_out: u64,
}

impl LineLimit {
    pub const fn new(n_lines: u32, period: Duration) -> Self {
        Self {
            n_lines,
            period,
            state: Mutex::new(State {
                since: None,
                n_written: 0,
                n_left_out: 0,
            }),
        }
    }

    /// Whether a line may be written now; if so, how many were left out since the last one.
    pub fn permit(&self) -> Option<u64> {
        self.permit_at(Instant::now())
    }

    /// How many lines were left out in a period that has ended, when no later line has said so: who watches
    /// anyway, such as a timer, may ask and say so. `None`: there is nothing to report.
    pub fn left_out(&self) -> Option<u64> {
        self.left_out_at(Instant::now())
    }

    fn permit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.locked();
        if !state.is_within(self.period, now) {
            state.since = Some(now);
            state.n_written = 0;
        }
        if state.n_written >= self.n_lines {
            state.n_left_out += 1;
            return None;
        }
        state.n_written += 1;
        Some(std::mem::take(&mut state.n_left_out))
    }

    fn left_out_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.locked();
        if state.n_left_out == 0 || state.is_within(self.period, now) {
            return None;
        }
        Some(std::mem::take(&mut state.n_left_out))
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_within(&self, period: Duration, now: Instant) -> bool {
        self.since
            .is_some_and(|since| now.saturating_duration_since(since) < period)
    }
}

#[cfg(test)]
mod tests {
    use super::LineLimit;
    use std::time::{Duration, Instant};

    #[test]
    fn so_many_lines_are_said_in_a_period_and_then_how_many_were_not() {
        let minute = Duration::from_secs(60);
        let limit = LineLimit::new(2, minute);
        let start = Instant::now();
        assert_eq!(limit.permit_at(start), Some(0));
        assert_eq!(limit.permit_at(start), Some(0));
        for _ in 0..5 {
            assert_eq!(limit.permit_at(start), None);
        }
        assert_eq!(limit.left_out_at(start), None);
        assert_eq!(limit.permit_at(start + minute), Some(5));
        assert_eq!(limit.permit_at(start + minute), Some(0));
        assert_eq!(limit.permit_at(start + minute), None);
        assert_eq!(limit.left_out_at(start + minute * 2), Some(1));
        assert_eq!(limit.left_out_at(start + minute * 2), None);
    }
}
