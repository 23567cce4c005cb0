//! What clients and the server do to instances.

use std::collections::BTreeMap;
use std::sync::Arc;

use steward_lsm::attributes::{Change, Reference};
use steward_lsm::lifecycle::{self, Migration, NewInstance, Refusal, Request, Trigger};
use steward_lsm::{Attributes, Problems, attributes};
use uuid::Uuid;

use super::{Services, now};
use crate::domain::EnvironmentId;
use crate::store::{self, Cause, Changed};

/// What a client asks a new instance to be.
#[derive(Debug, Clone, Default)]
pub struct Creation {
    /// The service.
    pub entity: String,
    /// The version of its definition; `None`: the default one.
    pub version: Option<u64>,
    /// `None`: a new one.
    pub id: Option<Uuid>,
    pub attributes: Attributes,
    /// `None`: that of the lifecycle.
    pub initial_state: Option<String>,
    /// Its own values for switches of the lifecycle.
    pub config: BTreeMap<String, bool>,
    /// What its first events have in common; `None`: a new id.
    pub correlation_id: Option<Uuid>,
}

/// What a client asks an instance to be under another version of its definition.
#[derive(Debug, Clone)]
pub struct Migrating {
    pub current_version: Option<u64>,
    pub target_version: u64,
    pub migration: Migration,
}

/// All that is wrong with what a client gave.
fn invalid(problems: Problems) -> Refusal {
    Refusal {
        status: 400,
        message: problems.to_string(),
        problems,
    }
}

impl Services {
    /// Makes an instance, and lets its lifecycle begin.
    ///
    /// # Errors
    /// What is wrong with it; there is no such service; the id or the identity is taken.
    pub async fn create(
        &self,
        environment: EnvironmentId,
        creation: &Creation,
    ) -> store::Result<Changed> {
        let rules = self.rules(environment).await?;
        let id = creation.id.unwrap_or_else(Uuid::now_v7);
        let correlation_id = creation.correlation_id.unwrap_or_else(Uuid::new_v4);
        let create = |definition: &store::Definition| {
            let given = creation.attributes.clone();
            let new = NewInstance {
                id,
                environment: environment.uuid(),
                attributes: attributes::create(&definition.entity, given).map_err(invalid)?,
                initial_state: creation.initial_state.clone(),
                config: creation.config.clone(),
                correlation_id,
            };
            lifecycle::create(&definition.entity, new, now())
        };
        let named = (creation.entity.as_str(), creation.version);
        let created = self
            .store
            .service_create(environment, named, &rules, create);
        let created = match created.await {
            Ok(created) => created,
            Err(error) => {
                let catalog = self.store.service_catalog(environment).await?;
                let definition = catalog.definition(&creation.entity, creation.version);
                let named = definition.map(|definition| {
                    // Elements are named by their keys, for which there may be defaults.
                    let mut given = creation.attributes.clone();
                    attributes::fill(&definition.entity, &mut given);
                    attributes::references(&definition.entity, &given)
                });
                return Err(self.with_missing(environment, error, named).await);
            }
        };
        self.follow(environment, &created).await;
        Ok(created)
    }

    /// Lets something happen to an instance, with all that follows.
    ///
    /// # Errors
    /// Why it may not happen.
    pub async fn change(
        &self,
        environment: EnvironmentId,
        cause: &Cause,
        request: &Request,
    ) -> store::Result<Changed> {
        let changed = match self.apply(environment, cause, request).await {
            Ok(changed) => changed,
            Err(error @ store::Error::Refused(_)) => {
                let named = self.newly_named(environment, cause, request).await?;
                return Err(self.with_missing(environment, error, named).await);
            }
            Err(error) => return Err(error),
        };
        self.follow(environment, &changed).await;
        Ok(changed)
    }

    /// The instances that a refused update would have named and that were not named before; `None`: it is none, or cannot be
    /// done at all.
    async fn newly_named(
        &self,
        environment: EnvironmentId,
        cause: &Cause,
        request: &Request,
    ) -> store::Result<Option<Vec<Reference>>> {
        let Trigger::Updated { change, .. } = &request.trigger else {
            return Ok(None);
        };
        let instance = self
            .store
            .service_fetch(environment, cause.instance)
            .await?;
        let catalog = self.store.service_catalog(environment).await?;
        let named = instance.and_then(|instance| {
            let version = Some(instance.service_entity_version);
            let entity = &catalog
                .definition(&instance.service_entity, version)?
                .entity;
            let base = instance.base()?;
            let edited;
            let given = match change {
                Change::Merge(given) => given,
                Change::Replace { attributes, .. } => attributes,
                Change::Edits(edits) => {
                    edited = attributes::edit(entity, base, edits).ok()?;
                    &edited
                }
            };
            let before = attributes::references(entity, base);
            let mut named = attributes::references(entity, given);
            named.retain(|named| before.iter().all(|before| before.id != named.id));
            Some(named)
        });
        Ok(named)
    }

    /// A refusal with those of the named instances beside that are not there: whoever gave them hears of all mistakes at once.
    async fn with_missing(
        &self,
        environment: EnvironmentId,
        error: store::Error,
        named: Option<Vec<Reference>>,
    ) -> store::Error {
        let (store::Error::Refused(text), Some(named)) = (&error, named) else {
            return error;
        };
        // What was refused is said, whether or not there is more to say.
        let missing = self.store.relations_missing(environment, &named).await;
        let missing = missing.unwrap_or_default().into_iter();
        let missing: Vec<String> = missing.filter(|one| !text.contains(one)).collect();
        match missing.is_empty() {
            true => error,
            false => store::Error::Refused(format!("{text}; {}", missing.join("; "))),
        }
    }

    /// As [`Services::change`], and nothing follows yet.
    async fn apply(
        &self,
        environment: EnvironmentId,
        cause: &Cause,
        request: &Request,
    ) -> store::Result<Changed> {
        let rules = self.rules(environment).await?;
        let decided =
            self.store
                .service_change(environment, cause, &rules, |_, definition, instance| {
                    let decision = lifecycle::decide(
                        &definition.entity,
                        instance,
                        request,
                        &rules.settings,
                        now(),
                    )?;
                    Ok((Arc::clone(definition), decision))
                });
        decided.await
    }

    /// Looks once for an automatic transfer.
    pub(super) async fn fire(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        known_result: bool,
    ) -> store::Result<Changed> {
        let cause = Cause {
            instance,
            // The next start of a server looks for it again.
            is_repeatable: true,
            ..Cause::default()
        };
        let request = Request {
            trigger: Trigger::Auto { known_result },
            current_version: None,
            correlation_id: Uuid::nil(),
        };
        self.apply(environment, &cause, &request).await
    }

    /// Puts an instance under another version of its definition.
    ///
    /// # Errors
    /// Why that may not be.
    pub async fn migrate(
        &self,
        environment: EnvironmentId,
        cause: &Cause,
        migrating: &Migrating,
    ) -> store::Result<Changed> {
        let rules = self.rules(environment).await?;
        let request = Request {
            // Only the version and the id count.
            trigger: Trigger::Deleted,
            current_version: migrating.current_version,
            correlation_id: Uuid::new_v4(),
        };
        let migrated =
            self.store
                .service_change(environment, cause, &rules, |catalog, _, instance| {
                    let version = migrating.target_version;
                    let target = catalog.definition(&instance.service_entity, Some(version));
                    let target = target.ok_or_else(|| Refusal {
                        status: 404,
                        message: format!(
                            "version {version} of the service entity {}",
                            instance.service_entity
                        ),
                        problems: Problems::default(),
                    })?;
                    let decision = lifecycle::migrate(
                        &target.entity,
                        instance,
                        migrating.migration.clone(),
                        &request,
                        &rules.settings,
                        now(),
                    )?;
                    Ok((Arc::clone(target), decision))
                });
        let migrated = migrated.await?;
        self.follow(environment, &migrated).await;
        Ok(migrated)
    }
}
