//! Runs a program: dataflow over arenas, exactly as language.md 8 has it.
//!
//! Start reading at [`Machine::run`] in `schedule`; `needs` creates units, `run` executes them, `eval` computes values,
//! `store` and `freeze` change variables. Everything is an index: variables, units, scopes and instances are `u32`.

mod calls;
mod comprehension;
mod construct;
mod control;
mod describe;
mod eval;
mod finish;
mod gradual;
mod jinja;
mod lookup;
mod model;
mod needs;
mod promises;
mod python;
mod rest;
mod run;
mod schedule;
mod store;
mod templates;
mod units;
mod validate;
mod var;
mod waits;

use std::collections::VecDeque;

use crate::diagnostics::{Fail, Warning, runtime};
use crate::hash::{Map, Set};
use crate::hir::{
    AttrId, BlockId, ComprehensionId, ConstructId, ExprId, ImplementId, NamespaceId, Program,
    StmtId,
};
use crate::intern::Symbol;
use crate::plugins::PluginHost;
use crate::span::Loc;
use crate::types::{EntityId, Heap, InstId, Value, index};
use crate::world::World;
use crate::{Options, UnknownParameter};

pub use model::ReadError;
use var::Chain;
pub use var::{Var, VarKind};

index! { VarId, UnitId, ScopeId, ListenerId, LoopId, RunId, HolderId }

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
none! { VarId, ScopeId, ListenerId, HolderId, InstId, AttrId }

/// Ends of a compile that would never end by itself.
const MAX_UNITS: u64 = 50_000_000;
const MAX_INSTANCES: usize = 10_000_000;
/// An instance whose implementation constructed one whose implementation constructed one …: so many times.
const MAX_CHAIN: u32 = 100_000;
/// Depth of synchronous delivery from list to list.
const MAX_DELIVERY: u32 = 10_000;

pub type Needs = smallvec::SmallVec<[VarId; 4]>;

/// What is known of a variable whose value is not complete. Variables that nobody uses have none.
struct Delayed {
    elements: Vec<Value>,
    /// Keys of the elements, once there are many.
    known: Option<Box<Set<u64>>>,
    listeners: Vec<ListenerId>,
    chain: Chain,
    waiters: i32,
    /// Waits that are purely gradual.
    gradual: i32,
    open: u32,
    /// Items of a list literal that were not delivered yet.
    items: u32,
    /// Creation of the first waiter as the candidates know it.
    candidate_seq: u32,
    in_hot: bool,
    in_candidates: bool,
}

impl Delayed {
    const NEW: Delayed = Delayed {
        elements: Vec::new(),
        known: None,
        listeners: Vec::new(),
        chain: Chain::EMPTY,
        waiters: 0,
        gradual: 0,
        open: 0,
        items: 0,
        candidate_seq: 0,
        in_hot: false,
        in_candidates: false,
    };
}

#[derive(Clone, Copy)]
enum Listener {
    Forward { target: VarId, loc: Loc },
    For(LoopId),
    Comprehension(RunId),
    Literal(VarId),
    Defined { unit: UnitId, result: VarId },
}

/// A pending computation.
struct Unit {
    missing: u32,
    /// Number by creation.
    seq: u32,
    action: Action,
    needs: Needs,
}

/// What is ready to run, in order. A run of steps that follow one another in the queue and wait for nothing is one entry.
#[derive(Clone, Copy)]
enum Step {
    Unit(UnitId),
    /// Constants of a constructor into plain attributes: arguments `from` to `to` of the indirect ones.
    Constants {
        construct: ConstructId,
        from: u16,
        to: u16,
        instance: InstId,
    },
    /// Unconditional `implement` entries `from` to `to` of an instance's entity.
    Implement {
        instance: InstId,
        from: u16,
        to: u16,
        loc: Loc,
    },
}

#[derive(Clone, Copy)]
enum Action {
    /// Nothing: the unit is free.
    Idle,
    /// Answered before all it waits for is ready; it must not run any more.
    Cancelled,
    Stmt {
        stmt: StmtId,
        scope: ScopeId,
    },
    Attr {
        expr: ExprId,
        scope: ScopeId,
        proxy: VarId,
    },
    Logic {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    LogicRight {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    Ternary {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    Branch {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        listener: ListenerId,
        context: VarId,
    },
    Defined {
        result: VarId,
    },
    DefinedAttr {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    Call {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    Query {
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
    },
    Item {
        expr: ExprId,
        scope: ScopeId,
        literal: VarId,
        listener: ListenerId,
        context: VarId,
    },
    /// Stores a value into a slot.
    Store {
        expr: ExprId,
        scope: ScopeId,
        slot: VarId,
        listener: ListenerId,
        loc: Loc,
    },
    /// The completion of a `for`.
    For {
        run: LoopId,
    },
    If {
        stmt: StmtId,
        scope: ScopeId,
        holder: HolderId,
    },
    Implement {
        implement: ImplementId,
        scope: ScopeId,
        instance: InstId,
        loc: Loc,
    },
    Promise {
        stmt: StmtId,
        which: u32,
        scope: ScopeId,
        holder: HolderId,
    },
    /// The iterable of a comprehension is complete.
    Iterable {
        run: RunId,
    },
    /// One element's result.
    Element {
        run: RunId,
        result: VarId,
        scope: ScopeId,
    },
    /// All results are there.
    Collect {
        run: RunId,
    },
    Annotation {
        which: u32,
        scope: ScopeId,
    },
}

#[derive(Clone, Copy)]
struct Scope {
    parent: ScopeId,
    /// First variable.
    base: VarId,
    instance: InstId,
    namespace: NamespaceId,
}

pub struct Instance {
    pub entity: EntityId,
    /// First of its consecutive slots.
    pub slots: VarId,
    pub loc: Loc,
    /// Which implementations of its entity ran.
    ran: u64,
    /// The block in which it was constructed belongs to this instance.
    parent: InstId,
    /// Length of the chain of parents.
    depth: u32,
}

struct Loop {
    stmt: StmtId,
    scope: ScopeId,
    holder: HolderId,
    listener: ListenerId,
}

struct Holder {
    executed: bool,
    slots: Vec<VarId>,
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
}

/// Instances, and look-ups that found none yet, by the hash of their key.
#[derive(Default)]
struct Table {
    instances: hashbrown::HashTable<(u64, InstId)>,
    waiting: Map<u64, Vec<lookup::Waiting>>,
    n_waiting: u64,
}

pub struct Machine<'a> {
    pub program: &'a Program,
    pub world: &'a dyn World,
    pub options: &'a Options,
    pub heap: Heap,
    pub host: Option<Box<dyn PluginHost>>,
    pub warnings: Vec<Warning>,
    pub unknown_parameters: Vec<UnknownParameter>,
    pub vars: Vec<Var>,
    free_vars: Vec<VarId>,
    delayed: Vec<Delayed>,
    free_delayed: Vec<u32>,
    cells: Vec<(u32, u32)>,
    free_cell: u32,
    listeners: Vec<Listener>,
    units: Vec<Unit>,
    free_units: Vec<UnitId>,
    n_created: u64,
    n_live: u64,
    ready: VecDeque<Step>,
    scopes: Vec<Scope>,
    pub instances: Vec<Instance>,
    /// Places of repeated construction.
    again: Map<InstId, Vec<Loc>>,
    by_entity: Vec<Vec<InstId>>,
    /// Distinct implementations of each entity, whose order gives the bits of [`Instance::ran`].
    implementations: Vec<Vec<crate::hir::ImplementationId>>,
    many_ran: Set<(InstId, u32)>,
    loops: Vec<Loop>,
    holders: Vec<Holder>,
    runs: Vec<ComprehensionRun>,
    tables: Vec<Table>,
    /// The attribute for which a constant is known to have the right type.
    checked: Vec<AttrId>,
    call_args: Map<UnitId, calls::Arguments>,
    /// First variable of each namespace's root block.
    pub roots: Vec<VarId>,
    root_scopes: Vec<ScopeId>,
    queue: schedule::Queue,
    n_lookups: u64,
    delivery_depth: u32,
    empty_list: Value,
    /// Why an annotation failed.
    annotation_errors: Vec<(EntityId, Fail)>,
    n_requests: u64,
    pub has_dependency_managers: bool,
    templates: templates::TemplateCache,
    shared_program: std::sync::Arc<Program>,
    deprecated_seen: Set<u32>,
    /// Mistakes that were met after the first one of the same block.
    later_errors: Vec<Fail>,
    /// A mistake was met: nothing must be seen from outside any more.
    has_failed: bool,
}

impl<'a> Machine<'a> {
    pub fn new(
        program: &'a std::sync::Arc<Program>,
        heap: Heap,
        world: &'a dyn World,
        options: &'a Options,
    ) -> Self {
        let mut heap = heap;
        let empty_list = heap.new_list(&[]);
        let implementations = program
            .entities
            .iter()
            .map(|entity| {
                let mut all = Vec::new();
                for entry in &entity.entries {
                    for id in &program.implements[entry.index()].using {
                        if !all.contains(id) {
                            all.push(*id);
                        }
                    }
                }
                all
            })
            .collect();
        Machine {
            program,
            world,
            options,
            heap,
            host: None,
            warnings: Vec::new(),
            unknown_parameters: Vec::new(),
            vars: Vec::new(),
            free_vars: Vec::new(),
            delayed: Vec::new(),
            free_delayed: Vec::new(),
            cells: Vec::new(),
            free_cell: u32::MAX,
            listeners: Vec::new(),
            units: Vec::new(),
            free_units: Vec::new(),
            n_created: 0,
            n_live: 0,
            ready: VecDeque::new(),
            scopes: Vec::new(),
            instances: Vec::new(),
            again: Map::default(),
            by_entity: program.entities.iter().map(|_| Vec::new()).collect(),
            implementations,
            many_ran: Set::default(),
            loops: Vec::new(),
            holders: Vec::new(),
            runs: Vec::new(),
            tables: (0..program.n_tables).map(|_| Table::default()).collect(),
            checked: vec![AttrId::NONE; program.exprs.len()],
            call_args: Map::default(),
            roots: Vec::new(),
            root_scopes: Vec::new(),
            queue: schedule::Queue::new(program.policy.len()),
            n_lookups: 0,
            delivery_depth: 0,
            empty_list,
            annotation_errors: Vec::new(),
            n_requests: 0,
            has_dependency_managers: false,
            templates: templates::TemplateCache::default(),
            shared_program: std::sync::Arc::clone(program),
            deprecated_seen: Set::default(),
            later_errors: Vec::new(),
            has_failed: false,
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
        let slot = self.program.entity(instance.entity).slot_of.get(&name)?;
        Some(VarId(instance.slots.0 + slot))
    }

    /// The variable behind proxies.
    fn target(&self, mut id: VarId) -> VarId {
        while let Some(target) = self.vars[id.index()].target() {
            id = target;
        }
        id
    }

    fn var(&self, id: VarId) -> &Var {
        &self.vars[id.index()]
    }

    fn is_ready(&self, id: VarId) -> bool {
        let var = self.var(self.target(id));
        var.is_ready()
    }

    fn add_var(&mut self, kind: VarKind, owner: InstId, attr: AttrId) -> VarId {
        self.vars.push(Var::new(kind, owner, attr));
        VarId(self.vars.len() as u32 - 1)
    }

    fn temporary(&mut self) -> VarId {
        self.recycled(VarKind::Temporary)
    }

    fn recycled(&mut self, kind: VarKind) -> VarId {
        match self.free_vars.pop() {
            Some(id) => {
                self.vars[id.index()] = Var::new(kind, InstId::NONE, AttrId::NONE);
                id
            }
            None => self.add_var(kind, InstId::NONE, AttrId::NONE),
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
            self.add_var(kind, InstId::NONE, AttrId::NONE);
        }
        self.scopes.push(Scope {
            parent,
            base,
            instance,
            namespace,
        });
        ScopeId(self.scopes.len() as u32 - 1)
    }

    /// Frees what only the execution needs.
    pub fn forget_execution(&mut self) {
        self.units = Vec::new();
        self.free_units = Vec::new();
        self.delayed = Vec::new();
        self.free_delayed = Vec::new();
        self.free_vars = Vec::new();
        self.cells = Vec::new();
        self.listeners = Vec::new();
        self.scopes = Vec::new();
        self.loops = Vec::new();
        self.holders = Vec::new();
        self.runs = Vec::new();
        self.checked = Vec::new();
        self.ready = VecDeque::new();
        self.queue = schedule::Queue::new(0);
    }

    fn add_listener(&mut self, listener: Listener) -> ListenerId {
        self.listeners.push(listener);
        ListenerId(self.listeners.len() as u32 - 1)
    }

    fn check_limits(&self, loc: Loc) -> Result<(), Fail> {
        if self.instances.len() > MAX_INSTANCES {
            let message = format!(
                "the model has more than {MAX_INSTANCES} instances: {}",
                self.construct_chain()
            );
            return Err(runtime(loc, message)
                .help("an implementation that constructs its own entity never ends"));
        }
        Ok(())
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
