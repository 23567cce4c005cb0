//! A server without a port: the store and the engine of one environment, in the process of a command, for as long as the
//! command runs.
//!
//! `steward deploy` and `steward plan` compile a project themselves and hand the version to it. All state is in one folder,
//! mostly `data/deploy` of the project; two commands do not use it at once.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use steward_compiler::PythonRuntime;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{Error, locks, open_store};
use crate::api;
use crate::app::App;
use crate::config::Database;
use crate::deploy::{self, Engine};
use crate::domain::{DataDir, EnvironmentId, FactTimes, ProjectId};
use crate::executor::limits::Limits;
use crate::executor::packages::PackageInstaller;
use crate::executor::variables;
use crate::files::Files;
use crate::gc::{self, Garbage};
use crate::observe::Bus;
use crate::process;
use crate::store::{self, NewEnvironment, Store};

/// The names of the project and the environment in the store.
const PROJECT: &str = "deploy";
const ENVIRONMENT: &str = "default";

/// What is in the state's folder besides: git, and a snapshot of the project, leave all of it alone.
const IGNORE_ALL: &str = "# The state of `steward deploy`: it is for this machine only.\n*\n";

/// Nothing happens by itself: the command does what is to do now, and ends.
const SETTINGS: [(&str, &str); 2] = [
    ("autostart_agent_deploy_interval", "0"),
    ("autostart_agent_repair_interval", "0"),
];

/// The state of a project that is deployed from here.
#[derive(Debug)]
pub struct Embedded {
    pub store: Store,
    pub bus: Bus,
    pub environment: EnvironmentId,
    pub data: DataDir,
    pub facts: FactTimes,
    /// Woken when a fact is known that the version in force waits for.
    pub fact_known: Arc<Notify>,
    stop: CancellationToken,
    /// With its loop, and that which answers what handlers ask of the API.
    engine: Option<(Engine, [JoinHandle<()>; 2])>,
    // It ends with the command.
    _lock: std::fs::File,
}

impl Embedded {
    /// Opens the state below `folder`, which is made if it is not there. `settings` are those of the environment that the
    /// command was given.
    ///
    /// # Errors
    /// Another command uses it, or it cannot be read or written.
    pub async fn open(folder: &Path, settings: &[(String, Value)]) -> Result<Self, Error> {
        let data = locks::prepare(&DataDir::new(folder))?;
        let ignore = folder.join(".gitignore");
        if !ignore.exists() {
            // What is missing is only convenience.
            let _ = std::fs::write(ignore, IGNORE_ALL);
        }
        let lock = locks::lock(&data)?;
        locks::mend(&data);
        let store = open_store(&Database::Sqlite, &data).await?;
        let environment = environment_of(&store).await?;
        let default = SETTINGS.map(|(name, value)| (name.to_owned(), Value::from(value)));
        for (name, value) in default.iter().chain(settings) {
            store.setting_set(environment, name, value).await?;
        }
        process::hide();
        process::cgroup::gc_groups();
        Ok(Self {
            store,
            bus: Bus::default(),
            environment,
            data,
            facts: FactTimes::default(),
            fact_known: Arc::default(),
            stop: CancellationToken::new(),
            engine: None,
            _lock: lock,
        })
    }

    /// The file store.
    pub fn files(&self) -> Files {
        Files::new(self.data.files())
    }

    /// Starts the engine. With `deploys` it brings what is released into force; else it does dry runs only.
    pub fn start_engine(&mut self, python: Option<PythonRuntime>, deploys: bool) -> Engine {
        let (requests, asked) = mpsc::unbounded_channel();
        let (store, data, stop) = (self.store.clone(), self.data.clone(), self.stop.clone());
        // Nothing is compiled here that digests would be kept of.
        let app = App {
            bus: self.bus.clone(),
            facts: self.facts,
            ..App::of_store(store, data, rand::random(), requests.clone(), stop)
        };
        // Nothing is ordered here; a model with services has its instances from a file.
        let services = app.services.clone();
        let answering = tokio::spawn(api::answer_handlers(app, asked));
        let (engine, task) = Engine::start(deploy::Options {
            recompile: Arc::clone(&self.fact_known),
            environment: self.environment,
            store: self.store.clone(),
            bus: self.bus.clone(),
            python,
            shutdown: self.stop.clone(),
            facts: self.facts,
            action_logs: None,
            executor: Limits::default(),
            variables: variables::of_process(),
            packages: PackageInstaller::none(
                "a project that is deployed from here has its packages in an environment of its own",
            ),
            // A machine that the model names is reached as whoever runs the command reaches it.
            ssh_config: None,
            api: requests,
            services,
            deploys,
            waits: false,
        });
        self.engine = Some((engine.clone(), [task, answering]));
        engine
    }

    /// Lets running handlers end, writes what is known, removes what no version needs, and closes the state.
    pub async fn close(self) {
        self.stop.cancel();
        if let Some((engine, tasks)) = self.engine {
            engine.stop().await;
            // They have no result, and a panic in one was logged.
            let _ = futures_util::future::join_all(tasks).await;
        }
        let garbage = Garbage {
            store: self.store.clone(),
            data: self.data,
            checkouts: Arc::default(),
        };
        gc::collect(&garbage).await;
        self.store.close().await;
    }
}

/// The environment of a state that is only looked at: its store and id. `None`: nothing was deployed with it yet. A command that
/// runs on it is not disturbed; the runs of one that was killed are closed, as the next one would do.
///
/// # Errors
/// It cannot be read.
pub async fn read_embedded(folder: &Path) -> Result<Option<(Store, EnvironmentId)>, store::Error> {
    let data = DataDir::new(folder);
    let database = data.database();
    if !database.is_file() {
        return Ok(None);
    }
    let store = Store::open_sqlite(&database).await?;
    if let Some(_lock) = locks::try_lock(&data) {
        // A command that was killed has left its runs open. What cannot be written is shown as it is.
        let _ = store.action_close_interrupted(None).await;
    }
    let known = store.environment_list().await?;
    Ok(known.first().map(|known| (store, known.id)))
}

/// The only environment, made if it is not there.
async fn environment_of(store: &Store) -> Result<EnvironmentId, store::Error> {
    let id = EnvironmentId::named(PROJECT, ENVIRONMENT);
    if store.environment_fetch(id).await?.is_some() {
        return Ok(id);
    }
    let project = store
        .project_create(ProjectId::named(PROJECT), PROJECT)
        .await?;
    let new = NewEnvironment {
        id,
        project_id: project.id,
        name: ENVIRONMENT.to_owned(),
        description: String::new(),
        icon: String::new(),
        repo_url: String::new(),
        repo_branch: String::new(),
        variables: Default::default(),
    };
    store.environment_create(&new).await?;
    Ok(id)
}
