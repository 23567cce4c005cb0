//! The current state of resources, one row each, and of agents.

use std::collections::BTreeMap;

use futures_util::TryStreamExt;

use super::listing::{Condition, List, Listed};
use super::macros::{read, row, write};
use super::{Error, Key, Part, Result, Span, Store};
use crate::domain::{
    AgentName, Blocked, Compliance, EnvironmentId, LastRun, ResourceId, ResourceStatus, SharedText,
    Timestamp, VersionNumber,
};

/// Rows of one statement: with twenty columns well within SQLite's 32766 parameters.
pub(super) const ROWS: usize = 500;

/// Source: docs/reference/deployment.md § 3.1, layer 2.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceState {
    pub resource_id: ResourceId,
    pub resource_type: SharedText,
    pub agent: AgentName,
    pub id_value: SharedText,
    pub created: Timestamp,
    /// The last version that had it; `None` while it is in the active version.
    pub orphaned_after: Option<VersionNumber>,
    pub is_undefined: bool,
    pub is_deploying: bool,
    pub blocked: Blocked,
    pub intent_hash: SharedText,
    pub deployed_hash: Option<SharedText>,
    pub deployed_version: Option<VersionNumber>,
    pub last_run: LastRun,
    pub last_run_compliant: Option<bool>,
    /// End of the last run.
    pub last_run_at: Option<Timestamp>,
    /// Start of the last successful run.
    pub last_success: Option<Timestamp>,
    /// End of the last run of any outcome.
    pub last_events: Option<Timestamp>,
    /// Start of the last run that changed something, or may have.
    pub last_change: Option<Timestamp>,
    /// Old-style status to show while it is not deploying.
    pub last_status: ResourceStatus,
    /// Failed runs in a row.
    pub n_failures: i64,
}

impl ResourceState {
    /// The old-style status. Source: docs/reference/deployment.md § 3.3.
    pub fn status(&self) -> ResourceStatus {
        if self.orphaned_after.is_some() {
            ResourceStatus::Orphaned
        } else if self.is_deploying {
            ResourceStatus::Deploying
        } else if self.is_undefined {
            ResourceStatus::Undefined
        } else if self.blocked == Blocked::Blocked {
            ResourceStatus::SkippedForUndefined
        } else if self.deployed_hash.as_deref() != Some(&self.intent_hash) {
            ResourceStatus::Available
        } else {
            self.last_status
        }
    }

    /// `None` for an orphan. Source: docs/reference/deployment.md § 3.3.
    pub fn compliance(&self) -> Option<Compliance> {
        if self.orphaned_after.is_some() {
            None
        } else if self.is_undefined {
            Some(Compliance::Undefined)
        } else if self.last_run == LastRun::New
            || self.deployed_hash.as_deref() != Some(&self.intent_hash)
        {
            Some(Compliance::HasUpdate)
        } else if self.last_run_compliant == Some(true) {
            Some(Compliance::Compliant)
        } else {
            Some(Compliance::NonCompliant)
        }
    }
}

row! {
    /// A logical queue of work. Source: docs/reference/deployment.md § 1.4.
    #[derive(Debug, Clone)]
    pub struct Agent {
        pub name: AgentName,
        pub paused: bool,
        pub unpause_on_resume: Option<bool>,
        away_us: Option<i64>,
        paused_us: Option<i64>,
    }
}

/// What agents are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentOrder {
    Name,
    Paused,
    Status,
}

/// What agents are searched by.
#[derive(Debug, Clone, Default)]
pub struct AgentSearch {
    /// Parts of the name.
    pub names: Vec<String>,
    /// One of these, of [`Agent::status`].
    pub statuses: Vec<String>,
}

/// To the letter of the indexes.
pub(super) const AGENT_STATUS: &str =
    "(CASE WHEN paused THEN 'paused' WHEN away_us IS NULL THEN 'up' ELSE 'down' END)";
const AGENT_PAUSED: &str = "(CASE WHEN paused THEN 'true' ELSE 'false' END)";

impl Listed for Agent {
    const TABLE: &'static str = "agent";
    const COLUMNS: &'static str = "name, paused, unpause_on_resume, away_us, paused_us";

    fn part(&self, column: &str) -> Part {
        match column {
            AGENT_STATUS => Part::text(self.status()),
            AGENT_PAUSED => Part::text(self.paused.to_string()),
            _ => Part::text(self.name.as_str()),
        }
    }
}

impl AgentOrder {
    /// Of what kind its keys are.
    pub fn kind(self) -> Key {
        Key::texts(if self == Self::Name { 1 } else { 2 })
    }
}

impl AgentSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list(AgentOrder::Name).conditions.is_empty()
    }

    fn list(&self, order: AgentOrder) -> List {
        let conditions = [
            Condition::has("name", &self.names),
            match self.statuses.as_slice() {
                [status] => Some(Condition::Equal(AGENT_STATUS, status.clone())),
                statuses => Condition::is(AGENT_STATUS, statuses),
            },
        ];
        List {
            columns: match order {
                AgentOrder::Name => &["name"],
                AgentOrder::Paused => &[AGENT_PAUSED, "name"],
                AgentOrder::Status => &[AGENT_STATUS, "name"],
            },
            base: "",
            counted_as: "agent",
            conditions: conditions.into_iter().flatten().collect(),
        }
    }
}

impl Agent {
    /// Source: docs/reference/deployment.md § 1.4.
    pub fn status(&self) -> &'static str {
        match (self.paused, self.away_us) {
            (true, _) => "paused",
            (false, Some(_)) => "down",
            (false, None) => "up",
        }
    }

    /// Since when it is paused; `None`: it is not, or was before this was noted.
    pub fn paused_since(&self) -> Option<Timestamp> {
        self.paused_us.map(Timestamp)
    }

    /// Since when it is not connected, if it runs on another machine; `None`: it is connected, or it runs here.
    pub fn away_since(&self) -> Option<Timestamp> {
        self.away_us.map(Timestamp)
    }
}

row! {
    pub(super) struct Row {
        resource_id: ResourceId,
        resource_type: String,
        agent: AgentName,
        id_value: String,
        created_us: i64,
        orphaned_after: Option<VersionNumber>,
        is_undefined: bool,
        is_deploying: bool,
        blocked: String,
        intent_hash: String,
        deployed_hash: Option<String>,
        deployed_version: Option<VersionNumber>,
        last_run: String,
        last_run_compliant: Option<bool>,
        last_run_us: Option<i64>,
        last_success_us: Option<i64>,
        last_events_us: Option<i64>,
        last_change_us: Option<i64>,
        last_status: String,
        n_failures: i64,
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT resource_id, resource_type, agent, id_value, created_us, orphaned_after, is_undefined, \
             is_deploying, blocked, intent_hash, deployed_hash, deployed_version, last_run, last_run_compliant, \
             last_run_us, last_success_us, last_events_us, last_change_us, last_status, n_failures FROM resource_state ",
            $rest
        )
    };
}

pub(super) use select;

impl Row {
    pub(super) fn into_state(self) -> Result<ResourceState> {
        let bad = |column| Error::Row {
            table: "resource_state",
            column,
            id: self.resource_id.to_string(),
        };
        Ok(ResourceState {
            blocked: Blocked::parse(&self.blocked).ok_or_else(|| bad("blocked"))?,
            last_run: LastRun::parse(&self.last_run).ok_or_else(|| bad("last_run"))?,
            last_status: self.last_status.parse().map_err(|_| bad("last_status"))?,
            resource_id: self.resource_id,
            resource_type: self.resource_type.into(),
            agent: self.agent,
            id_value: self.id_value.into(),
            created: Timestamp(self.created_us),
            orphaned_after: self.orphaned_after,
            is_undefined: self.is_undefined,
            is_deploying: self.is_deploying,
            intent_hash: self.intent_hash.into(),
            deployed_hash: self.deployed_hash.map(SharedText::from),
            deployed_version: self.deployed_version,
            last_run_compliant: self.last_run_compliant,
            last_run_at: self.last_run_us.map(Timestamp),
            last_success: self.last_success_us.map(Timestamp),
            last_events: self.last_events_us.map(Timestamp),
            last_change: self.last_change_us.map(Timestamp),
            n_failures: self.n_failures,
        })
    }
}

/// The status as the database derives it: [`ResourceState::status`], to the letter of an index.
macro_rules! status_sql {
    () => {
        "CASE WHEN orphaned_after IS NOT NULL THEN 'orphaned' WHEN is_deploying THEN 'deploying' \
         WHEN is_undefined THEN 'undefined' WHEN blocked = 'blocked' THEN 'skipped_for_undefined' \
         WHEN deployed_hash IS NULL OR deployed_hash <> intent_hash THEN 'available' ELSE last_status END"
    };
}
pub(super) use status_sql;

impl Store {
    /// All resources that ever were in an active version, orphans included, by id.
    pub async fn state_list(&self, environment: EnvironmentId) -> Result<Vec<ResourceState>> {
        const SQL: &str = select!("WHERE environment_id = $1 ORDER BY resource_id");
        let mut states = Vec::new();
        read!(self.db, pool => {
            let query = sqlx::query_as::<_, Row>(SQL).bind(environment.to_string());
            let mut rows = query.fetch(pool);
            while let Some(row) = rows.try_next().await? {
                states.push(row.into_state()?);
            }
        });
        Ok(states)
    }

    pub async fn state_fetch(
        &self,
        environment: EnvironmentId,
        resource_id: &ResourceId,
    ) -> Result<Option<ResourceState>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 AND resource_id = $2"))
                .bind(environment.to_string())
                .bind(resource_id)
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_state).transpose()
    }

    /// The agents that are searched for, each with its place, as far as the span goes.
    pub async fn agent_page(
        &self,
        environment: EnvironmentId,
        search: &AgentSearch,
        order: AgentOrder,
        span: &Span,
    ) -> Result<Vec<(Key, Agent)>> {
        self.rows_page(environment, &search.list(order), span).await
    }

    /// How many agents are searched for within the span, up to its limit; without edges and search, all.
    pub async fn agent_count(
        &self,
        environment: EnvironmentId,
        search: &AgentSearch,
        order: AgentOrder,
        span: &Span,
    ) -> Result<i64> {
        let list = search.list(order);
        self.rows_count::<Agent>(environment, &list, span).await
    }

    pub async fn agent_list(&self, environment: EnvironmentId) -> Result<Vec<Agent>> {
        const SQL: &str = "SELECT name, paused, unpause_on_resume, away_us, paused_us FROM agent WHERE environment_id = $1 ORDER BY name";
        Ok(
            read!(self.db, pool => sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?),
        )
    }

    /// The agents that start nothing, since they are paused or away. There are few of them, of however many agents.
    pub async fn agent_still(&self, environment: EnvironmentId) -> Result<Vec<Agent>> {
        let sql = format!(
            "SELECT name, paused, unpause_on_resume, away_us, paused_us FROM agent WHERE environment_id = $1 \
             AND {AGENT_STATUS} IN ('paused', 'down') ORDER BY name"
        );
        Ok(
            read!(self.db, pool => sqlx::query_as(&sql).bind(environment.to_string()).fetch_all(pool).await?),
        )
    }

    /// Notes that these agents of other machines are not connected, and since when; or that they are.
    pub async fn agent_set_away(
        &self,
        environment: EnvironmentId,
        names: &[&AgentName],
        since: Option<Timestamp>,
    ) -> Result<()> {
        let since = since.map(|since| since.0);
        for chunk in names.chunks(ROWS) {
            // An agent that no version named yet has no row, and that is all right: then nothing is written.
            let known: Vec<(AgentName,)> = read!(self.db, pool => {
                let mut query = sqlx::QueryBuilder::new("SELECT name FROM agent WHERE environment_id = ");
                query.push_bind(environment.to_string()).push(" AND name IN (");
                let mut list = query.separated(", ");
                for name in chunk {
                    list.push_bind(*name);
                }
                query.push(")");
                query.build_query_as().persistent(false).fetch_all(pool).await?
            });
            if known.is_empty() {
                continue;
            }
            let _n_rows = write!(self.db, pool => {
                let mut update = sqlx::QueryBuilder::new("UPDATE agent SET away_us = ");
                update.push_bind(since).push(" WHERE environment_id = ").push_bind(environment.to_string());
                update.push(" AND name IN (");
                let mut list = update.separated(", ");
                for (name,) in &known {
                    list.push_bind(name);
                }
                update.push(")");
                update.build().persistent(false).execute(pool).await?.rows_affected()
            });
        }
        Ok(())
    }

    /// Pauses an agent, or all for `None`, or lets them go on; `false`: there is no such agent.
    pub async fn agent_pause(
        &self,
        environment: EnvironmentId,
        name: Option<&AgentName>,
        paused: bool,
    ) -> Result<bool> {
        // One that is paused twice is so since the first time.
        const PAUSE: &str = "UPDATE agent SET paused = TRUE, paused_us = CASE WHEN paused THEN paused_us ELSE $3 END \
                             WHERE environment_id = $1 AND ($2 IS NULL OR name = $2)";
        const UNPAUSE: &str = "UPDATE agent SET paused = FALSE, paused_us = NULL \
                               WHERE environment_id = $1 AND ($2 IS NULL OR name = $2)";
        let now = Timestamp::now().0;
        Ok(write!(self.db, pool => {
            let query = match paused {
                true => sqlx::query(PAUSE).bind(environment.to_string()).bind(name).bind(now),
                false => sqlx::query(UNPAUSE).bind(environment.to_string()).bind(name),
            };
            query.execute(pool).await?.rows_affected()
        }) > 0)
    }

    /// Says whether an agent, or all for `None`, goes on when its environment is resumed; `false`: there is no such agent.
    pub async fn agent_unpause_on_resume(
        &self,
        environment: EnvironmentId,
        name: Option<&AgentName>,
        unpause: bool,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE agent SET unpause_on_resume = $3 WHERE environment_id = $1 AND ($2 IS NULL OR name = $2)";
        Ok(write!(self.db, pool => {
            let query = sqlx::query(SQL).bind(environment.to_string()).bind(name).bind(unpause);
            query.execute(pool).await?.rows_affected()
        }) > 0)
    }
}

/// Adds ` AND resource_id IN (..)` to a query. No more than [`ROWS`] ids.
macro_rules! push_ids {
    ($query:expr, $ids:expr) => {
        $query.push(" AND resource_id IN (");
        let mut list = $query.separated(", ");
        for id in $ids {
            list.push_bind(id);
        }
        $query.push(")");
    };
}
pub(super) use push_ids;

/// Adds the agents that are not known yet, on the transaction `$tx`.
macro_rules! add_agents {
    ($tx:expr, $environment:expr, $agents:expr) => {
        for chunk in $agents.chunks($crate::store::state::ROWS) {
            let mut insert = sqlx::QueryBuilder::new("INSERT INTO agent (environment_id, name) ");
            insert.push_values(chunk, |mut row, agent| {
                row.push_bind($environment).push_bind(agent);
            });
            insert.push(" ON CONFLICT (environment_id, name) DO NOTHING");
            insert.build().execute(&mut *$tx).await?;
        }
    };
}
pub(super) use add_agents;

/// Does what changes the states of the resources `$ids`, on the transaction `$tx`, and keeps `resource_count` true.
macro_rules! counted {
    ($tx:expr, $environment:expr, $ids:expr, $change:expr) => {{
        let ids: Vec<&$crate::domain::ResourceId> = $ids.iter().map(std::borrow::Borrow::borrow).collect();
        let before = $crate::store::batch::Batches::count_statuses(&mut *$tx, $environment, &ids).await?;
        $change
        let after = $crate::store::batch::Batches::count_statuses(&mut *$tx, $environment, &ids).await?;
        $crate::store::state::add!($tx, $environment, before, after);
    }};
}
pub(super) use counted;

/// Adds what differs between two counts to `resource_count`, on the transaction `$tx`.
macro_rules! add {
    ($tx:expr, $environment:expr, $before:expr, $after:expr) => {{
        for (status, n_more) in $crate::store::state::differences($before, $after) {
            const ADD: &str = "INSERT INTO resource_count (environment_id, status, n_resources) VALUES ($1, $2, $3) \
                               ON CONFLICT (environment_id, status) DO UPDATE \
                               SET n_resources = resource_count.n_resources + excluded.n_resources";
            sqlx::query(ADD).bind($environment).bind(status).bind(n_more).execute(&mut *$tx).await?;
        }
    }};
}
pub(super) use add;

/// How many of these states are of which status.
pub(super) fn statuses(states: &[ResourceState]) -> Vec<(String, i64)> {
    let mut counts: BTreeMap<ResourceStatus, i64> = BTreeMap::new();
    for state in states {
        *counts.entry(state.status()).or_default() += 1;
    }
    let counts = counts.into_iter();
    counts
        .map(|(status, n)| (status.as_str().to_owned(), n))
        .collect()
}

/// What to add to the count of each status.
pub(super) fn differences(
    before: Vec<(String, i64)>,
    after: Vec<(String, i64)>,
) -> BTreeMap<String, i64> {
    let mut differences: BTreeMap<String, i64> = after.into_iter().collect();
    for (status, n) in before {
        *differences.entry(status).or_default() -= n;
    }
    differences.retain(|_, n| *n != 0);
    differences
}

/// Writes state rows on the transaction `$tx`, no more than [`ROWS`] and each resource once.
macro_rules! upsert {
    ($tx:expr, $environment:expr, $states:expr) => {{
        let states: &[$crate::store::ResourceState] = $states;
        if !states.is_empty() {
            let ids: Vec<&$crate::domain::ResourceId> =
                states.iter().map(|state| &state.resource_id).collect();
            let before =
                $crate::store::batch::Batches::count_statuses(&mut *$tx, $environment, &ids)
                    .await?;
            $crate::store::batch::Batches::upsert_states(&mut *$tx, $environment, states).await?;
            let after = $crate::store::state::statuses(states);
            $crate::store::state::add!($tx, $environment, before, after);
        }
    }};
}
pub(super) use upsert;
