//! Numbers of steps and units by their creation: who waits first decides what is complete first (language.md 8.7).

/// Numbers of one round of tiles.
const ROUND_SHIFT: u32 = 24;
const MAX_IN_ROUND: u32 = 1 << ROUND_SHIFT;

#[derive(Default)]
pub(super) struct Numbers {
    n_created: u64,
    /// In tiles: the last number of each round. A number is that of the round, and then that within the round.
    rounds: Option<Box<[u32; 256]>>,
    /// What is made after tiles comes after what was made in them.
    after: u32,
}

impl Numbers {
    pub fn n_created(&self) -> u64 {
        self.n_created
    }

    /// The number of what is made next.
    pub fn peek(&self, round: u8) -> u32 {
        match &self.rounds {
            None => (self.n_created as u32 + 1).wrapping_add(self.after),
            Some(rounds) => rounds[usize::from(round)] + 1,
        }
    }

    pub fn next(&mut self, round: u8) -> u32 {
        let number = self.peek(round);
        self.n_created += 1;
        if let Some(rounds) = &mut self.rounds {
            rounds[usize::from(round)] = number;
        }
        number
    }

    /// False: there are too many already.
    pub fn start_tiles(&mut self) -> bool {
        let mut rounds = Box::new([0; 256]);
        for (round, last) in (0..).zip(rounds.iter_mut()) {
            *last = round << ROUND_SHIFT;
        }
        self.rounds = Some(rounds);
        self.n_created < u64::from(MAX_IN_ROUND)
    }

    /// A round has too many.
    pub fn has_overflown(&self) -> bool {
        let mut rounds = self
            .rounds
            .iter()
            .flat_map(|rounds| (0..).zip(rounds.iter()));
        rounds.any(|(round, last): (u32, &u32)| {
            last.wrapping_sub(round << ROUND_SHIFT) >= MAX_IN_ROUND - 1
        })
    }

    pub fn end_tiles(&mut self) {
        if let Some(rounds) = self.rounds.take() {
            let last = rounds.iter().enumerate();
            let last = last
                .rev()
                .find(|(round, last)| **last != (*round as u32) << ROUND_SHIFT);
            let next = last.map_or(0, |(round, _)| (round as u32 + 1) << ROUND_SHIFT);
            self.after = next.wrapping_sub(self.n_created as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_come_in_order_whatever_was_made_first() {
        let mut numbers = Numbers::default();
        let before = numbers.next(0);
        assert!(numbers.start_tiles());
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
