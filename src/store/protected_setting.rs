//! Settings that a project's files decide. Source: docs/reference/deployment.md § 1.5.

use std::collections::BTreeMap;

use serde_json::Value;

use super::macros::{read, transaction};
use super::{Result, Store};
use crate::domain::EnvironmentId;

impl Store {
    /// Sets these settings, which are decided by `protected_by` from now on. Those that it decided before and that are not
    /// among them keep their values, and are free.
    pub async fn settings_protect(
        &self,
        id: EnvironmentId,
        protected_by: &str,
        settings: &[(String, Value)],
    ) -> Result<()> {
        const FREE: &str =
            "DELETE FROM protected_setting WHERE environment_id = $1 AND protected_by = $2";
        const SET: &str = "INSERT INTO environment_setting (environment_id, name, value) VALUES ($1, $2, $3) \
                           ON CONFLICT (environment_id, name) DO UPDATE SET value = excluded.value";
        const PROTECT: &str = "INSERT INTO protected_setting (environment_id, name, protected_by) VALUES ($1, $2, $3) \
                               ON CONFLICT (environment_id, name) DO UPDATE SET protected_by = excluded.protected_by";
        let id = id.to_string();
        transaction!(self.db, tx => {
            sqlx::query(FREE).bind(&id).bind(protected_by).execute(&mut *tx).await?;
            for (name, value) in settings {
                sqlx::query(SET).bind(&id).bind(name).bind(value.to_string()).execute(&mut *tx).await?;
                sqlx::query(PROTECT).bind(&id).bind(name).bind(protected_by).execute(&mut *tx).await?;
            }
        });
        Ok(())
    }

    /// The protected settings of an environment, with what decides them.
    pub async fn settings_protected(&self, id: EnvironmentId) -> Result<BTreeMap<String, String>> {
        const SQL: &str =
            "SELECT name, protected_by FROM protected_setting WHERE environment_id = $1";
        let rows: Vec<(String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(id.to_string()).fetch_all(pool).await?
        });
        Ok(rows.into_iter().collect())
    }
}
