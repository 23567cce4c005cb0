//! Eager promises: an `if` or `for` that assigns attributes inside keeps those open until it is decided.
//! Source: language.md 8.6.

use crate::diagnostics::Fail;
use crate::hir::{ExprId, ExprKind, Promise, StmtId, StmtKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{Action, Holder, HolderId, Machine, Needs, ScopeId, VarId, VarKind};
use crate::types::Value;

impl Machine<'_> {
    pub(in crate::runtime) fn hold(
        &mut self,
        stmt: StmtId,
        promises: &[Promise],
        scope: ScopeId,
    ) -> Result<HolderId, Fail> {
        if promises.is_empty() {
            return Ok(HolderId::NONE);
        }
        let holder = HolderId(self.holders.len() as u32);
        self.holders.push(Holder {
            executed: false,
            round: self.vars.round(),
            slots: smallvec::smallvec![VarId::NONE; promises.len()],
        });
        for (which, promise) in promises.iter().enumerate() {
            let mut needs = Needs::new();
            self.promised_needs(promise.object, scope, &mut needs)
                .map_err(|mut error| {
                    error.loc = self.program.stmts[stmt.index()].loc;
                    error
                })?;
            self.add_unit(
                Action::Promise {
                    stmt,
                    which: which as u32,
                    scope,
                    holder,
                },
                needs,
            )?;
        }
        Ok(holder)
    }

    /// The needs of a path, none of whose units may fail for an unset optional.
    fn promised_needs(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        out: &mut Needs,
    ) -> Result<(), Fail> {
        let ExprKind::Attr(object, _) = self.program.expr(expr).kind else {
            return self.plain_needs(expr, scope, out);
        };
        let proxy = self.recycled(VarKind::Proxy);
        let mut needs = Needs::new();
        self.promised_needs(object, scope, &mut needs)?;
        self.add_unit(Action::PromisedAttr { expr, scope, proxy }, needs)?;
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
            Err(error) if error.kind == "OptionalValueException" => self.target(ready.needs[0]),
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
        holder: HolderId,
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
        self.vars.check(&mut self.holders[holder.index()].round);
        if self.holders[holder.index()].executed {
            return Ok(());
        }
        if self.promise(slot) {
            self.holders[holder.index()].slots[which as usize] = slot;
        }
        Ok(())
    }

    /// The statement is decided: its promises are kept, in static order.
    pub(in crate::runtime) fn release(&mut self, holder: HolderId) {
        if !holder.is_some() {
            return;
        }
        self.vars.check(&mut self.holders[holder.index()].round);
        self.holders[holder.index()].executed = true;
        for slot in std::mem::take(&mut self.holders[holder.index()].slots) {
            if slot.is_some() {
                self.fulfil(slot);
            }
        }
    }
}
