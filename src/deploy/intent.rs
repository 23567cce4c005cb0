//! The desired state of one resource, by a version.

use serde::Deserialize;

use crate::domain::{AgentName, ResourceId, Timestamp};
use crate::store::StoredResource;

/// A resource of the version in force, as the scheduler and the executor need it.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub resource_id: ResourceId,
    pub resource_type: String,
    pub agent: AgentName,
    /// The value of the attribute that its id is made of.
    pub id_value: String,
    /// All its attributes, as the text of a JSON object.
    pub attributes: String,
    /// The digest of the attributes that say what it shall be: two intents with the same hash want
    /// the same.
    pub attribute_hash: String,
    pub requires: Vec<ResourceId>,
    /// Some attribute is not known yet, so it cannot be deployed.
    pub is_undefined: bool,
    /// Its runs are events for its dependents. Missing in the attributes: false
    /// (docs/reference/deployment.md § 4.5).
    pub send_event: bool,
    /// It runs again on such events. Missing: true.
    pub receive_events: bool,
    pub created: Timestamp,
}

#[derive(Deserialize)]
struct Flags {
    #[serde(default)]
    send_event: serde_json::Value,
    #[serde(default)]
    receive_events: serde_json::Value,
}

impl From<StoredResource> for Intent {
    fn from(resource: StoredResource) -> Self {
        let flags = serde_json::from_str::<Flags>(&resource.attributes).ok();
        let flag = |value: Option<&serde_json::Value>| value.and_then(serde_json::Value::as_bool);
        Self {
            send_event: flag(flags.as_ref().map(|flags| &flags.send_event)).unwrap_or(false),
            receive_events: flag(flags.as_ref().map(|flags| &flags.receive_events)).unwrap_or(true),
            resource_id: resource.resource_id,
            resource_type: resource.resource_type,
            agent: resource.agent,
            id_value: resource.id_value,
            attributes: resource.attributes,
            attribute_hash: resource.attribute_hash,
            requires: resource.requires,
            is_undefined: resource.is_undefined,
            created: resource.created,
        }
    }
}
