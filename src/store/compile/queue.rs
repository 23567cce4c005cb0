//! Which queued compile is next, and which others it does the work of.

use super::{Compile, Row};
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, transaction, write};
use crate::store::{Result, Store};

/// Which compiles of an environment are run beside which: those of one lane one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Those that may store a version.
    Exports,
    /// Validations of service instances, which change no version.
    Validations,
}

impl Lane {
    pub(crate) fn has(self, compile: &Compile) -> bool {
        compile.is_validation() == (self == Self::Validations)
    }
}

impl Lane {
    /// The statement for the oldest of the queue that are looked at together. A validation has nothing to be merged with; and a
    /// thousand requests in one run are enough, whatever waits.
    fn oldest(self) -> &'static str {
        match self {
            Self::Exports => super::select!(
                "WHERE environment_id = $1 AND state = 'queued' AND (purpose IS NULL OR purpose <> 'validation') \
                 ORDER BY requested_us, id LIMIT 1000"
            ),
            Self::Validations => super::select!(
                "WHERE environment_id = $1 AND state = 'queued' AND purpose = 'validation' \
                 ORDER BY requested_us, id LIMIT 1"
            ),
        }
    }
}

impl Compile {
    /// Whether one run serves both requests. Source: docs/reference/deployment.md § 6.3 "Coalescing",
    /// docs/reference/lsm.md § 3.8.
    fn merges_with(&self, other: &Self, is_batching: bool) -> bool {
        let services = match (&self.services, &other.services) {
            (None, None) => true,
            (Some(one), Some(other)) => one.merges_with(other, is_batching),
            _ => false,
        };
        services && self.do_export == other.do_export && self.variables == other.variables
    }
}

impl Store {
    /// Takes the oldest queued compile of a lane of an environment, with all others that one run can serve, and marks them
    /// running. The first is the one to run; it is `update` when any is, and asks for what all of them ask for.
    ///
    /// `is_batching`: partial compiles of different service instances are made one, too.
    pub async fn compile_claim(
        &self,
        environment: EnvironmentId,
        lane: Lane,
        is_batching: bool,
    ) -> Result<Vec<Compile>> {
        const MARK: &str = "UPDATE compile SET state = 'running', started_us = $2, attempts = attempts + 1 \
                            WHERE id = $1 AND state = 'queued'";
        const JOIN: &str = "UPDATE compile SET instances = $2, removed_sets = $3 WHERE id = $1";
        let environment = environment.to_string();
        let now = Timestamp::now().0;
        Ok(transaction!(self.db, repeatable true, tx => {
            let rows: Vec<Row> = sqlx::query_as(lane.oldest())
                .bind(&environment)
                .fetch_all(&mut *tx)
                .await?;
            let mut queued = Vec::with_capacity(rows.len());
            for row in rows {
                queued.push(row.into_compile()?);
            }
            let claimed = merged(queued, is_batching);
            for compile in &claimed {
                sqlx::query(MARK).bind(compile.id.to_string()).bind(now).execute(&mut *tx).await?;
            }
            if let Some((first, services)) =
                claimed.first().and_then(|first| Some((first, first.services.as_ref()?)))
                && claimed.len() > 1
            {
                // Reports show what the run is for.
                sqlx::query(JOIN)
                    .bind(first.id.to_string())
                    .bind(serde_json::json!(services.instances).to_string())
                    .bind(serde_json::json!(services.removed_sets).to_string())
                    .execute(&mut *tx)
                    .await?;
            }
            let started = |compile: Compile| Compile {
                started: Some(Timestamp(now)),
                attempts: compile.attempts + 1,
                ..compile
            };
            claimed.into_iter().map(started).collect()
        }))
    }

    /// Whether validations of service instances wait for their turn.
    pub async fn compile_validations_wait(&self, environment: EnvironmentId) -> Result<bool> {
        const SQL: &str = "SELECT id FROM compile WHERE environment_id = $1 AND state = 'queued' AND purpose = 'validation' \
                           ORDER BY requested_us, id LIMIT 1";
        let waiting: Option<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_optional(pool).await?
        });
        Ok(waiting.is_some())
    }

    /// After a cut: what was running in a lane of this environment is queued again, under the same request. Only who runs the
    /// lane may call it, and runs nothing then.
    pub async fn compile_requeue_interrupted(
        &self,
        environment: EnvironmentId,
        lane: Lane,
    ) -> Result<u64> {
        const SQL: &str = "UPDATE compile SET state = 'queued', started_us = NULL \
                           WHERE environment_id = $1 AND state = 'running' \
                           AND ((COALESCE(purpose, '') = 'validation') = $2)";
        Ok(write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(lane == Lane::Validations)
                .execute(pool)
                .await?
                .rows_affected()
        }))
    }
}

/// The first, with all that merges with it; it then asks for what all of them ask for.
fn merged(queued: Vec<Compile>, is_batching: bool) -> Vec<Compile> {
    let mut claimed: Vec<Compile> = Vec::new();
    for compile in queued {
        match claimed.first_mut() {
            None => {}
            Some(first) if first.merges_with(&compile, is_batching) => {
                first.update |= compile.update;
                if let (Some(all), Some(more)) = (&mut first.services, &compile.services) {
                    all.join(more);
                }
            }
            Some(_) => continue,
        }
        claimed.push(compile);
    }
    claimed
}
