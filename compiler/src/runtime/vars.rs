//! All variables of a run, and when each was last changed while steps run in tiles: see [`super::tiles`].

use std::ops::{Index, IndexMut, Range};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use super::{Var, arena};

/// The round of a step outside of tiles: its order is right anyway.
pub(super) const IN_ORDER: u8 = 0;

#[derive(Default)]
pub struct Vars {
    /// Those of the tile that runs now; outside of tiles all.
    own: Vec<Var>,
    /// Those before them.
    others: Vec<Var>,
    /// In tiles only, for each variable: the last round that changed it, or began to wait for it. Who finds a variable
    /// without a value waits for it, or gives it one; so a round is known for each use that matters.
    rounds: Vec<AtomicU8>,
    /// The round that runs now.
    round: u8,
    out_of_order: AtomicBool,
}

impl Vars {
    pub(super) fn new() -> Vars {
        Vars {
            own: arena(),
            ..Vars::default()
        }
    }

    pub fn len(&self) -> usize {
        self.others.len() + self.own.len()
    }

    pub(super) fn push(&mut self, var: Var) {
        self.own.push(var);
        if self.is_in_tiles() {
            self.rounds.push(AtomicU8::new(self.round));
        }
    }

    /// A new variable in the place of one that nobody knows any more.
    pub(super) fn renew(&mut self, at: usize, var: Var) {
        *self.place(at) = var;
        self.changed(at);
    }

    pub(super) fn get(&self, at: usize) -> Option<&Var> {
        match at.checked_sub(self.others.len()) {
            Some(own) => self.own.get(own),
            None => self.others.get(at),
        }
    }

    /// A look that nothing depends on.
    pub(super) fn peek(&self, at: usize) -> &Var {
        match at.checked_sub(self.others.len()) {
            Some(own) => &self.own[own],
            None => &self.others[at],
        }
    }

    fn place(&mut self, at: usize) -> &mut Var {
        match at.checked_sub(self.others.len()) {
            Some(own) => &mut self.own[own],
            None => &mut self.others[at],
        }
    }

    pub(super) fn range(&self, range: Range<usize>) -> &[Var] {
        debug_assert!(!self.is_in_tiles());
        &self.own[range]
    }

    pub(super) fn is_in_tiles(&self) -> bool {
        self.round != IN_ORDER
    }

    pub(super) fn round(&self) -> u8 {
        self.round
    }

    /// The first round of the next tile.
    pub(super) fn start_tile(&mut self) {
        self.round = IN_ORDER + 1;
        if self.others.is_empty() {
            self.others = arena();
        }
        self.others.append(&mut self.own);
        self.rounds
            .resize_with(self.others.len(), || AtomicU8::new(IN_ORDER + 1));
    }

    pub(super) fn start_round(&mut self) {
        match self.round.checked_add(1) {
            Some(round) => self.round = round,
            None => self.mark_out_of_order(),
        }
    }

    /// The round that gave a variable its value; only of those that had it at once.
    pub(super) fn round_of(&self, at: usize) -> u8 {
        self.rounds
            .get(at)
            .map_or(IN_ORDER, |round| round.load(Relaxed))
    }

    pub(super) fn end_tiles(&mut self) {
        self.others.append(&mut self.own);
        self.own = std::mem::take(&mut self.others);
        self.rounds = Vec::new();
        self.round = IN_ORDER;
    }

    /// A step ran before one that comes before it.
    pub(super) fn is_out_of_order(&self) -> bool {
        self.out_of_order.load(Relaxed)
    }

    pub(super) fn mark_out_of_order(&self) {
        self.out_of_order.store(true, Relaxed);
    }

    /// Notes the use of something else that steps share; `last` is the round of the use before.
    pub(super) fn check(&self, last: &mut u8) {
        if self.is_in_tiles() {
            if *last > self.round {
                self.mark_out_of_order();
            }
            *last = self.round;
        }
    }

    /// Notes a change of what is known of a variable.
    pub(super) fn changed(&mut self, at: usize) {
        if self.is_in_tiles() {
            *self.rounds[at].get_mut() = self.round;
        }
    }

    /// Notes the use of a variable of another tile.
    fn note(&self, at: usize) {
        let known = self.rounds[at].load(Relaxed);
        if known > self.round {
            self.mark_out_of_order();
        } else if !self.others[at].is_ready() {
            self.rounds[at].store(self.round, Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    fn other(&self, at: usize) -> &Var {
        self.note(at);
        &self.others[at]
    }

    #[cold]
    #[inline(never)]
    fn other_mut(&mut self, at: usize) -> &mut Var {
        self.note(at);
        self.changed(at);
        &mut self.others[at]
    }
}

impl Index<usize> for Vars {
    type Output = Var;

    #[inline]
    fn index(&self, at: usize) -> &Var {
        match self.own.get(at.wrapping_sub(self.others.len())) {
            Some(var) => var,
            None => self.other(at),
        }
    }
}

impl IndexMut<usize> for Vars {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Var {
        let own = at.wrapping_sub(self.others.len());
        if own >= self.own.len() {
            return self.other_mut(at);
        }
        self.changed(at);
        &mut self.own[own]
    }
}
