//! `steward deploy`: compiles the project of this folder and deploys it, in one tree of processes that ends with it.
//!
//! There is no server and no port. What was deployed is remembered in `data/deploy` of the project, so the next run does
//! only what changed since, and what did not succeed. A model that waits for a fact is compiled again when a handler has
//! found it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::broadcast;

use super::compile::find_project;
use super::show::Show;
use super::{DeployArguments, FAILED, Format, TROUBLE, USAGE, log};
use crate::compile::{LocalCompile, LocalResult};
use crate::deploy::{DeployKind, Engine};
use crate::domain::{ActionKind, CompileId, ResourceId, VersionNumber, chain, check_setting};
use crate::facts;
use crate::observe::{CompileDone, Event, EventKind, Summary};
use crate::python::Pythons;
use crate::server::Embedded;
use crate::store;

/// Where the state is, below the project.
pub(super) const STATE: &str = "data/deploy";

/// The exit code of a command that somebody interrupted, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

/// Compiles of one command: each must know a fact that the one before did not. A model whose facts lead to other facts
/// without end is not deployed in one go.
const MAX_COMPILES: usize = 10;

/// How long to wait for facts when everything else is done.
const FACT_PATIENCE: Duration = Duration::from_secs(10);

/// How often to look whether handlers have answered.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is the same for `deploy` and `plan`: where the project is, and what its model may know.
#[derive(Debug, clap::Args)]
pub(super) struct ProjectArguments {
    /// The project: a directory with project.yml and main.cf [default: the one this directory is in].
    #[arg(long, value_name = "DIR")]
    pub(super) project: Option<PathBuf>,
    /// Where to remember what was deployed [default: data/deploy below the project].
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// A variable that std::get_env of the model sees, beside those of this command's environment.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = super::variable)]
    pub(super) variables: Vec<(String, String)>,
    /// The Python of modules and handlers, of a project that has no environment of its own [default: STEWARD_PYTHON, else one
    /// that is on the path].
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
    /// A setting of the environment, such as deploy_timeout=60.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = super::variable)]
    pub(super) settings: Vec<(String, String)>,
}

/// Who ends the command early.
pub(super) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// A project that is compiled here, again and again if need be.
pub(super) struct Workbench {
    pub(super) project: PathBuf,
    pub(super) pythons: Pythons,
    pub(super) state: PathBuf,
    pub(super) settings: Vec<(String, Value)>,
    variables: steward_compiler::Variables,
}

impl Workbench {
    /// What the arguments name, or what is wrong with them.
    pub(super) fn of(arguments: &ProjectArguments) -> Result<Self, String> {
        let project = find_project(arguments.project.as_deref())?;
        let project = std::path::absolute(&project).unwrap_or(project);
        let mut variables: steward_compiler::Variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        variables.extend(arguments.variables.iter().cloned());
        let pythons = Pythons::new(arguments.python.clone().map(|path| (path, "--python")));
        let pythons = pythons.known_below(&super::cache_dir());
        if arguments.python.is_some() {
            pythons.any()?;
        }
        let mut settings = Vec::new();
        for (name, value) in &arguments.settings {
            let checked = check_setting(name, &Value::String(value.clone()));
            settings.push((name.clone(), checked.map_err(|error| error.to_string())?));
        }
        Ok(Self {
            state: state_of(&project, arguments.data.as_deref()),
            project,
            pythons,
            settings,
            variables,
        })
    }

    /// Compiles the project as it is now, with the facts that are known.
    pub(super) async fn compile(
        &self,
        embedded: &Embedded,
        format: Format,
    ) -> Result<LocalResult, Box<dyn std::error::Error>> {
        let known = facts::known(&embedded.store, embedded.environment, embedded.facts.expire);
        let compile = LocalCompile {
            project: self.project.clone(),
            variables: self.variables.clone(),
            pythons: self.pythons.clone(),
            cache: super::cache_dir(),
            declarations: super::declarations::declarations(),
            environment: Some(embedded.environment),
            inputs: facts::inputs(known.await?),
            partial: None,
            files: embedded.files(),
        };
        let print = move |line: &str| print_of_model(format, line);
        Ok(tokio::task::spawn_blocking(move || compile.run(print)).await?)
    }

    /// The Python that handlers run with where the project has none of its own.
    pub(super) fn python(&self, embedded: &Embedded) -> Option<steward_compiler::PythonRuntime> {
        let mut runtime = self.pythons.runtime(None, &super::cache_dir()).ok()?;
        runtime.files = Some(embedded.data.files());
        Some(runtime)
    }
}

/// What the model prints is for people; programs read events only.
#[expect(clippy::print_stdout, reason = "this is what the model prints")]
fn print_of_model(format: Format, line: &str) {
    if format == Format::Human {
        println!("{line}");
    }
}

#[expect(clippy::print_stderr, reason = "this is the prompt")]
pub(super) fn run(arguments: &DeployArguments) -> ExitCode {
    if arguments.dry_run {
        return super::plan::run_dry(&arguments.project, arguments.format);
    }
    let complain = |message: String, code: u8| {
        eprintln!("steward: {message}");
        ExitCode::from(code)
    };
    log::quiet();
    crate::process::keep_private();
    let workbench = match Workbench::of(&arguments.project) {
        Ok(workbench) => workbench,
        Err(message) => return complain(message, USAGE),
    };
    let runtime = match super::up::runtime() {
        Ok(runtime) => runtime,
        Err(error) => return complain(format!("cannot start: {error}"), TROUBLE),
    };
    super::handles::raise();
    let done = runtime.block_on(deploy(arguments, &workbench));
    // A compile that was interrupted goes on in its thread: it ends with the process.
    runtime.shutdown_background();
    done.unwrap_or_else(|error| complain(chain(error.as_ref()), TROUBLE))
}

/// What a command deploys with.
struct Deployment<'a> {
    workbench: &'a Workbench,
    arguments: &'a DeployArguments,
    show: Show,
    interrupts: Interrupts,
    engine: Option<(Engine, broadcast::Receiver<Arc<Event>>)>,
}

/// How a version came out.
enum End {
    Settled(Summary),
    Interrupted,
}

async fn deploy(
    arguments: &DeployArguments,
    workbench: &Workbench,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut embedded = Embedded::open(&workbench.state, &workbench.settings).await?;
    let mut deployment = Deployment {
        workbench,
        arguments,
        show: Show::live(arguments.format),
        interrupts: Interrupts::listen()?,
        engine: None,
    };
    let code = deployment.until_done(&mut embedded).await;
    deployment.close(embedded).await;
    code
}

impl Deployment<'_> {
    /// Compiles and deploys, as often as facts become known that the model waits for.
    async fn until_done(
        &mut self,
        embedded: &mut Embedded,
    ) -> Result<ExitCode, Box<dyn std::error::Error>> {
        for _ in 0..MAX_COMPILES {
            let began = Instant::now();
            let compiled = tokio::select! {
                compiled = self.workbench.compile(embedded, self.arguments.format) => compiled?,
                () = self.interrupts.next() => {
                    self.show.interrupted("nothing was deployed");
                    return Ok(ExitCode::from(INTERRUPTED));
                }
            };
            let Some(version) = self.store(embedded, compiled, began).await? else {
                return Ok(ExitCode::from(FAILED));
            };
            match self.bring_into_force(embedded, version).await? {
                End::Interrupted => return Ok(ExitCode::from(INTERRUPTED)),
                End::Settled(summary) if summary.is_good() => return Ok(ExitCode::SUCCESS),
                End::Settled(summary) => {
                    if summary.undefined == 0 || !self.fact_becomes_known(embedded).await? {
                        self.show.hint_to_explain();
                        return Ok(ExitCode::from(FAILED));
                    }
                    self.show.fact_known();
                }
            }
        }
        self.show.trouble(&format!(
            "given up after {MAX_COMPILES} compiles: each made the model ask for another fact"
        ));
        Ok(ExitCode::from(FAILED))
    }

    /// Stores and releases what was compiled; `None`: the model has mistakes, which are shown.
    async fn store(
        &mut self,
        embedded: &Embedded,
        compiled: LocalResult,
        began: Instant,
    ) -> Result<Option<VersionNumber>, Box<dyn std::error::Error>> {
        let mut done = compile_done(&compiled);
        let message = format!("deployed from {}", self.workbench.project.display());
        let metadata = compiled.metadata("deploy", &message);
        let mut number = None;
        if let Some(new) = compiled.into_version(embedded.environment, metadata, true) {
            let version = embedded.store.version_reserve(embedded.environment).await?;
            embedded.store.version_store_reserved(version, &new).await?;
            number = Some(version);
        }
        done.version = number;
        done.duration = began.elapsed();
        self.show.compile_done(&done);
        Ok(number)
    }

    /// Waits until everything of a version is done.
    async fn bring_into_force(
        &mut self,
        embedded: &mut Embedded,
        version: VersionNumber,
    ) -> Result<End, Box<dyn std::error::Error>> {
        if let Some((engine, _)) = &self.engine {
            engine.wake();
        } else {
            // Before the engine starts, so that no event is missed.
            let events = embedded.bus.listen();
            let python = self.workbench.python(embedded);
            self.engine = Some((embedded.start_engine(python, true), events));
        }
        let Some((engine, events)) = &mut self.engine else {
            return Err("the engine did not start".into());
        };
        let mut wanted_round = 0;
        let mut ticks = tokio::time::interval(Duration::from_secs(2));
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                () = self.interrupts.next() => {
                    self.show.interrupted("running resources end first; once more: at once");
                    return Ok(End::Interrupted);
                }
                () = self.show.reader_gone() => return Ok(End::Interrupted),
                _ = ticks.tick() => {
                    self.show.tick();
                    continue;
                }
            };
            let event = match event {
                Ok(event) => event,
                Err(broadcast::error::RecvError::Lagged(n_missed)) => {
                    self.show.missed(n_missed);
                    continue;
                }
                Err(broadcast::error::RecvError::Closed) => {
                    return Err("the scheduler has ended".into());
                }
            };
            match &event.what {
                EventKind::Activated { .. } if self.arguments.repair => {
                    wanted_round = engine.deploy(DeployKind::Repair, None).await?.round;
                }
                EventKind::Settled(summary) => {
                    if summary.version < version || summary.round < wanted_round {
                        continue;
                    }
                    let summary = summary.clone();
                    self.show.event(&event);
                    return Ok(End::Settled(summary));
                }
                _ => {}
            }
            self.show.event(&event);
        }
    }

    /// Whether a handler finds a fact that the version in force waits for: all that may have one are asked.
    async fn fact_becomes_known(&mut self, embedded: &Embedded) -> Result<bool, store::Error> {
        let (store, environment) = (&embedded.store, embedded.environment);
        let Some(version) = store.version_released(environment).await? else {
            return Ok(false);
        };
        let unknowns = store.fact_unknowns(environment, version.number).await?;
        let givers: BTreeSet<ResourceId> =
            unknowns.iter().map(|(giver, _)| giver.clone()).collect();
        let givers: Vec<ResourceId> = givers.into_iter().collect();
        let states = store.state_some(environment, &givers).await?;
        let asked: Vec<ResourceId> = states
            .into_iter()
            .filter(|state| !state.is_undefined && state.orphaned_after.is_none())
            .map(|state| state.resource_id)
            .collect();
        if let Some((engine, _)) = &self.engine {
            asked.iter().for_each(|giver| engine.ask_for_facts(giver));
        }
        let deadline = Instant::now() + FACT_PATIENCE;
        loop {
            // Before the answers are counted: what comes between the two is found in the next turn.
            let have_answered = have_answered(embedded, &asked).await?;
            let known = facts::known(store, environment, embedded.facts.expire).await?;
            let is_known = known.iter().any(|fact| {
                let mut unknowns = unknowns.iter();
                unknowns.any(|(giver, name)| {
                    fact.resource_id.as_ref() == Some(giver) && fact.name == *name
                })
            });
            if is_known || have_answered || Instant::now() > deadline {
                return Ok(is_known);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.interrupts.next() => return Ok(false),
            }
        }
    }

    /// Lets running handlers end and shows how; a second signal ends them, too.
    async fn close(mut self, embedded: Embedded) {
        let mut events = self.engine.take().map(|(_, events)| events);
        let closing = embedded.close();
        tokio::pin!(closing);
        loop {
            tokio::select! {
                () = &mut closing => return,
                () = self.interrupts.next() => return,
                event = next_event(&mut events) => match event {
                    Some(event) if matches!(event.what, EventKind::ResourceDone(_)) => self.show.event(&event),
                    Some(_) => {}
                    None => events = None,
                },
            }
        }
    }
}

/// Whether each of these resources was asked for its facts and has answered.
async fn have_answered(embedded: &Embedded, asked: &[ResourceId]) -> Result<bool, store::Error> {
    for giver in asked {
        let actions = embedded
            .store
            .action_list(embedded.environment, Some(giver), 1);
        let last = actions.await?.into_iter().next();
        let has = last
            .is_some_and(|last| last.action == ActionKind::CollectFacts && last.finished.is_some());
        if !has {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The next event; for ever pending when there are none any more.
async fn next_event(events: &mut Option<broadcast::Receiver<Arc<Event>>>) -> Option<Arc<Event>> {
    match events {
        Some(events) => loop {
            match events.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        },
        None => std::future::pending().await,
    }
}

/// What a compile of this machine came to, in the shape in which compiles of servers are reported.
pub(super) fn compile_done(compiled: &LocalResult) -> CompileDone {
    let diagnostics = compiled.diagnostics.iter();
    let n_errors = diagnostics
        .filter(|found| found.json["severity"] == "error")
        .count();
    let plural = if n_errors == 1 { "" } else { "s" };
    let failure = compiled
        .export
        .is_none()
        .then(|| format!("the model has {n_errors} error{plural}"));
    CompileDone {
        compile: CompileId::generate(),
        commit: commit_of(compiled),
        version: None,
        failure,
        diagnostics: compiled.diagnostics.clone(),
        n_resources: compiled
            .export
            .as_ref()
            .map_or(0, |export| export.resources.len()),
        duration: Duration::ZERO,
    }
}

/// `1a2b3c4d`, or `1a2b3c4d and changes`; empty: the project is in no repository.
fn commit_of(compiled: &LocalResult) -> String {
    let Some(head) = &compiled.head else {
        return String::new();
    };
    let short: String = head.commit.to_string().chars().take(8).collect();
    match head.is_changed {
        true => format!("{short} and changes"),
        false => short,
    }
}

/// The folder of the state that belongs to a project.
pub(super) fn state_of(project: &Path, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| project.join(STATE), Path::to_owned)
}
