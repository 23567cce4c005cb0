//! What the deployment of an instance's resources means for it: the resource `lsm::LifecycleTransfer`, which comes behind all
//! others of its instance. Source: docs/reference/lsm.md § 3.6.

use serde_json::Value;
use steward_lsm::lifecycle::{Request, Trigger};
use uuid::Uuid;

use super::Services;
use crate::domain::{EnvironmentId, ResourceId, chain};
use crate::store::{self, Cause};

/// That the resources of an instance are deployed, or that one of them failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub instance: Uuid,
    /// The desired state version that was deployed.
    pub next_version: u64,
    pub succeeded: bool,
}

/// The resource that reports for an instance.
pub fn transfer_id(instance: Uuid) -> ResourceId {
    ResourceId::new(format!(
        "lsm::LifecycleTransfer[internal,instance_id={instance}]"
    ))
}

/// The report of a resource with these attributes; `None`: it is no resource that reports.
pub fn report_of(attributes: &Value, succeeded: bool) -> Option<Report> {
    Some(Report {
        instance: attributes["instance_id"].as_str()?.parse().ok()?,
        next_version: attributes["next_version"].as_u64()?,
        succeeded,
    })
}

impl Services {
    /// Takes note of a report. What is out of date, or of an instance that is gone, has no effect.
    ///
    /// # Errors
    /// The store does not answer; the next run reports again.
    pub async fn reported(&self, environment: EnvironmentId, report: &Report) -> store::Result<()> {
        let request = Request {
            trigger: Trigger::Reported {
                next_version: report.next_version,
                succeeded: report.succeeded,
            },
            current_version: None,
            correlation_id: Uuid::new_v4(),
        };
        let cause = Cause {
            instance: report.instance,
            ..Cause::default()
        };
        match self.change(environment, &cause, &request).await {
            Err(store::Error::NotFound(_)) => Ok(()),
            // Nothing that another attempt would change.
            Err(
                error @ (store::Error::Refused(_)
                | store::Error::Conflict(_)
                | store::Error::Denied(_)),
            ) => {
                tracing::error!(environment.id = %environment, instance.id = %report.instance, error = chain(&error), "a report has no effect");
                Ok(())
            }
            result => result.map(|_| ()),
        }
    }
}
