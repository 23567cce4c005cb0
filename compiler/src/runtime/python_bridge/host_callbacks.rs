//! Host callbacks: what a running Python call asks about the model, its attributes, names at the
//! call, entities and instances.
//!
//! They are answered in the middle of a step, while the machine waits for the plugin, so the model
//! stands still: answers differ only by what is there. A variable without a value is no error but
//! an answer; the plugin decides whether it can go on.
//!
//! A question has four kinds of answers, which Python turns into what the reference's proxies do:
//!
//! - a value;
//! - *unset*: it may get one later. The proxy raises `UnsetException`; if the plugin lets it through,
//!   the call ends and is made again when the variable is ready. So a plugin may run more than once;
//! - *optional and unset*: the relation is complete without a value (`OptionalValueException`);
//! - no such attribute (`AttributeError`).

use rmpv::Value as Wire;

use crate::diagnostics::Fail;
use crate::hir::plugin::PluginError;
use crate::hir::{AttributeKind, Def, Entity, ExprKind, NamespaceId, Ref};
use crate::intern::Symbol;
use crate::protocol::{self, AttributeInfo, AttributeValue, EXT_UNKNOWN, ToHost};
use crate::python_host::HostCallbacks;
use crate::runtime::{Machine, ReadError, VarId};
use crate::span::Loc;
use crate::syntax::strings;
use crate::types::{EntityId, Type, TypedefId, Value};

/// What a name stands for at a call.
pub(in crate::runtime) enum Name {
    Variable(VarId),
    Value(Value),
}

impl Machine<'_> {
    /// A name as the statement of the running call sees it: a variable of a block around it, `self`
    /// and the attributes of the instance that is refined, then a variable of its file. A name with
    /// a namespace is looked for among the imports of that file only. Source: docs/reference/language.md § 3.4, § 10.8.
    pub(in crate::runtime) fn name_at_call(&self, name: &str) -> Option<Name> {
        let program = self.program;
        let Some(site) = self.python.site else {
            // After the run: a full name.
            let (namespace, name) = name.rsplit_once("::")?;
            let namespace = program.names.find(namespace)?;
            let mut namespaces = program.namespaces.iter();
            let at = namespaces.position(|known| known.name == namespace)?;
            return self.root_variable(NamespaceId(at as u32), program.names.find(name)?);
        };
        let call = &program.calls[site.call?.index()];
        if let Some((namespace, name)) = name.rsplit_once("::") {
            let seen = &program.namespaces[call.namespace.index()].visible;
            let namespace = *seen.get(&program.names.find(namespace)?)?;
            return self.root_variable(namespace, program.names.find(name)?);
        }
        let symbol = program.names.find(name)?;
        if let Some(Ref::Local { up, index }) = call.scope.as_ref()?.refs.get(&symbol) {
            let mut at = site.scope;
            for _ in 0..*up {
                at = self.state.scopes[at.index()].parent;
            }
            let base = self.state.scopes[at.index()].base;
            return Some(Name::Variable(VarId(base.0 + index)));
        }
        let instance = self.state.scopes[site.scope.index()].instance;
        if instance.is_some() {
            if name == "self" {
                return Some(Name::Value(Value::Instance(instance)));
            }
            if let Some(slot) = self.state.slot(instance, symbol) {
                return Some(Name::Variable(slot));
            }
        }
        self.root_variable(call.namespace, symbol)
    }

    /// A variable of a file by its name.
    fn root_variable(&self, namespace: NamespaceId, name: Symbol) -> Option<Name> {
        let program = self.program;
        let root = program.namespaces[namespace.index()].root;
        let mut variables = program.blocks[root.index()].variables.iter();
        let index = variables.position(|variable| *variable == name)?;
        let base = self.state.roots[namespace.index()];
        Some(Name::Variable(VarId(base.0 + index as u32)))
    }
}

/// Answers what a running call asks.
pub(in crate::runtime) struct MachineCallbacks<'m, 'a> {
    pub(in crate::runtime) machine: &'m mut Machine<'a>,
}

impl HostCallbacks for MachineCallbacks<'_, '_> {
    fn get(&mut self, instance: u32, attribute: &str) -> AttributeValue {
        let machine = &mut *self.machine;
        let Some(id) = machine.state.of_number(instance) else {
            return AttributeValue::NoAttribute("there is no such instance".to_owned());
        };
        let program = machine.program;
        let name = program.names.find(attribute);
        let Some(slot) = name.and_then(|name| machine.state.slot(id, name)) else {
            return AttributeValue::NoAttribute(format!(
                "could not find attribute with name: {attribute} in type {}",
                program.entity_name(machine.state.instance(id).entity)
            ));
        };
        let read = machine.state.read_slot(slot);
        machine.learn_read(id, slot, read.is_ok());
        match read {
            Ok(value) => AttributeValue::Value(machine.to_wire(value)),
            Err(ReadError::NotReady(_)) => AttributeValue::Unset,
            Err(ReadError::OptionalUnset(_) | ReadError::NoAttribute) => {
                AttributeValue::OptionalUnset(machine.state.optional_unset_error(slot).message)
            }
        }
    }

    // An answer takes along what calls before this one read next, so that they need not ask: a
    // question costs as much as a call (`known_values`).
    fn expected_reads(&mut self, instance: u32, attribute: &str) -> Option<Vec<u8>> {
        let machine = &mut *self.machine;
        let id = machine.state.of_number(instance)?;
        let name = machine.program.names.find(attribute)?;
        let slot = machine.state.slot(id, name)?;
        machine.expected_reads(id, slot)
    }

    fn lookup(&mut self, name: &str) -> AttributeValue {
        let machine = &self.machine;
        match machine.name_at_call(name) {
            Some(Name::Value(value)) => AttributeValue::Value(machine.to_wire(value)),
            Some(Name::Variable(id)) if !machine.state.is_ready(id) => AttributeValue::Unset,
            Some(Name::Variable(id)) => match machine.state.read(id, Loc::NONE) {
                Ok(value) => AttributeValue::Value(machine.to_wire(value)),
                Err(error) => AttributeValue::OptionalUnset(error.message),
            },
            None => AttributeValue::NoAttribute(format!("variable {name} not found")),
        }
    }

    fn entity(&mut self, name: &str) -> ToHost {
        let program = self.machine.program;
        let Some(id) = self.find(name) else {
            return protocol::no_entity();
        };
        let entity = program.entity(id);
        let ancestors = entity.ancestors.iter();
        let indexes = entity.indexes.iter();
        let constructs = program.constructs.iter();
        let own = constructs.filter(|construct| construct.entity == id);
        let named: Vec<Symbol> = own
            .flat_map(|construct| construct.explicit.iter().copied())
            .collect();
        ToHost::EntityInfo {
            name: name.to_owned(),
            attributes: (0..entity.slots.len())
                .map(|slot| self.attribute(entity, slot, &named))
                .collect(),
            parents: ancestors
                .map(|id| program.entity_name(*id).to_owned())
                .collect(),
            indices: indexes
                .map(|index| {
                    let names = index.names.iter();
                    names.map(|name| program.text(*name).to_owned()).collect()
                })
                .collect(),
            place: program.sources.location(entity.loc).and_then(|at| {
                let (end_line, end_column) = (at.end_line?, at.end_column?);
                Some((at.file, at.line, at.column?, end_line, end_column))
            }),
            comment: entity.doc.map(|doc| read(program.sources.text(doc))),
        }
    }

    fn entities(&mut self) -> ToHost {
        let program = self.machine.program;
        let entities = program.entities.iter().map(|entity| entity.name);
        let typedefs = program.typedefs.iter().map(|typedef| typedef.name);
        ToHost::EntityNames {
            names: entities
                .chain(typedefs)
                .map(|name| program.text(name).to_owned())
                .collect(),
        }
    }

    fn instances(&mut self, entity: &str) -> ToHost {
        let machine = &self.machine;
        let mut found = Vec::new();
        if let Some(wanted) = self.find(entity) {
            for (at, entity) in machine.program.entities.iter().enumerate() {
                let id = EntityId(at as u32);
                if id == wanted || entity.ancestors.contains(&wanted) {
                    found.extend_from_slice(machine.state.instances_of(id));
                }
            }
        }
        // In the order in which they were made.
        found.sort_unstable_by_key(|id| machine.state.number_of(*id));
        ToHost::InstanceList {
            instances: found
                .into_iter()
                .map(|id| machine.to_wire(Value::Instance(id)))
                .collect(),
        }
    }

    fn typedef(&mut self, name: &str) -> ToHost {
        let program = self.machine.program;
        let found = self.find_typedef(name);
        ToHost::TypedefInfo {
            base: found.map(|id| program.type_text(program.typedefs[id.index()].base)),
            condition: found.and_then(|id| self.machine.condition_info(id)),
        }
    }

    fn validate(&mut self, typedef: &str, value: &Wire) -> AttributeValue {
        let Some(id) = self.find_typedef(typedef) else {
            return AttributeValue::NoAttribute(format!("could not find type {typedef}"));
        };
        let machine = &mut self.machine;
        let value = machine.value_of(value, 0);
        match value.and_then(|value| machine.validate_typedef(id, value)) {
            Ok(()) => AttributeValue::Value(Wire::Boolean(true)),
            Err(error) => raised(&error),
        }
    }

    fn place(&mut self, instance: u32) -> ToHost {
        let machine = &self.machine;
        let program = machine.program;
        let known = machine.state.of_number(instance);
        let locs = known.map(|id| machine.state.constructors_of(id));
        let locs: Vec<Loc> = locs.into_iter().flatten().collect();
        let places = locs.iter().filter_map(|loc| program.sources.location(*loc));
        let constructs = program.constructs.iter();
        let own = constructs.filter(|construct| locs.contains(&construct.loc));
        let given = own.flat_map(|construct| construct.explicit.iter());
        ToHost::Place {
            places: places.map(|at| (at.file, at.line)).collect(),
            given: given.map(|name| program.text(*name).to_owned()).collect(),
        }
    }

    fn native(
        &mut self,
        plugin: &str,
        args: &[Wire],
        kwargs: &[(String, Wire)],
        identity: Option<String>,
    ) -> AttributeValue {
        // Where the class of the first argument's resource computes ids, Python sends the id along: `identify` need not ask.
        self.machine.python.identity = identity;
        let answer = self.machine.call_native(plugin, args, kwargs);
        self.machine.python.identity = None;
        match answer {
            Ok(value) => AttributeValue::Value(self.machine.to_wire(value)),
            Err(PluginError::Unset(variables)) => AttributeValue::Waits(variables),
            Err(PluginError::Unknown) => AttributeValue::Value(Wire::Ext(EXT_UNKNOWN, Vec::new())),
            Err(PluginError::Compile(error)) => raised(&error),
            Err(PluginError::External {
                type_name, message, ..
            }) => AttributeValue::Raised {
                type_name,
                message,
                is_plugin: false,
            },
            Err(PluginError::Explicit {
                type_name, message, ..
            }) => AttributeValue::Raised {
                type_name,
                message,
                is_plugin: true,
            },
        }
    }

    fn services(&mut self, question: serde_json::Value) -> ToHost {
        let (services, failure) = match self.service_instances(question) {
            Ok(services) => (services, None),
            Err(reason) => (String::new(), Some(reason)),
        };
        ToHost::ServiceList { services, failure }
    }

    fn write_service(&mut self, write: serde_json::Value) {
        if !self.machine.python.ahead.is_abandoned {
            self.machine.report.service_writes.push(write);
        }
    }

    fn print(&mut self, line: &str) {
        if self.machine.python.ahead.is_abandoned {
            return;
        }
        self.machine.world.print(line);
    }

    fn log(&mut self, level: &str, message: &str) {
        if is_warning(level) && !self.machine.python.ahead.is_abandoned {
            self.machine.warn_of_log(message);
        }
    }
}

fn is_warning(level: &str) -> bool {
    matches!(level, "WARNING" | "ERROR" | "CRITICAL")
}

impl Machine<'_> {
    fn warn_of_log(&mut self, message: &str) {
        self.report.warnings.push(crate::diagnostics::Warning {
            kind: "PluginLog",
            message: message.to_owned(),
            loc: Loc::NONE,
            notes: Vec::new(),
        });
    }

    /// Says what a plugin has logged for people.
    pub(super) fn say(&mut self, logged: &[(String, String)]) {
        for (level, text) in logged {
            if is_warning(level) {
                self.warn_of_log(text);
            } else if let Some(host) = &mut self.python.host {
                host.say(text);
            }
        }
    }
}

/// An error of the model as an exception in Python.
fn raised(error: &Fail) -> AttributeValue {
    AttributeValue::Raised {
        type_name: error.kind.to_owned(),
        message: error.message.clone(),
        is_plugin: false,
    }
}

impl MachineCallbacks<'_, '_> {
    fn service_instances(&self, question: serde_json::Value) -> Result<String, String> {
        let question = serde_json::from_value(question);
        let question = question.map_err(|error| format!("the question is not one: {error}"))?;
        let inventory = self.machine.options.inventory.as_ref();
        let inventory = inventory.ok_or("this compile has no service inventory to ask")?;
        let found = inventory.ask(question)?;
        found.to_json().map_err(|error| error.to_string())
    }

    fn find_typedef(&self, name: &str) -> Option<TypedefId> {
        let program = self.machine.program;
        let (namespace, name) = name.rsplit_once("::")?;
        let (namespace, name) = (program.names.find(namespace)?, program.names.find(name)?);
        let mut namespaces = program.namespaces.iter();
        let namespace = namespaces.find(|known| known.name == namespace)?;
        match namespace.defs.get(&name)? {
            Def::Typedef(id) => Some(*id),
            _ => None,
        }
    }

    fn find(&self, name: &str) -> Option<EntityId> {
        let program = self.machine.program;
        let symbol = program.names.find(name)?;
        let at = program.entities.iter().position(|e| e.name == symbol)?;
        Some(EntityId(at as u32))
    }

    /// The attribute in a slot of an entity.
    fn attribute(&self, entity: &Entity, slot: usize, named: &[Symbol]) -> AttributeInfo {
        let program = self.machine.program;
        let id = entity.slots[slot];
        let attribute = program.attribute(id);
        let mut defaults = entity.defaults.iter();
        let default = defaults.find(|(of, _)| *of as usize == slot);
        let default = default.and_then(|(_, value)| match program.expr(*value).kind {
            ExprKind::Const(value) => Some(self.machine.to_wire(value)),
            _ => None,
        });
        let annotations = self.machine.exec.annotation_values.iter();
        let annotations = annotations.filter(|(of, _)| *of == id);
        let annotations = annotations.map(|(_, value)| self.machine.to_wire(*value));
        let (has_default, default) = (default.is_some(), default.unwrap_or(Wire::Nil));
        let name = program.text(attribute.name).to_owned();
        let given = named.contains(&attribute.name);
        match attribute.kind {
            AttributeKind::Plain(ty) => {
                let kind = &program.types[ty.index()];
                AttributeInfo {
                    name,
                    type_name: program.type_text(ty),
                    relation: false,
                    multi: matches!(kind, Type::ListOf(_)),
                    optional: matches!(kind, Type::Nullable(_)),
                    low: 0,
                    high: None,
                    inverse: None,
                    has_default,
                    default,
                    annotations: Vec::new(),
                    given,
                }
            }
            AttributeKind::Relation {
                target,
                low,
                high,
                inverse,
            } => AttributeInfo {
                name,
                type_name: program.entity_name(target).to_owned(),
                relation: true,
                multi: attribute.is_multi(),
                optional: attribute.is_optional(),
                low,
                high,
                inverse: inverse.map(|id| program.text(program.attribute(id).name).to_owned()),
                has_default,
                default,
                annotations: annotations.collect(),
                given,
            },
        }
    }
}

/// A documentation as it is read: without its quotes, with what its escapes stand for.
fn read(doc: &str) -> String {
    let body = doc.get(3..doc.len().saturating_sub(3)).unwrap_or_default();
    strings::unescape(body).map_or_else(|_| body.to_owned(), |read| read.text)
}
