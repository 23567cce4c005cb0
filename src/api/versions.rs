//! Versions and what they hold. Source: docs/reference/rest.md § 1.5.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::{ResourceId, VersionNumber};
use crate::store::StoredResource;

routes! {
    Get "/api/v2/desiredstate" Environment "the versions" => Query list_versions();
    Get "/api/v2/desiredstate/diff/<from>/<to>" Environment "what differs between two versions" => Query diff_versions(from, to);
    Get "/api/v2/desiredstate/<version>" Environment "the resources of a version" => Query resources(version);
    Post "/api/v2/desiredstate/<version>/promote" Environment "releases a version" => Body promote_version(version);
    Get "/api/v2/desiredstate/<version>/resource/<rid>" Environment "a resource of a version" => Query resource_details(version, rid);
}

async fn list_versions(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["version", "date", "status", "released"])?;
    let statuses = args.filter("status")?;
    let active = environment.active_version;
    let mut versions = app
        .store
        .version_list(environment.id, i64::from(i32::MAX))
        .await?;
    versions.retain(|version| {
        statuses.is_empty()
            || statuses
                .iter()
                .any(|status| wire::version(version, active)["status"] == json!(status))
    });
    let shape = |version: &_| wire::version(version, active);
    page::page(
        &args,
        "/api/v2/desiredstate",
        versions,
        |version| version.number,
        true,
        shape,
    )
}

async fn exists(
    app: &App,
    environment: &EnvironmentAccess,
    version: VersionNumber,
) -> Result<(), ApiError> {
    let found = app.store.version_fetch(environment.id, version).await?;
    found
        .map(|_| ())
        .ok_or_else(|| ApiError::not_found(format!("version {version}")))
}

async fn resources(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    exists(&app, &environment, version).await?;
    args.only_filters(&["resource_type", "agent", "resource_id_value"])?;
    let mut resources = app.store.resource_list(environment.id, version).await?;
    let (types, agents, values) = (
        args.filter("resource_type")?,
        args.filter("agent")?,
        args.filter("resource_id_value")?,
    );
    resources.retain(|resource| {
        contains(&types, &resource.resource_type)
            && contains(&agents, resource.agent.as_str())
            && contains(&values, &resource.id_value)
    });
    let path = format!("/api/v2/desiredstate/{version}");
    let shape = |resource: &StoredResource| wire::versioned_resource(resource, version);
    page::page(
        &args,
        &path,
        resources,
        |resource| resource.resource_id.to_string(),
        false,
        shape,
    )
}

/// A partial filter: one of the values is part of the text, case aside; no value passes all.
pub(in crate::api) fn contains(values: &[String], text: &str) -> bool {
    values.is_empty()
        || values
            .iter()
            .any(|value| text.to_lowercase().contains(&value.to_lowercase()))
}

async fn promote_version(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    app.store.version_release(environment.id, version).await?;
    app.wake(environment.id);
    Ok(Answer::Empty)
}

async fn resource_details(
    version: VersionNumber,
    id: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource = app
        .store
        .resource_fetch(environment.id, version, &id.resource_id())
        .await?;
    let resource = resource
        .ok_or_else(|| ApiError::not_found(format!("resource {} in version {version}", id.0)))?;
    Ok(Answer::Data(json!({
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "agent": resource.agent,
        "id_attribute": resource.id_attribute,
        "id_attribute_value": resource.id_value,
        "attributes": wire::attributes(&resource),
        "resource_version_id": format!("{},v={version}", resource.resource_id),
        "version": version,
    })))
}

/// Source: docs/reference/deployment.md § 2.8.
async fn diff_versions(
    from: VersionNumber,
    to: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if from >= to {
        return Err(ApiError::bad_request(
            "the first version must be lower than the second",
        ));
    }
    exists(&app, &environment, from).await?;
    exists(&app, &environment, to).await?;
    let by_id = |resources: Vec<StoredResource>| {
        resources
            .into_iter()
            .map(|resource| (resource.resource_id.clone(), resource))
            .collect::<BTreeMap<_, _>>()
    };
    let old = by_id(app.store.resource_list(environment.id, from).await?);
    let new = by_id(app.store.resource_list(environment.id, to).await?);
    let ids: std::collections::BTreeSet<&ResourceId> = old.keys().chain(new.keys()).collect();
    let mut diffs = Vec::new();
    for id in ids {
        let (old, new) = (old.get(id), new.get(id));
        let status = match (old, new) {
            (None, Some(_)) => "added",
            (Some(_), None) => "deleted",
            (Some(old), Some(new)) if old.digest == new.digest => continue,
            _ => "modified",
        };
        let empty = Map::new;
        let (old, new) = (
            old.map_or_else(empty, wire::attributes),
            new.map_or_else(empty, wire::attributes),
        );
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let attributes: Map<String, Value> = names
            .into_iter()
            .map(|name| {
                (
                    name,
                    old.get(name).unwrap_or(&Value::Null),
                    new.get(name).unwrap_or(&Value::Null),
                )
            })
            .filter(|(_, from, to)| from != to)
            .map(|(name, from, to)| (name.clone(), wire::attribute_diff(from, to)))
            .collect();
        diffs.push(json!({"resource_id": id, "status": status, "attributes": attributes}));
    }
    Ok(Answer::Data(Value::Array(diffs)))
}
