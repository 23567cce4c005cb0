//! Instances whose resources wait for a value that is not known: no deployment will report, and people are told.
//! Source: docs/reference/lsm.md § 3.2.1, § 3.6.

use steward_lsm::lifecycle::{Request, Trigger};
use uuid::Uuid;

use super::Services;
use crate::domain::EnvironmentId;
use crate::store::{self, Cause};

/// An instance with resources that can not be deployed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub instance: Uuid,
    /// The desired state version that is to be deployed.
    pub next_version: u64,
    /// The resources whose values are not known, or that require such a one.
    pub resources: Vec<String>,
}

impl Services {
    /// Tells an instance, in an event, why it stays where it is. What is out of date, or of an instance that is gone, has no
    /// effect.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn waits(&self, environment: EnvironmentId, waiting: Waiting) -> store::Result<()> {
        let request = Request {
            trigger: Trigger::Stuck {
                next_version: waiting.next_version,
                resources: waiting.resources,
            },
            current_version: None,
            correlation_id: Uuid::new_v4(),
        };
        let cause = Cause {
            instance: waiting.instance,
            ..Cause::default()
        };
        match self.change(environment, &cause, &request).await {
            Err(store::Error::NotFound(_)) => Ok(()),
            result => result.map(|_| ()),
        }
    }
}
