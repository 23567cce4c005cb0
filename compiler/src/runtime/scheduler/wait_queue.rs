//! The loop: run what is ready, then declare one relation complete, again and again.
//! Source: docs/reference/language.md § 8.7.
//!
//! The wait queue, the parked list and the search for a variable that breaks a cycle are kept up to date as variables
//! change, so that a step costs what changed and not what there is.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::diagnostics::{Fail, fail};
use crate::pages::prefer_large;
use crate::runtime::speed::prefetch::PREFETCHED_STEPS;
use crate::runtime::speed::tiling::{Ran, Tiling};
use crate::runtime::state::vars::IN_ORDER;
use crate::runtime::{Machine, VarId, VarKind};
use crate::span::Loc;

/// (class of the wait queue, creation of the first waiting unit, position among its needs, variable)
type Candidate = (u32, u32, u32, u32);

#[derive(Default)]
pub(in crate::runtime) struct Queue {
    /// Relations without precedence; then each attribute of the policy; then list literals.
    classes: Vec<VecDeque<VarId>>,
    n_waiting: usize,
    parked: Vec<VarId>,
    n_parked: usize,
    /// Positions of parked variables that somebody began to wait for.
    reactivated: BinaryHeap<Reverse<(u32, u32)>>,
    candidates: BinaryHeap<Reverse<Candidate>>,
    /// In tiles: what comes into the wait queue in each round, class by class.
    rounds: Vec<Vec<Vec<VarId>>>,
}

impl Queue {
    pub fn new(n_policy: usize) -> Queue {
        Queue {
            classes: vec![VecDeque::new(); n_policy + 2],
            ..Queue::default()
        }
    }

    pub fn push(&mut self, class: u32, id: VarId, round: u8) {
        self.n_waiting += 1;
        if round == IN_ORDER {
            self.classes[class as usize].push_back(id);
            return;
        }
        let round = usize::from(round);
        if self.rounds.len() <= round {
            let none = || vec![Vec::new(); self.classes.len()];
            self.rounds.resize_with(round + 1, none);
        }
        self.rounds[round][class as usize].push(id);
    }

    /// Takes what came into the wait queue in tiles as it would have come without them.
    pub fn put_in_order(&mut self) {
        for round in std::mem::take(&mut self.rounds) {
            for (class, ids) in self.classes.iter_mut().zip(round) {
                class.extend(ids);
            }
        }
    }

    pub fn prefer_large_pages(&self) {
        for ids in self.rounds.iter().flatten() {
            prefer_large(ids, ids.capacity());
        }
    }

    /// A parked variable is complete now.
    pub fn unpark(&mut self, position: u32) {
        if let Some(place) = self.parked.get_mut(position as usize - 1) {
            *place = VarId::NONE;
        }
        self.n_parked = self.n_parked.saturating_sub(1);
    }

    /// The next ones.
    pub fn next(&self, most: usize) -> impl Iterator<Item = VarId> + Clone {
        let class = self.classes.iter().find(|class| !class.is_empty());
        class.into_iter().flatten().copied().take(most)
    }

    fn pop(&mut self) -> Option<VarId> {
        if self.n_waiting == 0 {
            return None;
        }
        let id = self.classes.iter_mut().find_map(VecDeque::pop_front)?;
        self.n_waiting -= 1;
        Some(id)
    }
}

impl Machine<'_> {
    #[inline]
    fn class(&self, id: VarId) -> u32 {
        let var = self.known(id);
        if var.kind() == VarKind::Literal {
            return self.program.policy.len() as u32 + 1;
        }
        if self.program.policy.is_empty() {
            return 0;
        }
        self.program
            .attribute(self.attr(id))
            .policy
            .map_or(0, |at| at + 1)
    }

    pub(in crate::runtime) fn enqueue(&mut self, id: VarId) {
        let var = &mut self.vars[id.index()];
        if var.queued() {
            return;
        }
        var.set_queued(true);
        self.push_waiting(id);
    }

    #[inline]
    pub(in crate::runtime) fn push_waiting(&mut self, id: VarId) {
        let class = self.class(id);
        self.queue.push(class, id, self.vars.round());
    }

    /// To be called whenever a wait or a promise on a delayed variable came or went.
    pub(in crate::runtime) fn potential_changed(&mut self, id: VarId) {
        if self.known(id).is_ready() || self.potential(id) <= 0 {
            return;
        }
        let parked = self.parked(id);
        let delayed = self.delayed_mut(id);
        let becomes_hot = parked > 0 && !delayed.in_reactivated;
        if becomes_hot {
            delayed.in_reactivated = true;
            self.queue.reactivated.push(Reverse((parked, id.0)));
        }
        let delayed = self.delayed_mut(id);
        if delayed.open > 0 && !delayed.in_candidates {
            delayed.in_candidates = true;
            delayed.candidate_seq = 0;
            // The first waiter is looked up when it matters; until then the variable sorts first.
            let class = self.class(id);
            self.queue.candidates.push(Reverse((class, 0, 0, id.0)));
        }
    }

    /// An older unit than the known ones waits for a candidate.
    pub(in crate::runtime) fn waiter_added(&mut self, id: VarId, seq: u32) {
        let delayed = self.delayed_mut(id);
        if delayed.in_candidates && seq < delayed.candidate_seq {
            delayed.candidate_seq = 0;
            let class = self.class(id);
            self.queue.candidates.push(Reverse((class, 0, 0, id.0)));
        }
    }

    /// Runs the next steps, and those that follow from them if there are not so many; until one is out of order.
    pub(in crate::runtime) fn run_steps(&mut self, most: usize) -> Result<(), Fail> {
        for at in 0..most {
            let Some(step) = self.ready.pop() else {
                break;
            };
            if at % PREFETCHED_STEPS == 0 {
                self.check_limits(Loc::NONE)?;
                self.check_steps()?;
                self.look_after_memory();
                self.prefetch();
            }
            self.step(&step)?;
            if self.vars.is_out_of_order() {
                break;
            }
        }
        Ok(())
    }

    /// Until the first relation is declared complete, steps may run in tiles.
    pub(in crate::runtime) fn run(&mut self, mut tiling: Option<Tiling>) -> Result<Ran, Fail> {
        let limit = self
            .world
            .env("INMANTA_MAX_ITERATIONS")
            .and_then(|text| text.trim().parse::<u64>().ok())
            .or(self.options.limits.iterations);
        self.emit_roots()?;
        let mut n_iterations = 0;
        loop {
            let done =
                self.ready.is_empty() && self.queue.n_waiting == 0 && self.queue.n_parked == 0;
            // The last one allowed is one too many; and std itself takes one.
            let n_counted = if done {
                n_iterations.max(1)
            } else {
                n_iterations
            };
            if done && limit.is_none_or(|limit| n_counted < limit) {
                return Ok(Ran::InOrder);
            }
            if let Some(limit) = limit
                && n_counted >= limit
            {
                let message = format!("Could not complete model, max_iterations {limit} reached.");
                return Err(fail("CompilerException", Loc::NONE, message));
            }
            n_iterations += 1;
            match tiling.take() {
                Some(tiling) => {
                    if let Ran::OutOfOrder = self.drain_in_tiles(tiling)? {
                        return Ok(Ran::OutOfOrder);
                    }
                }
                None => self.run_steps(usize::MAX)?,
            }
            let progress = self.freeze_waiting()? || self.freeze_parked()? || self.break_cycle()?;
            if !progress {
                self.freeze_rest()?;
            }
        }
    }

    /// Step A.
    fn freeze_waiting(&mut self) -> Result<bool, Fail> {
        while let Some(id) = self.next_waiting() {
            if self.var(id).is_ready() {
                continue;
            }
            if self.potential(id) <= 0 {
                self.park(id);
                continue;
            }
            if self.open(id) > 0 {
                self.unqueue(id);
                continue;
            }
            self.freeze(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The next of the wait queue.
    fn next_waiting(&mut self) -> Option<VarId> {
        if self.queue.n_waiting.is_multiple_of(PREFETCHED_STEPS) {
            self.warm_waiting();
        }
        self.queue.pop()
    }

    fn park(&mut self, id: VarId) {
        self.queue.parked.push(id);
        self.queue.n_parked += 1;
        let position = self.queue.parked.len() as u32;
        self.set_parked(id, position);
        if self.delayed(id).is_some() {
            self.delayed_mut(id).in_reactivated = false;
        }
    }

    fn unqueue(&mut self, id: VarId) {
        self.vars[id.index()].set_queued(false);
    }

    /// Step B: parked variables that somebody waits for by now.
    fn freeze_parked(&mut self) -> Result<bool, Fail> {
        while let Some(Reverse((position, id))) = self.queue.reactivated.pop() {
            let id = VarId(id);
            let var = self.var(id);
            if var.is_ready() || !var.kind().is_delayed() || self.parked(id) != position {
                continue;
            }
            self.delayed_mut(id).in_reactivated = false;
            if self.potential(id) <= 0 {
                continue;
            }
            self.set_parked(id, 0);
            self.queue.unpark(position);
            self.push_waiting(id);
        }
        while let Some(id) = self.next_waiting() {
            if self.var(id).is_ready() {
                continue;
            }
            if self.open(id) > 0 {
                self.unqueue(id);
                continue;
            }
            self.freeze(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Step C: the first variable that a unit waits for although somebody promised to add to it.
    fn break_cycle(&mut self) -> Result<bool, Fail> {
        while let Some(Reverse((class, seq, position, id))) = self.queue.candidates.pop() {
            let var = VarId(id);
            if self.var(var).is_ready() || !self.is_delayed(var) {
                continue;
            }
            if self.open(var) == 0 || self.potential(var) <= 0 {
                self.delayed_mut(var).in_candidates = false;
                continue;
            }
            let Some((first, at)) = self.first_waiter(var) else {
                self.delayed_mut(var).in_candidates = false;
                continue;
            };
            if (first, at) != (seq, position) {
                self.delayed_mut(var).candidate_seq = first;
                self.queue.candidates.push(Reverse((class, first, at, id)));
                continue;
            }
            self.delayed_mut(var).in_candidates = false;
            self.freeze(var)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Step D.
    fn freeze_rest(&mut self) -> Result<(), Fail> {
        let parked = std::mem::take(&mut self.queue.parked);
        self.queue.n_parked = 0;
        self.queue.reactivated.clear();
        for id in parked.into_iter().rev() {
            if id.is_some() && !self.var(id).is_ready() {
                self.freeze(id)?;
            }
        }
        self.queue.n_parked = 0;
        Ok(())
    }
}
