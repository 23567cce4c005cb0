//! What the code of modules declares: plugins, resource classes, dataclasses.

use serde::{Deserialize, Serialize};

/// A parameter or return annotation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Annotation {
    /// A type of the modelling language, resolved in the plugin's namespace: `string[]?`, `net::Interface`, `any`.
    Model(String),
    Union(Vec<Annotation>),
    List(Box<Annotation>),
    Dict(Box<Annotation>),
    Literal(Vec<rmpv::Value>),
    /// `Reference[T]`.
    Reference(Box<Annotation>),
    Null,
    Any,
    /// Not usable: why. Loading reports it as the reference does.
    Bad(String),
    /// No annotation at all.
    Missing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    Positional,
    KeywordOnly,
    VarPositional,
    VarKeyword,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterKind,
    pub annotation: Annotation,
    pub has_default: bool,
}

/// A plugin as its module declares it. The context parameter is left out of `parameters`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginInfo {
    pub name: String,
    pub file: String,
    /// Of its `def`, if it has one decorator.
    pub line: u32,
    pub parameters: Vec<Parameter>,
    pub returns: Annotation,
    pub allow_unknown: bool,
    pub takes_context: bool,
    pub emits_statements: bool,
    pub commands: Vec<String>,
    /// `None`: not deprecated; `Some(None)`: deprecated; `Some(Some(name))`: replaced by.
    pub deprecated: Option<Option<String>>,
    pub docstring: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceClassInfo {
    /// Full name of the entity it maps.
    pub entity: String,
    pub id_attribute: String,
    /// Dotted path to the agent's name.
    pub agent: String,
    pub python_class: String,
    /// Merged over the class hierarchy, first seen order. `getter`: the class computes it (by `get_<name>` or `map`),
    /// other than by the built-in getters of the base classes.
    pub fields: Vec<FieldInfo>,
    /// What of the ids the class makes itself.
    #[serde(default)]
    pub identify: Identify,
    /// The class has its own way to make an object of the fields or to serialize it.
    #[serde(default)]
    pub assembles: bool,
    pub file: String,
    pub line: u32,
}

/// What the import of modules looked at. Absolute paths.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Depends {
    /// Files that were read, folders that were listed, and where there was nothing to read or list.
    pub read: Vec<String>,
    /// What was only asked for: whether there is something, and what it is.
    pub looked_at: Vec<String>,
}

/// A class that an entity may be paired with. Source: docs/reference/language.md § 10.7.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataclassInfo {
    /// Full name that the entity has.
    pub entity: String,
    pub fields: Vec<DataclassField>,
    pub file: String,
    pub line: u32,
    /// What it is not, but would have to be: `a dataclass`, `frozen`.
    pub problem: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataclassField {
    pub name: String,
    pub annotation: Annotation,
    /// What to warn of when an entity is paired with the class: types of Python without counterpart.
    #[serde(default)]
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldInfo {
    pub name: String,
    pub getter: bool,
}

/// What of a resource's id Python makes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identify {
    /// Nothing: it follows from the attributes.
    #[default]
    No,
    /// The value of the id attribute, which need not be a field.
    Value,
    /// All of it, by an `object_to_id` of the class.
    Whole,
}
