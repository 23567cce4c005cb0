//! The resource by which a service instance learns that its resources are deployed: `lsm::LifecycleTransfer`. It comes behind
//! all of them, changes nothing on any host, and so runs here, without an executor. Source: docs/reference/lsm.md § 3.6.

use super::{InFlight, Reconciler};
use crate::deploy::schedule::Run;
use crate::domain::{Blocked, HandlerStatus, LogLevel, ResourceStatus, Timestamp, chain};
use crate::executor::handler::Context;
use crate::executor::link::{Purpose, TaskResult};
use crate::executor::protocol::Dependency;
use crate::lsm::{Waiting, report_of};
use crate::store::ResourceState;

/// The type of the resource.
pub(crate) const LIFECYCLE_TRANSFER: &str = "lsm::LifecycleTransfer";

/// What the ends of an instance's resources mean together, and those that say so. A failure counts more than what was only
/// put off.
fn verdict(requires: &[Dependency]) -> (HandlerStatus, Vec<&str>) {
    let of = |is_meant: &dyn Fn(ResourceStatus) -> bool| -> Vec<&str> {
        let meant = requires.iter().filter(|one| is_meant(one.status));
        meant.map(|one| one.resource_id.as_str()).collect()
    };
    let failed = of(&|status| status == ResourceStatus::Failed);
    if !failed.is_empty() {
        return (HandlerStatus::Failed, failed);
    }
    let waiting = of(&|status| status != ResourceStatus::Deployed);
    if waiting.is_empty() {
        (HandlerStatus::Deployed, waiting)
    } else {
        (HandlerStatus::SkippedForDependency, waiting)
    }
}

/// Whether a resource waits for a value that is not known, its own or one of what it requires.
fn is_blocked(state: &ResourceState) -> bool {
    state.is_undefined || state.blocked == Blocked::Blocked
}

impl Reconciler {
    /// Runs the resource of an instance, which is over at once.
    pub(super) fn report(&mut self, run: Run, started: Timestamp) {
        let (status, others) = verdict(&run.requires);
        let mut context = Context::default();
        let others = others.join(", ");
        match status {
            HandlerStatus::Deployed => context.debug("all resources of the instance are deployed"),
            HandlerStatus::Failed => {
                context.error(&format!("resources of the instance failed: {others}"));
            }
            _ => context.log(
                LogLevel::Info,
                &format!("skipped: resources of the instance are not deployed yet: {others}"),
            ),
        }
        let succeeded = match status {
            HandlerStatus::Deployed => Some(true),
            HandlerStatus::Failed => Some(false),
            _ => None,
        };
        let attributes = serde_json::from_str(&run.intent.attributes).unwrap_or_default();
        let report = succeeded.and_then(|succeeded| report_of(&attributes, succeeded));
        self.reports.extend(report);
        let result = TaskResult {
            action: run.action,
            resource_id: run.intent.resource_id.clone(),
            purpose: Purpose::Deploy,
            finished: Timestamp::now(),
            outcome: context.into_outcome(status),
        };
        self.in_flight
            .insert(run.action, InFlight::new(run, started));
        self.on_deployed(result);
    }

    /// Tells instances of a new version that resources of them can not be deployed, as their values are not known.
    pub(super) async fn tell_who_waits(&self, changed: &[ResourceState]) {
        for state in changed.iter().filter(|state| is_blocked(state)) {
            let intent = self.schedule.intent(&state.resource_id);
            let intent = intent.filter(|intent| intent.resource_type == LIFECYCLE_TRANSFER);
            let Some(intent) = intent else { continue };
            let attributes = serde_json::from_str(&intent.attributes).unwrap_or_default();
            let Some(report) = report_of(&attributes, false) else {
                continue;
            };
            let required = intent.requires.iter();
            let unknown = required.filter(|id| self.schedule.state(id).is_some_and(is_blocked));
            let waiting = Waiting {
                instance: report.instance,
                next_version: report.next_version,
                resources: unknown.map(ToString::to_string).collect(),
            };
            // It is for people; nothing depends on it.
            if let Err(error) = self.services.waits(self.environment, waiting).await {
                tracing::warn!(
                    environment.id = %self.environment, instance.id = %report.instance, error = chain(&error),
                    "cannot tell the instance {} that its resources wait for a value", report.instance
                );
            }
        }
    }
}
