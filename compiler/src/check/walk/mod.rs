//! Goes through the resolved program: names that mean nothing, attributes that no entity has, values that no attribute
//! takes, arguments that no plugin has. Only what is certain to fail where it runs.

mod assignments;
mod calls;

use assignments::Assigned;

use crate::analysis::{Frame, Infer, Static};
use crate::diagnostics::{Fail, Failure, fail, not_found, runtime, typing};
use crate::hir::{
    AttributeKind, BlockId, ConstructId, ExprId, ExprKind, FormatPart, NamespaceId, Program,
    Promise, Ref, StmtId, StmtKind,
};
use crate::intern::Symbol;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::{EntityId, Value};

#[derive(Default)]
pub(super) struct Findings {
    /// Mistakes in what runs in every compile.
    pub errors: Vec<Fail>,
    /// Mistakes in what may never run.
    pub doubts: Vec<Fail>,
}

pub(super) fn walk(machine: &mut Machine) -> Findings {
    let program = machine.program;
    let mut walker = Walker {
        program,
        machine,
        found: Findings::default(),
        frames: Vec::new(),
        entity: None,
        certain: true,
        root_variables: Assigned::default(),
    };
    for (at, namespace) in program.namespaces.iter().enumerate() {
        if !namespace.is_std {
            walker.root(NamespaceId(at as u32));
        }
    }
    for implementation in &program.implementations {
        if !program.namespaces[implementation.namespace.index()].is_std {
            walker.entity = Some(implementation.entity);
            walker.certain = false;
            walker.block(implementation.block, None);
        }
    }
    for implement in &program.implements {
        if let Some(condition) = implement.condition
            && !program.namespaces[implement.namespace.index()].is_std
        {
            walker.entity = Some(implement.entity);
            walker.certain = false;
            walker.expr(condition);
        }
    }
    walker.found
}

struct Walker<'m, 'p> {
    program: &'p Program,
    machine: &'m mut Machine<'p>,
    found: Findings,
    frames: Vec<Frame>,
    entity: Option<EntityId>,
    /// What is looked at runs in every compile.
    certain: bool,
    /// Of all files: one can assign to those of another.
    root_variables: Assigned,
}

impl Walker<'_, '_> {
    fn root(&mut self, namespace: NamespaceId) {
        self.entity = None;
        self.certain = true;
        let root = self.program.namespaces[namespace.index()].root;
        let mut assigned = std::mem::take(&mut self.root_variables);
        self.assignments(root, &mut assigned);
        self.root_variables = assigned;
        self.stmts(root, None);
    }

    fn report(&mut self, error: Fail) {
        if self.certain {
            self.found.errors.push(error);
        } else {
            self.found.doubts.push(error);
        }
    }

    fn perhaps(&mut self, work: impl FnOnce(&mut Self)) {
        let certain = std::mem::replace(&mut self.certain, false);
        work(self);
        self.certain = certain;
    }

    fn infer(&self, expr: ExprId) -> Static {
        Infer::new(self.program, self.frames.clone(), self.entity).expr(expr)
    }

    fn block(&mut self, block: BlockId, iterable: Option<ExprId>) {
        self.assignments(block, &mut Assigned::default());
        self.stmts(block, iterable);
    }

    fn stmts(&mut self, block: BlockId, iterable: Option<ExprId>) {
        self.frames.push(Frame::Block(block, iterable));
        for stmt in &self.program.blocks[block.index()].stmts {
            self.self_assignment(block, iterable.is_some(), *stmt);
            self.stmt(*stmt);
        }
        self.frames.pop();
    }

    fn stmt(&mut self, id: StmtId) {
        let stmt = &self.program.stmts[id.index()];
        match &stmt.kind {
            StmtKind::Expr(value) => self.expr(*value),
            StmtKind::Assign { target, value } => {
                self.variable(*target, stmt.loc);
                self.expr(*value);
            }
            StmtKind::AttrAssign {
                object,
                attribute,
                value,
                append,
            } => {
                self.expr(*object);
                self.expr(*value);
                self.assignment(*object, *attribute, *value, *append, stmt.loc);
            }
            StmtKind::For {
                iterable,
                body,
                promises,
            } => {
                self.expr(*iterable);
                self.promises(promises);
                self.perhaps(|walker| walker.block(*body, Some(*iterable)));
            }
            StmtKind::If {
                condition,
                then,
                otherwise,
                promises,
            } => {
                self.expr(*condition);
                self.promises(promises);
                self.perhaps(|walker| {
                    walker.block(*then, None);
                    walker.block(*otherwise, None);
                });
            }
        }
    }

    /// What is assigned to is looked up also when the assignment never runs. Source: docs/reference/language.md § 3.4,
    /// § 8.6.
    fn promises(&mut self, promises: &[Promise]) {
        for promise in promises {
            self.expr(promise.object);
        }
    }

    fn variable(&mut self, found: Ref, loc: Loc) {
        let name = match found {
            Ref::Missing(name) => name,
            Ref::Member { name, root: None } => {
                let Some(entity) = self.entity else {
                    return;
                };
                if self.may_have(entity, name) {
                    return;
                }
                name
            }
            _ => return,
        };
        let text = self.program.text(name);
        let short = text.rsplit("::").next().unwrap_or(text);
        let similar = self.program.similar_variables.get(&(name, loc));
        self.report(not_found(loc, format!("variable {short} not found")).did_you_mean(similar));
    }

    /// Whether the entity or one of its kinds has an attribute, as far as is known.
    fn may_have(&self, entity: EntityId, name: Symbol) -> bool {
        let known = self.program.entity(entity);
        known.slot_of.contains_key(&name)
            || self.is_broken(entity)
            || known
                .children
                .iter()
                .any(|child| self.may_have(*child, name))
    }

    /// Whether nothing here constructs it or one of its kinds: kinds of other modules may have what it reads itself.
    fn is_abstract(&self, entity: EntityId) -> bool {
        let mut constructs = self.program.constructs.iter();
        constructs.all(|construct| !self.program.is_subtype(construct.entity, entity))
    }

    fn is_broken(&self, entity: EntityId) -> bool {
        let broken = &self.program.broken;
        let known = self.program.entity(entity);
        broken.contains(&entity) || known.ancestors.iter().any(|one| broken.contains(one))
    }

    /// Whether it may have implementations or indexes that are not understood, of its own or of its ancestors.
    fn is_half_defined(&self, entity: EntityId) -> bool {
        let ancestors = &self.program.entity(entity).ancestors;
        let mut all = ancestors.iter().chain(std::iter::once(&entity));
        self.is_broken(entity) || all.any(|one| self.program.half_defined.contains(one))
    }

    fn no_attribute(&self, entity: EntityId, name: Symbol, loc: Loc) -> Fail {
        let message = format!(
            "could not find attribute with name: {} in type {}",
            self.program.text(name),
            self.program.entity_name(entity)
        );
        not_found(loc, message).did_you_mean(self.program.similar_attribute(entity, name))
    }

    fn report_no_attribute(&mut self, entity: EntityId, name: Symbol, loc: Loc) {
        let similar = self.program.similar_attribute(entity, name);
        if similar.is_some() || !self.is_abstract(entity) {
            self.report(self.no_attribute(entity, name, loc));
        }
    }

    fn attribute(&mut self, object: ExprId, name: Symbol, loc: Loc) {
        match self.infer(object) {
            Static::Entity(entity) if !self.may_have(entity, name) => {
                self.report_no_attribute(entity, name, loc);
            }
            Static::Entities(entity) => {
                let message = format!(
                    "can not get attribute {}, this is not an entity but a list of {}",
                    self.program.text(name),
                    self.program.entity_name(entity)
                );
                self.report(runtime(loc, message).help(format!(
                    "a list comprehension reads it of each: `[x.{} for x in …]`",
                    self.program.text(name)
                )));
            }
            _ => {}
        }
    }

    fn assignment(&mut self, object: ExprId, name: Symbol, value: ExprId, append: bool, loc: Loc) {
        let entity = match self.infer(object) {
            Static::Entity(entity) => entity,
            _ => return,
        };
        if !self.may_have(entity, name) {
            self.report_no_attribute(entity, name, loc);
            return;
        }
        let Some(attr) = self.program.find_attribute(entity, name) else {
            return;
        };
        let attribute = self.program.attribute(attr);
        if append && !attribute.is_multi() {
            self.report(typing(
                loc,
                "Can not use += on relations with multiplicity 1",
            ));
            return;
        }
        if let Some(error) = self.unfit(attribute.kind, value, loc) {
            let object = self.program.entity_name(entity);
            self.report(self.could_not_set(name, object, loc, *error));
        }
    }

    fn could_not_set(&self, name: Symbol, object: &str, loc: Loc, error: Failure) -> Fail {
        let message = format!(
            "Could not set attribute `{}` on instance `{object}`",
            self.program.text(name)
        );
        fail("AttributeException", loc, message).cause(error)
    }

    /// Why an attribute takes no such constant.
    fn unfit(&mut self, kind: AttributeKind, value: ExprId, loc: Loc) -> Option<Fail> {
        let ExprKind::Const(value) = self.program.expr(value).kind else {
            return None;
        };
        match kind {
            AttributeKind::Plain(ty) => self.machine.validate(ty, value, loc).err(),
            AttributeKind::Relation { target, .. } => match value {
                Value::Str(_) | Value::Int(_) | Value::Float(_) | Value::Bool(_) => {
                    let text = self.machine.state.heap.to_text(value, &self.machine.state);
                    let message = format!(
                        "Invalid type for value '{text}', should be type {}",
                        self.program.entity_name(target)
                    );
                    Some(runtime(loc, message))
                }
                _ => None,
            },
        }
    }

    fn construct(&mut self, id: ConstructId) {
        let construct = &self.program.constructs[id.index()];
        let entity = self.program.entity(construct.entity);
        let (name, loc) = (self.program.text(entity.name), construct.loc);
        let place = self.program.sources.brief(loc);
        let object = format!("{name} (instantiated at {place})");
        let indirect = construct.indirect.iter();
        let indirect = indirect.map(|argument| (argument.slot, argument.value));
        for (slot, value) in construct.direct.iter().copied().chain(indirect) {
            // The default has been checked where it is written.
            if entity.defaults.contains(&(slot, value)) {
                continue;
            }
            self.expr(value);
            let attribute = self.program.attribute(entity.slots[slot as usize]);
            if let Some(error) = self.unfit(attribute.kind, value, loc) {
                self.report(self.could_not_set(attribute.name, &object, loc, *error));
            }
        }
        for spread in &construct.spreads {
            self.expr(*spread);
        }
        if entity.entries.is_empty() && !self.is_half_defined(construct.entity) {
            let short = self.program.text(entity.short);
            let message = format!("Unable to select implementation for entity {short}");
            self.report(runtime(loc, message).help(format!(
                "add `implement {short} using std::none`, or an implementation of its own"
            )));
        }
    }

    fn expr(&mut self, id: ExprId) {
        let node = self.program.expr(id);
        match &node.kind {
            ExprKind::Const(_) | ExprKind::Regex(_) => {}
            ExprKind::Var(found) => self.variable(*found, node.loc),
            ExprKind::Attr(object, name) => {
                self.expr(*object);
                self.attribute(*object, *name, node.loc);
            }
            ExprKind::Binary(_, left, right) | ExprKind::Lookup(left, right) => {
                self.expr(*left);
                self.expr(*right);
            }
            ExprKind::And(left, right) | ExprKind::Or(left, right) => {
                self.expr(*left);
                self.perhaps(|walker| walker.expr(*right));
            }
            ExprKind::Not(operand) => self.expr(*operand),
            ExprKind::Defined(operand) => self.perhaps(|walker| walker.expr(*operand)),
            ExprKind::Ternary(condition, then, otherwise) => {
                self.expr(*condition);
                self.perhaps(|walker| {
                    walker.expr(*then);
                    walker.expr(*otherwise);
                });
            }
            ExprKind::List(items) => items.iter().for_each(|item| self.expr(*item)),
            ExprKind::Dict(entries) => entries.iter().for_each(|(_, value)| self.expr(*value)),
            ExprKind::Format(parts) => self.parts(parts),
            ExprKind::Construct(id) => self.construct(*id),
            ExprKind::Call(id) | ExprKind::Cast(id) => self.call(*id),
            ExprKind::Query(id) => self.query(*id),
            ExprKind::Comprehension(id) => {
                let comprehension = &self.program.comprehensions[id.index()];
                self.expr(comprehension.iterable);
                self.frames.push(Frame::Element(comprehension.iterable));
                self.perhaps(|walker| walker.expr(comprehension.value));
                self.frames.pop();
            }
        }
    }

    fn parts(&mut self, parts: &[FormatPart]) {
        for part in parts {
            match part {
                FormatPart::Text(_) => {}
                FormatPart::Value(value) => self.expr(*value),
                FormatPart::Field { value, spec, .. } => {
                    value.iter().for_each(|value| self.expr(*value));
                    self.parts(spec);
                }
            }
        }
    }
}
