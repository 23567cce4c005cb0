//! The export of resources, as far as Python has a part in it.

use serde::{Deserialize, Serialize};

/// The id of a resource that its class made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnId {
    /// The full name of the entity.
    pub entity_type: String,
    /// The name of the agent.
    pub agent: String,
    /// The name of the id attribute.
    pub attribute: String,
    /// The text of its value.
    pub value: String,
}

impl std::fmt::Display for OwnId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            entity_type,
            agent,
            attribute,
            value,
        } = self;
        write!(f, "{entity_type}[{agent},{attribute}={value}]")
    }
}

/// A resource of which Python makes an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unprocessed {
    /// Index into `loaded.resources`; none: it is Steward's own.
    pub class: Option<u32>,
    /// Its id, without version.
    pub id: String,
    /// A map of its fields.
    pub attributes: rmpv::Value,
    /// Ids of what it requires, without version.
    pub requires: Vec<String>,
    /// The instance that it was exported from.
    pub instance: rmpv::Value,
}

/// What has become of a resource that Python had as an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PostProcessed {
    /// Position among the resources.
    pub resource: u32,
    /// All ids that it requires now.
    pub requires: Vec<String>,
    /// A map of all that is stored of it, if that has changed.
    pub attributes: Option<rmpv::Value>,
}

/// A parameter that is not known yet, as a resource asked for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownInfo {
    /// The id of the resource that it is about, without version.
    pub resource: String,
    /// The name of the parameter.
    pub parameter: String,
    /// Where its value would come from; `fact`: a handler would report it.
    pub source: String,
}
