//! New instances, and instances that go over to another version of their definition. Source: docs/reference/lsm.md § 3.5.1,
//! § 1.8.

use std::collections::BTreeMap;

use crate::definition::{Operation, ServiceEntity, SetName, State};
use crate::lifecycle::case::Case;
use crate::lifecycle::execute::moved;
use crate::lifecycle::{
    Decision, Effect, Event, EventType, Migration, NewInstance, Next, Refusal, Request, Settings,
    Severity, check_switches, switches,
};
use crate::{Instance, Moment, Problems, attributes};

/// The first version of an instance.
///
/// # Errors
///
/// A state in which instances can not begin; switches that the lifecycle does not have.
pub fn create(entity: &ServiceEntity, new: NewInstance, now: Moment) -> Result<Decision, Refusal> {
    let state = initial_state(entity, new.initial_state.as_deref())?;
    check_switches(&entity.lifecycle, &new.config)?;
    let event = |message: &str| Event {
        service_instance_id: new.id,
        service_instance_version: 0,
        service_desired_state_version: 0,
        timestamp: now,
        message: message.to_owned(),
        source: None,
        destination: Some(state.to_owned()),
        event_type: EventType::CreateTransition,
        event_correlation_id: new.correlation_id,
        severity: Severity::Info,
        id_compile_report: None,
        is_error_transition: false,
        ignored_transition: false,
    };
    let events = vec![
        event("the instance is to be created"),
        event(&format!("the instance is created in the state {state}")),
    ];
    let instance = Instance {
        id: new.id,
        environment: new.environment,
        service_entity: entity.name.clone(),
        service_entity_version: entity.version,
        version: 1,
        desired_state_version: 1,
        state: state.to_owned(),
        service_identity_attribute_value: attributes::identity(entity, &new.attributes),
        candidate_attributes: Some(new.attributes),
        active_attributes: None,
        rollback_attributes: None,
        config: new.config,
        deleted: false,
        created_at: now,
        last_updated: now,
        known_result: None,
        callback: Vec::new(),
        metadata: BTreeMap::new(),
    };
    Ok(Decision {
        effect: Effect::NewVersion,
        instance: Some(instance),
        events,
        next: vec![Next::FireAuto {
            known_result: false,
        }],
    })
}

fn initial_state<'e>(entity: &'e ServiceEntity, wanted: Option<&str>) -> Result<&'e str, Refusal> {
    let lifecycle = &entity.lifecycle;
    let mut all =
        std::iter::once(&lifecycle.initial_state).chain(&lifecycle.alternative_initial_states);
    let Some(wanted) = wanted else {
        return Ok(&lifecycle.initial_state);
    };
    let Some(state) = all.clone().find(|state| *state == wanted) else {
        let known: Vec<&str> = all.by_ref().map(String::as_str).collect();
        let message = format!(
            "instances of {} can not begin in the state {wanted}; they can in: {}",
            entity.name,
            known.join(", ")
        );
        return Err(Refusal::new(400, message));
    };
    // A new instance has a candidate only, and the desired state is made of active sets.
    let exports = lifecycle
        .state(state)
        .is_some_and(|state| state.export_resources);
    let promotes = lifecycle
        .leaving(state)
        .any(|one| one.auto && one.target_operation == Some(Operation::Promote));
    if exports && !promotes {
        let message = format!(
            "instances can not begin in {state}: it exports the active attributes, which a new instance does not have, and no \
             automatic transfer promotes them there"
        );
        return Err(Refusal::new(400, message));
    }
    Ok(state)
}

/// An instance under another version of its definition, `target`. Only current version and correlation id of the request count.
///
/// # Errors
///
/// Another version of the instance than the caller has seen, or one that has ended; no set at all, a set that the target does not allow, a state that
/// it does not have.
pub fn migrate(
    target: &ServiceEntity,
    instance: &Instance,
    migration: Migration,
    request: &Request,
    settings: &Settings,
    now: Moment,
) -> Result<Decision, Refusal> {
    let case = Case::new(target, instance, request, settings, now).of_kind(EventType::ForceUpdate);
    case.check_version(request.current_version)?;
    case.check_present()?;
    let mut problems = Problems::default();
    let state = target.lifecycle.state(&migration.state);
    if state.is_none() {
        let reason = format!(
            "{} is no state of the lifecycle {}",
            migration.state, target.lifecycle.name
        );
        problems.add("state", reason);
    }
    let given = [migration.candidate, migration.active, migration.rollback];
    if given.iter().all(Option::is_none) {
        problems.add("", "at least one of the three sets of attributes is needed");
    }
    let mut sets = Vec::new();
    for (name, set) in SetName::ALL.into_iter().zip(given) {
        let Some(set) = set else {
            sets.push(None);
            continue;
        };
        match attributes::complete(target, set) {
            Ok(set) => sets.push(Some(set)),
            Err(wrong) => wrong.0.into_iter().for_each(|problem| {
                problems.add(
                    format!("{}_attributes.{}", name.as_str(), problem.path),
                    problem.reason,
                );
            }),
        }
    }
    problems
        .or(())
        .map_err(|problems| Refusal::of_fields("the instance can not be migrated", problems))?;
    let mut after = instance.clone();
    for (name, set) in SetName::ALL.into_iter().zip(sets) {
        *after.set_mut(name) = set;
    }
    let named = SetName::ALL.iter().filter_map(|name| after.set(*name));
    let named = named
        .filter_map(|set| attributes::identity(target, set))
        .next();
    after.service_identity_attribute_value = named;
    after.service_entity_version = target.version;
    after
        .config
        .retain(|name, _| switches(&target.lifecycle).any(|known| known == name));
    after.desired_state_version += 1;
    after.known_result = None;
    Ok(migrated(&case, after, state))
}

fn migrated(case: &Case<'_>, after: Instance, state: Option<&State>) -> Decision {
    let state = state.map_or(case.before.state.as_str(), |state| state.name.as_str());
    let message = format!(
        "from version {} of the definition to version {}, into the state {state}",
        case.before.service_entity_version, after.service_entity_version
    );
    let mut event = case.event(Severity::Info, message);
    event.source = Some(case.before.state.clone());
    event.destination = Some(state.to_owned());
    moved(case, after, state, event, true)
}
