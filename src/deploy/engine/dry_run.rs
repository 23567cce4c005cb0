//! What a version would change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::services::LIFECYCLE_TRANSFER;
use super::{QueuedTask, Reconciler, RequestError};
use crate::deploy::Intent;
use crate::deploy::code::{Code, code_of};
use crate::deploy::schedule::Priority;
use crate::domain::{
    ActionId, AgentName, AgentPlace, DryRunId, DryRunStatus, ResourceId, VersionNumber,
    read_agent_map,
};
use crate::executor::protocol::{Task, TaskKind};
use crate::store::{self, About, DryRunNote, UnfinishedDryRun};

/// What a dry run needs of a version.
struct Contents {
    intents: Vec<Intent>,
    /// The code that their handlers need.
    code: Code,
    /// Where its agents are, of those that are not here.
    places: BTreeMap<AgentName, AgentPlace>,
}

impl Reconciler {
    /// Lets the handler of every defined resource of a version compare it, in the queue of its agent.
    /// Source: docs/reference/deployment.md § 5.10.
    pub(super) async fn dry_run(
        &mut self,
        version: VersionNumber,
        ids: Option<&BTreeSet<ResourceId>>,
        note: &DryRunNote,
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
        let mut contents = self.contents(version).await?;
        let undefined = blocked_ids(&contents.intents);
        let is_meant = |id: &ResourceId| ids.is_none_or(|ids| ids.contains(id));
        contents
            .intents
            .retain(|intent| is_meant(&intent.resource_id));
        let intents = &contents.intents;
        let mut down: BTreeSet<AgentName> = self.schedule.paused().cloned().collect();
        // Who is elsewhere and away is as this version has it, which may not be as the version in force does.
        let external = contents.places.iter().filter(|(name, place)| {
            **place == AgentPlace::External && !self.executor.external.is_connected(name)
        });
        down.extend(external.map(|(name, _)| name.clone()));
        let known: Vec<(ResourceId, DryRunStatus)> = intents
            .iter()
            .filter_map(|intent| {
                let status = if intent.is_undefined {
                    DryRunStatus::Undefined
                } else if undefined.contains(&intent.resource_id) {
                    DryRunStatus::SkippedForUndefined
                } else if down.contains(&intent.agent) {
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
            .dry_run_create(self.environment, version, about, &known, note)
            .await?;
        let known = known.into_iter().map(|(id, _)| id).collect();
        self.queue_dry_run(id, version, contents, &known);
        Ok(id)
    }

    /// Goes on with dry runs that the server's end has interrupted. Agents that are paused now have their turn later.
    pub(super) async fn resume_dry_runs(&mut self) -> Result<(), store::Error> {
        for unfinished in self.store.dry_run_unfinished(self.environment).await? {
            let UnfinishedDryRun { id, version, ids } = unfinished;
            let results = self.store.dry_run_results(id).await?;
            let known = results.into_iter().map(|result| result.resource_id);
            let known = known.collect();
            let mut contents = self.contents(version).await?;
            let is_meant = |id: &ResourceId| ids.as_ref().is_none_or(|ids| ids.contains(id));
            contents
                .intents
                .retain(|intent| is_meant(&intent.resource_id));
            self.queue_dry_run(id, version, contents, &known);
        }
        Ok(())
    }

    async fn contents(&self, version: VersionNumber) -> Result<Contents, store::Error> {
        let resources = self.store.resource_list(self.environment, version).await?;
        let code = code_of(&self.store, self.environment, version).await?;
        let intents: Vec<Intent> = resources.into_iter().map(Intent::from).collect();
        let types = intents.iter();
        let code = code.for_agents(types.map(|of| (&of.agent, &*of.resource_type)));
        let places = self.store.version_agent_places(self.environment, version);
        let mut places = read_agent_map(&places.await?);
        places.extend(self.settings.agent_map());
        Ok(Contents {
            intents,
            code,
            places,
        })
    }

    /// Queues the comparison of all resources but those whose result is known, each where its version says that its agent is.
    fn queue_dry_run(
        &mut self,
        id: DryRunId,
        version: VersionNumber,
        contents: Contents,
        known: &BTreeSet<ResourceId>,
    ) {
        let Contents {
            intents,
            code,
            places,
        } = contents;
        let is_open = |intent: &Intent| !known.contains(&intent.resource_id);
        for intent in intents.into_iter().filter(is_open) {
            let code = Arc::clone(code.of(&intent.agent));
            let place = places.get(&intent.agent).cloned().unwrap_or_default();
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
            let queued = QueuedTask {
                task,
                code,
                place: Some(place),
            };
            self.queue_task(queued, Priority::DryRun);
        }
    }
}

/// Ids of resources that are undefined or require one that is, however far.
fn blocked_ids(intents: &[Intent]) -> BTreeSet<ResourceId> {
    let mut blocked: BTreeSet<ResourceId> = BTreeSet::new();
    let mut provides: HashMap<&ResourceId, Vec<&ResourceId>> = HashMap::new();
    for intent in intents {
        for require in &intent.requires {
            provides
                .entry(require)
                .or_default()
                .push(&intent.resource_id);
        }
    }
    let mut queue: Vec<&ResourceId> = intents
        .iter()
        .filter(|intent| intent.is_undefined)
        .map(|intent| &intent.resource_id)
        .collect();
    while let Some(id) = queue.pop() {
        if blocked.insert(id.clone()) {
            queue.extend(provides.get(id).into_iter().flatten());
        }
    }
    blocked
}
