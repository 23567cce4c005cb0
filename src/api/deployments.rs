//! Deploy, repair and dry runs on request. Source: docs/reference/rest.md § 1.6 and § 1.8.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use warp::{Filter, filters::BoxedFilter};

use crate::api::environments::scope;
use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::{Answer, Body, answer, wire, with};
use crate::app::App;
use crate::deploy::{DeployKind, Engine};
use crate::domain::{DryRunId, EnvironmentId};
use crate::store::DryRunResult;

pub(in crate::api) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let deploy = warp::path!("api" / "v1" / "deploy")
        .and(warp::post())
        .and(with(app))
        .and(args::body());
    let deploy = deploy.then(|app, args| answer(deploy_now(app, args)));
    let dry_run = warp::path!("api" / "v2" / "dryrun" / i64);
    let start = dry_run.and(warp::post()).and(with(app)).and(args::body());
    let start = start.then(|version, app, args| answer(start_dry_run(version, app, args)));
    let list = dry_run.and(warp::get()).and(with(app)).and(args::query());
    let list = list.then(|version, app, args| answer(list_dry_runs(version, app, args)));
    let one = warp::path!("api" / "v2" / "dryrun" / i64 / Segment)
        .and(warp::get())
        .and(with(app))
        .and(args::query());
    let one = one.then(|version, id, app, args| answer(dry_run_diff(version, id, app, args)));
    deploy
        .or(start)
        .unify()
        .or(list)
        .unify()
        .or(one)
        .unify()
        .boxed()
}

fn engine(app: &App, id: EnvironmentId) -> Result<Engine, ApiError> {
    app.engine(id).ok_or_else(|| {
        ApiError::not_found(match crate::api::environments::failure(app, id) {
            Some(failure) => format!("the environment does not run: {failure}"),
            None => "the scheduler could not be reached".to_owned(),
        })
    })
}

/// `POST /api/v1/deploy`: a user deploy (`push_incremental_deploy`) or repair (`push_full_deploy`, the default).
async fn deploy_now(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let method = match args.text("agent_trigger_method")?.as_deref() {
        None | Some("push_full_deploy") => DeployKind::Repair,
        Some("push_incremental_deploy") => DeployKind::Deploy,
        Some(other) => {
            let message = format!("`{other}` is not push_full_deploy or push_incremental_deploy");
            return Err(ApiError::bad_request(message));
        }
    };
    let agents = args
        .list("agents")?
        .map(|agents| agents.into_iter().collect::<BTreeSet<_>>());
    let known: BTreeSet<String> = app
        .store
        .agent_list(environment.id)
        .await?
        .into_iter()
        .map(|agent| agent.name)
        .collect();
    let unknown: Vec<String> = agents
        .iter()
        .flatten()
        .filter(|agent| !known.contains(*agent))
        .cloned()
        .collect();
    let touched = engine(&app, environment.id)?.deploy(method, agents).await?;
    let mut whole = json!({"agents": touched.agents});
    if !unknown.is_empty() {
        whole["metadata"] =
            json!({"warnings": [format!("Could not find agents named {}", unknown.join(", "))]});
    }
    Ok(Answer::Whole(whole))
}

async fn start_dry_run(version: i64, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if environment.halted {
        return Err(ApiError::conflict("the environment is halted"));
    }
    Ok(Answer::Data(json!(
        engine(&app, environment.id)?.dry_run(version).await?
    )))
}

async fn list_dry_runs(version: i64, app: App, args: Args) -> Result<Answer, ApiError> {
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

async fn dry_run_diff(version: i64, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let id: DryRunId =
        id.0.parse()
            .map_err(|_| ApiError::bad_request(format!("`{}` is no dry run id", id.0)))?;
    let dry_runs = app.store.dry_run_list(environment.id, version).await?;
    let dry_run = dry_runs.iter().find(|dry_run| dry_run.id == id);
    let dry_run = dry_run.ok_or_else(|| ApiError::not_found(format!("dry run {id}")))?;
    let results = app.store.dry_run_results(id).await?;
    let diff: Vec<Value> = results.iter().map(difference).collect();
    Ok(Answer::Data(
        json!({"summary": wire::dry_run(json!(environment.id), dry_run), "diff": diff}),
    ))
}

/// Source: docs/reference/deployment.md § 5.10.
fn difference(result: &DryRunResult) -> Value {
    let empty = Map::new();
    let changes = result.changes.as_object().unwrap_or(&empty);
    let purged = changes.get("purged").map(|purged| &purged["desired"]);
    let status = match (result.status.as_str(), purged) {
        ("changes", _) if changes.is_empty() => "unmodified",
        ("changes", Some(Value::Bool(false))) => "added",
        ("changes", Some(Value::Bool(true))) => "deleted",
        ("changes", _) => "modified",
        (other, _) => other,
    };
    let attributes = changes.iter().map(|(name, change)| {
        let to = if status == "deleted" {
            &Value::Null
        } else {
            &change["desired"]
        };
        (name.clone(), wire::attribute_diff(&change["current"], to))
    });
    json!({
        "resource_id": result.resource_id,
        "status": status,
        "attributes": attributes.collect::<Map<_, _>>(),
    })
}
