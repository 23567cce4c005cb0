//! Runs a program: dataflow over arenas, exactly as docs/reference/language.md § 8 has it.
//!
//! A model says what is, not in which order: a statement may read a variable that a later statement
//! sets, and a list may get elements from anywhere. So nothing is evaluated when it is met. Each
//! statement becomes a *task* that waits for the variables it reads; when the last of them has its
//! value, the task becomes a *step* in the queue of what is ready; the step computes, sets
//! variables, and with that makes other tasks ready. Instances bring their implementations with
//! them, whose statements become tasks again, until nothing is left.
//!
//! Two kinds of variables do not say by themselves when they are done: a relation with many
//! elements, and one with one or none. Somebody who counts a list has to know that no element will
//! come any more. The machine decides that by a fixed rule when all else stands still
//! ([`scheduler::wait_queue`]). Some models mean something else under another rule, and existing
//! models were written against the rule of the reference implementation; so the order of all steps,
//! and of the decisions, is that of the reference, and everything in this folder has to keep it.
//!
//! Rooms, in the order in which a newcomer should read them:
//!
//! - [`scheduler`]: tasks, the queue of steps, and when a relation is complete. Start at
//!   [`scheduler::wait_queue`], whose `run` is the main loop.
//! - [`state`]: what there is to know: variables, instances, index tables, promises.
//! - [`exec`]: what each kind of statement and expression does. `exec/dependencies.rs` turns
//!   expressions into tasks, `exec/run.rs` runs steps, `exec/eval.rs` computes values.
//! - [`python_bridge`]: calls of plugins that run in the Python process, and what the export asks
//!   it for.
//! - [`report`]: what is said about a model with mistakes.
//! - [`speed`]: how a model with millions of variables stays in the cache of the processor. None of
//!   it changes an answer.
//!
//! Everything is an index: variables, tasks, scopes and instances are `u32` numbers into vectors
//! that only grow, so a value is copied without counting references, and a model is freed as a
//! whole. `VarId::NONE` and its like (all bits set) mean that there is none.

pub(super) mod exec;
pub(super) mod python_bridge;
pub(super) mod report;
pub(super) mod scheduler;
pub(super) mod speed;
pub(super) mod state;

use std::sync::atomic::{AtomicU32, Ordering};

use crate::breadcrumb::Breadcrumb;
use crate::diagnostics::{Fail, Warning, runtime};
use crate::hash::{Map, Set};
use crate::hir::{AttrId, BlockId, ComprehensionId, NamespaceId, Program, StmtId};
use crate::intern::Symbol;
use crate::protocol::ResourceClassInfo;
use crate::python_host::PluginHost;
use crate::span::Loc;
use crate::types::{EntityId, Heap, InstId, Value, index};
use crate::world::World;
use crate::{Options, UnknownParameter};

pub use crate::runtime::python_bridge::export::Mapped;
use crate::runtime::scheduler::steps::{Action, Pending, Step, Task};
use crate::runtime::speed::memory::{ARENA_BYTES, arena};
pub use crate::runtime::speed::prefetch::PREFETCHED_STEPS;
pub use crate::runtime::speed::tiling::Tiling;
use crate::runtime::state::delayed::Delayed;
pub use crate::runtime::state::model::ReadError;
use crate::runtime::state::var::Chain;
pub use crate::runtime::state::var::{Var, VarKind};
use crate::runtime::state::vars::Vars;

index! { VarId, TaskId, ScopeId, ListenerId, LoopId, RunId, PromiseGroupId }

macro_rules! none {
    ($($name:ident),*) => {$(
        impl $name {
            pub const NONE: $name = $name(u32::MAX);

            pub fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }
    )*};
}
none! { VarId, TaskId, ScopeId, ListenerId, PromiseGroupId, InstId }

/// No attribute.
const NO_ATTR: AttrId = AttrId(u32::MAX);

/// Depth of synchronous delivery from list to list.
const MAX_DELIVERY: u32 = 10_000;

/// Slots that are remembered; a power of two.
const FOUND_SLOTS: usize = 1024;
/// Variables for which there is one entry among the owners.
const OWNER_BLOCK: usize = 16;

/// The variables that one task waits for, in the order in which its evaluation will read them. Most
/// expressions read at most four.
pub type Dependencies = smallvec::SmallVec<[VarId; 4]>;

#[derive(Clone, Copy)]
enum Listener {
    Forward { target: VarId, loc: Loc },
    For(LoopId),
    Comprehension(RunId),
    Literal(VarId),
    Defined { task: TaskId, result: VarId },
}

#[derive(Clone, Copy)]
struct Scope {
    parent: ScopeId,
    /// First variable.
    base: VarId,
    instance: InstId,
    /// The instance behind what the scope's statements construct: its own, or the element of the loop that they are in.
    maker: InstId,
    namespace: NamespaceId,
}

pub struct Instance {
    pub entity: EntityId,
    /// First of its consecutive slots.
    pub slots: VarId,
    pub loc: Loc,
    /// Which implementations of its entity ran.
    ran: u64,
    /// The block in which it was constructed belongs to this instance, or is a loop's over it.
    parent: InstId,
    /// Length of the chain of parents.
    depth: u32,
}

struct ForLoop {
    stmt: StmtId,
    scope: ScopeId,
    group: PromiseGroupId,
    listener: ListenerId,
}

struct PromiseGroup {
    executed: bool,
    /// In tiles: the last round that used it.
    round: u8,
    slots: smallvec::SmallVec<[VarId; 2]>,
}

struct ComprehensionRun {
    comprehension: ComprehensionId,
    scope: ScopeId,
    result: VarId,
    /// Who gets the results one by one.
    listener: ListenerId,
    own_listener: ListenerId,
    context: VarId,
    elements: Vec<Value>,
    results: Vec<VarId>,
    /// In tiles: the last round that used it.
    round: u8,
}

/// Instances, and look-ups that found none yet, by the hash of their key.
#[derive(Default)]
struct Table {
    instances: hashbrown::HashTable<(u32, InstId)>,
    waiting: Map<u32, Vec<crate::runtime::state::lookup::Waiting>>,
    n_waiting: u64,
}

pub struct Machine<'a> {
    pub program: &'a Program,
    pub world: &'a dyn World,
    pub options: &'a Options,
    /// Where the number of the place goes that the machine is at.
    place: &'static AtomicU32,
    pub heap: Heap,
    pub host: Option<Box<dyn PluginHost>>,
    pub warnings: Vec<Warning>,
    pub unknown_parameters: Vec<UnknownParameter>,
    pub vars: Vars,
    free_vars: Vec<VarId>,
    delayed: Vec<Delayed>,
    free_delayed: Vec<u32>,
    cells: Vec<(u32, u32)>,
    free_cell: u32,
    listeners: Vec<Listener>,
    tasks: Vec<Task>,
    free_tasks: Vec<TaskId>,
    numbers: crate::runtime::scheduler::creation_order::CreationOrder,
    /// Elements that went from one list to another.
    n_delivered: u64,
    n_live: u64,
    ready: crate::runtime::scheduler::ready_queue::ReadyQueue,
    scopes: Vec<Scope>,
    pub instances: Vec<Instance>,
    /// For each block of variables: the newest instance that begins at or before the block.
    owners: Vec<InstId>,
    /// Places of repeated construction.
    again: Map<InstId, Vec<Loc>>,
    /// List relations that were set to null although they want values.
    wanting: Vec<VarId>,
    by_entity: Vec<Vec<InstId>>,
    /// Instances in the order in which they would have been made without tiles; those behind them were made later.
    creation: Vec<InstId>,
    /// Instances before it were not made in this tile.
    first_of_tile: InstId,
    /// The inverse, for who knows instances by number: the place of each among `creation`.
    creation_places: Vec<u32>,
    /// Steps ran in tiles.
    has_tiles: bool,
    /// The run that goes on has tiles.
    runs_in_tiles: bool,
    /// Something was seen from outside, so that no run comes after this one.
    was_observed: bool,
    /// So many instances, and memory is looked after again.
    n_next_look: usize,
    /// Of each entity.
    layouts: Vec<crate::runtime::state::layout::Layout>,
    many_ran: Set<(InstId, u32)>,
    loops: Vec<ForLoop>,
    promise_groups: Vec<PromiseGroup>,
    runs: Vec<ComprehensionRun>,
    tables: Vec<Table>,
    /// The attribute for which a constant is known to have the right type, and what its variable then is.
    checked: Vec<(AttrId, Var)>,
    /// Slots that were found lately, by entity and name.
    found_slots: Vec<std::cell::Cell<(EntityId, Symbol, u32)>>,
    call_args: Map<TaskId, crate::runtime::exec::calls::Arguments>,
    /// First variable of each namespace's root block.
    pub roots: Vec<VarId>,
    root_scopes: Vec<ScopeId>,
    queue: crate::runtime::scheduler::wait_queue::Queue,
    n_lookups: u64,
    /// For texts under construction.
    scratch: String,
    delivery_depth: u32,
    empty_list: Value,
    /// Why an annotation failed.
    annotation_errors: Vec<(EntityId, Fail)>,
    n_requests: u64,
    /// Python has given objects that only it knows.
    has_objects: bool,
    /// Of the resource that the first argument of a native plugin becomes, if Python calls it and knows.
    identity: Option<String>,
    /// Of Python, if an export found others than the program has.
    resource_classes: Option<Vec<ResourceClassInfo>>,
    templates: crate::runtime::exec::templates::TemplateCache,
    shared_program: std::sync::Arc<Program>,
    deprecated_seen: Set<u32>,
    /// Mistakes that were met after the first one of the same block.
    later_errors: Vec<Fail>,
    /// A mistake was met: nothing must be seen from outside any more.
    has_failed: bool,
    pub reference_models: crate::resources::ReferenceModels,
    /// Python objects of the instances that were made from dataclasses, or from references to such.
    dataclass_objects: Map<InstId, (u32, bool)>,
    /// The call of a plugin that runs now.
    python_loc: Loc,
    python_site: Option<crate::runtime::exec::calls::Site>,
    told: crate::runtime::python_bridge::told::Told,
    ahead: crate::runtime::python_bridge::ahead::Ahead,
    /// Texts that are objects of Python with more to them: the opaque ids.
    python_texts: Map<u32, u32>,
}

impl<'a> Machine<'a> {
    /// The machine is at this place of the model now, should its process be killed.
    #[inline]
    pub fn leave_place(&self, loc: Loc) {
        self.place.store(loc.0, Ordering::Relaxed);
    }

    pub fn new(
        program: &'a std::sync::Arc<Program>,
        heap: Heap,
        world: &'a dyn World,
        options: &'a Options,
    ) -> Self {
        let mut heap = heap;
        heap.reserve(ARENA_BYTES);
        let empty_list = heap.new_list(&[]);
        Machine {
            program,
            world,
            options,
            place: Breadcrumb::target(options.breadcrumb.as_deref()),
            heap,
            host: None,
            warnings: Vec::new(),
            unknown_parameters: Vec::new(),
            vars: Vars::new(),
            free_vars: arena(),
            delayed: arena(),
            free_delayed: Vec::new(),
            cells: arena(),
            free_cell: u32::MAX,
            listeners: arena(),
            tasks: arena(),
            free_tasks: arena(),
            numbers: crate::runtime::scheduler::creation_order::CreationOrder::default(),
            n_delivered: 0,
            n_live: 0,
            ready: crate::runtime::scheduler::ready_queue::ReadyQueue::default(),
            scopes: arena(),
            instances: arena(),
            owners: arena(),
            again: Map::default(),
            wanting: Vec::new(),
            by_entity: program.entities.iter().map(|_| Vec::new()).collect(),
            creation: Vec::new(),
            first_of_tile: InstId(0),
            creation_places: Vec::new(),
            has_tiles: false,
            runs_in_tiles: false,
            was_observed: false,
            n_next_look: crate::runtime::speed::memory::FIRST_LOOK,
            layouts: crate::runtime::state::layout::layouts(program),
            many_ran: Set::default(),
            loops: Vec::new(),
            promise_groups: Vec::new(),
            runs: Vec::new(),
            tables: (0..program.n_tables).map(|_| Table::default()).collect(),
            checked: vec![(NO_ATTR, Var::new(VarKind::Plain, true)); program.exprs.len()],
            found_slots: vec![
                std::cell::Cell::new((EntityId(u32::MAX), Symbol(0), 0));
                FOUND_SLOTS
            ],
            call_args: Map::default(),
            roots: Vec::new(),
            root_scopes: Vec::new(),
            queue: crate::runtime::scheduler::wait_queue::Queue::new(program.policy.len()),
            n_lookups: 0,
            scratch: String::new(),
            delivery_depth: 0,
            empty_list,
            annotation_errors: Vec::new(),
            n_requests: 0,
            has_objects: false,
            identity: None,
            resource_classes: None,
            templates: crate::runtime::exec::templates::TemplateCache::default(),
            shared_program: std::sync::Arc::clone(program),
            deprecated_seen: Set::default(),
            later_errors: Vec::new(),
            has_failed: false,
            reference_models: Map::default(),
            dataclass_objects: Map::default(),
            python_loc: Loc::NONE,
            python_site: None,
            told: crate::runtime::python_bridge::told::Told::default(),
            ahead: crate::runtime::python_bridge::ahead::Ahead::default(),
            python_texts: Map::default(),
        }
    }

    pub fn instances_of(&self, entity: EntityId) -> &[InstId] {
        &self.by_entity[entity.index()]
    }

    pub fn instance(&self, id: InstId) -> &Instance {
        &self.instances[id.index()]
    }

    /// The variable of an attribute.
    pub fn slot(&self, instance: InstId, name: Symbol) -> Option<VarId> {
        let instance = self.instance(instance);
        let entity = instance.entity;
        let place = (entity.0 as usize)
            .wrapping_mul(31)
            .wrapping_add(name.0 as usize)
            % FOUND_SLOTS;
        let place = &self.found_slots[place];
        let (of, known, slot) = place.get();
        if (of, known) == (entity, name) {
            return Some(VarId(instance.slots.0 + slot));
        }
        let slot = *self.program.entity(entity).slot_of.get(&name)?;
        place.set((entity, name, slot));
        Some(VarId(instance.slots.0 + slot))
    }

    /// The instance of a slot.
    pub fn owner(&self, slot: VarId) -> InstId {
        let block = slot.index() / OWNER_BLOCK;
        // Past the last entry there is only the newest instance.
        let newest = self.instances.len().saturating_sub(1);
        let mut at = self.owners.get(block).map_or(newest, |id| id.index());
        while let Some(next) = self.instances.get(at + 1)
            && next.slots.0 <= slot.0
        {
            at += 1;
        }
        InstId(at as u32)
    }

    /// The attribute of a slot.
    fn attr(&self, slot: VarId) -> AttrId {
        let instance = self.instance(self.owner(slot));
        self.program.entity(instance.entity).slots[(slot.0 - instance.slots.0) as usize]
    }

    /// The variable behind proxies.
    #[inline]
    fn target(&self, mut id: VarId) -> VarId {
        while let Some(target) = self.vars[id.index()].target() {
            id = target;
        }
        id
    }

    #[inline]
    pub fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }

    /// The same, for what does not depend on when it is asked: its kind, or its state after a look of the same step, or
    /// its value when it is known to be there.
    #[inline]
    fn known(&self, id: VarId) -> &Var {
        self.vars.peek(id.index())
    }

    /// The variable behind proxies that have their targets.
    #[inline]
    fn known_target(&self, mut id: VarId) -> VarId {
        while let Some(target) = self.known(id).target() {
            id = target;
        }
        id
    }

    fn is_ready(&self, id: VarId) -> bool {
        self.known(self.target(id)).is_ready()
    }

    fn add_var(&mut self, kind: VarKind) -> VarId {
        self.vars.push(Var::new(kind, false));
        VarId(self.vars.len() as u32 - 1)
    }

    fn temporary(&mut self) -> VarId {
        self.recycled(VarKind::Temporary)
    }

    fn recycled(&mut self, kind: VarKind) -> VarId {
        match self.free_vars.pop() {
            Some(id) => {
                self.vars.renew(id.index(), Var::new(kind, false));
                id
            }
            None => self.add_var(kind),
        }
    }

    fn add_scope(
        &mut self,
        parent: ScopeId,
        block: BlockId,
        instance: InstId,
        namespace: NamespaceId,
    ) -> ScopeId {
        let n_variables = self.program.blocks[block.index()].variables.len();
        self.push_scope(parent, n_variables, VarKind::Plain, instance, namespace)
    }

    fn push_scope(
        &mut self,
        parent: ScopeId,
        n_variables: usize,
        kind: VarKind,
        instance: InstId,
        namespace: NamespaceId,
    ) -> ScopeId {
        let base = VarId(self.vars.len() as u32);
        for _ in 0..n_variables {
            self.add_var(kind);
        }
        self.scopes.push(Scope {
            parent,
            base,
            instance,
            maker: match parent.is_some() {
                true => self.scopes[parent.index()].maker,
                false => instance,
            },
            namespace,
        });
        ScopeId(self.scopes.len() as u32 - 1)
    }

    /// What a loop constructs for an element comes from that element.
    fn set_maker(&mut self, scope: ScopeId, item: Value) {
        if let Value::Instance(item) = item {
            let maker = self.scopes[scope.index()].maker;
            if !maker.is_some() || self.instance(item).depth >= self.instance(maker).depth {
                self.scopes[scope.index()].maker = item;
            }
        }
    }

    /// Frees what only the execution needs.
    pub fn forget_execution(&mut self) {
        self.tasks = Vec::new();
        self.free_tasks = Vec::new();
        self.delayed = Vec::new();
        self.free_delayed = Vec::new();
        self.free_vars = Vec::new();
        self.cells = Vec::new();
        self.listeners = Vec::new();
        self.scopes = Vec::new();
        self.loops = Vec::new();
        self.promise_groups = Vec::new();
        self.runs = Vec::new();
        self.checked = Vec::new();
        self.ready = crate::runtime::scheduler::ready_queue::ReadyQueue::default();
        self.queue = crate::runtime::scheduler::wait_queue::Queue::new(0);
    }

    fn add_listener(&mut self, listener: Listener) -> ListenerId {
        self.listeners.push(listener);
        ListenerId(self.listeners.len() as u32 - 1)
    }

    pub(super) fn check_limits(&self, loc: Loc) -> Result<(), Fail> {
        const MAX_ELEMENTS: usize = 200_000_000;
        let limits = &self.options.limits;
        let too_much = if self.instances.len() > limits.instances {
            format!("has more than {} instances", limits.instances)
        } else if self.heap.text_bytes() > limits.text_bytes {
            format!("makes more than {} bytes of text", limits.text_bytes)
        } else if self.heap.n_elements() > MAX_ELEMENTS {
            format!("makes lists of more than {MAX_ELEMENTS} elements")
        } else {
            return Ok(());
        };
        let message = format!("the model {too_much}: {}", self.construct_chain());
        Err(runtime(loc, message).help("look for what is constructed again and again"))
    }

    /// How the newest instance came to be, for the message about runaway models.
    fn construct_chain(&self) -> String {
        let mut names = Vec::new();
        let mut at = self.instances.last();
        while let Some(instance) = at {
            names.push(self.program.entity_name(instance.entity));
            if names.len() == 10 || !instance.parent.is_some() {
                break;
            }
            at = self.instances.get(instance.parent.index());
        }
        names.reverse();
        format!("… → {}", names.join(" → "))
    }
}
