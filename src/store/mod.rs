//! All SQL, for SQLite and PostgreSQL, from one set of texts.
//!
//! Callers get plain structs and never see a query. Each file holds one thing; `Store` is cheap to clone. What must be
//! true together is written in one transaction. SQLite has one writing connection, so writers queue here rather than
//! fail with "busy"; readers have a pool of their own.

mod action;
mod address;
mod batch;
mod clear;
mod columns;
mod compile;
mod discovered;
mod dry_run;
mod environment;
mod error;
mod fact;
mod gate;
mod life;
mod line;
mod listing;
mod macros;
mod metric;
mod migrations;
mod notification;
mod packed;
mod pieces;
mod probe;
mod project;
mod protected_setting;
mod resource;
mod service;
mod state;
mod statistics;
mod token;
mod version;
mod webhook;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, PgPool, SqlitePool};

pub use action::{
    Action, ActionEnd, ActionFrom, ActionPlan, ActionSearch, ActionStart, Narrowed, Reopened,
    StoreAction,
};
pub use compile::{
    Compile, CompileBatches, CompileEnd, CompileRequest, CompileSearch, EXPORTING_ALL, Lane,
    Outcome, ServiceCompile, ServiceRequest, Stage,
};
pub use discovered::{Discovered, DiscoveredEntry, DiscoveredOrder, DiscoveredSearch};
pub use dry_run::{About, Compared, DryRun, DryRunNote, DryRunResult, UnfinishedDryRun};
pub use environment::{Environment, NewEnvironment};
pub use error::Error;
pub use fact::{Fact, FactAge, FactOrder, FactSearch, ParameterOrder, ParameterSearch, Unknown};
use gate::Gate;
use life::Life;
pub use life::watch;
pub use listing::{COUNTED, Edge, IdPart, Key, Part, Search, Span, StateOrder};
pub use metric::{CompileTimes, Measurement};
use migrations::Dialect;
pub use notification::{Notification, NotificationSearch};
pub use packed::{ResourceRow, SeesRows, StateRow};
pub use project::Project;
pub use resource::{ResourceLinks, StoredResource};
pub use service::{
    Callback, Catalog, CatalogChange, Cause, Changed, Column, Definition, EventSearch, EventSpan,
    InstanceSearch, InstanceSpan, ItemOutcome, Order, OrderItem, OrderSpan, Place, Rules,
    StoredEvent,
};
pub use state::{Agent, AgentOrder, AgentSearch, ResourceState};
pub use token::Token;
pub use version::{
    NewVersion, PartialCode, PartialVersion, Requirements, Sent, SetChange, Version, VersionSearch,
};
pub use webhook::{Delivery, RefreshRequest};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone)]
enum Db {
    Sqlite {
        read: SqlitePool,
        write: SqlitePool,
        gate: Arc<Gate>,
    },
    Postgres {
        pool: PgPool,
        gate: Arc<Gate>,
    },
}

impl Db {
    fn gate(&self) -> &Gate {
        match self {
            Self::Sqlite { gate, .. } | Self::Postgres { gate, .. } => gate,
        }
    }
}

/// The database behind everything that must survive a restart.
#[derive(Debug, Clone)]
pub struct Store {
    db: Db,
    life: Arc<Life>,
    /// The catalogs of services that were read last.
    catalogs: Arc<service::Catalogs>,
    /// What is known of instances of services.
    remembered: Arc<service::Remembered>,
    /// What large resource sets had when they were stored last.
    large_sets: Arc<version::LargeSets>,
    /// The ids that searches for parts of texts go through.
    names: Arc<listing::NameLists>,
    /// How much room the facts of environments take.
    fact_sizes: Arc<fact::FactSizes>,
    /// How much of environments was written to tables.
    grown: Arc<statistics::Grown>,
}

/// How long a write waits for another process that has the SQLite file locked; we lock it against nobody but ourselves.
const BUSY: Duration = Duration::from_secs(10);
/// Rows of SQLite that wait for whoever reads them.
const ROWS_AT_ONCE: usize = 1000;

impl Store {
    /// Opens the SQLite file at `path`, made if it is not there, and brings its schema up to date.
    pub async fn open_sqlite(path: &Path) -> Result<Self> {
        let fail = |source| Error::Open {
            url: path.display().to_string(),
            source,
        };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // FULL: what was acknowledged survives a power cut, not only a crash of ours.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(BUSY)
            .foreign_keys(true)
            .pragma("cache_size", "-4096")
            // Rows go from the driver's thread to the task that waits for them through a buffer; each time that it is full,
            // and empty, one waits for the other. A list of a thousand rows changes threads once so, and not 20 times.
            .row_buffer_size(ROWS_AT_ONCE)
            .disable_statement_logging();
        let write = SqlitePoolOptions::new()
            .max_connections(1)
            .min_connections(1);
        let write = write.connect_with(options.clone()).await.map_err(fail)?;
        migrations::migrator(Dialect::Sqlite).run(&write).await?;
        let read = SqlitePoolOptions::new()
            .max_connections(4)
            .connect_with(options)
            .await
            .map_err(fail)?;
        let gate = Gate::of_file(path).map_err(|error| fail(error.into()))?;
        Ok(Self {
            db: Db::Sqlite {
                read,
                write,
                gate: Arc::new(gate),
            },
            life: Arc::default(),
            catalogs: Arc::default(),
            remembered: Arc::default(),
            large_sets: Arc::default(),
            names: Arc::default(),
            fact_sizes: Arc::default(),
            grown: Arc::default(),
        })
    }

    /// Connects to PostgreSQL by `postgres://…` and brings its schema up to date.
    pub async fn open_postgres(url: &str) -> Result<Self> {
        let shown = address::shown(url);
        let fail = |source| Error::Open {
            url: shown.clone(),
            source,
        };
        let nonce = uuid::Uuid::now_v7().to_string();
        let options = PgConnectOptions::from_str(url).map_err(fail)?;
        let gate = Arc::new(Gate::of_sessions(nonce.clone()));
        let pool = line::pool_options(&gate, options.get_port());
        let pool = pool.connect_with(line::options(options, &nonce));
        let pool = pool.await.map_err(fail)?;
        migrations::migrator(Dialect::Postgres).run(&pool).await?;
        Ok(Self {
            db: Db::Postgres { pool, gate },
            life: Arc::default(),
            catalogs: Arc::default(),
            remembered: Arc::default(),
            large_sets: Arc::default(),
            names: Arc::default(),
            fact_sizes: Arc::default(),
            grown: Arc::default(),
        })
    }

    /// Whether the database answers; [`Store::check`] asks for more.
    pub async fn ping(&self) -> Result<()> {
        let _: (i64,) = macros::read!(self.db, pool => {
            sqlx::query_as("SELECT CAST(1 AS BIGINT)").fetch_one(pool).await?
        });
        Ok(())
    }

    /// The kind, for people.
    pub fn kind(&self) -> &'static str {
        match self.db {
            Db::Sqlite { .. } => "SQLite",
            Db::Postgres { .. } => "PostgreSQL",
        }
    }

    fn is_sqlite(&self) -> bool {
        matches!(self.db, Db::Sqlite { .. })
    }

    /// Lets go of all connections; SQLite then merges its write-ahead log.
    pub async fn close(&self) {
        match &self.db {
            Db::Sqlite { read, write, .. } => {
                close_all(read).await;
                close_all(write).await;
            }
            Db::Postgres { pool, .. } => {
                self.life.let_go().await;
                close_all(pool).await;
            }
        }
    }
}

/// Closes all connections of a pool. The first pass waits for those that are on their way back into it, but leaves them idle
/// there (sqlx 0.8 looks for idle ones only before it waits): the second one closes them. A connection of SQLite that stays open
/// keeps the write-ahead log from being merged.
async fn close_all<D: sqlx::Database>(pool: &sqlx::Pool<D>) {
    pool.close().await;
    pool.close().await;
}

/// Whether a row was refused because one like it is there.
fn is_duplicate(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_unique_violation())
}

/// A text from outside as both databases take it: PostgreSQL has no NUL in texts.
fn storable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}").into()
    } else {
        text.into()
    }
}

/// A JSON document of ours, back from its column.
fn document<T: serde::de::DeserializeOwned>(
    table: &'static str,
    column: &'static str,
    id: &str,
    text: &str,
) -> Result<T> {
    serde_json::from_str(text).map_err(|_| Error::Row {
        table,
        column,
        id: id.to_owned(),
    })
}

/// An id or a word of ours, back from its column.
fn parsed<T: FromStr>(table: &'static str, column: &'static str, text: &str) -> Result<T> {
    text.parse().map_err(|_| Error::Row {
        table,
        column,
        id: text.to_owned(),
    })
}

#[cfg(test)]
pub(crate) mod tests;
