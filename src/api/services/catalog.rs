//! The catalog: what can be ordered. Source: docs/reference/lsm.md § 5.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use steward_compiler::{ServiceDefinitions, ServicePurpose};
use steward_lsm::definition::Label;
use uuid::Uuid;

use super::switches;
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{EnvironmentId, Timestamp, VersionNumber};
use crate::lsm::config_of;
use crate::store::{Catalog, Definition, ServiceCompile};

routes! {
    Get "/lsm/v1/service_catalog" Environment "the services, in their default versions" => Query list_services();
    Post "/lsm/v1/service_catalog" Environment "brings a service into the catalog" => Body create();
    Get "/lsm/v1/service_catalog/<entity>" Environment "a service, in its default version" => Query details(entity);
    Put "/lsm/v1/service_catalog/<entity>" Environment "changes a service" => Body update(entity);
    Delete "/lsm/v1/service_catalog/<entity>" Environment "removes a service that has no instances" => Query delete(entity);
    Get "/lsm/v1/service_catalog/<entity>/config" Environment "the switches of a service" => Query config(entity);
    Post "/lsm/v1/service_catalog/<entity>/config" Environment "sets switches of a service" => Body configure(entity);
    Post "/lsm/v1/exporter/export_service_definition" Environment "asks for a compile of the definitions" => Body export();
    Get "/lsm/v2/service_catalog" Environment "all versions of all services" => Query list_versions();
    Get "/lsm/v2/service_catalog/<entity>" Environment "all versions of a service" => Query versions_of(entity);
    Put "/lsm/v2/service_catalog/<entity>" Environment "sets the versions of a service" => Body update_versions(entity);
    Get "/lsm/v2/service_catalog/<entity>/<version>" Environment "a version of a service" => Query version_details(entity, version);
    Delete "/lsm/v2/service_catalog/<entity>/<version>" Environment "removes a version that has no instances" => Query delete_version(entity, version);
    Get "/lsm/v2/service_catalog/<entity>/<version>/config" Environment "the switches of a version" => Query version_config(entity, version);
    Post "/lsm/v2/service_catalog/<entity>/<version>/config" Environment "sets switches of a version" => Body configure_version(entity, version);
}

/// The number of a version in a path.
pub(super) fn number(version: VersionNumber) -> u64 {
    u64::try_from(version.get()).unwrap_or_default()
}

/// The services that have this one as their owner.
fn owned_by(catalog: &Catalog, name: &str) -> Vec<String> {
    let services = catalog.services().filter(|(other, _)| {
        let definition = catalog.definition(other, None);
        definition.is_some_and(|of| of.entity.owner.as_deref() == Some(name))
    });
    services.map(|(other, _)| other.to_owned()).collect()
}

/// How many instances of some versions are in each state and under each label.
fn summary(versions: &[&Arc<Definition>], counts: &[(u64, String, i64)]) -> Value {
    let labels = Label::ALL.map(Label::as_str).into_iter();
    let labels = labels.chain([Label::NONE]);
    let mut by_label: BTreeMap<&str, i64> = labels.map(|label| (label, 0)).collect();
    let mut by_state: BTreeMap<&str, i64> = BTreeMap::new();
    let mut total = 0;
    for definition in versions {
        let lifecycle = &definition.entity.lifecycle;
        for state in lifecycle.states.iter().filter(|state| !state.deleted) {
            by_state.entry(&state.name).or_default();
        }
        let version = definition.entity.version;
        for (_, state, n) in counts.iter().filter(|(of, ..)| *of == version) {
            total += n;
            *by_state.entry(state).or_default() += n;
            *by_label.entry(lifecycle.label_of(state)).or_default() += n;
        }
    }
    json!({"by_state": by_state, "by_label": by_label, "total": total})
}

/// Whose instances the summary of a definition counts.
#[derive(Debug, Clone, Copy)]
enum Counted {
    Nobodys,
    /// The record stands for the service, whatever version its instances have.
    OfService,
    OfVersion,
}

impl Counted {
    /// What is asked for; a call that names versions is answered with the numbers of each.
    fn asked(args: &Args, names_versions: bool) -> Result<Self, ApiError> {
        Ok(
            match (args.flag("instance_summary", false)?, names_versions) {
                (false, _) => Self::Nobodys,
                (true, false) => Self::OfService,
                (true, true) => Self::OfVersion,
            },
        )
    }
}

/// The record of a definition. Source: docs/reference/lsm.md § 1.2.
async fn record(
    app: &App,
    environment: EnvironmentId,
    (catalog, definition): (&Catalog, &Arc<Definition>),
    counted: Counted,
) -> Result<Value, ApiError> {
    let entity = &definition.entity;
    let mut record = json!(entity);
    record["environment"] = json!(environment);
    record["config"] = json!(config_of(catalog, &entity.name, Some(entity.version)));
    record["owned_entities"] = json!(owned_by(catalog, &entity.name));
    let versions: Vec<&Arc<Definition>> = match counted {
        Counted::Nobodys => Vec::new(),
        Counted::OfVersion => vec![definition],
        Counted::OfService => {
            let versions = catalog.versions(&entity.name).into_iter();
            versions.flat_map(BTreeMap::values).collect()
        }
    };
    record["instance_summary"] = if versions.is_empty() {
        Value::Null
    } else {
        let counts = app.store.service_state_counts(environment, &entity.name);
        summary(&versions, &counts.await?)
    };
    Ok(record)
}

fn unknown(name: &str, version: Option<u64>) -> ApiError {
    ApiError::not_found(match version {
        Some(version) => format!("version {version} of the service entity {name}"),
        None => format!("service entity {name}"),
    })
}

/// The environment, its catalog, and the definition that a path names: the default version for `None`.
pub(super) async fn find(
    app: &App,
    args: &Args,
    (name, version): (&str, Option<u64>),
) -> Result<(EnvironmentId, Arc<Catalog>, Arc<Definition>), ApiError> {
    let environment = scope(app, args).await?.id;
    let catalog = app.store.service_catalog(environment).await?;
    let definition = catalog.definition(name, version).cloned();
    let definition = definition.ok_or_else(|| unknown(name, version))?;
    Ok((environment, catalog, definition))
}

async fn one(app: &App, args: &Args, named: (&str, Option<u64>)) -> Result<Answer, ApiError> {
    let counted = Counted::asked(args, named.1.is_some())?;
    let (environment, catalog, definition) = find(app, args, named).await?;
    let record = record(app, environment, (&catalog, &definition), counted);
    Ok(Answer::Data(record.await?))
}

async fn list(app: &App, args: &Args, has_all_versions: bool) -> Result<Answer, ApiError> {
    let environment = scope(app, args).await?.id;
    let counted = Counted::asked(args, has_all_versions)?;
    let catalog = app.store.service_catalog(environment).await?;
    let mut records = Vec::new();
    for (name, versions) in catalog.services() {
        let shown: Vec<_> = if has_all_versions {
            versions.values().collect()
        } else {
            catalog.definition(name, None).into_iter().collect()
        };
        for definition in shown {
            let record = record(app, environment, (&catalog, definition), counted);
            records.push(record.await?);
        }
    }
    Ok(Answer::Data(Value::Array(records)))
}

async fn list_services(app: App, args: Args) -> Result<Answer, ApiError> {
    list(&app, &args, false).await
}

async fn list_versions(app: App, args: Args) -> Result<Answer, ApiError> {
    list(&app, &args, true).await
}

async fn details(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    one(&app, &args, (&entity.0, None)).await
}

async fn version_details(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    one(&app, &args, (&entity.0, Some(number(version)))).await
}

async fn all_versions(
    app: &App,
    environment: EnvironmentId,
    name: &str,
) -> Result<Answer, ApiError> {
    let catalog = app.store.service_catalog(environment).await?;
    let versions = catalog.versions(name).ok_or_else(|| unknown(name, None))?;
    let mut records = Vec::new();
    for definition in versions.values() {
        let record = record(app, environment, (&catalog, definition), Counted::Nobodys);
        records.push(record.await?);
    }
    let default = catalog.definition(name, None);
    let default = default.map(|definition| definition.entity.version);
    Ok(Answer::Data(
        json!({"versions": records, "default_version": default}),
    ))
}

async fn versions_of(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    all_versions(&app, environment, &entity.0).await
}

/// A definition as a client sends it.
fn given(args: &Args) -> Result<ServiceDefinitions, ApiError> {
    let record = args.value("service_entity_definition").cloned();
    let record = record
        .ok_or_else(|| ApiError::bad_request("Field 'service_entity_definition' is required"))?;
    let name = record["name"].as_str().map(str::to_owned);
    Ok(ServiceDefinitions {
        name: name.ok_or_else(|| {
            let message = "Field 'service_entity_definition' must be an object with a `name`";
            ApiError::bad_request(message)
        })?,
        default_version: record["version"].as_u64().unwrap_or_default(),
        is_versioned: false,
        versions: vec![record],
    })
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let definitions = given(&args)?;
    let name = definitions.name.clone();
    let catalog = app.store.service_catalog(environment).await?;
    if catalog.versions(&name).is_some() {
        let message = format!("there is a service entity {name} already; change it with PUT");
        return Err(ApiError::conflict(message));
    }
    let services = &app.services;
    services
        .definitions_apply(environment, &[definitions], false)
        .await?;
    one(&app, &args, (&name, None)).await
}

async fn update(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let name = entity.0;
    let (environment, _, before) = find(&app, &args, (&name, None)).await?;
    let definitions = given(&args)?;
    if name != definitions.name {
        let other = definitions.name;
        let message = format!("the definition is one of `{other}`, the path says `{name}`");
        return Err(ApiError::bad_request(message));
    }
    if before.is_versioned {
        let message =
            format!("{name} has versions: set them with PUT /lsm/v2/service_catalog/{name}");
        return Err(ApiError::bad_request(message));
    }
    let may_rewrite = !args.flag("strict", false)?;
    let services = &app.services;
    services
        .definitions_apply(environment, &[definitions], may_rewrite)
        .await?;
    one(&app, &args, (&name, None)).await
}

async fn update_versions(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let versions = args.value("service_entity_definitions");
    let versions = versions.and_then(Value::as_array);
    let versions = versions.ok_or_else(|| {
        ApiError::bad_request("Field 'service_entity_definitions' must be a list")
    })?;
    let mut others = versions.iter().map(|version| &version["name"]);
    if let Some(other) = others.find(|name| **name != entity.0.as_str()) {
        let message = format!(
            "a definition is one of {other}, the path says `{}`",
            entity.0
        );
        return Err(ApiError::bad_request(message));
    }
    let default_version = args.parsed("default_version")?;
    let definitions = ServiceDefinitions {
        name: entity.0.clone(),
        default_version: default_version
            .ok_or_else(|| ApiError::bad_request("Field 'default_version' is required"))?,
        is_versioned: true,
        versions: versions.clone(),
    };
    let services = &app.services;
    services
        .definitions_apply(environment, &[definitions], true)
        .await?;
    all_versions(&app, environment, &entity.0).await
}

async fn remove(
    app: &App,
    args: &Args,
    name: &str,
    version: Option<u64>,
) -> Result<Answer, ApiError> {
    let environment = scope(app, args).await?.id;
    app.services
        .definition_delete(environment, name, version)
        .await?;
    Ok(Answer::Empty)
}

async fn delete(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    remove(&app, &args, &entity.0, None).await
}

async fn delete_version(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    remove(&app, &args, &entity.0, Some(number(version))).await
}

async fn show_config(
    app: &App,
    args: &Args,
    (name, version): (&str, Option<u64>),
) -> Result<Answer, ApiError> {
    let (_, catalog, _) = find(app, args, (name, version)).await?;
    Ok(Answer::Data(json!(config_of(&catalog, name, version))))
}

async fn set_config(
    app: &App,
    args: &Args,
    named: (&str, Option<u64>),
) -> Result<Answer, ApiError> {
    let environment = scope(app, args).await?.id;
    let values = switches(args, "values")?;
    let config = app
        .services
        .definition_configure(environment, named, &values);
    Ok(Answer::Data(json!(config.await?)))
}

async fn config(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    show_config(&app, &args, (&entity.0, None)).await
}

async fn version_config(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    show_config(&app, &args, (&entity.0, Some(number(version)))).await
}

async fn configure(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    set_config(&app, &args, (&entity.0, None)).await
}

async fn configure_version(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    set_config(&app, &args, (&entity.0, Some(number(version)))).await
}

/// Queues a compile that brings the definitions of the model into the catalog, and exports nothing.
async fn export(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    // Nothing depends on it here; what is no switch is a mistake all the same.
    args.flag("force_update", false)?;
    let request = ServiceCompile {
        purpose: ServicePurpose::Definitions,
        instances: Vec::new(),
        removed_sets: Vec::new(),
        is_partial: false,
        correlation_id: Uuid::new_v4(),
        metadata: json!({"type": "lsm", "message": "Export of the service definitions"}),
        requested_at: Timestamp::now(),
        made_at: Timestamp(0),
    };
    let queued = app.store.compile_request_services(environment, &request);
    queued.await?;
    app.wake(environment);
    Ok(Answer::Empty)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use serde_json::json;

    use super::summary;
    use crate::store::Definition;

    //: lsm 97
    /// Given: two versions of a service whose states and labels differ, with instances of both.
    /// Expected: together they count all, each by the labels of its own version; alone, a version counts its own.
    #[test]
    fn the_summary_of_a_service_counts_the_instances_of_all_versions() {
        let definition = |version: u64, label: &str, state: &str| {
            let record = json!({"name": "s", "version": version, "attributes": [], "lifecycle": {
                "name": "l", "initial_state": "up",
                "states": [{"name": "up", "label": label}, {"name": state}, {"name": "gone", "deleted": true}],
                "transfers": [],
            }});
            Arc::new(Definition::of_record(record, BTreeMap::new(), version == 1, true).unwrap())
        };
        let (old, new) = (
            definition(0, "warning", "old"),
            definition(1, "success", "new"),
        );
        let counts = [(0, "up", 2), (0, "old", 1), (1, "up", 4)];
        let counts = counts.map(|(version, state, n)| (version, state.to_owned(), n));
        assert_eq!(
            summary(&[&old, &new], &counts),
            json!({
                "total": 7, "by_state": {"up": 6, "old": 1, "new": 0},
                "by_label": {"danger": 0, "warning": 2, "success": 4, "info": 0, "no_label": 1},
            })
        );
        let alone = summary(&[&new], &counts);
        assert_eq!(
            (&alone["total"], &alone["by_state"]),
            (&json!(4), &json!({"up": 4, "new": 0}))
        );
    }
}
