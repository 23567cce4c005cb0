//! How clients and compiles say what they change.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Attributes;

/// How a client changes attributes. Source: docs/reference/lsm.md § 5.5.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Attributes at the top that are given replace those that were there; for services without strict modifiers.
    Merge(Attributes),
    /// Edits, one after the other; for services with strict modifiers.
    Edits(Vec<Edit>),
    /// All attributes, anew; for services with strict modifiers.
    Replace {
        /// What is missing gets its default.
        attributes: Attributes,
        /// Whether read-only values that are given are dropped, rather than compared with the stored ones.
        ignore_read_only: bool,
    },
}

/// A change at one place. Source: docs/reference/lsm.md § 5.5.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(expecting = "an object {edit_id, operation, target, value}")]
pub struct Edit {
    /// Tells edits of one call apart.
    pub edit_id: String,
    /// What is done.
    pub operation: EditOperation,
    /// Where, as a path (§ 6); `.` is the whole set.
    pub target: String,
    /// With what.
    #[serde(default)]
    pub value: Value,
}

/// What an edit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EditOperation {
    /// Puts the value there.
    Replace,
    /// Takes away what is there.
    Remove,
    /// Puts the value into what is there, key by key.
    Merge,
    /// Adds an element to a list.
    Add,
}
