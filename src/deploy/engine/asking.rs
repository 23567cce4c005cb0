//! What people ask for.

use std::collections::BTreeSet;

use super::Reconciler;
use super::handle::{DeployKind, RequestError, Scheduled};
use crate::deploy::schedule::{Priority, Selection};
use crate::domain::{AgentName, ResourceId, VersionNumber};

impl Reconciler {
    /// Schedules what somebody asks for.
    pub(super) fn request(
        &mut self,
        method: DeployKind,
        agents: Option<BTreeSet<AgentName>>,
    ) -> Result<Scheduled, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        if self.schedule.version() == VersionNumber::NONE {
            return Err(RequestError::NothingReleased);
        }
        if let Some(agents) = &agents
            && !agents.iter().any(|agent| self.schedule.knows_agent(agent))
        {
            let names: Vec<&str> = agents.iter().map(AgentName::as_str).collect();
            return Err(RequestError::UnknownAgents(names.join(", ")));
        }
        let round = self.begin_round();
        let (which, priority, reason) = what_is_asked(method);
        let agents = self
            .schedule
            .request(which, priority, reason, agents.as_ref());
        Ok(Scheduled {
            agents: agents.into_iter().collect(),
            round,
        })
    }

    /// Schedules what somebody asks for of some resources, and gives those that the model has.
    pub(super) fn request_some(
        &mut self,
        method: DeployKind,
        ids: &BTreeSet<ResourceId>,
    ) -> Result<Vec<ResourceId>, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        self.begin_round();
        let (which, priority, reason) = what_is_asked(method);
        Ok(self.schedule.request_some(which, priority, reason, ids))
    }
}

/// What a request is to run, how urgent that is, and the reason that is noted with it.
fn what_is_asked(method: DeployKind) -> (Selection, Priority, &'static str) {
    match method {
        DeployKind::Deploy => (
            Selection::Dirty,
            Priority::UserDeploy,
            "user requested a deploy",
        ),
        DeployKind::Verify => (
            Selection::All,
            Priority::UserRepair,
            "the server was started",
        ),
        DeployKind::Repair => (
            Selection::All,
            Priority::UserRepair,
            "user requested a repair",
        ),
    }
}
