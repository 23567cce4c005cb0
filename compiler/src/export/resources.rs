//! The export: every resource, what it requires, its set and its hash. Source: docs/reference/language.md § 12.5,
//! § 12.6, § 12.10.
//!
//! First all is found out that may go wrong, with little more memory than the ids; then one resource after the other is
//! written to the sink.

use super::assemble::assemble;
use super::catalog::{Catalog, ExportStatus, FoundResource, Requires};
use super::dependencies;
use super::fields::{check, id_value};
use super::partial;
use super::references;
use super::sets::Sets;
use super::sink::{ResourceRef, ResourceSink};
use crate::diagnostics::{Fail, Warning, fail};
use crate::hash::{FastHasher, spread};
use crate::pages;
use crate::protocol::Identify;
use crate::resources::{Plan, check_names, write_id, write_own_id};
use crate::runtime::{Machine, PREFETCHED_STEPS, RenderedFields, Rendering, VarId};
use crate::types::{InstId, Value};
use smallvec::SmallVec;

/// Instances and plans that are looked at for the next one of which Python computes something. There may be many of which it
/// computes nothing.
const MOST_LOOKS: usize = 1024;

/// Makes the resources of a complete model as [`export`] does and gives them to nobody: whether there is something among them
/// that no export could contain, such as two with one id, or a cycle. Functions that modules have for exporting are not run:
/// what they do has effects.
pub fn check_resources(machine: &mut Machine) -> Result<(), Fail> {
    let (catalog, _) = begin(machine)?;
    let mut requires = direct_requires(machine, &catalog);
    dependencies::add(machine, &catalog, &mut requires).add_to(&mut requires);
    check_cycles(&catalog, &requires)
}

/// The resources of the model, and whether functions of modules want to see all of them.
fn begin(machine: &mut Machine) -> Result<(Catalog, bool), Fail> {
    machine.free_execution();
    let wants_all = machine.begin_export()?;
    check_names(machine.resource_classes())?;
    let collected = collect(machine);
    if collected.is_err() {
        machine.abandon_rendered();
    }
    Ok((collected?, wants_all))
}

pub fn export(machine: &mut Machine, sink: &mut dyn ResourceSink) -> Result<Vec<String>, Fail> {
    let (mut catalog, wants_all) = begin(machine)?;
    let mut requires = direct_requires(machine, &catalog);
    let preferences = dependencies::add(machine, &catalog, &mut requires);
    assemble(machine, &mut catalog, wants_all, &mut requires)?;
    preferences.add_to(&mut requires);
    let mut sets = Sets::assign(machine, &catalog)?;
    check_cycles(&catalog, &requires)?;
    if let Some(partial) = &machine.options.partial {
        partial::check(machine, partial, &catalog, &requires, &mut sets)?;
    }
    let mut attributes = String::new();
    let mut required: Vec<&str> = Vec::new();
    for (at, requires) in requires.iter().enumerate() {
        if at % PREFETCHED_STEPS == 0 {
            let next = catalog.found[at..].iter().take(PREFETCHED_STEPS);
            machine
                .state
                .prefetch_instances(next.map(|found| found.owner));
        }
        attributes.clear();
        let undefined = catalog.attributes(machine, at, &mut attributes)?;
        required.clear();
        required.extend(requires.iter().map(|at| catalog.id(*at as usize)));
        required.sort_unstable();
        required.dedup();
        let id = catalog.id(at);
        let (agent, id_value) = catalog.agent_and_value(machine, at);
        sink.take(ResourceRef {
            id,
            entity_type: catalog.entity_type(machine, at),
            agent,
            id_attribute: catalog.id_attribute(machine, at),
            id_value,
            attributes: &attributes,
            requires: &required,
            undefined,
            resource_set: sets.name(at),
        });
    }
    machine.options.drop((catalog, requires));
    Ok(sets.removed)
}

fn collect(machine: &mut Machine) -> Result<Catalog, Fail> {
    let mut catalog = Catalog::new(machine);
    // With the hashes of the ids, so that it grows without a look at them.
    let mut by_id: hashbrown::HashTable<(u32, u32)> = hashbrown::HashTable::new();
    let instances = machine.state.in_order_of_creation();
    for (n_before, instance) in instances.iter().copied().enumerate() {
        if n_before % PREFETCHED_STEPS == 0 {
            machine
                .state
                .prefetch_instances(instances[n_before..].iter().copied().take(PREFETCHED_STEPS));
        }
        let at = instance.index();
        let entity = machine.state.instance(instance).entity;
        for which in 0..catalog.plans[entity.index()].len() {
            let plan = &catalog.plans[entity.index()][which];
            let mut place = (n_before, which + 1);
            let mut next =
                |machine: &Machine| next_asked(machine, &catalog.plans, &instances, &mut place);
            let mut mapped = match plan.registration.class {
                Some(class) => from_python(machine, plan, class, instance, &mut next)?,
                None => Some(RenderedFields::default()),
            };
            let start = catalog.ids.len();
            let agent_length = match &mapped {
                Some(mapped) => find(machine, plan, instance, mapped, &mut catalog.ids)?,
                None => None,
            };
            let is_left_out = match (&mut mapped, agent_length) {
                (Some(mapped), Some(_)) if machine.state.heap.has_references() => {
                    let (id, computed) = (&catalog.ids[start..], &mut mapped.computed);
                    !references::take_out(machine, plan, instance, id, computed)?
                }
                _ => false,
            };
            let (Some(agent_length), Some(mapped), false) = (agent_length, mapped, is_left_out)
            else {
                catalog.ids.truncate(start);
                if catalog.fates[at] == ExportStatus::Other {
                    catalog.fates[at] = ExportStatus::Dropped;
                }
                continue;
            };
            let index = catalog.found.len() as u32;
            catalog.found.push(FoundResource {
                owner: instance,
                plan: which as u32,
                end: catalog.ids.len(),
                agent_length: agent_length as u32,
            });
            if let Some(own) = mapped.identity {
                catalog.own_ids.insert(index, own);
            }
            let id = catalog.id(index as usize);
            let hash = hash_of(id);
            let same = by_id.find(spread(hash), |(of, other)| {
                *of == hash && catalog.id(*other as usize) == id
            });
            if let Some((_, first)) = same {
                let message =
                    format!("Resource {id} exists more than once in the configuration model");
                let other = machine.state.instance(catalog.owner(*first as usize)).loc;
                return Err(fail(
                    "CompilerException",
                    machine.state.instance(instance).loc,
                    message,
                )
                .note("it is also created here", other));
            }
            by_id.insert_unique(spread(hash), (hash, index), |(of, _)| spread(*of));
            catalog.fates[at] = ExportStatus::Exported(index);
            let computed = mapped.computed;
            if !computed.is_empty() {
                catalog.computed.insert(index, computed);
            }
        }
    }
    Ok(catalog)
}

fn hash_of(id: &str) -> u32 {
    use std::hash::Hasher;
    let mut hasher = FastHasher::default();
    hasher.write(id.as_bytes());
    (hasher.finish() >> 32) as u32
}

/// Appends the id of a resource all of whose fields can be written; `None`: it is not exported.
fn find(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    mapped: &RenderedFields,
    ids: &mut String,
) -> Result<Option<usize>, Fail> {
    let agent_length = write_mapped_id(machine, plan, instance, mapped, ids)?;
    if agent_length.is_none() || !check(machine, plan, instance, &mapped.computed)? {
        return Ok(None);
    }
    Ok(agent_length)
}

/// Appends the id: its class's own, or the one that follows from the attributes.
fn write_mapped_id(
    machine: &Machine,
    plan: &Plan,
    instance: InstId,
    mapped: &RenderedFields,
    ids: &mut String,
) -> Result<Option<usize>, Fail> {
    match &mapped.identity {
        Some(own) => write_own_id(own, machine.state.instance(instance).loc, ids).map(Some),
        None => {
            let computed = mapped.id_value.map(Ok);
            let value = computed.unwrap_or_else(|| id_value(machine, plan, instance))?;
            write_id(&machine.state, plan, instance, value, ids)
        }
    }
}

/// What Python computes of a resource.
struct Asked<'p> {
    rendering: Rendering<'p>,
    /// The model says that the resource is not to be managed: its id is made all the same, and so are the fields in front of
    /// the one that says so.
    is_unmanaged: bool,
}

impl Asked<'_> {
    fn is_nothing(&self) -> bool {
        self.rendering.fields.is_empty() && self.rendering.identify == Identify::No
    }
}

/// What Python has to compute: ids of classes that make them, fields with getters, and those that hold Python's own
/// objects.
fn asked<'p>(machine: &Machine, plan: &'p Plan, class: u32, instance: InstId) -> Asked<'p> {
    let mut asked = Asked {
        rendering: Rendering {
            instance,
            class,
            identify: plan.registration.identify,
            fields: SmallVec::new(),
            computation: plan.computation.as_str().into(),
        },
        is_unmanaged: false,
    };
    let base = machine.state.instance(instance).slots.0;
    if plan.n_getters == 0 && !machine.has_objects() {
        // So nearly all classes are. Nothing is asked, whatever the values are.
        let managed = plan.managed_slot.map(|slot| VarId(base + slot));
        let managed = managed.and_then(|var| machine.state.read_slot(var).ok());
        asked.is_unmanaged = matches!(managed, Some(Value::Bool(false)));
        return asked;
    }
    // In the order of the class: a getter that ignores the resource keeps those after it from running.
    for (field, slot) in plan.registration.fields.iter().zip(&plan.class_slots) {
        let value = || machine.state.read_slot(VarId(base + (*slot)?)).ok();
        if field.getter || value().is_some_and(|value| machine.state.heap.has_opaque(value)) {
            asked.rendering.fields.push(&field.name);
        } else if &*field.name == "managed" && matches!(value(), Some(Value::Bool(false))) {
            asked.is_unmanaged = true;
            break;
        }
    }
    if asked.rendering.fields.len() != plan.n_getters || machine.has_objects() {
        let fields = asked.rendering.fields.iter().map(|name| &***name);
        asked.rendering.computation = plan.registration.computation_of(fields).into();
    }
    asked
}

/// What Python computes of a resource; `None`: it is not exported. `next` are the resources behind it.
fn from_python<'p>(
    machine: &mut Machine,
    plan: &'p Plan,
    class: u32,
    instance: InstId,
    next: &mut dyn FnMut(&Machine) -> Option<Rendering<'p>>,
) -> Result<Option<RenderedFields>, Fail> {
    let asked = asked(machine, plan, class, instance);
    let rendered = match asked.is_nothing() {
        true => Some(RenderedFields::default()),
        false => machine.render(&asked.rendering, next)?,
    };
    if !asked.is_unmanaged {
        return Ok(rendered);
    }
    if let Some(rendered) = &rendered {
        write_mapped_id(machine, plan, instance, rendered, &mut String::new())?;
    }
    Ok(None)
}

/// What Python is asked for behind a place in the export: `at` is the position of an instance, and of a plan of its entity.
fn next_asked<'p>(
    machine: &Machine,
    plans: &'p [Vec<Plan>],
    instances: &[InstId],
    at: &mut (usize, usize),
) -> Option<Rendering<'p>> {
    for _ in 0..MOST_LOOKS {
        let instance = *instances.get(at.0)?;
        let of_entity = &plans[machine.state.instance(instance).entity.index()];
        let Some(plan) = of_entity.get(at.1) else {
            *at = (at.0 + 1, 0);
            continue;
        };
        at.1 += 1;
        if let Some(class) = plan.registration.class {
            let asked = asked(machine, plan, class, instance);
            if !asked.is_nothing() {
                return Some(asked.rendering);
            }
        }
    }
    None
}

/// The members of a list relation.
fn members<'m>(machine: &'m Machine, instance: InstId, slot: Option<u32>) -> &'m [Value] {
    let slots = machine.state.instance(instance).slots.0;
    match slot
        .map(|slot| machine.state.vars[VarId(slots + slot).index()].value(&machine.state.heap))
    {
        Some(Value::List(list)) => machine.state.heap.list(list),
        _ => &[],
    }
}

fn direct_requires(machine: &mut Machine, catalog: &Catalog) -> Vec<Requires> {
    let mut all = pages::with_capacity(catalog.len());
    let mut warnings = Vec::new();
    for at in 0..catalog.len() {
        let owner = catalog.owner(at);
        // Of an instance that becomes several resources, by classes for its entity and for ancestors, the last one has what
        // the instance requires, and is what others require.
        if catalog.fate(owner) != ExportStatus::Exported(at as u32) {
            all.push(Requires::new());
            continue;
        }
        let slot = catalog.plan(machine, at).requires_slot;
        let wanted = members(machine, owner, slot);
        let mut required = Requires::new();
        let mut dropped = false;
        let instances = wanted.iter().filter_map(|value| match value {
            Value::Instance(id) => Some(*id),
            _ => None,
        });
        for instance in instances.clone() {
            match catalog.fate(instance) {
                ExportStatus::Exported(index) => required.push(index),
                ExportStatus::Dropped => dropped = true,
                ExportStatus::Other => {}
            }
        }
        // What configures an agent is never exported, and nobody misses it.
        let program = machine.program;
        let missing = instances.filter(|instance| {
            let entity = machine.state.instance(*instance).entity;
            program.text(program.entities[entity.index()].name) != "std::AgentConfig"
        });
        if required.is_empty() && !dropped && missing.clone().next().is_some() {
            let message = format!(
                "after flattening, the resource {} requires nothing, although the model has it require {}: there may be a mistake in `provides`",
                catalog.id(at),
                missing
                    .map(|id| machine.state.describe_instance(id))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            warnings.push(Warning {
                kind: "InmantaWarning",
                message,
                loc: machine.state.instance(owner).loc,
                notes: Vec::new(),
            });
        }
        all.push(required);
    }
    machine.report.warnings.append(&mut warnings);
    all
}

fn check_cycles(catalog: &Catalog, requires: &[Requires]) -> Result<(), Fail> {
    // 0: not seen, 1: on the path, 2: done.
    let mut marks = vec![0u8; requires.len()];
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..requires.len() {
        if marks[start] != 0 {
            continue;
        }
        marks[start] = 1;
        path.push((start, 0));
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
                        .map(|(id, _)| catalog.id(*id))
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
