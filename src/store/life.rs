//! The health of the database: does it take what is written, and give it back on another connection.
//!
//! Each start of a server has a row of its own. A check writes the time into it as all writes go, and reads it by
//! another connection, which on SQLite is opened for that. A row that is gone, or another time, means that what is
//! written is lost: then nothing is written until a check is good again.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqlitePool};
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use super::{Db, Error, Result, Store, line};
use crate::domain::{ActionId, Timestamp};

/// How often the database is looked at.
const EVERY: Duration = Duration::from_secs(5);
/// A database that takes longer for an answer counts as one that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A result is good for this long, so that nobody can keep the database busy by asking for health.
const FRESH: Duration = Duration::from_millis(500);
/// How long another process may hold the SQLite file before the check says so.
const LOCKED: Duration = Duration::from_secs(2);
/// So long a write of our own may keep a check from writing.
const OWN_WRITE: Duration = Duration::from_secs(60);
/// Any number will do, as long as all servers use the same.
const LOCK: &str = "SELECT pg_try_advisory_lock(5773651884212)";
/// A session that is told to end has let go of its lock after some of these.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(25);
/// A disk with less room than that counts as full.
const ROOM_BYTES: u64 = 64 << 10;
const BEAT: &str = "UPDATE server_start SET beat_us = $1 WHERE nonce = $2";
const READ: &str = "SELECT beat_us FROM server_start WHERE nonce = $1";

/// What the checks share.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// PostgreSQL: the session that has the lock on the database; it lets go of it when the session ends.
    hold: tokio::sync::Mutex<Option<sqlx::PgConnection>>,
    last: tokio::sync::Mutex<Last>,
    /// What the last check found, for whoever cannot wait for the next.
    trouble: Mutex<Option<String>>,
    /// How often that session had to be made again.
    n_lost: tokio::sync::watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Last {
    checked: Option<(Instant, Option<String>)>,
    good: Option<Instant>,
}

impl Life {
    pub(super) async fn let_go(&self) {
        *self.hold.lock().await = None;
    }
}

impl Store {
    /// Takes the database for this server alone, for as long as it is open; `false`: another one has it. SQLite is held
    /// by the lock on the data directory.
    pub async fn acquire_single_server_lock(&self) -> Result<bool> {
        if let Db::Postgres { pool, .. } = &self.db {
            let mut connection = pool.acquire().await?.detach();
            let (held,): (bool,) = sqlx::query_as(LOCK).fetch_one(&mut connection).await?;
            if !held {
                return Ok(false);
            }
            *self.life.hold.lock().await = Some(connection);
        }
        let before = self.begin().await?;
        if let Some(connection) = &mut *self.life.hold.lock().await {
            for nonce in before {
                line::end_sessions(connection, &nonce).await?;
            }
        }
        Ok(true)
    }

    /// Writes the row of this start, and the number in the header of a file; gives the names of those before it.
    async fn begin(&self) -> Result<Vec<String>> {
        const FORGET: &str = "DELETE FROM server_start WHERE nonce <> $1 RETURNING nonce";
        const INSERT: &str =
            "INSERT INTO server_start (nonce, started_us, beat_us) VALUES ($1, $2, $2)";
        let named = self.db.gate().start.clone();
        let nonce = named.unwrap_or_else(|| ActionId::generate().to_string());
        let now = Timestamp::now().0;
        let before: Vec<(String,)> = super::macros::transaction!(self.db, tx => {
            let before = sqlx::query_as(FORGET).bind(&nonce).fetch_all(&mut *tx).await?;
            sqlx::query(INSERT).bind(&nonce).bind(now).execute(&mut *tx).await?;
            before
        });
        if let Db::Sqlite { write, gate, .. } = &self.db {
            // The end of the id is random. Positive, and never 0, which is what a file has that nobody stamped.
            let digits: String = nonce.chars().filter(char::is_ascii_hexdigit).collect();
            let tail = digits
                .get(digits.len().saturating_sub(7)..)
                .unwrap_or_default();
            let stamp = u32::from_str_radix(tail, 16).unwrap_or_default() | 1;
            let set = format!("PRAGMA user_version = {stamp}");
            sqlx::query(&set).execute(write).await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)")
                .fetch_all(write)
                .await?;
            if !gate.stamped(stamp) {
                tracing::warn!(
                    "the database file cannot be marked; that it is overwritten may go unnoticed"
                );
            }
        }
        let _ = self.db.gate().nonce.set(nonce);
        Ok(before.into_iter().map(|(nonce,)| nonce).collect())
    }

    /// Whether what is written now counts; cheap. An error says what is to be done.
    pub fn is_usable(&self) -> Result<()> {
        self.db.gate().check()
    }

    /// Whether the database answers, takes writes and gives them back. An error is for the log: it may name files.
    pub async fn check(&self) -> std::result::Result<(), String> {
        let mut last = match tokio::time::timeout(2 * PATIENCE, self.life.last.lock()).await {
            Ok(last) => last,
            Err(_) => return Err("the database does not answer".to_owned()),
        };
        if let Some((at, result)) = &last.checked
            && at.elapsed() < FRESH
        {
            return result.clone().map_or(Ok(()), Err);
        }
        // A long transaction of our own keeps others from writing; that excuses the database for some time.
        let is_excused =
            self.is_writing() && last.good.is_some_and(|good| good.elapsed() < OWN_WRITE);
        let found = match tokio::time::timeout(PATIENCE, self.look()).await {
            Ok(Ok(())) => {
                last.good = Some(Instant::now());
                Ok(())
            }
            Ok(Err(error)) if is_excused && is_locked(&error) => Ok(()),
            Ok(Err(error)) => Err(error.logged(self.db.gate().path())),
            Err(_) if is_excused && self.is_writing() => Ok(()),
            Err(_) => Err(format!(
                "the database did not answer within {} s",
                PATIENCE.as_secs()
            )),
        };
        last.checked = Some((Instant::now(), found.clone().err()));
        *self
            .life
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = found.clone().err();
        found
    }

    /// Changes when PostgreSQL has been away and is back. It may have crashed, and then what was committed last by transactions that
    /// do not wait for the disk is gone, while this server still believes in it.
    pub(crate) fn database_returns(&self) -> tokio::sync::watch::Receiver<u64> {
        self.life.n_lost.subscribe()
    }

    /// What the last check found to be wrong; does not ask the database.
    pub fn trouble(&self) -> Option<String> {
        let trouble = self.life.trouble.lock();
        trouble.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the one connection that writes to SQLite is in use.
    fn is_writing(&self) -> bool {
        match &self.db {
            Db::Sqlite { write, .. } => write.num_idle() == 0,
            Db::Postgres { .. } => false,
        }
    }

    async fn look(&self) -> Result<()> {
        let gate = self.db.gate();
        let Some(nonce) = gate.nonce.get().cloned() else {
            gate.check()?;
            return self.ping().await;
        };
        let now = Timestamp::now().0;
        let found: Option<(i64,)> = match &self.db {
            Db::Sqlite { write, gate, .. } => {
                gate.check_file()?;
                gate.path().map_or(Ok(()), check_room)?;
                beat_sqlite(gate, write, &nonce, now).await?
            }
            Db::Postgres { pool, .. } => {
                self.hold_again(pool).await?;
                let mut other = pool.acquire().await?;
                sqlx::query(BEAT)
                    .bind(now)
                    .bind(&nonce)
                    .execute(pool)
                    .await?;
                sqlx::query_as(READ)
                    .bind(&nonce)
                    .fetch_optional(&mut *other)
                    .await?
            }
        };
        let lost = match found {
            Some((beat,)) if beat == now => None,
            // Written where nobody reads, or the row of another start.
            Some((_,)) | None => Some(
                "the database does not give back what this server wrote: it was replaced or restored while the server ran; \
                 nothing is written before the server is restarted"
                    .to_owned(),
            ),
        };
        gate.set_lost(lost);
        gate.check()
    }

    /// After the session with the lock has ended, as when PostgreSQL was restarted: takes the lock again.
    async fn hold_again(&self, pool: &sqlx::PgPool) -> Result<()> {
        let mut hold = self.life.hold.lock().await;
        if let Some(connection) = &mut *hold {
            if line::answers(connection).await {
                return Ok(());
            }
            *hold = None;
        }
        // Not one of the pool, where others may be that do not answer.
        let mut connection = pool.connect_options().connect().await?;
        let (mut held,): (bool,) = sqlx::query_as(LOCK).fetch_one(&mut connection).await?;
        if !held && let Some(nonce) = self.db.gate().nonce.get() {
            // The server of the database may not have noticed yet that our old session is gone.
            line::end_own_lock(&mut connection, nonce).await?;
            for _ in 0..TRIES {
                (held,) = sqlx::query_as(LOCK).fetch_one(&mut connection).await?;
                if held {
                    break;
                }
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
        }
        if held {
            *hold = Some(connection);
            self.life.n_lost.send_modify(|n_lost| *n_lost += 1);
            return Ok(());
        }
        let why = "another session has the lock on the database, which was lost when the connection broke: another server \
                   uses it; nothing is written until it is free";
        self.db.gate().set_lost(Some(why.to_owned()));
        self.db.gate().check()
    }
}

/// Fails where the disk is full. The row of a check may still find room in the log beside the database, which has been larger,
/// while nothing of any size does.
fn check_room(path: &Path) -> Result<()> {
    let Ok(disk) = rustix::fs::statvfs(path) else {
        return Ok(());
    };
    let n_free = match rustix::process::geteuid().is_root() {
        true => disk.f_bfree,
        false => disk.f_bavail,
    };
    // Some file systems do not say how large they are.
    if disk.f_blocks == 0 || n_free.saturating_mul(disk.f_frsize) >= ROOM_BYTES {
        return Ok(());
    }
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    Err(Error::Query(sqlx::Error::Io(full)))
}

/// Writes as all writes go, and reads by a connection of its own, as another program would open the file.
async fn beat_sqlite(
    gate: &Gate,
    write: &SqlitePool,
    nonce: &str,
    now: i64,
) -> Result<Option<(i64,)>> {
    let Some(path) = gate.path() else {
        return Ok(None);
    };
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(false)
        .busy_timeout(LOCKED)
        .disable_statement_logging();
    let mut other = options.connect().await?;
    let beaten = async {
        // Whether somebody holds it, which a write would wait for much longer.
        sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await?;
        sqlx::query("ROLLBACK").execute(&mut other).await?;
        sqlx::query(BEAT)
            .bind(now)
            .bind(nonce)
            .execute(write)
            .await?;
        sqlx::query_as(READ)
            .bind(nonce)
            .fetch_optional(&mut other)
            .await
    };
    let found = beaten.await;
    other.close().await?;
    Ok(found?)
}

fn is_locked(error: &Error) -> bool {
    // SQLITE_BUSY and its kinds.
    let Error::Query(sqlx::Error::Database(error)) = error else {
        return false;
    };
    let code = error.code().and_then(|code| code.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 5)
}

/// Looks at the database now and then until the server stops, and says in the log when its health changes.
pub async fn watch(store: Store, stop: CancellationToken) {
    let mut was: Option<String> = None;
    loop {
        let now = store.check().await.err();
        match (&was, &now) {
            (_, Some(why)) if was != now => tracing::error!("the database is not well: {why}"),
            (Some(_), None) => tracing::info!("the database is well again"),
            _ => {}
        }
        was = now;
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

#[cfg(test)]
mod tests;
