//! Deploys and dry runs of some resources. Source: docs/reference/rest.md § 2.13, § 2.14.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::api::Answer;
use crate::api::deployments::{engine, fetch_dry_run, method_of};
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::wire;
use crate::app::App;
use crate::domain::{Blocked, Compliance, EnvironmentId, LastRun, ResourceId};
use crate::store::ResourceState;

routes! {
    Post "/api/v2/deploy_filtered" Environment "deploys or repairs some resources now" => Body deploy();
    Post "/api/v2/dryrun_filtered" Environment "starts a dry run of some resources" => Body dry_run();
}

/// Texts that a value is compared with; each list that is given must agree.
#[derive(Debug, Default)]
struct TextFilter {
    eq: Option<Vec<String>>,
    neq: Vec<String>,
    contains: Vec<String>,
    not_contains: Vec<String>,
}

impl TextFilter {
    fn passes(&self, value: &str) -> bool {
        self.eq.as_ref().is_none_or(|eq| eq.iter().any(|one| one == value))
            && !self.neq.iter().any(|one| one == value)
            && self.contains.iter().all(|pattern| is_like(value, pattern))
            && !self.not_contains.iter().any(|pattern| is_like(value, pattern))
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
    model_version: bool,
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
            _ => Err(ApiError::bad_request(format!("filter.{name} has to be true or false"))),
        };
        match name.as_str() {
            "resourceType" => filter.resource_type = text_filter(name, value, true)?,
            "agent" => filter.agent = text_filter(name, value, true)?,
            "resourceIdValue" => filter.resource_id_value = text_filter(name, value, true)?,
            "blocked" => filter.blocked = word_filter(name, value, &Blocked::words())?,
            "compliance" => filter.compliance = word_filter(name, value, &Compliance::words())?,
            "lastHandlerRun" => filter.last_handler_run = word_filter(name, value, &LastRun::words())?,
            "isDeploying" => filter.is_deploying = flag()?,
            "isOrphan" => filter.is_orphan = flag()?,
            "purged" => filter.purged = flag()?,
            "modelVersion" => filter.model_version = !value.is_null(),
            _ => return Err(ApiError::bad_request(format!("there is no filter `{name}`"))),
        }
    }
    Ok(filter)
}

fn text_filter(name: &str, value: &Value, has_patterns: bool) -> Result<TextFilter, ApiError> {
    let refuse = |what: &str| ApiError::bad_request(format!("filter.{name}{what}"));
    let object = match value {
        Value::Null => &Map::new(),
        Value::Object(object) => object,
        _ => return Err(refuse(" has to be an object with eq, neq, contains or notContains")),
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
            "contains" if has_patterns => filter.contains = texts,
            "notContains" if has_patterns => filter.not_contains = texts,
            _ => return Err(refuse(&format!(" has no `{kind}`"))),
        }
    }
    Ok(filter)
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

/// `LIKE` of SQL, case aside: `%` stands for any text, `_` for any character, and both behind a `\` for themselves.
///
/// Goes through the text once and remembers the last `%` only: when the rest does not fit, that `%` takes one character more.
fn is_like(value: &str, pattern: &str) -> bool {
    let value: Vec<char> = value.to_lowercase().chars().collect();
    let mut parts = Vec::new();
    let lower = pattern.to_lowercase();
    let mut chars = lower.chars();
    while let Some(one) = chars.next() {
        parts.push(match one {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => Part::Is(chars.next().unwrap_or('\\')),
            other => Part::Is(other),
        });
    }
    let (mut at, mut part) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while at < value.len() {
        match parts.get(part) {
            Some(Part::Any) => {
                part += 1;
                last_any = Some((part, at));
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Is(wanted)) if *wanted == value[at] => (at, part) = (at + 1, part + 1),
            _ => match last_any {
                None => return false,
                Some((behind, taken)) => {
                    last_any = Some((behind, taken + 1));
                    (at, part) = (taken + 1, behind);
                }
            },
        }
    }
    parts[part..].iter().all(|rest| *rest == Part::Any)
}

/// A part of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Any,
    One,
    Is(char),
}

impl ResourceFilter {
    /// Whether a resource of the version in force passes; `purged` aside, which its state does not say.
    fn passes(&self, state: &ResourceState) -> bool {
        state.orphaned_after.is_none()
            && self.is_deploying.is_none_or(|wanted| wanted == state.is_deploying)
            && self.resource_type.passes(&state.resource_type)
            && self.agent.passes(state.agent.as_str())
            && self.resource_id_value.passes(&state.id_value)
            && self.blocked.passes(state.blocked.as_str())
            && self.last_handler_run.passes(state.last_run.as_str())
            && self
                .compliance
                .passes(state.compliance().map_or("", Compliance::as_str))
    }
}

/// The resources of the version in force that pass.
async fn selected(
    app: &App,
    environment: EnvironmentId,
    filter: &ResourceFilter,
) -> Result<BTreeSet<ResourceId>, ApiError> {
    let states = app.store.state_list(environment).await?;
    let passing = states.iter().filter(|state| filter.passes(state));
    let mut ids: BTreeSet<ResourceId> = passing.map(|state| state.resource_id.clone()).collect();
    if let Some(purged) = filter.purged {
        let active = app.store.environment_fetch(environment).await?;
        let active = active.and_then(|environment| environment.active_version);
        for resource in app
            .store
            .resource_list(environment, active.unwrap_or_default())
            .await?
        {
            let attributes = wire::attributes(&resource);
            if attributes.get("purged").and_then(Value::as_bool).unwrap_or(false) != purged {
                ids.remove(&resource.resource_id);
            }
        }
    }
    Ok(ids)
}

/// What cannot be deployed or compared: other versions than the one in force, and what no version has any more.
fn refuse_others(filter: &ResourceFilter) -> Result<(), ApiError> {
    if filter.model_version {
        return Err(ApiError::bad_request(
            "filter.modelVersion cannot be used here: it is about the version in force",
        ));
    }
    if filter.is_orphan == Some(true) {
        return Err(ApiError::bad_request(
            "filter.isOrphan cannot be true here: orphans are not in the version in force",
        ));
    }
    Ok(())
}

/// Source: docs/reference/deployment.md § 4.15.
async fn deploy(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let filter = read_filter(&args)?;
    refuse_others(&filter)?;
    let method = method_of(&args)?;
    let ids = selected(&app, environment.id, &filter).await?;
    let scheduled = engine(&app, environment.id)?.deploy_some(method, ids).await?;
    Ok(Answer::Data(serde_json::json!(scheduled)))
}

async fn dry_run(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let filter = read_filter(&args)?;
    refuse_others(&filter)?;
    if environment.halted {
        return Err(ApiError::conflict("the environment is halted"));
    }
    let version = environment
        .active_version
        .ok_or_else(|| ApiError::not_found("a version in force"))?;
    let ids = selected(&app, environment.id, &filter).await?;
    let engine = engine(&app, environment.id)?;
    let id = engine.dry_run(version, Some(ids)).await?;
    let dry_run = fetch_dry_run(&app, &environment, &Segment(id.to_string())).await?;
    Ok(Answer::Data(wire::dry_run(
        serde_json::json!(environment.id),
        &dry_run,
    )))
}

#[cfg(test)]
mod tests {
    use super::is_like;

    #[test]
    fn a_pattern_is_like_that_of_sql_case_aside() {
        for (value, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "ABC", true),
            ("abc", "b", false),
            ("abc", "%b%", true),
            ("abc", "a_c", true),
            ("abc", "a__c", false),
            ("abc", "%", true),
            ("", "%", true),
            ("", "_", false),
            ("aXbXc", "a%b%c", true),
            ("aXbX", "a%b%c", false),
            ("aab", "%ab", true),
            ("a%b", "a\\%b", true),
            ("axb", "a\\%b", false),
        ] {
            assert_eq!(is_like(value, pattern), expected, "{value} {pattern}");
        }
    }

    /// Input: a LIKE pattern of many `%` (docs/reference/security.md § 4.20). Answer: it takes no time beyond the product of the lengths.
    #[test]
    fn a_pattern_with_many_wildcards_takes_no_time() {
        let value = "a".repeat(5_000);
        assert!(!is_like(&value, &format!("{}b", "%a".repeat(500))));
    }
}
