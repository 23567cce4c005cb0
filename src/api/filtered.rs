//! Deploys and dry runs of some resources. Source: docs/reference/rest.md § 2.13, § 2.14.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::api::deployments::{engine, method_of};
use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::{Answer, versions, wire};
use crate::app::App;
use crate::domain::{Blocked, Compliance, EnvironmentId, LastRun, Like, ResourceId, VersionNumber};
use crate::store::{DryRunNote, ResourceState, StoredResource};

routes! {
    Post "/api/v2/deploy_filtered" Environment "deploys or repairs some resources now" => Body deploy();
    Post "/api/v2/dryrun_filtered" Environment "starts a dry run of some resources" => Body dry_run();
}

/// Texts that a value is compared with; each list that is given must agree.
#[derive(Debug, Default)]
struct TextFilter {
    eq: Option<Vec<String>>,
    neq: Vec<String>,
    contains: Vec<Like>,
    not_contains: Vec<Like>,
}

impl TextFilter {
    fn passes(&self, value: &str) -> bool {
        self.eq
            .as_ref()
            .is_none_or(|eq| eq.iter().any(|one| one == value))
            && !self.neq.iter().any(|one| one == value)
            && self.contains.iter().all(|pattern| pattern.fits(value))
            && !self.not_contains.iter().any(|pattern| pattern.fits(value))
    }
}

/// What a client selects resources by.
#[derive(Debug, Default)]
struct ResourceFilter {
    resource_type: TextFilter,
    agent: TextFilter,
    resource_id_value: TextFilter,
    blocked: TextFilter,
    compliance: TextFilter,
    last_handler_run: TextFilter,
    is_deploying: Option<bool>,
    is_orphan: Option<bool>,
    purged: Option<bool>,
    model_version: Option<VersionNumber>,
}

/// Where what is known of the filter is read from: names are those of the GraphQL schema.
fn read_filter(args: &Args) -> Result<ResourceFilter, ApiError> {
    let mut filter = ResourceFilter::default();
    let fields = match args.value("filter") {
        None => return Ok(filter),
        Some(Value::Object(fields)) => fields,
        Some(_) => return Err(ApiError::bad_request("Field 'filter' has to be an object")),
    };
    for (name, value) in fields {
        let flag = || match value {
            Value::Null => Ok(None),
            Value::Bool(flag) => Ok(Some(*flag)),
            _ => Err(ApiError::bad_request(format!(
                "filter.{name} has to be true or false"
            ))),
        };
        match name.as_str() {
            "resourceType" => filter.resource_type = text_filter(name, value, true)?,
            "agent" => filter.agent = text_filter(name, value, true)?,
            "resourceIdValue" => filter.resource_id_value = text_filter(name, value, true)?,
            "blocked" => filter.blocked = word_filter(name, value, &Blocked::words())?,
            "compliance" => filter.compliance = word_filter(name, value, &Compliance::words())?,
            "lastHandlerRun" => {
                filter.last_handler_run = word_filter(name, value, &LastRun::words())?
            }
            "isDeploying" => filter.is_deploying = flag()?,
            "isOrphan" => filter.is_orphan = flag()?,
            "purged" => filter.purged = flag()?,
            "modelVersion" => filter.model_version = version_of(value)?,
            _ => {
                return Err(ApiError::bad_request(format!(
                    "there is no filter `{name}`"
                )));
            }
        }
    }
    Ok(filter)
}

fn version_of(value: &Value) -> Result<Option<VersionNumber>, ApiError> {
    match value {
        Value::Null => Ok(None),
        value => value
            .as_i64()
            .map(|number| Some(VersionNumber::new(number)))
            .ok_or_else(|| ApiError::bad_request("filter.modelVersion has to be a whole number")),
    }
}

fn text_filter(name: &str, value: &Value, has_patterns: bool) -> Result<TextFilter, ApiError> {
    let refuse = |what: &str| ApiError::bad_request(format!("filter.{name}{what}"));
    let object = match value {
        Value::Null => &Map::new(),
        Value::Object(object) => object,
        _ => {
            return Err(refuse(
                " has to be an object with eq, neq, contains or notContains",
            ));
        }
    };
    let mut filter = TextFilter::default();
    for (kind, texts) in object {
        let texts = match texts {
            Value::Null => continue,
            Value::String(text) => vec![text.clone()],
            Value::Array(texts) => {
                let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
                let texts: Option<Vec<String>> = texts.collect();
                texts.ok_or_else(|| refuse(&format!(".{kind} has to be a list of texts")))?
            }
            _ => return Err(refuse(&format!(".{kind} has to be a list of texts"))),
        };
        match kind.as_str() {
            "eq" => filter.eq = Some(texts),
            "neq" => filter.neq = texts,
            "contains" if has_patterns => filter.contains = patterns(&texts),
            "notContains" if has_patterns => filter.not_contains = patterns(&texts),
            _ => return Err(refuse(&format!(" has no `{kind}`"))),
        }
    }
    Ok(filter)
}

fn patterns(texts: &[String]) -> Vec<Like> {
    texts.iter().map(|text| Like::whole(text)).collect()
}

/// As [`text_filter`], of words of an enumeration, which the schema has in capitals.
fn word_filter(name: &str, value: &Value, words: &[&str]) -> Result<TextFilter, ApiError> {
    let mut filter = text_filter(name, value, false)?;
    for word in filter.eq.iter_mut().flatten().chain(&mut filter.neq) {
        *word = word.to_lowercase();
        if !words.contains(&word.as_str()) {
            return Err(ApiError::bad_request(format!(
                "filter.{name} knows {words:?}, not `{word}`"
            )));
        }
    }
    Ok(filter)
}

impl ResourceFilter {
    /// Whether a resource of a version passes, with its state if it has one.
    fn passes(&self, resource: &StoredResource, state: Option<&ResourceState>) -> bool {
        let is_purged = || {
            let attributes = wire::attributes(resource);
            attributes.get("purged").and_then(Value::as_bool) == Some(true)
        };
        let word = |of: fn(&ResourceState) -> &'static str| state.map_or("", of);
        self.resource_type.passes(&resource.resource_type)
            && self.agent.passes(resource.agent.as_str())
            && self.resource_id_value.passes(&resource.id_value)
            && self.purged.is_none_or(|wanted| wanted == is_purged())
            && self
                .is_deploying
                .is_none_or(|wanted| state.is_some_and(|state| state.is_deploying == wanted))
            && self.blocked.passes(word(|state| state.blocked.as_str()))
            && self
                .last_handler_run
                .passes(word(|state| state.last_run.as_str()))
            && self.compliance.passes(word(|state| {
                state.compliance().map_or("", Compliance::as_str)
            }))
    }
}

/// The resources of a version that pass.
async fn selected(
    app: &App,
    environment: EnvironmentId,
    version: VersionNumber,
    filter: &ResourceFilter,
) -> Result<BTreeSet<ResourceId>, ApiError> {
    let states = app.store.state_list(environment).await?;
    let states: HashMap<&ResourceId, &ResourceState> = states
        .iter()
        .map(|state| (&state.resource_id, state))
        .collect();
    let resources = app.store.resource_list(environment, version).await?;
    let passing = resources
        .into_iter()
        .filter(|resource| filter.passes(resource, states.get(&resource.resource_id).copied()));
    Ok(passing.map(|resource| resource.resource_id).collect())
}

/// Source: docs/reference/deployment.md § 4.15.
async fn deploy(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let filter = read_filter(&args)?;
    if filter.model_version.is_some() {
        return Err(ApiError::bad_request(
            "filter.modelVersion cannot be used here: the version in force is deployed",
        ));
    }
    if filter.is_orphan == Some(true) {
        return Err(ApiError::bad_request(
            "filter.isOrphan cannot be true here: orphans are not in the version in force",
        ));
    }
    let method = method_of(&args)?;
    let version = environment.active_version.unwrap_or_default();
    let ids = selected(&app, environment.id, version, &filter).await?;
    let scheduled = engine(&app, &environment)?.deploy_some(method, ids).await?;
    Ok(Answer::Data(json!(scheduled)))
}

/// Of the version in force, or of the one that the filter names.
async fn dry_run(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let filter = read_filter(&args)?;
    if environment.halted {
        return Err(ApiError::halted(&environment));
    }
    let version = filter.model_version.or(environment.active_version);
    let version = version.ok_or_else(|| ApiError::not_found("a version in force"))?;
    versions::fetch(&app, &environment, version).await?;
    let ids = match filter.is_orphan {
        Some(true) => BTreeSet::new(),
        _ => selected(&app, environment.id, version, &filter).await?,
    };
    if ids.is_empty() {
        return Err(ApiError::not_found(format!(
            "version {version} has no resource that passes the filter"
        )));
    }
    let engine = engine(&app, &environment)?;
    let object = |name: &str| match args.value(name) {
        Some(value) if !value.is_object() => Err(ApiError::bad_request(format!(
            "Field '{name}' has to be an object"
        ))),
        value => Ok(value.cloned()),
    };
    let note = DryRunNote {
        resource_filter: object("filter")?,
        context: object("context")?,
    };
    let id = engine.dry_run(version, Some(ids), note).await?;
    Ok(Answer::Data(json!({"id": id, "model": version})))
}
