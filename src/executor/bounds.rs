//! How much of what a handler says is kept: a line, a run, a resource and day.
//!
//! Handlers are code of others. What they log, compare, tell and find goes through memory and into the database, so each
//! part has a limit, and a mark where it was cut. The Python host cuts before it sends (`inmanta/agent/_bounds.py` has the
//! same numbers), the executor process cuts what a host sent, and the server cuts what an executor sent. Cutting what was
//! cut changes nothing.

mod daily;
mod lines;
mod values;
mod weight;

use serde::{Serialize, Serializer as _};
use serde_json::{Map, Value};

use crate::domain::LogLevel;
use crate::executor::protocol::{LogLine, TaskOutcome};

pub(crate) use daily::Daily;
pub use values::{
    MAX_DEPTH, MAX_DISCOVERED, MAX_FACTS, check_fact, check_found, check_metadata, is_deep,
    json_bytes,
};
pub(crate) use weight::weight_kib;

/// A reason as it may go into the log of the server: what others sent may be as long as they like.
pub(crate) fn reason(mut text: String) -> String {
    values::cut(&mut text, REASON_BYTES);
    text
}

/// Bytes of a reason that others have a say in.
const REASON_BYTES: usize = 1 << 10;

/// Bytes of one log line, its text and its arguments. A traceback of some hundred frames fits.
pub const LINE_BYTES: usize = 16 << 10;
/// Log lines of one run.
pub const RUN_LINES: usize = 1000;
/// Bytes of the log lines of one run together, and of its differences together.
pub const RUN_BYTES: usize = 1 << 20;
/// Bytes of the current or the desired value of an attribute, where they differ.
const VALUE_BYTES: usize = 64 << 10;

/// No frame of an executor or of a handler's host may be larger: a run that uses all its limits fits.
pub const MAX_REPLY_BYTES: u32 = 16 << 20;

/// What a run may leave behind.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    lines: usize,
    line_bytes: usize,
    /// Bytes of all lines together, and of all differences together.
    bytes: usize,
    value_bytes: usize,
    /// The limit in words, for the mark.
    limit: &'static str,
}

/// What any run may leave behind.
pub const RUN: Share = Share {
    lines: RUN_LINES,
    line_bytes: LINE_BYTES,
    bytes: RUN_BYTES,
    value_bytes: VALUE_BYTES,
    limit: "1000 lines and 1 MiB a run",
};

/// Cuts what is too much. Errors are kept before warnings, and these before the rest.
pub fn bound(outcome: &mut TaskOutcome, share: &Share) {
    let mut notes = values::bound_changes(&mut outcome.changes, share);
    notes.extend(values::bound_facts(&mut outcome.facts));
    notes.extend(values::bound_discovered(&mut outcome.discovered));
    // Before the last lines, which say what came of the run.
    let place = outcome.logs.len().saturating_sub(1);
    outcome.logs.splice(place..place, notes);
    lines::bound(&mut outcome.logs, share);
}

/// The log lines of a run as they are stored: a JSON list. Each run writes one, so it is written without a tree of values.
pub(crate) fn messages_json(logs: &[LogLine]) -> String {
    #[derive(Serialize)]
    struct Message<'a> {
        level: LogLevel,
        msg: &'a str,
        args: [(); 0],
        kwargs: &'a Map<String, Value>,
        timestamp_us: i64,
    }
    let messages = logs.iter().map(|line| Message {
        level: line.level,
        msg: &line.msg,
        args: [],
        kwargs: &line.kwargs,
        timestamp_us: line.timestamp_us,
    });
    let mut text = Vec::with_capacity(128 * logs.len());
    let mut serializer = serde_json::Serializer::new(&mut text);
    match serializer.collect_seq(messages) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        // Nothing in a line can fail.
        Err(_) => "[]".to_owned(),
    }
}

#[cfg(test)]
mod tests;
