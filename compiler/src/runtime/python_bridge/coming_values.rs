//! Values that steps in the queue are going to store, for calls behind them that go ahead.
//!
//! A call that goes ahead takes along what its plugin is going to read (`known_values`), as far as
//! it has a value when the call goes. But often the value comes just before the call's turn: the
//! step that stores it stands in front of the call in the queue.
//!
//! ```text
//! queue   call f(a) · a.next gets x · call f(b) · b.ends gets y and z · call f(c) · …
//! ```
//!
//! Python would ask for each of these, one question a call, and a question costs more than a call.
//! But when such a step is ready, what it stores is known already: its value can be computed, since
//! all that it reads is there. So when calls are gathered, the steps that are passed on the way are
//! noted by the slot that they store into ([`Machine::pass`]), and a call behind them takes the
//! value along ([`Machine::coming_value`]). A relation with several elements counts when it is
//! complete with what comes, which is when it has as many as it may have.
//!
//! # Why nobody notices
//!
//! When the call's turn comes, the steps in front of it have run, and what Python was told is
//! compared with what is there ([`Machine::has_come`]). It is the same, unless some other step has
//! stored into the relation, too, and so changed the order of its elements. Then the answer is
//! thrown away, and the call is made again with what there is; a plugin may be called more than
//! once anyway. No call in between sees the value too early, since Python reads a call of a frame
//! when it makes that call.

use smallvec::SmallVec;

use crate::hash::{Map, Set};
use crate::hir::{ExprId, StmtKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{
    Action, Dependencies, Listener, ListenerId, Machine, ScopeId, Step, VarId, VarKind,
};
use crate::types::{InstId, Value};

/// What steps in front of a call are going to store.
#[derive(Default)]
pub(super) struct ComingValues {
    /// By slot: the steps that store into it, in the order of the queue.
    steps: Map<VarId, SmallVec<[Step; 2]>>,
    /// Instances whose constants come.
    constants: Set<InstId>,
    /// Some step in front of a call may store into slots that are not known.
    is_uncertain: bool,
    /// What the call that is written takes along of it.
    assumed: Vec<(VarId, Value)>,
}

impl ComingValues {
    /// The queue is going to change: what was seen of it counts no more.
    pub fn forget(&mut self) {
        self.steps.clear();
        self.constants.clear();
        self.is_uncertain = false;
    }

    /// A call takes a value along that has not come.
    pub fn assume(&mut self, slot: VarId, value: Value) {
        self.assumed.push((slot, value));
    }

    /// What the call that was written takes along of values that have not come.
    pub fn take_assumed(&mut self) -> Vec<(VarId, Value)> {
        std::mem::take(&mut self.assumed)
    }
}

impl Machine<'_> {
    /// Notes a step that calls go past, if it stores into a slot.
    pub(super) fn pass(&mut self, step: &Step) {
        if !self.python.known_values.has_reads() {
            return;
        }
        let action = match step {
            Step::Task(task) => self.scheduler.task(*task).action,
            Step::Direct {
                requeue_count: 0,
                action,
            } => *action,
            // It goes to the end of the queue.
            Step::Direct { .. } => return,
            Step::Constants { instance, .. } => {
                self.python.coming_values.constants.insert(*instance);
                return;
            }
            Step::Implement { instance, .. } => {
                let is_uncertain = !self.implements_nothing(*instance);
                self.python.coming_values.is_uncertain |= is_uncertain;
                return;
            }
        };
        self.python.coming_values.is_uncertain |= !self.stores_where_it_says(&action);
        let slot = match action {
            // With a listener, the elements have come one by one before.
            Action::Store { slot, listener, .. } if !listener.is_some() => Some(slot),
            Action::Item { listener, .. } => self.slot_of_item(listener),
            _ => None,
        };
        if let Some(slot) = slot {
            let steps = self.python.coming_values.steps.entry(slot).or_default();
            steps.push(*step);
        }
    }

    /// Whether all `implement` entries of an entity without a condition are empty.
    fn implements_nothing(&self, instance: InstId) -> bool {
        let program = self.program;
        let entries = &program.entity(self.state.instance(instance).entity).entries;
        entries
            .iter()
            .map(|entry| &program.implements[entry.index()])
            .filter(|entry| entry.condition.is_none())
            .flat_map(|entry| &entry.using)
            .all(|using| {
                let block = program.implementations[using.index()].block;
                program.blocks[block.index()].stmts.is_empty()
            })
    }

    /// Whether an action sets no attribute but, maybe, the slot that it names: what else it makes, other steps store, which come behind.
    fn stores_where_it_says(&self, action: &Action) -> bool {
        match action {
            Action::Call { .. } | Action::Item { .. } | Action::Store { .. } => true,
            Action::Stmt { stmt, scope } => match self.program.stmts[stmt.index()].kind {
                StmtKind::Expr(_) => true,
                // A name in an implementation may be that of an attribute.
                StmtKind::Assign { .. } => !self.state.scopes[scope.index()].instance.is_some(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether an attribute has no value yet when the turn of a call comes that is written: no step in front of it stores into it, and those
    /// that become ready meanwhile come behind it.
    pub(super) fn stays_unset(&self, slot: VarId) -> bool {
        let coming = &self.python.coming_values;
        !coming.is_uncertain
            && !coming.steps.contains_key(&slot)
            && !coming.constants.contains(&self.state.owner(slot))
            && self.state.known(slot).kind() == VarKind::Plain
    }

    /// The slot that an item of a streamed list literal goes to, if it is one.
    fn slot_of_item(&self, listener: ListenerId) -> Option<VarId> {
        let literal = self.scheduler.literal_of(listener);
        if !literal.is_some() || self.state.known(literal).is_ready() {
            return None;
        }
        let rare = self.state.delayed(literal)?.rare.as_deref()?;
        match rare.listeners[..] {
            [only] => match self.scheduler.listener(only) {
                Listener::Forward { target, .. } => Some(target),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value that a slot will have when the steps that were passed have run; `None`: that is not
    /// certain.
    pub(super) fn coming_value(&mut self, slot: VarId) -> Option<Value> {
        let steps = self.python.coming_values.steps.get(&slot)?.clone();
        let mut values: SmallVec<[Value; 4]> = SmallVec::new();
        for step in &steps {
            values.push(self.stored_by(step)?);
        }
        match (self.state.known(slot).kind(), &values[..]) {
            (VarKind::Plain | VarKind::Single, [value]) => Some(*value),
            (VarKind::List, values) => self.complete_with(slot, values),
            _ => None,
        }
    }

    /// What a step is going to store.
    fn stored_by(&mut self, step: &Step) -> Option<Value> {
        match step {
            Step::Task(task) => {
                let task = self.scheduler.task(*task);
                let (action, dependencies) = (task.action, task.dependencies.clone());
                self.computed_ahead(&action, Some(&dependencies))
            }
            Step::Direct { action, .. } => self.computed_ahead(action, None),
            Step::Constants { .. } | Step::Implement { .. } => None,
        }
    }

    /// The value of what an action stores, if computing it changes nothing.
    pub(super) fn computed_ahead(
        &mut self,
        action: &Action,
        dependencies: Option<&Dependencies>,
    ) -> Option<Value> {
        let (expr, scope): (ExprId, ScopeId) = match action {
            Action::Store { expr, scope, .. } | Action::Item { expr, scope, .. } => (*expr, *scope),
            _ => return None,
        };
        if !self.only_computes(expr) {
            return None;
        }
        let mut ready = dependencies.map_or_else(Ready::direct, Ready::new);
        // What is wrong with it is said in its turn.
        self.state.read_all(&ready).ok()?;
        self.eval_plain(expr, scope, &mut ready).ok()
    }

    /// The elements of a relation that is complete with some more.
    fn complete_with(&mut self, slot: VarId, coming: &[Value]) -> Option<Value> {
        let most = self.state.relation(slot).high?;
        let mut elements = self.state.elements(slot).to_vec();
        for value in coming {
            let items = match value {
                Value::List(list) => self.state.heap.list(*list),
                value => std::slice::from_ref(value),
            };
            for item in items {
                if !matches!(item, Value::Instance(_)) {
                    return None;
                }
                let known = |element: &Value| self.state.heap.equal(*element, *item);
                if !elements.iter().any(known) {
                    elements.push(*item);
                }
            }
        }
        (elements.len() == most as usize).then(|| self.state.heap.new_list(&elements))
    }

    /// Whether a slot has the value that Python was told of it before.
    pub(super) fn has_come(&self, slot: VarId, assumed: Value) -> bool {
        self.state.read_slot(slot).is_ok_and(|value| {
            let is_same_kind = std::mem::discriminant(&value) == std::mem::discriminant(&assumed);
            is_same_kind && self.state.heap.equal(value, assumed)
        })
    }
}
