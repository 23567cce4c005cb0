//! What happened to instances: events, and the record of each version. Both are only ever added to.

use sqlx::{PgConnection, SqliteConnection};
use steward_lsm::lifecycle::{Event, EventType, Severity};
use steward_lsm::{Instance, Moment};
use uuid::Uuid;

use super::instance::{counted, counter};
use super::push_beyond;
use crate::domain::EnvironmentId;
use crate::store::macros::{read, row};
use crate::store::version::on_both;
use crate::store::{Error, Result, Store, document, parsed, storable};

const TABLE: &str = "service_instance_event";

/// An event, and the id that it was given when it was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEvent {
    /// A later event of an instance has a greater id.
    pub id: Uuid,
    pub event: Event,
}

/// What events of an instance are searched by. Several words for one thing are alternatives; none: anything.
#[derive(Debug, Clone, Default)]
pub struct EventSearch {
    pub sources: Vec<String>,
    pub destinations: Vec<String>,
    pub event_types: Vec<String>,
    /// Bounds of the version: SQL's comparison, and the number.
    pub versions: Vec<(&'static str, i64)>,
    /// Bounds of the time.
    pub times: Vec<(&'static str, i64)>,
}

/// Which part of a list of events, in ascending order of time and id.
#[derive(Debug, Clone, Default)]
pub struct EventSpan {
    /// Events behind this place.
    pub after: Option<(i64, String)>,
    /// Events before this place.
    pub before: Option<(i64, String)>,
    /// The last of these rows instead of the first, the newest one first.
    pub is_descending: bool,
    pub limit: i64,
}

row! {
    struct Row {
        id: String,
        instance_id: String,
        instance_version: i64,
        desired_state_version: i64,
        timestamp_us: i64,
        event_type: String,
        message: String,
        source: Option<String>,
        destination: Option<String>,
        correlation_id: String,
        severity: i64,
        compile_id: Option<String>,
        is_error: bool,
        is_ignored: bool,
    }
}

const SELECT: &str = "SELECT id, instance_id, instance_version, desired_state_version, timestamp_us, event_type, message, \
                      source, destination, correlation_id, severity, compile_id, is_error, is_ignored \
                      FROM service_instance_event WHERE environment_id = ";

impl Row {
    fn into_event(self) -> Result<StoredEvent> {
        let unreadable = |column| Error::Row {
            table: TABLE,
            column,
            id: self.id.clone(),
        };
        let event_type =
            EventType::parse(&self.event_type).ok_or_else(|| unreadable("event_type"))?;
        let mut severities = Severity::ALL.into_iter();
        let severity = severities
            .find(|severity| i64::from(severity.level()) == self.severity)
            .ok_or_else(|| unreadable("severity"))?;
        let compile = self.compile_id.as_deref();
        Ok(StoredEvent {
            id: parsed(TABLE, "id", &self.id)?,
            event: Event {
                service_instance_id: parsed(TABLE, "instance_id", &self.instance_id)?,
                service_instance_version: counted(self.instance_version),
                service_desired_state_version: counted(self.desired_state_version),
                timestamp: Moment(self.timestamp_us),
                event_correlation_id: parsed(TABLE, "correlation_id", &self.correlation_id)?,
                id_compile_report: compile
                    .map(|id| parsed(TABLE, "compile_id", id))
                    .transpose()?,
                message: self.message,
                source: self.source,
                destination: self.destination,
                event_type,
                severity,
                is_error_transition: self.is_error,
                ignored_transition: self.is_ignored,
            },
        })
    }
}

/// Writes history on a connection.
pub(super) trait History {
    /// Remembers the instance as it is in its version.
    async fn log_insert(&mut self, instance: &Instance) -> Result<()>;

    /// Remembers an event of an instance of the service `entity`.
    async fn event_insert(
        &mut self,
        environment: EnvironmentId,
        entity: &str,
        event: &Event,
    ) -> Result<StoredEvent>;

    /// An instance is no more: its events are not those of another one that gets its id.
    async fn events_pass(&mut self, environment: EnvironmentId, instance: Uuid) -> Result<()>;
}

on_both! {
    History {
        async fn log_insert(&mut self, instance: &Instance) -> Result<()> {
            const SQL: &str = "INSERT INTO service_instance_log (environment_id, instance_id, version, timestamp_us, \
                               snapshot) VALUES ($1, $2, $3, $4, $5)";
            sqlx::query(SQL)
                .bind(instance.environment.to_string())
                .bind(instance.id.to_string())
                .bind(counter(instance.version))
                .bind(instance.last_updated.0)
                .bind(serde_json::json!(instance).to_string())
                .execute(&mut *self)
                .await?;
            Ok(())
        }

        async fn event_insert(
            &mut self,
            environment: EnvironmentId,
            entity: &str,
            event: &Event,
        ) -> Result<StoredEvent> {
            const SQL: &str = "INSERT INTO service_instance_event (id, environment_id, instance_id, entity, \
                               instance_version, desired_state_version, timestamp_us, event_type, message, source, \
                               destination, correlation_id, severity, compile_id, is_error, is_ignored) \
                               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
            let id = Uuid::now_v7();
            sqlx::query(SQL)
                .bind(id.to_string())
                .bind(environment.to_string())
                .bind(event.service_instance_id.to_string())
                .bind(entity)
                .bind(counter(event.service_instance_version))
                .bind(counter(event.service_desired_state_version))
                .bind(event.timestamp.0)
                .bind(event.event_type.as_str())
                .bind(storable(&event.message))
                .bind(event.source.as_deref())
                .bind(event.destination.as_deref())
                .bind(event.event_correlation_id.to_string())
                .bind(i64::from(event.severity.level()))
                .bind(event.id_compile_report.map(|id| id.to_string()))
                .bind(event.is_error_transition)
                .bind(event.ignored_transition)
                .execute(&mut *self)
                .await?;
            Ok(StoredEvent { id, event: event.clone() })
        }

        async fn events_pass(&mut self, environment: EnvironmentId, instance: Uuid) -> Result<()> {
            const SQL: &str = "UPDATE service_instance_event SET is_past = TRUE \
                               WHERE environment_id = $1 AND instance_id = $2";
            let updated = sqlx::query(SQL).bind(environment.to_string()).bind(instance.to_string());
            updated.execute(&mut *self).await.map(drop).map_err(Into::into)
        }
    }
}

/// Adds the words of one column, and the bounds of the columns that have some.
macro_rules! push_search {
    ($query:expr, $search:expr) => {
        let words = [
            ("source", &$search.sources),
            ("destination", &$search.destinations),
            ("event_type", &$search.event_types),
        ];
        for (column, words) in words.into_iter().filter(|(_, words)| !words.is_empty()) {
            $query.push(" AND ").push(column).push(" IN (");
            let mut list = $query.separated(", ");
            for word in words {
                list.push_bind(storable(word).into_owned());
            }
            $query.push(")");
        }
        let bounds = [
            ("instance_version", &$search.versions),
            ("timestamp_us", &$search.times),
        ];
        for (column, bounds) in bounds {
            for (comparison, number) in bounds {
                $query.push(" AND ").push(column).push(*comparison);
                $query.push_bind(*number);
            }
        }
    };
}

/// Adds the bounds of a span, as far as events are behind or before a place.
macro_rules! push_places {
    ($query:expr, $span:expr) => {
        for (comparison, place) in [(" > ", &$span.after), (" < ", &$span.before)] {
            if let Some((time, id)) = place {
                push_beyond!(
                    $query,
                    "timestamp_us",
                    comparison,
                    $query.push_bind(*time),
                    id
                );
            }
        }
    };
}

impl Store {
    /// Events of an instance.
    pub async fn service_events(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        search: &EventSearch,
        span: &EventSpan,
    ) -> Result<Vec<StoredEvent>> {
        let direction = if span.is_descending { " DESC" } else { "" };
        let rows: Vec<Row> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(SELECT);
            query.push_bind(environment.to_string()).push(" AND instance_id = ").push_bind(instance.to_string());
            push_search!(query, search);
            push_places!(query, span);
            query.push(" ORDER BY timestamp_us").push(direction).push(", id").push(direction);
            query.push(" LIMIT ").push_bind(span.limit);
            query.build_query_as().fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_event).collect()
    }

    /// How many events of an instance are searched for within the span.
    pub async fn service_event_count(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        search: &EventSearch,
        span: &EventSpan,
    ) -> Result<i64> {
        const COUNT: &str = "SELECT COUNT(*) FROM service_instance_event WHERE environment_id = ";
        let (count,): (i64,) = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(COUNT);
            query.push_bind(environment.to_string()).push(" AND instance_id = ").push_bind(instance.to_string());
            push_search!(query, search);
            push_places!(query, span);
            query.build_query_as().fetch_one(pool).await?
        });
        Ok(count)
    }

    /// The events of these versions of an instance, in the order in which they happened. Those of another one that had its id,
    /// and was removed, are not among them: their versions began with 1, too.
    pub async fn service_events_of(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        versions: std::ops::RangeInclusive<u64>,
    ) -> Result<Vec<StoredEvent>> {
        let rows: Vec<Row> = read!(self.db, pool => {
            let mut query = sqlx::QueryBuilder::new(SELECT);
            query.push_bind(environment.to_string()).push(" AND instance_id = ").push_bind(instance.to_string());
            query.push(" AND instance_version >= ").push_bind(counter(*versions.start()));
            query.push(" AND instance_version <= ").push_bind(counter(*versions.end()));
            query.push(" AND is_past = FALSE ORDER BY timestamp_us, id");
            query.build_query_as().fetch_all(pool).await?
        });
        rows.into_iter().map(Row::into_event).collect()
    }

    /// Records of an instance's versions that are greater than `after` and smaller than `before`; the newest first, or, with
    /// `is_ascending`, the oldest.
    pub async fn service_log(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        (after, before): (i64, i64),
        is_ascending: bool,
        limit: i64,
    ) -> Result<Vec<Instance>> {
        let direction = if is_ascending { "ASC" } else { "DESC" };
        let sql = format!(
            "SELECT snapshot FROM service_instance_log WHERE environment_id = $1 AND instance_id = $2 AND version > $3 \
             AND version < $4 ORDER BY version {direction} LIMIT $5"
        );
        let rows: Vec<(String,)> = read!(self.db, pool => {
            sqlx::query_as(&sql)
                .bind(environment.to_string())
                .bind(instance.to_string())
                .bind(after)
                .bind(before)
                .bind(limit)
                .fetch_all(pool)
                .await?
        });
        let id = instance.to_string();
        let read = |(text,): &(String,)| document("service_instance_log", "snapshot", &id, text);
        rows.iter().map(read).collect()
    }

    /// How many versions of an instance are greater than `after` and smaller than `before`.
    pub async fn service_log_count(
        &self,
        environment: EnvironmentId,
        instance: Uuid,
        (after, before): (i64, i64),
    ) -> Result<i64> {
        const SQL: &str = "SELECT COUNT(*) FROM service_instance_log WHERE environment_id = $1 AND instance_id = $2 \
                           AND version > $3 AND version < $4";
        let (count,): (i64,) = read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(environment.to_string())
                .bind(instance.to_string())
                .bind(after)
                .bind(before)
                .fetch_one(pool)
                .await?
        });
        Ok(count)
    }
}
