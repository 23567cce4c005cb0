//! The instances of the model, and whose slots are which variables.

use crate::hir::AttrId;
use crate::intern::Symbol;
use crate::runtime::{ModelState, Var, VarId, VarKind};
use crate::span::Loc;
use crate::types::{EntityId, InstId, Value};

/// Slots that are remembered; a power of two.
pub(super) const FOUND_SLOTS: usize = 1024;
/// Variables for which there is one entry among the owners.
const OWNER_BLOCK: usize = 16;

/// One instance of the model. Its attributes are consecutive variables.
pub struct Instance {
    /// Its entity.
    pub entity: EntityId,
    /// First of its consecutive slots.
    pub slots: VarId,
    /// Where it was constructed first.
    pub loc: Loc,
    /// Which implementations of its entity ran.
    pub(in crate::runtime) ran: u64,
    /// The block in which it was constructed belongs to this instance, or is a loop's over it.
    pub(in crate::runtime) parent: InstId,
    /// Length of the chain of parents.
    pub(in crate::runtime) depth: u32,
}

impl ModelState<'_> {
    /// The instances of an entity itself, without those of its descendants.
    pub fn instances_of(&self, entity: EntityId) -> &[InstId] {
        &self.by_entity[entity.index()]
    }

    /// Makes an instance, with variables for its slots, the first of which is the second result.
    pub(in crate::runtime) fn add_instance(
        &mut self,
        entity: EntityId,
        loc: Loc,
        (parent, depth): (InstId, u32),
        slots: &[Var],
    ) -> (InstId, VarId) {
        let id = InstId(self.instances.len() as u32);
        let mut this = Var::new(VarKind::Plain, false);
        this.set(Value::Instance(id), loc, &mut self.heap);
        self.vars.push(this);
        let first = VarId(self.vars.len() as u32);
        while self.owners.len() * OWNER_BLOCK <= first.index() {
            self.owners.push(InstId(id.0.saturating_sub(1)));
        }
        self.instances.push(Instance {
            entity,
            slots: first,
            loc,
            ran: 0,
            parent,
            depth,
        });
        self.by_entity[entity.index()].push(id);
        self.vars.extend(slots);
        (id, first)
    }

    /// A constructor found this instance where it would have made one.
    pub(in crate::runtime) fn constructed_again(&mut self, id: InstId, loc: Loc) {
        self.again.entry(id).or_default().push(loc);
    }

    /// The instance of this number.
    #[inline]
    pub fn instance(&self, id: InstId) -> &Instance {
        &self.instances[id.index()]
    }

    /// The variable of an attribute.
    #[inline]
    pub fn slot(&self, instance: InstId, name: Symbol) -> Option<VarId> {
        let instance = self.instance(instance);
        let entity = instance.entity;
        let place = (entity.0 as usize)
            .wrapping_mul(31)
            .wrapping_add(name.0 as usize)
            % FOUND_SLOTS;
        let place = &self.found_slots[place];
        let (of, known, slot) = place.get();
        if (of, known) == (entity, name) {
            return Some(VarId(instance.slots.0 + slot));
        }
        let slot = *self.program.entity(entity).slot_of.get(&name)?;
        place.set((entity, name, slot));
        Some(VarId(instance.slots.0 + slot))
    }

    /// The instance of a slot.
    pub fn owner(&self, slot: VarId) -> InstId {
        let block = slot.index() / OWNER_BLOCK;
        // Past the last entry there is only the newest instance.
        let newest = self.instances.len().saturating_sub(1);
        let mut at = self.owners.get(block).map_or(newest, |id| id.index());
        while let Some(next) = self.instances.get(at + 1)
            && next.slots.0 <= slot.0
        {
            at += 1;
        }
        InstId(at as u32)
    }

    /// The attribute of a slot.
    pub(in crate::runtime) fn attr(&self, slot: VarId) -> AttrId {
        let instance = self.instance(self.owner(slot));
        self.program.entity(instance.entity).slots[(slot.0 - instance.slots.0) as usize]
    }

    /// How the newest instance came to be, for the message about runaway models.
    pub(in crate::runtime) fn construct_chain(&self) -> String {
        let mut names = Vec::new();
        let mut at = self.instances.last();
        while let Some(instance) = at {
            names.push(self.program.entity_name(instance.entity));
            if names.len() == 10 || !instance.parent.is_some() {
                break;
            }
            at = self.instances.get(instance.parent.index());
        }
        names.reverse();
        format!("… → {}", names.join(" → "))
    }

    /// Where an instance was constructed, the last time.
    pub(in crate::runtime) fn last_place(&self, id: InstId) -> Loc {
        let again = self.again.get(&id).and_then(|places| places.last());
        again.copied().unwrap_or(self.instance(id).loc)
    }

    /// `m::E (instantiated at FILE:LINE)`, with the first places of an instance that many constructors gave: each of them may
    /// have a mistake of its own, whose message names the instance.
    pub fn describe_instance(&self, id: InstId) -> String {
        const MOST_PLACES: usize = 100;
        let sources = &self.program.sources;
        let locs = self.constructors_of(id).take(MOST_PLACES);
        let mut places = Vec::from_iter(locs.map(|loc| sources.brief(loc)));
        let n_constructors = 1 + self.again.get(&id).map_or(0, |again| again.len());
        if n_constructors > places.len() {
            places.push(format!("and {} more", n_constructors - places.len()));
        }
        format!(
            "{} (instantiated at {})",
            self.program.entity_name(self.instance(id).entity),
            places.join(",")
        )
    }

    /// The constructors that gave an instance: several, if it has an index.
    pub(in crate::runtime) fn constructors_of(&self, id: InstId) -> impl Iterator<Item = Loc> {
        let again = self.again.get(&id).into_iter().flatten().copied();
        std::iter::once(self.instance(id).loc).chain(again)
    }
}
