//! What a caller gives to a compile and gets from it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one compile is asked to do.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Build the resources (errors of the export show only then).
    pub export: bool,
    /// Build the model dump of the compile contract.
    pub dump_model: bool,
    /// How to reach Python; without it a project with Python modules is rejected with a clear diagnostic.
    pub python: PythonSource,
    /// The environment's id, as `std::environment()` gives it.
    pub environment_id: Option<String>,
    /// What the model may ask for besides the project.
    pub inputs: Inputs,
    /// The compile is one of some resource sets only.
    pub partial: Option<Partial>,
    /// Where a model that does not end is stopped.
    pub limits: Limits,
    /// Hosts of earlier compiles, with their modules imported, and of this one for later ones.
    pub hosts: Option<std::sync::Arc<crate::WarmHosts>>,
    /// What Python modules declared in earlier compiles, and for later ones: with it Python is started only when it is asked
    /// something.
    pub declarations: Option<std::sync::Arc<dyn crate::AnswerStore>>,
    /// Python code that is not done by then is stopped, and named.
    pub time_limit: Option<std::time::Duration>,
    /// Where the compile notes which place of the model it is at, for the case that its process is
    /// killed.
    pub breadcrumb: Option<std::sync::Arc<crate::Breadcrumb>>,
    /// Service instances that the inputs leave out ([`crate::ServicesInput::has_more`]).
    pub inventory: Option<std::sync::Arc<dyn crate::ServiceInventory>>,
    /// The process ends after this compile. So what it has at the end is not given back piece by piece.
    pub is_last: bool,
    /// How large models are run; the result does not depend on it. For tests.
    pub tiling: crate::Tiling,
}

impl Options {
    /// Ends the life of a large part of a compile, at its end.
    pub(crate) fn drop<T>(&self, part: T) {
        if self.is_last {
            std::mem::forget(part);
        }
    }
}

/// Which resource sets a partial compile is for. Source: docs/reference/language.md § 12.9.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Each is replaced, or removed if nothing of it is exported. Empty: those that the export has.
    pub sets: Vec<String>,
}

/// Where a model that does not end is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Rounds of the scheduler; `INMANTA_MAX_ITERATIONS` of the environment goes before. `None`: the other limits suffice
    /// (each round decides one relation, so a limit is one on the size of models).
    /// Source: docs/reference/language.md § 8.7.
    pub iterations: Option<u64>,
    /// Instances of one model.
    pub instances: usize,
    /// Instances of which each was constructed by an implementation of the one before, or in a loop over it.
    pub chain: u32,
    /// Steps of the execution, beyond 64 for each instance.
    pub steps: u64,
    /// Bytes of all texts that the model makes.
    pub text_bytes: usize,
    /// Bytes of memory that the process has, looked at while instances become many. `None`: three quarters of what it may have.
    pub memory_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        // Far beyond what models need, and reached before some gigabytes are used.
        Limits {
            iterations: None,
            instances: 10_000_000,
            chain: 100_000,
            steps: 50_000_000,
            text_bytes: 1 << 30,
            memory_bytes: None,
        }
    }
}

/// What a compile knows besides its project: facts and parameters of the environment, its services. What is missing is
/// Unknown to the model. Source: docs/design.md § 4.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Inputs {
    /// Which environment the compile is for.
    pub environment: EnvironmentInput,
    /// How the server is reached, for models that write it into resources.
    pub server: ServerInput,
    /// Parameters by name, which Python plugins read with `get_param`.
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Facts by resource id (without version) and name. What handlers found is text; tests of
    /// modules give any value. `None`: nobody was asked for facts, so a model without an environment can not ask either.
    pub facts: Option<BTreeMap<String, BTreeMap<String, serde_json::Value>>>,
    /// The facts that a test has made up, by the texts of resource ids: references to facts carry them, for there is no server to
    /// ask. They may be of more resources than `facts`, in which only those count whose ids were given as texts.
    pub mocked_facts: BTreeMap<String, BTreeMap<String, serde_json::Value>>,
    /// The service instances, for the module `lsm`; `None`: the environment has no services.
    pub services: Option<crate::ServicesInput>,
}

/// The environment of a compile, for modules that ask for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvironmentInput {
    /// Its id, a UUID.
    pub id: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

/// How the server is reached, for `std::environment_server()` and its kin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerInput {
    /// The host name or address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// Whether it speaks TLS.
    pub ssl: bool,
    /// The certificate of the authority that signed the server's.
    pub ca: String,
    /// The token that agents would show; empty: none.
    pub token: String,
}

impl Default for ServerInput {
    fn default() -> Self {
        ServerInput {
            host: "localhost".to_owned(),
            port: 8888,
            ssl: false,
            ca: String::new(),
            token: String::new(),
        }
    }
}

/// Finds Python, or says why there is none. What it gets is the interpreter of the project's own environment: if there is
/// one, no other is looked for.
pub type PythonFinder = dyn Fn(Option<PathBuf>) -> Result<PythonRuntime, String> + Send + Sync;

/// How a compile comes by Python. Looking for an interpreter takes longer than most compiles, so it is done when the
/// first module needs one.
#[derive(Clone, Default)]
pub enum PythonSource {
    /// There is none.
    #[default]
    Missing,
    /// It is here.
    At(PythonRuntime),
    /// This finds it when it is needed; it is called once at most for each module set, and may take
    /// a while.
    Find(std::sync::Arc<PythonFinder>),
    /// The process at the other end has the compile run, and is its host itself; it looks at the model afterwards.
    Attached(std::sync::Arc<UnixStream>),
}

impl PythonSource {
    /// Finds it, and takes the interpreter of the project's `own` environment if there is one. `None`: there is none.
    ///
    /// # Errors
    /// It cannot be found; the text says why.
    pub fn get(&self, own: Option<PathBuf>) -> Result<Option<PythonRuntime>, String> {
        match self {
            Self::Missing | Self::Attached(_) => Ok(None),
            Self::At(runtime) => {
                let mut runtime = runtime.clone();
                runtime.interpreter = own.unwrap_or(runtime.interpreter);
                Ok(Some(runtime))
            }
            Self::Find(find) => find(own).map(Some),
        }
    }

    /// The process that has the compile run, if it is its host.
    pub fn attached(&self) -> Option<&UnixStream> {
        match self {
            Self::Attached(stream) => Some(stream),
            _ => None,
        }
    }
}

impl std::fmt::Debug for PythonSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PythonSource")
    }
}

impl From<Option<PythonRuntime>> for PythonSource {
    fn from(runtime: Option<PythonRuntime>) -> Self {
        runtime.map_or(Self::Missing, Self::At)
    }
}

/// Where Python and our own package for it are.
#[derive(Debug, Clone)]
pub struct PythonRuntime {
    /// A Python of 3.11 or later.
    pub interpreter: PathBuf,
    /// The directory that holds the packages `inmanta` and `steward_host`.
    pub package: PathBuf,
    /// The directory of the file store; without one, what modules upload is not kept.
    pub files: Option<PathBuf>,
    /// What runs the interpreter with less rights.
    pub launcher: PythonLauncher,
}

/// A command that runs another one, in a sandbox. Without words there is none.
#[derive(Debug, Clone, Default)]
pub struct PythonLauncher {
    /// What stands before the command.
    pub words: Vec<std::ffi::OsString>,
    /// What the launcher's environment must have.
    pub variables: Vec<(std::ffi::OsString, std::ffi::OsString)>,
}

impl PythonRuntime {
    /// The folder below the package with the bytecode of all that its hosts import.
    pub const BYTECODE: &str = ".pycache";

    /// The command of a Python host, with nothing of our environment; `mode` is `compile` or `executor`.
    ///
    /// No user site, no path of the working directory; hash seeds are fixed, so that sets of module code come in one
    /// order. Bytecode is kept beside our package, never beside a project's sources.
    pub fn command(&self, mode: &str) -> std::process::Command {
        let mut command = match self.launcher.words.split_first() {
            Some((launcher, arguments)) => {
                let mut command = std::process::Command::new(launcher);
                command.args(arguments).arg(&self.interpreter);
                command
            }
            None => std::process::Command::new(&self.interpreter),
        };
        command
            .args(["-P", "-s", "-u"])
            .arg(self.package.join("steward_host/__main__.py"))
            .arg(mode)
            .env_clear()
            .envs(
                self.launcher
                    .variables
                    .iter()
                    .map(|(name, value)| (name, value)),
            )
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("LANG", "C.UTF-8")
            .env("PYTHONHASHSEED", "0")
            .env("STEWARD_PYCACHE", self.package.join(Self::BYTECODE));
        command
    }
}

/// The result of a compile: a value also when the model is full of mistakes.
#[derive(Debug, Default)]
pub struct Compiled {
    /// Errors, then warnings, each in order of importance.
    pub diagnostics: Vec<Diagnostic>,
    /// Present when there is no error and the options asked for it.
    pub export: Option<Export>,
    /// JSON; present when there is no error and the options asked for it (docs/reference/compile-contract.md).
    pub model: Option<String>,
    /// What the module `lsm` leaves for the service catalog and inventory; writes are there also when there are errors.
    pub services: crate::ServicesOutput,
    /// Contents that the getters of resources uploaded, by their SHA-1.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What Python code wrote to its standard error, cut when it is long.
    pub plugin_output: String,
    /// The loaded modules that have Python code, in load order: what an executor of the resources needs.
    pub python_modules: Vec<crate::protocol::PythonModule>,
    /// Which of them imported which while they were loaded, in whatever way.
    pub python_imports: Vec<(String, String)>,
    /// The model was large enough for tiles, and its steps share so little that they could stay in them. For tests.
    pub ran_in_tiles: bool,
}

impl Compiled {
    /// Whether the model compiled (and was exported, if asked).
    pub fn succeeded(&self) -> bool {
        !self
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }
}

/// The desired state that a model means.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Export {
    /// The resources, in creation order of their instances.
    pub resources: Vec<Resource>,
    /// Names of resource sets without any exported member.
    pub removed_sets: Vec<String>,
    /// What the model waits for.
    pub unknowns: Vec<UnknownParameter>,
    /// Where the model says that agents run: URIs by name of the agent (docs/reference/deployment.md § 8.1).
    #[serde(default)]
    pub agents: BTreeMap<String, String>,
}

/// One resource of the desired state. Source: docs/reference/language.md § 12.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// `type[agent,attribute=value]`, without a version.
    pub id: String,
    /// The full name of the entity.
    pub entity_type: String,
    /// The name of the agent that deploys it.
    pub agent: String,
    /// The name of the attribute whose value stands in the id.
    pub id_attribute: String,
    /// The text of that value.
    pub id_value: String,
    /// A JSON object of all fields but `requires`, `id` and `version`: keys sorted recursively, separators `", "` and
    /// `": "`, non-ASCII escaped. The text that `attribute_hash` is computed over (docs/reference/language.md § 12.10).
    pub attributes: String,
    /// Lowercase hex MD5 (docs/reference/language.md § 12.10).
    pub attribute_hash: String,
    /// Ids without version, sorted.
    pub requires: Vec<String>,
    /// Some field is unknown (`<<undefined>>`).
    pub undefined: bool,
    /// The name of its resource set; `None`: it is in none, and shared by all.
    pub resource_set: Option<String>,
}

/// A parameter that the model asked for and that is not known yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnknownParameter {
    /// The id of the resource that it is about, without version; empty for a parameter of the environment.
    pub resource: String,
    /// Its name.
    pub parameter: String,
    /// Where its value would come from; `fact`: a handler would report it.
    pub source: String,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The model does not compile.
    Error,
    /// The model compiles, but may mean something else than its author thinks.
    Warning,
}

/// A mistake, or a doubt, about the user's model.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The reference's exception class, `DoubleSetException`.
    pub kind: String,
    /// What is wrong, in words; the place and the causes are told apart.
    pub message: String,
    /// Where the mistake is, if it is at one place.
    pub location: Option<Location>,
    /// Other places and facts that explain this one.
    pub notes: Vec<Note>,
    /// What the author could do about it.
    pub help: Option<String>,
    /// The full name of the class that the plugin raised, for an `ExplicitPluginException`.
    pub raised: Option<String>,
    /// The old and the new value, for a `DoubleSetException` of values that are data.
    pub values: Option<Box<[serde_json::Value; 2]>>,
    /// The errors that led to this one, as the reference's exceptions have them.
    pub causes: Vec<Diagnostic>,
}

/// Another place, or a fact, that explains a diagnostic.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// What it says.
    pub message: String,
    /// The place that it is about, if it is about one.
    pub location: Option<Location>,
}

/// A place in a source file; lines and columns from 1, in characters, the end exclusive.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Relative to the project where it lies below it, else absolute; `std/…` for the built-in modules.
    pub file: String,
    /// The first line.
    pub line: u32,
    /// The column where it begins; `None`: the place is a whole line.
    pub column: Option<u32>,
    /// The last line.
    pub end_line: Option<u32>,
    /// The column behind the last character.
    pub end_column: Option<u32>,
}

/// The environment variables of a compile: what `std::get_env` sees.
pub type Variables = BTreeMap<String, String>;
