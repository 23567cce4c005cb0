//! What all decisions about one request have in common: its events and refusals.

use md5::{Digest, Md5};
use uuid::Uuid;

use crate::definition::ServiceEntity;
use crate::lifecycle::{
    Decision, Effect, Event, EventType, Refusal, Request, Settings, Severity, Trigger,
};
use crate::{Instance, Moment, Problems};

/// One request for one instance.
pub(super) struct Case<'c> {
    pub(super) entity: &'c ServiceEntity,
    /// The instance as it is stored.
    pub(super) before: &'c Instance,
    pub(super) settings: &'c Settings,
    pub(super) now: Moment,
    /// What its events are.
    pub(super) kind: EventType,
    /// What its events have in common.
    pub(super) correlation_id: Uuid,
}

impl<'c> Case<'c> {
    pub(super) fn new(
        entity: &'c ServiceEntity,
        before: &'c Instance,
        request: &'c Request,
        settings: &'c Settings,
        now: Moment,
    ) -> Self {
        let kind = match &request.trigger {
            Trigger::Auto { .. } => EventType::AutoTransition,
            Trigger::Updated { .. } => EventType::OnUpdateTransition,
            Trigger::Deleted => EventType::OnDeleteTransition,
            Trigger::SetState { .. } => EventType::ApiSetStateTransition,
            Trigger::Validated { cause, .. } => *cause,
            Trigger::Reported { .. } => EventType::ResourceTransition,
            Trigger::Stuck { .. } => EventType::ResourceEvent,
            Trigger::Wrote { .. } => EventType::AllocationUpdate,
            Trigger::ForceDeleted { .. } => EventType::ForceDelete,
            Trigger::Configured { .. }
            | Trigger::Annotated { .. }
            | Trigger::ForceState { .. }
            | Trigger::ForceAttributes { .. } => EventType::ForceUpdate,
        };
        let correlation_id = match &request.trigger {
            Trigger::Auto { .. } => auto_id(before),
            _ => request.correlation_id,
        };
        Self {
            entity,
            before,
            settings,
            now,
            kind,
            correlation_id,
        }
    }

    /// The same instance, with events of another kind.
    pub(super) fn of_kind(&self, kind: EventType) -> Self {
        Self { kind, ..*self }
    }

    /// The instance, for people: names of environments mean more to them than ids.
    pub(super) fn shown(&self) -> String {
        format!(
            "the instance {} of the environment {} ({})",
            self.before.id, self.settings.environment_name, self.before.environment
        )
    }

    /// Whether the caller has seen the version that there is. Source: docs/reference/lsm.md § 3.10.
    pub(super) fn check_version(&self, given: Option<u64>) -> Result<(), Refusal> {
        let actual = self.before.version;
        match given {
            Some(given) if given != actual => {
                let message = format!(
                    "the version {given} was given, but {} has the version {actual}: read it again and decide anew",
                    self.shown()
                );
                Err(Refusal::new(409, message))
            }
            _ => Ok(()),
        }
    }

    /// Whether the instance has not ended: nothing more happens to one that has.
    pub(super) fn check_present(&self) -> Result<(), Refusal> {
        if self.before.deleted {
            let message = format!("instance {}, as it has ended", self.before.id);
            return Err(Refusal::new(404, message));
        }
        Ok(())
    }

    /// An event of now, without states.
    pub(super) fn event(&self, severity: Severity, message: impl Into<String>) -> Event {
        Event {
            service_instance_id: self.before.id,
            service_instance_version: self.before.version,
            service_desired_state_version: self.before.desired_state_version,
            timestamp: self.now,
            message: message.into(),
            source: None,
            destination: None,
            event_type: self.kind,
            event_correlation_id: self.correlation_id,
            severity,
            id_compile_report: None,
            is_error_transition: false,
            ignored_transition: false,
        }
    }
}

/// The id of what comes by itself of one version of an instance: the same whenever it is looked at, so that a restart asks for
/// no validation twice. It is the UUID of version 3 of the version's number in the name space of the instance's id.
/// Source: docs/reference/lsm.md § 3.7.
fn auto_id(instance: &Instance) -> Uuid {
    let digest = Md5::new()
        .chain_update(instance.id.as_bytes())
        .chain_update(instance.version.to_string())
        .finalize();
    uuid::Builder::from_md5_bytes(digest.into()).into_uuid()
}

impl Refusal {
    /// A refusal that is not about single fields.
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            problems: Problems::default(),
        }
    }

    /// A refusal that names the offending fields.
    pub(crate) fn of_fields(what: &str, problems: Problems) -> Self {
        Self {
            status: 400,
            message: format!("{what}: {problems}"),
            problems,
        }
    }
}

impl Decision {
    /// Nothing is stored but events.
    pub(super) fn unchanged(events: Vec<Event>) -> Self {
        Self {
            effect: Effect::Unchanged,
            instance: None,
            events,
            next: Vec::new(),
        }
    }
}
