//! Why an instance is where it is: validations that failed, and deployments that failed.
//! Source: docs/reference/lsm.md § 3.13, § 5.7.

use serde_json::{Value, json};
use steward_lsm::Instance;

use super::find;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::{CompileId, CompileState, EnvironmentId, ResourceId, ResourceStatus};
use crate::lsm::{Exported, FailedRun, causes, failed_runs, transfer_id};
use crate::store::{Compile, StoredEvent};

routes! {
    Get "/lsm/v1/service_inventory/<entity>/<id>/diagnose" Environment "why an instance was rejected, or failed" => Query diagnose(entity, id);
}

/// Runs of a resource that are looked through for failures.
const MAX_RUNS: i64 = 1000;

/// The compile that an event names.
async fn compile_of(app: &App, event: &StoredEvent) -> Result<Option<Compile>, ApiError> {
    match event.event.id_compile_report.map(CompileId::from) {
        Some(id) => Ok(app.store.compile_fetch(id).await?),
        None => Ok(None),
    }
}

/// What a compile that failed says: a validation that led to an error state, or an export.
async fn failed_compile(
    app: &App,
    event: &StoredEvent,
    compile: &Compile,
) -> Result<Value, ApiError> {
    let ran = compile.substitute.unwrap_or(compile.id);
    let stages = app.store.stage_list(ran).await?;
    let details = wire::compile_details(compile, &stages);
    let errors = details["compile_data"]["errors"].as_array();
    let diagnostics = compile.diagnostics.as_array().into_iter().flatten();
    let mut of_errors = diagnostics.filter(|diagnostic| diagnostic["severity"] == "error");
    let error = |error: &Value| {
        json!({
            "type": error["type"], "message": error["message"], "category": error["category"],
            "location": error["location"], "causes": of_errors.next().map_or_else(Vec::new, causes),
        })
    };
    let errors: Vec<Value> = errors.into_iter().flatten().map(error).collect();
    let mut stages = stages.iter();
    let failed = stages.find(|stage| stage.returncode.is_some_and(|code| code != 0));
    let trace = failed.map(|stage| stage.errstream.as_str());
    Ok(json!({
        "instance_version": event.event.service_instance_version + 1,
        "model_version": compile.version,
        "compile_id": compile.id,
        "errors": errors,
        "trace": trace.or(compile.reason.as_deref()),
    }))
}

/// The compiles that events name, each with its event, in the order of the events.
async fn compiles_of<'a>(
    app: &App,
    events: &'a [StoredEvent],
) -> Result<Vec<(&'a StoredEvent, Compile)>, ApiError> {
    let mut compiles = Vec::new();
    for event in events {
        compiles.extend(
            compile_of(app, event)
                .await?
                .map(|compile| (event, compile)),
        );
    }
    Ok(compiles)
}

/// The versions of the model that were exported for versions of an instance, with the latter.
fn exported(compiles: &[(&StoredEvent, Compile)]) -> Exported {
    let version = |(event, compile): &(&StoredEvent, Compile)| {
        let version = event.event.service_instance_version + 1;
        Some((compile.version?, version))
    };
    Exported {
        versions: compiles.iter().filter_map(version).collect(),
        until: None,
    }
}

/// The exports that failed, the newest first: the instance waits in its state until a compile succeeds. And those that wait
/// for a full compile which began in the place of a partial one, which may take minutes.
async fn failed_exports(
    app: &App,
    environment: EnvironmentId,
    compiles: &[(&StoredEvent, Compile)],
) -> Result<Vec<Value>, ApiError> {
    let of_exports =
        |(_, compile): &&(&StoredEvent, Compile)| compile.do_export && !compile.is_validation();
    let mut failed = Vec::new();
    for (event, compile) in compiles.iter().rev().filter(of_exports) {
        match compile.state {
            CompileState::Rejected | CompileState::Aborted => {
                failed.push(failed_compile(app, event, compile).await?);
            }
            CompileState::Queued | CompileState::Running => {
                let of_all = app.store.compile_of_all(environment).await?;
                failed.extend(of_all.map(|(id, why)| {
                    json!({
                        "instance_version": event.event.service_instance_version + 1,
                        "model_version": null,
                        "compile_id": id,
                        "errors": [],
                        "trace": format!("the export waits: {why}"),
                    })
                }));
            }
            _ => {}
        }
    }
    Ok(failed)
}

/// The newest export, if it was one of everything: it succeeded, but the model has the service of the instance no more.
async fn export_without_service(
    app: &App,
    environment: EnvironmentId,
    instance: uuid::Uuid,
    compiles: &[(&StoredEvent, Compile)],
) -> Result<Option<Value>, ApiError> {
    let is_done = |(_, compile): &&(&StoredEvent, Compile)| compile.version.is_some();
    let Some((event, compile)) = compiles.iter().rev().find(is_done) else {
        return Ok(None);
    };
    let instances = [instance];
    let services = &app.services;
    let missing = services.missing_in_model(environment, &instances, false);
    Ok(missing.await?.map(|why| {
        json!({
            "instance_version": event.event.service_instance_version + 1,
            "model_version": compile.version,
            "compile_id": compile.id,
            "errors": [],
            "trace": why,
        })
    }))
}

/// The newest export, if the instance waits for the result of its LifecycleTransfer and the model made none: nothing would ever
/// report, and the instance would stay in its state without a word.
async fn export_without_transfer(
    app: &App,
    environment: EnvironmentId,
    instance: &Instance,
    compiles: &[(&StoredEvent, Compile)],
) -> Result<Option<Value>, ApiError> {
    let store = &app.store;
    let is_export = |(_, compile): &&(&StoredEvent, Compile)| !compile.is_validation();
    let mut newest_first = compiles.iter().rev().filter(is_export);
    let Some((event, compile, version)) =
        newest_first.find_map(|(event, compile)| Some((event, compile, compile.version?)))
    else {
        return Ok(None);
    };
    let (name, state) = (&instance.service_entity, &instance.state);
    let catalog = store.service_catalog(environment).await?;
    let definition = catalog.definition(name, Some(instance.service_entity_version));
    let mut leaving = definition
        .into_iter()
        .flat_map(|definition| definition.entity.lifecycle.leaving(state));
    if !leaving.any(|transfer| transfer.resource_based) {
        return Ok(None);
    }
    let transfer = transfer_id(instance.id);
    let deployed = store.state_fetch(environment, &transfer).await?;
    let is_deployed = deployed.is_some_and(|state| state.status() != ResourceStatus::Orphaned);
    let exported = store.resource_fetch(environment, version, &transfer);
    if is_deployed || exported.await?.is_some() {
        return Ok(None);
    }
    let why = format!(
        "the model has no lsm::LifecycleTransfer for the instance {} of {name}, so nothing will say that it is deployed, and it stays in \
         the state `{state}`. The entity must have the implementations of lsm::ServiceEntity: add `parents` to its `implement` \
         statements (`implement … using …, parents`), and push",
        instance.id
    );
    Ok(Some(json!({
        "instance_version": event.event.service_instance_version + 1,
        "model_version": version,
        "compile_id": compile.id,
        "errors": [],
        "trace": why,
    })))
}

/// What a resource said whose runs failed: a member for each message, the newest run first.
fn failures_of((resource, runs): &(ResourceId, Vec<FailedRun>)) -> Value {
    let of_run = |failed: &FailedRun| {
        let (run, version) = (&failed.run, failed.instance_version);
        let member = |message: &String| {
            json!({
                "instance_version": version,
                "model_version": run.version,
                "resource_id": format!("{resource},v={}", run.version),
                "time": run.started.to_string(),
                "message": message,
            })
        };
        failed.messages.iter().map(member).collect::<Vec<Value>>()
    };
    let failures: Vec<Value> = runs.iter().flat_map(of_run).collect();
    json!({"resource_id": resource, "failures": failures})
}

/// Why the deployment of an instance has not ended: the explanation of the resource that reports its end, from there to the
/// root. Null: it has ended, well or badly, or the instance deploys nothing.
async fn waiting_for(
    app: &App,
    environment: &EnvironmentAccess,
    transfer: &ResourceId,
) -> Result<Value, ApiError> {
    let state = app.store.state_fetch(environment.id, transfer).await?;
    let has_ended = [
        ResourceStatus::Deployed,
        ResourceStatus::Failed,
        ResourceStatus::Orphaned,
    ];
    match state {
        Some(state) if !has_ended.contains(&state.status()) => {
            let why = crate::deploy::explain(&app.store, environment, transfer).await?;
            Ok(why.unwrap_or_default())
        }
        _ => Ok(Value::Null),
    }
}

async fn diagnose(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let access = scope(&app, &args).await?;
    let environment = access.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    let version = args.parsed::<u64>("version")?.unwrap_or(instance.version);
    if version == 0 || version > instance.version {
        let what = format!("version {version} of the instance {}", instance.id);
        return Err(ApiError::not_found(what));
    }
    let lookbehind = |name: &str| -> Result<u64, ApiError> { Ok(args.parsed(name)?.unwrap_or(1)) };
    let from = |lookbehind: u64| version.saturating_sub(lookbehind).max(1);
    let rejected_from = from(lookbehind("rejection_lookbehind")?);
    let failed_from = from(lookbehind("failure_lookbehind")?);
    let store = &app.store;
    // Events have the version before the transfer.
    let led = store.service_events_of(environment, instance.id, rejected_from - 1..=version - 1);
    let led = led.await?;
    let mut rejections = Vec::new();
    let newest_first = led
        .iter()
        .rev()
        .filter(|stored| stored.event.is_error_transition && !stored.event.ignored_transition);
    for event in newest_first {
        if let Some(compile) = compile_of(&app, event).await? {
            rejections.push(failed_compile(&app, event, &compile).await?);
        }
    }
    // The compile for a version is asked for by the transfer that leads to it.
    let events = store.service_events_of(environment, instance.id, failed_from - 1..=version - 1);
    let events = events.await?;
    let compiles = compiles_of(&app, &events).await?;
    let mut exports = failed_exports(&app, environment, &compiles).await?;
    if version == instance.version {
        let missing = export_without_service(&app, environment, instance.id, &compiles).await?;
        let missing = match missing {
            None => export_without_transfer(&app, environment, &instance, &compiles).await?,
            missing => missing,
        };
        exports.extend(missing);
    }
    let mut exported = exported(&compiles);
    let later = store.service_events_of(environment, instance.id, version..=instance.version);
    let later = later.await?;
    let later = compiles_of(&app, &later).await?;
    let newest = exported.versions.keys().next_back();
    exported.until = later
        .iter()
        .filter_map(|(_, compile)| compile.version)
        .find(|later| newest.is_none_or(|newest| later > newest));
    let transfer = transfer_id(instance.id);
    let failed = failed_runs(store, environment, instance.id, &exported, MAX_RUNS).await?;
    let failures: Vec<Value> = failed.iter().map(failures_of).collect();
    let waiting = match version == instance.version && !instance.deleted {
        true => waiting_for(&app, &access, &transfer).await?,
        false => Value::Null,
    };
    Ok(Answer::Data(
        json!({"rejections": rejections, "exports": exports, "failures": failures, "waiting": waiting}),
    ))
}
