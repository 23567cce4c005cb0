//! What is visible at a place, and of which type it seems to be.

use std::cell::Cell;

use super::Ide;
use crate::analysis::Static;
use crate::hir::{AttrId, AttributeKind, Def, NamespaceId};
use crate::intern::Symbol;
use crate::span::Span;
use crate::syntax::ast::{Ast, ExprId, ExprKind, Item, Name, Stmt};
use crate::types::{EntityId, Type, TypeId};

/// The steps that are spent on one guess at most.
const MAX_STEPS: u32 = 500;

/// The statements of a block, or the variable of a `for` or a comprehension.
pub(super) enum Frame<'a> {
    Root(&'a [Item]),
    Block(&'a [Stmt]),
    Element(Name, ExprId),
}

/// What a variable is.
pub(super) enum Binding {
    /// Where it is assigned first, and what.
    Assigned(Name, ExprId),
    Element(Name, ExprId),
    Attribute(AttrId),
    This(EntityId),
}

pub(super) struct Scope<'a> {
    pub ide: &'a Ide,
    pub namespace: NamespaceId,
    pub ast: &'a Ast,
    /// Outermost first.
    pub frames: Vec<Frame<'a>>,
    /// Inside of an implementation or a `when`.
    pub entity: Option<EntityId>,
    steps: Cell<u32>,
}

fn within(span: Span, offset: u32) -> bool {
    span.start <= offset && offset <= span.end
}

impl<'a> Scope<'a> {
    pub fn at(ide: &'a Ide, namespace: NamespaceId, offset: u32) -> Scope<'a> {
        let ast = ide.ast(namespace);
        let mut scope = Scope {
            ide,
            namespace,
            ast,
            frames: vec![Frame::Root(&ast.items)],
            entity: None,
            steps: Cell::new(MAX_STEPS),
        };
        let entity = |name: Name| match ide.find_def(namespace, ide.program().text(name.symbol)) {
            Some(Def::Entity(entity)) => Some(entity),
            _ => None,
        };
        for item in &ast.items {
            match item {
                Item::Implementation(body) if within(body.extent, offset) => {
                    scope.entity = entity(body.entity);
                    scope.block(&body.body, offset);
                }
                Item::Implement(implement) if within(implement.span, offset) => {
                    scope.entity = entity(implement.entity);
                }
                Item::Stmt(stmt) => scope.stmt(stmt, offset),
                _ => {}
            }
        }
        for expr in &ast.exprs {
            if let ExprKind::Comprehension {
                variable, iterable, ..
            } = expr.kind
                && within(expr.span, offset)
            {
                scope.frames.push(Frame::Element(variable, iterable));
            }
        }
        scope
    }

    fn block(&mut self, body: &'a [Stmt], offset: u32) {
        self.frames.push(Frame::Block(body));
        for stmt in body {
            self.stmt(stmt, offset);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt, offset: u32) {
        match stmt {
            Stmt::For {
                variable,
                iterable,
                body,
                extent,
                ..
            } if within(*extent, offset) => {
                self.frames.push(Frame::Element(*variable, *iterable));
                self.block(body, offset);
            }
            Stmt::If {
                then,
                otherwise,
                then_extent,
                otherwise_extent,
                ..
            } => {
                if within(*then_extent, offset) {
                    self.block(then, offset);
                } else if within(*otherwise_extent, offset) {
                    self.block(otherwise, offset);
                }
            }
            _ => {}
        }
    }

    /// The variables that can be named here, innermost first.
    pub fn variables(&self) -> Vec<(Name, Option<ExprId>)> {
        let mut found = Vec::new();
        for frame in self.frames.iter().rev() {
            match frame {
                Frame::Element(name, _) => found.push((*name, None)),
                Frame::Block(stmts) => found.extend(stmts.iter().filter_map(assigned)),
                Frame::Root(items) => found.extend(items.iter().filter_map(|item| match item {
                    Item::Stmt(stmt) => assigned(stmt),
                    _ => None,
                })),
            }
        }
        found
    }

    pub fn lookup(&self, name: Symbol) -> Option<Binding> {
        let text = self.ide.program().text(name);
        let is_it = |(known, _): &(Name, Option<ExprId>)| known.symbol == name;
        for frame in self.frames.iter().rev() {
            match frame {
                Frame::Element(known, iterable) if known.symbol == name => {
                    return Some(Binding::Element(*known, *iterable));
                }
                Frame::Element(..) => {}
                Frame::Block(stmts) => {
                    if let Some((name, Some(value))) = stmts.iter().filter_map(assigned).find(is_it)
                    {
                        return Some(Binding::Assigned(name, value));
                    }
                }
                Frame::Root(items) => {
                    if let Some(entity) = self.entity {
                        if text == "self" {
                            return Some(Binding::This(entity));
                        }
                        if let Some(attr) = self.ide.program().find_attribute(entity, name) {
                            return Some(Binding::Attribute(attr));
                        }
                    }
                    let mut stmts = items.iter().filter_map(|item| match item {
                        Item::Stmt(stmt) => assigned(stmt),
                        _ => None,
                    });
                    if let Some((name, Some(value))) = stmts.find(is_it) {
                        return Some(Binding::Assigned(name, value));
                    }
                }
            }
        }
        None
    }

    /// The root block of another namespace.
    fn other(&self, namespace: NamespaceId) -> Scope<'a> {
        let ast = self.ide.ast(namespace);
        Scope {
            ide: self.ide,
            namespace,
            ast,
            frames: vec![Frame::Root(&ast.items)],
            entity: None,
            steps: Cell::new(self.steps.get()),
        }
    }

    /// A variable by its name as it is written, with the scope it is from.
    pub fn named(&self, name: &str) -> Option<(Scope<'a>, Binding)> {
        let names = &self.ide.program().names;
        if let Some((qualifier, last)) = name.rsplit_once("::") {
            let other = self.other(self.ide.find_namespace(self.namespace, qualifier)?);
            let binding = other.lookup(names.find(last)?)?;
            return Some((other, binding));
        }
        let binding = self.lookup(names.find(name)?)?;
        let same = Scope {
            ide: self.ide,
            namespace: self.namespace,
            ast: self.ast,
            frames: Vec::new(),
            entity: self.entity,
            steps: Cell::new(self.steps.get()),
        };
        Some((same, binding))
    }

    pub fn type_of_name(&self, name: &str) -> Static {
        let Some((qualifier, _)) = name.rsplit_once("::") else {
            let found = self.ide.program().names.find(name);
            let binding = found.and_then(|name| self.lookup(name));
            return binding.map_or(Static::Unknown, |binding| self.type_of(&binding));
        };
        let other = self.ide.find_namespace(self.namespace, qualifier);
        let Some(other) = other.map(|other| self.other(other)) else {
            return Static::Unknown;
        };
        match self.named(name) {
            Some((_, binding)) => other.type_of(&binding),
            None => Static::Unknown,
        }
    }

    pub fn type_of(&self, binding: &Binding) -> Static {
        match binding {
            Binding::Assigned(_, value) => self.infer(*value),
            Binding::Element(_, iterable) => self.infer(*iterable).element(),
            Binding::Attribute(attr) => self.type_of_attribute(*attr),
            Binding::This(entity) => Static::Entity(*entity),
        }
    }

    pub fn type_of_attribute(&self, attr: AttrId) -> Static {
        let attribute = self.ide.program().attribute(attr);
        match attribute.kind {
            AttributeKind::Plain(ty) => Static::Plain(ty),
            AttributeKind::Relation { target, .. } if attribute.is_multi() => {
                Static::Entities(target)
            }
            AttributeKind::Relation { target, .. } => Static::Entity(target),
        }
    }

    pub fn attribute(&self, object: Static, name: Symbol) -> Option<AttrId> {
        match object {
            Static::Entity(entity) => self.ide.program().find_attribute(entity, name),
            _ => None,
        }
    }

    /// The type that an expression seems to have.
    pub fn infer(&self, id: ExprId) -> Static {
        let left = self.steps.get();
        if left == 0 {
            return Static::Unknown;
        }
        self.steps.set(left - 1);
        let program = self.ide.program();
        let def = |name: Name| self.ide.find_def(self.namespace, program.text(name.symbol));
        match &self.ast.expr(id).kind {
            ExprKind::Var(name) => self.type_of_name(program.text(name.symbol)),
            ExprKind::Attr(object, name) => {
                let attr = self.attribute(self.infer(*object), name.symbol);
                attr.map_or(Static::Unknown, |attr| self.type_of_attribute(attr))
            }
            ExprKind::Construct { entity, .. } | ExprKind::IndexLookup { entity, .. } => {
                match def(*entity) {
                    Some(Def::Entity(entity)) => Static::Entity(entity),
                    _ => Static::Unknown,
                }
            }
            ExprKind::ShortLookup {
                object, relation, ..
            } => {
                let attr = self.attribute(self.infer(*object), relation.symbol);
                let target = attr.map(|attr| program.attribute(attr).kind);
                match target {
                    Some(AttributeKind::Relation { target, .. }) => Static::Entity(target),
                    _ => Static::Unknown,
                }
            }
            ExprKind::Call { function, .. } => match def(*function) {
                Some(Def::Plugin(plugin)) => self.of_type(program.plugins[plugin.index()].returns),
                _ => Static::Unknown,
            },
            ExprKind::Ternary(_, then, otherwise) => match self.infer(*then) {
                Static::Unknown => self.infer(*otherwise),
                known => known,
            },
            ExprKind::List(items) => match items.first().map(|first| self.infer(*first)) {
                Some(Static::Entity(entity)) => Static::Entities(entity),
                _ => Static::Unknown,
            },
            ExprKind::Comprehension { value, .. } => match self.infer(*value) {
                Static::Entity(entity) => Static::Entities(entity),
                _ => Static::Unknown,
            },
            _ => Static::Unknown,
        }
    }

    fn of_type(&self, ty: TypeId) -> Static {
        match &self.ide.program().types[ty.index()] {
            Type::Entity(entity) => Static::Entity(*entity),
            Type::ListOf(item) => match self.of_type(*item) {
                Static::Entity(entity) => Static::Entities(entity),
                _ => Static::Plain(ty),
            },
            Type::Any => Static::Unknown,
            _ => Static::Plain(ty),
        }
    }

    pub fn type_text(&self, ty: Static) -> Option<String> {
        let program = self.ide.program();
        match ty {
            Static::Unknown => None,
            Static::Entity(entity) => Some(program.entity_name(entity).to_owned()),
            Static::Entities(entity) => Some(format!("{}[]", program.entity_name(entity))),
            Static::Plain(ty) => Some(program.type_text(ty)),
        }
    }
}

fn assigned(stmt: &Stmt) -> Option<(Name, Option<ExprId>)> {
    match stmt {
        Stmt::Assign { target, value, .. } => Some((*target, Some(*value))),
        _ => None,
    }
}
