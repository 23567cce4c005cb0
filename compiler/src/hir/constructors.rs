//! Constructors: which argument is needed when, and what can be said before running.
//! Source: docs/reference/language.md § 7.

use std::rc::Rc;

use super::build::Builder;
use super::expressions::{Expected, Scope};
use super::{Argument, AttributeKind, Construct, ConstructId, ExprId, ExprKind, Index, Program};
use crate::diagnostics::{Fail, fail, typing};
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Arg, Name};
use crate::types::{EntityId, Type};

/// The named arguments of a constructor.
struct Given {
    /// By slot.
    values: Vec<Option<ExprId>>,
    /// As they are written.
    names: Vec<Symbol>,
    /// The slots that get a value, in the order in which they do: first those with defaults.
    order: Vec<u32>,
}

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
        let indexed = match self.indexed.get(&entity) {
            Some(known) => Rc::clone(known),
            None => {
                let indexed: Rc<[Symbol]> = self.indexed_attributes(entity).into();
                self.indexed.insert(entity, Rc::clone(&indexed));
                indexed
            }
        };
        let missing = self
            .missing_of_indexes(entity, args, &indexed, expected, loc)
            .map_err(|error| error.following(self.is_broken(entity)));
        let missing = self.keep(missing).unwrap_or_default();
        let given = self.given_arguments(scope, ast, args, (entity, &indexed), loc)?;
        let mut spreads = Vec::new();
        for arg in args {
            if let Arg::Spread(value) = arg {
                spreads.push(self.expr(scope, ast, *value, Expected::Anything));
            }
        }
        let (direct, indirect) = self.by_time(entity, &indexed, &given);
        self.program.constructs.push(Construct {
            entity,
            direct,
            indirect,
            spreads,
            explicit: given.names,
            missing,
            loc,
        });
        let id = ConstructId(self.program.constructs.len() as u32 - 1);
        Ok(self.add_expr(ExprKind::Construct(id), loc))
    }

    /// The attributes of the indexes of an entity, as often as they count.
    fn indexed_attributes(&self, entity: EntityId) -> Vec<Symbol> {
        let owners = std::iter::once(&entity).chain(&self.program.entity(entity).ancestors);
        // Whoever inherits an index in several ways has it more than once.
        let mut indexes: Vec<&Index> = owners
            .flat_map(|owner| {
                let own = &self.program.entity(*owner).own_indexes;
                let times = 1 + usize::from(self.inherits_in_several_ways(entity, *owner));
                own.iter()
                    .flat_map(move |index| std::iter::repeat_n(index, times))
            })
            .collect();
        indexes.sort_by_key(|index| index.order);
        // As for those of one entity: an index counts again unless it is written as a known one is sorted.
        let mut counted: Vec<&Index> = Vec::new();
        for index in indexes {
            if counted.iter().all(|known| known.names != index.written) {
                counted.push(index);
            }
        }
        let names = counted.into_iter().flat_map(|index| &index.names);
        names.copied().collect()
    }

    /// The named arguments. Those that the entity has no attribute for are looked through for mistakes and left out.
    fn given_arguments(
        &mut self,
        scope: &mut Scope,
        ast: &ast::Ast,
        args: &[Arg],
        (entity, indexed): (EntityId, &[Symbol]),
        loc: Loc,
    ) -> Result<Given, Fail> {
        let definition = self.program.entity(entity);
        let mut given = Given {
            values: vec![None; definition.slots.len()],
            names: Vec::with_capacity(args.len()),
            order: Vec::with_capacity(definition.defaults.len() + args.len()),
        };
        let defaults = definition.defaults.iter();
        given.order.extend(defaults.map(|(slot, _)| *slot));
        for arg in args {
            let (attribute, value) = match arg {
                Arg::Named(attribute, value) => (attribute, value),
                Arg::Spread(_) => continue,
                Arg::Positional(_) => {
                    return Err(typing(loc, "a constructor has no positional arguments"));
                }
            };
            let slots = &self.program.entity(entity).slot_of;
            let Some(slot) = slots.get(&attribute.symbol).copied() else {
                self.no_attribute(entity, attribute);
                self.expr(scope, ast, *value, Expected::Anything);
                continue;
            };
            let attr = self.program.entity(entity).slots[slot as usize];
            // What an index needs is there before the instance: it says nothing of its argument.
            let expected = match indexed.contains(&attribute.symbol) {
                true => Expected::Anything,
                false => Expected::Argument { attr },
            };
            let value = self.expr(scope, ast, *value, expected);
            given.values[slot as usize] = Some(value);
            given.names.push(attribute.symbol);
            if !given.order.contains(&slot) {
                given.order.push(slot);
            }
        }
        Ok(given)
    }

    fn no_attribute(&mut self, entity: EntityId, attribute: &Name) {
        let message = format!(
            "no attribute {} on type {}",
            self.text(attribute.symbol),
            self.text(self.program.entity(entity).name)
        );
        let follows = self.is_broken(entity);
        let similar = self.similar_attribute(entity, attribute.symbol);
        let error = typing(self.loc(attribute.span), message).following(follows);
        self.errors.push(error.did_you_mean(similar));
    }

    /// The arguments that an index needs before there is an instance, and those that the instance gets afterwards.
    fn by_time(
        &self,
        entity: EntityId,
        indexed: &[Symbol],
        given: &Given,
    ) -> (Vec<(u32, ExprId)>, Vec<Argument>) {
        let entity = self.program.entity(entity);
        let n_direct = indexed.len().min(given.order.len());
        let mut direct = Vec::with_capacity(n_direct);
        let mut indirect = Vec::with_capacity(given.order.len() - n_direct);
        for slot in given.order.iter().copied() {
            let default = || entity.defaults.iter().find(|(at, _)| *at == slot);
            let value = given.values[slot as usize];
            let Some(value) = value.or_else(|| default().map(|(_, value)| *value)) else {
                continue;
            };
            let attribute = self.program.attribute(entity.slots[slot as usize]);
            if indexed.contains(&attribute.name) {
                direct.push((slot, value));
                continue;
            }
            let is_plain = matches!(attribute.kind, AttributeKind::Plain(_));
            let is_constant = matches!(self.program.expr(value).kind, ExprKind::Const(_));
            indirect.push(Argument {
                slot,
                value,
                constant: is_plain && is_constant,
            });
        }
        (direct, indirect)
    }

    fn inherits_in_several_ways(&self, entity: EntityId, owner: EntityId) -> bool {
        let mut entity = entity;
        while entity != owner {
            let parents = self.program.entity(entity).parents.iter();
            let mut ways = parents.filter(|parent| {
                **parent == owner || self.program.entity(**parent).ancestors.contains(&owner)
            });
            let Some(first) = ways.next() else {
                return false;
            };
            if ways.next().is_some() {
                return true;
            }
            entity = *first;
        }
        false
    }

    /// What the indexes want and neither an argument nor a default gives: as often as an index wants it. It is an error
    /// unless a dictionary or the owner may have it. Source: docs/reference/language.md § 7.3.
    fn missing_of_indexes(
        &self,
        entity: EntityId,
        args: &[Arg],
        indexed: &[Symbol],
        expected: Expected,
        loc: Loc,
    ) -> Result<Vec<Symbol>, Fail> {
        let definition = self.program.entity(entity);
        let is_given = |name: &Symbol| {
            let slot = definition.slot_of.get(name);
            args.iter()
                .any(|arg| matches!(arg, Arg::Named(given, _) if given.symbol == *name))
                || definition.defaults.iter().any(|(at, _)| Some(at) == slot)
        };
        let missing: Vec<Symbol> = indexed
            .iter()
            .copied()
            .filter(|name| !is_given(name))
            .collect();
        let has_spread = args.iter().any(|arg| matches!(arg, Arg::Spread(_)));
        let can_fill = !matches!(expected, Expected::Anything) && missing.len() == 1;
        if missing.is_empty() || has_spread || can_fill {
            return Ok(missing);
        }
        Err(missing_index(&self.program, entity, &missing, loc))
    }

    /// The constructed entity, inferred from the relation where the name alone does not say.
    /// Source: docs/reference/language.md § 7.6.
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

pub(crate) fn missing_index(
    program: &Program,
    entity: EntityId,
    missing: &[Symbol],
    loc: Loc,
) -> Fail {
    let definition = program.entity(entity);
    let mut message = "Invalid Constructor call:".to_owned();
    for name in missing {
        let attr = definition
            .slot_of
            .get(name)
            .map(|slot| definition.slots[*slot as usize]);
        let kind = match attr.map(|attr| program.attribute(attr).is_relation()) {
            Some(true) => "relation",
            _ => "attribute",
        };
        let (entity, name) = (program.text(definition.name), program.text(*name));
        message.push_str(&format!(
            "\n\t* Missing {kind} '{name}'. The {kind} {entity}.{name} is part of an index."
        ));
    }
    fail("IndexAttributeMissingInConstructorException", loc, message)
}
