//! Where events of instances are sent to. Source: docs/reference/lsm.md § 5.9.

use steward_lsm::lifecycle::Severity;
use uuid::Uuid;

use crate::domain::{EnvironmentId, Timestamp};
use crate::store::macros::{read, write};
use crate::store::{Error, Result, Store, document, is_duplicate, parsed, storable};

const TABLE: &str = "service_callback";

/// An address, and which events it wants.
#[derive(Debug, Clone, PartialEq)]
pub struct Callback {
    pub id: Uuid,
    pub url: String,
    /// The service whose instances it is about.
    pub entity: String,
    /// `None`: events of all types.
    pub event_types: Option<Vec<String>>,
    /// `None`: however light.
    pub minimal_severity: Option<Severity>,
}

/// Addresses of an environment: each is asked about every event of its service.
const MAX_CALLBACKS: i64 = 1000;

type Columns = (String, String, String, Option<String>, Option<i64>);

impl Callback {
    fn of_row((id, url, entity, event_types, severity): Columns) -> Result<Self> {
        let event_types = event_types.as_deref();
        let mut severities = Severity::ALL.into_iter();
        Ok(Self {
            event_types: event_types
                .map(|text| document(TABLE, "event_types", &id, text))
                .transpose()?,
            id: parsed(TABLE, "id", &id)?,
            url,
            entity,
            minimal_severity: severity
                .and_then(|level| severities.find(|one| i64::from(one.level()) == level)),
        })
    }
}

impl Store {
    /// Callbacks of an environment, in the order in which they were made.
    pub async fn callback_list(&self, environment: EnvironmentId) -> Result<Vec<Callback>> {
        const SQL: &str = "SELECT id, url, entity, event_types, minimal_severity FROM service_callback \
                           WHERE environment_id = $1 ORDER BY created_us, id";
        let rows: Vec<Columns> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).fetch_all(pool).await?
        });
        rows.into_iter().map(Callback::of_row).collect()
    }

    /// Whether a callback is still there and for the same address.
    pub async fn callback_is_for(
        &self,
        environment: EnvironmentId,
        id: Uuid,
        url: &str,
    ) -> Result<bool> {
        const SQL: &str = "SELECT CAST(COUNT(*) AS BIGINT) FROM service_callback \
                           WHERE environment_id = $1 AND id = $2 AND url = $3";
        let (n_found,): (i64,) = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(id.to_string()).bind(url).fetch_one(pool).await?
        });
        Ok(n_found > 0)
    }

    /// Callbacks for the instances of one service.
    pub async fn callback_list_of(
        &self,
        environment: EnvironmentId,
        entity: &str,
    ) -> Result<Vec<Callback>> {
        const SQL: &str = "SELECT id, url, entity, event_types, minimal_severity FROM service_callback \
                           WHERE environment_id = $1 AND entity = $2 ORDER BY created_us, id";
        let rows: Vec<Columns> = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(entity).fetch_all(pool).await?
        });
        rows.into_iter().map(Callback::of_row).collect()
    }

    /// # Errors
    /// [`Error::Conflict`]: the id is taken; [`Error::Refused`]: there are too many.
    pub async fn callback_create(
        &self,
        environment: EnvironmentId,
        callback: &Callback,
    ) -> Result<()> {
        const SQL: &str = "INSERT INTO service_callback (id, environment_id, url, entity, event_types, minimal_severity, \
                           created_us) SELECT $1, $2, $3, $4, $5, $6, $7 WHERE (SELECT COUNT(*) FROM service_callback \
                           WHERE environment_id = $2) < $8";
        let types = callback.event_types.as_ref();
        let types = types.map(|types| serde_json::json!(types).to_string());
        let now = Timestamp::now().0;
        let written = write!(self.db, pool => {
            sqlx::query(SQL)
                .bind(callback.id.to_string())
                .bind(environment.to_string())
                .bind(storable(&callback.url))
                .bind(storable(&callback.entity))
                .bind(types)
                .bind(callback.minimal_severity.map(|severity| i64::from(severity.level())))
                .bind(now)
                .bind(MAX_CALLBACKS)
                .execute(pool)
                .await
                .map(|done| done.rows_affected())
        });
        match written {
            Ok(1) => Ok(()),
            Ok(_) => Err(Error::Refused(format!(
                "an environment has at most {MAX_CALLBACKS} callbacks; delete one first"
            ))),
            Err(error) if is_duplicate(&error) => Err(Error::Conflict(format!(
                "there is a callback with the id {} already",
                callback.id
            ))),
            Err(error) => Err(error.into()),
        }
    }

    /// `false`: there is no such callback.
    pub async fn callback_delete(&self, environment: EnvironmentId, id: Uuid) -> Result<bool> {
        const SQL: &str = "DELETE FROM service_callback WHERE environment_id = $1 AND id = $2";
        let n_rows = write!(self.db, pool => {
            sqlx::query(SQL).bind(environment.to_string()).bind(id.to_string()).execute(pool).await?.rows_affected()
        });
        Ok(n_rows > 0)
    }
}
