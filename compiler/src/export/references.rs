//! The exported form of references, and the mutators that put their values in place.
//! Source: docs/reference/language.md § 12.11.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use serde_json::{Map, Value as Json, json};

use super::fields::{Computed, value_of};
use crate::diagnostics::{Fail, fail, runtime};
use crate::resources::{ExportedReference, NoModel, Plan};
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::json::write_json;
use crate::types::reference::{Origin, RefId};
use crate::types::{Heap, InstId, Value};

/// References found in the fields of one resource, each with the path to its place.
type Places = Vec<(String, RefId)>;

/// Puts null in the places of the references in a resource's fields, and what is known of them into `references` and
/// `mutators`. False: the resource is not exported.
pub(super) fn take_out(
    machine: &mut Machine,
    plan: &Plan,
    instance: InstId,
    resource: &str,
    computed: &mut Computed,
) -> Result<bool, Fail> {
    let loc = machine.state.instance(instance).loc;
    let mut places = Vec::new();
    for field in &plan.fields {
        let value = value_of(machine, field, instance, computed)?;
        if !machine.state.heap.holds_reference(value) {
            continue;
        }
        let name = &field.field.name;
        let mut found = Places::new();
        let mut value = take(&mut machine.state.heap, value, name, &mut found);
        let mut models = Vec::with_capacity(found.len());
        for (path, reference) in found {
            match model_of(machine, reference, loc) {
                Ok(model) => models.push((path, model)),
                Err(NoModel::Failed(error)) => return Err(failed(machine, plan, name, error)),
                Err(NoModel::Ignored) => return Ok(false),
                Err(NoModel::Unknown) => {
                    value = machine.state.heap.new_unknown();
                    models.clear();
                    break;
                }
            }
        }
        places.extend(models);
        computed.retain(|(known, _)| known != name);
        computed.push((name.clone(), value));
    }
    if places.is_empty() {
        return Ok(true);
    }
    let mut references = BTreeMap::new();
    let mut mutators = BTreeMap::new();
    for (path, model) in places {
        let arguments = json!([
            {"type": "resource", "name": "resource", "id": resource},
            {"type": "reference", "name": "value", "id": model.id},
            {"type": "literal", "name": "destination", "value": path},
        ]);
        let id = id_of(&mut machine.state.heap, "core::Replace", &arguments);
        mutators.insert(id, json!({"type": "core::Replace", "args": arguments}));
        references.extend(model.closure);
    }
    for (name, found) in [("references", references), ("mutators", mutators)] {
        let items: Vec<Value> = found
            .values()
            .map(|item| from_json(&mut machine.state.heap, item))
            .collect();
        let list = machine.state.heap.new_list(&items);
        computed.push((name.to_owned(), list));
    }
    Ok(true)
}

/// A field whose references have no exported form, for instance because one needs itself.
fn failed(machine: &Machine, plan: &Plan, field: &str, mut cause: Fail) -> Fail {
    let entity = machine.program.entity_name(plan.registration.entity);
    let message = format!("Failed to get attribute '{field}' for export on '{entity}'");
    if matches!(cause.kind, "ExternalException" | "ExplicitPluginException") {
        cause.message = format!("{message}\n{}", cause.message);
        return cause;
    }
    fail("ExternalException", cause.loc, message).cause(*cause)
}

/// The value with null in place of references.
fn take(heap: &mut Heap, value: Value, path: &str, places: &mut Places) -> Value {
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

fn model_of(machine: &mut Machine, id: RefId, loc: Loc) -> Result<ExportedReference, NoModel> {
    if let Some(known) = machine.python.reference_models.get(&id) {
        return Ok(known.clone());
    }
    let reference = machine.state.heap.reference(id).clone();
    let model = match reference.origin {
        Origin::Native(arguments) => {
            let mut model = ExportedReference::default();
            let mut described = Vec::with_capacity(arguments.len());
            for (name, value) in arguments {
                described.push(argument(machine, name, value, &mut model.closure, loc)?);
            }
            let described = Json::Array(described);
            model.id = id_of(&mut machine.state.heap, &reference.kind, &described);
            let exported = json!({"id": model.id, "type": *reference.kind, "args": described});
            model.closure.insert(model.id.clone(), exported);
            model
        }
        Origin::Python { object, .. } => {
            let (id, closure) = machine.serialize_reference(object, loc)?;
            ExportedReference { id, closure }
        }
    };
    machine.python.reference_models.insert(id, model.clone());
    Ok(model)
}

fn argument(
    machine: &mut Machine,
    name: &str,
    value: Value,
    closure: &mut BTreeMap<String, Json>,
    loc: Loc,
) -> Result<Json, NoModel> {
    let mut places = Places::new();
    let plain = take(&mut machine.state.heap, value, "$", &mut places);
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
    let written = write_json(&machine.state.heap, plain, true, &mut text);
    let Some(value) = written
        .ok()
        .and_then(|()| serde_json::from_str::<Json>(&text).ok())
    else {
        let text = machine.state.heap.to_text(value, &machine.state);
        let message = format!("Unable to serialize argument `{name}` of `{text}`");
        return Err(NoModel::Failed(runtime(loc, message)));
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
fn id_of(heap: &mut Heap, kind: &str, arguments: &Json) -> String {
    const OID: [u8; 16] = [
        0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ];
    let text = canonical(heap, &json!({"type": kind, "args": arguments}));
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

fn canonical(heap: &mut Heap, value: &Json) -> String {
    let mut out = String::new();
    let value = from_json(heap, value);
    // What came from JSON has a JSON form.
    let _ = write_json(heap, value, true, &mut out);
    out
}

fn from_json(heap: &mut Heap, value: &Json) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => heap.new_str(text),
        Json::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| from_json(heap, item)).collect();
            heap.new_list(&items)
        }
        Json::Object(entries) => {
            let entries = entries
                .iter()
                .map(|(key, item)| (heap.add_str(key), from_json(heap, item)))
                .collect();
            heap.new_dict(entries)
        }
        Json::Number(number) => {
            let text = number.to_string();
            match (number.as_i64(), text.parse::<num_bigint::BigInt>()) {
                (Some(value), _) => Value::Int(value),
                (None, Ok(value)) => heap.new_int(value),
                (None, Err(_)) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
    }
}
