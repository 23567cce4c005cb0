//! How urgent work is, and whose turn it is where not all can be done at once.

/// Why something is to run, and how urgent that is: the earlier of these runs first. Source:
/// docs/reference/deployment.md § 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Somebody asked to deploy what is not in its desired state.
    UserDeploy,
    /// A new version has another desired state for it.
    NewVersion,
    /// Somebody asked to verify everything.
    UserRepair,
    /// Somebody wants to know what a version would change.
    DryRun,
    /// The timer of a retry after a failure, or the schedule's start.
    IntervalDeploy,
    /// The resource's handler is asked for facts.
    CollectFacts,
    /// The timer that verifies what is good.
    IntervalRepair,
}

impl Priority {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [
        Self::UserDeploy,
        Self::NewVersion,
        Self::UserRepair,
        Self::DryRun,
        Self::IntervalDeploy,
        Self::CollectFacts,
        Self::IntervalRepair,
    ];
}

/// Something for each priority.
#[derive(Debug, Default)]
pub struct ByPriority<T>([T; Priority::ALL.len()]);

impl<T> ByPriority<T> {
    pub fn of(&self, priority: Priority) -> &T {
        &self.0[priority as usize]
    }

    pub fn of_mut(&mut self, priority: Priority) -> &mut T {
        &mut self.0[priority as usize]
    }
}

/// Every so many turns, the priority that had none for longest has one: what repairs itself must not wait for ever behind versions
/// that come without end.
const FAIR_TURN: u64 = 8;

/// Says which priority has its turn, of those that have work: the most urgent one, as a rule.
#[derive(Debug, Default)]
pub struct Turns {
    n_turns: u64,
    /// The number of the last turn of each.
    last: ByPriority<u64>,
}

impl Turns {
    /// The priority that has its turn now; `None`: none has work.
    pub fn next(&mut self, has_work: impl Fn(Priority) -> bool) -> Option<Priority> {
        let mut waiting = Priority::ALL.into_iter().filter(|one| has_work(*one));
        let number = self.n_turns + 1;
        let priority = match number % FAIR_TURN {
            0 => waiting.min_by_key(|one| *self.last.of(*one)),
            _ => waiting.next(),
        }?;
        self.n_turns = number;
        *self.last.of_mut(priority) = number;
        Some(priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_priorities_are_there_in_order() {
        assert!(Priority::ALL.is_sorted());
        for (place, priority) in Priority::ALL.into_iter().enumerate() {
            assert_eq!(priority as usize, place);
        }
    }

    /// Given: a deployment without end, and repairs and questions for facts beside it. Expected: it has seven of eight turns, and
    /// the two others share what is left.
    #[test]
    fn the_most_urgent_goes_first_and_nothing_waits_for_ever() {
        use Priority::{CollectFacts, IntervalRepair, NewVersion};
        let mut turns = Turns::default();
        let has_work = |one| [CollectFacts, IntervalRepair, NewVersion].contains(&one);
        let taken: Vec<Priority> = (0..80).filter_map(|_| turns.next(has_work)).collect();
        let n_of = |priority| taken.iter().filter(|one| **one == priority).count();
        assert_eq!(
            [n_of(NewVersion), n_of(CollectFacts), n_of(IntervalRepair)],
            [70, 5, 5]
        );
        assert_eq!(taken[..7], [NewVersion; 7]);
        assert_eq!(turns.next(|_| false), None);
    }
}
