//! The catalog: the definitions of services, as rows and as they are remembered.
//!
//! Every transfer needs its definition, and reading one takes longer than the rest of a transfer. So a [`Catalog`] is kept for
//! each environment, read as a whole, and used again as long as the revision in the database is the one that it was read at.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sqlx::{PgConnection, SqliteConnection};
use steward_lsm::{Instance, Problems, ServiceEntity};

use super::count::Counted;
use super::instance::{Instances, Row, counter, select};
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, transaction};
use crate::store::version::on_both;
use crate::store::{Error, Result, Store, document};

const TABLE: &str = "service_entity";

/// One version of the definition of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// With the values of switches that were set over the API.
    pub entity: ServiceEntity,
    /// As it was exported.
    pub record: Value,
    /// What was set for switches over the API.
    pub config: BTreeMap<String, bool>,
    /// Instances that name no version are of this one.
    pub is_default: bool,
    /// Whether the model keeps several versions of the service.
    pub is_versioned: bool,
    /// Whether the model has the service. If it has it no more, the definition is that of the instances that there are.
    pub is_in_model: bool,
}

/// All definitions of an environment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalog {
    /// 0: there never were any.
    pub revision: i64,
    definitions: BTreeMap<String, BTreeMap<u64, Arc<Definition>>>,
}

/// What a change of the catalog writes.
#[derive(Debug, Clone, Default)]
pub struct CatalogChange {
    /// New and changed definitions.
    pub put: Vec<Definition>,
    /// Of those, the ones whose instances have to be looked at, and rewritten where that is needed.
    pub examine: Vec<(String, u64)>,
    /// Definitions that go, by name and version. Refused while they have instances that have not ended.
    pub remove: Vec<(String, u64)>,
}

impl CatalogChange {
    /// Whether it writes nothing.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.remove.is_empty()
    }
}

impl Definition {
    /// A definition from its record, which has been checked when it was stored.
    ///
    /// # Errors
    /// The record is not one.
    pub fn of_record(
        record: Value,
        config: BTreeMap<String, bool>,
        is_default: bool,
        is_versioned: bool,
    ) -> std::result::Result<Self, steward_lsm::Problems> {
        let mut entity = ServiceEntity::from_value(&record)?;
        entity.config.extend(config.clone());
        Ok(Self {
            entity,
            record,
            config,
            is_default,
            is_versioned,
            is_in_model: true,
        })
    }
}

impl Catalog {
    /// The versions of a service, by number; `None`: there is no such service.
    pub fn versions(&self, name: &str) -> Option<&BTreeMap<u64, Arc<Definition>>> {
        self.definitions.get(name)
    }

    /// Whether the model has all services that are here.
    pub fn is_in_model(&self) -> bool {
        let mut all = self.definitions.values().flat_map(BTreeMap::values);
        all.all(|definition| definition.is_in_model)
    }

    /// All services, by name.
    pub fn services(&self) -> impl Iterator<Item = (&str, &BTreeMap<u64, Arc<Definition>>)> {
        let services = self.definitions.iter();
        services.map(|(name, versions)| (name.as_str(), versions))
    }

    /// One version of a service, the default one for `None`.
    pub fn definition(&self, name: &str, version: Option<u64>) -> Option<&Arc<Definition>> {
        let versions = self.definitions.get(name)?;
        match version {
            Some(version) => versions.get(&version),
            None => {
                let mut all = versions.values();
                let default = all.find(|definition| definition.is_default);
                default.or_else(|| versions.values().next_back())
            }
        }
    }

    fn add(&mut self, definition: Definition) {
        let versions = self
            .definitions
            .entry(definition.entity.name.clone())
            .or_default();
        versions.insert(definition.entity.version, Arc::new(definition));
    }
}

/// The catalogs that were read last, by environment.
#[derive(Debug, Default)]
pub(in crate::store) struct Catalogs(Mutex<HashMap<EnvironmentId, Arc<Catalog>>>);

impl Catalogs {
    fn get(&self, environment: EnvironmentId, revision: i64) -> Option<Arc<Catalog>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let catalog = all.get(&environment);
        catalog
            .filter(|catalog| catalog.revision == revision)
            .cloned()
    }

    fn put(&self, environment: EnvironmentId, catalog: &Arc<Catalog>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(environment, Arc::clone(catalog));
    }
}

type Columns = (String, i64, String, String, bool, bool, bool);

fn definition(
    (name, version, record, config, is_default, is_versioned, is_in_model): Columns,
) -> Result<Definition> {
    let id = format!("{name} {version}");
    let record = document(TABLE, "record", &id, &record)?;
    let config = document(TABLE, "config", &id, &config)?;
    let definition = Definition::of_record(record, config, is_default, is_versioned);
    let definition = definition.map_err(|_| Error::Row {
        table: TABLE,
        column: "record",
        id,
    })?;
    Ok(Definition {
        is_in_model,
        ..definition
    })
}

/// Reads and writes definitions on a connection.
pub(super) trait Definitions {
    /// The catalog as it is; `lock`: how the database is asked to keep it so.
    async fn catalog(
        &mut self,
        environment: EnvironmentId,
        known: &Catalogs,
        lock: &str,
    ) -> Result<Arc<Catalog>>;

    /// Takes the catalog for this transaction alone, with its next revision.
    async fn catalog_take(&mut self, environment: EnvironmentId) -> Result<()>;

    async fn definition_write(
        &mut self,
        environment: EnvironmentId,
        definition: &Definition,
        now: Timestamp,
    ) -> Result<()>;

    /// Removes a definition that no instance follows any more, but for those that have ended.
    async fn definition_remove(
        &mut self,
        environment: EnvironmentId,
        name: &str,
        version: u64,
    ) -> Result<()>;

    /// Instances of a definition that have not ended, whose id is greater, by id.
    async fn instances_of(
        &mut self,
        environment: EnvironmentId,
        definition: (&str, u64),
        after: &str,
        limit: i64,
    ) -> Result<Vec<Instance>>;
}

on_both! {
    Definitions {
        async fn catalog(
            &mut self,
            environment: EnvironmentId,
            known: &Catalogs,
            lock: &str,
        ) -> Result<Arc<Catalog>> {
            const SQL: &str = "SELECT name, version, record, config, is_default, is_versioned, is_in_model FROM service_entity \
                               WHERE environment_id = $1";
            let revision = format!("SELECT revision FROM service_catalog WHERE environment_id = $1{lock}");
            let revision: Option<(i64,)> =
                sqlx::query_as(&revision).bind(environment.to_string()).fetch_optional(&mut *self).await?;
            let Some((revision,)) = revision else {
                return Ok(Arc::default());
            };
            if let Some(catalog) = known.get(environment, revision) {
                return Ok(catalog);
            }
            let rows: Vec<Columns> =
                sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(&mut *self).await?;
            let mut catalog = Catalog { revision, ..Catalog::default() };
            for row in rows {
                catalog.add(definition(row)?);
            }
            let catalog = Arc::new(catalog);
            known.put(environment, &catalog);
            Ok(catalog)
        }

        async fn catalog_take(&mut self, environment: EnvironmentId) -> Result<()> {
            const SQL: &str = "INSERT INTO service_catalog (environment_id, revision) VALUES ($1, $2) \
                               ON CONFLICT (environment_id) DO UPDATE SET revision = service_catalog.revision + 1";
            sqlx::query(SQL).bind(environment.to_string())
                // An environment may be removed and made again: its revisions are others then.
                .bind(Timestamp::now().0).execute(&mut *self).await?;
            Ok(())
        }

        async fn definition_write(
            &mut self,
            environment: EnvironmentId,
            definition: &Definition,
            now: Timestamp,
        ) -> Result<()> {
            const SQL: &str = "INSERT INTO service_entity (environment_id, name, version, record, config, is_default, \
                               is_versioned, updated_us, is_in_model) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) \
                               ON CONFLICT (environment_id, name, version) DO UPDATE SET record = excluded.record, \
                               config = excluded.config, is_default = excluded.is_default, \
                               is_versioned = excluded.is_versioned, updated_us = excluded.updated_us, \
                               is_in_model = excluded.is_in_model";
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(&definition.entity.name)
                .bind(counter(definition.entity.version))
                .bind(definition.record.to_string())
                .bind(serde_json::json!(definition.config).to_string())
                .bind(definition.is_default)
                .bind(definition.is_versioned)
                .bind(now.0)
                .bind(definition.is_in_model)
                .execute(&mut *self)
                .await?;
            Ok(())
        }

        async fn definition_remove(
            &mut self,
            environment: EnvironmentId,
            name: &str,
            version: u64,
        ) -> Result<()> {
            const COUNT: &str = "SELECT COUNT(*) FROM service_instance WHERE environment_id = $1 AND entity = $2 \
                                 AND is_deleted = FALSE AND entity_version = $3";
            const SQL: &str = "DELETE FROM service_entity WHERE environment_id = $1 AND name = $2 AND version = $3";
            let (n_instances,): (i64,) = sqlx::query_as(COUNT)
                .bind(environment.to_string())
                .bind(name)
                .bind(counter(version))
                .fetch_one(&mut *self)
                .await?;
            if n_instances > 0 {
                return Err(Error::Conflict(format!(
                    "version {version} of the service {name} has {n_instances} instances that have not ended; delete them first"
                )));
            }
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(name)
                .bind(counter(version))
                .execute(&mut *self)
                .await?;
            Ok(())
        }

        async fn instances_of(
            &mut self,
            environment: EnvironmentId,
            (name, version): (&str, u64),
            after: &str,
            limit: i64,
        ) -> Result<Vec<Instance>> {
            let rows: Vec<Row> = sqlx::query_as(select!(
                "WHERE environment_id = $1 AND entity = $2 AND is_deleted = FALSE AND entity_version = $3 AND id > $4 \
                 ORDER BY id LIMIT $5"
            ))
            .bind(environment.to_string())
            .bind(name)
            .bind(counter(version))
            .bind(after)
            .bind(limit)
            .fetch_all(&mut *self)
            .await?;
            rows.into_iter().map(Row::into_instance).collect()
        }
    }
}

/// Instances that are in memory at once while all of a definition are looked at.
const INSTANCES_AT_ONCE: i64 = 1000;
/// Instances that an error names: a person reads it.
const SHOWN: usize = 20;

impl Store {
    /// How the database is asked to keep what is read as it is until the transaction ends, for others to read, too. SQLite
    /// has one writer at a time.
    pub(super) fn shared(&self) -> &'static str {
        if self.is_sqlite() { "" } else { " FOR SHARE" }
    }

    /// As [`Store::shared`], for this transaction alone.
    pub(super) fn exclusive(&self) -> &'static str {
        if self.is_sqlite() { "" } else { " FOR UPDATE" }
    }

    /// The definitions of an environment.
    pub async fn service_catalog(&self, environment: EnvironmentId) -> Result<Arc<Catalog>> {
        const SQL: &str = "SELECT revision FROM service_catalog WHERE environment_id = $1";
        let revision: Option<(i64,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_optional(pool).await?
        });
        let Some((revision,)) = revision else {
            return Ok(Arc::default());
        };
        if let Some(catalog) = self.catalogs.get(environment, revision) {
            return Ok(catalog);
        }
        Ok(transaction!(self.db, tx => {
            tx.catalog(environment, &self.catalogs, self.shared()).await?
        }))
    }

    /// Changes definitions, in one transaction, with all that follows for instances. `plan` says what to write; `rewrite`
    /// gives an instance as it shall be under its changed definition (`None`: as it is), or what speaks against that.
    ///
    /// # Errors
    /// What `plan` says; [`Error::Refused`] with what speaks against the change, and of which instances;
    /// [`Error::Conflict`] for a definition that goes and has instances.
    pub async fn service_catalog_change<Plan, Rewrite>(
        &self,
        environment: EnvironmentId,
        now: Timestamp,
        plan: Plan,
        mut rewrite: Rewrite,
    ) -> Result<CatalogChange>
    where
        Plan: Fn(&Catalog) -> Result<CatalogChange>,
        Rewrite: FnMut(
            &Definition,
            &Definition,
            &Instance,
        ) -> std::result::Result<Option<Instance>, Problems>,
    {
        let planned = plan(&*self.service_catalog(environment).await?)?;
        if planned.is_empty() {
            return Ok(planned);
        }
        let _telling = self.remembered.telling(environment, None);
        Ok(transaction!(self.db, tx => {
            let before = tx.catalog(environment, &self.catalogs, self.exclusive()).await?;
            // Nobody reads a catalog at this revision before it is committed.
            tx.catalog_take(environment).await?;
            let change = plan(&before)?;
            let mut against = Vec::new();
            for (name, version) in &change.examine {
                let old = before.definition(name, Some(*version));
                let mut put = change.put.iter();
                let new = put.find(|new| (&new.entity.name, new.entity.version) == (name, *version));
                let (Some(old), Some(new)) = (old, new) else { continue };
                let mut after = String::new();
                loop {
                    let instances =
                        tx.instances_of(environment, (name, *version), &after, INSTANCES_AT_ONCE).await?;
                    let Some(last) = instances.last() else { break };
                    after = last.id.to_string();
                    for instance in &instances {
                        match rewrite(old, new, instance) {
                            Ok(Some(rewritten)) => {
                                tx.instance_update(&new.entity, &rewritten).await?;
                                tx.count_move(Some(instance), Some(&rewritten)).await?;
                            }
                            Ok(None) => {}
                            Err(problems) => against.push(format!("{name} {}: {problems}", instance.id)),
                        }
                    }
                    if against.len() >= SHOWN {
                        break;
                    }
                }
            }
            if !against.is_empty() {
                against.truncate(SHOWN);
                return Err(Error::Refused(format!(
                    "the changed definitions do not fit instances that are there: {}", against.join("; ")
                )));
            }
            for (name, version) in &change.remove {
                tx.definition_remove(environment, name, *version).await?;
            }
            for definition in &change.put {
                tx.definition_write(environment, definition, now).await?;
            }
            change
        }))
    }
}
