//! A transfer, executed. Source: docs/reference/lsm.md § 3.4, § 3.5, § 3.8, § 3.9.

use crate::definition::{Operation, ServiceEntity, Transfer};
use crate::lifecycle::case::Case;
use crate::lifecycle::{Decision, Effect, Event, EventType, Next, Severity};
use crate::{Attributes, Instance, attributes};

/// One of the two ways of a transfer.
#[derive(Clone, Copy)]
pub(super) struct Way<'t> {
    pub(super) transfer: &'t Transfer,
    /// Whether it leads to the error state.
    pub(super) is_error: bool,
}

impl<'t> Way<'t> {
    pub(super) fn target(transfer: &'t Transfer) -> Self {
        Self {
            transfer,
            is_error: false,
        }
    }

    /// The way that a result decides about.
    pub(super) fn after(transfer: &'t Transfer, succeeded: bool) -> Self {
        Self {
            transfer,
            is_error: !succeeded,
        }
    }

    pub(super) fn end(self) -> Option<&'t str> {
        if self.is_error {
            self.transfer.error.as_deref()
        } else {
            Some(&self.transfer.target)
        }
    }

    pub(super) fn operation(self) -> Option<Operation> {
        if self.is_error {
            self.transfer.error_operation
        } else {
            self.transfer.target_operation
        }
    }

    fn keeps_desired_state(self) -> bool {
        if self.is_error {
            self.transfer.error_same_desired_state
        } else {
            self.transfer.target_same_desired_state
        }
    }

    /// Whether it leads back to where it began and does nothing. Such a way is not gone: repairs report success for ever, and
    /// each report would be a new version and another compile.
    pub(super) fn is_idle(self) -> bool {
        self.end() == Some(&self.transfer.source) && self.operation().is_none()
    }
}

/// What is new beside the state.
#[derive(Default)]
pub(super) struct Extra {
    /// Attributes that a client gave: they replace the candidate, before the operation of the transfer.
    pub(super) candidate: Option<Attributes>,
    /// Said in the event after what happened.
    pub(super) comment: Option<String>,
    /// The result of a deployment that led to this.
    pub(super) result: Option<bool>,
    /// The compile that led to this.
    pub(super) compile: Option<uuid::Uuid>,
}

/// Follows a way: everything, or nothing but an event.
pub(super) fn follow(case: &Case<'_>, way: Way<'_>, extra: Extra) -> Decision {
    let source = &way.transfer.source;
    let mut event = executed(case, way, &extra);
    let Some(end) = way.end() else {
        event.ignored_transition = true;
        event.message = format!("the transfer from {source} has no error state: nothing happens");
        return Decision::unchanged(vec![event]);
    };
    if way.is_idle() && extra.candidate.is_none() {
        event.ignored_transition = true;
        event.message = format!("the instance stays in {source}");
        return Decision::unchanged(vec![event]);
    }
    let mut after = case.before.clone();
    if let Some(candidate) = extra.candidate {
        after.service_identity_attribute_value = attributes::identity(case.entity, &candidate);
        after.candidate_attributes = Some(candidate);
    }
    if let Some(reason) = way
        .operation()
        .and_then(|operation| apply(operation, &mut after).err())
    {
        event.severity = Severity::Error;
        event.message = format!("the transfer from {source} to {end} failed: {reason}");
        return Decision::unchanged(vec![event]);
    }
    let keeps = way.keeps_desired_state();
    after.desired_state_version += u64::from(!keeps);
    // A result that led somewhere leads on from there, unless it would lead back: states that lead to one another would
    // exchange the instance for ever.
    if !keeps {
        after.known_result = None;
    } else if let Some(succeeded) = extra.result {
        let leads_back = leads(case.entity, end, source, succeeded);
        after.known_result = (!leads_back).then_some(succeeded);
    }
    let skips_compile = keeps && case.settings.transfer_optimization;
    moved(case, after, end, event, !skips_compile)
}

/// Whether an instance gets from one state to another without anybody's doing while a result is known: by automatic transfers,
/// and by those that the result decides about. Ways that change the desired state end the search, as the result is that of
/// another desired state then.
fn leads(entity: &ServiceEntity, from: &str, to: &str, succeeded: bool) -> bool {
    let mut reached = vec![from];
    let mut at = 0;
    while let Some(state) = reached.get(at).copied() {
        if state == to {
            return true;
        }
        at += 1;
        let transfers = &entity.lifecycle.transfers;
        for transfer in transfers.iter().filter(|transfer| transfer.source == state) {
            let ways = match (transfer.resource_based, transfer.auto) {
                (true, _) => vec![Way::after(transfer, succeeded)],
                // Its validation may go either way.
                (false, true) => vec![Way::after(transfer, true), Way::after(transfer, false)],
                (false, false) => Vec::new(),
            };
            let ends = ways.into_iter().filter(|way| way.keeps_desired_state());
            for end in ends.filter_map(Way::end) {
                if !reached.contains(&end) {
                    reached.push(end);
                }
            }
        }
    }
    false
}

/// An instance that goes into a state, with its next version.
pub(super) fn moved(
    case: &Case<'_>,
    mut after: Instance,
    state: &str,
    event: Event,
    compiles: bool,
) -> Decision {
    state.clone_into(&mut after.state);
    after.version += 1;
    after.last_updated = case.now;
    let has_ended = case
        .entity
        .lifecycle
        .state(state)
        .is_some_and(|state| state.deleted);
    after.deleted = has_ended;
    let mut next = Vec::new();
    if compiles {
        let exports = is_exported(case.entity, case.before) || is_exported(case.entity, &after);
        let queued = case.event(
            Severity::Debug,
            "a compile that exports the instance is queued",
        );
        let event = Box::new(queued);
        next.push(Next::Compile { exports, event });
    }
    if !has_ended {
        next.push(Next::FireAuto { known_result: true });
    }
    Decision {
        effect: Effect::NewVersion,
        instance: Some(after),
        events: vec![event],
        next,
    }
}

/// Whether an instance is part of the desired state.
fn is_exported(entity: &ServiceEntity, instance: &Instance) -> bool {
    let state = entity.lifecycle.state(&instance.state);
    state.is_some_and(|state| state.export_resources && !state.deleted)
        && instance.active_attributes.is_some()
}

fn executed(case: &Case<'_>, way: Way<'_>, extra: &Extra) -> Event {
    let source = way.transfer.source.as_str();
    let end = way.end().unwrap_or(source);
    let why = match (case.kind, way.is_error) {
        (EventType::ResourceTransition, false) => ": its resources are deployed",
        (EventType::ResourceTransition, true) => ": its resources could not be deployed",
        (_, true) => ": the validation failed",
        (_, false) if way.transfer.validate => ": the validation succeeded",
        (EventType::OnUpdateTransition, false) => ": its attributes are updated",
        (EventType::OnDeleteTransition, false) => ": it is to be deleted",
        (_, false) => "",
    };
    let severity = if way.is_error {
        Severity::Warning
    } else {
        Severity::Info
    };
    let mut event = case.event(severity, format!("from {source} to {end}{why}"));
    if let Some(comment) = extra.comment.as_ref().filter(|comment| !comment.is_empty()) {
        event.message = format!("{} ({comment})", event.message);
    }
    event.source = Some(source.to_owned());
    event.destination = Some(end.to_owned());
    event.is_error_transition = way.is_error;
    event.id_compile_report = extra.compile;
    event
}

/// Changes the sets. The error is the condition that does not hold; then nothing is changed.
/// Source: docs/reference/lsm.md § 3.4.
pub(super) fn apply(operation: Operation, instance: &mut Instance) -> Result<(), &'static str> {
    let Instance {
        candidate_attributes: candidate,
        active_attributes: active,
        rollback_attributes: rollback,
        ..
    } = instance;
    match operation {
        Operation::Promote => {
            if candidate.is_none() {
                return Err("there is no candidate to promote");
            }
            *rollback = std::mem::replace(active, candidate.take());
        }
        Operation::Rollback => {
            if rollback.is_none() {
                return Err("there is nothing to roll back to");
            }
            *candidate = std::mem::replace(active, rollback.take());
        }
        Operation::ClearCandidate => *candidate = None,
        Operation::ClearActive => *active = None,
        Operation::ClearRollback => *rollback = None,
    }
    Ok(())
}
