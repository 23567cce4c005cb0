//! One compile, from a commit to a stored version or a report of why not.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use steward_compiler::{Export, Resource};

use super::install::{install, policy};
use super::leftovers;
use super::network::Proxy;
use super::next::inputs_digest;
use super::redact::SecretVariables;
use super::source::Head;
use super::worker::{Job, JobDone, Pool};
use crate::domain::chain;
use crate::domain::{EnvironmentId, Timestamp, environment_folder};
use crate::executor::protocol::Python;
use crate::files::folders;
use crate::git::{self, Reach};
use crate::observe::{Bus, CompileDone, EventKind, RenderedDiagnostic};
use crate::sandbox::Network;
use crate::store::{self, Compile, CompileEnd, NewVersion, Outcome, Stage, Store, StoredResource};

/// What one compile needs of its surroundings.
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) bus: &'a Bus,
    pub(super) pool: &'a Pool,
    pub(super) data: &'a Path,
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
    /// Tells that a stage begins which may take long: it is written when it is done.
    pub(super) fn tell(&self, name: &str, detail: String) {
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
pub(super) async fn run(
    context: &Context<'_>,
    compile: &Compile,
    served: &[Compile],
    head: &Head,
    fetched: (Timestamp, Instant),
) -> Result<Verdict, store::Error> {
    let began = Instant::now();
    let commit = head.info.id.to_string();
    let (short, summary) = (
        commit.chars().take(8).collect::<String>(),
        head.info.summary.clone(),
    );
    context.bus.emit(
        context.environment,
        EventKind::CompileStarted {
            compile: compile.id,
            commit: short.clone(),
            summary: summary.clone(),
        },
    );
    let mut stages = Stages {
        context,
        compile,
        position: 0,
    };
    let said = format!("{short} {summary}");
    stages
        .write("Pulling updates", "git fetch", fetched, said, String::new())
        .await;
    let tree = head.info.tree.to_string();
    let mut end = CompileEnd {
        id: compile.id,
        served: served.iter().map(|compile| compile.id).collect(),
        outcome: Outcome::Aborted(String::new()),
        diagnostics: json!([]),
        inputs_digest: Some(inputs_digest(
            &tree,
            &compile.variables,
            context.secrets.digest().as_deref(),
        )),
        commit_id: Some(commit.clone()),
        tree_id: Some(tree.clone()),
        result_digest: None,
    };
    let mut report = CompileDone {
        compile: compile.id,
        commit: short,
        version: None,
        failure: None,
        diagnostics: Vec::new(),
        n_resources: 0,
        duration: Duration::ZERO,
    };
    let result = execute(context, compile, head, &mut stages, &mut end, &mut report).await;
    let verdict = match result {
        Ok(Some(mut new)) => {
            let stored_began = begin();
            // Read at the last moment: whoever switched it off meanwhile wants no release.
            new.release = context
                .store
                .settings_fetch(context.environment)
                .await?
                .auto_deploy();
            let (version, change) = context.store.version_store(&new, &mut end).await?;
            let said = format!(
                "version {version}: {} resources, {} sets and {} contents written",
                new.resources.len(),
                change.n_sets_written,
                change.n_resources_written
            );
            stages
                .write("Storing the version", "", stored_began, said, String::new())
                .await;
            report.version = Some(version);
            Verdict::Stored
        }
        Ok(None) => {
            end.outcome = Outcome::Compiled;
            context.store.compile_finish(&end).await?;
            Verdict::Compiled
        }
        Err(failure) => {
            let (message, outcome, verdict) = match failure {
                Failure::Rejected(message) => (
                    message.clone(),
                    Outcome::Rejected(message),
                    Verdict::Rejected,
                ),
                Failure::Aborted(message) => {
                    (message.clone(), Outcome::Aborted(message), Verdict::Aborted)
                }
            };
            end.outcome = outcome;
            context.store.compile_finish(&end).await?;
            report.failure = Some(message);
            verdict
        }
    };
    let version = report.version;
    report.duration = began.elapsed();
    match &report.failure {
        None => tracing::info!(
            environment.id = %context.environment, compile.id = %compile.id, commit, version,
            "compiled commit {} in {:?}", report.commit, report.duration
        ),
        Some(failure) => {
            tracing::error!(
                environment.id = %context.environment, compile.id = %compile.id, commit,
                "commit {} does not compile, the version in force stays: {failure}", report.commit
            );
            for diagnostic in &report.diagnostics {
                tracing::error!(compile.id = %compile.id, "{}", diagnostic.plain);
            }
        }
    }
    context
        .bus
        .emit(context.environment, EventKind::CompileDone(report));
    Ok(verdict)
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

async fn execute(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    stages: &mut Stages<'_>,
    end: &mut CompileEnd,
    report: &mut CompileDone,
) -> Result<Option<NewVersion>, Failure> {
    let stage = begin();
    let checked_out = check_out(context.data, context.environment, head).await;
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
    let done = match done {
        Ok(done) => done,
        Err(error) if error.is_of_project() => return Err(Failure::Rejected(error.to_string())),
        Err(error) => return Err(Failure::Aborted(chain(&error))),
    };
    judge(context, compile, head, end, report, done)
}

/// The parameters, and the facts that are not too old.
async fn inputs(context: &Context<'_>) -> Result<steward_compiler::Inputs, Failure> {
    let facts = context.store.fact_list(context.environment).await;
    let facts = facts.map_err(|error| Failure::Aborted(chain(&error)))?;
    let now = Timestamp::now();
    let mut inputs = steward_compiler::Inputs::default();
    for fact in facts {
        if fact.resource_id.is_empty() {
            inputs.parameters.insert(fact.name, fact.value.into());
        } else if !fact.expires || now.since(fact.updated) < context.fact_expire {
            let of = inputs.facts.entry(fact.resource_id).or_default();
            of.insert(fact.name, fact.value.into());
        }
    }
    Ok(inputs)
}

fn judge(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    end: &mut CompileEnd,
    report: &mut CompileDone,
    done: JobDone,
) -> Result<Option<NewVersion>, Failure> {
    let n_errors = done
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error)
        .count();
    let as_json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    end.diagnostics = done
        .diagnostics
        .iter()
        .map(|diagnostic| as_json(&diagnostic.json))
        .collect();
    report.diagnostics = done
        .diagnostics
        .iter()
        .map(|diagnostic| RenderedDiagnostic {
            json: as_json(&diagnostic.json),
            plain: diagnostic.plain.clone(),
            colored: diagnostic.colored.clone(),
        })
        .collect();
    let Some(export) = done.export.filter(|_| n_errors == 0) else {
        let plural = if n_errors == 1 { "" } else { "s" };
        return Err(Failure::Rejected(format!(
            "the model has {n_errors} error{plural}"
        )));
    };
    report.n_resources = export.resources.len();
    end.result_digest = Some(result_digest(&export));
    if !compile.do_export {
        return Ok(None);
    }
    let mut metadata = compile.metadata.clone();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert("commit".to_owned(), head.info.id.to_string().into());
        metadata.insert(
            "commit_summary".to_owned(),
            head.info.summary.clone().into(),
        );
        metadata.insert("commit_author".to_owned(), head.info.author.clone().into());
        metadata.insert("inmanta:compile:state".to_owned(), "success".into());
    }
    Ok(Some(NewVersion {
        environment_id: context.environment,
        commit_id: end.commit_id.clone(),
        tree_id: end.tree_id.clone(),
        metadata,
        modules: json!(done.code),
        unknowns: json!(export.unknowns),
        resources: export.resources.into_iter().map(stored).collect(),
        release: false,
    }))
}

/// The files of a commit, by content.
pub(super) async fn check_out(
    data: &Path,
    environment: EnvironmentId,
    head: &Head,
) -> Result<std::path::PathBuf, git::Error> {
    let (repository, commit, dir) = (
        head.repository.clone(),
        head.info.id,
        checkouts(data, environment),
    );
    blocking(move || git::checkout(&repository, commit, &dir)).await
}

/// The folder with the checkouts of all environments, each in a folder of its own.
fn all_checkouts(data: &Path) -> std::path::PathBuf {
    data.join("checkouts")
}

/// What an environment's repositories hold is none of the others' business: its plugins can read this, and not theirs.
pub(super) fn checkouts(data: &Path, environment: EnvironmentId) -> std::path::PathBuf {
    all_checkouts(data).join(folder_of(data, environment))
}

/// What the folders of an environment are called.
pub(super) fn folder_of(data: &Path, environment: EnvironmentId) -> String {
    environment_folder(data, environment).unwrap_or_else(|error| {
        tracing::error!(%error, "the folders of environments have names that can be guessed: there is no key for better ones");
        environment.to_string()
    })
}

/// A path to a checkout that is the same for all commits of an environment: so the Python modules that a commit leaves as
/// they are need not be imported again.
fn named(
    data: &Path,
    environment: EnvironmentId,
    checkout: &Path,
) -> std::io::Result<std::path::PathBuf> {
    let projects = std::path::absolute(data)?.join("projects");
    std::fs::create_dir_all(&projects)?;
    let name = folder_of(data, environment);
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

fn stored(resource: Resource) -> StoredResource {
    let mut hasher = Sha256::new();
    let mut part = |text: &str| {
        hasher.update((text.len() as u64).to_be_bytes());
        hasher.update(text.as_bytes());
    };
    part(&resource.id);
    part(&resource.attributes);
    part(if resource.undefined {
        "undefined"
    } else {
        "defined"
    });
    resource.requires.iter().for_each(|require| part(require));
    StoredResource {
        digest: hex::encode(hasher.finalize()),
        resource_id: resource.id,
        resource_type: resource.entity_type,
        agent: resource.agent,
        id_attribute: resource.id_attribute,
        id_value: resource.id_value,
        attributes: resource.attributes,
        attribute_hash: resource.attribute_hash,
        requires: resource.requires,
        is_undefined: resource.undefined,
        set_name: resource.resource_set.unwrap_or_default(),
        created: Timestamp::now(),
    }
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

/// Removes the checkouts that no stored version of any environment names.
pub async fn gc_checkouts(
    store: &Store,
    data: &Path,
    in_use: &tokio::sync::RwLock<()>,
) -> Result<usize, store::Error> {
    let _alone = in_use.write().await;
    let trees = store.version_trees().await?;
    let keep: HashSet<_> = trees.iter().filter_map(|tree| tree.parse().ok()).collect();
    let all = all_checkouts(data);
    let removed = blocking(move || {
        if !all.is_dir() {
            return Ok(0);
        }
        // A version of this program of before kept them all in one folder.
        let mut n_removed = git::gc_checkouts(&all, &keep)?;
        for folder in folders(&all)
            .into_iter()
            .filter(|path| leftovers::is_of_one(path))
        {
            n_removed += git::gc_checkouts(&folder, &keep)?;
        }
        Ok::<_, git::Error>(n_removed)
    })
    .await;
    Ok(removed.unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "cannot remove old checkouts");
        0
    }))
}
