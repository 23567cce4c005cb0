//! What a version would change.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::services::LIFECYCLE_TRANSFER;
use super::{Reconciler, RequestError, blocked_ids};
use crate::deploy::Intent;
use crate::deploy::code::{Code, code_of};
use crate::deploy::schedule::Priority;
use crate::domain::{ActionId, AgentName, DryRunId, DryRunStatus, ResourceId, VersionNumber};
use crate::executor::protocol::{Task, TaskKind};
use crate::store::{self, About, UnfinishedDryRun};

impl Reconciler {
    /// Lets the handler of every defined resource of a version compare it, in the queue of its agent.
    /// Source: docs/reference/deployment.md § 5.10.
    pub(super) async fn dry_run(
        &mut self,
        version: VersionNumber,
        ids: Option<&BTreeSet<ResourceId>>,
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
        let (mut intents, code) = self.contents(version).await?;
        let undefined = blocked_ids(&intents);
        intents.retain(|intent| ids.is_none_or(|ids| ids.contains(&intent.resource_id)));
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
        let all: Option<Vec<ResourceId>> = ids.map(|_| {
            let intents = intents.iter();
            intents.map(|intent| intent.resource_id.clone()).collect()
        });
        let about = match &all {
            None => About::All(intents.len() as i64),
            Some(ids) => About::Some(ids),
        };
        let id = self
            .store
            .dry_run_create(self.environment, version, about, &known)
            .await?;
        let known = known.into_iter().map(|(id, _)| id).collect();
        self.queue_dry_run(id, version, intents, &code, &known);
        Ok(id)
    }

    /// Goes on with dry runs that the server's end has interrupted. Agents that are paused now have their turn later.
    pub(super) async fn resume_dry_runs(&mut self) -> Result<(), store::Error> {
        for unfinished in self.store.dry_run_unfinished(self.environment).await? {
            let UnfinishedDryRun { id, version, ids } = unfinished;
            let results = self.store.dry_run_results(id).await?;
            let known = results.into_iter().map(|result| result.resource_id);
            let known = known.collect();
            let (mut intents, code) = self.contents(version).await?;
            let is_meant = |id: &ResourceId| ids.as_ref().is_none_or(|ids| ids.contains(id));
            intents.retain(|intent| is_meant(&intent.resource_id));
            self.queue_dry_run(id, version, intents, &code, &known);
        }
        Ok(())
    }

    /// The resources of a version, and the code that their handlers need.
    async fn contents(&self, version: VersionNumber) -> Result<(Vec<Intent>, Code), store::Error> {
        let resources = self.store.resource_list(self.environment, version).await?;
        let code = code_of(&self.store, self.environment, version).await?;
        let intents: Vec<Intent> = resources.into_iter().map(Intent::from).collect();
        let types = intents.iter();
        let code = code.for_agents(types.map(|of| (&of.agent, &*of.resource_type)));
        Ok((intents, code))
    }

    /// Queues the comparison of all resources but those whose result is known.
    fn queue_dry_run(
        &mut self,
        id: DryRunId,
        version: VersionNumber,
        intents: Vec<Intent>,
        code: &Code,
        known: &BTreeSet<ResourceId>,
    ) {
        let is_open = |intent: &Intent| !known.contains(&intent.resource_id);
        for intent in intents.into_iter().filter(is_open) {
            let code = Arc::clone(code.of(&intent.agent));
            let task = Task {
                action: ActionId::generate(),
                kind: TaskKind::DryRun {
                    run: id,
                    requires: intent.requires.into_vec(),
                },
                code: code.key.clone(),
                agent: intent.agent,
                resource_id: intent.resource_id,
                resource_type: intent.resource_type.to_string(),
                version,
                attributes: intent.attributes.into(),
                reason: "a dry run was requested".to_owned(),
                limit_ms: self.limit_ms(),
            };
            self.queue_task(task, code, Priority::DryRun);
        }
    }
}
