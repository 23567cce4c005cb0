//! The environment and the server. Source: docs/reference/std.md § 5.6.

use crate::stdlib::strings::from_json;
use crate::stdlib::{
    Bound, Model, NativeDef, PluginError, Value, external, native, str_arg, text_value,
};

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "get_env",
            "name: string, default_value: string? = null -> string",
            |model, args| {
                let name = str_arg(model.heap_ref(), args, 0).to_owned();
                match (model.world().env(&name), args.arg(1)) {
                    (Some(value), _) => text_value(model, &value),
                    (None, Value::Null) => Ok(unset(model, &name)),
                    (None, default) => Ok(default),
                }
            }
        ),
        native!(
            "get_env_int",
            "name: string, default_value: int? = null -> int",
            |model, args| {
                let name = str_arg(model.heap_ref(), args, 0).to_owned();
                match (model.world().env(&name), args.arg(1)) {
                    (Some(value), _) => match crate::types::cast::parse_int(&value) {
                        Some(int) => Ok(model.heap().new_int(int)),
                        None => {
                            let text = crate::types::text::quoted(&value);
                            external(
                                "ValueError",
                                format!("invalid literal for int() with base 10: {text}"),
                            )
                        }
                    },
                    (None, Value::Null) => Ok(unset(model, &name)),
                    (None, default) => Ok(default),
                }
            },
            deprecated = Some("int(std::get_env(...))")
        ),
        native!(
            "environment",
            "-> string",
            |model, _| match model.environment_id() {
                Some(id) => text_value(model, &id),
                None => no_environment(),
            }
        ),
        native!("environment_name", "-> string", |model, _| {
            match model.inputs().environment.name.clone() {
                Some(name) => text_value(model, &name),
                None if model.environment_id().is_none() => no_environment(),
                None => Ok(model.heap().new_unknown()),
            }
        }),
        native!("environment_server", "-> string", |model, _| {
            let host = model.inputs().server.host.clone();
            text_value(model, &host)
        }),
        native!("server_ca", "-> string", |model, _| {
            let ca = model.inputs().server.ca.clone();
            text_value(model, &ca)
        }),
        native!("server_ssl", "-> bool", |model, _| Ok(Value::Bool(
            model.inputs().server.ssl
        ))),
        native!("server_port", "-> int", |model, _| Ok(Value::Int(
            i64::from(model.inputs().server.port)
        ))),
        native!(
            "server_token",
            "client_types: string[]? = null -> string",
            |model, _| {
                let token = model.inputs().server.token.clone();
                text_value(model, &token)
            }
        ),
        native!(
            "getfact",
            "resource: any, fact_name: string, default_value: any = null -> any",
            get_fact
        ),
    ]
}

fn no_environment() -> Result<Value, PluginError> {
    external(
        "Exception",
        "The environment of this model should be configured in config>environment",
    )
}

fn unset(model: &mut dyn Model, name: &str) -> Value {
    model.warn(format!(
        "Environment variable {name} doesn't exist, returning unknown"
    ));
    model.heap().new_unknown()
}

/// Facts are inputs of a compile; those that nobody gave are asked for.
fn get_fact(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let resource = match args.arg(0) {
        Value::Instance(instance) => model.resource_id(instance)?,
        other => {
            let type_name = model.heap_ref().python_type(other);
            let message = format!("'{type_name}' object has no attribute 'type'");
            return external("AttributeError", message);
        }
    };
    let Some(resource) = resource else {
        return external("Exception", "Facts can only be retreived from resources.");
    };
    let name = str_arg(model.heap_ref(), args, 1).to_owned();
    let given = model.inputs().facts.as_ref();
    let is_answered = given.is_some() || model.environment_id().is_some();
    let given = given.and_then(|facts| facts.get(&resource));
    if let Some(value) = given.and_then(|facts| facts.get(&name)).cloned() {
        return match value {
            serde_json::Value::String(text) => text_value(model, &text),
            value => Ok(from_json(model, &value)),
        };
    }
    if let Some(value) = model.world().fact(&resource, &name) {
        return text_value(model, &value);
    }
    if !is_answered {
        return no_environment();
    }
    model.add_unknown_parameter(resource, name);
    match args.arg(2) {
        Value::Null => Ok(model.heap().new_unknown()),
        default => Ok(default),
    }
}
