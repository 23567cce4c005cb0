//! The shapes of objects on the wire. Source: docs/reference/rest.md § 2.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use steward_compiler::{ServicesInput, Variables};

use crate::domain::{
    ActionKind, CompileState, ResourceId, ResourceStatus, Settings, Timestamp, VersionNumber,
    without_middle,
};
use crate::store::{
    Action, Compile, DryRun, Environment, ServiceRequest, Stage, StoredResource, Version,
};

pub(super) fn timestamp(timestamp: Timestamp) -> Value {
    json!(timestamp.to_string())
}

fn maybe(moment: Option<Timestamp>) -> Value {
    moment.map_or(Value::Null, timestamp)
}

/// `failure`: why it does not run, or why its repository cannot be fetched.
pub(super) fn environment(
    environment: &Environment,
    settings: &Settings,
    failure: Option<String>,
) -> Value {
    json!({
        "id": environment.id,
        "name": environment.name,
        "project_id": environment.project_id,
        "repo_url": environment.repo_url,
        "repo_branch": environment.repo_branch,
        "settings": settings.effective(),
        "halted": environment.halted,
        "is_marked_for_deletion": false,
        "description": environment.description,
        "icon": environment.icon,
        // Beyond the reference:
        "failure": failure,
    })
}

/// The environment without what lists leave out: its texts may be long.
pub(super) fn without_details(mut environment: Value) -> Value {
    for field in ["description", "icon"] {
        environment[field] = Value::String(String::new());
    }
    environment
}

pub(super) fn compile(compile: &Compile) -> Value {
    let success = match compile.state {
        CompileState::Queued | CompileState::Running => Value::Null,
        CompileState::Exported | CompileState::Compiled => json!(true),
        CompileState::Rejected | CompileState::Aborted => json!(false),
    };
    let services = compile.services.as_ref();
    let removed: &[String] = services.map_or(&[], |of| &of.removed_sets);
    let (requested, mergeable) = service_variables(services);
    let mut requested_variables = compile.variables.clone();
    requested_variables.extend(requested);
    let mut all_variables = requested_variables.clone();
    all_variables.extend(mergeable.clone());
    json!({
        "id": compile.id,
        // Whoever asked without a name for it knows it by its id.
        "remote_id": compile.remote_id.clone().unwrap_or_else(|| compile.id.to_string()),
        "environment": compile.environment_id,
        "requested": timestamp(compile.requested),
        "started": maybe(compile.started),
        "completed": maybe(compile.completed),
        "success": success,
        "version": compile.version,
        "do_export": compile.do_export,
        "force_update": compile.update,
        "metadata": compile.metadata,
        "environment_variables": all_variables,
        "requested_environment_variables": requested_variables,
        "mergeable_environment_variables": mergeable,
        "partial": services.is_some_and(|of| of.is_partial),
        "removed_resource_sets": removed,
        "exporter_plugin": null,
        "notify_failed_compile": null,
        "failed_compile_message": null,
        "substitute_compile_id": compile.substitute,
        "links": {},
        // Beyond the reference:
        "commit": compile.commit_id,
        "state": compile.state.as_str(),
        "failure": compile.reason,
    })
}

/// What models and their Python code know of the purpose of a compile: the variables in which requests must be equal to be
/// merged, and those whose values are joined. Source: docs/reference/lsm.md § 3.8.
fn service_variables(services: Option<&ServiceRequest>) -> (Variables, Variables) {
    let Some(services) = services else {
        return Default::default();
    };
    let input = ServicesInput {
        purpose: services.purpose.clone(),
        requested: services.is_partial.then(|| services.instances.clone()),
        ..ServicesInput::default()
    };
    let is_joined = |name: &String| name == "inmanta_instance_id" && !services.is_validation();
    let (mut joined, requested): (Variables, Variables) = input
        .variables()
        .into_iter()
        .partition(|(name, _)| is_joined(name));
    if !services.removed_sets.is_empty() {
        let name = "INMANTA_REMOVED_RESOURCE_SET_ID".to_owned();
        joined.insert(name, services.removed_sets.join(" "));
    }
    (requested, joined)
}

/// A compile of the queue, which has no data yet.
pub(super) fn queued_compile(record: &Compile) -> Value {
    let mut queued = compile(record);
    queued["compile_data"] = Value::Null;
    queued
}

/// A compile with its stages and its data.
pub(super) fn compile_details(record: &Compile, stages: &[Stage]) -> Value {
    let mut details = compile(record);
    let diagnostics = record.diagnostics.as_array();
    let errors = diagnostics
        .into_iter()
        .flatten()
        .filter(|diagnostic| diagnostic["severity"] == "error");
    let errors: Vec<Value> = errors.map(compile_error).collect();
    // What never came to a verdict on the model has nothing to say of it.
    let is_judged =
        record.completed.is_some() && (record.state != CompileState::Aborted || !errors.is_empty());
    details["compile_data"] = if is_judged {
        json!({"errors": errors})
    } else {
        Value::Null
    };
    details["diagnostics"] = record.diagnostics.clone();
    details["reports"] = stages.iter().map(stage).collect();
    details
}

fn stage(stage: &Stage) -> Value {
    json!({
        "id": stage.id,
        "name": stage.name,
        "command": stage.command,
        "started": timestamp(stage.started),
        "completed": maybe(stage.completed),
        "outstream": cut(&stage.outstream),
        "errstream": cut(&stage.errstream),
        "returncode": stage.returncode,
    })
}

/// Bytes of what a stage of a compile wrote. There are a few stages in a report.
const MAX_STREAM_BYTES: usize = 4 << 20;

fn cut(text: &str) -> Cow<'_, str> {
    without_middle(text, MAX_STREAM_BYTES)
}

/// A diagnostic of the compile contract as an error of the compile data (docs/reference/language.md § 9.6): 0-based.
fn compile_error(diagnostic: &Value) -> Value {
    let kind = diagnostic["kind"].as_str().unwrap_or("CompilerException");
    let (category, module) = match kind {
        "ParserException" | "InvalidNamespaceAccess" => ("parse_error", "inmanta.parser"),
        "ModuleLoadingException" | "InvalidMetadata" => ("runtime_error", "inmanta.module"),
        "IndexCollisionException" | "IndexAttributeMissingInConstructorException" => {
            ("runtime_error", "inmanta.ast.statements.generator")
        }
        _ => ("runtime_error", "inmanta.ast"),
    };
    let own = explicit(diagnostic, kind);
    let number = |name: &str| diagnostic[name].as_i64();
    let location = match (diagnostic["file"].as_str(), number("line")) {
        (Some(file), Some(line)) => {
            let (start, end) = match (number("column"), number("end_line"), number("end_column")) {
                (Some(column), Some(end_line), Some(end_column)) => {
                    ((line, column), (end_line, end_column))
                }
                _ => ((line, 1), (line + 1, 1)),
            };
            let point =
                |(line, column): (i64, i64)| json!({"line": line - 1, "character": column - 1});
            json!({"uri": file, "range": {"start": point(start), "end": point(end)}})
        }
        _ => Value::Null,
    };
    let (category, type_name, message) = match own {
        Some((type_name, message)) => ("plugin_exception", type_name.to_owned(), message),
        None => {
            let message = diagnostic["message"].as_str().unwrap_or_default();
            (category, format!("{module}.{kind}"), message)
        }
    };
    json!({
        "category": category,
        "type": type_name,
        "message": message,
        "location": location,
    })
}

/// Class and text of what a plugin raised on purpose, without the line that says where.
fn explicit<'a>(diagnostic: &'a Value, kind: &str) -> Option<(&'a str, &'a str)> {
    if kind != "ExplicitPluginException" {
        return None;
    }
    let message = diagnostic["message"].as_str().unwrap_or_default();
    let own = message.split_once('\n').map_or(message, |(_, own)| own);
    // Compiles of before did not say what was raised.
    let raised = diagnostic["raised"].as_str();
    Some((raised.unwrap_or("inmanta.ast.PluginException"), own))
}

/// Source: docs/reference/deployment.md § 2.5.
pub(super) fn version_status(
    number: VersionNumber,
    is_released: bool,
    active: Option<VersionNumber>,
) -> &'static str {
    match active {
        Some(active) if number == active => "active",
        Some(active) if number < active && is_released => "retired",
        Some(active) if number < active => "skipped_candidate",
        _ => "candidate",
    }
}

/// What says of a version where it comes from, if its metadata name it and have a message.
fn labels(metadata: &Value) -> Value {
    let text = |name: &str| metadata[name].as_str().filter(|text| !text.is_empty());
    match (text("type"), text("message")) {
        (Some(name), Some(message)) => json!([{"name": name, "message": message}]),
        _ => json!([]),
    }
}

pub(super) fn version(version: &Version, active: Option<VersionNumber>) -> Value {
    let status = version_status(version.number, version.released.is_some(), active);
    json!({
        "version": version.number,
        "date": timestamp(version.created),
        "total": version.n_resources,
        "labels": labels(&version.metadata),
        "status": status,
        "released": version.released.is_some(),
        "commit": version.commit_id,
        "compile_id": version.compile_id,
        "metadata": version.metadata,
    })
}

pub(super) fn id_details(id: &ResourceId) -> Value {
    match ResourceId::parse(id.as_str()) {
        Some(id) => json!({
            "resource_type": id.resource_type(),
            "agent": id.agent(),
            "attribute": id.attribute(),
            "resource_id_value": id.value(),
        }),
        None => Value::Null,
    }
}

pub(super) fn versioned_resource(resource: &StoredResource, version: VersionNumber) -> Value {
    json!({
        "resource_id": resource.resource_id,
        "resource_version_id": format!("{},v={version}", resource.resource_id),
        "id_details": id_details(&resource.resource_id),
        "requires": resource.requires,
    })
}

/// All fields of a resource, `requires` among them.
pub(super) fn attributes(resource: &StoredResource) -> Map<String, Value> {
    let mut attributes: Map<String, Value> =
        serde_json::from_str(&resource.attributes).unwrap_or_default();
    attributes.insert("requires".to_owned(), json!(resource.requires));
    attributes
}

/// An action. `stored`: the resources that it brought, if it has stored a version.
pub(super) fn action(environment: Value, action: &Action, stored: &[ResourceId]) -> Value {
    let with_version = |id: &ResourceId| format!("{id},v={}", action.version);
    let rvid = with_version(&action.resource_id);
    let ids: Vec<String> = if action.resource_id.as_str().is_empty() {
        stored.iter().map(with_version).collect()
    } else {
        vec![rvid.clone()]
    };
    let is_unchanged = action.changes.as_object().is_none_or(Map::is_empty);
    let changes = if action.resource_id.as_str().is_empty() || is_unchanged {
        Value::Null
    } else {
        json!({rvid: action.changes})
    };
    json!({
        "environment": environment,
        "version": action.version,
        "resource_version_ids": ids,
        "action_id": action.id,
        "action": action.action,
        "started": timestamp(action.started),
        "finished": maybe(action.finished),
        "messages": messages(action).collect::<Vec<_>>(),
        "status": action_status(action),
        "changes": changes,
        // A dry run changes nothing, and does not say so of each resource.
        "change": action.change.filter(|_| action.action != ActionKind::DryRun),
        "send_event": null,
    })
}

/// What the resource became by an action; while it is deployed, that.
fn action_status(action: &Action) -> Option<ResourceStatus> {
    let is_running = action.action == ActionKind::Deploy && action.finished.is_none();
    action
        .status
        .or_else(|| is_running.then_some(ResourceStatus::Deploying))
}

/// The log lines of an action, in order.
pub(super) fn messages(action: &Action) -> impl Iterator<Item = Value> + '_ {
    action.messages.as_array().into_iter().flatten().map(|line| {
        json!({
            "level": line["level"],
            "msg": line["msg"],
            "args": line["args"],
            "kwargs": line["kwargs"],
            "timestamp": timestamp(Timestamp(line["timestamp_us"].as_i64().unwrap_or_default())),
            "action_id": action.id,
            "action": action.action,
        })
    })
}

pub(super) fn dry_run(environment: Value, dry_run: &DryRun) -> Value {
    json!({
        "id": dry_run.id,
        "environment": environment,
        "model": dry_run.version,
        "date": timestamp(dry_run.requested),
        "total": dry_run.total,
        "todo": dry_run.todo,
        "resource_filter": dry_run.note.resource_filter,
        "context": dry_run.note.context,
    })
}

/// One attribute of a difference, with texts for a line diff. Source: docs/reference/deployment.md § 2.8.
pub(super) fn attribute_diff(from: &Value, to: &Value) -> Value {
    json!({
        "from_value": from,
        "to_value": to,
        "from_value_compare": compare_text(from),
        "to_value_compare": compare_text(to),
    })
}

fn compare_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(_) | Value::Object(_) => indented(&sorted(value)),
    }
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut names: Vec<&String> = object.keys().collect();
            names.sort_unstable();
            names
                .into_iter()
                .map(|name| (name.clone(), sorted(&object[name])))
                .collect::<Map<_, _>>()
                .into()
        }
        Value::Array(values) => values.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

fn indented(value: &Value) -> String {
    use serde::Serialize;
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8_lossy(&text).into_owned(),
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_STREAM_BYTES, cut, labels};
    use serde_json::json;

    #[test]
    fn a_version_has_a_label_only_if_its_metadata_name_one_and_have_a_message() {
        let label = json!([{"name": "manual", "message": "one"}]);
        for (metadata, expected) in [
            (json!({"type": "manual", "message": "one"}), label),
            (json!({}), json!([])),
            (json!({"type": "manual"}), json!([])),
            (json!({"type": "", "message": "one"}), json!([])),
        ] {
            assert_eq!(labels(&metadata), expected, "{metadata}");
        }
    }

    /// Input: a compile that wrote 9 MB (docs/reference/security.md § 4.20). Answer: its report has the begin and the end, with a mark between them.
    #[test]
    fn what_a_stage_wrote_is_cut_with_a_mark() {
        assert_eq!(cut("short"), "short");
        let text = format!("begin{}end", "ü".repeat(MAX_STREAM_BYTES));
        let shown = cut(&text);
        assert!(shown.len() < MAX_STREAM_BYTES + 100);
        assert!(shown.starts_with("begin") && shown.ends_with("end"));
        assert!(shown.contains(" bytes were left out here"));
    }
}
