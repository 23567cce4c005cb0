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
mod probe;
mod project;
mod protected_setting;
mod resource;
mod service;
mod state;
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

pub use action::{Action, ActionEnd, ActionFrom, ActionSearch, ActionStart, Reopened};
pub use compile::{
    Compile, CompileBatches, CompileEnd, CompileKey, CompileRequest, EXPORTING_ALL, Lane, Outcome,
    ServiceCompile, ServiceRequest, Stage,
};
pub use discovered::{Discovered, DiscoveredEntry};
pub use dry_run::{About, DryRun, DryRunResult, UnfinishedDryRun};
pub use environment::{Environment, NewEnvironment};
pub use fact::Fact;
use gate::Gate;
use life::Life;
pub use life::watch;
pub use listing::{COUNTED, Search, Span};
pub use metric::{CompileTimes, Measurement};
use migrations::Dialect;
pub use notification::Notification;
pub use packed::{ResourceRow, StateRow};
pub use project::Project;
pub use resource::StoredResource;
pub use service::{
    Callback, Catalog, CatalogChange, Cause, Changed, Column, Definition, EventSearch, EventSpan,
    InstanceSearch, InstanceSpan, ItemOutcome, Order, OrderItem, OrderSpan, Place, Rules,
    StoredEvent,
};
pub use state::{Agent, ResourceState};
pub use token::Token;
pub use version::{NewVersion, PartialCode, PartialVersion, Requirements, SetChange, Version};
pub use webhook::{Delivery, RefreshRequest};

/// What went wrong with the database.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the database {url}")]
    Open { url: String, source: sqlx::Error },
    #[error("cannot bring the database's schema up to date")]
    Migrate(#[from] sqlx::migrate::MigrateError),
    /// What is written would be lost; the text says what to do.
    #[error("{0}")]
    Lost(String),
    #[error("the database failed")]
    Query(#[source] sqlx::Error),
    #[error("row {id} of table {table} has an unreadable {column}")]
    Row {
        table: &'static str,
        column: &'static str,
        id: String,
    },
    #[error("{0} exists already")]
    Exists(String),
    #[error("there is no {0}")]
    NotFound(String),
    #[error("{0}")]
    Conflict(String),
    /// A setting does not allow it; the text names it.
    #[error("{0}")]
    Denied(String),
    /// What was to be stored breaks a rule; the text names the rule and what broke it.
    #[error("{0}")]
    Refused(String),
    /// No partial export can be built on the newest version, whatever it holds; the text says why. After a full export it can.
    #[error("{0}")]
    Base(String),
}

/// PostgreSQL's code for a character that its encoding does not have: of all that Rust's texts can hold that is NUL.
const CHARACTER_NOT_IN_REPERTOIRE: &str = "22021";

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            // Whatever was to be written, writing it again would fail again.
            Some(CHARACTER_NOT_IN_REPERTOIRE) => Self::Refused(
                "a text contains the character NUL (U+0000), which the database cannot store"
                    .to_owned(),
            ),
            _ => Self::Query(error),
        }
    }
}

impl Error {
    /// What to say of a database that is full or out of reach: the same request may succeed later. `None`: it is something else.
    pub fn outage(&self) -> Option<&'static str> {
        const FULL: &str = "the disk of the database is full, so nothing is written; it goes on when there is room";
        const GONE: &str = "the database does not answer; the log of the server says why";
        match self {
            Self::Query(
                sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed,
            ) => Some(GONE),
            Self::Query(sqlx::Error::Database(error)) => match error.code().as_deref() {
                // SQLite's code, and PostgreSQL's.
                Some("13" | "53100") => Some(FULL),
                // PostgreSQL's classes: no connection, no resources, shut down by an operator.
                Some(code)
                    if code.len() == 5
                        && ["08", "53", "57P"]
                            .iter()
                            .any(|class| code.starts_with(class)) =>
                {
                    Some(GONE)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

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
    /// What pools of services have given away.
    used: Arc<service::Used>,
    /// How many instances services have.
    counts: Arc<service::Counts>,
    /// What large resource sets had when they were stored last.
    large_sets: Arc<version::LargeSets>,
    /// The ids that searches for parts of texts go through.
    names: Arc<listing::NameLists>,
    /// How much room the facts of environments take.
    fact_sizes: Arc<fact::FactSizes>,
}

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
            .busy_timeout(Duration::from_secs(30))
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
            used: Arc::default(),
            counts: Arc::default(),
            large_sets: Arc::default(),
            names: Arc::default(),
            fact_sizes: Arc::default(),
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
            used: Arc::default(),
            counts: Arc::default(),
            large_sets: Arc::default(),
            names: Arc::default(),
            fact_sizes: Arc::default(),
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
                read.close().await;
                write.close().await;
            }
            Db::Postgres { pool, .. } => {
                self.life.let_go().await;
                pool.close().await;
            }
        }
    }
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
