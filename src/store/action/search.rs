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

/// From where the history is read, and in which direction. Without the action the whole moment is left out.
#[derive(Debug, Clone, Copy, Default)]
pub enum ActionFrom {
    #[default]
    Newest,
    /// To older ones.
    Before(Timestamp, Option<ActionId>),
    /// To newer ones.
    After(Timestamp, Option<ActionId>),
}

impl ActionFrom {
    /// The same direction, from an action on.
    pub fn behind(self, action: &Action) -> Self {
        let (moment, id) = (action.started, Some(action.id));
        if self.is_ascending() {
            Self::After(moment, id)
        } else {
            Self::Before(moment, id)
        }
    }

    pub fn is_ascending(self) -> bool {
        matches!(self, Self::After(..))
    }

    /// The moment, and a text that ids of that moment are compared with.
    fn key(self) -> (i64, String) {
        let text = |id: Option<ActionId>| id.map(|id| id.to_string());
        match self {
            Self::Newest => (i64::MAX, String::new()),
            Self::Before(moment, id) => (moment.0, text(id).unwrap_or_default()),
            // Behind all ids.
            Self::After(moment, id) => (moment.0, text(id).unwrap_or_else(|| "g".to_owned())),
        }
    }
}

/// The history of so few resources is looked for resource by resource; that of more, run by run, newest first: it is soon
/// full.
const MAX_RESOURCES: usize = 2000;

impl Store {
    /// A part of the history, in the order of its direction. It may hold a little more than was searched for: databases
    /// compare letters in their own ways.
    pub async fn action_search(
        &self,
        environment: EnvironmentId,
        search: &ActionSearch,
        from: ActionFrom,
        limit: i64,
    ) -> Result<Vec<Action>> {
        const DESCENDING: &str = select!(
            "WHERE environment_id = $1 AND resource_id LIKE $2 ESCAPE '!' \
             AND started_us <= $3 AND (started_us < $3 OR id < $4) \
             ORDER BY started_us DESC, id DESC LIMIT $5"
        );
        const ASCENDING: &str = select!(
            "WHERE environment_id = $1 AND resource_id LIKE $2 ESCAPE '!' \
             AND started_us >= $3 AND (started_us > $3 OR id > $4) \
             ORDER BY started_us, id LIMIT $5"
        );
        if let Some(ids) = self.action_resources(environment, search).await? {
            return self.action_search_of(environment, &ids, from, limit).await;
        }
        let (moment, id) = from.key();
        let sql = if from.is_ascending() {
            ASCENDING
        } else {
            DESCENDING
        };
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(sql)
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
        from: ActionFrom,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let (moment, id) = from.key();
        // The plus keeps databases from going through the whole history in its order.
        let (beyond, order) = if from.is_ascending() {
            (">", " ORDER BY started_us + 0, id LIMIT ")
        } else {
            ("<", " ORDER BY started_us + 0 DESC, id DESC LIMIT ")
        };
        let mut actions = Vec::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(select!("WHERE environment_id = "));
                query.push_bind(environment.to_string());
                query.push(format!(" AND started_us {beyond}= ")).push_bind(moment);
                query.push(format!(" AND (started_us {beyond} ")).push_bind(moment);
                query.push(format!(" OR id {beyond} ")).push_bind(id.clone()).push(")");
                push_ids!(query, chunk);
                query.push(order).push_bind(limit);
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                actions.push(row.into_action()?);
            }
        }
        actions.sort_unstable_by_key(|action| (action.started, action.id));
        if !from.is_ascending() {
            actions.reverse();
        }
        actions.truncate(usize::try_from(limit).unwrap_or_default());
        Ok(actions)
    }
}
