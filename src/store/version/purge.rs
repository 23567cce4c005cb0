//! What is removed when nobody needs it any more. Source: docs/reference/deployment.md § 2.7.

use crate::domain::{EnvironmentId, ResourceId, Timestamp, VersionNumber};
use crate::store::macros::{read, transaction, write};
use crate::store::pieces::{in_pieces, piece_sql};
use crate::store::state::{ROWS, counted, push_ids, status_sql};
use crate::store::{Result, Store};

/// Versions that may go, newest first: all but the one in force, and those that were released since. An engine that comes to one
/// of these compares the next one with it: what it had must be there until the next one is in force, or what that does not have
/// any more would stay for ever.
const OLD: &str = "SELECT number FROM version v WHERE environment_id = $1 \
                   AND number <> COALESCE((SELECT active_version FROM environment WHERE id = $1), -1) \
                   AND number <> COALESCE((SELECT MAX(number) FROM version WHERE environment_id = $1 \
                   AND released_us IS NOT NULL), -1) \
                   AND NOT (released_us IS NOT NULL AND number > COALESCE((SELECT active_version FROM environment \
                   WHERE id = $1), 9223372036854775807)) ORDER BY number DESC";

/// The row that storing a version takes first: the two never run side by side, or a version could lose a resource whose
/// content was taken for unused.
pub(in crate::store) const ALONE: &str =
    "UPDATE environment SET last_version = last_version WHERE id = $1";

/// A version, and what was found out by comparing targets with it: that can neither be gone on with nor understood without it.
const DELETE: [&str; 2] = [
    "DELETE FROM version WHERE environment_id = $1 AND number = $2",
    "DELETE FROM dry_run WHERE environment_id = $1 AND version = $2",
];

/// Rows that one transaction removes. Few in tests, so that these need several.
const AT_ONCE: i64 = if cfg!(test) { 7 } else { 5000 };

/// What of these was in the version `$2`, which is gone, and is in no other: it began after the version before that one, and
/// ended with the one after it at the latest. Rows that are open are the newest version's.
const OF_VERSIONS: [&str; 2] = ["desired_resource", "desired_set"];
const UNUSED: &str = "environment_id = $1 AND to_version < 9223372036854775807 \
                      AND to_version > COALESCE((SELECT MAX(number) FROM version \
                      WHERE environment_id = $1 AND number <= $2), 0) \
                      AND to_version <= COALESCE((SELECT MIN(number) FROM version \
                      WHERE environment_id = $1 AND number > $2), 9223372036854775806) \
                      AND from_version > COALESCE((SELECT MAX(number) FROM version \
                      WHERE environment_id = $1 AND number <= $2), 0)";

/// That no stored version has the resource of a fact.
macro_rules! is_of_no_resource {
    () => {
        " AND NOT EXISTS (SELECT 1 FROM desired_resource r WHERE r.environment_id = fact.environment_id \
         AND r.resource_id = fact.resource_id)"
    };
}

/// Tables with what is no longer looked at when it is older than `$2`.
const OUTDATED: [(&str, &str); 4] = [
    (
        "resource_action",
        "environment_id = $1 AND started_us < $2 AND finished_us IS NOT NULL",
    ),
    (
        "compile",
        "environment_id = $1 AND completed_us < $2 AND (version IS NULL OR NOT EXISTS (\
         SELECT 1 FROM version v WHERE v.environment_id = compile.environment_id AND v.number = compile.version)) \
         AND completed_us < (SELECT MAX(completed_us) FROM compile c WHERE c.environment_id = $1)",
    ),
    (
        "webhook_delivery",
        "environment_id = $1 AND received_us < $2",
    ),
    ("dry_run", "environment_id = $1 AND requested_us < $2"),
];

impl Store {
    /// Deletes versions beyond the newest `keep` besides the active and newest released one, with content that no other
    /// version has, their dry runs, and actions older than `actions_before`. Returns how many versions went.
    pub async fn version_purge(
        &self,
        environment: EnvironmentId,
        keep: usize,
        actions_before: Timestamp,
    ) -> Result<u64> {
        let id = environment.to_string();
        let gone = transaction!(self.db, tx => {
            sqlx::query(ALONE).bind(&id).execute(&mut *tx).await?;
            let rows: Vec<(VersionNumber,)> = sqlx::query_as(OLD).bind(&id).fetch_all(&mut *tx).await?;
            let old: Vec<VersionNumber> = rows.into_iter().skip(keep).map(|(number,)| number).collect();
            for number in &old {
                for sql in DELETE {
                    sqlx::query(sql).bind(&id).bind(number).execute(&mut *tx).await?;
                }
            }
            old
        });
        self.unused_remove(&id, &gone).await?;
        for (table, condition) in OUTDATED {
            let sql = piece_sql(&self.db, table, condition, AT_ONCE);
            let removed = in_pieces(AT_ONCE, || async {
                Ok(write!(self.db, pool => {
                    let query = sqlx::query(&sql).bind(&id).bind(actions_before.0);
                    query.execute(pool).await?.rows_affected()
                }))
            });
            removed.await?;
        }
        Ok(gone.len() as u64)
    }

    /// Removes what only these versions had, which are gone. What a crash leaves of it goes with the next version nearby:
    /// the oldest go first.
    async fn unused_remove(&self, environment: &str, gone: &[VersionNumber]) -> Result<()> {
        for (number, table) in gone
            .iter()
            .flat_map(|number| OF_VERSIONS.map(|table| (number, table)))
        {
            let sql = piece_sql(&self.db, table, UNUSED, AT_ONCE);
            let removed = in_pieces(AT_ONCE, || async {
                Ok(transaction!(self.db, tx => {
                    sqlx::query(ALONE).bind(environment).execute(&mut *tx).await?;
                    let query = sqlx::query(&sql).bind(environment).bind(number);
                    query.execute(&mut *tx).await?.rows_affected()
                }))
            });
            removed.await?;
        }
        if gone.is_empty() {
            return Ok(());
        }
        self.facts_remove(environment).await
    }

    /// Removes the facts of resources that no stored version has.
    async fn facts_remove(&self, environment: &str) -> Result<()> {
        const UNUSED: &str = concat!(
            "SELECT DISTINCT resource_id FROM fact WHERE environment_id = $1 AND resource_id > $2",
            is_of_no_resource!(),
            " ORDER BY resource_id LIMIT $3"
        );
        let mut after = ResourceId::new("");
        loop {
            let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                let query = sqlx::query_as(UNUSED).bind(environment).bind(&after);
                query.bind(ROWS as i64).fetch_all(pool).await?
            });
            let ids: Vec<ResourceId> = rows.into_iter().map(|(id,)| id).collect();
            let Some(last) = ids.last() else {
                return Ok(());
            };
            after = last.clone();
            transaction!(self.db, tx => {
                sqlx::query(ALONE).bind(environment).execute(&mut *tx).await?;
                let mut delete = sqlx::QueryBuilder::new("DELETE FROM fact WHERE environment_id = ");
                delete.push_bind(environment);
                // One may have come back since.
                delete.push(is_of_no_resource!());
                push_ids!(delete, &ids);
                delete.build().persistent(false).execute(&mut *tx).await?;
            });
        }
    }

    /// Deletes the states of resources that no stored version has, and gives how many there were. What was done to them
    /// stays as long as other history. Some at a time: a model whose ids change leaves any number of them behind, and
    /// whoever writes waits for each transaction.
    pub async fn orphan_purge(&self, environment: EnvironmentId) -> Result<u64> {
        /// That nothing of a state's resource is in a version that is stored.
        macro_rules! is_in_no_version {
            () => {
                " AND NOT EXISTS (SELECT 1 FROM desired_resource r WHERE r.environment_id = resource_state.environment_id \
                 AND r.resource_id = resource_state.resource_id)"
            };
        }
        const UNUSED: &str = concat!(
            "SELECT resource_id FROM resource_state WHERE environment_id = $1 AND resource_id > $2 AND ",
            status_sql!(),
            " = 'orphaned'",
            is_in_no_version!(),
            " ORDER BY resource_id LIMIT $3"
        );
        let id = environment.to_string();
        let (mut n_removed, mut after) = (0, ResourceId::new(""));
        loop {
            let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                sqlx::query_as(UNUSED).bind(&id).bind(&after).bind(ROWS as i64).fetch_all(pool).await?
            });
            let ids: Vec<ResourceId> = rows.into_iter().map(|(id,)| id).collect();
            let Some(last) = ids.last() else {
                return Ok(n_removed);
            };
            after = last.clone();
            n_removed += transaction!(self.db, tx => {
                sqlx::query(ALONE).bind(&id).execute(&mut *tx).await?;
                let n_removed;
                counted!(tx, &id, ids, {
                    let mut delete = sqlx::QueryBuilder::new("DELETE FROM resource_state WHERE environment_id = ");
                    delete.push_bind(&id);
                    // One may have come back since.
                    delete.push(concat!(" AND orphaned_after IS NOT NULL", is_in_no_version!()));
                    push_ids!(delete, &ids);
                    let delete = delete.build().persistent(false);
                    n_removed = delete.execute(&mut *tx).await?.rows_affected();
                });
                n_removed
            });
        }
    }

    /// Deletes one version, with its dry runs and what only it had.
    ///
    /// # Errors
    /// [`Error::NotFound`](crate::store::Error::NotFound);
    /// [`Error::Refused`](crate::store::Error::Refused) for the active and the newest released version.
    pub async fn version_delete(
        &self,
        environment: EnvironmentId,
        number: VersionNumber,
    ) -> Result<()> {
        use crate::store::Error;
        const EXISTS: &str = "SELECT number FROM version WHERE environment_id = $1 AND number = $2";
        let id = environment.to_string();
        transaction!(self.db, tx => {
            sqlx::query(ALONE).bind(&id).execute(&mut *tx).await?;
            let found: Option<(VersionNumber,)> =
                sqlx::query_as(EXISTS).bind(&id).bind(number).fetch_optional(&mut *tx).await?;
            if found.is_none() {
                return Err(Error::NotFound(format!("version {number}")));
            }
            let old: Vec<(VersionNumber,)> = sqlx::query_as(OLD).bind(&id).fetch_all(&mut *tx).await?;
            if !old.contains(&(number,)) {
                return Err(Error::Refused(format!(
                    "version {number} is in force, or was released since; only older versions and those that were not \
                     released are deleted"
                )));
            }
            for sql in DELETE {
                sqlx::query(sql).bind(&id).bind(number).execute(&mut *tx).await?;
            }
        });
        self.unused_remove(&id, &[number]).await
    }
}
