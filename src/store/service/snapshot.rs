//! The inventory as a compile gets it: one snapshot. Source: docs/reference/lsm.md § 2.11, § 3.3, § 4.6.

use std::collections::BTreeMap;

use steward_compiler::{
    ServiceAnswer, ServiceInstance, ServiceInstances, ServiceOwner, ServicePurpose,
    ServiceQuestion, ServicesInput,
};
use steward_lsm::Instance;

use super::catalog::{Catalog, Definition};
use super::instance::{Row, select};
use super::used::Pool;
use crate::domain::EnvironmentId;
use crate::store::macros::read;
use crate::store::{Db, Result, Store};

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

fn owner(definition: &Definition) -> Option<ServiceOwner> {
    let entity = &definition.entity;
    Some(ServiceOwner {
        owner: entity.owner.clone()?,
        relation: entity.relation_to_owner.clone()?,
    })
}

/// Which services are owned by another one; of several versions, as the default one says.
fn owners(catalog: &Catalog) -> BTreeMap<String, ServiceOwner> {
    let services = catalog.services().filter_map(|(name, _)| {
        let owner = owner(catalog.definition(name, None)?)?;
        Some((name.to_owned(), owner))
    });
    services.collect()
}

/// The versions that say something else than the default one.
fn owners_of_versions(
    catalog: &Catalog,
) -> BTreeMap<String, BTreeMap<String, Option<ServiceOwner>>> {
    let services = catalog.services().map(|(name, versions)| {
        let default = catalog.definition(name, None).and_then(|one| owner(one));
        let others = versions.iter().filter_map(|(version, definition)| {
            let owner = owner(definition);
            (owner != default).then(|| (version.to_string(), owner))
        });
        (name.to_owned(), others.collect::<BTreeMap<_, _>>())
    });
    services.filter(|(_, others)| !others.is_empty()).collect()
}

/// The instances of one compile that a statement gives, by service.
fn by_service(rows: Vec<Row>) -> Result<ServiceInstances> {
    let mut instances = ServiceInstances::new();
    for row in rows {
        let instance = row.into_instance()?;
        let of_service = instances.entry(instance.service_entity.clone());
        of_service.or_default().push(given(instance));
    }
    Ok(instances)
}

/// Instances whose trees are looked for in one statement; SQLite takes 32766 parameters.
const AT_ONCE: usize = 10_000;

/// The statement for the trees of owners that `n_ids` instances belong to: up from each to the one without an owner, and down
/// to all that these own. A circle of owners has no such instance, and an owner that is missing is none: then the instances
/// themselves are there, and the compile says what is wrong with them. `$1` is the environment, the ids follow.
///
/// Each step asks for the instances of one id or owner at a time, however many others there are. SQLite keeps the order of
/// what `CROSS JOIN` joins; left to itself it looks, for each instance of a tree, at all instances that have an owner, and for
/// an order of the rows, which they get elsewhere, at all that there are. PostgreSQL expects ten times as many in each step
/// as it is begun with, and reads all instances of the environment rather than so many by their ids: `OFFSET 0` keeps each
/// look a question of its own.
fn trees_of(n_ids: usize, is_postgres: bool) -> String {
    let ids = super::parameters(2, n_ids);
    let joined = |name: &str, column: &str, value: &str| {
        if is_postgres {
            format!(
                "CROSS JOIN LATERAL (SELECT * FROM service_instance \
                 WHERE environment_id = $1 AND {column} = {value} OFFSET 0) AS {name}"
            )
        } else {
            format!(
                "CROSS JOIN service_instance AS {name} \
                 WHERE {name}.environment_id = $1 AND {name}.{column} = {value}"
            )
        }
    };
    let above = joined("above", "id", "up.owner_id");
    let below = joined("below", "owner_id", "tree.id");
    let rows = joined("instance", "id", "member");
    let columns = select!(from "", "");
    format!(
        "WITH RECURSIVE up (id, owner_id) AS ( \
         SELECT id, owner_id FROM service_instance WHERE environment_id = $1 AND id IN ({ids}) \
         UNION SELECT above.id, above.owner_id FROM up {above}), \
         tree (id) AS ( SELECT id FROM up WHERE owner_id IS NULL UNION SELECT below.id FROM tree {below}), \
         member (member) AS (SELECT id FROM tree UNION SELECT id FROM up) \
         {columns}member {rows}"
    )
}

impl Store {
    /// The services of an environment for one compile, as they are at one moment. `requested`: the instances that a partial
    /// compile is for; it gets the trees of owners that they belong to, and asks for others ([`Store::services_ask`]).
    pub async fn services_input(
        &self,
        environment: EnvironmentId,
        purpose: ServicePurpose,
        requested: Option<Vec<String>>,
    ) -> Result<ServicesInput> {
        let catalog = self.service_catalog(environment).await?;
        let instances = match &requested {
            _ if purpose == ServicePurpose::Definitions => ServiceInstances::new(),
            Some(requested) => self.services_trees(environment, requested).await?,
            None => {
                let rows: Vec<Row> = read!(self.db, pool => {
                    sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY entity, created_us, id"))
                        .bind(environment.to_string())
                        .fetch_all(pool)
                        .await?
                });
                by_service(rows)?
            }
        };
        Ok(ServicesInput {
            purpose,
            has_more: requested.is_some(),
            requested,
            owners: owners(&catalog),
            owners_of_versions: owners_of_versions(&catalog),
            instances,
        })
    }

    /// The trees of owners that these instances belong to.
    async fn services_trees(
        &self,
        environment: EnvironmentId,
        requested: &[String],
    ) -> Result<ServiceInstances> {
        let environment = environment.to_string();
        let mut found: BTreeMap<(String, i64, String), Row> = BTreeMap::new();
        for chunk in requested.chunks(AT_ONCE) {
            let sql = trees_of(chunk.len(), matches!(self.db, Db::Postgres { .. }));
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::query_as(&sql).bind(&environment);
                for id in chunk {
                    query = query.bind(id);
                }
                query.fetch_all(pool).await?
            });
            found.extend(rows.into_iter().map(|row| (row.order(), row)));
        }
        by_service(found.into_values().collect())
    }

    /// Whether an environment has service instances that have not ended.
    pub async fn services_any(&self, environment: EnvironmentId) -> Result<bool> {
        const SQL: &str = "SELECT id FROM service_instance WHERE environment_id = $1 AND is_deleted = FALSE LIMIT 1";
        let row: Option<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_optional(pool).await?
        });
        Ok(row.is_some())
    }

    /// What a compile was not given and wants to know of instances. The inner error: the question has no answer.
    pub async fn services_ask(
        &self,
        environment: EnvironmentId,
        question: ServiceQuestion,
    ) -> Result<std::result::Result<ServiceAnswer, String>> {
        let rows: Vec<Row> = match question {
            ServiceQuestion::Service(name) => read!(self.db, pool => {
                sqlx::query_as(select!("WHERE environment_id = $1 AND entity = $2 ORDER BY created_us, id"))
                    .bind(environment.to_string())
                    .bind(name)
                    .fetch_all(pool)
                    .await?
            }),
            ServiceQuestion::Instance(id) => read!(self.db, pool => {
                sqlx::query_as(select!("WHERE environment_id = $1 AND id = $2"))
                    .bind(environment.to_string())
                    .bind(id)
                    .fetch_all(pool)
                    .await?
            }),
            ServiceQuestion::Values {
                service,
                path,
                without,
            } => {
                let found = self
                    .services_values(environment, &service, &path, &without)
                    .await?;
                return Ok(found.map(ServiceAnswer::Values));
            }
            ServiceQuestion::FreeNumber {
                service,
                path,
                without,
                taken,
                lower,
                upper,
                draw,
            } => {
                let pool = Pool {
                    without: &without,
                    taken: &taken,
                    lower,
                    upper,
                    draw,
                };
                let found = self
                    .services_free_number(environment, &service, &path, pool)
                    .await?;
                return Ok(found.map(ServiceAnswer::FreeNumber));
            }
        };
        by_service(rows).map(|found| Ok(ServiceAnswer::Instances(found)))
    }
}

#[cfg(test)]
mod tests;
