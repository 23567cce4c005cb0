//! Pages and counts of states. Source: docs/reference/rest.md § 1.6.

use std::collections::{BTreeMap, HashSet};

use super::{COUNTED, Search, Span, push_span};
use crate::domain::{EnvironmentId, ResourceId, ResourceStatus};
use crate::store::macros::read;
use crate::store::state::{ROWS, Row, push_ids, select, status_sql};
use crate::store::{ResourceState, Result, Store, parsed};

impl Store {
    /// How many resources there are of each status, orphans included. Statuses that none has may be missing.
    pub async fn state_counts(
        &self,
        environment: EnvironmentId,
    ) -> Result<BTreeMap<ResourceStatus, i64>> {
        const SQL: &str =
            "SELECT status, n_resources FROM resource_count WHERE environment_id = $1";
        let rows: Vec<(String, i64)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        let count = |(status, n_resources): (String, i64)| {
            Ok((parsed("resource_count", "status", &status)?, n_resources))
        };
        rows.into_iter().map(count).collect()
    }

    /// Which resources are searched for, by id, as far as the span goes.
    pub(super) async fn state_ids(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let statuses = Self::to_look_at(search, counts);
        let statuses = statuses.as_deref();
        if !search.is_narrow() {
            return self.state_ids_of(environment, statuses, span).await;
        }
        let n_there = statuses.map(|statuses| {
            statuses
                .iter()
                .filter_map(|one| counts.get(one))
                .sum::<i64>()
        });
        if n_there.is_none_or(|n_there| n_there > COUNTED) {
            return self
                .state_ids_found(environment, search, (counts, statuses), span)
                .await;
        }
        // Those of such a status are few, whatever is searched for.
        let whole = Span {
            limit: COUNTED,
            ..span.clone()
        };
        let mut ids = self.state_ids_of(environment, statuses, &whole).await?;
        ids.retain(|id| search.fits(id));
        span.cut(&mut ids);
        Ok(ids)
    }

    /// All within the span that are of these statuses; `None`: of any. Each status is asked for alone, since one index has
    /// those of one status in the order of their ids: in one query they would be read one behind the other, all of them.
    pub(super) async fn state_ids_of(
        &self,
        environment: EnvironmentId,
        statuses: Option<&[ResourceStatus]>,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let id = environment.to_string();
        let parts: Vec<Option<ResourceStatus>> = match statuses {
            None => vec![None],
            Some(statuses) => statuses.iter().copied().map(Some).collect(),
        };
        let mut ids: Vec<ResourceId> = Vec::new();
        for status in parts {
            let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new("SELECT resource_id FROM resource_state WHERE environment_id = ");
                query.push_bind(&id);
                if let Some(status) = status {
                    query.push(concat!(" AND ", status_sql!(), " = ")).push_bind(status.as_str());
                }
                push_span(&mut query, &["resource_id"], span);
                query.build_query_as().fetch_all(pool).await?
            });
            ids.extend(rows.into_iter().map(|(id,)| id));
        }
        ids.sort_unstable();
        span.cut(&mut ids);
        Ok(ids)
    }

    /// Those within the span that have what is searched for, and one of these statuses; `None`: any.
    async fn state_ids_found(
        &self,
        environment: EnvironmentId,
        search: &Search,
        (counts, statuses): (&BTreeMap<ResourceStatus, i64>, Option<&[ResourceStatus]>),
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let mut found = self.found(environment, search, span).await?;
        let n_wanted = usize::try_from(span.limit).unwrap_or_default();
        if statuses.is_none() && Self::all_have_states(counts, found.n_known()) {
            let mut ids = found.take(n_wanted);
            ids.sort_unstable();
            return Ok(ids);
        }
        let (mut ids, mut n_next) = (Vec::new(), n_wanted.min(ROWS));
        while ids.len() < n_wanted {
            let some = found.take(n_next);
            if some.is_empty() {
                break;
            }
            let there = self.state_there(environment, &some, statuses).await?;
            ids.extend(some.into_iter().filter(|id| there.contains(id)));
            n_next = ROWS;
        }
        ids.sort_unstable();
        span.cut(&mut ids);
        Ok(ids)
    }

    /// Whether all of the ids that the lists know have a state, so that none needs to be looked up: there are as many states, and
    /// none whose id the lists do not know.
    pub(super) fn all_have_states(counts: &BTreeMap<ResourceStatus, i64>, n_known: usize) -> bool {
        counts.values().sum::<i64>() == n_known as i64
    }

    /// Which of these resources have a state, and one of these statuses. No more than [`ROWS`] ids.
    pub(super) async fn state_there(
        &self,
        environment: EnvironmentId,
        ids: &[ResourceId],
        statuses: Option<&[ResourceStatus]>,
    ) -> Result<HashSet<ResourceId>> {
        let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new("SELECT resource_id FROM resource_state WHERE environment_id = ");
            query.push_bind(environment.to_string());
            if let Some(statuses) = statuses {
                // Joined with an empty text, so that the rows are looked for by id.
                query.push(concat!(" AND ", status_sql!(), " || '' IN (''"));
                for status in statuses {
                    query.push(", ").push_bind(status.as_str());
                }
                query.push(")");
            }
            push_ids!(query, ids);
            query.build_query_as().fetch_all(pool).await?
        });
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// The statuses to look at: `None` if that is all there are.
    pub(super) fn to_look_at(
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
    ) -> Option<Vec<ResourceStatus>> {
        let wanted = search.statuses.as_ref()?;
        let there = counts.iter().filter(|(_, n)| **n > 0);
        let (shown, hidden): (Vec<_>, Vec<_>) = there
            .map(|(status, _)| *status)
            .partition(|status| wanted.contains(status));
        (!hidden.is_empty()).then_some(shown)
    }

    /// The states that are searched for, by resource id, as far as the span goes. `counts`: of [`Store::state_counts`].
    pub async fn state_page(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        span: &Span,
    ) -> Result<Vec<ResourceState>> {
        let ids = self.state_ids(environment, search, counts, span).await?;
        self.state_some(environment, &ids).await
    }

    /// How many states are searched for within the span, up to its limit.
    pub async fn state_count(
        &self,
        environment: EnvironmentId,
        search: &Search,
        counts: &BTreeMap<ResourceStatus, i64>,
        span: &Span,
    ) -> Result<i64> {
        let is_all = span.after.is_none() && span.before.is_none();
        if is_all && !search.is_narrow() {
            let statuses = Self::to_look_at(search, counts);
            let wanted = |status| statuses.as_ref().is_none_or(|all| all.contains(status));
            return Ok(counts
                .iter()
                .filter(|(status, _)| wanted(status))
                .map(|(_, n)| n)
                .sum());
        }
        let ids = self.state_ids(environment, search, counts, span).await?;
        Ok(ids.len() as i64)
    }

    /// The states of these resources, by id; those that have none are missing.
    pub async fn state_some(
        &self,
        environment: EnvironmentId,
        ids: &[ResourceId],
    ) -> Result<Vec<ResourceState>> {
        let mut states = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                query.push_bind(environment.to_string());
                push_ids!(query, chunk);
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                states.push(row.into_state()?);
            }
        }
        states.sort_unstable_by(|a, b| a.resource_id.cmp(&b.resource_id));
        Ok(states)
    }
}
