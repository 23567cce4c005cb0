//! Emits blocks and statements, and runs steps. Source: docs/reference/language.md § 8.6.
//!
//! To emit is to create tasks; nothing is evaluated meanwhile. Blocks are emitted in the order that
//! docs/reference/language.md § 2.4 gives: files from the first statement on, nested blocks from
//! the last one. That is not a detail: it is the order in which tasks are created and queued, and
//! models notice.
//!
//! An error in emitting a statement does not end the block: the statements after it are emitted,
//! too, so that their mistakes can be told (`report/error_recovery.rs`).

use crate::diagnostics::{Fail, not_found, runtime, typing};
use crate::hir::{BlockId, ExprId, ExprKind, NamespaceId, StmtId, StmtKind};
use crate::intern::Symbol;
use crate::runtime::exec::eval::Ready;
use crate::runtime::{
    Action, Dependencies, ForLoop, InstId, Listener, ListenerId, LoopId, Machine, ScopeId, Step,
    TaskId, VarId, VarKind,
};
use crate::span::Loc;
use crate::types::{Type, Value};

impl Machine<'_> {
    /// Makes the scopes of all files and emits their statements, then the relation annotations. All
    /// scopes exist before the first statement is emitted, since it may name variables of every
    /// file.
    pub(in crate::runtime) fn emit_roots(&mut self) -> Result<(), Fail> {
        for namespace in &self.program.namespaces {
            let id = NamespaceId(self.roots.len() as u32);
            let scope = self.add_scope(ScopeId::NONE, namespace.root, InstId::NONE, id);
            self.roots.push(self.scopes[scope.index()].base);
            self.root_scopes.push(scope);
        }
        let mut result = Ok(());
        for at in 0..self.root_scopes.len() {
            let scope = self.root_scopes[at];
            let emitted = self.emit_block(self.program.namespaces[at].root, scope);
            result = self.first_of(result, emitted);
        }
        result?;
        for which in 0..self.program.annotations.len() {
            let annotation = &self.program.annotations[which];
            let scope = self.root_scopes[annotation.namespace.index()];
            let mut dependencies = Dependencies::new();
            self.plain_dependencies(annotation.expr, scope, &mut dependencies)?;
            self.add_task(
                Action::Annotation {
                    which: which as u32,
                    scope,
                },
                dependencies,
            )?;
        }
        Ok(())
    }

    /// Emits the statements of a block in its order. The error is the first one; the others are
    /// remembered.
    pub(in crate::runtime) fn emit_block(
        &mut self,
        block: BlockId,
        scope: ScopeId,
    ) -> Result<(), Fail> {
        let mut result = Ok(());
        for stmt in &self.program.blocks[block.index()].stmts {
            if let Err(error) = self.emit(*stmt, scope) {
                result = self.first_of(result, Err(error));
            }
        }
        result
    }

    /// Creates the tasks of one statement. An `if` or `for` makes its promises before anything
    /// else.
    fn emit(&mut self, id: StmtId, scope: ScopeId) -> Result<(), Fail> {
        let stmt = &self.program.stmts[id.index()];
        let at_stmt = |error: Fail| error.at(stmt.loc);
        self.leave_place(stmt.loc);
        match &stmt.kind {
            StmtKind::Expr(expr) => self
                .act_on(*expr, scope, Action::Stmt { stmt: id, scope })
                .map_err(at_stmt),
            StmtKind::Assign { target, value } => {
                self.resolve(scope, *target, stmt.loc).map_err(at_stmt)?;
                self.act_on(*value, scope, Action::Stmt { stmt: id, scope })
                    .map_err(at_stmt)
            }
            StmtKind::AttrAssign { object, .. } => self
                .act_on(*object, scope, Action::Stmt { stmt: id, scope })
                .map_err(at_stmt),
            StmtKind::For {
                iterable, promises, ..
            } => {
                let group = self.hold(id, promises, scope)?;
                let run = LoopId(self.loops.len() as u32);
                let listener = self.add_listener(Listener::For(run));
                self.loops.push(ForLoop {
                    stmt: id,
                    scope,
                    group,
                    listener,
                });
                let mut dependencies = Dependencies::new();
                self.dependencies(*iterable, scope, VarId::NONE, listener, &mut dependencies)
                    .map_err(at_stmt)?;
                self.add_task(Action::For { run }, dependencies)?;
                Ok(())
            }
            StmtKind::If {
                condition,
                promises,
                ..
            } => {
                let group = self.hold(id, promises, scope)?;
                self.act_on(
                    *condition,
                    scope,
                    Action::If {
                        stmt: id,
                        scope,
                        group,
                    },
                )
                .map_err(at_stmt)
            }
        }
    }

    /// Runs one step from the queue.
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
                self.ready.push(Step::Direct {
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
            } => {
                let program = self.program;
                let entity = program.entity(self.instance(instance).entity);
                for entry in &entity.entries[usize::from(from)..usize::from(to)] {
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
        }
    }

    /// Runs a task. Its dependencies are taken out meanwhile, so that the action can change the
    /// arena of tasks.
    fn execute(&mut self, id: TaskId) -> Result<(), Fail> {
        let action = self.tasks[id.index()].action;
        let dependencies = std::mem::take(&mut self.tasks[id.index()].dependencies);
        let result = self.act(id, &action, &mut Ready::new(&dependencies));
        // A task that has to wait for more has appended that to its own list, which is empty here.
        let added = std::mem::replace(&mut self.tasks[id.index()].dependencies, dependencies);
        self.tasks[id.index()].dependencies.extend(added);
        if result? {
            self.finish_task(id);
        }
        Ok(())
    }

    /// Does what an action says. False: it has to wait for more, has arranged for that, and runs
    /// again; its task lives on.
    fn act(&mut self, id: TaskId, action: &Action, ready: &mut Ready) -> Result<bool, Fail> {
        let program = self.program;
        match *action {
            Action::Idle | Action::Cancelled => {}
            Action::Stmt { stmt, scope } => {
                let loc = program.stmts[stmt.index()].loc;
                self.run_stmt(stmt, scope, ready)
                    .map_err(|error| error.at(loc))?;
            }
            Action::Attr { expr, scope, proxy } => {
                let ExprKind::Attr(object, name) = program.expr(expr).kind else {
                    return Ok(true);
                };
                let loc = program.expr(expr).loc;
                let value = self.eval_plain(object, scope, ready)?;
                self.connect_attribute(proxy, value, object, name, loc)?;
            }
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
            } => {
                let (ExprKind::And(_, right) | ExprKind::Or(_, right)) = program.expr(expr).kind
                else {
                    return Ok(true);
                };
                let value = self
                    .eval_plain(right, scope, ready)
                    .map_err(|error| error.at(program.expr(expr).loc))?;
                if matches!(value, Value::Reference(_)) {
                    let loc = program.expr(expr).loc;
                    return Err(crate::runtime::python_bridge::references::undeclared(
                        "bool", loc,
                    ));
                }
                if !matches!(value, Value::Bool(_) | Value::Unknown(_)) {
                    let text = self.heap.to_text(value, self);
                    return Err(runtime(
                        program.expr(expr).loc,
                        format!("Invalid value '{text}', expected bool"),
                    ));
                }
                self.set_plain(result, value, Loc::NONE)?;
            }
            Action::Ternary {
                expr,
                scope,
                result,
                listener,
                context,
            } => {
                let ExprKind::Ternary(condition, then, otherwise) = program.expr(expr).kind else {
                    return Ok(true);
                };
                let branch = match self.eval_plain(condition, scope, ready)? {
                    Value::Bool(true) => then,
                    Value::Bool(false) => otherwise,
                    Value::Unknown(_) => {
                        let unknown = self.heap.new_unknown();
                        // It counts when the whole value does; only a list keeps it as its element now.
                        let known = self.listeners.get(listener.index()).copied();
                        if let Some(Listener::Literal(literal)) = known
                            && !self.var(literal).is_ready()
                        {
                            self.delayed_mut(literal).elements.push(unknown);
                        }
                        self.set_plain(result, unknown, Loc::NONE)?;
                        return Ok(true);
                    }
                    value => {
                        let text = self.heap.to_text(value, self);
                        let message = format!(
                            "Invalid value `{text}`: the condition for a conditional expression must be a boolean expression"
                        );
                        return Err(runtime(program.expr(expr).loc, message));
                    }
                };
                let action = Action::Branch {
                    ternary: expr,
                    then: branch == then,
                    scope,
                    result,
                    listener,
                    context,
                };
                if let Some(requeue_count) =
                    self.requeue_count_of_list(branch, scope, listener.is_some())
                {
                    self.add_direct(action, requeue_count);
                } else {
                    let mut dependencies = Dependencies::new();
                    self.dependencies(branch, scope, context, listener, &mut dependencies)?;
                    self.add_task(action, dependencies)?;
                }
            }
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
            Action::Defined { result } => {
                if !self.var(result).is_ready() {
                    let var = self.target(ready.dependencies[0]);
                    let answer = self.is_defined(self.var(var).value(&self.heap));
                    self.set_plain(result, answer, Loc::NONE)?;
                }
            }
            Action::DefinedAttr {
                expr,
                scope,
                result,
            } => {
                let ExprKind::Defined(operand) = program.expr(expr).kind else {
                    return Ok(true);
                };
                let ExprKind::Attr(object, name) = program.expr(operand).kind else {
                    return Ok(true);
                };
                let loc = program.expr(operand).loc;
                let value = self.eval_plain(object, scope, ready)?;
                let slot = self.attribute_slot(value, name, object, loc)?;
                self.defined_on(slot, result)?;
            }
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
                let literal = self.literal_of(listener);
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
                    .map_err(|error| self.attribute_error(slot, loc, error.at(loc)))?;
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
            } => {
                let entry = &program.implements[implement.index()];
                let selected = match entry.condition {
                    None => true,
                    Some(condition) => match self
                        .eval_plain(condition, scope, ready)
                        .map_err(|error| error.at(entry.loc))?
                    {
                        Value::Bool(selected) => selected,
                        Value::Unknown(_) => false,
                        value => {
                            let text = self.heap.to_text(value, self);
                            let message = format!(
                                "Invalid value `{text}`: the condition for a conditional implementation can only be a boolean expression"
                            );
                            return Err(runtime(entry.loc, message));
                        }
                    },
                };
                if selected {
                    for implementation in &entry.using {
                        self.implement(instance, *implementation, loc)?;
                    }
                }
            }
            Action::Promise {
                stmt,
                which,
                scope,
                group,
            } => self.run_promise(stmt, which, scope, group, ready)?,
            Action::Iterable { run } => {
                let comprehension = self.runs[run.index()].comprehension;
                let loc = program.comprehensions[comprehension.index()].loc;
                self.run_iterable(run, ready)
                    .map_err(|error| moved(error, loc))?
            }
            Action::Element { run, result, scope } => {
                self.run_element(run, result, scope, ready)?
            }
            Action::Collect { run } => self.run_collect(run)?,
            Action::Annotation { which, scope } => {
                let annotation = &program.annotations[which as usize];
                match self.eval_plain(annotation.expr, scope, ready) {
                    Ok(Value::Unknown(_)) => {
                        let error =
                            typing(annotation.loc, "Relation annotation can not be Unknown");
                        self.annotation_errors.push((annotation.entity, error));
                    }
                    Ok(_) => {}
                    Err(error) => self.annotation_errors.push((annotation.entity, error)),
                }
            }
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
                let var = self.resolve(scope, *target, node.loc)?;
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
                        self.heap.python_type(owner),
                        self.heap.to_text(owner, self)
                    );
                    return Err(typing(node.loc, message));
                };
                let slot = self.slot_or_fail(instance, *attribute, node.loc)?;
                if *append && self.known(slot).kind() != VarKind::List {
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
        let is_list = self.known(slot).kind() == VarKind::List;
        // A value that is whole needs no listener: the store delivers it.
        let requeue_count = self.requeue_count_of_list(value, scope, is_list);
        let mut dependencies = Dependencies::new();
        let mut listener = ListenerId::NONE;
        if requeue_count.is_none() {
            if is_list && !matches!(self.program.expr(value).kind, ExprKind::Const(_)) {
                listener = self.add_listener(Listener::Forward { target: slot, loc });
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
            Value::Instance(instance) => self.slot_or_fail(instance, name, loc),
            Value::List(_) => {
                let text = self.heap.repr(value, self);
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
                    self.expr_name(object),
                    self.heap.python_type(value),
                    self.heap.to_text(value, self)
                );
                Err(runtime(loc, message))
            }
        }
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
        let (listener, mut chain) = self.connect_proxy(proxy, slot);
        if listener.is_some() {
            self.listen(slot, listener)?;
        }
        while let Some(task) = self.next_waiter(&mut chain) {
            if !self.wait(slot, task) {
                self.notify(task);
            }
        }
        Ok(())
    }

    /// The left operand of `and` or `or` is known: it decides, or the right one is emitted.
    fn run_logic(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let node = self.program.expr(expr);
        let (left, right, name, decisive) = match node.kind {
            ExprKind::And(left, right) => (left, right, "and", false),
            ExprKind::Or(left, right) => (left, right, "or", true),
            _ => return Ok(()),
        };
        let value = self.eval_plain(left, scope, ready)?;
        match value {
            Value::Unknown(_) => {
                let unknown = self.heap.new_unknown();
                self.set_plain(result, unknown, Loc::NONE)
            }
            Value::Bool(found) if found == decisive => self.set_plain(result, value, Loc::NONE),
            Value::Bool(_) => self.act_on(
                right,
                scope,
                Action::LogicRight {
                    expr,
                    scope,
                    result,
                },
            ),
            value => {
                let text = self.heap.to_text(value, self);
                let message =
                    format!("Invalid left hand value `{text}`: `{name}` expects a boolean");
                Err(crate::runtime::python_bridge::references::not_bool(
                    value, node.loc, message,
                ))
            }
        }
    }

    /// One of the two branches of a conditional expression.
    pub(in crate::runtime) fn branch(&self, ternary: ExprId, then: bool) -> ExprId {
        match self.program.expr(ternary).kind {
            ExprKind::Ternary(_, yes, no) => {
                if then {
                    yes
                } else {
                    no
                }
            }
            _ => ternary,
        }
    }

    /// The list that an element's listener is of.
    pub(in crate::runtime) fn literal_of(&self, listener: ListenerId) -> VarId {
        match self.listeners[listener.index()] {
            Listener::Literal(literal) => literal,
            _ => VarId::NONE,
        }
    }

    /// One more item of a streamed list literal was delivered; after the last one the literal is
    /// complete.
    fn item_done(&mut self, literal: VarId) -> Result<(), Fail> {
        if self.var(literal).is_ready() {
            return Ok(());
        }
        let delayed = self.delayed_mut(literal);
        delayed.items -= 1;
        if delayed.items == 0 {
            self.freeze(literal)
        } else {
            Ok(())
        }
    }

    pub(in crate::runtime) fn is_type(&self, ty: crate::types::TypeId, wanted: &Type) -> bool {
        self.program.types[ty.index()] == *wanted
    }
}

/// An error is reported at what runs, not where it came up: inside of it, or where a value was delivered to.
fn moved(mut error: Fail, loc: Loc) -> Fail {
    let origin = std::mem::replace(&mut error.loc, loc);
    if origin != loc && origin != Loc::NONE {
        error.notes.push(("it goes wrong here".to_owned(), origin));
    }
    error
}
