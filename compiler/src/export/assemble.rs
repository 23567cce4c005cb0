//! Resources that Python changes as objects: by dependency managers, and by classes that serialize in their own ways.
//! Source: docs/reference/language.md § 12.5, § 12.8.

use super::catalog::{Catalog, Requires};
use super::fit::check_shaped;
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map;
use crate::protocol::Unprocessed;
use crate::runtime::Machine;
use crate::types::Value;

/// Asks Python. Dependency managers and export functions see all resources; without them only those whose classes want it are asked for.
pub(super) fn assemble(
    machine: &mut Machine,
    catalog: &mut Catalog,
    wants_all: bool,
    requires: &mut [Requires],
) -> Result<(), Fail> {
    let mut asked = Vec::new();
    let mut given = Vec::new();
    for (at, required) in requires.iter().enumerate() {
        let registration = &catalog.plan(machine, at).registration;
        if !wants_all && !registration.assembles {
            continue;
        }
        asked.push(at);
        given.push(Unprocessed {
            class: registration.class,
            id: catalog.id(at).to_owned(),
            attributes: catalog.to_wire(machine, at)?,
            requires: required
                .iter()
                .map(|required| catalog.id(*required as usize).to_owned())
                .collect(),
            instance: machine.to_wire(Value::Instance(catalog.owner(at))),
        });
    }
    if asked.is_empty() && !wants_all {
        return Ok(());
    }
    let changed = machine.assemble(given)?;
    if changed.is_empty() {
        return Ok(());
    }
    let by_id: Map<&str, u32> = (0..catalog.len())
        .map(|at| (catalog.id(at), at as u32))
        .collect();
    let mut shaped = Vec::new();
    for resource in changed {
        let Some(at) = asked.get(resource.resource).copied() else {
            continue;
        };
        let mut required = Requires::with_capacity(resource.requires.len());
        for id in &resource.requires {
            match by_id.get(id.as_str()) {
                Some(index) => required.push(*index),
                None => {
                    let message = format!(
                        "Python code made {} require {id}, which does not exist",
                        catalog.id(at)
                    );
                    let loc = machine.state.instance(catalog.owner(at)).loc;
                    return Err(runtime(loc, message));
                }
            }
        }
        requires[at] = required;
        if let Some(fields) = &resource.fields {
            let entity = catalog.plan(machine, at).registration.entity;
            check_shaped(machine, (entity, catalog.owner(at)), fields)?;
        }
        shaped.extend(resource.fields.map(|fields| (at, fields)));
    }
    for (at, fields) in shaped {
        catalog.shape(at, fields);
    }
    Ok(())
}
