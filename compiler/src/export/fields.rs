//! Ids and fields of one resource. Source: language.md 12.1, 12.2.

use super::fit::check_field;
use super::plan::{FieldPlan, Plan, plans, read};
use super::registry::registrations;
use crate::Location;
use crate::diagnostics::{Fail, Failure, fail};
use crate::hir::plugin::PluginError;
use crate::protocol::{Identify, OwnId};
use crate::python_host::reported;
use crate::runtime::{Machine, ReadError, VarId};
use crate::span::Loc;
use crate::types::json::{write_json, write_text};
use crate::types::{InstId, Value};

/// Values that Python computed, by field.
pub(super) type Computed = Vec<(String, Value)>;

/// Appends the id, `type[agent,attribute=value]`, and returns the length of the agent's name. `None`: something of the
/// id is Unknown, the instance is no resource.
pub(super) fn write_id(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    computed: Option<Value>,
    out: &mut String,
) -> Result<Option<usize>, Fail> {
    let registration = &plan.registration;
    let value = match computed {
        Some(value) => value,
        None => {
            let name = &registration.id_attribute;
            read(machine, instance, plan.id_slot, name).map_err(|error| match plan.id_slot {
                None => no_attribute(machine, plan, name, *error),
                Some(_) => error,
            })?
        }
    };
    let loc = machine.instance(instance).loc;
    let Some(agent) = agent(machine, plan, instance)? else {
        return Ok(None);
    };
    let text;
    let value = match value {
        Value::Unknown(_) => return Ok(None),
        Value::Reference(_) => {
            let message = format!(
                "Encountered reference in resource's id attribute. Id attribute values can not be references. \
                 Encountered at attribute '{}' of resource instance {}",
                registration.id_attribute,
                machine.describe_instance(instance)
            );
            return Err(fail("ResourceException", loc, message));
        }
        Value::Str(id) => machine.heap.str(id),
        // As Python writes what a getter sees.
        Value::Null => "None",
        Value::List(_) | Value::Dict(_) => {
            text = format!("@{}", machine.heap.repr(value, machine));
            &text
        }
        value => {
            text = machine.heap.to_text(value, machine);
            &text
        }
    };
    check_id(agent, &registration.id_attribute, value, loc)?;
    for part in [
        machine.program.entity_name(registration.entity),
        "[",
        agent,
        ",",
        &registration.id_attribute,
        "=",
        value,
        "]",
    ] {
        out.push_str(part);
    }
    Ok(Some(agent.len()))
}

/// Appends an id that its class made, and returns the length of the agent's name.
pub(super) fn write_own_id(own: &OwnId, loc: Loc, out: &mut String) -> Result<usize, Fail> {
    let kind = &own.entity_type;
    let is_name = |part: &str| {
        let mut characters = part.chars();
        !part.is_empty() && characters.all(|c| c.is_alphanumeric() || "_-".contains(c))
    };
    if !kind.contains("::") || !kind.split("::").all(is_name) {
        let problem = format!("`{kind}` is no full name of an entity");
        return Err(fail(
            "ResourceException",
            loc,
            format!("{INVALID_ID}{problem}"),
        ));
    }
    check_id(&own.agent, &own.attribute, &own.value, loc)?;
    out.push_str(&own.to_string());
    Ok(own.agent.len())
}

/// How messages about ids begin that could not be read back.
const INVALID_ID: &str = "Invalid resource id: ";
/// And the problem that the reference does not see.
const EMPTY: &str = "the agent name is empty";

fn check_id(agent: &str, attribute: &str, value: &str, loc: Loc) -> Result<(), Fail> {
    let problem = if agent.contains(',') {
        format!("the agent name `{agent}` contains a comma")
    } else if attribute.contains([',', '=']) {
        format!("the attribute name `{attribute}` contains a comma or an equals sign")
    } else if value.contains(']') {
        format!("the value `{value}` contains a closing bracket")
    } else if agent.is_empty() {
        EMPTY.to_owned()
    } else {
        return Ok(());
    };
    Err(fail(
        "ResourceException",
        loc,
        format!("{INVALID_ID}{problem}"),
    ))
}

fn agent<'m>(machine: &'m Machine, plan: &Plan, instance: InstId) -> Result<Option<&'m str>, Fail> {
    let loc = machine.instance(instance).loc;
    let entity = machine.program.entity_name(plan.registration.entity);
    let mut at = Value::Instance(instance);
    for (name, symbol) in &plan.agent {
        if let Value::List(list) = at {
            at = machine
                .heap
                .list(list)
                .first()
                .copied()
                .unwrap_or(Value::Null);
        }
        let missing = || {
            let message = format!(
                "Unable to get the name of agent for resource of type {entity}. In path {}, '{name}' does not exist",
                plan.registration.agent
            );
            fail("ResourceException", loc, message)
        };
        let Value::Instance(current) = at else {
            return Err(missing());
        };
        let slot = symbol.and_then(|symbol| machine.slot(current, symbol));
        at = match slot.map(|slot| machine.read_slot(slot)) {
            Some(Ok(Value::Unknown(_))) => return Ok(None),
            Some(Ok(Value::Reference(_))) => {
                let message = format!(
                    "Encountered reference in resource's agent attribute. Agent attribute values can not be references. \
                     Encountered at attribute '{name}' of resource instance {}",
                    machine.describe_instance(instance)
                );
                return Err(fail("ResourceException", loc, message));
            }
            Some(Ok(value)) => value,
            Some(Err(_)) | None => return Err(missing()),
        };
    }
    match at {
        Value::Str(id) => Ok(Some(machine.heap.str(id))),
        value => {
            let text = machine.heap.to_text(value, machine);
            let message = format!(
                "The agent attribute should lead to a string, got {text} for resource of type {entity}"
            );
            Err(fail("ResourceException", loc, message))
        }
    }
}

pub(super) fn value_of(
    machine: &Machine,
    field: &FieldPlan,
    instance: InstId,
    computed: &Computed,
) -> Result<Value, Fail> {
    let name = &field.field.name;
    if let Some((_, value)) = computed.iter().find(|(known, _)| known == name) {
        return Ok(*value);
    }
    match (field.slot, field.missing) {
        (None, Some(value)) => Ok(value),
        // The reference takes an Unknown for a missing one here.
        (Some(slot), Some(missing)) => match read(machine, instance, Some(slot), name)? {
            Value::Unknown(_) => Ok(missing),
            value => Ok(value),
        },
        (slot, None) => read(machine, instance, slot, name),
    }
}

/// The value of most fields, without detours: that of an attribute, and neither a collection nor an object.
fn scalar(
    machine: &Machine,
    field: &FieldPlan,
    instance: InstId,
    computed: &Computed,
) -> Option<Value> {
    let slot = field.slot.filter(|_| computed.is_empty())?;
    machine
        .var(VarId(machine.instance(instance).slots.0 + slot))
        .scalar(&machine.heap)
}

/// Whether all fields of a resource can be written. False: the instance is left alone, because it is not managed.
pub(super) fn check(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    computed: &Computed,
) -> Result<bool, Fail> {
    let slots = machine.instance(instance).slots;
    machine.leave_place(machine.instance(instance).loc);
    for field in &plan.fields {
        if let Some(slot) = field.slot
            && computed.is_empty()
            && field.slot != plan.managed_slot
            && machine.var(VarId(slots.0 + slot)).is_scalar()
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
        undefined |= write_value(machine, value, out);
    }
    out.push('}');
    Ok(undefined)
}

/// Appends what Python made of the fields, all of which have a JSON form. True: one is Unknown.
pub(super) fn write_shaped(machine: &Machine, fields: &Computed, out: &mut String) -> bool {
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
    let is_unknown = write_json(&machine.heap, value, true, out).is_err();
    if is_unknown {
        out.truncate(start);
        out.push_str("\"<<undefined>>\"");
    }
    is_unknown
}

/// The id of the resource that an instance is exported as, for `std::getfact`. `Ok(None)`: it is none.
pub fn resource_id(machine: &mut Machine, instance: InstId) -> Result<Option<String>, PluginError> {
    let entity = machine.instance(instance).entity;
    let all = registrations(machine.program, machine.resource_classes());
    let mut plans = plans(machine.program, &all, entity, machine.empty_list());
    let nearest = std::iter::once(&entity)
        .chain(&machine.program.entity(entity).ancestors)
        .find_map(|of| {
            plans
                .iter()
                .position(|plan| plan.registration.entity == *of)
        });
    let Some(nearest) = nearest else {
        return Ok(None);
    };
    let plan = plans.swap_remove(nearest);
    if let Some(class) = plan.registration.class
        && plan.registration.identify != Identify::No
    {
        return machine.identify(instance, class).map(Some);
    }
    let mut at = Value::Instance(instance);
    // What the id needs may not be known yet.
    for (name, _) in &plan.agent {
        let Value::Instance(current) = at else {
            break;
        };
        match machine.read_attribute(current, name) {
            Err(ReadError::NotReady(var)) => return Err(PluginError::Unset(vec![var.0])),
            Ok(value) => at = value,
            Err(_) => break,
        }
    }
    if let Err(ReadError::NotReady(var)) =
        machine.read_attribute(instance, &plan.registration.id_attribute)
    {
        return Err(PluginError::Unset(vec![var.0]));
    }
    let mut id = String::new();
    match write_id(machine, &plan, instance, None, &mut id) {
        Ok(Some(_)) => Ok(Some(id)),
        Ok(None) => Err(PluginError::Unknown),
        // The reference's plugin sees what its ids refuse as an error of Python.
        Err(error) if error.message.starts_with(INVALID_ID) && !error.message.ends_with(EMPTY) => {
            crate::hir::plugin::external("ValueError", error.message)
        }
        Err(error) => Err(PluginError::Compile(error)),
    }
}
