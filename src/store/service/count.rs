//! How many instances a service has, by version, state and whether they have ended.
//!
//! A list says how many rows it has, and to count a hundred thousand takes longer than to read a page of them. So whatever
//! writes an instance adds to the numbers in the same transaction ([`Counted::count_move`]), as its last statement but the
//! commit: nobody who waits for a number holds one that another one waits for. The numbers of a group are spread over
//! [`SHARDS`] rows by the id of the instance, since all instances begin in the same state.

use std::collections::HashMap;

use sqlx::{PgConnection, SqliteConnection};
use steward_lsm::Instance;

use super::instance::{counted, counter};
use crate::domain::EnvironmentId;
use crate::store::macros::{read, write};
use crate::store::version::on_both;
use crate::store::{Result, Store};

/// Rows that the number of a group is the sum of.
const SHARDS: u128 = 16;

/// Instances that are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Of the definition.
    pub version: u64,
    pub state: String,
    pub is_deleted: bool,
}

impl Group {
    fn of(instance: &Instance) -> Self {
        Self {
            version: instance.service_entity_version,
            state: instance.state.clone(),
            is_deleted: instance.deleted,
        }
    }
}

/// The numbers of a service.
pub type Numbers = HashMap<Group, i64>;

/// Keeps numbers on a connection.
pub(super) trait Counted {
    /// An instance was `before` (`None`: it is new) and is `after` now (`None`: it is no more). Of two rows the one that sorts
    /// first is written first, by everybody.
    async fn count_move(
        &mut self,
        before: Option<&Instance>,
        after: Option<&Instance>,
    ) -> Result<()>;
}

on_both! {
    Counted {
        async fn count_move(
            &mut self,
            before: Option<&Instance>,
            after: Option<&Instance>,
        ) -> Result<()> {
            const SQL: &str = "INSERT INTO service_count (environment_id, entity, entity_version, state, is_deleted, shard, \
                               n_instances) VALUES ($1, $2, $3, $4, $5, $6, $7) \
                               ON CONFLICT (environment_id, entity, entity_version, state, is_deleted, shard) DO UPDATE \
                               SET n_instances = service_count.n_instances + excluded.n_instances";
            let Some(instance) = after.or(before) else { return Ok(()) };
            let (was, is) = (before.map(Group::of), after.map(Group::of));
            if was == is {
                return Ok(());
            }
            let shard = i64::try_from(instance.id.as_u128() % SHARDS).unwrap_or_default();
            let mut moved: Vec<(Group, i64)> =
                [(was, -1), (is, 1)].into_iter().filter_map(|(group, n)| Some((group?, n))).collect();
            moved.sort();
            for (group, n_more) in moved {
                sqlx::query(SQL)
                    .bind(instance.environment.to_string())
                    .bind(crate::store::storable(&instance.service_entity))
                    .bind(counter(group.version))
                    .bind(crate::store::storable(&group.state))
                    .bind(group.is_deleted)
                    .bind(shard)
                    .bind(n_more)
                    .execute(&mut *self)
                    .await?;
            }
            Ok(())
        }
    }
}

impl Store {
    /// How many instances a service has, by group; groups without instances are left out.
    pub async fn service_numbers(
        &self,
        environment: EnvironmentId,
        service: &str,
    ) -> Result<Numbers> {
        const SQL: &str = "SELECT entity_version, state, is_deleted, CAST(SUM(n_instances) AS BIGINT) FROM service_count \
                           WHERE environment_id = $1 AND entity = $2 GROUP BY entity_version, state, is_deleted \
                           HAVING SUM(n_instances) <> 0";
        let rows: Vec<(i64, String, bool, i64)> = read!(self.db, pool => {
            let query = sqlx::query_as(SQL).bind(environment.to_string());
            query.bind(crate::store::storable(service).into_owned()).fetch_all(pool).await?
        });
        let numbers = rows.into_iter().map(|(version, state, is_deleted, n)| {
            let group = Group {
                version: counted(version),
                state,
                is_deleted,
            };
            (group, n)
        });
        Ok(numbers.collect())
    }

    /// Removes rows of numbers that say nothing, such as those of a version that no instance is of any more.
    pub async fn service_count_purge(&self, environment: EnvironmentId) -> Result<u64> {
        const SQL: &str = "DELETE FROM service_count WHERE environment_id = $1 AND n_instances = 0";
        Ok(write!(self.db, pool => {
            sqlx::query(SQL).bind(environment.to_string()).execute(pool).await?.rows_affected()
        }))
    }
}

/// Whether a number of a definition's version is within a bound of a search: SQL's comparison, and the number.
pub(super) fn is_within(version: u64, (comparison, bound): &(&str, i64)) -> bool {
    let version = counter(version);
    match comparison.trim() {
        "=" => version == *bound,
        "<>" => version != *bound,
        "<" => version < *bound,
        "<=" => version <= *bound,
        ">" => version > *bound,
        ">=" => version >= *bound,
        _ => false,
    }
}

#[cfg(test)]
pub(super) mod tests;
