//! Variables of one block: what two of its assignments give them, and what waits for itself.
//! Source: docs/reference/language.md § 8.3.

use super::Walker;
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map;
use crate::hir::{BlockId, ExprId, ExprKind, FormatPart, Ref, StmtId, StmtKind};
use crate::span::Loc;
use crate::types::{Heap, Value};

/// What a block assigns to each variable, as far as it is certain, and where.
pub(super) type Assigned = Map<Ref, (ExprId, Loc)>;

impl Walker<'_, '_> {
    /// All statements of a block run, or none: of two values that differ the second is one too many.
    pub(super) fn assignments(&mut self, block: BlockId, assigned: &mut Assigned) {
        for stmt in &self.program.blocks[block.index()].stmts {
            let stmt = &self.program.stmts[stmt.index()];
            let StmtKind::Assign { target, value } = stmt.kind else {
                continue;
            };
            let is_variable = matches!(target, Ref::Local { .. } | Ref::Root { .. });
            if !is_variable || !self.is_definite(value) {
                continue;
            }
            match assigned.get(&target).copied() {
                Some((old, set_at)) => {
                    if let Some(error) = self.double_set((old, set_at), (value, stmt.loc)) {
                        self.report(error);
                    }
                }
                None => {
                    assigned.insert(target, (value, stmt.loc));
                }
            }
        }
    }

    /// A constant, or an instance that no other constructor can make.
    fn is_definite(&self, value: ExprId) -> bool {
        match self.program.expr(value).kind {
            ExprKind::Const(value) => !has_unknown(&self.machine.state.heap, value),
            ExprKind::Construct(id) => {
                let entity = self.program.constructs[id.index()].entity;
                let is_indexed = !self.program.entity(entity).indexes.is_empty();
                !is_indexed && !self.is_broken(entity)
            }
            _ => false,
        }
    }

    fn double_set(&self, (old, set_at): (ExprId, Loc), (new, loc): (ExprId, Loc)) -> Option<Fail> {
        if let (ExprKind::Const(old), ExprKind::Const(new)) =
            (&self.program.expr(old).kind, &self.program.expr(new).kind)
            && self.machine.state.heap.equal(*old, *new)
        {
            return None;
        }
        let texts = (self.definite_text(old), self.definite_text(new));
        Some(self.machine.state.double_set_of(texts, (set_at, loc), loc))
    }

    fn definite_text(&self, value: ExprId) -> String {
        let value = self.program.expr(value);
        match value.kind {
            ExprKind::Construct(id) => {
                let construct = &self.program.constructs[id.index()];
                let place = self.program.sources.brief(construct.loc);
                let name = self.program.entity_name(construct.entity);
                format!("{name} (instantiated at {place})")
            }
            ExprKind::Const(value) => self.machine.state.heap.to_text(value, &self.machine.state),
            _ => String::new(),
        }
    }

    /// A variable whose only value is made of itself. That of a loop, the first of its body, has one already.
    pub(super) fn self_assignment(&mut self, block: BlockId, is_loop: bool, stmt: StmtId) {
        let stmt = &self.program.stmts[stmt.index()];
        let StmtKind::Assign { target, value } = stmt.kind else {
            return;
        };
        let is_given = is_loop && target == Ref::Local { up: 0, index: 0 };
        if is_given || !self.needs(value, target) || self.is_assigned_again(block, target) {
            return;
        }
        let loc = self.program.expr(value).loc;
        let text = self.program.sources.snippet(loc);
        let message = format!("not all statements executed: [{text}]");
        self.report(runtime(loc, message).help("its value is the variable itself"));
    }

    fn is_assigned_again(&self, block: BlockId, variable: Ref) -> bool {
        let assigns = |stmt: &&crate::hir::Stmt| matches!(stmt.kind, StmtKind::Assign { target, .. } if target == variable);
        match variable {
            // Also by another file, with its qualifier.
            Ref::Root { .. } => self.program.stmts.iter().filter(assigns).nth(1).is_some(),
            _ => {
                let own = &self.program.blocks[block.index()].stmts;
                let own = own.iter().map(|stmt| &self.program.stmts[stmt.index()]);
                own.filter(assigns).nth(1).is_some()
            }
        }
    }

    /// Whether an expression of a block has no value before a variable of the same block has one.
    fn needs(&self, value: ExprId, variable: Ref) -> bool {
        let needs = |value: &ExprId| self.needs(*value, variable);
        match &self.program.expr(value).kind {
            ExprKind::Var(found) => {
                matches!(found, Ref::Local { .. } | Ref::Root { .. }) && *found == variable
            }
            ExprKind::Attr(value, _)
            | ExprKind::Not(value)
            | ExprKind::And(value, _)
            | ExprKind::Or(value, _)
            | ExprKind::Ternary(value, ..) => needs(value),
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                needs(left) || needs(right)
            }
            ExprKind::Format(parts) => parts.iter().any(|part| match part {
                FormatPart::Value(value) => needs(value),
                FormatPart::Field { value, .. } => value.iter().any(needs),
                FormatPart::Text(_) => false,
            }),
            _ => false,
        }
    }
}

/// What is not understood stands as Unknown.
fn has_unknown(heap: &Heap, value: Value) -> bool {
    match value {
        Value::Unknown(_) => true,
        Value::List(list) => heap.list(list).iter().any(|item| has_unknown(heap, *item)),
        Value::Dict(dict) => {
            let mut entries = heap.dict(dict).entries.iter();
            entries.any(|(_, value)| has_unknown(heap, *value))
        }
        _ => false,
    }
}
