//! Entities: parents, attributes, layout of instances, defaults, indexes, implement statements.

use indexmap::{IndexMap, IndexSet};

use super::build::{Builder, ErrorOrder};
use super::define::Items;
use super::{
    AttrId, Attribute, AttributeKind, Def, EntityIndex, Implement, ImplementId, Index, NamespaceId,
    OwnDefault, STD_ENTITY, TableId,
};
use crate::diagnostics::{Fail, duplicate, fail, not_found, typing};
use crate::hash::Map;
use crate::intern::Symbol;
use crate::span::Loc;
use crate::syntax::ast::{self, Item};
use crate::types::{EntityId, Type};

/// An entity has no more ancestors: some tables are as large as all chains of parents together.
const MAX_ANCESTORS: usize = 1000;

impl Builder<'_> {
    pub fn define_entities(&mut self, items: &Items) {
        let by_id: Map<EntityId, (NamespaceId, &ast::Entity)> = items
            .entities
            .iter()
            .map(|(namespace, id, entity)| (*id, (*namespace, *entity)))
            .collect();
        let order = self.parents_first(&by_id);
        let mut too_deep: crate::hash::Set<EntityId> = crate::hash::Set::default();
        for id in order.iter().copied() {
            let mut ancestors = Vec::new();
            let parents = self.program.entity(id).parents.clone();
            for parent in &parents {
                ancestors.push(*parent);
                ancestors.extend(self.program.entity(*parent).ancestors.iter().copied());
            }
            if parents.len() > 1 {
                let mut seen = crate::hash::Set::default();
                ancestors.retain(|ancestor| seen.insert(*ancestor));
            }
            if ancestors.len() > MAX_ANCESTORS {
                let entity = self.program.entity(id);
                let message = format!(
                    "{} has more than {MAX_ANCESTORS} ancestors",
                    self.text(entity.name)
                );
                let error = typing(entity.loc, message);
                let mut parents = entity.parents.iter();
                let follows = parents.any(|parent| self.is_broken(*parent));
                self.errors.push(error.following(follows));
                self.broken.insert(id);
                too_deep.insert(id);
            }
            // What is above them was told once; a chain without end must not cost its square.
            if too_deep.contains(&id) || parents.iter().any(|parent| too_deep.contains(parent)) {
                too_deep.insert(id);
                self.broken.insert(id);
                ancestors = vec![STD_ENTITY];
                self.program.entities[id.index()].parents = vec![STD_ENTITY];
            }
            let entity = &mut self.program.entities[id.index()];
            entity.is_dataclass = false;
            entity.ancestors = ancestors;
            if let Some((namespace, entity)) = by_id.get(&id) {
                for attribute in &entity.attributes {
                    let defined = self.define_attribute(*namespace, id, attribute);
                    self.keep(defined);
                }
                let mut names = crate::hash::Set::default();
                if !entity.parents.iter().all(|name| names.insert(name.symbol)) {
                    let loc = self.program.entity(id).loc;
                    self.errors.push(typing(loc, "same parent defined twice"));
                }
            }
            let checked = self.check_incompatible(id);
            self.keep(checked);
            for parent in &parents {
                self.program.entities[parent.index()].children.push(id);
            }
        }
        self.parents_first = order;
    }

    fn resolve_parents(&mut self, namespace: NamespaceId, id: EntityId, entity: &ast::Entity) {
        let mut parents: Vec<EntityId> = Vec::new();
        for name in &entity.parents {
            match self.parent(namespace, *name) {
                Ok(parent) if parents.contains(&parent) => {}
                Ok(parent) => parents.push(parent),
                Err(error) => {
                    self.errors.push(error);
                    self.broken.insert(id);
                }
            }
        }
        if parents.is_empty() {
            parents.push(STD_ENTITY);
        }
        self.program.entities[id.index()].parents = parents;
    }

    fn parent(&mut self, namespace: NamespaceId, name: ast::Name) -> Result<EntityId, Fail> {
        let loc = self.loc(name.span);
        match self.find_def(namespace, name.symbol, loc)? {
            Def::Entity(parent) => Ok(parent),
            _ => {
                let message = format!(
                    "Entities can only extend other entities, {} is not an entity",
                    self.text(name.symbol)
                );
                let follows = self.unclear.contains(&(namespace, name.symbol));
                Err(typing(loc, message).following(follows))
            }
        }
    }

    /// All entities, parents before children. What an entity extends is looked up when it is come to.
    fn parents_first(
        &mut self,
        by_id: &Map<EntityId, (NamespaceId, &ast::Entity)>,
    ) -> Vec<EntityId> {
        #[derive(Clone, Copy, PartialEq)]
        enum Visit {
            New,
            Open,
            Done,
        }
        let n_entities = self.program.entities.len();
        let mut marks = vec![Visit::New; n_entities];
        let mut order = Vec::with_capacity(n_entities);
        for start in 0..n_entities {
            if marks[start] != Visit::New {
                continue;
            }
            let mut path: Vec<(EntityId, usize)> = Vec::new();
            let mut entered = Some(EntityId(start as u32));
            loop {
                if let Some(id) = entered.take() {
                    marks[id.index()] = Visit::Open;
                    if let Some((namespace, entity)) = by_id.get(&id) {
                        self.resolve_parents(*namespace, id, entity);
                    }
                    path.push((id, 0));
                }
                let Some((id, next)) = path.last_mut() else {
                    break;
                };
                let id = *id;
                let Some(parent) = self.program.entity(id).parents.get(*next).copied() else {
                    marks[id.index()] = Visit::Done;
                    order.push(id);
                    path.pop();
                    continue;
                };
                *next += 1;
                match marks[parent.index()] {
                    Visit::Done => {}
                    Visit::New => entered = Some(parent),
                    Visit::Open => {
                        *next = 0;
                        let first = path.iter().position(|(id, _)| *id == parent).unwrap_or(0);
                        let cycle: Vec<EntityId> =
                            path[first..].iter().map(|(id, _)| *id).collect();
                        let error = self.cycle(&cycle);
                        self.errors.push(error);
                        self.broken.insert(id);
                        self.program.entities[id.index()].parents = vec![STD_ENTITY];
                    }
                }
            }
        }
        order
    }

    /// Each extends the next, and the last one extends the first.
    fn cycle(&self, cycle: &[EntityId]) -> Fail {
        let entities = cycle.iter().rev().map(|id| self.program.entity(*id));
        let names: Vec<&str> = entities.clone().map(|it| self.text(it.name)).collect();
        let loc = entities.clone().next().map_or(Loc::NONE, |last| last.loc);
        let message = format!("Entity can not be its own parent {}", names.join(","));
        let mut error = fail("CycleException", loc, message);
        for entity in entities.skip(1) {
            let name = self.text(entity.short);
            error = error.note(format!("`{name}` is part of the cycle"), entity.loc);
        }
        error
    }

    fn define_attribute(
        &mut self,
        namespace: NamespaceId,
        id: EntityId,
        attribute: &ast::Attribute,
    ) -> Result<(), Fail> {
        let loc = self.loc(attribute.name.span);
        let name = attribute.name.symbol;
        let base_loc = self.loc(attribute.base.span);
        let found = self.find_type(namespace, attribute.base.symbol, base_loc);
        let mut ty = match self.keep(found) {
            Some(ty) if !matches!(self.program.types[ty.index()], Type::Entity(_)) => ty,
            found => {
                if found.is_some() {
                    self.errors.push(typing(
                        base_loc,
                        "an entity can not be the type of an attribute, use a relation",
                    ));
                }
                self.program.add_type(Type::Any)
            }
        };
        let is_known = self.program.types[ty.index()] != Type::Any;
        if !is_known {
            self.broken.insert(id);
        }
        if attribute.list && is_known {
            ty = self.program.add_type(Type::ListOf(ty));
        }
        if attribute.nullable && is_known {
            ty = self.program.add_type(Type::Nullable(ty));
        }
        if let Some(first) = self.program.entity(id).own_of.get(&name) {
            let message = format!(
                "attribute '{}' already exists on entity '{}'",
                self.text(name),
                self.text(self.program.entity(id).short)
            );
            let first = self.program.attribute(*first).loc;
            return Err(duplicate(first, loc, message));
        }
        let kind = AttributeKind::Plain(ty);
        let attr = self.add_attribute(id, name, loc, kind);
        let value = match &attribute.default {
            ast::Default::Absent | ast::Default::Undef => None,
            ast::Default::Value(value) => {
                let constant = self.constant(namespace, *value, loc);
                if constant.is_err() {
                    self.broken.insert(id);
                }
                let met = |error| (ErrorOrder::default_of(id, attr), error);
                constant
                    .map_err(|error| self.entity_errors.push(met(error)))
                    .ok()
            }
        };
        self.program.entities[id.index()]
            .own_defaults
            .push(OwnDefault { name, value });
        Ok(())
    }

    pub fn add_attribute(
        &mut self,
        entity: EntityId,
        name: Symbol,
        loc: Loc,
        kind: AttributeKind,
    ) -> AttrId {
        self.program.attributes.push(Attribute {
            name,
            entity,
            loc,
            kind,
            policy: None,
            before_others: false,
        });
        let attr = AttrId(self.program.attributes.len() as u32 - 1);
        let entity = &mut self.program.entities[entity.index()];
        entity.own.push(attr);
        entity.own_of.entry(name).or_insert(attr);
        attr
    }

    /// Slots and defaults of every entity. Source: docs/reference/language.md § 8.3, ancestors first; 7.2.
    pub fn lay_out(&mut self) {
        for at in 0..self.program.entities.len() {
            let id = EntityId(at as u32);
            let mut slots: Vec<AttrId> = Vec::new();
            let mut slot_of: Map<Symbol, u32> = Map::default();
            self.collect_slots(
                id,
                &mut slots,
                &mut slot_of,
                &mut crate::hash::Set::default(),
            );
            // The declaration nearest to the entity is the one that counts.
            for slot in &mut slots {
                if let Some(attr) = self
                    .program
                    .find_attribute(id, self.program.attribute(*slot).name)
                {
                    *slot = attr;
                }
            }
            let mut values = IndexMap::new();
            self.collect_defaults(id, &mut values, &mut crate::hash::Set::default());
            let defaults = values
                .iter()
                .filter_map(|(name, value)| Some((*slot_of.get(name)?, (*value)?)))
                .collect();
            let entity = &mut self.program.entities[at];
            entity.slots = slots;
            entity.slot_of = slot_of;
            entity.defaults = defaults;
        }
    }

    fn collect_slots(
        &self,
        id: EntityId,
        slots: &mut Vec<AttrId>,
        slot_of: &mut Map<Symbol, u32>,
        seen: &mut crate::hash::Set<EntityId>,
    ) {
        if !seen.insert(id) {
            return;
        }
        let entity = self.program.entity(id);
        for parent in entity.parents.iter().rev() {
            self.collect_slots(*parent, slots, slot_of, seen);
        }
        for attr in &entity.own {
            let name = self.program.attribute(*attr).name;
            if let std::collections::hash_map::Entry::Vacant(entry) = slot_of.entry(name) {
                entry.insert(slots.len() as u32);
                slots.push(*attr);
            }
        }
    }

    /// What ancestors say, then the entity: the last one counts, the first one gives the place.
    fn collect_defaults(
        &self,
        id: EntityId,
        values: &mut IndexMap<Symbol, Option<super::ExprId>>,
        seen: &mut crate::hash::Set<EntityId>,
    ) {
        if !seen.insert(id) {
            return;
        }
        let entity = self.program.entity(id);
        for parent in entity.parents.iter().rev() {
            self.collect_defaults(*parent, values, seen);
        }
        for default in &entity.own_defaults {
            values.insert(default.name, default.value);
        }
    }

    fn check_incompatible(&self, id: EntityId) -> Result<(), Fail> {
        let entity = self.program.entity(id);
        let mut known: Map<Symbol, AttrId> = Map::default();
        for owner in std::iter::once(id).chain(entity.ancestors.iter().copied()) {
            for attr in &self.program.entity(owner).own {
                let attribute = self.program.attribute(*attr);
                let AttributeKind::Plain(ty) = attribute.kind else {
                    continue;
                };
                let Some(other) = known.insert(attribute.name, *attr) else {
                    continue;
                };
                let other = self.program.attribute(other);
                if let AttributeKind::Plain(other_type) = other.kind
                    && other_type != ty
                {
                    let message = "Incompatible attributes";
                    return Err(duplicate(other.loc, attribute.loc, message));
                }
            }
        }
        Ok(())
    }

    pub fn define_indexes(&mut self) {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            for item in &source.ast.items {
                if let Item::Index {
                    entity,
                    attributes,
                    span,
                } = item
                {
                    let found = self.find_entity(NamespaceId(at as u32), *entity);
                    let Some(id) = self.keep(found) else {
                        continue;
                    };
                    let loc = self.loc(*span);
                    let defined = self.define_index(id, attributes, loc);
                    if self.keep(defined).is_none() {
                        self.program.half_defined.insert(id);
                    }
                }
            }
        }
        let mut tables: Map<(EntityId, Vec<Symbol>), TableId> = Map::default();
        for at in 0..self.program.entities.len() {
            let id = EntityId(at as u32);
            let mut indexes: Vec<EntityIndex> = Vec::new();
            let owners: Vec<EntityId> = std::iter::once(id)
                .chain(self.program.entity(id).ancestors.iter().copied())
                .collect();
            for owner in &owners {
                for index in self.program.entity(*owner).own_indexes.clone() {
                    if indexes.iter().any(|known| known.names == index.names) {
                        continue;
                    }
                    let slots = index
                        .names
                        .iter()
                        .filter_map(|name| self.program.entity(id).slot_of.get(name).copied())
                        .collect();
                    let mut table_of = |entity: EntityId| {
                        let next = TableId(tables.len() as u32);
                        *tables.entry((entity, index.names.clone())).or_insert(next)
                    };
                    let table = table_of(id);
                    let having = |owner: EntityId, builder: &Builder| {
                        std::iter::once(owner)
                            .chain(builder.program.entity(owner).ancestors.iter().copied())
                            .any(|entity| {
                                builder
                                    .program
                                    .entity(entity)
                                    .own_indexes
                                    .iter()
                                    .any(|own| own.names == index.names)
                            })
                    };
                    let mut pairs = index.names.windows(2);
                    let repeated = pairs.find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
                    let ancestor_tables = owners[1..]
                        .iter()
                        .filter(|owner| having(**owner, self))
                        .map(|owner| table_of(*owner))
                        .collect();
                    indexes.push(EntityIndex {
                        names: index.names,
                        slots,
                        table,
                        ancestor_tables,
                        repeated,
                    });
                }
            }
            self.program.entities[at].indexes = indexes;
        }
        self.program.n_tables = tables.len() as u32;
    }

    fn define_index(
        &mut self,
        id: EntityId,
        attributes: &[ast::Name],
        loc: Loc,
    ) -> Result<(), Fail> {
        let mut names = Vec::new();
        for name in attributes {
            let Some(attr) = self.program.find_attribute(id, name.symbol) else {
                let message = format!(
                    "Attribute '{}' referenced in index is not defined in entity {}",
                    self.text(name.symbol),
                    self.text(self.program.entity(id).name)
                );
                return Err(not_found(loc, message)
                    .following(self.is_broken(id))
                    .did_you_mean(self.similar_attribute(id, name.symbol)));
            };
            let attribute = self.program.attribute(attr);
            let text = format!(
                "{}.{}",
                self.text(name.symbol),
                self.text(self.program.entity(attribute.entity).name)
            );
            if matches!(attribute.kind, AttributeKind::Relation { low: 0, .. }) {
                return Err(fail(
                    "IndexException",
                    loc,
                    format!(
                        "Index can not contain optional relations, Relation ' {text}' is optional"
                    ),
                ));
            }
            let is_list = match attribute.kind {
                AttributeKind::Plain(ty) => {
                    let types = &self.program.types;
                    let inner = match types[ty.index()] {
                        Type::Nullable(inner) => inner,
                        _ => ty,
                    };
                    matches!(types[inner.index()], Type::ListOf(_))
                }
                AttributeKind::Relation { .. } => attribute.is_multi(),
            };
            if is_list {
                return Err(fail(
                    "IndexException",
                    loc,
                    format!("Index can not contain list attributes, Attribute ' {text}' is a list"),
                ));
            }
            names.push(name.symbol);
        }
        // An index counts again unless it is written as a known one is sorted: it says once more what a constructor misses.
        let own = &self.program.entity(id).own_indexes;
        if own.iter().all(|known| known.names != names) {
            let written = names.clone();
            names.sort_by(|a, b| self.text(*a).cmp(self.text(*b)));
            let order = self.n_indexes;
            self.n_indexes += 1;
            self.program.entities[id.index()].own_indexes.push(Index {
                names,
                written,
                order,
            });
        }
        Ok(())
    }

    /// The attribute that may be meant by a name that none has.
    pub fn similar_attribute(&self, entity: EntityId, name: Symbol) -> Option<String> {
        let similar = self.program.similar_attribute(entity, name);
        similar.map(str::to_owned)
    }

    pub fn define_implements(&mut self) {
        let loaded = self.loaded;
        for (at, source) in loaded.sources.iter().enumerate() {
            for item in &source.ast.items {
                if let Item::Implement(implement) = item {
                    let defined = self.define_implement(NamespaceId(at as u32), implement);
                    self.keep(defined);
                }
            }
        }
        // What comes twice, over two parents, counts once: an implementation runs once.
        for id in std::mem::take(&mut self.parents_first) {
            let entity = self.program.entity(id);
            let mut entries: IndexSet<ImplementId> = entity.implements.iter().copied().collect();
            if entity.implement_parents {
                for parent in &entity.parents {
                    entries.extend(&self.program.entity(*parent).entries);
                }
            }
            self.program.entities[id.index()].entries = entries.into_iter().collect();
        }
    }

    fn define_implement(
        &mut self,
        namespace: NamespaceId,
        implement: &ast::Implement,
    ) -> Result<(), Fail> {
        let entity = self.find_entity(namespace, implement.entity)?;
        let loc = self.loc(implement.span);
        let mut using = Vec::new();
        for name in &implement.using {
            let name_loc = self.loc(name.span);
            let found = self.find_def(namespace, name.symbol, name_loc);
            let Some(def) = self.keep(found) else {
                continue;
            };
            let Def::Implementation(id) = def else {
                let message = format!("{} is not an implementation", self.text(name.symbol));
                let follows = self.unclear.contains(&(namespace, name.symbol));
                self.errors
                    .push(typing(name_loc, message).following(follows));
                continue;
            };
            let target = self.program.implementations[id.index()].entity;
            if !self.program.is_subtype(entity, target) {
                let message = format!(
                    "Type mismatch: cannot use {} as implementation for  {} because its implementing type is {}",
                    self.text(name.symbol),
                    self.text(self.program.entity(entity).name),
                    self.text(self.program.entity(target).name)
                );
                let follows = self.is_broken(entity);
                self.errors.push(typing(loc, message).following(follows));
                continue;
            }
            using.push(id);
        }
        if implement.parents {
            self.program.entities[entity.index()].implement_parents = true;
        }
        if using.len() < implement.using.len() {
            self.program.half_defined.insert(entity);
        }
        if using.is_empty() {
            return Ok(());
        }
        let entity_loc = self.loc(implement.entity.span);
        self.program.implements.push(Implement {
            entity,
            namespace,
            condition: None,
            using,
            // What is wrong when it runs is said of the entity.
            loc: entity_loc,
        });
        let id = ImplementId(self.program.implements.len() as u32 - 1);
        self.program.entities[entity.index()].implements.push(id);
        if let Some(when) = implement.when {
            self.pending_conditions.push((id, when));
        }
        Ok(())
    }
}
