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
    /// The lines that the handler logged, in order.
    pub logs: Vec<LogLine>,
    /// The facts that it reported.
    pub facts: Vec<Fact>,
    /// What a discovery resource found. Source: docs/reference/deployment.md § 5.9.
    #[serde(default)]
    pub discovered: Vec<Discovered>,
}

/// A resource that a handler found, and what it is like.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Discovered {
    /// Its id, without version.
    pub resource_id: String,
    /// What it is like, by attribute.
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One line of a resource action's log. Source: docs/reference/deployment.md § 5.8.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogLine {
    /// `CRITICAL`, `ERROR`, `WARNING`, `INFO`, `DEBUG`, `TRACE`.
    pub level: String,
    /// The template already filled in.
    pub msg: String,
    /// The arguments of the line, by name.
    pub kwargs: serde_json::Map<String, serde_json::Value>,
    /// When it was logged: microseconds since 1970, UTC.
    pub timestamp_us: i64,
}

/// One fact of a resource. Source: docs/reference/deployment.md § 5.6.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, unique for the resource.
    pub name: String,
    /// Its value, as text.
    pub value: String,
    /// Whether it has to be asked for again after some time.
    pub expires: bool,
}
