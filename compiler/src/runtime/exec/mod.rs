//! What each kind of statement and expression does.
//!
//! An expression is met twice. *Emitting* it asks which variables it depends on, and creates the
//! tasks that provide those which do not exist yet: a proxy for an attribute, a temporary for a
//! call (`dependencies`). *Evaluating* it, when all of them are ready, reads them again in the same
//! order and computes the value (`eval`). The two walks over the expression have to agree on that
//! order; `reads` counts for the few places where one has to skip a part.
//!
//! - `emit`: creates the tasks of statements; `run` runs steps.
//! - `promises`: what an `if` or `for` keeps open until it is decided.
//! - `control`, `decisions`, `comprehension`, `construct`, `calls`: what loops, conditions,
//!   constructors and plugins do.
//! - `streaming`: elements of lists that are handed on before the list is complete.
//! - `validate`: whether a value has a type, conditions of typedefs included.
//! - `completion`: what must hold when nothing is left to do.
//! - `templates`, `template_view`: Jinja templates over the running model.

pub(in crate::runtime) mod calls;
pub(in crate::runtime) mod completion;
pub(in crate::runtime) mod comprehension;
pub(in crate::runtime) mod construct;
pub(in crate::runtime) mod control;
mod decisions;
pub(in crate::runtime) mod dependencies;
mod emit;
pub(in crate::runtime) mod eval;
pub(in crate::runtime) mod promises;
pub(in crate::runtime) mod reads;
pub(in crate::runtime) mod run;
pub(in crate::runtime) mod streaming;
pub(in crate::runtime) mod template_view;
pub(in crate::runtime) mod templates;
pub(in crate::runtime) mod validate;

use crate::diagnostics::{Fail, runtime};
use crate::hash::{Map, Set};
use crate::hir::{AttrId, Program};
use crate::runtime::exec::calls::Arguments;
use crate::runtime::exec::comprehension::ComprehensionRun;
use crate::runtime::exec::control::ForLoop;
use crate::runtime::exec::promises::PromiseGroup;
use crate::runtime::ids::NO_ATTR;
use crate::runtime::state::layout::{Layout, layouts};
use crate::runtime::{ListenerId, LoopId, PromiseGroupId, RunId, TaskId, Var, VarId, VarKind};
use crate::span::Loc;
use crate::types::{EntityId, InstId, Value};

/// Depth of synchronous delivery from list to list.
const MAX_DELIVERY: u32 = 10_000;

/// Statements and expressions that have begun and are not over, and what they leave for one another.
pub struct Execution {
    loops: Vec<ForLoop>,
    promise_groups: Vec<PromiseGroup>,
    runs: Vec<ComprehensionRun>,
    /// What a call that has to wait was called with.
    call_args: Map<TaskId, Arguments>,
    /// How deep we are in lists that deliver their elements to lists.
    delivery_depth: u32,
    /// What new instances begin with, by entity.
    layouts: Vec<Layout>,
    /// Implementations that ran on an instance, for entities with more of them than a word has bits.
    many_ran: Set<(InstId, u32)>,
    /// Which lists the items of literals with several items listen to.
    literals_attached: Set<(ListenerId, VarId)>,
    /// By expression: the attribute for which a constant is known to have the right type, and what its variable then is.
    checked: Vec<(AttrId, Var)>,
    /// List relations that were set to null although they want values.
    wanting: Vec<VarId>,
    /// Why an annotation failed.
    annotation_errors: Vec<(EntityId, Fail)>,
    /// What stands in relations in the place of `--`, for Python that asks.
    pub(in crate::runtime) annotation_values: Vec<(AttrId, Value)>,
    /// For texts under construction.
    scratch: String,
}

impl Execution {
    pub fn new(program: &Program) -> Execution {
        Execution {
            loops: Vec::new(),
            promise_groups: Vec::new(),
            runs: Vec::new(),
            call_args: Map::default(),
            delivery_depth: 0,
            layouts: layouts(program),
            many_ran: Set::default(),
            literals_attached: Set::default(),
            checked: vec![(NO_ATTR, Var::new(VarKind::Plain, true)); program.exprs.len()],
            wanting: Vec::new(),
            annotation_errors: Vec::new(),
            annotation_values: Vec::new(),
            scratch: String::new(),
        }
    }

    /// Frees what nobody needs when the model is complete.
    pub fn free_execution(&mut self) {
        self.loops = Vec::new();
        self.promise_groups = Vec::new();
        self.runs = Vec::new();
        self.checked = Vec::new();
    }

    /// A `for` that was emitted.
    pub(in crate::runtime) fn for_loop(&self, id: LoopId) -> &ForLoop {
        &self.loops[id.index()]
    }

    /// A comprehension that was emitted.
    pub(in crate::runtime) fn comprehension(&self, id: RunId) -> &ComprehensionRun {
        &self.runs[id.index()]
    }

    /// The variables that an `if` or `for` has promised to add to, one for each promise that is known by now.
    pub(in crate::runtime) fn promised_slots(&self, group: PromiseGroupId) -> &[VarId] {
        self.promise_groups[group.index()].slots()
    }

    /// What a call that waits was called with.
    pub(in crate::runtime) fn arguments_of(&self, task: TaskId) -> Option<Arguments> {
        self.call_args.get(&task).cloned()
    }

    /// A list relation was set to null although it wants values.
    pub(in crate::runtime) fn wants_values(&mut self, list: VarId) {
        self.wanting.push(list);
    }

    /// Counts one level of delivery within delivery; an error beyond the limit, instead of the end
    /// of the stack.
    pub(in crate::runtime) fn enter_delivery(&mut self) -> Result<(), Fail> {
        self.delivery_depth += 1;
        if self.delivery_depth > MAX_DELIVERY {
            let message = format!(
                "relations that feed one another form a chain of more than {} links",
                MAX_DELIVERY
            );
            return Err(runtime(Loc::NONE, message));
        }
        Ok(())
    }

    /// Ends one level of delivery.
    pub(in crate::runtime) fn leave_delivery(&mut self) {
        self.delivery_depth -= 1;
    }
}
