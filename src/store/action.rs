//! The history of resources: what was done, when, and what came of it.

use std::collections::HashMap;
use std::str::FromStr;

use serde_json::Value;

use super::batch::{Batches as _, Known};
use super::fact::{FactWriter as _, NewFact};
use super::macros::{read, row, transaction};
use super::state::{ROWS, add, push_ids, status_sql, statuses};
use super::{Error, ResourceState, Result, Store, document, is_duplicate, parsed, storable};
use crate::domain::{
    ActionId, ActionKind, AgentName, Change, EnvironmentId, ResourceId, ResourceStatus, Timestamp,
    VersionNumber,
};

/// A run that begins.
#[derive(Debug, Clone)]
pub struct ActionStart {
    pub id: ActionId,
    pub action: ActionKind,
    pub version: VersionNumber,
    pub resource_id: ResourceId,
    pub started: Timestamp,
}

/// A run that ended, and the state of its resource then (`None`: the state is not touched).
#[derive(Debug, Clone)]
pub struct ActionEnd {
    pub id: ActionId,
    pub finished: Timestamp,
    pub status: ResourceStatus,
    pub change: Change,
    /// JSON: attribute → {current, desired}.
    pub changes: String,
    /// JSON: list of log lines.
    pub messages: String,
    pub state: Option<ResourceState>,
    pub facts: Vec<(String, String, bool)>,
    /// Resource id and JSON of what was found.
    pub discovered: Vec<(String, String)>,
    pub resource_id: ResourceId,
}

/// What became of a run that is to be opened again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reopened {
    /// It is in progress.
    IsOpen,
    /// Its result is known.
    IsFinished,
    /// Nobody wrote its beginning.
    IsMissing,
}

/// Runs that an answer about events holds: who has not succeeded for that long may as well reload.
const MAX_EVENTS: i64 = 1000;

/// A row of the history.
#[derive(Debug, Clone)]
pub struct Action {
    pub id: ActionId,
    pub action: ActionKind,
    pub version: VersionNumber,
    pub resource_id: ResourceId,
    pub started: Timestamp,
    pub finished: Option<Timestamp>,
    pub status: Option<ResourceStatus>,
    pub change: Option<Change>,
    pub changes: Value,
    pub messages: Value,
}

row! {
    struct Row {
        id: String,
        action: String,
        version: VersionNumber,
        resource_id: ResourceId,
        started_us: i64,
        finished_us: Option<i64>,
        status: Option<String>,
        change: Option<String>,
        changes: String,
        messages: String,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, action, version, resource_id, started_us, finished_us, status, change, changes, messages \
             FROM resource_action ",
            $rest
        )
    };
}

mod search;

pub use search::{ActionFrom, ActionPlan, ActionSearch, Narrowed, StoreAction};

impl Row {
    fn into_action(self) -> Result<Action> {
        let bad = |column| Error::Row {
            table: "resource_action",
            column,
            id: self.id.clone(),
        };
        let status = self.status.as_deref().map(ResourceStatus::from_str);
        let change = self.change.as_deref().map(Change::from_str);
        Ok(Action {
            changes: document("resource_action", "changes", &self.id, &self.changes)?,
            messages: document("resource_action", "messages", &self.id, &self.messages)?,
            id: parsed("resource_action", "id", &self.id)?,
            action: self.action.parse().map_err(|_| bad("action"))?,
            version: self.version,
            resource_id: self.resource_id,
            started: Timestamp(self.started_us),
            finished: self.finished_us.map(Timestamp),
            status: status.transpose().map_err(|_| bad("status"))?,
            change: change.transpose().map_err(|_| bad("change"))?,
        })
    }
}

/// What of a batch of beginnings and ends is written where.
struct Runs<'a> {
    /// Runs that begin with this batch, those that end with it too with their end: one row each, written once.
    begun: Vec<(&'a ActionStart, Option<&'a ActionEnd>)>,
    /// Ends of runs that began in a batch before this one.
    ended: Vec<&'a ActionEnd>,
    /// Resources that are being deployed from now on, each once.
    deploying: Vec<&'a ResourceId>,
    /// The last state of each resource that has one: a resource may have run twice, and one statement may not hold both.
    states: Vec<ResourceState>,
}

impl<'a> Runs<'a> {
    fn of(starts: &'a [ActionStart], ends: &'a [ActionEnd]) -> Self {
        let mut open: HashMap<ActionId, &ActionEnd> =
            ends.iter().map(|end| (end.id, end)).collect();
        let begun: Vec<(&ActionStart, Option<&ActionEnd>)> = starts
            .iter()
            .map(|start| (start, open.remove(&start.id)))
            .collect();
        let goes_on = begun
            .iter()
            .filter(|(start, end)| start.action == ActionKind::Deploy && end.is_none());
        let mut deploying: Vec<&ResourceId> =
            goes_on.map(|(start, _)| &start.resource_id).collect();
        deploying.sort_unstable();
        deploying.dedup();
        let mut seen = std::collections::HashSet::new();
        let last_first = ends.iter().rev().filter_map(|end| end.state.as_ref());
        let mut states: Vec<ResourceState> = last_first
            .filter(|state| seen.insert(&state.resource_id))
            .cloned()
            .collect();
        states.reverse();
        for state in &mut states {
            // Its next run has begun since.
            state.is_deploying |= deploying.binary_search(&&state.resource_id).is_ok();
        }
        let is_left = |end: &&ActionEnd| open.contains_key(&end.id);
        Self {
            ended: ends.iter().filter(is_left).collect(),
            begun,
            deploying,
            states,
        }
    }
}

impl ActionEnd {
    /// Whether the resource is gone as it shall be, and what was known of it with it. Not so where a later version wants it
    /// there: then the run was for what it shall not be any more, and its end says nothing of the resource's state.
    /// Source: docs/reference/deployment.md § 3.4.
    fn is_purge(&self) -> bool {
        let is_current = |state: &ResourceState| state.last_events == Some(self.finished);
        self.change == Change::Purged
            && self.status == ResourceStatus::Deployed
            && self.state.as_ref().is_some_and(is_current)
    }
}

impl Store {
    /// Writes beginnings and ends of runs in one transaction: the group commit of the scheduler. A run that began and ended
    /// since the last one is one row, written once. To write the same again changes nothing.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the environment.
    pub async fn action_write(
        &self,
        environment: EnvironmentId,
        starts: &[ActionStart],
        ends: &[ActionEnd],
    ) -> Result<()> {
        let runs = Runs::of(starts, ends);
        match self
            .runs_write(environment, &runs, ends, Known::Refused)
            .await
        {
            // Hardly ever: a connection broke before the database could say that it has them.
            Err(Error::Query(error)) if is_duplicate(&error) => {
                self.runs_write(environment, &runs, ends, Known::Kept)
                    .await?;
            }
            result => result?,
        }
        self.wrote_actions(environment, starts.len());
        Ok(())
    }

    async fn runs_write(
        &self,
        environment: EnvironmentId,
        runs: &Runs<'_>,
        ends: &[ActionEnd],
        known: Known,
    ) -> Result<()> {
        // What is no more has no facts.
        const PURGED: &str = "DELETE FROM fact WHERE environment_id = $1 AND resource_id = $2";
        let mut room = match ends.iter().any(|end| !end.facts.is_empty()) {
            true => Some(self.fact_room(environment).await?),
            false => None,
        };
        let environment = environment.to_string();
        transaction!(self.db, tx => {
            if !tx.begin_batch(&environment).await? {
                return Err(Error::NotFound(format!("environment {environment}")));
            }
            for chunk in runs.begun.chunks(ROWS) {
                tx.insert_actions(&environment, chunk, known).await?;
            }
            for chunk in runs.deploying.chunks(ROWS) {
                let (before, after) = tx.mark_deploying(&environment, chunk).await?;
                add!(tx, &environment, before, after);
            }
            for chunk in runs.ended.chunks(ROWS) {
                tx.end_actions(chunk).await?;
            }
            for end in ends {
                for (resource_id, found) in &end.discovered {
                    let [resource_type, agent, value] = super::discovered::parts_of(resource_id);
                    sqlx::query(super::discovered::SET)
                        .bind(&environment)
                        .bind(storable(resource_id))
                        .bind(found)
                        .bind(&end.resource_id)
                        .bind(end.finished.0)
                        .bind(resource_type)
                        .bind(agent)
                        .bind(value)
                        .execute(&mut *tx)
                        .await?;
                }
                let mut n_refused = 0;
                let mut limit = None;
                if let Some(room) = room.as_mut().filter(|_| !end.facts.is_empty()) {
                    let resource_id = end.resource_id.as_str();
                    let mut tally = tx.fact_tally(&environment, resource_id).await?;
                    for (name, value, expires) in &end.facts {
                        let fact = NewFact {
                            name,
                            value,
                            expires: *expires,
                            updated: end.finished,
                            source: "fact",
                            metadata: None,
                        };
                        let written = tx.fact_write(&environment, resource_id, fact, &mut tally, room).await?;
                        n_refused += u64::from(written.is_err());
                        limit = limit.or(written.err());
                    }
                }
                if let Some(limit) = limit {
                    tracing::warn!(
                        resource.id = %end.resource_id, n_refused,
                        "facts of {} were not taken: {limit}", end.resource_id
                    );
                }
                if end.is_purge() {
                    sqlx::query(PURGED).bind(&environment).bind(&end.resource_id).execute(&mut *tx).await?;
                }
            }
            for chunk in runs.states.chunks(ROWS) {
                let before = tx.replace_states(&environment, chunk).await?;
                add!(tx, &environment, before, statuses(chunk));
            }
        });
        if let Some(room) = room {
            room.committed();
        }
        Ok(())
    }

    /// After a restart of the server, or of one environment's engine: runs that never ended are closed as `unavailable`, and
    /// what they were about counts as failed, so that it runs again. What they changed before the end is not known: `change`
    /// is NULL. `None`: the runs of all environments.
    pub async fn action_close_interrupted(
        &self,
        environment: Option<EnvironmentId>,
    ) -> Result<u64> {
        const CLOSE: &str = "UPDATE resource_action SET finished_us = $2, status = 'unavailable', \
                             change = NULL, messages = $3 WHERE finished_us IS NULL";
        // What was cut off may have changed something. The status is asked for as its index has it.
        const STATES: &str = concat!(
            "UPDATE resource_state SET is_deploying = FALSE, last_run = 'failed', last_status = 'unavailable', \
             last_run_compliant = FALSE, last_change_us = COALESCE((SELECT MAX(a.started_us) FROM resource_action a \
             WHERE a.environment_id = resource_state.environment_id AND a.resource_id = resource_state.resource_id \
             AND a.action = 'deploy' AND a.finished_us IS NULL), last_change_us) WHERE ",
            status_sql!(),
            " IN ('deploying', 'orphaned') AND is_deploying = TRUE"
        );
        const FORGET_COUNTS: &str = "DELETE FROM resource_count WHERE TRUE";
        const COUNT: &str = concat!(
            "INSERT INTO resource_count (environment_id, status, n_resources) SELECT environment_id, ",
            status_sql!(),
            ", COUNT(*) FROM resource_state WHERE TRUE"
        );
        let now = Timestamp::now().0;
        let message = serde_json::json!([{
            "level": "WARNING", "args": [], "kwargs": {}, "timestamp_us": now,
            "msg": "the server ended during this run; the resource is verified again",
        }])
        .to_string();
        let environment = environment.map(|id| id.to_string());
        let of = match environment {
            Some(_) => " AND environment_id = $1",
            None => " AND CAST($1 AS TEXT) IS NULL",
        };
        let (states, close) = (format!("{STATES}{of}"), format!("{CLOSE}{of}"));
        // Whatever else was cut, the counts are true from here on.
        let (forget, count) = (
            format!("{FORGET_COUNTS}{of}"),
            format!("{COUNT}{of} GROUP BY 1, 2"),
        );
        Ok(transaction!(self.db, tx => {
            if let Some(environment) = &environment {
                tx.begin_batch(environment).await?;
            }
            if sqlx::query(&states).bind(&environment).execute(&mut *tx).await?.rows_affected() > 0 {
                for sql in [&forget, &count] {
                    sqlx::query(sql).bind(&environment).execute(&mut *tx).await?;
                }
            }
            sqlx::query(&close).bind(&environment).bind(now).bind(&message).execute(&mut *tx).await?.rows_affected()
        }))
    }

    /// Opens a run again that was closed because no server heard of its end, since it goes on, or its end is known. The resource
    /// is being deployed again (docs/reference/deployment.md § 5.11).
    pub async fn action_reopen(
        &self,
        environment: EnvironmentId,
        id: ActionId,
        resource_id: &ResourceId,
    ) -> Result<Reopened> {
        // What was closed so has no change; every result has one.
        const OPEN: &str = "UPDATE resource_action SET finished_us = NULL, status = NULL, messages = '[]' \
                            WHERE id = $1 AND environment_id = $2 AND resource_id = $3 AND change IS NULL";
        const IS_THERE: &str = "SELECT COUNT(*) FROM resource_action WHERE id = $1";
        let environment = environment.to_string();
        let n_opened = transaction!(self.db, tx => {
            tx.begin_batch(&environment).await?;
            let opened = sqlx::query(OPEN)
                .bind(id.to_string())
                .bind(&environment)
                .bind(resource_id)
                .execute(&mut *tx)
                .await?
                .rows_affected();
            if opened > 0 {
                let (before, after) = tx.mark_deploying(&environment, &[resource_id]).await?;
                add!(tx, &environment, before, after);
            }
            opened
        });
        if n_opened > 0 {
            return Ok(Reopened::IsOpen);
        }
        let n_there: i64 = read!(self.db, pool => {
            sqlx::query_scalar(IS_THERE).bind(id.to_string()).fetch_one(pool).await?
        });
        Ok(match n_there {
            0 => Reopened::IsMissing,
            _ => Reopened::IsFinished,
        })
    }

    /// The history of a resource, or of all for `None`; newest first.
    pub async fn action_list(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            let query = if resource_id.is_none() {
                sqlx::query_as(select!(
                    "WHERE environment_id = $1 AND $2 = '' ORDER BY started_us DESC, id DESC LIMIT $3"
                ))
            } else {
                sqlx::query_as(select!(
                    "WHERE environment_id = $1 AND resource_id = $2 ORDER BY started_us DESC, id DESC LIMIT $3"
                ))
            };
            query.bind(environment.to_string()).bind(resource_id.map_or("", ResourceId::as_str)).bind(limit).fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_action).collect()
    }

    /// What was done of one kind with a resource, newest first: however often something else was done since.
    pub async fn action_of_kind(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
        kind: ActionKind,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND resource_id = $2 AND action = $3 \
                 ORDER BY started_us DESC, id DESC LIMIT $4"
            ))
            .bind(environment.to_string())
            .bind(resource_id)
            .bind(kind.as_str())
            .bind(limit)
            .fetch_all(pool)
            .await?
        });
        rows.into_iter().map(Row::into_action).collect()
    }

    /// The resource whose deployment is longest in progress of those of an agent, and since when.
    pub async fn action_open_on(
        &self,
        environment: EnvironmentId,
        agent: &AgentName,
    ) -> Result<Option<(ResourceId, Timestamp)>> {
        // From what is in progress to the agents: it is less than what an agent may have.
        const SQL: &str = "SELECT a.resource_id, a.started_us FROM resource_action a CROSS JOIN resource_state s \
                           WHERE a.environment_id = $1 AND a.finished_us IS NULL AND s.environment_id = a.environment_id \
                           AND s.resource_id = a.resource_id AND s.agent = $2 AND s.is_deploying \
                           ORDER BY + a.started_us, a.id LIMIT 1";
        let row: Option<(ResourceId, i64)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(agent.as_str())
                .fetch_optional(pool)
                .await?
        });
        Ok(row.map(|(resource_id, started_us)| (resource_id, Timestamp(started_us))))
    }

    /// What was done with a resource in a version, of one kind or of all, newest first: however often something was done since.
    pub async fn action_of_version(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
        version: VersionNumber,
        kind: Option<ActionKind>,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND resource_id = $2 AND version = $3 AND ($4 = '' OR action = $4) \
                 ORDER BY started_us DESC, id DESC LIMIT $5"
            ))
            .bind(environment.to_string())
            .bind(resource_id)
            .bind(version)
            .bind(kind.map_or("", ActionKind::as_str))
            .bind(limit)
            .fetch_all(pool)
            .await?
        });
        rows.into_iter().map(Row::into_action).collect()
    }

    /// The version that the run of a resource in progress is for.
    pub async fn action_running(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Option<VersionNumber>> {
        const SQL: &str = "SELECT version FROM resource_action WHERE environment_id = $1 AND resource_id = $2 \
                           AND action = 'deploy' AND finished_us IS NULL ORDER BY started_us DESC LIMIT 1";
        Ok(read!(self.db, pool => {
            sqlx::query_scalar(SQL).bind(environment.to_string()).bind(resource_id).fetch_optional(pool).await?
        }))
    }

    /// The deployments of some resources that began after a moment, or all for `None`, newest first: at most
    /// `MAX_EVENTS` for each five hundred resources.
    pub async fn action_events(
        &self,
        environment: EnvironmentId,
        ids: &[ResourceId],
        since: Option<Timestamp>,
    ) -> Result<Vec<Action>> {
        let since = since.map_or(i64::MIN, |since| since.0);
        let mut actions = Vec::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                query.push_bind(environment.to_string());
                query.push(" AND action = 'deploy' AND started_us > ").push_bind(since);
                push_ids!(query, chunk);
                query.push(" ORDER BY started_us DESC, id DESC LIMIT ").push_bind(MAX_EVENTS);
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                actions.push(row.into_action()?);
            }
        }
        Ok(actions)
    }
}

#[cfg(test)]
mod tests;
