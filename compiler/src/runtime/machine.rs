//! The machine: what runs a program, put together from its parts.

use std::rc::Rc;
use std::sync::Arc;

use crate::Options;
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map;
use crate::hir::Program;
use crate::resources::Plan;
use crate::runtime::exec::Execution;
use crate::runtime::exec::templates::TemplateCache;
use crate::runtime::python_bridge::PythonBridge;
use crate::runtime::report::Report;
use crate::runtime::scheduler::Scheduler;
use crate::runtime::speed::memory::MemoryWatch;
use crate::runtime::speed::tiling::Tiles;
use crate::runtime::state::ModelState;
use crate::span::Loc;
use crate::types::{EntityId, Heap};
use crate::world::World;

/// Runs one program.
///
/// It is given a program, a world and options, and has a part for each thing that it keeps account of. Each part belongs to
/// the room that it is named after, which alone sees its private fields: what only changes one part is a method of that
/// part, what needs several of them is a method of the machine.
pub struct Machine<'a> {
    /// What is run.
    pub program: &'a Program,
    /// Files and variables that the model may ask for.
    pub world: &'a dyn World,
    /// What the compile was asked to do, and its limits.
    pub options: &'a Options,
    /// The model as far as it is known.
    pub state: ModelState<'a>,
    /// What runs next, and what waits.
    pub(super) scheduler: Scheduler,
    /// Statements and expressions that have begun.
    pub(super) exec: Execution,
    /// How steps run in tiles, and whether that may go on.
    pub(super) tiles: Tiles,
    /// When the memory of a large model is looked after again.
    pub(super) memory: MemoryWatch,
    /// The process that runs plugins, and what it and we know of one another.
    pub python: PythonBridge,
    /// The template engine, with the templates that were read.
    pub(super) templates: TemplateCache,
    /// How the instances of an entity become resources, by the registration that is nearest to it; `None`: they become none.
    /// Of the entities that a plugin wanted an id of.
    pub(super) resource_plans: Map<EntityId, Option<Rc<Plan>>>,
    /// What the compile tells its user.
    pub report: Report,
}

impl<'a> Machine<'a> {
    /// A machine in which nothing has run. `heap` has the constants of the program.
    pub fn new(
        program: &'a Arc<Program>,
        heap: Heap,
        world: &'a dyn World,
        options: &'a Options,
    ) -> Self {
        Machine {
            program,
            world,
            options,
            state: ModelState::new(program, heap),
            scheduler: Scheduler::new(program.policy.len()),
            exec: Execution::new(program),
            tiles: Tiles::default(),
            memory: MemoryWatch::default(),
            python: PythonBridge::default(),
            templates: TemplateCache::new(program),
            resource_plans: Map::default(),
            report: Report::new(options.breadcrumb.as_deref()),
        }
    }

    /// Frees what only the execution needs.
    pub fn free_execution(&mut self) {
        self.state.free_execution();
        self.scheduler = Scheduler::new(0);
        self.exec.free_execution();
    }

    /// A model that grows without end is stopped before the computer is.
    pub(super) fn check_limits(&self, loc: Loc) -> Result<(), Fail> {
        const MAX_ELEMENTS: usize = 200_000_000;
        let limits = &self.options.limits;
        let too_much = if self.state.instances.len() > limits.instances {
            format!("has more than {} instances", limits.instances)
        } else if self.state.heap.text_bytes() > limits.text_bytes {
            format!("makes more than {} bytes of text", limits.text_bytes)
        } else if self.state.heap.n_elements() > MAX_ELEMENTS {
            format!("makes lists of more than {MAX_ELEMENTS} elements")
        } else {
            return Ok(());
        };
        let message = format!("the model {too_much}: {}", self.state.construct_chain());
        Err(runtime(loc, message).help("look for what is constructed again and again"))
    }
}
