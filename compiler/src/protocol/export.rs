//! The export of resources, as far as Python has a part in it.

use serde::{Deserialize, Serialize};

/// The id of a resource that its class made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnId {
    pub entity_type: String,
    pub agent: String,
    pub attribute: String,
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
    /// Without version.
    pub id: String,
    /// A map of its fields.
    pub attributes: rmpv::Value,
    /// Ids without version.
    pub requires: Vec<String>,
    pub instance: rmpv::Value,
}

/// What has become of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PostProcessed {
    /// Position among the resources.
    pub resource: u32,
    /// All ids that it requires now.
    pub requires: Vec<String>,
    /// A map of all that is stored of it, if that has changed.
    pub attributes: Option<rmpv::Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnknownInfo {
    pub resource: String,
    pub parameter: String,
    pub source: String,
}
