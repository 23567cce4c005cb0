//! What the store knows of resources, beside the resources of a version, when both come in the same order.

use std::collections::HashMap;

use crate::domain::ResourceId;
use crate::store::ResourceState;

/// States by id, taken in the order in which they come: those of a million resources need no table besides, as long as that
/// is the order in which they are asked for. Those of orphans are left out.
pub(super) struct InStep {
    rest: std::vec::IntoIter<ResourceState>,
    /// Those that were passed over.
    passed: HashMap<ResourceId, ResourceState>,
}

impl InStep {
    pub(super) fn new(states: Vec<ResourceState>) -> Self {
        Self {
            rest: states.into_iter(),
            passed: HashMap::new(),
        }
    }

    /// The state of a resource; `None`: it has none.
    pub(super) fn take(&mut self, id: &ResourceId) -> Option<ResourceState> {
        if let Some(state) = self.passed.remove(id) {
            return Some(state);
        }
        for state in self.rest.by_ref() {
            if state.orphaned_after.is_some() {
                continue;
            }
            if state.resource_id == *id {
                return Some(state);
            }
            self.passed.insert(state.resource_id.clone(), state);
        }
        None
    }
}
