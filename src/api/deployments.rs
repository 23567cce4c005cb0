//! Deploy, repair and dry runs on request. Source: docs/reference/rest.md § 1.6 and § 1.8.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::deploy::{DeployKind, Engine};
use crate::domain::{AgentName, DryRunId, DryRunStatus, VersionNumber};
use crate::store::{DryRun, DryRunNote, DryRunResult, Environment};

routes! {
    Post "/api/v1/deploy" Environment "deploys or repairs now" => Body deploy_now();
    Post "/api/v2/dryrun/<version>" Environment "starts a dry run" => Body start_dry_run(version);
    Get "/api/v2/dryrun/<version>" Environment "the dry runs of a version" => Query list_dry_runs(version);
    Get "/api/v2/dryrun/<version>/<id>" Environment "what a dry run found" => Query dry_run_diff(version, id);
}

/// The engine of an environment. One that is halted may be between two of them.
pub(in crate::api) fn engine(app: &App, environment: &Environment) -> Result<Engine, ApiError> {
    if environment.halted {
        return Err(ApiError::halted(environment));
    }
    let id = environment.id;
    app.engine(id).ok_or_else(|| {
        ApiError::not_found(match crate::api::environments::failure(app, id) {
            Some(failure) => format!("the environment does not run: {failure}"),
            None => "the scheduler could not be reached".to_owned(),
        })
    })
}

/// What a request to deploy is to run: everything, if it does not say.
pub(in crate::api) fn method_of(args: &Args) -> Result<DeployKind, ApiError> {
    match args.text("agent_trigger_method")?.as_deref() {
        None | Some("push_full_deploy") => Ok(DeployKind::Repair),
        Some("push_incremental_deploy") => Ok(DeployKind::Deploy),
        Some(other) => Err(ApiError::bad_request(format!(
            "`{other}` is not push_full_deploy or push_incremental_deploy"
        ))),
    }
}

/// The dry run of that id, in this environment.
pub(in crate::api) async fn fetch_dry_run(
    app: &App,
    environment: &EnvironmentAccess,
    id: &Segment,
) -> Result<DryRun, ApiError> {
    let id: DryRunId =
        id.0.parse()
            .map_err(|_| ApiError::bad_request(format!("`{}` is no dry run id", id.0)))?;
    let dry_runs = app.store.dry_run_all(environment.id).await?;
    let mut found = dry_runs.into_iter().filter(|dry_run| dry_run.id == id);
    found
        .next()
        .ok_or_else(|| ApiError::not_found(format!("dry run {id}")))
}

/// `POST /api/v1/deploy`: a user deploy (`push_incremental_deploy`) or repair (`push_full_deploy`, the default).
async fn deploy_now(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let method = method_of(&args)?;
    let agents = args.list("agents")?.map(|agents| {
        agents
            .into_iter()
            .map(AgentName::new)
            .collect::<BTreeSet<_>>()
    });
    let known: BTreeSet<AgentName> = app
        .store
        .agent_list(environment.id)
        .await?
        .into_iter()
        .map(|agent| agent.name)
        .collect();
    let unknown: Vec<&str> = agents
        .iter()
        .flatten()
        .filter(|agent| !known.contains(*agent))
        .map(AgentName::as_str)
        .collect();
    let warning = (!unknown.is_empty())
        .then(|| format!("Could not find agents named {}", unknown.join(", ")));
    let touched = engine(&app, &environment)?.deploy(method, agents).await?;
    let mut body = json!({"agents": touched.agents});
    if let Some(warning) = warning {
        body["metadata"] = json!({"warnings": [warning]});
    }
    Ok(Answer::Body(body))
}

async fn start_dry_run(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    Ok(Answer::Data(json!(
        engine(&app, &environment)?
            .dry_run(version, None, DryRunNote::default())
            .await?
    )))
}

async fn list_dry_runs(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if app
        .store
        .version_fetch(environment.id, version)
        .await?
        .is_none()
    {
        return Err(ApiError::not_found(format!("version {version}")));
    }
    let dry_runs = app.store.dry_run_list(environment.id, version).await?;
    let shapes = dry_runs
        .iter()
        .map(|dry_run| wire::dry_run(json!(environment.id), dry_run));
    Ok(Answer::Data(shapes.collect()))
}

async fn dry_run_diff(
    version: VersionNumber,
    id: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let dry_run = fetch_dry_run(&app, &environment, &id).await?;
    if dry_run.version != version {
        let message = format!("dry run {} of version {version}", id.0);
        return Err(ApiError::not_found(message));
    }
    let results = app.store.dry_run_results(dry_run.id).await?;
    let diff: Vec<Value> = results.iter().map(difference).collect();
    Ok(Answer::Data(
        json!({"summary": wire::dry_run(json!(environment.id), &dry_run), "diff": diff}),
    ))
}

/// What a dry run says of one resource: in the shape of a difference between versions. Beyond the reference, `skipped` has
/// the reason for which a handler does not deal with the resource now. Source: docs/reference/deployment.md § 5.10.
pub(crate) fn difference(result: &DryRunResult) -> Value {
    let empty = Map::new();
    let changes = result.changes.as_object().unwrap_or(&empty);
    if result.status == DryRunStatus::Skipped {
        return json!({
            "resource_id": result.resource_id,
            "status": "unmodified",
            "attributes": {},
            "skipped": result.changes["reason"],
        });
    }
    let purged = changes.get("purged").map(|purged| &purged["desired"]);
    let status = match (result.status, purged) {
        (DryRunStatus::Changes, _) if changes.is_empty() => "unmodified",
        (DryRunStatus::Changes, Some(Value::Bool(false))) => "added",
        (DryRunStatus::Changes, Some(Value::Bool(true))) => "deleted",
        (DryRunStatus::Changes, _) => "modified",
        (other, _) => other.as_str(),
    };
    let attributes = changes.iter().map(|(name, change)| {
        let (from, to) = match status {
            "added" => (&Value::Null, &change["desired"]),
            "deleted" => (&change["current"], &Value::Null),
            _ => (&change["current"], &change["desired"]),
        };
        (name.clone(), wire::attribute_diff(from, to))
    });
    json!({
        "resource_id": result.resource_id,
        "status": status,
        "attributes": attributes.collect::<Map<_, _>>(),
    })
}
