//! The model dump of the compile contract: every instance and every top-level variable. It is written as text, because
//! integers have any size.

use std::fmt::Write;

use crate::hir::NamespaceId;
use crate::runtime::{Machine, VarId};
use crate::types::json::write_text;
use crate::types::{EntityId, Value, text};

pub fn dump(machine: &Machine) -> String {
    let program = machine.program;
    let mut out = String::from("{\"entities\": {");
    let mut entities = Separated::new();
    for (at, entity) in program.entities.iter().enumerate() {
        let instances = machine.state.instances_of(EntityId(at as u32));
        if instances.is_empty() {
            continue;
        }
        entities.key(program.text(entity.name), &mut out);
        out.push('[');
        let mut items = Separated::new();
        for id in instances {
            items.next(&mut out);
            out.push('{');
            let slots = machine.state.instance(*id).slots;
            let mut fields = Separated::new();
            for (offset, attr) in entity.slots.iter().enumerate() {
                let attribute = program.attribute(*attr);
                fields.key(program.text(attribute.name), &mut out);
                let value = machine.state.vars[VarId(slots.0 + offset as u32).index()]
                    .value(&machine.state.heap);
                if attribute.is_relation() {
                    relation(machine, value, &mut out);
                } else {
                    plain(machine, value, &mut out);
                }
            }
            out.push('}');
        }
        out.push(']');
    }
    out.push_str("}, \"variables\": {");
    let mut namespaces = Separated::new();
    for (at, namespace) in program.namespaces.iter().enumerate() {
        if namespace.is_std {
            continue;
        }
        let base = machine
            .state
            .roots
            .get(NamespaceId(at as u32).index())
            .copied()
            .unwrap_or(VarId(0));
        namespaces.key(program.text(namespace.name), &mut out);
        out.push('{');
        let mut fields = Separated::new();
        let names = &program.blocks[namespace.root.index()].variables;
        for (offset, name) in names.iter().enumerate() {
            let var = &machine.state.vars[base.index() + offset];
            if var.is_ready() {
                fields.key(program.text(*name), &mut out);
                plain(machine, var.value(&machine.state.heap), &mut out);
            }
        }
        out.push('}');
    }
    out.push_str("}}");
    out
}

/// Puts a comma between items.
struct Separated {
    is_first: bool,
}

impl Separated {
    fn new() -> Self {
        Separated { is_first: true }
    }

    fn next(&mut self, out: &mut String) {
        if !std::mem::take(&mut self.is_first) {
            out.push_str(", ");
        }
    }

    fn key(&mut self, name: &str, out: &mut String) {
        self.next(out);
        write_text(name, out);
        out.push_str(": ");
    }
}

fn relation(machine: &Machine, value: Value, out: &mut String) {
    let one;
    let items = match value {
        Value::List(list) => machine.state.heap.list(list),
        Value::Instance(_) | Value::Unknown(_) => {
            one = [value];
            &one
        }
        _ => &[],
    };
    let n_instances = items
        .iter()
        .filter(|item| matches!(item, Value::Instance(_)))
        .count();
    let unknown = if n_instances < items.len() {
        ", \"$unknown\": true"
    } else {
        ""
    };
    let _ = write!(out, "{{\"$count\": {n_instances}{unknown}}}");
}

fn plain(machine: &Machine, value: Value, out: &mut String) {
    let heap = &machine.state.heap;
    match value {
        Value::Null | Value::Skip => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Int(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Big(id) => {
            let _ = write!(out, "{}", heap.big(id));
        }
        Value::Float(float) if float.is_finite() => out.push_str(&text::float(float)),
        Value::Float(float) => {
            let _ = write!(out, "{{\"$float\": \"{}\"}}", text::float(float));
        }
        Value::Str(id) => write_text(heap.str(id), out),
        Value::List(list) => {
            out.push('[');
            let mut items = Separated::new();
            for item in heap.list(list) {
                items.next(out);
                plain(machine, *item, out);
            }
            out.push(']');
        }
        Value::Dict(dict) => {
            out.push('{');
            let mut entries = Separated::new();
            for (key, value) in &heap.dict(dict).entries {
                entries.key(heap.str(*key), out);
                plain(machine, *value, out);
            }
            out.push('}');
        }
        Value::Unknown(_) => out.push_str("{\"$unknown\": true}"),
        Value::Instance(id) => {
            let entity = machine
                .program
                .entity_name(machine.state.instance(id).entity);
            out.push_str("{\"$instance\": ");
            write_text(entity, out);
            out.push('}');
        }
        Value::Opaque(_) => out.push_str("{\"$object\": true}"),
        Value::Reference(id) => {
            out.push_str("{\"$reference\": ");
            write_text(&heap.reference(id).kind, out);
            out.push('}');
        }
    }
}
