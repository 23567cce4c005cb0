//! What the code of modules declares: plugins, resource classes, dataclasses.

use serde::{Deserialize, Serialize};

/// A parameter or return annotation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Annotation {
    /// A type of the modelling language, resolved in the plugin's namespace: `string[]?`, `net::Interface`, `any`.
    Model(String),
    /// A value of one of these.
    Union(Vec<Annotation>),
    /// A list of such elements.
    List(Box<Annotation>),
    /// A dict with such values.
    Dict(Box<Annotation>),
    /// One of these values.
    Literal(Vec<rmpv::Value>),
    /// `Reference[T]`.
    Reference(Box<Annotation>),
    /// `None` only.
    Null,
    /// Any value.
    Any,
    /// Not usable: why. Loading reports it as the reference does.
    Bad(String),
    /// No annotation at all.
    Missing,
}

/// How an argument gets to a parameter of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// By place or by name.
    Positional,
    /// By name only.
    KeywordOnly,
    /// `*args`: all further ones by place.
    VarPositional,
    /// `**kwargs`: all further ones by name.
    VarKeyword,
}

/// One parameter of a plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// How arguments get to it.
    pub kind: ParameterKind,
    /// The type that arguments must have.
    pub annotation: Annotation,
    /// Whether it may be left out.
    pub has_default: bool,
}

/// A plugin as its module declares it. The context parameter is left out of `parameters`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginInfo {
    /// Its full name, `net::ip::f`.
    pub name: String,
    /// The absolute path of its file.
    pub file: String,
    /// The line of its `def`, if it has one decorator.
    pub line: u32,
    /// Its parameters, without that of the context.
    pub parameters: Vec<Parameter>,
    /// The type that it says to return.
    pub returns: Annotation,
    /// Whether it is called with Unknown among its arguments.
    pub allow_unknown: bool,
    /// Whether it gets the context of the call. Source: docs/reference/language.md § 10.8.
    pub takes_context: bool,
    /// Whether it sets its result itself.
    pub emits_statements: bool,
    /// Programs that it needs on the host, by `@plugin(commands=…)`.
    pub commands: Vec<String>,
    /// `None`: not deprecated; `Some(None)`: deprecated; `Some(Some(name))`: replaced by.
    pub deprecated: Option<Option<String>>,
    /// Its documentation.
    pub docstring: Option<String>,
}

/// A class that maps instances of an entity to resources. Source: docs/reference/language.md § 12.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResourceClassInfo {
    /// Full name of the entity it maps.
    pub entity: String,
    /// The attribute whose value stands in the id.
    pub id_attribute: String,
    /// Dotted path to the agent's name.
    pub agent: String,
    /// The full name of the class.
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
    /// The absolute path of its file.
    pub file: String,
    /// The line where it begins, from 1.
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
    /// Its fields, in order.
    pub fields: Vec<DataclassField>,
    /// The absolute path of its file.
    pub file: String,
    /// The line where it begins, from 1.
    pub line: u32,
    /// What it is not, but would have to be: `a dataclass`, `frozen`.
    pub problem: Option<String>,
}

/// One field of a dataclass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataclassField {
    /// Its name.
    pub name: String,
    /// Its type.
    pub annotation: Annotation,
    /// What to warn of when an entity is paired with the class: types of Python without counterpart.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One field of a resource class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldInfo {
    /// Its name.
    pub name: String,
    /// Whether the class computes it.
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

impl Identify {
    /// As it is written in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Value => "value",
            Self::Whole => "whole",
        }
    }
}
