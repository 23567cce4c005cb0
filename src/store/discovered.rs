//! What handlers of discovery resources found. Source: docs/reference/deployment.md § 5.9.

use serde_json::Value;

use super::listing::{Condition, List, Listed};
use super::macros::{read, row, transaction, write};
use super::{Key, Part, Result, Span, Store, document, storable};
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

row! {
    /// An entry of a list, and what it is sorted by.
    struct ListedRow {
        resource_id: String,
        resource_type: String,
        agent: String,
        id_value: String,
        n_bytes: i64,
    }
}

impl Listed for ListedRow {
    const TABLE: &'static str = "discovered_resource";
    const COLUMNS: &'static str = "resource_id, resource_type, agent, id_value, CAST(OCTET_LENGTH(found) AS BIGINT) AS n_bytes";

    fn part(&self, column: &str) -> Part {
        Part::text(match column {
            "resource_type" => &self.resource_type,
            "agent" => &self.agent,
            "id_value" => &self.id_value,
            _ => &self.resource_id,
        })
    }
}

/// What discovered resources are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscoveredOrder {
    Id,
    Type,
    Agent,
    Value,
}

/// What discovered resources are searched by: parts of their ids.
#[derive(Debug, Clone, Default)]
pub struct DiscoveredSearch {
    pub types: Vec<String>,
    pub agents: Vec<String>,
    pub values: Vec<String>,
    /// Whether the model has them, or had: orphans are shown as resources, too.
    pub is_managed: Option<bool>,
}

impl DiscoveredOrder {
    /// Of what kind its keys are.
    pub fn kind(self) -> Key {
        Key::texts(if self == Self::Id { 1 } else { 2 })
    }
}

/// Looked up for one row after another in the order of the list, as far as the page goes: `OFFSET 0` keeps PostgreSQL from
/// reading all states where it believes that they are few.
macro_rules! managed {
    ($not:literal) => {
        concat!(
            " AND ",
            $not,
            "EXISTS (SELECT 1 FROM resource_state s WHERE s.environment_id = discovered_resource.environment_id \
             AND s.resource_id = discovered_resource.resource_id LIMIT 1 OFFSET 0)"
        )
    };
}

impl DiscoveredSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list(DiscoveredOrder::Id).conditions.is_empty()
    }

    fn list(&self, order: DiscoveredOrder) -> List {
        // What is a part of a part is a part of the id, which the index of the list has: rows are read of what may fit only.
        let words = [&self.types, &self.agents, &self.values];
        let of_id = words.map(|words| Condition::has("resource_id", words));
        let of_parts = [
            Condition::has("resource_type", &self.types),
            Condition::has("agent", &self.agents),
            Condition::has("id_value", &self.values),
            Condition::flag(self.is_managed, [managed!("NOT "), managed!("")]),
        ];
        List {
            columns: match order {
                DiscoveredOrder::Id => &["resource_id"],
                DiscoveredOrder::Type => &["resource_type", "resource_id"],
                DiscoveredOrder::Agent => &["agent", "resource_id"],
                DiscoveredOrder::Value => &["id_value", "resource_id"],
            },
            base: "",
            counted_as: "discovered_resource",
            conditions: of_id.into_iter().chain(of_parts).flatten().collect(),
        }
    }
}

/// The newest report counts; what is not reported any more stays. The last three are of [`parts_of`].
pub(super) const SET: &str = "INSERT INTO discovered_resource (environment_id, resource_id, found, \
                              discovery_resource_id, discovered_us, resource_type, agent, id_value) \
                              VALUES ($1, $2, $3, $4, $5, $6, $7, $8) \
                              ON CONFLICT (environment_id, resource_id) DO UPDATE SET found = excluded.found, \
                              discovery_resource_id = excluded.discovery_resource_id, \
                              discovered_us = excluded.discovered_us";

/// Type, agent and value of an id; empty if it is none.
pub(super) fn parts_of(id: &str) -> [String; 3] {
    let id = ResourceId::parse(&storable(id));
    let part = |of: fn(&ResourceId) -> &str| id.as_ref().map(of).unwrap_or_default().to_owned();
    [
        part(ResourceId::resource_type),
        part(ResourceId::agent),
        part(ResourceId::value),
    ]
}

/// Ids in one statement; SQLite takes 32766 parameters.
const READ_AT_ONCE: usize = 1000;

/// Who found so many resources, in a way that the index of those who find does not have: SQLite would go through all of it.
fn finders_of(n_ids: usize) -> String {
    let ids: Vec<String> = (2..2 + n_ids).map(|number| format!("${number}")).collect();
    format!(
        "SELECT DISTINCT discovery_resource_id || '' FROM discovered_resource WHERE environment_id = $1 AND resource_id IN ({})",
        ids.join(", ")
    )
}

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
                let [resource_type, agent, value] = parts_of(found.resource_id.as_str());
                sqlx::query(SET)
                    .bind(environment.to_string())
                    .bind(storable(found.resource_id.as_str()))
                    .bind(found.values.to_string())
                    .bind(storable(found.discovery_resource_id.as_str()))
                    .bind(found.discovered.0)
                    .bind(resource_type)
                    .bind(agent)
                    .bind(value)
                    .execute(&mut *tx)
                    .await?;
            }
        });
        self.wrote("discovered_resource", found.len());
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
                let sql = finders_of(some.len());
                let mut query = sqlx::query_as(&sql).bind(environment.to_string());
                for found in some {
                    query = query.bind(storable(found.resource_id.as_str()).into_owned());
                }
                query.fetch_all(pool).await?
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

    /// Which discovered resources are searched for, each with its place and without what was found of it, as far as the span
    /// goes.
    pub async fn discovered_page(
        &self,
        environment: EnvironmentId,
        search: &DiscoveredSearch,
        order: DiscoveredOrder,
        span: &Span,
    ) -> Result<Vec<(Key, DiscoveredEntry)>> {
        let list = search.list(order);
        let rows = self.rows_page::<ListedRow>(environment, &list, span);
        let entry = |(key, row): (Key, ListedRow)| {
            let n_bytes = usize::try_from(row.n_bytes).unwrap_or_default();
            let resource_id = ResourceId::new(row.resource_id);
            let entry = DiscoveredEntry {
                resource_id,
                n_bytes,
            };
            (key, entry)
        };
        Ok(rows.await?.into_iter().map(entry).collect())
    }

    /// How many discovered resources are searched for within the span, up to its limit; without edges and search, all.
    pub async fn discovered_count(
        &self,
        environment: EnvironmentId,
        search: &DiscoveredSearch,
        order: DiscoveredOrder,
        span: &Span,
    ) -> Result<i64> {
        let list = search.list(order);
        self.rows_count::<ListedRow>(environment, &list, span).await
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: who found some resources is looked for by these, not among all that were found.
    #[tokio::test]
    async fn finders_are_looked_for_by_what_they_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steward.db");
        let store = Store::open_sqlite(&path).await.unwrap();
        let sql = format!("EXPLAIN QUERY PLAN {}", finders_of(2));
        let rows: Vec<(i64, i64, i64, String)> = async {
            Ok::<_, crate::store::Error>(read!(store.db, pool => {
                let query = sqlx::query_as(&sql).bind("e").bind("a").bind("b");
                query.fetch_all(pool).await?
            }))
        }
        .await
        .unwrap();
        assert!(rows[0].3.contains("resource_id=?"), "{rows:?}");
    }
}
