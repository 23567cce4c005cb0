//! Facts of resources, and parameters, which are facts of no resource. Source: docs/reference/deployment.md § 5.7.

mod room;

use std::collections::HashMap;

use serde_json::Value;
use sqlx::{PgConnection, SqliteConnection};

use super::listing::{Condition, List, Listed};
use super::macros::{read, row, transaction, write};
use super::state::{ROWS, push_ids};
use super::version::on_both;
use super::{Key, Part, Result, Span, Store, document, storable};
use crate::domain::{EnvironmentId, FactSource, ResourceId, Timestamp, VersionNumber};

pub(super) use room::{FactRoom, FactSizes};

#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// `None`: a parameter.
    pub resource_id: Option<ResourceId>,
    pub name: String,
    pub value: String,
    pub source: FactSource,
    pub metadata: Value,
    pub expires: bool,
    pub updated: Timestamp,
}

/// A fact of a resource, without its value.
#[derive(Debug)]
pub struct FactAge {
    pub resource_id: ResourceId,
    pub name: String,
    pub expires: bool,
    pub updated: Timestamp,
}

row! {
    struct Row {
        resource_id: String,
        name: String,
        value: String,
        source: String,
        metadata: String,
        expires: bool,
        updated_us: i64,
    }
}

macro_rules! columns {
    () => {
        "resource_id, name, value, source, metadata, expires, updated_us"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM fact WHERE environment_id = $1 ",
            $rest
        )
    };
}

impl Listed for Row {
    const TABLE: &'static str = "fact";
    const COLUMNS: &'static str = columns!();

    fn part(&self, column: &str) -> Part {
        match column {
            "name" => Part::text(&self.name),
            "source" => Part::text(&self.source),
            "updated_us" => Part::Moment(Timestamp(self.updated_us)),
            _ => Part::text(&self.resource_id),
        }
    }
}

/// What the facts of resources are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactOrder {
    Name,
    Resource,
}

/// What the facts of resources are searched by.
#[derive(Debug, Clone, Default)]
pub struct FactSearch {
    /// Parts of the name.
    pub names: Vec<String>,
    /// Parts of the resource's id.
    pub resources: Vec<String>,
    pub expires: Option<bool>,
}

impl FactOrder {
    /// Of what kind its keys are.
    pub fn kind(self) -> Key {
        Key::texts(2)
    }
}

impl FactSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list(FactOrder::Name).conditions.is_empty()
    }

    fn list(&self, order: FactOrder) -> List {
        const EXPIRES: [&str; 2] = [" AND expires = FALSE", " AND expires = TRUE"];
        let conditions = [
            Condition::has("name", &self.names),
            Condition::has("resource_id", &self.resources),
            Condition::flag(self.expires, EXPIRES),
        ];
        List {
            columns: match order {
                FactOrder::Name => &["name", "resource_id"],
                FactOrder::Resource => &["resource_id", "name"],
            },
            // To the letter of the index by name, and not as a place in the primary key: SQLite would begin there, whatever
            // else is asked for.
            base: " AND resource_id <> ''",
            counted_as: "fact",
            conditions: conditions.into_iter().flatten().collect(),
        }
    }
}

/// What parameters are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterOrder {
    Name,
    Source,
    Updated,
}

/// What parameters are searched by.
#[derive(Debug, Clone, Default)]
pub struct ParameterSearch {
    /// Parts of the name.
    pub names: Vec<String>,
    /// Parts of the source.
    pub sources: Vec<String>,
    /// Bounds of when they were set, in microseconds: SQL's comparison, and the moment.
    pub updated: Vec<(&'static str, i64)>,
}

impl ParameterOrder {
    /// Of what kind its keys are.
    pub fn kind(self) -> Key {
        match self {
            Self::Name => Key::texts(1),
            Self::Source => Key::texts(2),
            Self::Updated => Key::moment_and_id(),
        }
    }
}

impl ParameterSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list(ParameterOrder::Name).conditions.is_empty()
    }

    fn list(&self, order: ParameterOrder) -> List {
        let words = [
            Condition::has("name", &self.names),
            Condition::has("source", &self.sources),
        ];
        let updated = Condition::compare("updated_us", &self.updated);
        List {
            columns: match order {
                ParameterOrder::Name => &["name"],
                ParameterOrder::Source => &["source", "name"],
                ParameterOrder::Updated => &["updated_us", "name"],
            },
            // To the letter of the indexes.
            base: " AND resource_id = ''",
            counted_as: "parameter",
            conditions: words.into_iter().flatten().chain(updated).collect(),
        }
    }
}

/// Facts that a resource may have, and parameters that an environment may have: a handler that makes up a new name in each
/// run would fill the database otherwise.
const MAX_OF_ONE: i64 = 5000;
/// Bytes of all values and metadata that one resource may have, and of all parameters: a compile gets all that are known.
const MAX_BYTES_OF_ONE: i64 = 4 << 20;

/// Written for whatever a run or a user says. What a run says keeps the metadata.
const SET: &str = "INSERT INTO fact (environment_id, resource_id, name, value, expires, updated_us, source, metadata) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, COALESCE($8, '{}')) \
                   ON CONFLICT (environment_id, resource_id, name) DO UPDATE SET value = excluded.value, \
                   expires = excluded.expires, updated_us = excluded.updated_us, source = excluded.source, \
                   metadata = COALESCE($8, fact.metadata)";

/// A fact as it is written.
#[derive(Debug)]
pub(super) struct NewFact<'f> {
    pub(super) name: &'f str,
    pub(super) value: &'f str,
    pub(super) expires: bool,
    pub(super) updated: Timestamp,
    pub(super) source: &'f str,
    /// `None`: as it was.
    pub(super) metadata: Option<String>,
}

/// What a resource has: how many facts, and the bytes of their values and metadata.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    n_facts: i64,
    length: i64,
}

/// Writes facts in a transaction, within the limits of their resource. These are added up once for each resource, since adding
/// up for each fact would take as long as all facts of the resource.
pub(super) trait FactWriter {
    /// What a resource has before facts of it are written.
    async fn fact_tally(&mut self, environment: &str, resource_id: &str) -> Result<Tally>;

    /// Writes a fact; whether its value is another one now, or which limit it is beyond.
    async fn fact_write(
        &mut self,
        environment: &str,
        resource_id: &str,
        fact: NewFact<'_>,
        tally: &mut Tally,
        room: &mut FactRoom,
    ) -> Result<std::result::Result<bool, FactLimit>>;
}

/// Why a fact is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FactLimit {
    /// There are too many parameters.
    Parameters,
    /// The resource has too many.
    Resource,
    /// The environment has too many.
    Environment,
}

impl std::fmt::Display for FactLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let whose = match self {
            Self::Parameters => "the environment has too many parameters",
            Self::Resource => "the resource has too many facts",
            Self::Environment => {
                let mib = room::MAX_BYTES >> 20;
                return f.write_fmt(format_args!(
                    "the resources of the environment have too many facts together; the limit is {mib} MiB: delete some that are \
                     not needed"
                ));
            }
        };
        f.write_fmt(format_args!(
            "{whose}; the limit is {MAX_OF_ONE}, and {} MiB for their values and metadata: delete some that are not needed",
            MAX_BYTES_OF_ONE >> 20
        ))
    }
}

on_both! {
    FactWriter {
        async fn fact_tally(&mut self, environment: &str, resource_id: &str) -> Result<Tally> {
            const SQL: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(OCTET_LENGTH(value) + OCTET_LENGTH(COALESCE(metadata, ''))), 0) AS BIGINT) \
                               FROM fact WHERE environment_id = $1 AND resource_id = $2";
            let (n_facts, length): (i64, i64) =
                sqlx::query_as(SQL).bind(environment).bind(resource_id).fetch_one(&mut *self).await?;
            Ok(Tally { n_facts, length })
        }

        async fn fact_write(
            &mut self,
            environment: &str,
            resource_id: &str,
            fact: NewFact<'_>,
            tally: &mut Tally,
            room: &mut FactRoom,
        ) -> Result<std::result::Result<bool, FactLimit>> {
            const OLD: &str = "SELECT value, COALESCE(metadata, '') FROM fact \
                               WHERE environment_id = $1 AND resource_id = $2 AND name = $3";
            let (name, value) = (storable(fact.name), storable(fact.value));
            let old: Option<(String, String)> = sqlx::query_as(OLD)
                .bind(environment)
                .bind(resource_id)
                .bind(&name)
                .fetch_optional(&mut *self)
                .await?;
            let length = |text: &str| text.len() as i64;
            let before = old.as_ref().map_or(0, |(value, metadata)| length(value) + length(metadata));
            let metadata = fact.metadata.as_deref().or(old.as_ref().map(|(_, metadata)| metadata.as_str()));
            let more = length(&value) + metadata.map_or(0, length) - before;
            let after = Tally {
                n_facts: tally.n_facts + i64::from(old.is_none()),
                length: tally.length + more,
            };
            let is_too_much = (old.is_none() && after.n_facts > MAX_OF_ONE)
                || (more > 0 && after.length > MAX_BYTES_OF_ONE);
            if is_too_much {
                let is_parameter = resource_id.is_empty();
                return Ok(Err(if is_parameter { FactLimit::Parameters } else { FactLimit::Resource }));
            }
            let ids = if old.is_none() { length(resource_id) + length(&name) } else { 0 };
            // Parameters have their own limit.
            if !resource_id.is_empty() && !room.take(more + ids) {
                return Ok(Err(FactLimit::Environment));
            }
            *tally = after;
            sqlx::query(SET)
                .bind(environment)
                .bind(resource_id)
                .bind(&name)
                .bind(&value)
                .bind(fact.expires)
                .bind(fact.updated.0)
                .bind(fact.source)
                .bind(&fact.metadata)
                .execute(&mut *self)
                .await?;
            Ok(Ok(old.is_none_or(|(old, _)| old != value)))
        }
    }
}

fn facts(rows: Vec<(Key, Row)>) -> Result<Vec<(Key, Fact)>> {
    let rows = rows.into_iter();
    rows.map(|(key, row)| Ok((key, row.into_fact()?))).collect()
}

/// A parameter is a fact of the resource with the empty id.
fn stored_id(resource_id: Option<&ResourceId>) -> &str {
    resource_id.map_or("", ResourceId::as_str)
}

impl Row {
    fn into_fact(self) -> Result<Fact> {
        Ok(Fact {
            metadata: document("fact", "metadata", &self.name, &self.metadata)?,
            resource_id: Some(self.resource_id)
                .filter(|id| !id.is_empty())
                .map(ResourceId::new),
            name: self.name,
            value: self.value,
            // Older servers took any word from a handler.
            source: FactSource::parse(&self.source).unwrap_or(FactSource::Fact),
            expires: self.expires,
            updated: Timestamp(self.updated_us),
        })
    }
}

impl Store {
    /// The facts of resources that are searched for, each with its place, as far as the span goes.
    pub async fn fact_page(
        &self,
        environment: EnvironmentId,
        search: &FactSearch,
        order: FactOrder,
        span: &Span,
    ) -> Result<Vec<(Key, Fact)>> {
        let rows = self
            .rows_page(environment, &search.list(order), span)
            .await?;
        facts(rows)
    }

    /// How many facts of resources are searched for within the span, up to its limit; without edges and search, all.
    pub async fn fact_count(
        &self,
        environment: EnvironmentId,
        search: &FactSearch,
        order: FactOrder,
        span: &Span,
    ) -> Result<i64> {
        self.rows_count::<Row>(environment, &search.list(order), span)
            .await
    }

    /// The parameters that are searched for, each with its place, as far as the span goes.
    pub async fn parameter_page(
        &self,
        environment: EnvironmentId,
        search: &ParameterSearch,
        order: ParameterOrder,
        span: &Span,
    ) -> Result<Vec<(Key, Fact)>> {
        let rows = self
            .rows_page(environment, &search.list(order), span)
            .await?;
        facts(rows)
    }

    /// How many parameters are searched for within the span, up to its limit; without edges and search, all.
    pub async fn parameter_count(
        &self,
        environment: EnvironmentId,
        search: &ParameterSearch,
        order: ParameterOrder,
        span: &Span,
    ) -> Result<i64> {
        self.rows_count::<Row>(environment, &search.list(order), span)
            .await
    }

    /// Facts of all resources and all parameters, by resource and name.
    pub async fn fact_list(&self, environment: EnvironmentId) -> Result<Vec<Fact>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("ORDER BY resource_id, name"))
                .bind(environment.to_string())
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_fact).collect()
    }

    /// Which facts these resources have, and since when.
    pub async fn fact_ages_of(
        &self,
        environment: EnvironmentId,
        ids: &[&ResourceId],
    ) -> Result<Vec<FactAge>> {
        let mut known = Vec::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<(ResourceId, String, bool, i64)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, name, expires, updated_us FROM fact WHERE environment_id = ",
                );
                query.push_bind(environment.to_string());
                push_ids!(query, chunk);
                query.build_query_as().fetch_all(pool).await?
            });
            let ages = rows.into_iter();
            known.extend(ages.map(|(resource_id, name, expires, updated)| FactAge {
                resource_id,
                name,
                expires,
                updated: Timestamp(updated),
            }));
        }
        Ok(known)
    }

    /// The facts of one resource, or the parameters for `None`, by name.
    pub async fn fact_list_of(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
    ) -> Result<Vec<Fact>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("AND resource_id = $2 ORDER BY name"))
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_fact).collect()
    }

    /// The parameter of that name; where there is none, the fact of that name of the first resource.
    pub async fn fact_named(&self, environment: EnvironmentId, name: &str) -> Result<Option<Fact>> {
        if let Some(parameter) = self.fact_fetch(environment, None, name).await? {
            return Ok(Some(parameter));
        }
        // By the index of facts by name.
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("AND resource_id <> '' AND name = $2 ORDER BY resource_id LIMIT 1"))
                .bind(environment.to_string())
                .bind(name)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_fact).transpose()
    }

    pub async fn fact_fetch(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
        name: &str,
    ) -> Result<Option<Fact>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("AND resource_id = $2 AND name = $3"))
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .bind(name)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_fact).transpose()
    }

    /// Writes a fact; whether its value is another one now.
    pub async fn fact_set(&self, environment: EnvironmentId, fact: &Fact) -> Result<bool> {
        let changed = self
            .facts_set(environment, std::slice::from_ref(fact))
            .await?;
        Ok(changed.first() == Some(&true))
    }

    /// Writes all facts or none; whether the value of each is another one now.
    ///
    /// # Errors
    /// [`super::Error::Conflict`] for more than a resource may have.
    pub async fn facts_set(&self, environment: EnvironmentId, facts: &[Fact]) -> Result<Vec<bool>> {
        let mut room = self.fact_room(environment).await?;
        let environment = environment.to_string();
        let changed = transaction!(self.db, tx => {
            let mut changed = Vec::with_capacity(facts.len());
            let mut tallies: HashMap<&str, Tally> = HashMap::new();
            for fact in facts {
                let resource_id = stored_id(fact.resource_id.as_ref());
                let mut tally = match tallies.get(resource_id) {
                    Some(tally) => *tally,
                    None => tx.fact_tally(&environment, resource_id).await?,
                };
                let new = NewFact {
                    name: &fact.name,
                    value: &fact.value,
                    expires: fact.expires,
                    updated: fact.updated,
                    source: fact.source.as_str(),
                    metadata: Some(fact.metadata.to_string()),
                };
                match tx.fact_write(&environment, resource_id, new, &mut tally, &mut room).await? {
                    Ok(is_new) => changed.push(is_new),
                    Err(limit) => return Err(super::Error::Conflict(limit.to_string())),
                }
                tallies.insert(resource_id, tally);
            }
            changed
        });
        room.committed();
        self.wrote("fact", facts.len());
        Ok(changed)
    }

    /// `false`: there was none.
    pub async fn fact_delete(
        &self,
        environment: EnvironmentId,
        resource_id: Option<&ResourceId>,
        name: &str,
    ) -> Result<bool> {
        const SQL: &str =
            "DELETE FROM fact WHERE environment_id = $1 AND resource_id = $2 AND name = $3";
        let n_deleted = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(stored_id(resource_id))
                .bind(name)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_deleted > 0)
    }

    /// Resources with a fact that may expire and was last told before `before`.
    pub async fn fact_outdated(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
    ) -> Result<Vec<ResourceId>> {
        const SQL: &str = "SELECT DISTINCT resource_id FROM fact WHERE environment_id = $1 AND resource_id <> '' \
                           AND expires = TRUE AND updated_us < $2 ORDER BY resource_id";
        let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(before.0).fetch_all(pool).await?
        });
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}

/// A fact or a parameter that the model of a version asked for and did not get.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct Unknown {
    /// Empty: it is a parameter.
    pub resource: ResourceId,
    pub parameter: String,
    /// Where its value would come from.
    #[serde(default = "from_a_handler")]
    pub source: String,
}

/// Of versions that were stored without a source.
fn from_a_handler() -> String {
    "fact".to_owned()
}

impl Store {
    /// The facts that the model of a version asked for and did not get: resource and name. A parameter has an empty id.
    pub async fn fact_unknowns(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<(ResourceId, String)>> {
        let unknowns = self.version_unknowns(environment, version).await?;
        let pairs = unknowns
            .into_iter()
            .map(|unknown| (unknown.resource, unknown.parameter));
        Ok(pairs.collect())
    }

    /// The same, with where each would come from.
    pub async fn version_unknowns(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Vec<Unknown>> {
        const SQL: &str = "SELECT unknowns FROM version WHERE environment_id = $1 AND number = $2";
        let row: Option<(String,)> = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(version)
                .fetch_optional(pool)
                .await?
        });
        let Some((text,)) = row else {
            return Ok(Vec::new());
        };
        document("version", "unknowns", &version.to_string(), &text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, environment, state};
    use super::super::{
        ActionEnd, Discovered, DiscoveredOrder, DiscoveredSearch, Error, ResourceState, Span,
    };
    use super::{Fact, room};
    use crate::domain::{ActionId, Change, FactSource, ResourceId, ResourceStatus, Timestamp};

    fn fact(resource_id: &str, value: &str) -> Fact {
        Fact {
            resource_id: (!resource_id.is_empty()).then(|| ResourceId::new(resource_id)),
            name: "f".into(),
            value: value.into(),
            source: FactSource::User,
            metadata: json!({"a": 1}),
            expires: true,
            updated: Timestamp(5),
        }
    }

    fn end(resource_id: &str, value: &str, change: Change, found: &str) -> ActionEnd {
        ActionEnd {
            id: ActionId::generate(),
            finished: Timestamp(9),
            status: ResourceStatus::Deployed,
            change,
            changes: "{}".into(),
            messages: "[]".into(),
            state: None,
            facts: vec![("f".into(), value.into(), false)],
            discovered: vec![("t::R[a,n=x]".into(), json!({"found": found}).to_string())],
            resource_id: ResourceId::new(resource_id),
        }
    }

    #[tokio::test]
    async fn facts_of_all_resources_together_have_a_limit_and_what_is_deleted_makes_room() {
        check(|store| async move {
            let id = environment(&store).await;
            let long = "v".repeat(60_000);
            store
                .fact_set(id, &fact("t::R[a,n=1]", &long))
                .await
                .unwrap();
            let size = store.fact_bytes(id, 0).await.unwrap();
            // Its id, its name, and its metadata.
            assert_eq!(size, 60_000 + 11 + 1 + 7);
            // As if another one had written so much meanwhile.
            store.fact_sizes.grew(id, room::MAX_BYTES - size - 1000);
            let refused = store.fact_set(id, &fact("t::R[a,n=2]", &long)).await;
            assert!(matches!(refused, Err(Error::Conflict(why)) if why.contains("128 MiB")));
            // What a run says is refused, and the run is not.
            store
                .action_write(id, &[], &[end("t::R[a,n=2]", &long, Change::NoChange, "1")])
                .await
                .unwrap();
            let of = |n: u8| ResourceId::new(format!("t::R[a,n={n}]"));
            assert_eq!(store.fact_list_of(id, Some(&of(2))).await.unwrap(), []);
            // A parameter has a limit of its own, and what is there may become shorter, which makes room.
            store.fact_set(id, &fact("", &long)).await.unwrap();
            store
                .fact_set(id, &fact("t::R[a,n=1]", "short"))
                .await
                .unwrap();
            store
                .fact_set(id, &fact("t::R[a,n=2]", &long))
                .await
                .unwrap();
            // What is deleted makes room when the facts are added up again.
            store.fact_delete(id, Some(&of(2)), "f").await.unwrap();
            store.fact_sizes.forget(id);
            assert_eq!(store.fact_bytes(id, 0).await.unwrap(), 5 + 11 + 1 + 7);
        })
        .await;
    }

    #[tokio::test]
    async fn facts_are_told_by_runs_and_users_and_go_with_their_resource() {
        check(|store| async move {
            let id = environment(&store).await;
            let (one, none) = ("t::R[a,n=1]", "");
            for (resource, value, is_new) in [
                (one, "x", true),
                (one, "x", false),
                (one, "y", true),
                (none, "p", true),
            ] {
                let set = store.fact_set(id, &fact(resource, value)).await.unwrap();
                assert_eq!(set, is_new, "{resource} {value}");
            }
            assert_eq!(
                store.fact_list_of(id, None).await.unwrap(),
                [fact(none, "p")]
            );
            let outdated = async |at| store.fact_outdated(id, Timestamp(at)).await.unwrap();
            assert_eq!(
                (outdated(5).await, outdated(6).await),
                (vec![], vec![ResourceId::new(one)])
            );
            // A run's word is newer, may not expire, and leaves the metadata.
            store
                .action_write(id, &[], &[end(one, "z", Change::NoChange, "1")])
                .await
                .unwrap();
            let reported = Fact {
                source: FactSource::Fact,
                expires: false,
                updated: Timestamp(9),
                ..fact(one, "z")
            };
            assert_eq!(
                store
                    .fact_fetch(id, Some(&ResourceId::new(one)), "f")
                    .await
                    .unwrap(),
                Some(reported)
            );
            assert!(outdated(100).await.is_empty());
            // Of a run for what the resource shall not be any more nothing follows.
            let purged = end(one, "last", Change::Purged, "2");
            let stale = ActionEnd {
                state: Some(ResourceState {
                    last_events: Some(Timestamp(3)),
                    ..state("1")
                }),
                ..purged.clone()
            };
            for kept in [stale, purged.clone()] {
                store.action_write(id, &[], &[kept]).await.unwrap();
                assert_eq!(store.fact_list(id).await.unwrap().len(), 2);
            }
            let current = ActionEnd {
                state: Some(ResourceState {
                    last_events: Some(purged.finished),
                    ..state("1")
                }),
                ..purged
            };
            store.action_write(id, &[], &[current]).await.unwrap();
            assert_eq!(store.fact_list(id).await.unwrap(), [fact(none, "p")]);
            assert!(store.fact_delete(id, None, "f").await.unwrap());
            assert!(!store.fact_delete(id, None, "f").await.unwrap());
            // The newest report of what was found counts.
            let found = Discovered {
                resource_id: ResourceId::new("t::R[a,n=x]"),
                values: json!({"found": "2"}),
                discovery_resource_id: ResourceId::new(one),
                discovered: Timestamp(9),
            };
            let (search, all) = (DiscoveredSearch::default(), Span::first(10));
            let index = store.discovered_page(id, &search, DiscoveredOrder::Id, &all);
            let index = index.await.unwrap();
            assert_eq!(
                (index.len(), index[0].1.n_bytes),
                (1, r#"{"found":"2"}"#.len())
            );
            let ids = index.iter().map(|(_, entry)| &entry.resource_id);
            assert_eq!(store.discovered_some(id, ids).await.unwrap(), [found]);
        })
        .await;
    }
}
