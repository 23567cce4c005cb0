//! Dry runs with their results by resource. Source: docs/reference/rest.md § 1.8.

use serde_json::{Map, Value, json};

use crate::api::deployments::{engine, fetch_dry_run};
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::{Answer, versions, wire};
use crate::app::App;
use crate::deploy::LIFECYCLE_TRANSFER;
use crate::domain::{DryRunStatus, VersionNumber};
use crate::store::{Compared, DryRun, DryRunNote, DryRunResult};

routes! {
    Get "/api/v1/dryrun" Environment "the dry runs" => Query list();
    Post "/api/v1/dryrun/<version>" Environment "starts a dry run" => Body request(version);
    Get "/api/v1/dryrun/<id>" Environment "what a dry run found, by resource" => Query report(id);
    Put "/api/v1/dryrun/<id>" Environment "what the handler of a resource has found" => Body update(id);
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let mut dry_runs = app.store.dry_run_all(environment.id).await?;
    if let Some(version) = args.parsed::<VersionNumber>("version")? {
        versions::fetch(&app, &environment, version).await?;
        dry_runs.retain(|dry_run| dry_run.version == version);
    }
    let shape = |dry_run: &DryRun| {
        json!({
            "id": dry_run.id, "version": dry_run.version, "date": wire::timestamp(dry_run.requested),
            "total": dry_run.total, "todo": dry_run.todo,
        })
    };
    let shapes: Vec<Value> = dry_runs.iter().map(shape).collect();
    Ok(Answer::Body(json!({"dryruns": shapes})))
}

/// The dry run with those of the results so far that `is_shown` takes; the others count as to be done.
async fn shape(
    app: &App,
    environment: &EnvironmentAccess,
    id: &Segment,
    is_shown: impl Fn(&DryRunResult) -> bool,
) -> Result<Value, ApiError> {
    let mut dry_run = fetch_dry_run(app, environment, id).await?;
    let mut results = app.store.dry_run_results(dry_run.id).await?;
    results.retain(is_shown);
    dry_run.todo = dry_run.total - results.len() as i64;
    let mut resources = Map::new();
    for result in &results {
        let rvid = format!("{},v={}", result.resource_id, dry_run.version);
        let mut id_fields = wire::id_details(&result.resource_id);
        if let Some(fields) = id_fields.as_object_mut() {
            let value = fields.remove("resource_id_value").unwrap_or_default();
            let kind = fields.remove("resource_type").unwrap_or_default();
            let agent = fields.remove("agent").unwrap_or_default();
            fields.insert("entity_type".to_owned(), kind);
            fields.insert("agent_name".to_owned(), agent);
            fields.insert("attribute_value".to_owned(), value);
            fields.insert("version".to_owned(), json!(dry_run.version));
        }
        let mut found = json!({"id": rvid, "changes": changes(result), "id_fields": id_fields});
        if is_not_compared(result) {
            found["diff_status"] = json!(result.status.as_str());
        }
        resources.insert(rvid, found);
    }
    let mut shape = wire::dry_run(json!(environment.id), &dry_run);
    shape["resources"] = Value::Object(resources);
    Ok(shape)
}

/// What was found, in the shape of a handler's changes: nothing of a resource that was not compared.
fn changes(result: &DryRunResult) -> Value {
    match result.status {
        DryRunStatus::Changes => result.changes.clone(),
        _ => json!({}),
    }
}

/// Whether no handler looks at the resource, which its status says why.
fn is_not_compared(result: &DryRunResult) -> bool {
    use DryRunStatus::{AgentDown, SkippedForUndefined, Undefined};
    matches!(result.status, Undefined | SkippedForUndefined | AgentDown)
}

async fn request(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if environment.halted {
        return Err(ApiError::halted(&environment));
    }
    let id = engine(&app, &environment)?
        .dry_run(version, None, DryRunNote::default())
        .await?;
    // As it begins, whatever handlers have found by now: what is known of a resource before a handler looks at it.
    let is_known = |result: &DryRunResult| {
        let is_transfer = result.resource_id.resource_type() == LIFECYCLE_TRANSFER;
        is_not_compared(result) || (result.status == DryRunStatus::Changes && is_transfer)
    };
    let id = Segment(id.to_string());
    let shape = shape(&app, &environment, &id, is_known).await?;
    Ok(Answer::Body(json!({"dryrun": shape})))
}

async fn report(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let shape = shape(&app, &environment, &id, |_| true).await?;
    Ok(Answer::Body(json!({"dryrun": shape})))
}

/// A result that somebody else has found. The first result of a resource counts.
async fn update(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let dry_run = fetch_dry_run(&app, &environment, &id).await?;
    let rvid = args.required("resource")?;
    let resource = rvid.rsplit_once(",v=").map_or(rvid.as_str(), |(id, _)| id);
    let resource = crate::domain::ResourceId::new(resource);
    let is_there = app
        .store
        .resource_fetch(environment.id, dry_run.version, &resource)
        .await?;
    if is_there.is_none() {
        return Err(ApiError::not_found(format!("resource {rvid}")));
    }
    let changes = match args.value("changes") {
        Some(changes @ Value::Object(_)) => changes.to_string(),
        _ => return Err(ApiError::bad_request("Field 'changes' has to be an object")),
    };
    let compared = Compared {
        dry_run: dry_run.id,
        resource_id: resource,
        status: DryRunStatus::Changes,
        changes,
    };
    app.store.dry_run_write(&[compared]).await?;
    Ok(Answer::Empty)
}
