//! A transfer: what `steward_lsm` decides about an instance, stored in one transaction.
//!
//! The instance is read and locked, the decision is made of it, and all that the decision says is written: the instance, the
//! record of its new version, events, requests for compiles. So a crash loses all of it or nothing. What comes after the commit
//! (automatic transfers, callbacks) is handed back; whoever calls does it, and at the start of a server it is looked for again.
//! Source: docs/reference/lsm.md § 3.5, § 3.11.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{PgConnection, SqliteConnection};
use steward_compiler::ServicePurpose;
use steward_lsm::attributes::{Reference, references};
use steward_lsm::lifecycle::{self, Decision, Effect, Event, Next, Refusal, Severity, Validation};
use steward_lsm::{Instance, ServiceEntity};
use uuid::Uuid;

use super::catalog::{Catalog, Definition, Definitions};
use super::count::Counted;
use super::event::{History, StoredEvent};
use super::instance::Instances;
use super::reference;
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::compile::services::ServiceCompiles;
use crate::store::macros::transaction;
use crate::store::version::on_both;
use crate::store::{Error, Result, ServiceCompile, Store};

/// What of an environment counts for its services.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    pub settings: lifecycle::Settings,
    /// Compiles are for the instances that ask, not for everything.
    pub is_partial: bool,
    /// Whether compiles may be asked for.
    pub server_compile: bool,
}

/// Which instance, and who wants it changed.
#[derive(Debug, Clone, Default)]
pub struct Cause {
    pub instance: Uuid,
    /// The service that it has to be of; `None`: any.
    pub entity: Option<String>,
    /// The update's own id: the same one again has no effect.
    pub update: Option<String>,
    /// Whether the instances that it names from now on have to be there.
    pub checks_relations: bool,
    /// It follows from what is stored, so it happens again if a power cut takes it away: nobody waits for the disk.
    pub is_repeatable: bool,
}

/// What was stored.
#[derive(Debug, Clone)]
pub struct Changed {
    /// As it is now; removed: as it was last.
    pub instance: Instance,
    /// As it was; `None`: it is new.
    pub before: Option<Instance>,
    pub definition: Arc<Definition>,
    pub events: Vec<StoredEvent>,
    /// Automatic transfers are to be looked for, and what that trigger is to say.
    pub fire_auto: Option<bool>,
    /// A compile was queued: the environment is to be woken.
    pub is_queued: bool,
    pub effect: Effect,
}

fn refused(refusal: Refusal) -> Error {
    match refusal.status {
        403 => Error::Denied(refusal.message),
        404 => Error::NotFound(refusal.message),
        409 => Error::Conflict(refusal.message),
        _ => Error::Refused(refusal.message),
    }
}

/// What is named and not there, each with its place.
fn missing(named: &[Reference], there: &BTreeMap<Uuid, String>) -> Vec<String> {
    let missing = named
        .iter()
        .filter(|named| there.get(&named.id) != Some(&named.service_entity));
    missing
        .map(|one| {
            format!(
                "{}: {} is no instance of {}",
                one.path, one.id, one.service_entity
            )
        })
        .collect()
}

fn no_entity(name: &str, version: Option<u64>) -> Error {
    Error::NotFound(match version {
        Some(version) => format!("version {version} of the service entity {name}"),
        None => format!("service entity {name}"),
    })
}

/// What docs/reference/lsm.md § 3.8 wants the report of a validation to show, and what its end needs to be understood.
fn validation_metadata(instance: &Instance, validation: &Validation) -> Value {
    let edge = &validation.edge;
    json!({
        "type": "lsm",
        "message": validation.event.message,
        "trigger": "lsm",
        "transfer": format!("{} -> {}", edge.source, edge.target),
        "from_state": edge.source,
        "to_state": edge.target,
        "error_state": edge.error,
        "edge": edge,
        "instance_id": instance.id,
        "service_entity": instance.service_entity,
        "event_type": validation.cause,
        "event_correlation_id": validation.correlation_id,
        "from_instance_version": validation.version,
    })
}

impl Rules {
    fn compile(&self, instance: &Instance, correlation_id: Uuid, now: Timestamp) -> ServiceCompile {
        ServiceCompile {
            purpose: ServicePurpose::Production,
            instances: vec![instance.id.to_string()],
            removed_sets: Vec::new(),
            is_partial: self.is_partial,
            correlation_id,
            metadata: json!({
                "type": "lsm_export",
                "message": format!(
                    "Compile triggered by the {} {} in version {}", instance.service_entity, instance.id, instance.version
                ),
            }),
            requested_at: now,
            made_at: Timestamp(instance.created_at.0),
        }
    }

    fn validation(
        &self,
        instance: &Instance,
        validation: &Validation,
        now: Timestamp,
    ) -> ServiceCompile {
        ServiceCompile {
            purpose: ServicePurpose::Validation {
                instance: instance.id.to_string(),
                version: validation.version,
            },
            correlation_id: validation.correlation_id,
            metadata: validation_metadata(instance, validation),
            ..self.compile(instance, validation.correlation_id, now)
        }
    }
}

/// Writes decisions on a connection.
trait Changes {
    /// Writes what was decided about an instance, `before` as it was (`None`: it is new).
    async fn decision_write(
        &mut self,
        definition: &Arc<Definition>,
        before: Option<&Instance>,
        decision: Decision,
        checks_relations: bool,
        context: (&Rules, Timestamp),
    ) -> Result<Changed>;

    /// Asks for a compile, and remembers the event about it.
    async fn compile_ask(
        &mut self,
        instance: &Instance,
        request: &ServiceCompile,
        event: Event,
        rules: &Rules,
    ) -> Result<(StoredEvent, bool)>;

    /// Refuses ids that were not named before and are of no such instance.
    async fn relations_check(
        &mut self,
        entity: &ServiceEntity,
        before: &BTreeSet<Uuid>,
        instance: &Instance,
    ) -> Result<()>;

    /// Whether a validation that is to be asked for was asked for before: by an automatic transfer, whose id is made of the
    /// instance and its version. An instance that had its id before, and was removed, is another one.
    async fn is_validated_already(&mut self, instance: &Instance, next: &[Next]) -> Result<bool>;

    /// Notes an update by its own id; `false`: it is known.
    async fn update_note(&mut self, environment: EnvironmentId, cause: &Cause) -> Result<bool>;
}

on_both! {
    Changes {
        async fn decision_write(
            &mut self,
            definition: &Arc<Definition>,
            before: Option<&Instance>,
            decision: Decision,
            checks_relations: bool,
            (rules, now): (&Rules, Timestamp),
        ) -> Result<Changed> {
            let Some(instance) = decision.instance.as_ref().or(before).cloned() else {
                return Err(Error::NotFound("service instance".to_owned()));
            };
            let environment = EnvironmentId::from(instance.environment);
            let entity = &definition.entity;
            let named = before.map(|before| reference::of_instance(entity, before)).unwrap_or_default();
            match decision.effect {
                Effect::Unchanged => {}
                Effect::Removed => self.instance_remove(environment, instance.id).await?,
                Effect::Stored | Effect::NewVersion => {
                    if checks_relations {
                        self.relations_check(entity, &named, &instance).await?;
                    }
                    if before.is_some() {
                        self.instance_update(entity, &instance).await?;
                    } else {
                        self.instance_insert(entity, &instance).await?;
                    }
                    let names = reference::of_instance(entity, &instance);
                    self.references_write(&instance, &named, &names).await?;
                }
            }
            if decision.effect == Effect::NewVersion {
                self.log_insert(&instance).await?;
            }
            let mut events = Vec::new();
            for event in &decision.events {
                events.push(self.event_insert(environment, &instance.service_entity, event).await?);
            }
            let (mut fire_auto, mut is_queued) = (None, false);
            for next in decision.next {
                let (request, event) = match next {
                    Next::FireAuto { known_result } => {
                        fire_auto = Some(known_result);
                        continue;
                    }
                    // Nothing of it is in any desired state, before or after.
                    Next::Compile { exports: false, .. } => continue,
                    Next::Compile { exports: true, event } => {
                        (rules.compile(&instance, event.event_correlation_id, now), *event)
                    }
                    Next::Validate(validation) => {
                        (rules.validation(&instance, &validation, now), *validation.event)
                    }
                };
                let (event, is_asked) = self.compile_ask(&instance, &request, event, rules).await?;
                events.push(event);
                is_queued |= is_asked;
            }
            let effect = decision.effect;
            if effect == Effect::Removed {
                self.events_pass(environment, instance.id).await?;
            }
            let after = match effect {
                Effect::Unchanged => before,
                Effect::Removed => None,
                Effect::Stored | Effect::NewVersion => Some(&instance),
            };
            self.count_move(before, after).await?;
            let definition = Arc::clone(definition);
            let before = before.cloned();
            Ok(Changed { instance, before, definition, events, fire_auto, is_queued, effect })
        }

        async fn compile_ask(
            &mut self,
            instance: &Instance,
            request: &ServiceCompile,
            mut event: Event,
            rules: &Rules,
        ) -> Result<(StoredEvent, bool)> {
            let environment = EnvironmentId::from(instance.environment);
            if rules.server_compile {
                let compile = self.compile_request_services(environment, request).await?;
                event.id_compile_report = Some(compile.uuid());
            } else {
                event.severity = Severity::Error;
                event.message = "no compile can be started: the setting server_compile of the environment is off".to_owned();
            }
            let event = self.event_insert(environment, &instance.service_entity, &event).await?;
            Ok((event, rules.server_compile))
        }

        async fn relations_check(
            &mut self,
            entity: &ServiceEntity,
            before: &BTreeSet<Uuid>,
            instance: &Instance,
        ) -> Result<()> {
            let sets = [
                &instance.candidate_attributes,
                &instance.active_attributes,
                &instance.rollback_attributes,
            ];
            let named = sets.into_iter().flatten().flat_map(|set| references(entity, set));
            let added: Vec<_> = named.filter(|named| !before.contains(&named.id)).collect();
            if added.is_empty() {
                return Ok(());
            }
            let ids: Vec<Uuid> = added.iter().map(|added| added.id).collect();
            let environment = EnvironmentId::from(instance.environment);
            let there = self.instances_there(environment, &ids).await?;
            let missing = missing(&added, &there);
            if missing.is_empty() { Ok(()) } else { Err(Error::Refused(missing.join("; "))) }
        }

        async fn is_validated_already(&mut self, instance: &Instance, next: &[Next]) -> Result<bool> {
            let environment = EnvironmentId::from(instance.environment);
            for next in next {
                let Next::Validate(validation) = next else { continue };
                let (id, made) = (validation.correlation_id, Timestamp(instance.created_at.0));
                let edge = json!(validation.edge);
                if self.validation_known(environment, id, made, &edge).await?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        }

        async fn update_note(&mut self, environment: EnvironmentId, cause: &Cause) -> Result<bool> {
            const SQL: &str = "INSERT INTO service_update (environment_id, instance_id, update_id) VALUES ($1, $2, $3) \
                               ON CONFLICT DO NOTHING";
            let Some(update) = &cause.update else { return Ok(true) };
            let done = sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(cause.instance.to_string())
                .bind(crate::store::storable(update))
                .execute(&mut *self)
                .await?;
            Ok(done.rows_affected() > 0)
        }
    }
}

impl Store {
    /// Lets something happen to an instance. `decide` says what follows, from the definitions, that of the instance and the
    /// instance itself; it may be asked about the same thing again after a failure of the database.
    ///
    /// # Errors
    /// What `decide` refuses; [`Error::NotFound`]: there is no such instance; [`Error::Refused`]: an instance that is named
    /// from now on is not there.
    pub async fn service_change<D>(
        &self,
        environment: EnvironmentId,
        cause: &Cause,
        rules: &Rules,
        decide: D,
    ) -> Result<Changed>
    where
        D: Fn(
            &Catalog,
            &Arc<Definition>,
            &Instance,
        ) -> std::result::Result<(Arc<Definition>, Decision), Refusal>,
    {
        let now = Timestamp::now();
        let _telling = self.remembered.telling(environment, Some(cause.instance));
        let changed = async {
            Ok(
                transaction!(self.db, repeatable cause.is_repeatable, tx => {
                    let catalog = tx.catalog(environment, &self.catalogs, self.shared()).await?;
                    let found = tx.instance_locked(environment, cause.instance, self.exclusive()).await?;
                    let is_meant = |found: &Instance| cause.entity.as_ref().is_none_or(|entity| *entity == found.service_entity);
                    let before = found.filter(is_meant);
                    let before = before.ok_or_else(|| Error::NotFound(format!("service instance {}", cause.instance)))?;
                    let (name, version) = (&before.service_entity, before.service_entity_version);
                    let definition = catalog.definition(name, Some(version));
                    let definition = definition.ok_or_else(|| no_entity(name, Some(version)))?;
                    let nothing = |instance: Instance, definition: &Arc<Definition>| Changed {
                        before: Some(instance.clone()),
                        instance,
                        definition: Arc::clone(definition),
                        events: Vec::new(),
                        fire_auto: None,
                        is_queued: false,
                        effect: Effect::Unchanged,
                    };
                    if tx.update_note(environment, cause).await? {
                        let (definition, decision) = decide(&catalog, definition, &before).map_err(refused)?;
                        if tx.is_validated_already(&before, &decision.next).await? {
                            nothing(before, &definition)
                        } else {
                            let checks = cause.checks_relations;
                            tx.decision_write(&definition, Some(&before), decision, checks, (rules, now)).await?
                        }
                    } else {
                        nothing(before, definition)
                    }
                }),
            )
        };
        let changed: Result<Changed> = changed.await;
        changed
    }

    /// Those that are named and not there, each with its place, for people: what a change that is refused for something else
    /// would have been refused for, too.
    pub async fn relations_missing(
        &self,
        environment: EnvironmentId,
        named: &[Reference],
    ) -> Result<Vec<String>> {
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<Uuid> = named.iter().map(|named| named.id).collect();
        let there = transaction!(self.db, tx => { tx.instances_there(environment, &ids).await? });
        Ok(missing(named, &there))
    }

    /// Makes an instance of a service, of its default version for `None`.
    ///
    /// # Errors
    /// What `create` refuses; [`Error::NotFound`]: there is no such service; [`Error::Conflict`]: the id or the identity is
    /// taken.
    pub async fn service_create<C>(
        &self,
        environment: EnvironmentId,
        (name, version): (&str, Option<u64>),
        rules: &Rules,
        create: C,
    ) -> Result<Changed>
    where
        C: Fn(&Definition) -> std::result::Result<Decision, Refusal>,
    {
        let now = Timestamp::now();
        let telling = self.remembered.telling(environment, None);
        let created = async {
            Ok(transaction!(self.db, tx => {
                let catalog = tx.catalog(environment, &self.catalogs, self.shared()).await?;
                let definition = catalog.definition(name, version);
                let definition = definition.ok_or_else(|| no_entity(name, version))?;
                let decision = create(definition).map_err(refused)?;
                tx.decision_write(definition, None, decision, true, (rules, now)).await?
            }))
        };
        let created: Result<Changed> = created.await;
        match &created {
            Ok(changed) => telling.of(changed.instance.id),
            // Whether it was committed is not known.
            Err(Error::Query(_) | Error::Lost(_)) => drop(telling),
            Err(_) => telling.of_nothing(),
        }
        created
    }
}
