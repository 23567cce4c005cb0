//! Which queued compile is next, and which others it does the work of.

use std::collections::HashMap;

use super::{Compile, Row};
use crate::domain::{CompileId, EnvironmentId, Timestamp};
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

/// Which partial compiles of different service instances are made one: all that wait, but for those of a batch that failed. Such
/// a batch is split in halves again and again until the instance that is to blame is alone; the others are exported.
///
/// It is not kept over a restart: a batch that fails then is split again.
#[derive(Debug, Default)]
pub struct CompileBatches {
    /// The halves, by their compiles; what is in none is part of no batch that failed.
    halves: HashMap<CompileId, u64>,
    n_halves: u64,
}

impl CompileBatches {
    fn may_join(&self, one: CompileId, other: CompileId) -> bool {
        self.halves.get(&one) == self.halves.get(&other)
    }

    /// A batch has failed: from now on its halves are made one each.
    pub fn split(&mut self, batch: &[Compile]) {
        let (one, other) = batch.split_at(batch.len() / 2);
        for half in [one, other] {
            self.n_halves += 1;
            let compiles = half.iter().map(|compile| (compile.id, self.n_halves));
            self.halves.extend(compiles);
        }
    }

    /// These have ended.
    pub fn forget(&mut self, ended: &[Compile]) {
        for compile in ended {
            self.halves.remove(&compile.id);
        }
    }
}

impl Compile {
    /// Whether one run serves both requests. Source: docs/reference/deployment.md § 6.3 "Coalescing",
    /// docs/reference/lsm.md § 3.8.
    fn merges_with(&self, other: &Self, batches: Option<&CompileBatches>) -> bool {
        let is_batching = batches.is_some_and(|batches| batches.may_join(self.id, other.id));
        let services = match (&self.services, &other.services) {
            (None, None) => true,
            (Some(one), Some(other)) => one.merges_with(other, is_batching),
            _ => false,
        };
        services && self.do_export == other.do_export && self.variables == other.variables
    }

    /// The compile that is run for this request and others that were claimed with it: it asks for what all of them ask for, and
    /// is `update` when any is.
    pub fn joined_with(&self, others: &[Self]) -> Self {
        let mut joint = self.clone();
        for other in others {
            joint.update |= other.update;
            if let (Some(all), Some(more)) = (&mut joint.services, &other.services) {
                all.join(more);
            }
        }
        joint
    }
}

impl Store {
    /// Takes the oldest queued compile of a lane of an environment, with all others that one run can serve
    /// ([`Compile::joined_with`]), and marks them running.
    ///
    /// `batches`: which partial compiles of different service instances are made one, too; `None`: none.
    pub async fn compile_claim(
        &self,
        environment: EnvironmentId,
        lane: Lane,
        batches: Option<&CompileBatches>,
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
            let claimed = merged(queued, batches);
            for compile in &claimed {
                sqlx::query(MARK).bind(compile.id.to_string()).bind(now).execute(&mut *tx).await?;
            }
            if let Some((first, others)) = claimed.split_first()
                && !others.is_empty()
                && let Some(services) = first.joined_with(others).services
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

    /// Queues the compiles of a batch that failed again, each in its old place and with what it asks for itself. It was the batch
    /// that was tried, so this is no attempt of theirs.
    pub async fn compile_split(&self, batch: &[Compile]) -> Result<()> {
        const SQL: &str = "UPDATE compile SET state = 'queued', started_us = NULL, attempts = attempts - 1, instances = $2, \
                           removed_sets = $3 WHERE id = $1 AND state = 'running'";
        transaction!(self.db, repeatable true, tx => {
            for compile in batch {
                let Some(services) = &compile.services else { continue };
                sqlx::query(SQL)
                    .bind(compile.id.to_string())
                    .bind(serde_json::json!(services.instances).to_string())
                    .bind(serde_json::json!(services.removed_sets).to_string())
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
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

/// The first, with all that merges with it.
fn merged(queued: Vec<Compile>, batches: Option<&CompileBatches>) -> Vec<Compile> {
    let mut claimed: Vec<Compile> = Vec::new();
    for compile in queued {
        let is_served = claimed
            .first()
            .is_none_or(|first| first.merges_with(&compile, batches));
        if is_served {
            claimed.push(compile);
        }
    }
    claimed
}
