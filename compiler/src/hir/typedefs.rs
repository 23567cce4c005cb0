//! Typedefs: bases first, conditions once everything is defined. Source: docs/reference/language.md § 4.6.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Def, NamespaceId};
use crate::diagnostics::typing;
use crate::syntax::ast::Item;
use crate::types::Type;

/// Values are checked along the chain of bases.
const MAX_CHAIN: usize = 1000;

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
        self.check_bases();
    }

    /// A typedef on itself would never end; on a long chain of others it would end late.
    fn check_bases(&mut self) {
        let n_typedefs = self.program.typedefs.len();
        let mut depths: Vec<Option<usize>> = vec![None; n_typedefs];
        for start in 0..n_typedefs {
            let mut path = Vec::new();
            let mut on_path = crate::hash::Set::default();
            let mut at = start;
            let below = loop {
                if let Some(depth) = depths[at] {
                    break depth;
                }
                if !on_path.insert(at) {
                    let loc = self.program.typedefs[at].loc;
                    self.errors
                        .push(typing(loc, "a typedef can not be based on itself"));
                    self.program.typedefs[at].base = self.program.add_type(Type::Any);
                    break 0;
                }
                path.push(at);
                match self.program.types[self.program.typedefs[at].base.index()] {
                    Type::Typedef(next) => at = next.index(),
                    _ => break 0,
                }
            };
            for (depth, at) in (below + 1..).zip(path.into_iter().rev()) {
                if depth > MAX_CHAIN {
                    let loc = self.program.typedefs[at].loc;
                    let message = format!("a chain of more than {MAX_CHAIN} typedefs");
                    self.errors.push(typing(loc, message));
                    self.program.typedefs[at].base = self.program.add_type(Type::Any);
                    depths[at] = Some(1);
                    continue;
                }
                depths[at] = Some(depth);
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
