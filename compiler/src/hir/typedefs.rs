//! Typedefs: bases first, conditions once everything is defined. Source: language.md 4.6.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Def, NamespaceId};
use crate::diagnostics::{Fail, typing};
use crate::hash::Map;
use crate::syntax::ast::{self, ExprKind, Item};
use crate::types::{Type, TypedefId};

impl Builder<'_> {
    pub fn define_typedefs(&mut self) -> Result<(), Fail> {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            let namespace = NamespaceId(at as u32);
            for item in &source.ast.items {
                let Item::Typedef(typedef) = item else {
                    continue;
                };
                let Some(Def::Typedef(id)) = self.program.namespaces[at]
                    .defs
                    .get(&typedef.name.symbol)
                    .copied()
                else {
                    continue;
                };
                let loc = self.loc(typedef.base.span);
                let base = self.find_type(namespace, typedef.base.symbol, loc)?;
                self.program.typedefs[id.index()].base = base;
            }
        }
        // A typedef on itself would never end.
        for at in 0..self.program.typedefs.len() {
            let mut id = TypedefId(at as u32);
            for _ in 0..=self.program.typedefs.len() {
                match self.program.types[self.program.typedefs[id.index()].base.index()] {
                    Type::Typedef(next) => id = next,
                    _ => break,
                }
                if id.index() == at {
                    let loc = self.program.typedefs[at].loc;
                    return Err(typing(loc, "a typedef can not be based on itself"));
                }
            }
        }
        Ok(())
    }

    pub fn lower_typedefs(&mut self) -> Result<(), Fail> {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            let namespace = NamespaceId(at as u32);
            for item in &source.ast.items {
                let Item::Typedef(typedef) = item else {
                    continue;
                };
                let Some(Def::Typedef(id)) = self.program.namespaces[at]
                    .defs
                    .get(&typedef.name.symbol)
                    .copied()
                else {
                    continue;
                };
                let loc = self.loc(typedef.span);
                let this = self.this;
                if !mentions(&source.ast, typedef.condition, this, typedef.name.symbol) {
                    return Err(typing(
                        loc,
                        "typedef expressions should reference the self variable",
                    ));
                }
                let mut scope = Scope::typedef(namespace, this);
                let condition = self.expr(
                    &mut scope,
                    &source.ast,
                    typedef.condition,
                    Expected::Anything,
                )?;
                let text = self.expr_text(&source.ast, typedef.condition);
                let typedef = &mut self.program.typedefs[id.index()];
                typedef.condition = Some(condition);
                typedef.text = text;
            }
        }
        Ok(())
    }
}

/// Whether an expression reads `self`, or the typedef's own name.
fn mentions(
    ast: &ast::Ast,
    id: ast::ExprId,
    this: crate::intern::Symbol,
    name: crate::intern::Symbol,
) -> bool {
    let mut pending = vec![id];
    let mut seen: Map<u32, ()> = Map::default();
    while let Some(id) = pending.pop() {
        if seen.insert(id.0, ()).is_some() {
            continue;
        }
        match &ast.expr(id).kind {
            ExprKind::Regex(_) => return true,
            ExprKind::Var(variable) if variable.symbol == this || variable.symbol == name => {
                return true;
            }
            kind => kind.children(&mut |child| pending.push(child)),
        }
    }
    false
}
