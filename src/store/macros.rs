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

/// The statements around a transaction, as far as there are any, if it is a repeatable one.
pub(super) fn around(is_repeatable: bool, texts: [&'static str; 3]) -> [Option<&'static str>; 3] {
    texts.map(|text| Some(text).filter(|text| is_repeatable && !text.is_empty()))
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
///
/// `repeatable IS, tx => ..`: where `IS` is true, the commit does not wait until the disk has it. Everybody sees it, and the end
/// of a process takes nothing of it away; but a power cut may, with all that was committed behind it, up to the next commit
/// that waits: both databases keep what was committed in its order. So this is for what would be done again from what was there
/// before: who is told of it must not count on it.
macro_rules! transaction {
    ($db:expr, $tx:ident => $body:expr) => {
        $crate::store::macros::transaction!($db, repeatable false, $tx => $body)
    };
    ($db:expr, repeatable $is_repeatable:expr, $tx:ident => $body:expr) => {{
        $db.gate().check()?;
        let value = match &$db {
            $crate::store::Db::Sqlite { write, .. } => {
                let pragmas = ["PRAGMA synchronous = NORMAL", "", "PRAGMA synchronous = FULL"];
                $crate::store::macros::transaction!(write, "BEGIN IMMEDIATE", ($is_repeatable, pragmas), $tx => $body)
            }
            $crate::store::Db::Postgres { pool, .. } => {
                let setting = ["", "SET LOCAL synchronous_commit TO OFF", ""];
                $crate::store::macros::transaction!(pool, "BEGIN", ($is_repeatable, setting), $tx => $body)
            }
        };
        $db.gate().check()?;
        value
    }};
    // The texts are run before, in and after a repeatable transaction.
    ($pool:expr, $begin:literal, ($is_repeatable:expr, $texts:expr), $tx:ident => $body:expr) => {{
        let mut connection = $crate::store::macros::ConnectionGuard::new($pool.acquire().await?);
        let [before, within, after] = $crate::store::macros::around($is_repeatable, $texts);
        if let Some(before) = before {
            sqlx::query(before).execute(connection.inner()).await?;
        }
        let outcome = async {
            let mut transaction = sqlx::Connection::begin_with(connection.inner(), $begin).await?;
            if let Some(within) = within {
                sqlx::query(within).execute(&mut *transaction).await?;
            }
            let $tx = &mut *transaction;
            let value = $body;
            transaction.commit().await?;
            Ok::<_, $crate::store::Error>(value)
        };
        let outcome = outcome.await;
        if let Some(after) = after {
            // Else the connection is closed, and the next one is as it shall be.
            sqlx::query(after).execute(connection.inner()).await?;
        }
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
