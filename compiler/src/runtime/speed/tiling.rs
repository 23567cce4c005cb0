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
//! beforehand ([`Machine::may_be_observed`]), and those that may come to one never begin with tiles. Python gets to know
//! instances by their numbers in order of creation, which are those without tiles.

use crate::diagnostics::{Fail, runtime};
use crate::runtime::{InstId, Machine, ScopeId, Step, VarId};
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

/// How steps ran.
pub(in crate::runtime) enum Ran {
    InOrder,
    /// In tiles, and not as they would have run without them.
    OutOfOrder,
}

/// Sorts by rounds, and keeps the order within them.
fn by_round<T: Copy>(items: &[T], round: impl Fn(&T) -> u8) -> Vec<T> {
    let mut places = [0; 256];
    for item in items {
        places[usize::from(round(item))] += 1;
    }
    let mut n_before = 0;
    for place in &mut places {
        n_before += std::mem::replace(place, n_before);
    }
    let mut sorted = items.to_vec();
    for item in items {
        let place = &mut places[usize::from(round(item))];
        sorted[*place] = *item;
        *place += 1;
    }
    sorted
}

impl Machine<'_> {
    /// To be called before anything is seen from outside: an error if this run has had tiles, and runs again without.
    pub(in crate::runtime) fn be_observed(&mut self) -> Result<(), Fail> {
        self.was_observed = true;
        if self.runs_in_tiles {
            self.vars.mark_out_of_order();
            return Err(runtime(Loc::NONE, "observed in tiles"));
        }
        Ok(())
    }

    /// The number of an instance by creation, as Python knows it.
    pub fn number_of(&self, id: InstId) -> u32 {
        self.creation_places
            .get(id.index())
            .copied()
            .unwrap_or(id.0)
    }

    /// The instance with a number.
    pub fn of_number(&self, number: u32) -> Option<InstId> {
        let known = self.creation.get(number as usize).copied();
        let id = known.unwrap_or(InstId(number));
        (id.index() < self.instances.len()).then_some(id)
    }

    pub fn has_tiles(&self) -> bool {
        self.has_tiles
    }

    /// Runs all that is ready as [`Machine::run_steps`] does.
    pub(in crate::runtime) fn drain_in_tiles(&mut self, tiling: Tiling) -> Result<Ran, Fail> {
        loop {
            let n_ready = self.ready.len();
            if n_ready == 0 {
                return Ok(Ran::InOrder);
            }
            let is_early = self.vars.len() / n_ready < tiling.early;
            if n_ready >= tiling.large && is_early && !self.was_observed {
                break;
            }
            self.run_steps(n_ready)?;
        }
        self.has_tiles = true;
        self.runs_in_tiles = true;
        if self.numbers.has_overflown() {
            return Ok(Ran::OutOfOrder);
        }
        let wave = self.ready.take_all();
        let n_warnings = self.warnings.len();
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
            self.first_of_tile = InstId(self.instances.len() as u32);
            self.vars.start_tile();
            for step in &wave[tile] {
                self.ready.push(*step);
            }
            self.run_steps(self.ready.len())?;
            while !self.vars.is_out_of_order() && !self.ready.is_empty() {
                self.vars.start_round();
                self.run_steps(self.ready.len())?;
            }
            let said = self.warnings.len() > n_warnings || !self.unknown_parameters.is_empty();
            let is_too_much = said || self.heap.has_references() || self.numbers.has_overflown();
            if is_too_much || self.vars.is_out_of_order() {
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
            Step::Task(task) => (InstId::NONE, self.tasks[task.index()].action.scope()),
        };
        if let Some(scope) = self.scopes.get(scope.index()) {
            instance = scope.maker;
        }
        if let Some(mut known) = self.instances.get(instance.index()) {
            while let Some(parent) = self.instances.get(known.parent.index()) {
                instance = known.parent;
                known = parent;
            }
            return Some(1 << 32 | u64::from(instance.0));
        }
        // The outermost scope that is not a namespace's.
        let mut outermost = None;
        while scope.index() >= self.root_scopes.len()
            && let Some(known) = self.scopes.get(scope.index())
        {
            outermost = Some(u64::from(scope.0));
            scope = known.parent;
        }
        outermost
    }

    /// What depends on the order in which things were made.
    fn put_in_order(&mut self) {
        self.queue.put_in_order();
        let vars = &self.vars;
        let instances = &self.instances;
        let made_in = |id: InstId| {
            let this = VarId(instances[id.index()].slots.0 - 1);
            vars.round_of(this.index())
        };
        for all in &mut self.by_entity {
            *all = by_round(all, |id| made_in(*id));
        }
        let all: Vec<InstId> = (0..instances.len() as u32).map(InstId).collect();
        self.creation = by_round(&all, |id| made_in(*id));
        if self.host.is_some() {
            self.creation_places = vec![0; self.creation.len()];
            for (place, id) in self.creation.iter().enumerate() {
                self.creation_places[id.index()] = place as u32;
            }
        }
        self.vars.end_tiles();
        self.numbers.end_tiles();
    }

    /// As without tiles.
    pub fn sort_by_creation(&self, instances: &mut [InstId]) {
        let mut places: Vec<usize> = (0..self.instances.len()).collect();
        for (place, id) in self.creation.iter().enumerate() {
            places[id.index()] = place;
        }
        instances.sort_by_key(|id| places[id.index()]);
    }

    /// All instances, as they were made.
    pub fn in_order_of_creation(&self) -> Vec<InstId> {
        let others = self.creation.len() as u32..self.instances.len() as u32;
        let known = self.creation.iter().copied();
        known.chain(others.map(InstId)).collect()
    }
}
