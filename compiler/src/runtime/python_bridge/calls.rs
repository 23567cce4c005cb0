//! Values over the wire, in both directions, and what an answer of Python means. What a running
//! call asks is in `host_callbacks`.
//!
//! Python's lists, dicts and plain values go as they are. What has an identity goes as a number: an
//! instance as its number in order of creation, an object that only Python has as the number that
//! Python gave it. Whatever comes from Python is checked, since modules are not ours: the depth of
//! a value, the kinds of its parts, and that a numbered thing exists.
//!
//! Extension types carry what MessagePack has no word for:
//!
//! - `EXT_BIGINT`: the digits of an integer of more than 64 bits;
//! - `EXT_INSTANCE`: the number of an instance and, to Python, the name of its entity;
//! - `EXT_OPAQUE`: the number of an object that only Python has;
//! - `EXT_TEXT`: a text that is such an object, too (of a subclass of `str`): its number and the text.
//!   The model sees the text, and gives Python the object again;
//! - `EXT_DATACLASS`: an object that becomes an instance of the entity that its class is paired with;
//! - `EXT_REFERENCE`: a value that is known only when its resource is deployed;
//! - `EXT_UNKNOWN`: a value that is not known yet.

use rmpv::Value as Wire;

use crate::diagnostics::{Fail, fail, runtime};
use crate::hir::PluginId;
use crate::hir::plugin::{Body, PluginError, external};
use crate::protocol::{
    EXT_BIGINT, EXT_DATACLASS, EXT_INSTANCE, EXT_OPAQUE, EXT_REFERENCE, EXT_TEXT, EXT_UNKNOWN,
    FailureKind, FromHost, ToHost,
};
use crate::python_host::{HostError, PluginHost};
use crate::runtime::exec::calls::{Site, Way};
use crate::runtime::python_bridge::host_callbacks::{MachineCallbacks, Name};
use crate::runtime::{Machine, PythonBridge, ScopeId, VarId};
use crate::span::Loc;
use crate::types::{Object, Value};

/// How deeply a value from Python may be nested.
const MAX_DEPTH: u32 = 200;

impl PythonBridge {
    /// A number for a message that wants an answer.
    pub(in crate::runtime) fn next_request(&mut self) -> u64 {
        self.n_requests += 1;
        self.n_requests
    }
}

impl Machine<'_> {
    /// A value of the model as Python gets it. An instance that was made from a dataclass goes as
    /// that object.
    pub fn to_wire(&self, value: Value) -> Wire {
        match value {
            Value::Null | Value::Skip => Wire::Nil,
            Value::Bool(value) => Wire::Boolean(value),
            Value::Int(value) => Wire::from(value),
            Value::Big(id) => {
                Wire::Ext(EXT_BIGINT, self.state.heap.big(id).to_string().into_bytes())
            }
            Value::Float(value) => Wire::F64(value),
            Value::Str(id) if self.python.texts.is_empty() => Wire::from(self.state.heap.str(id)),
            Value::Str(id) => match self.python.texts.get(&id.0) {
                Some(object) => Wire::Ext(EXT_OPAQUE, object.to_be_bytes().to_vec()),
                None => Wire::from(self.state.heap.str(id)),
            },
            Value::List(id) => Wire::Array(
                self.state
                    .heap
                    .list(id)
                    .iter()
                    .map(|item| self.to_wire(*item))
                    .collect(),
            ),
            Value::Dict(id) => {
                let entries = self.state.heap.dict(id).entries.iter();
                Wire::Map(
                    entries
                        .map(|(key, value)| {
                            (Wire::from(self.state.heap.str(*key)), self.to_wire(*value))
                        })
                        .collect(),
                )
            }
            Value::Instance(id) => {
                if let Some(wire) = self.dataclass_to_wire(id) {
                    return wire;
                }
                let mut payload = self.state.number_of(id).to_be_bytes().to_vec();
                payload.extend_from_slice(
                    self.program
                        .entity_name(self.state.instance(id).entity)
                        .as_bytes(),
                );
                Wire::Ext(EXT_INSTANCE, payload)
            }
            Value::Unknown(_) => Wire::Ext(EXT_UNKNOWN, Vec::new()),
            Value::Opaque(id) => Wire::Ext(EXT_OPAQUE, id.to_be_bytes().to_vec()),
            Value::Reference(id) => Wire::Ext(EXT_REFERENCE, self.reference_to_wire(id)),
        }
    }

    /// A value from Python in the model. `depth`: how deep inside of another value it is.
    pub(in crate::runtime) fn value_of(&mut self, wire: &Wire, depth: u32) -> Result<Value, Fail> {
        let unreadable = |what: &str| Err(runtime(Loc::NONE, what));
        if depth > MAX_DEPTH {
            return unreadable("the value is nested too deeply");
        }
        Ok(match wire {
            Wire::Nil => Value::Null,
            Wire::Boolean(value) => Value::Bool(*value),
            Wire::Integer(value) => match (value.as_i64(), value.as_u64()) {
                (Some(value), _) => Value::Int(value),
                (None, Some(value)) => self.state.heap.new_int(value.into()),
                (None, None) => return unreadable("an integer that can not be read"),
            },
            Wire::F32(value) => Value::Float(f64::from(*value)),
            Wire::F64(value) => Value::Float(*value),
            Wire::String(text) => match text.as_str() {
                Some(text) => self.state.heap.new_str(text),
                None => return unreadable("a text that is not UTF-8"),
            },
            Wire::Array(items) => {
                let mut values = Vec::with_capacity(items.len());
                for item in items {
                    values.push(self.value_of(item, depth + 1)?);
                }
                self.state.heap.new_list(&values)
            }
            Wire::Map(entries) => {
                let mut values = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let Some(key) = key.as_str() else {
                        let message = format!("dict keys should be strings, got {key}");
                        return Err(runtime(Loc::NONE, message));
                    };
                    let key = self.state.heap.add_str(key);
                    values.push((key, self.value_of(value, depth + 1)?));
                }
                self.state.heap.new_dict(values)
            }
            Wire::Ext(EXT_BIGINT, digits) => {
                let text = std::str::from_utf8(digits).unwrap_or("");
                match text.parse::<num_bigint::BigInt>() {
                    Ok(int) => self.state.heap.new_int(int),
                    Err(_) => return unreadable("an integer that can not be read"),
                }
            }
            Wire::Ext(EXT_UNKNOWN, _) => self.state.heap.new_unknown(),
            Wire::Ext(EXT_INSTANCE, payload) => {
                let id = payload
                    .get(..4)
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(u32::from_be_bytes);
                match id.and_then(|number| self.state.of_number(number)) {
                    Some(id) => Value::Instance(id),
                    None => return unreadable("an instance that does not exist"),
                }
            }
            Wire::Ext(EXT_OPAQUE, payload) => {
                let id = payload.as_slice().try_into().ok().map(u32::from_be_bytes);
                match id {
                    Some(id) => {
                        self.python.has_objects = true;
                        Value::Opaque(id)
                    }
                    None => return unreadable("an object that can not be read"),
                }
            }
            Wire::Ext(EXT_REFERENCE, payload) => self
                .reference_of(payload, depth)
                .map_err(|reason| runtime(Loc::NONE, reason))?,
            Wire::Ext(EXT_TEXT, payload) => match rmpv::decode::read_value(&mut &payload[..]) {
                Ok(Wire::Array(parts)) if parts.len() == 2 => {
                    let (object, text) = (parts[0].as_u64(), parts[1].as_str());
                    let id = self.state.heap.add_str(text.unwrap_or(""));
                    self.python
                        .texts
                        .extend(object.map(|object| (id.0, object as u32)));
                    Value::Str(id)
                }
                _ => return unreadable("a text that can not be read"),
            },
            Wire::Ext(EXT_DATACLASS, payload) => self.dataclass_of(payload, depth)?,
            Wire::Ext(..) | Wire::Binary(_) => {
                return unreadable("a value of no kind that the model knows");
            }
        })
    }

    /// Asks how the objects of Python in a value are written, before a text is made of it; whether
    /// there were any.
    pub(in crate::runtime) fn learn(&mut self, value: Value) -> bool {
        /// Objects that are asked about at most, since nobody reads more.
        const MOST: usize = 100;
        if !self.python.has_objects || self.python.host.is_none() {
            return false;
        }
        let mut strange = Vec::new();
        self.state.heap.strange_objects(value, &mut strange);
        strange.truncate(MOST);
        for object in &strange {
            let id = self.python.next_request();
            let asked = self.ask(ToHost::Describe {
                id,
                object: *object,
            });
            // A host that has ended is told of by its next question.
            if let Ok(FromHost::Described {
                text,
                repr,
                class,
                is_behind_proxy,
                ..
            }) = asked
            {
                let described = Object {
                    text: text.into(),
                    repr: repr.into(),
                    class: class.into(),
                    is_behind_proxy,
                };
                self.state.heap.describe_object(*object, described);
            }
        }
        !strange.is_empty()
    }

    /// Sends a message to the host and waits for its answer. Calls that went ahead get theirs
    /// first.
    pub(in crate::runtime) fn ask(&mut self, message: ToHost) -> Result<FromHost, PluginError> {
        self.settle_ahead();
        self.with_host(|host, callbacks| host.request(message, callbacks))
    }

    /// Lets the host do something, while it may call back. A run in tiles ends here.
    pub(in crate::runtime) fn with_host<T>(
        &mut self,
        work: impl FnOnce(&mut dyn PluginHost, &mut MachineCallbacks) -> Result<T, HostError>,
    ) -> Result<T, PluginError> {
        self.be_observed().map_err(PluginError::Compile)?;
        let Some(mut host) = self.python.host.take() else {
            return external("RuntimeError", "there is no Python host");
        };
        let answer = work(&mut *host, &mut MachineCallbacks { machine: self });
        self.python.host = Some(host);
        answer.or_else(|error| external(error.type_name, error.message))
    }

    /// A call of a native plugin by the Python plugin that runs.
    pub(in crate::runtime) fn call_native(
        &mut self,
        name: &str,
        args: &[Wire],
        kwargs: &[(String, Wire)],
    ) -> Result<Value, PluginError> {
        let program = self.program;
        let found = program.plugins.iter().position(|plugin| {
            matches!(plugin.body, Body::Native(_)) && program.text(plugin.name) == name
        });
        let Some(at) = found else {
            return external("AttributeError", format!("there is no plugin {name}"));
        };
        let mut positional = Vec::with_capacity(args.len());
        for value in args {
            positional.push(self.value_of(value, 0).map_err(PluginError::Compile)?);
        }
        let mut named = Vec::with_capacity(kwargs.len());
        for (key, value) in kwargs {
            named.push((
                key.clone(),
                self.value_of(value, 0).map_err(PluginError::Compile)?,
            ));
        }
        let plugin = PluginId(at as u32);
        let site = match self.python.site {
            Some(site) => Site {
                plugin,
                way: Way::Alone,
                ..site
            },
            None => Site {
                call: None,
                scope: ScopeId::NONE,
                plugin,
                loc: self.python.loc,
                way: Way::Alone,
            },
        };
        let arguments = self
            .check_arguments(plugin, &positional, &named, site.loc)
            .map_err(PluginError::Compile)?;
        if arguments.unknown && !program.plugins[at].allow_unknown {
            return Err(PluginError::Unknown);
        }
        self.invoke(site, &arguments.bound)
    }

    /// The error that an answer is which is no value: variables to wait for, an exception, or an
    /// answer that fits no question.
    pub(in crate::runtime) fn refusal(&mut self, answer: FromHost) -> PluginError {
        match answer {
            FromHost::Unset { variables, .. } => {
                let mut waiting = Vec::new();
                for (instance, attribute) in &variables {
                    if *instance == u32::MAX - 1 {
                        let id = attribute
                            .parse()
                            .ok()
                            .filter(|id| (*id as usize) < self.state.vars.len());
                        waiting.extend(id.filter(|id| !self.state.is_ready(VarId(*id))));
                        continue;
                    }
                    if *instance == u32::MAX {
                        let name = self.name_at_call(attribute);
                        waiting.extend(match name {
                            Some(Name::Variable(id)) if !self.state.is_ready(id) => {
                                Some(self.state.target(id).0)
                            }
                            _ => None,
                        });
                        continue;
                    }
                    let name = self.program.names.find(attribute);
                    let named = self.state.of_number(*instance).zip(name);
                    let slot = named.and_then(|(instance, name)| self.state.slot(instance, name));
                    waiting.extend(
                        slot.filter(|slot| !self.state.var(*slot).is_ready())
                            .map(|slot| slot.0),
                    );
                }
                if waiting.is_empty() {
                    let message = "the plugin waits for values that are known already";
                    return PluginError::Compile(fail("UnsetException", Loc::NONE, message));
                }
                PluginError::Unset(waiting)
            }
            FromHost::Failed { failure, .. } => {
                let traceback = (!failure.traceback.is_empty()).then_some(failure.traceback);
                match failure.kind {
                    FailureKind::Plugin => PluginError::Explicit {
                        type_name: failure.type_name,
                        message: failure.message,
                        traceback,
                    },
                    FailureKind::External => PluginError::External {
                        type_name: failure.type_name,
                        message: failure.message,
                        traceback,
                    },
                    FailureKind::Compile => PluginError::Compile(fail(
                        known_kind(&failure.type_name),
                        Loc::NONE,
                        failure.message,
                    )),
                }
            }
            other => PluginError::External {
                type_name: "RuntimeError".to_owned(),
                message: format!("the Python host answered {other:?}"),
                traceback: None,
            },
        }
    }
}

/// The kind of a diagnostic that an exception of Python's compiler has.
fn known_kind(type_name: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "NotFoundException",
        "OptionalValueException",
        "AttributeException",
        "TypeNotFoundException",
        "TypingException",
        "DoubleSetException",
        "KeyException",
        "DuplicateException",
        "PluginTypeException",
        "UnexpectedReference",
        "UnsetException",
        "CompilerException",
        "ResourceException",
        "DataClassException",
        "DataClassMismatchException",
        "ModifiedAfterFreezeException",
        "MissingImportException",
        "AmbiguousTypeException",
        "DirectExecuteException",
        "ExplicitPluginException",
        "ExternalException",
        "IndexException",
        "CycleException",
        "WrappingRuntimeException",
    ];
    let short = type_name.rsplit('.').next().unwrap_or(type_name);
    KNOWN
        .iter()
        .find(|known| **known == short)
        .copied()
        .unwrap_or("RuntimeException")
}
