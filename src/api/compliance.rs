//! How resources differ from what they shall be. Source: docs/reference/rest.md § 1.6, docs/reference/deployment.md § 3.5.

use serde_json::{Map, Value, json};

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{ActionKind, EnvironmentId, ResourceId, ResourceStatus, VersionNumber};
use crate::store::{ResourceState, Store};

routes! {
    Post "/api/v2/compliance_report" Environment "whether resources are as desired, and how they differ" => Body report();
}

/// Resources of one report. Each is looked up.
const MAX_RESOURCES: usize = 1000;
/// Of the runs of a resource the newest may go on, and the one before has ended.
const NEWEST_RUNS: i64 = 2;

async fn report(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let ids = args
        .list("resource_ids")?
        .ok_or_else(|| ApiError::bad_request("Field 'resource_ids' is required"))?;
    if ids.len() > MAX_RESOURCES {
        return Err(ApiError::bad_request(format!(
            "resource_ids may have at most {MAX_RESOURCES} ids"
        )));
    }
    let version = environment.active_version.unwrap_or_default();
    let ids: Vec<ResourceId> = ids.into_iter().map(ResourceId::new).collect();
    let states = app.store.state_some(environment.id, &ids).await?;
    let there = |id: &&ResourceId| {
        let mut current = states.iter().filter(|state| state.orphaned_after.is_none());
        current.any(|state| state.resource_id == **id)
    };
    let missing: Vec<&str> = ids
        .iter()
        .filter(|id| !there(id))
        .map(ResourceId::as_str)
        .collect();
    if !missing.is_empty() {
        return Err(ApiError::not_found(format!(
            "the version in force has no resource {}",
            missing.join(", ")
        )));
    }
    let mut rows = Map::new();
    for state in &states {
        let row = row(&app.store, environment.id, version, state).await?;
        rows.insert(state.resource_id.to_string(), row);
    }
    Ok(Answer::Data(Value::Object(rows)))
}

async fn row(
    store: &Store,
    environment: EnvironmentId,
    version: VersionNumber,
    state: &ResourceState,
) -> Result<Value, ApiError> {
    let resource = store
        .resource_fetch(environment, version, &state.resource_id)
        .await?;
    let attributes: Option<Value> =
        resource.and_then(|resource| serde_json::from_str(&resource.attributes).ok());
    let report_only = attributes.is_some_and(|attributes| attributes["report_only"] == true);
    Ok(json!({
        "report_only": report_only,
        "compliance": state.compliance(),
        "last_handler_run": state.last_run.as_str(),
        "last_handler_run_at": state.last_run_at.map(|at| at.to_string()),
        "attribute_diff": difference(store, environment, state).await?,
    }))
}

/// What the last run found and left as it was; null if it left nothing.
async fn difference(
    store: &Store,
    environment: EnvironmentId,
    state: &ResourceState,
) -> Result<Value, ApiError> {
    if state.last_status != ResourceStatus::NonCompliant {
        return Ok(Value::Null);
    }
    let kind = ActionKind::Deploy;
    let runs = store
        .action_of_kind(environment, &state.resource_id, kind, NEWEST_RUNS)
        .await?;
    let mut ended = runs.into_iter().filter(|run| run.finished.is_some());
    Ok(ended.next().map_or(Value::Null, |run| run.changes))
}
