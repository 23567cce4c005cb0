//! The durable queue of compiles and their reports.

use std::collections::BTreeMap;

use serde_json::Value;

mod queue;
pub(super) mod services;

pub use queue::{CompileBatches, Lane};
pub use services::{ServiceCompile, ServiceRequest};

use super::listing::{Condition, List, Listed};
use super::macros::{read, row, transaction, write};
use super::{Error, Key, Part, Result, Span, Store, document, parsed, storable};
use crate::domain::{CompileId, CompileState, EnvironmentId, Timestamp, VersionNumber};

/// A compile request: a row that asks for a compile.
#[derive(Debug, Clone)]
pub struct CompileRequest {
    pub environment_id: EnvironmentId,
    pub do_export: bool,
    /// Fetch first; otherwise the commit that is mirrored already.
    pub update: bool,
    /// `type`, `message` and what else the requester says.
    pub metadata: Value,
    pub variables: BTreeMap<String, String>,
}

/// A compile as it stands in the queue or in its report.
#[derive(Debug, Clone)]
pub struct Compile {
    pub id: CompileId,
    pub environment_id: EnvironmentId,
    pub requested: Timestamp,
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
    pub attempts: i64,
    pub state: CompileState,
    pub reason: Option<String>,
    pub do_export: bool,
    pub update: bool,
    pub metadata: Value,
    pub variables: BTreeMap<String, String>,
    pub commit_id: Option<String>,
    pub inputs_digest: Option<String>,
    /// JSON list of the compile contract's diagnostic objects.
    pub diagnostics: Value,
    pub version: Option<VersionNumber>,
    pub substitute: Option<CompileId>,
    /// What whoever asked calls it: of a service the correlation id.
    pub remote_id: Option<String>,
    /// What services asked for; `None`: it is a compile of the project.
    pub services: Option<ServiceRequest>,
}

impl Compile {
    /// Whether it is there to see if an instance of a service may go on.
    pub fn is_validation(&self) -> bool {
        let services = self.services.as_ref();
        services.is_some_and(ServiceRequest::is_validation)
    }
}

/// What compiles are searched by.
#[derive(Debug, Clone, Default)]
pub struct CompileSearch {
    pub is_success: Option<bool>,
    pub is_started: Option<bool>,
    pub is_completed: Option<bool>,
    /// Bounds of when they were asked for, in microseconds: SQL's comparison, and the moment.
    pub requested: Vec<(&'static str, i64)>,
}

row! {
    /// What lists of compiles are sorted by.
    struct ListedRow {
        id: String,
        requested_us: i64,
    }
}

impl Listed for ListedRow {
    const TABLE: &'static str = "compile";
    const COLUMNS: &'static str = "id, requested_us";

    fn part(&self, column: &str) -> Part {
        match column {
            "requested_us" => Part::Moment(Timestamp(self.requested_us)),
            _ => Part::text(&self.id),
        }
    }
}

impl CompileSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list().conditions.is_empty()
    }

    fn list(&self) -> List {
        // To the letter of the index of those that did not succeed, or in a way in which no index of states is used.
        const SUCCESS: [&str; 2] = [
            " AND state NOT IN ('exported', 'compiled')",
            " AND CASE WHEN state IN ('exported', 'compiled') THEN TRUE ELSE FALSE END",
        ];
        // What has not ended has not succeeded, and there are few of those.
        const STARTED: [&str; 2] = [
            " AND started_us IS NULL AND state NOT IN ('exported', 'compiled')",
            " AND started_us IS NOT NULL",
        ];
        const COMPLETED: [&str; 2] = [
            " AND completed_us IS NULL AND state NOT IN ('exported', 'compiled')",
            " AND completed_us IS NOT NULL",
        ];
        let flags = [
            Condition::flag(self.is_success, SUCCESS),
            Condition::flag(self.is_started, STARTED),
            Condition::flag(self.is_completed, COMPLETED),
        ];
        let requested = Condition::compare("requested_us", &self.requested);
        List {
            columns: &["requested_us", "id"],
            base: "",
            counted_as: "compile",
            conditions: flags.into_iter().flatten().chain(requested).collect(),
        }
    }
}

/// One step of a compile, with what it printed.
#[derive(Debug, Clone)]
pub struct Stage {
    pub id: String,
    pub name: String,
    pub command: String,
    pub started: Timestamp,
    pub completed: Option<Timestamp>,
    pub outstream: String,
    pub errstream: String,
    pub returncode: Option<i64>,
}

/// How a compile ended, and what it is a pure function of.
#[derive(Debug, Clone)]
pub struct CompileEnd {
    pub id: CompileId,
    /// Other requests that this run served.
    pub served: Vec<CompileId>,
    pub outcome: Outcome,
    pub diagnostics: Value,
    pub commit_id: Option<String>,
    pub tree_id: Option<String>,
    pub inputs_digest: Option<String>,
    pub result_digest: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Exported(VersionNumber),
    /// Good, but no export was asked for.
    Compiled,
    Rejected(String),
    Aborted(String),
}

row! {
    struct Row {
        id: String,
        environment_id: String,
        requested_us: i64,
        started_us: Option<i64>,
        completed_us: Option<i64>,
        attempts: i64,
        state: String,
        reason: Option<String>,
        do_export: bool,
        update_repository: bool,
        metadata: String,
        variables: String,
        commit_id: Option<String>,
        inputs_digest: Option<String>,
        diagnostics: String,
        version: Option<VersionNumber>,
        substitute_compile_id: Option<String>,
        remote_id: Option<String>,
        purpose: Option<String>,
        is_partial: bool,
        instances: String,
        instance_version: Option<i64>,
        removed_sets: String,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, environment_id, requested_us, started_us, completed_us, attempts, state, reason, do_export, \
             update_repository, metadata, variables, commit_id, inputs_digest, diagnostics, version, \
             substitute_compile_id, remote_id, purpose, is_partial, instances, instance_version, removed_sets \
             FROM compile ",
            $rest
        )
    };
}
use select;

impl Row {
    fn into_compile(self) -> Result<Compile> {
        let state = CompileState::parse(&self.state);
        let state = state.ok_or_else(|| Error::Row {
            table: "compile",
            column: "state",
            id: self.id.clone(),
        })?;
        let services = self.services()?;
        let substitute = self.substitute_compile_id.as_deref();
        Ok(Compile {
            id: parsed("compile", "id", &self.id)?,
            environment_id: parsed("compile", "environment_id", &self.environment_id)?,
            requested: Timestamp(self.requested_us),
            started: self.started_us.map(Timestamp),
            completed: self.completed_us.map(Timestamp),
            attempts: self.attempts,
            state,
            reason: self.reason,
            do_export: self.do_export,
            update: self.update_repository,
            metadata: document("compile", "metadata", &self.id, &self.metadata)?,
            variables: document("compile", "variables", &self.id, &self.variables)?,
            commit_id: self.commit_id,
            inputs_digest: self.inputs_digest,
            diagnostics: document("compile", "diagnostics", &self.id, &self.diagnostics)?,
            version: self.version,
            substitute: substitute
                .map(|id| parsed("compile", "substitute_compile_id", id))
                .transpose()?,
            remote_id: self.remote_id,
            services,
        })
    }

    fn services(&self) -> Result<Option<ServiceRequest>> {
        let Some(purpose) = &self.purpose else {
            return Ok(None);
        };
        let instances: Vec<String> = document("compile", "instances", &self.id, &self.instances)?;
        let purpose = ServiceRequest::purpose(purpose, &instances, self.instance_version);
        Ok(Some(ServiceRequest {
            purpose: purpose.ok_or_else(|| Error::Row {
                table: "compile",
                column: "purpose",
                id: self.id.clone(),
            })?,
            instances,
            removed_sets: document("compile", "removed_sets", &self.id, &self.removed_sets)?,
            is_partial: self.is_partial,
        }))
    }
}

/// The stage of a compile which says that everything is compiled, and why, where a part was asked for.
pub const EXPORTING_ALL: &str = "Exporting everything";

impl Store {
    /// Why everything is being compiled in an environment where a part was asked for, and by which compile.
    pub async fn compile_of_all(
        &self,
        environment: EnvironmentId,
    ) -> Result<Option<(CompileId, String)>> {
        const SQL: &str = "SELECT compile.id, outstream FROM compile \
                           JOIN compile_stage ON compile_id = compile.id \
                           WHERE environment_id = $1 AND state = 'running' AND name = $2 LIMIT 1";
        let row: Option<(String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(EXPORTING_ALL)
                .fetch_optional(pool)
                .await?
        });
        row.map(|(id, why)| Ok((parsed("compile", "id", &id)?, why)))
            .transpose()
    }

    /// Queues a compile durably.
    pub async fn compile_request(&self, request: &CompileRequest) -> Result<CompileId> {
        const SQL: &str = "INSERT INTO compile (id, environment_id, requested_us, state, do_export, \
                           update_repository, metadata, variables) VALUES ($1, $2, $3, 'queued', $4, $5, $6, $7)";
        let id = CompileId::generate();
        let (now, metadata) = (Timestamp::now().0, request.metadata.to_string());
        let variables = serde_json::json!(request.variables).to_string();
        write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(id.to_string())
                .bind(request.environment_id.to_string())
                .bind(now)
                .bind(request.do_export)
                .bind(request.update)
                .bind(&metadata)
                .bind(&variables)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(id)
    }

    /// Writes the end of a compile that stored no version; see [`Store::version_store`] for one that did. A power cut may take
    /// it away: then the compile runs again.
    pub async fn compile_finish(&self, end: &CompileEnd) -> Result<()> {
        transaction!(self.db, repeatable true, tx => finish!(tx, end));
        Ok(())
    }

    /// Adds or completes stages, each with its position. The last ones before a power cut may be missing.
    pub async fn stages_write(&self, compile: CompileId, stages: &[(i64, Stage)]) -> Result<()> {
        const SQL: &str = "INSERT INTO compile_stage (id, compile_id, position, name, command, started_us, \
                           completed_us, outstream, errstream, returncode) \
                           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO UPDATE SET \
                           completed_us = excluded.completed_us, outstream = excluded.outstream, \
                           errstream = excluded.errstream, returncode = excluded.returncode";
        if stages.is_empty() {
            return Ok(());
        }
        transaction!(self.db, repeatable true, tx => {
            for (position, stage) in stages {
                sqlx::query(SQL)
                    .bind(&stage.id)
                    .bind(compile.to_string())
                    .bind(position)
                    .bind(&stage.name)
                    .bind(&stage.command)
                    .bind(stage.started.0)
                    .bind(stage.completed.map(|completed| completed.0))
                    .bind(storable(&stage.outstream))
                    .bind(storable(&stage.errstream))
                    .bind(stage.returncode)
                    .execute(&mut *tx)
                    .await?;
            }
        });
        Ok(())
    }

    /// The stages of a compile, in the order in which they ran.
    pub async fn stage_list(&self, compile: CompileId) -> Result<Vec<Stage>> {
        const SQL: &str = "SELECT id, name, command, started_us, completed_us, outstream, errstream, returncode \
                           FROM compile_stage WHERE compile_id = $1 ORDER BY position, started_us";
        type Columns = (
            String,
            String,
            String,
            i64,
            Option<i64>,
            String,
            String,
            Option<i64>,
        );
        let rows: Vec<Columns> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(compile.to_string()).fetch_all(pool).await?
        });
        let stage =
            |(id, name, command, started, completed, outstream, errstream, returncode): Columns| {
                Stage {
                    id,
                    name,
                    command,
                    started: Timestamp(started),
                    completed: completed.map(Timestamp),
                    outstream,
                    errstream,
                    returncode,
                }
            };
        Ok(rows.into_iter().map(stage).collect())
    }

    pub async fn compile_fetch(&self, id: CompileId) -> Result<Option<Compile>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE id = $1")).bind(id.to_string()).fetch_optional(pool).await?
        });
        row.map(Row::into_compile).transpose()
    }

    /// The compiles that are searched for, by when they were asked for, each with its place and without its diagnostics, as
    /// far as the span goes.
    pub async fn compile_page(
        &self,
        environment: EnvironmentId,
        search: &CompileSearch,
        span: &Span,
    ) -> Result<Vec<(Key, Compile)>> {
        let rows = self
            .rows_page::<ListedRow>(environment, &search.list(), span)
            .await?;
        let ids = rows.iter().map(|(_, row)| parsed("compile", "id", &row.id));
        let ids: Vec<CompileId> = ids.collect::<Result<_>>()?;
        let mut compiles = self.compile_summaries(&ids).await?;
        let rows = rows.into_iter().zip(ids);
        // What was removed meanwhile has no place in the list any more.
        let rows = rows.filter_map(|((key, _), id)| Some((key, compiles.remove(&id)?)));
        Ok(rows.collect())
    }

    /// How many compiles are searched for within the span, up to its limit; without edges and search, all.
    pub async fn compile_count(
        &self,
        environment: EnvironmentId,
        search: &CompileSearch,
        span: &Span,
    ) -> Result<i64> {
        self.rows_count::<ListedRow>(environment, &search.list(), span)
            .await
    }

    /// Compiles without their diagnostics, which may be long, by id.
    async fn compile_summaries(&self, ids: &[CompileId]) -> Result<BTreeMap<CompileId, Compile>> {
        const SQL: &str = "SELECT id, environment_id, requested_us, started_us, completed_us, attempts, state, \
                           reason, do_export, update_repository, metadata, variables, commit_id, inputs_digest, \
                           '[]' AS diagnostics, version, substitute_compile_id, remote_id, purpose, is_partial, \
                           instances, instance_version, removed_sets FROM compile WHERE id IN (";
        let mut found = BTreeMap::new();
        for chunk in ids.chunks(1000) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(SQL);
                let mut list = query.separated(", ");
                for id in chunk {
                    list.push_bind(id.to_string());
                }
                query.push(")");
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                let compile = row.into_compile()?;
                found.insert(compile.id, compile);
            }
        }
        Ok(found)
    }

    /// Newest request first.
    pub async fn compile_list(
        &self,
        environment: EnvironmentId,
        limit: i64,
    ) -> Result<Vec<Compile>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY requested_us DESC, id DESC LIMIT $2"))
                .bind(environment.to_string())
                .bind(limit)
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_compile).collect()
    }

    /// The newest compile of an environment that came to a verdict on its model. Those that services asked for do not count: they
    /// are of the commit that the catalog follows, and may export while the newest commit is rejected.
    ///
    /// What ended later than now did so before the clock was set back. It is older than all that ended since: if it counted as the
    /// newest, each look at the repository would compile the head again, until the clock is past that moment.
    pub async fn compile_last_judged(&self, environment: EnvironmentId) -> Result<Option<Compile>> {
        let now = Timestamp::now().0;
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND state IN ('exported', 'rejected') AND do_export = TRUE \
                 AND purpose IS NULL ORDER BY CASE WHEN completed_us > $2 THEN 1 ELSE 0 END, completed_us DESC, \
                 requested_us DESC LIMIT 1"
            ))
            .bind(environment.to_string())
            .bind(now)
            .fetch_optional(pool)
            .await?
        });
        row.map(Row::into_compile).transpose()
    }
}

/// Writes a compile's end, and that of the requests it served, on the transaction `$tx`.
macro_rules! finish {
    ($tx:expr, $end:expr) => {{
        const FINISH: &str = "UPDATE compile SET state = $2, reason = $3, completed_us = $4, version = $5, \
                              diagnostics = $6, commit_id = $7, tree_id = $8, inputs_digest = $9, \
                              result_digest = $10, compiler_version = $11, substitute_compile_id = $12 WHERE id = $1";
        let end: &$crate::store::CompileEnd = $end;
        let (state, reason, version) = end.outcome.columns();
        let diagnostics = end.diagnostics.to_string();
        let now = $crate::domain::Timestamp::now().0;
        for id in std::iter::once(&end.id).chain(&end.served) {
            sqlx::query(FINISH)
                .bind(id.to_string())
                .bind(state)
                .bind(reason)
                .bind(now)
                .bind(version)
                .bind(&diagnostics)
                .bind(end.commit_id.as_deref())
                .bind(end.tree_id.as_deref())
                .bind(end.inputs_digest.as_deref())
                .bind(end.result_digest.as_deref())
                .bind(env!("CARGO_PKG_VERSION"))
                .bind((*id != end.id).then(|| end.id.to_string()))
                .execute(&mut *$tx)
                .await?;
        }
    }};
}
pub(super) use finish;

impl Outcome {
    /// state, reason, version
    pub(super) fn columns(&self) -> (&'static str, Option<&str>, Option<VersionNumber>) {
        match self {
            Self::Exported(version) => (CompileState::Exported.as_str(), None, Some(*version)),
            Self::Compiled => (CompileState::Compiled.as_str(), None, None),
            Self::Rejected(reason) => (CompileState::Rejected.as_str(), Some(reason), None),
            Self::Aborted(reason) => (CompileState::Aborted.as_str(), Some(reason), None),
        }
    }
}

#[cfg(test)]
mod tests;
