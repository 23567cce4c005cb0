//! Instances in the order in which they were made, which the tiles of a large model
//! (`runtime/speed/tiling.rs`) do not keep.
//!
//! In tiles, an instance gets its number when its tile makes it, before those of later tiles that
//! belong to earlier rounds. What is seen of the order (numbers that Python knows, lists of all
//! instances, the export) is that of a run without tiles: sorted by the round that made each, and
//! within a round as they came.

use crate::runtime::{ModelState, VarId};
use crate::types::InstId;

/// Sorts by rounds (1 to 254), and keeps the order within each. It counts first and places then, so
/// it takes two passes.
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

impl ModelState<'_> {
    /// The number of an instance in order of creation, as Python knows it. Only in runs with tiles
    /// it is another one than the id.
    pub fn number_of(&self, id: InstId) -> u32 {
        self.creation_places
            .get(id.index())
            .copied()
            .unwrap_or(id.0)
    }

    /// The instance with a number in order of creation; `None`: there is none.
    pub fn of_number(&self, number: u32) -> Option<InstId> {
        let known = self.creation.get(number as usize).copied();
        let id = known.unwrap_or(InstId(number));
        (id.index() < self.instances.len()).then_some(id)
    }

    /// After tiles: everything as it would be without them. `is_numbered`: somebody knows instances by their numbers.
    pub(in crate::runtime) fn put_in_order(&mut self, is_numbered: bool) {
        let (vars, instances) = (&self.vars, &self.instances);
        let made_in = |id: InstId| {
            let this = VarId(instances[id.index()].slots.0 - 1);
            vars.round_of(this.index())
        };
        for all in &mut self.by_entity {
            *all = by_round(all, |id| made_in(*id));
        }
        let all: Vec<InstId> = (0..instances.len() as u32).map(InstId).collect();
        self.creation = by_round(&all, |id| made_in(*id));
        if is_numbered {
            self.creation_places = vec![0; self.creation.len()];
            for (place, id) in self.creation.iter().enumerate() {
                self.creation_places[id.index()] = place as u32;
            }
        }
        self.vars.end_tiles();
    }

    /// Sorts instances as they would have been made without tiles.
    pub fn sort_by_creation(&self, instances: &mut [InstId]) {
        let mut places: Vec<usize> = (0..self.instances.len()).collect();
        for (place, id) in self.creation.iter().enumerate() {
            places[id.index()] = place;
        }
        instances.sort_by_key(|id| places[id.index()]);
    }

    /// All instances, as they would have been made without tiles.
    pub fn in_order_of_creation(&self) -> Vec<InstId> {
        let others = self.creation.len() as u32..self.instances.len() as u32;
        let known = self.creation.iter().copied();
        known.chain(others.map(InstId)).collect()
    }
}
