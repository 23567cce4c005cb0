//! Which runs of the resources of an instance failed, and for which of its versions.
//!
//! An instance is exported into one version of the model, and its resources are carried over unchanged into those that follow,
//! which are exported for other instances. A run belongs to the newest version of the instance that was exported up to the
//! version of the model that it deployed. Source: docs/reference/lsm.md § 3.13.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use uuid::Uuid;

use super::transfer_id;
use crate::domain::{ActionKind, EnvironmentId, ResourceId, VersionNumber};
use crate::store::{self, Action, Store};

/// The versions of the model that were exported for versions of an instance.
#[derive(Debug, Default)]
pub struct Exported {
    /// The version of the instance by that of the model.
    pub versions: BTreeMap<VersionNumber, u64>,
    /// The version of the model that was exported for the next version of the instance: from there on, runs belong to that one.
    pub until: Option<VersionNumber>,
}

impl Exported {
    /// The version of the instance that a run deployed.
    fn instance_version(&self, run: &Action) -> Option<u64> {
        let is_later = self.until.is_some_and(|until| run.version >= until);
        let mut upto = self.versions.range(..=run.version);
        if is_later {
            return None;
        }
        upto.next_back().map(|(_, version)| *version)
    }
}

/// What a run that failed said.
#[derive(Debug)]
pub struct FailedRun {
    pub instance_version: u64,
    pub run: Action,
    /// The messages of the level ERROR, at least one.
    pub messages: Vec<String>,
}

/// The resources of an instance in these versions of the model, each with those of its last `limit` runs that failed, the newest
/// first; without those that have none.
pub async fn failed_runs(
    store: &Store,
    environment: EnvironmentId,
    instance: Uuid,
    exported: &Exported,
    limit: i64,
) -> store::Result<Vec<(ResourceId, Vec<FailedRun>)>> {
    let transfer = [transfer_id(instance)];
    let mut resources: BTreeSet<ResourceId> = BTreeSet::new();
    for model in exported.versions.keys() {
        let requires = store.resource_requires(environment, *model, &transfer);
        resources.extend(requires.await?.into_values().flatten());
    }
    let mut found = Vec::new();
    for resource in resources {
        let kind = ActionKind::Deploy;
        let runs = store.action_of_kind(environment, &resource, kind, limit);
        let failed = |run: Action| {
            let instance_version = exported.instance_version(&run)?;
            let messages = run.messages.as_array().into_iter().flatten();
            let errors = messages.filter(|message| message["level"] == "ERROR");
            let texts = errors.map(|error| error["msg"].as_str().unwrap_or_default().to_owned());
            let messages: Vec<String> = texts.collect();
            (!messages.is_empty()).then_some(FailedRun {
                instance_version,
                run,
                messages,
            })
        };
        let failed: Vec<FailedRun> = runs.await?.into_iter().filter_map(failed).collect();
        if !failed.is_empty() {
            found.push((resource, failed));
        }
    }
    Ok(found)
}

/// What an error wraps, from the outside to the inside: mostly the last one says what is wrong.
pub fn causes(diagnostic: &Value) -> Vec<String> {
    let wrapped = diagnostic["causes"].as_array().into_iter().flatten();
    let text = |cause: &Value| {
        let text = |name: &str| cause[name].as_str().unwrap_or_default().to_owned();
        let own = match text("kind").as_str() {
            // Its message begins with the exception's own class.
            "PythonException" => text("message"),
            kind => format!("{kind}: {}", text("message")),
        };
        std::iter::once(own).chain(causes(cause))
    };
    wrapped.flat_map(text).collect()
}
