//! Instances that come while one that they name goes.
//!
//! A validation compiles the instances as they are at that moment. Two of them can both be right and yet not go together: the
//! deletion of a router is valid while the circuit that names it is not accepted yet, and the circuit is valid while the router
//! is still being taken down. A moment later the router is gone, the circuit is not, and no compile of that environment succeeds
//! any more. So what a validation leaves is held against the references that the inventory knows, one verdict after the other.
//! Source: docs/reference/lsm.md § 3.7.

use std::collections::BTreeSet;

use steward_lsm::Instance;
use steward_lsm::attributes::references;
use steward_lsm::definition::{SetName, State};
use uuid::Uuid;

use super::Services;
use super::compiles::validated;
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::{self, Catalog, Compile};

/// Instances that a message names.
const MAX_NAMED: usize = 5;

/// The state that an instance is in, if its lifecycle has it.
fn state_of<'c>(catalog: &'c Catalog, instance: &Instance) -> Option<&'c State> {
    let version = instance.service_entity_version;
    let definition = catalog.definition(&instance.service_entity, Some(version))?;
    definition.entity.lifecycle.state(&instance.state)
}

/// Whether what an instance has deployed is taken down, or is gone.
fn is_on_its_way_out(catalog: &Catalog, instance: &Instance) -> bool {
    instance.deleted || state_of(catalog, instance).is_some_and(|state| state.purge_resources)
}

/// An instance as messages name it.
fn named(instance: &Instance) -> String {
    let service = &instance.service_entity;
    match &instance.service_identity_attribute_value {
        Some(identity) => format!("{service} {identity} ({})", instance.id),
        None => format!("{service} {}", instance.id),
    }
}

/// Whether the validations of others see that an instance names this one.
fn is_seen_to_name(catalog: &Catalog, instance: &Instance, other: Uuid) -> bool {
    let version = instance.service_entity_version;
    let definition = catalog.definition(&instance.service_entity, Some(version));
    let set = state_of(catalog, instance).and_then(|state| state.validate_others);
    let set = set.and_then(|set| instance.set(set));
    let (Some(definition), Some(set)) = (definition, set) else {
        return false;
    };
    let mut found = references(&definition.entity, set).into_iter();
    found.any(|reference| reference.id == other)
}

/// The ids that a text speaks of, a few of them.
fn ids_in(text: &str) -> BTreeSet<Uuid> {
    let words = text.split(|letter: char| !letter.is_ascii_hexdigit() && letter != '-');
    let ids = words.filter(|word| word.len() == 36).flat_map(str::parse);
    ids.take(MAX_NAMED).collect()
}

impl Services {
    /// Why a validation is refused although the model compiled; `began`: when it had not read the inventory yet. Two things are
    /// refused: to accept attributes that newly name an instance which is on its way out, and to let an instance go that
    /// others have come to name since. Ask for one verdict of an environment after the other, and have each written before
    /// the next one.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn reference_conflict(
        &self,
        environment: EnvironmentId,
        compile: &Compile,
        began: Timestamp,
    ) -> store::Result<Option<String>> {
        let Some((id, version, edge, ..)) = validated(&compile.metadata) else {
            return Ok(None);
        };
        let instance = self.store.service_fetch(environment, id).await?;
        // What has moved on takes no notice of the verdict.
        let Some(instance) = instance.filter(|instance| instance.version == version) else {
            return Ok(None);
        };
        let catalog = self.store.service_catalog(environment).await?;
        let Some(source) = state_of(&catalog, &instance) else {
            return Ok(None);
        };
        if source.validate_self == Some(SetName::Candidate) {
            return self.names_a_leaving_one(&catalog, &instance).await;
        }
        let after = Instance {
            state: edge.target,
            ..instance
        };
        if source.purge_resources || !is_on_its_way_out(&catalog, &after) {
            return Ok(None);
        }
        self.is_named_meanwhile(&catalog, &after, began).await
    }

    /// What a model that does not compile may suffer from: instances that its errors speak of, that have ended, and that others
    /// still name. The order whose compile failed may have nothing to do with any of them.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn named_though_ended(
        &self,
        environment: EnvironmentId,
        errors: &str,
    ) -> store::Result<Vec<String>> {
        let mut found = Vec::new();
        for id in ids_in(errors) {
            let ended = self.store.service_fetch(environment, id).await?;
            let Some(ended) = ended.filter(|instance| instance.deleted) else {
                continue;
            };
            let others = self
                .store
                .service_referenced_since(environment, id, Timestamp(0));
            let others = others.await?;
            if others.is_empty() {
                continue;
            }
            let others: Vec<String> = others
                .iter()
                .take(MAX_NAMED)
                .map(|other| format!("the {} in the state {}", named(other), other.state))
                .collect();
            found.push(format!(
                "the {} has ended, and is still named by {}: no compile that needs it succeeds until these name another one or \
                 are gone",
                named(&ended),
                others.join(", ")
            ));
        }
        Ok(found)
    }

    /// What the candidate names, and the active set did not, that is on its way out.
    async fn names_a_leaving_one(
        &self,
        catalog: &Catalog,
        instance: &Instance,
    ) -> store::Result<Option<String>> {
        let version = instance.service_entity_version;
        let definition = catalog.definition(&instance.service_entity, Some(version));
        let (Some(definition), Some(candidate)) = (definition, &instance.candidate_attributes)
        else {
            return Ok(None);
        };
        let active = instance.active_attributes.iter();
        let known = active.flat_map(|active| references(&definition.entity, active));
        let known: BTreeSet<Uuid> = known.map(|reference| reference.id).collect();
        for reference in references(&definition.entity, candidate) {
            if known.contains(&reference.id) {
                continue;
            }
            let environment = EnvironmentId::from(instance.environment);
            let other = self.store.service_fetch(environment, reference.id).await?;
            if let Some(other) = other.filter(|other| is_on_its_way_out(catalog, other)) {
                return Ok(Some(format!(
                    "{}: the {} is on its way out: it is in the state {}. Name another one",
                    reference.path,
                    named(&other),
                    other.state
                )));
            }
        }
        Ok(None)
    }

    /// Who has come to name an instance that is about to go since its validation began.
    async fn is_named_meanwhile(
        &self,
        catalog: &Catalog,
        instance: &Instance,
        began: Timestamp,
    ) -> store::Result<Option<String>> {
        let environment = EnvironmentId::from(instance.environment);
        let others = self
            .store
            .service_referenced_since(environment, instance.id, began);
        for other in others.await? {
            let goes = is_on_its_way_out(catalog, &other);
            if !goes && is_seen_to_name(catalog, &other, instance.id) {
                return Ok(Some(format!(
                    "the {} came to name the {} while that was validated: delete it once nothing names it",
                    named(&other),
                    named(instance)
                )));
            }
        }
        Ok(None)
    }
}
