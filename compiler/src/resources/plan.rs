//! How the instances of one entity become resources, worked out once.

use super::registry::{Field, Registration, Special, is_collected};
use crate::hir::Program;
use crate::intern::Symbol;
use crate::types::{EntityId, Value};

pub(crate) struct Plan {
    pub registration: Registration,
    pub id_slot: Option<u32>,
    /// Steps from the instance to the agent's name.
    pub agent: Vec<(String, Option<Symbol>)>,
    /// Sorted by name.
    pub fields: Vec<FieldPlan>,
    /// Of the attributes that the fields of the registration have their names from, in its order.
    pub class_slots: Vec<Option<u32>>,
    pub managed_slot: Option<u32>,
    /// How many fields of each resource Python computes.
    pub n_getters: usize,
    /// By what it is known what Python computes of most resources: the fields with getters.
    pub computation: String,
    pub requires_slot: Option<u32>,
}

pub(crate) struct FieldPlan {
    pub field: Field,
    /// `"name": `
    pub key: String,
    pub slot: Option<u32>,
    /// Its value where the entity has no such attribute, or an Unknown one.
    pub missing: Option<Value>,
}

/// The plans of an entity: of each registration that it, or one of its ancestors, has.
pub(crate) fn plans(
    program: &Program,
    all: &[Registration],
    entity: EntityId,
    empty_list: Value,
) -> Vec<Plan> {
    all.iter()
        .filter(|registration| {
            registration.special != Special::Ignored
                && program.is_subtype(entity, registration.entity)
        })
        .map(|registration| Plan::new(program, registration, entity, empty_list))
        .collect()
}

impl Plan {
    fn new(
        program: &Program,
        registration: &Registration,
        entity: EntityId,
        empty_list: Value,
    ) -> Plan {
        let slot = |name: &str| {
            let symbol = program.names.find(name)?;
            program.entity(entity).slot_of.get(&symbol).copied()
        };
        let mut fields: Vec<FieldPlan> = registration
            .fields
            .iter()
            .map(|field| {
                let mut key = String::new();
                crate::types::json::write_text(&field.name, &mut key);
                key.push_str(": ");
                let missing = match &*field.name {
                    "send_event" | "report_only" => Some(Value::Bool(false)),
                    "receive_events" => Some(Value::Bool(true)),
                    "references" | "mutators" => Some(empty_list),
                    _ => None,
                };
                FieldPlan {
                    field: field.clone(),
                    key,
                    slot: slot(&field.name).filter(|_| !is_collected(&field.name)),
                    missing,
                }
            })
            .collect();
        fields.sort_by(|a, b| a.field.name.cmp(&b.field.name));
        let steps = registration.agent.split('.');
        Plan {
            id_slot: slot(&registration.id_attribute),
            agent: steps
                .map(|step| (step.to_owned(), program.names.find(step)))
                .collect(),
            managed_slot: fields
                .iter()
                .find(|field| &*field.field.name == "managed")
                .and_then(|field| field.slot),
            requires_slot: slot("requires"),
            n_getters: fields.iter().filter(|field| field.field.getter).count(),
            computation: registration.computation_of(
                registration
                    .fields
                    .iter()
                    .filter(|field| field.getter)
                    .map(|field| &*field.name),
            ),
            fields,
            class_slots: registration
                .fields
                .iter()
                .map(|field| slot(&field.name))
                .collect(),
            registration: registration.clone(),
        }
    }
}
