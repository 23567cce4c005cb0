//! What PostgreSQL knows of how its tables are filled, by which it chooses how to read them.
//!
//! It looks at a table by itself about a minute after many rows of it have changed. Until then it takes a table that was empty
//! for one that still is nearly so, and may read each page of a million ids by sorting all of them: the first search of a list
//! took 63 s right after the first version of a million resources. So whoever has written many rows lets it look at once. Nobody
//! waits for that, and if it fails it is only slow. SQLite knows nothing of the kind: its plans follow from the indexes.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::{Db, SetChange, Store};
use crate::domain::EnvironmentId;

/// Fewer rows change no plan that would be noticed, but where they are all that an environment has.
const MANY: usize = 10_000;

/// With so many rows of an environment its table is looked at, and with ten times as many, and so on. Beside a large environment
/// PostgreSQL does not look by itself before a tenth of the table has changed: until then it believes that the small one has
/// nothing, and reads all that it has for each resource that is looked up.
const FEW: usize = 500;

/// What environments have written to tables since the start.
#[derive(Debug, Default)]
pub(super) struct Grown(Mutex<HashMap<(EnvironmentId, &'static str), Growth>>);

#[derive(Debug)]
struct Growth {
    n_written: usize,
    /// With so many rows the table is looked at next.
    n_next: usize,
}

impl Grown {
    fn has_grown(&self, environment: EnvironmentId, table: &'static str, n_rows: usize) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let growth = all.entry((environment, table)).or_insert(Growth {
            n_written: 0,
            n_next: FEW,
        });
        growth.n_written = growth.n_written.saturating_add(n_rows);
        let has_grown = growth.n_written >= growth.n_next;
        while growth.n_next <= growth.n_written {
            growth.n_next = growth.n_next.saturating_mul(10);
        }
        has_grown
    }
}

impl Store {
    /// So much was written for a version, and is committed.
    pub(super) fn wrote_version(&self, environment: EnvironmentId, change: SetChange) {
        self.wrote_of(environment, "desired_resource", change.n_resources_written);
        self.wrote_of(environment, "desired_set", change.n_sets_written);
    }

    /// So many rows of an environment were written, and are committed.
    pub(super) fn wrote_of(&self, environment: EnvironmentId, table: &'static str, n_rows: usize) {
        match self.grown.has_grown(environment, table, n_rows) {
            true => self.wrote(table, MANY),
            false => self.wrote(table, n_rows),
        }
    }

    /// So many runs of an environment were written. There is no end of them, so only the first ones are looked at so.
    pub(super) fn wrote_actions(&self, environment: EnvironmentId, n_rows: usize) {
        if self.grown.has_grown(environment, "resource_action", n_rows) {
            self.wrote("resource_action", MANY);
        }
    }

    /// So many rows of a table were written, and are committed.
    pub(super) fn wrote(&self, table: &'static str, n_rows: usize) {
        let Db::Postgres { pool, .. } = &self.db else {
            return;
        };
        if n_rows < MANY {
            return;
        }
        let pool = pool.clone();
        tokio::spawn(async move {
            let looked = sqlx::query(&format!("ANALYZE {table}"))
                .execute(&pool)
                .await;
            if let Err(error) = looked {
                tracing::debug!(%error, "PostgreSQL cannot look at its table {table}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{FEW, MANY};
    use crate::store::tests::{check_on_postgres, environment, resource, store_version};
    use crate::store::{Db, Store};

    /// How many rows PostgreSQL believes a table to have; -1 if it never looked.
    async fn n_known(store: &Store, table: &str) -> i64 {
        const SQL: &str = "SELECT reltuples::BIGINT FROM pg_class WHERE relname = $1";
        let Db::Postgres { pool, .. } = &store.db else {
            panic!("it is PostgreSQL")
        };
        let known = sqlx::query_scalar(SQL).bind(table);
        known.fetch_one(pool).await.unwrap()
    }

    /// Waits until PostgreSQL knows that a table has so many rows.
    async fn looks_soon(store: &Store, table: &str, n_rows: usize) {
        for _ in 0..500 {
            if n_known(store, table).await == n_rows as i64 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it never looked");
    }

    /// Given: a table of which PostgreSQL knows nothing. Expected: it knows how many rows there are soon after many were written,
    /// and not after few.
    #[tokio::test]
    async fn postgresql_looks_at_a_table_when_many_rows_were_written() {
        check_on_postgres(async |url| {
            let store = Store::open_postgres(&url).await.unwrap();
            let Db::Postgres { pool, .. } = &store.db else {
                panic!("it is PostgreSQL")
            };
            let fill = "INSERT INTO project (id, name, created_us) SELECT 'p' || n, 'p' || n, 0 FROM generate_series(1, 500) AS n";
            sqlx::query(fill).execute(pool).await.unwrap();
            store.wrote("project", MANY - 1);
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(n_known(&store, "project").await, -1);
            store.wrote("project", MANY);
            looks_soon(&store, "project", 500).await;
        })
        .await;
    }

    /// Given: an environment with few resources. Expected: PostgreSQL knows of them soon after: it would take them for none where
    /// another environment has many.
    #[tokio::test]
    async fn postgresql_looks_at_what_a_small_environment_has() {
        check_on_postgres(async |url| {
            let store = Store::open_postgres(&url).await.unwrap();
            let here = environment(&store).await;
            let one = |number: usize| resource(&number.to_string(), "x", "");
            store_version(&store, here, (0..FEW).map(one).collect()).await;
            looks_soon(&store, "desired_resource", FEW).await;
        })
        .await;
    }

    /// Given: a first version of many sets. Expected: PostgreSQL knows soon after that there are so many: when it does not, it
    /// goes through all of them for the one that a partial version replaces.
    #[tokio::test]
    async fn postgresql_looks_at_the_sets_of_a_large_version() {
        check_on_postgres(async |url| {
            let store = Store::open_postgres(&url).await.unwrap();
            let here = environment(&store).await;
            let set = |number: usize| resource(&number.to_string(), "x", &format!("set {number}"));
            let resources = (0..MANY).map(set).collect();
            store_version(&store, here, resources).await;
            looks_soon(&store, "desired_set", MANY).await;
        })
        .await;
    }
}
