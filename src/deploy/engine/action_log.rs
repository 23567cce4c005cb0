//! What handlers said, as lines of a log file. Source: docs/reference/deployment.md § 5.8.

use std::fmt::Write;

use serde_json::Value;

use crate::domain::{EnvironmentId, Timestamp};
use crate::observe::ActionLogs;
use crate::store::ActionEnd;

/// Writes the lines of runs that have ended. A log that cannot be written holds up nothing; `false`: it was not written.
pub(super) async fn write(logs: ActionLogs, environment: EnvironmentId, lines: String) -> bool {
    let written = tokio::task::spawn_blocking(move || logs.append(environment, &lines)).await;
    match written {
        Ok(Ok(())) => true,
        Ok(Err(error)) => {
            tracing::error!(environment.id = %environment, %error, "cannot write the log file of resource actions; these lines are in the database only");
            false
        }
        // It was cut off by the end of the server.
        Err(_) => false,
    }
}

/// The lines of some runs: moment, level, resource and message.
pub(super) fn lines(ends: &[ActionEnd]) -> String {
    let mut text = String::new();
    for end in ends {
        let messages: Value = serde_json::from_str(&end.messages).unwrap_or_default();
        for message in messages.as_array().into_iter().flatten() {
            let moment = Timestamp(message["timestamp_us"].as_i64().unwrap_or_default());
            let level = message["level"].as_str().unwrap_or_default();
            let said = message["msg"].as_str().unwrap_or_default();
            // Writing into a text does not fail.
            let _ = write!(
                text,
                "{moment} {level:<8} {}: ",
                plain(end.resource_id.as_str())
            );
            text.push_str(&plain(said));
            text.push('\n');
            if let Some(traceback) = message["kwargs"]["traceback"].as_str() {
                text.extend(
                    traceback
                        .lines()
                        .map(|line| format!("    {}\n", plain(line))),
                );
            }
        }
    }
    text
}

/// On one line, and without what a terminal would take for an order: handlers do not write lines of others.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\t' => shown.push('\t'),
            other if other.is_control() => shown.extend(other.escape_default()),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{ActionId, Change, ResourceId, ResourceStatus};
    use serde_json::json;

    #[test]
    fn each_message_is_a_line_that_no_handler_can_forge() {
        let messages = json!([
            {"level": "INFO", "msg": "read it", "kwargs": {}, "timestamp_us": 0},
            {"level": "ERROR", "msg": "it\nbroke \u{1b}[31m", "timestamp_us": 1_000_000,
             "kwargs": {"traceback": "Traceback:\n  here\n"}},
        ]);
        let end = ActionEnd {
            id: ActionId::generate(),
            finished: Timestamp(0),
            status: ResourceStatus::Failed,
            change: Change::NoChange,
            changes: "{}".into(),
            messages: messages.to_string(),
            state: None,
            facts: vec![],
            discovered: vec![],
            resource_id: ResourceId::new("t::R[a,name=x]"),
        };
        let expected = "1970-01-01T00:00:00.000000+00:00 INFO     t::R[a,name=x]: read it\n\
                        1970-01-01T00:00:01.000000+00:00 ERROR    t::R[a,name=x]: it\\nbroke \\u{1b}[31m\n    \
                        Traceback:\n      here\n";
        assert_eq!(lines(&[end]), expected);
    }
}
