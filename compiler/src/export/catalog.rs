//! The resources of an export: what they were made of, their ids and attributes.

use super::fields::{Computed, Shaped, value_of, write, write_shaped};
use crate::diagnostics::Fail;
use crate::hash::Map;
use crate::pages;
use crate::protocol::OwnId;
use crate::resources::{Plan, plans, registrations};
use crate::runtime::Machine;
use crate::types::{EntityId, InstId};

pub(super) type Requires = smallvec::SmallVec<[u32; 4]>;

/// What happened to an instance that could be a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportStatus {
    /// It is no resource.
    Other,
    Exported(u32),
    /// Not exported on purpose, or because its id is Unknown.
    Dropped,
}

/// A resource that will be written.
pub(super) struct FoundResource {
    pub owner: InstId,
    /// Which plan of its entity.
    pub plan: u32,
    /// End of its id among the ids.
    pub end: usize,
    pub agent_length: u32,
}

/// Room for the id of a resource, at first.
const ID_BYTES: usize = 64;

/// All resources of an export.
pub(super) struct Catalog {
    /// What is exported of each entity, by its index.
    pub plans: Vec<Vec<Plan>>,
    pub found: Vec<FoundResource>,
    pub ids: String,
    pub computed: Map<u32, Computed>,
    /// Those that their classes made.
    pub own_ids: Map<u32, OwnId>,
    /// All that is stored of a resource that Python has changed as an object, sorted by name.
    shaped: Map<u32, Shaped>,
    /// What becomes of each instance, by its index.
    pub fates: Vec<ExportStatus>,
}

impl Catalog {
    /// An empty one, with room for all instances.
    pub fn new(machine: &Machine) -> Self {
        let program = machine.program;
        let all = registrations(program, machine.resource_classes());
        let empty_list = machine.state.empty_list();
        Catalog {
            plans: (0..program.entities.len() as u32)
                .map(|entity| plans(program, &all, EntityId(entity), empty_list))
                .collect(),
            found: pages::with_capacity(machine.state.instances.len()),
            ids: pages::text_with_capacity(ID_BYTES * machine.state.instances.len()),
            computed: Map::default(),
            own_ids: Map::default(),
            shaped: Map::default(),
            fates: vec![ExportStatus::Other; machine.state.instances.len()],
        }
    }

    pub fn len(&self) -> usize {
        self.found.len()
    }

    pub fn owner(&self, at: usize) -> InstId {
        self.found[at].owner
    }

    pub fn fate(&self, instance: InstId) -> ExportStatus {
        self.fates[instance.index()]
    }

    pub fn id(&self, at: usize) -> &str {
        let start = match at {
            0 => 0,
            at => self.found[at - 1].end,
        };
        &self.ids[start..self.found[at].end]
    }

    pub fn plan(&self, machine: &Machine, at: usize) -> &Plan {
        let found = &self.found[at];
        &self.plans[machine.state.instance(found.owner).entity.index()][found.plan as usize]
    }

    fn own_id(&self, at: usize) -> Option<&OwnId> {
        let any = !self.own_ids.is_empty();
        any.then(|| self.own_ids.get(&(at as u32))).flatten()
    }

    pub fn entity_type<'m>(&'m self, machine: &'m Machine, at: usize) -> &'m str {
        match self.own_id(at) {
            Some(own) => &own.entity_type,
            None => machine
                .program
                .entity_name(self.plan(machine, at).registration.entity),
        }
    }

    pub fn id_attribute(&self, machine: &Machine, at: usize) -> &str {
        match self.own_id(at) {
            Some(own) => &own.attribute,
            None => &self.plan(machine, at).registration.id_attribute,
        }
    }

    /// The agent's name and the value of the id attribute, out of the id.
    pub fn agent_and_value(&self, machine: &Machine, at: usize) -> (&str, &str) {
        let id = self.id(at);
        let start = self.entity_type(machine, at).len() + 1;
        let end = start + self.found[at].agent_length as usize;
        let value = end + 1 + self.id_attribute(machine, at).len() + 1;
        (&id[start..end], &id[value..id.len() - 1])
    }

    /// The canonical attributes. True: one is Unknown.
    pub fn attributes(&self, machine: &Machine, at: usize, out: &mut String) -> Result<bool, Fail> {
        if !self.shaped.is_empty()
            && let Some(fields) = self.shaped.get(&(at as u32))
        {
            return Ok(write_shaped(machine, fields, out));
        }
        let none = Computed::new();
        write(
            machine,
            self.plan(machine, at),
            self.found[at].owner,
            self.computed(at).unwrap_or(&none),
            out,
        )
    }

    fn computed(&self, at: usize) -> Option<&Computed> {
        self.computed.get(&(at as u32))
    }

    /// A map of the fields, for Python.
    pub fn to_wire(&self, machine: &Machine, at: usize) -> Result<rmpv::Value, Fail> {
        let none = Computed::new();
        let computed = self.computed(at).unwrap_or(&none);
        let mut fields = Vec::new();
        for field in &self.plan(machine, at).fields {
            let value = value_of(machine, field, self.found[at].owner, computed)?;
            let name = &*field.field.name;
            fields.push((rmpv::Value::from(name), machine.to_wire(value)));
        }
        Ok(rmpv::Value::Map(fields))
    }

    /// Takes these fields as all that is stored of a resource.
    pub fn shape(&mut self, at: usize, fields: Shaped) {
        self.shaped.insert(at as u32, fields);
    }
}
