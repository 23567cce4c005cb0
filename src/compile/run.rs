//! One compile, from a commit to a stored version or a report of why not.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steward_compiler::{Export, Resource};

use super::install::{install, policy};
use super::network::Proxy;
use super::next::inputs_digest;
use super::redact::SecretVariables;
use super::repository::Reader;
use super::source::Head;
use super::worker::{Job, JobDone, Pool};
use crate::domain::chain;
use crate::domain::{AgentName, DataDir, EnvironmentId, ResourceId, Timestamp, VersionNumber};
use crate::executor::protocol::Python;
use crate::facts;
use crate::git::Reach;
use crate::observe::{Bus, CompileDone, EventKind, RenderedDiagnostic};
use crate::sandbox::Network;
use crate::store::{self, Compile, CompileEnd, NewVersion, Outcome, Stage, Store, StoredResource};

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
    /// The proxy over which the compile reaches the hosts that it may reach.
    pub(super) proxy: Option<&'a Proxy>,
    /// What hosts the repository may be at, and what it names.
    pub(super) reach: Reach,
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
        let stage = Stage {
            id: uuid::Uuid::now_v7().to_string(),
            name: name.to_owned(),
            command: command.to_owned(),
            started: began.0,
            completed: Some(Timestamp::now()),
            returncode: Some(i64::from(!error.is_empty())),
            outstream: out.clone(),
            errstream: error,
        };
        if let Err(error) = self
            .context
            .store
            .stage_write(self.compile.id, self.position, &stage)
            .await
        {
            tracing::error!(compile.id = %self.compile.id, error = chain(&error), "cannot write the stage `{name}`");
        }
        self.position += 1;
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
    let judgement = match execute(context, compile, head, &mut stages).await {
        Ok(done) => judge(context, compile, head, done),
        Err(failure) => Judgement::failed(failure),
    };
    let end = end_of(context, compile, served, head, &judgement);
    let finished = finish(context, &mut stages, end, judgement.outcome).await?;
    let report = CompileDone {
        compile: compile.id,
        commit: short,
        version: finished.version,
        failure: finished.failure,
        diagnostics: judgement.diagnostics,
        n_resources: judgement.n_resources,
        duration: began.elapsed(),
    };
    log(context, &commit, &report);
    context
        .bus
        .emit(context.environment, EventKind::CompileDone(report));
    Ok(finished.verdict)
}

/// What a compile came to, before anything of it is written.
struct Judgement {
    diagnostics: Vec<RenderedDiagnostic>,
    n_resources: usize,
    /// Of a model without mistakes.
    result_digest: Option<String>,
    /// The version to store; `None`: only a compile was asked for.
    outcome: Result<Option<NewVersion>, Failure>,
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
}

/// Writes the end of a compile, with the version that it made if there is one.
async fn finish(
    context: &Context<'_>,
    stages: &mut Stages<'_>,
    end: CompileEnd,
    outcome: Result<Option<NewVersion>, Failure>,
) -> Result<Finished, store::Error> {
    let (outcome, verdict, failure) = match outcome {
        Ok(Some(new)) => {
            let version = store_version(context, stages, new, &end).await?;
            return Ok(Finished {
                verdict: Verdict::Stored,
                version: Some(version),
                failure: None,
            });
        }
        Ok(None) => (Outcome::Compiled, Verdict::Compiled, None),
        Err(Failure::Rejected(message)) => {
            let outcome = Outcome::Rejected(message.clone());
            (outcome, Verdict::Rejected, Some(message))
        }
        Err(Failure::Aborted(message)) => {
            let outcome = Outcome::Aborted(message.clone());
            (outcome, Verdict::Aborted, Some(message))
        }
    };
    let end = CompileEnd { outcome, ..end };
    context.store.compile_finish(&end).await?;
    Ok(Finished {
        verdict,
        version: None,
        failure,
    })
}

async fn store_version(
    context: &Context<'_>,
    stages: &mut Stages<'_>,
    mut new: NewVersion,
    end: &CompileEnd,
) -> Result<VersionNumber, store::Error> {
    let began = begin();
    // Read at the last moment: whoever switched it off meanwhile wants no release.
    let settings = context.store.settings_fetch(context.environment).await?;
    new.release = settings.auto_deploy();
    let (version, change) = context.store.version_store(&new, end).await?;
    let summary = format!(
        "version {version}: {} resources, {} sets and {} contents written",
        new.resources.len(),
        change.n_sets_written,
        change.n_resources_written
    );
    stages
        .write("Storing the version", "", began, summary, String::new())
        .await;
    Ok(version)
}

fn log(context: &Context<'_>, commit: &str, report: &CompileDone) {
    match &report.failure {
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
                tracing::error!(compile.id = %report.compile, "{}", diagnostic.plain);
            }
        }
    }
}

pub(super) enum Failure {
    /// The model is wrong: compiling it again gives the same.
    Rejected(String),
    /// Our world failed: trying again may help.
    Aborted(String),
}

impl Failure {
    pub(super) fn message(&self) -> &str {
        match self {
            Self::Rejected(message) | Self::Aborted(message) => message,
        }
    }
}

/// Checks the commit out, installs what it asks for, and lets a worker compile it.
async fn execute(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    stages: &mut Stages<'_>,
) -> Result<JobDone, Failure> {
    let stage = begin();
    let reader = Reader {
        data: context.data,
        environment: context.environment,
        pool: context.pool,
    };
    let (commit, tree) = (head.info.id, head.info.tree);
    let checked_out = reader.check_out(&head.source, commit, Some(tree)).await;
    let (out, error) = match &checked_out {
        Ok(dir) => (dir.display().to_string(), String::new()),
        Err(error) => (String::new(), chain(error)),
    };
    stages.write("Checking out", "", stage, out, error).await;
    let project_dir = match checked_out {
        Ok(dir) => dir,
        Err(error) if error.is_transient() => return Err(Failure::Aborted(chain(&error))),
        Err(error) => return Err(Failure::Rejected(chain(&error))),
    };
    let policy = policy(context.data, context.environment, context.pool);
    let mut policy = policy.map_err(Failure::Aborted)?;
    if let Some(proxy) = context.proxy {
        policy.network = Network::Proxy(proxy.port);
    }
    let venv = install(context, &policy, &project_dir, stages).await?;
    let named = named(context.data, context.environment, &project_dir).unwrap_or_else(|error| {
        tracing::warn!(%error, "the project can not be given a name that lasts");
        project_dir.clone()
    });
    let job = Job {
        project_dir: named,
        variables: context.secrets.with(&compile.variables),
        environment_id: context.environment.to_string(),
        inputs: inputs(context).await?,
        python: context.pool.python().map(Python::from),
        venv,
        proxy: context.proxy.map(Proxy::url),
        time_limit: context.pool.python_limit(),
        scratch_bytes: context.pool.options().scratch_bytes,
    };
    let stage = begin();
    let done = context.pool.compile(&policy, job).await;
    let done = context.secrets.redact_done(done);
    let (out, error) = match &done {
        Ok(done) => (
            done.printed.clone(),
            done.diagnostics
                .iter()
                .map(|d| d.plain.as_str())
                .collect::<Vec<_>>()
                .join("\n"),
        ),
        Err(error) => (String::new(), error.to_string()),
    };
    stages
        .write(
            "Recompiling configuration model",
            "steward compile",
            stage,
            out,
            error,
        )
        .await;
    done.map_err(|error| match error.is_of_project() {
        true => Failure::Rejected(error.to_string()),
        false => Failure::Aborted(chain(&error)),
    })
}

/// The parameters, and the facts that are not too old.
async fn inputs(context: &Context<'_>) -> Result<steward_compiler::Inputs, Failure> {
    let known = facts::known(context.store, context.environment, context.fact_expire).await;
    let known = known.map_err(|error| Failure::Aborted(chain(&error)))?;
    Ok(facts::inputs(known))
}

/// What a worker's answer means.
fn judge(context: &Context<'_>, compile: &Compile, head: &Head, done: JobDone) -> Judgement {
    let errors = done.diagnostics.iter();
    let n_errors = errors.filter(|diagnostic| diagnostic.is_error).count();
    let rendered = done
        .diagnostics
        .iter()
        .map(|diagnostic| RenderedDiagnostic {
            json: serde_json::from_str(&diagnostic.json).unwrap_or(Value::Null),
            plain: diagnostic.plain.clone(),
            colored: diagnostic.colored.clone(),
        });
    let diagnostics = rendered.collect();
    let Some(export) = done.export.filter(|_| n_errors == 0) else {
        let plural = if n_errors == 1 { "" } else { "s" };
        let failure = Failure::Rejected(format!("the model has {n_errors} error{plural}"));
        return Judgement {
            diagnostics,
            ..Judgement::failed(failure)
        };
    };
    Judgement {
        diagnostics,
        n_resources: export.resources.len(),
        result_digest: Some(result_digest(&export)),
        outcome: Ok(compile
            .do_export
            .then(|| new_version(context, compile, head, json!(done.code), export))),
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
        resources: export.resources.into_iter().map(stored).collect(),
        release: false,
    }
}

/// A path to a checkout that is the same for all commits of an environment: so the Python modules that a commit leaves as
/// they are need not be imported again.
fn named(
    data: &DataDir,
    environment: EnvironmentId,
    checkout: &Path,
) -> std::io::Result<std::path::PathBuf> {
    let projects = std::path::absolute(data.projects())?;
    std::fs::create_dir_all(&projects)?;
    let name = data.folder_name(environment);
    let link = projects.join(&name);
    if std::fs::read_link(&link).is_ok_and(|target| target == checkout) {
        return Ok(link);
    }
    let fresh = projects.join(format!(".{name}"));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::os::unix::fs::symlink(std::path::absolute(checkout)?, &fresh)?,
    }
    std::fs::rename(fresh, &link)?;
    Ok(link)
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
    for resource in resources {
        hasher.update(json!(resource).to_string().as_bytes());
        hasher.update(b"\n");
    }
    hex::encode(hasher.finalize())
}
