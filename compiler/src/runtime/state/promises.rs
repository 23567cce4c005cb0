//! Eager promises: an `if` or `for` that assigns attributes inside keeps those open until it is decided.
//! Source: docs/reference/language.md § 8.6.

use crate::diagnostics::Fail;
use crate::hir::{ExprId, ExprKind, Promise, StmtId, StmtKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{
    Action, Dependencies, Machine, PromiseGroup, PromiseGroupId, ScopeId, VarId, VarKind,
};
use crate::types::Value;

impl Machine<'_> {
    pub(in crate::runtime) fn hold(
        &mut self,
        stmt: StmtId,
        promises: &[Promise],
        scope: ScopeId,
    ) -> Result<PromiseGroupId, Fail> {
        if promises.is_empty() {
            return Ok(PromiseGroupId::NONE);
        }
        let group = PromiseGroupId(self.promise_groups.len() as u32);
        self.promise_groups.push(PromiseGroup {
            executed: false,
            round: self.vars.round(),
            slots: smallvec::smallvec![VarId::NONE; promises.len()],
        });
        for (which, promise) in promises.iter().enumerate() {
            let mut dependencies = Dependencies::new();
            self.promised_dependencies(promise.object, scope, &mut dependencies)
                .map_err(|mut error| {
                    error.loc = self.program.stmts[stmt.index()].loc;
                    error
                })?;
            self.add_task(
                Action::Promise {
                    stmt,
                    which: which as u32,
                    scope,
                    group,
                },
                dependencies,
            )?;
        }
        Ok(group)
    }

    /// The needs of a path, none of whose units may fail for an unset optional.
    fn promised_dependencies(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        let ExprKind::Attr(object, _) = self.program.expr(expr).kind else {
            return self.plain_dependencies(expr, scope, out);
        };
        let proxy = self.recycled(VarKind::Proxy);
        let mut dependencies = Dependencies::new();
        self.promised_dependencies(object, scope, &mut dependencies)?;
        self.add_task(Action::PromisedAttr { expr, scope, proxy }, dependencies)?;
        out.push(proxy);
        Ok(())
    }

    pub(in crate::runtime) fn run_promised(
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
        let slot = match self.eval_plain(object, scope, ready) {
            Ok(value) => self.attribute_slot(value, name, object, node.loc)?,
            // Whoever reads on along the path finds the same optional.
            Err(error) if error.kind == "OptionalValueException" => {
                self.target(ready.dependencies[0])
            }
            Err(error) => return Err(error),
        };
        self.connect(proxy, slot)
            .map_err(|error| error.at(node.loc))
    }

    pub(in crate::runtime) fn run_promise(
        &mut self,
        stmt: StmtId,
        which: u32,
        scope: ScopeId,
        group: PromiseGroupId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let (StmtKind::For { promises, .. } | StmtKind::If { promises, .. }) =
            &self.program.stmts[stmt.index()].kind
        else {
            return Ok(());
        };
        let promise = promises[which as usize];
        let value = match self.eval_plain(promise.object, scope, ready) {
            Ok(value) => value,
            Err(error) if error.kind == "OptionalValueException" => return Ok(()),
            Err(error) => return Err(error),
        };
        let slot = match value {
            Value::Instance(instance) => {
                self.slot_or_fail(instance, promise.attribute, promise.loc)?
            }
            value => self.attribute_slot(value, promise.attribute, promise.object, promise.loc)?,
        };
        self.vars
            .check(&mut self.promise_groups[group.index()].round);
        if self.promise_groups[group.index()].executed {
            return Ok(());
        }
        if self.promise(slot) {
            self.promise_groups[group.index()].slots[which as usize] = slot;
        }
        Ok(())
    }

    /// The statement is decided: its promises are kept, in static order.
    pub(in crate::runtime) fn release(&mut self, group: PromiseGroupId) {
        if !group.is_some() {
            return;
        }
        self.vars
            .check(&mut self.promise_groups[group.index()].round);
        self.promise_groups[group.index()].executed = true;
        for slot in std::mem::take(&mut self.promise_groups[group.index()].slots) {
            if slot.is_some() {
                self.fulfil(slot);
            }
        }
    }
}
