//! Pages of the instances of a service, and how many there are in each state.
//!
//! A page begins behind a place: the value that the list is sorted by, and the id, since values may be there more than once.

use std::collections::BTreeSet;

use steward_lsm::Instance;

use super::count::{Group, is_within};
use super::instance::{Row, select};
use super::push_beyond;
use crate::domain::EnvironmentId;
use crate::store::listing::pattern;
use crate::store::macros::read;
use crate::store::{Result, Store, storable};

/// What a list of instances is sorted by, and then by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    Created,
    Updated,
    State,
    Id,
    Identity,
}

impl Column {
    fn sql(self) -> &'static str {
        match self {
            Self::Created => "created_us",
            Self::Updated => "updated_us",
            Self::State => "state",
            Self::Id => "id",
            Self::Identity => "COALESCE(identity, '')",
        }
    }
}

/// A value of the column that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Number(i64),
    Text(String),
}

impl Place {
    /// That of an instance.
    pub fn of(column: Column, instance: &Instance) -> Self {
        match column {
            Column::Created => Self::Number(instance.created_at.0),
            Column::Updated => Self::Number(instance.last_updated.0),
            Column::State => Self::Text(instance.state.clone()),
            Column::Id => Self::Text(instance.id.to_string()),
            Column::Identity => {
                let identity = instance.service_identity_attribute_value.clone();
                Self::Text(identity.unwrap_or_default())
            }
        }
    }
}

/// What instances are searched by. Several words for one thing are alternatives; none: anything.
#[derive(Debug, Clone, Default)]
pub struct InstanceSearch {
    /// The service.
    pub entity: String,
    /// `Some(true)`: only those that have ended; `Some(false)`: only others.
    pub is_deleted: Option<bool>,
    pub states: Vec<String>,
    /// Sets (`candidate`, `active`, `rollback`), one of which has to be null.
    pub empty: Vec<&'static str>,
    /// Sets, one of which has not to be null.
    pub not_empty: Vec<&'static str>,
    /// Parts of the id or of the identity, case aside.
    pub words: Vec<String>,
    /// Bounds of the definition's version: SQL's comparison, and the number.
    pub versions: Vec<(&'static str, i64)>,
}

impl InstanceSearch {
    /// Whether nothing but counting says how many it finds: it asks for more than instances are counted by.
    pub fn is_narrow(&self) -> bool {
        !(self.empty.is_empty() && self.not_empty.is_empty() && self.words.is_empty())
    }

    /// Whether it finds the instances of a group.
    fn has(&self, group: &Group) -> bool {
        self.is_deleted
            .is_none_or(|wanted| wanted == group.is_deleted)
            && (self.states.is_empty() || self.states.contains(&group.state))
            && self
                .versions
                .iter()
                .all(|bound| is_within(group.version, bound))
    }
}

/// Which part of a list.
#[derive(Debug, Clone)]
pub struct InstanceSpan {
    pub column: Column,
    /// Whether the list goes down.
    pub is_descending: bool,
    /// Only what is greater, and with an id: that has the same value and a greater id, too.
    pub greater: Option<(Place, Option<String>)>,
    /// Only what is smaller, in the same way.
    pub smaller: Option<(Place, Option<String>)>,
    pub limit: i64,
}

/// Adds ` AND ..` for a search.
macro_rules! push_search {
    ($query:expr, $search:expr, $among:expr, $is_ascii_only:expr) => {
        let search: &InstanceSearch = $search;
        let among: Option<&BTreeSet<String>> = $among;
        // Where the instances are known by their ids, in a way that no index has: SQLite would take the one of the list, and
        // read all of them.
        $query
            .push(if among.is_some() { " AND entity || '' = " } else { " AND entity = " })
            .push_bind(storable(&search.entity).into_owned());
        if let Some(ids) = among {
            $query.push(" AND id IN (");
            let mut list = $query.separated(", ");
            for id in ids {
                list.push_bind(id.clone());
            }
            $query.push(")");
        }
        if let Some(is_deleted) = search.is_deleted {
            // As a constant, since the database only then sees which index has these rows alone.
            $query.push(if is_deleted {
                " AND is_deleted = TRUE"
            } else {
                " AND is_deleted = FALSE"
            });
        }
        if !search.states.is_empty() {
            $query.push(" AND state IN (");
            let mut list = $query.separated(", ");
            for state in &search.states {
                list.push_bind(storable(state).into_owned());
            }
            $query.push(")");
        }
        for (columns, condition) in [
            (&search.empty, " IS NULL"),
            (&search.not_empty, " IS NOT NULL"),
        ] {
            let mut separator = " AND (";
            for column in columns {
                $query.push(separator).push(*column).push(condition);
                separator = " OR ";
            }
            if !columns.is_empty() {
                $query.push(")");
            }
        }
        // PostgreSQL takes what a pattern finds for rare, and would read the whole table, and sort, to find it: see
        // listing/rows.rs.
        let mut separator = " AND CASE WHEN ";
        for word in &search.words {
            for column in ["id", "identity"] {
                $query
                    .push(separator)
                    .push("LOWER(")
                    .push(column)
                    .push(") LIKE ");
                $query
                    .push_bind(pattern(word, $is_ascii_only))
                    .push(" ESCAPE '!'");
                separator = " OR ";
            }
        }
        if !search.words.is_empty() {
            $query.push(" THEN TRUE ELSE FALSE END");
        }
        for (comparison, number) in &search.versions {
            $query
                .push(" AND entity_version")
                .push(*comparison)
                .push_bind(*number);
        }
    };
}

/// Binds the value of a place.
macro_rules! push_place {
    ($query:expr, $place:expr) => {
        match $place {
            Place::Number(number) => $query.push_bind(*number),
            Place::Text(text) => $query.push_bind(storable(text).into_owned()),
        }
    };
}

/// Adds ` AND ..` for what is greater and smaller than the bounds of a span.
macro_rules! push_span {
    ($query:expr, $span:expr) => {
        let column = $span.column.sql();
        for (comparison, bound) in [(" > ", &$span.greater), (" < ", &$span.smaller)] {
            match bound {
                Some((place, Some(id))) => {
                    push_beyond!($query, column, comparison, push_place!($query, place), id);
                    if $span.column == Column::Identity {
                        // SQLite begins at a pair of columns only, and this one is an expression.
                        $query
                            .push(" AND ")
                            .push(column)
                            .push(comparison.trim_end())
                            .push("= ");
                        push_place!($query, place);
                    }
                }
                Some((place, None)) => {
                    $query.push(" AND ").push(column).push(comparison);
                    push_place!($query, place);
                }
                None => {}
            }
        }
    };
}

/// The statement for a page.
macro_rules! page_query {
    ($environment:expr, $search:expr, $among:expr, $span:expr, $is_ascii_only:expr) => {{
        let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
        query.push_bind($environment.to_string());
        push_search!(query, $search, $among, $is_ascii_only);
        push_span!(query, $span);
        let direction = if $span.is_descending { " DESC" } else { "" };
        query
            .push(" ORDER BY ")
            .push($span.column.sql())
            .push(direction);
        query.push(", id").push(direction);
        query.push(" LIMIT ").push_bind($span.limit);
        query
    }};
}

/// The statement for the number of rows within a span.
macro_rules! count_query {
    ($environment:expr, $search:expr, $among:expr, $span:expr, $is_ascii_only:expr) => {{
        let mut query = sqlx::QueryBuilder::new(
            "SELECT COUNT(*) FROM (SELECT 1 FROM service_instance WHERE environment_id = ",
        );
        query.push_bind($environment.to_string());
        push_search!(query, $search, $among, $is_ascii_only);
        push_span!(query, $span);
        if $search.is_narrow() {
            // In an order, so that the index of what is looked for is taken, if there is one.
            query.push(" ORDER BY ").push($span.column.sql());
            query.push(", id LIMIT ").push_bind($span.limit);
        }
        query.push(") counted");
        query
    }};
}

impl Store {
    /// Those of these instances that there are.
    pub async fn services_of_ids(
        &self,
        environment: EnvironmentId,
        ids: &[uuid::Uuid],
    ) -> Result<Vec<Instance>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
            query.push_bind(environment.to_string()).push(" AND id IN (");
            let mut list = query.separated(", ");
            for id in ids {
                list.push_bind(id.to_string());
            }
            query.push(")");
            query.build_query_as().fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_instance).collect()
    }

    /// The instances that are searched for, as far as the span goes, in its order.
    pub async fn service_page(
        &self,
        environment: EnvironmentId,
        search: &InstanceSearch,
        span: &InstanceSpan,
    ) -> Result<Vec<Instance>> {
        let is_ascii_only = self.is_sqlite();
        let among = self.service_words_find(environment, search).await?;
        if among.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(Vec::new());
        }
        let rows: Vec<Row> = read!(self.db, pool => {
            let mut query = page_query!(environment, search, among.as_ref(), span, is_ascii_only);
            query.build_query_as().fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_instance).collect()
    }

    /// How many instances are searched for within the span; of a narrow search up to its limit.
    pub async fn service_count(
        &self,
        environment: EnvironmentId,
        search: &InstanceSearch,
        span: &InstanceSpan,
    ) -> Result<i64> {
        if span.greater.is_none() && span.smaller.is_none() && !search.is_narrow() {
            let numbers = self.service_numbers(environment, &search.entity).await?;
            let found = numbers.iter().filter(|(group, _)| search.has(group));
            return Ok(found.map(|(_, n)| n).sum());
        }
        let is_ascii_only = self.is_sqlite();
        let among = self.service_words_find(environment, search).await?;
        if among.as_ref().is_some_and(BTreeSet::is_empty) {
            return Ok(0);
        }
        let (count,): (i64,) = read!(self.db, pool => {
            let mut query = count_query!(environment, search, among.as_ref(), span, is_ascii_only);
            query.build_query_as().fetch_one(pool).await?
        });
        Ok(count)
    }

    /// How many instances of a service have not ended, by the version of their definition and their state.
    pub async fn service_state_counts(
        &self,
        environment: EnvironmentId,
        entity: &str,
    ) -> Result<Vec<(u64, String, i64)>> {
        let numbers = self.service_numbers(environment, entity).await?;
        let present = numbers.iter().filter(|(group, _)| !group.is_deleted);
        let mut counts: Vec<(u64, String, i64)> = present
            .map(|(group, n)| (group.version, group.state.clone(), *n))
            .collect();
        counts.sort_unstable();
        Ok(counts)
    }

    /// Ids of instances of a definition in these states that are greater than `after`, at most `limit`, in order.
    pub async fn service_ids_in(
        &self,
        environment: EnvironmentId,
        (entity, version): (&str, u64),
        (states, known_result): (&[&str], Option<bool>),
        after: &str,
        limit: i64,
    ) -> Result<Vec<String>> {
        if states.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(String,)> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new("SELECT id FROM service_instance WHERE environment_id = ");
            query.push_bind(environment.to_string());
            query.push(" AND entity = ").push_bind(entity.to_owned()).push(" AND is_deleted = FALSE");
            query.push(" AND entity_version = ").push_bind(super::instance::counter(version)).push(" AND state IN (");
            let mut list = query.separated(", ");
            for state in states {
                list.push_bind((*state).to_owned());
            }
            query.push(")");
            if let Some(known_result) = known_result {
                query.push(" AND known_result = ").push_bind(known_result);
            }
            query.push(" AND id > ").push_bind(after.to_owned()).push(" ORDER BY id LIMIT ").push_bind(limit);
            query.build_query_as().fetch_all(pool).await?
        });
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }
}

#[cfg(test)]
mod tests;
