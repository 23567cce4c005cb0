//! The Python environment that a compile and its version's handlers run in, and what Python code of a repository may do.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use steward_compiler::without_credentials;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::elsewhere::InstalledPackages;
use super::handler_venvs::HandlerVenvs;
use super::network::{Access, Proxy};
use super::repository::Reader;
use super::run::{Context, Failure, Stages, begin, blocking};
use super::worker::Pool;
use crate::domain::{DataDir, EnvironmentId, Timestamp, VersionCode, chain};
use crate::git::Reach;
use crate::modules::{self, Inspection, Installed, Part, Progress, with_tool};
use crate::sandbox::{self, CODE_FILE_BYTES, Network, SandboxPolicy};
use crate::store::{self, Store};

/// The environment with what a project asks for.
#[derive(Debug, Clone)]
pub(super) struct Venv {
    pub(super) folder: PathBuf,
    pub(super) packages: Arc<InstalledPackages>,
}

/// The environment with what the project asks for. `None`: it asks for nothing.
pub(super) async fn install(
    context: &Context<'_>,
    policy: &SandboxPolicy,
    project_dir: &Path,
    stages: &mut Stages<'_>,
) -> Result<Option<Venv>, Failure> {
    let stage = begin();
    let inspected = inspect(context.pool, policy, project_dir).await;
    let inspection = match inspected {
        Ok(inspection) => inspection,
        Err(failure) => {
            let error = failure.message().to_owned();
            stages
                .write("Reading the project", "", stage, String::new(), error)
                .await;
            return Err(failure);
        }
    };
    if inspection.requirements.is_empty() {
        return Ok(None);
    }
    // A server that stops does not wait for pip.
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let proxy = build_proxy(&inspection, context.reach, &stop).await;
    let proxy = proxy.map_err(Failure::Aborted)?;
    let network = (context.reach, proxy);
    let environments = environments(
        context.data,
        context.environment,
        context.pool,
        stop,
        network,
    );
    let project = project_dir.to_owned();
    let asked = inspection.requirements.clone();
    let pythons = context.pool.options().pythons.clone();
    let has_python = context.pool.python().is_some();
    let (sender, mut progress) = mpsc::unbounded_channel();
    let work = blocking(move || {
        // What needs Python says so itself.
        if !has_python {
            return Ok(None);
        }
        let watcher = move |progress| {
            // Whoever listens may have ended.
            let _ = sender.send(progress);
        };
        environments.ensure(&project, &pythons, inspection, &watcher)
    });
    tokio::pin!(work);
    let mut parts = Parts {
        open: Open {
            name: INSTALLING,
            tool: String::new(),
            began: stage,
        },
    };
    let ensured = loop {
        tokio::select! {
            // Both may be dropped: what was sent stays in the channel, and the work goes on.
            Some(progress) = progress.recv() => parts.on_progress(progress, stages).await,
            ensured = &mut work => break ensured,
        }
    };
    while let Ok(progress) = progress.try_recv() {
        parts.on_progress(progress, stages).await;
    }
    // An index or a requirement may be named with a password, and installers repeat it.
    let (out, error) = match &ensured {
        Ok(None) => return Ok(None),
        Ok(Some(installed)) => (summary(installed), String::new()),
        Err(error) => (String::new(), without_credentials(&chain(error))),
    };
    let Open { name, tool, began } = parts.open;
    stages.write(name, &tool, began, out, error.clone()).await;
    match ensured {
        Ok(installed) => Ok(installed.map(|installed| Venv {
            folder: installed.environment,
            packages: Arc::new(InstalledPackages::new(installed.lock, &asked)),
        })),
        Err(failed) if failed.is_transient() => Err(Failure::Aborted(error)),
        Err(_) => Err(Failure::Rejected(error)),
    }
}

const INSTALLING: &str = "Installing modules";

/// The parts of an installation, which are stages of the compile.
struct Parts {
    open: Open,
}

struct Open {
    name: &'static str,
    tool: String,
    began: (Timestamp, Instant),
}

impl Parts {
    async fn on_progress(&mut self, progress: Progress, stages: &mut Stages<'_>) {
        match progress {
            Progress::Began { part, what, tool } => {
                let name = match part {
                    Part::Turn => "Waiting for other installations",
                    Part::Environment => "Making a virtual environment",
                    Part::Versions => "Choosing versions",
                    Part::Packages => INSTALLING,
                };
                let what = without_credentials(&what);
                stages.announce(name, with_tool(&what, &tool));
                self.open = Open {
                    name,
                    tool,
                    began: begin(),
                };
            }
            // The last one is written with what was installed.
            Progress::Done { what, .. } if self.open.name != INSTALLING => {
                let began = std::mem::replace(&mut self.open.began, begin());
                let name = std::mem::replace(&mut self.open.name, INSTALLING);
                let tool = std::mem::take(&mut self.open.tool);
                let what = without_credentials(&what);
                stages.write(name, &tool, began, what, String::new()).await;
            }
            Progress::Done { .. } | Progress::Output(_) | Progress::Doubt(_) => {}
        }
    }
}

/// What the project asks for, as a sandboxed worker reads it.
async fn inspect(
    pool: &Pool,
    policy: &SandboxPolicy,
    project: &Path,
) -> Result<Inspection, Failure> {
    match pool.inspect(policy, project).await {
        Ok(Ok(inspection)) => Ok(inspection),
        Ok(Err(refusal)) if refusal.is_transient => Err(Failure::Aborted(refusal.message)),
        Ok(Err(refusal)) => Err(Failure::Rejected(refusal.message)),
        Err(error) if error.is_of_project() => Err(Failure::Rejected(format!(
            "the project's files cannot be read: {error}"
        ))),
        Err(error) => Err(Failure::Aborted(chain(&error))),
    }
}

/// The proxy of one installation, which ends with it. `Ok(None)`: this kernel cannot hold processes to it, or this machine has a
/// proxy of its own, which they then need; they have the host's network as it is.
pub(super) async fn build_proxy(
    inspection: &Inspection,
    reach: Reach,
    stop: &CancellationToken,
) -> Result<Option<modules::BuildProxy>, String> {
    let of_machine = modules::MachineNetwork::read(inspection.requirements.pip.use_system_config);
    if of_machine.has_proxy || sandbox::support().landlock < sandbox::PROXY_LANDLOCK {
        return Ok(None);
    }
    let mut hosts = of_machine.hosts;
    // Where the repository may be on this machine, so may be what it names.
    if reach == Reach::Any {
        hosts.extend(inspection.hosts());
    }
    let grants = hosts.iter().filter_map(|host| host.parse().ok()).collect();
    let proxy = Proxy::start(Access::AllButOwn(grants), stop.child_token()).await;
    let proxy =
        proxy.map_err(|error| format!("cannot start the proxy of package builds: {error}"))?;
    Ok(Some(modules::BuildProxy {
        port: proxy.port,
        url: proxy.url(),
    }))
}

/// What is in an environment, for the report.
fn summary(installed: &Installed) -> String {
    let mut text = installed.packages().join("\n");
    if !installed.tool.is_empty() {
        text.push_str(&format!("\ninstalled by {}", installed.tool));
    }
    if installed.is_new_lock {
        text.push_str("\nthere is no steward.lock: these versions were chosen now; `steward project update` writes one, to be committed");
    }
    text
}

/// Makes the Python environment of the version in force again, if it is gone: its handlers run in it. What fails is logged;
/// the resources concerned then say what is missing. Their code is in the file store, and needs nothing of this.
pub async fn restore_modules(
    store: &Store,
    environment: &store::Environment,
    data: &DataDir,
    pool: &Pool,
    reach: Reach,
) {
    let restored = async {
        let Some(number) = environment.active_version else {
            return Ok(());
        };
        let version = store.version_fetch(environment.id, number).await;
        let Some(version) = version.map_err(|error| chain(&error))? else {
            return Ok(());
        };
        let code = VersionCode::read(version.modules);
        if let Some(packages) = code.packages(|_| true) {
            let venvs = HandlerVenvs {
                data: data.clone(),
                environment: environment.id,
                pool: pool.clone(),
                reach,
            };
            return venvs.ensure(packages).await.map(|_| ());
        }
        let interpreter = code.interpreter;
        let (Some(interpreter), Some(_)) = (interpreter, pool.python()) else {
            return Ok(());
        };
        let pythons = pool.options().pythons.clone();
        if interpreter.is_file() {
            return Ok(());
        }
        let Some(commit) = version.commit_id else {
            return Ok(());
        };
        let source =
            super::Source::from_stored(&environment.repo_url, &environment.repo_branch, data);
        let source = source.map_err(|error| chain(&error))?;
        let stop = CancellationToken::new();
        let _stops = stop.clone().drop_guard();
        let policy = policy(data, environment.id, pool, Place::Export)?;
        let id = commit.parse().map_err(|_| {
            format!("{commit} is no id of a commit: the version cannot be checked out")
        })?;
        let reader = Reader {
            data,
            environment: environment.id,
            pool,
        };
        let checked_out = reader.check_out(&source, id, None).await;
        let project = checked_out.map_err(|error| chain(&error))?;
        let inspection = inspect(pool, &policy, &project).await;
        let inspection = inspection.map_err(|failure| failure.message().to_owned())?;
        let proxy = build_proxy(&inspection, reach, &stop).await?;
        let environments = environments(data, environment.id, pool, stop, (reach, proxy));
        blocking(move || {
            let ensured = environments.ensure(&project, &pythons, inspection, &|_| ());
            ensured.map(|_| ()).map_err(|error| chain(&error))
        })
        .await
    };
    if let Err(error) = restored.await {
        tracing::warn!(environment.id = %environment.id, error, "cannot restore the modules of the version in force");
    }
}

/// Which of the compiles of an environment that run at the same time one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The one that may store a version.
    Export,
    /// A validation, by its number among those that run.
    Validation(usize),
}

/// The sandbox of an environment's compiles in a lane. Its folders are made, since a folder that is made later is not in it.
///
/// # Errors
/// A folder cannot be made.
pub(super) fn policy(
    data: &DataDir,
    environment: EnvironmentId,
    pool: &Pool,
    place: Place,
) -> Result<SandboxPolicy, String> {
    let data = data.real();
    let scratch = match place {
        Place::Export => data.scratch_of(environment),
        Place::Validation(number) => data.validation_of(environment, number),
    };
    let venvs = modules::Environments::directory(&data, &owner(&data, environment));
    let checkouts = data.checkouts_of(environment);
    let answers = data.answers_of(environment);
    let files = data.files();
    for folder in [&scratch, &venvs, &checkouts, &answers, &files] {
        std::fs::create_dir_all(folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    Ok(SandboxPolicy {
        readable: vec![checkouts.clone(), data.runtime(), venvs],
        hidden: [hidden(&data, environment, pool), modules::credentials()].concat(),
        scratch,
        // A password that a model generates is remembered in its project; what its Python code gave, in the answers. The code
        // itself, which is in a second layer, can write to neither.
        writable: vec![checkouts, answers],
        deposit: vec![files],
        network: Network::None,
        is_ours: true,
        // That of the worker, which has set it already.
        memory_bytes: None,
        file_bytes: CODE_FILE_BYTES,
    })
}

/// The folder of an environment's virtual environments.
pub fn venvs(data: &DataDir, environment: EnvironmentId) -> PathBuf {
    modules::Environments::directory(data, &owner(data, environment))
}

/// What the folder of an environment's virtual environments is called. Versions that an older server stored name
/// interpreters below a folder that is called by the id.
fn owner(data: &DataDir, environment: EnvironmentId) -> String {
    let by_id = environment.to_string();
    if modules::Environments::directory(data, &by_id).is_dir() {
        return by_id;
    }
    data.folder_name(environment)
}

/// What code of an environment may not read: what only the server may, and what other environments are compiled from.
pub(super) fn hidden(data: &DataDir, environment: EnvironmentId, pool: &Pool) -> Vec<PathBuf> {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    let data = data.real().path().to_owned();
    let secrets = pool.options().secrets.iter().filter_map(|path| real(path));
    let of_others = pool.local_sources().hidden_from(environment);
    std::iter::once(data)
        .chain(secrets)
        .chain(of_others)
        .collect()
}

/// The Python environments of an environment; `stop` ends what is made.
pub(super) fn environments(
    data: &DataDir,
    environment: EnvironmentId,
    pool: &Pool,
    stop: CancellationToken,
    (reach, proxy): (Reach, Option<modules::BuildProxy>),
) -> modules::Environments {
    let sandbox = modules::InstallSandbox {
        hidden: hidden(data, environment, pool),
        memory_bytes: pool.options().memory_bytes,
        limit: pool.options().install_timeout,
        stop,
        turns: Some(pool.installations().clone()),
        // Whoever sets a repository over the API is not to read what the server's user may.
        copies_repositories: reach == Reach::Any,
        proxy,
    };
    modules::Environments::new(data, &owner(data, environment), sandbox)
}
