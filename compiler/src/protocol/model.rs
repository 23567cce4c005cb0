//! What Python asks about the model while a call is open, and the answers.

use serde::{Deserialize, Serialize};

/// An attribute of an entity, as plugins see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttributeInfo {
    /// Its name.
    pub name: String,
    /// Type text of the model, `string[]?`, or the full name of the related entity.
    pub type_name: String,
    /// Whether it is a relation.
    pub relation: bool,
    /// Whether it may have several values: a list, or a relation to more than one.
    pub multi: bool,
    /// Whether it may have none.
    pub optional: bool,
    /// The least number of elements of a relation.
    pub low: u32,
    /// The largest number of elements of a relation; `None`: any number.
    pub high: Option<u32>,
    /// The name of the other end of a relation, if it has one.
    pub inverse: Option<String>,
    /// Whether the entity has a default for it.
    pub has_default: bool,
    /// That default.
    pub default: rmpv::Value,
    /// What stands in the place of `--` where this end of a relation is written first, as far as it is evaluated.
    pub annotations: Vec<rmpv::Value>,
    /// Whether a constructor of the entity names it. Where none does, no instance was given it, and nobody need ask.
    pub given: bool,
}

/// The condition of a typedef, if it has one of the forms that are known outside of models, too. The value is `self` there.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ConditionInfo {
    /// Regular expressions that it matches from its beginning.
    pub patterns: Vec<String>,
    /// It is one of these.
    pub values: Option<Vec<rmpv::Value>>,
    /// It is above, at least, below, at most: the operator (`<`, `<=`, `>`, `>=`) and the number.
    pub bounds: Vec<(String, rmpv::Value)>,
    /// It passes `std::validate_type`: the name of the type and its parameters.
    pub validators: Vec<(String, rmpv::Value)>,
    /// One of these holds; empty: there is no such condition.
    pub either: Vec<ConditionInfo>,
}

/// What there is where the host has looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttributeValue {
    /// The value.
    Value(rmpv::Value),
    /// There is no value yet: the host raises `UnsetException`, and the call is made again later.
    Unset,
    /// The relation was declared complete without a value: `OptionalValueException` with this
    /// message.
    OptionalUnset(String),
    /// The entity has no such attribute: an `AttributeError` with this message.
    NoAttribute(String),
    /// A native plugin that Python called waits for these variables.
    Waits(Vec<u32>),
    /// A native plugin that Python called has failed.
    Raised {
        /// The class of the exception.
        type_name: String,
        /// Its message.
        message: String,
        /// Whether it is the plugin's own, a `PluginException`.
        is_plugin: bool,
    },
}
