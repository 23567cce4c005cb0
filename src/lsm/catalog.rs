//! The catalog follows the model. Source: docs/reference/lsm.md § 1.8, § 1.9, § 2.12.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use steward_compiler::ServiceDefinitions;
use steward_lsm::definition::SetName;
use steward_lsm::{Attributes, Instance, Problems, ServiceEntity};
use uuid::Uuid;

use super::{READ_AT_ONCE, Services};
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::{self, Catalog, CatalogChange, Definition};

/// What is wrong with a definition, for people.
fn refused(name: &str, problems: &Problems) -> store::Error {
    store::Error::Refused(format!(
        "the definition of the service {name} is not good: {problems}"
    ))
}

/// The definition of a record that is good by itself.
fn checked(
    service: &ServiceDefinitions,
    record: &Value,
    config: BTreeMap<String, bool>,
) -> store::Result<Definition> {
    let wrong = |problems| refused(&service.name, &problems);
    let version = record["version"].as_u64().unwrap_or_default();
    let is_default = version == service.default_version;
    let record = record.clone();
    let definition = Definition::of_record(record, config, is_default, service.is_versioned);
    let definition = definition.map_err(wrong)?;
    definition.entity.check().map_err(wrong)?;
    Ok(definition)
}

/// Whether two definitions say the same, in whatever words. Which services a definition owns is said by those services.
fn is_same(one: &ServiceEntity, other: &ServiceEntity) -> bool {
    let bare = |entity: &ServiceEntity| ServiceEntity {
        owned_entities: Vec::new(),
        config: BTreeMap::new(),
        ..entity.undocumented()
    };
    bare(one) == bare(other)
}

/// What to write so that a service has exactly the versions that the model has.
fn plan_service(
    catalog: &Catalog,
    service: &ServiceDefinitions,
    change: &mut CatalogChange,
) -> store::Result<()> {
    let name = &service.name;
    let nothing = BTreeMap::new();
    let before = catalog.versions(name).unwrap_or(&nothing);
    let mut there = Vec::new();
    for record in &service.versions {
        let version = record["version"].as_u64().unwrap_or_default();
        there.push(version);
        let old = before.get(&version);
        let config = old.map(|old| old.config.clone()).unwrap_or_default();
        let new = checked(service, record, config)?;
        let Some(old) = old else {
            change.put.push(new);
            continue;
        };
        if **old == new {
            continue;
        }
        if !is_same(&old.entity, &new.entity) {
            if service.is_versioned && (before.len() > 1 || version != 0) {
                return Err(store::Error::Refused(format!(
                    "version {version} of the service {name} is published, and cannot change any more: give the changed \
                     definition a new version"
                )));
            }
            change.examine.push((name.clone(), version));
        }
        change.put.push(new);
    }
    if !there.contains(&service.default_version) {
        return Err(store::Error::Refused(format!(
            "the default version {} of the service {name} is none of its versions",
            service.default_version
        )));
    }
    let gone = before.keys().filter(|version| !there.contains(version));
    change
        .remove
        .extend(gone.map(|version| (name.clone(), *version)));
    Ok(())
}

/// What to write so that the services of the catalog that the model does not have are marked so.
fn plan_missing(catalog: &Catalog, definitions: &[ServiceDefinitions], change: &mut CatalogChange) {
    let is_defined = |name: &str| definitions.iter().any(|service| service.name == name);
    let missing = catalog.services().filter(|(name, _)| !is_defined(name));
    let versions = missing.flat_map(|(_, versions)| versions.values());
    let marked = versions
        .filter(|known| known.is_in_model)
        .map(|known| Definition {
            is_in_model: false,
            ..(**known).clone()
        });
    change.put.extend(marked);
}

impl Services {
    /// Brings definitions into the catalog, with all that follows for instances. Services that are not named stay as they are.
    /// `may_rewrite`: instances may be rewritten where a definition has other attributes than before. Gives what people should
    /// know of that: whose values were removed.
    ///
    /// # Errors
    /// A definition is not good, or does not fit the instances that there are; which and why.
    pub async fn definitions_apply(
        &self,
        environment: EnvironmentId,
        definitions: &[ServiceDefinitions],
        may_rewrite: bool,
    ) -> store::Result<Vec<String>> {
        let plan = |catalog: &Catalog| {
            let mut change = CatalogChange::default();
            for service in definitions {
                plan_service(catalog, service, &mut change)?;
            }
            Ok(change)
        };
        self.definitions_write(environment, plan, may_rewrite).await
    }

    /// The same with all definitions of the model: what is not named is not in the model any more. The instances that such a
    /// service has are among what people should know: nothing deploys them, and nothing removes what they have deployed.
    ///
    /// # Errors
    /// As [`Services::definitions_apply`].
    pub async fn model_apply(
        &self,
        environment: EnvironmentId,
        definitions: &[ServiceDefinitions],
    ) -> store::Result<Vec<String>> {
        let plan = |catalog: &Catalog| {
            let mut change = CatalogChange::default();
            for service in definitions {
                plan_service(catalog, service, &mut change)?;
            }
            plan_missing(catalog, definitions, &mut change);
            Ok(change)
        };
        let mut warnings = self.definitions_write(environment, plan, true).await?;
        warnings.extend(self.undefined_services(environment).await?);
        Ok(warnings)
    }

    async fn definitions_write(
        &self,
        environment: EnvironmentId,
        plan: impl Fn(&Catalog) -> store::Result<CatalogChange>,
        may_rewrite: bool,
    ) -> store::Result<Vec<String>> {
        let (changed, removed) = self.catalog_change(environment, plan, may_rewrite).await?;
        for definition in &changed.put {
            let (name, version) = (&definition.entity.name, definition.entity.version);
            match definition.is_in_model {
                true => tracing::info!(
                    environment.id = %environment, "version {version} of the service {name} is in the catalog"
                ),
                false => tracing::info!(
                    environment.id = %environment, "version {version} of the service {name} is not in the model any more"
                ),
            }
        }
        Ok(removed.warnings())
    }

    /// The services of the catalog that the model has no more and that have instances, for people.
    async fn undefined_services(&self, environment: EnvironmentId) -> store::Result<Vec<String>> {
        let catalog = self.store.service_catalog(environment).await?;
        let is_missing = |versions: &BTreeMap<u64, Arc<Definition>>| {
            versions.values().all(|version| !version.is_in_model)
        };
        let mut warnings = Vec::new();
        for (name, _) in catalog
            .services()
            .filter(|(_, versions)| is_missing(versions))
        {
            let counts = self.store.service_state_counts(environment, name).await?;
            let n_instances: i64 = counts.iter().map(|(.., n)| n).sum();
            if n_instances > 0 {
                warnings.push(format!(
                    "the service {name} is in the catalog with {n_instances} instance{}, and not in the model any more: nothing \
                     deploys them. Put its binding back, or delete them while it is there",
                    plural(n_instances)
                ));
            }
        }
        Ok(warnings)
    }

    /// Why a compile for these instances would do nothing for them: the model has the service of one of them no more. For one in
    /// a state whose resources are not exported there is nothing to do. `None`: nothing speaks against it.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn missing_in_model(
        &self,
        environment: EnvironmentId,
        instances: &[Uuid],
        is_validation: bool,
    ) -> store::Result<Option<String>> {
        let catalog = self.store.service_catalog(environment).await?;
        if catalog.is_in_model() {
            return Ok(None);
        }
        for some in instances.chunks(READ_AT_ONCE) {
            for instance in self.store.services_of_ids(environment, some).await? {
                let (name, version) = (&instance.service_entity, instance.service_entity_version);
                let Some(definition) = catalog.definition(name, Some(version)) else {
                    continue;
                };
                let state = definition.entity.lifecycle.state(&instance.state);
                let is_exported = state.is_some_and(|state| state.export_resources);
                if !definition.is_in_model && (is_validation || is_exported) {
                    return Ok(Some(format!(
                        "the service {name} of the instance {} is not in the model any more: nothing deploys the instance, and \
                         nothing removes what it has deployed. Put the binding of {name} back, and push",
                        instance.id
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Removes a service, or one version of it, that has no instances any more but for those that have ended.
    ///
    /// # Errors
    /// There is no such definition, it has instances, or it is the default version of several.
    pub async fn definition_delete(
        &self,
        environment: EnvironmentId,
        name: &str,
        version: Option<u64>,
    ) -> store::Result<()> {
        let plan = |catalog: &Catalog| {
            let versions = catalog.versions(name);
            let versions =
                versions.ok_or_else(|| store::Error::NotFound(format!("service entity {name}")))?;
            let meant: Vec<u64> = match version {
                None => versions.keys().copied().collect(),
                Some(version) => {
                    let definition = versions.get(&version).ok_or_else(|| {
                        let what = format!("version {version} of the service entity {name}");
                        store::Error::NotFound(what)
                    })?;
                    if definition.is_default && versions.len() > 1 {
                        return Err(store::Error::Conflict(format!(
                            "version {version} is the default one of the service {name}; export another default version first"
                        )));
                    }
                    vec![version]
                }
            };
            Ok(CatalogChange {
                remove: meant
                    .into_iter()
                    .map(|version| (name.to_owned(), version))
                    .collect(),
                ..CatalogChange::default()
            })
        };
        self.catalog_change(environment, plan, false)
            .await
            .map(|_| ())
    }

    /// Sets switches of a service, for instances that have no value of their own; gives the values that all switches have then.
    ///
    /// # Errors
    /// There is no such definition, or no such switch.
    pub async fn definition_configure(
        &self,
        environment: EnvironmentId,
        (name, version): (&str, Option<u64>),
        values: &BTreeMap<String, bool>,
    ) -> store::Result<BTreeMap<String, bool>> {
        let plan = |catalog: &Catalog| {
            let definition = catalog.definition(name, version);
            let definition = definition
                .ok_or_else(|| store::Error::NotFound(format!("service entity {name}")))?;
            steward_lsm::lifecycle::check_switches(&definition.entity.lifecycle, values)
                .map_err(|refusal| store::Error::Refused(refusal.message))?;
            let mut changed = (**definition).clone();
            changed.config.extend(values.clone());
            changed.entity.config.extend(values.clone());
            Ok(CatalogChange {
                put: vec![changed],
                ..CatalogChange::default()
            })
        };
        self.catalog_change(environment, plan, false).await?;
        let catalog = self.store.service_catalog(environment).await?;
        // A switch that is on now lets instances go on that waited for it.
        if let Some(definition) = catalog.definition(name, version) {
            self.start_definition(environment, definition).await?;
        }
        Ok(config_of(&catalog, name, version))
    }

    async fn catalog_change(
        &self,
        environment: EnvironmentId,
        plan: impl Fn(&Catalog) -> store::Result<CatalogChange>,
        may_rewrite: bool,
    ) -> store::Result<(CatalogChange, Removed)> {
        let mut removed = Removed::default();
        let rewrite = |old: &Definition, new: &Definition, instance: &Instance| {
            let rewritten = steward_lsm::change::plan(&old.entity, &new.entity)?.apply(instance)?;
            match rewritten {
                Some(after) if !may_rewrite && after != *instance => {
                    Err(strictly(instance, &after))
                }
                Some(after) => {
                    removed.note(&new.entity.name, instance, &after);
                    Ok(Some(after))
                }
                None => Ok(None),
            }
        };
        let store = &self.store;
        let change = store.service_catalog_change(environment, Timestamp::now(), plan, rewrite);
        Ok((change.await?, removed))
    }
}

/// Attributes that a changed definition has no more, and the instances that had values of them.
#[derive(Debug, Default)]
struct Removed(BTreeMap<(String, String), BTreeSet<Uuid>>);

impl Removed {
    fn note(&mut self, service: &str, before: &Instance, after: &Instance) {
        // What has ended is of no use to anybody; its log has it.
        if before.deleted {
            return;
        }
        for attribute in steward_lsm::change::removed(before, after) {
            let key = (service.to_owned(), attribute);
            self.0.entry(key).or_default().insert(before.id);
        }
    }

    fn warnings(&self) -> Vec<String> {
        let all = self.0.iter().map(|((service, attribute), instances)| {
            let n_instances = instances.len();
            format!(
                "the service {service} has no attribute {attribute} any more: its values in {n_instances} instance{} are removed. \
                 The log of each instance still has them",
                plural(n_instances as i64)
            )
        });
        all.collect()
    }
}

fn plural(n: i64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// What of an instance a strict export would have to rewrite, which it does not: every attribute, by its path.
fn strictly(before: &Instance, after: &Instance) -> Problems {
    let mut problems = Problems::default();
    let nothing = Attributes::new();
    for set in SetName::ALL {
        let old = before.set(set).unwrap_or(&nothing);
        let new = after.set(set).unwrap_or(&nothing);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for name in names
            .into_iter()
            .filter(|name| old.get(*name) != new.get(*name))
        {
            problems.add(
                format!("{}_attributes.{name}", set.as_str()),
                "would have to be rewritten, which a strict export does not",
            );
        }
    }
    if problems.0.is_empty() {
        problems.add(
            "",
            "would have to be rewritten, which a strict export does not",
        );
    }
    problems
}

/// The value of every switch of a service.
pub fn config_of(catalog: &Catalog, name: &str, version: Option<u64>) -> BTreeMap<String, bool> {
    let Some(definition) = catalog.definition(name, version) else {
        return BTreeMap::new();
    };
    let entity = &definition.entity;
    let names = steward_lsm::lifecycle::switches(&entity.lifecycle);
    names
        .map(|name| {
            (
                name.to_owned(),
                entity.config.get(name).copied().unwrap_or(true),
            )
        })
        .collect()
}
