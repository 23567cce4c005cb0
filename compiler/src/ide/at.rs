//! Which name stands at a place.

use super::Ide;
use crate::hir::NamespaceId;
use crate::span::Span;
use crate::syntax::ast::{Arg, Ast, ExprId, ExprKind, Item, Name, Stmt};

/// A name, and what kind of thing it names.
#[derive(Clone, Copy, Debug)]
pub(super) enum At {
    Module(Name),
    /// A type, an implementation, a plugin.
    Def(Name),
    Variable(Name),
    /// The attribute of an entity that is named, too.
    AttributeOf(Name, Name),
    /// The attribute of what an expression gives.
    Attribute(ExprId, Name),
    /// A keyword argument of a plugin.
    Argument(Name, Name),
}

impl At {
    pub fn name(self) -> Name {
        match self {
            At::Module(name)
            | At::Def(name)
            | At::Variable(name)
            | At::AttributeOf(_, name)
            | At::Attribute(_, name)
            | At::Argument(_, name) => name,
        }
    }
}

impl Ide {
    pub(super) fn name_at(&self, namespace: NamespaceId, offset: u32) -> Option<At> {
        let ast = self.ast(namespace);
        let mut finder = Finder {
            offset,
            found: None,
        };
        for item in &ast.items {
            finder.item(item);
        }
        finder.exprs(ast);
        // Names within strings have the place of the string.
        let found = finder.found?;
        let name = found.name();
        let written = self.text(name.span).split("::").map(str::trim);
        let text = self.program().text(name.symbol);
        (written.collect::<Vec<_>>().join("::") == text).then_some(found)
    }
}

struct Finder {
    offset: u32,
    found: Option<At>,
}

impl Finder {
    fn is_at(&self, span: Span) -> bool {
        span.start <= self.offset && self.offset <= span.end
    }

    fn take(&mut self, at: At) {
        // A qualified name is looked at as a whole; of two that touch, the later one counts.
        if self.is_at(at.name().span) {
            self.found = Some(at);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Import { module, .. } => self.take(At::Module(*module)),
            Item::Entity(entity) => {
                self.take(At::Def(entity.name));
                for parent in &entity.parents {
                    self.take(At::Def(*parent));
                }
                for attribute in &entity.attributes {
                    self.take(At::Def(attribute.base));
                    self.take(At::AttributeOf(entity.name, attribute.name));
                }
            }
            Item::Implement(implement) => {
                self.take(At::Def(implement.entity));
                for name in &implement.using {
                    self.take(At::Def(*name));
                }
            }
            Item::Implementation(implementation) => {
                self.take(At::Def(implementation.name));
                self.take(At::Def(implementation.entity));
                self.stmts(&implementation.body);
            }
            Item::Relation(relation) => {
                self.take(At::Def(relation.left.entity));
                self.take(At::AttributeOf(
                    relation.left.entity,
                    relation.left.attribute,
                ));
                self.take(At::Def(relation.right));
                if let Some(end) = &relation.right_end {
                    self.take(At::AttributeOf(end.entity, end.attribute));
                }
            }
            Item::Typedef(typedef) => {
                self.take(At::Def(typedef.name));
                self.take(At::Def(typedef.base));
            }
            Item::Index {
                entity, attributes, ..
            } => {
                self.take(At::Def(*entity));
                for attribute in attributes {
                    self.take(At::AttributeOf(*entity, *attribute));
                }
            }
            Item::Stmt(stmt) => self.stmt(stmt),
        }
    }

    fn stmts(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Expr(_) => {}
            Stmt::Assign { target, .. } => self.take(At::Variable(*target)),
            Stmt::AttrAssign {
                object, attribute, ..
            } => self.take(At::Attribute(*object, *attribute)),
            Stmt::For { variable, body, .. } => {
                self.take(At::Variable(*variable));
                self.stmts(body);
            }
            Stmt::If {
                then, otherwise, ..
            } => {
                self.stmts(then);
                self.stmts(otherwise);
            }
        }
    }

    fn exprs(&mut self, ast: &Ast) {
        for expr in &ast.exprs {
            match &expr.kind {
                ExprKind::Var(name) => self.take(At::Variable(*name)),
                ExprKind::Attr(object, name) => self.take(At::Attribute(*object, *name)),
                ExprKind::Call { function, args } => {
                    self.take(At::Def(*function));
                    self.args(args, |name| At::Argument(*function, name));
                }
                ExprKind::Construct { entity, args } | ExprKind::IndexLookup { entity, args } => {
                    self.take(At::Def(*entity));
                    self.args(args, |name| At::AttributeOf(*entity, name));
                }
                ExprKind::ShortLookup {
                    object, relation, ..
                } => self.take(At::Attribute(*object, *relation)),
                ExprKind::Comprehension { variable, .. } => self.take(At::Variable(*variable)),
                _ => {}
            }
        }
    }

    fn args(&mut self, args: &[Arg], at: impl Fn(Name) -> At) {
        for arg in args {
            if let Arg::Named(name, _) = arg {
                self.take(at(*name));
            }
        }
    }
}
