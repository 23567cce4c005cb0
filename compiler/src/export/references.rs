//! The exported form of references, and the mutators that put their values in place. Source: language.md 12.11.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use serde_json::{Map, Value as Json, json};

use super::json::{write_json, write_text};
use crate::diagnostics::{Fail, runtime};
use crate::hash::Map as HashMap;
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::reference::{Origin, RefId};
use crate::types::{Heap, Value};

/// A reference in exported form: its id, and by id itself and all references that its arguments need.
#[derive(Clone, Default)]
pub struct Model {
    id: String,
    closure: BTreeMap<String, Json>,
}

/// Models are made once; making one of Python may have effects that its module counts on.
pub type Models = HashMap<RefId, Model>;

/// References found in the fields of one resource, each with the path to its place.
pub(super) type Places = Vec<(String, RefId)>;

/// The value with null in place of references.
pub(super) fn take(heap: &mut Heap, value: Value, path: &str, places: &mut Places) -> Value {
    if !heap.holds_reference(value) {
        return value;
    }
    match value {
        Value::Reference(id) => {
            places.push((path.to_owned(), id));
            Value::Null
        }
        Value::List(list) => {
            let mut items = heap.list(list).to_vec();
            for (at, item) in items.iter_mut().enumerate() {
                *item = take(heap, *item, &format!("{path}[{at}]"), places);
            }
            heap.new_list(&items)
        }
        Value::Dict(dict) => {
            let mut entries = heap.dict(dict).entries.to_vec();
            for (key, item) in &mut entries {
                let key = heap.str(*key).replace('\\', "\\\\").replace('\'', "\\'");
                *item = take(heap, *item, &format!("{path}.'{key}'"), places);
            }
            heap.new_dict(entries)
        }
        value => value,
    }
}

/// The fields `references` and `mutators` of a resource, as canonical JSON.
pub(super) fn fields(
    machine: &mut Machine,
    resource: &str,
    places: &Places,
    loc: Loc,
) -> Result<(String, String), Fail> {
    let mut references = BTreeMap::new();
    let mut mutators = BTreeMap::new();
    for (path, reference) in places {
        let model = model_of(machine, *reference, loc)?;
        let arguments = json!([
            {"type": "resource", "name": "resource", "id": resource},
            {"type": "reference", "name": "value", "id": model.id},
            {"type": "literal", "name": "destination", "value": path},
        ]);
        let id = id_of("core::Replace", &arguments);
        mutators.insert(id, json!({"type": "core::Replace", "args": arguments}));
        references.extend(model.closure);
    }
    let list = |items: BTreeMap<String, Json>| canonical(&items.into_values().collect());
    Ok((list(references), list(mutators)))
}

fn model_of(machine: &mut Machine, id: RefId, loc: Loc) -> Result<Model, Fail> {
    if let Some(known) = machine.reference_models.get(&id) {
        return Ok(known.clone());
    }
    let reference = machine.heap.reference(id).clone();
    let model = match reference.origin {
        Origin::Native(arguments) => {
            let mut model = Model::default();
            let mut described = Vec::with_capacity(arguments.len());
            for (name, value) in arguments {
                described.push(argument(machine, name, value, &mut model.closure, loc)?);
            }
            let described = Json::Array(described);
            model.id = id_of(&reference.kind, &described);
            let exported = json!({"id": model.id, "type": *reference.kind, "args": described});
            model.closure.insert(model.id.clone(), exported);
            model
        }
        Origin::Python { object, .. } => {
            let (id, closure) = machine.serialize_reference(object, loc)?;
            Model { id, closure }
        }
    };
    machine.reference_models.insert(id, model.clone());
    Ok(model)
}

fn argument(
    machine: &mut Machine,
    name: &str,
    value: Value,
    closure: &mut BTreeMap<String, Json>,
    loc: Loc,
) -> Result<Json, Fail> {
    let mut places = Places::new();
    let plain = take(&mut machine.heap, value, "$", &mut places);
    let mut inner = Map::new();
    for (path, reference) in places {
        let model = model_of(machine, reference, loc)?;
        closure.extend(model.closure);
        if let Value::Reference(_) = value {
            return Ok(json!({"type": "reference", "name": name, "id": model.id}));
        }
        inner.insert(
            path.clone(),
            json!({"type": "reference", "name": path, "id": model.id}),
        );
    }
    let mut text = String::new();
    let written = write_json(&machine.heap, plain, true, &mut text);
    let Some(value) = written
        .ok()
        .and_then(|()| serde_json::from_str::<Json>(&text).ok())
    else {
        let text = machine.heap.to_text(value, machine);
        let message = format!("Unable to serialize argument `{name}` of `{text}`");
        return Err(runtime(loc, message));
    };
    Ok(match (&value, inner.is_empty()) {
        (Json::Array(_) | Json::Object(_), true) => {
            json!({"type": "json", "name": name, "value": value})
        }
        (_, false) => json!({"type": "mjson", "name": name, "value": value, "references": inner}),
        (_, true) => json!({"type": "literal", "name": name, "value": value}),
    })
}

/// The id that follows from type and arguments: a UUID of version 3 in the namespace of object identifiers.
fn id_of(kind: &str, arguments: &Json) -> String {
    const OID: [u8; 16] = [
        0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ];
    let text = canonical(&json!({"type": kind, "args": arguments}));
    let mut hash = Md5::new();
    hash.update(OID);
    hash.update(Md5::digest(text.as_bytes()));
    let mut bytes: [u8; 16] = hash.finalize().into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ]
    .join("-")
}

/// JSON as Python writes it with sorted keys.
fn canonical(value: &Json) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Json, out: &mut String) {
    match value {
        Json::String(text) => write_text(text, out),
        Json::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Json::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (at, (key, item)) in sorted.into_iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_text(key, out);
                out.push_str(": ");
                write_canonical(item, out);
            }
            out.push('}');
        }
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) if number.as_u64().is_none() && is_float(number) => {
                out.push_str(&crate::types::text::float(float));
            }
            _ => out.push_str(&number.to_string()),
        },
        Json::Null | Json::Bool(_) => out.push_str(&value.to_string()),
    }
}

fn is_float(number: &serde_json::Number) -> bool {
    number.to_string().contains(['.', 'e', 'E'])
}
