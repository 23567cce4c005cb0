//! Dataclasses of Python become instances, and instances go back as the objects they came from.
//! Source: docs/reference/language.md § 10.7.

use rmpv::Value as Wire;

use crate::diagnostics::{Fail, runtime};
use crate::protocol::EXT_DATACLASS;
use crate::runtime::{InstId, Machine, PythonBridge, VarId};
use crate::span::Loc;
use crate::types::{EntityId, Value};

/// The object of Python that an instance was made from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object {
    number: u32,
    /// It is a reference to what the instance stands for.
    is_reference: bool,
    /// It is nothing but its fields: another one with the same does as well.
    pub is_plain: bool,
}

impl PythonBridge {
    /// Whether an instance stands for what a reference to a dataclass will give.
    pub(in crate::runtime) fn is_dataclass_reference(&self, id: InstId) -> bool {
        self.dataclass_objects
            .get(&id)
            .is_some_and(|object| object.is_reference)
    }
}

impl Machine<'_> {
    /// The instance that a dataclass from Python becomes. An object whose class belongs to no
    /// entity of the model stays an object.
    pub(in crate::runtime) fn dataclass_of(
        &mut self,
        mut payload: &[u8],
        depth: u32,
    ) -> Result<Value, Fail> {
        let unreadable = || runtime(Loc::NONE, "a dataclass that can not be read");
        let wire = rmpv::decode::read_value(&mut payload).map_err(|_| unreadable())?;
        let parts = wire.as_array().ok_or_else(unreadable)?;
        let [
            object,
            entity,
            Wire::Map(fields),
            of_reference,
            is_plain @ ..,
        ] = parts.as_slice()
        else {
            return Err(unreadable());
        };
        let number = object
            .as_u64()
            .and_then(|number| u32::try_from(number).ok());
        let Some(entity) = entity.as_str() else {
            return Err(unreadable());
        };
        // One that is known from an earlier compile has no object, and Python makes one if it needs it.
        let object = match (number, is_plain) {
            (Some(number), is_plain) => Some(Object {
                number,
                is_reference: of_reference.as_bool() == Some(true),
                is_plain: matches!(is_plain, [Wire::Boolean(true)]),
            }),
            (None, [Wire::Boolean(true)]) => None,
            (None, _) => return Err(unreadable()),
        };
        let program = self.program;
        let found = program.names.find(entity).and_then(|name| {
            let mut entities = program.entities.iter();
            entities.position(|entity| entity.name == name && entity.is_dataclass)
        });
        let Some(at) = found else {
            self.python.has_objects = true;
            return match object {
                Some(object) => Ok(Value::Opaque(object.number)),
                None => Err(unreadable()),
            };
        };
        let loc = self.python.loc;
        let instance = self.create(EntityId(at as u32), loc, InstId::NONE)?;
        if let Some(object) = object {
            self.python.dataclass_objects.insert(instance, object);
        }
        for (name, value) in fields {
            let value = self.value_of(value, depth + 1)?;
            self.type_reference(EntityId(at as u32), name.as_str(), value);
            let offset = name
                .as_str()
                .and_then(|name| program.names.find(name))
                .and_then(|name| program.entities[at].slot_of.get(&name));
            if let Some(offset) = offset {
                let slot = VarId(self.state.instance(instance).slots.0 + offset);
                self.set_slot(slot, value, loc)?;
            }
        }
        self.add_implement_tasks(instance, loc)?;
        Ok(Value::Instance(instance))
    }

    /// A reference to a field stands for a value of the field's type, which may be more than a name tells.
    fn type_reference(&mut self, entity: EntityId, field: Option<&str>, value: Value) {
        let program = self.program;
        let field = field.and_then(|field| program.names.find(field));
        let types = &program.entity(entity).field_types;
        let known = types.iter().find(|(name, _)| Some(*name) == field);
        if let (Some((_, of)), Value::Reference(id)) = (known, value) {
            self.state.heap.set_reference_type(id, *of);
        }
    }

    /// Whether Python has an object for an instance that is more than its fields.
    pub(super) fn has_own_object(&self, id: InstId) -> bool {
        let object = self.python.dataclass_objects.get(&id);
        object.is_some_and(|object| !object.is_plain)
    }

    /// An instance that came from Python goes back with its object.
    pub(in crate::runtime) fn dataclass_to_wire(&self, id: InstId) -> Option<Wire> {
        let object = self.python.dataclass_objects.get(&id)?;
        let entity = self.program.entity_name(self.state.instance(id).entity);
        let parts = vec![
            Wire::from(object.number),
            Wire::from(self.state.number_of(id)),
            Wire::from(entity),
        ];
        let mut payload = Vec::new();
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut payload, &Wire::Array(parts));
        Some(Wire::Ext(EXT_DATACLASS, payload))
    }
}

/// Takes the numbers of objects out of the dataclasses in a value, which another compile does not have. `None`: one of them is
/// more than its fields.
pub(super) fn without_objects(value: &mut Wire) -> Option<()> {
    match value {
        Wire::Ext(EXT_DATACLASS, payload) => {
            let mut parts = rmpv::decode::read_value(&mut payload.as_slice()).ok()?;
            let Wire::Array(items) = &mut parts else {
                return None;
            };
            let [object, _, _, _, Wire::Boolean(true)] = items.as_mut_slice() else {
                return None;
            };
            *object = Wire::Nil;
            payload.clear();
            rmpv::encode::write_value(payload, &parts).ok()?;
        }
        Wire::Array(items) => {
            for item in items {
                without_objects(item)?;
            }
        }
        Wire::Map(entries) => {
            for (_, value) in entries {
                without_objects(value)?;
            }
        }
        _ => {}
    }
    Some(())
}
