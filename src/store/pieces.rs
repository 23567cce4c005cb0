//! Rows that are removed some at a time: on SQLite whoever writes waits for each transaction, and a million rows that nobody
//! needs any more shall not keep a webhook waiting.

use std::future::Future;

use super::{Db, Result};

/// Removes rows some at a time, since others want to write meanwhile, until there are fewer than that; gives how many went.
pub(in crate::store) async fn in_pieces<F>(
    n_at_once: i64,
    mut remove: impl FnMut() -> F,
) -> Result<u64>
where
    F: Future<Output = Result<u64>>,
{
    let mut n_removed = 0;
    loop {
        let n_now = remove().await?;
        n_removed += n_now;
        if n_now < n_at_once.unsigned_abs() {
            return Ok(n_removed);
        }
    }
}

/// The statement that removes at most so many of the rows of a table for which a condition holds; its parameters are those of
/// the condition. By their places in the table: to find the rows of a list of keys, PostgreSQL may read the whole table.
pub(in crate::store) fn piece_sql(db: &Db, table: &str, condition: &str, n_at_once: i64) -> String {
    match db {
        Db::Sqlite { .. } => format!(
            "DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE {condition} LIMIT {n_at_once})"
        ),
        Db::Postgres { .. } => format!(
            "DELETE FROM {table} WHERE ctid = ANY (ARRAY(\
             SELECT ctid FROM {table} WHERE {condition} LIMIT {n_at_once}))"
        ),
    }
}
