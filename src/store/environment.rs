//! Environments and their settings.

use std::collections::BTreeMap;

use serde_json::Value;

use super::macros::{read, row, transaction, write};
use super::{Error, Result, Store, document, is_duplicate, parsed};
use crate::domain::{EnvironmentId, ProjectId, Settings, Timestamp, VersionNumber};

#[derive(Debug, Clone)]
pub struct Environment {
    pub id: EnvironmentId,
    pub project_id: ProjectId,
    pub name: String,
    pub description: String,
    pub icon: String,
    /// Empty: none.
    pub repo_url: String,
    /// Empty: the branch of the remote's HEAD.
    pub repo_branch: String,
    /// What `std::get_env` sees.
    pub variables: BTreeMap<String, String>,
    pub halted: bool,
    /// `None`: it is not halted, or was before this was noted.
    pub halted_since: Option<Timestamp>,
    /// The last number given to a version; 0 before the first.
    pub last_version: VersionNumber,
    /// The version whose desired state is in force.
    pub active_version: Option<VersionNumber>,
}

#[derive(Debug, Clone)]
pub struct NewEnvironment {
    pub id: EnvironmentId,
    pub project_id: ProjectId,
    pub name: String,
    pub description: String,
    pub icon: String,
    pub repo_url: String,
    pub repo_branch: String,
    pub variables: BTreeMap<String, String>,
}

row! {
    struct Row {
        id: String,
        project_id: String,
        name: String,
        description: String,
        icon: String,
        repo_url: String,
        repo_branch: String,
        variables: String,
        halted: bool,
        halted_us: Option<i64>,
        last_version: VersionNumber,
        active_version: Option<VersionNumber>,
    }
}

impl Row {
    fn into_environment(self) -> Result<Environment> {
        Ok(Environment {
            id: parsed("environment", "id", &self.id)?,
            project_id: parsed("environment", "project_id", &self.project_id)?,
            variables: document("environment", "variables", &self.id, &self.variables)?,
            name: self.name,
            description: self.description,
            icon: self.icon,
            repo_url: self.repo_url,
            repo_branch: self.repo_branch,
            halted: self.halted,
            halted_since: self.halted_us.map(Timestamp),
            last_version: self.last_version,
            active_version: self.active_version,
        })
    }
}

impl Store {
    /// # Errors
    /// [`Error::Exists`] when the project has an environment of this name, [`Error::NotFound`] without the project.
    pub async fn environment_create(&self, new: &NewEnvironment) -> Result<()> {
        const SQL: &str = "INSERT INTO environment (id, project_id, name, description, icon, repo_url, repo_branch, \
                           variables, created_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let variables = serde_json::json!(new.variables).to_string();
        let now = Timestamp::now().0;
        let done = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(new.id.to_string())
                .bind(new.project_id.to_string())
                .bind(&new.name)
                .bind(&new.description)
                .bind(&new.icon)
                .bind(&new.repo_url)
                .bind(&new.repo_branch)
                .bind(&variables)
                .bind(now)
                .execute(pool)
                .await
                .map(|_| ())
        });
        match done {
            Ok(()) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(Error::Exists(format!(
                "an environment `{}` in this project",
                new.name
            ))),
            Err(error)
                if error
                    .as_database_error()
                    .is_some_and(|error| error.is_foreign_key_violation()) =>
            {
                Err(Error::NotFound(format!("project {}", new.project_id)))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// All environments, sorted by name.
    pub async fn environment_list(&self) -> Result<Vec<Environment>> {
        const SQL: &str = "SELECT id, project_id, name, description, icon, repo_url, repo_branch, variables, halted, \
                           halted_us, last_version, active_version FROM environment ORDER BY name, id";
        let rows: Vec<Row> = read!(self.db, pool => sqlx::query_as(SQL).fetch_all(pool).await?);
        rows.into_iter().map(Row::into_environment).collect()
    }

    pub async fn environment_fetch(&self, id: EnvironmentId) -> Result<Option<Environment>> {
        const SQL: &str = "SELECT id, project_id, name, description, icon, repo_url, repo_branch, variables, halted, \
                           halted_us, last_version, active_version FROM environment WHERE id = $1";
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(id.to_string()).fetch_optional(pool).await?
        });
        row.map(Row::into_environment).transpose()
    }

    /// Writes what a user may change: name, project, texts, repository, variables.
    pub async fn environment_update(&self, environment: &Environment) -> Result<()> {
        const SQL: &str = "UPDATE environment SET name = $2, description = $3, icon = $4, repo_url = $5, \
                           repo_branch = $6, variables = $7, project_id = $8 WHERE id = $1";
        let variables = serde_json::json!(environment.variables).to_string();
        let done = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.id.to_string())
                .bind(&environment.name)
                .bind(&environment.description)
                .bind(&environment.icon)
                .bind(&environment.repo_url)
                .bind(&environment.repo_branch)
                .bind(&variables)
                .bind(environment.project_id.to_string())
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        });
        match done {
            Ok(0) => Err(Error::NotFound(format!("environment {}", environment.id))),
            Ok(_) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(Error::Exists(format!(
                "an environment `{}` in this project",
                environment.name
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// Halts an environment, or resumes it. Halting pauses all agents and notes which of them go on afterwards; doing it
    /// twice changes nothing. Source: docs/reference/deployment.md § 1.3.
    pub async fn environment_halt(&self, id: EnvironmentId, halted: bool) -> Result<()> {
        const SQL: &str = "UPDATE environment SET halted = $2, halted_us = CASE WHEN $2 THEN $3 END \
                           WHERE id = $1 AND halted <> $2";
        const HALT: &str = "UPDATE agent SET unpause_on_resume = COALESCE(unpause_on_resume, NOT paused), paused = TRUE, \
                            paused_us = CASE WHEN paused THEN paused_us ELSE $2 END WHERE environment_id = $1";
        const RESUME: &str = "UPDATE agent SET paused = paused AND NOT COALESCE(unpause_on_resume, FALSE), \
                              paused_us = CASE WHEN paused AND NOT COALESCE(unpause_on_resume, FALSE) THEN paused_us END, \
                              unpause_on_resume = NULL WHERE environment_id = $1";
        let (id, now) = (id.to_string(), Timestamp::now().0);
        transaction!(self.db, tx => {
            if sqlx::query(SQL).bind(&id).bind(halted).bind(now).execute(&mut *tx).await?.rows_affected() > 0 {
                let agents = match halted {
                    true => sqlx::query(HALT).bind(&id).bind(now),
                    false => sqlx::query(RESUME).bind(&id),
                };
                agents.execute(&mut *tx).await?;
            }
        });
        Ok(())
    }

    /// Whether there was one. All that belongs to it goes with it.
    pub async fn environment_delete(&self, id: EnvironmentId) -> Result<bool> {
        let _telling = self.remembered.telling(id, None);
        self.names.forget(id);
        let id = id.to_string();
        self.history_remove(&id).await?;
        let n_deleted = transaction!(self.db, tx => {
            sqlx::query("DELETE FROM environment WHERE id = $1").bind(&id).execute(&mut *tx).await?.rows_affected()
        });
        Ok(n_deleted > 0)
    }

    pub async fn settings_fetch(&self, id: EnvironmentId) -> Result<Settings> {
        const SQL: &str = "SELECT name, value FROM environment_setting WHERE environment_id = $1";
        let rows: Vec<(String, String)> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(id.to_string()).fetch_all(pool).await?
        });
        let value = |text: String| serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Settings::from_stored(
            rows.into_iter().map(|(name, text)| (name, value(text))),
        ))
    }

    /// Stores a checked value.
    pub async fn setting_set(&self, id: EnvironmentId, name: &str, value: &Value) -> Result<()> {
        const SQL: &str = "INSERT INTO environment_setting (environment_id, name, value) VALUES ($1, $2, $3) \
                           ON CONFLICT (environment_id, name) DO UPDATE SET value = excluded.value";
        let value = value.to_string();
        write!(self.db, pool => {
            sqlx::query(SQL).bind(id.to_string()).bind(name).bind(&value).execute(pool).await?.rows_affected()
        });
        Ok(())
    }

    /// Back to the default.
    pub async fn setting_delete(&self, id: EnvironmentId, name: &str) -> Result<()> {
        const SQL: &str = "DELETE FROM environment_setting WHERE environment_id = $1 AND name = $2";
        write!(self.db, pool => sqlx::query(SQL).bind(id.to_string()).bind(name).execute(pool).await?.rows_affected());
        Ok(())
    }
}
