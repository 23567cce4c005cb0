//! Agents and their processes. Source: docs/reference/rest.md § 1.9.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Answer;
use crate::api::environments::{agent_shape, fetch, scope};
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::Timestamp;
use crate::store::{AgentOrder, AgentSearch, Edge, Key, Span};

routes! {
    Get "/api/v1/agent" Environment "the agents" => Query list();
    Get "/api/v1/agentproc" Access "the processes of agents; there are none that clients could know" => Query processes();
    Get "/api/v1/agentproc/<id>" Access "a process of an agent" => Query process(id);
    Get "/api/v2/agents/process/<id>" Environment "a process of an agent" => Query process_details(id);
    Get "/api/v2/agentrecovery" Environment "whether an agent works" => Query state();
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let (start, end) = (args.text("start")?, args.text("end")?);
    if start.is_some() && end.is_some() {
        return Err(ApiError::bad_request("start and end exclude each other"));
    }
    let limit = page::limit(&args)?.and_then(|limit| i64::try_from(limit).ok());
    let edge = |name: Option<String>| name.map(|name| Edge::at(Key::of(name)));
    let span = Span {
        after: edge(start),
        before: edge(end),
        ..Span::first(limit.unwrap_or(i64::MAX))
    };
    let (store, search) = (&app.store, AgentSearch::default());
    let agents = store.agent_page(environment, &search, AgentOrder::Name, &span);
    let agents = agents.await?;
    let shapes: Vec<Value> = agents
        .iter()
        .map(|(_, agent)| {
            let mut shape = agent_shape(environment, agent);
            shape["state"] = shape["status"].clone();
            shape["primary"] = Value::String(String::new());
            shape["last_failover"] = Value::String(String::new());
            shape
        })
        .collect();
    Ok(Answer::Body(
        json!({"agents": shapes, "servertime": Timestamp::now().to_string()}),
    ))
}

/// Executors are processes of the server, with no session of their own.
async fn processes(app: App, args: Args) -> Result<Answer, ApiError> {
    page::limit(&args)?;
    if let Some(id) = args.parsed("environment")? {
        fetch(&app, id).await?;
    }
    Ok(Answer::Body(json!({"processes": []})))
}

async fn process(id: Segment, _app: App, _args: Args) -> Result<Answer, ApiError> {
    let id: Uuid =
        id.0.parse()
            .map_err(|_| ApiError::bad_request(format!("`{}` is no id of a process", id.0)))?;
    Err(ApiError::not_found(format!("the process {id} of an agent")))
}

async fn process_details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    scope(&app, &args).await?;
    process(id, app, args).await
}

async fn state(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let name = args.required("agent")?;
    let span = Span {
        after: Some(Edge::at(Key::of(name.as_str())).including()),
        ..Span::first(1)
    };
    let (store, search) = (&app.store, AgentSearch::default());
    let agents = store.agent_page(environment, &search, AgentOrder::Name, &span);
    let is_enabled = agents
        .await?
        .iter()
        .any(|(_, agent)| agent.name.as_str() == name && !agent.paused);
    Ok(Answer::Data(json!({"enabled": is_enabled})))
}
