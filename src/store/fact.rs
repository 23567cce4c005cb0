//! Facts of resources, and parameters, which are facts of no resource. Source: docs/reference/deployment.md § 5.7.

use serde_json::Value;

use super::macros::{read, row, transaction, write};
use super::{Result, Store, document, storable};
use crate::domain::{EnvironmentId, FactSource, ResourceId, Timestamp, VersionNumber};

#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// `None`: a parameter.
    pub resource_id: Option<ResourceId>,
    pub name: String,
    pub value: String,
    pub source: FactSource,
    pub metadata: Value,
    pub expires: bool,
    pub updated: Timestamp,
}

row! {
    struct Row {
        resource_id: String,
        name: String,
        value: String,
        source: String,
        metadata: String,
        expires: bool,
        updated_us: i64,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT resource_id, name, value, source, metadata, expires, updated_us FROM fact \
             WHERE environment_id = $1 ",
            $rest
        )
    };
}

/// Facts that a resource may have, and parameters that an environment may have: a handler that makes up a new name in each
/// run would fill the database otherwise.
pub(super) const MAX_OF_ONE: i64 = 5000;
/// Bytes of all values that one resource may have, and of all parameters: a compile gets all that are known.
pub(super) const MAX_BYTES_OF_ONE: i64 = 4 << 20;

/// Written for whatever a run or a user says. What a run says keeps the metadata. Writes nothing when there would be more
/// than $9 of the resource, or they would take more than $10 bytes.
pub(super) const SET: &str = "INSERT INTO fact (environment_id, resource_id, name, value, expires, updated_us, source, \
                              metadata) SELECT $1, $2, $3, $4, $5, $6, $7, COALESCE($8, '{}') \
                              WHERE (SELECT COUNT(*) < $9 AND COALESCE(SUM(LENGTH(value)), 0) + LENGTH($4) <= $10 \
                              FROM fact WHERE environment_id = $1 AND resource_id = $2 AND name <> $3) ON CONFLICT (environment_id, resource_id, name) DO UPDATE SET value = excluded.value, \
                              expires = excluded.expires, updated_us = excluded.updated_us, source = excluded.source, \
                              metadata = COALESCE($8, fact.metadata)";

fn too_many(fact: &Fact) -> String {
    let whose = match fact.resource_id {
        None => "the environment has too many parameters",
        Some(_) => "the resource has too many facts",
    };
    format!(
        "{whose}; the limit is {MAX_OF_ONE}, and {} MiB for their values: delete some that are not needed",
        MAX_BYTES_OF_ONE >> 20
    )
}

/// A parameter is a fact of the resource with the empty id.
fn stored_id(resource_id: Option<&ResourceId>) -> &str {
    resource_id.map_or("", ResourceId::as_str)
}

impl Row {
    fn into_fact(self) -> Result<Fact> {
        Ok(Fact {
            metadata: document("fact", "metadata", &self.name, &self.metadata)?,
            resource_id: Some(self.resource_id)
                .filter(|id| !id.is_empty())
                .map(ResourceId::new),
            name: self.name,
            value: self.value,
            // Older servers took any word from a handler.
            source: FactSource::parse(&self.source).unwrap_or(FactSource::Fact),
            expires: self.expires,
            updated: Timestamp(self.updated_us),
        })
    }
}

impl Store {
    /// Facts of all resources and all parameters, by resource and name.
    pub async fn fact_list(&self, environment: EnvironmentId) -> Result<Vec<Fact>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("ORDER BY resource_id, name"))
                .bind(environment.to_string())
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_fact).collect()
    }

    /// The facts of one resource, or the parameters for `None`, by name.
    pub async fn fact_list_of(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
    ) -> Result<Vec<Fact>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("AND resource_id = $2 ORDER BY name"))
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_fact).collect()
    }

    pub async fn fact_fetch(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
        name: &str,
    ) -> Result<Option<Fact>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("AND resource_id = $2 AND name = $3"))
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .bind(name)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_fact).transpose()
    }

    /// Writes a fact; whether its value is another one now.
    pub async fn fact_set(&self, environment: EnvironmentId, fact: &Fact) -> Result<bool> {
        let changed = self
            .facts_set(environment, std::slice::from_ref(fact))
            .await?;
        Ok(changed.first() == Some(&true))
    }

    /// Writes all facts or none; whether the value of each is another one now.
    ///
    /// # Errors
    /// [`super::Error::Conflict`] for more than a resource may have.
    pub async fn facts_set(&self, environment: EnvironmentId, facts: &[Fact]) -> Result<Vec<bool>> {
        const OLD: &str =
            "SELECT value FROM fact WHERE environment_id = $1 AND resource_id = $2 AND name = $3";
        let environment = environment.to_string();
        Ok(transaction!(self.db, tx => {
            let mut changed = Vec::with_capacity(facts.len());
            for fact in facts {
                let value = storable(&fact.value);
                let old: Option<(String,)> = sqlx::query_as(OLD)
                    .bind(&environment)
                    .bind(stored_id(fact.resource_id.as_ref()))
                    .bind(&fact.name)
                    .fetch_optional(&mut *tx)
                    .await?;
                let set = sqlx::query(SET)
                    .bind(&environment)
                    .bind(stored_id(fact.resource_id.as_ref()))
                    .bind(storable(&fact.name))
                    .bind(&value)
                    .bind(fact.expires)
                    .bind(fact.updated.0)
                    .bind(fact.source.as_str())
                    .bind(Some(fact.metadata.to_string()))
                    .bind(MAX_OF_ONE)
                    .bind(MAX_BYTES_OF_ONE)
                    .execute(&mut *tx)
                    .await?;
                if set.rows_affected() == 0 {
                    return Err(super::Error::Conflict(too_many(fact)));
                }
                changed.push(old.is_none_or(|(old,)| old != value));
            }
            changed
        }))
    }

    /// `false`: there was none.
    pub async fn fact_delete(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
        name: &str,
    ) -> Result<bool> {
        const SQL: &str =
            "DELETE FROM fact WHERE environment_id = $1 AND resource_id = $2 AND name = $3";
        let n_deleted = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .bind(name)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_deleted > 0)
    }

    /// Resources with a fact that may expire and was last told before `before`.
    pub async fn fact_outdated(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
    ) -> Result<Vec<ResourceId>> {
        const SQL: &str = "SELECT DISTINCT resource_id FROM fact WHERE environment_id = $1 AND resource_id <> '' \
                           AND expires = TRUE AND updated_us < $2 ORDER BY resource_id";
        let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(before.0).fetch_all(pool).await?
        });
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}

impl Store {
    /// The facts that the model of a version asked for and did not get: resource and name.
    pub async fn fact_unknowns(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<(ResourceId, String)>> {
        #[derive(serde::Deserialize)]
        struct Unknown {
            resource: ResourceId,
            parameter: String,
        }
        const SQL: &str = "SELECT unknowns FROM version WHERE environment_id = $1 AND number = $2";
        let row: Option<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(version)
                .fetch_optional(pool)
                .await?
        });
        let Some((text,)) = row else {
            return Ok(Vec::new());
        };
        let unknowns: Vec<Unknown> = document("version", "unknowns", &version.to_string(), &text)?;
        let pairs = unknowns
            .into_iter()
            .map(|unknown| (unknown.resource, unknown.parameter));
        Ok(pairs.collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, environment};
    use super::super::{ActionEnd, Discovered};
    use super::Fact;
    use crate::domain::{ActionId, Change, FactSource, ResourceId, ResourceStatus, Timestamp};

    fn fact(resource_id: &str, value: &str) -> Fact {
        Fact {
            resource_id: (!resource_id.is_empty()).then(|| ResourceId::new(resource_id)),
            name: "f".into(),
            value: value.into(),
            source: FactSource::User,
            metadata: json!({"a": 1}),
            expires: true,
            updated: Timestamp(5),
        }
    }

    fn end(resource_id: &str, value: &str, change: Change, found: &str) -> ActionEnd {
        ActionEnd {
            id: ActionId::generate(),
            finished: Timestamp(9),
            status: ResourceStatus::Deployed,
            change,
            changes: "{}".into(),
            messages: "[]".into(),
            state: None,
            facts: vec![("f".into(), value.into(), false)],
            discovered: vec![("t::R[a,n=x]".into(), json!({"found": found}).to_string())],
            resource_id: ResourceId::new(resource_id),
        }
    }

    #[tokio::test]
    async fn facts_are_told_by_runs_and_users_and_go_with_their_resource() {
        check(|store| async move {
            let id = environment(&store).await;
            let (one, none) = ("t::R[a,n=1]", "");
            for (resource, value, is_new) in [
                (one, "x", true),
                (one, "x", false),
                (one, "y", true),
                (none, "p", true),
            ] {
                let set = store.fact_set(id, &fact(resource, value)).await.unwrap();
                assert_eq!(set, is_new, "{resource} {value}");
            }
            assert_eq!(
                store.fact_list_of(id, None).await.unwrap(),
                [fact(none, "p")]
            );
            let outdated = async |at| store.fact_outdated(id, Timestamp(at)).await.unwrap();
            assert_eq!(
                (outdated(5).await, outdated(6).await),
                (vec![], vec![ResourceId::new(one)])
            );
            // A run's word is newer, may not expire, and leaves the metadata.
            store
                .action_write(id, &[], &[end(one, "z", Change::NoChange, "1")])
                .await
                .unwrap();
            let reported = Fact {
                source: FactSource::Fact,
                expires: false,
                updated: Timestamp(9),
                ..fact(one, "z")
            };
            assert_eq!(
                store
                    .fact_fetch(id, Some(&ResourceId::new(one)), "f")
                    .await
                    .unwrap(),
                Some(reported)
            );
            assert!(outdated(100).await.is_empty());
            store
                .action_write(id, &[], &[end(one, "last", Change::Purged, "2")])
                .await
                .unwrap();
            assert_eq!(store.fact_list(id).await.unwrap(), [fact(none, "p")]);
            assert!(store.fact_delete(id, None, "f").await.unwrap());
            assert!(!store.fact_delete(id, None, "f").await.unwrap());
            // The newest report of what was found counts.
            let found = Discovered {
                resource_id: ResourceId::new("t::R[a,n=x]"),
                values: json!({"found": "2"}),
                discovery_resource_id: ResourceId::new(one),
                discovered: Timestamp(9),
            };
            assert_eq!(store.discovered_list(id).await.unwrap(), [found]);
        })
        .await;
    }
}
