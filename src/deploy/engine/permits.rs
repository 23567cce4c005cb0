//! Which agents take up room of the executor on this machine.

use std::collections::HashMap;

use super::Reconciler;
use crate::deploy::schedule::Permit;

impl Reconciler {
    /// Says which kind each agent is of, by where it is and what its handlers need.
    pub(super) fn assign_permits(&mut self) {
        let (executor, code) = (&self.executor, &self.code);
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        self.schedule.set_permits(|agent, mut types| {
            if !executor.is_here(agent) {
                return Permit::NONE;
            }
            let code = code.of(agent);
            if types.all(|resource_type| code.is_native(resource_type)) {
                return Permit::NATIVE;
            }
            let next = numbers.len();
            Permit::python(*numbers.entry(&code.key).or_insert(next))
        });
    }
}
