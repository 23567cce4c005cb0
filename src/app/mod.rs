//! What the API and the command line reach the server by, and the loops of its environments.

mod agents;
pub(crate) mod fuzzing;
mod hooks;
#[cfg(test)]
mod panics;
mod refused;
mod venvs;

pub use agents::AgentAccesses;
pub use hooks::Hooks;
pub use refused::EnvironmentProblem;
pub(crate) use refused::{Entry, RefusedEnvironments};

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::compile::{
    self, Access, Compiler, Grant, HandlerVenvs, Pool, PoolOptions, Proxy, SecretVariables, Source,
};
use crate::deploy::{self, ApiRequests, Engine};
use crate::domain::{
    self, DataDir, EnvironmentId, FactTimes, ProjectId, Timestamp, WakeHandle, chain,
};
use crate::executor::limits::Limits;
use crate::executor::packages::PackageInstaller;
use crate::executor::variables;
use crate::files::Files;
use crate::forge::Forge;
use crate::git::{Credentials, Reach, RepositoryRules};
use crate::lsm::Services;
use crate::observe::{ActionLogs, Bus};
use crate::store::{self, Environment, Store};
use crate::watch;

/// How long an environment waits for its Python environment before it starts.
const RESTORE_PATIENCE: Duration = Duration::from_secs(30);
/// How often a local repository is looked at beside the file events.
const LOCAL_POLL: Duration = Duration::from_secs(10);
const DEFAULT_POLL: Duration = Duration::from_secs(60);

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
    pub hooks: Arc<Hooks>,
    /// Who may be an agent of which environment.
    pub agents: AgentAccesses,
    pub api_token: Option<Arc<str>>,
    pub started: Timestamp,
    pub facts: FactTimes,
    pub action_logs: Option<ActionLogs>,
    /// Limits of the executors' Python hosts.
    pub executor: Limits,
    /// What repositories may be set over the API.
    pub repositories: RepositoryRules,
    /// What happens to service instances.
    pub services: Services,
    /// To whoever answers what handlers ask of the API.
    pub(crate) handler_requests: ApiRequests,
    pub(crate) running: Arc<Mutex<HashMap<EnvironmentId, Running>>>,
    /// Held while loops are started or stopped, so that an environment never has two.
    pub(crate) lifecycle: Arc<tokio::sync::Mutex<()>>,
    /// Of the environments that somebody changes while their loops stand still: see [`App::standstill`].
    pub(crate) standstills: Arc<Mutex<HashMap<EnvironmentId, Weak<tokio::sync::Mutex<()>>>>>,
    pub(crate) pool: Pool,
    pub(crate) data: DataDir,
    pub(crate) shutdown: CancellationToken,
    pub(crate) repository_access: Arc<Mutex<HashMap<EnvironmentId, Arc<RepositoryAccess>>>>,
    pub(crate) refused: RefusedEnvironments,
    /// What stands for secrets in the store is made with it.
    pub(crate) digest_key: [u8; 32],
    pub(crate) checkouts: Arc<tokio::sync::RwLock<()>>,
    /// What is watched of repositories on this machine.
    pub(crate) files: watch::files::Files,
}

/// How an environment of the configuration looks at its repository.
pub(crate) struct RepositoryAccess {
    /// The credentials are for this one, and for no other that somebody may set later.
    pub(crate) repo_url: String,
    pub(crate) poll: Duration,
    pub(crate) watch: bool,
    pub(crate) credentials: Credentials,
    /// As the credentials: for this repository only.
    pub(crate) secrets: SecretVariables,
    /// Hosts that its compiles may reach.
    pub(crate) network: Vec<Grant>,
}

impl RepositoryAccess {
    /// That of an environment which the configuration does not name.
    fn unconfigured(environment: &Environment, is_local: bool) -> Self {
        Self {
            repo_url: environment.repo_url.clone(),
            poll: if is_local { LOCAL_POLL } else { DEFAULT_POLL },
            watch: true,
            credentials: Credentials::default(),
            secrets: SecretVariables::default(),
            network: Vec::new(),
        }
    }
}

pub(crate) struct Running {
    engine: Engine,
    compiler: Compiler,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    pub(crate) async fn stop(self, id: EnvironmentId) {
        self.stop.cancel();
        self.engine.stop().await;
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(environment.id = %id, %error, "a loop of the environment ended badly");
            }
        }
    }
}

impl App {
    /// An app of which nothing runs and nothing is configured, and to which nobody listens.
    pub(crate) fn of_store(
        store: Store,
        data: DataDir,
        digest_key: [u8; 32],
        handler_requests: ApiRequests,
        shutdown: CancellationToken,
    ) -> Self {
        Self {
            services: Services::new(store.clone(), shutdown.clone()),
            store,
            bus: Bus::default(),
            hooks: Arc::new(Hooks::declared(std::iter::empty())),
            agents: Default::default(),
            api_token: None,
            started: Timestamp::now(),
            facts: FactTimes::default(),
            action_logs: None,
            executor: Limits::default(),
            repositories: RepositoryRules::default(),
            handler_requests,
            running: Arc::default(),
            lifecycle: Arc::default(),
            standstills: Arc::default(),
            pool: Pool::new(PoolOptions::default()),
            data,
            shutdown,
            repository_access: Arc::default(),
            refused: RefusedEnvironments::default(),
            digest_key,
            checkouts: Arc::default(),
            files: watch::files::Files::default(),
        }
    }

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

    pub fn data(&self) -> &DataDir {
        &self.data
    }

    pub fn files(&self) -> Files {
        Files::new(self.data.files())
    }

    /// Tells both loops of an environment to look at the store.
    pub fn wake(&self, id: EnvironmentId) {
        if let Some(running) = self.locked().get(&id) {
            running.engine.wake();
            running.compiler.wake();
        }
    }

    pub(crate) fn set_repository_access(&self, id: EnvironmentId, access: RepositoryAccess) {
        let mut all = self
            .repository_access
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        all.insert(id, Arc::new(access));
    }

    /// How an environment looks at this repository, if it is the one of the configuration.
    fn repository_access(
        &self,
        id: EnvironmentId,
        repo_url: &str,
    ) -> Option<Arc<RepositoryAccess>> {
        let all = self
            .repository_access
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let access = all.get(&id).filter(|access| access.repo_url == repo_url);
        access.cloned()
    }

    /// What hosts the repository of an environment may be at. Whose repository the configuration does not name, it is from
    /// the API.
    fn reach(&self, id: EnvironmentId, repo_url: &str) -> Reach {
        match self.repository_access(id, repo_url) {
            Some(_) => Reach::Any,
            None => self.repositories.reach(),
        }
    }

    /// Notes where an environment is compiled from, so that code of the others cannot read it.
    pub(crate) fn note_local_source(&self, environment: &Environment) {
        let (url, branch) = (&environment.repo_url, &environment.repo_branch);
        let source = Source::from_stored(url, branch, &self.data).ok();
        let local = source.as_ref().and_then(Source::local);
        let python = self.pool.python();
        let interpreter = python.map(|python| python.interpreter.as_path());
        let needed = compile::needed_programs(interpreter.into_iter());
        let sources = self.pool.local_sources();
        sources.set(environment.id, local, &needed);
    }

    /// Has logs and messages name the environments as they are called now.
    pub(crate) async fn note_names(&self) -> store::Result<()> {
        let projects = self.store.project_list().await?;
        let projects: HashMap<ProjectId, String> = projects
            .into_iter()
            .map(|project| (project.id, project.name))
            .collect();
        let environments = self.store.environment_list().await?.into_iter();
        domain::set_environment_names(environments.filter_map(|environment| {
            let project = projects.get(&environment.project_id)?.clone();
            Some((environment.id, project, environment.name))
        }));
        Ok(())
    }

    /// Takes a stopped environment with all that it has out of the store.
    pub(crate) async fn environment_delete(&self, id: EnvironmentId) -> store::Result<bool> {
        let deleted = self.store.environment_delete(id).await?;
        self.pool.local_sources().forget(id);
        Ok(deleted)
    }

    /// Waits until nobody else makes, clears, moves or deletes an environment, and keeps others from it until the value is
    /// dropped. Whoever stops its loops and starts them again holds it from before the one until after the other: else loops
    /// would be started of what somebody has deleted in between, and go on for ever.
    pub(crate) async fn standstill(&self, id: EnvironmentId) -> tokio::sync::OwnedMutexGuard<()> {
        let of_environment = {
            let mut all = self
                .standstills
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, one| one.strong_count() > 0);
            all.get(&id).and_then(Weak::upgrade).unwrap_or_else(|| {
                let new = Arc::default();
                all.insert(id, Arc::downgrade(&new));
                new
            })
        };
        of_environment.lock_owned().await
    }

    /// Whether an environment is to be started as far as the store says; where it is compiled from is noted then. A store that
    /// cannot be read now is asked again by the loops.
    async fn is_there(&self, environment: &Environment) -> bool {
        let is_deleted = matches!(self.store.environment_fetch(environment.id).await, Ok(None));
        if !is_deleted {
            self.note_local_source(environment);
        }
        !is_deleted
    }

    /// Starts the loops of an environment; nothing if they run, if it cannot run, or if it was deleted meanwhile.
    pub async fn environment_start(&self, environment: &Environment) {
        let id = environment.id;
        let _lifecycle = self.lifecycle.lock().await;
        if !self.is_there(environment).await
            || self.locked().contains_key(&id)
            || self.shutdown.is_cancelled()
            || self.trouble(id).is_some()
        {
            return;
        }
        let stop = self.shutdown.child_token();
        let source =
            Source::from_stored(&environment.repo_url, &environment.repo_branch, &self.data).ok();
        let local = source.and_then(|source| source.local().map(Path::to_owned));
        let access = self
            .repository_access(id, &environment.repo_url)
            .unwrap_or_else(|| {
                Arc::new(RepositoryAccess::unconfigured(environment, local.is_some()))
            });
        // Before anything runs: executors need the environment of the version in force, and a cache may have been wiped.
        // An index that does not answer holds up nothing else; what needs the environment is tried again.
        let mut restoring = tokio::spawn(self.clone().restore(environment.clone(), stop.clone()));
        let _ = tokio::time::timeout(RESTORE_PATIENCE, &mut restoring).await;
        let recompile = Arc::new(tokio::sync::Notify::new());
        // Settings that cannot be read now are read again by the loop: it starts.
        let settings = self.store.settings_fetch(id).await;
        let waits = settings.is_ok_and(|settings| !settings.autostart_on_start());
        let (engine, engine_task) = Engine::start(deploy::Options {
            recompile: Arc::clone(&recompile),
            environment: id,
            store: self.store.clone(),
            bus: self.bus.clone(),
            python: self.pool.python().cloned(),
            shutdown: stop.clone(),
            facts: self.facts,
            action_logs: self.action_logs.clone(),
            executor: self.executor,
            variables: variables::of_server(access.secrets.with(&environment.variables)),
            packages: self.package_installer(environment),
            ssh_config: self.agents.of(id).ssh_config,
            api: self.handler_requests.clone(),
            services: self.services.clone(),
            deploys: true,
            waits,
        });
        let (compiler, compiler_task) = self
            .start_compiler(environment, &access, &engine, &stop)
            .await;
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
        if let Some(path) = local.filter(|_| access.watch) {
            tasks.push(tokio::spawn(watch::local::watch(
                self.files.clone(),
                path,
                id,
                self.store.clone(),
                WakeHandle::new({
                    let compiler = compiler.clone();
                    move || compiler.wake()
                }),
                stop.clone(),
            )));
        }
        if let Err(error) = self
            .store
            .refresh_request(id, "start", "Compile triggered by the start of the server")
            .await
        {
            tracing::error!(environment.id = %id, error = chain(&error), "cannot note the start");
        }
        let woken = compiler.clone();
        self.services
            .attach(id, Some(WakeHandle::new(move || woken.wake())));
        // What the last run of the server left behind, and what a crash of the database has taken.
        let (services, ended) = (self.services.clone(), stop.clone());
        let returns = self.store.database_returns();
        tasks.push(tokio::spawn(async move {
            tokio::select! {
                () = services.keep_going(id, returns) => {}
                () = ended.cancelled() => {}
            }
        }));
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

    /// What has the packages installed that exported code of handlers requires.
    fn package_installer(&self, environment: &Environment) -> PackageInstaller {
        let venvs = HandlerVenvs {
            data: self.data.clone(),
            environment: environment.id,
            pool: self.pool.clone(),
            reach: self.reach(environment.id, &environment.repo_url),
        };
        venvs.installer()
    }

    async fn start_compiler(
        &self,
        environment: &Environment,
        access: &RepositoryAccess,
        engine: &Engine,
        stop: &CancellationToken,
    ) -> (Compiler, JoinHandle<()>) {
        let id = environment.id;
        Compiler::start(compile::Options {
            environment: id,
            store: self.store.clone(),
            bus: self.bus.clone(),
            pool: self.pool.clone(),
            engine: WakeHandle::new({
                let engine = engine.clone();
                move || engine.wake()
            }),
            data: self.data.clone(),
            poll: access.poll,
            credentials: access.credentials.clone(),
            secrets: access.secrets.clone(),
            proxy: proxy(id, &access.network, stop).await,
            reach: self.reach(id, &environment.repo_url),
            fact_expire: self.facts.expire,
            services: self.services.clone(),
            checkouts: Arc::clone(&self.checkouts),
            shutdown: stop.clone(),
        })
    }

    async fn restore(self, environment: Environment, stop: CancellationToken) {
        let _in_use = self.checkouts.read().await;
        let reach = self.reach(environment.id, &environment.repo_url);
        tokio::select! {
            () = compile::restore_modules(&self.store, &environment, &self.data, &self.pool, reach) => {}
            () = stop.cancelled() => {}
        }
    }

    /// Stops the loops of an environment and waits for them.
    pub async fn environment_stop(&self, id: EnvironmentId) {
        let _lifecycle = self.lifecycle.lock().await;
        let Some(running) = self.locked().remove(&id) else {
            return;
        };
        self.services.attach(id, None);
        running.stop(id).await;
    }

    pub(crate) fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<EnvironmentId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The proxy of an environment whose compiles may reach hosts.
async fn proxy(id: EnvironmentId, grants: &[Grant], stop: &CancellationToken) -> Option<Proxy> {
    if grants.is_empty() {
        return None;
    }
    if crate::sandbox::support().landlock < crate::sandbox::PROXY_LANDLOCK {
        tracing::error!(
            environment.id = %id,
            "`network` grants hosts, but this kernel has no Landlock 4 to hold compiles to them: they reach none"
        );
        return None;
    }
    match Proxy::start(Access::Only(grants.to_vec()), stop.clone()).await {
        Ok(proxy) => Some(proxy),
        Err(error) => {
            tracing::error!(environment.id = %id, %error, "cannot start the proxy: compiles reach no host");
            None
        }
    }
}
