//! Projects: names for groups of environments.

use super::macros::{read, write};
use super::{Error, Result, Store, is_duplicate, parsed};
use crate::domain::{ProjectId, Timestamp};

#[derive(Debug, Clone)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
}

impl Store {
    /// # Errors
    /// [`Error::Exists`] when the name is taken.
    pub async fn project_create(&self, id: ProjectId, name: &str) -> Result<Project> {
        const SQL: &str = "INSERT INTO project (id, name, created_us) VALUES ($1, $2, $3)";
        let now = Timestamp::now().0;
        let done = write!(self.db, pool => {
            sqlx::query(SQL).bind(id.to_string()).bind(name).bind(now).execute(pool).await.map(|_| ())
        });
        match done {
            Ok(()) => Ok(Project {
                id,
                name: name.to_owned(),
            }),
            Err(error) if is_duplicate(&error) => Err(Error::Exists(format!("a project `{name}`"))),
            Err(error) => Err(error.into()),
        }
    }

    /// All projects, sorted by name.
    pub async fn project_list(&self) -> Result<Vec<Project>> {
        const SQL: &str = "SELECT id, name FROM project ORDER BY name";
        let rows: Vec<(String, String)> =
            read!(self.db, pool => sqlx::query_as(SQL).fetch_all(pool).await?);
        rows.into_iter()
            .map(|(id, name)| {
                Ok(Project {
                    id: parsed("project", "id", &id)?,
                    name,
                })
            })
            .collect()
    }

    pub async fn project_fetch(&self, id: ProjectId) -> Result<Option<Project>> {
        Ok(self
            .project_list()
            .await?
            .into_iter()
            .find(|project| project.id == id))
    }

    pub async fn project_rename(&self, id: ProjectId, name: &str) -> Result<()> {
        const SQL: &str = "UPDATE project SET name = $2 WHERE id = $1";
        let done = write!(self.db, pool => {
            sqlx::query(SQL).bind(id.to_string()).bind(name).execute(pool).await.map(|done| done.rows_affected())
        });
        match done {
            Ok(0) => Err(Error::NotFound(format!("project {id}"))),
            Ok(_) => Ok(()),
            Err(error) if is_duplicate(&error) => Err(Error::Exists(format!("a project `{name}`"))),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether there was one. Its environments go with it.
    pub async fn project_delete(&self, id: ProjectId) -> Result<bool> {
        const SQL: &str = "DELETE FROM project WHERE id = $1";
        Ok(
            write!(self.db, pool => sqlx::query(SQL).bind(id.to_string()).execute(pool).await?.rows_affected())
                > 0,
        )
    }
}
