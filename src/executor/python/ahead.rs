//! How many tasks a host is given at once.
//!
//! A quick run takes less than it takes to wake a host for it, and to be woken by its answer. So a host whose runs are quick gets
//! several tasks in one write, works them off in their order, and its answers are read several at a time. One whose runs take
//! long gains nothing by that, and what it was given it would hold back from the queue of its agent: it gets one at a time. So
//! does a host whose handlers ask the server, since a question would wait for those who read answers late.
//!
//! What was given and not begun when a host ends is run by another one. The host begins a task only when the one before is
//! answered, so what is not answered and not the next one was not begun.

use std::collections::VecDeque;
use std::time::Duration;

/// Tasks that were given to a host and are not answered, at most.
pub(super) const MOST: usize = 32;
/// Bytes of their frames, at most: less than a socket holds, so that no write waits for a host that waits for us.
const MOST_BYTES: usize = 48 << 10;
/// Runs that take longer are not quick.
const QUICK: Duration = Duration::from_millis(1);
/// How long answers may lie unread, while others are about to come.
const LONGEST: Duration = Duration::from_millis(1);
/// A shorter pause is not worth its system call.
const SHORTEST: Duration = Duration::from_micros(60);

/// What a host was given, and what is known of the time that it takes.
#[derive(Debug)]
pub(super) struct Ahead {
    given: VecDeque<Given>,
    n_bytes: usize,
    /// How many tasks it may have at once, and how many at most.
    most: usize,
    limit: usize,
    /// How long its last runs took, about.
    typical: Duration,
}

/// A task that a host has, or is about to get.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given {
    /// The number of its request.
    pub(super) id: u64,
    /// How long it may take.
    pub(super) limit: Duration,
    n_bytes: usize,
}

impl Ahead {
    /// Of a host that was given nothing yet, and may have so many tasks at once.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            given: VecDeque::new(),
            n_bytes: 0,
            most: 1,
            limit,
            typical: Duration::ZERO,
        }
    }

    /// How many tasks the host may have at once.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether the host has tasks that it has not answered.
    pub(super) fn has_some(&self) -> bool {
        !self.given.is_empty()
    }

    /// Takes note of a task, whose frame is this large; false: it has to wait until others are answered.
    pub(super) fn give(&mut self, id: u64, limit: Duration, n_bytes: usize) -> bool {
        let fits = self.given.len() < self.most && self.n_bytes + n_bytes <= MOST_BYTES;
        if !fits && self.has_some() {
            return false;
        }
        self.n_bytes += n_bytes;
        self.given.push_back(Given { id, limit, n_bytes });
        true
    }

    /// The task that is answered next.
    pub(super) fn next(&self) -> Option<Given> {
        self.given.front().copied()
    }

    /// Until about when it is of no use to read, since answers come faster than it takes to wake us for each.
    pub(super) fn pause(&self) -> Option<Duration> {
        let n_behind = u32::try_from(self.given.len().saturating_sub(1)).unwrap_or(0);
        let pause = (self.typical * n_behind).min(LONGEST);
        (pause >= SHORTEST).then_some(pause)
    }

    /// The next task is answered: what it took, and whether its handler has asked the server.
    pub(super) fn is_answered(&mut self, took: Duration, has_asked: bool) {
        if let Some(given) = self.given.pop_front() {
            self.n_bytes -= given.n_bytes;
        }
        self.typical = (self.typical * 3 + took) / 4;
        self.most = match took < QUICK && !has_asked {
            true => (self.most * 2).min(self.limit),
            false => 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn micros(number: u64) -> Duration {
        Duration::from_micros(number)
    }

    /// Given: quick runs. Expected: the host gets more tasks at once each time, up to a limit, and one at a time after a slow run or
    /// a question.
    #[test]
    fn a_host_whose_runs_are_quick_gets_several_tasks_at_once() {
        let mut ahead = Ahead::new(MOST);
        let mut most = Vec::new();
        for id in 0..8 {
            assert!(ahead.give(id, Duration::MAX, 100));
            assert_eq!(ahead.next().map(|given| given.id), Some(id));
            ahead.is_answered(micros(80), false);
            most.push(ahead.most());
        }
        assert_eq!(most, [2, 4, 8, 16, 32, 32, 32, 32]);
        ahead.is_answered(micros(80), true);
        assert_eq!(ahead.most(), 1);
        ahead.is_answered(micros(80), false);
        ahead.is_answered(micros(5_000), false);
        assert_eq!(ahead.most(), 1);
        let mut one_at_a_time = Ahead::new(1);
        assert!(one_at_a_time.give(1, Duration::MAX, 100));
        one_at_a_time.is_answered(micros(80), false);
        assert_eq!(one_at_a_time.most(), 1);
        assert!(one_at_a_time.give(2, Duration::MAX, 100));
        assert!(!one_at_a_time.give(3, Duration::MAX, 100));
    }

    /// Given: more tasks than a host may have at once, or larger ones. Expected: they wait until others are answered, but never one
    /// for which the host has nothing else to do.
    #[test]
    fn what_a_socket_does_not_hold_waits() {
        let mut ahead = Ahead::new(MOST);
        assert!(ahead.give(1, Duration::MAX, 100 << 20));
        assert!(!ahead.give(2, Duration::MAX, 10));
        ahead.is_answered(micros(10), false);
        assert!(ahead.give(2, Duration::MAX, MOST_BYTES - 10));
        assert!(!ahead.give(3, Duration::MAX, 11));
        assert!(ahead.give(3, Duration::MAX, 10));
        assert!(!ahead.give(4, Duration::MAX, 0));
        ahead.is_answered(micros(10), false);
        assert!(ahead.give(4, Duration::MAX, 11));
    }

    /// Given: one task, or several whose answers come at some pace. Expected: who waits for one reads at once; several are left to
    /// gather, for a millisecond at most.
    #[test]
    fn answers_gather_for_a_moment() {
        let mut ahead = Ahead::new(MOST);
        for id in 0..5 {
            assert!(ahead.give(id, Duration::MAX, 1));
            assert_eq!(ahead.pause(), None);
            ahead.is_answered(micros(100), false);
        }
        for id in 0..9 {
            assert!(ahead.give(id, Duration::MAX, 1));
        }
        let pause = ahead.pause().unwrap();
        assert!(micros(500) < pause && pause < micros(800), "{pause:?}");
        for id in 10..30 {
            assert!(ahead.give(id, Duration::MAX, 1));
        }
        assert_eq!(ahead.pause(), Some(LONGEST));
    }
}
