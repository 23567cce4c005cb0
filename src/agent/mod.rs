//! `steward agent`: runs the handlers of some agents of an environment on this machine, for a server on another one.
//!
//! Four parts. `dial` keeps a connection: it opens the WebSocket, and opens it again when it is cut. `journal` is the file in
//! which each run is written down before it begins and each result before it is sent, until the server has it. `packages`
//! makes the virtual environments that the code of handlers needs. `relay` stands between them and the executor, the same
//! process that a server has for its own machine: it is the one loop that decides. Start reading there.

mod code;
mod dial;
mod journal;
mod packages;
mod relay;

pub use packages::install_carried;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::AgentName;
use crate::executor::limits::Limits;
use crate::files;
use journal::Journal;

/// What an agent is started with.
#[derive(Clone)]
pub struct Options {
    /// `http://`, `https://`, `ws://` or `wss://`.
    pub server: String,
    /// The id of the environment, or its name.
    pub environment: String,
    pub token: Arc<str>,
    pub names: Vec<AgentName>,
    /// Where results are kept until the server has them, and the code of handlers.
    pub data: PathBuf,
    /// Files that only the agent may read: what builds a package does not see them.
    pub secrets: Vec<PathBuf>,
    /// The Python of handlers; `None`: one that fits.
    pub python: Option<PathBuf>,
    pub limits: Limits,
}

/// Why an agent does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("cannot use the data directory {path}: {source}")]
    Data { path: PathBuf, source: io::Error },
    #[error(
        "another agent runs on the data directory {0}; stop it, or name another one with --data"
    )]
    Busy(PathBuf),
}

/// Runs until it is stopped.
///
/// # Errors
/// It cannot start. What goes wrong later is logged and tried again.
pub async fn run(options: Options, stop: CancellationToken) -> Result<(), Error> {
    let request = dial::Target::new(&options).map_err(Error::Usage)?;
    let fail = |source| Error::Data {
        path: options.data.clone(),
        source,
    };
    files::make_private(&options.data).map_err(fail)?;
    let _lock = lock(&options)?;
    let instance = instance(&options).map_err(fail)?;
    let journal = Journal::open(&options.data.join("journal")).map_err(fail)?;
    tokio::spawn(crate::process::resting::run(stop.clone()));
    relay::run(options, instance, journal, request, stop).await;
    Ok(())
}

/// Held while the agent runs: two on one directory would lose each other's results.
fn lock(options: &Options) -> Result<fs::File, Error> {
    let fail = |source| Error::Data {
        path: options.data.clone(),
        source,
    };
    let file = fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(options.data.join("lock"))
        .map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(Error::Busy(options.data.clone())),
        Err(fs::TryLockError::Error(source)) => Err(fail(source)),
    }
}

/// Which installation this is, made at the first start.
fn instance(options: &Options) -> io::Result<Uuid> {
    let path = options.data.join("instance");
    if let Ok(text) = fs::read_to_string(&path)
        && let Ok(known) = text.trim().parse()
    {
        return Ok(known);
    }
    let new = Uuid::new_v4();
    let draft = tempfile::NamedTempFile::new_in(&options.data)?;
    fs::write(draft.path(), format!("{new}\n"))?;
    draft.persist(&path)?;
    Ok(new)
}
