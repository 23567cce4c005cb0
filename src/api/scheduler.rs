//! What the scheduler has in its memory, beside what the database has of it. Source: docs/reference/deployment.md § 4.14.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::api::deployments::engine;
use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::ResourceId;
use crate::store::{ResourceState, StoredResource};

routes! {
    Get "/api/v2/scheduler_status" Environment "what the scheduler knows of each resource, and where the database differs" => Query status();
}

/// What the scheduler knows of a resource that clients can compare.
fn shape(state: &ResourceState) -> Value {
    json!({
        "compliance": state.compliance(),
        "last_handler_run": state.last_run.as_str(),
        "blocked": state.blocked.as_str(),
        "last_deployed": state.last_run_at.map(|at| at.to_string()),
        "last_handler_run_compliant": state.last_run_compliant,
    })
}

/// Adds to what the database has of a resource what the version in force says that it shall be.
fn add_content(database: &mut Map<String, Value>, content: &StoredResource) {
    let id = &content.resource_id;
    let Some(Value::Object(found)) = database.get_mut(id.as_str()) else {
        return;
    };
    let parts = ResourceId::parse(id.as_str()).map(|id| {
        json!({
            "entity_type": id.resource_type(),
            "agent_name": id.agent(),
            "attribute": id.attribute(),
            "attribute_value": id.value(),
            "version": 0,
        })
    });
    found.insert("resource_id".to_owned(), json!(id));
    found.insert("id".to_owned(), parts.unwrap_or_default());
    found.insert("attribute_hash".to_owned(), json!(content.attribute_hash));
    found.insert(
        "attributes".to_owned(),
        Value::Object(wire::attributes(content)),
    );
}

/// Resources that an answer has: each takes a kilobyte of it, and several while it is made.
const MAX_RESOURCES: i64 = 100_000;

fn refuse_many(n_resources: i64) -> Result<(), ApiError> {
    if n_resources <= MAX_RESOURCES {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the status of the scheduler is shown of at most {MAX_RESOURCES} resources, and the environment has {n_resources}; \
         /api/v2/resource has them page by page"
    )))
}

async fn status(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    refuse_many(app.store.state_counts(environment.id).await?.values().sum())?;
    let known = engine(&app, &environment)?.inspect().await?;
    let stored = app.store.state_list(environment.id).await?;
    let stored: BTreeMap<&ResourceId, &ResourceState> = stored
        .iter()
        .filter(|state| state.orphaned_after.is_none())
        .map(|state| (&state.resource_id, state))
        .collect();
    let (mut memory, mut statuses) = (Map::new(), Map::new());
    let mut discrepancies: Map<String, Value> = Map::new();
    for state in &known.states {
        let id = state.resource_id.to_string();
        let found = differences(&id, state, stored.get(&state.resource_id).copied());
        if !found.is_empty() {
            discrepancies.insert(id.clone(), Value::Array(found));
        }
        statuses.insert(id.clone(), state.status().as_str().into());
        memory.insert(id, shape(state));
    }
    for id in stored.keys().filter(|id| !memory.contains_key(id.as_str())) {
        let lost = difference(id.as_str(), "resource", "absent", "present");
        discrepancies.insert(id.to_string(), json!([lost]));
    }
    let mut database: Map<String, Value> = stored
        .iter()
        .map(|(id, state)| (id.to_string(), shape(state)))
        .collect();
    let version = environment.active_version.unwrap_or_default();
    let contents = app.store.resource_each(environment.id, version, |content| {
        add_content(&mut database, &content);
    });
    contents.await?;
    Ok(Answer::Data(json!({
        "scheduler_state": memory,
        "db_state": database,
        "resource_states": statuses,
        "discrepancies": discrepancies,
    })))
}

/// Where the database differs from what the scheduler has of a resource.
fn differences(id: &str, known: &ResourceState, stored: Option<&ResourceState>) -> Vec<Value> {
    let Some(stored) = stored else {
        return vec![difference(id, "resource", "present", "absent")];
    };
    let (known, stored) = (shape(known), shape(stored));
    let fields = known.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| stored[name.as_str()] != **value)
        .map(|(name, value)| difference(id, name, &plain(value), &plain(&stored[name.as_str()])))
        .collect()
}

fn difference(id: &str, field: &str, expected: &str, actual: &str) -> Value {
    json!({"rid": id, "field": field, "expected": expected, "actual": actual})
}

/// A value as a text, without the quotes of one.
fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_answer_could_hold_is_refused_before_it_is_read() {
        assert!(refuse_many(MAX_RESOURCES).is_ok());
        let refused = refuse_many(1_000_000).unwrap_err();
        assert!(format!("{refused:?}").contains("1000000"), "{refused:?}");
    }
}
