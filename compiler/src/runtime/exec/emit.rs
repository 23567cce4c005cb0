//! Emits blocks and statements: each becomes a step, or a task that waits for what it needs.
//! Source: docs/reference/language.md § 8.6.
//!
//! To emit is to create tasks; nothing is evaluated meanwhile. Blocks are emitted in the order that
//! docs/reference/language.md § 2.4 gives: files from the first statement on, nested blocks from
//! the last one. That is not a detail: it is the order in which tasks are created and queued, and
//! models notice.
//!
//! An error in emitting a statement does not end the block: the statements after it are emitted,
//! too, so that their mistakes can be told (`report/error_recovery.rs`).

use crate::diagnostics::Fail;
use crate::hir::{BlockId, NamespaceId, StmtId, StmtKind};
use crate::runtime::exec::control::ForLoop;
use crate::runtime::{Action, Dependencies, InstId, Listener, LoopId, Machine, ScopeId, VarId};

impl Machine<'_> {
    /// Makes the scopes of all files and emits their statements, then the relation annotations. All
    /// scopes exist before the first statement is emitted, since it may name variables of every
    /// file.
    pub(in crate::runtime) fn emit_roots(&mut self) -> Result<(), Fail> {
        for namespace in &self.program.namespaces {
            let id = NamespaceId(self.state.roots.len() as u32);
            let scope = self
                .state
                .add_scope(ScopeId::NONE, namespace.root, InstId::NONE, id);
            self.state.roots.push(self.state.scopes[scope.index()].base);
            self.state.root_scopes.push(scope);
        }
        let mut result = Ok(());
        for at in 0..self.state.root_scopes.len() {
            let scope = self.state.root_scopes[at];
            let emitted = self.emit_block(self.program.namespaces[at].root, scope);
            result = self.report.first_of(result, emitted);
        }
        result?;
        for which in 0..self.program.annotations.len() {
            let annotation = &self.program.annotations[which];
            let scope = self.state.root_scopes[annotation.namespace.index()];
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
                result = self.report.first_of(result, Err(error));
            }
        }
        result
    }

    /// Creates the tasks of one statement. An `if` or `for` makes its promises before anything
    /// else.
    fn emit(&mut self, id: StmtId, scope: ScopeId) -> Result<(), Fail> {
        let stmt = &self.program.stmts[id.index()];
        let at_stmt = |error: Fail| error.at(stmt.loc);
        self.report.leave_place(stmt.loc);
        match &stmt.kind {
            StmtKind::Expr(expr) => self
                .act_on(*expr, scope, Action::Stmt { stmt: id, scope })
                .map_err(at_stmt),
            StmtKind::Assign { target, value } => {
                self.state
                    .resolve(scope, *target, stmt.loc)
                    .map_err(at_stmt)?;
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
                let run = LoopId(self.exec.loops.len() as u32);
                let listener = self.scheduler.add_listener(Listener::For(run));
                self.exec.loops.push(ForLoop {
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
}
