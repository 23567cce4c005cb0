//! Pages of the resources of a version.

use super::Row;
use crate::domain::{EnvironmentId, ResourceId, VersionNumber};
use crate::store::listing::push_span;
use crate::store::macros::read;
use crate::store::state::{ROWS, push_ids};
use crate::store::{Result, Search, Span, Store, StoredResource};

/// Adds the environment behind `environment_id = `, and ` AND ..` for the rows that a version has.
macro_rules! push_version {
    ($query:expr, $environment:expr, $version:expr) => {
        $query.push_bind($environment.to_string());
        $query.push(" AND + from_version <= ").push_bind($version);
        $query.push(" AND to_version > ").push_bind($version);
    };
}

impl Store {
    /// Those resources of a version that are searched for, by id, as far as the span goes.
    pub async fn resource_page(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        search: &Search,
        span: &Span,
    ) -> Result<Vec<StoredResource>> {
        let mut rows: Vec<Row> = Vec::new();
        if search.is_narrow() {
            let mut found = self.found(environment, search, span).await?;
            let n_wanted = usize::try_from(span.limit).unwrap_or_default();
            let mut n_next = n_wanted.min(ROWS);
            while rows.len() < n_wanted {
                let ids = found.take(n_next);
                if ids.is_empty() {
                    break;
                }
                let mut some = self.resource_rows_of(environment, version, &ids).await?;
                some.sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
                if span.is_last {
                    some.reverse();
                }
                rows.extend(some);
                n_next = ROWS;
            }
            rows.truncate(n_wanted);
        } else {
            rows = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                push_version!(query, environment, version);
                push_span(&mut query, &["resource_id"], span);
                query.build_query_as().fetch_all(pool).await?
            });
        }
        let resources = rows.into_iter().map(Row::into_resource);
        let mut resources: Vec<StoredResource> = resources.collect::<Result<_>>()?;
        if span.is_last {
            resources.reverse();
        }
        Ok(resources)
    }

    /// Those of these resources that a version has, in no order. No more than [`ROWS`] ids.
    async fn resource_rows_of(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        ids: &[ResourceId],
    ) -> Result<Vec<Row>> {
        Ok(read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
            push_version!(query, environment, version);
            push_ids!(query, ids);
            query.build_query_as().fetch_all(pool).await?
        }))
    }

    /// The same as [`StoredResource`]s.
    pub(in crate::store) async fn resource_some(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        ids: &[ResourceId],
    ) -> Result<Vec<StoredResource>> {
        let rows = self.resource_rows_of(environment, version, ids).await?;
        rows.into_iter().map(Row::into_resource).collect()
    }

    /// How many resources of a version are searched for within the span, up to its limit.
    pub async fn resource_count(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        search: &Search,
        span: &Span,
    ) -> Result<i64> {
        const COUNT: &str =
            "SELECT COUNT(*) FROM (SELECT 1 FROM desired_resource WHERE environment_id = ";
        if !search.is_narrow() {
            let (n_rows,): (i64,) = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(COUNT);
                push_version!(query, environment, version);
                push_span(&mut query, &["resource_id"], span);
                query.push(") counted");
                query.build_query_as().fetch_one(pool).await?
            });
            return Ok(n_rows);
        }
        let mut found = self.found(environment, search, span).await?;
        let mut n_found = 0;
        while n_found < span.limit {
            let ids = found.take(ROWS);
            if ids.is_empty() {
                break;
            }
            let (n_rows,): (i64,) = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(COUNT);
                push_version!(query, environment, version);
                push_ids!(query, &ids);
                query.push(") counted");
                query.build_query_as().fetch_one(pool).await?
            });
            n_found += n_rows;
        }
        Ok(n_found.min(span.limit))
    }
}
