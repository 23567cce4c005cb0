//! Compiles that services ask for: requests that are written together with what caused them, and ends that somebody must
//! take note of. Source: docs/reference/lsm.md § 3.7, § 3.8.

use serde_json::Value;
use sqlx::{PgConnection, SqliteConnection};
use steward_compiler::ServicePurpose;
use uuid::Uuid;

use super::{Compile, Row};
use crate::domain::{CompileId, EnvironmentId, Timestamp};
use crate::store::macros::{read, transaction};
use crate::store::version::on_both;
use crate::store::{Result, Store};

/// A compile that a service instance needs.
#[derive(Debug, Clone)]
pub struct ServiceCompile {
    pub purpose: ServicePurpose,
    /// The ids of the instances that it is for: of a validation the one, of a production compile those that have changed.
    pub instances: Vec<String>,
    /// Resource sets that shall be no more. A set of which the compile still exports something stays.
    pub removed_sets: Vec<String>,
    /// Only the instances and what belongs to them are compiled.
    pub is_partial: bool,
    /// The correlation id of the event that asks. A validation under the id of one that is known is not queued again.
    pub correlation_id: Uuid,
    /// `type`, `message` and what docs/reference/lsm.md § 3.8 says.
    pub metadata: Value,
    pub requested_at: Timestamp,
    /// When the instance was made: what was validated before was another one that had its id.
    pub made_at: Timestamp,
}

/// What a compile was asked for by services.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceRequest {
    pub purpose: ServicePurpose,
    pub instances: Vec<String>,
    pub removed_sets: Vec<String>,
    pub is_partial: bool,
}

impl ServiceRequest {
    /// Whether it is there to see if an instance may go on; such a compile exports nothing, and does not wait for exports.
    pub fn is_validation(&self) -> bool {
        matches!(self.purpose, ServicePurpose::Validation { .. })
    }

    /// What it is for, for people.
    pub fn what_for(&self) -> String {
        match (&self.purpose, self.instances.as_slice()) {
            (ServicePurpose::Validation { instance, version }, _) => {
                format!("validates version {version} of the service instance {instance}")
            }
            (ServicePurpose::Definitions, _) => "exports the definitions of services".to_owned(),
            (ServicePurpose::Production, [instance]) if self.is_partial => {
                format!("exports the service instance {instance}")
            }
            (ServicePurpose::Production, instances) if self.is_partial => {
                format!("exports {} service instances", instances.len())
            }
            (ServicePurpose::Production, _) => "exports all service instances".to_owned(),
        }
    }

    /// Whether it exports parts of several instances.
    pub fn is_batch(&self) -> bool {
        self.is_partial && !self.is_validation() && self.instances.len() > 1
    }

    /// Whether one compile can do both; with batching also for different instances.
    pub(super) fn merges_with(&self, other: &Self, is_batching: bool) -> bool {
        let is_joined = is_batching && self.is_partial && !self.is_validation();
        self.purpose == other.purpose
            && self.is_partial == other.is_partial
            && (!self.is_partial || is_joined || self.instances == other.instances)
    }

    /// Takes in what a request that it merges with asks for.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.is_partial && !self.is_validation() {
            add_new(&mut self.instances, &other.instances);
        }
        add_new(&mut self.removed_sets, &other.removed_sets);
    }

    /// The purpose as a column has it.
    fn purpose_column(purpose: &ServicePurpose) -> (&'static str, Option<i64>) {
        match purpose {
            ServicePurpose::Production => ("production", None),
            ServicePurpose::Validation { version, .. } => {
                let version = i64::try_from(*version).unwrap_or(i64::MAX);
                ("validation", Some(version))
            }
            ServicePurpose::Definitions => ("definitions", None),
        }
    }

    /// The purpose back from its columns; `None`: the words are not ours.
    pub(super) fn purpose(
        column: &str,
        instances: &[String],
        version: Option<i64>,
    ) -> Option<ServicePurpose> {
        match column {
            "production" => Some(ServicePurpose::Production),
            "definitions" => Some(ServicePurpose::Definitions),
            "validation" => Some(ServicePurpose::Validation {
                instance: instances.first()?.clone(),
                version: u64::try_from(version?).ok()?,
            }),
            _ => None,
        }
    }
}

fn add_new(all: &mut Vec<String>, more: &[String]) {
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
}

/// Queues compiles of services on a connection, so that a request is stored with the transfer that asks for it, or neither.
pub(in crate::store) trait ServiceCompiles {
    /// Queues a compile durably. The caller wakes the environment when its transaction is committed.
    async fn compile_request_services(
        &mut self,
        environment: EnvironmentId,
        request: &ServiceCompile,
    ) -> Result<CompileId>;

    /// The validation that was asked for under this correlation id, not before `made`, to decide about this very transfer:
    /// that of an automatic transfer has an id made of the instance and its version. The lifecycle may have changed since, so
    /// that another transfer is to be decided about in the same version.
    async fn validation_known(
        &mut self,
        environment: EnvironmentId,
        correlation_id: Uuid,
        made: Timestamp,
        edge: &Value,
    ) -> Result<Option<CompileId>>;
}

on_both! {
    ServiceCompiles {
        async fn compile_request_services(
            &mut self,
            environment: EnvironmentId,
            request: &ServiceCompile,
        ) -> Result<CompileId> {
            const INSERT: &str = "INSERT INTO compile (id, environment_id, remote_id, requested_us, state, do_export, \
                                  update_repository, metadata, variables, purpose, is_partial, instances, \
                                  instance_version, removed_sets, is_handled) \
                                  SELECT $1, id, $3, $4, 'queued', $5, FALSE, $6, variables, $7, $8, $9, $10, $11, FALSE \
                                  FROM environment WHERE id = $2";
            let (purpose, version) = ServiceRequest::purpose_column(&request.purpose);
            if matches!(request.purpose, ServicePurpose::Validation { .. }) {
                let (id, made) = (request.correlation_id, request.made_at);
                let edge = &request.metadata["edge"];
                if let Some(known) = self.validation_known(environment, id, made, edge).await? {
                    return Ok(known);
                }
            }
            let id = CompileId::generate();
            sqlx::query(INSERT)
                .bind(id.to_string())
                .bind(environment.to_string())
                .bind(request.correlation_id.to_string())
                .bind(request.requested_at.0)
                .bind(request.purpose == ServicePurpose::Production)
                .bind(request.metadata.to_string())
                .bind(purpose)
                .bind(request.is_partial)
                .bind(serde_json::json!(request.instances).to_string())
                .bind(version)
                .bind(serde_json::json!(request.removed_sets).to_string())
                .execute(&mut *self)
                .await?;
            Ok(id)
        }

        async fn validation_known(
            &mut self,
            environment: EnvironmentId,
            correlation_id: Uuid,
            made: Timestamp,
            edge: &Value,
        ) -> Result<Option<CompileId>> {
            const SQL: &str = "SELECT id, metadata FROM compile WHERE environment_id = $1 AND remote_id = $2 \
                               AND purpose = 'validation' AND requested_us >= $3";
            let known: Vec<(String, String)> = sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(correlation_id.to_string())
                .bind(made.0)
                .fetch_all(&mut *self)
                .await?;
            for (id, metadata) in known {
                let metadata: Value = crate::store::document("compile", "metadata", &id, &metadata)?;
                if metadata["edge"] == *edge {
                    return Ok(Some(crate::store::parsed("compile", "id", &id)?));
                }
            }
            Ok(None)
        }
    }
}

impl Store {
    /// Queues a compile that a service instance needs, in a transaction of its own. See `ServiceCompiles` for one within
    /// another transaction.
    pub async fn compile_request_services(
        &self,
        environment: EnvironmentId,
        request: &ServiceCompile,
    ) -> Result<CompileId> {
        Ok(transaction!(self.db, tx => tx.compile_request_services(environment, request).await?))
    }

    /// Compiles of services that have ended, and whose end nobody has taken note of yet; oldest first.
    pub async fn compile_unhandled(&self, environment: EnvironmentId) -> Result<Vec<Compile>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(super::select!(
                "WHERE environment_id = $1 AND NOT is_handled AND state NOT IN ('queued', 'running') \
                 ORDER BY completed_us, requested_us, id"
            ))
            .bind(environment.to_string())
            .fetch_all(pool)
            .await?
        });
        rows.into_iter().map(Row::into_compile).collect()
    }

    /// Queues a compile again that this server could not do, in its old place; `false`: it did not end so.
    pub async fn compile_try_again(&self, id: CompileId) -> Result<bool> {
        const SQL: &str = "UPDATE compile SET state = 'queued', started_us = NULL, completed_us = NULL, reason = NULL, \
                           substitute_compile_id = NULL WHERE id = $1 AND state = 'aborted'";
        let n_rows = transaction!(self.db, repeatable true, tx => {
            sqlx::query(SQL).bind(id.to_string()).execute(&mut *tx).await?.rows_affected()
        });
        Ok(n_rows > 0)
    }

    /// The end of a compile has been taken note of: it is not reported again.
    pub async fn compile_handled(&self, id: CompileId) -> Result<()> {
        const SQL: &str = "UPDATE compile SET is_handled = TRUE WHERE id = $1";
        transaction!(self.db, repeatable true, tx => {
            sqlx::query(SQL).bind(id.to_string()).execute(&mut *tx).await?.rows_affected()
        });
        Ok(())
    }
}
