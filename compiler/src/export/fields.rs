//! Ids and fields of one resource. Source: language.md 12.1, 12.2.

use super::json::{NotJson, write_json, write_text};
use super::references;
use super::registry::{Field, Registration, registrations};
use crate::diagnostics::{Fail, fail, runtime};
use crate::plugins::PluginError;
use crate::runtime::{Machine, ReadError};
use crate::span::Loc;
use crate::types::{InstId, Value};

/// A resource's identity.
pub(super) struct Identity {
    pub agent: String,
    pub value: String,
    pub id: String,
}

/// `Ok(None)`: something of the id is Unknown, the instance is no resource.
pub(super) fn identity(
    machine: &Machine,
    registration: &Registration,
    instance: InstId,
) -> Result<Option<Identity>, Fail> {
    let value = read(machine, instance, &registration.id_attribute)?;
    identity_of(machine, registration, instance, value)
}

/// With the value of the id attribute.
pub(super) fn identity_of(
    machine: &Machine,
    registration: &Registration,
    instance: InstId,
    value: Value,
) -> Result<Option<Identity>, Fail> {
    let loc = machine.instance(instance).loc;
    let entity = machine.program.entity_name(registration.entity);
    let Some(agent) = agent(machine, registration, instance)? else {
        return Ok(None);
    };
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
        Value::Str(id) => machine.heap.str(id).to_owned(),
        value => machine.heap.to_text(value, machine),
    };
    check_id(&agent, &registration.id_attribute, &value, loc)?;
    let mut id = String::with_capacity(
        entity.len() + agent.len() + registration.id_attribute.len() + value.len() + 4,
    );
    for part in [
        entity,
        "[",
        &agent,
        ",",
        &registration.id_attribute,
        "=",
        &value,
        "]",
    ] {
        id.push_str(part);
    }
    Ok(Some(Identity { agent, value, id }))
}

fn check_id(agent: &str, attribute: &str, value: &str, loc: Loc) -> Result<(), Fail> {
    let problem = if agent.contains(',') {
        format!("the agent name `{agent}` contains a comma")
    } else if attribute.contains([',', '=']) {
        format!("the attribute name `{attribute}` contains a comma or an equals sign")
    } else if value.contains(']') {
        format!("the value `{value}` contains a closing bracket")
    } else if agent.is_empty() {
        "the agent name is empty".to_owned()
    } else {
        return Ok(());
    };
    Err(fail(
        "ResourceException",
        loc,
        format!("Invalid resource id: {problem}"),
    ))
}

fn read(machine: &Machine, instance: InstId, name: &str) -> Result<Value, Fail> {
    let loc = machine.instance(instance).loc;
    machine
        .read_attribute(instance, name)
        .map_err(|error| match error {
            ReadError::NoAttribute => {
                let entity = machine
                    .program
                    .entity_name(machine.instance(instance).entity);
                crate::diagnostics::not_found(
                    loc,
                    format!("could not find attribute with name: {name} in type {entity}"),
                )
            }
            ReadError::NotReady(_) => fail(
                "UnsetException",
                loc,
                format!("attribute {name} has no value"),
            ),
            ReadError::OptionalUnset(slot) => machine.optional_unset_error(slot).at(loc),
        })
}

fn agent(
    machine: &Machine,
    registration: &Registration,
    instance: InstId,
) -> Result<Option<String>, Fail> {
    let loc = machine.instance(instance).loc;
    let entity = machine.program.entity_name(registration.entity);
    let mut at = Value::Instance(instance);
    for name in registration.agent.split('.') {
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
                registration.agent
            );
            fail("ResourceException", loc, message)
        };
        let Value::Instance(current) = at else {
            return Err(missing());
        };
        at = match machine.read_attribute(current, name) {
            Ok(Value::Unknown(_)) => return Ok(None),
            Ok(Value::Reference(_)) => {
                let message = format!(
                    "Encountered reference in resource's agent attribute. Agent attribute values can not be references. \
                     Encountered at attribute '{name}' of resource instance {}",
                    machine.describe_instance(instance)
                );
                return Err(fail("ResourceException", loc, message));
            }
            Ok(value) => value,
            Err(_) => return Err(missing()),
        };
    }
    match at {
        Value::Str(id) => Ok(Some(machine.heap.str(id).to_owned())),
        value => {
            let text = machine.heap.to_text(value, machine);
            let message = format!(
                "The agent attribute should lead to a string, got {text} for resource of type {entity}"
            );
            Err(fail("ResourceException", loc, message))
        }
    }
}

/// What became of an instance.
pub(super) enum Mapped {
    /// Attributes as canonical JSON, and whether one is Unknown.
    Fields(String, bool),
    Ignored,
}

/// All fields of a resource. `computed` are the values that Python gave for its getters.
pub(super) fn fields(
    machine: &mut Machine,
    registration: &Registration,
    sorted: &[&Field],
    instance: InstId,
    id: &str,
    computed: &[(String, Value)],
) -> Result<Mapped, Fail> {
    let loc = machine.instance(instance).loc;
    let mut values = Vec::with_capacity(sorted.len());
    let mut places = references::Places::new();
    for field in sorted {
        let value = match computed.iter().find(|(name, _)| *name == field.name) {
            Some((_, value)) => *value,
            None => match plain_field(machine, instance, &field.name)? {
                Some(value) => value,
                None => return Ok(Mapped::Ignored),
            },
        };
        values.push(references::take(
            &mut machine.heap,
            value,
            &field.name,
            &mut places,
        ));
    }
    let exported = match places.is_empty() {
        true => None,
        false => Some(references::fields(machine, id, &places, loc)?),
    };
    let mut out = String::with_capacity(256);
    out.push('{');
    let mut undefined = false;
    for (at, (field, value)) in sorted.iter().zip(values).enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_text(&field.name, &mut out);
        out.push_str(": ");
        match (&exported, field.name.as_str()) {
            (Some((references, _)), "references") => {
                out.push_str(references);
                continue;
            }
            (Some((_, mutators)), "mutators") => {
                out.push_str(mutators);
                continue;
            }
            _ => {}
        }
        let start = out.len();
        match write_json(&machine.heap, value, true, &mut out) {
            Ok(()) => {}
            Err(NotJson::Unknown) => {
                out.truncate(start);
                out.push_str("\"<<undefined>>\"");
                undefined = true;
            }
            Err(NotJson::Object) => {
                let entity = machine.program.entity_name(registration.entity);
                let message = format!(
                    "Failed to get attribute '{}' for export on '{entity}': {} is not serializable",
                    field.name,
                    machine.heap.to_text(value, machine)
                );
                return Err(runtime(loc, message));
            }
        }
    }
    out.push('}');
    Ok(Mapped::Fields(out, undefined))
}

/// A field that no Python computes; `None`: the instance is not exported.
fn plain_field(machine: &mut Machine, instance: InstId, name: &str) -> Result<Option<Value>, Fail> {
    let has = |machine: &Machine| {
        let symbol = machine.program.names.find(name);
        symbol.is_some_and(|symbol| machine.slot(instance, symbol).is_some())
    };
    let missing = match name {
        "send_event" | "report_only" => Some(Value::Bool(false)),
        "receive_events" => Some(Value::Bool(true)),
        "references" | "mutators" => Some(machine.empty_list()),
        _ => None,
    };
    if let Some(value) = missing
        && !has(machine)
    {
        return Ok(Some(value));
    }
    let value = read(machine, instance, name)?;
    if name == "managed" && matches!(value, Value::Bool(false)) {
        return Ok(None);
    }
    Ok(Some(value))
}

/// The id of the resource that an instance is exported as, for `std::getfact`. `Ok(None)`: it is none.
pub fn resource_id(machine: &mut Machine, instance: InstId) -> Result<Option<String>, PluginError> {
    let entity = machine.instance(instance).entity;
    let all = registrations(machine.program);
    let own = all
        .iter()
        .find(|registration| registration.entity == entity);
    let registration = own.or_else(|| {
        let ancestors = &machine.program.entity(entity).ancestors;
        ancestors.iter().find_map(|ancestor| {
            all.iter()
                .find(|registration| registration.entity == *ancestor)
        })
    });
    let Some(registration) = registration else {
        return Ok(None);
    };
    let mut at = Value::Instance(instance);
    // What the id needs may not be known yet.
    let agent = registration
        .agent
        .split('.')
        .map(str::to_owned)
        .collect::<Vec<_>>();
    for name in agent.iter().map(String::as_str) {
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
        machine.read_attribute(instance, &registration.id_attribute)
    {
        return Err(PluginError::Unset(vec![var.0]));
    }
    match identity(machine, registration, instance) {
        Ok(Some(identity)) => Ok(Some(identity.id)),
        Ok(None) => Err(PluginError::Unknown),
        Err(error) => Err(PluginError::Compile(error)),
    }
}
