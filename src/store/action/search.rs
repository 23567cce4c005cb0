//! Parts of the history.

use super::{Action, Row};
use crate::domain::{ActionId, EnvironmentId, ResourceId, Timestamp};
use crate::store::macros::read;
use crate::store::state::{ROWS, push_ids};
use crate::store::{Result, Search, Span, Store};

/// Parts of the resource ids of which the history is wanted; `None`: any.
#[derive(Debug, Clone, Default)]
pub struct ActionSearch {
    pub resource_type: Option<String>,
    pub agent: Option<String>,
    pub value: Option<String>,
}

impl ActionSearch {
    fn is_any(&self) -> bool {
        self.resource_type.is_none() && self.agent.is_none() && self.value.is_none()
    }

    /// For `LIKE .. ESCAPE '!'`: finds all that is wanted, and what only looks alike.
    fn pattern(&self) -> String {
        if self.is_any() {
            return "%".to_owned();
        }
        let part = |part: &Option<String>| match part {
            None => "%".to_owned(),
            Some(text) => text
                .replace('!', "!!")
                .replace('%', "!%")
                .replace('_', "!_"),
        };
        let (resource_type, agent) = (part(&self.resource_type), part(&self.agent));
        format!("{resource_type}[{agent},%={}]", part(&self.value))
    }

    /// The search of lists that finds all that is wanted, and more.
    fn as_parts(&self) -> Search {
        let part = |part: &Option<String>| part.iter().cloned().collect();
        Search {
            types: part(&self.resource_type),
            agents: part(&self.agent),
            values: part(&self.value),
            statuses: None,
        }
    }

    fn fits(&self, id: &ResourceId) -> bool {
        let is = |wanted: &Option<String>, part: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == part)
        };
        is(&self.resource_type, id.resource_type())
            && is(&self.agent, id.agent())
            && is(&self.value, id.value())
    }
}

/// The history of so few resources is looked for resource by resource; that of more, run by run, newest first: it is soon
/// full.
const MAX_RESOURCES: usize = 2000;

impl Store {
    /// A part of the history, newest first, of what is older than `before`. It may hold a little more than was searched
    /// for: databases compare letters in their own ways.
    pub async fn action_search(
        &self,
        environment: EnvironmentId,
        search: &ActionSearch,
        before: Option<&(Timestamp, ActionId)>,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let (moment, id) = before.map_or((i64::MAX, String::new()), |(moment, id)| {
            (moment.0, id.to_string())
        });
        if let Some(ids) = self.action_resources(environment, search).await? {
            return self
                .action_search_of(environment, &ids, (moment, &id), limit)
                .await;
        }
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND resource_id LIKE $2 ESCAPE '!' \
                 AND started_us <= $3 AND (started_us < $3 OR id < $4) \
                 ORDER BY started_us DESC, id DESC LIMIT $5"
            ))
            .bind(environment.to_string())
            .bind(search.pattern())
            .bind(moment)
            .bind(id)
            .bind(limit)
            .fetch_all(pool)
            .await?
        });
        rows.into_iter().map(Row::into_action).collect()
    }

    /// The resources whose history is searched for, if they are few; `None`: they are many.
    async fn action_resources(
        &self,
        environment: EnvironmentId,
        search: &ActionSearch,
    ) -> Result<Option<Vec<ResourceId>>> {
        if search.is_any() {
            return Ok(None);
        }
        let any = Span::first(0);
        let found = self.found(environment, &search.as_parts(), &any).await;
        let (mut found, mut ids) = (found?, Vec::new());
        loop {
            let some = found.take(ROWS);
            if some.is_empty() {
                return Ok(Some(ids));
            }
            ids.extend(some.into_iter().filter(|id| search.fits(id)));
            if ids.len() > MAX_RESOURCES {
                return Ok(None);
            }
        }
    }

    /// As [`Store::action_search`], of these resources.
    async fn action_search_of(
        &self,
        environment: EnvironmentId,
        ids: &[ResourceId],
        (moment, id): (i64, &str),
        limit: i64,
    ) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                query.push_bind(environment.to_string());
                query.push(" AND started_us <= ").push_bind(moment);
                query.push(" AND (started_us < ").push_bind(moment);
                query.push(" OR id < ").push_bind(id).push(")");
                push_ids!(query, chunk);
                // The plus keeps databases from going through the whole history in its order.
                query.push(" ORDER BY started_us + 0 DESC, id DESC LIMIT ").push_bind(limit);
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                actions.push(row.into_action()?);
            }
        }
        actions.sort_unstable_by_key(|action| std::cmp::Reverse((action.started, action.id)));
        actions.truncate(usize::try_from(limit).unwrap_or_default());
        Ok(actions)
    }
}
