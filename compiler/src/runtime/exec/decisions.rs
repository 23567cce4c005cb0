//! Expressions that decide which of their parts are evaluated: `and`, `or`, `if` with `else`, `is defined`.
//! Source: docs/reference/language.md § 8.6.
//!
//! Such an expression must not wait for what it may not need: in `x.ok and x.peer.ok` the second part
//! may never get a value when the first one is false, and a model that is complete would seem to
//! hang. So only the deciding part is a dependency of the expression. For the whole there is a
//! variable `result`; when the deciding part has its value, a `run_` function here either sets
//! `result` or emits the part that is evaluated next, with an action of its own that sets it.
//! Whoever reads the expression waits for `result`, however many actions it takes to get there.

use crate::diagnostics::{Fail, runtime};
use crate::hir::{ExprId, ExprKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::python_bridge::references::{not_bool, undeclared};
use crate::runtime::{Action, Dependencies, ListenerId, Machine, ScopeId, VarId};
use crate::span::Loc;
use crate::types::Value;

impl Machine<'_> {
    /// The left operand of `and` or `or` is known: it decides, or the right one is emitted.
    pub(super) fn run_logic(
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
                let unknown = self.state.heap.new_unknown();
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
                let text = self.state.heap.to_text(value, &self.state);
                let message =
                    format!("Invalid left hand value `{text}`: `{name}` expects a boolean");
                Err(not_bool(value, node.loc, message))
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

    /// The left side of `and` or `or` did not decide, so the right one does.
    pub(super) fn run_logic_right(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let node = self.program.expr(expr);
        let (ExprKind::And(_, right) | ExprKind::Or(_, right)) = node.kind else {
            return Ok(());
        };
        let value = self.eval_plain(right, scope, ready);
        let value = value.map_err(|error| error.at(node.loc))?;
        match value {
            Value::Bool(_) | Value::Unknown(_) => self.set_plain(result, value, Loc::NONE),
            Value::Reference(_) => Err(undeclared("bool", node.loc)),
            value => {
                let text = self.state.heap.to_text(value, &self.state);
                let message = format!("Invalid value '{text}', expected bool");
                Err(runtime(node.loc, message))
            }
        }
    }

    /// The condition of a conditional expression is known, so the branch that it selects is evaluated next.
    pub(super) fn run_ternary(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        (context, listener): (VarId, ListenerId),
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let node = self.program.expr(expr);
        let ExprKind::Ternary(condition, then, otherwise) = node.kind else {
            return Ok(());
        };
        let branch = match self.eval_plain(condition, scope, ready)? {
            Value::Bool(true) => then,
            Value::Bool(false) => otherwise,
            Value::Unknown(_) => return self.set_unknown(result, listener),
            value => {
                let text = self.state.heap.to_text(value, &self.state);
                let message = format!(
                    "Invalid value `{text}`: the condition for a conditional expression must be a boolean expression"
                );
                return Err(runtime(node.loc, message));
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
        let requeue_count = self.requeue_count_of_list(branch, scope, listener.is_some());
        if let Some(requeue_count) = requeue_count {
            self.add_direct(action, requeue_count);
            return Ok(());
        }
        let mut dependencies = Dependencies::new();
        self.dependencies(branch, scope, context, listener, &mut dependencies)?;
        self.add_task(action, dependencies)?;
        Ok(())
    }

    /// A condition is Unknown, so its expression is. The listener gets that when the whole value does; only a list literal
    /// keeps it as its element now.
    fn set_unknown(&mut self, result: VarId, listener: ListenerId) -> Result<(), Fail> {
        let unknown = self.state.heap.new_unknown();
        let literal = self.scheduler.literal_of(listener);
        if literal.is_some() && !self.state.var(literal).is_ready() {
            self.state.delayed_mut(literal).elements.push(unknown);
        }
        self.set_plain(result, unknown, Loc::NONE)
    }

    /// Answers `variable is defined`, if its first element did not answer it before.
    pub(super) fn run_defined(&mut self, result: VarId, ready: &Ready) -> Result<(), Fail> {
        if self.state.var(result).is_ready() {
            return Ok(());
        }
        let var = self.state.target(ready.dependencies[0]);
        let value = self.state.var(var).value(&self.state.heap);
        let answer = self.state.is_defined(value);
        self.set_plain(result, answer, Loc::NONE)
    }

    /// The object of `object.attribute is defined` is known; whether its attribute is defined is decided as of a variable.
    pub(super) fn run_defined_attribute(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let program = self.program;
        let ExprKind::Defined(operand) = program.expr(expr).kind else {
            return Ok(());
        };
        let node = program.expr(operand);
        let ExprKind::Attr(object, name) = node.kind else {
            return Ok(());
        };
        let value = self.eval_plain(object, scope, ready)?;
        let slot = self.attribute_slot(value, name, object, node.loc)?;
        self.defined_on(slot, result)
    }
}
