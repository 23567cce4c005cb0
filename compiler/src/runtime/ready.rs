//! The queue of steps that are ready, in blocks: it takes the memory of what is in it.

use std::collections::VecDeque;

use super::Step;

const BLOCK: usize = 256;

#[derive(Default)]
pub(super) struct ReadyQueue {
    /// All but the last are full.
    blocks: VecDeque<Vec<Step>>,
    /// Steps of the first block that were taken.
    taken: usize,
    spare: Vec<Vec<Step>>,
}

impl ReadyQueue {
    pub fn push(&mut self, step: Step) {
        match self.blocks.back_mut() {
            Some(last) if last.len() < BLOCK => last.push(step),
            _ => {
                let mut block = self.spare.pop();
                let block = block.get_or_insert_with(|| Vec::with_capacity(BLOCK));
                block.push(step);
                self.blocks.push_back(std::mem::take(block));
            }
        }
    }

    pub fn pop(&mut self) -> Option<Step> {
        let first = self.blocks.front_mut()?;
        let step = first.get(self.taken).copied()?;
        self.taken += 1;
        if self.taken == first.len() {
            self.taken = 0;
            first.clear();
            let emptied = self.blocks.pop_front();
            self.spare.extend(emptied);
        }
        Some(step)
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn last_mut(&mut self) -> Option<&mut Step> {
        self.blocks.back_mut()?.last_mut()
    }

    /// The next steps, as far as they lie together.
    pub fn next(&self, most: usize) -> &[Step] {
        let first = self
            .blocks
            .front()
            .map_or(&[][..], |first| &first[self.taken..]);
        &first[..most.min(first.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::super::UnitId;
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_order() {
        let mut queue = ReadyQueue::default();
        let (mut pushed, mut popped) = (0, 0);
        for round in 1..60 {
            for _ in 0..round * 37 % 400 {
                queue.push(Step::Unit(UnitId(pushed)));
                pushed += 1;
            }
            for _ in 0..round * 53 % 380 {
                let Some(Step::Unit(unit)) = queue.pop() else {
                    break;
                };
                assert_eq!(unit.0, popped);
                popped += 1;
            }
            assert_eq!(queue.is_empty(), pushed == popped);
            assert_eq!(queue.next(16).is_empty(), pushed == popped);
        }
        assert!(popped > 5000);
        assert!(queue.blocks.len() + queue.spare.len() < 40);
    }
}
