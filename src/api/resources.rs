//! Resources with their state and history. Source: docs/reference/rest.md § 1.6.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use warp::{Filter, filters::BoxedFilter};

use crate::api::environments::scope;
use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::versions::contains;
use crate::api::{Answer, Body, answer, wire, with};
use crate::app::App;
use crate::store::{ActionSearch, ResourceState};

pub(in crate::api) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let list = warp::path!("api" / "v2" / "resource")
        .and(warp::get())
        .and(with(app))
        .and(args::query());
    let list = list.then(|app, args| answer(list_resources(app, args)));
    let one = warp::path!("api" / "v2" / "resource" / Segment)
        .and(warp::get())
        .and(with(app))
        .and(args::query());
    let one = one.then(|id, app, args| answer(details(id, app, args)));
    let history = warp::path!("api" / "v2" / "resource" / Segment / "history").and(warp::get());
    let history = history
        .and(with(app))
        .and(args::query())
        .then(|id, app, args| answer(history_of(id, app, args)));
    let logs = warp::path!("api" / "v2" / "resource" / Segment / "logs").and(warp::get());
    let logs = logs
        .and(with(app))
        .and(args::query())
        .then(|id, app, args| answer(logs_of(id, app, args)));
    let actions = warp::path!("api" / "v2" / "resource_actions")
        .and(warp::get())
        .and(with(app))
        .and(args::query());
    let actions = actions.then(|app, args| answer(actions_of(app, args)));
    list.or(one)
        .unify()
        .or(history)
        .unify()
        .or(logs)
        .unify()
        .or(actions)
        .unify()
        .boxed()
}

/// The states of a deploy summary, zeros included.
const STATES: [&str; 10] = [
    "unavailable",
    "skipped",
    "deployed",
    "failed",
    "deploying",
    "available",
    "cancelled",
    "undefined",
    "skipped_for_undefined",
    "non_compliant",
];

async fn list_resources(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["resource_type", "agent", "resource_id_value", "status"])?;
    let states = app.store.state_list(environment.id).await?;
    let version = environment.active_version.unwrap_or(0);
    let summary = args
        .flag("deploy_summary", false)?
        .then(|| summary(&states));
    let (types, agents, values) = (
        args.filter("resource_type")?,
        args.filter("agent")?,
        args.filter("resource_id_value")?,
    );
    let statuses = args.filter("status")?;
    let shown: Vec<ResourceState> = states
        .into_iter()
        .filter(|state| {
            contains(&types, &state.resource_type)
                && contains(&agents, &state.agent)
                && contains(&values, &state.id_value)
                && has_status(&statuses, state.status())
        })
        .collect();
    let shape = |state: &ResourceState| {
        json!({
            "resource_id": state.resource_id,
            "resource_version_id": format!("{},v={}", state.resource_id, state.orphaned_after.unwrap_or(version)),
            "id_details": wire::id_details(&state.resource_id),
            "requires": [],
            "status": state.status(),
            "compliance": state.compliance(),
            "last_deploy": state.last_run_at.map(|at| at.to_string()),
        })
    };
    let paged = page::page(
        &args,
        "/api/v2/resource",
        shown,
        |state| state.resource_id.clone(),
        false,
        shape,
    )?;
    let Answer::Whole(mut whole) = paged else {
        return Ok(paged);
    };
    if let Some(summary) = summary {
        whole["metadata"]["deploy_summary"] = summary;
    }
    // Only of what is shown: a version may be large.
    let rows: &mut [Value] = whole["data"]
        .as_array_mut()
        .map_or(&mut [], Vec::as_mut_slice);
    let id_of = |row: &Value| row["resource_id"].as_str().unwrap_or_default().to_owned();
    let ids: Vec<String> = rows.iter().map(id_of).collect();
    let requires = app
        .store
        .resource_requires(environment.id, version, &ids)
        .await?;
    for row in rows {
        if let Some(requires) = requires.get(&id_of(row)) {
            row["requires"] = json!(requires);
        }
    }
    Ok(Answer::Whole(whole))
}

/// Included words are alternatives, `!word` excludes.
fn has_status(filters: &[String], status: &str) -> bool {
    let excluded = filters
        .iter()
        .filter_map(|filter| filter.strip_prefix('!'))
        .any(|excluded| excluded == status);
    let mut included = filters
        .iter()
        .filter(|filter| !filter.starts_with('!'))
        .peekable();
    !excluded && (included.peek().is_none() || included.any(|included| included == status))
}

fn summary(states: &[ResourceState]) -> Value {
    let mut by_state: BTreeMap<&str, usize> = STATES.iter().map(|state| (*state, 0)).collect();
    let current = states.iter().filter(|state| state.orphaned_after.is_none());
    let mut total = 0;
    for state in current {
        total += 1;
        *by_state.entry(state.status()).or_default() += 1;
    }
    json!({"total": total, "by_state": by_state})
}

async fn state_of(
    app: &App,
    args: &Args,
    id: &Segment,
) -> Result<(crate::store::Environment, ResourceState), ApiError> {
    let environment = scope(app, args).await?;
    let state = app.store.state_fetch(environment.id, &id.0).await?;
    let state = state.ok_or_else(|| ApiError::not_found(format!("resource {}", id.0)))?;
    Ok((environment, state))
}

async fn details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let (environment, state) = state_of(&app, &args, &id).await?;
    let version = state
        .orphaned_after
        .or(environment.active_version)
        .unwrap_or(0);
    let resource = app
        .store
        .resource_fetch(environment.id, version, &id.0)
        .await?;
    let resource = resource.ok_or_else(|| ApiError::not_found(format!("resource {}", id.0)))?;
    let mut requires_status = Map::new();
    for require in &resource.requires {
        let state = app.store.state_fetch(environment.id, require).await?;
        requires_status.insert(
            require.clone(),
            json!(state.as_ref().map_or("undefined", ResourceState::status)),
        );
    }
    Ok(Answer::Data(json!({
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "agent": resource.agent,
        "id_attribute": resource.id_attribute,
        "id_attribute_value": resource.id_value,
        "attributes": wire::attributes(&resource),
        "last_deploy": state.last_run_at.map(|at| at.to_string()),
        "first_generated_time": state.created.to_string(),
        "status": state.status(),
        "compliance": state.compliance(),
        "last_handler_run": state.last_run.as_str(),
        "n_failures": state.n_failures,
        "requires_status": requires_status,
    })))
}

async fn history_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let (environment, _) = state_of(&app, &args, &id).await?;
    let history = app.store.resource_history(environment.id, &id.0).await?;
    let path = format!(
        "/api/v2/resource/{}/history",
        percent_encoding::utf8_percent_encode(&id.0, percent_encoding::NON_ALPHANUMERIC)
    );
    let shape = |content: &crate::store::StoredResource| {
        json!({
            "resource_id": content.resource_id,
            "date": content.created.to_string(),
            "attributes": wire::attributes(content),
            "attribute_hash": content.attribute_hash,
            "requires": content.requires,
        })
    };
    page::page(
        &args,
        &path,
        history,
        |content| format!("{} {}", content.created, content.digest),
        true,
        shape,
    )
}

async fn logs_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    const LEVELS: [&str; 6] = ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
    let (environment, _) = state_of(&app, &args, &id).await?;
    args.only_filters(&["minimal_log_level", "timestamp", "message", "action"])?;
    let minimal = args.filter("minimal_log_level")?;
    let level_of = |name: &str| LEVELS.iter().position(|level| *level == name);
    let minimal = minimal.first().map(|name| {
        level_of(name).ok_or_else(|| {
            ApiError::bad_request(format!("`{name}` is no log level; there are {LEVELS:?}"))
        })
    });
    let minimal = minimal.transpose()?.unwrap_or(0);
    let (texts, kinds) = (args.filter("message")?, args.filter("action")?);
    let actions = app.store.action_list(environment.id, &id.0, 10_000).await?;
    // The key of a line, and the line: lines of one moment keep the order of their run.
    let lines_of = |action| {
        let keyed = |(index, line): (usize, Value)| {
            let moment = line["timestamp"].as_str().unwrap_or_default();
            let action = line["action_id"].as_str().unwrap_or_default();
            (format!("{moment} {action} {index:06}"), line)
        };
        let lines: Vec<(String, Value)> = wire::messages(action).enumerate().map(keyed).collect();
        lines
    };
    let mut lines: Vec<(String, Value)> = actions.iter().flat_map(lines_of).collect();
    lines.retain(|(_, line)| {
        level_of(line["level"].as_str().unwrap_or_default()).unwrap_or(0) >= minimal
            && contains(&texts, line["msg"].as_str().unwrap_or_default())
            && (kinds.is_empty() || kinds.iter().any(|kind| line["action"] == json!(kind)))
    });
    let path = format!(
        "/api/v2/resource/{}/logs",
        percent_encoding::utf8_percent_encode(&id.0, percent_encoding::NON_ALPHANUMERIC)
    );
    page::page(
        &args,
        &path,
        lines,
        |(key, _)| key.clone(),
        true,
        |(_, line)| line.clone(),
    )
}

async fn actions_of(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let limit = args
        .parsed::<usize>("limit")?
        .unwrap_or(1000)
        .clamp(1, 1000);
    let (resource_type, agent) = (args.text("resource_type")?, args.text("agent")?);
    let value = args.text("attribute_value")?;
    let matches = |id: &str| {
        let id = crate::domain::ResourceId::parse(id);
        let is = |wanted: &Option<String>, part: fn(&crate::domain::ResourceId) -> &str| {
            wanted
                .as_ref()
                .is_none_or(|wanted| id.as_ref().is_some_and(|id| part(id) == wanted))
        };
        is(&resource_type, crate::domain::ResourceId::resource_type)
            && is(&agent, crate::domain::ResourceId::agent)
            && is(&value, crate::domain::ResourceId::value)
    };
    let search = ActionSearch {
        resource_type: resource_type.clone(),
        agent: agent.clone(),
        value: value.clone(),
    };
    // A batch at a time: the history is long, and the search finds a little more than is wanted.
    let (mut data, mut before) = (Vec::new(), None);
    loop {
        let batch = app
            .store
            .action_search(environment.id, &search, before.as_ref(), 1000)
            .await?;
        let shown = batch.iter().filter(|action| matches(&action.resource_id));
        data.extend(shown.map(|action| wire::action(json!(environment.id), action)));
        before = match batch.last() {
            Some(last) if batch.len() == 1000 && data.len() < limit => {
                Some((last.started, last.id))
            }
            _ => break,
        };
    }
    data.truncate(limit);
    Ok(Answer::Data(Value::Array(data)))
}
