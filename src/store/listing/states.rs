//! Pages and counts of states. Source: docs/reference/rest.md § 1.6.

use std::collections::BTreeMap;

use super::{Search, Span, pattern, push_span, push_texts};
use crate::domain::{AgentName, EnvironmentId, ResourceId, ResourceStatus};
use crate::store::macros::read;
use crate::store::state::{ROWS, Row, push_ids, select, status_sql};
use crate::store::{ResourceState, Result, Store, parsed};

/// Agents whose resources are looked for one agent after the other. Of more, all resources are looked at: a page is soon full.
const MAX_AGENTS: i64 = 50;

/// A part of a list that one index has in the order of the ids.
#[derive(Debug, Clone, Copy)]
enum Part<'a> {
    All,
    Status(ResourceStatus),
    Agent(&'a AgentName),
}

/// The parts that a list is put together of: in one query they would be read one behind the other, all of them. `agents`,
/// `statuses`: `None` is any. The agents of orphans may be no more, so all orphans are looked at.
fn parts<'a>(
    agents: Option<&'a [AgentName]>,
    statuses: Option<&[ResourceStatus]>,
) -> Vec<Part<'a>> {
    let orphaned = ResourceStatus::Orphaned;
    match (agents, statuses) {
        (None, None) => vec![Part::All],
        (None, Some(statuses)) => statuses.iter().copied().map(Part::Status).collect(),
        (Some(agents), statuses) => {
            let orphans = statuses.is_none_or(|statuses| statuses.contains(&orphaned));
            let orphans = orphans.then_some(Part::Status(orphaned));
            agents.iter().map(Part::Agent).chain(orphans).collect()
        }
    }
}

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

    /// Which resources are searched for, by id, as far as the span goes. `statuses`: those to look at; `None`: any.
    async fn state_ids(
        &self,
        environment: EnvironmentId,
        search: &Search,
        statuses: Option<&[ResourceStatus]>,
        span: &Span,
    ) -> Result<Vec<ResourceId>> {
        let id = environment.to_string();
        let is_ascii_only = self.is_sqlite();
        let agents = self.agents_meant(environment, search).await?;
        let mut ids: Vec<ResourceId> = Vec::new();
        for part in parts(agents.as_deref(), statuses) {
            let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new("SELECT resource_id FROM resource_state WHERE environment_id = ");
                query.push_bind(&id);
                match part {
                    Part::All => {}
                    Part::Status(status) => {
                        query.push(concat!(" AND ", status_sql!(), " = ")).push_bind(status.as_str());
                    }
                    Part::Agent(agent) => {
                        query.push(" AND agent = ").push_bind(agent.as_str());
                        if let Some(statuses) = statuses {
                            // Joined with an empty text, so that the rows are looked for by agent.
                            query.push(concat!(" AND ", status_sql!(), " || '' IN (''"));
                            for status in statuses {
                                query.push(", ").push_bind(status.as_str());
                            }
                            query.push(")");
                        }
                    }
                }
                push_texts!(query, search, is_ascii_only);
                push_span!(query, span);
                query.build_query_as().fetch_all(pool).await?
            });
            ids.extend(rows.into_iter().map(|(id,)| id));
        }
        ids.sort_unstable();
        ids.dedup();
        let n_wanted = usize::try_from(span.limit).unwrap_or_default();
        if span.is_last {
            ids.drain(..ids.len().saturating_sub(n_wanted));
        } else {
            ids.truncate(n_wanted);
        }
        Ok(ids)
    }

    /// The agents that a search for parts of their names means, if they are few; `None`: they are many, or any.
    async fn agents_meant(
        &self,
        environment: EnvironmentId,
        search: &Search,
    ) -> Result<Option<Vec<AgentName>>> {
        if search.agents.is_empty() {
            return Ok(None);
        }
        let is_ascii_only = self.is_sqlite();
        let rows: Vec<(AgentName,)> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new("SELECT name FROM agent WHERE environment_id = ");
            query.push_bind(environment.to_string());
            let mut separator = " AND (LOWER(name) LIKE ";
            for word in &search.agents {
                query.push(separator).push_bind(pattern(word, is_ascii_only)).push(" ESCAPE '!'");
                separator = " OR LOWER(name) LIKE ";
            }
            query.push(") LIMIT ").push_bind(MAX_AGENTS + 1);
            query.build_query_as().fetch_all(pool).await?
        });
        let is_few = rows.len() <= usize::try_from(MAX_AGENTS).unwrap_or_default();
        Ok(is_few.then(|| rows.into_iter().map(|(name,)| name).collect()))
    }

    /// The statuses to look at: `None` if that is all there are.
    fn to_look_at(
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
        let statuses = Self::to_look_at(search, counts);
        let ids = self
            .state_ids(environment, search, statuses.as_deref(), span)
            .await?;
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
        let statuses = Self::to_look_at(search, counts);
        let is_all = span.after.is_none() && span.before.is_none();
        if is_all && !search.is_narrow() {
            let wanted = |status| statuses.as_ref().is_none_or(|all| all.contains(status));
            return Ok(counts
                .iter()
                .filter(|(status, _)| wanted(status))
                .map(|(_, n)| n)
                .sum());
        }
        let ids = self
            .state_ids(environment, search, statuses.as_deref(), span)
            .await?;
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
