//! Numbers that are taken, in order, so that one that is free is found without a look at all of them.
//!
//! A pool of a million numbers with a hundred thousand taken: to draw a free one takes a few binary searches, and to note that
//! one is taken moves at most as many entries as there are, which is a copy of less than two megabytes.

/// Each number that is taken, with how many have it, sorted: the sets of attributes of one instance mostly have the same.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Numbers(Vec<(i64, u32)>);

impl FromIterator<i64> for Numbers {
    fn from_iter<T: IntoIterator<Item = i64>>(numbers: T) -> Self {
        let mut all: Vec<(i64, u32)> = numbers.into_iter().map(|number| (number, 1)).collect();
        all.sort_unstable();
        all.dedup_by(|this, before| {
            let is_same = this.0 == before.0;
            before.1 += u32::from(is_same);
            is_same
        });
        Self(all)
    }
}

impl Numbers {
    /// One more has the number.
    pub(super) fn add(&mut self, number: i64) {
        match self.place(number) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (number, 1)),
        }
    }

    /// One less has it.
    pub(super) fn remove(&mut self, number: i64) {
        let Ok(at) = self.place(number) else { return };
        self.0[at].1 -= 1;
        if self.0[at].1 == 0 {
            self.0.remove(at);
        }
    }

    fn place(&self, number: i64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&number, |(known, _)| *known)
    }

    /// The number of `lower..=upper` that nobody has, at the place `draw` modulo how many there are; `None`: there is none.
    pub(super) fn free(&self, lower: i64, upper: i64, draw: u64) -> Option<i64> {
        let first = self.0.partition_point(|(number, _)| *number < lower);
        let behind = self.0.partition_point(|(number, _)| *number <= upper);
        let inside = self.0.get(first..behind)?;
        // A range of numbers of 64 bits may have more of them than that.
        let n_free = i128::from(upper) - i128::from(lower) + 1 - inside.len() as i128;
        if n_free <= 0 {
            return None;
        }
        let place = i128::from(draw) % n_free;
        // Below the number at a position are `number - lower` numbers, of which as many are taken as the position says. So free
        // numbers below it never become fewer with the position, and those up to the place are found by bisection.
        let (mut low, mut high) = (0, inside.len());
        while low < high {
            let middle = low.midpoint(high);
            let n_free_below = i128::from(inside[middle].0) - i128::from(lower) - middle as i128;
            if n_free_below <= place {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        i64::try_from(i128::from(lower) + place + low as i128).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The same by looking at each number.
    fn by_looking(taken: &BTreeMap<i64, u32>, lower: i64, upper: i64, draw: u64) -> Option<i64> {
        let free: Vec<i64> = (lower..=upper)
            .filter(|number| !taken.contains_key(number))
            .collect();
        let n_free = u64::try_from(free.len()).ok().filter(|n| *n > 0)?;
        free.get(usize::try_from(draw % n_free).ok()?).copied()
    }

    #[test]
    fn a_free_number_is_the_one_that_a_look_at_all_of_them_finds() {
        let mut random = 88_172_645_463_325_252_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let (mut taken, mut numbers) = (BTreeMap::new(), Numbers::default());
        for _ in 0..20_000 {
            let number = i64::try_from(next() % 60).unwrap() - 10;
            if next() % 3 > 0 {
                *taken.entry(number).or_insert(0_u32) += 1;
                numbers.add(number);
            } else if let Some(n_times) = taken.get_mut(&number) {
                *n_times -= 1;
                taken.retain(|_, n_times| *n_times > 0);
                numbers.remove(number);
            }
            let lower = i64::try_from(next() % 50).unwrap() - 10;
            let upper = lower + i64::try_from(next() % 40).unwrap() - 3;
            let draw = next();
            let expected = by_looking(&taken, lower, upper, draw);
            assert_eq!(numbers.free(lower, upper, draw), expected);
        }
        let many = taken
            .iter()
            .flat_map(|(number, n_times)| (0..*n_times).map(|_| *number));
        assert_eq!(many.collect::<Numbers>(), numbers);
    }

    #[test]
    fn a_range_may_have_all_numbers_that_there_are() {
        let numbers: Numbers = [i64::MIN, 0, i64::MAX].into_iter().collect();
        assert_eq!(numbers.free(i64::MIN, i64::MAX, 0), Some(i64::MIN + 1));
        let last = numbers.free(i64::MIN, i64::MAX, u64::MAX - 3);
        assert_eq!(last, Some(i64::MAX - 1));
        assert_eq!(numbers.free(0, 0, 7), None);
        assert_eq!(numbers.free(3, 2, 7), None, "a range without a number");
    }
}
