//! The model as native plugins, the export and Python read it: values by name, with the reason if
//! there is none.
//!
//! A plugin that reads a variable without a value does not fail. It ends with `Unset`, and its call
//! is made again when the variable has one (`scheduler/tasks.rs`).

use crate::UnknownParameter;
use crate::hir::plugin::{Model, PluginError};
use crate::runtime::exec::calls::Site;
use crate::runtime::{InstId, Machine, ModelState, Var, VarId, VarKind};
use crate::span::Loc;
use crate::types::reference::{Origin, Reference};
use crate::types::{Heap, Type, Value};
use crate::world::World;

/// Why an attribute has no value to read.
pub enum ReadError {
    /// The entity has no attribute of that name.
    NoAttribute,
    /// It has no value yet; this is the variable to wait for.
    NotReady(VarId),
    /// It is an optional relation that was declared complete without a value.
    OptionalUnset(VarId),
}

/// The machine as a native plugin sees it, while one call runs.
pub(in crate::runtime) struct View<'m, 'a> {
    pub machine: &'m mut Machine<'a>,
    /// The call that runs.
    pub site: Site,
}

impl ModelState<'_> {
    /// The value of an attribute by its name.
    pub fn read_attribute(&self, instance: InstId, name: &str) -> Result<Value, ReadError> {
        let slot = self
            .program
            .names
            .find(name)
            .and_then(|name| self.slot(instance, name));
        match slot {
            Some(slot) => self.read_slot(slot),
            None => Err(ReadError::NoAttribute),
        }
    }

    /// The value of a slot, or why there is none.
    pub fn read_slot(&self, slot: VarId) -> Result<Value, ReadError> {
        read_slot(self.var(slot), slot, &self.heap)
    }

    pub fn optional_unset_error(&self, slot: VarId) -> crate::diagnostics::Fail {
        self.optional_unset(slot, Loc::NONE)
    }
}

/// The value of a variable, which is that of a slot, or why there is none.
pub(in crate::runtime) fn read_slot(
    var: &Var,
    slot: VarId,
    heap: &Heap,
) -> Result<Value, ReadError> {
    if !var.is_ready() {
        return Err(ReadError::NotReady(slot));
    }
    if var.kind() == VarKind::Optional && var.is_null() {
        return Err(ReadError::OptionalUnset(slot));
    }
    Ok(var.value(heap))
}

impl Model for View<'_, '_> {
    fn heap(&mut self) -> &mut Heap {
        &mut self.machine.state.heap
    }

    fn heap_ref(&self) -> &Heap {
        &self.machine.state.heap
    }

    fn text(&self, value: Value) -> String {
        self.machine.state.heap.to_text(value, &self.machine.state)
    }

    fn repr(&self, value: Value) -> String {
        self.machine.state.heap.repr(value, &self.machine.state)
    }

    fn attribute(
        &mut self,
        instance: InstId,
        name: &str,
        references: bool,
    ) -> Result<Option<Value>, PluginError> {
        match self.machine.state.read_attribute(instance, name) {
            Ok(Value::Unknown(_)) => Err(PluginError::Unknown),
            Ok(value @ Value::Reference(_)) if !references => {
                Err(self.machine.unexpected_reference(name, value))
            }
            Ok(value) => Ok(Some(value)),
            Err(ReadError::NoAttribute) => Ok(None),
            Err(ReadError::NotReady(var)) => Err(PluginError::Unset(vec![var.0])),
            Err(ReadError::OptionalUnset(slot)) => Err(PluginError::Compile(
                self.machine.state.optional_unset(slot, self.site.loc),
            )),
        }
    }

    fn is_instance(&self, instance: InstId, type_name: &str) -> Option<bool> {
        let program = self.machine.program;
        let name = program.names.find(type_name)?;
        let entity = program
            .entities
            .iter()
            .position(|entity| entity.name == name)?;
        let entity = crate::types::EntityId(entity as u32);
        Some(program.is_subtype(self.machine.state.instance(instance).entity, entity))
    }

    fn world(&self) -> &dyn World {
        self.machine.world
    }

    fn environment_id(&self) -> Option<String> {
        let options = self.machine.options;
        let id = options.inputs.environment.id.as_ref();
        id.or(options.environment_id.as_ref()).cloned()
    }

    fn inputs(&self) -> &crate::Inputs {
        &self.machine.options.inputs
    }

    fn module_root(&self, module: &str) -> Option<String> {
        self.machine.program.module_roots.get(module).cloned()
    }

    fn calling_module(&self) -> String {
        let program = self.machine.program;
        let Some(call) = self.site.call else {
            return String::new();
        };
        let namespace = program.calls[call.index()].namespace;
        let name = program.text(program.namespaces[namespace.index()].name);
        match name.split("::").next() {
            Some("__config__") | None => String::new(),
            Some(module) => module.to_owned(),
        }
    }

    fn warn(&mut self, message: String) {
        let loc = self.site.loc;
        self.machine
            .report
            .warnings
            .push(crate::diagnostics::Warning {
                kind: "InmantaWarning",
                message,
                loc,
                notes: Vec::new(),
            });
    }

    fn resource_id(&mut self, instance: InstId) -> Result<Option<String>, PluginError> {
        self.machine.resource_id(instance)
    }

    fn add_unknown_parameter(&mut self, resource: String, parameter: String) {
        let parameter = UnknownParameter {
            resource,
            parameter,
            source: "fact".to_owned(),
        };
        self.machine.report.unknown_parameters.insert(parameter);
    }

    fn new_reference(
        &mut self,
        kind: &'static str,
        class: &'static str,
        arguments: Vec<(&'static str, Value)>,
    ) -> Value {
        let program = self.machine.program;
        let returns = program.plugins[self.site.plugin.index()].returns;
        let of = match program.types[returns.index()] {
            Type::Reference(inner) => inner,
            _ => returns,
        };
        self.machine.state.heap.new_reference(Reference {
            kind: kind.into(),
            class: class.into(),
            of,
            origin: Origin::Native(arguments),
        })
    }

    fn render(
        &mut self,
        path: &str,
        variables: Option<Vec<(String, Value)>>,
    ) -> Result<Value, PluginError> {
        self.machine.render_template(self.site, path, variables)
    }
}
