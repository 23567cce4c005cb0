//! Constructors: which argument is needed when, and what can be said before running. Source: language.md 7.

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Argument, AttributeKind, Construct, ConstructId, ExprId, ExprKind};
use crate::diagnostics::{Fail, fail, typing};
use crate::hash::Map;
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Arg, Name};
use crate::types::{EntityId, Type};

impl Builder<'_> {
    pub fn construct(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        name: Name,
        args: &[Arg],
        loc: Loc,
        expected: Expected,
    ) -> Result<ExprId, Fail> {
        let entity = self.constructed_entity(scope, name, expected)?;
        let indexed: Vec<Symbol> = {
            let mut names = Vec::new();
            for owner in
                std::iter::once(entity).chain(self.program.entity(entity).ancestors.iter().copied())
            {
                for index in &self.program.entity(owner).own_indexes {
                    names.extend(
                        index
                            .names
                            .iter()
                            .copied()
                            .filter(|name| !names.contains(name))
                            .collect::<Vec<_>>(),
                    );
                }
            }
            names
        };
        let mut given: Map<u32, ExprId> = Map::default();
        let mut explicit = Vec::new();
        let mut spreads = Vec::new();
        let mut unknown_names = false;
        let mut order: Vec<u32> = self
            .program
            .entity(entity)
            .defaults
            .iter()
            .map(|(slot, _)| *slot)
            .collect();
        for arg in args {
            match arg {
                Arg::Named(attribute, value) => {
                    let arg_loc = self.loc(attribute.span);
                    let slot = self
                        .program
                        .entity(entity)
                        .slot_of
                        .get(&attribute.symbol)
                        .copied();
                    let Some(slot) = slot else {
                        let message = format!(
                            "no attribute {} on type {}",
                            self.text(attribute.symbol),
                            self.text(self.program.entity(entity).name)
                        );
                        let follows = self.is_broken(entity);
                        let similar = self.similar_attribute(entity, attribute.symbol);
                        let error = typing(arg_loc, message).following(follows);
                        self.errors.push(error.did_you_mean(similar));
                        self.expr(scope, ast, *value, Expected::Anything);
                        unknown_names = true;
                        continue;
                    };
                    let attr = self.program.entity(entity).slots[slot as usize];
                    let is_indexed = indexed.contains(&attribute.symbol);
                    let expected = Expected::Argument {
                        attr,
                        indexed: is_indexed,
                    };
                    let value = self.expr(scope, ast, *value, expected);
                    given.insert(slot, value);
                    explicit.push(attribute.symbol);
                    if !order.contains(&slot) {
                        order.push(slot);
                    }
                }
                Arg::Spread(value) => {
                    spreads.push(self.expr(scope, ast, *value, Expected::Anything))
                }
                Arg::Positional(_) => {
                    return Err(typing(loc, "a constructor has no positional arguments"));
                }
            }
        }
        let mut direct = Vec::new();
        let mut indirect = Vec::new();
        for slot in order {
            let entity = self.program.entity(entity);
            let default = || {
                entity
                    .defaults
                    .iter()
                    .find(|(at, _)| *at == slot)
                    .map(|(_, value)| *value)
            };
            let Some(value) = given.get(&slot).copied().or_else(default) else {
                continue;
            };
            let attribute = self.program.attribute(entity.slots[slot as usize]).name;
            if indexed.contains(&attribute) {
                direct.push((slot, value))
            } else {
                let is_plain = matches!(
                    self.program.attribute(entity.slots[slot as usize]).kind,
                    AttributeKind::Plain(_)
                );
                indirect.push(Argument {
                    slot,
                    value,
                    constant: is_plain
                        && matches!(self.program.expr(value).kind, ExprKind::Const(_)),
                })
            }
        }
        let slot_of = &self.program.entity(entity).slot_of;
        let missing: Vec<Symbol> = indexed
            .iter()
            .copied()
            .filter(|name| {
                slot_of
                    .get(name)
                    .is_some_and(|slot| !direct.iter().any(|(at, _)| at == slot))
            })
            .collect();
        if !missing.is_empty() && spreads.is_empty() {
            let can_fill = match expected {
                Expected::Anything => false,
                Expected::Assigned => true,
                Expected::Argument { indexed, .. } => !indexed,
            };
            if !can_fill || missing.len() > 1 {
                return Err(missing_index(
                    self.program.names.text(self.program.entity(entity).name),
                    &missing
                        .iter()
                        .map(|name| self.text(*name))
                        .collect::<Vec<_>>(),
                    loc,
                )
                .following(unknown_names || self.is_broken(entity)));
            }
        }
        self.program.constructs.push(Construct {
            entity,
            direct,
            indirect,
            spreads,
            explicit,
            missing,
            loc,
        });
        let id = ConstructId(self.program.constructs.len() as u32 - 1);
        Ok(self.add_expr(ExprKind::Construct(id), loc))
    }

    /// The constructed entity, inferred from the relation where the name alone does not say. Source: language.md 7.6.
    fn constructed_entity(
        &mut self,
        scope: &Scope,
        name: Name,
        expected: Expected,
    ) -> Result<EntityId, Fail> {
        let Expected::Argument { attr, .. } = expected else {
            return self.find_entity(scope.namespace, name);
        };
        let loc = self.loc(name.span);
        let target = match self.program.attribute(attr).kind {
            AttributeKind::Relation { target, .. } => target,
            AttributeKind::Plain(ty) => {
                let message = format!(
                    "Can not assign a value of type {} to a variable of type {}",
                    self.text(name.symbol),
                    self.program.type_text(ty)
                );
                let follows = self.program.types[ty.index()] == Type::Any;
                return Err(typing(loc, message).following(follows));
            }
        };
        match self.find_entity(scope.namespace, name) {
            Ok(entity) if self.program.is_subtype(entity, target) => Ok(entity),
            Ok(entity) => {
                let message = format!(
                    "Can not assign a value of type {} to a variable of type {}",
                    self.text(self.program.entity(entity).name),
                    self.text(self.program.entity(target).name)
                );
                let follows = self.is_broken(entity) || self.is_broken(target);
                Err(typing(loc, message).following(follows))
            }
            Err(error) => {
                if self.text(name.symbol).contains("::") {
                    return Err(error);
                }
                let mut candidates: Vec<EntityId> = (0..self.program.entities.len() as u32)
                    .map(EntityId)
                    .filter(|id| {
                        self.program.entity(*id).short == name.symbol
                            && self.program.is_subtype(*id, target)
                    })
                    .collect();
                match candidates.len() {
                    0 => Err(error),
                    1 => Ok(candidates[0]),
                    count => {
                        candidates.sort_by(|a, b| {
                            self.program
                                .entity_name(*a)
                                .cmp(self.program.entity_name(*b))
                        });
                        let names: Vec<&str> = candidates
                            .iter()
                            .map(|id| self.program.entity_name(*id))
                            .collect();
                        let message = format!(
                            "Could not determine namespace for type {}. {count} possible candidates exists: [{}]. To resolve this, use the fully qualified name instead of the short name.",
                            self.text(name.symbol),
                            names.join(", ")
                        );
                        Err(fail("AmbiguousTypeException", loc, message))
                    }
                }
            }
        }
    }
}

pub(crate) fn missing_index(entity: &str, missing: &[&str], loc: Loc) -> Fail {
    let mut message = "Invalid Constructor call:".to_owned();
    for name in missing {
        message.push_str(&format!(
            "
	* Missing attribute '{name}'. The attribute {entity}.{name} is part of an index."
        ));
    }
    fail("IndexAttributeMissingInConstructorException", loc, message)
}
