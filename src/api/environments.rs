//! Environments, halting, settings and agents. Source: docs/reference/rest.md § 1.2, § 1.3, § 1.9.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::{Counts, Cut};
use crate::api::http::error::ApiError;
use crate::api::http::order::Sort;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::protected_settings;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::{AgentName, EnvironmentId, SettingError, check_setting, setting_definitions};
use crate::git::RepositoryRules;
use crate::store::{Agent, AgentOrder, AgentSearch, Environment, NewEnvironment, Span};

routes! {
    Get "/api/v2/environment" AnyEnvironment "the environments; with a token of one, that one" => Query list();
    Put "/api/v2/environment" Access "makes an environment" => Body create();
    Get "/api/v2/environment/<id>" NamedEnvironment "an environment" => Query get(id);
    Post "/api/v2/environment/<id>" Access "changes an environment" => Body modify(id);
    Delete "/api/v2/environment/<id>" Access "deletes an environment" => Query delete(id);
    Post "/api/v2/actions/environment/<action>" Environment "halts or resumes an environment" => Body halt(action);
    Get "/api/v2/agents" Environment "the agents of an environment" => Query agents_list();
    Post "/api/v2/agent/<name>/<action>" Environment "pauses or unpauses an agent" => Body agent_action(name, action);
    Post "/api/v2/agents/<action>" Environment "pauses or unpauses all agents" => Body agents_action(action);
    Get "/api/v2/environment_settings" Environment "the settings of an environment" => Query settings_list();
    Get "/api/v2/environment_settings/<id>" Environment "a setting" => Query setting_get(id);
    Post "/api/v2/environment_settings/<id>" Environment "sets a setting" => Body setting_set(id);
    Delete "/api/v2/environment_settings/<id>" Environment "puts a setting back to its default" => Query setting_delete(id);
    Delete "/api/v2/decommission/<id>" NamedEnvironment "clears an environment" => Query clear(id);
}

/// The environment a request is about, which whoever sent it may use.
pub(in crate::api) async fn scope(app: &App, args: &Args) -> Result<EnvironmentAccess, ApiError> {
    let environment = fetch(app, args.environment()?).await?;
    args.principal.access(environment)
}

/// The environment that a path names, which whoever sent the request may use.
pub(in crate::api) async fn named(
    app: &App,
    args: &Args,
    id: &Segment,
) -> Result<EnvironmentAccess, ApiError> {
    let environment = fetch(app, environment_id(id)?).await?;
    args.principal.access(environment)
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

pub(in crate::api) async fn shape(app: &App, environment: &Environment) -> Result<Value, ApiError> {
    let settings = app.store.settings_fetch(environment.id).await?;
    let failure = failure(app, environment.id);
    Ok(wire::environment(environment, &settings, failure))
}

/// Why an environment of the configuration does not run, or why its repository cannot be fetched; `None`: all is well.
pub(in crate::api) fn failure(app: &App, id: EnvironmentId) -> Option<String> {
    if let Some(trouble) = app.trouble(id) {
        return Some(format!("{}: {}", trouble.field, trouble.message));
    }
    let (since, message) = app.compiler(id)?.fetch_failure()?;
    Some(format!(
        "the repository cannot be fetched since {since}: {message}"
    ))
}

/// The environments that whoever sent the request may know of.
pub(in crate::api) async fn visible(app: &App, args: &Args) -> Result<Vec<Environment>, ApiError> {
    let all = app.store.environment_list().await?.into_iter();
    Ok(all
        .filter(|environment| args.principal.sees(environment))
        .collect())
}

/// `details`: with description and icon.
async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let details = args.flag("details", false)?;
    let mut shapes = Vec::new();
    for environment in visible(&app, &args).await? {
        let shape = shape(&app, &environment).await?;
        shapes.push(if details {
            shape
        } else {
            wire::without_details(shape)
        });
    }
    Ok(Answer::Data(Value::Array(shapes)))
}

async fn get(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = named(&app, &args, &id).await?;
    let shape = shape(&app, &environment).await?;
    let details = args.flag("details", false)?;
    Ok(Answer::Data(if details {
        shape
    } else {
        wire::without_details(shape)
    }))
}

/// The stored form of a repository and branch that a client names for a new environment: both, or neither.
fn repository(args: &Args, rules: &RepositoryRules) -> Result<Option<(String, String)>, ApiError> {
    match (args.text("repository")?, args.text("branch")?) {
        (None, None) => Ok(None),
        (Some(url), Some(branch)) => checked_repository(url, branch, rules),
        _ => Err(ApiError::bad_request(
            "repository and branch are given together or not at all",
        )),
    }
}

/// As [`repository`], for an environment that is there: what is not named of the two stays.
fn other_repository(
    args: &Args,
    rules: &RepositoryRules,
    environment: &Environment,
) -> Result<Option<(String, String)>, ApiError> {
    let current = &environment.repo_url;
    match (args.text("repository")?, args.text("branch")?) {
        (None, None) => Ok(None),
        (Some(url), Some(branch)) => checked_repository(url, branch, rules),
        (Some(url), None) => checked_repository(url, environment.repo_branch.clone(), rules),
        (None, Some(_)) if current.is_empty() => Ok(None),
        (None, Some(_)) if current.starts_with("folder:") => Err(ApiError::bad_request(
            "the folder that the configuration names has no branch",
        )),
        (None, Some(branch)) => {
            check_branch(&branch)?;
            Ok(Some((current.clone(), branch)))
        }
    }
}

fn check_branch(branch: &str) -> Result<(), ApiError> {
    if branch.is_empty() {
        return Ok(());
    }
    crate::git::check_branch(branch).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(())
}

/// The stored form of a repository and branch; both empty: none. The reference's command line sends its
/// default branch, and an empty address, where a person named neither: that names nothing. Local paths and private hosts are for the server's own
/// configuration, unless that allows them: over the API they would reach whatever the server can.
fn checked_repository(
    url: String,
    branch: String,
    rules: &RepositoryRules,
) -> Result<Option<(String, String)>, ApiError> {
    if url.is_empty() {
        return Ok(branch.is_empty().then_some((url, branch)));
    }
    // As the store writes folders of this machine; read as an address, it would be that of an ssh host.
    if url.trim().to_ascii_lowercase().starts_with("folder:") {
        return Err(ApiError::bad_request(
            "folders on this machine's disk are not allowed here",
        ));
    }
    let url = rules
        .parse(&url)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    check_branch(&branch)?;
    Ok(Some((url.as_str().to_owned(), branch)))
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

/// Characters of an icon with what says its kind.
const MAX_ICON: usize = 65_535;

/// What an icon may be.
const ICON_KINDS: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/svg+xml"];

/// A picture as a text, `image/png;base64,…`; an empty text is none. Source: docs/reference/rest.md § 1.2.
fn icon(args: &Args) -> Result<Option<String>, ApiError> {
    let Some(icon) = args.text("icon")?.filter(|icon| !icon.is_empty()) else {
        return args.text("icon");
    };
    let parts = icon.split_once(";base64,");
    let Some((_, data)) =
        parts.filter(|(kind, data)| ICON_KINDS.contains(kind) && !data.is_empty())
    else {
        return Err(ApiError::bad_request(format!(
            "an icon is written as TYPE;base64,DATA, where TYPE is one of {}",
            ICON_KINDS.join(", ")
        )));
    };
    if icon.chars().count() > MAX_ICON {
        return Err(ApiError::bad_request(format!(
            "an icon has at most {MAX_ICON} characters"
        )));
    }
    match base64::engine::general_purpose::STANDARD.decode(data) {
        Ok(_) => Ok(Some(icon)),
        Err(error) => Err(ApiError::bad_request(format!(
            "the icon is no base64: {error}"
        ))),
    }
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = created(&app, &args).await?;
    Ok(Answer::Data(shape(&app, &environment).await?))
}

/// The environment that a request asks for, made and started.
pub(in crate::api) async fn created(app: &App, args: &Args) -> Result<Environment, ApiError> {
    let project_id = args
        .parsed("project_id")?
        .ok_or_else(|| ApiError::bad_request("Field 'project_id' is required"))?;
    let (repo_url, repo_branch) = repository(args, &app.repositories)?.unwrap_or_default();
    if !repo_url.is_empty() {
        refuse_repository_without_token(app)?;
    }
    let new = NewEnvironment {
        id: args
            .parsed("environment_id")?
            .unwrap_or_else(EnvironmentId::generate),
        project_id,
        name: name(args)?,
        description: description(args)?.unwrap_or_default(),
        icon: icon(args)?.unwrap_or_default(),
        repo_url,
        repo_branch,
        variables: Default::default(),
    };
    let _standstill = app.standstill(new.id).await;
    app.store.environment_create(&new).await?;
    app.note_names().await?;
    let environment = fetch(app, new.id).await?;
    app.environment_start(&environment).await;
    Ok(environment)
}

async fn modify(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = modified(&app, &args, &id).await?;
    Ok(Answer::Data(shape(&app, &environment).await?))
}

/// The environment of that id, changed as a request says. What it does not say stays.
pub(in crate::api) async fn modified(
    app: &App,
    args: &Args,
    id: &Segment,
) -> Result<Environment, ApiError> {
    let mut environment = Environment::clone(&*named(app, args, id).await?);
    environment.name = name(args)?;
    if let Some(description) = description(args)? {
        environment.description = description;
    }
    if let Some(icon) = icon(args)? {
        environment.icon = icon;
    }
    let moved = other_repository(args, &app.repositories, &environment)?.filter(|to| {
        *to != (
            environment.repo_url.clone(),
            environment.repo_branch.clone(),
        )
    });
    let is_moved = moved.is_some();
    if is_moved {
        refuse_repository_without_token(app)?;
    }
    if let Some((url, branch)) = moved {
        (environment.repo_url, environment.repo_branch) = (url, branch);
    }
    if let Some(project_id) = args.parsed("project_id")? {
        if app.store.project_fetch(project_id).await?.is_none() {
            let message = format!("there is no project with the id {project_id}");
            return Err(ApiError::bad_request(message));
        }
        environment.project_id = project_id;
    }
    let _standstill = match is_moved {
        true => Some(app.standstill(environment.id).await),
        false => None,
    };
    app.store.environment_update(&environment).await?;
    app.note_names().await?;
    if is_moved {
        // Its loops hold the old source.
        app.environment_stop(environment.id).await;
        app.environment_start(&environment).await;
    }
    Ok(environment)
}

/// Everything goes but the environment itself, its settings and the counter of its versions.
/// Source: docs/reference/deployment.md § 1.2.
pub(in crate::api) async fn clear(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let id = named(&app, &args, &id).await?.id;
    refuse_protected(&app, id).await?;
    let _standstill = app.standstill(id).await;
    app.environment_stop(id).await;
    let cleared = app.store.environment_clear(id).await;
    // Whatever came of it, the environment goes on.
    let environment = fetch(&app, id).await?;
    app.environment_start(&environment).await;
    cleared?;
    Ok(Answer::Empty)
}

pub(in crate::api) async fn delete(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let id = named(&app, &args, &id).await?.id;
    refuse_protected(&app, id).await?;
    let _standstill = app.standstill(id).await;
    app.environment_stop(id).await;
    app.environment_delete(id).await?;
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
    let columns = ["name", "paused", "process_name", "status"];
    let sort = Sort::of(&args, &columns, Sort::ascending("name"))?;
    let search = AgentSearch {
        names: args.filter("name")?,
        statuses: args.filter("status")?,
    };
    let order = match sort.column {
        "paused" => AgentOrder::Paused,
        "status" => AgentOrder::Status,
        // No agent has a process that clients could know.
        _ => AgentOrder::Name,
    };
    let cut = Cut::of(&args, &order.kind(), sort.is_descending)?;
    let (id, store, search) = (environment.id, &app.store, &search);
    let path = "/api/v2/agents";
    if !args.filter("process_name")?.is_empty() {
        return Ok(cut.answer::<Agent>(&args, path, Vec::new(), &Counts::none(), |_| Value::Null));
    }
    let rows = store.agent_page(id, search, order, &cut.span()).await?;
    let count = |span: Span| async move { store.agent_count(id, search, order, &span).await };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    Ok(cut.answer(&args, path, rows, &counts, |agent| agent_shape(id, agent)))
}

/// An agent as it is shown.
pub(in crate::api) fn agent_shape(environment: EnvironmentId, agent: &Agent) -> Value {
    json!({
        "environment": environment,
        "name": agent.name,
        "paused": agent.paused,
        "status": agent.status(),
        "unpause_on_resume": agent.unpause_on_resume,
        "process_id": null,
        "process_name": null,
    })
}

async fn agent_action(
    name: Segment,
    action: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    if name.0 == INTERNAL_AGENT {
        let message = format!(
            "the agent {INTERNAL_AGENT} is the scheduler's own, nothing can be done with it"
        );
        return Err(ApiError::bad_request(message));
    }
    let name = AgentName::new(name.0.as_str());
    if !act_on_agents(&app, &args, &action, Some(&name)).await? {
        return Err(ApiError::not_found(format!("agent {name}")));
    }
    Ok(Answer::Empty)
}

async fn agents_action(action: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    if action.0 == "remove_all_agent_venvs" {
        let id = scope(&app, &args).await?.id;
        if !app.venvs_remove(id) {
            return Err(ApiError::conflict(
                "no scheduler runs for this environment, so its venvs cannot be removed now",
            ));
        }
        return Ok(Answer::Empty);
    }
    act_on_agents(&app, &args, &action, None).await?;
    Ok(Answer::Empty)
}

/// What clients know as the agent of the scheduler; there is none here.
const INTERNAL_AGENT: &str = "$__scheduler";

/// Does something with one agent, or with all for `None`; `false`: there is no such agent.
/// Source: docs/reference/deployment.md § 1.4.
async fn act_on_agents(
    app: &App,
    args: &Args,
    action: &Segment,
    name: Option<&AgentName>,
) -> Result<bool, ApiError> {
    let environment = scope(app, args).await?;
    let (store, id, halted) = (&app.store, environment.id, environment.halted);
    let is_there = match action.0.as_str() {
        "pause" | "unpause" if halted => {
            return Err(ApiError::forbidden(
                "agents cannot be paused or unpaused while the environment is halted",
            ));
        }
        "keep_paused_on_resume" | "unpause_on_resume" if !halted => {
            return Err(ApiError::forbidden(
                "what resuming does with an agent can be said only while the environment is halted",
            ));
        }
        pause @ ("pause" | "unpause") => store.agent_pause(id, name, pause == "pause").await?,
        resume @ ("keep_paused_on_resume" | "unpause_on_resume") => {
            let unpause = resume == "unpause_on_resume";
            store.agent_unpause_on_resume(id, name, unpause).await?
        }
        other => {
            return Err(ApiError::bad_request(format!(
                "`{other}` is no action of agents"
            )));
        }
    };
    app.wake(id);
    Ok(is_there)
}

/// The definitions of settings, by name. Source: docs/reference/rest.md § 2.1.
/// `protected`: what decides those that are not free.
pub(in crate::api) fn definitions(protected: &BTreeMap<String, String>) -> Value {
    let define = |definition: &crate::domain::Definition| {
        let protected_by = protected.get(definition.name);
        let default: Value = serde_json::from_str(definition.default).unwrap_or(Value::Null);
        let shape = json!({
            "name": definition.name,
            "type": definition.kind.wire_name(),
            "default": default,
            "doc": definition.doc,
            "recompile": false,
            "update_model": false,
            "agent_restart": false,
            "allowed_values": definition.kind.allowed_values(),
            "section": definition.section,
            "protected": protected_by.is_some(),
            "protected_by": protected_by,
        });
        (definition.name.to_owned(), shape)
    };
    setting_definitions()
        .map(define)
        .collect::<Map<_, _>>()
        .into()
}

async fn settings_list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let protected = app.store.settings_protected(environment.id).await?;
    Ok(Answer::Data(
        json!({"settings": settings.effective(), "definition": definitions(&protected)}),
    ))
}

async fn setting_get(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let value = settings
        .value(&name.0)
        .ok_or_else(|| ApiError::not_found(format!("setting {}", name.0)))?;
    let name = name.0;
    let protected = app.store.settings_protected(environment.id).await?;
    Ok(Answer::Data(
        json!({"settings": {name: value}, "definition": definitions(&protected)}),
    ))
}

pub(in crate::api) async fn setting_set(
    name: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let value = args
        .value("value")
        .ok_or_else(|| ApiError::bad_request("Field 'value' is required"))?;
    let value = check_setting(&name.0, value).map_err(|error| match error {
        SettingError::Unknown(_) => ApiError::not_found(error.to_string()),
        SettingError::Value { .. } => ApiError::bad_request(error.to_string()),
    })?;
    protected_settings::refuse_protected(&app, &environment, &name.0).await?;
    app.store
        .setting_set(environment.id, &name.0, &value)
        .await?;
    app.wake(environment.id);
    Ok(Answer::Data(Value::Null))
}

pub(in crate::api) async fn setting_delete(
    name: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    if !setting_definitions().any(|definition| definition.name == name.0) {
        return Err(ApiError::not_found(format!("setting {}", name.0)));
    }
    protected_settings::refuse_protected(&app, &environment, &name.0).await?;
    app.store.setting_delete(environment.id, &name.0).await?;
    app.wake(environment.id);
    Ok(Answer::Data(Value::Null))
}

#[cfg(test)]
mod tests {
    use crate::api::environments::{RepositoryRules, other_repository, repository};
    use crate::api::http::args::Args;
    use crate::domain::{EnvironmentId, ProjectId};
    use crate::store::Environment;

    /// Given: an environment that is cleared by several clients and deleted by another one at the same moment. Expected: whoever
    /// comes first, it is gone in the end, and no loops of it run on.
    #[tokio::test]
    async fn an_environment_that_is_cleared_and_deleted_at_once_does_not_run_on() {
        use crate::api::environments::{clear, delete};
        use crate::api::http::args::Segment;
        use crate::api::http::principal::Principal;
        use crate::app::App;
        let folder = tempfile::tempdir().unwrap();
        let app = App::alone(folder.path()).await.unwrap();
        let model = app.store.environment_list().await.unwrap().remove(0);
        for round in 0..10_u32 {
            let id = EnvironmentId::generate();
            let new = crate::store::NewEnvironment {
                id,
                project_id: model.project_id,
                name: format!("e{round}"),
                description: String::new(),
                icon: String::new(),
                repo_url: String::new(),
                repo_branch: String::new(),
                variables: Default::default(),
            };
            app.store.environment_create(&new).await.unwrap();
            let environment = app.store.environment_fetch(id).await.unwrap().unwrap();
            app.environment_start(&environment).await;
            assert!(app.engine(id).is_some());
            let (path, mut args) = (Segment(id.to_string()), Args::default());
            args.principal = Principal::TokenHolder;
            let cleared = || clear(path.clone(), app.clone(), args.clone());
            let deleted = async {
                tokio::time::sleep(std::time::Duration::from_millis(u64::from(round))).await;
                delete(path.clone(), app.clone(), args.clone()).await
            };
            let (_, _, deleted) = tokio::join!(cleared(), cleared(), deleted);
            assert!(deleted.is_ok(), "round {round}");
            let left = app.store.environment_fetch(id).await.unwrap();
            assert!(left.is_none(), "round {round}");
            assert!(app.engine(id).is_none(), "round {round}");
        }
    }

    fn named(url: &str) -> Option<(String, String)> {
        with_branch(url, "main")
    }

    fn with_branch(url: &str, branch: &str) -> Option<(String, String)> {
        let encode =
            |text| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
        let args = format!("repository={}&branch={}", encode(url), encode(branch));
        let args = Args::from_query(&args);
        repository(&args, &RepositoryRules::default())
            .ok()
            .flatten()
    }

    /// Input: an option of git as the branch of a repository over the API (docs/reference/security.md § 3.15). Answer: refused.
    #[test]
    fn what_is_no_name_of_a_branch_is_refused() {
        let url = "https://example.org/r.git";
        assert!(with_branch(url, "main").is_some());
        for branch in ["--upload-pack=x", "a..b", "a b", "a\u{1b}b"] {
            assert_eq!(with_branch(url, branch), None, "{branch}");
        }
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

    /// Given: an environment with a repository. Expected: what a request names of address and branch changes, the rest stays;
    /// a folder of the configuration has no branch, and where there is no repository a branch alone names nothing.
    #[test]
    fn what_is_not_named_of_repository_and_branch_stays() {
        let mut environment = Environment {
            id: EnvironmentId::generate(),
            project_id: ProjectId::generate(),
            name: String::new(),
            description: String::new(),
            icon: String::new(),
            repo_url: "https://example.org/r.git".to_owned(),
            repo_branch: "main".to_owned(),
            variables: Default::default(),
            halted: false,
            halted_since: None,
            last_version: Default::default(),
            active_version: None,
        };
        let asked = |environment: &Environment, query: &str| {
            let args = Args::from_query(query);
            other_repository(&args, &RepositoryRules::default(), environment).ok()
        };
        let pair = |url: &str, branch: &str| Some(Some((url.to_owned(), branch.to_owned())));
        let (branch, url) = (
            "branch=other",
            "repository=https%3A%2F%2Fexample.org%2Fs.git",
        );
        let (old, new) = ("https://example.org/r.git", "https://example.org/s.git");
        assert_eq!(asked(&environment, branch), pair(old, "other"));
        assert_eq!(asked(&environment, url), pair(new, "main"));
        assert_eq!(asked(&environment, "branch=--x"), None);
        assert_eq!(asked(&environment, "repository=folder%3A%2Fetc"), None);
        environment.repo_url = "folder:/srv/model".to_owned();
        assert_eq!(asked(&environment, branch), None);
        environment.repo_url = String::new();
        assert_eq!(asked(&environment, branch), Some(None));
    }

    #[test]
    fn the_checked_form_of_an_address_is_what_is_stored() {
        let stored = named(" https://Example.org:443/x/ ").map(|(url, _)| url);
        assert_eq!(stored.as_deref(), Some("https://example.org/x"));
    }
}
