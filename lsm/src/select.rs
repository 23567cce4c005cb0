//! Which instances take part in a compile, and with which attributes. Source: docs/reference/lsm.md § 3.3.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::definition::{ServiceEntity, SetName};
use crate::{Attributes, Instance};

/// What a compile is for, as far as instances are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The desired state.
    Production,
    /// To see whether this instance may go on.
    Validation(Uuid),
    /// The definitions of services: no instance takes part.
    Definitions,
}

/// Whether an instance takes part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Selected<'i> {
    /// With these attributes.
    With(SetName, &'i Attributes),
    /// Not at all.
    Excluded,
    /// Not at all, although its state says so: it does not have that set. A flaw of the lifecycle, worth a warning.
    Lacks(SetName),
}

/// Whether an instance takes part in a compile. `group`: the ids that a partial compile is for, with all that is owned together
/// ([`crate::ownership::group`]).
///
/// # Errors
///
/// The instance that is to be validated does not have the set that is to be validated: the compile fails with this text.
pub fn select<'i>(
    entity: &ServiceEntity,
    instance: &'i Instance,
    purpose: Purpose,
    group: Option<&BTreeSet<Uuid>>,
) -> Result<Selected<'i>, String> {
    let Some(state) = entity.lifecycle.state(&instance.state) else {
        return Err(format!(
            "the {} {} is in the state {}, which its lifecycle {} does not have",
            entity.name, instance.id, instance.state, entity.lifecycle.name
        ));
    };
    let is_outside = group.is_some_and(|group| !group.contains(&instance.id));
    if state.deleted || purpose == Purpose::Definitions || is_outside {
        return Ok(Selected::Excluded);
    }
    let is_validated = purpose == Purpose::Validation(instance.id);
    let set = match purpose {
        Purpose::Validation(_) if is_validated => state.validate_self,
        Purpose::Validation(_) => state.validate_others,
        _ => state.export_resources.then_some(SetName::Active),
    };
    let Some(set) = set else {
        return Ok(Selected::Excluded);
    };
    match instance.set(set) {
        Some(attributes) => Ok(Selected::With(set, attributes)),
        None if is_validated => Err(format!(
            "the {} {} has no {} attributes, with which it is to be validated in the state {}",
            entity.name,
            instance.id,
            set.as_str(),
            instance.state
        )),
        None => Ok(Selected::Lacks(set)),
    }
}
