//! What can be said about the type of an expression without running it. No answer is better than a wrong one.

use std::cell::Cell;
use std::rc::Rc;

use crate::hir::{
    AttributeKind, BlockId, Callee, ExprId, ExprKind, NamespaceId, Program, QueryKind, Ref,
    StmtKind,
};
use crate::types::{EntityId, Type, TypeId};

/// Variables that depend on variables that …: beyond this nothing is known.
const MAX_DEPTH: u32 = 24;
/// The steps that are spent on one answer at most.
const MAX_STEPS: u32 = 5_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Static {
    Unknown,
    /// An instance of the entity or of a descendant.
    Entity(EntityId),
    /// A list of such.
    Entities(EntityId),
    Plain(TypeId),
}

impl Static {
    pub fn element(self) -> Static {
        match self {
            Static::Entities(entity) => Static::Entity(entity),
            _ => Static::Unknown,
        }
    }
}

/// The blocks around an expression, outermost first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A block; of a `for`, with what it iterates over.
    Block(BlockId, Option<ExprId>),
    /// The variable of a comprehension over this.
    Element(ExprId),
}

/// Where an expression stands.
pub struct Infer<'a> {
    pub program: &'a Program,
    pub frames: Vec<Frame>,
    /// Inside of an implementation or a `when`.
    pub entity: Option<EntityId>,
    depth: u32,
    /// Steps that may still be taken, in all.
    budget: Rc<Cell<u32>>,
}

impl<'a> Infer<'a> {
    pub fn new(program: &'a Program, frames: Vec<Frame>, entity: Option<EntityId>) -> Self {
        Infer {
            program,
            frames,
            entity,
            depth: 0,
            budget: Rc::new(Cell::new(MAX_STEPS)),
        }
    }

    pub fn root(program: &'a Program, namespace: NamespaceId) -> Self {
        let root = program.namespaces[namespace.index()].root;
        Infer::new(program, vec![Frame::Block(root, None)], None)
    }

    pub fn expr(&self, id: ExprId) -> Static {
        let left = self.budget.get();
        if self.depth > MAX_DEPTH || left == 0 {
            return Static::Unknown;
        }
        self.budget.set(left - 1);
        let program = self.program;
        match &program.expr(id).kind {
            ExprKind::Var(found) => self.variable(*found),
            ExprKind::Attr(object, name) => match self.expr(*object) {
                Static::Entity(entity) => self.attribute(entity, *name),
                _ => Static::Unknown,
            },
            ExprKind::Construct(id) => Static::Entity(program.constructs[id.index()].entity),
            ExprKind::Query(id) => match program.queries[id.index()].kind {
                QueryKind::Entity(entity) => Static::Entity(entity),
                QueryKind::Relation(object, name) => match self.expr(object) {
                    Static::Entity(entity) => match self.attribute(entity, name) {
                        Static::Entities(target) => Static::Entity(target),
                        other => other,
                    },
                    _ => Static::Unknown,
                },
            },
            ExprKind::Ternary(_, then, otherwise) => {
                let then = self.expr(*then);
                if then == self.expr(*otherwise) {
                    then
                } else {
                    Static::Unknown
                }
            }
            ExprKind::List(items) => {
                let mut items = items.iter().map(|item| self.expr(*item));
                match items.next() {
                    Some(Static::Entity(first))
                        if items.all(|item| item == Static::Entity(first)) =>
                    {
                        Static::Entities(first)
                    }
                    _ => Static::Unknown,
                }
            }
            ExprKind::Comprehension(id) => {
                let comprehension = &program.comprehensions[id.index()];
                let inner = self.inside(Frame::Element(comprehension.iterable));
                let value = match program.expr(comprehension.value).kind {
                    // With a guard.
                    ExprKind::Ternary(_, value, otherwise)
                        if matches!(
                            program.expr(otherwise).kind,
                            ExprKind::Const(crate::types::Value::Skip)
                        ) =>
                    {
                        value
                    }
                    _ => comprehension.value,
                };
                match inner.expr(value) {
                    Static::Entity(entity) => Static::Entities(entity),
                    _ => Static::Unknown,
                }
            }
            ExprKind::Call(id) | ExprKind::Cast(id) => match program.calls[id.index()].callee {
                Callee::Plugin(plugin) => self.of_type(program.plugins[plugin.index()].returns),
                Callee::Cast(ty) => Static::Plain(ty),
            },
            _ => Static::Unknown,
        }
    }

    /// The same place, with one more frame inside of these.
    pub fn inside(&self, frame: Frame) -> Infer<'a> {
        let mut frames = self.frames.clone();
        frames.push(frame);
        Infer {
            program: self.program,
            frames,
            entity: self.entity,
            depth: self.depth + 1,
            budget: Rc::clone(&self.budget),
        }
    }

    fn of_type(&self, ty: TypeId) -> Static {
        match &self.program.types[ty.index()] {
            Type::Entity(entity) => Static::Entity(*entity),
            Type::ListOf(item) => match self.program.types[item.index()] {
                Type::Entity(entity) => Static::Entities(entity),
                _ => Static::Plain(ty),
            },
            Type::Any | Type::Union(_) | Type::Nullable(_) => Static::Unknown,
            _ => Static::Plain(ty),
        }
    }

    pub fn attribute(&self, entity: EntityId, name: crate::intern::Symbol) -> Static {
        let Some(attr) = self.program.find_attribute(entity, name) else {
            return Static::Unknown;
        };
        let attribute = self.program.attribute(attr);
        match attribute.kind {
            AttributeKind::Plain(ty) => Static::Plain(ty),
            AttributeKind::Relation { target, .. } if attribute.is_multi() => {
                Static::Entities(target)
            }
            AttributeKind::Relation { target, .. } => Static::Entity(target),
        }
    }

    pub fn variable(&self, found: Ref) -> Static {
        match found {
            Ref::This => self.entity.map_or(Static::Unknown, Static::Entity),
            Ref::Member { name, root } => {
                let slot = self
                    .entity
                    .filter(|entity| self.program.entity(*entity).slot_of.contains_key(&name));
                match (slot, root) {
                    (Some(entity), _) => self.attribute(entity, name),
                    (None, Some((namespace, index))) => self.root_variable(namespace, index),
                    (None, None) => Static::Unknown,
                }
            }
            Ref::Root { namespace, index } => self.root_variable(namespace, index),
            Ref::Local { up, index } => {
                let Some(at) = self.frames.len().checked_sub(up as usize + 1) else {
                    return Static::Unknown;
                };
                self.local(at, index)
            }
            Ref::Missing(_) => Static::Unknown,
        }
    }

    fn root_variable(&self, namespace: NamespaceId, index: u32) -> Static {
        let mut root = Infer::root(self.program, namespace);
        root.depth = self.depth + 1;
        root.budget = Rc::clone(&self.budget);
        let found = Ref::Root { namespace, index };
        root.assigned(self.program.namespaces[namespace.index()].root, found)
    }

    fn local(&self, at: usize, index: u32) -> Static {
        let outer = Infer {
            program: self.program,
            frames: self.frames[..at].to_vec(),
            entity: self.entity,
            depth: self.depth + 1,
            budget: Rc::clone(&self.budget),
        };
        match self.frames[at] {
            Frame::Element(iterable) | Frame::Block(_, Some(iterable)) if index == 0 => {
                outer.expr(iterable).element()
            }
            Frame::Block(block, _) => {
                let inner = outer.inside(self.frames[at]);
                inner.assigned(block, Ref::Local { up: 0, index })
            }
            Frame::Element(_) => Static::Unknown,
        }
    }

    /// The type on which all assignments of a block to a variable agree.
    fn assigned(&self, block: BlockId, variable: Ref) -> Static {
        if self.depth > MAX_DEPTH {
            return Static::Unknown;
        }
        let mut agreed = None;
        for stmt in &self.program.blocks[block.index()].stmts {
            if let StmtKind::Assign { target, value } = self.program.stmts[stmt.index()].kind
                && target == variable
            {
                let found = self.expr(value);
                if found == Static::Unknown || agreed.is_some_and(|known| known != found) {
                    return Static::Unknown;
                }
                agreed = Some(found);
            }
        }
        agreed.unwrap_or(Static::Unknown)
    }
}
