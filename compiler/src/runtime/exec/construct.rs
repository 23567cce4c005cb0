//! Constructors at run time. Source: docs/reference/language.md § 7.4, § 7.5.
//!
//! A constructor has two kinds of arguments. *Direct* ones are needed before the instance exists:
//! the attributes of its indexes, since an instance with the same values may exist already; then
//! that instance is the result. *Indirect* ones are assigned to the instance afterwards, each by a
//! task of its own that waits for its value, so that two instances may refer to each other.
//!
//! In order: direct values are computed; each index is asked; an instance is found or made; direct
//! values are stored; a new instance is registered in its indexes, which answers lookups that
//! waited for it; indirect arguments and `implement` entries are queued. All of this happens in one
//! step.

use smallvec::SmallVec;

use crate::diagnostics::{Fail, closest, duplicate, fail, runtime, typing};
use crate::hir::{AttributeKind, ConstructId, EntityIndex, ExprKind, missing_index};
use crate::intern::Symbol;
use crate::runtime::exec::eval::Ready;
use crate::runtime::exec::reads::n_reads;
use crate::runtime::state::lookup::{Key, KeyValues};
use crate::runtime::{Action, InstId, Machine, ModelState, ScopeId, Step, VarId, VarKind};
use crate::span::Loc;
use crate::types::{EntityId, Value};

/// Slot and value of what is known before the instance exists.
type Direct = SmallVec<[(u32, Value); 6]>;

impl ModelState<'_> {
    /// An error if the instance that an index finds is of another entity, or another one than the
    /// index before has found.
    fn check_hit(
        &self,
        hit: InstId,
        found: Option<InstId>,
        entity: EntityId,
        loc: Loc,
    ) -> Result<(), Fail> {
        let instance = self.instance(hit);
        if instance.entity != entity {
            return Err(duplicate(
                loc,
                instance.loc,
                "Type found in index is not an exact match",
            ));
        }
        match found {
            Some(other) if other != hit => Err(fail(
                "IndexCollisionException",
                loc,
                "Inconsistent indexes detected!\n",
            )
            .note(
                format!("one index finds {}", self.describe_instance(other)),
                self.instance(other).loc,
            )
            .note(
                format!("another finds {}", self.describe_instance(hit)),
                instance.loc,
            )),
            _ => Ok(()),
        }
    }
}

impl Machine<'_> {
    /// Runs a constructor: the instance that it makes or finds. `context` is the slot of a relation
    /// that the instance is being assigned to, whose owner may give an index attribute that is not
    /// written.
    pub(in crate::runtime) fn construct(
        &mut self,
        id: ConstructId,
        scope: ScopeId,
        ready: &mut Ready,
        context: VarId,
    ) -> Result<Value, Fail> {
        let program = self.program;
        let construct = &program.constructs[id.index()];
        let loc = construct.loc;
        // What is not written as an argument comes first: what an index misses is known before the arguments are.
        let mut late = Direct::new();
        let mut n_late = 0;
        if !construct.spreads.is_empty() {
            let before = construct.direct.iter().map(|(_, value)| value);
            let n_before = before.map(|value| n_reads(program, *value)).sum();
            let mut ahead = ready.ahead(n_before);
            self.spread(id, scope, &mut ahead, &mut late)?;
            n_late = ahead.read() - ready.read() - n_before;
        }
        let spread_slots: SmallVec<[u32; 4]> = late.iter().map(|(slot, _)| *slot).collect();
        if !construct.missing.is_empty() {
            self.fill_inverse(id, context, &mut late)?;
            self.check_missing(id, &late)?;
        }
        let mut direct = Direct::new();
        for (slot, value) in &construct.direct {
            direct.push((*slot, self.eval_plain(*value, scope, ready)?));
        }
        ready.skip(n_late);
        for (slot, value) in late {
            match direct.iter_mut().find(|(at, _)| *at == slot) {
                Some((_, default)) => *default = value,
                None => direct.push((slot, value)),
            }
        }
        let entity = program.entity(construct.entity);
        let mut keys: SmallVec<[Key; 2]> = SmallVec::new();
        let mut found: Option<InstId> = None;
        for index in &entity.indexes {
            let values = self.index_values(construct.entity, index, &direct, loc)?;
            let key = self.state.key(values, loc)?;
            if let Some(hit) = self.state.find_key(index.table, &key) {
                self.state.check_hit(hit, found, construct.entity, loc)?;
                found = Some(hit);
            }
            keys.push(key);
        }
        let instance = match found {
            Some(instance) => {
                if self.state.vars.is_in_tiles() && instance < self.tiles.first_of_tile {
                    // What is known of it besides its variables has no round.
                    self.state.vars.mark_out_of_order();
                }
                self.state.constructed_again(instance, loc);
                for (slot, value) in &direct {
                    let var = VarId(self.state.instance(instance).slots.0 + slot);
                    self.set_direct(var, *value, loc)?;
                }
                instance
            }
            None => {
                let parent = self.state.scopes[scope.index()].maker;
                let instance = self.create(construct.entity, loc, parent)?;
                for (slot, value) in &direct {
                    let var = VarId(self.state.instance(instance).slots.0 + slot);
                    self.set_direct(var, *value, loc)?;
                }
                for (index, key) in entity.indexes.iter().zip(keys) {
                    self.register_key(index, &key, instance, loc)?;
                }
                instance
            }
        };
        let slots = self.state.instance(instance).slots.0;
        for (at, argument) in construct.indirect.iter().enumerate() {
            match u16::try_from(at) {
                Ok(at) if argument.constant && construct.spreads.is_empty() => {
                    self.queue_constant(id, at, instance);
                }
                _ if spread_slots.contains(&argument.slot) => {}
                _ => self.assign_slot(VarId(slots + argument.slot), argument.value, scope, loc)?,
            }
        }
        self.add_implement_tasks(instance, loc)?;
        Ok(Value::Instance(instance))
    }

    /// Queues a step for each `implement` entry of the instance's entity, which decides whether it
    /// applies.
    pub(in crate::runtime) fn add_implement_tasks(
        &mut self,
        instance: InstId,
        loc: Loc,
    ) -> Result<(), Fail> {
        let program = self.program;
        let entity = program.entity(self.state.instance(instance).entity);
        let mut condition_scope = ScopeId::NONE;
        for (at, entry) in entity.entries.iter().enumerate() {
            let implement = &program.implements[entry.index()];
            if let Some(condition) = implement.condition {
                if !condition_scope.is_some()
                    || self.state.scopes[condition_scope.index()].namespace != implement.namespace
                {
                    condition_scope = self.state.push_scope(
                        ScopeId::NONE,
                        0,
                        VarKind::Plain,
                        instance,
                        implement.namespace,
                    );
                }
                self.act_on(
                    condition,
                    condition_scope,
                    Action::Implement {
                        implement: *entry,
                        scope: condition_scope,
                        instance,
                        loc,
                    },
                )
                .map_err(|mut error| {
                    // A name that is not found is a mistake of the whole entry.
                    if error.kind == "NotFoundException" {
                        error.loc = implement.loc;
                    }
                    error.at(implement.loc)
                })?;
            } else if let Ok(at) = u16::try_from(at) {
                self.queue_implement(instance, at, loc);
            } else {
                let action = Action::Implement {
                    implement: *entry,
                    scope: condition_scope,
                    instance,
                    loc,
                };
                self.add_direct(action, 0);
            }
        }
        Ok(())
    }

    /// Queues the assignment of a constant, joined to the one before if that is of the same
    /// constructor run.
    fn queue_constant(&mut self, id: ConstructId, at: u16, owner: InstId) {
        self.scheduler.numbers.next(self.state.vars.round());
        if let Some(Step::Constants {
            construct,
            to,
            instance,
            ..
        }) = self.scheduler.ready.last_mut()
            && (*construct, *instance) == (id, owner)
            && *to <= at
        {
            *to = at + 1;
            return;
        }
        self.scheduler.ready.push(Step::Constants {
            construct: id,
            from: at,
            to: at + 1,
            instance: owner,
        });
    }

    /// Queues an `implement` entry without a condition, joined to the one before if that is of the
    /// same instance.
    fn queue_implement(&mut self, owner: InstId, at: u16, place: Loc) {
        self.scheduler.numbers.next(self.state.vars.round());
        if let Some(Step::Implement {
            instance, to, loc, ..
        }) = self.scheduler.ready.last_mut()
            && (*instance, *loc) == (owner, place)
            && *to <= at
        {
            *to = at + 1;
            return;
        }
        self.scheduler.ready.push(Step::Implement {
            instance: owner,
            from: at,
            to: at + 1,
            loc: place,
        });
    }

    /// Stores constants into plain attributes. Whether a constant has the type of its attribute is
    /// checked once; from then on it is one write.
    #[inline(never)]
    pub(in crate::runtime) fn store_constants(
        &mut self,
        construct: ConstructId,
        range: std::ops::Range<u16>,
        instance: InstId,
    ) -> Result<(), Fail> {
        let program = self.program;
        let construct = &program.constructs[construct.index()];
        let slots = self.state.instance(instance).slots.0;
        let attrs = &program.entity(construct.entity).slots;
        let range = usize::from(range.start)..usize::from(range.end);
        for argument in construct.indirect[range].iter().filter(|it| it.constant) {
            let id = VarId(slots + argument.slot);
            let attr = attrs[argument.slot as usize];
            let (checked, var) = self.exec.checked[argument.value.index()];
            let is_fresh = self.state.known(id).is_fresh_slot();
            if is_fresh && checked == attr {
                self.state.vars[id.index()] = var.placed(construct.loc);
                continue;
            }
            let ExprKind::Const(value) = program.expr(argument.value).kind else {
                continue;
            };
            self.set_slot(id, value, construct.loc)?;
            if is_fresh {
                self.exec.checked[argument.value.index()] = (attr, *self.state.known(id));
            }
        }
        Ok(())
    }

    /// A new instance with empty slots, which follow one another among the variables. The variable
    /// before them is `self`. Relations that are complete as they are go to the wait queue here.
    pub(in crate::runtime) fn create(
        &mut self,
        entity: EntityId,
        loc: Loc,
        parent: InstId,
    ) -> Result<InstId, Fail> {
        self.report.leave_place(loc);
        self.check_limits(loc)?;
        let depth = if parent.is_some() {
            self.state.instance(parent).depth + 1
        } else {
            0
        };
        let limit = self.options.limits.chain;
        if depth > limit {
            let message = format!(
                "implementations and loops construct one another in a chain of more than {limit} instances: {}",
                self.state.construct_chain()
            );
            return Err(runtime(loc, message).help(
                "an implementation that constructs its own entity needs a condition that ends it, and a loop over a list that it adds to, too",
            ));
        }
        let layout = &self.exec.layouts[entity.index()];
        let (id, slots) = self
            .state
            .add_instance(entity, loc, (parent, depth), &layout.slots);
        for at in 0..layout.complete.len() {
            let slot = self.exec.layouts[entity.index()].complete[at];
            self.push_waiting(VarId(slots.0 + slot));
        }
        Ok(id)
    }

    /// The attributes that the dicts behind `**` give.
    fn spread(
        &mut self,
        id: ConstructId,
        scope: ScopeId,
        ready: &mut Ready,
        late: &mut Direct,
    ) -> Result<(), Fail> {
        let program = self.program;
        let construct = &program.constructs[id.index()];
        let entity = program.entity(construct.entity);
        for spread in &construct.spreads {
            let Value::Dict(dict) = self.eval_plain(*spread, scope, ready)? else {
                return Err(typing(
                    construct.loc,
                    "The ** operator can only be applied to dictionaries",
                ));
            };
            for at in 0..self.state.heap.dict(dict).entries.len() {
                let (key, value) = self.state.heap.dict(dict).entries[at];
                let name = self.state.heap.str(key);
                let slot = program
                    .names
                    .find(name)
                    .and_then(|symbol| Some((symbol, *entity.slot_of.get(&symbol)?)));
                let Some((symbol, slot)) = slot else {
                    let message =
                        format!("no attribute {name} on type {}", program.text(entity.name));
                    let slots = entity.slots.iter();
                    let names = slots.map(|attr| program.text(program.attribute(*attr).name));
                    let similar = closest(name, names);
                    return Err(typing(construct.loc, message).did_you_mean(similar));
                };
                if construct.explicit.contains(&symbol) || late.iter().any(|(at, _)| *at == slot) {
                    let message = format!(
                        "The attribute {name} is set twice in the constructor call of {}.",
                        program.text(entity.short)
                    );
                    return Err(runtime(construct.loc, message));
                }
                late.push((slot, value));
            }
        }
        Ok(())
    }

    /// Takes an index attribute that is not written from the relation that the new instance is
    /// assigned to: `host.files += File(path="/a")` gives the file its `host`. It comes before what
    /// dicts give.
    fn fill_inverse(
        &mut self,
        id: ConstructId,
        context: VarId,
        late: &mut Direct,
    ) -> Result<(), Fail> {
        if !context.is_some() {
            return Ok(());
        }
        let program = self.program;
        let construct = &program.constructs[id.index()];
        let entity = program.entity(construct.entity);
        let attr = self.state.attr(context);
        let AttributeKind::Relation { inverse, .. } = program.attribute(attr).kind else {
            let message = format!(
                "Attempting to assign constructor of type {} to attribute that is not a relation attribute: {}",
                program.text(entity.name),
                program.text(program.attribute(attr).name)
            );
            return Err(runtime(construct.loc, message));
        };
        let Some(inverse) = inverse else {
            return Ok(());
        };
        let attribute = program.attribute(inverse);
        if construct.missing.contains(&attribute.name)
            && program.is_subtype(construct.entity, attribute.entity)
            && let Some(slot) = entity.slot_of.get(&attribute.name)
            && late.iter().all(|(at, _)| at != slot)
        {
            late.insert(0, (*slot, Value::Instance(self.state.owner(context))));
        }
        Ok(())
    }

    /// The values of an index's attributes, which the constructor gives.
    fn index_values(
        &mut self,
        entity: EntityId,
        index: &EntityIndex,
        given: &Direct,
        loc: Loc,
    ) -> Result<KeyValues, Fail> {
        let program = self.program;
        if let Some(name) = index.repeated {
            return Err(self.state.repeated_key(name, loc));
        }
        let slots = &program.entity(entity).slots;
        let mut values = KeyValues::new();
        for (slot, name) in index.slots.iter().zip(&index.names) {
            let Some((_, value)) = given.iter().find(|(at, _)| at == slot) else {
                return Err(missing_index(program, entity, &[*name], loc));
            };
            let attribute = slots[*slot as usize];
            values.push(self.state.as_key(*value, attribute, Loc::NONE)?);
        }
        self.refuse_references(&index.names, &values, loc)?;
        Ok(values)
    }

    /// An error unless all attributes of the indexes have values.
    fn check_missing(&self, id: ConstructId, late: &Direct) -> Result<(), Fail> {
        let program = self.program;
        let construct = &program.constructs[id.index()];
        let entity = program.entity(construct.entity);
        let is_missing = |name: &Symbol| {
            let slot = entity.slot_of.get(name);
            late.iter().all(|(at, _)| Some(at) != slot)
        };
        let missing: Vec<Symbol> = construct
            .missing
            .iter()
            .copied()
            .filter(is_missing)
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        Err(missing_index(
            program,
            construct.entity,
            &missing,
            construct.loc,
        ))
    }
}
