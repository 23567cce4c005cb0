//! Relations, their annotations, and the precedence policy. Source: docs/reference/language.md § 5.

use super::build::{Builder, ErrorOrder, PendingAnnotation};
use super::define::{DeferredItem, Items};
use super::{AttrId, AttributeKind, ImplementationId, NamespaceId, STD_ENTITY};
use crate::diagnostics::{Fail, duplicate, fail, typing};
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast;
use crate::types::EntityId;

impl Builder<'_> {
    pub fn define_relations(&mut self, items: &Items) {
        let requires = self.intern("requires");
        let provides = self.intern("provides");
        let many = AttributeKind::Relation {
            target: STD_ENTITY,
            low: 0,
            high: None,
            inverse: None,
        };
        let first = self.add_attribute(STD_ENTITY, requires, Loc::NONE, many);
        let second = self.add_attribute(STD_ENTITY, provides, Loc::NONE, many);
        self.set_inverse(first, second);
        self.set_inverse(second, first);
        for (namespace, late) in &items.late {
            let defined = match late {
                DeferredItem::Implementation(id, implementation) => {
                    self.define_target(*namespace, *id, implementation)
                }
                DeferredItem::Relation(relation) => self.define_relation(*namespace, relation),
            };
            self.keep(defined);
        }
    }

    /// The entity that an implementation is for.
    fn define_target(
        &mut self,
        namespace: NamespaceId,
        id: ImplementationId,
        implementation: &ast::Implementation,
    ) -> Result<(), Fail> {
        let loc = self.loc(implementation.entity.span);
        match self.find_def(namespace, implementation.entity.symbol, loc)? {
            super::Def::Entity(entity) => {
                self.program.implementations[id.index()].entity = entity;
                Ok(())
            }
            _ => {
                let message = format!(
                    "Implementation can only be define for an Entity, but {} is not an entity",
                    self.text(implementation.entity.symbol)
                );
                Err(typing(loc, message))
            }
        }
    }

    fn set_inverse(&mut self, attr: AttrId, other: AttrId) {
        if let AttributeKind::Relation { inverse, .. } =
            &mut self.program.attributes[attr.index()].kind
        {
            *inverse = Some(other);
        }
    }

    fn define_relation(
        &mut self,
        namespace: NamespaceId,
        relation: &ast::Relation,
    ) -> Result<(), Fail> {
        let left = self.find_entity(namespace, relation.left.entity);
        let right = self.find_entity(namespace, relation.right);
        let (left, right) = match (left, right) {
            (Ok(left), Ok(right)) => (left, right),
            (left, right) => {
                for side in [left, right] {
                    if let Some(known) = self.keep(side) {
                        self.broken.insert(known);
                    }
                }
                return Ok(());
            }
        };
        let loc = self.loc(relation.span);
        // The end that is written second is defined first.
        if let Some(end) = &relation.right_end {
            let end_loc = self.loc(end.attribute.span);
            self.check_new(right, end.attribute.symbol, end_loc)?;
        }
        self.check_new(left, relation.left.attribute.symbol, loc)?;
        let kind = |target, end: &ast::End| AttributeKind::Relation {
            target,
            low: end.low,
            high: end.high,
            inverse: None,
        };
        let attribute = match &relation.right_end {
            None => self.add_attribute(
                left,
                relation.left.attribute.symbol,
                loc,
                kind(right, &relation.left),
            ),
            Some(end)
                if left == right && end.attribute.symbol == relation.left.attribute.symbol =>
            {
                // The same end twice: its own inverse, with the multiplicity written last.
                let attr = self.add_attribute(left, end.attribute.symbol, loc, kind(right, end));
                self.set_inverse(attr, attr);
                attr
            }
            Some(end) => {
                let end_loc = self.loc(end.attribute.span);
                // `A.b -- C.d`: the multiplicity beside a name is that of the attribute of this name.
                let second =
                    self.add_attribute(right, end.attribute.symbol, end_loc, kind(left, end));
                let first = self.add_attribute(
                    left,
                    relation.left.attribute.symbol,
                    loc,
                    kind(right, &relation.left),
                );
                self.set_inverse(first, second);
                self.set_inverse(second, first);
                first
            }
        };
        for annotation in &relation.annotations {
            self.pending_annotations.push(PendingAnnotation {
                namespace,
                value: *annotation,
                entity: left,
                attribute,
                loc,
            });
        }
        Ok(())
    }

    fn check_new(&self, entity: EntityId, name: Symbol, loc: Loc) -> Result<(), Fail> {
        let Some(known) = self.program.find_attribute(entity, name) else {
            return Ok(());
        };
        let attribute = self.program.attribute(known);
        // One of an ancestor is found when all are known.
        if attribute.entity != entity {
            return Ok(());
        }
        let message = format!(
            "attribute '{}' already exists on entity '{}'",
            self.text(name),
            self.text(self.program.entity(entity).short)
        );
        Err(duplicate(attribute.loc, loc, message))
    }

    fn clash(&self, name: Symbol, owner: EntityId) -> String {
        format!(
            "Attribute name {} is already defined in {}, unable to define relationship",
            self.text(name),
            self.text(self.program.entity(owner).short)
        )
    }

    /// After all relations are known: none may hide one of an ancestor.
    pub fn check_entities(&mut self) {
        for at in 0..self.program.entities.len() {
            let entity = &self.program.entities[at];
            for attr in &entity.own {
                let attribute = self.program.attribute(*attr);
                if !attribute.is_relation() {
                    continue;
                }
                for ancestor in &entity.ancestors {
                    let clash = self
                        .program
                        .entity(*ancestor)
                        .own
                        .iter()
                        .find(|own| self.program.attribute(**own).name == attribute.name);
                    if let Some(clash) = clash {
                        let message = self.clash(attribute.name, *ancestor);
                        let first = self.program.attribute(*clash).loc;
                        let error = duplicate(attribute.loc, first, message);
                        let at = ErrorOrder::after_defaults(EntityId(at as u32));
                        self.entity_errors.push((at, error));
                    }
                }
            }
        }
    }

    pub fn resolve_policy(&mut self) -> Result<(), Fail> {
        let rules = self.program.precedence.clone();
        if rules.is_empty() {
            return Ok(());
        }
        let mut pairs: Vec<(AttrId, AttrId)> = Vec::new();
        let mut order: Vec<AttrId> = Vec::new();
        for rule in &rules {
            let first = self.policy_attribute(&rule.first);
            let then = self.policy_attribute(&rule.then);
            let (Some(first), Some(then)) = (self.keep(first), self.keep(then)) else {
                continue;
            };
            pairs.push((first, then));
            for attr in [first, then] {
                if !order.contains(&attr) {
                    order.push(attr);
                }
            }
        }
        let mut sorted: Vec<AttrId> = Vec::new();
        while sorted.len() < order.len() {
            let free = order.iter().copied().find(|attr| {
                !sorted.contains(attr)
                    && pairs
                        .iter()
                        .all(|(first, then)| then != attr || sorted.contains(first))
            });
            let Some(free) = free else {
                let names: Vec<String> = order
                    .iter()
                    .filter(|attr| !sorted.contains(attr))
                    .map(|attr| self.attribute_text(*attr))
                    .collect();
                let error = fail(
                    "CycleInRelationPrecedencePolicyError",
                    Loc::NONE,
                    "A cycle exists in the relation precedence policy",
                );
                return Err(error.note(
                    format!("these wait for one another: {}", names.join(", ")),
                    Loc::NONE,
                ));
            };
            sorted.push(free);
        }
        for (at, attr) in sorted.iter().enumerate() {
            self.program.attributes[attr.index()].policy = Some(at as u32);
        }
        for (first, _) in pairs {
            self.program.attributes[first.index()].before_others = true;
        }
        self.program.policy = sorted;
        Ok(())
    }

    fn attribute_text(&self, attr: AttrId) -> String {
        let attribute = self.program.attribute(attr);
        format!(
            "{}.{}",
            self.text(self.program.entity(attribute.entity).name),
            self.text(attribute.name)
        )
    }

    fn policy_attribute(&mut self, (entity, relation): &(String, String)) -> Result<AttrId, Fail> {
        let invalid =
            |reason: String| fail("InvalidRelationPrecedenceRuleError", Loc::NONE, reason);
        let found = entity.rsplit_once("::").and_then(|(namespace, short)| {
            let namespace = self.program.names.find(namespace)?;
            let namespace = self.namespace_of.get(&namespace)?;
            let short = self.program.names.find(short)?;
            self.program.namespaces[namespace.index()]
                .defs
                .get(&short)
                .copied()
        });
        let Some(def) = found else {
            return Err(invalid(format!(
                "A relation precedence rule was defined for {entity}, but no such type was defined"
            )));
        };
        let super::Def::Entity(id) = def else {
            return Err(invalid(format!(
                "A relation precedence rule was defined for {entity}, but {entity} is not an entity"
            )));
        };
        let own = self.program.names.find(relation);
        let own = own.and_then(|name| self.program.entity(id).own_of.get(&name).copied());
        let Some(attr) = own else {
            return Err(invalid(format!(
                "A relation precedence rule was defined for {entity}.{relation}, but entity {entity} doesn't have an attribute {relation}."
            )));
        };
        if !self.program.attribute(attr).is_relation() {
            return Err(invalid(format!(
                "A relation precedence rule was defined for {entity}.{relation}, but attribute {relation} is not a relationship attribute."
            )));
        }
        Ok(attr)
    }
}
