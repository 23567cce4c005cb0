//! Calls of plugins, and getters of resource classes, whose answers are known from earlier compiles (`python_host/memo.rs`):
//! looking them up, and adding to them.
//!
//! A call is looked up in its turn (`known_calls`), by reading what the plugin would read, in the same order. Where an attribute has no value
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
    EXT_DATACLASS, EXT_INSTANCE, EXT_REFERENCE, READ_FILE, Reads, what_was_logged,
};
use crate::python_host::memo::{Memo, Place};
use crate::runtime::exec::calls::Site;
use crate::runtime::python_bridge::dataclasses::without_objects;
use crate::runtime::python_bridge::kept_result::{kept_value, rename_instances};
use crate::runtime::python_bridge::known_calls::{
    ABSENT, FILE, Known, LOGGED, MOST_BYTES, Path, UNSET, catching, follow,
};
use crate::runtime::python_bridge::references::rename_references;
use crate::runtime::python_bridge::rendering::Rendering;
use crate::runtime::{Machine, ReadError, VarId};
use crate::types::Value;

/// Attributes that one call reads at most.
const MOST_READS: usize = 10_000;

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
        let value = self.kept_result(&hit, |machine, kept| kept_value(machine, kept, 0))?;
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
            let values = (0..n_values).map(|_| kept_value(machine, kept, 1));
            values.collect::<Option<_>>().map(Some)
        })
    }

    /// Whether Python need not be asked, as things are.
    pub(super) fn is_remembered(&self, asked: Computation) -> bool {
        matches!(self.look_up(asked), Known::Result(..))
    }

    /// The same, or it is known that it waits for a value.
    pub(super) fn needs_no_call(&self, asked: Computation) -> bool {
        matches!(self.look_up(asked), Known::Result(..) | Known::Waits(_))
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
        let name = self.name_of(asked);
        if !memo.has_calls_of(name) {
            return None;
        }
        let path = self.begin(memo, name, asked)?;
        follow(memo, name, path, self)
    }

    /// The place at which a call begins. `None`: it has arguments that only Python understands.
    fn begin(&self, memo: &Memo, name: &str, asked: Computation) -> Option<Path> {
        match asked {
            Computation::Call(site, bound) => {
                let plugin = &self.program.plugins[site.plugin.index()];
                Path::of_call(memo, plugin, name, bound, self)
            }
            Computation::Fields(asked) => Path::of_fields(memo, name, asked.instance, self),
        }
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
            if *number == READ_FILE {
                steps.push((path.place, *number, name));
                path.found.push(FILE);
                path.found.extend_from_slice(&memo.digest_of_read(name)?);
                path.go_on();
                continue;
            }
            let id = self.state.of_number(*number)?;
            let instance = path.instances.iter().position(|known| *known == id)?;
            let instance = u32::try_from(instance).ok()?;
            steps.push((path.place, instance, name));
            match path.slot_of(instance, name, self)? {
                None => path.found.push(ABSENT),
                Some(slot) => {
                    let value = match self.state.read_slot(slot) {
                        Ok(value) => Some(value),
                        Err(ReadError::OptionalUnset(_)) => None,
                        Err(_) => Some(assumed.iter().find(|(of, _)| *of == slot)?.1?),
                    };
                    match value {
                        Some(value) => path.find_value(value, self, 0)?,
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
            let is_same = match instance {
                READ_FILE => memo.add_file(place, name),
                instance => memo.add_read(place, instance, name),
            };
            if !is_same {
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

/// Whether a value of this extension type is in a value.
fn has_any(value: &Wire, extension: i8) -> bool {
    match value {
        Wire::Ext(code, _) => *code == extension,
        Wire::Array(items) => items.iter().any(|item| has_any(item, extension)),
        Wire::Map(entries) => entries.iter().any(|(_, value)| has_any(value, extension)),
        _ => false,
    }
}
