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

/// Runs the body in one transaction, `$tx` its connection, and commits. A `?` or an early return of an error in the body
/// rolls back.
///
/// On SQLite the transaction takes the write lock at once: a read that turns into a write fails instead of waiting. A
/// connection on which the database failed is closed: SQLite rolls back on its own when the disk is full, the driver does
/// not notice, and would refuse every further transaction on it.
macro_rules! transaction {
    ($db:expr, $tx:ident => $body:expr) => {
        match &$db {
            $crate::store::Db::Sqlite { write, .. } => {
                let mut connection = write.acquire().await?;
                let outcome = async {
                    let mut transaction =
                        sqlx::Connection::begin_with(&mut *connection, "BEGIN IMMEDIATE").await?;
                    let $tx = &mut *transaction;
                    let value = $body;
                    transaction.commit().await?;
                    Ok::<_, $crate::store::Error>(value)
                };
                let outcome = outcome.await;
                if matches!(&outcome, Err($crate::store::Error::Query(_))) {
                    connection.close_on_drop();
                }
                outcome?
            }
            $crate::store::Db::Postgres(pool) => {
                let outcome = async {
                    let mut transaction = pool.begin().await?;
                    let $tx = &mut *transaction;
                    let value = $body;
                    transaction.commit().await?;
                    Ok::<_, $crate::store::Error>(value)
                };
                outcome.await?
            }
        }
    };
}

pub(super) use {read, transaction, write};
