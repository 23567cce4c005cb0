//! Ids of resources: `type[agent,attribute=value]`. Source: docs/reference/language.md § 12.1.

use super::plan::Plan;
use crate::diagnostics::{Fail, fail};
use crate::hir::Program;
use crate::intern::Symbol;
use crate::protocol::OwnId;
use crate::span::Loc;
use crate::types::text::Instances;
use crate::types::{Heap, InstId, Value};

/// What is read of the model for the id of a resource: the runtime has it while it runs, and the export afterwards.
pub(crate) trait ResourceModel: Instances + Sized {
    fn program(&self) -> &Program;

    fn heap(&self) -> &Heap;

    /// Where an instance was made.
    fn made_at(&self, instance: InstId) -> Loc;

    /// The value of an attribute; `None`: there is no such attribute, or it has no value.
    fn value_at(&self, instance: InstId, attribute: Symbol) -> Option<Value>;

    /// An instance for people: its entity and place.
    fn describe_instance(&self, instance: InstId) -> String;
}

/// Appends the id, `type[agent,attribute=value]`, and returns the length of the agent's name. `None`: something of the
/// id is Unknown, the instance is no resource.
/// `value` is that of the id attribute.
pub(crate) fn write_id<M: ResourceModel>(
    model: &M,
    plan: &Plan,
    instance: InstId,
    value: Value,
    out: &mut String,
) -> Result<Option<usize>, Fail> {
    let registration = &plan.registration;
    let loc = model.made_at(instance);
    let Some(agent) = agent(model, plan, instance)? else {
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
                model.describe_instance(instance)
            );
            return Err(fail("ResourceException", loc, message));
        }
        Value::Str(id) => model.heap().str(id),
        // As Python writes what a getter sees.
        Value::Null => "None",
        Value::List(_) | Value::Dict(_) => {
            text = format!("@{}", model.heap().repr(value, model));
            &text
        }
        value => {
            text = model.heap().to_text(value, model);
            &text
        }
    };
    check_id(agent, &registration.id_attribute, value, loc)?;
    for part in [
        model.program().entity_name(registration.entity),
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
pub(crate) fn write_own_id(own: &OwnId, loc: Loc, out: &mut String) -> Result<usize, Fail> {
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
pub(crate) const INVALID_ID: &str = "Invalid resource id: ";
/// And the problem that the reference does not see.
pub(crate) const EMPTY: &str = "the agent name is empty";

fn check_id(agent: &str, attribute: &str, value: &str, loc: Loc) -> Result<(), Fail> {
    let problem = if agent.contains(',') {
        format!("the agent name `{agent}` contains a comma")
    } else if attribute.contains([',', '=']) {
        format!("the attribute name `{attribute}` contains a comma or an equals sign")
    } else if value.contains(']') {
        format!("the value `{value}` contains a closing bracket")
    } else if let Some(part) = [agent, value].into_iter().find(|part| part.contains('\0')) {
        format!(
            "`{}` contains the character NUL",
            part.replace('\0', "\u{fffd}")
        )
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

/// The name of the agent, at the end of the path that the resource class gives. `None`: it is Unknown.
fn agent<'m, M: ResourceModel>(
    model: &'m M,
    plan: &Plan,
    instance: InstId,
) -> Result<Option<&'m str>, Fail> {
    let loc = model.made_at(instance);
    let entity = model.program().entity_name(plan.registration.entity);
    let mut at = Value::Instance(instance);
    for (name, symbol) in &plan.agent {
        let missing = || {
            let message = format!(
                "Unable to get the name of agent {} belongs to. In path {}, '{name}' does not exist",
                model.describe_instance(instance),
                plan.registration.agent
            );
            let mut failure = fail("ResourceException", loc, message);
            if matches!(at, Value::List(_)) {
                let help =
                    "what is before it is a list; the path goes through single relations only";
                failure.help = Some(help.to_owned());
            }
            failure
        };
        let Value::Instance(current) = at else {
            return Err(missing());
        };
        at = match symbol.and_then(|symbol| model.value_at(current, symbol)) {
            Some(Value::Unknown(_)) => return Ok(None),
            Some(Value::Reference(_)) => {
                let message = format!(
                    "Encountered reference in resource's agent attribute. Agent attribute values can not be references. \
                     Encountered at attribute '{name}' of resource instance {}",
                    model.describe_instance(instance)
                );
                return Err(fail("ResourceException", loc, message));
            }
            Some(value) => value,
            None => return Err(missing()),
        };
    }
    match at {
        Value::Str(id) => Ok(Some(model.heap().str(id))),
        value => {
            let text = model.heap().to_text(value, model);
            let message = format!(
                "The agent attribute should lead to a string, got {text} for resource of type {entity}"
            );
            Err(fail("ResourceException", loc, message))
        }
    }
}
