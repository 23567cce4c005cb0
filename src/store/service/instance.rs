//! An instance as a row, and the statements that read and write one within a transaction.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::{PgConnection, SqliteConnection};
use steward_lsm::{Attributes, Instance, Moment, ServiceEntity};
use uuid::Uuid;

use super::reference;
use crate::domain::{EnvironmentId, Timestamp, order_keys_of};
use crate::store::macros::{read, row};
use crate::store::version::on_both;
use crate::store::{Error, Result, Store, document, is_duplicate, parsed, storable};

const TABLE: &str = "service_instance";

row! {
    pub(super) struct Row {
        environment_id: String,
        id: String,
        entity: String,
        entity_version: i64,
        version: i64,
        desired_state_version: i64,
        state: String,
        identity: Option<String>,
        candidate: Option<String>,
        active: Option<String>,
        rollback: Option<String>,
        config: String,
        metadata: String,
        known_result: Option<bool>,
        is_deleted: bool,
        created_us: i64,
        updated_us: i64,
    }
}

/// Selects whole rows of instances.
macro_rules! select {
    ($rest:literal) => {
        $crate::store::service::instance::select!(from "service_instance ", $rest)
    };
    (from $tables:literal, $rest:literal) => {
        concat!(
            "SELECT environment_id, id, entity, entity_version, version, desired_state_version, state, identity, candidate, \
             active, rollback, config, metadata, known_result, is_deleted, created_us, updated_us FROM ",
            $tables,
            $rest
        )
    };
}
pub(super) use select;

/// A counter as its column has it.
pub(super) fn counter(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A counter back from its column.
pub(super) fn counted(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

impl Row {
    /// What lists of all instances are ordered by.
    pub(super) fn order(&self) -> (String, i64, String) {
        (self.entity.clone(), self.created_us, self.id.clone())
    }

    pub(super) fn into_instance(self) -> Result<Instance> {
        let id = self.id.as_str();
        let set = |column: &'static str, text: &Option<String>| {
            attributes_of(column, id, text.as_deref())
        };
        Ok(Instance {
            id: parsed(TABLE, "id", id)?,
            environment: parsed(TABLE, "environment_id", &self.environment_id)?,
            service_entity_version: counted(self.entity_version),
            version: counted(self.version),
            desired_state_version: counted(self.desired_state_version),
            candidate_attributes: set("candidate", &self.candidate)?,
            active_attributes: set("active", &self.active)?,
            rollback_attributes: set("rollback", &self.rollback)?,
            config: document(TABLE, "config", id, &self.config)?,
            metadata: document(TABLE, "metadata", id, &self.metadata)?,
            service_entity: self.entity,
            state: self.state,
            deleted: self.is_deleted,
            created_at: Moment(self.created_us),
            last_updated: Moment(self.updated_us),
            service_identity_attribute_value: self.identity,
            known_result: self.known_result,
            callback: Vec::new(),
        })
    }
}

/// A set of attributes from its column, with the keys of its dicts in the order of the reference.
pub(super) fn attributes_of(
    column: &'static str,
    id: &str,
    text: Option<&str>,
) -> Result<Option<Attributes>> {
    let Some(text) = text else { return Ok(None) };
    let mut set = document(TABLE, column, id, text)?;
    order_keys_of(&mut set);
    Ok(Some(set))
}

fn text(set: Option<&Attributes>) -> Option<String> {
    set.map(|set| serde_json::Value::Object(set.clone()).to_string())
}

fn map<V: serde::Serialize>(values: &BTreeMap<String, V>) -> String {
    serde_json::json!(values).to_string()
}

/// Why an instance could not be written.
fn refused(error: sqlx::Error, instance: &Instance) -> Error {
    if !is_duplicate(&error) {
        return error.into();
    }
    let entity = &instance.service_entity;
    // Both databases name the index, or its columns.
    let is_identity = error.to_string().contains("identity");
    Error::Conflict(match &instance.service_identity_attribute_value {
        Some(value) if is_identity => {
            format!("there is an instance of {entity} with the service identity {value} already")
        }
        _ => format!("there is an instance with the id {} already", instance.id),
    })
}

/// Binds `$1` to `$16` of a statement that writes an instance: its key, and all that may change.
macro_rules! bound {
    ($query:expr, $entity:expr, $instance:expr) => {
        $query
            .bind($instance.environment.to_string())
            .bind($instance.id.to_string())
            .bind(counter($instance.service_entity_version))
            .bind(counter($instance.version))
            .bind(counter($instance.desired_state_version))
            .bind(&$instance.state)
            .bind(
                $instance
                    .service_identity_attribute_value
                    .as_deref()
                    .map(storable),
            )
            .bind(text($instance.candidate_attributes.as_ref()))
            .bind(text($instance.active_attributes.as_ref()))
            .bind(text($instance.rollback_attributes.as_ref()))
            .bind(map(&$instance.config))
            .bind(map(&$instance.metadata))
            .bind($instance.known_result)
            .bind($instance.deleted)
            .bind($instance.last_updated.0)
            .bind(reference::owner($entity, $instance).map(|id| id.to_string()))
    };
}

/// Which of so many instances have not ended, with a column that is in no index: SQLite would go through all of one that has the
/// others.
pub(super) fn there_of(n_ids: usize) -> String {
    let ids = super::parameters(2, n_ids);
    format!(
        "SELECT id, entity FROM service_instance \
         WHERE NOT is_deleted AND version > 0 AND environment_id = $1 AND id IN ({ids})"
    )
}

/// Reads and writes instances on a connection.
pub(super) trait Instances {
    /// The instance, which nobody else changes before the end of the transaction. `lock`: how the database is asked for that.
    async fn instance_locked(
        &mut self,
        environment: EnvironmentId,
        id: Uuid,
        lock: &str,
    ) -> Result<Option<Instance>>;

    /// `entity`: its definition.
    async fn instance_insert(&mut self, entity: &ServiceEntity, instance: &Instance) -> Result<()>;

    /// `entity`: its definition.
    async fn instance_update(&mut self, entity: &ServiceEntity, instance: &Instance) -> Result<()>;

    async fn instance_remove(&mut self, environment: EnvironmentId, id: Uuid) -> Result<()>;

    /// Notes which instances this one names, as far as that has changed.
    async fn references_write(
        &mut self,
        instance: &Instance,
        before: &BTreeSet<Uuid>,
        now: &BTreeSet<Uuid>,
    ) -> Result<()>;

    /// Those of the ids that are instances of that service which have not ended.
    async fn instances_there(
        &mut self,
        environment: EnvironmentId,
        ids: &[Uuid],
    ) -> Result<BTreeMap<Uuid, String>>;
}

on_both! {
    Instances {
        async fn instance_locked(
            &mut self,
            environment: EnvironmentId,
            id: Uuid,
            lock: &str,
        ) -> Result<Option<Instance>> {
            let sql = format!("{}{lock}", select!("WHERE environment_id = $1 AND id = $2"));
            let row: Option<Row> = sqlx::query_as(&sql)
                .bind(environment.to_string())
                .bind(id.to_string())
                .fetch_optional(&mut *self)
                .await?;
            row.map(Row::into_instance).transpose()
        }

        async fn instance_insert(&mut self, entity: &ServiceEntity, instance: &Instance) -> Result<()> {
            const SQL: &str = "INSERT INTO service_instance (environment_id, id, entity_version, version, \
                               desired_state_version, state, identity, candidate, active, rollback, config, metadata, \
                               known_result, is_deleted, updated_us, owner_id, entity, created_us) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)";
            let written = bound!(sqlx::query(SQL), entity, instance)
                .bind(&instance.service_entity)
                .bind(instance.created_at.0)
                .execute(&mut *self);
            written.await.map(drop).map_err(|error| refused(error, instance))
        }

        async fn instance_update(&mut self, entity: &ServiceEntity, instance: &Instance) -> Result<()> {
            const SQL: &str = "UPDATE service_instance SET entity_version = $3, version = $4, desired_state_version = $5, \
                               state = $6, identity = $7, candidate = $8, active = $9, rollback = $10, config = $11, \
                               metadata = $12, known_result = $13, is_deleted = $14, updated_us = $15, owner_id = $16 \
                               WHERE environment_id = $1 AND id = $2";
            let written = bound!(sqlx::query(SQL), entity, instance).execute(&mut *self);
            written.await.map(drop).map_err(|error| refused(error, instance))
        }

        async fn instance_remove(&mut self, environment: EnvironmentId, id: Uuid) -> Result<()> {
            // Its id may be given to another one, whose versions begin with 1 again.
            const STATEMENTS: [&str; 2] = [
                "DELETE FROM service_instance WHERE environment_id = $1 AND id = $2",
                "DELETE FROM service_instance_log WHERE environment_id = $1 AND instance_id = $2",
            ];
            for sql in STATEMENTS {
                sqlx::query(sql)
                    .bind(environment.to_string())
                    .bind(id.to_string())
                    .execute(&mut *self)
                    .await?;
            }
            Ok(())
        }

        async fn references_write(
            &mut self,
            instance: &Instance,
            before: &BTreeSet<Uuid>,
            now: &BTreeSet<Uuid>,
        ) -> Result<()> {
            const ADD: &str = "INSERT INTO service_reference (environment_id, target_id, source_id) VALUES ($1, $2, $3) \
                               ON CONFLICT DO NOTHING";
            const DROP: &str = "DELETE FROM service_reference WHERE environment_id = $1 AND target_id = $2 \
                                AND source_id = $3";
            let added = now.difference(before).map(|id| (ADD, id));
            let dropped = before.difference(now).map(|id| (DROP, id));
            for (sql, id) in added.chain(dropped) {
                sqlx::query(sql)
                    .bind(instance.environment.to_string())
                    .bind(id.to_string())
                    .bind(instance.id.to_string())
                    .execute(&mut *self)
                    .await?;
            }
            Ok(())
        }

        async fn instances_there(
            &mut self,
            environment: EnvironmentId,
            ids: &[Uuid],
        ) -> Result<BTreeMap<Uuid, String>> {
            let mut there = BTreeMap::new();
            for chunk in ids.chunks(1000) {
                let sql = there_of(chunk.len());
                let mut query = sqlx::query_as(&sql).bind(environment.to_string());
                for id in chunk {
                    query = query.bind(id.to_string());
                }
                let rows: Vec<(String, String)> = query.fetch_all(&mut *self).await?;
                for (id, entity) in rows {
                    there.insert(parsed(TABLE, "id", &id)?, entity);
                }
            }
            Ok(there)
        }
    }
}

impl Store {
    /// The instance with this id.
    pub async fn service_fetch(
        &self,
        environment: EnvironmentId,
        id: Uuid,
    ) -> Result<Option<Instance>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 AND id = $2"))
                .bind(environment.to_string())
                .bind(id.to_string())
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_instance).transpose()
    }

    /// The instance of a service with this identity that has not ended.
    pub async fn service_fetch_by_identity(
        &self,
        environment: EnvironmentId,
        entity: &str,
        identity: &str,
    ) -> Result<Option<Instance>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND entity = $2 AND identity = $3 AND is_deleted = FALSE"
            ))
            .bind(environment.to_string())
            .bind(storable(entity))
            .bind(storable(identity))
            .fetch_optional(pool)
            .await?
        });
        row.map(Row::into_instance).transpose()
    }

    /// The instances that have not ended, name this one, and have changed since a moment, in no order.
    pub async fn service_referenced_since(
        &self,
        environment: EnvironmentId,
        id: Uuid,
        since: Timestamp,
    ) -> Result<Vec<Instance>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND is_deleted = FALSE AND updated_us >= $3 AND id IN \
                 (SELECT source_id FROM service_reference WHERE environment_id = $1 AND target_id = $2)"
            ))
            .bind(environment.to_string())
            .bind(id.to_string())
            .bind(since.0)
            .fetch_all(pool)
            .await?
        });
        rows.into_iter().map(Row::into_instance).collect()
    }

    /// The instances that have not ended and name this one, by id.
    pub async fn service_referenced_by(
        &self,
        environment: EnvironmentId,
        id: Uuid,
    ) -> Result<Vec<Uuid>> {
        const SQL: &str = "SELECT r.source_id FROM service_reference r JOIN service_instance i \
                           ON i.environment_id = r.environment_id AND i.id = r.source_id \
                           WHERE r.environment_id = $1 AND r.target_id = $2 AND i.is_deleted = FALSE ORDER BY r.source_id";
        let rows: Vec<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(id.to_string())
                .fetch_all(pool)
                .await?
        });
        let ids = rows.iter();
        ids.map(|(id,)| parsed("service_reference", "source_id", id))
            .collect()
    }
}
