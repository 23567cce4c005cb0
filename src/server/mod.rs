//! The one file that knows everything: opens the store, starts the loops, listens, and takes it all down again.

mod data;
mod environments;
mod housekeeping;
mod refused;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steward_compiler::PythonRuntime;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use crate::app::{App, Hook};
use crate::app::{Hooks, RefusedEnvironments};
pub use data::check;

use crate::api;
use crate::compile::Pool;
use crate::config::{Config, Database};
use crate::domain::Timestamp;
use crate::files;
use crate::observe::Bus;
use crate::process;
use crate::python::{self, Interpreter, Pythons};
use crate::sandbox;
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
    /// The one that is named does not do.
    #[error("{0}")]
    NamedPython(String),
    #[error("cannot unpack the Python package")]
    Python(#[source] std::io::Error),
    #[error(transparent)]
    Store(#[from] store::Error),
}

/// A server that listens.
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    looking_again: JoinHandle<()>,
    watching: JoinHandle<()>,
    // The lock on the data directory ends with it; that on the database with the store.
    _lock: std::fs::File,
}

impl Server {
    /// Starts everything. Ready when this returns.
    pub async fn start(config: Config) -> Result<Self, Error> {
        check(&config)?;
        let data = data::prepare(&config.data)?;
        let lock = data::lock(&data)?;
        let digest_key = data::digest_key(&data)?;
        data::mend(&data);
        crate::git::init();
        let store = match &config.database {
            Database::Sqlite => Store::open_sqlite(&data.join(data::DATABASE)).await?,
            Database::Postgres(url) => Store::open_postgres(url).await?,
        };
        hold(&store).await?;
        let n_closed = store.action_close_interrupted().await?;
        if n_closed > 0 {
            tracing::warn!(
                n_runs = n_closed,
                "the last run of the server was cut off; its work is taken up again"
            );
        }
        let mut pool_options = config.pool.clone();
        if pool_options.python.is_none() {
            let (cache, pythons) = (data.join("runtime"), pool_options.pythons.clone());
            let found = tokio::task::spawn_blocking(move || find_python(&pythons, &cache)).await;
            pool_options.python =
                found.unwrap_or_else(|error| Err(Error::Python(std::io::Error::other(error))))?;
        }
        if let Some(python) = &mut pool_options.python {
            python.files = Some(data.join(files::FOLDER));
        }
        if let Some(runtime) = pool_options.python.clone() {
            // Nobody waits for it.
            tokio::task::spawn_blocking(move || python::precompile(&runtime));
        }
        process::hide();
        process::cgroup::gc_groups();
        tracing::info!(
            "compiles, and pip with what it builds, are sandboxed by: {}",
            sandbox::support()
        );
        let pool = Pool::new(pool_options);
        pool.warm();
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|source| Error::Listen {
            address: config.listen,
            source,
        })?;
        let address = listener.local_addr().map_err(|source| Error::Listen {
            address: config.listen,
            source,
        })?;
        let configured = config.environments.iter();
        let hooks = configured.flat_map(|environment| &environment.webhooks);
        let hooks = hooks.map(|hook| hook.id.clone());
        let refused = config
            .refused
            .iter()
            .flat_map(|refused| refused.hooks.clone());
        let hooks = hooks.chain(refused);
        let app = App {
            store,
            bus: Bus::default(),
            hooks: Arc::new(Hooks::declared(hooks)),
            api_token: config.api_token.as_deref().map(Arc::from),
            started: Timestamp::now(),
            facts: config.facts,
            repositories: config.repositories,
            running: Arc::default(),
            lifecycle: Arc::default(),
            pool,
            data,
            shutdown: CancellationToken::new(),
            looks: Arc::default(),
            refused: RefusedEnvironments::default(),
            digest_key,
            checkouts: Arc::default(),
        };
        for environment in config.environments {
            app.take_in(environment).await?;
        }
        for environment in config.refused {
            app.refuse(environment).await?;
        }
        let serving = tokio::spawn(api::serve(app.clone(), listener));
        let looking_again = tokio::spawn(refused::run(app.clone()));
        let housekeeping = tokio::spawn(housekeeping::run(app.clone(), config.housekeeping));
        let watching = tokio::spawn(store::watch(app.store.clone(), app.shutdown.clone()));
        Ok(Self {
            app,
            address,
            serving,
            housekeeping,
            looking_again,
            watching,
            _lock: lock,
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
        self.looking_again.abort();
        self.watching.abort();
        self.app.store.close().await;
    }
}

/// One server a database. The one before may be about to end, as in a restart on another machine.
/// The Python of plugins and handlers, with our package below `cache`. `None`: there is none, and none is named.
fn find_python(pythons: &Pythons, cache: &Path) -> Result<Option<PythonRuntime>, Error> {
    match pythons.any() {
        Ok(found) => {
            let Interpreter { path, version } = found;
            tracing::info!(
                "Python {version} for plugins and handlers: {}",
                path.display()
            );
            let runtime = python::runtime(path, cache).map_err(Error::Python)?;
            Ok(Some(runtime))
        }
        Err(message) if pythons.named.is_some() => Err(Error::NamedPython(message)),
        Err(message) => {
            tracing::warn!("models with Python modules cannot be compiled: {message}");
            Ok(None)
        }
    }
}

async fn hold(store: &Store) -> Result<(), Error> {
    for _ in 0..30 {
        if store.acquire_single_server_lock().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Err(Error::DatabaseBusy)
}
