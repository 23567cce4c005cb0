//! The main loop: run all that is ready, then declare one relation complete, again and again.
//! Source: docs/reference/language.md § 8.7.
//!
//! # Why a list has to be declared complete
//!
//! `std::count(host.services)` must not run before the last service is there. But services come
//! from anywhere: from other files, from implementations that have not run, from the other side of
//! the relation. No statement says "this was the last one". So the machine runs everything that can
//! run without knowing, and only when nothing can, it takes *one* relation and *freezes* it: what
//! it has now is its value for ever, and those who waited for it run. An element that comes later
//! is an error (`ModifiedAfterFreezeException`). Then all that follows runs before the next
//! relation is chosen, because it may bring elements to others.
//!
//! A variable that can be complete as it is (an optional one, or a list with at least its lower
//! number of elements) stands in the wait queue, if nobody has promised to add to it. The choice is
//! made in four steps, and the first that finds one ends the choice:
//!
//! - **A** takes variables from the wait queue. One that nobody really waits for is *parked*: to
//!   freeze it would help nobody, and might make an error of an element that is still to come. One
//!   that has got a promise meanwhile is dropped; it comes back when the promise is kept. The first
//!   one left is frozen.
//! - **B** looks at parked variables again: somebody may have begun to wait for them.
//! - **C** breaks a circle: all that are waited for have promises, and the promises wait for one
//!   another. The one that the oldest task waits for is frozen against its promises.
//! - **D**: nobody waits for anything. All parked variables are frozen, the last one first.
//!
//! "Really waits" is [`ModelState::potential`] above zero. A `for` over a relation gets each element
//! as it comes, so it does not count: its body does not need to know that the list is complete. Who
//! counts, compares or passes the whole list to a plugin does.
//!
//! # Why does list completion wait here?
//!
//! Ask in this order when a relation stays open too long or is frozen too early.
//!
//! 1. Is a step ready? Completion comes after all of them.
//! 2. Does anybody wait for the whole list ([`ModelState::potential`])? If not, it is parked until
//!    step D.
//! 3. Is a promise open ([`ModelState::open`])? An `if` or `for` that assigns the relation, directly
//!    or further inside, and has not been decided, holds it open (`exec/promises.rs`); so does
//!    each assignment whose value is not known yet.
//! 4. Does a list have fewer elements than its lower bound? Then it is not in the queue at all.
//! 5. Else it waits for its turn: relations come in the order in which they entered the queue,
//!    those of a `relation_precedence_policy` after all others and in the policy's order, list
//!    literals last ([`Machine::class`]).
//!
//! # Example
//!
//! ```text
//! Host.services [0:] -- Service                    # declared first, so its slot comes first
//! Host.backup [0:1] -- Host
//! implement Host using with_backup when std::count(self.services) > 0
//! implementation with_backup for Host: self.backup = spare end
//! name = h.backup.name
//! ```
//!
//! Both relations of `h` enter the queue when `h` is constructed, `services` first. The condition
//! waits for `services`, and `name` for `backup`. When all else has run, step A freezes `services`;
//! the condition holds, `backup` gets its value, `name` is computed. With the two declarations
//! swapped, `backup` is frozen first, without a value, and reading it is an error. That is why the
//! order of a queue is part of the language.
//!
//! # Invariants
//!
//! - Exactly one variable is frozen in steps A to C before the queue of steps is drained again.
//! - A variable is in the wait queue at most once, and not while it is parked; its bit `queued` is
//!   set in both cases.
//! - The parked list and the candidates for step C are kept up to date as waits and promises change
//!   ([`Machine::potential_changed`]), so that a choice costs what changed and not what there is.
//!   The reference goes through all live tasks instead; the answers are the same.
//! - Instances have the relations `requires` and `provides`, which nobody may ever wait for. They
//!   are parked, and a list that is not empty keeps the loop going until step D; without them, a
//!   model whose other relations are all held by promises would end before step C.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::diagnostics::{Fail, fail};
use crate::pages::prefer_large;
use crate::runtime::speed::prefetch::PREFETCHED_STEPS;
use crate::runtime::speed::tiling::{Ran, Tiling};
use crate::runtime::state::vars::IN_ORDER;
use crate::runtime::{Machine, ModelState, VarId, VarKind};
use crate::span::Loc;

/// A variable that step C may choose, as it is sorted: class of the wait queue; creation number of
/// the oldest task that waits for it; position among that task's dependencies; the variable. The
/// middle two are 0 while nobody has looked them up: finding the oldest waiter is a walk over all
/// of them, so it is done when the candidate comes to the top.
type Candidate = (u32, u32, u32, u32);

/// The delayed variables that may be declared complete, sorted by how soon. A removed element
/// leaves its place empty or stale; whoever takes it out checks it against the variable itself.
#[derive(Default)]
pub(in crate::runtime) struct Queue {
    /// One queue a class, in the order in which they are taken: relations that no precedence rule
    /// names; then each attribute of the policy, in the policy's order; then list literals.
    classes: Vec<VecDeque<VarId>>,
    /// Number of variables in all of `classes` (in tiles, of `rounds` too), so that the loop sees
    /// at once whether there are any.
    n_waiting: usize,
    /// Variables that nobody waits for, in the order in which they were parked. A variable's
    /// position is known to it, from 1. Places of those that left hold `NONE`.
    parked: Vec<VarId>,
    /// Places of `parked` that are not `NONE`.
    n_parked: usize,
    /// Parked variables that somebody began to wait for: position in `parked`, variable. Step B
    /// takes them in the order in which they were parked.
    reactivated: BinaryHeap<Reverse<(u32, u32)>>,
    /// Variables that somebody waits for although promises on them are open, the next choice of
    /// step C on top. Entries may be out of date.
    candidates: BinaryHeap<Reverse<Candidate>>,
    /// While steps run in tiles: what enters the wait queue, by round and class.
    /// [`Queue::put_in_order`] makes of it the order that there would be without tiles.
    rounds: Vec<Vec<Vec<VarId>>>,
}

impl Queue {
    pub fn new(n_policy: usize) -> Queue {
        Queue {
            classes: vec![VecDeque::new(); n_policy + 2],
            ..Queue::default()
        }
    }

    /// Adds a variable to its class. In tiles it is put aside, by the round that runs.
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

    /// To be called when a parked variable is complete or goes back to the wait queue.
    pub fn unpark(&mut self, position: u32) {
        if let Some(place) = self.parked.get_mut(position as usize - 1) {
            *place = VarId::NONE;
        }
        self.n_parked = self.n_parked.saturating_sub(1);
    }

    /// The variables that are taken next, for prefetching; only of the first class that has any.
    pub fn next(&self, most: usize) -> impl Iterator<Item = VarId> + Clone {
        let class = self.classes.iter().find(|class| !class.is_empty());
        class.into_iter().flatten().copied().take(most)
    }

    /// Takes the first variable of the first class that has any.
    fn pop(&mut self) -> Option<VarId> {
        if self.n_waiting == 0 {
            return None;
        }
        let id = self.classes.iter_mut().find_map(VecDeque::pop_front)?;
        self.n_waiting -= 1;
        Some(id)
    }
}

impl ModelState<'_> {
    /// A variable with open promises leaves the wait queue; keeping the last promise puts it back
    /// (`fulfil`).
    fn unqueue(&mut self, id: VarId) {
        self.vars[id.index()].set_queued(false);
    }
}

impl Machine<'_> {
    /// In which of the queues a variable waits. See [`Queue::classes`].
    #[inline]
    fn class(&self, id: VarId) -> u32 {
        let var = self.state.known(id);
        if var.kind() == VarKind::Literal {
            return self.program.policy.len() as u32 + 1;
        }
        if self.program.policy.is_empty() {
            return 0;
        }
        self.program
            .attribute(self.state.attr(id))
            .policy
            .map_or(0, |at| at + 1)
    }

    /// Puts a variable into the wait queue, unless it is there or parked.
    pub(in crate::runtime) fn enqueue(&mut self, id: VarId) {
        let var = &mut self.state.vars[id.index()];
        if var.queued() {
            return;
        }
        var.set_queued(true);
        self.push_waiting(id);
    }

    /// The same for one that was taken out before, or is marked as queued since its instance was
    /// made.
    #[inline]
    pub(in crate::runtime) fn push_waiting(&mut self, id: VarId) {
        let class = self.class(id);
        self.scheduler
            .queue
            .push(class, id, self.state.vars.round());
    }

    /// To be called whenever a wait or a promise on a delayed variable came or went. It puts the
    /// variable on the list of step B if it is parked, and of step C if a promise on it is open.
    /// Both lists may then hold variables that no longer belong there; they are looked at again
    /// when their turn comes.
    pub(in crate::runtime) fn potential_changed(&mut self, id: VarId) {
        if self.state.known(id).is_ready() || self.state.potential(id) <= 0 {
            return;
        }
        let parked = self.state.parked(id);
        let delayed = self.state.delayed_mut(id);
        let becomes_hot = parked > 0 && !delayed.in_reactivated;
        if becomes_hot {
            delayed.in_reactivated = true;
            self.scheduler
                .queue
                .reactivated
                .push(Reverse((parked, id.0)));
        }
        let delayed = self.state.delayed_mut(id);
        if delayed.open > 0 && !delayed.in_candidates {
            delayed.in_candidates = true;
            delayed.candidate_seq = 0;
            // The first waiter is looked up when it matters; until then the variable sorts first.
            let class = self.class(id);
            self.scheduler
                .queue
                .candidates
                .push(Reverse((class, 0, 0, id.0)));
        }
    }

    /// To be called when a task begins to wait for a variable. If that task is older than the one
    /// that the candidates of step C are sorted by, the entry there is out of date, and a new one
    /// that is looked up again goes in.
    pub(in crate::runtime) fn waiter_added(&mut self, id: VarId, seq: u32) {
        let delayed = self.state.delayed_mut(id);
        if delayed.in_candidates && seq < delayed.candidate_seq {
            delayed.candidate_seq = 0;
            let class = self.class(id);
            self.scheduler
                .queue
                .candidates
                .push(Reverse((class, 0, 0, id.0)));
        }
    }

    /// Runs up to `most` steps of the queue, those that they make ready among them. It ends early
    /// when a step turns out to run before one that comes before it, which happens in tiles only.
    /// Limits are looked at once in [`PREFETCHED_STEPS`] steps.
    pub(in crate::runtime) fn run_steps(&mut self, most: usize) -> Result<(), Fail> {
        for at in 0..most {
            let Some(step) = self.scheduler.ready.pop() else {
                break;
            };
            if at % PREFETCHED_STEPS == 0 {
                self.check_limits(Loc::NONE)?;
                self.check_steps()?;
                self.look_after_memory()?;
                self.prefetch();
            }
            self.step(&step)?;
            if self.state.vars.is_out_of_order() {
                break;
            }
        }
        Ok(())
    }

    /// The main loop, from the first statement until nothing is left to do. `tiling`: what is ready
    /// before the first relation is declared complete may run in tiles (`speed/tiling.rs`); later
    /// there is too little at once for it to pay.
    pub(in crate::runtime) fn run(&mut self, mut tiling: Option<Tiling>) -> Result<Ran, Fail> {
        let limit = self
            .world
            .env("INMANTA_MAX_ITERATIONS")
            .and_then(|text| text.trim().parse::<u64>().ok())
            .or(self.options.limits.iterations);
        self.emit_roots()?;
        let mut n_iterations = 0;
        loop {
            let done = self.scheduler.ready.is_empty()
                && self.scheduler.queue.n_waiting == 0
                && self.scheduler.queue.n_parked == 0;
            // As in the reference, a run that has made as many iterations as are allowed has failed
            // even if nothing is left to do; and each counts as one at least, since std takes one.
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

    /// Step A: freezes the first variable of the wait queue that somebody waits for and nobody
    /// promised to add to. True: one was frozen.
    fn freeze_waiting(&mut self) -> Result<bool, Fail> {
        while let Some(id) = self.next_waiting() {
            if self.state.var(id).is_ready() {
                continue;
            }
            if self.state.potential(id) <= 0 {
                self.park(id);
                continue;
            }
            if self.state.open(id) > 0 {
                self.state.unqueue(id);
                continue;
            }
            self.freeze(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes the next variable out of the wait queue.
    fn next_waiting(&mut self) -> Option<VarId> {
        if self
            .scheduler
            .queue
            .n_waiting
            .is_multiple_of(PREFETCHED_STEPS)
        {
            self.prefetch_waiting();
        }
        self.scheduler.queue.pop()
    }

    /// Sets a variable aside until somebody waits for it, or until nobody waits for anything.
    fn park(&mut self, id: VarId) {
        self.scheduler.queue.parked.push(id);
        self.scheduler.queue.n_parked += 1;
        let position = self.scheduler.queue.parked.len() as u32;
        self.state.set_parked(id, position);
        if self.state.delayed(id).is_some() {
            self.state.delayed_mut(id).in_reactivated = false;
        }
    }

    /// Step B: parked variables that somebody waits for by now go back to the wait queue, in the
    /// order in which they were parked, and the first without a promise is frozen. True: one was
    /// frozen.
    fn freeze_parked(&mut self) -> Result<bool, Fail> {
        while let Some(Reverse((position, id))) = self.scheduler.queue.reactivated.pop() {
            let id = VarId(id);
            let var = self.state.var(id);
            if var.is_ready() || !var.kind().is_delayed() || self.state.parked(id) != position {
                continue;
            }
            self.state.delayed_mut(id).in_reactivated = false;
            if self.state.potential(id) <= 0 {
                continue;
            }
            self.state.set_parked(id, 0);
            self.scheduler.queue.unpark(position);
            self.push_waiting(id);
        }
        while let Some(id) = self.next_waiting() {
            if self.state.var(id).is_ready() {
                continue;
            }
            if self.state.open(id) > 0 {
                self.state.unqueue(id);
                continue;
            }
            self.freeze(id)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Step C: freezes a variable although somebody promised to add to it, because all that could
    /// still happen waits for such variables. The choice: the class of the wait queue first; within
    /// it, the variable that the oldest task waits for. True: one was frozen.
    fn break_cycle(&mut self) -> Result<bool, Fail> {
        while let Some(Reverse((class, seq, position, id))) = self.scheduler.queue.candidates.pop()
        {
            let var = VarId(id);
            if self.state.var(var).is_ready() || !self.state.is_delayed(var) {
                continue;
            }
            if self.state.open(var) == 0 || self.state.potential(var) <= 0 {
                self.state.delayed_mut(var).in_candidates = false;
                continue;
            }
            let Some((first, at)) = self.first_waiter(var) else {
                self.state.delayed_mut(var).in_candidates = false;
                continue;
            };
            if (first, at) != (seq, position) {
                self.state.delayed_mut(var).candidate_seq = first;
                self.scheduler
                    .queue
                    .candidates
                    .push(Reverse((class, first, at, id)));
                continue;
            }
            self.state.delayed_mut(var).in_candidates = false;
            self.freeze(var)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Step D: nobody waits for any variable any more. All parked ones are complete as they are,
    /// the last one first, as in the reference.
    fn freeze_rest(&mut self) -> Result<(), Fail> {
        let parked = std::mem::take(&mut self.scheduler.queue.parked);
        self.scheduler.queue.n_parked = 0;
        self.scheduler.queue.reactivated.clear();
        for id in parked.into_iter().rev() {
            if id.is_some() && !self.state.var(id).is_ready() {
                self.freeze(id)?;
            }
        }
        self.scheduler.queue.n_parked = 0;
        Ok(())
    }
}
