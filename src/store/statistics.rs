//! What PostgreSQL knows of how its tables are filled, by which it chooses how to read them.
//!
//! It looks at a table by itself about a minute after many rows of it have changed. Until then it takes a table that was empty
//! for one that still is nearly so, and may read each page of a million ids by sorting all of them: the first search of a list
//! took 63 s right after the first version of a million resources. So whoever has written many rows lets it look at once. Nobody
//! waits for that, and if it fails it is only slow. SQLite knows nothing of the kind: its plans follow from the indexes.

use super::{Db, Store};

/// Fewer rows change no plan that would be noticed.
const MANY: usize = 10_000;

impl Store {
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

    use super::MANY;
    use crate::store::tests::check_on_postgres;
    use crate::store::{Db, Store};

    /// Given: a table of which PostgreSQL knows nothing. Expected: it knows how many rows there are soon after many were written,
    /// and not after few.
    #[tokio::test]
    async fn postgresql_looks_at_a_table_when_many_rows_were_written() {
        check_on_postgres(async |url| {
            let store = Store::open_postgres(&url).await.unwrap();
            let Db::Postgres { pool, .. } = &store.db else {
                panic!("it is PostgreSQL")
            };
            let known = async || {
                let sql = "SELECT reltuples::BIGINT FROM pg_class WHERE relname = 'project'";
                sqlx::query_scalar::<_, i64>(sql)
                    .fetch_one(pool)
                    .await
                    .unwrap()
            };
            let fill = "INSERT INTO project (id, name, created_us) SELECT 'p' || n, 'p' || n, 0 FROM generate_series(1, 500) AS n";
            sqlx::query(fill).execute(pool).await.unwrap();
            store.wrote("project", MANY - 1);
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(known().await, -1);
            store.wrote("project", MANY);
            for _ in 0..500 {
                if known().await == 500 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            panic!("it never looked");
        })
        .await;
    }
}
