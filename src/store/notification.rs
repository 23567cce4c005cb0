//! What people are told without having asked. Source: docs/reference/deployment.md § 7.3.

use uuid::Uuid;

use super::listing::{Condition, List, Listed};
use super::macros::{read, row, write};
use super::{Key, Part, Result, Span, Store, parsed, storable};
use crate::domain::{CompileId, EnvironmentId, Severity, Timestamp};

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

macro_rules! columns {
    () => {
        "id, created_us, title, message, severity, uri, compile_id, is_read, is_cleared"
    };
}

macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM notification ", $rest)
    };
}

impl Listed for Row {
    const TABLE: &'static str = "notification";
    const COLUMNS: &'static str = columns!();

    fn part(&self, column: &str) -> Part {
        match column {
            "created_us" => Part::Moment(Timestamp(self.created_us)),
            "title" => Part::text(&self.title),
            "message" => Part::text(&self.message),
            _ => Part::text(&self.id),
        }
    }
}

/// What notifications are searched by.
#[derive(Debug, Clone, Default)]
pub struct NotificationSearch {
    /// Parts of the title.
    pub titles: Vec<String>,
    /// Parts of the message.
    pub messages: Vec<String>,
    /// One of these.
    pub severities: Vec<String>,
    pub is_read: Option<bool>,
    pub is_cleared: Option<bool>,
}

impl NotificationSearch {
    /// Whether nothing but counting says how many it finds.
    pub fn is_narrow(&self) -> bool {
        !self.list().conditions.is_empty()
    }

    fn list(&self) -> List {
        let conditions = [
            Condition::flag(
                self.is_read,
                [" AND is_read = FALSE", " AND is_read = TRUE"],
            ),
            Condition::flag(
                self.is_cleared,
                [" AND is_cleared = FALSE", " AND is_cleared = TRUE"],
            ),
            Condition::is("severity", &self.severities),
            Condition::has("title", &self.titles),
            Condition::has("message", &self.messages),
        ];
        List {
            columns: &["created_us", "id"],
            base: "",
            counted_as: "notification",
            conditions: conditions.into_iter().flatten().collect(),
        }
    }
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

    /// The notifications that are searched for, by when they were made, each with its place, as far as the span goes.
    pub async fn notification_page(
        &self,
        environment: EnvironmentId,
        search: &NotificationSearch,
        span: &Span,
    ) -> Result<Vec<(Key, Notification)>> {
        let rows = self
            .rows_page::<Row>(environment, &search.list(), span)
            .await?;
        let rows = rows.into_iter();
        rows.map(|(key, row)| Ok((key, row.into_notification()?)))
            .collect()
    }

    /// How many notifications are searched for within the span, up to its limit; without edges and search, all.
    pub async fn notification_count(
        &self,
        environment: EnvironmentId,
        search: &NotificationSearch,
        span: &Span,
    ) -> Result<i64> {
        self.rows_count::<Row>(environment, &search.list(), span)
            .await
    }

    /// All of them, newest first.
    #[cfg(test)]
    pub(crate) async fn notification_list(
        &self,
        environment: EnvironmentId,
    ) -> Result<Vec<Notification>> {
        let (search, all) = (NotificationSearch::default(), Span::first(10_000));
        let rows = self.notification_page(environment, &search, &all).await?;
        Ok(rows.into_iter().rev().map(|(_, one)| one).collect())
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
