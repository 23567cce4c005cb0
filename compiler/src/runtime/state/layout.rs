//! What each new instance of an entity begins with, computed once for each entity.
//!
//! Making an instance is then a copy of its empty variables, and a walk over the few that go to the
//! wait queue. The order of slots, which decides the order in the wait queue, is that of `hir`
//! (docs/reference/language.md § 8.3).

use crate::hir::{AttributeKind, ImplementationId, Program};
use crate::runtime::{Var, VarKind};

/// What a new instance of one entity begins with.
pub(in crate::runtime) struct Layout {
    /// Its variables, without values.
    pub slots: Box<[Var]>,
    /// Slots that are complete as they are if nothing comes (optional ones and lists from 0): they
    /// go to the wait queue when the instance is made, and are marked so in `slots`.
    pub complete: Box<[u32]>,
    /// The implementations that may run on it, each once. The position of one is its bit in
    /// [`Instance::ran`](crate::runtime::Instance).
    pub implementations: Box<[ImplementationId]>,
}

/// The layouts of all entities of a program.
pub(in crate::runtime) fn layouts(program: &Program) -> Vec<Layout> {
    let entities = program.entities.iter();
    let layouts = entities.map(|entity| {
        let kinds = entity.slots.iter().map(|attr| {
            let attribute = program.attribute(*attr);
            let is_complete = matches!(attribute.kind, AttributeKind::Relation { low: 0, .. });
            (kind(&attribute.kind), is_complete)
        });
        let is_queued = |(kind, is_complete): (VarKind, bool)| kind.is_delayed() && is_complete;
        let slots = kinds.clone().map(|slot| {
            let mut var = Var::new(slot.0, true);
            var.set_queued(is_queued(slot));
            var
        });
        let complete = (0..).zip(kinds.clone());
        let complete = complete.filter(|(_, slot)| is_queued(*slot));
        let mut implementations = Vec::new();
        for entry in &entity.entries {
            for id in &program.implements[entry.index()].using {
                if !implementations.contains(id) {
                    implementations.push(*id);
                }
            }
        }
        Layout {
            slots: slots.collect(),
            complete: complete.map(|(at, _)| at).collect(),
            implementations: implementations.into(),
        }
    });
    layouts.collect()
}

/// The kind of variable that an attribute has.
fn kind(kind: &AttributeKind) -> VarKind {
    match kind {
        AttributeKind::Plain(_) => VarKind::Plain,
        AttributeKind::Relation {
            low: 0,
            high: Some(1),
            ..
        } => VarKind::Optional,
        AttributeKind::Relation { high: Some(1), .. } => VarKind::Single,
        AttributeKind::Relation { .. } => VarKind::List,
    }
}
