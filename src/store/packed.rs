//! Reading all resources of an environment, a million rows if need be, for the schedule after a start.
//!
//! What a row costs when it comes through the driver is not its bytes: SQLite's driver makes a copy of each column on one
//! thread, hands the row to another, and there each column becomes a text of its own and is freed. That is 12 us a row with
//! its twenty columns, two thirds of the time of a start. So the database packs a page of rows into one text, fields and
//! rows divided by a separator, and the text is taken apart here without a copy. It takes a fifth of the time.
//!
//! A page knows how many rows it has. If its text does not have exactly their fields, some value contains the separator, and
//! the page is read again with a separator that no value contains, since it was made up just now.

use super::macros::read;
use super::{Error, Result, Store};
use crate::domain::{Blocked, EnvironmentId, LastRun, ResourceStatus, Timestamp, VersionNumber};

/// Rows of a page: enough that questions do not count, few enough that a page is half a megabyte as a rule.
const ROWS: usize = 1000;

/// A row whose attributes and requires take more bytes is read alone, so that pages are no larger than `ROWS` times this.
macro_rules! large {
    () => {
        "32768"
    };
}

/// What divides fields and rows: a control character, which hardly any text has.
const SEPARATOR: &str = "\u{1f}";

/// `$1`: the environment, `$2`: the id before the page, `$3`: rows, `$4`: the separator, `$5`: the version, if it counts. What
/// is NULL is empty in the text. (`CONCAT_WS` would leave out what is empty on one database; `||` makes a text of its own of
/// each part.)
macro_rules! page {
    ([$($field:expr),*], $table:literal) => {
        concat!(
            "SELECT COUNT(*), COALESCE(MAX(resource_id), ''), COALESCE(STRING_AGG(packed, CAST($4 AS TEXT)), '') FROM (SELECT \
             resource_id, CONCAT(resource_id",
            $(", CAST($4 AS TEXT), ", $field,)*
            ") AS packed FROM ",
            $table,
            " AND resource_id > $2 ORDER BY resource_id LIMIT $3) AS page"
        )
    };
}

/// A text of a row that is not large; else nothing.
macro_rules! unless_large {
    ($column:literal) => {
        concat!(
            "CASE WHEN OCTET_LENGTH(attributes) + OCTET_LENGTH(requires) > ",
            large!(),
            " THEN '' ELSE ",
            $column,
            " END"
        )
    };
}

/// A resource of a version, as the schedule needs it; see [`super::StoredResource`].
#[derive(Debug)]
pub struct ResourceRow<'a> {
    pub resource_id: &'a str,
    pub resource_type: &'a str,
    pub agent: &'a str,
    pub id_value: &'a str,
    pub attribute_hash: &'a str,
    pub is_undefined: bool,
    pub created: Timestamp,
    /// A JSON list.
    pub requires: &'a str,
    pub attributes: &'a str,
}

const RESOURCES: &str = page!(
    [
        "resource_type",
        "agent",
        "id_value",
        "attribute_hash",
        "CASE WHEN is_undefined THEN '1' ELSE '' END",
        "created_us",
        unless_large!("requires"),
        unless_large!("attributes")
    ],
    "desired_resource WHERE environment_id = $1 AND + from_version <= $5 AND to_version > $5"
);
const RESOURCE_FIELDS: usize = 9;

/// The state of a resource of the version in force, as the schedule needs it; see [`super::ResourceState`]. What is not here
/// the resource itself says.
#[derive(Debug)]
pub struct StateRow<'a> {
    pub resource_id: &'a str,
    pub created: Timestamp,
    pub blocked: Blocked,
    pub deployed_hash: Option<&'a str>,
    pub deployed_version: Option<VersionNumber>,
    pub last_run: LastRun,
    pub last_run_compliant: Option<bool>,
    pub last_run_at: Option<Timestamp>,
    pub last_success: Option<Timestamp>,
    pub last_events: Option<Timestamp>,
    pub last_change: Option<Timestamp>,
    pub last_status: ResourceStatus,
    pub n_failures: i64,
}

const STATES: &str = page!(
    [
        "created_us",
        "blocked",
        "CASE WHEN deployed_hash IS NULL THEN '' ELSE '=' || deployed_hash END",
        "deployed_version",
        "last_run",
        "CASE WHEN last_run_compliant THEN '1' WHEN last_run_compliant IS NULL THEN '' ELSE '0' END",
        "last_run_us",
        "last_success_us",
        "last_events_us",
        "last_change_us",
        "last_status",
        "n_failures"
    ],
    "resource_state WHERE environment_id = $1 AND orphaned_after IS NULL"
);
const STATE_FIELDS: usize = 13;

/// A page of rows as one text.
struct Page {
    n_rows: usize,
    /// The id behind which it begins.
    after: String,
    last_id: String,
    text: String,
    separator: String,
}

impl Page {
    /// Its fields, those of one row after those of another; `None`: some value contains the separator.
    fn fields(&self, n_fields: usize) -> Option<Vec<&str>> {
        let mut fields = Vec::with_capacity(self.n_rows * n_fields);
        if self.separator == SEPARATOR {
            fields.extend(self.text.split('\u{1f}'));
        } else {
            fields.extend(self.text.split(self.separator.as_str()));
        }
        (fields.len() == self.n_rows * n_fields).then_some(fields)
    }
}

/// What is read, page by page.
#[derive(Clone)]
struct Query {
    sql: &'static str,
    environment: String,
    version: VersionNumber,
}

/// What wants to see the rows of an environment.
pub trait SeesRows {
    /// A resource of the version, by id.
    ///
    /// # Errors
    /// The row makes no sense.
    fn resource(&mut self, row: &ResourceRow<'_>) -> Result<()>;
    /// The state of a resource that it has seen, or of one that it never will.
    fn state(&mut self, row: &StateRow<'_>);
    /// Whether it has seen the resource of this id.
    fn has_seen(&self, resource_id: &str) -> bool;
}

/// Pages one after the other. The next is being read while this one is taken apart.
struct Pages {
    query: Query,
    n_fields: usize,
    next: Option<tokio::task::JoinHandle<Result<Page>>>,
}

impl Pages {
    async fn begin(store: &Store, query: Query, n_fields: usize) -> Self {
        let next = Some(store.page_after(&query, String::new()).await);
        Self {
            query,
            n_fields,
            next,
        }
    }

    /// The next page; `None`: there is none, and never will be.
    async fn next(&mut self, store: &Store) -> Result<Option<Page>> {
        let Some(reading) = self.next.take() else {
            return Ok(None);
        };
        let page = joined(reading).await?;
        if page.n_rows == ROWS {
            self.next = Some(store.page_after(&self.query, page.last_id.clone()).await);
        }
        let page = store.readable(&self.query, page, self.n_fields).await?;
        Ok((page.n_rows > 0).then_some(page))
    }
}

impl Store {
    /// Shows all resources of a version, by id, and, `with_states`, the states of all that are in the version in force.
    ///
    /// The two are read side by side, each by a connection of its own. A page of states is shown when the last resource of it
    /// was seen, so that states are not kept for long; those of resources that the version does not have come in the end at
    /// the latest.
    ///
    /// # Errors
    /// The database fails, or a row makes no sense.
    pub async fn rows_each(
        &self,
        environment: EnvironmentId,
        version: VersionNumber,
        with_states: bool,
        sees: &mut (impl SeesRows + Send),
    ) -> Result<()> {
        let query = |sql| Query {
            sql,
            environment: environment.to_string(),
            version,
        };
        let mut resources = Pages::begin(self, query(RESOURCES), RESOURCE_FIELDS).await;
        let mut states = match with_states {
            true => Some(Pages::begin(self, query(STATES), STATE_FIELDS).await),
            false => None,
        };
        let mut held: Option<Page> = None;
        while let Some(page) = resources.next(self).await? {
            self.show_resources(&resources.query, &page, sees).await?;
            while let Some(reading) = &mut states {
                let Some(page) = (match held.take() {
                    Some(page) => Some(page),
                    None => reading.next(self).await?,
                }) else {
                    states = None;
                    break;
                };
                if !sees.has_seen(&page.last_id) {
                    held = Some(page);
                    break;
                }
                show_states(&page, sees)?;
            }
        }
        if let Some(page) = held {
            show_states(&page, sees)?;
        }
        while let Some(reading) = &mut states
            && let Some(page) = reading.next(self).await?
        {
            show_states(&page, sees)?;
        }
        Ok(())
    }

    async fn show_resources(
        &self,
        query: &Query,
        page: &Page,
        sees: &mut (impl SeesRows + Send),
    ) -> Result<()> {
        let fields = page.fields(RESOURCE_FIELDS).unwrap_or_default();
        for row in fields.chunks_exact(RESOURCE_FIELDS) {
            let mut resource = resource_of(row)?;
            if !resource.attributes.is_empty() {
                sees.resource(&resource)?;
                continue;
            }
            let (requires, attributes) = self.large_texts(query, resource.resource_id).await?;
            (resource.requires, resource.attributes) = (&requires, &attributes);
            sees.resource(&resource)?;
        }
        Ok(())
    }

    /// Begins to read a page, so that the database works while the page before it is taken apart.
    async fn page_after(
        &self,
        query: &Query,
        after: String,
    ) -> tokio::task::JoinHandle<Result<Page>> {
        let (store, query) = (self.clone(), query.clone());
        let reading =
            tokio::spawn(async move { store.page(&query, after, SEPARATOR.to_owned()).await });
        // What a task spawns is the next that its thread runs, and no other thread takes it. Who goes on with a page that is
        // there would keep that thread, and the database would wait.
        tokio::task::yield_now().await;
        reading
    }

    async fn page(&self, query: &Query, after: String, separator: String) -> Result<Page> {
        let (n_rows, last_id, text): (i64, String, String) = read!(self.db, pool => {
            let question = sqlx::query_as(query.sql)
                .bind(&query.environment)
                .bind(&after)
                .bind(ROWS as i64)
                .bind(&separator);
            let question = if query.sql == RESOURCES { question.bind(query.version) } else { question };
            question.fetch_one(pool).await?
        });
        Ok(Page {
            n_rows: usize::try_from(n_rows).unwrap_or_default(),
            after,
            last_id,
            text,
            separator,
        })
    }

    /// The same page, if need be with another separator.
    async fn readable(&self, query: &Query, page: Page, n_fields: usize) -> Result<Page> {
        if page.n_rows == 0 || page.fields(n_fields).is_some() {
            return Ok(page);
        }
        let separator = uuid::Uuid::new_v4().to_string();
        let page = self.page(query, page.after, separator).await?;
        match page.fields(n_fields) {
            Some(_) => Ok(page),
            None => Err(unreadable("resource_state", "row", &[&page.last_id])),
        }
    }

    /// Requires and attributes of one resource.
    async fn large_texts(&self, query: &Query, resource_id: &str) -> Result<(String, String)> {
        const SQL: &str = "SELECT requires, attributes FROM desired_resource WHERE environment_id = $1 AND resource_id = $2 \
                           AND + from_version <= $3 AND to_version > $3";
        Ok(read!(self.db, pool => {
            sqlx::query_as(SQL)
                .bind(&query.environment)
                .bind(resource_id)
                .bind(query.version)
                .fetch_one(pool)
                .await?
        }))
    }
}

/// The page that was begun to be read.
async fn joined(reading: tokio::task::JoinHandle<Result<Page>>) -> Result<Page> {
    match reading.await {
        Ok(page) => page,
        Err(error) => Err(Error::Query(sqlx::Error::Protocol(format!(
            "reading was cut off: {error}"
        )))),
    }
}

fn show_states(page: &Page, sees: &mut impl SeesRows) -> Result<()> {
    let fields = page.fields(STATE_FIELDS).unwrap_or_default();
    for row in fields.chunks_exact(STATE_FIELDS) {
        sees.state(&state_of(row)?);
    }
    Ok(())
}

fn resource_of<'a>(row: &[&'a str]) -> Result<ResourceRow<'a>> {
    let &[
        resource_id,
        resource_type,
        agent,
        id_value,
        attribute_hash,
        is_undefined,
        created,
        requires,
        attributes,
    ] = row
    else {
        return Err(unreadable("desired_resource", "row", row));
    };
    let created = created.parse();
    Ok(ResourceRow {
        resource_id,
        resource_type,
        agent,
        id_value,
        attribute_hash,
        is_undefined: is_undefined == "1",
        created: Timestamp(created.map_err(|_| unreadable("desired_resource", "created_us", row))?),
        requires,
        attributes,
    })
}

fn state_of<'a>(row: &[&'a str]) -> Result<StateRow<'a>> {
    let bad = |column| unreadable("resource_state", column, row);
    let &[
        resource_id,
        created,
        blocked,
        deployed_hash,
        deployed_version,
        last_run,
        compliant,
        run_us,
        success_us,
        events_us,
        change_us,
        last_status,
        n_failures,
    ] = row
    else {
        return Err(bad("row"));
    };
    let number = |text: &str, column| match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| bad(column)),
    };
    let time = |text, column| number(text, column).map(|us| us.map(Timestamp));
    Ok(StateRow {
        resource_id,
        created: time(created, "created_us")?.ok_or_else(|| bad("created_us"))?,
        blocked: Blocked::parse(blocked).ok_or_else(|| bad("blocked"))?,
        deployed_hash: deployed_hash.strip_prefix('='),
        deployed_version: number(deployed_version, "deployed_version")?.map(VersionNumber::new),
        last_run: LastRun::parse(last_run).ok_or_else(|| bad("last_run"))?,
        last_run_compliant: (!compliant.is_empty()).then_some(compliant == "1"),
        last_run_at: time(run_us, "last_run_us")?,
        last_success: time(success_us, "last_success_us")?,
        last_events: time(events_us, "last_events_us")?,
        last_change: time(change_us, "last_change_us")?,
        last_status: last_status.parse().map_err(|_| bad("last_status"))?,
        n_failures: number(n_failures, "n_failures")?.unwrap_or_default(),
    })
}

fn unreadable(table: &'static str, column: &'static str, row: &[&str]) -> Error {
    let id = row.first().copied().unwrap_or_default().to_owned();
    Error::Row { table, column, id }
}

#[cfg(test)]
mod tests;
