//! The record of an instance as it is shown. Source: docs/reference/lsm.md § 1.7, § 5.4.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use steward_lsm::definition::{Fields, Modifier};
use steward_lsm::{Attributes, Instance};
use uuid::Uuid;

use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::app::App;
use crate::domain::{EnvironmentId, ResourceId, ResourceStatus, Timestamp, order_keys_of};
use crate::lsm::transfer_id;
use crate::store::Definition;

/// What a record shows beside what is stored with the instance.
#[derive(Debug, Default)]
pub(super) struct Extras {
    progress: Value,
    referenced_by: Option<Vec<Uuid>>,
    has_metadata: bool,
    /// Its definition, if what clients must not set is left out.
    without_read_only: Option<Arc<Definition>>,
}

/// Which of these extras a request wants.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) progress: bool,
    pub(super) referenced_by: bool,
    pub(super) metadata: bool,
    pub(super) without_read_only: bool,
}

impl Wanted {
    pub(super) fn of(args: &Args) -> Result<Self, ApiError> {
        Ok(Self {
            progress: args.flag("include_deployment_progress", false)?,
            referenced_by: args.flag("include_referenced_by", false)?,
            metadata: args.flag("include_metadata", false)?,
            without_read_only: args.flag("exclude_read_only_attributes", false)?,
        })
    }

    pub(super) async fn extras(
        self,
        app: &App,
        environment: EnvironmentId,
        instance: &Instance,
    ) -> Result<Extras, ApiError> {
        let mut extras = Extras {
            has_metadata: self.metadata,
            ..Extras::default()
        };
        if self.progress {
            extras.progress = progress(app, environment, instance).await?;
        }
        if self.referenced_by {
            let referring = app.store.service_referenced_by(environment, instance.id);
            extras.referenced_by = Some(referring.await?);
        }
        if self.without_read_only {
            let catalog = app.store.service_catalog(environment).await?;
            let (name, version) = (&instance.service_entity, instance.service_entity_version);
            extras.without_read_only = catalog.definition(name, Some(version)).cloned();
        }
        Ok(extras)
    }
}

/// A set without what only compiles set, at every level.
fn writable(fields: &Fields, set: &Attributes) -> Attributes {
    let attributes = fields.attributes.iter();
    let attributes = attributes.map(|one| (one.name.as_str(), one.modifier));
    let relations = fields.inter_service_relations.iter();
    let relations = relations.map(|one| (one.name.as_str(), one.modifier));
    let hidden: BTreeSet<&str> = attributes
        .chain(relations)
        .filter(|(_, modifier)| *modifier == Modifier::ReadOnly)
        .map(|(name, _)| name)
        .collect();
    let mut shown = Attributes::new();
    let open = set
        .iter()
        .filter(|(name, _)| !hidden.contains(name.as_str()));
    for (name, value) in open {
        let mut embedded = fields.embedded_entities.iter();
        let value = match embedded.find(|embedded| embedded.name == *name) {
            Some(embedded) if embedded.modifier == Modifier::ReadOnly => continue,
            Some(embedded) => inner(&embedded.fields, value),
            None => value.clone(),
        };
        shown.insert(name.clone(), value);
    }
    shown
}

/// As [`writable`], for the value of an embedded entity.
fn inner(fields: &Fields, value: &Value) -> Value {
    match value {
        Value::Object(element) => Value::Object(writable(fields, element)),
        Value::Array(elements) => elements.iter().map(|one| inner(fields, one)).collect(),
        other => other.clone(),
    }
}

/// The record of an instance.
pub(super) fn record(instance: &Instance, extras: &Extras) -> Value {
    let set = |set: &Option<Attributes>| {
        let Some(set) = set else { return Value::Null };
        let mut shown = match &extras.without_read_only {
            None => set.clone(),
            Some(definition) => writable(&definition.entity.fields, set),
        };
        order_keys_of(&mut shown);
        Value::Object(shown)
    };
    let nothing = BTreeMap::new();
    let metadata = if extras.has_metadata {
        &instance.metadata
    } else {
        &nothing
    };
    json!({
        "id": instance.id,
        "environment": instance.environment,
        "service_entity": instance.service_entity,
        "service_entity_version": instance.service_entity_version,
        "version": instance.version,
        "desired_state_version": instance.desired_state_version,
        "state": instance.state,
        "candidate_attributes": set(&instance.candidate_attributes),
        "active_attributes": set(&instance.active_attributes),
        "rollback_attributes": set(&instance.rollback_attributes),
        "config": instance.config,
        "created_at": Timestamp(instance.created_at.0).to_string(),
        "last_updated": Timestamp(instance.last_updated.0).to_string(),
        "callback": instance.callback,
        "deleted": instance.deleted,
        "deployment_progress": extras.progress,
        "service_identity_attribute_value": instance.service_identity_attribute_value,
        "referenced_by": extras.referenced_by,
        "transfer_context": instance.transfer_context(),
        "metadata": metadata,
    })
}

/// The resources that count for an instance, with their states; none: it is not deployed.
pub(super) async fn resources_of(
    app: &App,
    environment: EnvironmentId,
    instance: Uuid,
) -> Result<Vec<(ResourceId, ResourceStatus)>, ApiError> {
    let record = app.store.environment_fetch(environment).await?;
    let Some(version) = record.and_then(|record| record.active_version) else {
        return Ok(Vec::new());
    };
    let transfer = transfer_id(instance);
    let ids = std::slice::from_ref(&transfer);
    let requires = app.store.resource_requires(environment, version, ids);
    let requires = requires.await?.remove(&transfer).unwrap_or_default();
    let states = app.store.state_some(environment, &requires).await?;
    let states = states.into_iter();
    Ok(states
        .map(|state| (state.resource_id.clone(), state.status()))
        .collect())
}

/// How far the deployment of an instance is.
async fn progress(
    app: &App,
    environment: EnvironmentId,
    instance: &Instance,
) -> Result<Value, ApiError> {
    let states = resources_of(app, environment, instance.id).await?;
    let count = |status: ResourceStatus| states.iter().filter(|(_, one)| *one == status).count();
    let (failed, deployed) = (
        count(ResourceStatus::Failed),
        count(ResourceStatus::Deployed),
    );
    let waiting = states.len() - failed - deployed;
    Ok(json!({"total": states.len(), "failed": failed, "deployed": deployed, "waiting": waiting}))
}
