//! What clients, compiles and deployments make of an instance. Source: docs/reference/lsm.md § 3.5 to § 3.7, § 5.6.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::attributes;
use crate::definition::Transfer;
use crate::lifecycle::case::Case;
use crate::lifecycle::execute::{Extra, Way, follow};
use crate::lifecycle::{
    Change, Decision, Edge, Effect, EventType, Next, Refusal, Severity, Validation, check_switches,
    is_enabled,
};

fn leaving<'c>(case: &Case<'c>) -> impl Iterator<Item = &'c Transfer> {
    case.entity.lifecycle.leaving(&case.before.state)
}

/// What comes by itself in the state where the instance is.
pub(super) fn auto(case: &Case<'_>, known_result: bool) -> Decision {
    let is_enabled =
        |transfer: &&Transfer| transfer.auto && is_enabled(case.entity, case.before, transfer);
    let found = leaving(case).find(is_enabled);
    if let Some(transfer) = found.filter(|transfer| !transfer.validate) {
        return follow(case, Way::target(transfer), Extra::default());
    }
    // After a hop that kept the desired state nothing is deployed again, so nothing will report: what is known counts.
    let known = case.before.known_result.filter(|_| known_result);
    let arrived = known.and_then(|succeeded| resource_based(case, succeeded));
    let failures = match arrived {
        Some(decision) if decision.effect == Effect::NewVersion => return decision,
        Some(decision) => decision.events,
        None => Vec::new(),
    };
    let mut decision = match found {
        Some(transfer) => validate(case, transfer, None),
        None => Decision::unchanged(Vec::new()),
    };
    decision.events.splice(0..0, failures);
    decision
}

/// Asks for a compile that decides.
fn validate(case: &Case<'_>, transfer: &Transfer, comment: Option<&str>) -> Decision {
    let Transfer {
        source,
        target,
        error,
        ..
    } = transfer;
    let otherwise = error.as_deref().unwrap_or(source);
    let mut message =
        format!("from {source} to {target} if the model is valid, else to {otherwise}");
    if let Some(comment) = comment.filter(|comment| !comment.is_empty()) {
        message = format!("{message} ({comment})");
    }
    let mut asked = case.event(Severity::Info, message);
    asked.source = Some(source.clone());
    asked.destination = Some(target.clone());
    let mut queued = case.event(Severity::Debug, "the validation is queued");
    queued.source = Some(source.clone());
    queued.destination = Some(target.clone());
    let validation = Validation {
        correlation_id: case.correlation_id,
        edge: Edge {
            source: source.clone(),
            target: target.clone(),
            error: error.clone(),
        },
        cause: case.kind,
        version: case.before.version,
        event: Box::new(queued),
    };
    Decision {
        next: vec![Next::Validate(validation)],
        ..Decision::unchanged(vec![asked])
    }
}

/// A client changes attributes. Source: docs/reference/lsm.md § 3.5.2.
pub(super) fn updated(
    case: &Case<'_>,
    change: &Change,
    comment: Option<&str>,
) -> Result<Decision, Refusal> {
    case.check_present()?;
    let Some(transfer) = leaving(case).find(|transfer| transfer.on_update) else {
        return Err(not_accepted(case, "updates", |transfer| transfer.on_update));
    };
    let nothing = crate::Attributes::new();
    let base = case.before.base().unwrap_or(&nothing);
    let attributes = attributes::update(case.entity, base, change);
    let attributes = attributes
        .map_err(|problems| Refusal::of_fields("these attributes can not be set", problems))?;
    let extra = Extra {
        candidate: Some(attributes),
        comment: comment.map(str::to_owned),
        ..Extra::default()
    };
    Ok(follow(case, Way::target(transfer), extra))
}

/// A client deletes the instance. Source: docs/reference/lsm.md § 3.5.3.
pub(super) fn deleted(case: &Case<'_>) -> Result<Decision, Refusal> {
    match leaving(case).find(|transfer| transfer.on_delete) {
        Some(transfer) => Ok(follow(case, Way::target(transfer), Extra::default())),
        None => Err(not_accepted(case, "deletion", |transfer| {
            transfer.on_delete
        })),
    }
}

fn not_accepted(case: &Case<'_>, what: &str, accepts: impl Fn(&Transfer) -> bool) -> Refusal {
    let transfers = case.entity.lifecycle.transfers.iter();
    let mut states: Vec<&str> = transfers
        .filter(|one| accepts(one))
        .map(|one| one.source.as_str())
        .collect();
    states.sort_unstable();
    let others = match states.as_slice() {
        [] => "no state of its lifecycle does".to_owned(),
        states => format!("these do: {}", states.join(", ")),
    };
    let message = format!(
        "{} is in the state {}, which does not accept {what}; {others}",
        case.shown(),
        case.before.state
    );
    Refusal::new(409, message)
}

/// A client asks for another state.
pub(super) fn set_state(
    case: &Case<'_>,
    target: &str,
    comment: Option<&str>,
) -> Result<Decision, Refusal> {
    let wanted = |transfer: &&Transfer| transfer.api_set_state && transfer.target == target;
    // Of two ways the one that needs no compile.
    let found = leaving(case)
        .filter(wanted)
        .min_by_key(|transfer| transfer.validate);
    let Some(transfer) = found else {
        let state = &case.before.state;
        let others: Vec<&str> = leaving(case)
            .filter(|transfer| transfer.api_set_state)
            .map(|transfer| transfer.target.as_str())
            .collect();
        let others = if others.is_empty() {
            "none".to_owned()
        } else {
            others.join(", ")
        };
        let message = format!(
            "the instance {} can not be set from {state} to {target}; from {state} it can be set to: {others}",
            case.before.id
        );
        return Err(Refusal::new(400, message));
    };
    if transfer.validate {
        return Ok(validate(case, transfer, comment));
    }
    let extra = Extra {
        comment: comment.map(str::to_owned),
        ..Extra::default()
    };
    Ok(follow(case, Way::target(transfer), extra))
}

/// A validation has ended. Source: docs/reference/lsm.md § 3.7.
pub(super) fn validated(
    case: &Case<'_>,
    edge: &Edge,
    version: u64,
    succeeded: bool,
    compile: Uuid,
) -> Decision {
    let before = case.before;
    let mut ignored = case.event(Severity::Info, "");
    ignored.source = Some(edge.source.clone());
    ignored.destination = Some(edge.target.clone());
    ignored.id_compile_report = Some(compile);
    ignored.ignored_transition = true;
    if (before.state.as_str(), before.version) != (edge.source.as_str(), version) {
        ignored.message = format!(
            "the validation was for version {version} in the state {}, which the instance has left",
            edge.source
        );
        return Decision::unchanged(vec![ignored]);
    }
    let is_asked = |transfer: &Transfer| match case.kind {
        EventType::AutoTransition => transfer.auto,
        _ => transfer.api_set_state,
    };
    let found = leaving(case).find(|transfer| {
        let ends = (&transfer.target, &transfer.error) == (&edge.target, &edge.error);
        ends && transfer.validate && is_asked(transfer)
    });
    let Some(transfer) = found else {
        ignored.message =
            "the lifecycle has changed: it does not have this transfer any more".to_owned();
        let next = vec![Next::FireAuto {
            known_result: false,
        }];
        return Decision {
            next,
            ..Decision::unchanged(vec![ignored])
        };
    };
    let extra = Extra {
        compile: Some(compile),
        ..Extra::default()
    };
    follow(case, Way::after(transfer, succeeded), extra)
}

/// A deployment has ended. Source: docs/reference/lsm.md § 3.6.
pub(super) fn reported(case: &Case<'_>, next_version: u64, succeeded: bool) -> Decision {
    let before = case.before;
    if next_version != before.desired_state_version || before.deleted {
        return Decision::unchanged(Vec::new());
    }
    let mut decision = match resource_based(case, succeeded) {
        Some(decision) if decision.effect == Effect::NewVersion => return decision,
        // A transfer whose operation can not be done leaves the instance where it is, and the result stays known.
        Some(decision) => decision,
        None => Decision::unchanged(Vec::new()),
    };
    // Repairs report again and again: only what is new is stored, and that only where a hop that keeps the desired state may
    // make use of it, with or without a compile of its own: what that exports is deployed already.
    let is_of_use = case.settings.transfer_optimization
        || leaving(case).any(|one| one.target_same_desired_state || one.error_same_desired_state);
    if is_of_use && before.known_result != Some(succeeded) {
        let mut after = before.clone();
        after.known_result = Some(succeeded);
        decision.effect = Effect::Stored;
        decision.instance = Some(after);
    }
    decision
}

/// Resources are not deployed, as a value of them is not known. Nothing will report, so people are told why the instance stays
/// where it is. Source: docs/reference/lsm.md § 3.2.1.
pub(super) fn stuck(case: &Case<'_>, next_version: u64, resources: &[String]) -> Decision {
    if next_version != case.before.desired_state_version || case.before.deleted {
        return Decision::unchanged(Vec::new());
    }
    let message = format!(
        "the instance waits in {}: resources of it can not be deployed, as values of them are not known yet: {}",
        case.before.state,
        resources.join(", ")
    );
    Decision::unchanged(vec![case.event(Severity::Warning, message)])
}

/// The transfer that a result makes; `None`: none.
fn resource_based(case: &Case<'_>, succeeded: bool) -> Option<Decision> {
    let transfer = leaving(case).find(|transfer| transfer.resource_based)?;
    let way = Way::after(transfer, succeeded);
    if way.end().is_none() || way.is_idle() {
        return None;
    }
    let extra = Extra {
        result: Some(succeeded),
        ..Extra::default()
    };
    Some(follow(
        &case.of_kind(EventType::ResourceTransition),
        way,
        extra,
    ))
}

/// A client sets switches. Those that are on from now on may let an instance go on. Source: docs/reference/lsm.md § 5.6.
pub(super) fn configured(
    case: &Case<'_>,
    values: &BTreeMap<String, bool>,
) -> Result<Decision, Refusal> {
    check_switches(&case.entity.lifecycle, values)?;
    let mut after = case.before.clone();
    after
        .config
        .extend(values.iter().map(|(name, value)| (name.clone(), *value)));
    after.last_updated = case.now;
    Ok(Decision {
        effect: Effect::Stored,
        instance: Some(after),
        events: Vec::new(),
        next: vec![Next::FireAuto {
            known_result: false,
        }],
    })
}

/// A client keeps something with the instance.
pub(super) fn annotated(case: &Case<'_>, key: &str, value: &str) -> Decision {
    let mut after = case.before.clone();
    after.metadata.insert(key.to_owned(), value.to_owned());
    after.last_updated = case.now;
    Decision {
        effect: Effect::Stored,
        instance: Some(after),
        ..Decision::unchanged(Vec::new())
    }
}
