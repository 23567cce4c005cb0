//! One query text, two databases: the body is compiled once for each pool.

/// Runs the body with `$pool` bound to the pool that reads.
macro_rules! read {
    ($db:expr, $pool:ident => $body:expr) => {
        match &$db {
            $crate::store::Db::Sqlite { read: $pool, .. } => $body,
            $crate::store::Db::Postgres($pool) => $body,
        }
    };
}

/// Runs the body with `$pool` bound to the pool that writes, for one statement.
macro_rules! write {
    ($db:expr, $pool:ident => $body:expr) => {
        match &$db {
            $crate::store::Db::Sqlite { write: $pool, .. } => $body,
            $crate::store::Db::Postgres($pool) => $body,
        }
    };
}

/// Runs the body in one transaction, `$tx` its connection, and commits. A `?` in the body rolls back.
///
/// On SQLite the transaction takes the write lock at once: a read that turns into a write fails instead of waiting.
macro_rules! transaction {
    ($db:expr, $tx:ident => $body:expr) => {
        match &$db {
            $crate::store::Db::Sqlite { write, .. } => {
                let mut transaction = write.begin_with("BEGIN IMMEDIATE").await?;
                #[allow(unused_variables, reason = "some bodies only return")]
                let $tx = &mut *transaction;
                let value = $body;
                transaction.commit().await?;
                value
            }
            $crate::store::Db::Postgres(pool) => {
                let mut transaction = pool.begin().await?;
                #[allow(unused_variables, reason = "some bodies only return")]
                let $tx = &mut *transaction;
                let value = $body;
                transaction.commit().await?;
                value
            }
        }
    };
}

pub(super) use {read, transaction, write};
