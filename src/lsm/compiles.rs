//! What compiles get of services, and what they leave. Source: docs/reference/lsm.md § 2.10, § 3.7, § 5.11.

use serde_json::{Value, json};
use steward_compiler::{
    AttributeSet, ServiceEdit, ServicePurpose, ServiceWrite, ServicesInput, ServicesOutput,
};
use steward_lsm::definition::SetName;
use steward_lsm::lifecycle::{Edge, Edit, EditOperation, EventType, Request, Trigger};
use uuid::Uuid;

use super::Services;
use crate::domain::{EnvironmentId, FactSource, Timestamp};
use crate::store::{self, Cause, Compile, Fact};

/// An edit as a compile has it.
fn edit((number, edit): (usize, &ServiceEdit)) -> Edit {
    Edit {
        edit_id: number.to_string(),
        operation: EditOperation::Replace,
        target: edit.target.clone(),
        value: edit.value.clone(),
    }
}

/// What the metadata of a validation remember of what it was asked for.
pub(super) fn validated(metadata: &Value) -> Option<(Uuid, u64, Edge, EventType, Uuid)> {
    let id = |name: &str| metadata[name].as_str()?.parse::<Uuid>().ok();
    let edge = serde_json::from_value(metadata["edge"].clone()).ok()?;
    let cause = EventType::parse(metadata["event_type"].as_str()?)?;
    let version = metadata["from_instance_version"].as_u64()?;
    let correlation = id("event_correlation_id")?;
    Some((id("instance_id")?, version, edge, cause, correlation))
}

impl Services {
    /// What a compile for this purpose sees. `requested`: the instances that a partial compile is for.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn input(
        &self,
        environment: EnvironmentId,
        purpose: ServicePurpose,
        requested: Option<Vec<String>>,
    ) -> store::Result<ServicesInput> {
        self.store
            .services_input(environment, purpose, requested)
            .await
    }

    /// Takes what a compile leaves: first what it allocated, since that is allocated whether or not the model was good, then
    /// its definitions. Gives what people should know of the latter: values that were removed, services that the model has no
    /// more.
    ///
    /// # Errors
    /// [`store::Error::Refused`] and [`store::Error::Conflict`]: the compile has failed for this reason.
    pub async fn apply_output(
        &self,
        environment: EnvironmentId,
        compile: Uuid,
        output: &ServicesOutput,
    ) -> store::Result<Vec<String>> {
        for write in &output.writes {
            match write {
                ServiceWrite::Attributes {
                    service_entity,
                    instance,
                    current_version,
                    set,
                    edits,
                } => {
                    let id = instance.parse::<Uuid>().map_err(|_| {
                        store::Error::Refused(format!("`{instance}` is no id of an instance"))
                    })?;
                    let cause = Cause {
                        instance: id,
                        entity: Some(service_entity.clone()),
                        // Without it, there is no end of the compile either.
                        is_repeatable: true,
                        ..Cause::default()
                    };
                    let trigger = Trigger::Wrote {
                        set: match set {
                            AttributeSet::Candidate => SetName::Candidate,
                            AttributeSet::Active => SetName::Active,
                        },
                        edits: edits.iter().enumerate().map(edit).collect(),
                    };
                    let request = Request {
                        trigger,
                        current_version: Some(*current_version),
                        correlation_id: compile,
                    };
                    self.change(environment, &cause, &request).await?;
                }
                ServiceWrite::SuggestedValues { name, values } => {
                    self.suggest(environment, name, values).await?;
                }
            }
        }
        let Some(definitions) = &output.definitions else {
            return Ok(Vec::new());
        };
        self.model_apply(environment, definitions).await
    }

    /// Sets a parameter with values that user interfaces suggest.
    async fn suggest(
        &self,
        environment: EnvironmentId,
        name: &str,
        values: &[Value],
    ) -> store::Result<()> {
        let parameter = Fact {
            resource_id: None,
            name: name.to_owned(),
            value: "metadata".to_owned(),
            source: FactSource::Plugin,
            metadata: json!({"values": values}),
            expires: false,
            updated: Timestamp::now(),
        };
        self.store
            .fact_set(environment, &parameter)
            .await
            .map(|_| ())
    }

    /// Takes note of the end of a compile that services asked for. Doing so twice is harmless: what has moved on by then takes
    /// no notice.
    ///
    /// # Errors
    /// The store does not answer; ask again.
    pub async fn compile_finished(
        &self,
        environment: EnvironmentId,
        compile: &Compile,
        succeeded: bool,
    ) -> store::Result<()> {
        let is_validation = compile
            .services
            .as_ref()
            .is_some_and(store::ServiceRequest::is_validation);
        if !is_validation {
            return Ok(());
        }
        let Some((instance, version, edge, cause, correlation_id)) = validated(&compile.metadata)
        else {
            tracing::warn!(environment.id = %environment, compile.id = %compile.id, "the compile {} does not say what it validates", compile.id);
            return Ok(());
        };
        let request = Request {
            trigger: Trigger::Validated {
                edge,
                cause,
                version,
                succeeded,
                compile: compile.id.uuid(),
            },
            current_version: None,
            correlation_id,
        };
        let cause = Cause {
            instance,
            is_repeatable: true,
            ..Cause::default()
        };
        match self.change(environment, &cause, &request).await {
            // An expert removed it in between.
            Err(store::Error::NotFound(_)) => Ok(()),
            result => result.map(|_| ()),
        }
    }
}
