//! Pages of lists that may be long, read where the page is and nowhere else.
//!
//! A page begins behind a key, not at a number of rows to skip, so the thousandth page costs what the first does. What is
//! counted for a page is counted up to [`COUNTED`] rows, and how many rows there are in all is kept.

mod found;
mod key;
mod names;
mod rows;
mod sorted;
mod states;
mod texts;

pub(super) use found::NameLists;
pub(super) use key::push_span;
pub use key::{Edge, Key, Part};
pub use names::IdPart;
pub(super) use rows::{Condition, List, Listed};
pub use sorted::StateOrder;
pub(super) use texts::{Texts, Word};

use crate::domain::{Like, ResourceId, ResourceStatus};

/// Which part of a list, in ascending order of its key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// Rows whose key is greater.
    pub after: Option<Edge>,
    /// Rows whose key is smaller.
    pub before: Option<Edge>,
    /// The last of these rows instead of the first. Either way they come in ascending order.
    pub is_last: bool,
    pub limit: i64,
}

/// What a list of resources is searched by. Several words for one thing are alternatives; none: anything. Words are patterns
/// ([`Like::part`]).
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Parts of the type, case aside.
    pub types: Vec<String>,
    /// Parts of the agent's name, case aside.
    pub agents: Vec<String>,
    /// Parts of the value in the id, case aside.
    pub values: Vec<String>,
    /// `None`: of any status. Versions have none, and their lists take no notice.
    pub statuses: Option<Vec<ResourceStatus>>,
}

impl Span {
    /// The first rows of the list.
    pub fn first(limit: i64) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Whether a row is within it, but for the limit.
    pub fn has(&self, key: &Key) -> bool {
        self.after.as_ref().is_none_or(|edge| edge.is_below(key))
            && self.before.as_ref().is_none_or(|edge| edge.is_above(key))
    }

    /// What of rows in ascending order it has room for.
    pub fn cut<T>(&self, rows: &mut Vec<T>) {
        let limit = usize::try_from(self.limit).unwrap_or_default();
        if self.is_last {
            rows.drain(..rows.len().saturating_sub(limit));
        } else {
            rows.truncate(limit);
        }
    }
}

impl Search {
    /// Whether it looks into texts, so that nothing but counting says how many rows it finds.
    pub fn is_narrow(&self) -> bool {
        !(self.types.is_empty() && self.agents.is_empty() && self.values.is_empty())
    }

    /// Whether an id has what is searched for.
    pub(super) fn fits(&self, id: &ResourceId) -> bool {
        let has = |words: &[String], text: &str| {
            words.is_empty() || words.iter().any(|word| Like::part(word).fits(text))
        };
        has(&self.types, id.resource_type())
            && has(&self.agents, id.agent())
            && has(&self.values, id.value())
    }
}

/// Rows that are counted for "how many are there before" and "how many in all", when nothing says it without counting. More
/// would take longer than the page itself.
pub const COUNTED: i64 = 2000;

/// The pattern of `LOWER(column) LIKE .. ESCAPE '!'` for a part of a text. SQLite knows the small letters of ASCII only.
pub(super) fn pattern(word: &str, is_ascii_only: bool) -> String {
    let word = if is_ascii_only {
        word.to_ascii_lowercase()
    } else {
        word.to_lowercase()
    };
    let word = word
        .replace('\0', "\u{fffd}")
        .replace('!', "!!")
        .replace('%', "!%")
        .replace('_', "!_");
    format!("%{word}%")
}

#[cfg(test)]
mod pages_tests;
#[cfg(test)]
mod tests;
