//! The model dump of the compile contract: every instance and every top-level variable.

use serde_json::{Map, Value as Json, json};

use crate::hir::NamespaceId;
use crate::runtime::{Machine, VarId};
use crate::types::{EntityId, Value};

pub fn dump(machine: &Machine) -> Json {
    let program = machine.program;
    let mut entities = Map::new();
    for (at, entity) in program.entities.iter().enumerate() {
        let instances = machine.instances_of(EntityId(at as u32));
        if instances.is_empty() {
            continue;
        }
        let dumped = instances.iter().map(|id| {
            let instance = machine.instance(*id);
            let mut object = Map::new();
            for (offset, attr) in entity.slots.iter().enumerate() {
                let attribute = program.attribute(*attr);
                let value = machine.vars[VarId(instance.slots.0 + offset as u32).index()].value();
                let value = if attribute.is_relation() {
                    relation(machine, value)
                } else {
                    plain(machine, value)
                };
                object.insert(program.text(attribute.name).to_owned(), value);
            }
            Json::Object(object)
        });
        entities.insert(program.text(entity.name).to_owned(), dumped.collect());
    }
    let mut variables = Map::new();
    for (at, namespace) in program.namespaces.iter().enumerate() {
        if namespace.is_std {
            continue;
        }
        let base = machine
            .roots
            .get(NamespaceId(at as u32).index())
            .copied()
            .unwrap_or(VarId(0));
        let mut object = Map::new();
        for (offset, name) in program.blocks[namespace.root.index()]
            .variables
            .iter()
            .enumerate()
        {
            let var = &machine.vars[base.index() + offset];
            if var.is_ready() {
                object.insert(program.text(*name).to_owned(), plain(machine, var.value()));
            }
        }
        variables.insert(
            program.text(namespace.name).to_owned(),
            Json::Object(object),
        );
    }
    json!({ "entities": entities, "variables": variables })
}

fn relation(machine: &Machine, value: Value) -> Json {
    match value {
        Value::List(list) => {
            let items = machine.heap.list(list);
            let n_instances = items
                .iter()
                .filter(|item| matches!(item, Value::Instance(_)))
                .count();
            if n_instances < items.len() {
                return json!({ "$count": n_instances, "$unknown": true });
            }
            json!({ "$count": n_instances })
        }
        Value::Instance(_) => json!({ "$count": 1 }),
        Value::Unknown(_) => json!({ "$count": 0, "$unknown": true }),
        _ => json!({ "$count": 0 }),
    }
}

fn plain(machine: &Machine, value: Value) -> Json {
    let heap = &machine.heap;
    match value {
        Value::Null | Value::Skip => Json::Null,
        Value::Bool(value) => Json::Bool(value),
        Value::Int(value) => json!(value),
        Value::Big(id) => heap
            .big(id)
            .to_string()
            .parse::<serde_json::Number>()
            .map_or(Json::Null, Json::Number),
        Value::Float(float) if float.is_nan() => json!({ "$float": "nan" }),
        Value::Float(float) if float.is_infinite() => {
            json!({ "$float": if float > 0.0 { "inf" } else { "-inf" } })
        }
        Value::Float(float) => json!(float),
        Value::Str(id) => Json::String(heap.str(id).to_owned()),
        Value::List(list) => heap
            .list(list)
            .iter()
            .map(|item| plain(machine, *item))
            .collect(),
        Value::Dict(dict) => {
            let entries = heap.dict(dict).entries.iter();
            Json::Object(
                entries
                    .map(|(key, value)| (heap.str(*key).to_owned(), plain(machine, *value)))
                    .collect(),
            )
        }
        Value::Unknown(_) => json!({ "$unknown": true }),
        Value::Instance(id) => {
            json!({ "$instance": machine.program.entity_name(machine.instance(id).entity) })
        }
        Value::Opaque(_) => json!({ "$object": true }),
        Value::Reference(id) => json!({ "$reference": &*heap.reference(id).kind }),
    }
}
