//! Calls of plugins, and getters of resource classes, whose answers are known from earlier compiles (`python_host/memo.rs`):
//! looking them up, and adding to them.
//!
//! A call is looked up in its turn, by reading what the plugin would read, in the same order. Where an attribute has no value
//! yet, the plugin would let the exception through that says so, and the step waits for it as it would then; a plugin that catches it is
//! called. Where a value is
//! one that only Python understands (an object, an Unknown, a reference that is read, a dataclass with more to it than its fields),
//! the call is made as if nothing were known. An answer that Python gives comes with what the plugin has read for it, if it only computes, and is added then:
//! the model stands still until the step is over, so the values are those that the plugin saw.
//!
//! The getters of a resource are one call, whose argument is the instance. The model is complete then.

use std::borrow::Cow;

use rmpv::Value as Wire;
use smallvec::SmallVec;

use crate::hir::plugin::{Bound, PluginError};
use crate::protocol::{
    EXT_DATACLASS, EXT_INSTANCE, EXT_REFERENCE, ParameterKind, Reads, what_was_logged,
};
use crate::python_host::memo::{Memo, Next, Place, place};
use crate::runtime::exec::calls::Site;
use crate::runtime::python_bridge::dataclasses::without_objects;
use crate::runtime::python_bridge::kept_result::rename_instances;
use crate::runtime::python_bridge::references::rename_references;
use crate::runtime::python_bridge::rendering::Rendering;
use crate::runtime::{InstId, Machine, ReadError, VarId};
use crate::types::Value;
use crate::types::reference::{Origin, RefId};

/// Bytes of a call's arguments, or of a value that it reads, at most.
const MOST_BYTES: usize = 64 << 10;
/// Stands for an attribute that the entity does not have, in what was found. No value begins with it.
const ABSENT: u8 = b'a';
/// Stands for an optional relation that has no value, in the same way: a plugin that reads it gets an exception.
const UNSET: u8 = b'u';
/// Stands for words for people, in the same way.
const LOGGED: u8 = b'w';
/// Attributes that one call reads at most.
const MOST_READS: usize = 10_000;
/// How deeply values are nested at most.
pub(super) const MAX_DEPTH: u32 = 100;

/// What Python is asked, when it only has to compute for an answer.
#[derive(Clone, Copy)]
pub(super) enum Computation<'c, 'f> {
    /// A call of a plugin.
    Call(Site, &'c Bound),
    /// The fields that a resource class computes.
    Fields(&'c Rendering<'f>),
}

/// What Python has computed.
#[derive(Clone, Copy)]
pub(super) struct Answer<'a> {
    pub(super) value: &'a Wire,
    pub(super) reads: &'a Reads,
    /// What was logged for people meanwhile.
    pub(super) logged: &'a [(String, String)],
}

impl<'a> Answer<'a> {
    /// One without words.
    pub(super) fn of(value: &'a Wire, reads: &'a Reads) -> Self {
        Answer {
            value,
            reads,
            logged: &[],
        }
    }
}

/// What is known of a call.
pub(super) enum Known {
    /// Nothing, or not enough.
    Nothing,
    /// It reads an attribute that has no value yet.
    Waits(VarId),
    /// Its result.
    Result(Hit),
}

/// Where the result of a call stands.
pub(super) struct Hit {
    /// The records that led there.
    pub(super) records: SmallVec<[u32; 8]>,
    /// Its number in the memo.
    pub(super) at: u32,
    /// The same of what the call says for people.
    logged: Option<u32>,
    /// The instances that the call came upon: the result names them by their positions.
    pub(super) instances: SmallVec<[InstId; 8]>,
    /// The same of the references among its arguments.
    pub(super) references: SmallVec<[RefId; 2]>,
}

/// A call on its way through what is known.
struct Path {
    place: Place,
    /// The instances that it came upon, in order.
    instances: SmallVec<[InstId; 8]>,
    /// The references among its arguments. Those that it reads are none of its: it may do with them what is not noted.
    references: SmallVec<[RefId; 2]>,
    takes_references: bool,
    /// What was found last, in the form that goes into the digest.
    found: Vec<u8>,
}

impl Path {
    fn go_on(&mut self) {
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
}

impl Machine<'_> {
    /// What a call gives, or what it waits for; `None`: Python has to be asked.
    pub(super) fn remembered(
        &mut self,
        site: Site,
        bound: &Bound,
    ) -> Option<Result<Value, PluginError>> {
        let hit = match self.look_up(Computation::Call(site, bound)) {
            Known::Nothing => return None,
            Known::Waits(slot) => return Some(Err(PluginError::Unset(vec![slot.0]))),
            Known::Result(hit) => hit,
        };
        self.python.guesses.count_use(site.plugin);
        self.python.loc = site.loc;
        let value = self.kept_result(&hit, |machine, kept| machine.kept_value(kept, 0))?;
        if let Some(at) = hit.logged {
            let logged = self.python.memo.as_ref()?.result(at)?;
            let logged = rmpv::decode::read_value(&mut &logged[..]).ok()?;
            self.say(&what_was_logged(&logged)?);
        }
        Some(Ok(value))
    }

    /// What a resource class computes for an instance: the values of the fields, and behind them that of the id attribute, if
    /// it is asked for; no values: it leaves the resource out. `None`: Python has to be asked.
    pub(super) fn remembered_fields(&mut self, asked: &Rendering) -> Option<Option<Vec<Value>>> {
        let Known::Result(hit) = self.look_up(Computation::Fields(asked)) else {
            return None;
        };
        self.kept_result(&hit, |machine, kept| {
            if kept.is_null() {
                return Some(None);
            }
            let n_values = kept.array_len()?;
            let values = (0..n_values).map(|_| machine.kept_value(kept, 1));
            values.collect::<Option<_>>().map(Some)
        })
    }

    /// Whether Python need not be asked, as things are.
    pub(super) fn is_remembered(&self, asked: Computation) -> bool {
        matches!(self.look_up(asked), Known::Result(..))
    }

    fn look_up(&self, asked: Computation) -> Known {
        self.follow(asked).unwrap_or(Known::Nothing)
    }

    /// By what it is known whether something only computes: the name of a plugin, or all that says which getters of a resource
    /// class run (as `Exporting` in `python/steward_host/exporting.py` writes it).
    fn name_of<'n>(&'n self, asked: Computation<'n, '_>) -> &'n str {
        match asked {
            Computation::Call(site, _) => {
                let plugin = &self.program.plugins[site.plugin.index()];
                self.program.text(plugin.name)
            }
            Computation::Fields(asked) => &asked.computation,
        }
    }

    /// Goes the way of a call; `None`: it leads nowhere.
    fn follow(&self, asked: Computation) -> Option<Known> {
        let memo = self.python.memo.as_ref()?;
        if memo.is_empty() {
            return None;
        }
        let name = self.name_of(asked);
        if !memo.has_calls_of(name) {
            return None;
        }
        let mut path = self.begin(memo, name, asked)?;
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
                Next::Logged { at } => {
                    words = Some(at);
                    path.found.push(LOGGED);
                    path.go_on();
                }
                Next::Read { instance, name } => {
                    match self.slot_of(&path, instance, memo.name(name)?)? {
                        None => path.found.push(ABSENT),
                        Some(slot) => match self.state.read_slot(slot) {
                            Ok(value) => self.find_value(value, &mut path, 0)?,
                            Err(ReadError::OptionalUnset(_)) => path.found.push(UNSET),
                            Err(ReadError::NotReady(_))
                                if !is_catching(memo, self.name_of(asked)) =>
                            {
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

    /// The place at which a call begins. `None`: it has arguments that only Python understands.
    fn begin(&self, memo: &Memo, name: &str, asked: Computation) -> Option<Path> {
        let mut path = Path {
            place: memo.start(),
            instances: SmallVec::new(),
            references: SmallVec::new(),
            takes_references: false,
            found: Vec::new(),
        };
        match asked {
            Computation::Call(site, bound) => {
                path.text(b'c', name);
                path.takes_references = true;
                self.find_arguments(site, bound, &mut path)?;
                path.takes_references = false;
            }
            Computation::Fields(asked) => {
                path.text(b'r', name);
                self.find_value(Value::Instance(asked.instance), &mut path, 0)?;
            }
        }
        path.go_on();
        Some(path)
    }

    fn find_arguments(&self, site: Site, bound: &Bound, path: &mut Path) -> Option<()> {
        let plugin = &self.program.plugins[site.plugin.index()];
        let plain = plugin.parameters.iter();
        let plain = plain.filter(|p| p.kind == ParameterKind::Positional);
        for (at, (parameter, value)) in plain.zip(&bound.values).enumerate() {
            match value {
                Some(value) if at < bound.n_positional => self.find_value(*value, path, 0)?,
                Some(value) => {
                    path.text(b'k', &parameter.name);
                    self.find_value(*value, path, 0)?;
                }
                None => path.found.push(b'-'),
            }
        }
        path.tag(b'*', bound.var_args.len());
        for value in &bound.var_args {
            self.find_value(*value, path, 0)?;
        }
        for (name, value) in &bound.keywords {
            path.text(b'k', name);
            self.find_value(*value, path, 0)?;
        }
        Some(())
    }

    /// The slot of an attribute of an instance that a call came upon; `Some(None)`: its entity has no such attribute, as
    /// `hasattr` finds out.
    fn slot_of(&self, path: &Path, instance: u32, name: &str) -> Option<Option<VarId>> {
        let id = *path.instances.get(instance as usize)?;
        let name = self.program.names.find(name);
        Some(name.and_then(|name| self.state.slot(id, name)))
    }

    /// Adds a value to what was found. `None`: it is one that only Python understands, or too large.
    fn find_value(&self, value: Value, path: &mut Path, depth: u32) -> Option<()> {
        if depth > MAX_DEPTH || path.found.len() > MOST_BYTES {
            return None;
        }
        match value {
            Value::Null => path.found.push(b'n'),
            Value::Bool(value) => path.found.push(if value { b't' } else { b'f' }),
            Value::Int(value) => {
                path.found.push(b'i');
                path.found.extend_from_slice(&value.to_le_bytes());
            }
            Value::Float(value) => {
                path.found.push(b'd');
                path.found.extend_from_slice(&value.to_bits().to_le_bytes());
            }
            Value::Str(text) if self.python.texts.is_empty() => {
                path.text(b's', self.state.heap.str(text));
            }
            Value::List(list) => {
                let items = self.state.heap.list(list);
                path.tag(b'l', items.len());
                for item in items {
                    self.find_value(*item, path, depth + 1)?;
                }
            }
            Value::Dict(dict) => {
                let entries = &self.state.heap.dict(dict).entries;
                path.tag(b'm', entries.len());
                for (key, value) in entries {
                    path.text(b's', self.state.heap.str(*key));
                    self.find_value(*value, path, depth + 1)?;
                }
            }
            Value::Instance(id) => {
                if self.has_own_object(id) {
                    return None;
                }
                let known = path.instances.iter().position(|known| *known == id);
                let number = known.unwrap_or(path.instances.len());
                path.tag(b'o', number);
                if known.is_none() {
                    path.instances.push(id);
                    let entity = self.state.instance(id).entity;
                    path.text(b'e', self.program.entity_name(entity));
                }
            }
            Value::Reference(id) if path.takes_references => {
                self.find_reference(id, path, depth)?;
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
    fn find_reference(&self, id: RefId, path: &mut Path, depth: u32) -> Option<()> {
        let known = path.references.iter().position(|known| *known == id);
        path.tag(b'p', known.unwrap_or(path.references.len()));
        if known.is_some() {
            return Some(());
        }
        path.references.push(id);
        let reference = self.state.heap.reference(id);
        path.text(b's', &reference.kind);
        path.text(b's', &reference.class);
        path.text(b's', &self.program.type_text(reference.of));
        match &reference.origin {
            Origin::Python { .. } => return None,
            Origin::Native(arguments) => {
                path.tag(b'm', arguments.len());
                for (name, value) in arguments {
                    path.text(b's', name);
                    self.find_value(*value, path, depth + 1)?;
                }
            }
            Origin::Plain { arguments, .. } => {
                path.tag(b'm', arguments.len());
                for (name, value) in arguments {
                    path.text(b's', name);
                    self.find_value(*value, path, depth + 1)?;
                }
            }
        }
        Some(())
    }

    /// Adds what Python has computed. A plugin that did something else than it did before in the same place is no plugin
    /// that only computes.
    /// `assumed`: the values that it was given for slots without one.
    pub(super) fn remember(
        &mut self,
        asked: Computation,
        answer: Answer,
        assumed: &[(VarId, Option<Value>)],
    ) {
        let Some(mut memo) = self.python.memo.take() else {
            return;
        };
        let name = self.name_of(asked);
        match answer.reads {
            Reads::Impure => memo.judge(name, false),
            Reads::Untold => memo.judge(name, true),
            Reads::Told { reads, catches } => {
                memo.judge(name, true);
                if let Computation::Call(..) = asked {
                    memo.judge(&catching(name), *catches);
                }
                let begin = self.begin(&memo, name, asked);
                let added =
                    begin.and_then(|path| self.add(&mut memo, path, (answer, reads), assumed));
                if added == Some(false) {
                    memo.judge(name, false);
                }
            }
        }
        self.python.memo = Some(memo);
    }

    /// `None`: it can not be kept; `Some(false)`: something else is kept in its place.
    fn add(
        &self,
        memo: &mut Memo,
        mut path: Path,
        (answer, reads): (Answer, &[(u32, String)]),
        assumed: &[(VarId, Option<Value>)],
    ) -> Option<bool> {
        let mut steps: SmallVec<[(Place, u32, &str); 16]> = SmallVec::new();
        if reads.len() > MOST_READS {
            return None;
        }
        for (number, name) in reads {
            let id = self.state.of_number(*number)?;
            let instance = path.instances.iter().position(|known| *known == id)?;
            let instance = u32::try_from(instance).ok()?;
            steps.push((path.place, instance, name));
            match self.slot_of(&path, instance, name)? {
                None => path.found.push(ABSENT),
                Some(slot) => {
                    let value = match self.state.read_slot(slot) {
                        Ok(value) => Some(value),
                        Err(ReadError::OptionalUnset(_)) => None,
                        Err(_) => Some(assumed.iter().find(|(of, _)| *of == slot)?.1?),
                    };
                    match value {
                        Some(value) => self.find_value(value, &mut path, 0)?,
                        None => path.found.push(UNSET),
                    }
                }
            }
            path.go_on();
        }
        let mut value = Cow::Borrowed(answer.value);
        if has_any(&value, EXT_DATACLASS) {
            without_objects(value.to_mut())?;
        }
        if has_any(&value, EXT_INSTANCE) {
            rename_instances(value.to_mut(), &|number| {
                let id = self.state.of_number(number)?;
                let position = path.instances.iter().position(|known| *known == id)?;
                u32::try_from(position).ok()
            })?;
        }
        if has_any(&value, EXT_REFERENCE) {
            rename_references(value.to_mut(), &|number| {
                let mut known = path.references.iter();
                let position = known.position(|known| known.0 == number)?;
                u32::try_from(position).ok()
            })?;
        }
        let mut result = Vec::new();
        rmpv::encode::write_value(&mut result, &value).ok()?;
        let words = answer.logged.iter();
        let n_bytes: usize = words.map(|(level, text)| level.len() + text.len()).sum();
        if n_bytes > MOST_BYTES {
            return None;
        }
        for (place, instance, name) in steps {
            let name = memo.number_of(name);
            if !memo.add_read(place, instance, name) {
                return Some(false);
            }
        }
        if !answer.logged.is_empty() {
            let words = answer.logged.iter();
            let words =
                words.flat_map(|(level, text)| [level.as_str().into(), text.as_str().into()]);
            let mut logged = Vec::new();
            rmpv::encode::write_value(&mut logged, &Wire::Array(words.collect())).ok()?;
            if !memo.add_logged(path.place, &logged) {
                return Some(false);
            }
            path.found.push(LOGGED);
            path.go_on();
        }
        Some(memo.add_result(path.place, &result))
    }
}

/// The name of the verdict whether a plugin that only computes may go on where an attribute has no value yet
/// (`python/steward_host/catching.py`).
fn catching(plugin: &str) -> String {
    format!("catching {plugin}")
}

/// Whether that may be so: then nobody can wait in its place.
fn is_catching(memo: &Memo, plugin: &str) -> bool {
    memo.verdicts().get(&catching(plugin)) != Some(&false)
}

/// Whether a value of this extension type is in a value.
fn has_any(value: &Wire, extension: i8) -> bool {
    match value {
        Wire::Ext(code, _) => *code == extension,
        Wire::Array(items) => items.iter().any(|item| has_any(item, extension)),
        Wire::Map(entries) => entries.iter().any(|(_, value)| has_any(value, extension)),
        _ => false,
    }
}
