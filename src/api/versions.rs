//! Versions and what they hold. Source: docs/reference/rest.md § 1.5.

use serde_json::{Map, Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::{Counts, Cut};
use crate::api::http::error::ApiError;
use crate::api::http::order::{Ranges, Sort};
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::{Answer, Pieces, wire};
use crate::app::App;
use crate::domain::{Like, VersionNumber};
use crate::store::{IdPart, Key, Part, Search, Span, StoredResource, Version, VersionSearch};

routes! {
    Get "/api/v2/desiredstate" Environment "the versions" => Query list_versions();
    Get "/api/v2/desiredstate/diff/<from>/<to>" Environment "what differs between two versions" => Query diff_versions(from, to);
    Get "/api/v2/desiredstate/<version>" Environment "the resources of a version" => Query resources(version);
    Post "/api/v2/desiredstate/<version>/promote" Environment "releases a version" => Body promote_version(version);
    Get "/api/v2/desiredstate/<version>/resource/<rid>" Environment "a resource of a version" => Query resource_details(version, rid);
    Get "/api/v2/pip/config/<version>" Environment "how pip was configured where a version was exported" => Query pip_config(version);
}

async fn list_versions(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["version", "date", "status", "released"])?;
    let sort = Sort::of(&args, &["version"], Sort::descending("version"))?;
    let active = environment.active_version;
    let search = VersionSearch {
        numbers: Ranges::of_numbers(&args, "version")?.bounds(),
        dates: Ranges::of_moments(&args, "date")?.bounds(),
        is_released: args.filter_flag("released")?,
        statuses: args.filter("status")?,
        active,
    };
    let cut = Cut::of(&args, &Key(vec![Part::Number(0)]), sort.is_descending)?;
    let (id, store, search) = (environment.id, &app.store, &search);
    let rows = store.version_page(id, search, &cut.span()).await?;
    let count = |span: Span| async move { store.version_count(id, search, &span).await };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let shape = |found: &Version| wire::version(found, active);
    Ok(cut.answer(&args, "/api/v2/desiredstate", rows, &counts, shape))
}

pub(in crate::api) async fn fetch(
    app: &App,
    environment: &EnvironmentAccess,
    version: VersionNumber,
) -> Result<Version, ApiError> {
    let found = app.store.version_fetch(environment.id, version).await?;
    found.ok_or_else(|| ApiError::not_found(format!("version {version}")))
}

async fn resources(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    // A version that is not there has no resources, as for other clients.
    let found = app.store.version_fetch(environment.id, version).await?;
    let Some(found) = found else {
        let path = format!("/api/v2/desiredstate/{version}");
        let cut = Cut::of(&args, &Key::texts(1), false)?;
        return Ok(
            cut.answer::<Version>(&args, &path, Vec::new(), &Counts::none(), |_| Value::Null)
        );
    };
    let n_resources = found.n_resources;
    args.only_filters(&["resource_type", "agent", "resource_id_value"])?;
    let search = search(&args)?;
    let sort = Sort::of(
        &args,
        &[BY_ID, "agent", "resource_id_value"],
        Sort::descending(BY_ID),
    )?;
    let (id, store) = (environment.id, &app.store);
    let path = format!("/api/v2/desiredstate/{version}");
    let search = &search;
    let part = match sort.column {
        "agent" => Some(IdPart::Agent),
        "resource_id_value" => Some(IdPart::Value),
        _ => None,
    };
    let kind = Key::texts(if part.is_some() { 2 } else { 1 });
    let cut = Cut::of(&args, &kind, sort.is_descending)?;
    let rows = match part {
        Some(part) => {
            store
                .resource_page_by(id, version, search, part, &cut.span())
                .await?
        }
        None => {
            let rows = store
                .resource_page(id, version, search, &cut.span())
                .await?;
            let keyed = |row: StoredResource| (Key::of(row.resource_id.as_str()), row);
            rows.into_iter().map(keyed).collect()
        }
    };
    let count = |span: Span| async move {
        let is_all = span.after.is_none() && span.before.is_none();
        if !search.is_narrow() && is_all {
            return Ok::<_, ApiError>(n_resources);
        }
        Ok(match part.filter(|_| !is_all) {
            Some(part) => store
                .resource_page_by(id, version, search, part, &span)
                .await?
                .len() as i64,
            None => store.resource_count(id, version, search, &span).await?,
        })
    };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    Ok(cut.answer(&args, &path, rows, &counts, |resource| {
        wire::versioned_resource(resource, version)
    }))
}

/// The order that lists of resources have in the store: ids begin with the type. Pages in it cost the same however long the
/// list is.
pub(in crate::api) const BY_ID: &str = "resource_type";

/// What lists of resources are filtered by, but for their status.
pub(in crate::api) fn search(args: &Args) -> Result<Search, ApiError> {
    Ok(Search {
        types: args.filter("resource_type")?,
        agents: args.filter("agent")?,
        values: args.filter("resource_id_value")?,
        statuses: None,
    })
}

/// A partial filter: one of the values is part of the text, case aside, with `%` and `_` for what may be anything; no value
/// passes all. Source: docs/reference/rest.md § 0.7.
pub(in crate::api) fn contains(values: &[String], text: &str) -> bool {
    values.is_empty() || values.iter().any(|value| Like::part(value).fits(text))
}

/// How it was where the version was exported; null for what the server compiled, which `steward.lock` and the server decide.
async fn pip_config(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let found = fetch(&app, &environment, version).await?;
    Ok(Answer::Data(found.pip_config.unwrap_or_default()))
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
    fetch(&app, &environment, version).await?;
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
    fetch(&app, &environment, from).await?;
    fetch(&app, &environment, to).await?;
    let differences = app
        .store
        .resource_differences(environment.id, from, to)
        .await?;
    // One after the other: a tree of values of all of them takes more than ten times the text.
    let mut body = Pieces::default();
    body.text("{\"data\":[")?;
    let mut separator = "";
    for (old, new) in differences {
        let (id, status) = match (&old, &new) {
            (None, Some(new)) => (new.resource_id.clone(), "added"),
            (Some(old), None) => (old.resource_id.clone(), "deleted"),
            (Some(old), Some(_)) => (old.resource_id.clone(), "modified"),
            (None, None) => continue,
        };
        let empty = Map::new;
        let (old, new) = (
            old.as_ref().map_or_else(empty, wire::attributes),
            new.as_ref().map_or_else(empty, wire::attributes),
        );
        let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let attributes: Map<String, Value> = names
            .into_iter()
            // What one side does not have differs from a null of the other.
            .filter(|name| old.get(*name) != new.get(*name))
            .map(|name| {
                let from = old.get(name).unwrap_or(&Value::Null);
                let to = new.get(name).unwrap_or(&Value::Null);
                (name.clone(), wire::attribute_diff(from, to))
            })
            .collect();
        body.text(std::mem::replace(&mut separator, ","))?;
        body.value(&json!({"resource_id": id, "status": status, "attributes": attributes}))?;
    }
    body.text("]}")?;
    Ok(body.finish())
}
