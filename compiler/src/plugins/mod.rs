//! Functions that a model can call: native ones of std, and those of Python modules.
//!
//! A native function sees the model through [`Model`] only. Python ones are behind [`PluginHost`].

mod asleep;
mod bind;
mod declarations;
mod host;
mod locate;
mod process;
mod python_text;
mod scan;
mod session;
mod signature;
mod std;
#[cfg(target_os = "linux")]
mod turns;

pub use bind::{Bound, Check, bind};
pub use declarations::AnswerStore;
pub use host::{HostReport, load_python, reported};
pub use locate::{AttachedPython, locate};
pub use process::HostError;
pub use scan::{Scanned, scan};
pub use session::WarmHosts;

use crate::diagnostics::Fail;
use crate::hir::NamespaceId;
use crate::intern::Symbol;
use crate::protocol::{Annotation, DataclassInfo, ParameterKind, PluginInfo, ResourceClassInfo};
use crate::types::{Heap, InstId, TypeId, Value};
use crate::world::World;

/// What the Python modules of a compile declare.
#[derive(Default)]
pub struct PythonPlugins {
    pub plugins: Vec<PluginInfo>,
    pub resources: Vec<ResourceClassInfo>,
    /// Namespaces that may have plugins that are not known here.
    pub open_namespaces: Vec<String>,
    pub dataclasses: Vec<DataclassInfo>,
}

pub type Native = fn(&mut dyn Model, &Bound) -> Result<Value, PluginError>;

#[derive(Clone)]
pub enum Body {
    Native(Native),
    Python,
}

pub struct PluginDef {
    /// Full name, `m::f`.
    pub name: Symbol,
    pub namespace: NamespaceId,
    pub parameters: Vec<Parameter>,
    pub returns: TypeId,
    pub returns_declared: Annotation,
    pub allow_unknown: bool,
    /// It wants to know where it is called.
    pub context: bool,
    /// It sets its result itself; what it returns does not count.
    pub emits_statements: bool,
    pub deprecated: Option<Option<String>>,
    /// Of Python.
    pub declared_at: Option<crate::Location>,
    pub body: Body,
}

pub struct Parameter {
    pub name: String,
    pub kind: ParameterKind,
    pub declared: Annotation,
    pub ty: TypeId,
    pub has_default: bool,
    /// Native functions only.
    pub default: Value,
}

/// Why a call has no value.
pub enum PluginError {
    /// These variables have no value yet: call again when they have.
    Unset(Vec<u32>),
    /// Something Unknown was touched: the result is Unknown.
    Unknown,
    /// A mistake of the model.
    Compile(Fail),
    /// An exception that nobody expected: its type and text.
    External {
        type_name: String,
        message: String,
        traceback: Option<String>,
    },
    /// The plugin says what is wrong; the full name of the class that it raised.
    Explicit {
        type_name: String,
        message: String,
        traceback: Option<String>,
    },
}

pub fn external<T>(type_name: &str, message: impl Into<String>) -> Result<T, PluginError> {
    Err(PluginError::External {
        type_name: type_name.to_owned(),
        message: message.into(),
        traceback: None,
    })
}

/// What a native function may do with the model.
pub trait Model {
    fn heap(&mut self) -> &mut Heap;
    fn heap_ref(&self) -> &Heap;
    /// As `std::print` and `str()` write it.
    fn text(&self, value: Value) -> String;
    fn repr(&self, value: Value) -> String;
    /// The value of an attribute; `Ok(None)`: the entity has no such attribute.
    /// `references`: it may be one.
    fn attribute(
        &mut self,
        instance: InstId,
        name: &str,
        references: bool,
    ) -> Result<Option<Value>, PluginError>;
    /// A reference made by the running plugin, which says in its signature to what.
    fn new_reference(
        &mut self,
        kind: &'static str,
        class: &'static str,
        arguments: Vec<(&'static str, Value)>,
    ) -> Value;
    /// Whether the instance is of a type by its full name; `None`: there is no such type.
    fn is_instance(&self, instance: InstId, type_name: &str) -> Option<bool>;
    fn world(&self) -> &dyn World;
    fn environment_id(&self) -> Option<String>;
    /// What the compile was given besides the project.
    fn inputs(&self) -> &crate::Inputs;
    /// The root directory of a loaded module.
    fn module_root(&self, module: &str) -> Option<String>;
    /// First part of the calling namespace; empty for the project itself.
    fn calling_module(&self) -> String;
    fn warn(&mut self, message: String);
    /// The id of the resource that an instance is exported as.
    fn resource_id(&mut self, instance: InstId) -> Result<Option<String>, PluginError>;
    fn add_unknown_parameter(&mut self, resource: String, parameter: String);
    /// Renders a template; `None`: with the names of the call site.
    fn render(
        &mut self,
        path: &str,
        variables: Option<Vec<(String, Value)>>,
    ) -> Result<Value, PluginError>;
}

/// What answers while Python runs.
pub trait HostCallbacks {
    fn get(&mut self, instance: u32, attribute: &str) -> crate::protocol::Got;
    /// The same as the body of a frame ([`crate::protocol::calls`]) with a call in which there is the instance, and known
    /// of it the attribute, and what else is going to be read. `None`: it has to be asked for by [`HostCallbacks::get`].
    fn tell(&mut self, instance: u32, attribute: &str) -> Option<Vec<u8>>;
    /// A name at the call that runs.
    fn lookup(&mut self, name: &str) -> crate::protocol::Got;
    fn entity(&mut self, name: &str) -> crate::protocol::ToHost;
    /// The names of all entities.
    fn entities(&mut self) -> crate::protocol::ToHost;
    /// All instances of an entity, those of its descendants among them, in the order in which they were made.
    fn instances(&mut self, entity: &str) -> crate::protocol::ToHost;
    /// A typedef by its full name.
    fn typedef(&mut self, name: &str) -> crate::protocol::ToHost;
    /// Whether a value is one of a typedef.
    fn validate(&mut self, typedef: &str, value: &rmpv::Value) -> crate::protocol::Got;
    /// Where an instance was made.
    fn place(&mut self, instance: u32) -> crate::protocol::ToHost;
    /// Calls a native plugin for Python code. `identity`: of the resource that its first argument becomes, if it is known.
    fn native(
        &mut self,
        plugin: &str,
        args: &[rmpv::Value],
        kwargs: &[(String, rmpv::Value)],
        identity: Option<String>,
    ) -> crate::protocol::Got;
    fn log(&mut self, level: &str, message: &str);
    /// A line that Python printed.
    fn print(&mut self, line: &str);
}

/// A process that runs Python plugins.
pub trait PluginHost {
    fn request(
        &mut self,
        message: crate::protocol::ToHost,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<crate::protocol::FromHost, HostError>;

    /// Whether it was not started yet, since what its modules declare is known from an earlier compile. All that it could say
    /// unasked is known, too: there is nothing to finalize, and nothing has changed.
    fn is_asleep(&self) -> bool;

    /// Begins to start it, if it is asleep: it is going to be asked something soon. Does not wait.
    fn start_ahead(&mut self);

    /// Waits until it is there, and starts it if it is asleep.
    fn wake(&mut self, callbacks: &mut dyn HostCallbacks) -> Result<(), HostError>;

    /// Whether it takes calls in frames ([`crate::protocol::calls`]). Known when it is awake.
    fn reads_calls(&self) -> bool;

    /// Sends a frame of calls; each of them has an answer, in order.
    fn send_calls(&mut self, body: &[u8]) -> Result<(), HostError>;

    /// Waits for the answer to the next call of the last frame.
    fn answer(
        &mut self,
        callbacks: &mut dyn HostCallbacks,
    ) -> Result<crate::protocol::FromHost, HostError>;
}

pub(crate) struct NativeDef {
    pub name: &'static str,
    /// `name: type = default, *args: any, **kwargs: any -> type`
    pub signature: &'static str,
    pub body: Native,
    pub allow_unknown: bool,
    pub context: bool,
    pub deprecated: Option<&'static str>,
}

pub(crate) fn natives() -> Vec<NativeDef> {
    std::natives()
}

pub(crate) use signature::parse as parse_signature;
