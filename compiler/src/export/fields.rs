//! Ids and fields of one resource. Source: docs/reference/language.md § 12.1, § 12.2.

use std::sync::Arc;

use super::fit::check_field;
use crate::Location;
use crate::diagnostics::{Fail, Failure, fail};
use crate::python_host::reported;
use crate::resources::{FieldPlan, Plan};
use crate::runtime::{Machine, VarId};
use crate::stdlib::FILE_MARKER;
use crate::types::json::{write_json, write_text};
use crate::types::{InstId, Value};

/// Values that Python computed, by field.
pub(super) type Computed = Vec<(Arc<str>, Value)>;

/// All that is stored of a resource, by field.
pub(super) type Shaped = Vec<(String, Value)>;

/// The value of the attribute by which a resource is identified.
pub(super) fn id_value(machine: &Machine, plan: &Plan, instance: InstId) -> Result<Value, Fail> {
    let name = &plan.registration.id_attribute;
    let value = machine.state.read_required(instance, plan.id_slot, name);
    value.map_err(|error| match plan.id_slot {
        None => no_attribute(machine, plan, name, *error),
        Some(_) => error,
    })
}

pub(super) fn value_of(
    machine: &Machine,
    field: &FieldPlan,
    instance: InstId,
    computed: &Computed,
) -> Result<Value, Fail> {
    let name = &field.field.name;
    if may_be_computed(machine, field, computed)
        && let Some((_, value)) = computed.iter().find(|(known, _)| known == name)
    {
        return Ok(*value);
    }
    match (field.slot, field.missing) {
        (None, Some(value)) => Ok(value),
        // The reference takes an Unknown for a missing one here.
        (Some(slot), Some(missing)) => {
            match machine.state.read_required(instance, Some(slot), name)? {
                Value::Unknown(_) => Ok(missing),
                value => Ok(value),
            }
        }
        (slot, None) => machine.state.read_required(instance, slot, name),
    }
}

/// Whether the value of a field is possibly not that of its attribute: Python computes it, or it had an object or reference in it.
fn may_be_computed(machine: &Machine, field: &FieldPlan, computed: &Computed) -> bool {
    !computed.is_empty()
        && (field.field.getter || machine.has_objects() || machine.state.heap.has_references())
}

/// The value of most fields, without detours: that of an attribute, and neither a collection nor an object.
fn scalar(
    machine: &Machine,
    field: &FieldPlan,
    instance: InstId,
    computed: &Computed,
) -> Option<Value> {
    let slot = field
        .slot
        .filter(|_| !may_be_computed(machine, field, computed))?;
    machine
        .state
        .var(VarId(machine.state.instance(instance).slots.0 + slot))
        .scalar(&machine.state.heap)
}

/// Whether all fields of a resource can be written. False: the instance is left alone, because it is not managed.
pub(super) fn check(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    computed: &Computed,
) -> Result<bool, Fail> {
    let slots = machine.state.instance(instance).slots;
    machine
        .report
        .leave_place(machine.state.instance(instance).loc);
    for field in &plan.fields {
        if let Some(slot) = field.slot
            && !may_be_computed(machine, field, computed)
            && field.slot != plan.managed_slot
            && machine.state.var(VarId(slots.0 + slot)).is_scalar()
        {
            continue;
        }
        let value = value_of(machine, field, instance, computed).map_err(|error| {
            match (field.slot, field.missing) {
                (None, None) => no_attribute(machine, plan, &field.field.name, *error),
                _ => error,
            }
        })?;
        if field.slot.is_some()
            && field.slot == plan.managed_slot
            && matches!(value, Value::Bool(false))
        {
            return Ok(false);
        }
        let of = (plan.registration.entity, instance);
        check_field(machine, of, &field.field.name, value)?;
    }
    Ok(true)
}

/// A resource is made of what its entity does not have: says which class wants it.
fn no_attribute(machine: &Machine, plan: &Plan, name: &str, cause: Failure) -> Fail {
    let entity = machine.program.entity_name(plan.registration.entity);
    let message = format!("Failed to get attribute '{name}' for export on '{entity}'");
    let error = fail("ExternalException", cause.loc, message).cause(cause);
    let classes = machine.resource_classes();
    let class = plan.registration.class;
    let Some(class) = class.and_then(|at| classes.get(at as usize)) else {
        return error;
    };
    let short = class.python_class.rsplit('.').next().unwrap_or_default();
    let written = class_line(machine, &class.file, short);
    // Where the interpreter knows it, that of its first decorator.
    let line = written.or((class.line > 0).then_some(class.line));
    let place = line.map(|line| Location {
        file: reported(machine.world, &class.file),
        line,
        column: None,
        end_line: None,
        end_column: None,
    });
    let role = if name == class.id_attribute {
        "is identified by"
    } else {
        "has the field"
    };
    error
        .note_outside(
            format!("the resource class `{short}` of `{entity}` {role} `{name}`"),
            place,
        )
        .help(format!(
            "add an attribute `{name}` to `{entity}`, or a method `get_{name}` to the class"
        ))
}

fn class_line(machine: &Machine, file: &str, class: &str) -> Option<u32> {
    let text = machine.world.read_text(file).ok()?;
    let mut lines = text.lines();
    let at = lines.position(|line| {
        let rest = line.strip_prefix("class ").map(str::trim_start);
        rest.and_then(|rest| rest.strip_prefix(class))
            .is_some_and(|rest| rest.trim_start().starts_with(['(', ':']))
    })?;
    u32::try_from(at + 1).ok()
}

/// Appends all fields as canonical JSON. True: one is Unknown.
pub(super) fn write(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    computed: &Computed,
    out: &mut String,
) -> Result<bool, Fail> {
    out.push('{');
    let mut undefined = false;
    for (at, field) in plan.fields.iter().enumerate() {
        let value = match scalar(machine, field, instance, computed) {
            Some(value) => value,
            None => value_of(machine, field, instance, computed)?,
        };
        if at > 0 {
            out.push_str(", ");
        }
        out.push_str(&field.key);
        match marked_file(machine, plan, value) {
            Some(path) => write_text(&content_of(machine, instance, path)?, out),
            None => undefined |= write_value(machine, value, out),
        }
    }
    out.push('}');
    Ok(undefined)
}

/// The file that a value of a resource without a class in Python stands for: what `std::file` gives. Classes in Python know it.
/// Other files are not meant: the text may come from somebody who may not read them, such as a client of the API of services.
fn marked_file<'m>(machine: &'m Machine, plan: &Plan, value: Value) -> Option<&'m str> {
    let Value::Str(text) = value else {
        return None;
    };
    if plan.registration.class.is_some() {
        return None;
    }
    let path = machine.state.heap.str(text).strip_prefix(FILE_MARKER)?;
    let is_plain = !path.split('/').any(|part| part == "..");
    let roots = machine.program.module_roots.values();
    let mut folders = roots
        .map(|root| format!("{root}/files"))
        .chain(["files".to_owned()]);
    let is_given = is_plain
        && folders.any(|folder| {
            let below = path.strip_prefix(&machine.world.absolute(&folder));
            below.is_some_and(|rest| rest.starts_with('/'))
        });
    is_given.then_some(path)
}

fn content_of(machine: &Machine, instance: InstId, path: &str) -> Result<String, Fail> {
    let content = machine.world.read(path).map_err(|error| error.to_string());
    let text = content.and_then(|content| {
        String::from_utf8(content).map_err(|_| {
            "it is not UTF-8: name its digest as `sha256` of a steward::File, and where it is as `source`".to_owned()
        })
    });
    text.map_err(|error| {
        let loc = machine.state.instance(instance).loc;
        let message = format!("Cannot take the content of the file {path}: {error}");
        fail("ExternalException", loc, message)
    })
}

/// Appends what Python made of the fields, all of which have a JSON form. True: one is Unknown.
pub(super) fn write_shaped(machine: &Machine, fields: &Shaped, out: &mut String) -> bool {
    let mut undefined = false;
    out.push('{');
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_text(name, out);
        out.push_str(": ");
        undefined |= write_value(machine, *value, out);
    }
    out.push('}');
    undefined
}

/// Appends a value. True: it is Unknown.
fn write_value(machine: &Machine, value: Value, out: &mut String) -> bool {
    let start = out.len();
    let is_unknown = write_json(&machine.state.heap, value, true, out).is_err();
    if is_unknown {
        out.truncate(start);
        out.push_str("\"<<undefined>>\"");
    }
    is_unknown
}
