//! The one file that knows everything: opens the store, starts the loops, listens, and takes it all down again.

mod app;
mod environments;
mod housekeeping;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use app::{App, Hook};
pub use environments::ensure_environment;

use app::{FILES, Looks};

use crate::api;
use crate::compile::{self, Pool};
use crate::config::{Config, Database};
use crate::domain::Timestamp;
use crate::observe::Bus;
use crate::process;
use crate::store::{self, Store};

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot use the data directory {path}: {source}")]
    Data {
        path: String,
        source: std::io::Error,
    },
    #[error(
        "another steward runs on the data directory {0}; stop it, or name another one with --data"
    )]
    Busy(String),
    #[error("another steward uses this database; one server at a time may")]
    DatabaseBusy,
    #[error("cannot listen on {address}: {source}; name another address with --listen")]
    Listen {
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error("cannot unpack the Python package")]
    Python(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error("environment {environment}: {source}")]
    Source {
        environment: String,
        source: compile::SourceError,
    },
}

/// A server that listens.
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    // The locks on data directory and database end with it.
    _lock: std::fs::File,
    _hold: store::Hold,
}

impl Server {
    /// Starts everything. Ready when this returns.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let data = prepare(&config.data)?;
        let lock = lock(&data)?;
        crate::git::init();
        let store = match &config.database {
            Database::Sqlite => Store::open_sqlite(&data.join("steward.db")).await?,
            Database::Postgres(url) => Store::open_postgres(url).await?,
        };
        let hold = hold(&store).await?;
        let n_closed = store.action_close_interrupted().await?;
        if n_closed > 0 {
            tracing::warn!(
                n_runs = n_closed,
                "the last run of the server was cut off; its work is taken up again"
            );
        }
        let mut pool_options = config.pool.clone();
        if pool_options.python.is_none() {
            let cache = data.join("runtime");
            let found = tokio::task::spawn_blocking(move || compile::python_runtime(&cache)).await;
            pool_options.python = found
                .unwrap_or_else(|error| Err(std::io::Error::other(error)))
                .map_err(Error::Python)?;
        }
        if let Some(python) = &mut pool_options.python {
            python.files = Some(data.join(FILES));
        }
        match &pool_options.python {
            Some(python) => tracing::info!(
                "Python for plugins and handlers: {}",
                python.interpreter.display()
            ),
            None => tracing::warn!(
                "no Python of 3.11 or later was found: models with Python modules cannot be compiled"
            ),
        }
        process::hide();
        tracing::info!(
            "plugins, and pip with what it builds, are confined by: {}",
            process::available()
        );
        let pool = Pool::new(pool_options);
        pool.warm();
        let mut hooks = BTreeMap::new();
        let mut looks = HashMap::new();
        for environment in &config.environments {
            let id = ensure_environment(&store, environment, &data).await?;
            let (poll, watch, credentials) = (
                environment.poll,
                environment.watch,
                environment.credentials.clone(),
            );
            let repo_url = store
                .environment_fetch(id)
                .await?
                .map(|environment| environment.repo_url);
            let repo_url = repo_url.unwrap_or_default();
            looks.insert(
                id,
                Looks {
                    repo_url,
                    poll,
                    watch,
                    credentials,
                },
            );
            for hook in &environment.webhooks {
                let (forge, secret) = (hook.forge, hook.secret.clone());
                hooks.insert(
                    hook.id.clone(),
                    Hook {
                        environment: id,
                        forge,
                        secret,
                        branch: environment.branch.clone(),
                    },
                );
            }
        }
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|source| Error::Listen {
            address: config.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| Error::Listen {
            address: config.listen,
            source,
        })?;
        let app = App {
            store,
            bus: Bus::default(),
            hooks: Arc::new(hooks),
            api_token: config.api_token.as_deref().map(Arc::from),
            started: Timestamp::now(),
            facts: config.facts,
            running: Arc::default(),
            lifecycle: Arc::default(),
            pool,
            data,
            shutdown: CancellationToken::new(),
            looks: Arc::new(looks),
            checkouts: Arc::default(),
        };
        let serving = tokio::spawn(api::serve(app.clone(), listener));
        let housekeeping = tokio::spawn(housekeeping::run(app.clone(), config.housekeeping));
        Ok(Self {
            app,
            address,
            serving,
            housekeeping,
            _lock: lock,
            _hold: hold,
        })
    }

    /// Starts the loops of all environments.
    pub async fn start_environments(&self) -> Result<(), Error> {
        for environment in self.app.store.environment_list().await? {
            self.app.environment_start(&environment).await;
        }
        Ok(())
    }

    /// Stops taking work, lets running work end, and closes the store.
    pub async fn stop(self) {
        self.app.shutdown.cancel();
        let all: Vec<_> = self.app.locked().drain().collect();
        futures_util::future::join_all(all.into_iter().map(|(id, running)| running.stop(id))).await;
        let _ = tokio::time::timeout(Duration::from_secs(5), self.serving).await;
        self.housekeeping.abort();
        self.app.store.close().await;
    }
}

fn prepare(path: &Path) -> Result<PathBuf, Error> {
    use std::os::unix::fs::DirBuilderExt;
    let fail = |source| Error::Data {
        path: path.display().to_string(),
        source,
    };
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(fail)?;
    std::fs::canonicalize(path).map_err(fail)
}

/// One server a database. The one before may be about to end, as in a restart on another machine.
async fn hold(store: &Store) -> Result<store::Hold, Error> {
    for _ in 0..30 {
        if let Some(hold) = store.hold_alone().await? {
            return Ok(hold);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(Error::DatabaseBusy)
}

/// One server a data directory. The lock goes with the process, however that ends.
fn lock(data: &Path) -> Result<std::fs::File, Error> {
    let path = data.join("lock");
    let fail = |source| Error::Data {
        path: path.display().to_string(),
        source,
    };
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(fail)?;
    // One that was just killed may take a moment to be gone.
    for _ in 0..20 {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => return Err(fail(error.into())),
        }
    }
    Err(Error::Busy(data.display().to_string()))
}
