//! Looks at a database without writing anything: could a server open it as it is now?

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::migrations::{self, Dialect};
use super::{Error, Result, Store, address};

/// As long as the start of a server waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// What every SQLite file that is not empty begins with.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

const HAS_HISTORY: [&str; 2] = [
    "SELECT COUNT(*) FROM sqlite_master WHERE name = '_sqlx_migrations'",
    "SELECT COUNT(*) FROM pg_class WHERE oid = to_regclass('_sqlx_migrations')",
];
const HISTORY: &str = "SELECT version, checksum FROM _sqlx_migrations ORDER BY version";

/// Number and digest of a step that a database has made.
type Step = (i64, Vec<u8>);

impl Store {
    /// Connects to PostgreSQL, for at most 10 s, and looks at the history of its schema.
    ///
    /// # Errors
    /// It does not answer, refuses the connection, or has a schema that this version of Steward does not know.
    pub async fn probe_postgres(url: &str) -> Result<()> {
        let fail = |source| Error::Open {
            url: address::shown(url),
            source,
        };
        let options = PgConnectOptions::from_str(url).map_err(fail)?;
        let options = options.disable_statement_logging();
        let connecting = PgConnection::connect_with(&options);
        let connected = tokio::time::timeout(PATIENCE, connecting).await;
        let connected = connected.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        let mut connection = connected.map_err(fail)?;
        let history = async {
            let (n_tables,): (i64,) = sqlx::query_as(HAS_HISTORY[1])
                .fetch_one(&mut connection)
                .await?;
            match n_tables {
                0 => Ok(Vec::new()),
                _ => sqlx::query_as(HISTORY).fetch_all(&mut connection).await,
            }
        };
        let history = tokio::time::timeout(PATIENCE, history).await;
        let steps = history.unwrap_or(Err(sqlx::Error::PoolTimedOut));
        known(Dialect::Postgres, &steps.map_err(fail)?)
    }

    /// Looks at the SQLite file at `path`. What is not there, or empty, will be made. Of a file that a server has open, or that
    /// was not closed, only the first bytes are looked at: to read the rest would be to write beside it.
    ///
    /// # Errors
    /// It is no SQLite file, cannot be read, or has a schema that this version of Steward does not know.
    pub async fn probe_sqlite(path: &Path) -> Result<()> {
        let fail = |source| Error::Open {
            url: path.display().to_string(),
            source,
        };
        let size = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.len());
        if size(path) == 0 {
            return Ok(());
        }
        let mut magic = Vec::new();
        let file = File::open(path).map_err(|error| fail(error.into()))?;
        let read = file.take(SQLITE_MAGIC.len() as u64).read_to_end(&mut magic);
        read.map_err(|error| fail(error.into()))?;
        if magic != SQLITE_MAGIC {
            return Err(fail(
                std::io::Error::other("the file is no SQLite database").into(),
            ));
        }
        if size(&log_of(path)) > 0 {
            return Ok(());
        }
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .immutable(true)
            .disable_statement_logging();
        let history = async {
            let mut connection = SqliteConnection::connect_with(&options).await?;
            let (n_tables,): (i64,) = sqlx::query_as(HAS_HISTORY[0])
                .fetch_one(&mut connection)
                .await?;
            match n_tables {
                0 => Ok(Vec::new()),
                _ => sqlx::query_as(HISTORY).fetch_all(&mut connection).await,
            }
        };
        known(Dialect::Sqlite, &history.await.map_err(fail)?)
    }
}

/// SQLite's write-ahead log.
fn log_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// The steps that a database has made are ours, as the start of a server wants it.
fn known(dialect: Dialect, steps: &[Step]) -> Result<()> {
    let ours = migrations::migrator(dialect);
    for (version, checksum) in steps {
        let of_ours = ours.iter().find(|step| step.version == *version);
        let of_ours = of_ours.ok_or(MigrateError::VersionMissing(*version))?;
        if of_ours.checksum[..] != checksum[..] {
            return Err(MigrateError::VersionMismatch(*version).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::chain;

    /// Given: files that a server opens, and files that none does. Expected: the probe says the same, and writes nothing.
    #[tokio::test]
    async fn a_file_is_probed_as_a_server_opens_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steward.db");
        Store::probe_sqlite(&path).await.unwrap();
        assert!(!path.exists());
        let store = Store::open_sqlite(&path).await.unwrap();
        Store::probe_sqlite(&path).await.unwrap();
        store.close().await;
        Store::probe_sqlite(&path).await.unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let options = SqliteConnectOptions::new().filename(&path);
        for (change, told) in [
            (
                "UPDATE _sqlx_migrations SET version = 9999 WHERE version = 1",
                ": a newer release of Steward has used it; run that one, or put back the backup from before the upgrade: migration 9999 was",
            ),
            (
                "UPDATE _sqlx_migrations SET version = 1, checksum = x'00' WHERE version = 9999",
                "up to date: migration 1 was",
            ),
        ] {
            let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
            sqlx::query(change).execute(&mut connection).await.unwrap();
            // It is in the log still, and a server may be at it.
            Store::probe_sqlite(&path).await.unwrap();
            connection.close().await.unwrap();
            let error = Store::probe_sqlite(&path).await.unwrap_err();
            assert!(chain(&error).contains(told), "{}", chain(&error));
            assert_eq!(
                chain(&Store::open_sqlite(&path).await.unwrap_err()),
                chain(&error)
            );
        }
        fs::write(&path, "a text").unwrap();
        let error = Store::probe_sqlite(&path).await.unwrap_err();
        assert!(
            chain(&error).contains("no SQLite database"),
            "{}",
            chain(&error)
        );
        assert!(Store::open_sqlite(&path).await.is_err());
    }
}
