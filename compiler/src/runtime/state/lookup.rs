//! Index tables and lookups. Source: docs/reference/language.md § 7.7, § 7.8.
//!
//! Each index of an entity has a table from the values of its attributes to the one instance that
//! has them; an instance of a subtype is in the tables of its ancestors' indexes, too. A table
//! holds hashes and numbers of instances only: whether an instance has a key is read from the
//! instance's own variables, which never change.
//!
//! A lookup `Host[name="a"]` that finds nothing is not an error: the instance may be constructed
//! later. It is kept with the table, under the hash of its key, and answered when an instance with
//! the key is registered. What still waits when nothing is left to do is reported then
//! (`exec/completion.rs`).
//!
//! The kind of a value is part of a key: 1, 1.0 and true are three keys, though they are equal
//! otherwise.

use std::hash::{Hash, Hasher};

use smallvec::SmallVec;

use crate::diagnostics::duplicate;
use crate::diagnostics::{Fail, not_found, runtime, typing};
use crate::hash::{Map, spread};
use crate::hir::{
    AttrId, AttributeKind, EntityIndex, ExprId, ExprKind, QueryId, QueryKind, TableId,
};
use crate::intern::Symbol;
use crate::runtime::exec::eval::Ready;
use crate::runtime::{InstId, Machine, ModelState, ScopeId, VarId};
use crate::span::Loc;
use crate::types::{EntityId, Type, Value};

/// Values of an index, in the order of its attributes.
pub(in crate::runtime) type KeyValues = SmallVec<[Value; 2]>;
/// Arguments of a lookup, in the order in which they were given.
type Args = SmallVec<[(Symbol, Value); 2]>;

/// The values of an index for one instance, in the order of its attributes, with their hash.
#[derive(Clone)]
pub(in crate::runtime) struct Key {
    hash: u32,
    values: KeyValues,
}

/// A lookup that found nothing yet.
pub(in crate::runtime) struct Waiting {
    /// The values that it looks for, in the order of the index.
    key: KeyValues,
    /// The variable that gets the instance.
    pub result: VarId,
    /// The entity that it looks for.
    pub entity: EntityId,
    /// The values as they were written, for the error.
    args: Args,
    /// The place of the lookup.
    pub loc: Loc,
    /// Its number among all lookups, by which errors are sorted.
    pub order: u64,
    /// In tiles: the round that looked.
    round: u8,
}

/// Instances, and look-ups that found none yet, by the hash of their key.
#[derive(Default)]
pub(in crate::runtime) struct Table {
    instances: hashbrown::HashTable<(u32, InstId)>,
    waiting: Map<u32, Vec<Waiting>>,
    n_waiting: u64,
}

impl ModelState<'_> {
    /// The key that these values make. References and objects of Python can not be in one.
    pub(in crate::runtime) fn key(&self, values: KeyValues, loc: Loc) -> Result<Key, Fail> {
        let mut hasher = crate::hash::FastHasher::default();
        for value in &values {
            std::mem::discriminant(value).hash(&mut hasher);
            match *value {
                Value::Null => {}
                Value::Bool(value) => value.hash(&mut hasher),
                Value::Int(value) => value.hash(&mut hasher),
                Value::Float(value) => value.to_bits().hash(&mut hasher),
                Value::Str(id) => hasher.write(self.heap.str(id).as_bytes()),
                Value::Big(id) => self.heap.big(id).hash(&mut hasher),
                Value::List(_) | Value::Dict(_) => {
                    hasher.write(self.heap.repr(*value, self).as_bytes());
                }
                Value::Instance(id) => id.hash(&mut hasher),
                Value::Unknown(id) => id.hash(&mut hasher),
                Value::Opaque(_) | Value::Reference(_) | Value::Skip => {
                    return Err(runtime(loc, "a Python object can not be part of an index"));
                }
            }
        }
        Ok(Key {
            hash: hasher.finish() as u32,
            values,
        })
    }

    /// Whether two values are one in a key: of the same kind, and the same. Lists and dicts are
    /// compared by how they are printed.
    fn same_key(&self, a: Value, b: Value) -> bool {
        match (a, b) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Str(a), Value::Str(b)) => a == b || self.heap.str(a) == self.heap.str(b),
            (Value::Big(a), Value::Big(b)) => self.heap.big(a) == self.heap.big(b),
            (Value::Instance(a), Value::Instance(b)) => a == b,
            (Value::Unknown(a), Value::Unknown(b)) => a == b,
            (Value::List(_), Value::List(_)) | (Value::Dict(_), Value::Dict(_)) => {
                self.heap.repr(a, self) == self.heap.repr(b, self)
            }
            _ => false,
        }
    }

    /// Whether the instance lies in a table under this key: its own values say it.
    fn has_key(&self, table: TableId, id: InstId, key: &Key) -> bool {
        let instance = self.instance(id);
        let indexes = &self.program.entity(instance.entity).indexes;
        let index = indexes
            .iter()
            .find(|index| index.table == table || index.ancestor_tables.contains(&table));
        index.is_some_and(|index| {
            index.slots.iter().zip(&key.values).all(|(slot, value)| {
                let own = self.vars.peek(VarId(instance.slots.0 + slot).index());
                self.same_key(own.value(&self.heap), *value)
            })
        })
    }

    /// The instance with a key, if there is one. In tiles, this counts as a look at the attributes
    /// of the key.
    pub(in crate::runtime) fn find_key(&self, table: TableId, key: &Key) -> Option<InstId> {
        let found = self.tables[table.index()]
            .instances
            .find(spread(key.hash), |(hash, id)| {
                *hash == key.hash && self.has_key(table, *id, key)
            });
        let (_, id) = found?;
        if !self.vars.is_in_tiles() {
            return Some(*id);
        }
        // Its slots have had their values for as long as it was in the table.
        let first = self
            .program
            .entity(self.instance(*id).entity)
            .indexes
            .first();
        for slot in first.iter().flat_map(|index| &index.slots) {
            self.var(VarId(self.instance(*id).slots.0 + slot));
        }
        Some(*id)
    }

    /// What a lookup looked for.
    pub(in crate::runtime) fn lookup_text(&self, lookup: &Waiting) -> String {
        let texts: Vec<String> = lookup
            .args
            .iter()
            .map(|(name, value)| {
                format!(
                    "{}={}",
                    self.program.text(*name),
                    self.heap.repr(*value, self)
                )
            })
            .collect();
        texts.join(", ")
    }

    fn key_text(&self, index: &EntityIndex, instance: InstId) -> String {
        let slots = self.instance(instance).slots;
        let parts: Vec<String> = index
            .names
            .iter()
            .zip(&index.slots)
            .map(|(name, slot)| {
                let value = self.var(VarId(slots.0 + slot)).value(&self.heap);
                format!(
                    "{}={}",
                    self.program.text(*name),
                    self.heap.repr(value, self)
                )
            })
            .collect();
        parts.join(", ")
    }

    fn add_arg(&self, args: &mut Args, name: Symbol, value: Value, loc: Loc) -> Result<(), Fail> {
        if args.iter().any(|(known, _)| *known == name) {
            return Err(self.repeated_key(name, loc));
        }
        args.push((name, value));
        Ok(())
    }

    pub(in crate::runtime) fn repeated_key(&self, name: Symbol, loc: Loc) -> Fail {
        let message = format!(
            "Attribute {} provided twice in index lookup",
            self.program.text(name)
        );
        runtime(loc, message)
    }

    fn known_indexes(&self, entity: EntityId) -> String {
        let entity = self.program.entity(entity);
        let short = self.program.text(entity.short);
        let indexes = entity.indexes.iter().map(|index| {
            let names: Vec<&str> = index
                .names
                .iter()
                .map(|name| self.program.text(*name))
                .collect();
            format!("`{short}({})`", names.join(", "))
        });
        let indexes: Vec<String> = indexes.collect();
        match indexes.as_slice() {
            [] => format!("`{short}` has no index: define one with `index {short}(…)`"),
            indexes => format!("there is an index {}", indexes.join(", ")),
        }
    }

    /// The error of a lookup by attributes that no index has.
    fn no_index(&self, entity: EntityId, args: &[(&str, Value)], loc: Loc) -> Fail {
        let shown: Vec<String> = args
            .iter()
            .map(|(name, value)| format!("('{name}', {})", self.heap.repr(*value, self)))
            .collect();
        self.no_index_of(entity, &shown, loc)
    }

    /// No index has just the attributes that are given as `('name', value)`.
    pub(crate) fn no_index_of(&self, entity: EntityId, shown: &[String], loc: Loc) -> Fail {
        let name = self.program.entity_name(entity);
        not_found(
            loc,
            format!(
                "No index defined on {name} for this lookup: [{}]",
                shown.join(", ")
            ),
        )
        .help(self.known_indexes(entity))
    }

    /// What is looked up is cast to float where the attribute is one.
    pub(in crate::runtime) fn as_key(
        &mut self,
        value: Value,
        attr: AttrId,
        loc: Loc,
    ) -> Result<Value, Fail> {
        let AttributeKind::Plain(ty) = self.program.attribute(attr).kind else {
            return Ok(value);
        };
        match (value, &self.program.types[ty.index()]) {
            (Value::Float(_) | Value::Reference(_), _) => Ok(value),
            (_, Type::Float) => self.cast(ty, value, loc),
            (Value::Null, Type::Nullable(_)) => Ok(value),
            (_, Type::Nullable(inner)) if self.is_type(*inner, &Type::Float) => {
                self.cast(*inner, value, loc)
            }
            _ => Ok(value),
        }
    }

    /// Lookups that have found nothing.
    pub(in crate::runtime) fn take_waiting_lookups(&mut self) -> Vec<Waiting> {
        let tables = self.tables.iter_mut();
        let waiting =
            tables.flat_map(|table| table.waiting.drain().flat_map(|(_, waiting)| waiting));
        waiting.collect()
    }
}

impl Machine<'_> {
    /// Puts a new instance into the tables of an index, and answers the lookups that waited for it.
    /// An error if an instance of an ancestor's index has the key already.
    pub(in crate::runtime) fn register_key(
        &mut self,
        index: &EntityIndex,
        key: &Key,
        instance: InstId,
        loc: Loc,
    ) -> Result<(), Fail> {
        for table in &index.ancestor_tables {
            if let Some(other) = self.state.find_key(*table, key) {
                let text = self.state.key_text(index, instance);
                let message = format!("Duplicate key in index. {text}");
                return Err(duplicate(loc, self.state.instance(other).loc, message));
            }
        }
        for id in std::iter::once(&index.table).chain(&index.ancestor_tables) {
            let table = &mut self.state.tables[id.index()];
            table
                .instances
                .insert_unique(spread(key.hash), (key.hash, instance), |(hash, _)| {
                    spread(*hash)
                });
            if table.n_waiting > 0
                && let Some(mut waiting) = table.waiting.remove(&key.hash)
            {
                let all = waiting.len();
                let mut found = Vec::new();
                let mut rest = Vec::new();
                for lookup in waiting.drain(..) {
                    let same = lookup.key.iter().zip(&key.values);
                    if { same }.all(|(a, b)| self.state.same_key(*a, *b)) {
                        found.push(lookup)
                    } else {
                        rest.push(lookup)
                    }
                }
                let table = &mut self.state.tables[id.index()];
                table.n_waiting -= (all - rest.len()) as u64;
                if !rest.is_empty() {
                    table.waiting.insert(key.hash, rest);
                }
                for mut lookup in found {
                    self.state.vars.check(&mut lookup.round);
                    self.set_plain(lookup.result, Value::Instance(instance), lookup.loc)?;
                }
            }
        }
        Ok(())
    }

    /// Runs an index lookup whose values are known.
    pub(in crate::runtime) fn run_query(
        &mut self,
        expr: ExprId,
        scope: ScopeId,
        result: VarId,
        ready: &mut Ready,
    ) -> Result<(), Fail> {
        let ExprKind::Query(id) = self.program.expr(expr).kind else {
            return Ok(());
        };
        let (entity, args) = self.query_args(id, scope, ready)?;
        self.find(entity, args, result, self.program.queries[id.index()].loc)
    }

    fn query_args(
        &mut self,
        id: QueryId,
        scope: ScopeId,
        ready: &mut Ready,
    ) -> Result<(EntityId, Args), Fail> {
        let program = self.program;
        let query = &program.queries[id.index()];
        let mut args = Args::new();
        let entity = match query.kind {
            QueryKind::Entity(entity) => entity,
            QueryKind::Relation(object, relation) => {
                let value = self.eval_plain(object, scope, ready)?;
                let Value::Instance(instance) = value else {
                    let text = self.state.heap.to_text(value, &self.state);
                    let message = format!(
                        "short index lookup is only possible one objects, {text} is not an object"
                    );
                    return Err(typing(query.loc, message));
                };
                let entity = self.state.instance(instance).entity;
                let Some(attr) = program.find_attribute(entity, relation) else {
                    let message = format!(
                        "short index lookup is only possible on relations, {} has no attribute {}",
                        program.entity_name(entity),
                        program.text(relation)
                    );
                    let similar = program.similar_attribute(entity, relation);
                    return Err(typing(query.loc, message).did_you_mean(similar));
                };
                let owner = program.entity_name(program.attribute(attr).entity);
                let name = format!("{owner}.{}", program.text(relation));
                match program.attribute(attr).kind {
                    AttributeKind::Plain(_) => {
                        let message = format!(
                            "short index lookup is only possible on relations, {} is an attribute",
                            program.text(relation)
                        );
                        return Err(typing(query.loc, message));
                    }
                    AttributeKind::Relation { inverse: None, .. } => {
                        let message = format!(
                            "short index lookup is only possible on bi-drectional relations, {name} is unidirectional"
                        );
                        return Err(typing(query.loc, message));
                    }
                    AttributeKind::Relation {
                        target,
                        inverse: Some(inverse),
                        ..
                    } => {
                        args.push((program.attribute(inverse).name, Value::Instance(instance)));
                        target
                    }
                }
            }
        };
        for (name, value) in &query.args {
            let value = self.eval_plain(*value, scope, ready)?;
            self.state.add_arg(&mut args, *name, value, query.loc)?;
        }
        for spread in &query.spreads {
            let Value::Dict(dict) = self.eval_plain(*spread, scope, ready)? else {
                return Err(typing(
                    query.loc,
                    "The ** operator can only be applied to dictionaries",
                ));
            };
            for at in 0..self.state.heap.dict(dict).entries.len() {
                let (key, value) = self.state.heap.dict(dict).entries[at];
                let Some(name) = program.names.find(self.state.heap.str(key)) else {
                    let text = self.state.heap.str(key).to_owned();
                    return Err(self.state.no_index(entity, &[(&text, value)], query.loc));
                };
                self.state.add_arg(&mut args, name, value, query.loc)?;
            }
        }
        Ok((entity, args))
    }

    /// Looks for the instance that these arguments identify; the result is set now, or when the
    /// instance is made.
    fn find(
        &mut self,
        entity: EntityId,
        mut args: Args,
        result: VarId,
        loc: Loc,
    ) -> Result<(), Fail> {
        let program = self.program;
        let given = args.clone();
        args.sort_by(|(a, _), (b, _)| program.text(*a).cmp(program.text(*b)));
        let index = program.entity(entity).indexes.iter().find(|index| {
            index.names.len() == args.len()
                && index
                    .names
                    .iter()
                    .zip(&args)
                    .all(|(name, (arg, _))| name == arg)
        });
        let Some(index) = index else {
            let shown: Vec<(&str, Value)> = given
                .iter()
                .map(|(name, value)| (program.text(*name), *value))
                .collect();
            return Err(self.state.no_index(entity, &shown, loc));
        };
        let mut values = KeyValues::new();
        for ((_, value), slot) in args.iter().zip(&index.slots) {
            let attr = program.entity(entity).slots[*slot as usize];
            values.push(self.state.as_key(*value, attr, loc)?);
        }
        self.refuse_references(&index.names, &values, loc)?;
        let key = self.state.key(values, loc)?;
        if let Some(instance) = self.state.find_key(index.table, &key) {
            return self.set_plain(result, Value::Instance(instance), loc);
        }
        self.state.n_lookups += 1;
        let waiting = Waiting {
            key: key.values,
            result,
            entity,
            args: given,
            loc,
            order: self.state.n_lookups,
            round: self.state.vars.round(),
        };
        let table = &mut self.state.tables[index.table.index()];
        table.n_waiting += 1;
        let others = table.waiting.entry(key.hash).or_default();
        if let Some(last) = others.last_mut() {
            self.state.vars.check(&mut last.round);
        }
        others.push(waiting);
        Ok(())
    }
}
