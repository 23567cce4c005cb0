//! The frames between Steward's processes and a Python host.
//!
//! A frame is a 32-bit big-endian length followed by that many bytes of MessagePack. The body is one
//! [`ToHost`] or [`FromHost`], encoded as serde's externally tagged form with named fields: a map of one
//! entry, `{"call": {"id": 1, ...}}`; a variant without fields is the bare string of its name. The same
//! enums are the schema the Python side is checked against by a test. Calls of plugins and their results are many, and
//! names are what takes longest to read in Python: these two travel as arrays of their fields in order,
//! `{"call": [1, ...]}`, or in a format of their own, several calls in one frame ([`calls`]).
//!
//! Model values travel as MessagePack values ([`rmpv::Value`]): null, bool, int, float, str, array, map with
//! string keys, and these extension types:
//!
//! | type | payload | meaning |
//! |---|---|---|
//! | 1 | decimal digits, ASCII | an integer that does not fit 64 bits |
//! | 2 | empty | Unknown |
//! | 3 | u32 instance id, then the full entity name (UTF-8) | an instance of the model; attributes by `get` |
//! | 4 | u32 id | an opaque Python object that the host keeps for this connection |
//! | 5 | array of object id, entity name, map of fields, whether it is a reference to one; from us: object id, u32 instance id, entity name | a dataclass of Python and the instance that it is paired with |
//! | 6 | from Python: array of object id, kind, class, type, text or nil, repr or nil, id of the first object that it equals, or of our number alone; from us: array of object id, or of our number, kind and map of arguments | a reference |
//!
//! A connection starts with the host's `hello`. It is synchronous: one request of ours at a time, where the calls of one
//! frame are requests one after the other: the first that fails ends the frame, and there are no answers to those behind
//! it. While a `call` or `map` is open the host may ask (`get`, `lookup`, `entity`, …; we answer with `got`, `entity_info`, …) and send
//! `log` (no answer) before its own answer.

pub mod calls;
mod depth;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, Serializer, de::DeserializeOwned};

/// The version of this schema; both sides refuse another one.
pub const VERSION: u32 = 1;

/// No frame may be larger: 256 MiB.
pub const MAX_FRAME_BYTES: u32 = 256 << 20;

/// The extension type of an integer that does not fit 64 bits: its decimal digits.
pub const EXT_BIGINT: i8 = 1;
/// The extension type of Unknown.
pub const EXT_UNKNOWN: i8 = 2;
/// The extension type of an instance of the model: its number in order of creation (32 bits), then
/// the full name of its entity.
pub const EXT_INSTANCE: i8 = 3;
/// The extension type of an object that only Python has: its number (32 bits), which the host gave
/// it.
pub const EXT_OPAQUE: i8 = 4;
/// The extension type of a dataclass of Python, see the table above.
pub const EXT_DATACLASS: i8 = 5;
/// The extension type of a reference, see the table above.
pub const EXT_REFERENCE: i8 = 6;
/// A text that is more than a text in Python, such as a member of an enumeration: `[opaque id, text]`. It goes back as
/// `EXT_OPAQUE`.
pub const EXT_TEXT: i8 = 8;

/// One module of the project whose Python code the host must be able to import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PythonModule {
    /// Name of the inmanta module, `net`.
    pub name: String,
    /// Its root directory; the templates and files directories are below it.
    pub root: String,
    /// Every Python file: dotted import name (`inmanta_plugins.net.ip`), absolute path, whether it is a package's
    /// `__init__.py`. Parents come before children.
    pub files: Vec<PythonFile>,
}

/// One Python file of a module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PythonFile {
    /// The dotted name that it is imported by, `inmanta_plugins.net.ip`.
    pub module: String,
    /// Its absolute path.
    pub path: String,
    /// Whether it is the `__init__.py` of a package.
    pub package: bool,
}

/// What Steward says to a Python host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHost {
    /// First message of a compile: make the modules importable and import them, in this order.
    /// Answer: `loaded` or `load_failed`.
    LoadCompile {
        /// The modules to import, in load order.
        modules: Vec<PythonModule>,
        /// The absolute path of the project.
        project_dir: String,
        /// What `std::get_env` and `os.environ` of the host see; nothing else is in its environment.
        env: BTreeMap<String, String>,
        /// The environment's id, if there is one.
        environment_id: Option<String>,
        /// [`crate::Inputs`]: what plugins get from the API client of a compile.
        #[serde(default)]
        inputs: serde_json::Value,
        /// Let each compile have a fork of this process: `stop` ends the fork, and the next one waits for `again`.
        #[serde(default)]
        keep: bool,
    },
    /// First message of another compile with the same modules. No answer.
    Again {
        /// [`crate::Inputs`] of this compile.
        inputs: serde_json::Value,
    },
    /// First message of an executor: as above for handlers. A module that cannot be imported does not stop the
    /// others. Answer: `handlers`.
    LoadExecutor {
        /// The modules with handlers, each file with its path in the executor's code folder.
        modules: Vec<PythonModule>,
        /// The environment's id.
        environment_id: String,
        /// The name of the agent whose resources are deployed.
        agent: String,
        /// The directory of the file store, each content under `ab/` and its SHA-1 `ab…`.
        files: Option<String>,
    },
    /// Calls a plugin. Answer: `result`, `failed`, `unset`. The value of one that emits statements is a list: what it
    /// returned, and the result that it set. Only for hosts that do not read [`calls`].
    #[serde(serialize_with = "in_order")]
    Call {
        /// The number of this call; its answer has the same.
        id: u64,
        /// Full name, `net::ip::f`.
        plugin: String,
        /// Values of positional arguments.
        args: Vec<rmpv::Value>,
        /// Keyword arguments, in the order of the call.
        kwargs: Vec<(String, rmpv::Value)>,
        /// The file of the calling statement, as diagnostics name it.
        file: String,
        /// The line of the calling statement, from 1; 0: it is not known.
        line: u32,
        /// Namespace of the calling statement.
        namespace: String,
    },
    /// Before the first `map` of an export: modules may have registered or changed something since they were loaded.
    /// Answer: `export_begun`, or `failed` if a class is not valid.
    BeginExport {
        /// The number of this request; its answer has the same.
        id: u64,
    },
    /// Makes the id of an instance's resource, or the value of the id attribute, if asked to; then runs `get_<field>`
    /// getters of its class, in order. Answer: `mapped`, `ignored`, `failed`, `unset`; `result` if something of the id is
    /// Unknown.
    Map {
        /// The number of this request; its answer has the same.
        id: u64,
        /// Index into `loaded.resources`.
        class: u32,
        /// The instance that is exported.
        instance: rmpv::Value,
        /// What of the id is asked for.
        identify: Identify,
        /// The names of the fields to compute, in order.
        fields: Vec<String>,
    },
    /// Answer to `get`.
    Got {
        /// The value, or why there is none.
        outcome: Got,
    },
    /// Answer to `entity`.
    EntityInfo {
        /// Its full name; empty: there is no such entity.
        name: String,
        /// Its attributes, inherited ones included.
        attributes: Vec<AttributeInfo>,
        /// All ancestors, nearest first.
        parents: Vec<String>,
        /// The attributes of its indexes, inherited ones included.
        indices: Vec<Vec<String>>,
    },
    /// Answer to `typedef`: what it is made of, `string[]?`; nothing: there is no typedef of that name.
    TypedefInfo {
        /// The text of its base type; `None`: there is no such typedef.
        base: Option<String>,
    },
    /// Answer to `entities`: the full names of all, in the order of their definitions.
    EntityNames {
        /// Full names.
        names: Vec<String>,
    },
    /// Answer to `instances`.
    InstanceList {
        /// The instances, in order of creation.
        instances: Vec<rmpv::Value>,
    },
    /// Answer to `api`: the HTTP status and the body that the API would give.
    ApiAnswer {
        /// The HTTP status.
        code: u16,
        /// The body, as JSON.
        body: serde_json::Value,
    },
    /// Answer to `where`; no file: it is not known.
    Place {
        /// The file of the constructor, as diagnostics name it.
        file: Option<String>,
        /// The line of the constructor, from 1.
        line: u32,
    },
    /// Makes the objects of resources, runs the registered dependency managers and the configured export functions over
    /// them, and serializes them. Answer: `assembled` or `failed`.
    Assemble {
        /// The number of this request; its answer has the same.
        id: u64,
        /// The resources that Python makes objects of.
        resources: Vec<Unassembled>,
    },
    /// Asks for the exported form of a reference that Python made. Answer: `serialized` or `failed`.
    Serialize {
        /// The number of this request; its answer has the same.
        id: u64,
        /// The number of its object.
        object: u32,
    },
    /// Asks how an object is written that only Python knows. Answer: `described`.
    Describe {
        /// The number of this request; its answer has the same.
        id: u64,
        /// The number of the object.
        object: u32,
    },
    /// Asks for what getters collected besides values. Answer: `collected`.
    Collect {
        /// The number of this request; its answer has the same.
        id: u64,
    },
    /// To an attached process, when the model is complete: it may ask about it now. `export`: resources and unknown
    /// parameters, if it asked for them. Answer: `result`, whether it wants the export; else it has seen enough.
    Show {
        /// The number of this request; its answer has the same.
        id: u64,
        /// Resources and unknown parameters, as JSON; `None`: they were not asked for.
        export: Option<serde_json::Value>,
    },
    /// To an attached process: a line that the model printed, without its line feed; before the message that follows it.
    /// No answer.
    Printed {
        /// The line, without its line feed.
        line: String,
    },
    /// To an attached process, before `load_compile`: where its Python finds the module of this name. Answer: `located`.
    Locate {
        /// The name of the module in the modelling language, `net`.
        name: String,
    },
    /// The last message to an attached process: the diagnostics of the compile contract. No answer.
    Finished {
        /// Each as docs/reference/compile-contract.md has it.
        diagnostics: Vec<serde_json::Value>,
    },
    /// Runs the registered finalizers. Answer: `result`, the texts of their errors in order.
    Finalize {
        /// The number of this request; its answer has the same.
        id: u64,
    },
    /// Runs one resource through its handler. Answer: `deployed`.
    Deploy {
        /// The number of this request; its answer has the same.
        id: u64,
        /// All fields plus `requires` (list of ids) and `id` (with `,v=N`).
        resource: serde_json::Map<String, serde_json::Value>,
        /// State of each direct dependency (`deployed`, `failed`, `skipped`, `available`, `undefined`, ...).
        requires: BTreeMap<String, String>,
        /// Whether the handler only says what it would do.
        dry_run: bool,
        /// Why it runs, for the handler's log.
        reason: String,
        /// The id of the run in the history.
        action_id: String,
        /// Whether a dependency changed since the last success (for `can_reload` handlers).
        dependency_changed: bool,
    },
    /// Asks the handler of a resource for its facts. Answer: `deployed`, the facts in the outcome.
    Facts {
        /// The number of this request; its answer has the same.
        id: u64,
        /// The resource, as in `deploy`.
        resource: serde_json::Map<String, serde_json::Value>,
        /// The id of the question in the history.
        action_id: String,
    },
    /// The host ends after running the cache's delete hooks. Answer: `bye`.
    Stop,
}

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
}

/// What there is where the host has looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Got {
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

/// An exception of Python code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What the exception means to the compiler.
    pub kind: FailureKind,
    /// Class name, `ValueError`; of a plugin's own with its module.
    pub type_name: String,
    /// The text of the exception.
    pub message: String,
    /// The traceback from module code on, as Python prints it.
    pub traceback: String,
    /// The file of module code in which it was raised, if it is known.
    pub file: Option<String>,
    /// The line there, from 1.
    pub line: Option<u32>,
}

/// What an exception of Python means to a compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// `PluginException` or a subclass.
    Plugin,
    /// A compile exception (`RuntimeException` and its kin) raised by or through Python.
    Compile,
    /// Any other exception.
    External,
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
pub struct Unassembled {
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
pub struct Assembled {
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

/// What a Python host says to Steward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// The first message of a host: who it is.
    Hello {
        /// The version of the schema that it speaks; see [`VERSION`].
        protocol: u32,
        /// The version of its Python, `3.13.1`.
        python: String,
        /// The id of its process.
        pid: u32,
        /// Whether it reads frames of [`calls`].
        #[serde(default)]
        reads_calls: bool,
    },
    /// The modules of `load_compile` are imported.
    Loaded {
        /// All plugins that they declare.
        plugins: Vec<PluginInfo>,
        /// All resource classes that they declare.
        resources: Vec<ResourceClassInfo>,
        /// Texts about annotations that say less than they seem to.
        #[serde(default)]
        warnings: Vec<String>,
        /// All classes of the modules, by the name that an entity would have that is paired with one.
        #[serde(default)]
        dataclasses: Vec<DataclassInfo>,
        /// The process forks, as `keep` asks for: no module has threads of its own.
        #[serde(default)]
        forks: bool,
        /// Which module of the language imported which, in whatever way.
        #[serde(default)]
        imports: Vec<(String, String)>,
        /// Files of the project, other than the modules', that were read by the import.
        #[serde(default)]
        read: Vec<String>,
    },
    /// A module of `load_compile` can not be imported.
    LoadFailed {
        /// Name of the inmanta module.
        module: String,
        /// Dotted Python name that failed to import.
        python_module: String,
        /// Why.
        failure: Failure,
    },
    /// The modules of `load_executor` are imported, as far as they can be.
    Handlers {
        /// Resource types with a handler.
        types: Vec<String>,
        /// Types whose module failed to import, with the reason.
        broken: Vec<BrokenModule>,
    },
    /// A plugin's result, or another answer that is one value.
    Result {
        /// The number of the request.
        id: u64,
        /// The value.
        value: rmpv::Value,
    },
    /// Code of a module has raised an exception.
    Failed {
        /// The number of the request.
        id: u64,
        /// The exception.
        failure: Failure,
        /// For `map`: the field whose getter failed.
        #[serde(default)]
        field: Option<String>,
    },
    /// The code read variables that have no value yet: call again when they have.
    Unset {
        /// The number of the request.
        id: u64,
        /// (instance id, attribute); (2^32 - 1, name): a name at the call; (2^32 - 2, digits): a variable of `waits`.
        variables: Vec<(u32, String)>,
    },
    /// What `map` asked for.
    Mapped {
        /// The number of the request.
        id: u64,
        /// The fields' values, in the order asked for.
        values: Vec<rmpv::Value>,
        /// The id, if all of it was asked for.
        #[serde(default)]
        identity: Option<OwnId>,
        /// The value of the id attribute, if that was asked for.
        #[serde(default)]
        id_value: Option<rmpv::Value>,
    },
    /// The exported form of a reference.
    Serialized {
        /// The number of the request.
        id: u64,
        /// The reference's id.
        reference: String,
        /// The exported form of itself and of all references that its arguments need.
        models: Vec<serde_json::Value>,
    },
    /// How an object is written.
    Described {
        /// The number of the request.
        id: u64,
        /// By `str`.
        text: String,
        /// By `repr`.
        repr: String,
        /// The name of its class alone.
        class: String,
        /// Whether plugins get it behind a proxy.
        is_behind_proxy: bool,
    },
    /// The export may ask for resources now.
    ExportBegun {
        /// The number of the request.
        id: u64,
        /// All classes, if they are not what `loaded` said.
        resources: Option<Vec<ResourceClassInfo>>,
        /// Whether dependency managers or export functions want to see all resources.
        wants_all: bool,
    },
    /// The resources that have changed while Python had them as objects.
    Assembled {
        /// The number of the request.
        id: u64,
        /// Those resources.
        resources: Vec<Assembled>,
    },
    /// What getters have left besides values.
    Collected {
        /// The number of the request.
        id: u64,
        /// Parameters that they asked for and that are not known yet.
        unknowns: Vec<UnknownInfo>,
        /// Contents that they uploaded, by their SHA-1.
        #[serde(default)]
        files: BTreeMap<String, rmpv::Value>,
    },
    /// The resource is not exported: its class raised `IgnoreResourceException`.
    Ignored {
        /// The number of the request.
        id: u64,
        /// The text of the exception.
        reason: String,
    },
    /// Asks for an attribute of an instance. Answer: `got`.
    Get {
        /// The instance's number in order of creation.
        instance: u32,
        /// The attribute's name.
        attribute: String,
    },
    /// Asks for an entity. Answer: `entity_info`.
    Entity {
        /// Its full name.
        name: String,
    },
    /// Calls a plugin of the compiler itself. Answer: `got`.
    Native {
        /// Its full name.
        plugin: String,
        /// Values of positional arguments.
        args: Vec<rmpv::Value>,
        /// Keyword arguments, in order.
        kwargs: Vec<(String, rmpv::Value)>,
        /// The id of the resource that the first argument becomes, if its class computes it.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Which entities there are. Answer: `entity_names`.
    Entities {},
    /// All instances of an entity so far. Answer: `instance_list`.
    Instances {
        /// Its full name.
        entity: String,
    },
    /// A handler asks the server: a method of the API by its client name. Answer: `api_answer`.
    Api {
        /// The name of the client's method.
        method: String,
        /// Its arguments, by name.
        arguments: serde_json::Map<String, serde_json::Value>,
    },
    /// A typedef by its full name. Answer: `typedef_info`.
    Typedef {
        /// Its full name.
        name: String,
    },
    /// Whether a value is one of a typedef. Answer: `got`, true or the error.
    Validate {
        /// Its full name.
        typedef: String,
        /// The value to look at.
        value: rmpv::Value,
    },
    /// Asks where an instance was constructed. Answer: `place`.
    Where {
        /// The instance's number in order of creation.
        instance: u32,
    },
    /// The value of a name at the call that is open. Answer: `got`.
    Lookup {
        /// The name, as module code writes it.
        name: String,
    },
    /// A line that Python code printed, without its line feed.
    Printed {
        /// The line.
        line: String,
    },
    /// Where the packages of a module are: [`crate::LocatedPackages`].
    Located {
        /// The folders that Python looks for packages in.
        path: Vec<String>,
        /// Modules by name, each with the folder that it is in; `None`: there is none.
        modules: BTreeMap<String, Option<String>>,
    },
    /// The fork of a compile ended before its time.
    Ended {
        /// How, in words.
        status: String,
    },
    /// A line that module code logged. No answer.
    Log {
        /// `CRITICAL`, `ERROR`, `WARNING`, `INFO`, `DEBUG`, `TRACE`.
        level: String,
        /// The line.
        message: String,
    },
    /// The answer to `deploy` and `facts`.
    Deployed {
        /// The number of the request.
        id: u64,
        /// What the handler did.
        outcome: HandlerOutcome,
    },
    /// The last message of a session, after `stop`.
    Bye,
}

/// A module whose handlers can not be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokenModule {
    /// Its dotted name in Python.
    pub module: String,
    /// Why, in one line.
    pub message: String,
    /// The traceback of its import.
    pub traceback: String,
}

/// What a handler made of one resource. Source: docs/reference/deployment.md § 3.2 and § 5.6,
/// docs/reference/python.md § 5.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct HandlerOutcome {
    /// `deployed`, `failed`, `skipped`, `skipped_for_dependency`, `non_compliant`, `unavailable`, `dry`.
    pub status: String,
    /// `nochange`, `created`, `updated`, `purged`.
    pub change: String,
    /// attribute → {current, desired}
    pub changes: serde_json::Map<String, serde_json::Value>,
    /// The lines that the handler logged, in order.
    pub logs: Vec<LogLine>,
    /// The facts that it reported.
    pub facts: Vec<Fact>,
    /// What a discovery resource found. Source: docs/reference/deployment.md § 5.9.
    #[serde(default)]
    pub discovered: Vec<Discovered>,
}

/// A resource that a handler found, and what it is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovered {
    /// Its id, without version.
    pub resource_id: String,
    /// What it is like, by attribute.
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One line of a resource action's log. Source: docs/reference/deployment.md § 5.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// `CRITICAL`, `ERROR`, `WARNING`, `INFO`, `DEBUG`, `TRACE`.
    pub level: String,
    /// The template already filled in.
    pub msg: String,
    /// The arguments of the line, by name.
    pub kwargs: serde_json::Map<String, serde_json::Value>,
    /// When it was logged: microseconds since 1970, UTC.
    pub timestamp_us: i64,
}

/// One fact of a resource. Source: docs/reference/deployment.md § 5.6.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, unique for the resource.
    pub name: String,
    /// Its value, as text.
    pub value: String,
    /// Whether it has to be asked for again after some time.
    pub expires: bool,
}

/// A `call` as the array of its fields; reading takes both forms.
#[expect(clippy::too_many_arguments, reason = "the fields of a message")]
fn in_order<S: Serializer>(
    id: &u64,
    plugin: &str,
    args: &[rmpv::Value],
    kwargs: &[(String, rmpv::Value)],
    file: &str,
    line: &u32,
    namespace: &str,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (id, plugin, args, kwargs, file, line, namespace).serialize(serializer)
}

/// What is said of an entity that does not exist.
pub fn no_entity() -> ToHost {
    ToHost::EntityInfo {
        name: String::new(),
        attributes: Vec::new(),
        parents: Vec::new(),
        indices: Vec::new(),
    }
}

/// Writes one frame and flushes.
pub fn write_frame<T: Serialize>(writer: &mut impl Write, message: &T) -> io::Result<()> {
    let mut frame = vec![0; 4];
    rmp_serde::encode::write_named(&mut frame, message).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4)
        .ok()
        .filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a frame of more than 256 MiB"))?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    writer.write_all(&frame)?;
    writer.flush()
}

/// Writes one frame with a body that is there already, and flushes.
pub fn write_body(writer: &mut impl Write, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len())
        .ok()
        .filter(|&length| length <= MAX_FRAME_BYTES);
    let length = length.ok_or_else(|| io::Error::other("a frame of more than 256 MiB"))?;
    writer.write_all(&length.to_be_bytes())?;
    writer.write_all(body)?;
    writer.flush()
}

/// The same as [`read_frame`], for the host of a compile, whose results may be texts in a form of
/// their own ([`calls`]).
pub fn read_answer(reader: &mut impl Read) -> io::Result<Option<FromHost>> {
    let Some(body) = read_body(reader, MAX_FRAME_BYTES)? else {
        return Ok(None);
    };
    calls::text_result(&body)
        .unwrap_or_else(|| decode(&body))
        .map(Some)
}

/// Reads one frame; `Ok(None)` at a clean end of the stream.
pub fn read_frame<T: DeserializeOwned>(reader: &mut impl Read) -> io::Result<Option<T>> {
    read_frame_within(reader, MAX_FRAME_BYTES)
}

/// The same as [`read_frame`], for a process that may send no frame of more than `max_bytes`.
pub fn read_frame_within<T: DeserializeOwned>(
    reader: &mut impl Read,
    max_bytes: u32,
) -> io::Result<Option<T>> {
    match read_body(reader, max_bytes)? {
        Some(body) => decode(&body).map(Some),
        None => Ok(None),
    }
}

fn read_body(reader: &mut impl Read, max_bytes: u32) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match reader.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_be_bytes(length);
    if length > max_bytes {
        return Err(io::Error::other(format!(
            "a frame of {length} bytes is too large, the limit is {max_bytes}"
        )));
    }
    // Grow with what arrives rather than trust the announced length.
    let mut body = Vec::with_capacity((length as usize).min(1 << 16));
    reader
        .by_ref()
        .take(u64::from(length))
        .read_to_end(&mut body)?;
    if body.len() != length as usize {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(body))
}

/// Reads the body of a frame.
///
/// # Errors
/// It is not such a message, or nested deeper than messages are.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    depth::check(body)?;
    rmp_serde::from_slice(body).map_err(io::Error::other)
}
