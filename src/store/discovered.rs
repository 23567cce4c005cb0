//! What handlers of discovery resources found. Source: docs/reference/deployment.md § 5.9.

use serde_json::Value;

use super::macros::{read, transaction, write};
use super::{Result, Store, document, storable};
use crate::domain::{EnvironmentId, ResourceId, Timestamp};

#[derive(Debug, Clone, PartialEq)]
pub struct Discovered {
    /// Of what was found, without version.
    pub resource_id: ResourceId,
    pub values: Value,
    /// The resource whose handler found it.
    pub discovery_resource_id: ResourceId,
    pub discovered: Timestamp,
}

/// That a resource was found, and the bytes of what was found of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredEntry {
    pub resource_id: ResourceId,
    pub n_bytes: usize,
}

/// The newest report counts; what is not reported any more stays.
pub(super) const SET: &str = "INSERT INTO discovered_resource (environment_id, resource_id, found, \
                              discovery_resource_id, discovered_us) VALUES ($1, $2, $3, $4, $5) \
                              ON CONFLICT (environment_id, resource_id) DO UPDATE SET found = excluded.found, \
                              discovery_resource_id = excluded.discovery_resource_id, \
                              discovered_us = excluded.discovered_us";

/// Ids in one statement; SQLite takes 32766 parameters.
const READ_AT_ONCE: usize = 1000;

type Row = (ResourceId, String, ResourceId, i64);

fn discovered((resource_id, found, discovery_resource_id, at): Row) -> Result<Discovered> {
    Ok(Discovered {
        values: document("discovered_resource", "found", resource_id.as_str(), &found)?,
        resource_id,
        discovery_resource_id,
        discovered: Timestamp(at),
    })
}

impl Store {
    /// All or nothing; each overwrites what was known of it.
    pub async fn discovered_set(
        &self,
        environment: EnvironmentId,
        found: &[Discovered],
    ) -> Result<()> {
        transaction!(self.db, tx => {
            for found in found {
                sqlx::query(SET)
                    .bind(environment.to_string())
                    .bind(storable(found.resource_id.as_str()))
                    .bind(found.values.to_string())
                    .bind(storable(found.discovery_resource_id.as_str()))
                    .bind(found.discovered.0)
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// The discovery resources that found any of these before.
    pub async fn discovered_finders(
        &self,
        environment: EnvironmentId,
        found: &[Discovered],
    ) -> Result<Vec<ResourceId>> {
        let mut finders = Vec::new();
        for some in found.chunks(READ_AT_ONCE) {
            let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT DISTINCT discovery_resource_id FROM discovered_resource WHERE environment_id = ",
                );
                query.push_bind(environment.to_string()).push(" AND resource_id IN (");
                let mut list = query.separated(", ");
                for found in some {
                    list.push_bind(storable(found.resource_id.as_str()).into_owned());
                }
                query.push(")");
                query.build_query_as().fetch_all(pool).await?
            });
            finders.extend(rows.into_iter().map(|(id,)| id));
        }
        Ok(finders)
    }

    /// How many resources a discovery resource has found that are still known, and the bytes of what is known of them.
    pub async fn discovered_share(
        &self,
        environment: EnvironmentId,
        finder: &ResourceId,
    ) -> Result<(i64, i64)> {
        const SQL: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(OCTET_LENGTH(found)), 0) AS BIGINT) FROM discovered_resource \
                           WHERE environment_id = $1 AND discovery_resource_id = $2";
        Ok(read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(finder).fetch_one(pool).await?
        }))
    }

    /// Which resources were found in an environment, without what was found of them.
    pub async fn discovered_index(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<DiscoveredEntry>> {
        const SQL: &str = "SELECT resource_id, CAST(OCTET_LENGTH(found) AS BIGINT) FROM discovered_resource \
                           WHERE environment_id = $1";
        let rows: Vec<(ResourceId, i64)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        let entry = |(resource_id, n_bytes)| DiscoveredEntry {
            resource_id,
            n_bytes: usize::try_from(n_bytes).unwrap_or_default(),
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    /// What was found of these resources, in no order; nothing of those that are not known any more.
    pub async fn discovered_some<'a>(
        &self,
        environment: EnvironmentId,
        ids: impl IntoIterator<Item = &'a ResourceId>,
    ) -> Result<Vec<Discovered>> {
        let ids: Vec<&ResourceId> = ids.into_iter().collect();
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(READ_AT_ONCE) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, found, discovery_resource_id, discovered_us FROM discovered_resource \
                     WHERE environment_id = ",
                );
                query.push_bind(environment.to_string()).push(" AND resource_id IN (");
                let mut list = query.separated(", ");
                for id in some {
                    list.push_bind(storable(id.as_str()).into_owned());
                }
                query.push(")");
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                found.push(discovered(row)?);
            }
        }
        Ok(found)
    }

    pub async fn discovered_fetch(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Option<Discovered>> {
        const SQL: &str = "SELECT resource_id, found, discovery_resource_id, discovered_us FROM discovered_resource \
                           WHERE environment_id = $1 AND resource_id = $2";
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(resource_id)
                .fetch_optional(pool)
                .await?
        });
        row.map(discovered).transpose()
    }

    /// `false`: there was none.
    pub async fn discovered_delete(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<bool> {
        const SQL: &str =
            "DELETE FROM discovered_resource WHERE environment_id = $1 AND resource_id = $2";
        let n_deleted = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(resource_id)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_deleted > 0)
    }
}
