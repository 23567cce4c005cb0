//! Versions: numbered, immutable desired states, held as intervals of resources.
//!
//! A version of a large environment has a hundred thousand resources, and the next one differs in
//! five of them. Both are complete states that can be read, compared and gone back to. To store
//! each as a whole would write a hundred thousand rows for five; to store differences would make
//! reading a version a walk over all versions before it.
//!
//! # How it is stored
//!
//! - `desired_resource`: what a resource shall be, from which version (inclusive) to which
//!   (exclusive; [`OPEN`]: up to the newest). One that stays the same is one row, in however many
//!   versions it is.
//! - `desired_set`: from which version to which a resource set has the same resources, with the
//!   digest of their digests. Resources without a set are the set with the empty name.
//! - `version`: the number, the commit, when it was made and released.
//!
//! A version is then no list but a question: *the rows whose interval holds its number*,
//! `from_version <= n AND to_version > n`.
//!
//! ```text
//!                   v1    v2    v3    v4
//! router 1          [ a               )[ b …        rows 1–4 and from 4
//! customer 7        [ c )[ d )[ c …                 rows 1–2, 2–3, and c again from 3
//! customer 9              [ e )                     came with v2, left with v3
//! ```
//!
//! To store v4 above ended one row and wrote another. Which sets are to be looked at is known from
//! their digests, without reading their resources; what changed between two versions from the rows
//! that end or begin between them, without reading what stayed. So neither costs more when there are
//! more resources that stay, or more versions before.
//!
//! A content that comes back after another one (a reverted commit) is written again: to find the
//! old row would take an index over the contents of all resources, which costs each new resource
//! more than the rest of its row.
//!
//! The key of a resource is its id with the *end* of the interval, and an open end is the greatest
//! number instead of NULL. So the index that has the ids in order also says which rows the newest
//! version has, and a page of it reads nothing of what was before.
//!
//! # Invariants
//!
//! - The intervals of one resource do not overlap, and at most one of them is open; the same holds
//!   for sets. A resource is in the set that its row says, and a set has a row where it has resources.
//! - Numbers of an environment rise by one, in the transaction that writes the version; two that
//!   are stored at the same time wait for each other on the row of the environment.
//! - Versions and contents are never changed after they are written, only ended once, and removed
//!   ([`Store::version_purge`]) when no version that is kept has them. Storing and removing take
//!   the same row first, so a version can not lose content that was taken for unused a moment before.

mod agents;
mod base;
mod cycle;
mod members;
mod partial;
mod plan;
mod purge;
mod rows;
mod write;

use std::collections::BTreeMap;

pub use cycle::Requirements;
use serde_json::Value;

use super::batch::Batches as _;
use super::listing::{Condition, List, Listed};
use super::macros::{read, row, transaction};
use super::{Error, Key, Part, Result, Span, Store, StoredResource, document};
use crate::domain::{AgentName, EnvironmentId, ResourceId, Timestamp, VersionNumber};

pub(super) use members::LargeSets;
pub use partial::{PartialCode, PartialVersion};
pub use plan::SetChange;
pub(super) use purge::ALONE;
pub(super) use rows::on_both;

/// The end of an interval that is up to the newest version. Statements have it as a number, since databases only then see
/// that an index of the open rows is the one to use.
const OPEN: i64 = i64::MAX;

/// A version without its resources.
#[derive(Debug, Clone)]
pub struct Version {
    pub number: VersionNumber,
    pub created: Timestamp,
    /// When it was released; `None`: it was not.
    pub released: Option<Timestamp>,
    pub compile_id: Option<String>,
    pub commit_id: Option<String>,
    pub tree_id: Option<String>,
    /// What the compile says about it, as a JSON object.
    pub metadata: Value,
    /// The Python modules that its handlers need, as the compile found them.
    pub modules: Value,
    pub n_resources: i64,
    /// Whether no dependency leads from one set into another, which a partial export could not keep true.
    pub is_partial_base: bool,
    /// The version that a partial export built it on; `None`: it came as a whole.
    pub partial_base: Option<VersionNumber>,
    /// As [`Sent::pip_config`].
    pub pip_config: Option<Value>,
    /// As [`Sent::project_constraints`].
    pub project_constraints: Option<String>,
}

/// What exporters say of a version and ask for again: nothing follows from it here.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// How pip was configured where the version was exported.
    pub pip_config: Option<Value>,
    /// Constraints of the versions of packages, a line each.
    pub project_constraints: Option<String>,
    /// Of a partial export: the version that it builds on, and the resources that it brought. The store sets it.
    pub partial: Option<(VersionNumber, Vec<ResourceId>)>,
}

/// A full desired state to store.
#[derive(Debug)]
pub struct NewVersion {
    pub environment_id: EnvironmentId,
    pub commit_id: Option<String>,
    pub tree_id: Option<String>,
    pub metadata: Value,
    pub modules: Value,
    /// What the model waits for, as a JSON list: parameters without a value.
    pub unknowns: Value,
    /// Where the model says that agents run: URIs by name.
    pub agent_places: BTreeMap<String, String>,
    pub resources: Vec<StoredResource>,
    /// Release it in the same transaction (`auto_deploy`).
    pub release: bool,
    pub sent: Sent,
}

row! {
    struct Row {
        number: VersionNumber,
        created_us: i64,
        released_us: Option<i64>,
        compile_id: Option<String>,
        commit_id: Option<String>,
        tree_id: Option<String>,
        metadata: String,
        modules: String,
        n_resources: i64,
        is_partial_base: bool,
        partial_base: Option<VersionNumber>,
        pip_config: Option<String>,
        project_constraints: Option<String>,
    }
}

impl Row {
    fn into_version(self) -> Result<Version> {
        let id = self.number.to_string();
        Ok(Version {
            number: self.number,
            created: Timestamp(self.created_us),
            released: self.released_us.map(Timestamp),
            compile_id: self.compile_id,
            commit_id: self.commit_id,
            tree_id: self.tree_id,
            metadata: document("version", "metadata", &id, &self.metadata)?,
            modules: document("version", "modules", &id, &self.modules)?,
            n_resources: self.n_resources,
            is_partial_base: self.is_partial_base,
            partial_base: self.partial_base,
            pip_config: self
                .pip_config
                .map(|text| document("version", "pip_config", &id, &text))
                .transpose()?,
            project_constraints: self.project_constraints,
        })
    }
}

macro_rules! columns {
    () => {
        "number, created_us, released_us, compile_id, commit_id, tree_id, metadata, modules, n_resources, \
         COALESCE(crossing, '') = '' AS is_partial_base, partial_base, pip_config, project_constraints"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            $crate::store::version::columns!(),
            " FROM version ",
            $rest
        )
    };
}
pub(in crate::store::version) use columns;
use select;

impl Listed for Row {
    const TABLE: &'static str = "version";
    const COLUMNS: &'static str = columns!();

    fn part(&self, _column: &str) -> Part {
        Part::Number(self.number.get())
    }
}

/// What versions are searched by.
#[derive(Debug, Clone, Default)]
pub struct VersionSearch {
    /// Bounds of the number: SQL's comparison, and the number.
    pub numbers: Vec<(&'static str, i64)>,
    /// Bounds of when they were stored, in microseconds: SQL's comparison, and the moment.
    pub dates: Vec<(&'static str, i64)>,
    pub is_released: Option<bool>,
    /// One of these, by the version in force.
    pub statuses: Vec<String>,
    pub active: Option<VersionNumber>,
}

impl VersionSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list().conditions.is_empty()
    }

    fn list(&self) -> List {
        const RELEASED: [&str; 2] = [" AND released_us IS NULL", " AND released_us IS NOT NULL"];
        // Source: docs/reference/deployment.md § 2.5.
        let status = match self.active.map(VersionNumber::get) {
            None => "CASE WHEN number = number THEN 'candidate' END".to_owned(),
            Some(active) => format!(
                "CASE WHEN number > {active} THEN 'candidate' WHEN number = {active} THEN 'active' \
                 WHEN released_us IS NOT NULL THEN 'retired' ELSE 'skipped_candidate' END"
            ),
        };
        let mut conditions: Vec<Condition> = Condition::compare("number", &self.numbers).collect();
        conditions.extend(Condition::compare("created_us", &self.dates));
        conditions.extend(Condition::flag(self.is_released, RELEASED));
        conditions.extend(Condition::is(status, &self.statuses));
        List {
            columns: &["number"],
            base: "",
            counted_as: "version",
            conditions,
        }
    }
}

impl Store {
    /// The versions that are searched for, each with its place, as far as the span goes.
    pub async fn version_page(
        &self,
        environment: EnvironmentId,
        search: &VersionSearch,
        span: &Span,
    ) -> Result<Vec<(Key, Version)>> {
        let rows = self
            .rows_page::<Row>(environment, &search.list(), span)
            .await?;
        let rows = rows.into_iter();
        rows.map(|(key, row)| Ok((key, row.into_version()?)))
            .collect()
    }

    /// How many versions are searched for within the span, up to its limit; without edges and search, all.
    pub async fn version_count(
        &self,
        environment: EnvironmentId,
        search: &VersionSearch,
        span: &Span,
    ) -> Result<i64> {
        self.rows_count::<Row>(environment, &search.list(), span)
            .await
    }

    /// The newest version that a compile of ours made.
    pub async fn version_newest_compiled(
        &self,
        environment: EnvironmentId,
    ) -> Result<Option<Version>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND compile_id IS NOT NULL ORDER BY number DESC LIMIT 1"
            ))
            .bind(environment.to_string())
            .fetch_optional(pool)
            .await?
        });
        row.map(Row::into_version).transpose()
    }

    /// Releases a stored version.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::Conflict`] when it is released, or older than a released one
    /// (docs/reference/deployment.md § 2.6).
    pub async fn version_release(
        &self,
        environment: EnvironmentId,
        number: VersionNumber,
    ) -> Result<()> {
        const NEWEST: &str =
            "SELECT MAX(number) FROM version WHERE environment_id = $1 AND released_us IS NOT NULL";
        const RELEASE: &str =
            "UPDATE version SET released_us = $3 WHERE environment_id = $1 AND number = $2";
        let id = environment.to_string();
        let now = Timestamp::now().0;
        transaction!(self.db, tx => {
            let row: Option<Row> = sqlx::query_as(select!("WHERE environment_id = $1 AND number = $2"))
                .bind(&id)
                .bind(number)
                .fetch_optional(&mut *tx)
                .await?;
            let (newest,): (Option<VersionNumber>,) = sqlx::query_as(NEWEST).bind(&id).fetch_one(&mut *tx).await?;
            match row {
                None => return Err(Error::NotFound(format!("version {number}"))),
                Some(row) if row.released_us.is_some() => {
                    return Err(Error::Conflict(format!("version {number} is released already")));
                }
                Some(_) if newest.is_some_and(|newest| newest > number) => {
                    return Err(Error::Conflict(format!(
                        "version {number} is older than the newest released version {}",
                        newest.unwrap_or_default()
                    )));
                }
                Some(_) => sqlx::query(RELEASE).bind(&id).bind(number).bind(now).execute(&mut *tx).await?.rows_affected(),
            }
        });
        Ok(())
    }

    pub async fn version_fetch(
        &self,
        environment: EnvironmentId,
        number: VersionNumber,
    ) -> Result<Option<Version>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 AND number = $2"))
                .bind(environment.to_string())
                .bind(number)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_version).transpose()
    }

    /// Newest first.
    pub async fn version_list(
        &self,
        environment: EnvironmentId,
        limit: i64,
    ) -> Result<Vec<Version>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY number DESC LIMIT $2"))
                .bind(environment.to_string())
                .bind(limit)
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_version).collect()
    }

    /// The trees of all stored versions of all environments.
    pub async fn version_trees(&self) -> Result<Vec<String>> {
        const SQL: &str = "SELECT DISTINCT tree_id FROM version WHERE tree_id IS NOT NULL";
        let rows: Vec<(String,)> =
            read!(self.db, pool => sqlx::query_as(SQL).fetch_all(pool).await?);
        Ok(rows.into_iter().map(|(tree,)| tree).collect())
    }

    /// Where the model of a version says that agents run, as a JSON object from names to URIs; empty: there is no such version.
    pub async fn version_agent_places(
        &self,
        environment: EnvironmentId,
        number: VersionNumber,
    ) -> Result<Value> {
        const SQL: &str =
            "SELECT agent_places FROM version WHERE environment_id = $1 AND number = $2";
        let row: Option<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(number).fetch_optional(pool).await?
        });
        let text = row.map_or_else(|| "{}".to_owned(), |(text,)| text);
        document("version", "agent_places", &number.to_string(), &text)
    }

    /// The code of all stored versions of all environments, each once.
    pub async fn version_modules(&self) -> Result<Vec<Value>> {
        const SQL: &str = "SELECT DISTINCT modules FROM version";
        let rows: Vec<(String,)> =
            read!(self.db, pool => sqlx::query_as(SQL).fetch_all(pool).await?);
        rows.iter()
            .map(|(text,)| document("version", "modules", "", text))
            .collect()
    }

    /// The newest released version.
    pub async fn version_released(&self, environment: EnvironmentId) -> Result<Option<Version>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND released_us IS NOT NULL ORDER BY number DESC LIMIT 1"
            ))
            .bind(environment.to_string())
            .fetch_optional(pool)
            .await?
        });
        row.map(Row::into_version).transpose()
    }

    /// Number and whether it is released, of all versions, newest first: lists are filtered by them.
    pub async fn version_keys(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<(VersionNumber, bool)>> {
        const SQL: &str = "SELECT number, released_us IS NOT NULL FROM version WHERE environment_id = $1 \
                           ORDER BY number DESC";
        Ok(read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        }))
    }

    /// The versions of these numbers that are stored, in no order.
    pub async fn version_some(
        &self,
        environment: EnvironmentId,
        numbers: &[VersionNumber],
    ) -> Result<Vec<Version>> {
        let mut versions = Vec::with_capacity(numbers.len());
        for chunk in numbers.chunks(1000) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                query.push_bind(environment.to_string()).push(" AND number IN (");
                let mut list = query.separated(", ");
                for number in chunk {
                    list.push_bind(number);
                }
                query.push(")");
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                versions.push(row.into_version()?);
            }
        }
        Ok(versions)
    }

    /// Writes that the desired state of `version` is in force, with the state rows that change by it.
    ///
    /// # Errors
    /// [`Error::NotFound`] without the environment.
    pub async fn version_activate(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        changed: &[super::ResourceState],
        removed: &[ResourceId],
        agents: &[AgentName],
    ) -> Result<()> {
        const ACTIVE: &str = "UPDATE environment SET active_version = $2 WHERE id = $1";
        let id = environment.to_string();
        transaction!(self.db, tx => {
            if !tx.begin_batch(&id).await? {
                return Err(Error::NotFound(format!("environment {id}")));
            }
            // What was removed and came back is in both: it is new.
            for chunk in removed.chunks(super::state::ROWS) {
                super::state::counted!(tx, &id, chunk, {
                    let mut update = sqlx::QueryBuilder::new(
                        "UPDATE resource_state SET is_deploying = FALSE, orphaned_after = COALESCE(\
                         (SELECT active_version FROM environment WHERE id = ",
                    );
                    update.push_bind(&id).push("), ").push_bind(version.previous());
                    update.push(") WHERE environment_id = ").push_bind(&id);
                    super::state::push_ids!(update, chunk);
                    update.build().execute(&mut *tx).await?;
                });
            }
            for chunk in changed.chunks(super::state::ROWS) {
                super::state::upsert!(tx, &id, chunk);
            }
            sqlx::query(ACTIVE).bind(&id).bind(version).execute(&mut *tx).await?;
            super::state::add_agents!(tx, &id, agents);
        });
        self.wrote_of(environment, "resource_state", changed.len() + removed.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
