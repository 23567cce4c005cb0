//! Runs steps and tasks: each does what its action says, now that all it needs has its value.
//! Source: docs/reference/language.md § 8.6.
//!
//! A statement runs in two halves. When its block is emitted, `dependencies` collects the variables
//! that its expression reads, and a task waits for them. When the last of them has its value, the
//! task is in the queue, and this module runs its action, which evaluates the expression: every
//! read succeeds now, and is taken from the task's dependencies in the order in which they were
//! collected (`Ready`). For `h.name = x.label`:
//!
//! ```text
//! emitted   x and h are dependencies; the attribute `label` is not, since nobody knows which
//!           instance `x` is: a proxy variable stands for it
//! Attr      x has its value: the proxy is connected with the slot `label` of that instance
//! Stmt      h has its value: the value of the proxy is assigned to the slot `name`, by a task
//!           (`Store`) that waits for the proxy
//! ```
//!
//! What must not happen in one go is split into such actions, because each goes to the end of the
//! queue, and the order of the queue decides what a list has when it is read.

use crate::diagnostics::{Fail, not_found, runtime, typing};
use crate::hir::{ExprId, ExprKind, ImplementId, StmtId, StmtKind};
use crate::intern::Symbol;
use crate::runtime::exec::eval::Ready;
use crate::runtime::{
    Action, Dependencies, InstId, Listener, ListenerId, Machine, ModelState, ScopeId, Step, TaskId,
    VarId, VarKind,
};
use crate::span::Loc;
use crate::types::{Type, Value};

impl ModelState<'_> {
    /// The slot of an attribute; an error with a similar name if the entity has none of this name.
    pub(in crate::runtime) fn slot_or_fail(
        &self,
        instance: InstId,
        name: Symbol,
        loc: Loc,
    ) -> Result<VarId, Fail> {
        self.slot(instance, name).ok_or_else(|| {
            let message = format!(
                "could not find attribute with name: {} in type {}",
                self.program.text(name),
                self.program.entity_name(self.instance(instance).entity)
            );
            let entity = self.instance(instance).entity;
            not_found(loc, message).did_you_mean(self.program.similar_attribute(entity, name))
        })
    }

    pub(in crate::runtime) fn is_type(&self, ty: crate::types::TypeId, wanted: &Type) -> bool {
        self.program.types[ty.index()] == *wanted
    }
}

impl Machine<'_> {
    /// Runs one step from the queue. A direct step whose turn it is not yet goes to the end again;
    /// constants and `implement` entries of one instance are one step for all of them.
    #[inline]
    pub(in crate::runtime) fn step(&mut self, step: &Step) -> Result<(), Fail> {
        match *step {
            Step::Task(task) => self.execute(task),
            Step::Direct {
                requeue_count: 0,
                ref action,
            } => {
                self.act(TaskId::NONE, action, &mut Ready::direct())?;
                Ok(())
            }
            Step::Direct {
                requeue_count,
                action,
            } => {
                let requeue_count = requeue_count - 1;
                self.scheduler.ready.push(Step::Direct {
                    requeue_count,
                    action,
                });
                Ok(())
            }
            Step::Constants {
                construct,
                from,
                to,
                instance,
            } => self.store_constants(construct, from..to, instance),
            Step::Implement {
                instance,
                from,
                to,
                loc,
            } => self.implement_entries(instance, from..to, loc),
        }
    }

    /// Runs a range of the `implement` entries of an instance, but for those with a condition.
    #[inline(never)]
    fn implement_entries(
        &mut self,
        instance: InstId,
        range: std::ops::Range<u16>,
        loc: Loc,
    ) -> Result<(), Fail> {
        let program = self.program;
        let entity = program.entity(self.state.instance(instance).entity);
        for entry in &entity.entries[usize::from(range.start)..usize::from(range.end)] {
            let entry = &program.implements[entry.index()];
            if entry.condition.is_some() {
                continue;
            }
            for implementation in &entry.using {
                self.implement(instance, *implementation, loc)?;
            }
        }
        Ok(())
    }

    /// Runs a task. Its dependencies are taken out meanwhile, so that the action can change the
    /// arena of tasks.
    #[inline(never)]
    fn execute(&mut self, id: TaskId) -> Result<(), Fail> {
        let (action, dependencies) = self.scheduler.begin(id);
        let result = self.act(id, &action, &mut Ready::new(&dependencies));
        if let Ok(true) = result {
            self.scheduler
                .finish_task(&mut self.state, id, &dependencies);
            return Ok(());
        }
        // A task that has to wait for more has appended that to its own list, which is empty here.
        self.scheduler.end(id, dependencies);
        result.map(|_| ())
    }

    /// Does what an action says. False: it has to wait for more, has arranged for that, and runs
    /// again; its task lives on.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of action")]
    fn act(&mut self, id: TaskId, action: &Action, ready: &mut Ready) -> Result<bool, Fail> {
        let program = self.program;
        match *action {
            Action::Idle | Action::Cancelled => {}
            Action::Stmt { stmt, scope } => {
                let loc = program.stmts[stmt.index()].loc;
                self.run_stmt(stmt, scope, ready)
                    .map_err(|error| error.at(loc))?;
            }
            Action::Attr { expr, scope, proxy } => self.run_attr(expr, scope, proxy, ready)?,
            Action::PromisedAttr { expr, scope, proxy } => {
                self.run_promised(expr, scope, proxy, ready)?
            }
            Action::Logic {
                expr,
                scope,
                result,
            } => self
                .run_logic(expr, scope, result, ready)
                .map_err(|error| moved(error, program.expr(expr).loc))?,
            Action::LogicRight {
                expr,
                scope,
                result,
            } => self.run_logic_right(expr, scope, result, ready)?,
            Action::Ternary {
                expr,
                scope,
                result,
                listener,
                context,
            } => self.run_ternary(expr, scope, result, (context, listener), ready)?,
            Action::Branch {
                ternary,
                then,
                scope,
                result,
                listener,
                context,
            } => {
                let value = self
                    .eval(self.branch(ternary, then), scope, ready, context, listener)
                    .map_err(|error| moved(error, program.expr(ternary).loc))?;
                self.set_plain(result, value, Loc::NONE)?;
            }
            Action::Defined { result } => self.run_defined(result, ready)?,
            Action::DefinedAttr {
                expr,
                scope,
                result,
            } => self.run_defined_attribute(expr, scope, result, ready)?,
            Action::Call {
                expr,
                scope,
                result,
                ..
            } => return self.run_call(id, *action, expr, scope, result, ready),
            Action::Query {
                expr,
                scope,
                result,
            } => self
                .run_query(expr, scope, result, ready)
                .map_err(|error| moved(error, program.expr(expr).loc))?,
            Action::Item {
                expr,
                list,
                scope,
                listener,
                context,
            } => {
                self.eval(expr, scope, ready, context, listener)
                    .map_err(|error| error.at(program.expr(list).loc))?;
                let literal = self.scheduler.literal_of(listener);
                self.fulfil(literal);
                self.item_done(literal)?;
            }
            Action::Store {
                expr,
                scope,
                slot,
                listener,
                loc,
            } => {
                let value = self
                    .eval(expr, scope, ready, slot, listener)
                    .map_err(|error| self.state.attribute_error(slot, loc, error.at(loc)))?;
                self.set_slot(slot, value, loc)?;
                self.fulfil(slot);
            }
            Action::For { run } => self.run_for(run, ready)?,
            Action::If { stmt, scope, group } => self.run_if(stmt, scope, group, ready)?,
            Action::Implement {
                implement,
                scope,
                instance,
                loc,
            } => self.run_implement(implement, scope, (instance, loc), ready)?,
            Action::Promise {
                stmt,
                which,
                scope,
                group,
            } => self.run_promise(stmt, which, scope, group, ready)?,
            Action::Iterable { run } => {
                let comprehension = self.exec.runs[run.index()].comprehension;
                let loc = program.comprehensions[comprehension.index()].loc;
                self.run_iterable(run, ready)
                    .map_err(|error| moved(error, loc))?
            }
            Action::Element { run, result, scope } => {
                self.run_element(run, result, scope, ready)?
            }
            Action::Collect { run } => self.run_collect(run)?,
            Action::Annotation { which, scope } => self.run_annotation(which, scope, ready),
        }
        Ok(true)
    }

    /// Runs an expression statement or an assignment whose expression (or object) is known.
    fn run_stmt(&mut self, stmt: StmtId, scope: ScopeId, ready: &mut Ready) -> Result<(), Fail> {
        let program = self.program;
        let node = &program.stmts[stmt.index()];
        match &node.kind {
            StmtKind::Expr(expr) => {
                self.eval_plain(*expr, scope, ready)?;
            }
            StmtKind::Assign { target, value } => {
                let var = self.state.resolve(scope, *target, node.loc)?;
                let value = self.eval_plain(*value, scope, ready)?;
                self.set_plain(var, value, node.loc)?;
            }
            StmtKind::AttrAssign {
                object,
                attribute,
                value,
                append,
            } => {
                let owner = self.eval_plain(*object, scope, ready)?;
                let Value::Instance(instance) = owner else {
                    let message = format!(
                        "The object at {} is not an Entity but a <class '{}'> with value {}",
                        self.expr_name(*object),
                        self.state.heap.python_type(owner),
                        self.state.heap.to_text(owner, &self.state)
                    );
                    return Err(typing(node.loc, message));
                };
                let slot = self.state.slot_or_fail(instance, *attribute, node.loc)?;
                if *append && self.state.known(slot).kind() != VarKind::List {
                    return Err(typing(
                        node.loc,
                        "Can not use += on relations with multiplicity 1",
                    ));
                }
                self.assign_slot(slot, *value, scope, node.loc)
                    .map_err(|error| moved(error, node.loc))?;
            }
            StmtKind::For { .. } | StmtKind::If { .. } => {}
        }
        Ok(())
    }

    /// Assigns the value of an expression to a slot as soon as it is known; until then a promise
    /// keeps the slot open. A list relation gets the elements one by one. A name that is not found
    /// has no place of its own: it gets that of what runs.
    pub(in crate::runtime) fn assign_slot(
        &mut self,
        slot: VarId,
        value: ExprId,
        scope: ScopeId,
        loc: Loc,
    ) -> Result<(), Fail> {
        let is_list = self.state.known(slot).kind() == VarKind::List;
        // A value that is whole needs no listener: the store delivers it.
        let requeue_count = self.requeue_count_of_list(value, scope, is_list);
        let mut dependencies = Dependencies::new();
        let mut listener = ListenerId::NONE;
        if requeue_count.is_none() {
            if is_list && !matches!(self.program.expr(value).kind, ExprKind::Const(_)) {
                listener = self
                    .scheduler
                    .add_listener(Listener::Forward { target: slot, loc });
            }
            self.dependencies(value, scope, slot, listener, &mut dependencies)?;
        }
        self.promise(slot);
        let action = Action::Store {
            expr: value,
            scope,
            slot,
            listener,
            loc,
        };
        match requeue_count {
            Some(requeue_count) => self.add_direct(action, requeue_count),
            None => {
                self.add_task(action, dependencies)?;
            }
        }
        Ok(())
    }

    /// The slot of an attribute of a value; an error if the value is no instance. `object` is the
    /// expression that gave it, for the message.
    pub(in crate::runtime) fn attribute_slot(
        &mut self,
        value: Value,
        name: Symbol,
        object: ExprId,
        loc: Loc,
    ) -> Result<VarId, Fail> {
        let name_text = self.program.text(name);
        match value {
            Value::Instance(instance) => self.state.slot_or_fail(instance, name, loc),
            Value::List(_) => {
                let text = self.state.heap.repr(value, &self.state);
                Err(runtime(
                    loc,
                    format!(
                        "can not get attribute {name_text}, {text} is not an entity but a list"
                    ),
                ))
            }
            value => {
                self.learn(value);
                let message = format!(
                    "can not get attribute {name_text}, {} is not an entity but a {} with value '{}'",
                    self.object_name(object, name_text),
                    self.state.heap.python_type(value),
                    self.state.heap.to_text(value, &self.state)
                );
                Err(runtime(loc, message))
            }
        }
    }

    /// Gives the proxy of `object.name` its target, now that the object is known.
    fn run_attr(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        proxy: VarId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let node = self.program.expr(expr);
        let ExprKind::Attr(object, name) = node.kind else {
            return Ok(());
        };
        let value = self.eval_plain(object, scope, ready)?;
        self.connect_attribute(proxy, value, object, name, node.loc)
    }

    /// An `implement` statement of an instance, whose condition has a value now.
    fn run_implement(
        &mut self,
        implement: ImplementId,
        scope: ScopeId,
        (instance, loc): (InstId, Loc),
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let program = self.program;
        let entry = &program.implements[implement.index()];
        if let Some(condition) = entry.condition
            && !self.is_selected(condition, scope, entry.loc, ready)?
        {
            return Ok(());
        }
        for implementation in &entry.using {
            self.implement(instance, *implementation, loc)?;
        }
        Ok(())
    }

    /// Whether the condition of an `implement` holds; an Unknown one does not.
    fn is_selected(
        &mut self,
        condition: ExprId,
        scope: ScopeId,
        loc: Loc,
        ready: &mut Ready,
    ) -> Result<bool, Fail> {
        let value = self.eval_plain(condition, scope, ready);
        match value.map_err(|error| error.at(loc))? {
            Value::Bool(selected) => Ok(selected),
            Value::Unknown(_) => Ok(false),
            value => {
                let text = self.state.heap.to_text(value, &self.state);
                let message = format!(
                    "Invalid value `{text}`: the condition for a conditional implementation can only be a boolean expression"
                );
                Err(runtime(loc, message))
            }
        }
    }

    /// Keeps what is wrong with an annotation for the end: mistakes of the model itself come first.
    fn run_annotation(&mut self, which: u32, scope: ScopeId, ready: &mut Ready) {
        let annotation = &self.program.annotations[which as usize];
        let error = match self.eval_plain(annotation.expr, scope, ready) {
            Ok(Value::Unknown(_)) => {
                typing(annotation.loc, "Relation annotation can not be Unknown")
            }
            Ok(value) => {
                self.exec
                    .annotation_values
                    .push((annotation.attribute, value));
                return;
            }
            Err(error) => error,
        };
        self.exec.annotation_errors.push((annotation.entity, error));
    }

    /// Connects a proxy to the attribute of a value.
    fn connect_attribute(
        &mut self,
        proxy: VarId,
        value: Value,
        object: ExprId,
        name: Symbol,
        loc: Loc,
    ) -> Result<(), Fail> {
        let slot = self.attribute_slot(value, name, object, loc)?;
        self.connect(proxy, slot).map_err(|error| moved(error, loc))
    }

    /// Connects a proxy to the slot that it stands for. Who listened to the proxy listens to the
    /// slot now, and who waited waits there, or goes on if it is ready.
    pub(in crate::runtime) fn connect(&mut self, proxy: VarId, slot: VarId) -> Result<(), Fail> {
        let (listener, mut chain) = self.state.connect_proxy(proxy, slot);
        if listener.is_some() {
            self.listen(slot, listener)?;
        }
        while let Some(task) = self.state.next_waiter(&mut chain) {
            if !self.wait(slot, task) {
                self.scheduler.notify(&mut self.state, task);
            }
        }
        Ok(())
    }

    /// One more item of a streamed list literal was delivered; after the last one the literal is
    /// complete.
    fn item_done(&mut self, literal: VarId) -> Result<(), Fail> {
        if self.state.var(literal).is_ready() {
            return Ok(());
        }
        let delayed = self.state.delayed_mut(literal);
        delayed.items -= 1;
        if delayed.items == 0 {
            self.freeze(literal)
        } else {
            Ok(())
        }
    }
}

/// An error is reported at what runs, not where it came up: inside of it, or where a value was delivered to.
pub(super) fn moved(mut error: Fail, loc: Loc) -> Fail {
    let origin = std::mem::replace(&mut error.loc, loc);
    if origin != loc && origin != Loc::NONE {
        error.notes.push(("it goes wrong here".to_owned(), origin));
    }
    error
}
