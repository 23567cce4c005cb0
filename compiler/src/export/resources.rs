//! The export: every resource, what it requires, its set and its hash. Source: language.md 12.5, 12.6, 12.10.

use std::collections::BTreeSet;

use md5::{Digest, Md5};

use super::dependencies;
use super::fields::{Mapped, fields, identity, identity_of};
use super::registry::{Field, Registration, Special, registrations};
use crate::diagnostics::{Fail, Warning, fail, runtime};
use crate::hash::Map;
use crate::hir::Program;
use crate::runtime::Machine;
use crate::types::{EntityId, InstId, Value};
use crate::{Export, Resource};

/// What happened to an instance that could be a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Exported(u32),
    /// Not exported on purpose, or because its id is Unknown.
    Dropped,
}

pub fn export(machine: &mut Machine) -> Result<Export, Fail> {
    let all = registrations(machine.program);
    let mut by_entity: Vec<Vec<usize>> = vec![Vec::new(); machine.program.entities.len()];
    for (at, registration) in all.iter().enumerate() {
        for (entity, found) in by_entity.iter_mut().enumerate() {
            if machine
                .program
                .is_subtype(EntityId(entity as u32), registration.entity)
            {
                found.push(at);
            }
        }
    }
    let sorted: Vec<Vec<&Field>> = all
        .iter()
        .map(|registration| {
            let mut fields: Vec<&Field> = registration.fields.iter().collect();
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            fields
        })
        .collect();
    let mut resources: Vec<Resource> = Vec::new();
    let mut owners: Vec<InstId> = Vec::new();
    let mut classes: Vec<Option<u32>> = Vec::new();
    let mut fates: Map<InstId, Fate> = Map::default();
    let mut ids: Map<String, u32> = Map::default();
    for at in 0..machine.instances.len() {
        let instance = InstId(at as u32);
        let entity = machine.instance(instance).entity;
        for which in &by_entity[entity.index()] {
            let registration = &all[*which];
            let Some(resource) = resource(machine, registration, &sorted[*which], instance)? else {
                fates.entry(instance).or_insert(Fate::Dropped);
                continue;
            };
            let index = resources.len() as u32;
            if let Some(first) = ids.insert(resource.id.clone(), index) {
                let message = format!(
                    "Resource {} exists more than once in the configuration model",
                    resource.id
                );
                let loc = machine.instance(instance).loc;
                let other = machine.instance(owners[first as usize]).loc;
                return Err(
                    fail("ResourceException", loc, message).note("it is also created here", other)
                );
            }
            resources.push(resource);
            owners.push(instance);
            classes.push(registration.class);
            fates.insert(instance, Fate::Exported(index));
        }
    }
    let mut requires = direct_requires(machine, &resources, &owners, &fates)?;
    dependencies::add(machine, &resources, &owners, &mut requires);
    dependencies::ask_python(machine, &resources, &owners, &classes, &mut requires)?;
    check_cycles(&resources, &requires)?;
    let texts: Vec<Vec<String>> = requires
        .iter()
        .map(|required| {
            let ids: BTreeSet<&str> = required
                .iter()
                .map(|at| resources[*at as usize].id.as_str())
                .collect();
            ids.into_iter().map(str::to_owned).collect()
        })
        .collect();
    for (resource, requires) in resources.iter_mut().zip(texts) {
        resource.requires = requires;
    }
    let removed_sets = assign_sets(machine, &mut resources, &fates)?;
    machine.collect_unknowns();
    let unknowns = std::mem::take(&mut machine.unknown_parameters);
    Ok(Export {
        resources,
        removed_sets,
        unknowns,
    })
}

fn resource(
    machine: &mut Machine,
    registration: &Registration,
    sorted: &[&Field],
    instance: InstId,
) -> Result<Option<Resource>, Fail> {
    if registration.special == Special::Ignored {
        return Ok(None);
    }
    let computed = match registration.class {
        Some(class) => match from_python(machine, registration, class, sorted, instance)? {
            Some(computed) => computed,
            None => return Ok(None),
        },
        None => Vec::new(),
    };
    let id_computed = computed
        .iter()
        .find(|(name, _)| *name == registration.id_attribute)
        .map(|(_, value)| *value);
    let Some(identity) = identity_with(machine, registration, instance, id_computed)? else {
        return Ok(None);
    };
    let Mapped::Fields(attributes, undefined) =
        fields(machine, registration, sorted, instance, &computed)?
    else {
        return Ok(None);
    };
    let mut hash = Md5::new();
    hash.update(identity.id.as_bytes());
    hash.update(attributes.as_bytes());
    Ok(Some(Resource {
        entity_type: machine.program.entity_name(registration.entity).to_owned(),
        agent: identity.agent,
        id_attribute: registration.id_attribute.clone(),
        id_value: identity.value,
        id: identity.id,
        attribute_hash: hex(&hash.finalize()),
        attributes,
        requires: Vec::new(),
        undefined,
        resource_set: None,
    }))
}

/// The fields that Python has to compute: those with getters, and those that hold Python's own objects.
fn from_python(
    machine: &mut Machine,
    registration: &Registration,
    class: u32,
    sorted: &[&Field],
    instance: InstId,
) -> Result<Option<Vec<(String, Value)>>, Fail> {
    let mut asked: Vec<&Field> = registration.id_getter.iter().collect();
    for field in sorted.iter().copied() {
        let opaque = || {
            machine
                .read_attribute(instance, &field.name)
                .is_ok_and(|value| machine.heap.has_opaque(value))
        };
        if field.getter || opaque() {
            asked.push(field);
        }
    }
    if asked.is_empty() {
        Ok(Some(Vec::new()))
    } else {
        machine.map_fields(instance, class, &asked)
    }
}

fn identity_with(
    machine: &mut Machine,
    registration: &Registration,
    instance: InstId,
    computed: Option<Value>,
) -> Result<Option<super::fields::Identity>, Fail> {
    let Some(value) = computed else {
        return identity(machine, registration, instance);
    };
    if matches!(value, Value::Unknown(_)) {
        return Ok(None);
    }
    identity_of(machine, registration, instance, value)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)] as char);
        out.push(DIGITS[usize::from(byte & 15)] as char);
    }
    out
}

/// The members of a list relation.
pub(super) fn members(machine: &Machine, instance: InstId, relation: &str) -> Vec<InstId> {
    match machine.read_attribute(instance, relation) {
        Ok(Value::List(list)) => machine
            .heap
            .list(list)
            .iter()
            .filter_map(|value| match value {
                Value::Instance(id) => Some(*id),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn direct_requires(
    machine: &mut Machine,
    resources: &[Resource],
    owners: &[InstId],
    fates: &Map<InstId, Fate>,
) -> Result<Vec<Vec<u32>>, Fail> {
    let mut all = Vec::with_capacity(resources.len());
    for (at, owner) in owners.iter().enumerate() {
        let wanted = members(machine, *owner, "requires");
        let mut required = Vec::new();
        let mut dropped = false;
        for instance in &wanted {
            match fates.get(instance) {
                Some(Fate::Exported(index)) => required.push(*index),
                Some(Fate::Dropped) => dropped = true,
                None => {}
            }
        }
        if required.is_empty() && !wanted.is_empty() && !dropped {
            let message = format!(
                "The resource {} had requirements before flattening, but not after flattening. Initial set was {}. Perhaps provides relation is not wired through correctly?",
                resources[at].id,
                wanted
                    .iter()
                    .map(|id| machine.describe_instance(*id))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            let loc = machine.instance(*owner).loc;
            machine.warnings.push(Warning {
                kind: "InmantaWarning",
                message,
                loc,
                notes: Vec::new(),
            });
        }
        all.push(required);
    }
    Ok(all)
}

fn check_cycles(resources: &[Resource], requires: &[Vec<u32>]) -> Result<(), Fail> {
    // 0: not seen, 1: on the path, 2: done.
    let mut marks = vec![0u8; resources.len()];
    for start in 0..resources.len() {
        if marks[start] != 0 {
            continue;
        }
        marks[start] = 1;
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            let id = *at;
            let Some(required) = requires[id].get(*next).map(|required| *required as usize) else {
                marks[id] = 2;
                path.pop();
                continue;
            };
            *next += 1;
            match marks[required] {
                0 => {
                    marks[required] = 1;
                    path.push((required, 0));
                }
                1 => {
                    let first = path.iter().position(|(id, _)| *id == required).unwrap_or(0);
                    let ids: Vec<&str> = path[first..]
                        .iter()
                        .map(|(id, _)| resources[*id].id.as_str())
                        .collect();
                    let message = format!("Cycle in dependencies: [{}]", ids.join(", "));
                    return Err(fail(
                        "DependencyCycleException",
                        crate::span::Loc::NONE,
                        message,
                    ));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn find_entity(program: &Program, name: &str) -> Option<EntityId> {
    let symbol = program.names.find(name)?;
    let at = program
        .entities
        .iter()
        .position(|entity| entity.name == symbol)?;
    Some(EntityId(at as u32))
}

/// Gives members their set; returns the sets without any exported member.
fn assign_sets(
    machine: &mut Machine,
    resources: &mut [Resource],
    fates: &Map<InstId, Fate>,
) -> Result<Vec<String>, Fail> {
    let Some(base) = find_entity(machine.program, "std::ResourceSet") else {
        return Ok(Vec::new());
    };
    let mut empty = BTreeSet::new();
    let mut filled = BTreeSet::new();
    for at in 0..machine.instances.len() {
        let set = InstId(at as u32);
        if !machine
            .program
            .is_subtype(machine.instance(set).entity, base)
        {
            continue;
        }
        let name = match machine.read_attribute(set, "name") {
            Ok(Value::Str(id)) => machine.heap.str(id).to_owned(),
            _ => continue,
        };
        let mut any = false;
        for member in members(machine, set, "resources") {
            let Some(Fate::Exported(index)) = fates.get(&member) else {
                let message = format!(
                    "resource {} is part of ResourceSet {name} but will not be exported",
                    machine.describe_instance(member)
                );
                let loc = machine.instance(member).loc;
                machine.warnings.push(Warning {
                    kind: "InmantaWarning",
                    message,
                    loc,
                    notes: Vec::new(),
                });
                continue;
            };
            any = true;
            let resource = &mut resources[*index as usize];
            match &resource.resource_set {
                Some(other) if *other != name => {
                    let message = format!(
                        "resource '{}' can not be part of multiple ResourceSets: {other} and {name}",
                        resource.id
                    );
                    return Err(runtime(machine.instance(set).loc, message));
                }
                _ => resource.resource_set = Some(name.clone()),
            }
        }
        if any {
            filled.insert(name)
        } else {
            empty.insert(name)
        };
    }
    Ok(empty.difference(&filled).cloned().collect())
}
