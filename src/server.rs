//! The one file that knows everything: opens the store, starts the loops, listens, and takes it all down again.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api;
use crate::compile::{self, Compiler, Pool, Source};
use crate::config::{Config, Database, EnvironmentConfig};
use crate::deploy::{self, Engine};
use crate::domain::chain;
use crate::domain::{EnvironmentId, FactTimes, ProjectId, Timestamp};
use crate::files::{self, Files};
use crate::forge::Forge;
use crate::git::Credentials;
use crate::modules;
use crate::observe::Bus;
use crate::process;
use crate::sandbox;
use crate::store::{self, Environment, NewEnvironment, Store};
use crate::watch;

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

/// A webhook that may be called.
#[derive(Clone)]
pub struct Hook {
    pub environment: EnvironmentId,
    pub forge: Forge,
    pub secret: Vec<u8>,
    /// Only pushes to it count; `None`: all do.
    pub branch: Option<String>,
}

/// What the API and the command line reach the server by.
#[derive(Clone)]
pub struct App {
    pub store: Store,
    pub bus: Bus,
    pub hooks: Arc<BTreeMap<String, Hook>>,
    pub api_token: Option<Arc<str>>,
    pub started: Timestamp,
    pub facts: FactTimes,
    running: Arc<Mutex<HashMap<EnvironmentId, Running>>>,
    /// Held while loops are started or stopped, so that an environment never has two.
    lifecycle: Arc<tokio::sync::Mutex<()>>,
    pool: Pool,
    data: PathBuf,
    shutdown: CancellationToken,
    looks: Arc<HashMap<EnvironmentId, Looks>>,
    checkouts: Arc<tokio::sync::RwLock<()>>,
}

/// How an environment of the configuration looks at its repository.
struct Looks {
    /// The credentials are for this one, and for no other that somebody may set later.
    repo_url: String,
    poll: Duration,
    watch: bool,
    credentials: Credentials,
}

struct Running {
    engine: Engine,
    compiler: Compiler,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    async fn stop(self, id: EnvironmentId) {
        self.stop.cancel();
        self.engine.stop().await;
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(environment.id = %id, %error, "a loop of the environment ended badly");
            }
        }
    }
}

/// A server that listens.
pub struct Server {
    pub app: App,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    housekeeping: JoinHandle<()>,
    watching: JoinHandle<()>,
    // The lock on the data directory ends with it; that on the database with the store.
    _lock: std::fs::File,
}

/// What no stored version needs (Python environments, files) is kept this long: a branch may come back to it, and a compile
/// that runs has not stored its version yet.
const UNUSED: Duration = Duration::from_secs(7 * 24 * 3600);
/// How long an environment waits for its Python environment before it starts.
const RESTORE_PATIENCE: Duration = Duration::from_secs(30);
/// Of the data directory: the file store.
const FILES: &str = "files";
/// How often a local repository is looked at beside the file events.
const LOCAL_POLL: Duration = Duration::from_secs(10);
const DEFAULT_POLL: Duration = Duration::from_secs(60);

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
            "compiles, and pip with what it builds, are sandboxed by: {}",
            sandbox::support()
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
        let housekeeping = tokio::spawn(housekeeping(app.clone(), config.housekeeping));
        let watching = tokio::spawn(store::watch(app.store.clone(), app.shutdown.clone()));
        Ok(Self {
            app,
            address,
            serving,
            housekeeping,
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
        self.watching.abort();
        self.app.store.close().await;
    }
}

impl App {
    pub fn engine(&self, id: EnvironmentId) -> Option<Engine> {
        self.locked().get(&id).map(|running| running.engine.clone())
    }

    pub fn compiler(&self, id: EnvironmentId) -> Option<Compiler> {
        self.locked()
            .get(&id)
            .map(|running| running.compiler.clone())
    }

    /// Cancelled when the server stops.
    pub fn stop_signal(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    pub fn data(&self) -> &Path {
        &self.data
    }

    pub fn files(&self) -> Files {
        Files::new(self.data.join(FILES))
    }

    /// Tells both loops of an environment to look at the store.
    pub fn wake(&self, id: EnvironmentId) {
        if let Some(running) = self.locked().get(&id) {
            running.engine.wake();
            running.compiler.wake();
        }
    }

    /// Starts the loops of an environment; nothing if they run.
    pub async fn environment_start(&self, environment: &Environment) {
        let id = environment.id;
        let _lifecycle = self.lifecycle.lock().await;
        if self.locked().contains_key(&id) || self.shutdown.is_cancelled() {
            return;
        }
        let stop = self.shutdown.child_token();
        let recompile = Arc::new(tokio::sync::Notify::new());
        let options = deploy::Options {
            recompile: Arc::clone(&recompile),
            environment: id,
            store: self.store.clone(),
            bus: self.bus.clone(),
            python: self.pool.python().cloned(),
            shutdown: stop.clone(),
            facts: self.facts,
        };
        let source =
            Source::from_stored(&environment.repo_url, &environment.repo_branch, &self.data).ok();
        let local = source
            .as_ref()
            .and_then(|source| source.local().map(Path::to_owned));
        let (poll, watch, credentials) = match self.looks.get(&id) {
            Some(looks) if looks.repo_url == environment.repo_url => {
                (looks.poll, looks.watch, looks.credentials.clone())
            }
            _ if local.is_some() => (LOCAL_POLL, true, Credentials::default()),
            _ => (DEFAULT_POLL, true, Credentials::default()),
        };
        // Before anything runs: executors need the environment of the version in force, and a cache may have been wiped.
        // An index that does not answer holds up nothing else; what needs the environment is tried again.
        let mut restoring = tokio::spawn(self.clone().restore(environment.clone(), stop.clone()));
        let _ = tokio::time::timeout(RESTORE_PATIENCE, &mut restoring).await;
        let (engine, engine_task) = Engine::start(options);
        let (compiler, compiler_task) = Compiler::start(compile::Options {
            environment: id,
            store: self.store.clone(),
            bus: self.bus.clone(),
            pool: self.pool.clone(),
            engine: engine.clone(),
            data: self.data.clone(),
            poll,
            credentials,
            fact_expire: self.facts.expire,
            checkouts: Arc::clone(&self.checkouts),
            shutdown: stop.clone(),
        });
        let mut tasks = vec![engine_task, compiler_task];
        if !restoring.is_finished() {
            tasks.push(restoring);
        }
        let (woken, ended) = (compiler.clone(), stop.clone());
        tasks.push(tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = recompile.notified() => woken.wake(),
                    () = ended.cancelled() => return,
                }
            }
        }));
        if let Some(path) = local.filter(|_| watch) {
            tasks.push(tokio::spawn(watch::local::watch(
                path,
                id,
                self.store.clone(),
                compiler.clone(),
                stop.clone(),
            )));
        }
        if let Err(error) = self
            .store
            .look_request(id, "start", "Compile triggered by the start of the server")
            .await
        {
            tracing::error!(environment.id = %id, error = chain(&error), "cannot note the start");
        }
        compiler.wake();
        self.locked().insert(
            id,
            Running {
                engine,
                compiler,
                stop,
                tasks,
            },
        );
    }

    async fn restore(self, environment: Environment, stop: CancellationToken) {
        let _in_use = self.checkouts.read().await;
        tokio::select! {
            () = compile::restore_modules(&self.store, &environment, &self.data, &self.pool) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Stops the loops of an environment and waits for them.
    pub async fn environment_stop(&self, id: EnvironmentId) {
        let _lifecycle = self.lifecycle.lock().await;
        let Some(running) = self.locked().remove(&id) else {
            return;
        };
        running.stop(id).await;
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<EnvironmentId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the project and environment of a configuration, or brings them up to date with it.
pub async fn ensure_environment(
    store: &Store,
    config: &EnvironmentConfig,
    data: &Path,
) -> Result<EnvironmentId, Error> {
    let shown = format!("{}/{}", config.project, config.name);
    let source = Source::from_argument(&config.repository, config.branch.as_deref(), data);
    let source = source.map_err(|source| Error::Source {
        environment: shown,
        source,
    })?;
    let (repo_url, repo_branch) = source.to_stored();
    // By the id that it was made with first: it may have been renamed since.
    let projects = store.project_list().await?;
    let made = projects
        .iter()
        .find(|project| project.id == ProjectId::named(&config.project));
    let project = made.or_else(|| {
        projects
            .iter()
            .find(|project| project.name == config.project)
    });
    let project_id = match project {
        Some(project) => project.id,
        None => {
            store
                .project_create(ProjectId::named(&config.project), &config.project)
                .await?
                .id
        }
    };
    let known = store.environment_list().await?;
    let made = EnvironmentId::named(&config.project, &config.name);
    let named = |known: &&Environment| known.project_id == project_id && known.name == config.name;
    let known = known
        .iter()
        .find(|known| known.id == made)
        .or_else(|| known.iter().find(named))
        .cloned();
    let id = match known {
        Some(known) => {
            let changed = Environment {
                repo_url,
                repo_branch,
                variables: config.variables.clone(),
                ..known
            };
            store.environment_update(&changed).await?;
            changed.id
        }
        None => {
            let id = EnvironmentId::named(&config.project, &config.name);
            let new = NewEnvironment {
                id,
                project_id,
                name: config.name.clone(),
                description: String::new(),
                icon: String::new(),
                repo_url,
                repo_branch,
                variables: config.variables.clone(),
            };
            store.environment_create(&new).await?;
            id
        }
    };
    for (name, value) in &config.settings {
        store.setting_set(id, name, value).await?;
    }
    Ok(id)
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
async fn hold(store: &Store) -> Result<(), Error> {
    for _ in 0..30 {
        if store.hold_alone().await? {
            return Ok(());
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

/// Drops what retention no longer keeps.
async fn housekeeping(app: App, pause: Duration) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = app.shutdown.cancelled() => return,
        }
        if let Err(error) = clean_up(&app).await {
            tracing::error!(
                error = chain(&error),
                "cannot clean up; it is tried again later"
            );
        }
    }
}

async fn clean_up(app: &App) -> Result<(), store::Error> {
    for environment in app.store.environment_list().await? {
        if environment.halted {
            continue;
        }
        let settings = app.store.settings_fetch(environment.id).await?;
        let retention = i64::try_from(settings.action_retention().as_micros()).unwrap_or(i64::MAX);
        let before = Timestamp(Timestamp::now().0.saturating_sub(retention));
        app.store
            .version_purge(environment.id, settings.versions_to_keep(), before)
            .await?;
    }
    let n_checkouts = compile::forget_checkouts(&app.store, &app.data, &app.checkouts).await?;
    if n_checkouts > 0 {
        tracing::info!(n_checkouts, "removed checkouts that no version needs");
    }
    let n_left =
        compile::forget_environments(&app.store, &app.data, &app.checkouts, UNUSED).await?;
    if n_left > 0 {
        tracing::info!(n_left, "removed what deleted environments had left");
    }
    let needed = deploy::needed_by_code(&app.store).await?;
    collect_files(app).await?;
    let data = app.data.clone();
    let swept = tokio::task::spawn_blocking(move || {
        deploy::sweep(&data, UNUSED);
        compile::sweep_python(&data, UNUSED);
        modules::sweep(&data, &needed.environments, UNUSED)
    });
    if let Ok(n_environments @ 1..) = swept.await {
        tracing::info!(
            n_environments,
            "removed Python environments that nothing used"
        );
    }
    Ok(())
}

/// Removes the contents of the file store that no stored version names.
async fn collect_files(app: &App) -> Result<(), store::Error> {
    // Listed before it is asked what is needed: what a compile writes from here on is young.
    let files = app.files();
    let store = files.clone();
    let old = tokio::task::spawn_blocking(move || store.older_than(UNUSED)).await;
    let listed = old.unwrap_or_default();
    let mut old = listed.clone();
    // Not before: what a compile has stored meanwhile counts.
    let needed = deploy::needed_by_code(&app.store).await?;
    old.retain(|name| !needed.contents.contains(name));
    if !old.is_empty() {
        let forget = |attributes: &str| files::forget_named(&mut old, attributes);
        app.store.resource_attributes(forget).await?;
    }
    let collected = tokio::task::spawn_blocking(move || {
        // What is named is not asked for again before the same time has passed.
        files.renew(listed.difference(&old));
        files.collect(&old, UNUSED)
    });
    if let Ok(n_files @ 1..) = collected.await {
        tracing::info!(n_files, "removed files that no version needs");
    }
    Ok(())
}
