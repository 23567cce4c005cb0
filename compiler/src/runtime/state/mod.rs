//! What a run knows: variables, instances, scopes, index tables.
//!
//! - `var`, `vars`, `variables`: a variable in 8 bytes, all of them with what tiles need to know of
//!   each, and how they are made and found.
//! - `delayed`: variables that get their values bit by bit, or none: relations and list literals.
//! - `waiters`: who waits for a variable.
//! - `instances`, `creation`, `layout`: instances, the order in which they were made, and what a
//!   new one begins with.
//! - `scopes`: the variables of blocks.
//! - `store`: giving a value to a variable, with inverses and multiplicities.
//! - `lookup`: instances by the values of an index, and lookups that wait for one.
//! - `model`, `resource_ids`: the model as native plugins, the export and Python see it.

pub(in crate::runtime) mod creation;
pub(in crate::runtime) mod delayed;
pub(in crate::runtime) mod instances;
pub(in crate::runtime) mod layout;
pub(in crate::runtime) mod lookup;
pub(in crate::runtime) mod model;
pub(in crate::runtime) mod resource_ids;
pub(in crate::runtime) mod scopes;
pub(in crate::runtime) mod store;
pub(in crate::runtime) mod var;
pub(in crate::runtime) mod variables;
pub(in crate::runtime) mod vars;
pub(in crate::runtime) mod waiters;

use std::cell::Cell;

use crate::hash::Map;
use crate::hir::Program;
use crate::intern::Symbol;
use crate::pages::prefer_large;
use crate::runtime::speed::memory::{ARENA_BYTES, arena};
use crate::runtime::state::delayed::{Delayed, FrozenMembers};
use crate::runtime::state::instances::{FOUND_SLOTS, Instance};
use crate::runtime::state::lookup::Table;
use crate::runtime::state::scopes::Scope;
use crate::runtime::state::vars::Vars;
use crate::runtime::{ScopeId, VarId};
use crate::span::Loc;
use crate::types::{EntityId, Heap, InstId, Value};

/// The model as far as it is known: every value, variable, instance and scope that the run has made, and what finds them.
///
/// Everything lies in arenas and is named by its number in them. Nothing here knows what runs next: a change that somebody
/// waits for is told to the scheduler by those who make it.
pub struct ModelState<'a> {
    /// The program that runs.
    pub(in crate::runtime) program: &'a Program,
    /// Texts, lists, dictionaries and whatever else a value refers to.
    pub heap: Heap,
    /// All variables.
    pub vars: Vars,
    /// Variables whose one reader has run: they become others.
    free_vars: Vec<VarId>,
    /// What is known of variables that get their values bit by bit.
    delayed: Vec<Delayed>,
    free_delayed: Vec<u32>,
    /// Of large relations that are complete and were given what they have again, how their elements are found.
    frozen_members: Map<VarId, FrozenMembers>,
    /// Links of the chains of those who wait: a task, or a proxy's listener, and the next cell.
    cells: Vec<(u32, u32)>,
    /// The first cell that is free; each has the next one in the place of its payload's link.
    free_cell: u32,
    /// All scopes.
    pub(in crate::runtime) scopes: Vec<Scope>,
    /// First variable of each namespace's root block.
    pub roots: Vec<VarId>,
    /// The scope of each namespace's root block.
    pub(in crate::runtime) root_scopes: Vec<ScopeId>,
    /// All instances, in the order in which they were made, which is another one in tiles: see
    /// `creation`.
    pub instances: Vec<Instance>,
    /// For each block of variables: the newest instance that begins at or before the block.
    owners: Vec<InstId>,
    /// Places of repeated construction.
    again: Map<InstId, Vec<Loc>>,
    by_entity: Vec<Vec<InstId>>,
    /// Instances in the order in which they would have been made without tiles; those behind them were made later.
    creation: Vec<InstId>,
    /// The inverse, for who knows instances by number: the place of each among `creation`.
    creation_places: Vec<u32>,
    tables: Vec<Table>,
    n_lookups: u64,
    /// Slots that were found lately, by entity and name.
    found_slots: Vec<Cell<(EntityId, Symbol, u32)>>,
    empty_list: Value,
}

impl<'a> ModelState<'a> {
    /// The state of a model in which nothing has run.
    pub fn new(program: &'a Program, mut heap: Heap) -> Self {
        heap.reserve(ARENA_BYTES);
        let empty_list = heap.new_list(&[]);
        ModelState {
            program,
            heap,
            vars: Vars::new(),
            free_vars: arena(),
            delayed: arena(),
            free_delayed: Vec::new(),
            frozen_members: Map::default(),
            cells: arena(),
            free_cell: u32::MAX,
            scopes: arena(),
            roots: Vec::new(),
            root_scopes: Vec::new(),
            instances: arena(),
            owners: arena(),
            again: Map::default(),
            by_entity: program.entities.iter().map(|_| Vec::new()).collect(),
            creation: Vec::new(),
            creation_places: Vec::new(),
            tables: (0..program.n_tables).map(|_| Table::default()).collect(),
            n_lookups: 0,
            found_slots: vec![Cell::new((EntityId(u32::MAX), Symbol(0), 0)); FOUND_SLOTS],
            empty_list,
        }
    }

    /// Frees what nobody needs when the model is complete.
    pub fn free_execution(&mut self) {
        self.delayed = Vec::new();
        self.free_delayed = Vec::new();
        self.frozen_members = Map::default();
        self.free_vars = Vec::new();
        self.cells = Vec::new();
        self.scopes = Vec::new();
    }

    pub(in crate::runtime) fn prefer_large_pages(&self) {
        self.heap.prefer_large_pages();
        self.vars.prefer_large_pages();
        prefer_large(&self.free_vars, self.free_vars.capacity());
        prefer_large(&self.delayed, self.delayed.capacity());
        prefer_large(&self.free_delayed, self.free_delayed.capacity());
        prefer_large(&self.cells, self.cells.capacity());
        prefer_large(&self.scopes, self.scopes.capacity());
        prefer_large(&self.instances, self.instances.capacity());
        prefer_large(&self.owners, self.owners.capacity());
    }
}
