//! The exported form of references, and the mutators that put their values in place.
//! Source: docs/reference/language.md § 12.11.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use smallvec::SmallVec;

use super::fields::{Computed, value_of};
use crate::diagnostics::{Fail, fail, runtime};
use crate::resources::{ExportedReference, NoModel, Plan};
use crate::runtime::Machine;
use crate::span::Loc;
use crate::types::json::{write_json, write_text};
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
        let heap = &mut machine.state.heap;
        let arguments = [
            ("resource", "resource", "id", resource),
            ("reference", "value", "id", model.id.as_str()),
            ("literal", "destination", "value", path.as_str()),
        ]
        .map(|(kind, name, key, text)| {
            let text = heap.new_str(text);
            described(heap, kind, name, &[(key, text)])
        });
        let arguments = heap.new_list(&arguments);
        let id = id_of(heap, "core::Replace", arguments);
        let kind = heap.new_str("core::Replace");
        mutators.insert(id, dict(heap, &[("type", kind), ("args", arguments)]));
        references.extend(model.closure);
    }
    for (name, found) in [("references", references), ("mutators", mutators)] {
        let items: Vec<Value> = found.into_values().collect();
        let list = machine.state.heap.new_list(&items);
        computed.push((name.into(), list));
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
            let arguments = arguments.iter().map(|(name, value)| (*name, *value));
            model_from(machine, &reference.kind, arguments, loc)?
        }
        Origin::Python {
            arguments: Some(arguments),
            ..
        }
        | Origin::Plain { arguments, .. } => {
            let arguments = arguments.iter().map(|(name, value)| (&**name, *value));
            model_from(machine, &reference.kind, arguments, loc)?
        }
        Origin::Python { object, .. } => {
            let (id, closure) = machine.serialize_reference(object, loc)?;
            ExportedReference { id, closure }
        }
    };
    machine.python.reference_models.insert(id, model.clone());
    Ok(model)
}

/// The exported form of a reference that is made of its arguments.
fn model_from<'a>(
    machine: &mut Machine,
    kind: &str,
    arguments: impl Iterator<Item = (&'a str, Value)>,
    loc: Loc,
) -> Result<ExportedReference, NoModel> {
    let mut model = ExportedReference::default();
    let mut described = Vec::new();
    for (name, value) in arguments {
        described.push(argument(machine, name, value, &mut model.closure, loc)?);
    }
    let heap = &mut machine.state.heap;
    let described = heap.new_list(&described);
    model.id = id_of(heap, kind, described);
    let (id, kind) = (heap.new_str(&model.id), heap.new_str(kind));
    let exported = dict(heap, &[("id", id), ("type", kind), ("args", described)]);
    model.closure.insert(model.id.clone(), exported);
    Ok(model)
}

/// One argument of a reference as it is exported.
fn argument(
    machine: &mut Machine,
    name: &str,
    value: Value,
    closure: &mut BTreeMap<String, Value>,
    loc: Loc,
) -> Result<Value, NoModel> {
    let mut places = Places::new();
    let plain = take(&mut machine.state.heap, value, "$", &mut places);
    let mut inner = Vec::with_capacity(places.len());
    for (path, reference) in places {
        let model = model_of(machine, reference, loc)?;
        closure.extend(model.closure);
        let heap = &mut machine.state.heap;
        let id = heap.new_str(&model.id);
        if let Value::Reference(_) = value {
            return Ok(described(heap, "reference", name, &[("id", id)]));
        }
        let place = described(heap, "reference", &path, &[("id", id)]);
        inner.push((heap.add_str(&path), place));
    }
    if !has_json_form(&machine.state.heap, plain) {
        let text = machine.state.heap.to_text(value, &machine.state);
        let message = format!("Unable to serialize argument `{name}` of `{text}`");
        return Err(NoModel::Failed(runtime(loc, message)));
    }
    let heap = &mut machine.state.heap;
    if !inner.is_empty() {
        let inner = heap.new_dict(inner);
        let parts = [("value", plain), ("references", inner)];
        return Ok(described(heap, "mjson", name, &parts));
    }
    let kind = match plain {
        Value::List(_) | Value::Dict(_) => "json",
        _ => "literal",
    };
    Ok(described(heap, kind, name, &[("value", plain)]))
}

/// Whether JSON has a form for a value, which it has not for an object, an Unknown, and numbers that are none or infinite.
fn has_json_form(heap: &Heap, value: Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Big(_) | Value::Str(_) => true,
        Value::Float(float) => float.is_finite(),
        Value::List(list) => {
            let mut items = heap.list(list).iter();
            items.all(|item| has_json_form(heap, *item))
        }
        Value::Dict(dict) => {
            let mut entries = heap.dict(dict).entries.iter();
            entries.all(|(_, item)| has_json_form(heap, *item))
        }
        Value::Unknown(_)
        | Value::Instance(_)
        | Value::Opaque(_)
        | Value::Reference(_)
        | Value::Skip => false,
    }
}

/// A dict with these keys.
fn dict(heap: &mut Heap, entries: &[(&str, Value)]) -> Value {
    let entries = entries.iter();
    let entries = entries.map(|(key, value)| (heap.add_str(key), *value));
    let entries = entries.collect();
    heap.new_dict(entries)
}

/// An argument of a reference or mutator: its kind, its name, and more.
fn described(heap: &mut Heap, kind: &str, name: &str, more: &[(&str, Value)]) -> Value {
    let mut entries: SmallVec<[_; 4]> =
        SmallVec::from_slice(&[("type", heap.new_str(kind)), ("name", heap.new_str(name))]);
    entries.extend_from_slice(more);
    dict(heap, &entries)
}

/// The id that follows from type and arguments: a UUID of version 3 in the namespace of object identifiers.
fn id_of(heap: &Heap, kind: &str, arguments: Value) -> String {
    const OID: [u8; 16] = [
        0x6b, 0xa7, 0xb8, 0x12, 0x9d, 0xad, 0x11, 0xd1, 0x80, 0xb4, 0x00, 0xc0, 0x4f, 0xd4, 0x30,
        0xc8,
    ];
    let mut text = String::from("{\"args\": ");
    // Whatever is in them has a JSON form.
    let _ = write_json(heap, arguments, true, &mut text);
    text.push_str(", \"type\": ");
    write_text(kind, &mut text);
    text.push('}');
    let mut hash = Md5::new();
    hash.update(OID);
    hash.update(Md5::digest(text.as_bytes()));
    let mut bytes: [u8; 16] = hash.finalize().into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut id = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            id.push('-');
        }
        for digit in [byte >> 4, byte & 0x0f] {
            id.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
    id
}
