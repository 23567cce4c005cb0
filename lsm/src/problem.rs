//! What is wrong with something that was given: everything in one answer, each with its place.

use std::fmt;

use serde::Serialize;

/// Problems that a message says; it says of the others how many there are.
const MAX_SHOWN: usize = 1000;
/// Problems that are remembered: a list may have millions of elements, and each may be wrong.
const MAX_KEPT: usize = 10_000;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where, as a path: `sites[name=a].vlan`, `transfers[3].error`; empty: the whole.
    pub path: String,
    /// What is wrong there and, where it is not obvious, what to do.
    pub reason: String,
}

impl Problem {
    /// A problem at a place.
    pub fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        let (path, reason) = (path.into(), reason.into());
        Self { path, reason }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.reason),
            path => write!(f, "{path}: {}", self.reason),
        }
    }
}

/// All that is wrong; at least one thing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

impl Problems {
    /// Remembers one more, unless there are very many.
    pub fn add(&mut self, path: impl Into<String>, reason: impl Into<String>) {
        if self.0.len() < MAX_KEPT {
            self.0.push(Problem::new(path, reason));
        }
    }

    /// Remembers others, unless there are very many.
    pub fn extend(&mut self, others: Self) {
        let room = MAX_KEPT.saturating_sub(self.0.len());
        self.0.extend(others.0.into_iter().take(room));
    }

    /// The value, if nothing was found to be wrong.
    ///
    /// # Errors
    ///
    /// All that is wrong.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() {
            Ok(value)
        } else {
            Err(self)
        }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().take(MAX_SHOWN);
        let texts: Vec<String> = shown.map(ToString::to_string).collect();
        f.write_str(&texts.join("; "))?;
        match self.0.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more if self.0.len() < MAX_KEPT => write!(f, "; and {more} more"),
            more => write!(f, "; and at least {more} more"),
        }
    }
}

impl std::error::Error for Problems {}
