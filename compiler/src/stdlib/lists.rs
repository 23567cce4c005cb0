//! Lists and dicts. Source: docs/reference/std.md § 5.2.

use std::cmp::Ordering;

use crate::stdlib::{
    Bound, Model, NativeDef, PluginError, Value, external, int_arg, list_arg, native, str_arg,
};

pub(super) fn natives() -> Vec<NativeDef> {
    vec![
        native!(
            "count",
            "item_list: Sequence[any | Reference] -> int",
            |model, args| { Ok(Value::Int(list_arg(model.heap_ref(), args, 0).len() as i64)) }
        ),
        native!("len", "item_list: Sequence[any | Reference] -> int", len),
        native!(
            "at",
            "objects: Sequence[any | Reference], index: int -> any | Reference",
            |model, args| {
                let items = list_arg(model.heap_ref(), args, 0);
                at(&items, int_arg(args, 1)?)
            }
        ),
        native!("item", "objects: list, index: int -> list", item),
        native!("flatten", "item_list: list -> list", flatten),
        native!("unique", "item_list: list -> bool", unique),
        native!("key_sort", "items: list, key: any -> list", key_sort),
        native!("sequence", "i: int, start: int = 0 -> list", sequence),
        native!(
            "select",
            "objects: list, attr: string -> list",
            select,
            deprecated = Some("using a list comprehension")
        ),
        native!(
            "filter",
            "values: list, not_item: std::Entity -> list",
            filter,
            deprecated = Some("using a list comprehension")
        ),
        native!(
            "dict_get",
            "dct: Mapping[any], key: string -> string",
            dict_get,
            deprecated = Some("using the `<dict>[<key>]` construct")
        ),
        native!(
            "contains",
            "dct: Mapping[any], key: string -> bool",
            contains,
            deprecated = Some("the `<key> in <dict>` construct")
        ),
        native!("dict_keys", "dct: Mapping[any] -> string[]", dict_keys),
    ]
}

fn len(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let items = list_arg(model.heap_ref(), args, 0);
    if items.iter().any(|item| matches!(item, Value::Unknown(_))) {
        return Err(PluginError::Unknown);
    }
    Ok(Value::Int(items.len() as i64))
}

fn unique(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let heap = model.heap_ref();
    let items = list_arg(heap, args, 0);
    let mut seen = std::collections::HashSet::with_capacity(items.len());
    for (at, value) in items.into_iter().enumerate() {
        let key = match value {
            Value::Unknown(_) => return Err(PluginError::Unknown),
            // A reference is compared by what it holds, so it has no hash.
            Value::List(_) | Value::Dict(_) | Value::Reference(_) => {
                let kind = heap.python_type(value);
                return external("TypeError", format!("unhashable type: '{kind}'"));
            }
            Value::Str(text) => format!("s{}", heap.str(text)),
            // Numbers are equal across their kinds.
            Value::Bool(value) => format!("n{}", u8::from(value)),
            Value::Float(value) if value.is_nan() => format!("nan{at}"),
            Value::Float(value) if value.fract() == 0.0 => format!("n{value:.0}"),
            Value::Float(value) => format!("f{}", value.to_bits()),
            Value::Int(value) => format!("n{value}"),
            Value::Big(value) => format!("n{}", heap.big(value)),
            value => format!("{value:?}"),
        };
        if !seen.insert(key) {
            return Ok(Value::Bool(false));
        }
    }
    Ok(Value::Bool(true))
}

fn sequence(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let count = int_arg(args, 0)?;
    if count > 10_000_000 {
        return external("MemoryError", "the sequence is too long");
    }
    let heap = model.heap();
    let start = heap.to_big(args.arg(1)).unwrap_or_default();
    let items: Vec<Value> = (0..count)
        .map(|offset| heap.new_int(&start + offset))
        .collect();
    Ok(heap.new_list(&items))
}

fn select(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let name = str_arg(model.heap_ref(), args, 1).to_owned();
    let mut values = Vec::new();
    for item in list_arg(model.heap_ref(), args, 0) {
        values.push(attribute(model, item, &name, false)?);
    }
    Ok(model.heap().new_list(&values))
}

fn filter(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let excluded = args.arg(1);
    let heap = model.heap_ref();
    let kept: Vec<Value> = list_arg(heap, args, 0)
        .into_iter()
        .filter(|value| !heap.equal(*value, excluded))
        .collect();
    Ok(model.heap().new_list(&kept))
}

fn dict_get(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let key = str_arg(model.heap_ref(), args, 1);
    let Value::Dict(dict) = args.arg(0) else {
        return Ok(Value::Null);
    };
    match model.heap_ref().dict_get(dict, key) {
        Some(value) => Ok(value),
        None => external("KeyError", crate::types::text::quoted(key)),
    }
}

fn contains(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let Value::Dict(dict) = args.arg(0) else {
        return Ok(Value::Bool(false));
    };
    let heap = model.heap_ref();
    // It reads the value to know whether it is there.
    match heap.dict_get(dict, str_arg(heap, args, 1)) {
        Some(Value::Unknown(_)) => Err(PluginError::Unknown),
        found => Ok(Value::Bool(found.is_some())),
    }
}

fn dict_keys(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let Value::Dict(dict) = args.arg(0) else {
        return Ok(Value::Null);
    };
    let keys: Vec<Value> = model
        .heap_ref()
        .dict(dict)
        .entries
        .iter()
        .map(|(key, _)| Value::Str(*key))
        .collect();
    Ok(model.heap().new_list(&keys))
}

fn at(items: &[Value], index: i64) -> Result<Value, PluginError> {
    let position = if index < 0 {
        index + items.len() as i64
    } else {
        index
    };
    match usize::try_from(position)
        .ok()
        .and_then(|position| items.get(position))
    {
        Some(Value::Unknown(_)) => Err(PluginError::Unknown),
        Some(value) => Ok(*value),
        None => external("IndexError", "list index out of range"),
    }
}

/// An attribute, possibly of an attribute: `host.name`.
pub(super) fn attribute(
    model: &mut dyn Model,
    object: Value,
    path: &str,
    references: bool,
) -> Result<Value, PluginError> {
    let mut value = object;
    for name in path.split('.') {
        let instance = match value {
            Value::Instance(instance) => instance,
            Value::Unknown(_) => return Err(PluginError::Unknown),
            number if let Some(found) = of_a_number(number, name) => {
                value = found;
                continue;
            }
            value => {
                // A list or a dict comes as a proxy, which asks its value for an attribute in this way.
                let (type_name, wanted) = match value {
                    Value::Null => ("NoneType", name),
                    Value::List(_) | Value::Dict(_) => {
                        (model.heap_ref().python_type(value), "get_attribute")
                    }
                    value => (model.heap_ref().python_type(value), name),
                };
                return external(
                    "AttributeError",
                    format!("'{type_name}' object has no attribute '{wanted}'"),
                );
            }
        };
        match model.attribute(instance, name, references)? {
            Some(found) => value = found,
            None => {
                return external("AttributeError", format!("(None, '{name}')"));
            }
        }
    }
    Ok(value)
}

/// What Python's numbers have besides methods.
fn of_a_number(number: Value, name: &str) -> Option<Value> {
    let (itself, nothing) = match number {
        Value::Bool(truth) => (Value::Int(i64::from(truth)), Value::Int(0)),
        Value::Int(_) | Value::Big(_) => (number, Value::Int(0)),
        Value::Float(_) => (number, Value::Float(0.0)),
        _ => return None,
    };
    let is_integer = !matches!(number, Value::Float(_));
    match name {
        "real" => Some(itself),
        "imag" => Some(nothing),
        "numerator" if is_integer => Some(itself),
        "denominator" if is_integer => Some(Value::Int(1)),
        _ => None,
    }
}

fn item(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let index = int_arg(args, 1)?;
    let mut values = Vec::new();
    for object in list_arg(model.heap_ref(), args, 0) {
        match object {
            Value::List(list) => {
                let items = model.heap_ref().list(list).to_vec();
                values.push(at(&items, index)?);
            }
            Value::Str(id) => {
                let chars: Vec<String> =
                    model.heap_ref().str(id).chars().map(String::from).collect();
                let parts: Vec<Value> = chars.iter().map(|c| model.heap().new_str(c)).collect();
                values.push(at(&parts, index)?);
            }
            Value::Unknown(_) => return Err(PluginError::Unknown),
            _ => return external("TypeError", "object is not subscriptable"),
        }
    }
    Ok(model.heap().new_list(&values))
}

fn flatten(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let mut values = Vec::new();
    for object in list_arg(model.heap_ref(), args, 0) {
        match object {
            Value::List(list) => values.extend_from_slice(model.heap_ref().list(list)),
            Value::Str(id) => {
                let chars: Vec<String> =
                    model.heap_ref().str(id).chars().map(String::from).collect();
                values.extend(
                    chars
                        .iter()
                        .map(|c| model.heap().new_str(c))
                        .collect::<Vec<_>>(),
                );
            }
            Value::Dict(dict) => {
                let entries = &model.heap_ref().dict(dict).entries;
                values.extend(entries.iter().map(|(key, _)| Value::Str(*key)));
            }
            Value::Unknown(_) => return Err(PluginError::Unknown),
            other => {
                let type_name = match other {
                    Value::Instance(_) => "DynamicProxy",
                    Value::Null => "NoneType",
                    other => model.heap_ref().python_type(other),
                };
                return external("TypeError", format!("'{type_name}' object is not iterable"));
            }
        }
    }
    Ok(model.heap().new_list(&values))
}

fn key_sort(model: &mut dyn Model, args: &Bound) -> Result<Value, PluginError> {
    let key = match args.arg(1) {
        Value::Str(id) => model.heap_ref().str(id).to_owned(),
        _ => return external("TypeError", "attribute name must be a string"),
    };
    let mut keyed = Vec::new();
    for item in list_arg(model.heap_ref(), args, 0) {
        keyed.push((attribute(model, item, &key, false)?, item));
    }
    let heap = model.heap_ref();
    let mut incomparable = None;
    keyed.sort_by(|(a, _), (b, _)| {
        let order = match (*a, *b) {
            (Value::Str(a), Value::Str(b)) => Some(heap.str(a).cmp(heap.str(b))),
            (a, b) => heap.compare(a, b),
        };
        order.unwrap_or_else(|| {
            incomparable.get_or_insert((*a, *b));
            Ordering::Equal
        })
    });
    if let Some((a, b)) = incomparable {
        let type_of = |value| match value {
            Value::Null => "NoneType",
            value => heap.python_type(value),
        };
        let message = format!(
            "'<' not supported between instances of '{}' and '{}'",
            type_of(a),
            type_of(b)
        );
        return external("TypeError", message);
    }
    let items: Vec<Value> = keyed.into_iter().map(|(_, item)| item).collect();
    Ok(model.heap().new_list(&items))
}
