//! One query text, two databases: `read!`, `write!` and `transaction!` compile their body once for
//! SQLite and once for PostgreSQL.
//!
//! The drivers have different types, and no trait of theirs covers both; a macro that repeats the
//! body needs none. Inside, `pool` or `tx` is the one of the database at hand. SQL is kept to what
//! both understand.

use sqlx::Database;
use sqlx::pool::PoolConnection;

/// A connection that is closed with the value, unless it was said to be in order.
///
/// A task that is ended between the driver's `BEGIN` and its answer leaves a transaction which nobody holds: the next one
/// on the connection fails (SQLite), or what is written next is never committed (PostgreSQL). And SQLite rolls back on its
/// own when the disk is full, which the driver does not notice.
pub(super) struct ConnectionGuard<D: Database> {
    connection: PoolConnection<D>,
    is_clean: bool,
}

impl<D: Database> ConnectionGuard<D> {
    pub(super) fn new(connection: PoolConnection<D>) -> Self {
        Self {
            connection,
            is_clean: false,
        }
    }

    pub(super) fn inner(&mut self) -> &mut D::Connection {
        &mut self.connection
    }

    pub(super) fn keep(&mut self) {
        self.is_clean = true;
    }
}

impl<D: Database> Drop for ConnectionGuard<D> {
    fn drop(&mut self) {
        if !self.is_clean {
            self.connection.close_on_drop();
        }
    }
}

/// Runs the body with `$pool` bound to the pool that reads.
macro_rules! read {
    ($db:expr, $pool:ident => $body:expr) => {
        match &$db {
            $crate::store::Db::Sqlite { read: $pool, .. } => $body,
            $crate::store::Db::Postgres { pool: $pool, .. } => $body,
        }
    };
}

/// Runs the body with `$pool` bound to the pool that writes, for one statement. An error if what is written is lost.
macro_rules! write {
    ($db:expr, $pool:ident => $body:expr) => {{
        $db.gate().check()?;
        let value = match &$db {
            $crate::store::Db::Sqlite { write: $pool, .. } => $body,
            $crate::store::Db::Postgres { pool: $pool, .. } => $body,
        };
        $db.gate().check()?;
        value
    }};
}

/// Runs the body in one transaction, `$tx` its connection, and commits. A `?` or an early return of an error in the body
/// rolls back.
///
/// Before and after it is asked whether the database is still the one that was opened: what is said to be written is.
///
/// On SQLite the transaction takes the write lock at once: a read that turns into a write fails instead of waiting. The
/// connection is closed unless the transaction came to its end: see [`ConnectionGuard`].
macro_rules! transaction {
    ($db:expr, $tx:ident => $body:expr) => {{
        $db.gate().check()?;
        let value = match &$db {
            $crate::store::Db::Sqlite { write, .. } => {
                $crate::store::macros::transaction!(write, "BEGIN IMMEDIATE", $tx => $body)
            }
            $crate::store::Db::Postgres { pool, .. } => {
                $crate::store::macros::transaction!(pool, "BEGIN", $tx => $body)
            }
        };
        $db.gate().check()?;
        value
    }};
    ($pool:expr, $begin:literal, $tx:ident => $body:expr) => {{
        let mut connection = $crate::store::macros::ConnectionGuard::new($pool.acquire().await?);
        let outcome = async {
            let mut transaction = sqlx::Connection::begin_with(connection.inner(), $begin).await?;
            let $tx = &mut *transaction;
            let value = $body;
            transaction.commit().await?;
            Ok::<_, $crate::store::Error>(value)
        };
        let outcome = outcome.await;
        if !matches!(&outcome, Err($crate::store::Error::Query(_))) {
            connection.keep();
        }
        outcome?
    }};
}

/// Declares a struct that a row of either database is read into, each field from the column of its name.
///
/// `sqlx` has a derive for this, which compiles both drivers once more, for the process that compiles us.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($field_visibility:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $visibility struct $name {
            $($field_visibility $field: $type,)*
        }
        $crate::store::macros::row!(read sqlx::sqlite::SqliteRow, $name, $($field),*);
        $crate::store::macros::row!(read sqlx::postgres::PgRow, $name, $($field),*);
    };
    (read $row:ty, $name:ident, $($field:ident),*) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> sqlx::Result<Self> {
                use sqlx::Row as _;
                Ok(Self {
                    $($field: row.try_get(stringify!($field))?,)*
                })
            }
        }
    };
}

pub(super) use {read, row, transaction, write};
