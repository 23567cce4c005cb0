//! Numbers of steps and tasks by their creation.
//!
//! When step C of the main loop has to freeze a relation against a promise, it takes the one that
//! the *oldest* task waits for (docs/reference/language.md § 8.7). So every task has a number, and
//! every step counts as if it were a task, since in the reference it is one. For example, `a.o =
//! a.p` and `a.p = a.o` each promise what the other waits for. Nothing but age says which of the
//! two relations is declared empty; it is the one that the first statement reads, because that
//! statement's task was created first.
//!
//! # In tiles
//!
//! In tiles (`speed/tiling.rs`) tasks are not created in the order in which they would be without:
//! the second tile begins when the first has gone through all its rounds. But the right order is
//! known: all of round 1 comes before all of round 2, and within a round tiles follow one another.
//! So in tiles a number is made of the round, in the upper 8 bits, and of a count within that
//! round, and numbers sort as they should without being changed afterwards:
//!
//! ```text
//! without tiles       a:1  b:2 | a:3  b:4          (service:number; a bar ends a round)
//! in tiles of one     a: 0x01_000001, 0x02_000001      then b: 0x01_000002, 0x02_000002
//! ```
//!
//! A round has room for 2²⁴ numbers; a run that needs more counts as out of order and is made again
//! without tiles.
//!
//! # Invariant
//!
//! Of two tasks that wait, the one with the smaller number would have been created first in a run
//! without tiles. Numbers are not consecutive: only comparing them means something.

use crate::runtime::state::vars::IN_ORDER;

/// Bits of the count within a round of tiles.
const ROUND_SHIFT: u32 = 24;
/// Numbers of one round of tiles.
const MAX_IN_ROUND: u32 = 1 << ROUND_SHIFT;

/// The source of numbers by creation. Comparing two of them says which task is older.
pub(in crate::runtime) struct CreationOrder {
    /// How many were given, for the limit of steps.
    n_created: u64,
    /// The last number of each round; outside of tiles that of [`IN_ORDER`]. In tiles a number is that of the round, and
    /// then that within the round.
    last: [u32; 256],
}

impl Default for CreationOrder {
    fn default() -> CreationOrder {
        let mut last = [0; 256];
        for (round, last) in (0..).zip(last.iter_mut()) {
            *last = round << ROUND_SHIFT;
        }
        CreationOrder { n_created: 0, last }
    }
}

impl CreationOrder {
    /// How many tasks and steps were created so far.
    pub fn n_created(&self) -> u64 {
        self.n_created
    }

    /// The number that [`CreationOrder::next`] will give in a round.
    #[inline]
    pub fn peek(&self, round: u8) -> u32 {
        self.last[usize::from(round)].wrapping_add(1)
    }

    /// The number of a task or step that is created now, in this round of tiles ([`IN_ORDER`]
    /// outside of them).
    #[inline]
    pub fn next(&mut self, round: u8) -> u32 {
        let number = self.peek(round);
        self.last[usize::from(round)] = number;
        self.n_created += 1;
        number
    }

    /// Whether numbers do not sort as they should: more were given before tiles, or in one round,
    /// than have room.
    pub fn has_overflown(&self) -> bool {
        let mut rounds = (0..).zip(self.last.iter());
        rounds.any(|(round, last): (u32, &u32)| {
            last.wrapping_sub(round << ROUND_SHIFT) >= MAX_IN_ROUND - 1
        })
    }

    /// After tiles: what is created from now on comes after all that was created in them.
    pub fn end_tiles(&mut self) {
        let rounds = (0..).zip(self.last.iter());
        let used = rounds.filter(|(round, last): &(u32, &u32)| **last != round << ROUND_SHIFT);
        if let Some((round, _)) = used.last()
            && round > u32::from(IN_ORDER)
        {
            self.last[usize::from(IN_ORDER)] = (round + 1) << ROUND_SHIFT;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::scheduler::creation_order::*;

    #[test]
    fn rounds_come_in_order_whatever_was_made_first() {
        let mut numbers = CreationOrder::default();
        let before = numbers.next(0);
        let late = [numbers.next(7), numbers.next(7)];
        let early = numbers.next(3);
        assert_eq!(numbers.peek(3), early + 1);
        let last = numbers.next(7);
        assert!(!numbers.has_overflown());
        numbers.end_tiles();
        let after = numbers.next(0);
        let all = [
            before,
            early,
            late[0],
            late[1],
            last,
            after,
            numbers.next(0),
        ];
        assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
        assert_eq!(numbers.n_created(), 7);
    }
}
