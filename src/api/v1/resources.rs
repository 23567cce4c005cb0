//! A resource of a version, by its id with the version. Source: docs/reference/rest.md § 1.6.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::v1::{shapes, versions};
use crate::app::App;
use crate::domain::{ResourceId, VersionNumber};

routes! {
    Get "/api/v1/resource/<rvid>" Environment "a resource of a version, and what was done to it" => Query get(rvid);
}

/// The id and the version of `type[agent,attribute=value],v=N`.
fn parts(rvid: &str) -> Option<(ResourceId, VersionNumber)> {
    let (id, version) = rvid.rsplit_once(",v=")?;
    Some((ResourceId::parse(id)?, version.parse().ok()?))
}

async fn get(rvid: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let access = scope(&app, &args).await?;
    let environment = access.id;
    let (id, version) = parts(&rvid.0).ok_or_else(|| {
        ApiError::bad_request(format!(
            "`{}` is no id of a resource with its version, as in std::File[host,path=/x],v=1",
            rvid.0
        ))
    })?;
    crate::api::versions::fetch(&app, &access, version).await?;
    let found = app.store.resource_fetch(environment, version, &id).await?;
    let found = found.ok_or_else(|| ApiError::not_found(format!("resource {}", rvid.0)))?;
    let kind = args.text("log_action")?;
    let mut logs: Vec<Value> = Vec::new();
    if args.flag("logs", false)? || kind.is_some() {
        let stored = app.store.action_store_of(environment, version).await?;
        let (stored, kind) = (stored.as_ref(), kind.as_deref());
        let limit = match args.parsed::<usize>("log_limit")?.unwrap_or(0) {
            0 => usize::MAX,
            limit => limit,
        };
        logs = versions::actions(&app, environment, &id, stored, version, kind, limit).await?;
    }
    Ok(Answer::Body(
        json!({"resource": shapes::resource(environment, &found), "logs": logs}),
    ))
}
