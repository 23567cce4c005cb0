//! Parts of the history.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use serde_json::{Map, Value};

use super::{Action, Row};
use crate::domain::{ActionId, EnvironmentId, LogLevel, ResourceId, Timestamp, VersionNumber};
use crate::store::macros::read;
use crate::store::state::{ROWS, push_ids};
use crate::store::{Result, Search, Span, Store, document};

/// Of which resources the history is wanted; `None`: of any.
#[derive(Debug, Clone, Default)]
pub struct ActionSearch {
    pub resource_type: Option<String>,
    pub agent: Option<String>,
    /// An attribute, and what its value begins with, in the version that something was done for.
    pub attribute: Option<(String, String)>,
    /// What is looked for beside the resource. Such actions are found, and others may be.
    pub narrowed: Narrowed,
}

/// What the database looks for of actions, whatever resource they are of. It spares reading a million others.
#[derive(Debug, Clone, Copy, Default)]
pub struct Narrowed {
    /// Only what changed something.
    pub has_changed: bool,
    /// Only what has a line of this level.
    pub level: Option<LogLevel>,
}

impl Narrowed {
    /// ` AND ..`, with the conditions of the index `resource_action_changed` and of those of levels as they stand there: else a
    /// database does not see that they are meant. The levels that most actions have, have none.
    pub(in crate::store) fn condition(self) -> String {
        let mut condition = String::new();
        if self.has_changed {
            condition += " AND change <> 'nochange'";
        }
        if let Some(level) = self.level {
            condition += &format!(" AND messages LIKE '%\"level\":\"{}\"%'", level.as_str());
        }
        condition
    }
}

impl ActionSearch {
    /// Whether it is about any resource.
    pub fn is_any(&self) -> bool {
        self.resource_type.is_none() && self.agent.is_none() && self.attribute.is_none()
    }

    /// For `LIKE .. ESCAPE '!'`: finds all of the type and the agent that are wanted, and what only looks alike; with `ids_say`,
    /// where the id of each resource says whether its attribute is the wanted one, of these.
    fn pattern(&self, ids_say: bool) -> String {
        if self.is_any() {
            return "%".to_owned();
        }
        let part = |part: &Option<String>| match part {
            None => "%".to_owned(),
            Some(text) => escaped(text),
        };
        let (resource_type, agent) = (part(&self.resource_type), part(&self.agent));
        let value = match self.attribute.as_ref().filter(|_| ids_say) {
            None => "%".to_owned(),
            Some((name, begin)) => format!("{}={}%", escaped(name), escaped(begin)),
        };
        format!("{resource_type}[{agent},{value}")
    }

    /// The search of lists that finds all of the type and the agent that are wanted, and more.
    fn as_parts(&self) -> Search {
        let part = |part: &Option<String>| part.iter().map(|text| plain(text)).collect();
        Search {
            types: part(&self.resource_type),
            agents: part(&self.agent),
            values: Vec::new(),
            statuses: None,
        }
    }

    /// Whether type and agent are the wanted ones.
    fn fits_id(&self, id: &ResourceId) -> bool {
        let is = |wanted: &Option<String>, part: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == part)
        };
        is(&self.resource_type, id.resource_type()) && is(&self.agent, id.agent())
    }

    /// Whether the attribute is the wanted one, if the id says so; `None`: it does not say.
    fn fits_value(&self, id: &ResourceId) -> Option<bool> {
        match &self.attribute {
            None => Some(true),
            Some((name, begin)) if id.attribute() == name => Some(id.value().starts_with(begin)),
            Some(_) => None,
        }
    }

    /// Whether the attribute is the wanted one among all of a resource, as JSON.
    fn fits_attributes(&self, attributes: &str) -> bool {
        let Some((name, begin)) = &self.attribute else {
            return true;
        };
        let attributes: Map<String, Value> = serde_json::from_str(attributes).unwrap_or_default();
        match attributes.get(name) {
            Some(Value::String(text)) => text.starts_with(begin),
            Some(Value::Null) | None => false,
            Some(other) => other.to_string().starts_with(begin),
        }
    }

    /// For `LIKE .. ESCAPE '!'`: finds the texts of attributes, as they are stored, that may have the wanted one.
    fn attributes_patterns(name: &str, begin: &str) -> [String; 4] {
        let quoted = |text: &str| escaped(&Value::String(text.to_owned()).to_string());
        let (name, text) = (quoted(name), quoted(begin));
        let text = text.strip_suffix('"').unwrap_or(&text);
        let plain = escaped(begin);
        // With and without a blank behind the colon.
        [
            format!("%{name}:{text}%"),
            format!("%{name}: {text}%"),
            format!("%{name}:{plain}%"),
            format!("%{name}: {plain}%"),
        ]
    }
}

/// A text for `LIKE .. ESCAPE '!'`.
fn escaped(text: &str) -> String {
    text.replace('!', "!!")
        .replace('%', "!%")
        .replace('_', "!_")
}

/// A word for [`Search`] that means itself.
fn plain(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('%', "\\%")
        .replace('_', "\\_")
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

/// So many of the others are looked at for the versions that they are in.
const MANY_LOOKED_AT: usize = 100;

/// Ids that are shown of the resources of a version that was stored: a list costs the same whatever versions have.
const MAX_STORED_IDS: i64 = 1000;

/// A search of the history, prepared: it is read part by part.
#[derive(Debug, Default)]
pub struct ActionPlan {
    search: ActionSearch,
    /// The resources that are searched for; `None`: they are many.
    ids: Option<Vec<ResourceId>>,
    /// The ids of all resources say whether the attribute is the wanted one.
    ids_say: bool,
    /// When versions were stored that have such a resource, with the ids of these actions; `None`: those of any are wanted.
    stored: Option<Vec<(i64, String)>>,
}

/// How a version was stored.
#[derive(Debug)]
pub struct StoreAction {
    pub action: Action,
    /// What a partial export brought; `None`: the version came as a whole.
    sent: Option<HashSet<ResourceId>>,
}

impl StoreAction {
    /// Whether a resource of the version came with it.
    pub fn has_brought(&self, id: &ResourceId) -> bool {
        self.sent.as_ref().is_none_or(|sent| sent.contains(id))
    }
}

/// In which versions resources are as wanted.
type Spans = Vec<(ResourceId, Range<VersionNumber>)>;

/// The actions with so many ids. The environment is compared in a way that no index has: SQLite would take one that begins with
/// it, and read all actions.
pub(super) fn by_ids(n_ids: usize) -> String {
    let ids: Vec<String> = (2..2 + n_ids).map(|number| format!("${number}")).collect();
    let ids = ids.join(", ");
    format!(
        "{} ({ids})",
        select!("WHERE environment_id || '' = $1 AND id IN")
    )
}

impl Store {
    /// Prepares a search of the history.
    pub async fn action_plan(
        &self,
        environment: EnvironmentId,
        search: ActionSearch,
    ) -> Result<ActionPlan> {
        if search.is_any() {
            return Ok(ActionPlan {
                search,
                ..ActionPlan::default()
            });
        }
        let ids_say = match &search.attribute {
            None => false,
            Some((name, _)) => {
                self.names_all_say(environment, &search.as_parts(), name)
                    .await?
            }
        };
        let ids = self.action_resources(environment, &search, ids_say).await?;
        let is_few = ids.len() <= MAX_RESOURCES;
        // Of many there are some in any version that has any of them.
        let looked_at = if is_few { ids.len() } else { MANY_LOOKED_AT };
        let looked_at: Vec<&ResourceId> = ids.iter().take(looked_at).collect();
        let spans = match &search.attribute {
            None => self.action_versions(environment, &looked_at).await?,
            Some(_) => {
                let spans = self.action_spans(environment, &search, &looked_at).await?;
                spans.into_iter().map(|(_, span)| span).collect()
            }
        };
        Ok(ActionPlan {
            stored: Some(self.action_stored(environment, &spans, &looked_at).await?),
            ids: is_few.then_some(ids),
            ids_say,
            search,
        })
    }

    /// A part of the history, in the order of its direction.
    pub async fn action_search(
        &self,
        environment: EnvironmentId,
        plan: &ActionPlan,
        from: ActionFrom,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let mut actions = match &plan.ids {
            Some(ids) => {
                let narrowed = plan.search.narrowed;
                self.action_search_of(environment, ids, narrowed, from, limit)
                    .await?
            }
            None => {
                self.action_search_all(environment, plan, from, limit)
                    .await?
            }
        };
        if let Some(stored) = &plan.stored {
            let (moment, id) = from.key();
            let bound = (moment, id);
            let is_ascending = from.is_ascending();
            let mut keys: Vec<&(i64, String)> = stored
                .iter()
                .filter(|key| {
                    if is_ascending {
                        **key > bound
                    } else {
                        **key < bound
                    }
                })
                .collect();
            keys.sort_unstable();
            if !is_ascending {
                keys.reverse();
            }
            keys.truncate(usize::try_from(limit).unwrap_or_default());
            let ids: Vec<&str> = keys.into_iter().map(|(_, id)| id.as_str()).collect();
            actions.extend(self.action_by_id(environment, &ids).await?);
            sort(&mut actions, is_ascending, limit);
        }
        Ok(actions)
    }

    /// Which of these actions, that a search found, are of resources that are as wanted when the action was made.
    pub async fn action_fitting(
        &self,
        environment: EnvironmentId,
        plan: &ActionPlan,
        actions: Vec<Action>,
    ) -> Result<Vec<Action>> {
        let search = &plan.search;
        if search.is_any() {
            return Ok(actions);
        }
        let is_stored = |action: &Action| action.resource_id.as_str().is_empty();
        let open = |action: &&Action| {
            !is_stored(action)
                && search.fits_id(&action.resource_id)
                && search.fits_value(&action.resource_id).is_none()
        };
        let unknown: Vec<&ResourceId> = actions
            .iter()
            .filter(open)
            .map(|action| &action.resource_id)
            .collect::<HashSet<_>>()
            .into_iter()
            .collect();
        let spans = self.action_spans(environment, search, &unknown).await?;
        let mut known: HashMap<ResourceId, Vec<Range<VersionNumber>>> = HashMap::new();
        for (id, span) in spans {
            known.entry(id).or_default().push(span);
        }
        let is_wanted = |action: &Action| {
            let id = &action.resource_id;
            let is_so_then = || {
                let spans = known.get(id);
                spans.is_some_and(|spans| spans.iter().any(|span| span.contains(&action.version)))
            };
            is_stored(action)
                || (search.fits_id(id) && search.fits_value(id).unwrap_or_else(is_so_then))
        };
        Ok(actions.into_iter().filter(is_wanted).collect())
    }

    /// The resources that these versions brought when they were stored; of many the first ones by id.
    pub async fn action_stored_ids(
        &self,
        environment: EnvironmentId,
        versions: &[VersionNumber],
    ) -> Result<BTreeMap<VersionNumber, Vec<ResourceId>>> {
        const ALL: &str = "SELECT resource_id FROM desired_resource WHERE environment_id = $1 AND + from_version <= $2 \
                           AND to_version > $2 ORDER BY resource_id LIMIT $3";
        let id = environment.to_string();
        let mut stored = BTreeMap::new();
        for (version, sent) in self.version_sent(environment, versions).await? {
            let mut ids: Vec<ResourceId> = match sent {
                Some(sent) => sent.into_iter().collect(),
                None => {
                    let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
                        sqlx::query_as(ALL).bind(&id).bind(version).bind(MAX_STORED_IDS).fetch_all(pool).await?
                    });
                    rows.into_iter().map(|(id,)| id).collect()
                }
            };
            ids.sort_unstable();
            ids.truncate(usize::try_from(MAX_STORED_IDS).unwrap_or_default());
            stored.insert(version, ids);
        }
        Ok(stored)
    }

    /// What partial exports brought, of these versions; `None`: the version came as a whole. Those that are gone are missing.
    async fn version_sent(
        &self,
        environment: EnvironmentId,
        versions: &[VersionNumber],
    ) -> Result<Vec<(VersionNumber, Option<HashSet<ResourceId>>)>> {
        let mut sent = Vec::with_capacity(versions.len());
        for chunk in versions.chunks(ROWS) {
            let rows: Vec<(VersionNumber, Option<String>)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new("SELECT number, sent_ids FROM version WHERE environment_id = ");
                query.push_bind(environment.to_string()).push(" AND number IN (");
                let mut list = query.separated(", ");
                for version in chunk {
                    list.push_bind(version);
                }
                query.push(")");
                query.build_query_as().fetch_all(pool).await?
            });
            for (number, text) in rows {
                let ids =
                    text.map(|text| document("version", "sent_ids", &number.to_string(), &text));
                sent.push((number, ids.transpose()?));
            }
        }
        Ok(sent)
    }

    /// How a version was stored; `None`: its history is gone.
    pub async fn action_store_of(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
    ) -> Result<Option<StoreAction>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!(
                "WHERE environment_id = $1 AND resource_id = '' AND action = 'store' AND version = $2 \
                 AND started_us = (SELECT created_us FROM version WHERE environment_id = $1 AND number = $2)"
            ))
            .bind(environment.to_string())
            .bind(version)
            .fetch_optional(pool)
            .await?
        });
        let sent = self.version_sent(environment, &[version]).await?;
        let Some((row, (_, sent))) = row.zip(sent.into_iter().next()) else {
            return Ok(None);
        };
        let action = row.into_action()?;
        Ok(Some(StoreAction { action, sent }))
    }

    /// The history of a resource, newest first, with the versions that were stored with it.
    pub async fn action_history(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
        limit: i64,
    ) -> Result<Vec<Action>> {
        let mut actions = self
            .action_list(environment, Some(resource_id), limit)
            .await?;
        let spans = self.action_versions(environment, &[resource_id]).await?;
        let stored = self
            .action_stored(environment, &spans, &[resource_id])
            .await?;
        let ids: Vec<&str> = stored.iter().map(|(_, id)| id.as_str()).collect();
        actions.extend(self.action_by_id(environment, &ids).await?);
        sort(&mut actions, false, limit);
        Ok(actions)
    }

    /// When versions were stored, of those within the spans, that have brought one of these resources; with the ids of these
    /// actions.
    async fn action_stored(
        &self,
        environment: EnvironmentId,
        spans: &[Range<VersionNumber>],
        ids: &[&ResourceId],
    ) -> Result<Vec<(i64, String)>> {
        // Of each version that is there, and not of all in the history: those may be a hundred thousand.
        const STORED: &str = "SELECT a.started_us, a.id, v.number FROM version v CROSS JOIN resource_action a \
                              WHERE v.environment_id = $1 AND a.environment_id = $1 AND a.resource_id = '' \
                              AND a.started_us = v.created_us AND a.version = v.number AND a.action = 'store'";
        if spans.is_empty() {
            return Ok(Vec::new());
        }
        let id = environment.to_string();
        let mut stored: Vec<(i64, String, VersionNumber)> = read!(self.db, pool => {
            sqlx::query_as(STORED).bind(&id).fetch_all(pool).await?
        });
        stored.retain(|(_, _, version)| spans.iter().any(|span| span.contains(version)));
        let versions: Vec<VersionNumber> = stored.iter().map(|(_, _, version)| *version).collect();
        let sent: BTreeMap<_, _> = self
            .version_sent(environment, &versions)
            .await?
            .into_iter()
            .collect();
        let has_brought = |version: &VersionNumber| match sent.get(version) {
            // It is deleted.
            None => false,
            Some(None) => true,
            Some(Some(sent)) => ids.iter().any(|id| sent.contains(*id)),
        };
        Ok(stored
            .into_iter()
            .filter(|(_, _, version)| has_brought(version))
            .map(|(started, id, _)| (started, id))
            .collect())
    }

    /// The versions that have one of these resources, each span once.
    async fn action_versions(
        &self,
        environment: EnvironmentId,
        ids: &[&ResourceId],
    ) -> Result<Vec<Range<VersionNumber>>> {
        let mut spans: HashSet<(VersionNumber, VersionNumber)> = HashSet::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<(VersionNumber, VersionNumber)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT DISTINCT from_version, to_version FROM desired_resource WHERE environment_id = ",
                );
                query.push_bind(environment.to_string());
                push_ids!(query, chunk);
                query.build_query_as().fetch_all(pool).await?
            });
            spans.extend(rows);
        }
        Ok(spans.into_iter().map(|(from, to)| from..to).collect())
    }

    async fn action_by_id(&self, environment: EnvironmentId, ids: &[&str]) -> Result<Vec<Action>> {
        let mut actions = Vec::with_capacity(ids.len());
        for chunk in ids.chunks(ROWS) {
            let sql = by_ids(chunk.len());
            let rows: Vec<Row> = read!(self.db, pool => {
                let mut query = sqlx::query_as(&sql).bind(environment.to_string());
                for id in chunk {
                    query = query.bind(*id);
                }
                query.fetch_all(pool).await?
            });
            for row in rows {
                actions.push(row.into_action()?);
            }
        }
        Ok(actions)
    }

    /// In which versions these resources, which may be wanted, are so.
    async fn action_spans(
        &self,
        environment: EnvironmentId,
        search: &ActionSearch,
        ids: &[&ResourceId],
    ) -> Result<Spans> {
        let mut spans = Vec::new();
        for chunk in ids.chunks(ROWS) {
            let rows: Vec<(ResourceId, VersionNumber, VersionNumber, String)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new(
                    "SELECT resource_id, from_version, to_version, attributes FROM desired_resource WHERE environment_id = ",
                );
                query.push_bind(environment.to_string());
                push_ids!(query, chunk);
                query.build_query_as().fetch_all(pool).await?
            });
            let fitting = rows.into_iter().filter(|(id, _, _, attributes)| {
                let by_id = search.fits_value(id);
                by_id.unwrap_or_else(|| search.fits_attributes(attributes))
            });
            spans.extend(fitting.map(|(id, from, to, _)| (id, from..to)));
        }
        Ok(spans)
    }

    /// The resources whose history is searched for; if they are more than `MAX_RESOURCES`, some of them.
    async fn action_resources(
        &self,
        environment: EnvironmentId,
        search: &ActionSearch,
        ids_say: bool,
    ) -> Result<Vec<ResourceId>> {
        let mut ids = Vec::new();
        let Some((name, begin)) = &search.attribute else {
            let mut found = self
                .found(environment, &search.as_parts(), &Span::first(0))
                .await?;
            loop {
                let some = found.take(ROWS);
                if some.is_empty() || ids.len() > MAX_RESOURCES {
                    return Ok(ids);
                }
                ids.extend(some.into_iter().filter(|id| search.fits_id(id)));
            }
        };
        // What the id says is found in memory; if there are resources whose ids do not say it, the database looks for it.
        let by_id = Search {
            values: vec![plain(begin)],
            ..search.as_parts()
        };
        if ids_say {
            let mut found = self.found(environment, &by_id, &Span::first(0)).await?;
            loop {
                let some = found.take(ROWS);
                if some.is_empty() || ids.len() > MAX_RESOURCES {
                    return Ok(ids);
                }
                let is_wanted =
                    |id: &ResourceId| search.fits_id(id) && search.fits_value(id) == Some(true);
                ids.extend(some.into_iter().filter(is_wanted));
            }
        }
        let patterns = ActionSearch::attributes_patterns(name, begin);
        let rows: Vec<(ResourceId,)> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new("SELECT DISTINCT resource_id FROM desired_resource WHERE environment_id = ");
            query.push_bind(environment.to_string());
            if let Some(resource_type) = &search.resource_type {
                query.push(" AND resource_type = ").push_bind(resource_type.as_str());
            }
            if let Some(agent) = &search.agent {
                query.push(" AND agent = ").push_bind(agent.as_str());
            }
            query.push(" AND (");
            let mut any = query.separated(" OR ");
            for pattern in &patterns {
                any.push("attributes LIKE ").push_bind_unseparated(pattern.as_str()).push_unseparated(" ESCAPE '!'");
            }
            query.push(") LIMIT ").push_bind(MAX_RESOURCES as i64 + 1);
            query.build_query_as().persistent(false).fetch_all(pool).await?
        });
        Ok(rows.into_iter().map(|(id,)| id).collect())
    }

    /// A part of the history of all resources of a type and an agent. It may hold a little more than was searched for:
    /// databases compare letters in their own ways.
    async fn action_search_all(
        &self,
        environment: EnvironmentId,
        plan: &ActionPlan,
        from: ActionFrom,
        limit: i64,
    ) -> Result<Vec<Action>> {
        const SELECT: &str =
            select!("WHERE environment_id = $1 AND resource_id LIKE $2 ESCAPE '!'");
        const DESCENDING: &str = "AND started_us <= $3 AND (started_us < $3 OR id < $4) \
                                  ORDER BY started_us DESC, id DESC LIMIT $5";
        const ASCENDING: &str = "AND started_us >= $3 AND (started_us > $3 OR id > $4) \
                                 ORDER BY started_us, id LIMIT $5";
        let (moment, id) = from.key();
        let order = if from.is_ascending() {
            ASCENDING
        } else {
            DESCENDING
        };
        let sql = format!("{SELECT}{} {order}", plan.search.narrowed.condition());
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(&sql)
                .bind(environment.to_string())
                .bind(plan.search.pattern(plan.ids_say))
                .bind(moment)
                .bind(id)
                .bind(limit)
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_action).collect()
    }

    /// As [`Store::action_search`], of these resources.
    async fn action_search_of(
        &self,
        environment: EnvironmentId,
        ids: &[ResourceId],
        narrowed: Narrowed,
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
                query.push(narrowed.condition());
                push_ids!(query, chunk);
                query.push(order).push_bind(limit);
                query.build_query_as().fetch_all(pool).await?
            });
            for row in rows {
                actions.push(row.into_action()?);
            }
        }
        sort(&mut actions, from.is_ascending(), limit);
        Ok(actions)
    }
}

/// Puts actions in the order of a direction, and leaves so many.
fn sort(actions: &mut Vec<Action>, is_ascending: bool, limit: i64) {
    actions.sort_unstable_by_key(|action| (action.started, action.id));
    if !is_ascending {
        actions.reverse();
    }
    actions.truncate(usize::try_from(limit).unwrap_or_default());
}
