//! What a version would change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::services::LIFECYCLE_TRANSFER;
use super::{Reconciler, RequestError, blocked_ids};
use crate::deploy::Intent;
use crate::deploy::code::code_of;
use crate::domain::{ActionId, AgentName, DryRunId, DryRunStatus, ResourceId, VersionNumber};
use crate::executor::protocol::{Task, TaskKind};

impl Reconciler {
    /// Sends every defined resource of a version through its handler, which only compares.
    /// Source: docs/reference/deployment.md § 5.10.
    pub(super) async fn dry_run(
        &mut self,
        version: VersionNumber,
    ) -> Result<DryRunId, RequestError> {
        if self.halted {
            return Err(RequestError::Halted);
        }
        if self
            .store
            .version_fetch(self.environment, version)
            .await?
            .is_none()
        {
            return Err(RequestError::NoVersion(version));
        }
        let resources = self.store.resource_list(self.environment, version).await?;
        let code = code_of(&self.store, self.environment, version).await?;
        let intents: Vec<Intent> = resources.into_iter().map(Intent::from).collect();
        let types = intents.iter();
        let code = code.for_agents(types.map(|of| (&of.agent, of.resource_type.as_str())));
        let undefined = blocked_ids(&intents);
        let paused: BTreeSet<AgentName> = self
            .schedule
            .agents()
            .filter(|(_, paused)| *paused)
            .map(|(name, _)| name.clone())
            .collect();
        let known: Vec<(ResourceId, DryRunStatus)> = intents
            .iter()
            .filter_map(|intent| {
                let status = if intent.is_undefined {
                    DryRunStatus::Undefined
                } else if undefined.contains(&intent.resource_id) {
                    DryRunStatus::SkippedForUndefined
                } else if paused.contains(&intent.agent) {
                    DryRunStatus::AgentDown
                } else if intent.resource_type == LIFECYCLE_TRANSFER {
                    // It changes nothing.
                    DryRunStatus::Changes
                } else {
                    return None;
                };
                Some((intent.resource_id.clone(), status))
            })
            .collect();
        let id = self
            .store
            .dry_run_create(self.environment, version, intents.len() as i64, &known)
            .await?;
        let known: BTreeSet<ResourceId> = known.into_iter().map(|(id, _)| id).collect();
        for intent in intents
            .into_iter()
            .filter(|intent| !known.contains(&intent.resource_id))
        {
            let action = ActionId::generate();
            let code = Arc::clone(code.of(&intent.agent));
            let task = Task {
                action,
                kind: TaskKind::DryRun {
                    run: id,
                    requires: intent.requires,
                },
                code: code.key.clone(),
                agent: intent.agent,
                resource_id: intent.resource_id,
                resource_type: intent.resource_type,
                version,
                attributes: intent.attributes,
                reason: "a dry run was requested".to_owned(),
                limit_ms: self.limit_ms(),
            };
            self.executor.run(task, &code).await;
        }
        Ok(id)
    }
}
