//! What each side says. Who asks and who answers is written at each message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::protocol::{
    AttributeInfo, AttributeValue, DataclassInfo, Depends, HandlerOutcome, Identify, OwnId,
    PluginInfo, PostProcessed, ResourceClassInfo, UnknownInfo, Unprocessed,
};

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
        /// Let each compile have a fork of this process: `stop` ends the fork, and the next one waits for `rerun`.
        #[serde(default)]
        keep: bool,
        /// Note what the answer depends on, so that it can be kept.
        #[serde(default)]
        trace: bool,
    },
    /// First message of another compile with the same modules. No answer.
    Rerun { inputs: serde_json::Value },
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
    /// Before the first `render_fields` of an export: modules may have registered or changed something since they were loaded.
    /// Answer: `export_begun`, or `failed` if a class is not valid.
    BeginExport { id: u64 },
    /// Makes the id of an instance's resource, or the value of the id attribute, if asked to; then runs `get_<field>`
    /// getters of its class, in order. Answer: `fields_rendered`, `ignored`, `failed`, `unset`; `result` if something of the id is
    /// Unknown.
    RenderFields {
        id: u64,
        /// Index into `loaded.resources`.
        class: u32,
        instance: rmpv::Value,
        identify: Identify,
        fields: Vec<String>,
    },
    /// Answer to `get`.
    AttributeValue { outcome: AttributeValue },
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
    /// Answer to `locate`: the file and line of each constructor that gave the instance, the first one first. None: they are
    /// not known.
    Place { places: Vec<(String, u32)> },
    /// Makes the objects of resources, runs the registered dependency managers and the configured export functions over
    /// them, and serializes them. Answer: `post_processed` or `failed`.
    PostProcess {
        id: u64,
        resources: Vec<Unprocessed>,
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
    Inspect {
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
        /// If that was asked for: what the answer depends on besides the request. `None`: it can not be kept.
        #[serde(default)]
        depends: Option<Depends>,
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
        /// For `render_fields`: the field whose getter failed.
        #[serde(default)]
        field: Option<String>,
    },
    /// The body read variables that have no value yet: call again when they have.
    Unset {
        id: u64,
        /// (instance id, attribute); (2^32 - 1, name): a name at the call; (2^32 - 2, digits): a variable of `waits`.
        variables: Vec<(u32, String)>,
    },
    FieldsRendered {
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
    PostProcessed {
        id: u64,
        resources: Vec<PostProcessed>,
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
    /// Calls a plugin of the compiler itself. Answer: `attribute_value`.
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
    /// Whether a value is one of a typedef. Answer: `attribute_value`, true or the error.
    Validate {
        typedef: String,
        value: rmpv::Value,
    },
    /// The constructor of an instance. Answer: `place`.
    Locate {
        instance: u32,
    },
    /// The value of a name at the call that is open. Answer: `attribute_value`.
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
