//! Connections to PostgreSQL, and what becomes of them when nobody answers any more.
//!
//! A cable that is cut, a machine that is switched off: neither end of a connection hears of it. Whoever waits for an answer
//! then waits for ever, and the session at the other end keeps its locks, the one on the whole database among them. So both
//! ends ask now and then whether the other is there, and give the connection up when it is not. That ends the session, and
//! with it its transaction and its locks.
//!
//! Only one server may write. Who has the lock has it as long as its session lives, so a server whose session was given up
//! may find another server in its place, which it does not know yet while some of its other connections work. Therefore who
//! takes the lock first ends all sessions of the server before it, which it knows by the name that they carry, and a session
//! that begins afterwards finds the new server's row and is refused. From then on nothing of the old one is written.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt;
use rustix::process::{PidfdFlags, PidfdGetfdFlags};
use sqlx::PgConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};

use super::gate::Gate;
use super::{Error, Result};

/// So long nothing was heard before the other side is asked whether it is there.
const QUIET: Duration = Duration::from_secs(10);
/// Between two such questions.
const AGAIN: Duration = Duration::from_secs(3);
const QUESTIONS: u32 = 3;
/// What was sent has to be acknowledged within this time. By then the connection is given up in the other case, too.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);
/// A database that is there answers an empty question within this time; a connection that does not is not used.
pub(super) const ANSWER: Duration = Duration::from_secs(2);
/// Sessions that are told to end do so within this time.
const ENDING: Duration = Duration::from_secs(5);

/// What the sessions of one start of a server are called: the id of the start behind these words.
const NAME: &str = "steward ";

pub(super) fn name(nonce: &str) -> String {
    format!("{NAME}{nonce}")
}

/// What each session is started with.
pub(super) fn options(options: PgConnectOptions, nonce: &str) -> PgConnectOptions {
    let seconds = |time: Duration| time.as_secs().to_string();
    options
        .application_name(&name(nonce))
        .options([
            // A plan that was made for an empty table reads all of it, and would be kept while the table grows to a million
            // rows. To plan each statement anew takes a tenth of a millisecond.
            ("plan_cache_mode", "force_custom_plan".to_owned()),
            // What it remarks on statements that change nothing (`IF NOT EXISTS`) would stand in the log.
            ("client_min_messages", "warning".to_owned()),
            ("tcp_keepalives_idle", seconds(QUIET)),
            ("tcp_keepalives_interval", seconds(AGAIN)),
            ("tcp_keepalives_count", QUESTIONS.to_string()),
            ("tcp_user_timeout", UNACKNOWLEDGED.as_millis().to_string()),
        ])
        .disable_statement_logging()
}

/// The pool of connections, each of which is asked whether it works before it is used. `port`: that of the database.
pub(super) fn pool_options(gate: &Arc<Gate>, port: u16) -> PgPoolOptions {
    let gate = Arc::clone(gate);
    PgPoolOptions::new()
        .max_connections(8)
        .acquire_timeout(Duration::from_secs(10))
        .test_before_acquire(false)
        .before_acquire(|connection, _| Box::pin(async { Ok(answers(connection).await) }))
        .after_connect(move |connection, _| {
            let gate = Arc::clone(&gate);
            Box::pin(async move {
                watch_lines(port);
                is_ours(connection, &gate).await
            })
        })
}

pub(super) async fn answers(connection: &mut PgConnection) -> bool {
    matches!(
        tokio::time::timeout(ANSWER, connection.ping()).await,
        Ok(Ok(()))
    )
}

/// Refuses a session that begins when another server has the database.
async fn is_ours(connection: &mut PgConnection, gate: &Gate) -> sqlx::Result<()> {
    let Some(nonce) = gate.nonce.get() else {
        return Ok(());
    };
    let of_another: Option<(String,)> =
        sqlx::query_as("SELECT nonce FROM server_start WHERE nonce <> $1 LIMIT 1")
            .bind(nonce)
            .fetch_optional(connection)
            .await?;
    if of_another.is_none() {
        return Ok(());
    }
    let why = "another server has taken the database since this one lost its connection: nothing is written before this \
               server is restarted";
    gate.set_lost(Some(why.to_owned()));
    Err(sqlx::Error::Configuration(why.into()))
}

/// Ends the sessions of a start of a server, but for this one, and waits until they are gone: what they had not committed is
/// rolled back.
///
/// # Errors
/// They do not end, or it is not allowed to end them.
pub(super) async fn end_sessions(connection: &mut PgConnection, nonce: &str) -> Result<()> {
    const END: &str = "SELECT COUNT(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = CURRENT_DATABASE() \
                       AND application_name = $1 AND pid <> pg_backend_pid()";
    let began = Instant::now();
    loop {
        let (n_left,): (i64,) = sqlx::query_as(END)
            .bind(name(nonce))
            .fetch_one(&mut *connection)
            .await?;
        if n_left == 0 {
            return Ok(());
        }
        if began.elapsed() > ENDING {
            return Err(Error::Lost(format!(
                "{n_left} sessions of the server that had the database before do not end; end that server, or the sessions \
                 named `{}` in pg_stat_activity",
                name(nonce)
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ends the session that has the lock on the database, if it is one of this start of the server that nobody uses any more.
pub(super) async fn end_own_lock(connection: &mut PgConnection, nonce: &str) -> Result<()> {
    const END: &str = "SELECT COUNT(pg_terminate_backend(a.pid)) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid \
                       WHERE l.locktype = 'advisory' AND l.granted AND a.datname = CURRENT_DATABASE() \
                       AND l.database = (SELECT oid FROM pg_database WHERE datname = CURRENT_DATABASE()) \
                       AND a.application_name = $1 AND a.pid <> pg_backend_pid()";
    sqlx::query(END)
        .bind(name(nonce))
        .execute(connection)
        .await?;
    Ok(())
}

/// Has the kernel watch the connections of this process that lead to this port, as far as it may. The driver does not show
/// the sockets that it makes; a process may ask for a second descriptor of each of its own.
fn watch_lines(port: u16) {
    if let Err(error) = try_watch_lines(port) {
        tracing::debug!("connections to the database are not watched by this side: {error}");
    }
}

fn try_watch_lines(port: u16) -> rustix::io::Result<()> {
    let this = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let is_socket = std::fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
        let number = entry.file_name().to_string_lossy().parse::<i32>();
        let (true, Ok(number)) = (is_socket, number) else {
            continue;
        };
        // It may be closed by now.
        let Ok(socket) = rustix::process::pidfd_getfd(&this, number, PidfdGetfdFlags::empty())
        else {
            continue;
        };
        let peer = rustix::net::getpeername(&socket).ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        if peer.is_some_and(|peer| peer.port() == port) {
            sockopt::set_socket_keepalive(&socket, true)?;
            sockopt::set_tcp_keepidle(&socket, QUIET)?;
            sockopt::set_tcp_keepintvl(&socket, AGAIN)?;
            sockopt::set_tcp_keepcnt(&socket, QUESTIONS)?;
            let most = u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX);
            sockopt::set_tcp_user_timeout(&socket, most)?;
        }
    }
    Ok(())
}
