//! What an expression depends on; asking creates the tasks that provide it. Source:
//! docs/reference/language.md § 8.6.
//!
//! `host.owner.name + suffix` depends on two variables: a proxy for `host.owner.name`, and
//! `suffix`. The proxy is made here, with a task that waits for `host.owner` and will connect it;
//! for `host.owner` there is another proxy and task. So one call of [`Machine::dependencies`] may
//! create many tasks, in the order in which the reference creates them: innermost and leftmost
//! first.
//!
//! The variables come in the order in which [`eval`](crate::runtime::exec::eval) will read them. If
//! a listener is given, it is attached on the way to whatever gives the elements: a list relation,
//! a streamed list literal, the branch of a conditional expression.

use crate::diagnostics::{Fail, not_found};
use crate::hir::{CallId, ExprId, ExprKind, FormatPart, QueryId, QueryKind, Ref};
use crate::intern::Symbol;
use crate::runtime::{
    Action, Dependencies, Listener, ListenerId, Machine, ModelState, ScopeId, VarId, VarKind,
};
use crate::span::Loc;
use crate::types::Value;

impl ModelState<'_> {
    /// The variable that a name stands for in a scope; an error with a similar name if there is
    /// none.
    pub(in crate::runtime) fn resolve(
        &self,
        scope: ScopeId,
        name: Ref,
        loc: Loc,
    ) -> Result<VarId, Fail> {
        self.find_variable(scope, name).map_err(|missing| {
            // The place is that of the statement, or of what else finds out.
            let name = self.program.text(missing).rsplit("::").next().unwrap_or("");
            let message = match self.program.unresolved.get(&(missing, loc)) {
                Some(message) => message.clone(),
                None => format!("variable {name} not found"),
            };
            let error = not_found(Loc::NONE, message);
            let similar = self.program.similar_variables.get(&(missing, loc));
            error.note("the name is here", loc).did_you_mean(similar)
        })
    }

    /// The variable that a name stands for in a scope. The error is the name that is not found.
    #[inline]
    pub(in crate::runtime) fn find_variable(
        &self,
        scope: ScopeId,
        name: Ref,
    ) -> Result<VarId, Symbol> {
        match name {
            Ref::Local { up, index } => {
                let mut at = scope;
                for _ in 0..up {
                    at = self.scopes[at.index()].parent;
                }
                Ok(VarId(self.scopes[at.index()].base.0 + index))
            }
            Ref::Root { namespace, index } => Ok(VarId(self.roots[namespace.index()].0 + index)),
            Ref::This => {
                let instance = self.scopes[scope.index()].instance;
                // The variable before the slots is the instance itself.
                Ok(VarId(self.instance(instance).slots.0 - 1))
            }
            Ref::Member { name, root } => {
                let instance = self.scopes[scope.index()].instance;
                if let Some(slot) = self.slot(instance, name) {
                    return Ok(slot);
                }
                if let Some((namespace, index)) = root {
                    return Ok(VarId(self.roots[namespace.index()].0 + index));
                }
                Err(name)
            }
            Ref::Missing(name) => Err(name),
        }
    }

    /// The answer of `is defined` for the value of a complete variable.
    pub(in crate::runtime) fn is_defined(&mut self, value: Value) -> Value {
        match value {
            Value::Null => Value::Bool(false),
            Value::Unknown(_) => self.heap.new_unknown(),
            Value::List(list) => {
                let items = self.heap.list(list);
                if items.is_empty() {
                    Value::Bool(false)
                } else if items.iter().all(|item| matches!(item, Value::Unknown(_))) {
                    self.heap.new_unknown()
                } else {
                    Value::Bool(true)
                }
            }
            _ => Value::Bool(true),
        }
    }
}

impl Machine<'_> {
    /// Appends what an expression depends on to `out`. A name that is not found has the place of
    /// the innermost expression around it that is made of others, else of the statement.
    pub(in crate::runtime) fn dependencies(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        context: VarId,
        listener: ListenerId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        let found = self.dependencies_of(expr, scope, context, listener, out);
        found.map_err(|error| {
            let node = self.program.expr(expr);
            match node.kind {
                ExprKind::Binary(..)
                | ExprKind::Lookup(..)
                | ExprKind::Not(_)
                | ExprKind::And(..)
                | ExprKind::Or(..)
                | ExprKind::Defined(_)
                | ExprKind::List(_)
                | ExprKind::Dict(_)
                | ExprKind::Format(_)
                | ExprKind::Call(_)
                | ExprKind::Cast(_)
                | ExprKind::Query(_) => error.at(node.loc),
                _ => error,
            }
        })
    }

    fn dependencies_of(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        context: VarId,
        listener: ListenerId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        let program = self.program;
        let node = program.expr(expr);
        match &node.kind {
            ExprKind::Const(_) => {}
            // It is about `self`, as the condition of a typedef is.
            ExprKind::Regex(_) => {
                if !self.state.scopes[scope.index()].instance.is_some() {
                    return Err(not_found(node.loc, "variable self not found"));
                }
            }
            ExprKind::Var(name) => {
                let var = self.state.resolve(scope, *name, node.loc)?;
                if listener.is_some() {
                    self.listen(var, listener)?;
                }
                out.push(var);
            }
            ExprKind::Attr(object, _) => {
                let proxy = self.attribute_proxy(expr, *object, scope, listener)?;
                out.push(proxy);
            }
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                self.plain_dependencies(*left, scope, out)?;
                self.plain_dependencies(*right, scope, out)?;
            }
            ExprKind::Not(operand) => self.plain_dependencies(*operand, scope, out)?,
            ExprKind::And(left, _) | ExprKind::Or(left, _) => {
                let result = self.state.temporary();
                self.act_on(
                    *left,
                    scope,
                    Action::Logic {
                        expr,
                        scope,
                        result,
                    },
                )?;
                out.push(result);
            }
            ExprKind::Ternary(condition, ..) => {
                let result = self.state.temporary();
                self.act_on(
                    *condition,
                    scope,
                    Action::Ternary {
                        expr,
                        scope,
                        result,
                        listener,
                        context,
                    },
                )?;
                out.push(result);
            }
            ExprKind::Defined(operand) => {
                // Not a temporary: the task may outlive the one that reads the answer.
                let result = self.state.recycled(VarKind::Plain);
                self.defined(expr, *operand, scope, result)?;
                out.push(result);
            }
            ExprKind::List(items) if listener.is_some() => {
                let literal = self.streaming_list(expr, items, scope, context, listener)?;
                out.push(literal);
            }
            ExprKind::List(items) => {
                for item in items {
                    self.dependencies(*item, scope, context, ListenerId::NONE, out)?;
                }
            }
            ExprKind::Dict(entries) => {
                for (_, value) in entries {
                    self.plain_dependencies(*value, scope, out)?;
                }
            }
            ExprKind::Format(parts) => self.format_dependencies(parts, scope, out)?,
            ExprKind::Construct(id) => {
                let construct = &program.constructs[id.index()];
                for (_, value) in &construct.direct {
                    self.plain_dependencies(*value, scope, out)?;
                }
                for value in &construct.spreads {
                    self.plain_dependencies(*value, scope, out)?;
                }
            }
            ExprKind::Call(id) | ExprKind::Cast(id) => out.push(self.call_task(expr, *id, scope)?),
            ExprKind::Query(id) => out.push(self.query_task(expr, *id, scope)?),
            ExprKind::Comprehension(id) => {
                let result = self.start_comprehension(*id, scope, context, listener)?;
                out.push(result);
            }
        }
        Ok(())
    }

    /// Makes the task that calls a plugin or a type when the arguments are known, and gives the variable of its result.
    fn call_task(&mut self, expr: ExprId, id: CallId, scope: ScopeId) -> Result<VarId, Fail> {
        let call = &self.program.calls[id.index()];
        let result = self.state.temporary();
        let named = call.named.iter().map(|(_, value)| value);
        let all = call.positional.iter().chain(named).chain(&call.spreads);
        let action = Action::Call {
            expr,
            scope,
            result,
            seq: self.scheduler.numbers.peek(self.state.vars.round()),
        };
        self.act_on_all(all, scope, action)?;
        Ok(result)
    }

    /// Makes the task that looks an instance up when the values it is looked up by are known, and gives the variable of
    /// its result.
    fn query_task(&mut self, expr: ExprId, id: QueryId, scope: ScopeId) -> Result<VarId, Fail> {
        let query = &self.program.queries[id.index()];
        let result = self.state.temporary();
        let object = match &query.kind {
            QueryKind::Relation(object, _) => Some(object),
            QueryKind::Entity(_) => None,
        };
        let named = query.args.iter().map(|(_, value)| value);
        let all = object.into_iter().chain(named).chain(&query.spreads);
        let action = Action::Query {
            expr,
            scope,
            result,
        };
        self.act_on_all(all, scope, action)?;
        Ok(result)
    }

    /// The variable that stands for `object.attribute` until the object is known, and what makes it known.
    fn attribute_proxy(
        &mut self,
        expr: ExprId,
        object: ExprId,
        scope: ScopeId,
        listener: ListenerId,
    ) -> Result<VarId, Fail> {
        let proxy = self.state.recycled(VarKind::Proxy);
        let action = Action::Attr { expr, scope, proxy };
        let requeue_count = self.requeue_count(object, scope);
        let mut dependencies = Dependencies::new();
        if requeue_count.is_none() {
            self.plain_dependencies(object, scope, &mut dependencies)?;
        }
        if listener.is_some() {
            self.listen(proxy, listener)?;
        }
        match requeue_count {
            Some(requeue_count) => self.add_direct(action, requeue_count),
            None => {
                self.add_task(action, dependencies)?;
            }
        }
        Ok(proxy)
    }

    /// Runs an action as soon as all these have their values.
    fn act_on_all<'e>(
        &mut self,
        all: impl Iterator<Item = &'e ExprId> + Clone,
        scope: ScopeId,
        action: Action,
    ) -> Result<(), Fail> {
        if let Some(requeue_count) = self.requeue_count_of(all.clone(), scope) {
            self.add_direct(action, requeue_count);
            return Ok(());
        }
        let mut dependencies = Dependencies::new();
        for value in all {
            self.plain_dependencies(*value, scope, &mut dependencies)?;
        }
        self.add_task(action, dependencies)?;
        Ok(())
    }

    /// The same for an expression that is not assigned to a relation and has no listener.
    pub(in crate::runtime) fn plain_dependencies(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        self.dependencies(expr, scope, VarId::NONE, ListenerId::NONE, out)
    }

    /// The same for the parts of a format string.
    fn format_dependencies(
        &mut self,
        parts: &[FormatPart],
        scope: ScopeId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        for part in parts {
            match part {
                FormatPart::Text(_) => {}
                FormatPart::Value(value) => self.plain_dependencies(*value, scope, out)?,
                FormatPart::Field { value, spec, .. } => {
                    if let Some(value) = value {
                        self.plain_dependencies(*value, scope, out)?;
                    }
                    self.format_dependencies(spec, scope, out)?;
                }
            }
        }
        Ok(())
    }

    /// Emits a list literal whose elements a listener wants: each item is delivered as soon as it
    /// is known, and the literal is complete when all were. The variable is that of the whole list.
    fn streaming_list(
        &mut self,
        list: ExprId,
        items: &[ExprId],
        scope: ScopeId,
        context: VarId,
        listener: ListenerId,
    ) -> Result<VarId, Fail> {
        let literal = self.state.add_var(VarKind::Literal);
        self.listen(literal, listener)?;
        let own = self.scheduler.add_listener(Listener::Literal(literal));
        self.state.delayed_mut(literal).items = items.len() as u32;
        for item in items {
            let mut dependencies = Dependencies::new();
            self.dependencies(*item, scope, context, own, &mut dependencies)?;
            self.promise(literal);
            self.add_task(
                Action::Item {
                    expr: *item,
                    list,
                    scope,
                    listener: own,
                    context,
                },
                dependencies,
            )?;
        }
        if items.is_empty() {
            self.freeze(literal)?;
        }
        Ok(literal)
    }

    /// Emits `operand is defined`.
    fn defined(
        &mut self,
        expr: ExprId,
        operand: ExprId,
        scope: ScopeId,
        result: VarId,
    ) -> Result<(), Fail> {
        let program = self.program;
        match &program.expr(operand).kind {
            ExprKind::Attr(object, _) => self.act_on(
                *object,
                scope,
                Action::DefinedAttr {
                    expr,
                    scope,
                    result,
                },
            ),
            ExprKind::Var(name) => {
                let var = self
                    .state
                    .resolve(scope, *name, program.expr(operand).loc)?;
                self.defined_on(var, result)
            }
            _ => {
                let loc = program.expr(expr).loc;
                Err(crate::diagnostics::runtime(
                    loc,
                    "only variables and attributes can be checked for `is defined`",
                ))
            }
        }
    }

    /// Decides whether a variable is defined: now if it is ready, else when the first element
    /// arrives or the variable is complete. The listener has to know the task that it will make
    /// superfluous, which is created after it; so the task's number is foreseen.
    pub(in crate::runtime) fn defined_on(&mut self, var: VarId, result: VarId) -> Result<(), Fail> {
        let var = self.state.target(var);
        if self.state.is_ready(var) {
            let answer = self
                .state
                .is_defined(self.state.var(var).value(&self.state.heap));
            return self.set_plain(result, answer, Loc::NONE);
        }
        let is_list = matches!(self.state.var(var).kind(), VarKind::List | VarKind::Literal);
        let next = self.scheduler.next_task();
        if is_list {
            let listener = self
                .scheduler
                .add_listener(Listener::Defined { task: next, result });
            self.listen(var, listener)?;
        }
        let mut dependencies = Dependencies::new();
        dependencies.push(var);
        let task = self.add_task(Action::Defined { result }, dependencies)?;
        debug_assert!(task == next);
        Ok(())
    }
}
