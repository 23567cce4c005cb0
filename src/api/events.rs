//! What happened to the resources that a resource requires, since it was last deployed with success: the question that
//! decides about a reload. Source: docs/reference/deployment.md § 4.5, docs/reference/rest.md § 1.6.

use serde_json::{Map, Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::{Change, EnvironmentId, ResourceId};
use crate::store::Action;

routes! {
    Get "/api/v2/resource/<rvid>/events" Environment "what happened to what a resource requires" => Query events(rvid);
    Get "/api/v2/resource/<rvid>/did_dependency_change" Environment "whether what a resource requires changed" => Query did_change(rvid);
}

/// What a resource requires, each with its runs since the resource's last success, newest first.
struct Events {
    environment: EnvironmentId,
    of: Vec<(ResourceId, Vec<Action>)>,
}

async fn events(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let excluded: Option<Change> = args.parsed("exclude_change")?;
    let events = events_of(&id, &app, &args).await?;
    let mut shown = Map::new();
    for (required, actions) in &events.of {
        let is_wanted = |action: &&Action| excluded.is_none() || action.change != excluded;
        let actions = actions.iter().filter(is_wanted);
        let actions = actions.map(|action| wire::action(json!(events.environment), action, &[]));
        shown.insert(required.to_string(), actions.collect());
    }
    Ok(Answer::Data(Value::Object(shown)))
}

async fn did_change(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let events = events_of(&id, &app, &args).await?;
    // What a run changed that was cut off is not known: `change` is null.
    let changed = |action: &Action| action.change != Some(Change::NoChange);
    let mut actions = events.of.iter().flat_map(|(_, actions)| actions);
    Ok(Answer::Data(json!(actions.any(changed))))
}

/// The events of a resource that is being deployed; for others the question makes no sense, since the answer would be
/// another one when it is.
async fn events_of(id: &Segment, app: &App, args: &Args) -> Result<Events, ApiError> {
    let environment = scope(app, args).await?;
    let bad_id = || {
        ApiError::bad_request(format!(
            "`{}` is no id with a version, as `t::T[a,n=v],v=1`",
            id.0
        ))
    };
    let (rid, version) = id.0.rsplit_once(",v=").ok_or_else(bad_id)?;
    let version: i64 = version.parse().map_err(|_| bad_id())?;
    let rid = ResourceId::new(rid);
    let state = app.store.state_fetch(environment.id, &rid).await?;
    if state.is_none() {
        return Err(ApiError::not_found(format!("resource {rid}")));
    }
    let is_deploying = state.as_ref().is_some_and(|state| state.is_deploying);
    let running = if is_deploying {
        app.store.action_running(environment.id, &rid).await?
    } else {
        None
    };
    // The run goes on with what it began with, whatever version came in force meanwhile.
    let (Some(state), Some(version)) = (state, running.filter(|running| *running == version))
    else {
        let message = format!(
            "Fetching resource events only makes sense when the resource is currently deploying; {} is not",
            id.0
        );
        return Err(ApiError::bad_request(message));
    };
    let resource = app
        .store
        .resource_fetch(environment.id, version, &rid)
        .await?;
    let requires = resource
        .map(|resource| resource.requires)
        .unwrap_or_default();
    let since = state.last_success;
    let actions = app
        .store
        .action_events(environment.id, &requires, since)
        .await?;
    let mut of: Vec<(ResourceId, Vec<Action>)> = requires
        .into_iter()
        .map(|required| (required, Vec::new()))
        .collect();
    of.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    for action in actions {
        if let Ok(place) = of.binary_search_by(|(required, _)| required.cmp(&action.resource_id)) {
            of[place].1.push(action);
        }
    }
    Ok(Events {
        environment: environment.id,
        of,
    })
}
