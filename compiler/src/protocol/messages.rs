//! What each side says. Who asks and who answers is written at each message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::protocol::{
    AttributeInfo, AttributeValue, ConditionInfo, DataclassInfo, Depends, Deploy, Deployed, Facts,
    Identify, LogLine, OwnId, PluginInfo, PostProcessed, ResourceClassInfo, UnknownInfo,
    Unprocessed, as_json,
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
        /// Let each compile have a fork of this process: `stop` ends the fork, and the next one waits for `rerun`.
        #[serde(default)]
        keep: bool,
        /// Note what the answer depends on, so that it can be kept.
        #[serde(default)]
        trace: bool,
        /// Say with the results of plugins that only compute what they have read, and of each plugin whether it is one of
        /// those; of these it is known. `None`: nobody wants to know.
        #[serde(default)]
        computing: Option<BTreeMap<String, bool>>,
    },
    /// First message of another compile with the same modules. No answer.
    Rerun {
        /// [`crate::Inputs`] of this compile.
        inputs: serde_json::Value,
        /// Its values of [`crate::CHANGING_VARIABLES`]; those that are missing are not set.
        env: BTreeMap<String, String>,
        /// As in `load_compile`.
        computing: Option<BTreeMap<String, bool>>,
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
    /// To an executor that has its modules, can be forked, and was given no task: it forks a host for an agent. Three open
    /// files come along with the frame, as ancillary data of the socket: the new host's end of a socket for its frames, what
    /// is its standard output and standard error, and a file with a number that is another one each time before something is
    /// read of that. Answer: `forked`.
    Fork {
        /// The name of the agent whose resources are deployed.
        agent: String,
    },
    /// To an executor that has forked hosts: one of them ends, or was ended, and its process id is needed no more. Answer:
    /// `reaped`.
    Reap {
        /// The process id of the host.
        pid: u32,
    },
    /// Calls a plugin. Answer: `result`, `failed`, `unset`. The value of one that emits statements is a list: what it
    /// returned, and the result that it set. Only for hosts that do not read [`calls`](crate::protocol::calls).
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
    /// Before the first `render_fields` of an export: modules may have registered or changed something since they were loaded.
    /// Answer: `export_begun`, or `failed` if a class is not valid.
    BeginExport {
        /// The number of this request; its answer has the same.
        id: u64,
    },
    /// Makes the id of an instance's resource, or the value of the id attribute, if asked to; then runs `get_<field>`
    /// getters of its class, in order. Answer: `fields_rendered`, `ignored`, `failed`, `unset`; `result` if something of the id is
    /// Unknown.
    RenderFields {
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
    AttributeValue {
        /// The value, or why there is none.
        outcome: AttributeValue,
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
        /// Where its name stands in its definition: file, line and column, and the line and column of the end.
        place: Option<(String, u32, u32, u32, u32)>,
        /// Its documentation.
        comment: Option<String>,
    },
    /// Answer to `services`.
    ServiceList {
        /// [`crate::ServiceAnswer`], without its name, as JSON: it may be long, and Python reads JSON a hundred times faster
        /// than frames.
        services: String,
        /// Why they can not be had.
        failure: Option<String>,
    },
    /// Answer to `typedef`: what it is made of, `string[]?`; nothing: there is no typedef of that name.
    TypedefInfo {
        /// The text of its base type; `None`: there is no such typedef.
        base: Option<String>,
        /// Its own condition; `None`: it has another form than those that are exported.
        condition: Option<ConditionInfo>,
    },
    /// Answer to `entities`: the full names of all entities, then of all typedefs, each in the order of their definitions.
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
    /// Answer to `locate`: the constructors that gave the instance, the first one first. None: they are not known.
    Place {
        /// File (as diagnostics name it) and line (from 1) of each constructor.
        places: Vec<(String, u32)>,
        /// The attributes that they name.
        given: Vec<String>,
    },
    /// Makes the objects of resources, runs the registered dependency managers and the configured export functions over
    /// them, and serializes them. Answer: `post_processed` or `failed`.
    PostProcess {
        /// The number of this request; its answer has the same.
        id: u64,
        /// The resources that Python makes objects of.
        resources: Vec<Unprocessed>,
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
    /// parameters, if it asked for them; `warnings`: those of the compile until now. Answer: `result`, whether it wants the
    /// export; else it has seen enough.
    Inspect {
        /// The number of this request; its answer has the same.
        id: u64,
        /// Resources and unknown parameters, as JSON; `None`: they were not asked for.
        export: Option<serde_json::Value>,
        /// Each as docs/reference/compile-contract.md has it; those of before again.
        warnings: Vec<serde_json::Value>,
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
    /// Runs one resource through its handler, as JSON text. Answer: `deployed`.
    Deploy(#[serde(with = "as_json")] Deploy),
    /// Asks the handler of a resource for its facts, as JSON text. Answer: `deployed`, the facts in the outcome.
    Facts(#[serde(with = "as_json")] Facts),
    /// What the run before a `deploy` or `facts` that was sent ahead has printed is read. No answer.
    GoOn,
    /// We look at answers that the host holds (`python/steward_host/held.py`): from now on it may. No answer.
    Hold,
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

/// In what a plugin has read, in the place of the number of an instance: it has read the file of this path.
pub const READ_FILE: u32 = u32::MAX;

/// What a plugin has read of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reads {
    /// It does more than compute.
    Impure,
    /// It only computes, but this call asked for what no kept answer can go by.
    Untold,
    /// All of it.
    Told {
        /// Attributes of instances, and files ([`READ_FILE`]), each once, in the order in which it read them.
        reads: Vec<(u32, String)>,
        /// The plugin may go on where an attribute has no value yet.
        catches: bool,
    },
}

/// What a Python host says to Steward.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromHost {
    /// The first message of a host: who it is.
    Hello {
        /// The version of the schema that it speaks; see [`VERSION`](crate::protocol::VERSION).
        protocol: u32,
        /// The version of its Python, `3.13.1`.
        python: String,
        /// The id of its process.
        pid: u32,
        /// Whether it reads frames of [`calls`](crate::protocol::calls).
        #[serde(default)]
        reads_calls: bool,
        /// The number of its file with answers that it holds, if it can hold any.
        #[serde(default)]
        answers: Option<u32>,
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
        /// If that was asked for: what the answer depends on besides the request. `None`: it can not be kept.
        #[serde(default)]
        depends: Option<Depends>,
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
        /// What forbids to fork hosts from this one, as the rest of a sentence: its modules started a thread, or opened a
        /// connection. `None`: nothing.
        #[serde(default)]
        no_forks: Option<String>,
    },
    /// The answer to `fork`: the host is there. It speaks over its own socket only, and begins without a `hello`.
    Forked {
        /// The id of its process, which leads a process group.
        pid: u32,
    },
    /// The answer to `reap`.
    Reaped {
        /// How the process ended, in words; none if it has not.
        status: Option<String>,
    },
    /// A plugin's result, or another answer that is one value.
    Result {
        /// The number of the request.
        id: u64,
        /// The value.
        value: rmpv::Value,
        /// It holds what only Python knows, so calls behind it in its frame were not made: what is done here until their
        /// turn may have to ask Python for it first.
        #[serde(default)]
        is_last: bool,
    },
    /// The result of a plugin of which is to be said whether it only computes. It travels in a form of its own only.
    Computed {
        /// The number of the request.
        id: u64,
        /// The value.
        value: rmpv::Value,
        /// What it has read.
        reads: Reads,
        /// What it has logged for people, each a level and a text.
        logged: Vec<(String, String)>,
    },
    /// Code of a module has raised an exception.
    Failed {
        /// The number of the request.
        id: u64,
        /// The exception.
        failure: Failure,
        /// For `render_fields`: the field whose getter failed.
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
    FieldsRendered {
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
        /// What the getters have read, if that is to be said. It travels in a form of its own only.
        #[serde(skip)]
        reads: Option<Reads>,
    },
    /// The exported form of a reference.
    Serialized {
        /// The number of the request.
        id: u64,
        /// The reference's id.
        reference: String,
        /// The exported form of itself and of all references that its arguments need.
        models: Vec<rmpv::Value>,
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
    PostProcessed {
        /// The number of the request.
        id: u64,
        /// Those resources.
        resources: Vec<PostProcessed>,
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
        /// The definitions of services in the model, as docs/reference/lsm.md § 5.3 has them; `None`: nobody looked.
        #[serde(default)]
        service_definitions: Option<serde_json::Value>,
    },
    /// The resource is not exported: its class raised `IgnoreResourceException`.
    Ignored {
        /// The number of the request.
        id: u64,
        /// The text of the exception.
        reason: String,
        /// What the getters have read for that, as with `fields_rendered`.
        #[serde(skip)]
        reads: Option<Reads>,
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
    /// Calls a plugin of the compiler itself. Answer: `attribute_value`.
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
    /// Which entities and typedefs there are. Answer: `entity_names`.
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
    /// Whether a value is one of a typedef. Answer: `attribute_value`, true or the error.
    Validate {
        /// Its full name.
        typedef: String,
        /// The value to look at.
        value: rmpv::Value,
    },
    /// Asks where an instance was constructed. Answer: `place`.
    Locate {
        /// The instance's number in order of creation.
        instance: u32,
    },
    /// The value of a name at the call that is open. Answer: `attribute_value`.
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
    /// Asks for service instances that the inputs leave out. Answer: `service_list`.
    Services {
        /// [`crate::ServiceQuestion`].
        question: serde_json::Value,
    },
    /// A write to the service inventory, for the outputs of the compile. No answer.
    WriteService {
        /// What is written: [`crate::ServiceWrite`].
        write: serde_json::Value,
    },
    /// The answer to `deploy` and `facts`, as JSON text.
    Deployed(#[serde(with = "as_json")] Deployed),
    /// What the handler of a task has logged since this was told last: told of a task that takes long, since one that never ends
    /// has no answer to tell it in. No answer.
    Logged {
        /// The number of the request.
        id: u64,
        /// The lines, in order.
        lines: Vec<LogLine>,
        /// How many lines were cut so far, in words; empty: none.
        mark: String,
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
