//! The name of an agent and the number of a version: no other text or number passes for one.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of an agent: the queue of work of one managed target. All clones share one text, since ten thousand resources may
/// have the same. Source: docs/reference/deployment.md § 1.4.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentName(Arc<str>);

impl AgentName {
    /// Any text names an agent; there is one of that name or there is none.
    pub fn new(name: impl Into<String>) -> Self {
        let name: String = name.into();
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// So that maps by name are asked with a text. Equality, order and hash are those of the text.
impl Borrow<str> for AgentName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for AgentName {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for AgentName {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of a version within its environment. The first one is 1.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VersionNumber(i64);

impl VersionNumber {
    /// Before the first one.
    pub const NONE: Self = Self(0);

    /// Any number names a version; there is one of that number or there is none.
    pub const fn new(number: i64) -> Self {
        Self(number)
    }

    pub const fn get(self) -> i64 {
        self.0
    }

    /// That of the version before it.
    pub const fn previous(self) -> Self {
        Self(self.0 - 1)
    }
}

impl PartialEq<i64> for VersionNumber {
    fn eq(&self, other: &i64) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for VersionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for VersionNumber {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}
