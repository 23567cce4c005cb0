//! Places in lists.

use std::fmt;

use sqlx::{Database, Encode, QueryBuilder, Type};

use super::Span;
use crate::domain::Timestamp;
use crate::store::storable;

/// Divides the parts of a key as links have it: no text that is sorted by has it.
pub const SEPARATOR: char = '\u{1}';

/// A value of a column that a list is sorted by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Number(i64),
    Moment(Timestamp),
    Text(String),
}

/// The values of the columns that a list is sorted by, the last of which is each row's own. A boundary may lack the last ones:
/// it stands before all rows that begin with what it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub Vec<Part>);

/// Where a part of a list begins or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub key: Key,
    /// Whether the row of the key is a part of it.
    pub is_included: bool,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Moment(moment) => moment.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Part {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A value of the same kind, as [`Display`](fmt::Display) shows it; `None`: it is none.
    fn read(&self, text: &str) -> Option<Self> {
        match self {
            Self::Number(_) => text.parse().ok().map(Self::Number),
            Self::Moment(_) => Timestamp::parse(text).map(Self::Moment),
            Self::Text(_) => Some(Self::text(text)),
        }
    }

    fn push<'q, DB: Database>(&self, query: &mut QueryBuilder<'q, DB>)
    where
        i64: Encode<'q, DB> + Type<DB>,
        String: Encode<'q, DB> + Type<DB>,
    {
        match self {
            Self::Number(number) => query.push_bind(*number),
            Self::Moment(moment) => query.push_bind(moment.0),
            Self::Text(text) => query.push_bind(storable(text).into_owned()),
        };
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, part) in self.0.iter().enumerate() {
            if n > 0 {
                write!(f, "{SEPARATOR}")?;
            }
            part.fmt(f)?;
        }
        Ok(())
    }
}

impl Key {
    /// The key that is one text.
    pub fn of(text: impl Into<String>) -> Self {
        Self(vec![Part::text(text)])
    }

    /// One of so many texts, which says of what kind keys are.
    pub fn texts(n_parts: usize) -> Self {
        Self(vec![Part::text(""); n_parts])
    }

    /// One of a moment and an id, which says of what kind keys are.
    pub fn moment_and_id() -> Self {
        Self(vec![Part::Moment(Timestamp(0)), Part::text("")])
    }

    /// A key of the kind of this one, as [`Display`](fmt::Display) shows it, or the begin of one. `Err` has the part that is no
    /// value of its column.
    ///
    /// # Errors
    /// See above.
    pub fn read(&self, text: &str) -> Result<Self, String> {
        let parts = self.0.iter().zip(text.splitn(self.0.len(), SEPARATOR));
        let parts = parts.map(|(kind, text)| kind.read(text).ok_or_else(|| text.to_owned()));
        parts.collect::<Result<_, _>>().map(Self)
    }
}

impl Edge {
    /// Beside the row of the key.
    pub fn at(key: Key) -> Self {
        Self {
            key,
            is_included: false,
        }
    }

    /// The same with the row of the key.
    #[must_use]
    pub fn including(self) -> Self {
        Self {
            is_included: true,
            ..self
        }
    }

    /// The edge of what is on the other side.
    #[must_use]
    pub fn other_side(&self) -> Self {
        Self {
            key: self.key.clone(),
            is_included: !self.is_included,
        }
    }

    /// Whether a row is behind it.
    pub(super) fn is_below(&self, key: &Key) -> bool {
        *key > self.key || (self.is_included && *key == self.key)
    }

    /// Whether a row is before it.
    pub(super) fn is_above(&self, key: &Key) -> bool {
        *key < self.key || (self.is_included && *key == self.key)
    }
}

/// Adds ` AND ..` for the bounds of a span of a list that is sorted by these columns, its order and its limit.
pub(in crate::store) fn push_span<'q, DB: Database>(
    query: &mut QueryBuilder<'q, DB>,
    columns: &[&str],
    span: &Span,
) where
    i64: Encode<'q, DB> + Type<DB>,
    String: Encode<'q, DB> + Type<DB>,
{
    push_edges(query, columns, span);
    push_order(query, columns, span);
}

/// Adds ` AND ..` for the bounds of a span.
///
/// Columns are compared as a pair: there a database begins to read, whereas with an `OR` it reads all rows from the beginning.
pub(super) fn push_edges<'q, DB: Database>(
    query: &mut QueryBuilder<'q, DB>,
    columns: &[&str],
    span: &Span,
) where
    i64: Encode<'q, DB> + Type<DB>,
    String: Encode<'q, DB> + Type<DB>,
{
    if let Some(edge) = &span.after {
        push_edge(query, columns, edge, [" > ", " >= "], " >= ");
    }
    if let Some(edge) = &span.before {
        push_edge(query, columns, edge, [" < ", " <= "], " < ");
    }
}

/// Adds the order and the limit of a span. The rows come in the order in which they are found.
pub(super) fn push_order<'q, DB: Database>(
    query: &mut QueryBuilder<'q, DB>,
    columns: &[&str],
    span: &Span,
) where
    i64: Encode<'q, DB> + Type<DB>,
{
    let direction = if span.is_last { " DESC" } else { "" };
    let mut separator = " ORDER BY ";
    for column in columns {
        query.push(separator).push(*column).push(direction);
        separator = ", ";
    }
    query.push(" LIMIT ").push_bind(span.limit);
}

/// `comparisons`: without the row of the key, and with it. `of_begin`: of a key that lacks its last parts.
fn push_edge<'q, DB: Database>(
    query: &mut QueryBuilder<'q, DB>,
    columns: &[&str],
    edge: &Edge,
    comparisons: [&'static str; 2],
    of_begin: &'static str,
) where
    i64: Encode<'q, DB> + Type<DB>,
    String: Encode<'q, DB> + Type<DB>,
{
    let parts = &edge.key.0;
    let comparison = if parts.len() < columns.len() {
        of_begin
    } else {
        comparisons[usize::from(edge.is_included)]
    };
    match parts.as_slice() {
        [] => {}
        [part] => {
            query.push(" AND ").push(columns[0]).push(comparison);
            part.push(query);
        }
        [first, ..] => {
            // SQLite begins at a pair of columns only where neither is an expression; and not at a pair where one will do.
            if columns[0].starts_with('(') {
                query.push(" AND ").push(columns[0]).push(comparisons[1]);
                first.push(query);
            }
            query.push(" AND (").push(columns[..parts.len()].join(", "));
            query.push(")").push(comparison);
            let mut separator = "(";
            for part in parts {
                query.push(separator);
                part.push(query);
                separator = ", ";
            }
            query.push(")");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_is_shown_and_may_be_a_begin() {
        let moment = Timestamp::parse("2026-11-21T02:56:06.725280+00:00").unwrap();
        let key = Key(vec![
            Part::Moment(moment),
            Part::Number(3),
            Part::text("a b"),
        ]);
        assert_eq!(key.read(&key.to_string()), Ok(key.clone()));
        let begin = Key(vec![Part::Moment(moment)]);
        assert_eq!(key.read(&moment.to_string()), Ok(begin.clone()));
        assert_eq!(key.read(&format!("{moment}\u{1}x")), Err("x".to_owned()));
        assert!(begin < key && Edge::at(begin.clone()).is_below(&key));
        assert!(!Edge::at(begin).is_above(&key));
        let other = Edge::at(key.clone()).other_side();
        assert!(other.is_below(&key) && other.is_above(&key));
    }
}
