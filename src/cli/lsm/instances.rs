//! Instances: what there is, and what somebody wants of it.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde_json::{Value, json};
use steward_lsm::ServiceEntity;
use steward_lsm::attributes;
use steward_lsm::lifecycle::{Change, Edit, EditOperation};
use uuid::Uuid;

use super::given::Given;
use super::table::{Cell, attributes as lines, plain, table, time};
use super::watch::{Goal, follow};
use super::{
    Client, CreateArguments, DeleteArguments, FAILED, Failure, InstanceArguments, ListArguments,
    Seen, StateArguments, UpdateArguments, collection, name_of, path_of, segment, style_of,
};
use crate::cli::terminal::{Paint, Style, printable};

/// Instances that one request asks for.
const PAGE: usize = 200;

pub(super) fn list(arguments: &ListArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let service = client.service(&arguments.of.service)?;
    let mut query = format!("?limit={}", arguments.limit.get().min(PAGE));
    for state in &arguments.state {
        has_state(&client, &service, &arguments.of.service, state)?;
        query.push_str(&format!("&filter.state={}", segment(state)));
    }
    if arguments.all {
        query.push_str("&include_deleted=true");
    }
    let mut next = Some(format!("{}{query}", collection(&arguments.of.service)));
    let (mut found, mut total) = (Vec::new(), 0);
    while let Some(path) = next.filter(|_| found.len() < arguments.limit.get()) {
        let mut page = client.get(&path)?;
        total = page["metadata"]["total"].as_i64().unwrap_or_default();
        if let Value::Array(rows) = page["data"].take() {
            found.extend(rows);
        }
        next = page["links"]["next"].as_str().map(str::to_owned);
    }
    found.truncate(arguments.limit.get());
    let n_found = found.len();
    let found = Value::Array(found);
    Ok(client.write(&found, |paint| {
        let shown = found.as_array().into_iter().flatten();
        let rows: Vec<Vec<Cell>> = shown.map(|instance| row(&service, instance)).collect();
        if rows.is_empty() {
            return format!("There is no instance of {} here.\n", arguments.of.service);
        }
        let mut text = table(
            &["instance", "state", "version", "changed", "id"],
            &rows,
            paint,
        );
        if total > n_found as i64 {
            text.push_str(&format!("{n_found} of {total}: `--limit N` shows more.\n"));
        }
        text
    }))
}

/// Whether a version of the service has a state of this name: a state that none has is a misspelt one.
fn has_state(client: &Client, service: &Value, name: &str, state: &str) -> Result<(), Failure> {
    let states_of = |definition: &Value| -> Vec<String> {
        let states = definition["lifecycle"]["states"].as_array();
        let names = states.into_iter().flatten();
        let names = names.filter_map(|one| one["name"].as_str());
        names.map(printable).collect()
    };
    if states_of(service).iter().any(|one| one == state) {
        return Ok(());
    }
    let path = format!("/lsm/v2/service_catalog/{}", segment(name));
    let all = client.get(&path)?;
    let versions = all["data"]["versions"].as_array().into_iter().flatten();
    let known: BTreeSet<String> = versions.flat_map(states_of).collect();
    if known.contains(state) {
        return Ok(());
    }
    let known: Vec<String> = known.into_iter().collect();
    let message = format!(
        "the lifecycle of {name} has no state `{}`; it has {}",
        printable(state),
        known.join(", ")
    );
    Err((message, FAILED))
}

fn row(service: &Value, instance: &Value) -> Vec<Cell> {
    let state = instance["state"].as_str().unwrap_or_default();
    vec![
        plain(name_of(instance)),
        (printable(state), style_of(service, state)),
        plain(instance["version"].to_string()),
        plain(time(&instance["last_updated"])),
        plain(instance["id"].as_str().unwrap_or_default()),
    ]
}

pub(super) fn show(arguments: &InstanceArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.common)?;
    let (instance, service) = client.instance(arguments)?;
    let path = format!("{}?include_deployment_progress=true", path_of(&instance));
    let instance = client.get(&path)?["data"].take();
    Ok(client.write(&instance, |paint| text_of(&service, &instance, paint)))
}

fn text_of(service: &Value, instance: &Value, paint: Paint) -> String {
    let state = instance["state"].as_str().unwrap_or_default();
    let style = style_of(service, state).unwrap_or(Style::Bold);
    let mut text = format!(
        "{} is {}\n",
        paint.paint(&name_of(instance), Style::Bold),
        paint.paint(&printable(state), style)
    );
    let field = |name: &str| printable(instance[name].as_str().unwrap_or_default());
    text.push_str(&format!("  id        {}\n", field("id")));
    text.push_str(&format!(
        "  version   {} (definition {})\n",
        instance["version"], instance["service_entity_version"]
    ));
    text.push_str(&format!("  created   {}\n", time(&instance["created_at"])));
    text.push_str(&format!(
        "  changed   {}\n",
        time(&instance["last_updated"])
    ));
    let progress = &instance["deployment_progress"];
    if let Some(total) = progress["total"].as_i64() {
        let of = |name: &str| progress[name].as_i64().unwrap_or_default();
        let mut resources = format!("{} of {total} deployed", of("deployed"));
        if of("failed") > 0 {
            resources.push_str(&format!(", {} failed", of("failed")));
        }
        text.push_str(&format!("  resources {resources}\n"));
    }
    for (set, title) in [
        ("candidate_attributes", "asked for"),
        ("active_attributes", "in force"),
        ("rollback_attributes", "in force before"),
    ] {
        if instance[set].is_object() {
            text.push_str(&format!("{}\n", paint.paint(title, Style::Dim)));
            text.push_str(&lines(&instance[set], 2));
        }
    }
    text
}

/// What is wrong with attributes, with their lines.
fn wrong(given: &Given, problems: &steward_lsm::Problems) -> Failure {
    let explained = given.explain(problems);
    let message = format!("these attributes are not accepted:\n{explained}");
    (printable(&message), super::USAGE)
}

pub(super) fn create(arguments: &CreateArguments) -> Result<ExitCode, Failure> {
    let given = Given::read(&arguments.given)?;
    if let Some((path, _)) = given.parts.first() {
        let message = format!("--set {path}: is a path; a new instance takes whole attributes");
        return Err((message, super::USAGE));
    }
    let client = Client::of(&arguments.of.common)?;
    let service = client.service(&arguments.of.service)?;
    let entity = client.definition(&service, None)?;
    attributes::create(&entity, given.attributes.clone())
        .map_err(|problems| wrong(&given, &problems))?;
    let mut body = json!({"attributes": given.attributes});
    if let Some(id) = arguments.id {
        body["service_instance_id"] = json!(id);
    }
    let instance = client.call("POST", &collection(&arguments.of.service), &body)?;
    after(&client, &service, &instance, "ordered", arguments.watch)
}

/// Says what was done, and follows the instance if that is wanted.
fn after(
    client: &Client,
    service: &Value,
    instance: &Value,
    done: &str,
    is_watched: bool,
) -> Result<ExitCode, Failure> {
    if !is_watched {
        let state = instance["state"].as_str().unwrap_or_default();
        return Ok(client.write(instance, |paint| {
            let name = paint.paint(&name_of(instance), Style::Bold);
            let id = instance["id"].as_str().unwrap_or_default();
            format!("{name} is {done}: {} (id {id})\n", printable(state))
        }));
    }
    let from = instance["version"].as_u64().unwrap_or_default();
    follow(client, service, instance, from, &Goal::of_change(from))
}

/// The version that a change is for, and the instance as it is.
fn seen(instance: &Value, seen: &Seen) -> Value {
    seen.version
        .map_or_else(|| instance["version"].clone(), |version| json!(version))
}

/// Edits that replace attributes at the top, and then what paths lead to.
fn edits(given: &Given) -> Vec<Edit> {
    let whole = given.attributes.iter();
    let whole = whole.map(|(name, value)| (escaped(name), value));
    let parts = given.parts.iter();
    let parts = parts.map(|(path, value)| (path.clone(), value));
    let edit = |(at, (target, value)): (usize, (String, &Value))| Edit {
        edit_id: at.to_string(),
        operation: EditOperation::Replace,
        target,
        value: value.clone(),
    };
    whole.chain(parts).enumerate().map(edit).collect()
}

/// A name as a path into attributes.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        if r"\[].*=".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// The call that changes attributes: services with strict modifiers take edits, others what is to be changed.
fn update_call(
    entity: &ServiceEntity,
    instance: &Value,
    given: &Given,
    version: &Value,
) -> Result<(Change, String, Value), Failure> {
    let path = path_of(instance);
    if entity.strict_modifier_enforcement {
        let edits = edits(given);
        let body = json!({"patch_id": Uuid::new_v4(), "current_version": version, "edit": edits});
        return Ok((Change::Edits(edits), path.replacen("/v1/", "/v2/", 1), body));
    }
    if let Some((part, _)) = given.parts.first() {
        let message = format!(
            "--set {part}: is a path; {} has no strict modifiers, so whole attributes are given",
            entity.name
        );
        return Err((message, super::USAGE));
    }
    let attributes = given.attributes.clone();
    let body = json!({"attributes": attributes, "current_version": version});
    Ok((Change::Merge(attributes), path, body))
}

pub(super) fn update(arguments: &UpdateArguments) -> Result<ExitCode, Failure> {
    let given = Given::read(&arguments.given)?;
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let entity = client.definition(&service, Some(&instance))?;
    let version = seen(&instance, &arguments.seen);
    let (change, path, body) = update_call(&entity, &instance, &given, &version)?;
    let sets = ["candidate_attributes", "active_attributes"];
    let base = sets.iter().find_map(|set| instance[*set].as_object());
    attributes::update(&entity, &base.cloned().unwrap_or_default(), &change)
        .map_err(|problems| wrong(&given, &problems))?;
    let changed = client.call("PATCH", &path, &body)?;
    after(
        &client,
        &service,
        &changed,
        "to be updated",
        arguments.seen.watch,
    )
}

pub(super) fn delete(arguments: &DeleteArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let version = seen(&instance, &arguments.seen);
    let path = format!("{}?current_version={version}", path_of(&instance));
    let changed = client.call("DELETE", &path, &json!({}))?;
    after(
        &client,
        &service,
        &changed,
        "to be deleted",
        arguments.seen.watch,
    )
}

pub(super) fn set_state(arguments: &StateArguments) -> Result<ExitCode, Failure> {
    let client = Client::of(&arguments.of.common)?;
    let (instance, service) = client.instance(&arguments.of)?;
    let state = arguments.state.as_str();
    has_state(&client, &service, &arguments.of.service, state)?;
    let mut body = json!({
        "current_version": seen(&instance, &arguments.seen),
        "target_state": state,
    });
    if let Some(message) = &arguments.message {
        body["message"] = json!(message);
    }
    let path = format!("{}/state", path_of(&instance));
    client.call("POST", &path, &body)?;
    // The answer has the instance as it was before.
    let changed = client.get(&path_of(&instance))?["data"].take();
    after(
        &client,
        &service,
        &changed,
        "asked for the state",
        arguments.seen.watch,
    )
}
