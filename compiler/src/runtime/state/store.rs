//! Values into variables: types, multiplicities, inverses, streaming. Source:
//! docs/reference/language.md § 5.2, § 5.3, § 8.2, § 8.10.
//!
//! Storing an element into a relation sets off a chain of effects, whose order a model can notice.
//! It is, depth first and without going through the queue:
//!
//! 1. The element is checked against the type of the relation, and appended. One that is there
//!    already changes nothing.
//! 2. Listeners get it, in the order in which they registered. A listener may store it into another
//!    relation, which runs through all of this before the next listener has its turn.
//! 3. The inverse on the other instance is set, which does not set the inverse of the inverse again
//!    (`recur` is false there).
//! 4. A list that is full is frozen; one that could be complete goes to the wait queue.
//!
//! At each of these points the variable may have been completed by what happened meanwhile, so it
//! is looked at again. Since lists may feed one another in a circle, the depth of step 2 is limited
//! (`MAX_DELIVERY`).
//!
//! A single or optional relation is simpler, with one point to know: an optional one sets its
//! inverse *before* itself, and finds its own value there if the inverse came back to it.

use crate::diagnostics::{Fail, Failure, fail, runtime};
use crate::hir::{AttrId, AttributeKind, STD_ENTITY};
use crate::runtime::{Listener, Machine, ModelState, VarId, VarKind};
use crate::span::Loc;
use crate::types::{EntityId, InstId, Value};

/// Elements of a complete relation that an error about it shows: it may have hundreds of thousands.
const SHOWN_ELEMENTS: usize = 10;

/// What a relation is on one instance.
#[derive(Clone, Copy)]
pub(in crate::runtime) struct Relation {
    /// The instance whose attribute it is.
    owner: InstId,
    /// The entity that its elements have to be of.
    target: EntityId,
    /// The least number of elements.
    pub low: u32,
    /// The largest number of elements; `None`: there is none.
    pub high: Option<u32>,
    /// The other side of the relation, if it has one.
    inverse: Option<AttrId>,
}

impl ModelState<'_> {
    /// The error of storing into a slot, told as that of an attribute of an instance; one that
    /// already is, stays.
    pub(in crate::runtime) fn attribute_error(&self, id: VarId, loc: Loc, error: Fail) -> Fail {
        if error.kind == "AttributeException" {
            return error;
        }
        self.wrapped(id, loc, *error)
    }

    /// The error as that of an attribute of an instance.
    fn wrapped(&self, id: VarId, loc: Loc, error: Failure) -> Fail {
        let message = format!(
            "Could not set attribute `{}` on instance `{}`",
            self.program
                .text(self.program.attribute(self.attr(id)).name),
            self.describe_instance(self.owner(id))
        );
        fail("AttributeException", loc, message).cause(error)
    }

    /// What is declared of the relation that a slot is.
    pub(in crate::runtime) fn relation(&self, id: VarId) -> Relation {
        let owner = self.owner(id);
        let instance = self.instance(owner);
        let attr = self.program.entity(instance.entity).slots[(id.0 - instance.slots.0) as usize];
        match self.program.attribute(attr).kind {
            AttributeKind::Relation {
                target,
                low,
                high,
                inverse,
            } => Relation {
                owner,
                target,
                low,
                high,
                inverse,
            },
            AttributeKind::Plain(_) => Relation {
                owner,
                target: STD_ENTITY,
                low: 0,
                high: None,
                inverse: None,
            },
        }
    }

    /// An error unless a value may be in a relation to this entity.
    fn check_member(&self, target: EntityId, value: Value, loc: Loc) -> Result<(), Fail> {
        match value {
            Value::Unknown(_) => Ok(()),
            Value::Instance(instance) => {
                if self
                    .program
                    .is_subtype(self.instance(instance).entity, target)
                {
                    return Ok(());
                }
                let message = format!(
                    "Invalid class type for {}, should be {}",
                    self.describe_instance(instance),
                    self.program.entity_name(target)
                );
                Err(runtime(loc, message))
            }
            value => {
                let message = format!(
                    "Invalid type for value '{}', should be type {}",
                    self.heap.to_text(value, self),
                    self.program.entity_name(target)
                );
                Err(runtime(loc, message))
            }
        }
    }

    /// The error of a value that comes after its relation was declared complete. It tells what the
    /// relation was complete with, since the cause lies with whoever waited for it.
    fn modified_after_freeze(&self, id: VarId, value: Value, loc: Loc) -> Fail {
        let var = self.var(id);
        let attribute = self.program.attribute(self.attr(id));
        let name = format!(
            "{}.{}",
            self.program.entity_name(attribute.entity),
            self.program.text(attribute.name)
        );
        let late = self.heap.to_text(value, self);
        let present = match var.value(&self.heap) {
            Value::List(list) if self.heap.list(list).len() > SHOWN_ELEMENTS => {
                let elements = self.heap.list(list);
                let shown = elements[..SHOWN_ELEMENTS].iter();
                let shown: Vec<_> = shown.map(|one| self.heap.repr(*one, self)).collect();
                let n_more = elements.len() - SHOWN_ELEMENTS;
                format!("[{}] and {n_more} more", shown.join(", "))
            }
            Value::List(_) => self.heap.repr(var.value(&self.heap), self),
            _ => "nothing".to_owned(),
        };
        fail("ModifiedAfterFreezeException", loc, "List modified after freeze")
            .note(
                format!(
                    "relation `{name}` of `{}` was taken as complete with {present} before `{late}` came",
                    self.describe_instance(self.owner(id))
                ),
                self.instance(self.owner(id)).loc,
            )
            .help(format!(
                "look for a condition that depends on the relation it adds to; a relation_precedence_policy rule `<other relation> before {name}` may help"
            ))
    }

    /// The error of more elements than the relation may have.
    pub(in crate::runtime) fn exceeded(&self, id: VarId, loc: Loc) -> Fail {
        let message = format!(
            "Exceeded relation arity on attribute '{}' of instance '{}'",
            self.program
                .text(self.program.attribute(self.attr(id)).name),
            self.describe_instance(self.owner(id))
        );
        let declared = self.program.attribute(self.attr(id)).loc;
        runtime(loc, message).note("its multiplicity is declared here", declared)
    }
}

impl Machine<'_> {
    /// Stores into a variable of a block or a temporary. An equal value again is nothing, another
    /// one is a double assignment.
    pub(in crate::runtime) fn set_plain(
        &mut self,
        id: VarId,
        value: Value,
        loc: Loc,
    ) -> Result<(), Fail> {
        let var = self.state.var(id);
        if !var.is_ready() {
            self.settle(id, value, loc);
            return Ok(());
        }
        let (old, set_at) = (var.value(&self.state.heap), var.set_at());
        if self.state.heap.equal(old, value) {
            return Ok(());
        }
        let places = (
            self.state.written_at(id, set_at),
            self.state.written_at(id, loc),
        );
        Err(self.state.double_set((old, value), places, loc))
    }

    /// Stores into a slot; errors say which attribute of which instance.
    pub(in crate::runtime) fn set_slot(
        &mut self,
        id: VarId,
        value: Value,
        loc: Loc,
    ) -> Result<(), Fail> {
        self.store(id, value, loc, true)
            .map_err(|error| self.state.attribute_error(id, loc, error))
    }

    /// Stores a value that an instance is made with. Unlike in [`Machine::set_slot`], the error is
    /// always told as one of this attribute, even if it is that of an inverse.
    pub(in crate::runtime) fn set_direct(
        &mut self,
        id: VarId,
        value: Value,
        loc: Loc,
    ) -> Result<(), Fail> {
        self.store(id, value, loc, true)
            .map_err(|error| self.state.wrapped(id, loc, *error))
    }

    /// Stores a value into a variable of any kind. `recur`: the inverse is set, too.
    pub(in crate::runtime) fn store(
        &mut self,
        id: VarId,
        value: Value,
        loc: Loc,
        recur: bool,
    ) -> Result<(), Fail> {
        match self.state.known(id).kind() {
            VarKind::Single => self.store_single(id, value, loc, recur),
            VarKind::Optional => self.store_optional(id, value, loc, recur),
            VarKind::List => self.store_list(id, value, loc, recur),
            VarKind::Plain
            | VarKind::Temporary
            | VarKind::ForLoop
            | VarKind::Literal
            | VarKind::Proxy => {
                let var = self.state.var(id);
                if !var.is_ready() && var.is_slot() && !matches!(value, Value::Unknown(_)) {
                    let AttributeKind::Plain(ty) = self.program.attribute(self.state.attr(id)).kind
                    else {
                        return self.set_plain(id, value, loc);
                    };
                    self.validate_attribute(ty, value, loc)?;
                }
                self.set_plain(id, value, loc)
            }
        }
    }

    /// Sets the other side of a relation on the instance that was stored.
    fn set_inverse(&mut self, relation: Relation, value: Value, loc: Loc) -> Result<(), Fail> {
        let (Some(inverse), Value::Instance(other)) = (relation.inverse, value) else {
            return Ok(());
        };
        let name = self.program.attribute(inverse).name;
        let Some(slot) = self.state.slot(other, name) else {
            return Ok(());
        };
        let owner = Value::Instance(relation.owner);
        self.store(slot, owner, loc, false).map_err(|error| {
            // Conflicts are blamed on the instance that has the other value, also those of further attributes that get
            // their elements from it.
            self.state
                .wrapped(slot, self.state.last_place(other), *error)
        })
    }

    /// A relation to exactly one takes one value; an equal one again is nothing.
    fn store_single(&mut self, id: VarId, value: Value, loc: Loc, recur: bool) -> Result<(), Fail> {
        let var = self.state.var(id);
        if var.is_ready() {
            if self.state.heap.equal(var.value(&self.state.heap), value) {
                return Ok(());
            }
            let old = var.value(&self.state.heap);
            return Err(self
                .state
                .double_set((old, value), (var.set_at(), loc), loc));
        }
        let relation = self.state.relation(id);
        self.state.check_member(relation.target, value, loc)?;
        let var = &mut self.state.vars[id.index()];
        let chain = var.waiters();
        var.set(value, loc, &mut self.state.heap);
        if recur {
            self.set_inverse(relation, value, loc)?;
        }
        self.scheduler.notify_all(&mut self.state, chain);
        Ok(())
    }

    /// An optional relation is complete as soon as anything is stored, null included. When it was
    /// declared complete without a value, a value comes too late.
    fn store_optional(
        &mut self,
        id: VarId,
        value: Value,
        loc: Loc,
        recur: bool,
    ) -> Result<(), Fail> {
        let var = self.state.var(id);
        if var.is_ready() {
            let unset = var.is_null();
            if unset && matches!(value, Value::Null)
                || !unset && self.state.heap.equal(var.value(&self.state.heap), value)
            {
                return Ok(());
            }
            if unset {
                return Err(self.state.modified_after_freeze(id, value, loc));
            }
            let old = var.value(&self.state.heap);
            return Err(self
                .state
                .double_set((old, value), (var.set_at(), loc), loc));
        }
        if !matches!(value, Value::Null) {
            let relation = self.state.relation(id);
            self.state.check_member(relation.target, value, loc)?;
            if recur {
                self.set_inverse(relation, value, loc)?;
                // The inverse may have come back, with this value or with another one: the first to set it has its way.
                if self.state.var(id).is_ready() {
                    self.state.vars[id.index()].set(value, loc, &mut self.state.heap);
                    return Ok(());
                }
            }
        }
        self.freeze_as(id, value, loc);
        Ok(())
    }

    /// Stores a value, a list of them, or null into a list relation.
    fn store_list(&mut self, id: VarId, value: Value, loc: Loc, recur: bool) -> Result<(), Fail> {
        match value {
            Value::Null => self.store_null(id, loc),
            Value::List(list) => {
                let length = self.state.heap.list(list).len();
                for at in 0..length {
                    let item = self.state.heap.list(list)[at];
                    self.store_list_item(id, item, loc, recur)?;
                }
                if length == 0 {
                    self.enqueue_if_complete(id);
                }
                Ok(())
            }
            item => self.store_list_item(id, item, loc, recur),
        }
    }

    /// Stores one item of a list into a list relation.
    fn store_list_item(
        &mut self,
        id: VarId,
        item: Value,
        loc: Loc,
        recur: bool,
    ) -> Result<(), Fail> {
        match item {
            Value::List(_) => self.store_list(id, item, loc, recur),
            // Null by itself declares the list complete; then the same null is a value that comes too late.
            Value::Null if !self.state.var(id).is_ready() => {
                self.store_null(id, loc)?;
                Err(self.state.modified_after_freeze(id, item, loc))
            }
            item => self.add_element(id, item, loc, recur),
        }
    }

    /// Null into a list relation declares that it is empty; an error if it is not.
    fn store_null(&mut self, id: VarId, loc: Loc) -> Result<(), Fail> {
        let var = self.state.var(id);
        let values = match var.value(&self.state.heap) {
            Value::List(list) => self.state.heap.list(list).to_vec(),
            _ if var.is_ready() => Vec::new(),
            _ => self.state.elements(id).to_vec(),
        };
        if values.is_empty() {
            if !self.state.var(id).is_ready() {
                if self.state.relation(id).low > 0 {
                    self.exec.wants_values(id);
                }
                self.freeze_as(id, self.state.empty_list, loc);
            }
            return Ok(());
        }
        let texts: Vec<String> = values
            .iter()
            .map(|value| self.state.heap.repr(*value, &self.state))
            .collect();
        let message = format!(
            "Trying to set relation attribute `{}` of instance `{}` to null but it has values `[{}]` assigned already",
            self.program
                .text(self.program.attribute(self.state.attr(id)).name),
            self.state.describe_instance(self.state.owner(id)),
            texts.join(", ")
        );
        Err(runtime(loc, message))
    }

    /// Adds one element to a list relation, in the order that the head of this file gives.
    fn add_element(&mut self, id: VarId, item: Value, loc: Loc, recur: bool) -> Result<(), Fail> {
        let relation = self.state.relation(id);
        let high = relation.high;
        if self.state.var(id).is_ready() {
            let Value::List(list) = self.state.var(id).value(&self.state.heap) else {
                return Err(self.state.modified_after_freeze(id, item, loc));
            };
            if self.state.is_among_frozen(id, list, item) {
                return Ok(());
            }
            let n_elements = self.state.heap.list(list).len();
            if high.is_some_and(|high| n_elements >= high as usize) {
                return Err(self.state.exceeded(id, loc));
            }
            return Err(self.state.modified_after_freeze(id, item, loc));
        }
        self.state.check_member(relation.target, item, loc)?;
        if !self.state.delayed_mut(id).add(item) {
            self.enqueue_list(id, relation.low);
            return Ok(());
        }
        self.deliver_to_listeners(id, item)?;
        if recur {
            self.set_inverse(relation, item, loc)?;
        }
        if self.state.var(id).is_ready() {
            return Ok(());
        }
        let n_elements = self.state.elements(id).len();
        match high {
            Some(high) if n_elements > high as usize => return Err(self.state.exceeded(id, loc)),
            Some(high) if n_elements == high as usize => return self.freeze(id),
            _ => {}
        }
        self.enqueue_list(id, relation.low);
        Ok(())
    }

    /// Puts a list into the wait queue that could be complete, since it has `low` elements and no
    /// open promise.
    fn enqueue_list(&mut self, id: VarId, low: u32) {
        if self.state.open(id) == 0 && self.state.elements(id).len() >= low as usize {
            self.enqueue(id);
        }
    }

    /// Gives a new element to those who listen. The list of listeners is copied before, since they
    /// may change it.
    pub(in crate::runtime) fn deliver_to_listeners(
        &mut self,
        id: VarId,
        item: Value,
    ) -> Result<(), Fail> {
        let listeners = match self
            .state
            .delayed(id)
            .and_then(|delayed| delayed.rare.as_deref())
        {
            Some(rare) if !rare.listeners.is_empty() => rare.listeners.clone(),
            _ => return Ok(()),
        };
        self.exec.enter_delivery()?;
        for listener in listeners {
            if let Listener::Defined { task, result } = self.scheduler.listener(listener) {
                if !matches!(item, Value::Unknown(_)) {
                    self.defined_early(id, listener, task, result)?;
                }
                continue;
            }
            self.deliver(listener, item)?;
        }
        self.exec.leave_delivery();
        Ok(())
    }
}
