//! The inventory as a compile gets it: one snapshot. Source: docs/reference/lsm.md § 2.11, § 3.3, § 4.6.

use std::collections::BTreeMap;

use steward_compiler::{ServiceInstance, ServiceOwner, ServicePurpose, ServicesInput};
use steward_lsm::Instance;

use super::catalog::Catalog;
use super::instance::{Row, select};
use crate::domain::EnvironmentId;
use crate::store::macros::read;
use crate::store::{Result, Store};

fn given(instance: Instance) -> ServiceInstance {
    ServiceInstance {
        id: instance.id.to_string(),
        service_entity_version: instance.service_entity_version,
        version: instance.version,
        desired_state_version: instance.desired_state_version,
        state: instance.state,
        candidate_attributes: instance.candidate_attributes,
        active_attributes: instance.active_attributes,
        rollback_attributes: instance.rollback_attributes,
        config: instance.config,
        deleted: instance.deleted,
    }
}

/// Which services are owned by another one; of several versions, as the default one says.
fn owners(catalog: &Catalog) -> BTreeMap<String, ServiceOwner> {
    let services = catalog.services().filter_map(|(name, _)| {
        let entity = &catalog.definition(name, None)?.entity;
        let owner = ServiceOwner {
            owner: entity.owner.clone()?,
            relation: entity.relation_to_owner.clone()?,
        };
        Some((name.to_owned(), owner))
    });
    services.collect()
}

impl Store {
    /// The services of an environment for one compile, as they are at one moment. `requested`: the instances that a partial
    /// compile is for.
    pub async fn services_input(
        &self,
        environment: EnvironmentId,
        purpose: ServicePurpose,
        requested: Option<Vec<String>>,
    ) -> Result<ServicesInput> {
        let has_none = purpose == ServicePurpose::Definitions;
        let catalog = self.service_catalog(environment).await?;
        let rows = if has_none {
            Vec::new()
        } else {
            read!(self.db, pool => {
                sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY entity, created_us, id"))
                    .bind(environment.to_string())
                    .fetch_all(pool)
                    .await?
            })
        };
        let mut instances: BTreeMap<String, Vec<ServiceInstance>> = BTreeMap::new();
        for row in rows {
            let row: Row = row;
            let instance = row.into_instance()?;
            let of_service = instances.entry(instance.service_entity.clone());
            of_service.or_default().push(given(instance));
        }
        Ok(ServicesInput {
            purpose,
            requested,
            owners: owners(&catalog),
            instances,
            has_more: false,
        })
    }
}
