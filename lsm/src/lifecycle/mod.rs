//! The state machine of an instance, as a function: what happened, and what follows from it.
//!
//! [`decide`] gets the record of an instance, the definition that it follows and something that happened. It gives back the
//! record to be stored, what is to be remembered, and what comes next; or why the thing is refused. The caller holds the lock
//! of the instance from reading the record to storing the decision, so two calls never decide about the same version.
//!
//! The rules that keep this simple:
//!
//! - A transfer is executed as a whole or not at all: attribute operations whose condition does not hold leave everything as
//!   it was, and an event says why.
//! - Results come late, twice or never. A validation names the version that it was for, a report the desired state version;
//!   what is not of today has no effect.
//! - Automatic transfers are found by looking where an instance is, not by remembering that it arrived, so a crash between
//!   two transfers is made good by looking again ([`Trigger::Auto`] for all instances at the start).
//!
//! Source: docs/reference/lsm.md § 3.5 to § 3.12, § 3.14, § 3.15.

mod case;
mod create;
mod decision;
mod execute;
mod expert;
mod inputs;
mod trigger;

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::{Lifecycle, ServiceEntity, Transfer};
use crate::{Instance, Moment, Problems};

pub use crate::attributes::{Change, Edit, EditOperation};
use case::Case;
pub use create::{create, migrate};
pub use decision::{Decision, Effect, Event, EventType, Next, Refusal, Severity, Validation};
use execute::Way;
pub use trigger::{Edge, Migration, NewInstance, Request, Settings, Trigger};

/// What follows from something that happened to an instance.
///
/// # Errors
///
/// Why it is not done, with an HTTP status (docs/reference/lsm.md § 3.15): another version than the caller has seen, a state
/// that does not accept it, attributes that are wrong, or a call that is for experts only.
pub fn decide(
    entity: &ServiceEntity,
    instance: &Instance,
    request: &Request,
    settings: &Settings,
    now: Moment,
) -> Result<Decision, Refusal> {
    let case = Case::new(entity, instance, request, settings, now);
    case.check_version(request.current_version)?;
    match &request.trigger {
        Trigger::Auto { known_result } => Ok(inputs::auto(&case, *known_result)),
        Trigger::Updated { change, comment } => inputs::updated(&case, change, comment.as_deref()),
        Trigger::Deleted => inputs::deleted(&case),
        Trigger::SetState { target, message } => {
            inputs::set_state(&case, target, message.as_deref())
        }
        Trigger::Validated {
            edge,
            version,
            succeeded,
            compile,
            ..
        } => Ok(inputs::validated(
            &case, edge, *version, *succeeded, *compile,
        )),
        Trigger::Reported {
            next_version,
            succeeded,
        } => Ok(inputs::reported(&case, *next_version, *succeeded)),
        Trigger::Stuck {
            next_version,
            resources,
        } => Ok(inputs::stuck(&case, *next_version, resources)),
        Trigger::Wrote { set, edits } => expert::wrote(&case, *set, edits),
        Trigger::Configured { values } => inputs::configured(&case, values),
        Trigger::Annotated { key, value } => Ok(inputs::annotated(&case, key, value)),
        Trigger::ForceState {
            target,
            operation,
            message,
        } => expert::force_state(&case, target, *operation, message),
        Trigger::ForceAttributes {
            set,
            edits,
            comment,
        } => expert::force_attributes(&case, *set, edits, comment.as_deref()),
        Trigger::ForceDeleted { message } => expert::force_deleted(&case, message),
    }
}

/// The value of every switch of the lifecycle for an instance: its own, else that of the definition, else on.
/// Source: docs/reference/lsm.md § 3.5, § 5.6.
#[must_use]
pub fn effective_config(entity: &ServiceEntity, instance: &Instance) -> BTreeMap<String, bool> {
    let names = switches(&entity.lifecycle);
    names
        .map(|name| (name.to_owned(), is_on(entity, instance, name)))
        .collect()
}

/// The names of all switches of a lifecycle.
pub fn switches(lifecycle: &Lifecycle) -> impl Iterator<Item = &str> {
    let transfers = lifecycle.transfers.iter();
    transfers.filter_map(|transfer| transfer.config_name.as_deref())
}

/// Whether the lifecycle has all these switches.
///
/// # Errors
///
/// Every one that it does not have, and those that it has.
pub fn check_switches(
    lifecycle: &Lifecycle,
    values: &BTreeMap<String, bool>,
) -> Result<(), Refusal> {
    // Several transfers may have the same switch.
    let known: BTreeSet<&str> = switches(lifecycle).collect();
    let there: Vec<&str> = known.iter().copied().collect();
    let there = match there.as_slice() {
        [] => "none".to_owned(),
        there => there.join(", "),
    };
    let mut problems = Problems::default();
    for name in values.keys().filter(|name| !known.contains(name.as_str())) {
        let reason = format!("is no switch of the lifecycle {}", lifecycle.name);
        problems.add(name, reason);
    }
    problems.or(()).map_err(|problems| {
        let what = format!(
            "these switches can not be set ({} has {there})",
            lifecycle.name
        );
        Refusal::of_fields(&what, problems)
    })
}

fn is_on(entity: &ServiceEntity, instance: &Instance, name: &str) -> bool {
    let own = instance.config.get(name);
    own.or(entity.config.get(name)).copied().unwrap_or(true)
}

/// Whether the switch of a transfer, if it has one, lets an instance follow it by itself.
pub(crate) fn is_enabled(entity: &ServiceEntity, instance: &Instance, transfer: &Transfer) -> bool {
    let switch = transfer.config_name.as_deref();
    switch.is_none_or(|name| is_on(entity, instance, name))
}

/// The states in which an instance may wait for an automatic transfer: at the start of a server only these are looked at.
#[must_use]
pub fn auto_states(lifecycle: &Lifecycle) -> Vec<&str> {
    let autos = lifecycle.transfers.iter().filter(|transfer| transfer.auto);
    let mut found: Vec<&str> = autos.map(|transfer| transfer.source.as_str()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The states that an instance leaves whose deployment is known to have succeeded, or to have failed. Nothing reports it once
/// more if a server ends between the transfer into such a state, which keeps what is known, and the one out of it.
#[must_use]
pub fn result_states(lifecycle: &Lifecycle, succeeded: bool) -> Vec<&str> {
    let mut decided: BTreeSet<&String> = BTreeSet::new();
    let mut found = Vec::new();
    // The first transfer of a state decides.
    let of_results = lifecycle.transfers.iter().filter(|one| one.resource_based);
    for transfer in of_results.filter(|one| decided.insert(&one.source)) {
        let way = Way::after(transfer, succeeded);
        if way.end().is_some() && !way.is_idle() {
            found.push(transfer.source.as_str());
        }
    }
    found
}
