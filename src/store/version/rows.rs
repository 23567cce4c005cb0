//! The statements that store a version, few whatever it has.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;

use sqlx::{PgConnection, SqliteConnection};
use uuid::Uuid;

use super::plan::{OpenResource, Plan};
use super::{NewVersion, OPEN};
use crate::domain::{AgentName, ResourceId, VersionNumber};
use crate::store::compile::finish;
use crate::store::{CompileEnd, Error, Outcome, Result, StoredResource};

/// What a version says beside its resources.
pub(super) struct Header<'a> {
    pub(super) number: VersionNumber,
    pub(super) n_resources: i64,
    pub(super) crossing: &'a str,
    pub(super) now: i64,
}

/// Rows of one statement. With fifteen columns that is well within SQLite's 32766 parameters, and a statement of this
/// length is prepared once and kept.
const ROWS: usize = 500;

/// The steps of storing a version, on a connection in a transaction.
pub(super) trait Writer {
    async fn next_number(&mut self, environment: &str) -> Result<VersionNumber>;
    /// The digests of the sets of the newest version, by name.
    async fn open_sets(&mut self, environment: &str) -> Result<HashMap<String, String>>;
    /// The same of these sets only.
    async fn open_some_sets(
        &mut self,
        environment: &str,
        sets: &[&str],
    ) -> Result<HashMap<String, String>>;
    /// The resources that these sets have in the newest version.
    async fn open_members(&mut self, environment: &str, sets: &[&str])
    -> Result<Vec<OpenResource>>;
    /// Those of these resources that the newest version has, whatever their sets.
    async fn open_some_members(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> Result<Vec<OpenResource>>;
    async fn write_plan(
        &mut self,
        environment: &str,
        plan: &Plan<'_>,
        header: &Header<'_>,
    ) -> Result<()>;
    async fn write_header(
        &mut self,
        new: &NewVersion,
        header: &Header<'_>,
        end: Option<&CompileEnd>,
    ) -> Result<()>;
}

/// The one step that is not the same text on both: a row of many columns, many times.
trait InsertResources {
    fn insert_resources(
        &mut self,
        environment: &str,
        header: &Header<'_>,
        resources: &[&StoredResource],
    ) -> impl Future<Output = sqlx::Result<()>> + Send;
}

const COLUMNS: &str = "INSERT INTO desired_resource (environment_id, from_version, to_version, created_us, resource_id, \
                       set_name, digest, resource_type, agent, id_attribute, id_value, attributes, attribute_hash, \
                       requires, is_undefined) ";

fn requires_text(resource: &StoredResource) -> String {
    if resource.requires.is_empty() {
        return "[]".to_owned();
    }
    serde_json::json!(resource.requires).to_string()
}

impl InsertResources for SqliteConnection {
    async fn insert_resources(
        &mut self,
        environment: &str,
        header: &Header<'_>,
        resources: &[&StoredResource],
    ) -> sqlx::Result<()> {
        for chunk in resources.chunks(ROWS) {
            let mut insert = sqlx::QueryBuilder::new(COLUMNS);
            insert.push_values(chunk, |mut row, resource| {
                row.push_bind(environment)
                    .push_bind(header.number)
                    .push_bind(OPEN)
                    .push_bind(header.now)
                    .push_bind(&resource.resource_id)
                    .push_bind(&resource.set_name)
                    .push_bind(&resource.digest)
                    .push_bind(&resource.resource_type)
                    .push_bind(&resource.agent)
                    .push_bind(&resource.id_attribute)
                    .push_bind(&resource.id_value)
                    .push_bind(&resource.attributes)
                    .push_bind(&resource.attribute_hash)
                    .push_bind(requires_text(resource))
                    .push_bind(resource.is_undefined);
            });
            insert.build().execute(&mut *self).await?;
        }
        Ok(())
    }
}

impl InsertResources for PgConnection {
    /// Columns as arrays, which make the same statement of any number of rows. It is planned once: each plan of its own would hold
    /// copies of all that the arrays hold.
    async fn insert_resources(
        &mut self,
        environment: &str,
        header: &Header<'_>,
        resources: &[&StoredResource],
    ) -> sqlx::Result<()> {
        let sql = format!(
            "{COLUMNS} SELECT $1, $2, $3, $4, * FROM UNNEST($5::TEXT[], $6::TEXT[], $7::TEXT[], $8::TEXT[], $9::TEXT[], \
             $10::TEXT[], $11::TEXT[], $12::TEXT[], $13::TEXT[], $14::TEXT[], $15::BOOLEAN[])"
        );
        const PLAN_ONCE: &str = "SET LOCAL plan_cache_mode TO force_generic_plan";
        // As `line::options` has it.
        const PLAN_EACH: &str = "SET LOCAL plan_cache_mode TO force_custom_plan";
        sqlx::query(PLAN_ONCE).execute(&mut *self).await?;
        for chunk in resources.chunks(ROWS) {
            let column = |of: fn(&StoredResource) -> &str| -> Vec<&str> {
                chunk.iter().map(|resource| of(resource)).collect()
            };
            let requires: Vec<String> = chunk.iter().map(|one| requires_text(one)).collect();
            let undefined: Vec<bool> = chunk.iter().map(|one| one.is_undefined).collect();
            sqlx::query(&sql)
                .bind(environment)
                .bind(header.number)
                .bind(OPEN)
                .bind(header.now)
                .bind(column(|one| one.resource_id.as_str()))
                .bind(column(|one| &one.set_name))
                .bind(column(|one| &one.digest))
                .bind(column(|one| &one.resource_type))
                .bind(column(|one| one.agent.as_str()))
                .bind(column(|one| &one.id_attribute))
                .bind(column(|one| &one.id_value))
                .bind(column(|one| &one.attributes))
                .bind(column(|one| &one.attribute_hash))
                .bind(requires)
                .bind(undefined)
                .execute(&mut *self)
                .await?;
        }
        sqlx::query(PLAN_EACH).execute(&mut *self).await?;
        Ok(())
    }
}

/// Writes the bodies once for each of the two connections.
macro_rules! on_both {
    ($trait:ident { $($item:tt)* }) => {
        impl $trait for SqliteConnection { $($item)* }
        impl $trait for PgConnection { $($item)* }
    };
}
pub(in crate::store) use on_both;

on_both! {
    Writer {
        async fn next_number(&mut self, environment: &str) -> Result<VersionNumber> {
            const SQL: &str = "UPDATE environment SET last_version = last_version + 1 WHERE id = $1 \
                               RETURNING last_version";
            let number: Option<(VersionNumber,)> =
                sqlx::query_as(SQL).bind(environment).fetch_optional(&mut *self).await?;
            match number {
                Some((number,)) => Ok(number),
                None => Err(Error::NotFound(format!("environment {environment}"))),
            }
        }

        async fn open_sets(&mut self, environment: &str) -> Result<HashMap<String, String>> {
            const SQL: &str = "SELECT set_name, digest FROM desired_set \
                               WHERE environment_id = $1 AND to_version = 9223372036854775807";
            let rows: Vec<(String, String)> =
                sqlx::query_as(SQL).bind(environment).fetch_all(&mut *self).await?;
            Ok(rows.into_iter().collect())
        }

        async fn open_some_sets(&mut self, environment: &str, sets: &[&str]) -> Result<HashMap<String, String>> {
            let mut open = HashMap::new();
            for chunk in sets.chunks(ROWS) {
                let mut query =
                    sqlx::QueryBuilder::new("SELECT set_name, digest FROM desired_set WHERE environment_id = ");
                query.push_bind(environment);
                query.push(" AND to_version = 9223372036854775807 AND set_name IN (");
                let mut list = query.separated(", ");
                for set in chunk {
                    list.push_bind(*set);
                }
                query.push(")");
                let rows: Vec<(String, String)> = query.build_query_as().fetch_all(&mut *self).await?;
                open.extend(rows);
            }
            Ok(open)
        }

        async fn open_members(&mut self, environment: &str, sets: &[&str]) -> Result<Vec<OpenResource>> {
            let mut members = Vec::new();
            for chunk in sets.chunks(ROWS) {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, digest, set_name FROM desired_resource WHERE environment_id = ",
                );
                query.push_bind(environment);
                query.push(" AND to_version = 9223372036854775807 AND set_name IN (");
                let mut list = query.separated(", ");
                for set in chunk {
                    list.push_bind(*set);
                }
                query.push(")");
                let rows: Vec<OpenResource> = query.build_query_as().fetch_all(&mut *self).await?;
                members.extend(rows);
            }
            Ok(members)
        }

        async fn open_some_members(&mut self, environment: &str, ids: &[&ResourceId]) -> Result<Vec<OpenResource>> {
            let mut members = Vec::new();
            for chunk in ids.chunks(ROWS) {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, digest, set_name FROM desired_resource WHERE environment_id = ",
                );
                query.push_bind(environment);
                query.push(" AND to_version = 9223372036854775807");
                crate::store::state::push_ids!(query, chunk.iter().copied());
                let rows: Vec<OpenResource> = query.build_query_as().fetch_all(&mut *self).await?;
                members.extend(rows);
            }
            Ok(members)
        }

        async fn write_plan(&mut self, environment: &str, plan: &Plan<'_>, header: &Header<'_>) -> Result<()> {
            for chunk in plan.ended.chunks(ROWS) {
                let mut update = sqlx::QueryBuilder::new("UPDATE desired_resource SET to_version = ");
                update.push_bind(header.number).push(" WHERE environment_id = ").push_bind(environment);
                update.push(" AND to_version = 9223372036854775807");
                crate::store::state::push_ids!(update, chunk);
                update.build().execute(&mut *self).await?;
            }
            self.insert_resources(environment, header, &plan.begun).await?;
            // They can be paused before the version is released.
            let agents: BTreeSet<&AgentName> = plan.begun.iter().map(|resource| &resource.agent).collect();
            let agents: Vec<&AgentName> = agents.into_iter().collect();
            crate::store::state::add_agents!(self, environment, &agents);
            for chunk in plan.ended_sets.chunks(ROWS) {
                let mut update = sqlx::QueryBuilder::new("UPDATE desired_set SET to_version = ");
                update.push_bind(header.number).push(" WHERE environment_id = ").push_bind(environment);
                update.push(" AND to_version = 9223372036854775807 AND set_name IN (");
                let mut list = update.separated(", ");
                for name in chunk {
                    list.push_bind(*name);
                }
                update.push(")");
                update.build().execute(&mut *self).await?;
            }
            for chunk in plan.begun_sets.chunks(ROWS) {
                let mut insert = sqlx::QueryBuilder::new(
                    "INSERT INTO desired_set (environment_id, set_name, from_version, to_version, digest, n_resources) ",
                );
                insert.push_values(chunk, |mut row, (name, set)| {
                    row.push_bind(environment)
                        .push_bind(*name)
                        .push_bind(header.number)
                        .push_bind(OPEN)
                        .push_bind(&set.digest)
                        .push_bind(set.members.len() as i64);
                });
                insert.build().execute(&mut *self).await?;
            }
            Ok(())
        }

        async fn write_header(
            &mut self,
            new: &NewVersion,
            header: &Header<'_>,
            end: Option<&CompileEnd>,
        ) -> Result<()> {
            const VERSION: &str = "INSERT INTO version (environment_id, number, created_us, released_us, compile_id, \
                                   commit_id, tree_id, metadata, modules, unknowns, n_resources, crossing, agent_places, \
                                   partial_base, sent_ids, pip_config, project_constraints) \
                                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
            const ACTION: &str = "INSERT INTO resource_action (id, environment_id, action, version, resource_id, \
                                  started_us, finished_us, messages) VALUES ($1, $2, 'store', $3, '', $4, $4, $5)";
            let (environment, number) = (new.environment_id.to_string(), header.number);
            let partial = new.sent.partial.as_ref();
            sqlx::query(VERSION)
                .bind(&environment)
                .bind(number)
                .bind(header.now)
                .bind(new.release.then_some(header.now))
                .bind(end.map(|end| end.id.to_string()))
                .bind(new.commit_id.as_deref())
                .bind(new.tree_id.as_deref())
                .bind(new.metadata.to_string())
                .bind(new.modules.to_string())
                .bind(new.unknowns.to_string())
                .bind(header.n_resources)
                .bind(header.crossing)
                .bind(serde_json::json!(new.agent_places).to_string())
                .bind(partial.map(|(base, _)| *base))
                .bind(partial.map(|(_, ids)| serde_json::json!(ids).to_string()))
                .bind(new.sent.pip_config.as_ref().map(serde_json::Value::to_string))
                .bind(new.sent.project_constraints.as_deref())
                .execute(&mut *self)
                .await?;
            let message = serde_json::json!([{
                "level": "INFO", "args": [], "kwargs": {"version": number, "n_resources": header.n_resources},
                "msg": format!("stored version {number} with {} resources", header.n_resources),
                "timestamp_us": header.now,
            }]);
            sqlx::query(ACTION)
                .bind(Uuid::now_v7().to_string())
                .bind(&environment)
                .bind(number)
                .bind(header.now)
                .bind(message.to_string())
                .execute(&mut *self)
                .await?;
            if let Some(end) = end {
                let end = CompileEnd {
                    outcome: Outcome::Exported(number),
                    ..end.clone()
                };
                finish!(self, &end);
            }
            Ok(())
        }
    }
}
