//! What each new instance of an entity begins with.

use crate::hir::{AttributeKind, ImplementationId, Program};
use crate::runtime::{Var, VarKind};

pub(in crate::runtime) struct Layout {
    /// Empty.
    pub slots: Box<[Var]>,
    /// Slots that are complete as they are, if nothing comes: they are in the wait queue from the start.
    pub complete: Box<[u32]>,
    /// Distinct implementations, whose order gives the bits of [`Instance::ran`](crate::runtime::Instance).
    pub implementations: Box<[ImplementationId]>,
}

/// For all entities of a program.
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
