//! Numbers of steps and units by their creation: who waits first decides what is complete first
//! (docs/reference/language.md § 8.7).

use crate::runtime::state::vars::IN_ORDER;

/// Numbers of one round of tiles.
const ROUND_SHIFT: u32 = 24;
const MAX_IN_ROUND: u32 = 1 << ROUND_SHIFT;

pub(in crate::runtime) struct CreationOrder {
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
    pub fn n_created(&self) -> u64 {
        self.n_created
    }

    /// The number of what is made next.
    #[inline]
    pub fn peek(&self, round: u8) -> u32 {
        self.last[usize::from(round)].wrapping_add(1)
    }

    #[inline]
    pub fn next(&mut self, round: u8) -> u32 {
        let number = self.peek(round);
        self.last[usize::from(round)] = number;
        self.n_created += 1;
        number
    }

    /// Too many for tiles were made, before them or in a round.
    pub fn has_overflown(&self) -> bool {
        let mut rounds = (0..).zip(self.last.iter());
        rounds.any(|(round, last): (u32, &u32)| {
            last.wrapping_sub(round << ROUND_SHIFT) >= MAX_IN_ROUND - 1
        })
    }

    /// What is made after tiles comes after what was made in them.
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
