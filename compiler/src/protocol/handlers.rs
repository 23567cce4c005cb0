//! What handlers of an executor tell of a resource.

use serde::{Deserialize, Serialize};

/// What a handler made of one resource. Source: docs/reference/deployment.md § 3.2 and § 5.6,
/// docs/reference/python.md § 5.1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct HandlerOutcome {
    /// `deployed`, `failed`, `skipped`, `skipped_for_dependency`, `non_compliant`, `unavailable`, `dry`.
    pub status: String,
    /// `nochange`, `created`, `updated`, `purged`.
    pub change: String,
    /// attribute → {current, desired}
    pub changes: serde_json::Map<String, serde_json::Value>,
    pub logs: Vec<LogLine>,
    pub facts: Vec<Fact>,
    /// Of a discovery resource: what exists. Source: docs/reference/deployment.md § 5.9.
    #[serde(default)]
    pub discovered: Vec<Discovered>,
}

/// A resource that a handler found, and what it is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovered {
    /// Without version.
    pub resource_id: String,
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One line of a resource action's log. Source: docs/reference/deployment.md § 5.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// `CRITICAL`, `ERROR`, `WARNING`, `INFO`, `DEBUG`, `TRACE`.
    pub level: String,
    /// The template already filled in.
    pub msg: String,
    pub kwargs: serde_json::Map<String, serde_json::Value>,
    /// UTC microseconds.
    pub timestamp_us: i64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    pub name: String,
    pub value: String,
    pub expires: bool,
}
