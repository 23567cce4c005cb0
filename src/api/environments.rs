//! Environments, halting, settings and agents. Source: docs/reference/rest.md § 1.2, § 1.3, § 1.9.

use serde_json::{Map, Value, json};
use warp::{Filter, filters::BoxedFilter};

use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::{Answer, Body, answer, wire, with};
use crate::app::App;
use crate::domain::{DEFINITIONS, EnvironmentId, SettingError, check_setting};
use crate::git::RepositoryRules;
use crate::store::{Environment, NewEnvironment};

pub(in crate::api) fn routes(app: &App) -> BoxedFilter<(Body,)> {
    crud(app)
        .or(actions(app))
        .unify()
        .or(settings(app))
        .unify()
        .boxed()
}

fn crud(app: &App) -> BoxedFilter<(Body,)> {
    let all = warp::path!("api" / "v2" / "environment");
    let one = warp::path!("api" / "v2" / "environment" / Segment);
    let list = all
        .and(warp::get())
        .and(with(app))
        .and(args::query())
        .then(|app, args| answer(list(app, args)));
    let create = all
        .and(warp::put())
        .and(with(app))
        .and(args::body())
        .then(|app, args| answer(create(app, args)));
    let get = one
        .and(warp::get())
        .and(with(app))
        .and(args::query())
        .then(|id, app, args| answer(get(id, app, args)));
    let changed = one.and(warp::post()).and(with(app)).and(args::body());
    let changed = changed.then(|id, app, args| answer(modify(id, app, args)));
    let delete = one
        .and(warp::delete())
        .and(with(app))
        .then(|id, app| answer(delete(id, app)));
    list.or(create)
        .unify()
        .or(get)
        .unify()
        .or(changed)
        .unify()
        .or(delete)
        .unify()
        .boxed()
}

fn actions(app: &App) -> BoxedFilter<(Body,)> {
    let halted = warp::path!("api" / "v2" / "actions" / "environment" / Segment).and(warp::post());
    let halted = halted
        .and(with(app))
        .and(args::body())
        .then(|action, app, args| answer(halt(action, app, args)));
    let agents = warp::path!("api" / "v2" / "agents").and(warp::get());
    let agents = agents
        .and(with(app))
        .and(args::query())
        .then(|app, args| answer(agents_list(app, args)));
    let agent = warp::path!("api" / "v2" / "agent" / Segment / Segment).and(warp::post());
    let agent = agent.and(with(app)).and(args::body());
    let agent = agent.then(|name, action, app, args| answer(agent_action(name, action, app, args)));
    halted.or(agents).unify().or(agent).unify().boxed()
}

fn settings(app: &App) -> BoxedFilter<(Body,)> {
    let all = warp::path!("api" / "v2" / "environment_settings");
    let one = warp::path!("api" / "v2" / "environment_settings" / Segment);
    let list = all.and(warp::get()).and(with(app)).and(args::query());
    let list = list.then(|app, args| answer(settings_list(app, args)));
    let get = one.and(warp::get()).and(with(app)).and(args::query());
    let get = get.then(|name, app, args| answer(setting_get(name, app, args)));
    let set = one.and(warp::post()).and(with(app)).and(args::body());
    let set = set.then(|name, app, args| answer(setting_set(name, app, args)));
    let delete = one.and(warp::delete()).and(with(app)).and(args::query());
    let delete = delete.then(|name, app, args| answer(setting_delete(name, app, args)));
    list.or(get)
        .unify()
        .or(set)
        .unify()
        .or(delete)
        .unify()
        .boxed()
}

/// The environment a request is about.
pub(in crate::api) async fn scope(app: &App, args: &Args) -> Result<Environment, ApiError> {
    fetch(app, args.environment()?).await
}

pub(in crate::api) async fn fetch(app: &App, id: EnvironmentId) -> Result<Environment, ApiError> {
    let environment = app.store.environment_fetch(id).await?;
    environment.ok_or_else(|| ApiError::not_found(format!("environment {id}")))
}

pub(in crate::api) async fn refuse_protected(app: &App, id: EnvironmentId) -> Result<(), ApiError> {
    if app.store.settings_fetch(id).await?.protected() {
        return Err(ApiError::forbidden(format!(
            "environment {id} is protected by the setting protected_environment"
        )));
    }
    Ok(())
}

pub(in crate::api) fn environment_id(segment: &Segment) -> Result<EnvironmentId, ApiError> {
    segment
        .0
        .parse()
        .map_err(|_| ApiError::bad_request(format!("`{}` is no environment id", segment.0)))
}

async fn shape(app: &App, environment: &Environment) -> Result<Value, ApiError> {
    let settings = app.store.settings_fetch(environment.id).await?;
    let failure = failure(app, environment.id);
    Ok(wire::environment(environment, Some(&settings), failure))
}

/// Why an environment of the configuration does not run; `None`: it does.
pub(in crate::api) fn failure(app: &App, id: EnvironmentId) -> Option<String> {
    let trouble = app.trouble(id)?;
    Some(format!("{}: {}", trouble.field, trouble.message))
}

async fn list(app: App, _args: Args) -> Result<Answer, ApiError> {
    let mut shapes = Vec::new();
    for environment in app.store.environment_list().await? {
        shapes.push(shape(&app, &environment).await?);
    }
    Ok(Answer::Data(Value::Array(shapes)))
}

async fn get(id: Segment, app: App, _args: Args) -> Result<Answer, ApiError> {
    let environment = fetch(&app, environment_id(&id)?).await?;
    Ok(Answer::Data(shape(&app, &environment).await?))
}

/// The stored form of a repository and branch that a client names. Local paths and private hosts are for the server's own
/// configuration, unless that allows them: over the API they would reach whatever the server can.
fn repository(args: &Args, rules: &RepositoryRules) -> Result<Option<(String, String)>, ApiError> {
    let (url, branch) = (args.text("repository")?, args.text("branch")?);
    match (url, branch) {
        (None, None) => Ok(None),
        (Some(url), Some(branch)) if url.is_empty() && branch.is_empty() => Ok(Some((url, branch))),
        (Some(url), Some(branch)) => {
            // As the store writes folders of this machine; read as an address, it would be that of an ssh host.
            if url.trim().to_ascii_lowercase().starts_with("folder:") {
                return Err(ApiError::bad_request(
                    "folders on this machine's disk are not allowed here",
                ));
            }
            let url = rules
                .parse(&url)
                .map_err(|error| ApiError::bad_request(error.to_string()))?;
            Ok(Some((url.as_str().to_owned(), branch)))
        }
        _ => Err(ApiError::bad_request(
            "repository and branch are given together or not at all",
        )),
    }
}

/// A model runs code as the server's user. Without a token whoever reaches the port may ask, also other users of this
/// machine; so only the server's own configuration says whose code that is.
fn refuse_repository_without_token(app: &App) -> Result<(), ApiError> {
    if app.api_token.is_none() {
        return Err(ApiError::forbidden(
            "without a token the API sets no repository or branch: configure `api_token`, or name the repository in \
             the configuration file",
        ));
    }
    Ok(())
}

fn name(args: &Args) -> Result<String, ApiError> {
    let name = args.required("name")?;
    if name.trim().is_empty() || name.len() > 255 {
        return Err(ApiError::bad_request(
            "an environment's name has 1 to 255 characters",
        ));
    }
    Ok(name)
}

fn description(args: &Args) -> Result<Option<String>, ApiError> {
    match args.text("description")? {
        Some(text) if text.chars().count() > 255 => Err(ApiError::bad_request(
            "a description has at most 255 characters",
        )),
        text => Ok(text),
    }
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let project_id = args
        .parsed("project_id")?
        .ok_or_else(|| ApiError::bad_request("Field 'project_id' is required"))?;
    let (repo_url, repo_branch) = repository(&args, &app.repositories)?.unwrap_or_default();
    if !repo_url.is_empty() {
        refuse_repository_without_token(&app)?;
    }
    let new = NewEnvironment {
        id: args
            .parsed("environment_id")?
            .unwrap_or_else(EnvironmentId::generate),
        project_id,
        name: name(&args)?,
        description: description(&args)?.unwrap_or_default(),
        icon: String::new(),
        repo_url,
        repo_branch,
        variables: Default::default(),
    };
    app.store.environment_create(&new).await?;
    let environment = fetch(&app, new.id).await?;
    app.environment_start(&environment).await;
    Ok(Answer::Data(shape(&app, &environment).await?))
}

async fn modify(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let mut environment = fetch(&app, environment_id(&id)?).await?;
    environment.name = name(&args)?;
    if let Some(description) = description(&args)? {
        environment.description = description;
    }
    let moved = repository(&args, &app.repositories)?.filter(|to| {
        *to != (
            environment.repo_url.clone(),
            environment.repo_branch.clone(),
        )
    });
    let is_moved = moved.is_some();
    if is_moved {
        refuse_repository_without_token(&app)?;
    }
    if let Some((url, branch)) = moved {
        (environment.repo_url, environment.repo_branch) = (url, branch);
    }
    if let Some(project_id) = args.parsed("project_id")? {
        environment.project_id = project_id;
    }
    app.store.environment_update(&environment).await?;
    if is_moved {
        // Its loops hold the old source.
        app.environment_stop(environment.id).await;
        app.environment_start(&environment).await;
    }
    Ok(Answer::Data(shape(&app, &environment).await?))
}

async fn delete(id: Segment, app: App) -> Result<Answer, ApiError> {
    let id = fetch(&app, environment_id(&id)?).await?.id;
    refuse_protected(&app, id).await?;
    app.environment_stop(id).await;
    app.store.environment_delete(id).await?;
    Ok(Answer::Empty)
}

/// `halt` and `resume`: idempotent.
async fn halt(action: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let halted = match action.0.as_str() {
        "halt" => true,
        "resume" => false,
        other => return Err(ApiError::not_found(format!("action {other}"))),
    };
    app.store.environment_halt(environment.id, halted).await?;
    app.wake(environment.id);
    Ok(Answer::Empty)
}

async fn agents_list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["name", "process_name", "status"])?;
    let mut agents = app.store.agent_list(environment.id).await?;
    let names = args.filter("name")?;
    agents.retain(|agent| {
        names.is_empty() || names.iter().any(|name| agent.name.contains(name.as_str()))
    });
    let shape = |agent: &crate::store::Agent| {
        json!({
            "environment": environment.id,
            "name": agent.name,
            "paused": agent.paused,
            "status": if agent.paused { "paused" } else if environment.halted { "down" } else { "up" },
            "unpause_on_resume": agent.unpause_on_resume,
            "process_id": null,
            "process_name": null,
        })
    };
    page::page(
        &args,
        "/api/v2/agents",
        agents,
        |agent| agent.name.clone(),
        false,
        shape,
    )
}

async fn agent_action(
    name: Segment,
    action: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let paused = match action.0.as_str() {
        "pause" => true,
        "unpause" => false,
        other => return Err(ApiError::not_found(format!("agent action {other}"))),
    };
    if environment.halted {
        return Err(ApiError::forbidden(
            "agents cannot be paused or unpaused while the environment is halted",
        ));
    }
    if !app
        .store
        .agent_pause(environment.id, &name.0, paused)
        .await?
    {
        return Err(ApiError::not_found(format!("agent {}", name.0)));
    }
    app.wake(environment.id);
    Ok(Answer::Empty)
}

/// The definitions of settings, by name. Source: docs/reference/rest.md § 2.1.
fn definitions() -> Value {
    let define = |definition: &crate::domain::Definition| {
        let default: Value = serde_json::from_str(definition.default).unwrap_or(Value::Null);
        let shape = json!({
            "name": definition.name,
            "type": definition.kind.wire_name(),
            "default": default,
            "doc": definition.doc,
            "recompile": false,
            "update_model": false,
            "agent_restart": false,
            "allowed_values": null,
            "section": "Deployment",
            "protected": false,
            "protected_by": null,
        });
        (definition.name.to_owned(), shape)
    };
    DEFINITIONS.iter().map(define).collect::<Map<_, _>>().into()
}

async fn settings_list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    Ok(Answer::Data(
        json!({"settings": settings.stored(), "definition": definitions()}),
    ))
}

async fn setting_get(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let value = settings
        .value(&name.0)
        .ok_or_else(|| ApiError::not_found(format!("setting {}", name.0)))?;
    let name = name.0;
    Ok(Answer::Data(
        json!({"settings": {name: value}, "definition": definitions()}),
    ))
}

async fn setting_set(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let value = args
        .value("value")
        .ok_or_else(|| ApiError::bad_request("Field 'value' is required"))?;
    let value = check_setting(&name.0, value).map_err(|error| match error {
        SettingError::Unknown(_) => ApiError::not_found(error.to_string()),
        SettingError::Value { .. } => ApiError::bad_request(error.to_string()),
    })?;
    app.store
        .setting_set(environment.id, &name.0, &value)
        .await?;
    app.wake(environment.id);
    Ok(Answer::Data(Value::Null))
}

async fn setting_delete(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if !DEFINITIONS
        .iter()
        .any(|definition| definition.name == name.0)
    {
        return Err(ApiError::not_found(format!("setting {}", name.0)));
    }
    app.store.setting_delete(environment.id, &name.0).await?;
    app.wake(environment.id);
    Ok(Answer::Data(Value::Null))
}

#[cfg(test)]
mod tests {
    use crate::api::environments::{RepositoryRules, repository};
    use crate::api::http::args::Args;

    fn named(url: &str) -> Option<(String, String)> {
        let encode =
            |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
        let args = Args::from_query(&format!("repository={}&branch=main", encode(url)));
        repository(&args, &RepositoryRules::default())
            .ok()
            .flatten()
    }

    /// Input: `folder:/etc` as a repository over the API (docs/reference/security.md § 3.15). Answer: refused.
    #[test]
    fn what_the_store_would_read_as_a_folder_is_refused() {
        for url in [
            "folder:/etc",
            " folder:/etc",
            "\tFolder:/etc",
            "FOLDER:etc",
            "folder: /etc",
            "folder :/etc",
        ] {
            assert_eq!(named(url), None, "{url}");
        }
    }

    #[test]
    fn the_checked_form_of_an_address_is_what_is_stored() {
        let stored = named(" https://Example.org:443/x/ ").map(|(url, _)| url);
        assert_eq!(stored.as_deref(), Some("https://example.org/x"));
    }
}
