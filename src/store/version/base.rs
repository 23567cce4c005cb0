//! Storing a partial version: only the rows of the sets that it is about, and those of the resources in no set, are read
//! and compared. What it costs depends on what is sent, not on how many sets there are.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use sqlx::{PgConnection, SqliteConnection};

use super::cycle::{Requirements, Search, describe};
use super::partial::{Base, PartialCode, PartialVersion, crossing};
use super::plan::{Plan, SetChange, crossing_of, sets_of};
use super::rows::{Header, Writer, on_both};
use super::{NewVersion, Sent, Version};
use crate::domain::{ResourceId, Timestamp, VersionCode, VersionNumber};
use crate::store::macros::transaction;
use crate::store::{CompileEnd, Error, Result, Store, StoredResource, document, resource};

/// A version that a partial export builds on, with the columns that only this asks for.
struct BaseVersion {
    version: Version,
    unknowns: Value,
    agent_places: BTreeMap<String, String>,
    /// See the column `crossing`.
    crossing: Option<String>,
    /// Whether the open rows are this version's: it is the last that was stored.
    is_last: bool,
}

trait Reader {
    async fn base_version(
        &mut self,
        environment: &str,
        number: VersionNumber,
    ) -> Result<BaseVersion>;
    /// Resources of the newest version: those of these sets.
    async fn of_sets(&mut self, environment: &str, sets: &[&str]) -> Result<Vec<StoredResource>>;
    /// In which set the newest version has these resources.
    async fn sets_of_ids(
        &mut self,
        environment: &str,
        ids: &[&ResourceId],
    ) -> Result<HashMap<ResourceId, String>>;
    /// All resources of a version.
    async fn of_version(
        &mut self,
        environment: &str,
        number: VersionNumber,
    ) -> Result<Vec<StoredResource>>;
}

/// Names or ids of one statement.
const AT_ONCE: usize = 500;

on_both! {
    Reader {
        async fn base_version(&mut self, environment: &str, number: VersionNumber) -> Result<BaseVersion> {
            const MORE: &str = "SELECT unknowns, crossing, agent_places FROM version WHERE environment_id = $1 AND number = $2";
            let row: Option<super::Row> =
                sqlx::query_as(super::select!("WHERE environment_id = $1 ORDER BY number DESC LIMIT 1"))
                    .bind(environment)
                    .fetch_optional(&mut *self)
                    .await?;
            let version = match row {
                Some(row) => row.into_version()?,
                None => {
                    return Err(Error::Base(
                        "a partial export builds on the newest version, and there is none: export all first".to_owned(),
                    ));
                }
            };
            let (unknowns, crossing, places): (String, Option<String>, String) =
                sqlx::query_as(MORE).bind(environment).bind(version.number).fetch_one(&mut *self).await?;
            Ok(BaseVersion {
                unknowns: document("version", "unknowns", &version.number.to_string(), &unknowns)?,
                agent_places: document("version", "agent_places", &version.number.to_string(), &places)?,
                crossing,
                is_last: version.number == number.previous(),
                version,
            })
        }

        async fn of_sets(&mut self, environment: &str, sets: &[&str]) -> Result<Vec<StoredResource>> {
            let mut resources = Vec::new();
            for chunk in sets.chunks(AT_ONCE) {
                let mut query = sqlx::QueryBuilder::new(resource::select!("WHERE environment_id = "));
                query.push_bind(environment);
                query.push(" AND to_version = 9223372036854775807 AND set_name IN (");
                let mut list = query.separated(", ");
                for set in chunk {
                    list.push_bind(*set);
                }
                query.push(")");
                let rows: Vec<resource::Row> = query.build_query_as().fetch_all(&mut *self).await?;
                for row in rows {
                    resources.push(row.into_resource()?);
                }
            }
            Ok(resources)
        }

        async fn sets_of_ids(&mut self, environment: &str, ids: &[&ResourceId]) -> Result<HashMap<ResourceId, String>> {
            let mut sets = HashMap::new();
            for chunk in ids.chunks(AT_ONCE) {
                let mut query =
                    sqlx::QueryBuilder::new("SELECT resource_id, set_name FROM desired_resource WHERE environment_id = ");
                query.push_bind(environment).push(" AND to_version = 9223372036854775807");
                crate::store::state::push_ids!(query, chunk);
                let rows: Vec<(ResourceId, String)> = query.build_query_as().fetch_all(&mut *self).await?;
                sets.extend(rows);
            }
            Ok(sets)
        }

        async fn of_version(&mut self, environment: &str, number: VersionNumber) -> Result<Vec<StoredResource>> {
            let rows: Vec<resource::Row> = sqlx::query_as(resource::select!(
                "WHERE environment_id = $1 AND + from_version <= $2 AND to_version > $2 ORDER BY resource_id"
            ))
            .bind(environment)
            .bind(number)
            .fetch_all(&mut *self)
            .await?;
            rows.into_iter().map(resource::Row::into_resource).collect()
        }
    }
}

/// What is read of the base when its rows are the open ones.
async fn read_open(
    reader: &mut (impl Reader + Writer),
    environment: &str,
    partial: &PartialVersion,
) -> Result<Base> {
    let mut sets: Vec<&str> = vec![""];
    sets.extend(partial.replaced_sets());
    let old = reader.of_sets(environment, &sets).await?;
    let sent = partial.new.resources.iter();
    let ids: BTreeSet<&ResourceId> = sent
        .flat_map(|one| one.requires.iter().chain([&one.resource_id]))
        .collect();
    let ids: Vec<&ResourceId> = ids.into_iter().collect();
    Ok(Base {
        sets: reader.sets_of_ids(environment, &ids).await?,
        old: old
            .into_iter()
            .map(|one| (one.resource_id.clone(), one))
            .collect(),
    })
}

/// The same from all resources of a version.
fn base_of(resources: &[StoredResource], partial: &PartialVersion) -> Base {
    let replaced = partial.replaced_sets();
    let is_old =
        |one: &&StoredResource| one.set_name.is_empty() || replaced.contains(one.set_name.as_str());
    Base {
        old: resources
            .iter()
            .filter(is_old)
            .map(|one| (one.resource_id.clone(), one.clone()))
            .collect(),
        sets: resources
            .iter()
            .map(|one| (one.resource_id.clone(), one.set_name.clone()))
            .collect(),
    }
}

/// The whole of a partial store, on a connection in a transaction.
async fn store_partial(
    connection: &mut (impl Reader + Writer),
    partial: &PartialVersion,
    end: Option<&CompileEnd>,
) -> Result<(VersionNumber, SetChange)> {
    let environment = partial.new.environment_id.to_string();
    // Takes the row of the environment: two partial stores come one after the other, and the second has the first's sets.
    let number = connection.next_number(&environment).await?;
    let known = connection.base_version(&environment, number).await?;
    let all = if known.is_last && known.crossing.is_some() {
        None
    } else {
        Some(
            connection
                .of_version(&environment, known.version.number)
                .await?,
        )
    };
    let found = match (&known.crossing, &all) {
        (Some(found), _) => found.clone(),
        (None, all) => crossing_of(all.as_deref().unwrap_or_default()),
    };
    if !found.is_empty() {
        return Err(crossing(&found));
    }
    let base = match &all {
        None => read_open(connection, &environment, partial).await?,
        Some(all) => base_of(all, partial),
    };
    let mut merged = partial.merge(&base)?;
    let kept = all.as_deref().unwrap_or_default();
    check_cycles(connection, &environment, partial, &base, (&merged, kept)).await?;
    let n_resources = known.version.n_resources - base.old.len() as i64 + merged.len() as i64;
    let new = header_of(partial, &base, &known)?;
    let replaced = partial.replaced_sets();
    if let (Some(all), false) = (all, known.is_last) {
        // The open rows are of a version that was deleted: all sets are compared.
        let is_kept = |one: &StoredResource| !base.old.contains_key(&one.resource_id);
        merged.extend(all.into_iter().filter(is_kept));
        let sets = sets_of(&merged);
        let open = connection.open_sets(&environment).await?;
        let plan = Plan::of_sets(&open, &sets);
        return write(connection, &new, plan, (number, n_resources), end).await;
    }
    let sets: BTreeMap<&str, _> = sets_of(&merged);
    let mut names: Vec<&str> = replaced.iter().copied().collect();
    names.push("");
    let open = connection.open_some_sets(&environment, &names).await?;
    let plan = Plan::of_sets(&open, &sets);
    write(connection, &new, plan, (number, n_resources), end).await
}

/// Checks that what is sent closes no circle of requirements, be it with resources that stay as they are. The base has none,
/// so a circle goes through a requirement that is new: what these lead to is followed, and nothing else. `merged` are the
/// resources of the new version that are not simply kept; of those that are, the sets that are come to are read.
async fn check_cycles(
    connection: &mut (impl Reader + Writer),
    environment: &str,
    partial: &PartialVersion,
    base: &Base,
    (merged, kept): (&[StoredResource], &[StoredResource]),
) -> Result<()> {
    if partial.new_requirements(base).next().is_none() {
        return Ok(());
    }
    let mut read: Vec<StoredResource> = Vec::new();
    let mut read_sets: BTreeSet<String> = BTreeSet::new();
    loop {
        let mut requirements = Requirements::of(merged);
        requirements.add(kept);
        requirements.add(&read);
        let ids = match requirements.search(partial.new_requirements(base)) {
            Search::NoCycle => return Ok(()),
            Search::Cycle(cycle) => return Err(Error::Refused(describe(&cycle))),
            Search::Unknown(ids) => ids,
        };
        let ids: Vec<&ResourceId> = ids.iter().collect();
        let sets = connection.sets_of_ids(environment, &ids).await?;
        let sets: BTreeSet<String> = sets.into_values().collect();
        let new: Vec<&str> = sets.difference(&read_sets).map(String::as_str).collect();
        if new.is_empty() {
            // They are in no version.
            return Ok(());
        }
        read.extend(connection.of_sets(environment, &new).await?);
        read_sets.extend(sets);
    }
}

async fn write(
    connection: &mut (impl Reader + Writer),
    new: &NewVersion,
    plan: Plan<'_>,
    (number, n_resources): (VersionNumber, i64),
    end: Option<&CompileEnd>,
) -> Result<(VersionNumber, SetChange)> {
    let environment = new.environment_id.to_string();
    let old = connection
        .open_members(&environment, &plan.ended_sets)
        .await?;
    let plan = plan.with_resources(old, &HashMap::new());
    let header = Header {
        number,
        n_resources,
        crossing: "",
        now: Timestamp::now().0,
    };
    connection.write_plan(&environment, &plan, &header).await?;
    connection.write_header(new, &header, end).await?;
    Ok((number, plan.change()))
}

/// What the new version says beside its resources.
fn header_of(partial: &PartialVersion, base: &Base, known: &BaseVersion) -> Result<NewVersion> {
    let sent = &partial.new;
    let modules = match partial.code {
        PartialCode::Keep => known.version.modules.clone(),
        PartialCode::Same | PartialCode::Replace => {
            let base = VersionCode::read(known.version.modules.clone());
            let may_change = partial.code == PartialCode::Replace;
            let code = VersionCode::read(sent.modules.clone()).over(base, may_change);
            serde_json::json!(code.map_err(Error::Base)?)
        }
    };
    // A partial model knows of some agents; the others stay where they are.
    let mut agent_places = known.agent_places.clone();
    agent_places.extend(sent.agent_places.clone());
    let ids = sent.resources.iter().map(|one| one.resource_id.clone());
    Ok(NewVersion {
        agent_places,
        environment_id: sent.environment_id,
        commit_id: sent
            .commit_id
            .clone()
            .or_else(|| known.version.commit_id.clone()),
        tree_id: sent
            .tree_id
            .clone()
            .or_else(|| known.version.tree_id.clone()),
        metadata: sent.metadata.clone(),
        modules,
        unknowns: partial.unknowns(base, &known.unknowns),
        resources: Vec::new(),
        release: sent.release,
        sent: Sent {
            partial: Some((known.version.number, ids.collect())),
            ..sent.sent.clone()
        },
    })
}

impl Store {
    /// As [`Store::version_store_partial`], with the end of the compile that made it. The outcome of `end` is the number of
    /// the version, whatever it says.
    pub async fn version_store_partial_compiled(
        &self,
        partial: &PartialVersion,
        end: &CompileEnd,
    ) -> Result<(VersionNumber, SetChange)> {
        let stored = transaction!(self.db, tx => store_partial(tx, partial, Some(end)).await?);
        self.wrote_version(partial.new.environment_id, stored.1);
        Ok(stored)
    }

    /// Stores the version that a partial export makes of the newest one, in one transaction, and gives its number. Reads and
    /// writes what it is about, whatever else the version has.
    ///
    /// # Errors
    /// [`Error::Refused`] names the rule of docs/reference/deployment.md § 2.4 that it breaks; [`Error::Base`]: the newest
    /// version is no base for it, or there is none.
    pub async fn version_store_partial(
        &self,
        partial: &PartialVersion,
    ) -> Result<(VersionNumber, SetChange)> {
        let stored = transaction!(self.db, tx => store_partial(tx, partial, None).await?);
        self.wrote_version(partial.new.environment_id, stored.1);
        Ok(stored)
    }
}
