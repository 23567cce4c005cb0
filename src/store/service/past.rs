//! What of the history of instances is removed when it is old: events, records of versions, and instances that have ended.
//!
//! Nothing is removed that something may still ask for: of an instance that there is the last [`KEPT_VERSIONS`] versions stay,
//! with the transfers that led to them, however old they are, and of one that an order in progress is about everything, since an
//! order tells from it how its item ended. An instance that has ended stays as long as one that has not names it.
//! Source: docs/reference/lsm.md § 5.7.

use std::collections::HashSet;

use sqlx::{PgConnection, SqliteConnection};
use uuid::Uuid;

use super::count::Counted;
use super::event::History;
use super::instance::Instances;
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, row, transaction, write};
use crate::store::pieces::in_pieces;
use crate::store::version::on_both;
use crate::store::{Result, Store, parsed};

/// Versions of an instance whose records stay, however old they are.
const KEPT_VERSIONS: i64 = 10;
/// Instances that are looked at in one statement.
const LOOKED_AT: i64 = 500;
/// Rows that are removed in one statement: others want to write meanwhile.
const REMOVED_AT_ONCE: i64 = 1000;

row! {
    /// An instance, and what of it is old.
    struct Old {
        id: String,
        version: i64,
        is_ended: bool,
        has_records: bool,
        has_events: bool,
    }
}

impl Old {
    /// The version up to which records go.
    fn last_version(&self) -> i64 {
        self.version - KEPT_VERSIONS
    }
}

/// Removes instances on a connection.
trait Ended {
    /// Removes an instance, unless it has moved since that moment or one that has not ended needs it.
    async fn ended_remove(
        &mut self,
        environment: EnvironmentId,
        id: Uuid,
        before: Timestamp,
        lock: &str,
    ) -> Result<bool>;
}

on_both! {
    Ended {
        async fn ended_remove(
            &mut self,
            environment: EnvironmentId,
            id: Uuid,
            before: Timestamp,
            lock: &str,
        ) -> Result<bool> {
            const NAMED: &str = "SELECT s.id FROM service_reference r JOIN service_instance s \
                                 ON s.environment_id = r.environment_id AND s.id = r.source_id \
                                 WHERE r.environment_id = $1 AND r.target_id = $2 AND s.is_deleted = FALSE \
                                 UNION ALL SELECT id FROM service_instance \
                                 WHERE environment_id = $1 AND owner_id = $2 AND is_deleted = FALSE LIMIT 1";
            let found = self.instance_locked(environment, id, lock).await?;
            let Some(instance) = found.filter(|found| found.deleted && found.last_updated.0 < before.0) else {
                return Ok(false);
            };
            let named: Option<(String,)> = sqlx::query_as(NAMED)
                .bind(environment.to_string())
                .bind(id.to_string())
                .fetch_optional(&mut *self)
                .await?;
            if named.is_some() {
                return Ok(false);
            }
            self.instance_remove(environment, id).await?;
            self.events_pass(environment, id).await?;
            self.count_move(Some(&instance), None).await?;
            Ok(true)
        }
    }
}

impl Store {
    /// Removes what of the history of instances is older than `before` and not needed; gives how many rows went.
    pub async fn service_history_purge(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
    ) -> Result<u64> {
        let mut after = String::new();
        let mut n_removed = 0;
        loop {
            let page = self
                .service_history_page(environment, before, &after)
                .await?;
            let Some(last) = page.last() else { break };
            after.clone_from(&last.id);
            // Asked for each time: an order that begins later is about later versions.
            let open = self.orders_open(environment).await?;
            let open: HashSet<String> = open.iter().map(|(_, id)| id.to_string()).collect();
            for old in page.iter().filter(|old| !open.contains(&old.id)) {
                n_removed += self
                    .service_history_remove(environment, before, old)
                    .await?;
            }
        }
        const PAST: &str = "DELETE FROM service_instance_event WHERE id IN (SELECT id FROM service_instance_event \
                            WHERE environment_id = $1 AND is_past AND timestamp_us < $2 LIMIT $3)";
        let n_past = in_pieces(REMOVED_AT_ONCE, || async {
            Ok(write!(self.db, pool => {
                sqlx::query(PAST)
                    .bind(environment.to_string())
                    .bind(before.0)
                    .bind(REMOVED_AT_ONCE)
                    .execute(pool)
                    .await?
                    .rows_affected()
            }))
        });
        Ok(n_removed + n_past.await?)
    }

    /// The next instances in the order of their ids, and which of them have something old. Two look-ups for each: of its
    /// oldest record and its oldest events.
    async fn service_history_page(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
        after: &str,
    ) -> Result<Vec<Old>> {
        const SQL: &str = "SELECT i.id, i.version, i.is_deleted AND i.updated_us < $2 AS is_ended, \
            COALESCE((SELECT l.timestamp_us < $2 AND l.version <= i.version - $3 FROM service_instance_log l \
                WHERE l.environment_id = $1 AND l.instance_id = i.id ORDER BY l.version LIMIT 1), FALSE) AS has_records, \
            (SELECT e.id FROM service_instance_event e \
                WHERE e.environment_id = $1 AND e.instance_id = i.id AND e.timestamp_us < $2 \
                AND (e.destination IS NULL OR e.is_ignored OR e.instance_version < i.version - $3) LIMIT 1) IS NOT NULL \
                AS has_events \
            FROM service_instance i WHERE i.environment_id = $1 AND i.id > $4 ORDER BY i.id LIMIT $5";
        Ok(read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(before.0)
                .bind(KEPT_VERSIONS)
                .bind(after)
                .bind(LOOKED_AT)
                .fetch_all(pool)
                .await?
        }))
    }

    /// Removes what of an instance is old: all of it, if it has ended.
    async fn service_history_remove(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
        old: &Old,
    ) -> Result<u64> {
        const RECORDS: &str = "DELETE FROM service_instance_log WHERE environment_id = $1 AND instance_id = $2 \
                               AND version IN (SELECT version FROM service_instance_log WHERE environment_id = $1 \
                               AND instance_id = $2 AND timestamp_us < $3 AND version <= $4 ORDER BY version LIMIT $5)";
        const EVENTS: &str = "DELETE FROM service_instance_event WHERE id IN (SELECT id FROM service_instance_event \
                              WHERE environment_id = $1 AND instance_id = $2 AND timestamp_us < $3 \
                              AND (destination IS NULL OR is_ignored OR instance_version < $4) LIMIT $5)";
        let mut n_removed = 0;
        let statements = [(RECORDS, old.has_records), (EVENTS, old.has_events)];
        for (sql, _) in statements.iter().filter(|(_, is_needed)| *is_needed) {
            let n_old = in_pieces(REMOVED_AT_ONCE, || async {
                Ok(write!(self.db, pool => {
                    sqlx::query(sql)
                        .bind(environment.to_string())
                        .bind(&old.id)
                        .bind(before.0)
                        .bind(old.last_version())
                        .bind(REMOVED_AT_ONCE)
                        .execute(pool)
                        .await?
                        .rows_affected()
                }))
            });
            n_removed += n_old.await?;
        }
        if old.is_ended {
            let id: Uuid = parsed("service_instance", "id", &old.id)?;
            let _telling = self.remembered.telling(environment, Some(id));
            let is_removed = transaction!(self.db, tx => {
                tx.ended_remove(environment, id, before, self.exclusive()).await?
            });
            n_removed += u64::from(is_removed);
        }
        Ok(n_removed)
    }
}

#[cfg(test)]
mod tests;
