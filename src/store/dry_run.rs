//! Dry runs and what they found. Source: docs/reference/deployment.md § 5.10.

use serde_json::Value;

use super::macros::{read, transaction, write};
use super::{Result, Store, document, parsed};
use crate::domain::{DryRunId, DryRunStatus, EnvironmentId, ResourceId, Timestamp, VersionNumber};

#[derive(Debug, Clone)]
pub struct DryRun {
    pub id: DryRunId,
    pub version: VersionNumber,
    pub requested: Timestamp,
    pub total: i64,
    /// How many resources are still to be looked at.
    pub todo: i64,
}

#[derive(Debug, Clone)]
pub struct DryRunResult {
    pub resource_id: ResourceId,
    /// `changes`, or why there are none: `undefined`, `skipped_for_undefined`, `agent_down`, `skipped`.
    pub status: DryRunStatus,
    /// attribute → {current, desired}; of a skipped resource `reason`.
    pub changes: Value,
}

impl Store {
    /// Creates a dry run with the results that are known beforehand.
    pub async fn dry_run_create(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        total: i64,
        known: &[(ResourceId, DryRunStatus)],
    ) -> Result<DryRunId> {
        const SQL: &str = "INSERT INTO dry_run (id, environment_id, version, requested_us, total) VALUES ($1, $2, $3, $4, $5)";
        let id = DryRunId::generate();
        let (text, now) = (id.to_string(), Timestamp::now().0);
        transaction!(self.db, tx => {
            sqlx::query(SQL)
                .bind(&text)
                .bind(environment.to_string())
                .bind(version)
                .bind(now)
                .bind(total)
                .execute(&mut *tx)
                .await?;
            for (resource_id, status) in known {
                sqlx::query(RESULT).bind(&text).bind(resource_id).bind(status.as_str()).bind("{}").execute(&mut *tx).await?;
            }
        });
        Ok(id)
    }

    /// Records one result; the first one wins.
    pub async fn dry_run_result(
        &self,
        id: DryRunId,
        resource_id: &ResourceId,
        status: DryRunStatus,
        changes: &str,
    ) -> Result<()> {
        write!(self.db, pool => {
            sqlx::query(RESULT).bind(id.to_string()).bind(resource_id).bind(status.as_str()).bind(changes).execute(pool).await?.rows_affected()
        });
        Ok(())
    }

    /// The dry runs of a version, newest first.
    pub async fn dry_run_list(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<DryRun>> {
        const SQL: &str = "SELECT d.id, d.version, d.requested_us, d.total, (SELECT COUNT(*) FROM dry_run_result r \
                           WHERE r.dry_run_id = d.id) FROM dry_run d WHERE d.environment_id = $1 AND d.version = $2 \
                           ORDER BY d.requested_us DESC";
        let rows: Vec<(String, VersionNumber, i64, i64, i64)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(version).fetch_all(pool).await?
        });
        let dry_run =
            |(id, version, requested, total, done): (String, VersionNumber, i64, i64, i64)| {
                let id = parsed("dry_run", "id", &id)?;
                Ok(DryRun {
                    id,
                    version,
                    requested: Timestamp(requested),
                    total,
                    todo: (total - done).max(0),
                })
            };
        rows.into_iter().map(dry_run).collect()
    }

    /// The dry runs that lack results, with their versions, oldest first.
    pub async fn dry_run_unfinished(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<(DryRunId, VersionNumber)>> {
        const SQL: &str = "SELECT d.id, d.version FROM dry_run d WHERE d.environment_id = $1 AND d.total > \
                           (SELECT COUNT(*) FROM dry_run_result r WHERE r.dry_run_id = d.id) ORDER BY d.requested_us";
        let rows: Vec<(String, VersionNumber)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        let row =
            |(id, version): (String, VersionNumber)| Ok((parsed("dry_run", "id", &id)?, version));
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

const RESULT: &str = "INSERT INTO dry_run_result (dry_run_id, resource_id, status, changes) VALUES ($1, $2, $3, $4) \
                      ON CONFLICT (dry_run_id, resource_id) DO NOTHING";
