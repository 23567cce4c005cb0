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
pub const VERSION: u32 = 2;

/// No frame may be larger: 256 MiB.
pub const MAX_FRAME_BYTES: u32 = 256 << 20;

pub const EXT_BIGINT: i8 = 1;
pub const EXT_UNKNOWN: i8 = 2;
pub const EXT_INSTANCE: i8 = 3;
pub const EXT_OPAQUE: i8 = 4;
pub const EXT_DATACLASS: i8 = 5;
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PythonFile {
    pub module: String,
    pub path: String,
    pub package: bool,
}

/// What Steward says to a Python host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToHost {
    /// First message of a compile: make the modules importable and import them, in this order.
    /// Answer: `loaded` or `load_failed`.
    LoadCompile {
        modules: Vec<PythonModule>,
        project_dir: String,
        /// What `std::get_env` and `os.environ` of the host see; nothing else is in its environment.
        env: BTreeMap<String, String>,
        environment_id: Option<String>,
        /// [`crate::Inputs`]: what plugins get from the API client of a compile.
        #[serde(default)]
        inputs: serde_json::Value,
        /// Let each compile have a fork of this process: `stop` ends the fork, and the next one waits for `again`.
        #[serde(default)]
        keep: bool,
    },
    /// First message of another compile with the same modules. No answer.
    Again { inputs: serde_json::Value },
    /// First message of an executor: as above for handlers. A module that cannot be imported does not stop the
    /// others. Answer: `handlers`.
    LoadExecutor {
        modules: Vec<PythonModule>,
        environment_id: String,
        agent: String,
        /// The directory of the file store, each content under `ab/` and its SHA-1 `ab…`.
        files: Option<String>,
    },
    /// Calls a plugin. Answer: `result`, `failed`, `unset`. The value of one that emits statements is a list: what it
    /// returned, and the result that it set. Only for hosts that do not read [`calls`].
    #[serde(serialize_with = "in_order")]
    Call {
        id: u64,
        /// Full name, `net::ip::f`.
        plugin: String,
        args: Vec<rmpv::Value>,
        kwargs: Vec<(String, rmpv::Value)>,
        file: String,
        line: u32,
        /// Namespace of the calling statement.
        namespace: String,
    },
    /// Before the first `map` of an export: modules may have registered or changed something since they were loaded.
    /// Answer: `export_begun`, or `failed` if a class is not valid.
    BeginExport { id: u64 },
    /// Makes the id of an instance's resource, or the value of the id attribute, if asked to; then runs `get_<field>`
    /// getters of its class, in order. Answer: `mapped`, `ignored`, `failed`, `unset`; `result` if something of the id is
    /// Unknown.
    Map {
        id: u64,
        /// Index into `loaded.resources`.
        class: u32,
        instance: rmpv::Value,
        identify: Identify,
        fields: Vec<String>,
    },
    /// Answer to `get`.
    Got { outcome: Got },
    /// Answer to `entity`.
    EntityInfo {
        name: String,
        attributes: Vec<AttributeInfo>,
        /// All ancestors, nearest first.
        parents: Vec<String>,
        /// The attributes of its indexes, inherited ones included.
        indices: Vec<Vec<String>>,
        /// Where its name stands in its definition: file, line and column, and the line and column of the end.
        place: Option<(String, u32, u32, u32, u32)>,
        /// Its documentation.
        comment: Option<String>,
    },
    /// Answer to `typedef`: what it is made of, `string[]?`; nothing: there is no typedef of that name.
    TypedefInfo { base: Option<String> },
    /// Answer to `entities`: the full names of all, in the order of their definitions.
    EntityNames { names: Vec<String> },
    /// Answer to `instances`.
    InstanceList { instances: Vec<rmpv::Value> },
    /// Answer to `api`: the HTTP status and the body that the API would give.
    ApiAnswer { code: u16, body: serde_json::Value },
    /// Answer to `where`: the file and line of each constructor that gave the instance, the first one first. None: they are
    /// not known.
    Place { places: Vec<(String, u32)> },
    /// Makes the objects of resources, runs the registered dependency managers and the configured export functions over
    /// them, and serializes them. Answer: `assembled` or `failed`.
    Assemble {
        id: u64,
        resources: Vec<Unassembled>,
    },
    /// Asks for the exported form of a reference that Python made. Answer: `serialized` or `failed`.
    Serialize {
        id: u64,
        /// The number of its object.
        object: u32,
    },
    /// Asks how an object is written that only Python knows. Answer: `described`.
    Describe {
        id: u64,
        /// The number of the object.
        object: u32,
    },
    /// Asks for what getters collected besides values. Answer: `collected`.
    Collect { id: u64 },
    /// To an attached process, when the model is complete: it may ask about it now. `export`: resources and unknown
    /// parameters, if it asked for them. Answer: `result`, whether it wants the export; else it has seen enough.
    Show {
        id: u64,
        export: Option<serde_json::Value>,
    },
    /// To an attached process: a line that the model printed, without its line feed; before the message that follows it.
    /// No answer.
    Printed { line: String },
    /// To an attached process, before `load_compile`: where its Python finds the module of this name. Answer: `located`.
    Locate { name: String },
    /// The last message to an attached process: the diagnostics of the compile contract. No answer.
    Finished { diagnostics: Vec<serde_json::Value> },
    /// Runs the registered finalizers. Answer: `result`, the texts of their errors in order.
    Finalize { id: u64 },
    /// Runs one resource through its handler. Answer: `deployed`.
    Deploy {
        id: u64,
        /// All fields plus `requires` (list of ids) and `id` (with `,v=N`).
        resource: serde_json::Map<String, serde_json::Value>,
        /// State of each direct dependency (`deployed`, `failed`, `skipped`, `available`, `undefined`, ...).
        requires: BTreeMap<String, String>,
        dry_run: bool,
        reason: String,
        action_id: String,
        /// Whether a dependency changed since the last success (for `can_reload` handlers).
        dependency_changed: bool,
    },
    /// Asks the handler of a resource for its facts. Answer: `deployed`, the facts in the outcome.
    Facts {
        id: u64,
        /// As in `deploy`.
        resource: serde_json::Map<String, serde_json::Value>,
        action_id: String,
    },
    /// The host ends after running the cache's delete hooks. Answer: `bye`.
    Stop,
}

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
pub enum Got {
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

/// An exception of Python code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// What the exception means to the compiler.
    pub kind: FailureKind,
    /// Class name, `ValueError`; of a plugin's own with its module.
    pub type_name: String,
    pub message: String,
    /// The traceback from module code on, as Python prints it.
    pub traceback: String,
    pub file: Option<String>,
    pub line: Option<u32>,
}

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
pub struct Unassembled {
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
pub struct Assembled {
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

/// What a Python host says to Steward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    Hello {
        protocol: u32,
        python: String,
        pid: u32,
        /// It reads frames of [`calls`].
        #[serde(default)]
        reads_calls: bool,
    },
    Loaded {
        plugins: Vec<PluginInfo>,
        resources: Vec<ResourceClassInfo>,
        /// About annotations that say less than they seem to.
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
    LoadFailed {
        /// Name of the inmanta module.
        module: String,
        /// Dotted Python name that failed to import.
        python_module: String,
        failure: Failure,
    },
    Handlers {
        /// Resource types with a handler.
        types: Vec<String>,
        /// Types whose module failed to import, with the reason.
        broken: Vec<BrokenModule>,
    },
    Result {
        id: u64,
        value: rmpv::Value,
    },
    Failed {
        id: u64,
        failure: Failure,
        /// For `map`: the field whose getter failed.
        #[serde(default)]
        field: Option<String>,
    },
    /// The body read variables that have no value yet: call again when they have.
    Unset {
        id: u64,
        /// (instance id, attribute); (2^32 - 1, name): a name at the call; (2^32 - 2, digits): a variable of `waits`.
        variables: Vec<(u32, String)>,
    },
    Mapped {
        id: u64,
        /// In the order asked for.
        values: Vec<rmpv::Value>,
        /// If the whole id was asked for.
        #[serde(default)]
        identity: Option<OwnId>,
        /// If the value of the id attribute was asked for.
        #[serde(default)]
        id_value: Option<rmpv::Value>,
    },
    /// The exported form of a reference.
    Serialized {
        id: u64,
        /// Its id.
        reference: String,
        /// That of itself and of all references that its arguments need.
        models: Vec<serde_json::Value>,
    },
    Described {
        id: u64,
        /// By `str`.
        text: String,
        /// By `repr`.
        repr: String,
        /// The name of its class alone.
        class: String,
        /// Plugins get it behind a proxy.
        is_behind_proxy: bool,
    },
    ExportBegun {
        id: u64,
        /// All classes, if they are not what `loaded` said.
        resources: Option<Vec<ResourceClassInfo>>,
        /// Dependency managers or export functions want to see all resources.
        wants_all: bool,
    },
    /// The resources that have changed.
    Assembled {
        id: u64,
        resources: Vec<Assembled>,
    },
    Collected {
        id: u64,
        unknowns: Vec<UnknownInfo>,
        /// Contents of files by the SHA-1 of them.
        #[serde(default)]
        files: BTreeMap<String, rmpv::Value>,
    },
    /// `IgnoreResourceException`.
    Ignored {
        id: u64,
        reason: String,
    },
    Get {
        instance: u32,
        attribute: String,
    },
    Entity {
        name: String,
    },
    /// Calls a plugin of the compiler itself. Answer: `got`.
    Native {
        plugin: String,
        args: Vec<rmpv::Value>,
        kwargs: Vec<(String, rmpv::Value)>,
        /// The id of the resource that the first argument becomes, if its class computes it.
        #[serde(default)]
        identity: Option<String>,
    },
    /// Which entities there are. Answer: `entity_names`.
    Entities {},
    /// All instances of an entity so far. Answer: `instance_list`.
    Instances {
        entity: String,
    },
    /// A handler asks the server: a method of the API by its client name. Answer: `api_answer`.
    Api {
        method: String,
        arguments: serde_json::Map<String, serde_json::Value>,
    },
    /// A typedef by its full name. Answer: `typedef_info`.
    Typedef {
        name: String,
    },
    /// Whether a value is one of a typedef. Answer: `got`, true or the error.
    Validate {
        typedef: String,
        value: rmpv::Value,
    },
    /// The constructor of an instance. Answer: `place`.
    Where {
        instance: u32,
    },
    /// The value of a name at the call that is open. Answer: `got`.
    Lookup {
        name: String,
    },
    /// A line that Python code printed, without its line feed.
    Printed {
        line: String,
    },
    /// [`crate::LocatedPackages`].
    Located {
        path: Vec<String>,
        modules: BTreeMap<String, Option<String>>,
    },
    /// The fork of a compile ended before its time.
    Ended {
        status: String,
    },
    Log {
        level: String,
        message: String,
    },
    Deployed {
        id: u64,
        outcome: HandlerOutcome,
    },
    Bye,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BrokenModule {
    pub module: String,
    pub message: String,
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
    pub logs: Vec<LogLine>,
    pub facts: Vec<Fact>,
    /// Of a discovery resource: what exists. Source: docs/reference/deployment.md § 5.9.
    #[serde(default)]
    pub discovered: Vec<Discovered>,
}

/// A resource that a handler found, and what it is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovered {
    /// Without version.
    pub resource_id: String,
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One line of a resource action's log. Source: docs/reference/deployment.md § 5.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// `CRITICAL`, `ERROR`, `WARNING`, `INFO`, `DEBUG`, `TRACE`.
    pub level: String,
    /// The template already filled in.
    pub msg: String,
    pub kwargs: serde_json::Map<String, serde_json::Value>,
    /// UTC microseconds.
    pub timestamp_us: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
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
        place: None,
        comment: None,
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

/// As [`read_frame`], of the host of a compile, whose results may be texts in a form of their own ([`calls`]).
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

/// As [`read_frame`], of a process that may send no frame of more than `max_bytes`.
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
