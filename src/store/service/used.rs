//! The values that a path finds in the attributes of a service's instances: what a pool has given away.
//!
//! A compile that takes a number from a pool must know all that are taken, of which there is one for each instance. To read
//! and decode all instances for each of these compiles would make an order the slower the more there are. So the values of a
//! path are remembered here, by instance, and before each answer only the instances that have changed since the last one are
//! read again (see `remembered`).
//!
//! Between the commit of a change and the call that tells of it an answer may lack the change. For compiles that take values
//! this makes no difference: one that has taken some is begun again if another one has written since it began (see
//! `compile::execute`), and whoever writes holds the lock on that until it has told.

mod numbers;

use std::collections::{BTreeMap, BTreeSet};

use numbers::Numbers;
use serde_json::Value;
use steward_lsm::dict_path::WildPath;

use super::instance::attributes_of;
use crate::domain::EnvironmentId;
use crate::store::macros::{read, row};
use crate::store::{Result, Store};

/// Instances that are read again in one statement; SQLite takes 32766 parameters.
const AT_ONCE: usize = 10_000;

/// What is known of the values of one path.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// By the id of the instance.
    values: BTreeMap<String, Vec<Value>>,
    /// Those of them that are numbers.
    numbers: Numbers,
}

fn numbers_of(values: &[Value]) -> impl Iterator<Item = i64> {
    values.iter().filter_map(Value::as_i64)
}

impl Known {
    fn of(values: BTreeMap<String, Vec<Value>>) -> Self {
        let numbers = values.values().flat_map(|values| numbers_of(values));
        let numbers = numbers.collect();
        Self { values, numbers }
    }

    fn insert(&mut self, id: String, values: Vec<Value>) {
        self.remove(&id);
        numbers_of(&values).for_each(|number| self.numbers.add(number));
        self.values.insert(id, values);
    }

    fn remove(&mut self, id: &str) {
        let values = self.values.remove(id).unwrap_or_default();
        numbers_of(&values).for_each(|number| self.numbers.remove(number));
    }

    /// All values, but not those of the instances `without`.
    fn all(&self, without: &BTreeSet<String>) -> Vec<Value> {
        let others = self.values.iter().filter(|(id, _)| !without.contains(*id));
        others.flat_map(|(_, values)| values).cloned().collect()
    }

    /// A number of a pool that is free, when the instances `without` have the numbers that the pool says.
    fn free(&mut self, pool: &Pool<'_>) -> Option<i64> {
        let left_out = pool.without.iter().filter_map(|id| self.values.get(id));
        let left_out: Vec<i64> = left_out.flat_map(|values| numbers_of(values)).collect();
        for number in &left_out {
            self.numbers.remove(*number);
        }
        pool.taken
            .iter()
            .for_each(|number| self.numbers.add(*number));
        let found = self.numbers.free(pool.lower, pool.upper, pool.draw);
        pool.taken
            .iter()
            .for_each(|number| self.numbers.remove(*number));
        left_out
            .into_iter()
            .for_each(|number| self.numbers.add(number));
        found
    }
}

/// A range of numbers, and which of those that are free is wanted: see [`steward_compiler::ServiceQuestion::FreeNumber`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Pool<'a> {
    pub(super) without: &'a BTreeSet<String>,
    pub(super) taken: &'a [i64],
    pub(super) lower: i64,
    pub(super) upper: i64,
    pub(super) draw: u64,
}

row! {
    struct Row {
        id: String,
        candidate: Option<String>,
        active: Option<String>,
        rollback: Option<String>,
    }
}

/// What values are found in: the instances of a service that have not ended. `$1` is the environment, `$2` the service.
const ALL: &str = "SELECT id, candidate, active, rollback FROM service_instance \
                   WHERE is_deleted = FALSE AND environment_id = $1 AND entity = $2";

/// The same of `n_ids` instances, which are `$3` and so on. The service is compared in a way that no index has: SQLite would
/// take the one of all instances of the service, and read all of them.
pub(super) fn some_of(n_ids: usize) -> String {
    let ids = super::parameters(3, n_ids);
    format!(
        "SELECT id, candidate, active, rollback FROM service_instance \
         WHERE is_deleted = FALSE AND environment_id = $1 AND entity || '' = $2 AND id IN ({ids})"
    )
}

impl Row {
    /// The values in all sets, without nulls; an error where the path leads through something that is no container.
    fn values(&self, path: &WildPath) -> Result<std::result::Result<Vec<Value>, String>> {
        let mut found = Vec::new();
        let sets = [
            ("candidate", &self.candidate),
            ("active", &self.active),
            ("rollback", &self.rollback),
        ];
        for (column, text) in sets {
            let Some(set) = attributes_of(column, &self.id, text.as_deref())? else {
                continue;
            };
            let set = Value::Object(set);
            match path.get_elements(&set) {
                Ok(values) => {
                    found.extend(values.into_iter().filter(|value| !value.is_null()).cloned())
                }
                Err(error) => return Ok(Err(format!("{}: {error}", self.id))),
            }
        }
        Ok(Ok(found))
    }
}

impl Store {
    /// The values that a wild path finds in any set of the instances of a service that have not ended, nulls left out, in the
    /// order of the instances' ids; but not of the instances `without`. The inner error: the path is none, or does not fit.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn services_values(
        &self,
        environment: EnvironmentId,
        service: &str,
        path: &str,
        without: &BTreeSet<String>,
    ) -> Result<std::result::Result<Vec<Value>, String>> {
        self.used_look(environment, service, path, |known| known.all(without))
            .await
    }

    /// A number of a pool that no instance of a service has at a path. The inner error as above.
    pub(super) async fn services_free_number(
        &self,
        environment: EnvironmentId,
        service: &str,
        path: &str,
        pool: Pool<'_>,
    ) -> Result<std::result::Result<Option<i64>, String>> {
        self.used_look(environment, service, path, |known| known.free(&pool))
            .await
    }

    /// Looks at what is known of a path when it is up to date.
    async fn used_look<T>(
        &self,
        environment: EnvironmentId,
        service: &str,
        path: &str,
        look: impl FnOnce(&mut Known) -> T,
    ) -> Result<std::result::Result<T, String>> {
        let wild = match WildPath::parse(path) {
            Ok(wild) => wild,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let key = (service.to_owned(), path.to_owned());
        let values = self.remembered.values.of(environment, key);
        let mut known = values.known.lock().await;
        let changed = values.take_changed();
        let current = known.take();
        let found = self.values_read(environment, service, &wild, current, &changed);
        match found.await {
            Ok(Ok(mut current)) => {
                let found = look(&mut current);
                *known = Some(current);
                Ok(Ok(found))
            }
            // What was known is gone: the next question reads it all.
            Ok(Err(message)) => Ok(Err(message)),
            Err(error) => Err(error),
        }
    }

    /// What is known, with the changed instances read again; all of them if nothing is known.
    async fn values_read(
        &self,
        environment: EnvironmentId,
        service: &str,
        path: &WildPath,
        known: Option<Known>,
        changed: &BTreeSet<String>,
    ) -> Result<std::result::Result<Known, String>> {
        let environment = environment.to_string();
        let mut rows: Vec<Row> = Vec::new();
        let known = known.filter(|known| !known.values.is_empty());
        if known.is_none() {
            rows = read!(self.db, pool => {
                sqlx::query_as(ALL).bind(&environment).bind(service).fetch_all(pool).await?
            });
        } else {
            let ids: Vec<&String> = changed.iter().collect();
            for chunk in ids.chunks(AT_ONCE) {
                let sql = some_of(chunk.len());
                let some: Vec<Row> = read!(self.db, pool => {
                    let mut query = sqlx::query_as(&sql).bind(&environment).bind(service);
                    for id in chunk {
                        query = query.bind(*id);
                    }
                    query.fetch_all(pool).await?
                });
                rows.extend(some);
            }
        }
        let mut read = BTreeMap::new();
        for row in rows {
            match row.values(path)? {
                Ok(values) => read.insert(row.id, values),
                Err(message) => return Ok(Err(message)),
            };
        }
        let Some(mut known) = known else {
            return Ok(Ok(Known::of(read)));
        };
        changed.iter().for_each(|id| known.remove(id));
        for (id, values) in read {
            known.insert(id, values);
        }
        Ok(Ok(known))
    }
}

#[cfg(test)]
mod tests;
