//! The shapes of version 1: versions and resources. Source: docs/reference/rest.md § 2.3.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::api::http::error::ApiError;
use crate::api::wire;
use crate::app::App;
use crate::domain::{EnvironmentId, ResourceId, ResourceSetId};
use crate::store::{StoredResource, Version};

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
    // What requires what is read only if something waits for it.
    let links = match sets.iter().all(BTreeSet::is_empty) {
        true => Vec::new(),
        false => app.store.resource_links(environment).await?,
    };
    let shapes = versions.iter().zip(sets).map(|(found, ids)| {
        let own = links
            .iter()
            .filter(|links| links.versions.contains(&found.number));
        let own = own.map(|links| (&links.resource_id, links.requires.as_slice()));
        let skipped = dependents(own, &ids);
        version(environment, found, ids.into_iter().collect(), skipped)
    });
    Ok(shapes.collect())
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
    let links = resources
        .iter()
        .map(|resource| (&resource.resource_id, resource.requires.as_slice()));
    let skipped = dependents(links, &undefined);
    let undeployable = undefined.into_iter().collect();
    version(environment, found, undeployable, skipped)
}

/// What requires one of these, however far, without them.
fn dependents<'a>(
    links: impl Iterator<Item = (&'a ResourceId, &'a [ResourceId])>,
    roots: &'a BTreeSet<ResourceId>,
) -> Vec<ResourceId> {
    if roots.is_empty() {
        return Vec::new();
    }
    let mut provides: BTreeMap<&ResourceId, Vec<&ResourceId>> = BTreeMap::new();
    for (id, requires) in links {
        for require in requires {
            provides.entry(require).or_default().push(id);
        }
    }
    let mut found: BTreeSet<&ResourceId> = BTreeSet::new();
    let mut queue: Vec<&ResourceId> = roots.iter().collect();
    while let Some(id) = queue.pop() {
        for dependent in provides.get(id).into_iter().flatten() {
            if !roots.contains(*dependent) && found.insert(dependent) {
                queue.push(dependent);
            }
        }
    }
    found.into_iter().cloned().collect()
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
