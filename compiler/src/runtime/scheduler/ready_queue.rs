//! The queue of steps that are ready: first in, first out.
//!
//! A large model may have a million steps in it, and a moment later ten. A ring buffer would keep
//! the memory of the largest moment and copy everything when it grows. So the queue is made of
//! blocks of 256 steps: the first is taken from, the last is pushed to, full ones lie between them,
//! and empty ones are used again.

use std::collections::VecDeque;

use crate::runtime::Step;

/// Steps of a block: some pages of memory, so that giving blocks back and forth is rare, and one
/// that is nearly empty wastes little.
const BLOCK: usize = 256;

/// See the head of this file. When `first` is used up, the next full block takes its place; when
/// there is none, `last` does, whatever is in it.
#[derive(Default)]
pub(in crate::runtime) struct ReadyQueue {
    first: Vec<Step>,
    /// Steps of `first` that were taken already.
    taken: usize,
    /// Blocks between the first and the last one, all of them full.
    between: VecDeque<Vec<Step>>,
    last: Vec<Step>,
    /// Empty blocks for later.
    spare: Vec<Vec<Step>>,
}

impl ReadyQueue {
    /// Adds a step to the end.
    #[inline]
    pub fn push(&mut self, step: Step) {
        if self.last.len() == BLOCK {
            self.begin_block();
        }
        self.last.push(step);
    }

    /// Puts the full last block behind those between, and begins another one.
    #[cold]
    fn begin_block(&mut self) {
        let empty = self.spare.pop().unwrap_or_default();
        self.between
            .push_back(std::mem::replace(&mut self.last, empty));
    }

    /// Takes the next step.
    #[inline]
    pub fn pop(&mut self) -> Option<Step> {
        if self.taken == self.first.len() {
            self.refill();
        }
        let step = *self.first.get(self.taken)?;
        self.taken += 1;
        Some(step)
    }

    /// Gets the next block to take steps from.
    #[cold]
    fn refill(&mut self) {
        self.taken = 0;
        self.first.clear();
        match self.between.pop_front() {
            Some(block) => self.spare.push(std::mem::replace(&mut self.first, block)),
            None => std::mem::swap(&mut self.first, &mut self.last),
        }
    }

    /// Steps in the queue.
    pub fn len(&self) -> usize {
        self.first.len() - self.taken + self.between.len() * BLOCK + self.last.len()
    }

    /// Takes all steps out, in order, to be cut into tiles.
    pub fn take_all(&mut self) -> Vec<Step> {
        let mut all = Vec::with_capacity(self.len());
        while let Some(step) = self.pop() {
            all.push(step);
        }
        self.spare = Vec::new();
        all
    }

    pub fn is_empty(&self) -> bool {
        self.taken == self.first.len() && self.between.is_empty() && self.last.is_empty()
    }

    /// The step that was pushed last, if nobody has taken it: a further one of the same kind may be
    /// joined to it.
    pub fn last_mut(&mut self) -> Option<&mut Step> {
        self.last.last_mut()
    }

    /// Copies of the next steps behind the first `from`, in order.
    pub fn upcoming(&self, from: usize, most: usize) -> Vec<Step> {
        let first = self.first[self.taken..].iter();
        let between = self.between.iter().flatten();
        let all = first.chain(between).chain(&self.last);
        all.skip(from).take(most).copied().collect()
    }

    /// The next steps as far as they lie in the first block: for prefetching, where none at the
    /// border of blocks does no harm.
    pub fn next(&self, most: usize) -> &[Step] {
        let next = &self.first[self.taken..];
        &next[..most.min(next.len())]
    }
}

#[cfg(test)]
mod tests {
    use crate::runtime::TaskId;
    use crate::runtime::scheduler::ready_queue::*;

    #[test]
    fn the_next_steps_are_seen_in_parts() {
        let mut queue = ReadyQueue::default();
        for task in 0..2000 {
            queue.push(Step::Task(TaskId(task)));
        }
        for _ in 0..300 {
            queue.pop();
        }
        for from in [0, 1, 211, 212, 467, 468, 1600, 1690, 1700, 1800] {
            let seen = queue.upcoming(from, 128);
            let last = (300 + from + 128).min(2000);
            assert_eq!(seen.len(), last.saturating_sub(300 + from));
            for (at, step) in seen.iter().enumerate() {
                assert!(matches!(step, Step::Task(task) if task.index() == 300 + from + at));
            }
        }
    }

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut queue = ReadyQueue::default();
        let (mut pushed, mut popped) = (0, 0);
        for round in 1..60 {
            for _ in 0..round * 37 % 400 {
                queue.push(Step::Task(TaskId(pushed)));
                pushed += 1;
            }
            for _ in 0..round * 53 % 380 {
                let Some(Step::Task(task)) = queue.pop() else {
                    break;
                };
                assert_eq!(task.0, popped);
                popped += 1;
            }
            assert_eq!(queue.is_empty(), pushed == popped);
        }
        assert!(popped > 5000);
        assert!(queue.between.len() + queue.spare.len() < 40);
    }
}
