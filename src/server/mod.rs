//! Puts everything together: opens the store, starts the loops, listens, and takes it all down again.
//!
//! `locks` makes sure that the data directory and the database are this server's alone, `apply_config` brings the
//! environments of the configuration into the store, and `environments` looks again at those that cannot run. `embedded` is
//! a server of one environment without a port, for commands.

mod apply_config;
mod embedded;
mod environments;
mod locks;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steward_compiler::PythonRuntime;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use crate::app::{App, Hook};
use crate::app::{Hooks, RefusedEnvironments};
pub use embedded::{Embedded, read_embedded};
pub use locks::{check, check_database};

use crate::api;
use crate::compile::{Pool, PoolOptions};
use crate::config::{Config, Database};
use crate::domain::{DataDir, Timestamp};
use crate::gc::{self, Garbage};
use crate::lsm::Services;
use crate::metrics;
use crate::observe::Bus;
use crate::process;
use crate::python::{self, Interpreter, Pythons};
use crate::sandbox;
use crate::store::{self, Store};
use crate::watch::files::Files;

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "cannot use the data directory {path}: {source}; its user needs room and the right to write there, or another one is named (`data` in the configuration, --data of `steward up` and `steward deploy`)"
    )]
    Data {
        path: String,
        source: std::io::Error,
    },
    #[error(
        "another steward runs on the data directory {0}; stop it, or name another one (`data` in the configuration, --data of `steward up` and `steward deploy`)"
    )]
    Busy(String),
    #[error(
        "another steward uses this database, and one server at a time may; stop it, or name another one (`database` in the configuration)"
    )]
    DatabaseBusy,
    #[error(
        "cannot listen on {address}: {source}; name another one (`listen` in the configuration, --listen of `steward up`)"
    )]
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
    /// Of the requests of handlers.
    answering: JoinHandle<()>,
    collecting: JoinHandle<()>,
    looking_again: JoinHandle<()>,
    watching: JoinHandle<()>,
    measuring: JoinHandle<()>,
    resting: JoinHandle<()>,
    // The lock on the data directory ends with it; that on the database with the store.
    _lock: std::fs::File,
}

impl Server {
    /// Starts everything. Ready when this returns.
    pub async fn start(config: Config) -> Result<Self, Error> {
        check(&config)?;
        let data = locks::prepare(&config.data)?;
        let lock = locks::lock(&data)?;
        let digest_key = locks::digest_key(&data)?;
        locks::mend(&data);
        crate::git::init();
        let store = open_store(&config.database, &data).await?;
        let pool = start_pool(config.pool.clone(), &data).await?;
        let (listener, address) = listen(config.listen).await?;
        let shutdown = CancellationToken::new();
        let (handler_requests, asked) = mpsc::unbounded_channel();
        let app = App {
            services: Services::new(store.clone(), shutdown.clone()),
            store,
            bus: Bus::default(),
            hooks: Arc::new(Hooks::declared(hook_ids(&config))),
            agents: Default::default(),
            api_token: config.api_token.as_deref().map(Arc::from),
            started: Timestamp::now(),
            facts: config.facts,
            action_logs: config.action_logs,
            executor: config.executor,
            repositories: config.repositories,
            handler_requests,
            running: Arc::default(),
            lifecycle: Arc::default(),
            standstills: Arc::default(),
            pool,
            data,
            shutdown,
            repository_access: Arc::default(),
            refused: RefusedEnvironments::default(),
            digest_key,
            checkouts: Arc::default(),
            files: Files::default(),
        };
        apply_config::apply(&app, config.environments, config.refused).await?;
        let garbage = Garbage {
            store: app.store.clone(),
            data: app.data.clone(),
            checkouts: Arc::clone(&app.checkouts),
        };
        let collecting = gc::run(garbage, config.housekeeping, app.shutdown.clone());
        Ok(Self {
            serving: tokio::spawn(api::serve(app.clone(), listener)),
            answering: tokio::spawn(api::answer_handlers(app.clone(), asked)),
            looking_again: tokio::spawn(environments::run(app.clone())),
            collecting: tokio::spawn(collecting),
            watching: tokio::spawn(store::watch(app.store.clone(), app.shutdown.clone())),
            measuring: tokio::spawn(metrics::run(app.store.clone(), app.shutdown.clone())),
            resting: tokio::spawn(process::resting::run(app.shutdown.clone())),
            app,
            address,
            _lock: lock,
        })
    }

    /// Starts the loops of all environments.
    pub async fn start_environments(&self) -> Result<(), Error> {
        self.app.note_names().await?;
        let all = self.app.store.environment_list().await?;
        // Before the first of them runs code.
        for environment in &all {
            self.app.note_local_source(environment);
        }
        for environment in all {
            let _standstill = self.app.standstill(environment.id).await;
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
        // It has seen the signal; whatever it does not answer any more is told so.
        self.answering.abort();
        self.collecting.abort();
        self.looking_again.abort();
        self.watching.abort();
        self.measuring.abort();
        self.resting.abort();
        self.app.store.close().await;
    }
}

/// Opens the database, for this server alone, and closes what the last one left open in it.
async fn open_store(database: &Database, data: &DataDir) -> Result<Store, Error> {
    let store = match database {
        Database::Sqlite => Store::open_sqlite(&data.database()).await?,
        Database::Postgres(url) => Store::open_postgres(url).await?,
    };
    locks::hold_database(&store).await?;
    let n_closed = store.action_close_interrupted(None).await?;
    if n_closed > 0 {
        tracing::warn!(
            n_runs = n_closed,
            "the last run of the server was cut off; its work is taken up again"
        );
    }
    Ok(store)
}

/// Makes ready what compiles run in: Python, the sandbox and the first workers.
async fn start_pool(mut options: PoolOptions, data: &DataDir) -> Result<Pool, Error> {
    match process::cgroup::prepare() {
        Ok(true) => {
            tracing::info!("control groups hold the memory and the processes of each compile")
        }
        Ok(false) => {}
        Err(error) => tracing::warn!(
            error,
            "the control group was given to this server, but cannot be used; supervisors hold compiles"
        ),
    }
    if options.python.is_none() {
        let (cache, pythons) = (data.runtime(), options.pythons.clone());
        let found = tokio::task::spawn_blocking(move || find_python(&pythons, &cache)).await;
        options.python =
            found.unwrap_or_else(|error| Err(Error::Python(std::io::Error::other(error))))?;
    }
    if let Some(python) = &mut options.python {
        python.files = Some(data.files());
    }
    if let Some(runtime) = options.python.clone() {
        // Nobody waits for it.
        tokio::task::spawn_blocking(move || python::precompile(&runtime));
    }
    process::hide();
    process::cgroup::gc_groups();
    tracing::info!(
        "compiles, and pip with what it builds, are sandboxed by: {}",
        sandbox::support()
    );
    let pool = Pool::new(options);
    pool.warm();
    Ok(pool)
}

async fn listen(asked: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let fail = |source| Error::Listen {
        address: asked,
        source,
    };
    let listener = TcpListener::bind(asked).await.map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

/// Whether a server of this configuration could listen. One that listens there already is no mistake: it may be this very one,
/// whose configuration is checked; nor is a port that is not for who checks: the server may be another user's.
///
/// # Errors
/// It is no address of this machine.
pub fn check_listen(config: &Config) -> Result<(), Error> {
    match std::net::TcpListener::bind(config.listen) {
        Err(source) if source.kind() == std::io::ErrorKind::PermissionDenied => {
            tracing::warn!("this user may not listen on {}: {source}", config.listen);
            Ok(())
        }
        Err(source) if source.kind() != std::io::ErrorKind::AddrInUse => Err(Error::Listen {
            address: config.listen,
            source,
        }),
        _ => Ok(()),
    }
}

/// The ids of all webhooks of the configuration, those of environments that do not run among them.
fn hook_ids(config: &Config) -> impl Iterator<Item = String> {
    let configured = config.environments.iter();
    let hooks = configured.flat_map(|environment| &environment.webhooks);
    let refused = config.refused.iter().flat_map(|refused| &refused.hooks);
    hooks.map(|hook| &hook.id).chain(refused).cloned()
}

/// What keeps a server from starting because of the Python that its configuration names. Apart from [`check`], since the start
/// itself looks for it later.
///
/// # Errors
/// It is no Python, or none that fits.
pub fn check_python(config: &Config) -> Result<(), Error> {
    let pythons = &config.pool.pythons;
    match pythons.any() {
        Err(message) if pythons.named.is_some() => Err(Error::NamedPython(message)),
        _ => Ok(()),
    }
}

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
