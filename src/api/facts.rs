//! Facts and parameters. Source: docs/reference/rest.md § 1.7, docs/reference/deployment.md § 5.7.

use serde_json::{Value, json};
use warp::http::StatusCode;

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::Cut;
use crate::api::http::error::ApiError;
use crate::api::http::order::{Ranges, Sort};
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{ParameterId, ResourceId, Timestamp};
use crate::facts::{self, FactInput, Known, fact_json, parameter_json};
use crate::store::{Fact, FactOrder, FactSearch, ParameterOrder, ParameterSearch, Span};

routes! {
    Get "/api/v2/resource/<rid>/facts" Environment "the facts of a resource" => Query facts_of(rid);
    Get "/api/v2/resource/<rid>/facts/<id>" Environment "a fact of a resource" => Query fact_of(rid, id);
    Get "/api/v2/facts" Environment "the facts of all resources" => Query all_facts();
    Put "/api/v2/facts/<name>" Environment "sets a fact" => Body set_fact(name);
    Get "/api/v2/parameters" Environment "the parameters" => Query all_parameters();
    Put "/api/v2/parameters/<name>" Environment "sets a parameter" => Body set_parameter_of(name);
    Get "/api/v1/parameter/<name>" Environment "a fact or a parameter; a missing fact is asked of its handler" => Query get_param(name);
    Put "/api/v1/parameter/<name>" Environment "sets a fact or a parameter" => Body set_param(name);
    Delete "/api/v1/parameter/<name>" Environment "deletes a fact or a parameter" => Query delete_param(name);
    Put "/api/v1/parameters" Environment "sets facts and parameters" => Body set_parameters();
    Post "/api/v1/parameter" Environment "facts and parameters by their metadata" => Body list_params();
}

async fn facts_of(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let facts = app
        .store
        .fact_list_of(environment, Some(&id.resource_id()))
        .await?;
    let facts = facts
        .iter()
        .map(|found| fact_json(environment, found))
        .collect();
    Ok(Answer::Data(facts))
}

/// The fact of a resource by its name, or by its id, as the console asks for it.
async fn fact_of(id: Segment, name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let facts = app
        .store
        .fact_list_of(environment, Some(&id.resource_id()))
        .await?;
    let is_meant = |found: &&Fact| {
        found.name == name.0
            || ParameterId::named(environment, &id.0, &found.name).to_string() == name.0
    };
    let found = facts.iter().find(is_meant);
    let found = found.ok_or_else(|| ApiError::not_found(format!("fact {} of {}", name.0, id.0)))?;
    Ok(Answer::Data(fact_json(environment, found)))
}

async fn all_facts(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&["name", "resource_id", "expires"])?;
    let search = FactSearch {
        names: args.filter("name")?,
        resources: args.filter("resource_id")?,
        expires: args.filter_flag("expires")?,
    };
    let sort = Sort::of(&args, &["name", "resource_id"], Sort::ascending("name"))?;
    let order = match sort.column {
        "resource_id" => FactOrder::Resource,
        _ => FactOrder::Name,
    };
    let cut = Cut::of(&args, &order.kind(), sort.is_descending)?;
    let (store, search) = (&app.store, &search);
    let rows = store
        .fact_page(environment, search, order, &cut.span())
        .await?;
    let count =
        |span: Span| async move { store.fact_count(environment, search, order, &span).await };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let shape = |fact: &Fact| fact_json(environment, fact);
    Ok(cut.answer(&args, "/api/v2/facts", rows, &counts, shape))
}

async fn all_parameters(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&["name", "source", "updated"])?;
    let columns = ["name", "source", "updated"];
    let sort = Sort::of(&args, &columns, Sort::ascending("name"))?;
    let search = ParameterSearch {
        names: args.filter("name")?,
        sources: args.filter("source")?,
        updated: Ranges::of_moments(&args, "updated")?.bounds(),
    };
    let order = match sort.column {
        "source" => ParameterOrder::Source,
        "updated" => ParameterOrder::Updated,
        _ => ParameterOrder::Name,
    };
    let cut = Cut::of(&args, &order.kind(), sort.is_descending)?;
    let (store, search) = (&app.store, &search);
    let rows = store
        .parameter_page(environment, search, order, &cut.span())
        .await?;
    let count = |span: Span| async move {
        store
            .parameter_count(environment, search, order, &span)
            .await
    };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let shape = |found: &Fact| parameter_json(environment, found);
    Ok(cut.answer(&args, "/api/v2/parameters", rows, &counts, shape))
}

/// `GET /parameter/<name>?resource_id=`: a fact that is missing or too old is asked for, and 503 is the answer meanwhile.
/// Without a resource it is a parameter, or else a fact of any, however old.
async fn get_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let Some(resource_id) = resource_id(&args)? else {
        let found = app.store.fact_named(environment, &name.0).await?;
        let found = found.ok_or_else(|| ApiError::not_found(format!("parameter {}", name.0)))?;
        let shape = fact_json(environment, &found);
        return Ok(Answer::Body(json!({"parameter": shape})));
    };
    let resource_id = Some(resource_id);
    let expire = app.facts.expire;
    match facts::look_up(&app.store, environment, resource_id, &name.0, expire).await? {
        Known::Yes(found) => Ok(Answer::Body(
            json!({"parameter": fact_json(environment, &found)}),
        )),
        Known::No => Err(ApiError::not_found(format!("parameter {}", name.0))),
        Known::ByHandler(resource_id) => {
            if let Some(engine) = app.engine(environment) {
                engine.ask_for_facts(&resource_id);
            }
            Err(ApiError::with_status(
                StatusCode::SERVICE_UNAVAILABLE,
                "Agents queried for resource parameter.",
            ))
        }
    }
}

async fn set_fact(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = Some(ResourceId::new(args.required("resource_id")?));
    let expires = Some(args.flag("expires", true)?);
    let set = set(&app, &environment, name, resource_id, expires, &args).await?;
    Ok(Answer::Data(fact_json(environment.id, &set)))
}

async fn set_parameter_of(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let set = set(&app, &environment, name, None, None, &args).await?;
    Ok(Answer::Data(parameter_json(environment.id, &set)))
}

async fn set_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = resource_id(&args)?;
    let is_given = args.value("expires").is_some();
    let expires = is_given.then(|| args.flag("expires", false)).transpose()?;
    let set = set(&app, &environment, name, resource_id, expires, &args).await?;
    Ok(Answer::Body(
        json!({"parameter": fact_json(environment.id, &set)}),
    ))
}

/// Many at once: all of them are checked before the first is set.
async fn set_parameters(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let Some(Value::Array(given)) = args.value("parameters") else {
        return Err(ApiError::bad_request("Field 'parameters' has to be a list"));
    };
    let text = |one: &Value, name: &str| one[name].as_str().map(str::to_owned);
    let mut inputs = Vec::new();
    for one in given {
        let resource_id = text(one, "resource_id").filter(|id| !id.is_empty());
        let name = text(one, "id").ok_or_else(|| {
            ApiError::bad_request("each of 'parameters' is an object with id, source and value")
        })?;
        let input = FactInput {
            name,
            resource_id: resource_id.map(ResourceId::new),
            value: text(one, "value"),
            source: text(one, "source"),
            metadata: Some(one["metadata"].clone()).filter(|metadata| !metadata.is_null()),
            expires: one["expires"].as_bool(),
            recompile: false,
        };
        let checked = input.clone().check(Timestamp::now());
        checked.map_err(ApiError::bad_request)?;
        inputs.push(input);
    }
    let mut needs_compile = None;
    for input in inputs {
        let set = facts::set(&app.store, environment.id, input).await?;
        if set.needs_compile(is_waited_for(&app, &environment, &set.fact).await?) {
            needs_compile = Some(set.fact.name);
        }
    }
    if let Some(name) = needs_compile {
        recompile(&app, &environment, &name).await?;
    }
    Ok(Answer::Body(json!({})))
}

/// An empty id is none, as clients send it for parameters.
fn resource_id(args: &Args) -> Result<Option<ResourceId>, ApiError> {
    let text = args.text("resource_id")?.filter(|text| !text.is_empty());
    Ok(text.map(ResourceId::new))
}

/// `expires`: `None` leaves that to what is known of it.
async fn set(
    app: &App,
    environment: &EnvironmentAccess,
    name: Segment,
    resource_id: Option<ResourceId>,
    expires: Option<bool>,
    args: &Args,
) -> Result<Fact, ApiError> {
    let input = FactInput {
        name: name.0,
        resource_id,
        value: args.text("value")?,
        source: args.text("source")?,
        metadata: args.value("metadata").cloned(),
        expires,
        recompile: args.flag("recompile", false)?,
    };
    let set = facts::set(&app.store, environment.id, input).await?;
    if set.needs_compile(is_waited_for(app, environment, &set.fact).await?) {
        recompile(app, environment, &set.fact.name).await?;
    }
    Ok(set.fact)
}

/// Whether the version in force could not know it.
async fn is_waited_for(
    app: &App,
    environment: &EnvironmentAccess,
    fact: &Fact,
) -> Result<bool, ApiError> {
    // As it is now: a version that has come into force since the request came looked for the fact before it was set.
    let record = app.store.environment_fetch(environment.id).await?;
    let unknowns = match record.and_then(|record| record.active_version) {
        Some(version) => app.store.fact_unknowns(environment.id, version).await?,
        None => Vec::new(),
    };
    // A parameter is of no resource, which an unknown has as an empty id.
    let of = fact.resource_id.as_ref().map_or("", ResourceId::as_str);
    let mut unknowns = unknowns.into_iter();
    Ok(unknowns.any(|(resource, parameter)| resource.as_str() == of && parameter == fact.name))
}

/// Deleting always queues a compile.
async fn delete_param(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let resource_id = resource_id(&args)?;
    let was_there = app
        .store
        .fact_delete(environment.id, resource_id.as_ref(), &name.0)
        .await?;
    if !was_there {
        return Err(ApiError::not_found(format!("parameter {}", name.0)));
    }
    recompile(&app, &environment, &name.0).await?;
    Ok(Answer::Body(json!({})))
}

async fn list_params(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let list = facts::list(
        &app.store,
        environment,
        args.value("query"),
        app.facts.expire,
    );
    Ok(Answer::Body(list.await?))
}

async fn recompile(app: &App, environment: &EnvironmentAccess, name: &str) -> Result<(), ApiError> {
    facts::queue_compile(&app.store, environment.id, &facts::message_of(name)).await?;
    app.wake(environment.id);
    Ok(())
}
