//! Which resource belongs to which set. Source: docs/reference/language.md § 12.6.

use std::collections::{BTreeSet, HashMap};

use super::catalog::{Catalog, ExportStatus};
use crate::diagnostics::{Fail, Warning, fail};
use crate::hir::Program;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::{EntityId, InstId, Value};

#[derive(Default)]
pub(super) struct Sets {
    names: Vec<String>,
    /// By resource, from 1; empty: no resource is in a set.
    of: Vec<u32>,
    /// Sets without any exported member.
    pub removed: Vec<String>,
}

fn find_entity(program: &Program, name: &str) -> Option<EntityId> {
    let symbol = program.names.find(name)?;
    let at = program
        .entities
        .iter()
        .position(|entity| entity.name == symbol)?;
    Some(EntityId(at as u32))
}

/// The instances of an entity and of its descendants; none if the program does not have it.
pub(super) fn instances_of_kind(machine: &Machine, name: &str) -> Vec<InstId> {
    let program = machine.program;
    let Some(base) = find_entity(program, name) else {
        return Vec::new();
    };
    (0..program.entities.len() as u32)
        .map(EntityId)
        .filter(|entity| program.is_subtype(*entity, base))
        .flat_map(|entity| machine.state.instances_of(entity).iter().copied())
        .collect()
}

impl Sets {
    pub fn name(&self, at: usize) -> Option<&str> {
        let set = self.of.get(at).copied().unwrap_or(0) as usize;
        (set > 0).then(|| self.names[set - 1].as_str())
    }

    /// Gives members their set.
    pub fn assign(machine: &mut Machine, catalog: &Catalog) -> Result<Sets, Fail> {
        let mut sets = Sets::default();
        let mut instances = instances_of_kind(machine, "std::ResourceSet");
        if instances.is_empty() {
            return Ok(sets);
        }
        machine.state.sort_by_creation(&mut instances);
        sets.of = vec![0; catalog.len()];
        let mut filled = vec![];
        // Two instances of one name are one set. Each service instance has a set, so there may be as many as resources.
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for set in instances {
            let name = match machine.state.read_attribute(set, "name") {
                Ok(Value::Str(id)) => machine.state.heap.str(id).to_owned(),
                _ => continue,
            };
            let number = match numbers.get(&name) {
                Some(at) => *at,
                None => {
                    numbers.insert(name.clone(), sets.names.len());
                    sets.names.push(name);
                    filled.push(false);
                    sets.names.len() - 1
                }
            };
            filled[number] |= sets.add_members(machine, catalog, set, number)?;
        }
        let empty: BTreeSet<&String> = sets
            .names
            .iter()
            .zip(&filled)
            .filter(|(_, filled)| !**filled)
            .map(|(name, _)| name)
            .collect();
        sets.removed = empty.into_iter().cloned().collect();
        Ok(sets)
    }

    fn add_members(
        &mut self,
        machine: &mut Machine,
        catalog: &Catalog,
        set: InstId,
        number: usize,
    ) -> Result<bool, Fail> {
        let name = &self.names[number];
        let mut any = false;
        let members = match machine.state.read_attribute(set, "resources") {
            Ok(Value::List(list)) => machine.state.heap.list(list).to_vec(),
            _ => Vec::new(),
        };
        for member in members {
            let Value::Instance(member) = member else {
                continue;
            };
            let ExportStatus::Exported(index) = catalog.fate(member) else {
                let message = format!(
                    "resource {} is part of ResourceSet {name} but will not be exported",
                    machine.state.describe_instance(member)
                );
                let loc = machine.state.instance(member).loc;
                machine.report.warnings.push(Warning {
                    kind: "InmantaWarning",
                    message,
                    loc,
                    notes: Vec::new(),
                });
                continue;
            };
            any = true;
            let of = &mut self.of[index as usize];
            let this = number as u32 + 1;
            if *of != 0 && *of != this {
                let message = format!(
                    "resource '{}' can not be part of multiple ResourceSets: {} and {name}",
                    catalog.id(index as usize),
                    self.names[*of as usize - 1]
                );
                let error = fail("CompilerException", Loc::NONE, message);
                return Err(error.note("the other set is here", machine.state.instance(set).loc));
            }
            *of = this;
        }
        Ok(any)
    }
}
