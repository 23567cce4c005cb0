//! What discovery found. Source: docs/reference/rest.md § 1.11, docs/reference/deployment.md § 5.9.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use warp::{Filter, filters::BoxedFilter};

use crate::api::environments::scope;
use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::versions::contains;
use crate::api::{Answer, Body, answer, with};
use crate::app::App;
use crate::deploy;
use crate::domain::ResourceId;
use crate::store::{Discovered, Environment};

pub(in crate::api) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let list = warp::path!("api" / "v2" / "discovered").and(warp::get());
    let list = list
        .and(with(app))
        .and(args::query())
        .then(|app, args| answer(list_discovered(app, args)));
    let id = warp::path!("api" / "v2" / "discovered" / Segment);
    let one = id.and(warp::get()).and(with(app)).and(args::query());
    let one = one.then(|id, app, args| answer(details(id, app, args)));
    let delete = id.and(warp::delete()).and(with(app)).and(args::query());
    let delete = delete.then(|id, app, args| answer(forget(id, app, args)));
    // With a slash at its end, as clients have it.
    let batch = warp::path!("api" / "v2" / "discovered" / ..)
        .and(warp::path::end())
        .and(warp::delete());
    let batch = batch
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(forget_all(app, args)));
    let make = warp::path!("api" / "v2" / "discovered" / Segment).and(warp::post());
    let make = make
        .and(with(app))
        .and(args::body())
        .then(|id, app, args| answer(create(id, app, args)));
    let make_all = warp::path!("api" / "v2" / "discovered" / ..)
        .and(warp::path::end())
        .and(warp::post());
    let make_all = make_all
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(create_all(app, args)));
    list.or(one)
        .unify()
        .or(make_all)
        .unify()
        .or(make)
        .unify()
        .or(batch)
        .unify()
        .or(delete)
        .unify()
        .boxed()
}

/// The ids of resources that the model has.
async fn managed(app: &App, environment: &Environment) -> Result<BTreeSet<String>, ApiError> {
    let states = app.store.state_list(environment.id).await?.into_iter();
    let here = states.filter(|state| state.orphaned_after.is_none());
    Ok(here.map(|state| state.resource_id).collect())
}

fn shape(found: &Discovered, managed: &BTreeSet<String>) -> Value {
    let id = ResourceId::parse(&found.resource_id);
    let part = |of: fn(&ResourceId) -> &str| id.as_ref().map(of).unwrap_or_default();
    let uri = |id: &str| {
        let path = percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC);
        managed
            .contains(id)
            .then(|| format!("/api/v2/resource/{path}"))
    };
    json!({
        "discovered_resource_id": found.resource_id,
        "resource_type": part(ResourceId::resource_type),
        "agent": part(ResourceId::agent),
        "resource_id_value": part(ResourceId::value),
        "values": found.values,
        "managed_resource_uri": uri(&found.resource_id),
        "managed_resource_id": managed.contains(&found.resource_id).then_some(&found.resource_id),
        "discovery_resource_id": found.discovery_resource_id,
        "discovery_resource_uri": uri(&found.discovery_resource_id),
    })
}

async fn list_discovered(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["managed", "resource_type", "agent", "resource_id_value"])?;
    let managed = managed(&app, &environment).await?;
    let only = args.value("filter.managed").is_some();
    let wanted = args.flag("filter.managed", false)?;
    let filters = (
        args.filter("resource_type")?,
        args.filter("agent")?,
        args.filter("resource_id_value")?,
    );
    let found = app.store.discovered_list(environment.id).await?.into_iter();
    let shown: Vec<Discovered> = found
        .filter(|found| {
            let id = ResourceId::parse(&found.resource_id);
            let part = |of: fn(&ResourceId) -> &str| id.as_ref().map(of).unwrap_or_default();
            (!only || managed.contains(&found.resource_id) == wanted)
                && contains(&filters.0, part(ResourceId::resource_type))
                && contains(&filters.1, part(ResourceId::agent))
                && contains(&filters.2, part(ResourceId::value))
        })
        .collect();
    let key = |found: &Discovered| found.resource_id.clone();
    page::page(&args, "/api/v2/discovered", shown, key, false, |found| {
        shape(found, &managed)
    })
}

async fn create(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let found = json!({
        "discovered_resource_id": id.0,
        "discovery_resource_id": args.value("discovery_resource_id"),
        "values": args.value("values"),
    });
    keep(&app, &args, &[found]).await
}

async fn create_all(app: App, args: Args) -> Result<Answer, ApiError> {
    let found = args.value("discovered_resources");
    let found = found.and_then(Value::as_array);
    let found = found
        .ok_or_else(|| ApiError::bad_request("Field 'discovered_resources' has to be a list"))?;
    keep(&app, &args, found).await
}

async fn keep(app: &App, args: &Args, found: &[Value]) -> Result<Answer, ApiError> {
    let environment = scope(app, args).await?.id;
    let found: Result<Vec<_>, String> = found.iter().map(deploy::discovered_input).collect();
    let found = found.map_err(ApiError::bad_request)?;
    app.store.discovered_set(environment, &found).await?;
    Ok(Answer::Empty)
}

fn unknown(id: &str) -> ApiError {
    ApiError::not_found(format!("discovered resource {id}"))
}

async fn details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let found = app.store.discovered_fetch(environment.id, &id.0).await?;
    let found = found.ok_or_else(|| unknown(&id.0))?;
    Ok(Answer::Data(shape(
        &found,
        &managed(&app, &environment).await?,
    )))
}

async fn forget(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    if app.store.discovered_delete(environment, &id.0).await? {
        Ok(Answer::Empty)
    } else {
        Err(unknown(&id.0))
    }
}

/// Ids that are unknown do not matter.
async fn forget_all(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    for id in args.list("discovered_resource_ids")?.unwrap_or_default() {
        app.store.discovered_delete(environment, &id).await?;
    }
    Ok(Answer::Empty)
}
