//! Eager promises: an `if` or `for` that assigns attributes keeps those open until it is decided.
//! Source: docs/reference/language.md § 8.6.
//!
//! # What for
//!
//! ```text
//! if std::count(host.services) > 0:
//!     host.backup = spare
//! end
//! name = host.backup is defined ? host.backup.name : "none"
//! ```
//!
//! `host.backup` is an optional relation. When nothing else is left to run, two relations could be
//! declared complete: `services`, which the condition waits for, and `backup`, which the last line
//! waits for. To choose `backup` would be wrong, for the assignment inside the `if` comes later
//! than the choice. So the `if` *promises* to add to `backup` as soon as it is emitted, before its
//! condition is known. A variable with an open promise is not declared complete, except to break a
//! circle (step C of [`wait_queue`](crate::runtime::scheduler::wait_queue)).
//!
//! # How
//!
//! Which attributes a statement may assign is known when the model is read: `hir` lists for each
//! `if` and `for` the assignments `object.attribute = …` inside of it, through further `if`s and
//! `for`s, whose object is known outside. (Those in implementations are not listed: an
//! implementation may run on any instance.) The promises of one statement are a *promise group*:
//!
//! 1. [`Machine::hold`] makes the group when the statement is emitted, and a task for each promise
//!    that waits for its object.
//! 2. [`Machine::run_promise`] runs when the object is known: now the slot is known too, and its
//!    count of open promises goes up. If the statement was decided before, there is nothing to hold
//!    open any more.
//! 3. [`Machine::release`] runs when the statement is decided, *before* its block is emitted: all
//!    promises are kept, and those whose object is not known yet are given up. The assignments in
//!    the block, whose object is known too, are then in the queue of steps, and make promises of
//!    their own when they run; since no relation is declared complete while the queue has steps,
//!    the variable stays open in between. A `for` is decided when its list is complete; until then
//!    another element may start another body.
//!
//! # Invariants
//!
//! - Promises are made and kept in the static order of the group, not in the order in which the
//!   objects became known: keeping one may put its variable into the wait queue, whose order
//!   decides what is complete first.
//! - A slot counts as many promises as were made on it; each group keeps exactly those that it made
//!   (`PromiseGroup::slots`, `NONE` for those that it could not make).
//! - A promise is help, not an assignment: an unset optional on the path to its object ends it in
//!   silence, and whoever reads that path for real gets the error. All other mistakes on the path
//!   are errors here.

use crate::diagnostics::Fail;
use crate::hir::{ExprId, ExprKind, Promise, StmtId, StmtKind};
use crate::runtime::exec::eval::Ready;
use crate::runtime::{Action, Dependencies, Machine, PromiseGroupId, ScopeId, VarId, VarKind};
use crate::types::Value;

/// The promises of one `if` or `for`.
pub(in crate::runtime) struct PromiseGroup {
    executed: bool,
    /// In tiles: the last round that used it.
    round: u8,
    slots: smallvec::SmallVec<[VarId; 2]>,
}

impl PromiseGroup {
    /// The slots that the promises are on, in static order; `NONE` for those that were not made.
    pub fn slots(&self) -> &[VarId] {
        &self.slots
    }
}

impl Machine<'_> {
    /// Makes the promise group of an `if` or `for` that is emitted. A statement that assigns
    /// nothing has none.
    pub(in crate::runtime) fn hold(
        &mut self,
        stmt: StmtId,
        promises: &[Promise],
        scope: ScopeId,
    ) -> Result<PromiseGroupId, Fail> {
        if promises.is_empty() {
            return Ok(PromiseGroupId::NONE);
        }
        let group = PromiseGroupId(self.exec.promise_groups.len() as u32);
        self.exec.promise_groups.push(PromiseGroup {
            executed: false,
            round: self.state.vars.round(),
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

    /// The dependencies of the path to an object, with tasks of their own that do not fail for an
    /// unset optional.
    fn promised_dependencies(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        out: &mut Dependencies,
    ) -> Result<(), Fail> {
        let ExprKind::Attr(object, _) = self.program.expr(expr).kind else {
            return self.plain_dependencies(expr, scope, out);
        };
        let proxy = self.state.recycled(VarKind::Proxy);
        let mut dependencies = Dependencies::new();
        self.promised_dependencies(object, scope, &mut dependencies)?;
        self.add_task(Action::PromisedAttr { expr, scope, proxy }, dependencies)?;
        out.push(proxy);
        Ok(())
    }

    /// An attribute on the path of a promise: its object is known, and its proxy gets a target. If
    /// the object is an unset optional, the target is that optional itself, so that the next one on
    /// the path finds it unset, too, and in the end the promise is not made.
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
                self.state.target(ready.dependencies[0])
            }
            Err(error) => return Err(error),
        };
        self.connect(proxy, slot)
            .map_err(|error| error.at(node.loc))
    }

    /// The object of promise number `which` of a statement is known: the promise is made on its
    /// slot, unless the statement was decided before.
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
                self.state
                    .slot_or_fail(instance, promise.attribute, promise.loc)?
            }
            value => self.attribute_slot(value, promise.attribute, promise.object, promise.loc)?,
        };
        self.state
            .vars
            .check(&mut self.exec.promise_groups[group.index()].round);
        if self.exec.promise_groups[group.index()].executed {
            return Ok(());
        }
        if self.promise(slot) {
            self.exec.promise_groups[group.index()].slots[which as usize] = slot;
        }
        Ok(())
    }

    /// The statement is decided: its promises are kept, in static order, and no more are made.
    pub(in crate::runtime) fn release(&mut self, group: PromiseGroupId) {
        if !group.is_some() {
            return;
        }
        self.state
            .vars
            .check(&mut self.exec.promise_groups[group.index()].round);
        self.exec.promise_groups[group.index()].executed = true;
        for slot in std::mem::take(&mut self.exec.promise_groups[group.index()].slots) {
            if slot.is_some() {
                self.fulfil(slot);
            }
        }
    }
}
