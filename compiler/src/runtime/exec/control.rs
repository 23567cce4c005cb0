//! What `for`, `if` and `implement` start. Source: docs/reference/language.md § 8.9.
//!
//! Each of them makes a scope for its block and emits the statements of the block in it. Promises
//! of an `if` or `for` are kept right before (`exec/promises.rs`).

use crate::diagnostics::{Fail, typing};
use crate::hir::{ExprKind, ImplementationId, StmtId, StmtKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{InstId, ListenerId, LoopId, Machine, PromiseGroupId, ScopeId, VarId};
use crate::span::Loc;
use crate::types::Value;

/// A `for` that may get more elements.
pub(in crate::runtime) struct ForLoop {
    /// The statement.
    pub stmt: StmtId,
    /// The scope that it is in.
    pub scope: ScopeId,
    /// Its promises.
    pub group: PromiseGroupId,
    /// What starts the bodies as elements come.
    pub listener: ListenerId,
}

impl Machine<'_> {
    /// Starts the body of a `for` for one element, which may be long before the list is complete.
    /// An Unknown element starts nothing.
    pub(in crate::runtime) fn start_body(&mut self, run: LoopId, item: Value) -> Result<(), Fail> {
        if matches!(item, Value::Unknown(_)) {
            return Ok(());
        }
        let (stmt, outer) = {
            let run = &self.exec.loops[run.index()];
            (run.stmt, run.scope)
        };
        let node = &self.program.stmts[stmt.index()];
        let StmtKind::For { body, .. } = node.kind else {
            return Ok(());
        };
        let parent = self.state.scopes[outer.index()];
        let scope = self
            .state
            .add_scope(outer, body, parent.instance, parent.namespace);
        self.state.set_maker(scope, item);
        let variable = self.state.scopes[scope.index()].base;
        self.set_plain(variable, item, node.loc)?;
        self.emit_block(body, scope)
    }

    /// The list of a `for` is complete. Elements that were not streamed start their bodies now.
    pub(in crate::runtime) fn run_for(
        &mut self,
        run: LoopId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let (stmt, scope, group, listener) = {
            let run = &self.exec.loops[run.index()];
            (run.stmt, run.scope, run.group, run.listener)
        };
        let node = &self.program.stmts[stmt.index()];
        let StmtKind::For { iterable, .. } = node.kind else {
            return Ok(());
        };
        self.release(group);
        let not_a_list = |machine: &Self, value: Value| {
            let text = machine.state.heap.to_text(value, &machine.state);
            let hint = match machine.program.expr(iterable).kind {
                ExprKind::Const(_) => format!("'{text}' is not a list."),
                _ => format!("'{}' resolves to '{text}'.", machine.expr_name(iterable)),
            };
            typing(
                node.loc,
                format!("A for loop can only be applied to lists and relations. Hint: {hint}"),
            )
        };
        let value = self
            .eval(iterable, scope, ready, VarId::NONE, listener)
            .map_err(|error| error.at(node.loc))?;
        match value {
            Value::List(_) | Value::Unknown(_) => Ok(()),
            value => Err(not_a_list(self, value)),
        }
    }

    /// The condition of an `if` is known: one of its blocks is emitted, or none if it is Unknown.
    pub(in crate::runtime) fn run_if(
        &mut self,
        stmt: StmtId,
        scope: ScopeId,
        group: PromiseGroupId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let node = &self.program.stmts[stmt.index()];
        let StmtKind::If {
            condition,
            then,
            otherwise,
            ..
        } = node.kind
        else {
            return Ok(());
        };
        self.release(group);
        let value = self
            .eval_plain(condition, scope, ready)
            .map_err(|error| error.at(node.loc))?;
        let block = match value {
            Value::Bool(true) => then,
            Value::Bool(false) => otherwise,
            Value::Unknown(_) => return Ok(()),
            value => {
                let text = self.state.heap.to_text(value, &self.state);
                let message = format!(
                    "Invalid value `{text}`: the condition for an if statement can only be a boolean expression"
                );
                return Err(crate::runtime::python_bridge::references::not_bool(
                    value, node.loc, message,
                ));
            }
        };
        if self.program.blocks[block.index()].stmts.is_empty() {
            return Ok(());
        }
        let parent = self.state.scopes[scope.index()];
        let scope = self
            .state
            .add_scope(scope, block, parent.instance, parent.namespace);
        self.emit_block(block, scope)
    }

    /// Runs an implementation on an instance, unless it has run there. Several `implement` entries,
    /// and those of ancestors, may select the same one. Which have run is a bit each; those from 63
    /// on share the last bit, and are told apart in a set.
    pub(in crate::runtime) fn implement(
        &mut self,
        instance: InstId,
        implementation: ImplementationId,
        loc: Loc,
    ) -> Result<(), Fail> {
        let entity = self.state.instance(instance).entity;
        let at = self.exec.layouts[entity.index()]
            .implementations
            .iter()
            .position(|id| *id == implementation)
            .unwrap_or(0);
        let first = if at < 63 {
            let ran = &mut self.state.instances[instance.index()].ran;
            let first = *ran & (1 << at) == 0;
            *ran |= 1 << at;
            first
        } else {
            self.state.instances[instance.index()].ran |= 1 << 63;
            self.exec.many_ran.insert((instance, at as u32))
        };
        if !first {
            return Ok(());
        }
        let definition = &self.program.implementations[implementation.index()];
        if self.program.blocks[definition.block.index()]
            .stmts
            .is_empty()
        {
            return Ok(());
        }
        self.check_limits(loc)?;
        let scope = self.state.add_scope(
            ScopeId::NONE,
            definition.block,
            instance,
            definition.namespace,
        );
        self.emit_block(definition.block, scope)
    }
}
