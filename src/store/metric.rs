//! What was measured of environments, minute by minute. Source: docs/reference/deployment.md § 7.2.

use std::collections::BTreeMap;

use super::macros::{read, transaction, write};
use super::state::AGENT_STATUS;
use super::{Result, Store};
use crate::domain::{EnvironmentId, Timestamp};

/// A value of one minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    pub name: String,
    /// Of a gauge: what was counted, such as a status; else empty.
    pub category: String,
    /// The end of the minute.
    pub minute: Timestamp,
    /// Of a gauge 1; of a timer how many there were.
    pub n_values: i64,
    /// Of a gauge what was counted; of a timer the microseconds of all together.
    pub total: i64,
}

/// How long compiles took that ended in a span of time, and how long those waited that began in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompileTimes {
    pub n_ended: i64,
    pub ran_us: i64,
    pub n_begun: i64,
    pub waited_us: i64,
}

impl Store {
    /// Of the span `from <= t < to`.
    pub async fn compile_times(
        &self,
        environment: EnvironmentId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<CompileTimes> {
        // Sums of whole numbers are NUMERIC in PostgreSQL.
        const ENDED: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(completed_us - started_us), 0) AS BIGINT) FROM compile \
                             WHERE environment_id = $1 AND completed_us >= $2 AND completed_us < $3 \
                             AND started_us IS NOT NULL AND substitute_compile_id IS NULL";
        const BEGUN: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(started_us - requested_us), 0) AS BIGINT) FROM compile \
                             WHERE environment_id = $1 AND started_us >= $2 AND started_us < $3 \
                             AND substitute_compile_id IS NULL";
        let environment = environment.to_string();
        let ((n_ended, ran_us), (n_begun, waited_us)): ((i64, i64), (i64, i64)) = read!(self.db, pool => {
            let ended = sqlx::query_as(ENDED).bind(&environment).bind(from.0).bind(to.0).fetch_one(pool).await?;
            let begun = sqlx::query_as(BEGUN).bind(&environment).bind(from.0).bind(to.0).fetch_one(pool).await?;
            (ended, begun)
        });
        Ok(CompileTimes {
            n_ended,
            ran_us,
            n_begun,
            waited_us,
        })
    }

    /// How many agents there are of each status that lists of agents show: `paused`, `down`, `up`.
    pub async fn agent_counts(&self, environment: EnvironmentId) -> Result<BTreeMap<String, i64>> {
        let sql = format!(
            "SELECT {AGENT_STATUS}, COUNT(*) FROM agent WHERE environment_id = $1 GROUP BY 1"
        );
        let rows: Vec<(String, i64)> = read!(self.db, pool => {
            sqlx::query_as(&sql).bind(environment.to_string()).fetch_all(pool).await?
        });
        Ok(rows.into_iter().collect())
    }

    /// Writes what was measured; what is there for a minute stays.
    pub async fn metrics_write(
        &self,
        environment: EnvironmentId,
        measured: &[Measurement],
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO environment_metric (environment_id, name, category, minute_us, n_values, total) \
                           VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        let environment = environment.to_string();
        transaction!(self.db, tx => {
            for one in measured {
                sqlx::query(SQL)
                    .bind(&environment)
                    .bind(&one.name)
                    .bind(&one.category)
                    .bind(one.minute.0)
                    .bind(one.n_values)
                    .bind(one.total)
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// What was measured under a name in the minutes that end in `from <= t < to`, in their order.
    pub async fn metrics_of(
        &self,
        environment: EnvironmentId,
        name: &str,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<Measurement>> {
        const SQL: &str = "SELECT category, minute_us, n_values, total FROM environment_metric WHERE environment_id = $1 \
                           AND name = $2 AND minute_us >= $3 AND minute_us < $4 ORDER BY minute_us, category";
        let rows: Vec<(String, i64, i64, i64)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(name)
                .bind(from.0)
                .bind(to.0)
                .fetch_all(pool)
                .await?
        });
        let measurement = |(category, minute, n_values, total)| Measurement {
            name: name.to_owned(),
            category,
            minute: Timestamp(minute),
            n_values,
            total,
        };
        Ok(rows.into_iter().map(measurement).collect())
    }

    /// Removes what was measured before a moment; gives how many values went.
    pub async fn metrics_purge(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
    ) -> Result<u64> {
        const SQL: &str =
            "DELETE FROM environment_metric WHERE environment_id = $1 AND minute_us < $2";
        Ok(write!(self.db, pool => {
            sqlx::query(SQL).bind(environment.to_string()).bind(before.0).execute(pool).await?.rows_affected()
        }))
    }
}
