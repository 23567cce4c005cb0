//! What happens in worker processes for one compile: its files are laid out, what it asks for is installed, and its model is
//! compiled, once, or twice if services have instances and the commit is new.
//!
//! A new commit may define services otherwise. So its definitions are compiled first, without instances, and go into the
//! catalog, which refuses what the instances do not allow and rewrites them where they need it. Then the model is compiled with
//! the instances as they are now. Source: docs/reference/lsm.md § 2.12.

use std::path::{Path, PathBuf};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use steward_compiler::{
    Partial, ServiceAnswer, ServicePurpose, ServiceQuestion, ServicesInput, ServicesOutput,
};
use tokio::sync::RwLockReadGuard;
use uuid::Uuid;

use super::install::{Venv, install, policy};
use super::network::Proxy;
use super::notify::notify_catalog;
use super::repository::Reader;
use super::run::{Context, Extent, Failure, Stages, begin};
use super::source::Head;
use super::worker::{Inventory, Job, JobDone, Reported};
use crate::domain::{DataDir, EnvironmentId, chain, unusable_places};
use crate::executor::protocol::Python;
use crate::facts;
use crate::git::CommitId;
use crate::sandbox::{Network, SandboxPolicy};
use crate::store::{self, Compile, ServiceRequest};

/// What a compile came to, with what services it was given.
pub(super) struct Executed {
    pub(super) done: JobDone,
    pub(super) services: ServicesInput,
}

/// A commit whose files were laid out and whose packages were installed: as long as both are there, it need not be done again
/// for each instance.
#[derive(Debug, Clone)]
pub(super) struct Ready {
    commit: CommitId,
    checkout: PathBuf,
    venv: Option<Venv>,
}

impl Ready {
    fn is_there(&self) -> bool {
        let venv = self.venv.as_ref().map(|venv| &venv.folder);
        let mut folders = std::iter::once(&self.checkout).chain(venv);
        folders.all(|folder| folder.exists())
    }
}

/// A commit that can be compiled: its files and packages are there.
struct Prepared<'a> {
    commit: CommitId,
    policy: SandboxPolicy,
    project_dir: PathBuf,
    venv: Option<Venv>,
    /// While it is held, `project_dir` leads to the files of this commit.
    _link: RwLockReadGuard<'a, ()>,
}

/// Checks the commit out, installs what it asks for, and lets a worker compile it.
pub(super) async fn execute(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    extent: Extent,
    stages: &mut Stages<'_>,
) -> Result<Executed, Failure> {
    let request = compile.services.as_ref();
    let known = context.ready.lock().await.clone();
    let is_known = |ready: &Ready| ready.commit == head.info.id && ready.is_there();
    // Whoever asks for a compile of the project may have changed what its packages are.
    let known = known.filter(|ready| request.is_some() && is_known(ready));
    let ready = match known {
        Some(ready) => ready,
        None => prepare(context, head, stages).await?,
    };
    *context.ready.lock().await = Some(ready.clone());
    let (project_dir, link) = linked(context, &ready.checkout).await;
    let prepared = Prepared {
        commit: ready.commit,
        policy: sandbox(context)?,
        project_dir,
        venv: ready.venv,
        _link: link,
    };
    // What was said of the catalog in this compile.
    let mut warned = Vec::new();
    if request.is_none() && !context.is_accepted(head) {
        define(context, compile, head, &prepared, (stages, &mut warned)).await?;
    }
    let purpose = request.map_or(ServicePurpose::Production, |request| {
        request.purpose.clone()
    });
    // The first export of an environment is one of everything: a partial one has nothing to build on.
    let is_first = purpose == ServicePurpose::Production && !context.has_version;
    let is_all = is_first || extent == Extent::All;
    let requested = request.filter(|request| request.is_partial && !is_all);
    let requested = requested.map(|request| request.instances.as_slice());
    loop {
        let n_writes = *context.n_writes.lock().await;
        let given = services(context, &purpose, requested).await?;
        check_services(context, &given).await?;
        let mut done = work(context, compile, &prepared, stages, given.clone()).await?;
        match request {
            Some(request) if request.purpose != ServicePurpose::Definitions => {
                // They are those of the commit, which the catalog has.
                done.services.definitions = None;
            }
            // A model that does not know services has none.
            None if done.export.is_some() => {
                done.services.definitions.get_or_insert_default();
            }
            _ => {}
        }
        let mut now = context.n_writes.lock().await;
        if !done.services.writes.is_empty() {
            if *now != n_writes && compile.is_validation() {
                // It may have taken what another validation has taken meanwhile: now it sees what that is.
                continue;
            }
            *now += 1;
        }
        apply(context, compile, &done, (stages, &mut warned)).await?;
        return Ok(Executed {
            done,
            services: given,
        });
    }
}

/// Brings the definitions of a new commit into the catalog, if there are instances that may have to be rewritten; else those of
/// the compile itself are as good.
async fn define(
    context: &Context<'_>,
    compile: &Compile,
    head: &Head,
    prepared: &Prepared<'_>,
    (stages, warned): (&mut Stages<'_>, &mut Vec<String>),
) -> Result<(), Failure> {
    let has_instances = context.store.services_any(context.environment).await;
    if !has_instances.map_err(|error| Failure::Aborted(chain(&error)))? {
        return Ok(());
    }
    let given = services(context, &ServicePurpose::Definitions, None).await?;
    let mut done = work(context, compile, prepared, stages, given).await?;
    if done.has_errors() {
        return Err(Failure::Model(Box::new(done)));
    }
    done.services.definitions.get_or_insert_default();
    let before = catalog_revision(context).await?;
    apply(context, compile, &done, (stages, warned)).await?;
    // Where it changes the catalog, the instances are as this commit defines them from now on, whatever comes of the rest of the
    // compile. Else orders go on with the commit before until all of this one has compiled.
    if catalog_revision(context).await? != before {
        context.accepted.send_replace(Some(head.clone()));
    }
    Ok(())
}

async fn catalog_revision(context: &Context<'_>) -> Result<i64, Failure> {
    let catalog = context.store.service_catalog(context.environment).await;
    let catalog = catalog.map_err(|error| Failure::Aborted(chain(&error)))?;
    Ok(catalog.revision)
}

/// What the compile is given of services.
async fn services(
    context: &Context<'_>,
    purpose: &ServicePurpose,
    requested: Option<&[String]>,
) -> Result<ServicesInput, Failure> {
    let requested = requested.map(<[String]>::to_vec);
    let store = context.store;
    let input = store.services_input(context.environment, purpose.clone(), requested);
    input.await.map_err(|error| Failure::Aborted(chain(&error)))
}

/// Whether the model has the services of the instances that a compile is for: without them it would say nothing of these.
async fn check_services(context: &Context<'_>, given: &ServicesInput) -> Result<(), Failure> {
    let (ids, is_validation): (Vec<&String>, bool) = match (&given.purpose, &given.requested) {
        (ServicePurpose::Validation { instance, .. }, _) => (vec![instance], true),
        (ServicePurpose::Production, Some(requested)) => (requested.iter().collect(), false),
        (ServicePurpose::Production, None) | (ServicePurpose::Definitions, _) => return Ok(()),
    };
    let ids: Vec<Uuid> = ids.into_iter().filter_map(|id| id.parse().ok()).collect();
    let services = context.services;
    let missing = services.missing_in_model(context.environment, &ids, is_validation);
    match missing
        .await
        .map_err(|error| Failure::Aborted(chain(&error)))?
    {
        None => Ok(()),
        Some(why) => Err(Failure::Rejected(why)),
    }
}

/// Hands over what a compile leaves for services. Attributes also of one that failed: what an allocator has taken from
/// elsewhere stays with the instance that it was taken for. Source: docs/reference/lsm.md § 2.10, checklist 76. What people
/// should know of the catalog then is a stage of the compile, a notification and a line of the log, unless it was said before.
async fn apply(
    context: &Context<'_>,
    compile: &Compile,
    done: &JobDone,
    (stages, warned): (&mut Stages<'_>, &mut Vec<String>),
) -> Result<(), Failure> {
    let output = &done.services;
    if output.definitions.is_none() && output.writes.is_empty() {
        return Ok(());
    }
    let output = ServicesOutput {
        definitions: output.definitions.clone().filter(|_| !done.has_errors()),
        writes: output.writes.clone(),
    };
    let began = begin();
    let applied = context
        .services
        .apply_output(context.environment, compile.id.uuid(), &output);
    let mut warnings = applied.await.map_err(|error| match error {
        store::Error::Refused(message) | store::Error::Conflict(message) => {
            Failure::Rejected(message)
        }
        error => Failure::Aborted(chain(&error)),
    })?;
    warnings.retain(|warning| !warned.contains(warning));
    if warnings.is_empty() {
        return Ok(());
    }
    warned.extend_from_slice(&warnings);
    for warning in &warnings {
        tracing::warn!(environment.id = %context.environment, compile.id = %compile.id, "{warning}");
    }
    let text = warnings.join("\n");
    let noted = notify_catalog(context.store, compile, &text).await;
    noted.map_err(|error| Failure::Aborted(chain(&error)))?;
    let (name, nothing) = ("Updating the service catalog", String::new());
    stages.write_as(name, "", began, nothing, text, false).await;
    Ok(())
}

/// Lays out the files of a commit, and installs the packages that they ask for.
async fn prepare(
    context: &Context<'_>,
    head: &Head,
    stages: &mut Stages<'_>,
) -> Result<Ready, Failure> {
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
    let checkout = match checked_out {
        Ok(dir) => dir,
        Err(error) if error.is_transient() => return Err(Failure::Aborted(chain(&error))),
        Err(error) => return Err(Failure::Rejected(chain(&error))),
    };
    let policy = sandbox(context)?;
    let venv = install(context, &policy, &checkout, stages).await?;
    Ok(Ready {
        commit,
        checkout,
        venv,
    })
}

/// What the compile may do.
fn sandbox(context: &Context<'_>) -> Result<SandboxPolicy, Failure> {
    let policy = policy(
        context.data,
        context.environment,
        context.pool,
        context.place,
    );
    let mut policy = policy.map_err(Failure::Aborted)?;
    if let Some(proxy) = context.proxy {
        policy.network = Network::Proxy(proxy.port);
    }
    Ok(policy)
}

/// The name of a checkout that lasts, and what keeps it so: a compile of another commit waits until those of this one are done.
async fn linked<'a>(
    context: &'a Context<'_>,
    checkout: &Path,
) -> (PathBuf, RwLockReadGuard<'a, ()>) {
    let shared = context.link.read().await;
    if let Ok(link) = link_of(context.data, context.environment)
        && leads_to(&link, checkout)
    {
        return (link, shared);
    }
    drop(shared);
    let alone = context.link.write().await;
    let link = named(context.data, context.environment, checkout);
    let link = link.unwrap_or_else(|error| {
        tracing::warn!(%error, "the project can not be given a name that lasts");
        checkout.to_owned()
    });
    (link, alone.downgrade())
}

/// Has a worker compile a prepared commit.
async fn work(
    context: &Context<'_>,
    compile: &Compile,
    prepared: &Prepared<'_>,
    stages: &mut Stages<'_>,
    services: ServicesInput,
) -> Result<JobDone, Failure> {
    let is_of_all = services.requested.is_none();
    let is_partial = services.requested.is_some() && services.purpose == ServicePurpose::Production;
    let name = match &services.purpose {
        ServicePurpose::Definitions => "Compiling the definitions of services",
        _ => "Recompiling configuration model",
    };
    let removed = compile.services.as_ref().map(removed_variable);
    let mut variables = context.secrets.with(&compile.variables);
    variables.extend(removed.into_iter().flatten());
    let mut inputs = inputs(context).await?;
    inputs.services = Some(services);
    let job = Job {
        commit: prepared.commit,
        project_dir: prepared.project_dir.clone(),
        variables,
        environment_id: context.environment.to_string(),
        inputs,
        partial: is_partial.then(Partial::default),
        python: context.pool.python().map(Python::from),
        // What a compile of a few instances asks is new each time, and its modules are imported already.
        answers: (is_of_all && !compile.is_validation())
            .then(|| context.data.real().answers_of(context.environment)),
        venv: prepared.venv.as_ref().map(|venv| venv.folder.clone()),
        proxy: context.proxy.map(Proxy::url),
        time_limit: context.pool.python_limit(),
        scratch_bytes: context.pool.options().scratch_bytes,
    };
    let stage = begin();
    let mut done = context.pool.compile(&prepared.policy, job, context).await;
    if let (Ok(done), Some(venv)) = (&mut done, &prepared.venv) {
        venv.packages.complete(&mut done.code);
    }
    let done = context.secrets.redact_done(done).map(check_places);
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
    let has_failed = done.as_ref().is_ok_and(JobDone::has_errors) || done.is_err();
    stages
        .write_as(name, "steward compile", stage, out, error, has_failed)
        .await;
    done.map_err(|error| match error.is_of_project() {
        true => Failure::Rejected(error.to_string()),
        false => Failure::Aborted(chain(&error)),
    })
}

/// Refuses agents of the model whose place is no place: to deploy their resources on this machine instead would be wrong.
fn check_places(mut done: JobDone) -> JobDone {
    let wrong = done
        .export
        .as_ref()
        .map(|export| unusable_places(&export.agents));
    for message in wrong.into_iter().flatten() {
        done.diagnostics
            .push(Reported::error("AgentPlace", message));
    }
    done
}

impl Inventory for Context<'_> {
    fn ask(&self, question: ServiceQuestion) -> BoxFuture<'_, Result<ServiceAnswer, String>> {
        let found = self.store.services_ask(self.environment, question);
        found
            .map(|found| found.map_err(|error| chain(&error))?)
            .boxed()
    }
}

/// How Python code of a model knows which sets were asked to be removed. Source: docs/reference/lsm.md § 3.8.
fn removed_variable(request: &ServiceRequest) -> Option<(String, String)> {
    let name = "INMANTA_REMOVED_RESOURCE_SET_ID".to_owned();
    (!request.removed_sets.is_empty()).then(|| (name, request.removed_sets.join(" ")))
}

/// The parameters, and the facts that are not too old.
async fn inputs(context: &Context<'_>) -> Result<steward_compiler::Inputs, Failure> {
    let known = facts::known(context.store, context.environment, context.fact_expire).await;
    let known = known.map_err(|error| Failure::Aborted(chain(&error)))?;
    Ok(facts::inputs(known))
}

/// Where the lasting name of an environment's checkout is.
fn link_of(data: &DataDir, environment: EnvironmentId) -> std::io::Result<PathBuf> {
    let projects = std::path::absolute(data.projects())?;
    Ok(projects.join(data.folder_name(environment)))
}

fn leads_to(link: &Path, checkout: &Path) -> bool {
    let checkout = std::path::absolute(checkout);
    std::fs::read_link(link).is_ok_and(|target| checkout.is_ok_and(|checkout| target == checkout))
}

/// A path to a checkout that is the same for all commits of an environment: so the Python modules that a commit leaves as
/// they are need not be imported again.
fn named(data: &DataDir, environment: EnvironmentId, checkout: &Path) -> std::io::Result<PathBuf> {
    let link = link_of(data, environment)?;
    if leads_to(&link, checkout) {
        return Ok(link);
    }
    let projects = link.parent().unwrap_or(&link);
    std::fs::create_dir_all(projects)?;
    let fresh = projects.join(format!(".{}", data.folder_name(environment)));
    match std::fs::remove_file(&fresh) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => std::os::unix::fs::symlink(std::path::absolute(checkout)?, &fresh)?,
    }
    std::fs::rename(fresh, &link)?;
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::*;

    //: deploy 119
    #[test]
    fn the_sets_that_merged_requests_remove_are_one_variable_with_spaces() {
        let request = |removed: &[&str]| ServiceRequest {
            purpose: ServicePurpose::Production,
            instances: Vec::new(),
            removed_sets: removed.iter().map(|set| (*set).to_owned()).collect(),
            is_partial: true,
        };
        let mut merged = request(&["a", "b"]);
        merged.join(&request(&["b", "c"]));
        let (name, value) = removed_variable(&merged).unwrap();
        assert_eq!(
            (name.as_str(), value.as_str()),
            ("INMANTA_REMOVED_RESOURCE_SET_ID", "a b c")
        );
        assert_eq!(removed_variable(&request(&[])), None);
    }
}
