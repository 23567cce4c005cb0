//! Whether values can be fields of resources: they have a JSON form that can be read back.

use super::fields::Shaped;
use crate::diagnostics::{Fail, fail};
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::{EntityId, Heap, InstId, Value};

/// Lists and dicts in each other, in one field of a resource. Readers of JSON, ours and those of clients, stop at 128, and
/// the documents that a field lies in have some levels of their own.
const MAX_DEPTH: usize = 100;

/// Why a value cannot be a field of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfit {
    Object,
    /// Nested more than [`MAX_DEPTH`] deep.
    Deep,
}

/// Whether a value, in which so many levels may be below each other, can be stored. An Unknown one can.
fn check_levels(heap: &Heap, value: Value, n_levels: usize) -> Result<(), Unfit> {
    match value {
        Value::Instance(_) | Value::Opaque(_) | Value::Skip => Err(Unfit::Object),
        Value::List(_) | Value::Dict(_) if n_levels == 0 => Err(Unfit::Deep),
        Value::List(id) => {
            let mut items = heap.list(id).iter();
            items.try_for_each(|item| check_levels(heap, *item, n_levels - 1))
        }
        Value::Dict(id) => {
            let mut entries = heap.dict(id).entries.iter();
            entries.try_for_each(|(_, item)| check_levels(heap, *item, n_levels - 1))
        }
        _ => Ok(()),
    }
}

/// Whether a value can be the field `name` of a resource of this entity, which `instance` is exported as.
pub(super) fn check_field(
    machine: &Machine,
    (entity, instance): (EntityId, InstId),
    name: &str,
    value: Value,
) -> Result<(), Fail> {
    let Err(unfit) = check_levels(&machine.state.heap, value, MAX_DEPTH) else {
        return Ok(());
    };
    let message = format!(
        "Failed to get attribute '{name}' for export on '{}'",
        machine.program.entity_name(entity),
    );
    let cause = match unfit {
        Unfit::Object => {
            let text = machine.state.heap.to_text(value, &machine.state);
            format!("TypeError: {text} is not serializable")
        }
        Unfit::Deep => format!("ValueError: lists and dicts are nested more than {MAX_DEPTH} deep"),
    };
    let cause = fail("PythonException", Loc::NONE, cause);
    let loc = machine.state.instance(instance).loc;
    Err(fail("ExternalException", loc, message).cause(*cause))
}

/// The same for what Python made of all fields of a resource.
pub(super) fn check_shaped(
    machine: &Machine,
    of: (EntityId, InstId),
    fields: &Shaped,
) -> Result<(), Fail> {
    let mut fields = fields.iter();
    fields.try_for_each(|(name, value)| check_field(machine, of, name, *value))
}
