//! Clearing an environment: all that was compiled, deployed and found out goes, the environment stays.
//! Source: docs/reference/deployment.md § 1.2.

use super::macros::{row, transaction};
use super::{Error, Result, Store};
use crate::domain::{EnvironmentId, VersionNumber};

row! {
    struct Kept {
        project_id: String,
        name: String,
        description: String,
        icon: String,
        repo_url: String,
        repo_branch: String,
        variables: String,
        halted: bool,
        last_version: VersionNumber,
        created_us: i64,
    }
}

impl Store {
    /// Deletes everything that belongs to an environment but its own row, its settings and what protects them. Numbers of
    /// versions go on where they were.
    ///
    /// Every table with something of an environment refers to its row, and loses what refers to a row that goes: so the row
    /// goes, and comes back as it was. What a later migration adds is cleared without being named here.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub async fn environment_clear(&self, id: EnvironmentId) -> Result<()> {
        const READ: &str = "SELECT project_id, name, description, icon, repo_url, repo_branch, variables, halted, \
                            last_version, created_us FROM environment WHERE id = $1";
        const SETTINGS: &str =
            "SELECT name, value FROM environment_setting WHERE environment_id = $1";
        const PROTECTED: &str =
            "SELECT name, protected_by FROM protected_setting WHERE environment_id = $1";
        const DELETE: &str = "DELETE FROM environment WHERE id = $1";
        const INSERT: &str = "INSERT INTO environment (id, project_id, name, description, icon, repo_url, repo_branch, \
                              variables, halted, last_version, created_us) \
                              VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        const SETTING: &str =
            "INSERT INTO environment_setting (environment_id, name, value) VALUES ($1, $2, $3)";
        const PROTECT: &str =
            "INSERT INTO protected_setting (environment_id, name, protected_by) VALUES ($1, $2, $3)";
        let text = id.to_string();
        transaction!(self.db, tx => {
            let kept: Option<Kept> = sqlx::query_as(READ).bind(&text).fetch_optional(&mut *tx).await?;
            let Some(kept) = kept else {
                return Err(Error::NotFound(format!("environment {id}")));
            };
            let settings: Vec<(String, String)> = sqlx::query_as(SETTINGS).bind(&text).fetch_all(&mut *tx).await?;
            let protected: Vec<(String, String)> = sqlx::query_as(PROTECTED).bind(&text).fetch_all(&mut *tx).await?;
            sqlx::query(DELETE).bind(&text).execute(&mut *tx).await?;
            sqlx::query(INSERT)
                .bind(&text)
                .bind(&kept.project_id)
                .bind(&kept.name)
                .bind(&kept.description)
                .bind(&kept.icon)
                .bind(&kept.repo_url)
                .bind(&kept.repo_branch)
                .bind(&kept.variables)
                .bind(kept.halted)
                .bind(kept.last_version)
                .bind(kept.created_us)
                .execute(&mut *tx)
                .await?;
            for (sql, rows) in [(SETTING, settings), (PROTECT, protected)] {
                for (name, value) in rows {
                    sqlx::query(sql).bind(&text).bind(&name).bind(&value).execute(&mut *tx).await?;
                }
            }
        });
        Ok(())
    }
}
