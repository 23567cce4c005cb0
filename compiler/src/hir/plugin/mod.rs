//! Functions that a model can call: native ones of std, and those of Python modules.
//!
//! Here is what a plugin is: its parameters, how the arguments of a call are bound to them, and what a native function may do
//! with the model ([`Model`]). The native functions themselves are in `stdlib`, the processes that run Python in `python_host`.

mod bind;
mod define;
mod native_signature;

pub use bind::{Bound, Check, bind};

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
    /// The full name, `m::f`.
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
    /// Where the plugin is defined, if it is one in Python.
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
    /// The value as `std::print` and `str()` write it.
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

pub(crate) struct NativeDef {
    pub name: &'static str,
    /// `name: type = default, *args: any, **kwargs: any -> type`
    pub signature: &'static str,
    pub body: Native,
    pub allow_unknown: bool,
    pub context: bool,
    pub deprecated: Option<&'static str>,
}
