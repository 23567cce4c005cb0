//! One compile, from a commit to a stored version or a report of why not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steward_compiler::{Export, Resource, ServicePurpose};
use tokio::sync::{Mutex, MutexGuard, RwLock, watch};

use super::execute::{Executed, Ready, execute};
use super::install::Place;
use super::network::Proxy;
use super::next::inputs_digest;
use super::redact::SecretVariables;
use super::services::{removed_sets, report_ends};
use super::settings::{PROJECT_FILE, checked};
use super::source::Head;
use super::worker::{JobDone, Pool, Reported};
use crate::domain::chain;
use crate::domain::{AgentName, DataDir, EnvironmentId, ResourceId, Timestamp, VersionNumber};
use crate::git::{CommitId, Reach};
use crate::lsm::Services;
use crate::observe::{Bus, CompileDone, EventKind, RenderedDiagnostic};
use crate::store::{
    self, Compile, CompileEnd, Lane, NewVersion, Outcome, PartialCode, PartialVersion, Stage,
    Store, StoredResource,
};

/// What one compile needs of its surroundings.
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) bus: &'a Bus,
    pub(super) pool: &'a Pool,
    pub(super) data: &'a DataDir,
    pub(super) environment: EnvironmentId,
    /// A fact that is older is not known.
    pub(super) fact_expire: Duration,
    pub(super) secrets: &'a SecretVariables,
    /// The catalog and the inventory of services.
    pub(super) services: &'a Services,
    /// The commit whose definitions the catalog has.
    pub(super) accepted: &'a watch::Sender<Option<Head>>,
    /// How often a compile has written attributes into the inventory; held while one does.
    pub(super) n_writes: &'a Mutex<u64>,
    /// Held from what a validation's verdict goes by to when it is written.
    pub(super) verdicts: &'a Mutex<()>,
    /// What was prepared last.
    pub(super) ready: &'a Mutex<Option<Ready>>,
    /// The commit of which everything was compiled last, in the place of a part, if that was rejected.
    pub(super) full_rejected: &'a Mutex<Option<CommitId>>,
    /// The environment has a version already.
    pub(super) has_version: bool,
    pub(super) place: Place,
    /// Held for reading while a compile uses the lasting name of the checkout, for writing while that changes.
    pub(super) link: &'a RwLock<()>,
    /// The proxy over which the compile reaches the hosts that it may reach.
    pub(super) proxy: Option<&'a Proxy>,
    /// What hosts the repository may be at, and what it names.
    pub(super) reach: Reach,
}

impl Context<'_> {
    /// Whether the catalog has the definitions of this commit.
    pub(super) fn is_accepted(&self, head: &Head) -> bool {
        let accepted = self.accepted.borrow();
        accepted
            .as_ref()
            .is_some_and(|known| known.info.id == head.info.id)
    }
}

/// How a compile ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A version was stored.
    Stored,
    Compiled,
    Rejected,
    Aborted,
}

/// Stages of a compile as they are written.
pub(super) struct Stages<'a> {
    context: &'a Context<'a>,
    compile: &'a Compile,
    position: i64,
    /// Of a compile of a service, which takes milliseconds: its stages are written together when it has ended, so that nobody
    /// waits for the disk between two of them.
    held: Vec<(i64, Stage)>,
}

impl Stages<'_> {
    /// Emits that a stage begins which may take long: it is written when it is done.
    pub(super) fn announce(&self, name: &str, detail: String) {
        let began = EventKind::StageBegan {
            compile: self.compile.id,
            name: name.to_owned(),
            detail,
        };
        self.context.bus.emit(self.context.environment, began);
    }

    /// Writes a finished stage. A report that cannot be written does not stop the compile.
    pub(super) async fn write(
        &mut self,
        name: &str,
        command: &str,
        began: (Timestamp, Instant),
        out: String,
        error: String,
    ) {
        let has_failed = !error.is_empty();
        self.write_as(name, command, began, out, error, has_failed)
            .await;
    }

    /// As [`write`](Self::write), of a stage that may have warned without having failed.
    pub(super) async fn write_as(
        &mut self,
        name: &str,
        command: &str,
        began: (Timestamp, Instant),
        out: String,
        error: String,
        has_failed: bool,
    ) {
        let stage = Stage {
            id: uuid::Uuid::now_v7().to_string(),
            name: name.to_owned(),
            command: command.to_owned(),
            started: began.0,
            completed: Some(Timestamp::now()),
            returncode: Some(i64::from(has_failed)),
            outstream: out.clone(),
            errstream: error,
        };
        self.held.push((self.position, stage));
        self.position += 1;
        if self.compile.services.is_none() {
            self.flush().await;
        }
        let detail = out.lines().next().unwrap_or_default().to_owned();
        let done = EventKind::StageDone {
            compile: self.compile.id,
            name: name.to_owned(),
            duration: began.1.elapsed(),
            detail,
        };
        self.context.bus.emit(self.context.environment, done);
    }
}

impl Stages<'_> {
    /// Writes what is held back.
    async fn flush(&mut self) {
        let held = std::mem::take(&mut self.held);
        let written = self.context.store.stages_write(self.compile.id, &held);
        if let Err(error) = written.await {
            tracing::error!(compile.id = %self.compile.id, error = chain(&error), "cannot write stages of a compile");
        }
    }
}

pub(super) fn begin() -> (Timestamp, Instant) {
    (Timestamp::now(), Instant::now())
}

/// Runs `compile` on the commit `head`; `served` are requests that this run answers too. The end is durable when this
/// returns.
///
/// The stages are: check out, install, compile ([`execute`]), [`judge`], [`finish`], and tell of it.
pub(super) async fn run(
    context: &Context<'_>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    fetched: (Timestamp, Instant),
) -> Result<Verdict, store::Error> {
    let began = Instant::now();
    let commit = head.info.id.to_string();
    let short: String = commit.chars().take(8).collect();
    let started = EventKind::CompileStarted {
        compile: compile.id,
        commit: short.clone(),
        summary: head.info.summary.clone(),
    };
    context.bus.emit(context.environment, started);
    let mut stages = Stages {
        context,
        compile,
        position: 0,
        held: Vec::new(),
    };
    let pulled = format!("{short} {}", head.info.summary);
    stages
        .write(
            "Pulling updates",
            "git fetch",
            fetched,
            pulled,
            String::new(),
        )
        .await;
    let ended = match attempt(context, compile, served, head, &mut stages, Extent::Asked).await {
        Err(store::Error::Base(why)) => {
            let ended = export_all(context, compile, served, head, &mut stages, &why);
            ended.await?
        }
        ended => ended?,
    };
    stages.flush().await;
    let Ended {
        finished,
        mut diagnostics,
        n_resources,
        turn,
    } = ended;
    if turn.is_some() {
        let (store, services) = (context.store, context.services);
        report_ends(store, services, context.environment, Lane::Validations).await?;
        drop(turn);
    }
    diagnostics.extend(finished.refusal);
    let report = CompileDone {
        compile: compile.id,
        commit: short,
        version: finished.version,
        failure: finished.failure,
        diagnostics,
        n_resources,
        duration: began.elapsed(),
    };
    log(context, compile, &commit, &report);
    context
        .bus
        .emit(context.environment, EventKind::CompileDone(report));
    Ok(finished.verdict)
}

/// What of the services a compile is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// What its request asks for.
    Asked,
    /// Everything, since no partial export can be built on the newest version.
    All,
}

/// An attempt that has ended, and is written.
struct Ended<'a> {
    finished: Finished,
    diagnostics: Vec<RenderedDiagnostic>,
    n_resources: usize,
    /// Of a validation that succeeded: no other verdict is given until the lifecycle manager has taken note of this one.
    turn: Option<MutexGuard<'a, ()>>,
}

/// Compiles, and writes what comes of it.
///
/// # Errors
/// [`store::Error::Base`]: nothing is written, and everything has to be exported.
async fn attempt<'a>(
    context: &Context<'a>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    stages: &mut Stages<'_>,
    extent: Extent,
) -> Result<Ended<'a>, store::Error> {
    let began = Timestamp::now();
    let mut judgement = match execute(context, compile, head, extent, stages).await {
        Ok(executed) => judge(context, compile, head, executed),
        Err(Failure::Model(done)) => Judgement::of_mistakes(*done),
        Err(failure) => Judgement::failed(failure),
    };
    judgement.explain(context).await?;
    let mut turn = None;
    if compile.is_validation() && judgement.outcome.is_ok() {
        turn = Some(context.verdicts.lock().await);
        let (services, environment) = (context.services, context.environment);
        let conflict = services.reference_conflict(environment, compile, began);
        if let Some(why) = conflict.await? {
            judgement.refuse("ServiceReference", why);
        }
    }
    let end = end_of(context, compile, served, head, &judgement);
    let finished = finish(context, head, stages, end, judgement.outcome).await?;
    Ok(Ended {
        finished,
        diagnostics: judgement.diagnostics,
        n_resources: judgement.n_resources,
        turn,
    })
}

/// Does a partial compile as a full one, since the newest version is no base for a part: it was made with other Python code of
/// modules, by a server of before for instance, whose own module `lsm` had other code. Otherwise each order would wait, after
/// an upgrade of the server, until somebody asks for a full compile. What was asked for is a part of what this exports; after
/// it, partial exports have a base again.
async fn export_all<'a>(
    context: &Context<'a>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    stages: &mut Stages<'_>,
    why: &str,
) -> Result<Ended<'a>, store::Error> {
    tracing::warn!(
        environment.id = %context.environment, compile.id = %compile.id,
        "a full compile runs in the place of a partial one: {why}"
    );
    let text = format!("a full compile runs in the place of a partial one: {why}");
    let name = store::EXPORTING_ALL;
    stages.write(name, "", begin(), text, String::new()).await;
    // It may take minutes, in which people may want to know what their orders wait for.
    stages.flush().await;
    let ended = attempt(context, compile, served, head, stages, Extent::All).await?;
    let has_failed = ended.finished.verdict == Verdict::Rejected;
    *context.full_rejected.lock().await = has_failed.then_some(head.info.id);
    Ok(ended)
}

/// A version to store.
enum New {
    /// With the settings that the project decides.
    Full(NewVersion, Vec<(String, Value)>),
    Partial(PartialVersion),
}

/// What a compile came to, before anything of it is written.
struct Judgement {
    diagnostics: Vec<RenderedDiagnostic>,
    n_resources: usize,
    /// Of a model without mistakes.
    result_digest: Option<String>,
    /// The version to store; `None`: only a compile was asked for.
    outcome: Result<Option<New>, Failure>,
}

impl Judgement {
    /// There was no compile to judge.
    fn failed(failure: Failure) -> Self {
        Self {
            diagnostics: Vec::new(),
            n_resources: 0,
            result_digest: None,
            outcome: Err(failure),
        }
    }

    /// The model does not compile.
    fn of_mistakes(done: JobDone) -> Self {
        let n_errors = done.n_errors();
        let plural = if n_errors == 1 { "" } else { "s" };
        let failure = Failure::Rejected(format!("the model has {n_errors} error{plural}"));
        Self {
            diagnostics: done.diagnostics.into_iter().map(rendered).collect(),
            ..Self::failed(failure)
        }
    }

    /// Adds what the inventory knows about the mistakes of a model: they may be those of another instance.
    async fn explain(&mut self, context: &Context<'_>) -> Result<(), store::Error> {
        let errors = self
            .diagnostics
            .iter()
            .filter(|known| known.json["severity"] == "error");
        let errors: String = errors.map(|known| known.plain.as_str()).collect();
        let services = context.services;
        let named = services.named_though_ended(context.environment, &errors);
        for why in named.await? {
            self.diagnostics
                .push(rendered(Reported::error("ServiceReference", why)));
        }
        Ok(())
    }

    /// It is not taken, though the model has no mistakes.
    fn refuse(&mut self, kind: &str, why: String) {
        self.diagnostics
            .push(rendered(Reported::error(kind, why.clone())));
        self.outcome = Err(Failure::Rejected(why));
    }
}

fn rendered(reported: Reported) -> RenderedDiagnostic {
    RenderedDiagnostic {
        json: serde_json::from_str(&reported.json).unwrap_or(Value::Null),
        plain: reported.plain,
        colored: reported.colored,
    }
}

/// The end of a compile as it is written, but for its outcome.
fn end_of(
    context: &Context<'_>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    judgement: &Judgement,
) -> CompileEnd {
    let tree = head.info.tree.to_string();
    let secrets = context.secrets.digest();
    let diagnostics = judgement.diagnostics.iter();
    CompileEnd {
        id: compile.id,
        served: served.iter().map(|compile| compile.id).collect(),
        outcome: Outcome::Aborted(String::new()),
        diagnostics: diagnostics.map(|known| known.json.clone()).collect(),
        inputs_digest: Some(inputs_digest(&tree, &compile.variables, secrets.as_deref())),
        commit_id: Some(head.info.id.to_string()),
        tree_id: Some(tree),
        result_digest: judgement.result_digest.clone(),
    }
}

/// What was written at the end of a compile.
struct Finished {
    verdict: Verdict,
    version: Option<VersionNumber>,
    failure: Option<String>,
    /// Why the store does not take what the model means.
    refusal: Option<RenderedDiagnostic>,
}

/// Writes the end of a compile, with the version that it made if there is one.
async fn finish(
    context: &Context<'_>,
    head: &Head,
    stages: &mut Stages<'_>,
    mut end: CompileEnd,
    outcome: Result<Option<New>, Failure>,
) -> Result<Finished, store::Error> {
    let mut finished = Finished {
        verdict: Verdict::Compiled,
        version: None,
        failure: None,
        refusal: None,
    };
    let outcome = match outcome {
        Ok(None) => Ok(()),
        Ok(Some(new)) => match store_version(context, stages, new, &end).await {
            Ok(version) => {
                finished.verdict = Verdict::Stored;
                finished.version = Some(version);
                return Ok(finished);
            }
            Err(error) => {
                let message = refusal_of(context, head, error).await?;
                let refusal = Reported::error("PartialExportRefused", message.clone());
                let refusal = rendered(refusal);
                if let Some(diagnostics) = end.diagnostics.as_array_mut() {
                    diagnostics.push(refusal.json.clone());
                }
                finished.refusal = Some(refusal);
                Err(Failure::Rejected(message))
            }
        },
        Err(failure) => Err(failure),
    };
    end.outcome = match outcome {
        Ok(()) => Outcome::Compiled,
        Err(Failure::Aborted(message)) => {
            finished.verdict = Verdict::Aborted;
            finished.failure = Some(message.clone());
            Outcome::Aborted(message)
        }
        Err(failure) => {
            let message = failure.message().to_owned();
            finished.verdict = Verdict::Rejected;
            finished.failure = Some(message.clone());
            Outcome::Rejected(message)
        }
    };
    context.store.compile_finish(&end).await?;
    Ok(finished)
}

/// Why the store takes no version of this model, whenever it is compiled again.
///
/// # Errors
/// It may take one another time, or one of everything.
async fn refusal_of(
    context: &Context<'_>,
    head: &Head,
    error: store::Error,
) -> Result<String, store::Error> {
    match error {
        // What the model means breaks a rule of partial exports: compiling it again gives the same.
        store::Error::Refused(message) => Ok(message),
        // For each order the same full compile would fail again.
        store::Error::Base(why) if *context.full_rejected.lock().await == Some(head.info.id) => {
            Ok(format!(
                "{why}. A full compile of this commit was tried for that, and is rejected: see its report, mend the model, \
                 and push"
            ))
        }
        error => Err(error),
    }
}

async fn store_version(
    context: &Context<'_>,
    stages: &mut Stages<'_>,
    new: New,
    end: &CompileEnd,
) -> Result<VersionNumber, store::Error> {
    let began = begin();
    if let New::Full(_, decided) = &new {
        apply_settings(context, decided).await?;
    }
    // Read at the last moment: whoever switched it off meanwhile wants no release.
    let settings = context.store.settings_fetch(context.environment).await?;
    let release = settings.auto_deploy();
    let (n_resources, (version, change)) = match new {
        New::Full(mut new, _) => {
            new.release = release;
            let stored = context.store.version_store(&new, end).await?;
            (new.resources.len(), stored)
        }
        New::Partial(mut partial) => {
            partial.new.release = release;
            let store = context.store;
            let stored = store.version_store_partial_compiled(&partial, end).await?;
            (partial.new.resources.len(), stored)
        }
    };
    let summary = format!(
        "version {version}: {n_resources} resources, {} sets and {} contents written",
        change.n_sets_written, change.n_resources_written
    );
    stages
        .write("Storing the version", "", began, summary, String::new())
        .await;
    Ok(version)
}

/// Sets what the project decides of the settings, from before its version is stored: it may say whether that is released.
async fn apply_settings(
    context: &Context<'_>,
    decided: &[(String, Value)],
) -> Result<(), store::Error> {
    let (store, id) = (context.store, context.environment);
    let protected = store.settings_protected(id).await?;
    let was_decided = protected.values().any(|by| by == PROJECT_FILE);
    if decided.is_empty() && !was_decided {
        return Ok(());
    }
    store.settings_protect(id, PROJECT_FILE, decided).await
}

fn log(context: &Context<'_>, compile: &Compile, commit: &str, report: &CompileDone) {
    let services = compile.services.as_ref();
    match &report.failure {
        Some(failure) if services.is_some() => {
            let instances = services.map_or("", |of| of.instances.first().map_or("", |id| id));
            tracing::warn!(
                environment.id = %context.environment, compile.id = %report.compile, commit,
                "the compile for the service instance {instances} failed: {failure}"
            );
            // What a validation says is the diagnosis of its instance alone; a failed export holds up others.
            let shown = report
                .diagnostics
                .iter()
                .filter(|_| !compile.is_validation());
            for diagnostic in shown {
                tracing::warn!(compile.id = %report.compile, "{}", diagnostic.plain);
            }
        }
        None => tracing::info!(
            environment.id = %context.environment, compile.id = %report.compile, commit,
            version = report.version.map(VersionNumber::get),
            "compiled commit {} in {:?}", report.commit, report.duration
        ),
        Some(failure) => {
            tracing::error!(
                environment.id = %context.environment, compile.id = %report.compile, commit,
                "commit {} does not compile, the version in force stays: {failure}", report.commit
            );
            for diagnostic in &report.diagnostics {
                if diagnostic.json["severity"] == "warning" {
                    tracing::warn!(compile.id = %report.compile, "{}", diagnostic.plain);
                } else {
                    tracing::error!(compile.id = %report.compile, "{}", diagnostic.plain);
                }
            }
        }
    }
}

pub(super) enum Failure {
    /// The model is wrong: compiling it again gives the same.
    Rejected(String),
    /// The same, and the worker says what is wrong with it.
    Model(Box<JobDone>),
    /// Our world failed: trying again may help.
    Aborted(String),
}

impl Failure {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Rejected(message) | Self::Aborted(message) => message,
            Self::Model(_) => "the model has mistakes",
        }
    }
}

/// What a worker's answer means.
fn judge(context: &Context<'_>, compile: &Compile, head: &Head, executed: Executed) -> Judgement {
    let Executed { mut done, services } = executed;
    // A validation leaves no export, and neither do definitions alone.
    let is_exported = match &services.purpose {
        ServicePurpose::Production => done.export.is_some(),
        ServicePurpose::Validation { .. } | ServicePurpose::Definitions => true,
    };
    if done.has_errors() || !is_exported {
        return Judgement::of_mistakes(done);
    }
    let mut diagnostics = std::mem::take(&mut done.diagnostics);
    let settings = match checked(&done.settings) {
        Ok(settings) => settings,
        Err(message) => {
            diagnostics.push(Reported::error("EnvironmentSettings", message));
            done.diagnostics = diagnostics;
            return Judgement::of_mistakes(done);
        }
    };
    let Some(export) = done.export.filter(|_| compile.do_export) else {
        return Judgement {
            diagnostics: diagnostics.into_iter().map(rendered).collect(),
            n_resources: 0,
            result_digest: None,
            outcome: Ok(None),
        };
    };
    let (n_resources, result_digest) = (export.resources.len(), result_digest(&export));
    let request = compile.services.as_ref();
    let partial = request.filter(|_| services.requested.is_some());
    let removed_sets = partial.map(|request| removed_sets(request, &services, &export));
    let new = new_version(context, compile, head, json!(done.code), export);
    let new = match removed_sets {
        None => New::Full(new, settings),
        Some(removed_sets) => New::Partial(PartialVersion {
            new,
            removed_sets,
            code: PartialCode::Same,
        }),
    };
    Judgement {
        diagnostics: diagnostics.into_iter().map(rendered).collect(),
        n_resources,
        result_digest: Some(result_digest),
        outcome: Ok(Some(new)),
    }
}

/// The version that an export makes; `code` is the Python code of its handlers.
fn new_version(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    code: Value,
    export: Export,
) -> NewVersion {
    let mut metadata = compile.metadata.clone();
    if let Some(metadata) = metadata.as_object_mut() {
        let info = &head.info;
        metadata.insert("commit".to_owned(), info.id.to_string().into());
        metadata.insert("commit_summary".to_owned(), info.summary.clone().into());
        metadata.insert("commit_author".to_owned(), info.author.clone().into());
        metadata.insert("inmanta:compile:state".to_owned(), "success".into());
    }
    NewVersion {
        environment_id: context.environment,
        commit_id: Some(head.info.id.to_string()),
        tree_id: Some(head.info.tree.to_string()),
        metadata,
        modules: code,
        unknowns: json!(export.unknowns),
        agent_places: export.agents,
        resources: export.resources.into_iter().map(stored).collect(),
        release: false,
    }
}

/// Runs blocking work off the runtime. A panic in it is ours to show.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A resource of an export as the store keeps it.
pub(super) fn stored(resource: Resource) -> StoredResource {
    StoredResource {
        digest: String::new(),
        resource_id: ResourceId::new(resource.id),
        resource_type: resource.entity_type,
        agent: AgentName::new(resource.agent),
        id_attribute: resource.id_attribute,
        id_value: resource.id_value,
        attributes: resource.attributes,
        attribute_hash: resource.attribute_hash,
        requires: resource.requires.into_iter().map(ResourceId::new).collect(),
        is_undefined: resource.undefined,
        set_name: resource.resource_set.unwrap_or_default(),
        created: Timestamp::now(),
    }
    .with_digest()
}

/// What `steward verify` compares: the whole desired state in a canonical order.
fn result_digest(export: &Export) -> String {
    let mut resources: Vec<&Resource> = export.resources.iter().collect();
    resources.sort_unstable_by(|a, b| a.id.cmp(&b.id));
    let mut hasher = Sha256::new();
    let mut text = Vec::new();
    for resource in resources {
        text.clear();
        // Texts, lists and flags can be written as JSON, and to memory.
        if serde_json::to_writer(&mut text, resource).is_ok() {
            hasher.update(&text);
            hasher.update(b"\n");
        }
    }
    hex::encode(hasher.finalize())
}
