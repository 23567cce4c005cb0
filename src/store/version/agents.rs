//! Agents that no stored version names any more. Source: docs/reference/deployment.md § 1.4.
//!
//! Rows of resources have no index by agent: it would cost each new resource a fifth of its row, for a question that is asked once
//! an hour. States have one, and each resource of the version in force has a state. So an agent without a state is one of a
//! version that is not in force, if of any: its resources have left the newest version, or came after the one in force. Indexes
//! have those, and they are few. None of this is read while whoever writes has to wait; what has come meanwhile is looked at
//! before an agent goes.

use std::collections::HashSet;

use super::purge::ALONE;
use crate::domain::{AgentName, EnvironmentId, VersionNumber};
use crate::store::macros::{read, transaction};
use crate::store::state::ROWS;
use crate::store::{Result, Store};

const NUMBERS: &str =
    "SELECT last_version, COALESCE(active_version, 0) FROM environment WHERE id = $1";

/// Looked up for one agent after the other: `OFFSET 0` keeps PostgreSQL from reading all states where it believes that they are few.
const WITHOUT_STATE: &str = "SELECT name FROM agent WHERE environment_id = $1 AND NOT EXISTS (SELECT 1 FROM resource_state s \
                             WHERE s.agent = agent.name AND s.environment_id = agent.environment_id LIMIT 1 OFFSET 0)";

/// The agents of resources that are not in the newest version.
const OF_ENDED: &str = "SELECT DISTINCT agent FROM desired_resource WHERE environment_id = $1 \
                        AND to_version < 9223372036854775807";
/// The agents of resources that came after a version.
const OF_LATER: &str =
    "SELECT DISTINCT agent FROM desired_resource WHERE environment_id = $1 AND from_version > $2";

impl Store {
    /// Removes agents that no stored version names; gives how many went.
    pub async fn agent_purge(&self, environment: EnvironmentId) -> Result<u64> {
        let id = environment.to_string();
        let numbers: Option<(VersionNumber, VersionNumber)> = read!(self.db, pool => {
            sqlx::query_as(NUMBERS).bind(&id).fetch_optional(pool).await?
        });
        let Some((newest, active)) = numbers else {
            return Ok(0);
        };
        let mut unused: Vec<(AgentName,)> = read!(self.db, pool => {
            sqlx::query_as(WITHOUT_STATE).bind(&id).fetch_all(pool).await?
        });
        if unused.is_empty() {
            return Ok(0);
        }
        let ended: Vec<(AgentName,)> = read!(self.db, pool => {
            sqlx::query_as(OF_ENDED).bind(&id).fetch_all(pool).await?
        });
        let later: Vec<(AgentName,)> = read!(self.db, pool => {
            sqlx::query_as(OF_LATER).bind(&id).bind(active).fetch_all(pool).await?
        });
        let used: HashSet<AgentName> = ended.into_iter().chain(later).map(|(name,)| name).collect();
        unused.retain(|(name,)| !used.contains(name));
        let mut n_removed = 0;
        for chunk in unused.chunks(ROWS) {
            n_removed += transaction!(self.db, tx => {
                sqlx::query(ALONE).bind(&id).execute(&mut *tx).await?;
                let new: Vec<(AgentName,)> =
                    sqlx::query_as(OF_LATER).bind(&id).bind(newest).fetch_all(&mut *tx).await?;
                let gone: Vec<&AgentName> =
                    chunk.iter().filter(|name| !new.contains(name)).map(|(name,)| name).collect();
                if gone.is_empty() {
                    0
                } else {
                    let mut delete = sqlx::QueryBuilder::new("DELETE FROM agent WHERE environment_id = ");
                    delete.push_bind(&id).push(" AND name IN (");
                    let mut list = delete.separated(", ");
                    for name in gone {
                        list.push_bind(name);
                    }
                    delete.push(")");
                    delete.build().persistent(false).execute(&mut *tx).await?.rows_affected()
                }
            });
        }
        Ok(n_removed)
    }
}

#[cfg(test)]
mod tests;
