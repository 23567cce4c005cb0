//! What the deployment of an instance's resources means for it: the resource `lsm::LifecycleTransfer`, which comes behind all
//! others of its instance. Source: docs/reference/lsm.md § 3.6.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steward_lsm::Instance;
use steward_lsm::lifecycle::{self, Effect, Request, Settings, Trigger};
use uuid::Uuid;

use super::{READ_AT_ONCE, Services, now};
use crate::domain::{EnvironmentId, ResourceId, chain};
use crate::store::{self, Catalog, Cause};

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

impl Report {
    fn request(&self) -> Request {
        Request {
            trigger: Trigger::Reported {
                next_version: self.next_version,
                succeeded: self.succeeded,
            },
            current_version: None,
            correlation_id: Uuid::new_v4(),
        }
    }

    /// Whether it changes anything of the instance as it was when it was read.
    fn has_effect(&self, catalog: &Catalog, instance: &Instance, settings: &Settings) -> bool {
        let version = Some(instance.service_entity_version);
        let Some(definition) = catalog.definition(&instance.service_entity, version) else {
            // Whoever tries to change it says what is wrong.
            return true;
        };
        let entity = &definition.entity;
        match lifecycle::decide(entity, instance, &self.request(), settings, now()) {
            Ok(decision) => {
                decision.effect != Effect::Unchanged
                    || !decision.events.is_empty()
                    || !decision.next.is_empty()
            }
            Err(_) => true,
        }
    }
}

impl Services {
    /// Takes note of several reports, in their order. Nothing comes of most, since deployments and repairs of an instance that is
    /// up say the same again and again: so the instances are read together first, and only what a report changes is a
    /// transaction of its own. An instance that changes between the two has been looked at before, and the report was about what
    /// it was then.
    ///
    /// # Errors
    /// The store does not answer; all of them may be reported again.
    pub async fn reported_all(
        &self,
        environment: EnvironmentId,
        reports: &[Report],
    ) -> store::Result<()> {
        match reports {
            [] => return Ok(()),
            [report] => return self.reported(environment, report).await,
            _ => {}
        }
        let rules = self.rules(environment).await?;
        let mut touched = HashSet::new();
        for some in reports.chunks(READ_AT_ONCE) {
            let ids: Vec<Uuid> = some.iter().map(|report| report.instance).collect();
            let catalog = self.store.service_catalog(environment).await?;
            let found = self.store.services_of_ids(environment, &ids).await?;
            let found: HashMap<Uuid, Instance> = found
                .into_iter()
                .map(|instance| (instance.id, instance))
                .collect();
            for report in some {
                // After the first report that had an effect, the instance is another one than was read.
                let is_effective = touched.contains(&report.instance)
                    || found.get(&report.instance).is_some_and(|instance| {
                        report.has_effect(&catalog, instance, &rules.settings)
                    });
                if is_effective {
                    touched.insert(report.instance);
                    self.reported(environment, report).await?;
                }
            }
        }
        Ok(())
    }

    /// Takes note of a report. What is out of date, or of an instance that is gone, has no effect.
    ///
    /// # Errors
    /// The store does not answer; the next run reports again.
    pub async fn reported(&self, environment: EnvironmentId, report: &Report) -> store::Result<()> {
        let request = report.request();
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
