//! Literals whose items are all constants are constants. Source: docs/reference/language.md § 2.5.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{ExprId, ExprKind, NamespaceId};
use crate::diagnostics::{Fail, runtime};
use crate::span::Loc;
use crate::syntax::ast;
use crate::types::{StrId, Value};

impl Builder<'_> {
    pub fn constant_value(&self, id: ExprId) -> Option<Value> {
        match self.program.expr(id).kind {
            ExprKind::Const(value) => Some(value),
            _ => None,
        }
    }

    pub fn fold_list(&mut self, items: Vec<ExprId>) -> ExprKind {
        let mut values = Vec::with_capacity(items.len());
        for item in &items {
            match self.constant_value(*item) {
                Some(value) => self.program.heap.flatten_into(value, &mut values),
                None => return ExprKind::List(items),
            }
        }
        ExprKind::Const(self.program.heap.new_list(&values))
    }

    pub fn fold_dict(&mut self, entries: Vec<(StrId, ExprId)>) -> ExprKind {
        let mut values = Vec::with_capacity(entries.len());
        for (key, value) in &entries {
            match self.constant_value(*value) {
                Some(value) => values.push((*key, value)),
                None => return ExprKind::Dict(entries),
            }
        }
        ExprKind::Const(self.program.heap.new_dict(values))
    }

    /// The default of an attribute.
    pub fn constant(
        &mut self,
        namespace: NamespaceId,
        value: ast::ExprId,
        loc: Loc,
    ) -> Result<ExprId, Fail> {
        let loaded = self.loaded;
        let ast = &loaded.sources[namespace.index()].ast;
        let mut scope = Scope {
            namespace,
            frames: Vec::new(),
            entity: None,
            at_root: false,
            in_typedef: true,
            outer: None,
        };
        if let Some(culprit) = not_constant(ast, value) {
            let text = self.expr_text(ast, culprit);
            return Err(runtime(loc, format!("{text} is not a constant")));
        }
        Ok(self.expr(&mut scope, ast, value, Expected::Anything))
    }
}

/// The first part of an expression that is no constant.
pub(super) fn not_constant(ast: &ast::Ast, value: ast::ExprId) -> Option<ast::ExprId> {
    match &ast.expr(value).kind {
        ast::ExprKind::Literal(_) => None,
        ast::ExprKind::List(items) => items.iter().find_map(|item| not_constant(ast, *item)),
        ast::ExprKind::Dict(entries) => {
            let mut values = entries.iter();
            values.find_map(|(_, value)| not_constant(ast, *value))
        }
        _ => Some(value),
    }
}
