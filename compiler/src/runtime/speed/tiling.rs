//! Many steps at once, in tiles that fit the cache.
//!
//! # What for
//!
//! What is ready runs in rounds: all steps of a round, then all that they made ready
//! (docs/reference/language.md § 8.7). Take a loop that makes 100 000 services, each with some
//! hundred variables. Round 1 constructs every service, round 2 sets the attributes of every
//! service, round 3 decides the conditions of every service, and so on. Each round goes through the
//! whole memory of the model, and finds nothing of it in the cache.
//!
//! So a large round is cut into *tiles*: the steps of one tile run with all that follows from them,
//! round by round, then those of the next tile. With 64 services a tile, a service is constructed,
//! refined and finished while it is in the cache. The steps are the same; only their order is
//! another one.
//!
//! ```text
//! order of the queue     a1 b1 c1 d1 | a2 b2 c2 d2 | a3 b3 c3 d3       (letter: service, digit: round)
//! in tiles of two        a1 b1 a2 b2 a3 b3 | c1 d1 c2 d2 c3 d3
//! ```
//!
//! # Why nobody notices
//!
//! Steps of different services mostly share nothing, and then their order does not matter. For what
//! they share, a use counts as done at (round, tile), and the right order of uses is by round
//! first, then by tile. Tiles run one after the other, so between two uses of one thing in the
//! wrong order there is always the same sign: the later one is of a *smaller round* than the one
//! before. In the picture: if `b3` added to a list and `c1` reads it, `c1` is of round 1 where the
//! list says 3; it should have come first.
//!
//! Hence everything that steps share knows the round of its last use: variables
//! ([`Vars`](crate::runtime::state::vars::Vars)), counts of tasks, promise groups, comprehensions,
//! lookups that wait. The invariant: *the rounds of all that is done to one thing must not fall*. A
//! step that breaks it marks the run as out of order. Within one round tiles follow one another as
//! their steps do in the queue, so uses of one round are in the right order, and each step sees
//! what it should. (In the words of databases: the tiles are serializable in the order of the
//! queue.)
//!
//! What only depends on the order in which things were made is put in order afterwards
//! ([`Machine::put_in_order`]): the wait queue, the numbers of tasks that still wait, and the
//! instances, each sorted by round and, within one, as they came.
//!
//! # Rollback
//!
//! There is none, in the sense that nothing is undone. A run that is out of order, meets a mistake
//! of the model, warns, or makes references is thrown away as a whole, and a new machine runs the
//! model in the order of the queue (`lib.rs`, where [`Machine::complete_in_tiles`] gives `None`).
//! This costs the time until then, and happens seldom: steps that meet in one list usually meet in
//! the order of the queue. Mistakes are told by the second run only, because the first may have met
//! another one first.
//!
//! # Observers
//!
//! Nobody may see steps in the order of tiles: a plugin that prints, or any code of Python, would.
//! A model may have such plugins and never call them, so the rule is about what happens: the first
//! request to Python ends a run that has tiles *before* it is sent ([`Machine::be_observed`]), and
//! once something was observed, no tiles begin. So nothing is ever asked twice. What such a run has
//! done is lost, therefore models are looked through for calls beforehand
//! ([`Machine::may_be_observed`]), and those that may come to one never begin with tiles. Python
//! gets to know instances by their numbers in order of creation, which are those without tiles.

use crate::diagnostics::{Fail, runtime};
use crate::runtime::{InstId, Machine, ScopeId, Step};
use crate::span::Loc;

/// Least number of steps of a tile: so few that what they make stays in the second cache of a
/// processor, and so many that beginning a tile costs nothing beside them.
const TILE: usize = 64;
/// A round of fewer steps is not cut: all that it uses fits the cache anyway.
const LARGE: usize = 1000;
/// Nor is a round that comes late, when tiles would mostly work on what was made before them, which
/// no order brings back into the cache: this many variables for each of its steps, or more.
const EARLY: usize = 8;

/// How steps are cut into tiles. The default is what is measured to be fast; tests take small
/// numbers, so that small models have tiles.
#[derive(Clone, Copy, Debug)]
pub struct Tiling {
    /// Steps of the first round of a tile, at least.
    pub tile: usize,
    /// Steps of a round that is cut, at least.
    pub large: usize,
    /// Variables of the model for each step of the round, below which a round is cut.
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

/// How a run went.
pub(in crate::runtime) enum Ran {
    /// As the queue says; or in tiles that nobody can tell from it.
    InOrder,
    /// In tiles, and not as without them: the run must be thrown away.
    OutOfOrder,
}

impl Machine<'_> {
    /// To be called before anything is seen from outside. If this run has had tiles, it is an error
    /// that ends the run, and the model runs again without.
    pub(in crate::runtime) fn be_observed(&mut self) -> Result<(), Fail> {
        self.tiles.was_observed = true;
        if self.tiles.runs_in_tiles {
            self.state.vars.mark_out_of_order();
            return Err(runtime(Loc::NONE, "observed in tiles"));
        }
        Ok(())
    }

    /// Whether that was called, so that it does nothing any more.
    pub(in crate::runtime) fn is_observed(&self) -> bool {
        self.tiles.was_observed && !self.tiles.runs_in_tiles
    }

    /// Whether some of the steps ran in tiles.
    pub fn has_tiles(&self) -> bool {
        self.tiles.has_tiles
    }

    /// Runs all that is ready, and what follows from it, as [`Machine::run_steps`] does. Rounds run
    /// whole until one is large enough to be cut; that one is, and its tiles take all that comes
    /// after with them. So a run has tiles once.
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
            let has_reported = self.report.warnings.len() > n_warnings
                || !self.report.unknown_parameters.is_empty();
            let is_too_much = has_reported
                || self.state.heap.has_references()
                || self.scheduler.numbers.has_overflown();
            if is_too_much || self.state.vars.is_out_of_order() {
                return Ok(Ran::OutOfOrder);
            }
        }
        self.put_in_order();
        Ok(Ran::InOrder)
    }

    /// What steps have in common that belong into one tile: the outermost instance whose
    /// implementations they come from, or the loop body that they are in. A tile ends only where
    /// the origin changes. `None`: the step has nothing in common with others.
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

    /// Sorts by the order of the queue what depends on the order in which things were made. An
    /// instance is of the round that gave its `self` variable, the one before its slots, a value.
    fn put_in_order(&mut self) {
        self.scheduler.queue.put_in_order();
        self.state.put_in_order(self.python.host.is_some());
        self.scheduler.numbers.end_tiles();
    }
}
