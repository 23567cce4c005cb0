//! Writes that go around the lifecycle: those of compiles, and those of experts. Source: docs/reference/lsm.md § 3.14, § 5.11.

use crate::attributes;
use crate::definition::{Operation, SetName};
use crate::lifecycle::case::Case;
use crate::lifecycle::execute::{apply, moved};
use crate::lifecycle::{Decision, Edit, Effect, Next, Refusal, Severity};

/// A compile has values for read-only attributes. Nothing of the lifecycle changes.
pub(super) fn wrote(case: &Case<'_>, set: SetName, edits: &[Edit]) -> Result<Decision, Refusal> {
    let base = match set {
        SetName::Candidate => case.before.base(),
        set => case.before.set(set),
    };
    let Some(base) = base else {
        let message = format!(
            "the instance {} has no {} attributes to write into",
            case.before.id,
            set.as_str()
        );
        return Err(Refusal::new(400, message));
    };
    let others: Vec<&crate::Attributes> = SetName::ALL
        .into_iter()
        .filter(|name| *name != set)
        .filter_map(|name| case.before.set(name))
        .collect();
    let written = attributes::write(case.entity, base, edits, &others);
    let written = written
        .map_err(|problems| Refusal::of_fields("these attributes can not be written", problems))?;
    if case.before.set(set) == Some(&written) {
        return Ok(Decision::unchanged(Vec::new()));
    }
    let targets: Vec<&str> = edits.iter().map(|edit| edit.target.as_str()).collect();
    let message = format!(
        "a compile wrote {} attributes: {}",
        set.as_str(),
        targets.join(", ")
    );
    let mut after = case.before.clone();
    *after.set_mut(set) = Some(written);
    after.last_updated = case.now;
    Ok(Decision {
        effect: Effect::Stored,
        instance: Some(after),
        events: vec![case.event(Severity::Info, message)],
        next: Vec::new(),
    })
}

fn for_experts(case: &Case<'_>) -> Result<(), Refusal> {
    if case.settings.expert_mode {
        return Ok(());
    }
    let message = "this call goes around the lifecycle: the environment must have the setting enable_lsm_expert_mode";
    Err(Refusal::new(403, message))
}

/// An expert puts the instance into a state.
pub(super) fn force_state(
    case: &Case<'_>,
    target: &str,
    operation: Option<Operation>,
    message: &str,
) -> Result<Decision, Refusal> {
    for_experts(case)?;
    if case.entity.lifecycle.state(target).is_none() {
        let name = &case.entity.lifecycle.name;
        return Err(Refusal::new(
            400,
            format!("{target} is no state of the lifecycle {name}"),
        ));
    }
    let source = &case.before.state;
    let text = format!("an expert set the state from {source} to {target}: {message}");
    let mut event = case.event(Severity::Warning, text);
    event.source = Some(source.clone());
    event.destination = Some(target.to_owned());
    let mut after = case.before.clone();
    if let Some(reason) = operation.and_then(|operation| apply(operation, &mut after).err()) {
        event.severity = Severity::Error;
        event.message = format!("{}: failed, for {reason}", event.message);
        return Ok(Decision::unchanged(vec![event]));
    }
    after.desired_state_version += 1;
    after.known_result = None;
    Ok(moved(case, after, target, event, true))
}

/// An expert changes attributes.
pub(super) fn force_attributes(
    case: &Case<'_>,
    set: SetName,
    edits: &[Edit],
    comment: Option<&str>,
) -> Result<Decision, Refusal> {
    for_experts(case)?;
    let nothing = crate::Attributes::new();
    let base = case.before.set(set).unwrap_or(&nothing);
    let edited = attributes::edit(case.entity, base, edits);
    let edited =
        edited.map_err(|problems| Refusal::of_fields("these edits can not be done", problems))?;
    let why = comment.unwrap_or("no reason given");
    let mut message = format!("an expert changed the {} attributes: {why}", set.as_str());
    // Experts may do so; that it was not meant is seen here.
    let wrong = attributes::problems(case.entity, &edited);
    if !wrong.0.is_empty() {
        message = format!("{message}; the definition does not allow what there is now: {wrong}");
    }
    let mut after = case.before.clone();
    *after.set_mut(set) = Some(edited);
    let named = after
        .base()
        .and_then(|base| attributes::identity(case.entity, base));
    after.service_identity_attribute_value = named.or(after.service_identity_attribute_value);
    after.version += 1;
    after.last_updated = case.now;
    // A validation that is under way is for the version before, so its result will not count: it has to be asked for again.
    let next = if after.deleted {
        Vec::new()
    } else {
        vec![Next::FireAuto {
            known_result: false,
        }]
    };
    Ok(Decision {
        effect: Effect::NewVersion,
        instance: Some(after),
        events: vec![case.event(Severity::Warning, message)],
        next,
    })
}

/// An expert has the record removed. Its resources leave the desired state with the next compile that would have them.
pub(super) fn force_deleted(case: &Case<'_>, message: &str) -> Result<Decision, Refusal> {
    for_experts(case)?;
    let text = format!("an expert removed the instance: {message}");
    Ok(Decision {
        effect: Effect::Removed,
        ..Decision::unchanged(vec![case.event(Severity::Warning, text)])
    })
}
