//! Versions: numbered, immutable desired states, held as intervals of set revisions.
//!
//! A version of a large environment has a hundred thousand resources, and the next one differs in
//! five of them. Both are complete states that can be read, compared and gone back to. To store
//! each as a whole would write a hundred thousand rows for five; to store differences would make
//! reading a version a walk over all versions before it.
//!
//! # How it is stored
//!
//! - `resource`: a resource by the digest of all that it says. One that is the same in many
//!   versions is one row.
//! - `set_revision` with `set_member`: one content of a resource set, by the digest of its members'
//!   digests. Resources without a set are the set with the empty name.
//! - `set_interval`: from which version (inclusive) to which (exclusive; `NULL`: up to the newest)
//!   a set has this revision.
//! - `version`: the number, the commit, when it was made and released.
//!
//! A version is then no list but a question: *the revisions whose interval holds its number*,
//! `from_version <= n AND (to_version IS NULL OR n < to_version)`.
//!
//! ```text
//!                   v1    v2    v3    v4
//! set network       [ revision a      )[ b …        interval 1–4 and from 4
//! set customer-7    [ c )[ d )[ c …                 interval 1–2, 2–3, from 3: c was known already
//! set customer-9          [ e )                     came with v2, left with v3
//! ```
//!
//! To store v4 above closed one interval and opened another, and wrote the new revision `b` with
//! those of its resources that were not there. What changed between two versions is found by
//! looking at the intervals that end or begin between them (`resource_changes`), without reading
//! what stayed.
//!
//! # Invariants
//!
//! - The intervals of one set do not overlap, and at most one of them is open. A set without an
//!   interval at a number is not in that version.
//! - Numbers of an environment rise by one, in the transaction that writes the version; two that
//!   are stored at the same time wait for each other on the row of the environment.
//! - Versions, revisions and resources are never changed after they are written, only removed
//!   ([`Store::version_purge`]), and only when no version that is kept has them. Storing and
//!   removing take the same row first, so a version can not lose content that was taken for unused
//!   a moment before.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::compile::finish;
use super::macros::{read, row, transaction};
use super::{CompileEnd, Error, Outcome, Result, Store, StoredResource, document};
use crate::domain::{AgentName, EnvironmentId, ResourceId, Timestamp, VersionNumber};

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
    pub resources: Vec<StoredResource>,
    /// Release it in the same transaction (`auto_deploy`).
    pub release: bool,
}

/// What storing a version wrote: the laws of docs/design.md § 3 are about this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetChange {
    pub n_sets_written: usize,
    pub n_resources_written: usize,
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
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT number, created_us, released_us, compile_id, commit_id, tree_id, metadata, modules, n_resources \
             FROM version ",
            $rest
        )
    };
}

/// Rows of one INSERT: within SQLite's 32766 parameters.
const ROWS_PER_INSERT: usize = 2000;

/// Writes resources on the transaction `$tx`; one whose content is there already stays as it is.
macro_rules! insert_resources {
    ($tx:expr, $environment:expr, $now:expr, $resources:expr) => {
        for chunk in $resources.chunks(ROWS_PER_INSERT) {
            let mut insert = sqlx::QueryBuilder::new(
                "INSERT INTO resource (environment_id, digest, resource_id, resource_type, agent, \
                 id_attribute, id_value, attributes, attribute_hash, requires, is_undefined, \
                 created_us) ",
            );
            insert.push_values(chunk, |mut row, resource| {
                row.push_bind($environment)
                    .push_bind(&resource.digest)
                    .push_bind(&resource.resource_id)
                    .push_bind(&resource.resource_type)
                    .push_bind(&resource.agent)
                    .push_bind(&resource.id_attribute)
                    .push_bind(&resource.id_value)
                    .push_bind(&resource.attributes)
                    .push_bind(&resource.attribute_hash)
                    .push_bind(serde_json::json!(resource.requires).to_string())
                    .push_bind(resource.is_undefined)
                    .push_bind($now);
            });
            insert.push(" ON CONFLICT (environment_id, digest) DO NOTHING");
            insert.build().execute(&mut *$tx).await?;
        }
    };
}

/// Writes, on the transaction `$tx`, which resources a set revision has, in order.
macro_rules! insert_members {
    ($tx:expr, $revision:expr, $members:expr) => {
        let positions: Vec<_> = $members.iter().enumerate().collect();
        for chunk in positions.chunks(ROWS_PER_INSERT * 4) {
            let mut insert =
                sqlx::QueryBuilder::new("INSERT INTO set_member (revision_id, position, digest) ");
            insert.push_values(chunk, |mut row, (position, member)| {
                row.push_bind($revision)
                    .push_bind(*position as i64)
                    .push_bind(&member.digest);
            });
            insert.build().execute(&mut *$tx).await?;
        }
    };
}

impl Store {
    /// Stores a full version and the end of the compile that made it, in one transaction, and gives its number.
    /// Only set revisions and resources that are not stored yet are written. The outcome of `end` is this number, whatever
    /// it says.
    #[expect(clippy::too_many_lines, reason = "nine statements of one transaction")]
    pub async fn version_store(
        &self,
        new: &NewVersion,
        end: &CompileEnd,
    ) -> Result<(VersionNumber, SetChange)> {
        const NUMBER: &str = "UPDATE environment SET last_version = last_version + 1 WHERE id = $1 \
                              RETURNING last_version";
        const CURRENT: &str = "SELECT i.set_name, i.revision_id, s.digest FROM set_interval i \
                               JOIN set_revision s ON s.id = i.revision_id \
                               WHERE i.environment_id = $1 AND i.to_version IS NULL";
        const CLOSE: &str = "UPDATE set_interval SET to_version = $3 \
                             WHERE environment_id = $1 AND set_name = $2 AND to_version IS NULL";
        const OPEN: &str = "INSERT INTO set_interval (environment_id, set_name, from_version, revision_id) \
                            VALUES ($1, $2, $3, $4)";
        const KNOWN: &str = "SELECT id FROM set_revision WHERE environment_id = $1 AND set_name = $2 AND digest = $3";
        const REVISION: &str = "INSERT INTO set_revision (id, environment_id, set_name, digest, n_resources) \
                                VALUES ($1, $2, $3, $4, $5)";
        const MEMBERS: &str = "SELECT digest FROM set_member WHERE revision_id = $1";
        const VERSION: &str = "INSERT INTO version (environment_id, number, created_us, released_us, compile_id, \
                               commit_id, tree_id, metadata, modules, unknowns, n_resources) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        const ACTION: &str = "INSERT INTO resource_action (id, environment_id, action, version, resource_id, \
                              started_us, finished_us, messages) VALUES ($1, $2, 'store', $3, '', $4, $4, $5)";
        let sets = sets_of(&new.resources);
        let environment = new.environment_id.to_string();
        let now = Timestamp::now().0;
        let documents = (
            new.metadata.to_string(),
            new.modules.to_string(),
            new.unknowns.to_string(),
        );
        let (number, change) = transaction!(self.db, tx => {
            let mut change = SetChange::default();
            let number: Option<(VersionNumber,)> = sqlx::query_as(NUMBER).bind(&environment).fetch_optional(&mut *tx).await?;
            let Some((number,)) = number else {
                return Err(Error::NotFound(format!("environment {environment}")));
            };
            let current: Vec<(String, String, String)> =
                sqlx::query_as(CURRENT).bind(&environment).fetch_all(&mut *tx).await?;
            let current: HashMap<String, (String, String)> =
                current.into_iter().map(|(name, revision, digest)| (name, (revision, digest))).collect();
            for name in current.keys().filter(|name| !sets.contains_key(name.as_str())) {
                sqlx::query(CLOSE).bind(&environment).bind(name).bind(number).execute(&mut *tx).await?;
                change.n_sets_written += 1;
            }
            for (&name, set) in &sets {
                let old = current.get(name);
                if old.is_some_and(|(_, digest)| *digest == set.digest) {
                    continue;
                }
                change.n_sets_written += 1;
                let known: Option<(String,)> = sqlx::query_as(KNOWN)
                    .bind(&environment)
                    .bind(name)
                    .bind(&set.digest)
                    .fetch_optional(&mut *tx)
                    .await?;
                let revision = match known {
                    Some((revision,)) => revision,
                    None => {
                        let revision = Uuid::now_v7().to_string();
                        sqlx::query(REVISION)
                            .bind(&revision)
                            .bind(&environment)
                            .bind(name)
                            .bind(&set.digest)
                            .bind(set.members.len() as i64)
                            .execute(&mut *tx)
                            .await?;
                        let mut stored: HashSet<String> = HashSet::new();
                        if let Some((old, _)) = old {
                            let rows: Vec<(String,)> =
                                sqlx::query_as(MEMBERS).bind(old).fetch_all(&mut *tx).await?;
                            stored.extend(rows.into_iter().map(|(digest,)| digest));
                        }
                        let fresh: Vec<_> =
                            set.members.iter().filter(|member| !stored.contains(&member.digest)).collect();
                        change.n_resources_written += fresh.len();
                        insert_resources!(tx, &environment, now, fresh);
                        insert_members!(tx, &revision, set.members);
                        revision
                    }
                };
                if old.is_some() {
                    sqlx::query(CLOSE).bind(&environment).bind(name).bind(number).execute(&mut *tx).await?;
                }
                sqlx::query(OPEN)
                    .bind(&environment)
                    .bind(name)
                    .bind(number)
                    .bind(&revision)
                    .execute(&mut *tx)
                    .await?;
            }
            sqlx::query(VERSION)
                .bind(&environment)
                .bind(number)
                .bind(now)
                .bind(new.release.then_some(now))
                .bind(end.id.to_string())
                .bind(new.commit_id.as_deref())
                .bind(new.tree_id.as_deref())
                .bind(&documents.0)
                .bind(&documents.1)
                .bind(&documents.2)
                .bind(new.resources.len() as i64)
                .execute(&mut *tx)
                .await?;
            let message = serde_json::json!([{
                "level": "INFO", "args": [], "kwargs": {"n_resources": new.resources.len()},
                "msg": format!("stored version {number} with {} resources", new.resources.len()),
                "timestamp_us": now,
            }]);
            sqlx::query(ACTION)
                .bind(Uuid::now_v7().to_string())
                .bind(&environment)
                .bind(number)
                .bind(now)
                .bind(message.to_string())
                .execute(&mut *tx)
                .await?;
            let end = CompileEnd {
                outcome: Outcome::Exported(number),
                ..end.clone()
            };
            finish!(tx, &end);
            (number, change)
        });
        Ok((number, change))
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

    /// Deletes versions beyond the newest `keep` besides the active and newest released one, with content that no other
    /// version has, and actions older than `actions_before`. Source: docs/reference/deployment.md § 2.7.
    pub async fn version_purge(
        &self,
        environment: EnvironmentId,
        keep: usize,
        actions_before: Timestamp,
    ) -> Result<u64> {
        const OLD: &str = "SELECT number FROM version v WHERE environment_id = $1 \
                           AND number <> COALESCE((SELECT active_version FROM environment WHERE id = $1), -1) \
                           AND number <> COALESCE((SELECT MAX(number) FROM version WHERE environment_id = $1 \
                           AND released_us IS NOT NULL), -1) ORDER BY number DESC";
        let id = environment.to_string();
        // The row that storing a version takes first: the two never run side by side, or a version could lose a resource
        // whose content was taken for unused.
        const ALONE: &str = "UPDATE environment SET last_version = last_version WHERE id = $1";
        let n_deleted = transaction!(self.db, tx => {
            sqlx::query(ALONE).bind(&id).execute(&mut *tx).await?;
            let rows: Vec<(VersionNumber,)> = sqlx::query_as(OLD).bind(&id).fetch_all(&mut *tx).await?;
            let old: Vec<VersionNumber> = rows.into_iter().skip(keep).map(|(number,)| number).collect();
            for number in &old {
                sqlx::query("DELETE FROM version WHERE environment_id = $1 AND number = $2")
                    .bind(&id)
                    .bind(number)
                    .execute(&mut *tx)
                    .await?;
            }
            if !old.is_empty() {
                for sql in PURGE {
                    sqlx::query(sql).bind(&id).execute(&mut *tx).await?;
                }
            }
            for sql in OUTDATED {
                sqlx::query(sql).bind(&id).bind(actions_before.0).execute(&mut *tx).await?;
            }
            old.len() as u64
        });
        Ok(n_deleted)
    }

    /// Writes that the desired state of `version` is in force, with the state rows that change by it.
    pub async fn version_activate(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        changed: &[super::ResourceState],
        removed: &[ResourceId],
        agents: &[AgentName],
    ) -> Result<()> {
        const ACTIVE: &str = "UPDATE environment SET active_version = $2 WHERE id = $1";
        const ORPHAN: &str = "UPDATE resource_state SET is_deploying = FALSE, orphaned_after = COALESCE( \
                              (SELECT active_version FROM environment WHERE id = $1), $3) \
                              WHERE environment_id = $1 AND resource_id = $2";
        const AGENT: &str = "INSERT INTO agent (environment_id, name) VALUES ($1, $2) \
                             ON CONFLICT (environment_id, name) DO NOTHING";
        let id = environment.to_string();
        transaction!(self.db, tx => {
            for chunk in changed.chunks(500) {
                super::state::upsert!(tx, &id, chunk);
            }
            for resource_id in removed {
                sqlx::query(ORPHAN).bind(&id).bind(resource_id).bind(version.previous()).execute(&mut *tx).await?;
            }
            sqlx::query(ACTIVE).bind(&id).bind(version).execute(&mut *tx).await?;
            for agent in agents {
                sqlx::query(AGENT).bind(&id).bind(agent).execute(&mut *tx).await?;
            }
        });
        Ok(())
    }
}

/// What is older than the second parameter and no longer looked at.
const OUTDATED: [&str; 4] = [
    "DELETE FROM resource_action WHERE environment_id = $1 AND started_us < $2 AND finished_us IS NOT NULL",
    "DELETE FROM compile WHERE environment_id = $1 AND completed_us < $2 AND version IS NULL \
     AND completed_us < (SELECT MAX(completed_us) FROM compile c WHERE c.environment_id = $1)",
    "DELETE FROM webhook_delivery WHERE environment_id = $1 AND received_us < $2",
    "DELETE FROM dry_run WHERE environment_id = $1 AND requested_us < $2",
];

/// In order: intervals that no version is in, revisions without interval, resources without member, facts without resource.
const PURGE: [&str; 4] = [
    "DELETE FROM set_interval WHERE environment_id = $1 AND NOT EXISTS (SELECT 1 FROM version v \
     WHERE v.environment_id = set_interval.environment_id AND v.number >= set_interval.from_version \
     AND (set_interval.to_version IS NULL OR v.number < set_interval.to_version))",
    "DELETE FROM set_revision WHERE environment_id = $1 AND NOT EXISTS (SELECT 1 FROM set_interval i \
     WHERE i.revision_id = set_revision.id)",
    "DELETE FROM resource WHERE environment_id = $1 AND NOT EXISTS (SELECT 1 FROM set_member m \
     JOIN set_revision s ON s.id = m.revision_id \
     WHERE s.environment_id = resource.environment_id AND m.digest = resource.digest)",
    "DELETE FROM fact WHERE environment_id = $1 AND resource_id <> '' AND NOT EXISTS (SELECT 1 FROM resource r \
     WHERE r.environment_id = fact.environment_id AND r.resource_id = fact.resource_id)",
];

/// One resource set of a version that is to be stored.
struct SetContent<'a> {
    digest: String,
    /// In order of resource id.
    members: Vec<&'a StoredResource>,
}

/// Groups resources by set; the digest of a set is that of its members' digests in order of resource id.
fn sets_of(resources: &[StoredResource]) -> BTreeMap<&str, SetContent<'_>> {
    use sha2::{Digest, Sha256};
    let mut sets: BTreeMap<&str, SetContent<'_>> = BTreeMap::new();
    for resource in resources {
        let set = sets.entry(&resource.set_name);
        set.or_insert_with(|| SetContent {
            digest: String::new(),
            members: Vec::new(),
        })
        .members
        .push(resource);
    }
    for set in sets.values_mut() {
        set.members
            .sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
        let mut hasher = Sha256::new();
        for member in &set.members {
            hasher.update(member.digest.as_bytes());
            hasher.update(b"\n");
        }
        set.digest = hex::encode(hasher.finalize());
    }
    sets
}
