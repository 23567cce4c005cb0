//! Dry runs and what they found. Source: docs/reference/deployment.md § 5.10.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::macros::{read, row, transaction};
use super::state::ROWS;
use super::version::ALONE;
use super::{Error, Result, Store, document, parsed};
use crate::domain::{DryRunId, DryRunStatus, EnvironmentId, ResourceId, Timestamp, VersionNumber};

#[derive(Debug, Clone)]
pub struct DryRun {
    pub id: DryRunId,
    pub version: VersionNumber,
    pub requested: Timestamp,
    pub total: i64,
    /// How many resources are still to be looked at.
    pub todo: i64,
    pub note: DryRunNote,
}

/// What a client asked with, which it reads again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DryRunNote {
    /// How the resources were chosen, as it was sent.
    pub resource_filter: Option<Value>,
    /// What the client keeps with the dry run, an object of its own.
    pub context: Option<Value>,
}

#[derive(Debug, Clone)]
pub struct DryRunResult {
    pub resource_id: ResourceId,
    /// `changes`, or why there are none: `undefined`, `skipped_for_undefined`, `agent_down`, `skipped`.
    pub status: DryRunStatus,
    /// attribute → {current, desired}; of a skipped resource `reason`.
    pub changes: Value,
}

/// What a dry run found of one resource, to be written.
#[derive(Debug, Clone)]
pub struct Compared {
    pub dry_run: DryRunId,
    pub resource_id: ResourceId,
    pub status: DryRunStatus,
    /// JSON, as [`DryRunResult::changes`].
    pub changes: String,
}

/// Which resources of its version a dry run is about.
#[derive(Debug, Clone, Copy)]
pub enum About<'a> {
    /// All, so many.
    All(i64),
    Some(&'a [ResourceId]),
}

/// A dry run that lacks results.
#[derive(Debug, Clone)]
pub struct UnfinishedDryRun {
    pub id: DryRunId,
    pub version: VersionNumber,
    /// `None`: it is about all resources of the version.
    pub ids: Option<BTreeSet<ResourceId>>,
}

impl Store {
    /// Creates a dry run with the results that are known beforehand.
    ///
    /// # Errors
    /// [`Error::NotFound`]: the version was deleted meanwhile.
    pub async fn dry_run_create(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        about: About<'_>,
        known: &[(ResourceId, DryRunStatus)],
        note: &DryRunNote,
    ) -> Result<DryRunId> {
        const SQL: &str = "INSERT INTO dry_run (id, environment_id, version, requested_us, total, resource_ids, n_results, \
                           resource_filter, context) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        const VERSION: &str =
            "SELECT number FROM version WHERE environment_id = $1 AND number = $2";
        let id = DryRunId::generate();
        let (text, now) = (id.to_string(), Timestamp::now().0);
        let (total, ids) = match about {
            About::All(n_resources) => (n_resources, None),
            About::Some(ids) => (ids.len() as i64, Some(serde_json::json!(ids).to_string())),
        };
        let environment = environment.to_string();
        transaction!(self.db, tx => {
            sqlx::query(ALONE).bind(&environment).execute(&mut *tx).await?;
            let found: Option<(VersionNumber,)> =
                sqlx::query_as(VERSION).bind(&environment).bind(version).fetch_optional(&mut *tx).await?;
            if found.is_none() {
                return Err(Error::NotFound(format!("version {version}")));
            }
            sqlx::query(SQL)
                .bind(&text)
                .bind(&environment)
                .bind(version)
                .bind(now)
                .bind(total)
                .bind(ids.as_deref())
                .bind(known.len() as i64)
                .bind(note.resource_filter.as_ref().map(Value::to_string))
                .bind(note.context.as_ref().map(Value::to_string))
                .execute(&mut *tx)
                .await?;
            for chunk in known.chunks(ROWS) {
                let mut insert = sqlx::QueryBuilder::new("INSERT INTO dry_run_result (dry_run_id, resource_id, status, changes) ");
                insert.push_values(chunk, |mut row, (resource_id, status)| {
                    row.push_bind(&text).push_bind(resource_id).push_bind(status.as_str()).push_bind("{}");
                });
                insert.push(" ON CONFLICT (dry_run_id, resource_id) DO NOTHING");
                insert.build().persistent(false).execute(&mut *tx).await?;
            }
        });
        Ok(id)
    }

    /// Records results; the first one of a resource wins. Those of dry runs that are gone are dropped.
    pub async fn dry_run_write(&self, compared: &[Compared]) -> Result<()> {
        const COUNT: &str = "UPDATE dry_run SET n_results = n_results + $2 WHERE id = $1";
        if compared.is_empty() {
            return Ok(());
        }
        let mut of_run: BTreeMap<String, Vec<&Compared>> = BTreeMap::new();
        for one in compared {
            of_run.entry(one.dry_run.to_string()).or_default().push(one);
        }
        transaction!(self.db, tx => {
            for (id, compared) in &of_run {
                let mut n_new = 0;
                for chunk in compared.chunks(ROWS) {
                    // One that comes late may be of a dry run that was deleted with its version.
                    let mut insert = sqlx::QueryBuilder::new(
                        "INSERT INTO dry_run_result (dry_run_id, resource_id, status, changes) \
                         SELECT run.id, new.column1, new.column2, new.column3 FROM dry_run run CROSS JOIN (",
                    );
                    insert.push_values(chunk, |mut row, one| {
                        row.push_bind(&one.resource_id).push_bind(one.status.as_str()).push_bind(&one.changes);
                    });
                    insert.push(") AS new WHERE run.id = ").push_bind(id);
                    insert.push(" ON CONFLICT (dry_run_id, resource_id) DO NOTHING");
                    let written = insert.build().persistent(false).execute(&mut *tx).await?;
                    n_new += written.rows_affected() as i64;
                }
                sqlx::query(COUNT).bind(id).bind(n_new).execute(&mut *tx).await?;
            }
        });
        Ok(())
    }

    /// The dry runs of a version, newest first.
    pub async fn dry_run_list(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<DryRun>> {
        let mut all = self.dry_run_all(environment).await?;
        all.retain(|one| one.version == version);
        Ok(all)
    }

    /// All dry runs of an environment, newest first.
    pub async fn dry_run_all(&self, environment: EnvironmentId) -> Result<Vec<DryRun>> {
        const SQL: &str = "SELECT id, version, requested_us, total, n_results, resource_filter, context FROM dry_run \
                           WHERE environment_id = $1 ORDER BY requested_us DESC";
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        rows.into_iter().map(dry_run).collect()
    }

    /// The dry runs that lack results, oldest first.
    pub async fn dry_run_unfinished(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<UnfinishedDryRun>> {
        const SQL: &str = "SELECT id, version, resource_ids FROM dry_run WHERE environment_id = $1 AND total > n_results \
                           ORDER BY requested_us";
        let rows: Vec<(String, VersionNumber, Option<String>)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        let row = |(id, version, ids): (String, VersionNumber, Option<String>)| {
            let ids = ids.as_deref();
            Ok(UnfinishedDryRun {
                id: parsed("dry_run", "id", &id)?,
                version,
                ids: ids
                    .map(|text| document("dry_run", "resource_ids", &id, text))
                    .transpose()?,
            })
        };
        rows.into_iter().map(row).collect()
    }

    /// What a dry run found, sorted by resource id.
    pub async fn dry_run_results(&self, id: DryRunId) -> Result<Vec<DryRunResult>> {
        const SQL: &str = "SELECT resource_id, status, changes FROM dry_run_result WHERE dry_run_id = $1 ORDER BY resource_id";
        let rows: Vec<(ResourceId, String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(id.to_string()).fetch_all(pool).await?
        });
        let result = |(resource_id, status, changes): (ResourceId, String, String)| {
            let changes = document("dry_run_result", "changes", resource_id.as_str(), &changes)?;
            let status = status.parse().map_err(|_| super::Error::Row {
                table: "dry_run_result",
                column: "status",
                id: resource_id.to_string(),
            })?;
            Ok(DryRunResult {
                resource_id,
                status,
                changes,
            })
        };
        rows.into_iter().map(result).collect()
    }
}

row! {
    struct Row {
        id: String,
        version: VersionNumber,
        requested_us: i64,
        total: i64,
        n_results: i64,
        resource_filter: Option<String>,
        context: Option<String>,
    }
}

fn dry_run(row: Row) -> Result<DryRun> {
    let Row {
        id,
        version,
        requested_us,
        total,
        n_results,
        resource_filter,
        context,
    } = row;
    let object = |column, text: Option<String>| {
        text.map(|text| document("dry_run", column, &id, &text))
            .transpose()
    };
    Ok(DryRun {
        note: DryRunNote {
            resource_filter: object("resource_filter", resource_filter)?,
            context: object("context", context)?,
        },
        id: parsed("dry_run", "id", &id)?,
        version,
        requested: Timestamp(requested_us),
        total,
        todo: total - n_results,
    })
}
