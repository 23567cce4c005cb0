//! Who may be an agent of which environment, and how machines are reached by ssh.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::EnvironmentId;
use crate::executor::access::AgentAccess;

/// Of all environments. One that the configuration does not name has no agents elsewhere.
#[derive(Debug, Clone, Default)]
pub struct AgentAccesses(Arc<Mutex<HashMap<EnvironmentId, AgentAccess>>>);

impl AgentAccesses {
    pub fn of(&self, environment: EnvironmentId) -> AgentAccess {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&environment).cloned().unwrap_or_default()
    }

    pub(crate) fn set(&self, environment: EnvironmentId, access: AgentAccess) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(environment, access);
    }
}
