//! Many rows with one statement: what the scheduler writes when resources run.
//!
//! The same rows in two ways. SQLite takes a list of values, whose every value is a parameter. PostgreSQL plans such a list of
//! thousands of parameters anew each time, and takes columns instead, each of which is one array: the statement is the same
//! however many rows there are, and is prepared once.

use std::collections::BTreeMap;
use std::future::Future;

use sqlx::{PgConnection, SqliteConnection};

use super::ResourceState;
use super::action::{ActionEnd, ActionStart};
use super::state::{push_ids, status_sql};
use crate::domain::ResourceId;

type Counts = Vec<(String, i64)>;
type Begun<'a> = [(&'a ActionStart, Option<&'a ActionEnd>)];

/// Batches on a connection in a transaction: at most [`super::state::ROWS`] rows, each resource once.
pub(super) trait Batches {
    /// How many of these resources are of which status.
    fn count_statuses(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> impl Future<Output = sqlx::Result<Counts>> + Send;

    /// Notes that these resources are being deployed, and gives how many were of which status before, and are now.
    fn mark_deploying(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> impl Future<Output = sqlx::Result<(Counts, Counts)>> + Send;

    /// Writes states, whether they are there or not.
    fn upsert_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Writes states that are there as a rule, and gives how many of them were of which status before.
    fn replace_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> impl Future<Output = sqlx::Result<Counts>> + Send;

    /// Whether the environment is there, which it stays until the end of the transaction. From now on each statement of the
    /// transaction has to find its rows by their keys.
    fn begin_batch(&mut self, environment: &str)
    -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Writes the ends of runs that are in the database. One that has its end already keeps that.
    fn end_actions(
        &mut self,
        ended: &[&ActionEnd],
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Writes runs that begin, some of them with their ends, in an environment that is held.
    fn insert_actions(
        &mut self,
        environment: &str,
        begun: &Begun<'_>,
        known: Known,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

/// What becomes of a batch with a run that is in the database already, as it is when a connection broke before the database
/// could say that all is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// The batch may be refused: no run is looked for before it is written.
    Refused,
    /// The run stays as it is.
    Kept,
}

macro_rules! insert_states {
    () => {
        "INSERT INTO resource_state (environment_id, resource_id, resource_type, agent, id_value, created_us, \
         orphaned_after, is_undefined, is_deploying, blocked, intent_hash, deployed_hash, deployed_version, \
         last_run, last_run_compliant, last_run_us, last_success_us, last_events_us, last_change_us, \
         last_status, n_failures) "
    };
}

/// Type, agent and value are parts of the id; they stay.
macro_rules! update_states {
    () => {
        " ON CONFLICT (environment_id, resource_id) DO UPDATE SET created_us = excluded.created_us, \
         orphaned_after = excluded.orphaned_after, is_undefined = excluded.is_undefined, \
         is_deploying = excluded.is_deploying, blocked = excluded.blocked, \
         intent_hash = excluded.intent_hash, deployed_hash = excluded.deployed_hash, \
         deployed_version = excluded.deployed_version, last_run = excluded.last_run, \
         last_run_compliant = excluded.last_run_compliant, last_run_us = excluded.last_run_us, \
         last_success_us = excluded.last_success_us, last_events_us = excluded.last_events_us, \
         last_change_us = excluded.last_change_us, last_status = excluded.last_status, n_failures = excluded.n_failures"
    };
}

macro_rules! insert_actions {
    () => {
        "INSERT INTO resource_action (environment_id, id, action, version, resource_id, started_us, finished_us, status, \
         change, changes, messages) "
    };
}

impl Batches for SqliteConnection {
    async fn count_statuses(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> sqlx::Result<Counts> {
        // Joined with an empty text, so that the rows are looked for by id, and not in the index of statuses.
        const SQL: &str = concat!(
            "SELECT ",
            status_sql!(),
            " || '', COUNT(*) FROM resource_state WHERE environment_id = "
        );
        let mut query = sqlx::QueryBuilder::new(SQL);
        query.push_bind(environment);
        push_ids!(query, ids.iter().copied());
        query.push(" GROUP BY 1");
        let query = query.build_query_as().persistent(false);
        query.fetch_all(self).await
    }

    async fn mark_deploying(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> sqlx::Result<(Counts, Counts)> {
        let before = self.count_statuses(environment, ids).await?;
        let mut update = sqlx::QueryBuilder::new(
            "UPDATE resource_state SET is_deploying = TRUE WHERE environment_id = ",
        );
        update.push_bind(environment);
        push_ids!(update, ids.iter().copied());
        let update = update.build().persistent(false);
        update.execute(&mut *self).await?;
        Ok((before, self.count_statuses(environment, ids).await?))
    }

    async fn upsert_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> sqlx::Result<()> {
        let mut insert = sqlx::QueryBuilder::new(insert_states!());
        insert.push_values(states, |mut row, state| {
            row.push_bind(environment)
                .push_bind(&state.resource_id)
                .push_bind(&*state.resource_type)
                .push_bind(&state.agent)
                .push_bind(&*state.id_value)
                .push_bind(state.created.0)
                .push_bind(state.orphaned_after)
                .push_bind(state.is_undefined)
                .push_bind(state.is_deploying)
                .push_bind(state.blocked.as_str())
                .push_bind(&*state.intent_hash)
                .push_bind(state.deployed_hash.as_deref())
                .push_bind(state.deployed_version)
                .push_bind(state.last_run.as_str())
                .push_bind(state.last_run_compliant)
                .push_bind(state.last_run_at.map(|at| at.0))
                .push_bind(state.last_success.map(|at| at.0))
                .push_bind(state.last_events.map(|at| at.0))
                .push_bind(state.last_change.map(|at| at.0))
                .push_bind(state.last_status.as_str())
                .push_bind(state.n_failures);
        });
        insert.push(update_states!());
        // The text has a value for each row: it is worth no place among the prepared statements.
        insert.build().persistent(false).execute(self).await?;
        Ok(())
    }

    async fn replace_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> sqlx::Result<Counts> {
        let ids = column(states, |one| &one.resource_id);
        let before = self.count_statuses(environment, &ids).await?;
        self.upsert_states(environment, states).await?;
        Ok(before)
    }

    async fn begin_batch(&mut self, environment: &str) -> sqlx::Result<bool> {
        // The transaction is the only one that writes.
        const SQL: &str = "SELECT id FROM environment WHERE id = $1";
        let query = sqlx::query_scalar::<_, String>(SQL).bind(environment);
        Ok(query.fetch_optional(self).await?.is_some())
    }

    async fn end_actions(&mut self, ended: &[&ActionEnd]) -> sqlx::Result<()> {
        let mut update = sqlx::QueryBuilder::new(
            "UPDATE resource_action SET finished_us = ended.column2, status = ended.column3, \
             change = ended.column4, changes = ended.column5, messages = ended.column6 FROM (",
        );
        update.push_values(ended, |mut row, end| {
            row.push_bind(end.id.to_string())
                .push_bind(end.finished.0)
                .push_bind(end.status.as_str())
                .push_bind(end.change.as_str())
                .push_bind(end.changes.as_str())
                .push_bind(end.messages.as_str());
        });
        update.push(") AS ended WHERE id = ended.column1 AND finished_us IS NULL");
        update.build().persistent(false).execute(self).await?;
        Ok(())
    }

    async fn insert_actions(
        &mut self,
        environment: &str,
        begun: &Begun<'_>,
        _known: Known,
    ) -> sqlx::Result<()> {
        let mut insert = sqlx::QueryBuilder::new(insert_actions!());
        insert.push_values(begun, |mut row, (start, end)| {
            row.push_bind(environment)
                .push_bind(start.id.to_string())
                .push_bind(start.action.as_str())
                .push_bind(start.version)
                .push_bind(&start.resource_id)
                .push_bind(start.started.0)
                .push_bind(end.map(|end| end.finished.0))
                .push_bind(end.map(|end| end.status.as_str()))
                .push_bind(end.map(|end| end.change.as_str()))
                .push_bind(end.map_or("{}", |end| end.changes.as_str()))
                .push_bind(end.map_or("[]", |end| end.messages.as_str()));
        });
        insert.push(" ON CONFLICT (id) DO NOTHING");
        insert.build().persistent(false).execute(self).await?;
        Ok(())
    }
}

/// A column of rows: what `of` says of each.
fn column<'a, T, V>(rows: &'a [T], of: impl Fn(&'a T) -> V) -> Vec<V> {
    rows.iter().map(of).collect()
}

/// Binds the columns of states that are not parts of their ids, as arrays.
macro_rules! bind_state {
    ($query:expr, $states:expr) => {
        $query
            .bind(column($states, |one| one.created.0))
            .bind(column($states, |one| {
                one.orphaned_after.map(|number| number.get())
            }))
            .bind(column($states, |one| one.is_undefined))
            .bind(column($states, |one| one.is_deploying))
            .bind(column($states, |one| one.blocked.as_str()))
            .bind(column($states, |one| &*one.intent_hash))
            .bind(column($states, |one| one.deployed_hash.as_deref()))
            .bind(column($states, |one| {
                one.deployed_version.map(|number| number.get())
            }))
            .bind(column($states, |one| one.last_run.as_str()))
            .bind(column($states, |one| one.last_run_compliant))
            .bind(column($states, |one| one.last_run_at.map(|at| at.0)))
            .bind(column($states, |one| one.last_success.map(|at| at.0)))
            .bind(column($states, |one| one.last_events.map(|at| at.0)))
            .bind(column($states, |one| one.last_change.map(|at| at.0)))
            .bind(column($states, |one| one.last_status.as_str()))
            .bind(column($states, |one| one.n_failures))
    };
}

/// Joins each row of `new` with the state of its resource, as `old`: its place in the table, and its status.
///
/// `OFFSET 0` keeps it a question of its own for each row, which only the primary key answers. PostgreSQL would go through all
/// states of the environment where it believes that they are few, and it does not know yet what was written in the last
/// minute.
macro_rules! with_old {
    () => {
        concat!(
            "CROSS JOIN LATERAL (SELECT ctid AS place, ",
            status_sql!(),
            " AS status FROM resource_state WHERE environment_id = $1 AND resource_id = new.resource_id OFFSET 0) AS old"
        )
    };
}

impl Batches for PgConnection {
    async fn count_statuses(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> sqlx::Result<Counts> {
        const SQL: &str = concat!(
            "SELECT old.status, COUNT(*) FROM UNNEST($2::TEXT[]) AS new (resource_id) ",
            with_old!(),
            " GROUP BY 1"
        );
        let ids = column(ids, |id| id.as_str());
        let query = sqlx::query_as(SQL).bind(environment).bind(ids);
        query.fetch_all(self).await
    }

    async fn mark_deploying(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> sqlx::Result<(Counts, Counts)> {
        const SQL: &str = concat!(
            "WITH marked AS (UPDATE resource_state state SET is_deploying = TRUE \
             FROM UNNEST($2::TEXT[]) AS new (resource_id) ",
            with_old!(),
            " WHERE state.ctid = old.place RETURNING old.status AS before, ",
            status_sql!(),
            " AS after) SELECT before, after, COUNT(*) FROM marked GROUP BY 1, 2"
        );
        let ids = column(ids, |id| id.as_str());
        let query = sqlx::query_as(SQL).bind(environment).bind(ids);
        let moved: Vec<(String, String, i64)> = query.fetch_all(self).await?;
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        for (old, new, n) in moved {
            *before.entry(old).or_default() += n;
            *after.entry(new).or_default() += n;
        }
        Ok((before.into_iter().collect(), after.into_iter().collect()))
    }

    async fn upsert_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> sqlx::Result<()> {
        const SQL: &str = concat!(
            insert_states!(),
            "SELECT $1, * FROM UNNEST($2::TEXT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::BIGINT[], $7::BIGINT[], \
             $8::BOOLEAN[], $9::BOOLEAN[], $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::BIGINT[], $14::TEXT[], \
             $15::BOOLEAN[], $16::BIGINT[], $17::BIGINT[], $18::BIGINT[], $19::BIGINT[], $20::TEXT[], $21::BIGINT[])",
            update_states!()
        );
        let query = sqlx::query(SQL)
            .bind(environment)
            .bind(column(states, |one| one.resource_id.as_str()))
            .bind(column(states, |one| &*one.resource_type))
            .bind(column(states, |one| one.agent.as_str()))
            .bind(column(states, |one| &*one.id_value));
        bind_state!(query, states).execute(self).await?;
        Ok(())
    }

    async fn replace_states(
        &mut self,
        environment: &str,
        states: &[ResourceState],
    ) -> sqlx::Result<Counts> {
        // Each row is looked for once: it is read as `old`, for its status of before, and found by its place in the table to be
        // written.
        const SQL: &str = concat!(
            "WITH written AS (UPDATE resource_state state SET created_us = new.created_us, \
             orphaned_after = new.orphaned_after, is_undefined = new.is_undefined, is_deploying = new.is_deploying, \
             blocked = new.blocked, intent_hash = new.intent_hash, deployed_hash = new.deployed_hash, \
             deployed_version = new.deployed_version, last_run = new.last_run, \
             last_run_compliant = new.last_run_compliant, last_run_us = new.last_run_us, \
             last_success_us = new.last_success_us, last_events_us = new.last_events_us, \
             last_change_us = new.last_change_us, last_status = new.last_status, n_failures = new.n_failures \
             FROM UNNEST($2::TEXT[], $3::BIGINT[], $4::BIGINT[], $5::BOOLEAN[], $6::BOOLEAN[], $7::TEXT[], $8::TEXT[], \
             $9::TEXT[], $10::BIGINT[], $11::TEXT[], $12::BOOLEAN[], $13::BIGINT[], $14::BIGINT[], $15::BIGINT[], \
             $16::BIGINT[], $17::TEXT[], $18::BIGINT[]) AS new (resource_id, created_us, orphaned_after, is_undefined, \
             is_deploying, blocked, intent_hash, deployed_hash, deployed_version, last_run, last_run_compliant, \
             last_run_us, last_success_us, last_events_us, last_change_us, last_status, n_failures) ",
            with_old!(),
            " WHERE state.ctid = old.place RETURNING old.status) SELECT status, COUNT(*) FROM written GROUP BY 1"
        );
        let query = sqlx::query_as(SQL)
            .bind(environment)
            .bind(column(states, |one| one.resource_id.as_str()));
        let before: Counts = bind_state!(query, states).fetch_all(&mut *self).await?;
        let n_written: i64 = before.iter().map(|(_, n)| n).sum();
        if usize::try_from(n_written).is_ok_and(|n| n < states.len()) {
            // Some were not there.
            self.upsert_states(environment, states).await?;
        }
        Ok(before)
    }

    async fn begin_batch(&mut self, environment: &str) -> sqlx::Result<bool> {
        // PostgreSQL would plan each statement anew, which takes as long as to write twenty rows, and might go through whole
        // tables to find rows whose place it is told.
        const SQL: &str = "SELECT id, set_config('plan_cache_mode', 'force_generic_plan', TRUE), \
                           set_config('enable_seqscan', 'off', TRUE), set_config('enable_hashjoin', 'off', TRUE), \
                           set_config('enable_mergejoin', 'off', TRUE), set_config('enable_memoize', 'off', TRUE) \
                           FROM environment WHERE id = $1 FOR KEY SHARE";
        let query = sqlx::query_scalar::<_, String>(SQL).bind(environment);
        Ok(query.fetch_optional(self).await?.is_some())
    }

    async fn end_actions(&mut self, ended: &[&ActionEnd]) -> sqlx::Result<()> {
        // `OFFSET 0`: see `with_old!`. Nothing else is asked of the table: PostgreSQL has an index of the runs that go on, and goes
        // through all of them for each row where it believes that they are few.
        const SQL: &str = "UPDATE resource_action action SET finished_us = new.finished_us, status = new.status, \
                           change = new.change, changes = new.changes, messages = new.messages \
                           FROM UNNEST($1::TEXT[], $2::BIGINT[], $3::TEXT[], $4::TEXT[], $5::TEXT[], $6::TEXT[]) \
                           AS new (id, finished_us, status, change, changes, messages) CROSS JOIN LATERAL \
                           (SELECT ctid AS place, finished_us FROM resource_action WHERE id = new.id OFFSET 0) AS old \
                           WHERE action.ctid = old.place AND old.finished_us IS NULL";
        sqlx::query(SQL)
            .bind(column(ended, |end| end.id.to_string()))
            .bind(column(ended, |end| end.finished.0))
            .bind(column(ended, |end| end.status.as_str()))
            .bind(column(ended, |end| end.change.as_str()))
            .bind(column(ended, |end| end.changes.as_str()))
            .bind(column(ended, |end| end.messages.as_str()))
            .execute(self)
            .await?;
        Ok(())
    }

    async fn insert_actions(
        &mut self,
        environment: &str,
        begun: &Begun<'_>,
        known: Known,
    ) -> sqlx::Result<()> {
        macro_rules! insert {
            ($end:literal) => {
                concat!(
                    insert_actions!(),
                    "SELECT $1, * FROM UNNEST($2::TEXT[], $3::TEXT[], $4::BIGINT[], $5::TEXT[], $6::BIGINT[], \
                     $7::BIGINT[], $8::TEXT[], $9::TEXT[], $10::TEXT[], $11::TEXT[])",
                    $end
                )
            };
        }
        let sql = match known {
            Known::Refused => insert!(""),
            Known::Kept => insert!(" ON CONFLICT (id) DO NOTHING"),
        };
        sqlx::query(sql)
            .bind(environment)
            .bind(column(begun, |(start, _)| start.id.to_string()))
            .bind(column(begun, |(start, _)| start.action.as_str()))
            .bind(column(begun, |(start, _)| start.version.get()))
            .bind(column(begun, |(start, _)| start.resource_id.as_str()))
            .bind(column(begun, |(start, _)| start.started.0))
            .bind(column(begun, |(_, end)| end.map(|end| end.finished.0)))
            .bind(column(begun, |(_, end)| end.map(|end| end.status.as_str())))
            .bind(column(begun, |(_, end)| end.map(|end| end.change.as_str())))
            .bind(column(begun, |(_, end)| {
                end.map_or("{}", |end| end.changes.as_str())
            }))
            .bind(column(begun, |(_, end)| {
                end.map_or("[]", |end| end.messages.as_str())
            }))
            .execute(self)
            .await?;
        Ok(())
    }
}
