//! Versions with their resources. Source: docs/reference/rest.md § 1.5.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::routes::routes;
use crate::api::v1::shapes;
use crate::api::{Answer, Pieces, versions, wire};
use crate::app::App;
use crate::domain::{ActionKind, EnvironmentId, ResourceId, VersionNumber};
use crate::store::StoreAction;

routes! {
    Get "/api/v1/version" Environment "the versions, newest first" => Query list();
    Get "/api/v1/version/<version>" Environment "a version with its resources" => Query get(version);
}

/// Actions of each resource that come with a version for which no number is given.
const MAX_ACTIONS: i64 = 100;

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let start = args.parsed::<usize>("start")?.unwrap_or(0);
    let limit = page::limit(&args)?;
    let rows = limit.unwrap_or(1000);
    let found = shapes::newest_versions(&app, environment, start, rows).await?;
    let count = found.as_array().map_or(0, Vec::len);
    Ok(Answer::Body(
        json!({"versions": found, "start": start, "limit": rows, "count": count}),
    ))
}

async fn get(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let found = versions::fetch(&app, &environment, version).await?;
    let id = environment.id;
    let resources = app.store.resource_list(id, version).await?;
    let unknowns = app.store.version_unknowns(id, version).await?;
    let has_logs = args.flag("include_logs", false)?;
    let kind = args.text("log_filter")?;
    let limit = args.parsed::<i64>("limit")?.unwrap_or(MAX_ACTIONS);
    let n_actions = usize::try_from(limit.clamp(0, MAX_ACTIONS)).unwrap_or_default();
    let stored = match has_logs {
        true => app.store.action_store_of(id, version).await?,
        false => None,
    };
    let mut body = Pieces::default();
    body.text("{\"model\":")?;
    body.value(&shapes::version_of(id, &found, &resources))?;
    body.text(",\"resources\":[")?;
    let mut separator = "";
    for resource in &resources {
        let mut shape = shapes::resource(id, resource);
        if has_logs {
            let (resource, kind) = (&resource.resource_id, kind.as_deref());
            let stored = stored.as_ref();
            let actions = actions(&app, id, resource, stored, version, kind, n_actions).await?;
            shape["actions"] = Value::Array(actions);
        }
        body.text(std::mem::replace(&mut separator, ","))?;
        body.value(&shape)?;
    }
    let unknowns = unknowns.into_iter().map(|unknown| {
        json!({
            "id": unknown_id(id, version, &unknown.resource, &unknown.parameter), "environment": id, "version": version,
            "resource_id": unknown.resource, "name": unknown.parameter, "source": unknown.source, "resolved": false,
            "metadata": {},
        })
    });
    body.text("],\"unknowns\":")?;
    body.value(&unknowns.collect::<Vec<_>>())?;
    body.text("}")?;
    Ok(body.finish())
}

/// The id of an unknown parameter, which has no row of its own here: the same one always has the same id.
fn unknown_id(
    environment: EnvironmentId,
    version: VersionNumber,
    resource: &ResourceId,
    parameter: &str,
) -> Uuid {
    let name = format!("{environment} {version} {resource} {parameter}");
    let digest: [u8; 32] = Sha256::digest(name).into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Actions that are shown of a resource that is asked for alone, at most.
const MAX_ACTIONS_OF_ONE: usize = 1000;

/// What was done to a resource in a version, newest first. `stored`: how the version was stored; `kind`: only actions of this
/// one; `limit`: so many of them, and a thousand at most.
pub(super) async fn actions(
    app: &App,
    environment: EnvironmentId,
    resource: &ResourceId,
    stored: Option<&StoreAction>,
    version: VersionNumber,
    kind: Option<&str>,
    limit: usize,
) -> Result<Vec<Value>, ApiError> {
    let kind = match kind {
        None => None,
        Some(kind) => match kind.parse::<ActionKind>() {
            Ok(kind) => Some(kind),
            // Kinds that only the reference has: nothing was done of them.
            Err(_) if ["push", "pull", "other"].contains(&kind) => return Ok(Vec::new()),
            Err(_) => {
                return Err(ApiError::bad_request(format!(
                    "`{kind}` is no kind of action"
                )));
            }
        },
    };
    let limit = limit.min(MAX_ACTIONS_OF_ONE);
    let actions = app
        .store
        .action_of_version(environment, resource, version, kind, limit as i64)
        .await?;
    let stored = stored.filter(|stored| stored.has_brought(resource));
    let stored = stored.map(|stored| &stored.action).filter(|action| {
        action.version == version && kind.is_none_or(|kind| action.action == kind)
    });
    let shown = actions.iter().chain(stored);
    let brought = std::slice::from_ref(resource);
    Ok(shown
        .take(limit)
        .map(|action| wire::action(json!(environment), action, brought))
        .collect())
}
