//! What people are told without having asked. Source: docs/reference/deployment.md § 7.3.

use uuid::Uuid;

use super::macros::{read, row, write};
use super::{Result, Store, parsed, storable};
use crate::domain::{CompileId, EnvironmentId, Severity, Timestamp};

/// Notifications that a list is made of: the newest ones.
const MAX_LISTED: i64 = 10_000;

/// Something that people should know.
#[derive(Debug, Clone)]
pub struct Notification {
    pub id: Uuid,
    pub created: Timestamp,
    pub title: String,
    pub message: String,
    pub severity: Severity,
    /// A path of the API that says more.
    pub uri: Option<String>,
    pub compile_id: Option<CompileId>,
    pub is_read: bool,
    pub is_cleared: bool,
}

impl Notification {
    /// One that nobody has read, made now.
    pub fn new(severity: Severity, title: &str, message: &str) -> Self {
        Self {
            id: Uuid::now_v7(),
            created: Timestamp::now(),
            title: title.to_owned(),
            message: message.to_owned(),
            severity,
            uri: None,
            compile_id: None,
            is_read: false,
            is_cleared: false,
        }
    }
}

row! {
    struct Row {
        id: String,
        created_us: i64,
        title: String,
        message: String,
        severity: String,
        uri: Option<String>,
        compile_id: Option<String>,
        is_read: bool,
        is_cleared: bool,
    }
}

impl Row {
    fn into_notification(self) -> Result<Notification> {
        let compile_id = self.compile_id.as_deref();
        Ok(Notification {
            id: parsed("notification", "id", &self.id)?,
            created: Timestamp(self.created_us),
            severity: parsed("notification", "severity", &self.severity)?,
            compile_id: compile_id
                .map(|id| parsed("notification", "compile_id", id))
                .transpose()?,
            title: self.title,
            message: self.message,
            uri: self.uri,
            is_read: self.is_read,
            is_cleared: self.is_cleared,
        })
    }
}

macro_rules! select {
    ($rest:literal) => {
        concat!(
            "SELECT id, created_us, title, message, severity, uri, compile_id, is_read, is_cleared FROM notification ",
            $rest
        )
    };
}

impl Store {
    pub async fn notification_create(
        &self,
        environment: EnvironmentId,
        new: &Notification,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO notification (environment_id, id, created_us, title, message, severity, uri, \
                           compile_id, is_read, is_cleared) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
        write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(new.id.to_string())
                .bind(new.created.0)
                .bind(storable(&new.title))
                .bind(storable(&new.message))
                .bind(new.severity.as_str())
                .bind(new.uri.as_deref())
                .bind(new.compile_id.map(|id| id.to_string()))
                .bind(new.is_read)
                .bind(new.is_cleared)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(())
    }

    /// Newest first.
    pub async fn notification_list(&self, environment: EnvironmentId) -> Result<Vec<Notification>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY created_us DESC, id DESC LIMIT $2"))
                .bind(environment.to_string())
                .bind(MAX_LISTED)
                .fetch_all(pool)
                .await?
        });
        rows.into_iter().map(Row::into_notification).collect()
    }

    pub async fn notification_newest(
        &self,
        environment: EnvironmentId,
    ) -> Result<Option<Notification>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 ORDER BY created_us DESC, id DESC LIMIT 1"))
                .bind(environment.to_string())
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_notification).transpose()
    }

    pub async fn notification_fetch(
        &self,
        environment: EnvironmentId,
        id: Uuid,
    ) -> Result<Option<Notification>> {
        let row: Option<Row> = read!(self.db, pool => {
            sqlx::query_as(select!("WHERE environment_id = $1 AND id = $2"))
                .bind(environment.to_string())
                .bind(id.to_string())
                .fetch_optional(pool)
                .await?
        });
        row.map(Row::into_notification).transpose()
    }

    /// Whether there is such a notification.
    pub async fn notification_mark(
        &self,
        environment: EnvironmentId,
        id: Uuid,
        is_read: bool,
        is_cleared: bool,
    ) -> Result<bool> {
        const SQL: &str = "UPDATE notification SET is_read = $3, is_cleared = $4 WHERE environment_id = $1 AND id = $2";
        let n_marked = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(environment.to_string())
                .bind(id.to_string())
                .bind(is_read)
                .bind(is_cleared)
                .execute(pool)
                .await?
                .rows_affected()
        });
        Ok(n_marked > 0)
    }

    /// Removes what is older than `before`; gives how many went.
    pub async fn notification_purge(
        &self,
        environment: EnvironmentId,
        before: Timestamp,
    ) -> Result<u64> {
        const SQL: &str = "DELETE FROM notification WHERE environment_id = $1 AND created_us < $2";
        Ok(write!(self.db, pool => {
            sqlx::query(SQL).bind(environment.to_string()).bind(before.0).execute(pool).await?.rows_affected()
        }))
    }
}
