//! What discovery found. Source: docs/reference/rest.md § 1.11, docs/reference/deployment.md § 5.9.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::Cut;
use crate::api::http::error::ApiError;
use crate::api::http::order::Sort;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::app::App;
use crate::deploy;
use crate::domain::ResourceId;
use crate::store::{Discovered, DiscoveredEntry, DiscoveredOrder, DiscoveredSearch, Span};

routes! {
    Get "/api/v2/discovered" Environment "what discovery found" => Query list_discovered();
    Get "/api/v2/discovered/<rid>" Environment "a discovered resource" => Query details(rid);
    Post "/api/v2/discovered" Environment "notes discovered resources" => Body create_all();
    Post "/api/v2/discovered/<rid>" Environment "notes a discovered resource" => Body create(rid);
    Delete "/api/v2/discovered" Environment "deletes discovered resources" => Body delete_all();
    Delete "/api/v2/discovered/<rid>" Environment "deletes a discovered resource" => Query delete(rid);
}

/// Those of the found resources that the model has, or had: orphans are shown as resources, too.
async fn managed_of(
    app: &App,
    environment: &EnvironmentAccess,
    found: &[Discovered],
) -> Result<BTreeSet<ResourceId>, ApiError> {
    let ids: BTreeSet<&ResourceId> = found.iter().map(|found| &found.resource_id).collect();
    let ids: Vec<ResourceId> = ids.into_iter().cloned().collect();
    let states = app.store.state_some(environment.id, &ids).await?;
    let ids = states.into_iter().map(|state| state.resource_id);
    Ok(ids.collect())
}

fn shape(found: &Discovered, managed: &BTreeSet<ResourceId>) -> Value {
    let id = ResourceId::parse(found.resource_id.as_str());
    let part = |of: fn(&ResourceId) -> &str| id.as_ref().map(of).unwrap_or_default();
    let uri = |id: &ResourceId| {
        let path =
            percent_encoding::utf8_percent_encode(id.as_str(), percent_encoding::NON_ALPHANUMERIC);
        format!("/api/v2/resource/{path}")
    };
    let is_managed = managed.contains(&found.resource_id);
    json!({
        "discovered_resource_id": found.resource_id,
        "resource_type": part(ResourceId::resource_type),
        "agent": part(ResourceId::agent),
        "resource_id_value": part(ResourceId::value),
        "values": found.values,
        "managed_resource_uri": is_managed.then(|| uri(&found.resource_id)),
        "managed_resource_id": is_managed.then_some(&found.resource_id),
        "discovery_resource_id": found.discovery_resource_id,
        "discovery_resource_uri": uri(&found.discovery_resource_id),
    })
}

async fn list_discovered(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["managed", "resource_type", "agent", "resource_id_value"])?;
    let search = DiscoveredSearch {
        types: args.filter("resource_type")?,
        agents: args.filter("agent")?,
        values: args.filter("resource_id_value")?,
        is_managed: args.filter_flag("managed")?,
    };
    let columns = [
        "discovered_resource_id",
        "agent",
        "resource_type",
        "resource_id_value",
    ];
    let sort = Sort::of(&args, &columns, Sort::ascending(columns[0]))?;
    let order = match sort.column {
        "agent" => DiscoveredOrder::Agent,
        "resource_type" => DiscoveredOrder::Type,
        "resource_id_value" => DiscoveredOrder::Value,
        _ => DiscoveredOrder::Id,
    };
    let cut = Cut::of(&args, &order.kind(), sort.is_descending)?;
    let (id, store, search) = (environment.id, &app.store, &search);
    // What was found may be large: it is read of the rows that fit an answer only.
    let entries = store
        .discovered_page(id, search, order, &cut.span())
        .await?;
    let n_read = entries.len();
    let mut page = cut.page(entries);
    page.narrow(|(_, entry)| entry.n_bytes);
    let ids = page.rows().iter().map(|(_, entry)| &entry.resource_id);
    let found = store.discovered_some(id, ids).await?;
    let managed = managed_of(&app, &environment, &found).await?;
    let by_id: BTreeMap<&ResourceId, &Discovered> = found
        .iter()
        .map(|found| (&found.resource_id, found))
        .collect();
    // What was deleted meanwhile has no place in the list any more.
    page.retain(|(_, entry)| by_id.contains_key(&entry.resource_id));
    let count = |span: Span| async move { store.discovered_count(id, search, order, &span).await };
    let counts = cut.counts(n_read, search.is_narrow(), count).await?;
    let shape = |entry: &DiscoveredEntry| {
        let found = by_id.get(&entry.resource_id);
        found.map_or(Value::Null, |found| shape(found, &managed))
    };
    Ok(page.answer(&args, "/api/v2/discovered", &counts, shape))
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
    let found = app
        .store
        .discovered_fetch(environment.id, &id.resource_id())
        .await?;
    let found = found.ok_or_else(|| unknown(&id.0))?;
    let managed = managed_of(&app, &environment, std::slice::from_ref(&found)).await?;
    Ok(Answer::Data(shape(&found, &managed)))
}

async fn delete(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    if app
        .store
        .discovered_delete(environment, &id.resource_id())
        .await?
    {
        Ok(Answer::Empty)
    } else {
        Err(unknown(&id.0))
    }
}

/// Ids that are unknown do not matter.
async fn delete_all(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    for id in args.list("discovered_resource_ids")?.unwrap_or_default() {
        let id = ResourceId::new(id);
        app.store.discovered_delete(environment, &id).await?;
    }
    Ok(Answer::Empty)
}
