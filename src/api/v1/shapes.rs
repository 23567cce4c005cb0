//! The shapes of version 1: versions and resources. Source: docs/reference/rest.md § 2.3.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value, json};

use crate::api::http::error::ApiError;
use crate::api::wire;
use crate::app::App;
use crate::domain::{EnvironmentId, ResourceId, ResourceSetId, VersionNumber};
use crate::store::{ResourceLinks, StoredResource, Version};

/// The newest versions, behind `start` of them.
pub(in crate::api) async fn newest_versions(
    app: &App,
    environment: EnvironmentId,
    start: usize,
    limit: usize,
) -> Result<Value, ApiError> {
    let mut keys = app.store.version_keys(environment).await?;
    keys.sort_unstable_by(|a, b| b.cmp(a));
    let numbers = keys.into_iter().skip(start).take(limit);
    let numbers: Vec<_> = numbers.map(|(number, _)| number).collect();
    let mut versions = app.store.version_some(environment, &numbers).await?;
    versions.sort_unstable_by_key(|version| std::cmp::Reverse(version.number));
    let undefined = app.store.resource_undefined(environment).await?;
    let undefined_in = |found: &Version| {
        let own = undefined
            .iter()
            .filter(|(_, span)| span.contains(&found.number));
        own.map(|(id, _)| id.clone()).collect::<BTreeSet<_>>()
    };
    let sets: Vec<BTreeSet<ResourceId>> = versions.iter().map(undefined_in).collect();
    // What requires what is read only if something waits for it, and of all versions at once.
    let waiting = versions
        .iter()
        .zip(&sets)
        .filter(|(_, ids)| !ids.is_empty());
    let waiting: Vec<VersionNumber> = waiting.map(|(found, _)| found.number).collect();
    let links = match (waiting.iter().min(), waiting.iter().max()) {
        (Some(first), Some(last)) => app.store.resource_links(environment, *first, *last).await?,
        _ => Vec::new(),
    };
    let provides = Provides::of(&links);
    let shapes = versions.iter().zip(sets).map(|(found, ids)| {
        let skipped = provides.dependents(&ids, Some(found.number));
        version(environment, found, ids.into_iter().collect(), skipped)
    });
    Ok(shapes.collect())
}

/// What requires a resource, and in which versions.
struct Provides<'a>(HashMap<&'a ResourceId, Vec<&'a ResourceLinks>>);

impl<'a> Provides<'a> {
    fn of(links: &'a [ResourceLinks]) -> Self {
        let mut provides: HashMap<&ResourceId, Vec<&ResourceLinks>> = HashMap::new();
        for link in links {
            for require in &link.requires {
                provides.entry(require).or_default().push(link);
            }
        }
        Self(provides)
    }

    /// What requires one of these in a version, however far, without them: nothing else of the version is looked at.
    fn dependents(
        &self,
        roots: &BTreeSet<ResourceId>,
        version: Option<VersionNumber>,
    ) -> Vec<ResourceId> {
        let mut found: BTreeSet<&ResourceId> = BTreeSet::new();
        let mut queue: Vec<&ResourceId> = roots.iter().collect();
        while let Some(id) = queue.pop() {
            let links = self.0.get(id).into_iter().flatten();
            let links =
                links.filter(|link| version.is_none_or(|version| link.versions.contains(&version)));
            for link in links {
                let dependent = &link.resource_id;
                if !roots.contains(dependent) && found.insert(dependent) {
                    queue.push(dependent);
                }
            }
        }
        found.into_iter().cloned().collect()
    }
}

/// A version with what of it cannot be deployed.
pub(in crate::api) fn version(
    environment: EnvironmentId,
    version: &Version,
    undeployable: Vec<ResourceId>,
    skipped: Vec<ResourceId>,
) -> Value {
    // What was sent of a version that says nothing of itself is not kept.
    let is_silent = version.metadata.as_object().is_none_or(Map::is_empty);
    let info = (!is_silent).then(|| json!({"export_metadata": version.metadata}));
    json!({
        "version": version.number,
        "environment": environment,
        "date": wire::timestamp(version.created),
        "released": version.released.is_some(),
        "total": version.n_resources,
        "version_info": info,
        "partial_base": version.partial_base,
        "pip_config": version.pip_config,
        "project_constraints": version.project_constraints,
        "undeployable": undeployable,
        "skipped_for_undeployable": skipped,
        "is_suitable_for_partial_compiles": version.is_partial_base,
    })
}

/// A version with all that follows from its resources.
pub(in crate::api) fn version_of(
    environment: EnvironmentId,
    found: &Version,
    resources: &[StoredResource],
) -> Value {
    let undefined = resources.iter().filter(|resource| resource.is_undefined);
    let undefined: BTreeSet<ResourceId> = undefined
        .map(|resource| resource.resource_id.clone())
        .collect();
    let links: Vec<ResourceLinks> = match undefined.is_empty() {
        true => Vec::new(),
        false => resources.iter().map(links_of).collect(),
    };
    let skipped = Provides::of(&links).dependents(&undefined, None);
    let undeployable = undefined.into_iter().collect();
    version(environment, found, undeployable, skipped)
}

fn links_of(resource: &StoredResource) -> ResourceLinks {
    ResourceLinks {
        resource_id: resource.resource_id.clone(),
        requires: resource.requires.clone(),
        versions: VersionNumber::NONE..VersionNumber::NONE,
    }
}

/// A resource of a version.
pub(in crate::api) fn resource(environment: EnvironmentId, resource: &StoredResource) -> Value {
    json!({
        "environment": environment,
        "resource_id": resource.resource_id,
        "resource_type": resource.resource_type,
        "resource_id_value": resource.id_value,
        "agent": resource.agent,
        "attributes": wire::attributes(resource),
        "attribute_hash": resource.attribute_hash,
        "is_undefined": resource.is_undefined,
        "resource_set": ResourceSetId::named(environment, &resource.set_name),
    })
}
