//! Which entities are resources, and what of them is exported.

use std::sync::Arc;

use super::native::{BASE, Fields, NATIVE};
use crate::diagnostics::{Fail, fail};
use crate::hir::{AttributeKind, Program};
use crate::protocol::{Identify, ResourceClassInfo};
use crate::span::Loc;
use crate::types::EntityId;

/// A mapping of an entity to a resource.
#[derive(Debug, Clone)]
pub struct Registration {
    pub entity: EntityId,
    pub id_attribute: String,
    /// Dotted path from the instance to the agent's name.
    pub agent: String,
    pub fields: Vec<Field>,
    pub special: Special,
    /// Of Python: index of the class among `loaded.resources`.
    pub class: Option<u32>,
    /// By what it is known what its class computes, up to the names of the fields.
    pub computation: String,
    /// What of the id its class makes.
    pub identify: Identify,
    /// Its class has its own way to make an object of the fields, or to serialize it.
    pub assembles: bool,
}

impl Registration {
    /// What the class computes if these fields are asked for: a name that says all of which the result depends on besides the
    /// resource.
    pub(crate) fn computation_of<'f>(&self, fields: impl Iterator<Item = &'f str>) -> String {
        let mut name = self.computation.clone();
        for (at, field) in fields.enumerate() {
            if at > 0 {
                name.push(',');
            }
            name.push_str(field);
        }
        name
    }
}

#[derive(Debug, Clone)]
pub struct Field {
    pub name: Arc<str>,
    /// Python computes it.
    pub getter: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    None,
    /// The reference ignores every instance: agents are no longer configured from a model.
    Ignored,
}

/// Fields that are what the export collects, whatever else has their names.
pub(crate) fn is_collected(field: &str) -> bool {
    matches!(field, "references" | "mutators")
}

/// Field names that mean something else. Source: docs/reference/language.md § 12.1.
const RESERVED: &[&str] = &[
    "id",
    "version",
    "model",
    "requires",
    "unknowns",
    "set_version",
    "clone",
    "is_type",
    "serialize",
];

/// No class may call a field what an export calls something else.
pub fn check_names(classes: &[ResourceClassInfo]) -> Result<(), Fail> {
    for class in classes {
        let short = class.python_class.rsplit('.').next().unwrap_or_default();
        for field in &class.fields {
            let name = &field.name;
            let message = if name.starts_with('_') {
                format!("Resource field names can not start with _, reported in {short}")
            } else if RESERVED.contains(&name.as_str()) {
                format!(
                    "Resource {name} is a reserved keyword and not a valid field name, reported in {short}"
                )
            } else {
                continue;
            };
            return Err(fail("ResourceException", Loc::NONE, message));
        }
    }
    Ok(())
}

/// What a native resource says of itself; a name may come twice.
fn field_names<'a>(program: &'a Program, entity: EntityId, fields: &Fields) -> Vec<&'a str> {
    match fields {
        Fields::These(groups) => groups.iter().copied().flatten().copied().collect(),
        Fields::AllAttributes => {
            let slots = program.entities[entity.0 as usize].slots.iter();
            let attributes = slots.map(|attribute| &program.attributes[attribute.0 as usize]);
            let plain = attributes.filter(|one| matches!(one.kind, AttributeKind::Plain(_)));
            let own = plain.map(|attribute| program.names.text(attribute.name));
            BASE.iter().copied().chain(own).collect()
        }
    }
}

/// All registrations whose entity is part of the compile. A project's own module replaces the built-in one.
pub fn registrations(program: &Program, classes: &[ResourceClassInfo]) -> Vec<Registration> {
    let find = |name: &str| {
        let symbol = program.names.find(name)?;
        let at = program
            .entities
            .iter()
            .position(|entity| entity.name == symbol)?;
        Some(EntityId(at as u32))
    };
    let mut all = Vec::new();
    for native in NATIVE {
        let module = native.entity.split("::").next().unwrap_or("");
        if program.module_roots.contains_key(module) {
            continue;
        }
        let Some(entity) = find(native.entity) else {
            continue;
        };
        let mut fields: Vec<Field> = Vec::new();
        for name in field_names(program, entity, &native.fields) {
            if !fields.iter().any(|field| &*field.name == name) {
                fields.push(Field {
                    name: name.into(),
                    getter: false,
                });
            }
        }
        all.push(Registration {
            entity,
            id_attribute: native.id_attribute.to_owned(),
            agent: native.agent.to_owned(),
            fields,
            special: native.special,
            class: None,
            computation: String::new(),
            identify: Identify::No,
            assembles: false,
        });
    }
    for (class, info) in classes.iter().enumerate() {
        let Some(entity) = find(&info.entity) else {
            continue;
        };
        let fields = info
            .fields
            .iter()
            .map(|field| Field {
                name: field.name.as_str().into(),
                getter: field.getter && !is_collected(&field.name),
            })
            .collect();
        let registration = Registration {
            entity,
            id_attribute: info.id_attribute.clone(),
            agent: info.agent.clone(),
            fields,
            special: Special::None,
            class: Some(class as u32),
            computation: format!(
                "{} of {}: {} ",
                info.python_class,
                info.entity,
                info.identify.name()
            ),
            identify: info.identify,
            assembles: info.assembles,
        };
        match all.iter_mut().find(|known| known.entity == entity) {
            Some(known) => *known = registration,
            None => all.push(registration),
        }
    }
    all
}
