//! Pages of the rows that an environment has in a table.
//!
//! Whatever a list is sorted by, an index has its rows in that order, and one statement reads the rows of a page from it. Rows
//! that nobody looks for are passed on the way, so what is rare takes longer to find: at worst all entries of the index are
//! looked at, in the database.

use std::borrow::Cow;

use sqlx::postgres::PgRow;
use sqlx::sqlite::SqliteRow;
use sqlx::{Database, Encode, FromRow, QueryBuilder, Type};

use super::key::{push_edges, push_order};
use super::{Edge, Key, Part, Span};
use crate::domain::{EnvironmentId, Like, chain};
use crate::store::macros::read;
use crate::store::{Db, Result, Store, storable};

/// A row of a list.
pub(in crate::store) trait Listed:
    for<'r> FromRow<'r, SqliteRow> + for<'r> FromRow<'r, PgRow> + Send + Unpin
{
    const TABLE: &'static str;
    /// `SELECT` this.
    const COLUMNS: &'static str;

    /// The value of a column that the list is sorted or searched by.
    fn part(&self, column: &str) -> Part;

    fn key(&self, columns: &[&str]) -> Key {
        Key(columns.iter().map(|column| self.part(column)).collect())
    }
}

/// Which rows.
#[derive(Debug)]
pub(in crate::store) struct List {
    /// What it is sorted by; together they are a row's own.
    pub(in crate::store) columns: &'static [&'static str],
    /// ` AND ..` for what makes the list, beside the environment.
    pub(in crate::store) base: &'static str,
    /// Under which name its rows are counted in `row_count`.
    pub(in crate::store) counted_as: &'static str,
    pub(in crate::store) conditions: Vec<Condition>,
}

/// What is looked for in a list.
///
/// PostgreSQL takes what a pattern or one of some words finds for rare, and would read the whole table, and sort, to find it. What
/// it knows nothing of, such as a `CASE`, it takes for every second row, and reads the rows in the order of the list.
#[derive(Debug)]
pub(in crate::store) enum Condition {
    /// ` AND ..`, as it is.
    Sql(&'static str),
    /// A column, SQL's comparison, and a number.
    Compare(&'static str, &'static str, i64),
    /// An expression of an index that is this word: the rows are read from it, in the order of what is behind the expression.
    Equal(&'static str, String),
    /// An expression that is one of these words.
    Is(Cow<'static, str>, Vec<String>),
    /// A column that has one of these patterns as a part ([`Like::part`]).
    Has(&'static str, Vec<String>),
}

impl Condition {
    /// One, unless no word is given.
    pub(in crate::store) fn has(column: &'static str, words: &[String]) -> Option<Self> {
        (!words.is_empty()).then(|| Self::Has(column, words.to_vec()))
    }

    /// One, unless no word is given.
    pub(in crate::store) fn is(
        expression: impl Into<Cow<'static, str>>,
        words: &[String],
    ) -> Option<Self> {
        (!words.is_empty()).then(|| Self::Is(expression.into(), words.to_vec()))
    }

    /// One, unless anything is wanted.
    pub(in crate::store) fn flag(
        wanted: Option<bool>,
        [no, yes]: [&'static str; 2],
    ) -> Option<Self> {
        wanted.map(|wanted| Self::Sql(if wanted { yes } else { no }))
    }

    pub(in crate::store) fn compare(
        column: &'static str,
        bounds: &[(&'static str, i64)],
    ) -> impl Iterator<Item = Self> {
        let bounds = bounds.iter();
        bounds.map(move |(comparison, bound)| Self::Compare(column, comparison, *bound))
    }

    fn push<'q, DB: Database>(&self, query: &mut QueryBuilder<'q, DB>)
    where
        i64: Encode<'q, DB> + Type<DB>,
        String: Encode<'q, DB> + Type<DB>,
    {
        match self {
            Self::Sql(sql) => {
                query.push(*sql);
            }
            Self::Compare(column, comparison, number) => {
                query.push(" AND ").push(*column).push(*comparison);
                query.push_bind(*number);
            }
            Self::Equal(expression, word) => {
                query.push(" AND ").push(*expression).push(" = ");
                query.push_bind(storable(word).into_owned());
            }
            Self::Is(expression, words) => {
                query.push(" AND CASE WHEN ").push(expression);
                let mut separator = " IN (";
                for word in words {
                    query.push(separator);
                    query.push_bind(storable(word).into_owned());
                    separator = ", ";
                }
                query.push(") THEN TRUE ELSE FALSE END");
            }
            Self::Has(column, words) => {
                let mut separator = " AND CASE WHEN ";
                for word in words {
                    query.push(separator).push("LOWER(").push(*column);
                    query.push(") LIKE ").push_bind(pattern(word).0);
                    query.push(" ESCAPE '!'");
                    separator = " OR ";
                }
                query.push(" THEN TRUE ELSE FALSE END");
            }
        }
    }

    /// Whether a row that the database found is looked for.
    fn fits<R: Listed>(&self, row: &R) -> bool {
        match self {
            Self::Sql(_) | Self::Compare(..) | Self::Equal(..) | Self::Is(..) => true,
            Self::Has(column, words) => match row.part(column) {
                Part::Text(text) => words.iter().any(|word| Like::part(word).fits(&text)),
                Part::Number(_) | Part::Moment(_) => true,
            },
        }
    }

    /// Whether the database finds what is not looked for, too.
    fn is_vague(&self) -> bool {
        match self {
            Self::Sql(_) | Self::Compare(..) | Self::Equal(..) | Self::Is(..) => false,
            Self::Has(_, words) => words.iter().any(|word| !pattern(word).1),
        }
    }
}

/// A number that has more parts is added up: so many are read in a millisecond.
const MANY_PARTS: i64 = 1000;

/// Longer patterns are an error for SQLite.
const MAX_PATTERN: usize = 40_000;

/// The pattern of `LOWER(column) LIKE .. ESCAPE '!'` for a word that is searched for, and whether it finds nothing else. Where
/// it is about letters beyond ASCII, databases do not agree which are the same but for their case: there it finds more.
fn pattern(word: &str) -> (String, bool) {
    let (mut pattern, mut is_exact) = (String::new(), true);
    // As `Like::part` reads it: a backslash at the end of a word takes the wildcard behind it.
    let part = format!("%{word}%");
    let mut chars = part.chars();
    while let Some(one) = chars.next() {
        let meant = match one {
            '%' | '_' => {
                pattern.push(one);
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            other => other,
        };
        match meant {
            '!' | '%' | '_' => pattern.extend(['!', meant]),
            '\0' | '\u{80}'.. => {
                pattern.push('%');
                is_exact = false;
            }
            letter => pattern.push(letter.to_ascii_lowercase()),
        }
    }
    if pattern.len() > MAX_PATTERN {
        return ("%".to_owned(), false);
    }
    (pattern, is_exact)
}

impl List {
    /// Whether nothing but counting says how many rows it has.
    fn is_narrow(&self) -> bool {
        !self.conditions.is_empty()
    }

    fn push<'q, DB: Database>(
        &self,
        query: &mut QueryBuilder<'q, DB>,
        environment: EnvironmentId,
        span: &Span,
    ) where
        i64: Encode<'q, DB> + Type<DB>,
        String: Encode<'q, DB> + Type<DB>,
    {
        query.push(" WHERE environment_id = ");
        query.push_bind(environment.to_string()).push(self.base);
        for condition in &self.conditions {
            condition.push(query);
        }
        push_edges(query, self.columns, span);
    }
}

impl Store {
    /// The rows within the span, in ascending order, each with its key.
    pub(in crate::store) async fn rows_page<R: Listed>(
        &self,
        environment: EnvironmentId,
        list: &List,
        span: &Span,
    ) -> Result<Vec<(Key, R)>> {
        let n_wanted = usize::try_from(span.limit).unwrap_or_default();
        let is_vague = list.conditions.iter().any(Condition::is_vague);
        let (mut found, mut rest) = (Vec::new(), span.clone());
        loop {
            let rows: Vec<R> = read!(self.db, pool => {
                let mut query = QueryBuilder::new("SELECT ");
                query.push(R::COLUMNS).push(" FROM ").push(R::TABLE);
                list.push(&mut query, environment, &rest);
                push_order(&mut query, list.columns, &rest);
                query.build_query_as().fetch_all(pool).await?
            });
            let is_all = rows.len() < n_wanted;
            let last = rows.last().map(|row| row.key(list.columns));
            let fits = |row: &R| !is_vague || list.conditions.iter().all(|one| one.fits(row));
            let rows = rows.into_iter().filter(fits);
            found.extend(rows.map(|row| (row.key(list.columns), row)));
            let Some(last) = last.filter(|_| !is_all && found.len() < n_wanted) else {
                break;
            };
            let edge = Some(Edge::at(last));
            if span.is_last {
                rest.before = edge;
            } else {
                rest.after = edge;
            }
        }
        found.truncate(n_wanted);
        if span.is_last {
            found.reverse();
        }
        Ok(found)
    }

    /// How many rows there are within the span, up to its limit. If it has no edges and nothing is looked for, all of them: that
    /// is kept.
    pub(in crate::store) async fn rows_count<R: Listed>(
        &self,
        environment: EnvironmentId,
        list: &List,
        span: &Span,
    ) -> Result<i64> {
        if !list.is_narrow() && span.after.is_none() && span.before.is_none() {
            return self.row_count(environment, list.counted_as).await;
        }
        if list.conditions.iter().any(Condition::is_vague) {
            let found = self.rows_page::<R>(environment, list, span).await?;
            return Ok(found.len() as i64);
        }
        let is_sqlite = self.is_sqlite();
        let (n_rows,): (i64,) = read!(self.db, pool => {
            let mut query = QueryBuilder::new("SELECT COUNT(*) FROM (SELECT 1 FROM ");
            query.push(R::TABLE);
            list.push(&mut query, environment, span);
            // By the order SQLite finds the index that is meant. PostgreSQL, where it believes that the rows are few, would sort
            // all of them before it counts the first.
            if is_sqlite {
                push_order(&mut query, list.columns, span);
            } else {
                query.push(" LIMIT ").push_bind(span.limit);
            }
            query.push(") counted");
            query.build_query_as().fetch_one(pool).await?
        });
        Ok(n_rows)
    }

    /// How many rows an environment has in a list, by what triggers count.
    pub(in crate::store) async fn row_count(
        &self,
        environment: EnvironmentId,
        list: &str,
    ) -> Result<i64> {
        const SQL: &str = "SELECT CAST(COALESCE(SUM(n_rows), 0) AS BIGINT), COUNT(*) FROM row_count \
                           WHERE environment_id = $1 AND list = $2";
        let (n_rows, n_parts): (i64, i64) = read!(self.db, pool => {
            sqlx::query_as(SQL).bind(environment.to_string()).bind(list).fetch_one(pool).await?
        });
        if n_parts > MANY_PARTS {
            let store = self.clone();
            tokio::spawn(async move {
                if let Err(error) = store.row_count_fold(environment).await {
                    tracing::debug!(
                        error = chain(&error),
                        "cannot add up how many rows there are"
                    );
                }
            });
        }
        Ok(n_rows)
    }

    /// Adds up what was counted one by one; gives how many numbers are left. SQLite has one for each list anyway.
    pub async fn row_count_fold(&self, environment: EnvironmentId) -> Result<u64> {
        const SQL: &str = "WITH gone AS (DELETE FROM row_count WHERE environment_id = $1 RETURNING list, n_rows) \
                           INSERT INTO row_count (environment_id, list, n_rows) \
                           SELECT $1, list, CAST(SUM(n_rows) AS BIGINT) FROM gone GROUP BY list";
        let Db::Postgres { pool, gate } = &self.db else {
            return Ok(0);
        };
        gate.check()?;
        let done = sqlx::query(SQL)
            .bind(environment.to_string())
            .execute(pool)
            .await?;
        gate.check()?;
        Ok(done.rows_affected())
    }
}
