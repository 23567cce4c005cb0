//! Ids of the resources that instances are exported as, for plugins that ask while the model runs.

use std::rc::Rc;

use crate::diagnostics::{Fail, fail, not_found};
use crate::hir::Program;
use crate::hir::plugin::PluginError;
use crate::intern::Symbol;
use crate::protocol::Identify;
use crate::resources::{EMPTY, INVALID_ID, Plan, ResourceModel, plans, registrations, write_id};
use crate::runtime::{Machine, ModelState, ReadError, VarId, VarKind};
use crate::span::Loc;
use crate::types::{EntityId, Heap, InstId, Value};

impl ResourceModel for ModelState<'_> {
    fn program(&self) -> &Program {
        self.program
    }

    fn heap(&self) -> &Heap {
        &self.heap
    }

    fn made_at(&self, instance: InstId) -> Loc {
        self.instance(instance).loc
    }

    fn value_at(&self, instance: InstId, attribute: Symbol) -> Option<Value> {
        self.read_slot(self.slot(instance, attribute)?).ok()
    }

    fn describe_instance(&self, instance: InstId) -> String {
        ModelState::describe_instance(self, instance)
    }
}

impl ModelState<'_> {
    /// The value of an attribute that must have one.
    /// `slot` is its place among the instance's, where that is known.
    pub fn read_required(
        &self,
        instance: InstId,
        slot: Option<u32>,
        name: &str,
    ) -> Result<Value, Fail> {
        if let Some(slot) = slot {
            let var = &self.vars[VarId(self.instance(instance).slots.0 + slot).index()];
            let value = var.value(&self.heap);
            let unset = matches!(value, Value::Null) && var.kind() == VarKind::Optional;
            if var.is_ready() && !unset {
                return Ok(value);
            }
        }
        let loc = self.instance(instance).loc;
        self.read_attribute(instance, name)
            .map_err(|error| match error {
                ReadError::NoAttribute => {
                    let entity = self.program.entity_name(self.instance(instance).entity);
                    not_found(
                        loc,
                        format!("could not find attribute with name: {name} in type {entity}"),
                    )
                }
                ReadError::NotReady(_) => fail(
                    "UnsetException",
                    loc,
                    format!("attribute {name} has no value"),
                ),
                ReadError::OptionalUnset(slot) => self.optional_unset_error(slot).at(loc),
            })
    }
}

impl Machine<'_> {
    /// How the instances of an entity become resources. It takes a look at all resource classes, so it is worked out once for an
    /// entity: a model may ask for a fact of each of its resources.
    fn resource_plan(&mut self, entity: EntityId) -> Option<Rc<Plan>> {
        if let Some(known) = self.resource_plans.get(&entity) {
            return known.clone();
        }
        let all = registrations(self.program, self.resource_classes());
        let mut plans = plans(self.program, &all, entity, self.state.empty_list());
        let nearest = std::iter::once(&entity)
            .chain(&self.program.entity(entity).ancestors)
            .find_map(|of| {
                plans
                    .iter()
                    .position(|plan| plan.registration.entity == *of)
            });
        let plan = nearest.map(|at| Rc::new(plans.swap_remove(at)));
        self.resource_plans.insert(entity, plan.clone());
        plan
    }

    /// The id of the resource that an instance is exported as, for `std::getfact`. `Ok(None)`: it is none.
    pub(in crate::runtime) fn resource_id(
        &mut self,
        instance: InstId,
    ) -> Result<Option<String>, PluginError> {
        let Some(plan) = self.resource_plan(self.state.instance(instance).entity) else {
            return Ok(None);
        };
        if let Some(class) = plan.registration.class
            && plan.registration.identify != Identify::No
        {
            return self.identify(instance, class).map(Some);
        }
        let mut at = Value::Instance(instance);
        // What the id needs may not be known yet.
        for (name, _) in &plan.agent {
            let Value::Instance(current) = at else {
                break;
            };
            match self.state.read_attribute(current, name) {
                Err(ReadError::NotReady(var)) => return Err(PluginError::Unset(vec![var.0])),
                Ok(value) => at = value,
                Err(_) => break,
            }
        }
        let name = &plan.registration.id_attribute;
        if let Err(ReadError::NotReady(var)) = self.state.read_attribute(instance, name) {
            return Err(PluginError::Unset(vec![var.0]));
        }
        let mut id = String::new();
        let value = self.state.read_required(instance, plan.id_slot, name);
        match value.and_then(|value| write_id(&self.state, &plan, instance, value, &mut id)) {
            Ok(Some(_)) => Ok(Some(id)),
            Ok(None) => Err(PluginError::Unknown),
            // The reference's plugin sees what its ids refuse as an error of Python.
            Err(error)
                if error.message.starts_with(INVALID_ID) && !error.message.ends_with(EMPTY) =>
            {
                crate::hir::plugin::external("ValueError", error.message)
            }
            Err(error) => Err(PluginError::Compile(error)),
        }
    }
}
