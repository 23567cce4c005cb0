//! What Python asks about the model while a call is open, and the answers.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributeInfo {
    pub name: String,
    /// Type text of the model, `string[]?`, or the full name of the related entity.
    pub type_name: String,
    pub relation: bool,
    pub multi: bool,
    pub optional: bool,
    /// Of a relation.
    pub low: u32,
    /// Of a relation; `None`: any number.
    pub high: Option<u32>,
    /// Of a relation: the name of the other end, if it has one.
    pub inverse: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeValue {
    Value(rmpv::Value),
    /// Not known yet: the host raises `UnsetException`.
    Unset,
    /// Frozen without value: `OptionalValueException` with this message.
    OptionalUnset(String),
    /// The entity has no such attribute: an `AttributeError` with this message.
    NoAttribute(String),
    /// A native plugin waits for these variables.
    Waits(Vec<u32>),
    /// A native plugin has an error.
    Raised {
        type_name: String,
        message: String,
        /// It is the plugin's own, a `PluginException`.
        is_plugin: bool,
    },
}
