//! Values, instances, conditions. Source: docs/reference/std.md § 5.3.

use crate::stdlib::lists::attribute;
use crate::stdlib::{
    Bound, Model, NativeDef, PluginError, Value, external, native, pyformat, str_arg, text_value,
    validate,
};

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!("print", "message: any | Reference -> any", print),
        native!(
            "assert",
            "expression: bool, message: string = \"\" -> any",
            assert
        ),
        native!(
            "equals",
            "arg1: any, arg2: any, desc: string? = null -> any",
            equals,
            deprecated = Some("the `==` binary operator")
        ),
        native!(
            "inlineif",
            "conditional: bool, a: any, b: any -> any",
            inlineif
        ),
        native!(
            "invert",
            "value: bool -> bool",
            |_, args| { Ok(Value::Bool(!matches!(args.arg(0), Value::Bool(true)))) },
            deprecated = Some("the `not` unary operator")
        ),
        native!("isset", "value: any -> bool", |_, args| Ok(Value::Bool(
            !matches!(args.arg(0), Value::Null)
        ))),
        native!(
            "is_unknown",
            "value: any | Reference -> bool",
            |_, args| { Ok(Value::Bool(matches!(args.arg(0), Value::Unknown(_)))) },
            allow_unknown = true
        ),
        native!(
            "attr",
            "obj: any, attr: string -> any | Reference",
            |model, args| {
                let name = str_arg(model.heap_ref(), args, 1).to_owned();
                attribute(model, args.arg(0), &name, true)
            }
        ),
        native!(
            "getattr",
            "entity: std::Entity, attribute_name: string, default_value: any | Reference = null, no_unknown: bool = true -> any | Reference",
            getattr,
            allow_unknown = true
        ),
        native!("is_instance", "obj: any, cls: string -> bool", is_instance),
        native!(
            "familyof",
            "member: std::OS, family: string -> bool",
            family_of
        ),
        native!("objid", "value: any -> string", objid),
        native!("type", "obj: any -> any", type_of),
        native!("timestamp", "dummy: any = null -> int", timestamp),
        native!(
            "validate_type",
            "fq_type_name: string, value: any, validation_parameters: dict? = null -> bool",
            validate::validate_type
        ),
    ]
}

fn assert(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    if matches!(args.arg(0), Value::Bool(false)) {
        let message = format!("Assertion error: {}", str_arg(model.heap_ref(), args, 1));
        return external("AssertionError", message);
    }
    Ok(Value::Null)
}

fn equals(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    if model.heap_ref().equal(args.arg(0), args.arg(1)) {
        return Ok(Value::Null);
    }
    let mut message = format!("{} != {}", model.text(args.arg(0)), model.text(args.arg(1)));
    if let Value::Str(_) = args.arg(2) {
        message.push_str(": ");
        message.push_str(str_arg(model.heap_ref(), args, 2));
    }
    external("AssertionError", message)
}

/// What a value is to Python: its text, a number that no other has, and its class. Values that Python has itself have none.
fn objid(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let value = args.arg(0);
    let class = match value {
        Value::Instance(_) => "inmanta.execute.runtime.Instance",
        Value::List(_) => "list",
        Value::Dict(_) => "dict",
        _ => return no_attribute(model, value, "_get_instance"),
    };
    let (text, number) = (model.repr(value), number_of(value));
    text_value(model, &format!("({text}, '{number}', <class '{class}'>)"))
}

/// A number like the address that the reference has here.
fn number_of(value: Value) -> u64 {
    const BASE: u64 = 0x7f00_0000_0000;
    let (kind, index) = match value {
        Value::Instance(id) => (0, u64::from(id.0)),
        Value::List(id) => (1, u64::from(id.0)),
        Value::Dict(id) => (2, u64::from(id.0)),
        _ => (3, 0),
    };
    BASE + ((index * 4 + kind) << 4)
}

/// A plugin of the reference that fails for every value: it asks for what no value has.
fn type_of(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    match args.arg(0) {
        Value::Instance(_) => external("AttributeError", "(None, 'value')"),
        value @ (Value::List(_) | Value::Dict(_)) => no_attribute(model, value, "get_attribute"),
        value => no_attribute(model, value, "value"),
    }
}

fn no_attribute(model: &dyn Model, value: Value, name: &str) -> Result<Value, PluginError> {
    let class = match value {
        Value::Null => "NoneType",
        value => model.heap_ref().python_type(value),
    };
    external(
        "AttributeError",
        format!("'{class}' object has no attribute '{name}'"),
    )
}

fn inlineif(_: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    Ok(if matches!(args.arg(0), Value::Bool(true)) {
        args.arg(1)
    } else {
        args.arg(2)
    })
}

fn getattr(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let name = str_arg(model.heap_ref(), args, 1).to_owned();
    // An Unknown has no attributes.
    let Value::Instance(instance) = args.arg(0) else {
        return Ok(args.arg(2));
    };
    Ok(model
        .attribute(instance, &name, true)?
        .unwrap_or_else(|| args.arg(2)))
}

fn is_instance(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let Value::Instance(instance) = args.arg(0) else {
        let type_name = model.heap_ref().python_type(args.arg(0));
        return external(
            "AttributeError",
            format!("'{type_name}' object has no attribute '_type'"),
        );
    };
    let name = str_arg(model.heap_ref(), args, 1);
    match model.is_instance(instance, name) {
        Some(answer) => Ok(Value::Bool(answer)),
        None => {
            let message = format!("could not find type {name} in namespace std");
            let loc = crate::span::Loc::NONE;
            Err(PluginError::Compile(crate::diagnostics::fail(
                "TypeNotFoundException",
                loc,
                message,
            )))
        }
    }
}

fn timestamp(_: &mut dyn Model, _: &Bound) -> Result<Value, PluginError> {
    #[expect(
        clippy::disallowed_methods,
        reason = "`std::timestamp` is the one plugin that asks the clock"
    )]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Ok(Value::Int(now.map(|now| now.as_secs() as i64).unwrap_or(0)))
}

fn print(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let line = pyformat::text_of(model, args.arg(0));
    model.world().print(&line);
    Ok(Value::Null)
}

/// The root of the chain never matches: it has no family of its own.
fn family_of(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let family = str_arg(model.heap_ref(), args, 1).to_owned();
    let is_it = |model: &mut dyn Model, system: Value| {
        let name = attribute(model, system, "name", false)?;
        Ok(matches!(name, Value::Str(id) if model.heap_ref().str(id) == family))
    };
    let mut at = args.arg(0);
    if is_it(model, at)? {
        return Ok(Value::Bool(true));
    }
    for _ in 0..1000 {
        let Value::Instance(instance) = at else {
            break;
        };
        let parent = match model.attribute(instance, "family", false) {
            Ok(Some(parent)) => parent,
            Ok(None) => break,
            Err(PluginError::Compile(error)) if error.kind == "OptionalValueException" => break,
            Err(error) => return Err(error),
        };
        if is_it(model, at)? {
            return Ok(Value::Bool(true));
        }
        at = parent;
    }
    Ok(Value::Bool(false))
}
