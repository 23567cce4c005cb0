//! Dataclasses of Python become instances, and instances go back as the objects they came from.
//! Source: docs/reference/language.md § 10.7.

use rmpv::Value as Wire;

use crate::diagnostics::{Fail, runtime};
use crate::protocol::EXT_DATACLASS;
use crate::runtime::{InstId, Machine, PythonBridge, VarId};
use crate::span::Loc;
use crate::types::{EntityId, Value};

impl PythonBridge {
    /// Whether an instance stands for what a reference to a dataclass will give.
    pub(in crate::runtime) fn is_dataclass_reference(&self, id: InstId) -> bool {
        matches!(self.dataclass_objects.get(&id), Some((_, true)))
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
        let [object, entity, Wire::Map(fields), of_reference] = parts.as_slice() else {
            return Err(unreadable());
        };
        let object = object
            .as_u64()
            .and_then(|object| u32::try_from(object).ok());
        let (Some(object), Some(entity)) = (object, entity.as_str()) else {
            return Err(unreadable());
        };
        let program = self.program;
        let found = program.names.find(entity).and_then(|name| {
            let mut entities = program.entities.iter();
            entities.position(|entity| entity.name == name && entity.is_dataclass)
        });
        let Some(at) = found else {
            self.python.has_objects = true;
            return Ok(Value::Opaque(object));
        };
        let loc = self.python.loc;
        let instance = self.create(EntityId(at as u32), loc, InstId::NONE)?;
        let of_reference = of_reference.as_bool() == Some(true);
        self.python
            .dataclass_objects
            .insert(instance, (object, of_reference));
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

    /// An instance that came from Python goes back with its object.
    pub(in crate::runtime) fn dataclass_to_wire(&self, id: InstId) -> Option<Wire> {
        let (object, _) = self.python.dataclass_objects.get(&id)?;
        let entity = self.program.entity_name(self.state.instance(id).entity);
        let parts = vec![
            Wire::from(*object),
            Wire::from(self.state.number_of(id)),
            Wire::from(entity),
        ];
        let mut payload = Vec::new();
        // Writing to memory does not fail.
        let _ = rmpv::encode::write_value(&mut payload, &Wire::Array(parts));
        Some(Wire::Ext(EXT_DATACLASS, payload))
    }
}
