//! All variables of a run, and when each was last changed while steps run in tiles: see [`crate::runtime::speed::tiling`].

use std::ops::{Index, IndexMut, Range};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use crate::pages::prefer_large;
use crate::runtime::{Var, arena};

/// The round of a step outside of tiles: its order is right anyway.
pub(in crate::runtime) const IN_ORDER: u8 = 0;
/// Tiles of more rounds count as out of order.
const LAST_ROUND: u8 = u8::MAX - 1;

#[derive(Default)]
pub struct Vars {
    all: Vec<Var>,
    /// First variable of the tile that runs now; outside of tiles 0.
    first_own: usize,
    /// In tiles only, for each variable: the last round that changed it, or began to wait for it. Who finds a variable
    /// without a value waits for it, or gives it one; so a round is known for each use that matters.
    rounds: Vec<AtomicU8>,
    /// The round that runs now.
    round: u8,
    out_of_order: AtomicBool,
}

impl Vars {
    pub(in crate::runtime) fn new() -> Vars {
        Vars {
            all: arena(),
            ..Vars::default()
        }
    }

    pub(in crate::runtime) fn prefer_large_pages(&self) {
        prefer_large(&self.all, self.all.capacity());
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    #[inline]
    pub(in crate::runtime) fn push(&mut self, var: Var) {
        self.all.push(var);
        if self.is_in_tiles() {
            self.rounds.push(AtomicU8::new(self.round));
        }
    }

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

    pub(in crate::runtime) fn get(&self, at: usize) -> Option<&Var> {
        self.all.get(at)
    }

    /// A look that nothing depends on, or a further look at what the same step looked at before.
    #[inline]
    pub(in crate::runtime) fn peek(&self, at: usize) -> &Var {
        &self.all[at]
    }

    pub(in crate::runtime) fn range(&self, range: Range<usize>) -> &[Var] {
        debug_assert!(!self.is_in_tiles());
        &self.all[range]
    }

    #[inline]
    pub(in crate::runtime) fn is_in_tiles(&self) -> bool {
        self.round != IN_ORDER
    }

    #[inline]
    pub(in crate::runtime) fn round(&self) -> u8 {
        self.round
    }

    /// The first round of the next tile.
    pub(in crate::runtime) fn start_tile(&mut self) {
        self.round = IN_ORDER + 1;
        self.first_own = self.all.len();
        self.rounds
            .resize_with(self.first_own, || AtomicU8::new(IN_ORDER + 1));
    }

    pub(in crate::runtime) fn start_round(&mut self) {
        if self.round == LAST_ROUND {
            self.mark_out_of_order();
        } else {
            self.round += 1;
        }
    }

    /// The round that gave a variable its value; only of those that had it at once.
    pub(in crate::runtime) fn round_of(&self, at: usize) -> u8 {
        self.rounds
            .get(at)
            .map_or(IN_ORDER, |round| round.load(Relaxed))
    }

    pub(in crate::runtime) fn end_tiles(&mut self) {
        self.first_own = 0;
        self.rounds = Vec::new();
        self.round = IN_ORDER;
    }

    /// A step ran before one that comes before it.
    #[inline]
    pub(in crate::runtime) fn is_out_of_order(&self) -> bool {
        self.out_of_order.load(Relaxed)
    }

    pub(in crate::runtime) fn mark_out_of_order(&self) {
        self.out_of_order.store(true, Relaxed);
    }

    /// Notes the use of something else that steps share; `last` is the round of the use before.
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

    /// Notes the use of a variable of another tile.
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

    /// Notes the change of a variable.
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
