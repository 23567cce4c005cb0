//! Versions that come from outside: an exporter on another machine sends resources. Source: docs/reference/rest.md § 1.5,
//! docs/reference/deployment.md § 2.3, § 2.4.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::api::environments::scope;
use crate::api::exported_code;
use crate::api::http::args::{self, Args, Size};
use crate::api::http::error::ApiError;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::{Route, Verb, routes};
use crate::api::v1::shapes;
use crate::api::{Answer, to_its_end, wire};
use crate::app::App;
use crate::domain::{AgentName, ResourceId, Timestamp, VersionNumber, check_agent_map};
use crate::executor::bounds::check_metadata;
use crate::store::{NewVersion, PartialCode, PartialVersion, Requirements, Sent, StoredResource};

routes! {
    Post "/api/v2/reserve_version" Environment "takes the number of a version that is going to be stored" => Body reserve();
    Put "/api/v1/version" Environment "stores a version under a reserved number" => Body store_full();
    Put "/api/v2/version/partial" Environment "puts some resource sets in the place of those of the newest version" => Body store_partial();
    Post "/api/v1/version/<version>" Environment "releases a version" => Body release(version);
    Delete "/api/v1/version/<version>" Environment "deletes a version" => Query delete(version);
}

/// How large the body of a request may be: those that bring a version have all of its resources in one.
pub(in crate::api) fn size(route: &Route) -> &'static Size {
    const VERSIONS: [&str; 2] = ["/api/v1/version", "/api/v2/version/partial"];
    if route.verb == Verb::Put && VERSIONS.contains(&route.path) {
        &args::EXPORT
    } else {
        &args::USUAL
    }
}

async fn reserve(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let number = app.store.version_reserve(environment.id).await?;
    Ok(Answer::Data(json!(number)))
}

async fn store_full(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let number = args
        .parsed::<i64>("version")?
        .ok_or_else(|| ApiError::bad_request("Field 'version' is required"))?;
    if args
        .list("removed_resource_sets")?
        .is_some_and(|sets| !sets.is_empty())
    {
        return Err(ApiError::bad_request(
            "a full export removes sets by not having them: removed_resource_sets is for partial ones",
        ));
    }
    let number = VersionNumber::new(number);
    let sent = resources(&args, Some(number))?;
    Requirements::of(&sent)
        .check()
        .map_err(ApiError::bad_request)?;
    let new = new_version(&app, &environment, &args, sent).await?;
    let store = app.store.clone();
    to_its_end(async move { Ok(store.version_store_reserved(number, &new).await?) }).await?;
    app.wake(environment.id);
    Ok(Answer::Body(json!({})))
}

async fn store_partial(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let sent = resources(&args, None)?;
    let code = match (
        exported_code::sent(&app, &args)?,
        args.flag("allow_handler_code_update", false)?,
    ) {
        (None, _) => PartialCode::Keep,
        (Some(_), false) => PartialCode::Same,
        (Some(_), true) => PartialCode::Replace,
    };
    let partial = PartialVersion {
        new: new_version(&app, &environment, &args, sent).await?,
        removed_sets: args.list("removed_resource_sets")?.unwrap_or_default(),
        code,
    };
    let store = app.store.clone();
    let stored =
        to_its_end(async move { Ok(store.version_store_partial(&partial).await?) }).await?;
    app.wake(environment.id);
    Ok(Answer::Data(json!(stored.0)))
}

async fn release(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    app.store.version_release(environment.id, version).await?;
    app.wake(environment.id);
    let stored = app.store.version_fetch(environment.id, version).await?;
    let Some(stored) = stored else {
        return Ok(Answer::Body(json!({"model": null})));
    };
    // What cannot be deployed is named, and why: nothing has to be read of a version that has nothing undefined, while the engine
    // begins to deploy it.
    let undefined = app.store.resource_undefined(environment.id).await?;
    let resources = if undefined.iter().any(|(_, of)| of.contains(&version)) {
        app.store.resource_list(environment.id, version).await?
    } else {
        Vec::new()
    };
    let mut model = wire::version(&stored, environment.active_version);
    let of_clients = shapes::version_of(environment.id, &stored, &resources);
    if let (Some(model), Value::Object(more)) = (model.as_object_mut(), of_clients) {
        model.extend(more);
    }
    Ok(Answer::Body(json!({"model": model})))
}

async fn delete(version: VersionNumber, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let store = app.store.clone();
    to_its_end(async move { Ok(store.version_delete(environment.id, version).await?) }).await?;
    Ok(Answer::Empty)
}

async fn new_version(
    app: &App,
    environment: &EnvironmentAccess,
    args: &Args,
    sent: Vec<StoredResource>,
) -> Result<NewVersion, ApiError> {
    let info = args.value("version_info").filter(|info| !info.is_null());
    if info.is_some_and(|info| !info.is_object()) {
        let message = "Field 'version_info' has to be an object";
        return Err(ApiError::bad_request(message));
    }
    let metadata = info.and_then(|info| info.get("export_metadata")).cloned();
    let metadata = metadata.unwrap_or_else(|| json!({}));
    check_metadata(&metadata).map_err(ApiError::bad_request)?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let new = NewVersion {
        environment_id: environment.id,
        commit_id: None,
        tree_id: None,
        metadata,
        modules: exported_code::sent(app, args)?.map_or_else(|| json!([]), |code| json!(code)),
        unknowns: unknowns(args),
        agent_places: agent_places(args)?,
        resources: sent,
        release: settings.auto_deploy(),
        sent: Sent {
            pip_config: exported_code::pip_config(args)?,
            project_constraints: exported_code::project_constraints(args)?,
            partial: None,
        },
    };
    Ok(new)
}

/// Where the model says that agents run. Only `steward export` sends it.
fn agent_places(args: &Args) -> Result<BTreeMap<String, String>, ApiError> {
    let Some(places) = args.value("agent_places").filter(|value| !value.is_null()) else {
        return Ok(BTreeMap::new());
    };
    check_agent_map(places)
        .map_err(|why| ApiError::bad_request(format!("Field 'agent_places': {why}")))?;
    serde_json::from_value(places.clone())
        .map_err(|error| ApiError::bad_request(format!("Field 'agent_places': {error}")))
}

/// What the model waits for, in the shape in which versions have it: facts, also of resources that are not exported (the
/// model may ask for one of a resource that its module leaves out), and parameters, which are of no resource.
fn unknowns(args: &Args) -> Value {
    let list = args.value("unknowns").and_then(Value::as_array);
    let mut unknowns = Vec::new();
    for unknown in list.into_iter().flatten() {
        let text = |name: &str| unknown[name].as_str().unwrap_or_default();
        let (resource, parameter) = (text("resource"), text("parameter"));
        if parameter.is_empty() {
            continue;
        }
        let source = match text("source") {
            "" => "fact",
            source => source,
        };
        unknowns.push(json!({"resource": resource, "parameter": parameter, "source": source}));
    }
    Value::Array(unknowns)
}

/// The resources of the request. `version`: the one that their ids must have; `None`: they have none.
fn resources(args: &Args, version: Option<VersionNumber>) -> Result<Vec<StoredResource>, ApiError> {
    let list = args.value("resources").and_then(Value::as_array);
    let list = list.ok_or_else(|| ApiError::bad_request("Field 'resources' has to be a list"))?;
    let (sets, states) = (args.value("resource_sets"), args.value("resource_state"));
    check_states(states)?;
    let mut seen = BTreeSet::new();
    let mut resources = Vec::with_capacity(list.len());
    for sent in list {
        let resource = read_resource(sent, version, sets, states)?;
        if !seen.insert(resource.resource_id.clone()) {
            return Err(ApiError::bad_request(format!(
                "resource {} is sent twice",
                resource.resource_id
            )));
        }
        resources.push(resource);
    }
    let grouped = sets.and_then(Value::as_object).into_iter().flatten();
    for (id, _) in grouped {
        if !seen.contains(id.as_str()) {
            return Err(ApiError::bad_request(format!(
                "resource_sets names resource {id}, which is not sent"
            )));
        }
    }
    Ok(resources)
}

/// What exporters say of a resource: whether all of it is known.
fn check_states(states: Option<&Value>) -> Result<(), ApiError> {
    let named = states.and_then(Value::as_object).into_iter().flatten();
    for (id, state) in named {
        if !["available", "undefined"].iter().any(|word| state == word) {
            return Err(ApiError::bad_request(format!(
                "resource_state of {id} is available or undefined, not {state}"
            )));
        }
    }
    Ok(())
}

fn read_resource(
    sent: &Value,
    version: Option<VersionNumber>,
    sets: Option<&Value>,
    states: Option<&Value>,
) -> Result<StoredResource, ApiError> {
    let fields = sent
        .as_object()
        .ok_or_else(|| ApiError::bad_request("a resource has to be an object"))?;
    let text = fields.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = read_id(text, version)?;
    let mut requires = Vec::new();
    for require in fields
        .get("requires")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let text = require.as_str().unwrap_or_default();
        let require = ResourceId::parse(text).ok_or_else(|| not_an_id(text))?;
        requires.push(require);
    }
    requires.sort_unstable();
    requires.dedup();
    let mut attributes = fields.clone();
    for name in ["id", "requires", "provides", "version"] {
        attributes.remove(name);
    }
    let attributes = python_json(&Value::Object(attributes));
    let of = |map: Option<&Value>| map.and_then(|map| map.get(id.as_str())).cloned();
    let resource = StoredResource {
        digest: String::new(),
        resource_type: id.resource_type().to_owned(),
        agent: AgentName::new(id.agent()),
        id_attribute: id.attribute().to_owned(),
        id_value: id.value().to_owned(),
        attribute_hash: attribute_hash(&id, &attributes),
        attributes,
        requires,
        is_undefined: of(states).is_some_and(|state| state == "undefined"),
        set_name: of(sets)
            .and_then(|set| set.as_str().map(str::to_owned))
            .unwrap_or_default(),
        created: Timestamp::now(),
        resource_id: id,
    };
    Ok(resource.with_digest())
}

fn not_an_id(text: &str) -> ApiError {
    match text.parse::<ResourceId>() {
        Err(error) => ApiError::bad_request(error.to_string()),
        Ok(_) => ApiError::bad_request("a resource has to have an id"),
    }
}

fn read_id(text: &str, version: Option<VersionNumber>) -> Result<ResourceId, ApiError> {
    let id = ResourceId::parse(text).ok_or_else(|| not_an_id(text))?;
    let has_version = id.as_str() != text;
    match version {
        // The reference of today writes 0 in all exports.
        Some(version) if text != format!("{id},v={version}") && text != format!("{id},v=0") => {
            Err(ApiError::bad_request(format!(
                "resource {id} has to have the version of the export: {id},v={version}"
            )))
        }
        // Exporters write 0 where there is no number yet.
        None if has_version && text != format!("{id},v=0") => Err(ApiError::bad_request(format!(
            "resource {id} of a partial export may have no version"
        ))),
        _ => Ok(id),
    }
}

/// Source: docs/reference/language.md § 12.10.
fn attribute_hash(id: &ResourceId, attributes: &str) -> String {
    let resource = steward_compiler::ResourceRef {
        id: id.as_str(),
        entity_type: id.resource_type(),
        agent: id.agent(),
        id_attribute: id.attribute(),
        id_value: id.value(),
        attributes,
        requires: &[],
        undefined: false,
        resource_set: None,
    };
    resource.attribute_hash()
}

/// A value as `json.dumps(value, sort_keys=True)` of Python writes it: hashes of resources are over this text.
fn python_json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => python_number(number),
        Value::String(text) => python_text(text),
        Value::Array(values) => {
            let parts: Vec<String> = values.iter().map(python_json).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            let part = |name: &&String| {
                let value = fields.get(*name).map(python_json).unwrap_or_default();
                format!("{}: {value}", python_text(name))
            };
            let parts: Vec<String> = names.iter().map(part).collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

/// The shortest text that reads back as the same number, the exponent with a sign and two digits.
fn python_number(number: &serde_json::Number) -> String {
    let float = match number.as_f64() {
        Some(float) if !number.is_i64() && !number.is_u64() => float,
        _ => return number.to_string(),
    };
    let text = format!("{float:?}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

fn python_text(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            ' '..='~' => quoted.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    quoted.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.13 prints for the same values.
    #[test]
    fn attributes_are_written_as_python_writes_them() {
        let value = json!({"b": [1, 2.0, 1e16, 1e-5, 0.1, -3.5e300], "a": "ü\u{1F600}\"\\\n\u{7f}", "c": null, "d": true});
        let expected = "{\"a\": \"\\u00fc\\ud83d\\ude00\\\"\\\\\\n\\u007f\", \
                        \"b\": [1, 2.0, 1e+16, 1e-05, 0.1, -3.5e+300], \"c\": null, \"d\": true}";
        assert_eq!(python_json(&value), expected);
    }
}
