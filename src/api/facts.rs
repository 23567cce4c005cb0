//! Facts and parameters. Source: docs/reference/rest.md § 1.7, docs/reference/deployment.md § 5.7.

use serde_json::{Value, json};
use warp::http::StatusCode;
use warp::{Filter, filters::BoxedFilter};

use crate::api::environments::scope;
use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::versions::contains;
use crate::api::{Answer, Body, answer, with};
use crate::app::App;
use crate::deploy::fact_json as fact;
use crate::domain::{EnvironmentId, ParameterId, Timestamp};
use crate::executor::bounds::check_metadata;
use crate::store::{CompileRequest, Environment, Fact};

pub(in crate::api) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    let (get, put) = (warp::get().and(with(app)), warp::put().and(with(app)));
    let of = warp::path!("api" / "v2" / "resource" / Segment / "facts").and(get.clone());
    let of = of
        .and(args::query())
        .then(|id, app, args| answer(facts_of(id, app, args)));
    let one = warp::path!("api" / "v2" / "resource" / Segment / "facts" / Segment);
    let one = one
        .and(get.clone())
        .and(args::query())
        .then(|id, fact, app, args| answer(fact_of(id, fact, app, args)));
    let all = warp::path!("api" / "v2" / "facts").and(get.clone());
    let all = all
        .and(args::query())
        .then(|app, args| answer(all_facts(app, args)));
    let set = warp::path!("api" / "v2" / "facts" / Segment).and(put.clone());
    let set = set
        .and(args::body())
        .then(|name, app, args| answer(set_fact(name, app, args)));
    let parameters = warp::path!("api" / "v2" / "parameters").and(get.clone());
    let parameters = parameters
        .and(args::query())
        .then(|app, args| answer(all_parameters(app, args)));
    let set_parameter = warp::path!("api" / "v2" / "parameters" / Segment).and(put.clone());
    let set_parameter = set_parameter
        .and(args::body())
        .then(|name, app, args| answer(set_parameter_of(name, app, args)));
    let v1 = warp::path!("api" / "v1" / "parameter" / Segment);
    let read = v1.and(get).and(args::query());
    let read = read.then(|name, app, args| answer(get_param(name, app, args)));
    let write = v1.and(put).and(args::body());
    let write = write.then(|name, app, args| answer(set_param(name, app, args)));
    let delete = v1
        .and(warp::delete())
        .and(with(app))
        .and(args::query())
        .then(|name, app, args| answer(delete_param(name, app, args)));
    let list = warp::path!("api" / "v1" / "parameter").and(warp::post());
    let list = list
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(list_params(app, args)));
    of.or(one)
        .unify()
        .or(all)
        .unify()
        .or(set)
        .unify()
        .or(parameters)
        .unify()
        .or(set_parameter)
        .unify()
        .or(read)
        .unify()
        .or(write)
        .unify()
        .or(delete)
        .unify()
        .or(list)
        .unify()
        .boxed()
}

/// A parameter, which is a fact without what only facts have.
fn parameter(environment: EnvironmentId, found: &Fact) -> Value {
    let mut shape = fact(environment, found);
    if let Some(shape) = shape.as_object_mut() {
        shape.remove("resource_id");
        shape.remove("expires");
    }
    shape
}

async fn facts_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let facts = app.store.fact_list_of(environment, &id.0).await?;
    let facts = facts.iter().map(|found| fact(environment, found)).collect();
    Ok(Answer::Data(facts))
}

/// The fact of a resource by its name, or by its id, as the console asks for it.
async fn fact_of(id: Segment, name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let facts = app.store.fact_list_of(environment, &id.0).await?;
    let is_meant = |found: &&Fact| {
        found.name == name.0
            || ParameterId::named(environment, &id.0, &found.name).to_string() == name.0
    };
    let found = facts.iter().find(is_meant);
    let found = found.ok_or_else(|| ApiError::not_found(format!("fact {} of {}", name.0, id.0)))?;
    Ok(Answer::Data(fact(environment, found)))
}

async fn all_facts(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&["name", "resource_id", "expires"])?;
    let (names, resources) = (args.filter("name")?, args.filter("resource_id")?);
    let expires = args.flag("filter.expires", false)?;
    let only_expiry = args.value("filter.expires").is_some();
    let facts = app.store.fact_list(environment).await?.into_iter();
    let shown = facts
        .filter(|fact| {
            !fact.resource_id.is_empty()
                && contains(&names, &fact.name)
                && contains(&resources, &fact.resource_id)
                && (!only_expiry || fact.expires == expires)
        })
        .collect();
    let key = |fact: &Fact| format!("{}\u{1}{}", fact.name, fact.resource_id);
    page::page(&args, "/api/v2/facts", shown, key, false, |found| {
        fact(environment, found)
    })
}

async fn all_parameters(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&["name", "source"])?;
    let (names, sources) = (args.filter("name")?, args.filter("source")?);
    let facts = app.store.fact_list_of(environment, "").await?.into_iter();
    let shown = facts
        .filter(|fact| contains(&names, &fact.name) && contains(&sources, &fact.source))
        .collect();
    let key = |fact: &Fact| fact.name.clone();
    page::page(&args, "/api/v2/parameters", shown, key, false, |found| {
        parameter(environment, found)
    })
}

/// `GET /parameter/<name>?resource_id=`: a fact that is missing or too old is asked for, and 503 is the answer meanwhile.
async fn get_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let resource_id = args.text("resource_id")?.unwrap_or_default();
    let found = app.store.fact_fetch(environment, &resource_id, &name.0);
    let now = Timestamp::now();
    let is_known = |fact: &Fact| !fact.expires || now.since(fact.updated) < app.facts.expire;
    if let Some(found) = found.await?.filter(is_known) {
        return Ok(Answer::Whole(
            json!({"parameter": fact(environment, &found)}),
        ));
    }
    if resource_id.is_empty() {
        return Err(ApiError::not_found(format!("parameter {}", name.0)));
    }
    if let Some(engine) = app.engine(environment) {
        engine.ask_for_facts(&resource_id);
    }
    Err(ApiError::with_status(
        StatusCode::SERVICE_UNAVAILABLE,
        "Agents queried for resource parameter.",
    ))
}

async fn set_fact(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = args.required("resource_id")?;
    let expires = args.flag("expires", true)?;
    let set = set(&app, &environment, name, resource_id, expires, &args).await?;
    Ok(Answer::Data(fact(environment.id, &set)))
}

async fn set_parameter_of(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let set = set(&app, &environment, name, String::new(), false, &args).await?;
    Ok(Answer::Data(parameter(environment.id, &set)))
}

async fn set_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = args.text("resource_id")?.unwrap_or_default();
    let is_fact = !resource_id.is_empty();
    let expires = args.flag("expires", is_fact)?;
    if expires && !is_fact {
        return Err(ApiError::bad_request("Cannot set expiry for parameters."));
    }
    let set = set(&app, &environment, name, resource_id, expires, &args).await?;
    Ok(Answer::Whole(
        json!({"parameter": fact(environment.id, &set)}),
    ))
}

/// Writes it. `recompile` counts only if the value is another one; a fact that the model waits for always does.
async fn set(
    app: &App,
    environment: &Environment,
    name: Segment,
    resource_id: String,
    expires: bool,
    args: &Args,
) -> Result<Fact, ApiError> {
    let metadata = args.value("metadata").cloned().unwrap_or_else(|| json!({}));
    if !metadata.is_object() {
        return Err(ApiError::bad_request("Field 'metadata' must be an object"));
    }
    check_metadata(&metadata).map_err(ApiError::bad_request)?;
    let source = args.required("source")?;
    const SOURCES: [&str; 5] = ["fact", "plugin", "user", "form", "report"];
    if !SOURCES.contains(&source.as_str()) {
        return Err(ApiError::bad_request(format!(
            "`{source}` is none of the sources {SOURCES:?}"
        )));
    }
    let fact = Fact {
        resource_id,
        name: name.0,
        value: args.required("value")?,
        source,
        metadata,
        expires,
        updated: Timestamp::now(),
    };
    let is_new = app.store.fact_set(environment.id, &fact).await?;
    let unknowns = match environment.active_version {
        Some(version) => app.store.fact_unknowns(environment.id, version).await?,
        None => Vec::new(),
    };
    let is_waited_for = unknowns
        .iter()
        .any(|(resource, parameter)| *resource == fact.resource_id && *parameter == fact.name);
    if is_new && (is_waited_for || args.flag("recompile", false)?) {
        recompile(app, environment, &fact.name).await?;
    }
    Ok(fact)
}

/// Deleting always queues a compile.
async fn delete_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = args.text("resource_id")?.unwrap_or_default();
    let was_there = app
        .store
        .fact_delete(environment.id, &resource_id, &name.0)
        .await?;
    if !was_there {
        return Err(ApiError::not_found(format!("parameter {}", name.0)));
    }
    recompile(&app, &environment, &name.0).await?;
    Ok(Answer::Whole(json!({})))
}

async fn list_params(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let query = args.value("query").cloned().unwrap_or_else(|| json!({}));
    let Some(query) = query.as_object() else {
        return Err(ApiError::bad_request("Field 'query' must be an object"));
    };
    // The entries of the metadata that are wanted.
    let is_meant = |fact: &Fact| {
        query
            .iter()
            .all(|(key, value)| fact.metadata[key] == *value)
    };
    let facts = app.store.fact_list(environment).await?;
    let shown: Vec<Value> = facts
        .iter()
        .filter(|fact| is_meant(fact))
        .map(|found| fact(environment, found))
        .collect();
    Ok(Answer::Whole(json!({
        "parameters": shown,
        "expire": app.facts.expire.as_secs(),
        "now": Timestamp::now().to_string(),
    })))
}

async fn recompile(app: &App, environment: &Environment, name: &str) -> Result<(), ApiError> {
    let settings = app.store.settings_fetch(environment.id).await?;
    if !settings.server_compile() {
        return Ok(());
    }
    let message = format!("Recompile model because the parameter or fact {name} was updated");
    let request = CompileRequest {
        environment_id: environment.id,
        do_export: true,
        update: false,
        metadata: json!({"type": "param", "message": message}),
        variables: environment.variables.clone(),
    };
    app.store.compile_request(&request).await?;
    app.wake(environment.id);
    Ok(())
}
