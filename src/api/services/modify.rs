//! Changes of instances: updates, deletions, states, migrations, switches and metadata.
//! Source: docs/reference/lsm.md § 5.5, § 5.6.

use serde_json::{Value, json};
use steward_lsm::Instance;
use steward_lsm::lifecycle::{Change, Edit, Migration, Request, Trigger, effective_config};
use uuid::Uuid;

use super::record::{Extras, record};
use super::{assert_version, find, instance_id, object, required_object, switches};
use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::EnvironmentId;
use crate::lsm::Migrating;
use crate::store::{Cause, Changed};

routes! {
    Patch "/lsm/v1/service_inventory/<entity>/<id>" Environment "updates attributes of an instance" => Body patch(entity, id);
    Patch "/lsm/v2/service_inventory/<entity>/<id>" Environment "edits attributes of an instance" => Body edit(entity, id);
    Put "/lsm/v1/service_inventory/<entity>/<id>" Environment "replaces the attributes of an instance" => Body put(entity, id);
    Delete "/lsm/v1/service_inventory/<entity>/<id>" Environment "deletes an instance" => Body delete(entity, id);
    Post "/lsm/v1/service_inventory/<entity>/<id>/state" Environment "asks for a state" => Body set_state(entity, id);
    Post "/lsm/v1/services/<entity>/<id>/state" Environment "asks for a state" => Body set_state(entity, id);
    Patch "/lsm/v1/service_inventory/<entity>/<id>/update_entity_version" Environment "puts an instance under another version of its definition" => Body migrate(entity, id);
    Get "/lsm/v1/service_inventory/<entity>/<id>/config" Environment "the switches of an instance" => Query config(entity, id);
    Post "/lsm/v1/service_inventory/<entity>/<id>/config" Environment "sets switches of an instance" => Body configure(entity, id);
    Get "/lsm/v1/service_inventory/<entity>/<id>/metadata/<key>" Environment "what a client keeps with an instance" => Query metadata(entity, id, key);
    Post "/lsm/v1/service_inventory/<entity>/<id>/metadata/<key>" Environment "keeps something with an instance" => Body annotate(entity, id, key);
}

/// Bytes of what a client keeps with an instance under one key.
const MAX_METADATA_BYTES: usize = 64 << 10;
/// Edits of one call. Each looks for its place in the whole set.
const MAX_EDITS: usize = 10_000;

/// Bytes of the name that a client gives an update, so that it is done once. It is part of an index, whose rows are small.
const MAX_UPDATE_ID_BYTES: usize = 1000;

/// The name that a client gives an update.
pub(super) fn update_id(args: &Args, name: &str) -> Result<String, ApiError> {
    let id = args.required(name)?;
    if id.len() > MAX_UPDATE_ID_BYTES {
        let message = format!("Field '{name}' has more than {MAX_UPDATE_ID_BYTES} bytes");
        return Err(ApiError::bad_request(message));
    }
    Ok(id)
}

/// The version that a client has seen, which it has to name.
fn current_version(args: &Args) -> Result<u64, ApiError> {
    let version = args.parsed::<u64>("current_version")?;
    version.ok_or_else(|| ApiError::bad_request("Field 'current_version' is required"))
}

/// The edits of a call.
pub(super) fn edits(args: &Args) -> Result<Vec<Edit>, ApiError> {
    let edits = args.value("edit").cloned();
    let edits = edits.ok_or_else(|| ApiError::bad_request("Field 'edit' is required"))?;
    let edits: Vec<Edit> = serde_json::from_value(edits).map_err(|error| {
        ApiError::bad_request(format!(
            "Field 'edit' must be a list of {{edit_id, operation, target, value}}: {error}"
        ))
    })?;
    if edits.len() > MAX_EDITS {
        let message = format!("a call has at most {MAX_EDITS} edits");
        return Err(ApiError::bad_request(message));
    }
    Ok(edits)
}

/// Lets something happen to the instance that a path names.
pub(super) async fn apply(
    app: &App,
    environment: EnvironmentId,
    (entity, id): (&Segment, &Segment),
    update: Option<String>,
    (trigger, current_version): (Trigger, Option<u64>),
) -> Result<Changed, ApiError> {
    let cause = Cause {
        instance: instance_id(id)?,
        entity: Some(entity.0.clone()),
        update,
        checks_relations: matches!(trigger, Trigger::Updated { .. }),
        is_repeatable: false,
    };
    let request = Request {
        trigger,
        current_version,
        correlation_id: Uuid::new_v4(),
    };
    Ok(app.services.change(environment, &cause, &request).await?)
}

fn answer(instance: &Instance) -> Answer {
    Answer::Data(record(instance, &Extras::default()))
}

async fn update(
    app: App,
    args: &Args,
    (entity, id): (Segment, Segment),
    name: Option<&str>,
    change: Change,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, args).await?.id;
    let update = name.map(|name| update_id(args, name)).transpose()?;
    let version = current_version(args)?;
    let comment = args.text("comment")?;
    let happened = (Trigger::Updated { change, comment }, Some(version));
    let changed = apply(&app, environment, (&entity, &id), update, happened).await?;
    Ok(answer(&changed.instance))
}

async fn patch(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let change = Change::Merge(required_object(&args, "attributes")?);
    update(app, &args, (entity, id), None, change).await
}

async fn edit(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let change = Change::Edits(edits(&args)?);
    update(app, &args, (entity, id), Some("patch_id"), change).await
}

async fn put(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let change = Change::Replace {
        attributes: required_object(&args, "attributes")?,
        ignore_read_only: args.flag("ignore_read_only_attributes", false)?,
    };
    update(app, &args, (entity, id), Some("put_id"), change).await
}

async fn delete(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let happened = (Trigger::Deleted, Some(current_version(&args)?));
    let changed = apply(&app, environment, (&entity, &id), None, happened).await?;
    Ok(answer(&changed.instance))
}

async fn set_state(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let trigger = Trigger::SetState {
        target: args.required("target_state")?,
        message: args.text("message")?,
    };
    let happened = (trigger, Some(current_version(&args)?));
    let changed = apply(&app, environment, (&entity, &id), None, happened).await?;
    // As it was when the call was taken: the outcome is in the log.
    let before = changed.before.as_ref();
    Ok(answer(before.unwrap_or(&changed.instance)))
}

async fn migrate(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let cause = Cause {
        instance: instance_id(&id)?,
        entity: Some(entity.0),
        update: None,
        checks_relations: true,
        is_repeatable: false,
    };
    let target_version = args.parsed("target_entity_version")?;
    let migrating = Migrating {
        current_version: Some(current_version(&args)?),
        target_version: target_version
            .ok_or_else(|| ApiError::bad_request("Field 'target_entity_version' is required"))?,
        migration: Migration {
            state: args.required("state")?,
            candidate: object(&args, "candidate_attributes")?,
            active: object(&args, "active_attributes")?,
            rollback: object(&args, "rollback_attributes")?,
        },
    };
    let migrated = app.services.migrate(environment, &cause, &migrating);
    Ok(answer(&migrated.await?.instance))
}

async fn config(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    assert_version(&args, &instance)?;
    let catalog = app.store.service_catalog(environment).await?;
    let definition = catalog.definition(&entity.0, Some(instance.service_entity_version));
    let unknown = || ApiError::not_found(format!("service entity {}", entity.0));
    let entity = &definition.ok_or_else(unknown)?.entity;
    Ok(Answer::Data(json!(effective_config(entity, &instance))))
}

async fn configure(entity: Segment, id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let values = switches(&args, "values")?;
    let happened = (
        Trigger::Configured { values },
        Some(current_version(&args)?),
    );
    let changed = apply(&app, environment, (&entity, &id), None, happened).await?;
    let config = effective_config(&changed.definition.entity, &changed.instance);
    Ok(Answer::Data(json!(config)))
}

async fn metadata(
    entity: Segment,
    id: Segment,
    key: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let instance = find(&app, environment, &entity.0, &id).await?;
    let value = instance.metadata.get(&key.0);
    let value = value.ok_or_else(|| {
        let what = format!("metadata {} of the instance {}", key.0, instance.id);
        ApiError::not_found(what)
    })?;
    Ok(Answer::Data(json!(value)))
}

async fn annotate(
    entity: Segment,
    id: Segment,
    key: Segment,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let value = match args.value("value") {
        Some(Value::String(value)) if value.len() <= MAX_METADATA_BYTES => value.clone(),
        Some(Value::String(_)) => {
            let message = format!("Field 'value' has more than {MAX_METADATA_BYTES} bytes");
            return Err(ApiError::bad_request(message));
        }
        _ => return Err(ApiError::bad_request("Field 'value' must be a text")),
    };
    let trigger = Trigger::Annotated { key: key.0, value };
    let happened = (trigger, Some(current_version(&args)?));
    apply(&app, environment, (&entity, &id), None, happened).await?;
    Ok(Answer::Empty)
}
