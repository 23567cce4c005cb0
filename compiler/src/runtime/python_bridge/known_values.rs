//! What goes to Python with the instances of a call: the attributes that the plugin read in its
//! calls before.
//!
//! A plugin gets instances as handles and asks for each attribute that it reads, and such a host
//! callback costs as much as a call. But a plugin reads the same attributes of one instance as of
//! the next: `site.device.name` of the first site is followed by `site.device.name` of the second
//! one. So the machine learns by plugin and entity which attributes were asked for, and from the
//! next call on they travel inside of the handle, and so do those of the instances in them: with a
//! site goes its device, and with the device its name. An answer takes along what is expected to be
//! asked for next in the same way.
//!
//! Nobody can tell the difference. Variables are assigned once, so a value that is there when the
//! call goes is the one that an answer would give; an attribute without a value does not travel,
//! unless it is known which one it will have (`coming_values`), so it is asked for, and the answer
//! is that of the moment of the callback. An attribute travels
//! once, since Python keeps it.
//!
//! With the getters of a resource class it is the same, resource by resource.
//!
//! A plugin that goes through a long list in its first call would ask for each element. So when it asks for instances of an
//! entity one behind the other, in the order in which they were made, answers take along those that come next, too: two, then
//! four, up to a few hundred (as the read-ahead of files does it).

use rmpv::Value as Wire;

use crate::hash::Map;
use crate::hir::PluginId;
use crate::protocol::calls::Marshal;
use crate::runtime::python_bridge::PythonBridge;
use crate::runtime::python_bridge::call::When;
use crate::runtime::{InstId, Machine, ReadError, VarId};
use crate::types::{EntityId, Value};

/// Instances that one call takes along with attributes; the others go as plain handles. A plugin that goes through much
/// of the model in one call may do without most of it in the next.
const MOST_INSTANCES: u32 = 256;
/// Elements of a list that travels, for the same reason.
const MOST_ELEMENTS: usize = 1000;
/// Containers in each other that travel.
const MOST_NESTED: u32 = 8;
/// Open relations that a call is told of.
const MOST_OPEN: usize = 64;
/// Longer texts are asked for.
const MOST_BYTES: usize = 4096;
/// Bytes of an answer after which no more instances go along.
const MOST_BYTES_ALONG: usize = 64 << 10;
/// Relations that are followed from an argument.
const MOST_DEPTH: u32 = 8;
/// Only the first slots of an entity travel: those that Python knows of an instance are the bits of a word.
const SLOTS: u32 = 64;

/// Attributes that go with an instance: the slot within it, and the value.
type Going = smallvec::SmallVec<[(u32, Value); 8]>;

/// What plugins read, and what Python knows.
#[derive(Default)]
pub(in crate::runtime) struct KnownValues {
    /// Slots that a plugin has asked for, of the instances of an entity.
    reads: Map<(PluginId, EntityId), Vec<u32>>,
    /// By instance: the slots whose values Python has, as bits.
    known: Map<InstId, u64>,
    /// Instances that are asked for one behind the other.
    row: Row,
}

/// Where a plugin is that goes through the instances of an entity in the order in which they were made.
#[derive(Default)]
struct Row {
    /// Who reads, and of which entity.
    of: Option<(PluginId, EntityId)>,
    /// The place of the instance that is asked for next if it goes on like this.
    next: usize,
    /// How many went along with the last one.
    n_along: usize,
}

impl Row {
    /// An instance at this place is asked for; how many of those behind it may go along.
    fn step(&mut self, of: (PluginId, EntityId), at: usize) -> usize {
        let goes_on = self.of == Some(of) && self.next == at;
        self.n_along = match goes_on {
            true => (2 * self.n_along).clamp(2, MOST_INSTANCES as usize - 1),
            false => 0,
        };
        (self.of, self.next) = (Some(of), at + 1 + self.n_along);
        self.n_along
    }
}

impl KnownValues {
    /// Whether any plugin has read anything.
    pub fn has_reads(&self) -> bool {
        !self.reads.is_empty()
    }
}

/// One call that is written.
pub(in crate::runtime) struct CallWriter<'w> {
    /// Where the call is written.
    pub out: &'w mut Marshal,
    plugin: PluginId,
    /// Instances that may still take attributes along.
    n_left: u32,
    depth: u32,
    /// When it is made.
    pub when: When,
    /// Relations that the plugin is going to read, and that are open: the instance, and the slot within it.
    pub open: Vec<(InstId, u32)>,
}

impl<'w> CallWriter<'w> {
    /// Begins the writing of a call of a plugin.
    pub fn to(plugin: PluginId, out: &'w mut Marshal) -> CallWriter<'w> {
        CallWriter {
            out,
            plugin,
            n_left: MOST_INSTANCES,
            depth: 0,
            when: When::Later,
            open: Vec::new(),
        }
    }
}

impl PythonBridge {
    /// Who reads attributes now: the plugin that runs, or the getters of a resource class, which stand behind all plugins.
    pub(in crate::runtime) fn reader(&self) -> Option<PluginId> {
        match self.rendering {
            Some(class) => Some(PluginId(u32::MAX - class)),
            None => self.site.map(|site| site.plugin),
        }
    }
}

impl Machine<'_> {
    /// A running call has asked for an attribute.
    pub(in crate::runtime) fn learn_read(
        &mut self,
        instance: InstId,
        slot: VarId,
        has_value: bool,
    ) {
        let Some(reader) = self.python.reader() else {
            return;
        };
        let known = self.state.instance(instance);
        let entity = known.entity;
        let at = slot.0 - known.slots.0;
        if at >= SLOTS {
            return;
        }
        let reads = self
            .python
            .known_values
            .reads
            .entry((reader, entity))
            .or_default();
        if !reads.contains(&at) {
            reads.push(at);
        }
        if has_value {
            *self.python.known_values.known.entry(instance).or_default() |= 1 << at;
        }
    }

    /// The answer to a running call that asks for an attribute: with it goes what else the plugin is going to read. In a
    /// call that went ahead of its turn, that may have been without values when the call went. `None`: the attribute can
    /// not travel so.
    pub(in crate::runtime) fn expected_reads(
        &mut self,
        instance: InstId,
        slot: VarId,
    ) -> Option<Vec<u8>> {
        let plugin = self.python.reader()?;
        let bit = slot.0 - self.state.instance(instance).slots.0;
        let known = self
            .python
            .known_values
            .known
            .get(&instance)
            .copied()
            .unwrap_or_default();
        let value = self.state.read_slot(slot).ok()?;
        let is_new = bit < SLOTS && known & (1 << bit) == 0;
        if !is_new || !self.may_travel(value) || self.dataclass_to_wire(instance).is_some() {
            return None;
        }
        self.learn_read(instance, slot, false);
        let mut answer = Marshal::default();
        let mut writer = CallWriter::to(plugin, &mut answer);
        self.write_instance(instance, &mut writer);
        let n_along = self.write_following(instance, &mut writer);
        Some(Marshal::frame(&answer, 1 + n_along))
    }

    /// Writes the instances that are likely to be asked for next, with what is read of them; how many they are.
    fn write_following(&mut self, instance: InstId, call: &mut CallWriter) -> usize {
        let entity = self.state.instance(instance).entity;
        let row = self.state.instances_of(entity);
        let Ok(at) = row.binary_search(&instance) else {
            return 0;
        };
        let n_most = self.python.known_values.row.step((call.plugin, entity), at);
        let mut n_along = 0;
        for next in at + 1..at + 1 + n_most {
            let Some(id) = self.state.instances_of(entity).get(next).copied() else {
                break;
            };
            if call.n_left == 0 || call.out.len() > MOST_BYTES_ALONG {
                break;
            }
            if self.dataclass_to_wire(id).is_none() {
                self.write_instance(id, call);
                n_along += 1;
            }
        }
        n_along
    }

    /// Writes an argument, its instances with what the plugin is going to read of them.
    pub(in crate::runtime) fn write_argument(&mut self, value: Value, call: &mut CallWriter) {
        match value {
            Value::Null | Value::Skip => call.out.none(),
            Value::Bool(value) => call.out.bool(value),
            Value::Int(value) => call.out.int(value),
            Value::Float(value) => call.out.float(value),
            Value::Str(text) if self.python.texts.is_empty() => {
                call.out.text(self.state.heap.str(text));
            }
            Value::Instance(id) => self.write_instance(id, call),
            Value::List(_) | Value::Dict(_) => {
                if !self.is_of_python(value) {
                    call.out.tuple(1);
                }
                self.write_container(value, call);
            }
            value => {
                let wire = self.to_wire(value);
                Machine::write_wire(&wire, call.out);
            }
        }
    }

    fn write_wire(wire: &Wire, out: &mut Marshal) {
        match wire {
            Wire::Ext(code, payload) => out.extension(*code, payload),
            // A text; whatever else there is, has been written by itself.
            wire => out.text(wire.as_str().unwrap_or_default()),
        }
    }

    /// Writes a list or dict with what is in it.
    fn write_container(&mut self, value: Value, call: &mut CallWriter) {
        match value {
            Value::List(list) => {
                let n_items = self.state.heap.list(list).len();
                call.out.list(n_items);
                for at in 0..n_items {
                    let item = self.state.heap.list(list)[at];
                    self.write_argument(item, call);
                }
            }
            Value::Dict(dict) => {
                call.out.dict();
                for at in 0..self.state.heap.dict(dict).entries.len() {
                    let (key, value) = self.state.heap.dict(dict).entries[at];
                    call.out.text(self.state.heap.str(key));
                    self.write_argument(value, call);
                }
                call.out.end_dict();
            }
            value => self.write_argument(value, call),
        }
    }

    /// Whether it is in Python as it is on the way there.
    fn is_of_python(&self, value: Value) -> bool {
        match value {
            Value::Null | Value::Skip | Value::Bool(_) | Value::Int(_) | Value::Float(_) => true,
            Value::Str(_) => self.python.texts.is_empty(),
            Value::List(list) => self
                .state
                .heap
                .list(list)
                .iter()
                .all(|item| self.is_of_python(*item)),
            Value::Dict(dict) => {
                let mut entries = self.state.heap.dict(dict).entries.iter();
                entries.all(|(_, value)| self.is_of_python(*value))
            }
            _ => false,
        }
    }

    /// Writes an instance as a handle, with the attributes that go along.
    fn write_instance(&mut self, id: InstId, call: &mut CallWriter) {
        if let Some(wire) = self.dataclass_to_wire(id) {
            Machine::write_wire(&wire, call.out);
            return;
        }
        let going = self.going_along(id, call);
        let program = self.program;
        let entity = self.state.instance(id).entity;
        let (plain, others): (Going, Going) = going
            .into_iter()
            .partition(|(_, value)| self.is_of_python(*value));
        let n_parts = match (plain.is_empty(), others.is_empty()) {
            (true, true) => 0,
            (false, true) => 1,
            (_, false) => 2,
        };
        call.out.tuple(2 + n_parts);
        call.out.int(self.state.number_of(id).into());
        call.out.name(program.entity_name(entity));
        for part in [plain, others].into_iter().take(n_parts) {
            call.out.dict();
            call.depth += 1;
            for (at, value) in part {
                let attribute = program.entity(entity).slots[at as usize];
                let name = program.attribute(attribute).name;
                call.out.name(program.text(name));
                self.write_argument(value, call);
            }
            call.depth -= 1;
            call.out.end_dict();
        }
    }

    /// The values of an instance that go with it. By now Python knows them: an instance that leads back here goes as a
    /// plain handle.
    fn going_along(&mut self, id: InstId, call: &mut CallWriter) -> Going {
        let mut going = Going::new();
        if call.depth == MOST_DEPTH || call.n_left == 0 {
            return going;
        }
        let instance = self.state.instance(id);
        let (entity, slots) = (instance.entity, instance.slots);
        let Some(reads) = self.python.known_values.reads.get(&(call.plugin, entity)) else {
            return going;
        };
        let mut known = self
            .python
            .known_values
            .known
            .get(&id)
            .copied()
            .unwrap_or_default();
        let mut missing: smallvec::SmallVec<[u32; 8]> = smallvec::SmallVec::new();
        for at in reads {
            if known & (1 << at) != 0 {
                continue;
            }
            match self.state.read_slot(VarId(slots.0 + at)) {
                Ok(value) if self.may_travel(value) => {
                    going.push((*at, value));
                    known |= 1 << at;
                }
                Err(ReadError::NotReady(_)) => missing.push(*at),
                _ => {}
            }
        }
        for at in missing {
            let slot = VarId(slots.0 + at);
            if let Some(value) = self.coming_value(slot)
                && self.may_travel(value)
            {
                self.python.coming_values.assume(slot, value);
                going.push((at, value));
                known |= 1 << at;
            } else if call.open.len() < MOST_OPEN
                && self.is_unset_for(slot, call.when)
                && !call.open.contains(&(id, at))
            {
                call.open.push((id, at));
            }
        }
        if !going.is_empty() {
            call.n_left -= 1;
            self.python.known_values.known.insert(id, known);
        }
        going
    }

    /// Whether a slot without a value has none when a call reads it, or may be taken to have none.
    fn is_unset_for(&self, slot: VarId, when: When) -> bool {
        match when {
            When::Now | When::Guessed => true,
            When::Later => self.stays_open(slot) || self.stays_unset(slot),
            When::Setting => self.stays_open(slot),
        }
    }

    /// Python was told a wrong value of a slot: it is told again.
    pub(super) fn forget_known(&mut self, slot: VarId) {
        let owner = self.state.owner(slot);
        let at = slot.0 - self.state.instance(owner).slots.0;
        if let Some(known) = self.python.known_values.known.get_mut(&owner) {
            *known &= !(1 << at);
        }
    }

    /// Whether Python makes of it what it would make of an answer, and without effort if it is not read.
    fn may_travel(&self, value: Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => true,
            Value::Instance(_) => true,
            Value::Str(text) => self.state.heap.str(text).len() <= MOST_BYTES,
            Value::List(list) => {
                let items = self.state.heap.list(list);
                let mut n_left = MOST_ELEMENTS;
                items.iter().all(|item| {
                    take(&mut n_left) && self.may_travel_inside(*item, &mut n_left, MOST_NESTED)
                })
            }
            Value::Dict(dict) => {
                let entries = &self.state.heap.dict(dict).entries;
                let mut n_left = MOST_ELEMENTS;
                entries.iter().all(|(_, value)| {
                    take(&mut n_left)
                        && !matches!(value, Value::Instance(_))
                        && self.may_travel_inside(*value, &mut n_left, MOST_NESTED)
                })
            }
            _ => false,
        }
    }

    /// The same of what is in a list or dict: containers in it are made of data only, which Python has as it comes.
    fn may_travel_inside(&self, value: Value, n_left: &mut usize, depth: u32) -> bool {
        let mut is_data = |value: Value| {
            take(n_left)
                && !matches!(value, Value::Instance(_))
                && depth > 0
                && self.may_travel_inside(value, n_left, depth - 1)
        };
        match value {
            Value::List(list) => {
                let mut items = self.state.heap.list(list).iter();
                items.all(|item| is_data(*item)) && self.is_of_python(value)
            }
            Value::Dict(dict) => {
                let mut entries = self.state.heap.dict(dict).entries.iter();
                entries.all(|(_, item)| is_data(*item)) && self.is_of_python(value)
            }
            value => self.may_travel(value),
        }
    }
}

/// One less is left; whether there was one.
fn take(n_left: &mut usize) -> bool {
    let is_left = *n_left > 0;
    *n_left -= usize::from(is_left);
    is_left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_more_along_with_each_answer_and_ends_where_it_is_left() {
        let of = (PluginId(1), EntityId(2));
        let mut row = Row::default();
        assert_eq!([row.step(of, 0), row.step(of, 1)], [0, 2]);
        assert_eq!([row.step(of, 4), row.step(of, 9)], [4, 8]);
        // Somewhere else, or something else.
        assert_eq!([row.step(of, 5), row.step(of, 6)], [0, 2]);
        assert_eq!(row.step((PluginId(1), EntityId(3)), 9), 0);
        assert_eq!(row.step(of, 9), 0);
        let mut at = 10;
        for _ in 0..20 {
            at += 1 + row.step(of, at);
        }
        assert_eq!(row.n_along, 255);
    }
}
