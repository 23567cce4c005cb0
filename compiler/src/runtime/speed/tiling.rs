//! Many steps at once, in tiles that fit the cache.
//!
//! What is ready runs in rounds: all steps of a round, then all that they made ready
//! (docs/reference/language.md § 8.7). In a large model each round goes through the whole memory, and finds nothing of
//! it in the cache. So a large round is cut into tiles: the steps of one tile run with all that follows from them,
//! round by round, then those of the next tile. The steps are the same. Their order is the same for whatever they
//! share, or it counts as out of order and the model runs again without tiles: everything that steps share knows the
//! round of its last change, and the rounds of all that is done to it must not fall. Tiles share little, for one
//! service knows little of another one. Within a round tiles follow one another as their steps do, so what they do to
//! one thing is in the right order, and each of them sees what it should (they are serializable in the order of the
//! queue).
//!
//! What only depends on the order in which things were made is put in order afterwards: the wait queue, the numbers of
//! the units that still wait, and the instances.
//!
//! Steps must have no observer: a plugin that prints, or any code of Python, would see them in the order of the tiles. A
//! model may have such plugins and never call them, so the rule is about what happens: the first question to Python ends
//! a run that has tiles, before it is asked, and the model runs again without; and once Python was asked, no tiles begin.
//! So nothing is ever asked twice. What such a run has done is lost, therefore models are looked through for calls
//! beforehand ([`ModelState, Machine::may_be_observed`]), and those that may come to one never begin with tiles. Python gets to know
//! instances by their numbers in order of creation, which are those without tiles.

use crate::diagnostics::{Fail, runtime};
use crate::runtime::{InstId, Machine, ScopeId, Step};
use crate::span::Loc;

/// Least number of steps of a tile.
const TILE: usize = 64;
/// A round of fewer steps is not cut.
const LARGE: usize = 1000;
/// Nor is one that comes late, when tiles would mostly work on what was made before them: with more variables for each step.
const EARLY: usize = 8;

/// How steps are cut into tiles: the steps of a tile, and of a round that is cut, at least; variables that there are by then
/// for each of the steps, at most. For tests.
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    pub tile: usize,
    pub large: usize,
    pub early: usize,
}

impl Default for Tiling {
    fn default() -> Tiling {
        Tiling {
            tile: TILE,
            large: LARGE,
            early: EARLY,
        }
    }
}

/// What is known of tiles while a model runs.
pub(in crate::runtime) struct Tiles {
    /// Instances before it were not made in this tile.
    pub first_of_tile: InstId,
    /// Steps ran in tiles.
    pub has_tiles: bool,
    /// The run that goes on has tiles.
    pub runs_in_tiles: bool,
    /// Something was seen from outside, so that no run comes after this one.
    pub was_observed: bool,
}

impl Default for Tiles {
    fn default() -> Tiles {
        Tiles {
            first_of_tile: InstId(0),
            has_tiles: false,
            runs_in_tiles: false,
            was_observed: false,
        }
    }
}

/// How steps ran.
pub(in crate::runtime) enum Ran {
    InOrder,
    /// In tiles, and not as they would have run without them.
    OutOfOrder,
}

impl Machine<'_> {
    /// To be called before anything is seen from outside: an error if this run has had tiles, and runs again without.
    pub(in crate::runtime) fn be_observed(&mut self) -> Result<(), Fail> {
        self.tiles.was_observed = true;
        if self.tiles.runs_in_tiles {
            self.state.vars.mark_out_of_order();
            return Err(runtime(Loc::NONE, "observed in tiles"));
        }
        Ok(())
    }

    pub fn has_tiles(&self) -> bool {
        self.tiles.has_tiles
    }

    /// Runs all that is ready as [`Machine::run_steps`] does.
    pub(in crate::runtime) fn drain_in_tiles(&mut self, tiling: Tiling) -> Result<Ran, Fail> {
        loop {
            let n_ready = self.scheduler.ready.len();
            if n_ready == 0 {
                return Ok(Ran::InOrder);
            }
            let is_early = self.state.vars.len() / n_ready < tiling.early;
            if n_ready >= tiling.large && is_early && !self.tiles.was_observed {
                break;
            }
            self.run_steps(n_ready)?;
        }
        self.tiles.has_tiles = true;
        self.tiles.runs_in_tiles = true;
        if self.scheduler.numbers.has_overflown() {
            return Ok(Ran::OutOfOrder);
        }
        let wave = self.scheduler.ready.take_all();
        let n_warnings = self.report.warnings.len();
        let mut origins = wave.iter().map(|step| self.origin(step));
        let mut cuts = Vec::new();
        let (mut start, mut last) = (0, None);
        for at in 0..wave.len() {
            let origin = origins.next().flatten();
            let is_new = origin.is_none() || origin != last;
            if at - start >= tiling.tile && is_new {
                cuts.push(start..at);
                start = at;
            }
            last = origin;
        }
        cuts.push(start..wave.len());
        drop(origins);
        for tile in cuts {
            self.tiles.first_of_tile = InstId(self.state.instances.len() as u32);
            self.state.vars.start_tile();
            for step in &wave[tile] {
                self.scheduler.ready.push(*step);
            }
            self.run_steps(self.scheduler.ready.len())?;
            while !self.state.vars.is_out_of_order() && !self.scheduler.ready.is_empty() {
                self.state.vars.start_round();
                self.run_steps(self.scheduler.ready.len())?;
            }
            let said = self.report.warnings.len() > n_warnings
                || !self.report.unknown_parameters.is_empty();
            let is_too_much =
                said || self.state.heap.has_references() || self.scheduler.numbers.has_overflown();
            if is_too_much || self.state.vars.is_out_of_order() {
                return Ok(Ran::OutOfOrder);
            }
        }
        self.put_in_order();
        Ok(Ran::InOrder)
    }

    /// What steps of one tile have in common; `None`: nothing.
    fn origin(&self, step: &Step) -> Option<u64> {
        let (mut instance, mut scope) = match *step {
            Step::Constants { instance, .. } | Step::Implement { instance, .. } => {
                (instance, ScopeId::NONE)
            }
            Step::Direct { ref action, .. } => (InstId::NONE, action.scope()),
            Step::Task(task) => (InstId::NONE, self.scheduler.task(task).action.scope()),
        };
        if let Some(scope) = self.state.scopes.get(scope.index()) {
            instance = scope.maker;
        }
        if let Some(mut known) = self.state.instances.get(instance.index()) {
            while let Some(parent) = self.state.instances.get(known.parent.index()) {
                instance = known.parent;
                known = parent;
            }
            return Some(1 << 32 | u64::from(instance.0));
        }
        // The outermost scope that is not a namespace's.
        let mut outermost = None;
        while scope.index() >= self.state.root_scopes.len()
            && let Some(known) = self.state.scopes.get(scope.index())
        {
            outermost = Some(u64::from(scope.0));
            scope = known.parent;
        }
        outermost
    }

    /// What depends on the order in which things were made.
    fn put_in_order(&mut self) {
        self.scheduler.queue.put_in_order();
        self.state.put_in_order(self.python.host.is_some());
        self.scheduler.numbers.end_tiles();
    }
}
