//! All variables of a run, and in tiles the round in which each was last changed.
//!
//! Outside of tiles this is a vector, and costs no more than one. While steps run in tiles
//! ([`crate::runtime::speed::tiling`]), every use of a variable that an earlier tile has made is
//! checked: had the variable been changed in a later round than the one that runs now, this step
//! should have run first, and the run is marked as out of order. So there are two ways to a
//! variable: indexing notes the use, and [`Vars::peek`] does not, for looks that nothing depends
//! on.
//!
//! Uses are noted through `&self`, since expressions are evaluated without changing variables;
//! therefore rounds and the mark are atomics. There is one thread.

use std::ops::{Index, IndexMut, Range};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use crate::pages::prefer_large;
use crate::runtime::Var;
use crate::runtime::speed::memory::arena;

/// The round of a step outside of tiles: what it does is in the right order anyway.
pub(in crate::runtime) const IN_ORDER: u8 = 0;
/// The last round of a tile, since rounds are bytes. A tile that would need more counts as out of
/// order.
const LAST_ROUND: u8 = u8::MAX - 1;

/// The arena of variables.
#[derive(Default)]
pub struct Vars {
    /// The variables, by [`VarId`](crate::runtime::VarId).
    all: Vec<Var>,
    /// The first variable that the tile made which runs now; uses of those before it are checked.
    /// Outside of tiles 0, so nothing is.
    first_own: usize,
    /// In tiles only, for each variable: the last round that changed it, or began to wait for it.
    /// Whoever finds a variable without a value waits for it, or gives it one; so a round is known
    /// for each use that matters.
    rounds: Vec<AtomicU8>,
    /// The round that runs now, or [`IN_ORDER`].
    round: u8,
    /// Some step ran before one that should have run first. Never taken back: the run is thrown
    /// away.
    out_of_order: AtomicBool,
}

impl Vars {
    #[inline]
    pub(in crate::runtime) fn new() -> Vars {
        Vars {
            all: arena(),
            ..Vars::default()
        }
    }

    #[inline]
    pub(in crate::runtime) fn prefer_large_pages(&self) {
        prefer_large(&self.all, self.all.capacity());
    }

    /// How many variables there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a variable.
    #[inline]
    pub(in crate::runtime) fn push(&mut self, var: Var) {
        self.all.push(var);
        if self.is_in_tiles() {
            self.rounds.push(AtomicU8::new(self.round));
        }
    }

    /// Adds the variables of a new instance.
    #[inline]
    pub(in crate::runtime) fn extend(&mut self, vars: &[Var]) {
        self.all.extend_from_slice(vars);
        if self.is_in_tiles() {
            let round = self.round;
            self.rounds
                .resize_with(self.all.len(), || AtomicU8::new(round));
        }
    }

    /// A new variable in the place of one that nobody knows any more.
    #[inline]
    pub(in crate::runtime) fn renew(&mut self, at: usize, var: Var) {
        self.all[at] = var;
        if self.is_in_tiles() {
            *self.rounds[at].get_mut() = self.round;
        }
    }

    /// The variable, if there is one of that number; the use is not noted.
    #[inline]
    pub(in crate::runtime) fn get(&self, at: usize) -> Option<&Var> {
        self.all.get(at)
    }

    /// A look that nothing depends on, or a further look at what the same step looked at before;
    /// the use is not noted.
    #[inline]
    pub(in crate::runtime) fn peek(&self, at: usize) -> &Var {
        &self.all[at]
    }

    /// Consecutive variables; only outside of tiles.
    #[inline]
    pub(in crate::runtime) fn range(&self, range: Range<usize>) -> &[Var] {
        debug_assert!(!self.is_in_tiles());
        &self.all[range]
    }

    /// Whether a tile runs.
    #[inline]
    pub(in crate::runtime) fn is_in_tiles(&self) -> bool {
        self.round != IN_ORDER
    }

    /// The round of tiles that runs now, or [`IN_ORDER`].
    #[inline]
    pub(in crate::runtime) fn round(&self) -> u8 {
        self.round
    }

    /// Begins the first round of the next tile.
    #[inline]
    pub(in crate::runtime) fn start_tile(&mut self) {
        self.round = IN_ORDER + 1;
        self.first_own = self.all.len();
        self.rounds
            .resize_with(self.first_own, || AtomicU8::new(IN_ORDER + 1));
    }

    /// Begins the next round of the tile that runs.
    #[inline]
    pub(in crate::runtime) fn start_round(&mut self) {
        if self.round == LAST_ROUND {
            self.mark_out_of_order();
        } else {
            self.round += 1;
        }
    }

    /// The round that gave a variable its value; only of those that had it at once.
    #[inline]
    pub(in crate::runtime) fn round_of(&self, at: usize) -> u8 {
        self.rounds
            .get(at)
            .map_or(IN_ORDER, |round| round.load(Relaxed))
    }

    /// From now on steps run in the order of the queue.
    #[inline]
    pub(in crate::runtime) fn end_tiles(&mut self) {
        self.first_own = 0;
        self.rounds = Vec::new();
        self.round = IN_ORDER;
    }

    /// Whether a step ran before one that should have run first.
    #[inline]
    pub(in crate::runtime) fn is_out_of_order(&self) -> bool {
        self.out_of_order.load(Relaxed)
    }

    /// Takes note that a step ran before one that should have run first.
    #[inline]
    pub(in crate::runtime) fn mark_out_of_order(&self) {
        self.out_of_order.store(true, Relaxed);
    }

    /// Notes the use of something other than a variable that steps share (a promise group, the
    /// count of a task); `last` is the round of the use before, and becomes this one.
    #[inline]
    pub(in crate::runtime) fn check(&self, last: &mut u8) {
        if self.is_in_tiles() {
            if *last > self.round {
                self.mark_out_of_order();
            }
            *last = self.round;
        }
    }

    /// Notes a change of what is known of a variable.
    #[inline]
    pub(in crate::runtime) fn changed(&mut self, at: usize) {
        if self.is_in_tiles() {
            self.note_change(at);
        }
    }

    /// Notes that a variable of another tile was looked at. If it has no value, the look itself
    /// counts, since a value that is given in an earlier round would have been seen.
    #[cold]
    #[inline(never)]
    fn note(&self, at: usize) {
        let Some(round) = self.rounds.get(at) else {
            return;
        };
        let known = round.load(Relaxed);
        if known > self.round {
            self.mark_out_of_order();
        } else if !self.all[at].is_ready() {
            round.store(self.round, Relaxed);
        }
    }

    /// Notes the change of a variable. Those that the running tile made can not be out of order.
    #[cold]
    #[inline(never)]
    fn note_change(&mut self, at: usize) {
        let round = self.rounds[at].get_mut();
        if at < self.first_own && *round > self.round {
            self.out_of_order = AtomicBool::new(true);
        } else {
            *round = self.round;
        }
    }
}

impl Index<usize> for Vars {
    type Output = Var;

    #[inline]
    fn index(&self, at: usize) -> &Var {
        if at < self.first_own {
            self.note(at);
        }
        &self.all[at]
    }
}

impl IndexMut<usize> for Vars {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Var {
        self.changed(at);
        &mut self.all[at]
    }
}
