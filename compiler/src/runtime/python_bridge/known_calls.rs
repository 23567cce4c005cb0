//! The way of a call through what is known of earlier ones (`python_host/memo.rs`), read of whoever has the model: the machine,
//! or a template that is being rendered and was lent it ([`crate::runtime::exec::template_view`]).

use smallvec::SmallVec;

use crate::hir::Program;
use crate::hir::plugin::{Bound, PluginDef};
use crate::protocol::ParameterKind;
use crate::python_host::memo::{Memo, Next, Place, place};
use crate::runtime::{InstId, Machine, ReadError, VarId};
use crate::types::reference::{Origin, RefId};
use crate::types::{EntityId, Heap, Value};

/// Bytes of a call's arguments, or of a value that it reads, at most.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// Stands for an attribute that the entity does not have, in what was found. No value begins with it.
pub(super) const ABSENT: u8 = b'a';
/// Stands for an optional relation that has no value, in the same way: a plugin that reads it gets an exception.
pub(super) const UNSET: u8 = b'u';
/// Stands for words for people, in the same way.
pub(super) const LOGGED: u8 = b'w';
/// Stands before the digest of a file, in the same way.
pub(super) const FILE: u8 = b'h';
/// How deeply values are nested at most.
pub(super) const MAX_DEPTH: u32 = 100;

/// The model as the way of a call needs it.
pub(in crate::runtime) trait Readable {
    fn program(&self) -> &Program;
    fn heap(&self) -> &Heap;
    fn entity_of(&self, instance: InstId) -> EntityId;
    /// The slot of an attribute by its name; `None`: the entity has no such attribute.
    fn slot_named(&self, instance: InstId, name: &str) -> Option<VarId>;
    fn read_slot(&self, slot: VarId) -> Result<Value, ReadError>;
    /// Whether Python has an object in the place of an instance, with more to it than its fields.
    fn has_own_object(&self, instance: InstId) -> bool;
    /// Whether texts may be such objects, too.
    fn has_own_texts(&self) -> bool;
}

impl Readable for Machine<'_> {
    fn program(&self) -> &Program {
        self.program
    }

    fn heap(&self) -> &Heap {
        &self.state.heap
    }

    fn entity_of(&self, instance: InstId) -> EntityId {
        self.state.instance(instance).entity
    }

    fn slot_named(&self, instance: InstId, name: &str) -> Option<VarId> {
        let name = self.program.names.find(name)?;
        self.state.slot(instance, name)
    }

    fn read_slot(&self, slot: VarId) -> Result<Value, ReadError> {
        self.state.read_slot(slot)
    }

    fn has_own_object(&self, instance: InstId) -> bool {
        Machine::has_own_object(self, instance)
    }

    fn has_own_texts(&self) -> bool {
        !self.python.texts.is_empty()
    }
}

/// What is known of a call.
pub(in crate::runtime) enum Known {
    /// Nothing, or not enough.
    Nothing,
    /// It reads an attribute that has no value yet.
    Waits(VarId),
    /// Its result.
    Result(Hit),
}

/// Where the result of a call stands.
pub(in crate::runtime) struct Hit {
    /// The records that led there.
    pub(in crate::runtime) records: SmallVec<[u32; 8]>,
    /// Its number in the memo.
    pub(in crate::runtime) at: u32,
    /// The same of what the call says for people.
    pub(in crate::runtime) logged: Option<u32>,
    /// The instances that the call came upon: the result names them by their positions.
    pub(in crate::runtime) instances: SmallVec<[InstId; 8]>,
    /// The same of the references among its arguments.
    pub(in crate::runtime) references: SmallVec<[RefId; 2]>,
}

/// A call on its way through what is known.
pub(in crate::runtime) struct Path {
    pub(super) place: Place,
    /// The instances that it came upon, in order.
    pub(super) instances: SmallVec<[InstId; 8]>,
    /// The references among its arguments. Those that it reads are none of its: it may do with them what is not noted.
    pub(super) references: SmallVec<[RefId; 2]>,
    takes_references: bool,
    /// What was found last, in the form that goes into the digest.
    pub(super) found: Vec<u8>,
}

impl Path {
    pub(super) fn go_on(&mut self) {
        self.place = place(self.place, &self.found);
        self.found.clear();
    }

    fn tag(&mut self, tag: u8, size: usize) {
        self.found.push(tag);
        self.found.extend_from_slice(&(size as u64).to_le_bytes());
    }

    fn text(&mut self, tag: u8, text: &str) {
        self.tag(tag, text.len());
        self.found.extend_from_slice(text.as_bytes());
    }

    /// The place at which a call of a plugin begins. `None`: it has arguments that only Python understands.
    pub(in crate::runtime) fn of_call(
        memo: &Memo,
        plugin: &PluginDef,
        name: &str,
        bound: &Bound,
        model: &impl Readable,
    ) -> Option<Path> {
        let mut path = Path::start(memo);
        path.text(b'c', name);
        path.takes_references = true;
        path.find_arguments(plugin, bound, model)?;
        path.takes_references = false;
        path.go_on();
        Some(path)
    }

    /// The same of the fields that a resource class computes; `name`: all that says which getters run.
    pub(super) fn of_fields(
        memo: &Memo,
        name: &str,
        instance: InstId,
        model: &impl Readable,
    ) -> Option<Path> {
        let mut path = Path::start(memo);
        path.text(b'r', name);
        path.find_value(Value::Instance(instance), model, 0)?;
        path.go_on();
        Some(path)
    }

    fn start(memo: &Memo) -> Path {
        Path {
            place: memo.start(),
            instances: SmallVec::new(),
            references: SmallVec::new(),
            takes_references: false,
            found: Vec::new(),
        }
    }

    fn find_arguments(
        &mut self,
        plugin: &PluginDef,
        bound: &Bound,
        model: &impl Readable,
    ) -> Option<()> {
        let plain = plugin.parameters.iter();
        let plain = plain.filter(|p| p.kind == ParameterKind::Positional);
        for (at, (parameter, value)) in plain.zip(&bound.values).enumerate() {
            match value {
                Some(value) if at < bound.n_positional => self.find_value(*value, model, 0)?,
                Some(value) => {
                    self.text(b'k', &parameter.name);
                    self.find_value(*value, model, 0)?;
                }
                None => self.found.push(b'-'),
            }
        }
        self.tag(b'*', bound.var_args.len());
        for value in &bound.var_args {
            self.find_value(*value, model, 0)?;
        }
        for (name, value) in &bound.keywords {
            self.text(b'k', name);
            self.find_value(*value, model, 0)?;
        }
        Some(())
    }

    /// The slot of an attribute of an instance that the call came upon; `Some(None)`: its entity has no such attribute, as
    /// `hasattr` finds out.
    pub(super) fn slot_of(
        &self,
        instance: u32,
        name: &str,
        model: &impl Readable,
    ) -> Option<Option<VarId>> {
        let id = *self.instances.get(instance as usize)?;
        Some(model.slot_named(id, name))
    }

    /// Adds a value to what was found. `None`: it is one that only Python understands, or too large.
    pub(super) fn find_value(
        &mut self,
        value: Value,
        model: &impl Readable,
        depth: u32,
    ) -> Option<()> {
        if depth > MAX_DEPTH || self.found.len() > MOST_BYTES {
            return None;
        }
        match value {
            Value::Null => self.found.push(b'n'),
            Value::Bool(value) => self.found.push(if value { b't' } else { b'f' }),
            Value::Int(value) => {
                self.found.push(b'i');
                self.found.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float(value) => {
                self.found.push(b'd');
                self.found.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            Value::Str(text) if !model.has_own_texts() => {
                self.text(b's', model.heap().str(text));
            }
            Value::List(list) => {
                let items = model.heap().list(list);
                self.tag(b'l', items.len());
                for item in items {
                    self.find_value(*item, model, depth + 1)?;
                }
            }
            Value::Dict(dict) => {
                let entries = &model.heap().dict(dict).entries;
                self.tag(b'm', entries.len());
                for (key, value) in entries {
                    self.text(b's', model.heap().str(*key));
                    self.find_value(*value, model, depth + 1)?;
                }
            }
            Value::Instance(id) => {
                if model.has_own_object(id) {
                    return None;
                }
                let known = self.instances.iter().position(|known| *known == id);
                let number = known.unwrap_or(self.instances.len());
                self.tag(b'o', number);
                if known.is_none() {
                    self.instances.push(id);
                    let entity = model.entity_of(id);
                    self.text(b'e', model.program().entity_name(entity));
                }
            }
            Value::Reference(id) if self.takes_references => {
                self.find_reference(id, model, depth)?;
            }
            Value::Skip
            | Value::Str(_)
            | Value::Big(_)
            | Value::Unknown(_)
            | Value::Opaque(_)
            | Value::Reference(_) => return None,
        }
        Some(())
    }

    /// The same of a reference. `None`: it is an object of Python's.
    fn find_reference(&mut self, id: RefId, model: &impl Readable, depth: u32) -> Option<()> {
        let known = self.references.iter().position(|known| *known == id);
        self.tag(b'p', known.unwrap_or(self.references.len()));
        if known.is_some() {
            return Some(());
        }
        self.references.push(id);
        let reference = model.heap().reference(id);
        self.text(b's', &reference.kind);
        self.text(b's', &reference.class);
        self.text(b's', &model.program().type_text(reference.of));
        match &reference.origin {
            Origin::Python { .. } => return None,
            Origin::Native(arguments) => {
                self.tag(b'm', arguments.len());
                for (name, value) in arguments {
                    self.text(b's', name);
                    self.find_value(*value, model, depth + 1)?;
                }
            }
            Origin::Plain { arguments, .. } => {
                self.tag(b'm', arguments.len());
                for (name, value) in arguments {
                    self.text(b's', name);
                    self.find_value(*value, model, depth + 1)?;
                }
            }
        }
        Some(())
    }
}

/// Goes on from where a call of `name` begins; `None`: it leads nowhere.
pub(in crate::runtime) fn follow(
    memo: &Memo,
    name: &str,
    mut path: Path,
    model: &impl Readable,
) -> Option<Known> {
    let mut records = SmallVec::new();
    let mut words = None;
    loop {
        let (record, next) = memo.next(path.place)?;
        records.push(record);
        match next {
            Next::Result { at } => {
                return Some(Known::Result(Hit {
                    records,
                    at,
                    logged: words,
                    instances: path.instances,
                    references: path.references,
                }));
            }
            Next::File { path: file } => {
                path.found.push(FILE);
                path.found.extend_from_slice(&memo.file_digest(file)?);
                path.go_on();
            }
            Next::Logged { at } => {
                words = Some(at);
                path.found.push(LOGGED);
                path.go_on();
            }
            Next::Read { instance, name: of } => {
                match path.slot_of(instance, memo.name(of)?, model)? {
                    None => path.found.push(ABSENT),
                    Some(slot) => match model.read_slot(slot) {
                        Ok(value) => path.find_value(value, model, 0)?,
                        Err(ReadError::OptionalUnset(_)) => path.found.push(UNSET),
                        Err(ReadError::NotReady(_)) if !is_catching(memo, name) => {
                            return Some(Known::Waits(slot));
                        }
                        Err(_) => return None,
                    },
                }
                path.go_on();
            }
        }
    }
}

/// The name of the verdict whether a plugin that only computes may go on where an attribute has no value yet
/// (`python/steward_host/catching.py`).
pub(super) fn catching(plugin: &str) -> String {
    format!("catching {plugin}")
}

/// Whether that may be so: then nobody can wait in its place.
fn is_catching(memo: &Memo, plugin: &str) -> bool {
    memo.verdicts().get(&catching(plugin)) != Some(&false)
}
