//! Typedefs: bases first, conditions once everything is defined. Source: language.md 4.6.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Def, NamespaceId};
use crate::diagnostics::typing;
use crate::syntax::ast::Item;
use crate::types::{Type, TypedefId};

impl Builder<'_> {
    pub fn define_typedefs(&mut self) {
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
                let base = self.find_type(namespace, typedef.base.symbol, loc);
                let base = match self.keep(base) {
                    Some(base) => base,
                    None => self.program.add_type(Type::Any),
                };
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
                    self.errors
                        .push(typing(loc, "a typedef can not be based on itself"));
                    self.program.typedefs[at].base = self.program.add_type(Type::Any);
                    break;
                }
            }
        }
    }

    pub fn lower_typedefs(&mut self) {
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
                let mut scope = Scope::typedef(namespace, self.this);
                let condition = self.expr(
                    &mut scope,
                    &source.ast,
                    typedef.condition,
                    Expected::Anything,
                );
                let text = self.expr_text(&source.ast, typedef.condition);
                let typedef = &mut self.program.typedefs[id.index()];
                typedef.condition = Some(condition);
                typedef.text = text;
            }
        }
    }
}
