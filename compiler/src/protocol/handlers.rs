//! What handlers of an executor are asked for, and what they tell of a resource.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::protocol::as_json::JsonText;

/// One resource that goes through its handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deploy {
    /// The number of this request; its answer has the same.
    pub id: u64,
    /// All fields plus `requires` (list of ids) and `id` (with `,v=N`); of a key that comes twice the last one counts.
    pub resource: JsonText,
    /// State of each direct dependency (`deployed`, `failed`, `skipped`, `available`, `undefined`, ...).
    pub requires: BTreeMap<String, String>,
    /// Whether the handler only says what it would do.
    pub dry_run: bool,
    /// Why it runs, for the handler's log.
    pub reason: String,
    /// The id of the run in the history.
    pub action_id: String,
    /// Whether a dependency changed since the last success (for `can_reload` handlers).
    pub dependency_changed: bool,
    /// Whether it is sent before the answer to the one before was read, as only a host that was forked may get it: if something
    /// was printed during that one, the host waits for `go_on` before it begins.
    pub ahead: bool,
}

/// The question for the facts of a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The number of this request; its answer has the same.
    pub id: u64,
    /// As in [`Deploy`].
    pub resource: JsonText,
    /// The id of the question in the history.
    pub action_id: String,
    /// As in [`Deploy`].
    pub ahead: bool,
}

/// What came of a [`Deploy`] or [`Facts`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Deployed {
    /// The number of the request.
    pub id: u64,
    /// What the handler did.
    pub outcome: HandlerOutcome,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// When it was done, by the clock of its machine: microseconds since 1970, UTC.
    pub finished_us: i64,
    /// Whether anything may have been printed during the run: then the host waits for `go_on`, if it has a task already that was
    /// sent ahead.
    pub printed: bool,
}

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
