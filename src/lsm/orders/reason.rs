//! Why an item failed, in the words of the compiler or of a handler.

use std::collections::BTreeMap;

use serde_json::Value;
use steward_lsm::order::Failure;
use uuid::Uuid;

use crate::domain::{CompileId, EnvironmentId, VersionNumber};
use crate::lsm::{Exported, causes, failed_runs};
use crate::store::{self, OrderItem, Store, StoredEvent};

/// Runs of a resource among which the message of a failure is looked for.
const MAX_RUNS: i64 = 10;

/// What is known about a failure.
#[derive(Debug, Default)]
pub(super) struct Reason {
    /// The validation that failed.
    pub(super) validation: Option<Uuid>,
    pub(super) message: Option<String>,
}

/// Finds out why an item failed: looks through the compiles that the events of an item name, the newest first: a state that an instance fails into may have been
/// exported already, and nothing has failed in that version yet.
pub(super) async fn why(
    store: &Store,
    environment: EnvironmentId,
    (item, failure): (&OrderItem, Failure),
    events: &[StoredEvent],
) -> store::Result<Reason> {
    let compiles = events.iter().rev().filter_map(|stored| {
        let id = stored.event.id_compile_report.map(CompileId::from)?;
        Some((id, stored.event.is_error_transition))
    });
    for (id, is_error) in compiles {
        let Some(compile) = store.compile_fetch(id).await? else {
            continue;
        };
        match (failure, compile.version) {
            (Failure::ValidationCompileFailed, _) if is_error => {
                let diagnostics = compile.diagnostics.as_array();
                let mut errors = diagnostics.into_iter().flatten();
                let error = errors.find(|one| one["severity"] == "error");
                return Ok(Reason {
                    validation: Some(id.uuid()),
                    message: error.and_then(words_of).or(compile.reason),
                });
            }
            (Failure::ExecutionFailed, Some(version)) => {
                let message = failed_resource(store, environment, item, version).await?;
                if message.is_some() {
                    return Ok(Reason {
                        validation: None,
                        message,
                    });
                }
            }
            _ => {}
        }
    }
    Ok(Reason::default())
}

/// The message of an error, and what it wraps at the bottom: of a plugin that raised, that is why; and its place in the model.
fn words_of(error: &Value) -> Option<String> {
    let message = error["message"].as_str()?;
    let words = match causes(error).pop() {
        Some(cause) if !message.contains(&cause) => format!("{message}: {cause}"),
        _ => message.to_owned(),
    };
    Some(match (error["file"].as_str(), error["line"].as_u64()) {
        (Some(file), Some(line)) => format!("{words} ({file}:{line})"),
        _ => words,
    })
}

/// What the first of the resources of an instance said that failed in a version of the model, or in one that it was carried over into.
async fn failed_resource(
    store: &Store,
    environment: EnvironmentId,
    item: &OrderItem,
    version: VersionNumber,
) -> store::Result<Option<String>> {
    let exported = Exported {
        versions: BTreeMap::from([(version, 0)]),
        until: None,
    };
    let failed = failed_runs(store, environment, item.instance, &exported, MAX_RUNS).await?;
    let first = failed.first().and_then(|(resource, runs)| {
        let message = runs.first()?.messages.first()?;
        Some(format!("{resource}: {message}"))
    });
    Ok(first)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::words_of;

    #[test]
    fn an_error_says_what_it_wraps_and_where_it_is() {
        let bare = json!({"message": "it is wrong"});
        assert_eq!(words_of(&bare).unwrap(), "it is wrong");
        let error = json!({
            "message": "Exception in plugin a::b", "file": "main.cf", "line": 7,
            "causes": [{"kind": "PythonException", "message": "ValueError: no"}],
        });
        assert_eq!(
            words_of(&error).unwrap(),
            "Exception in plugin a::b: ValueError: no (main.cf:7)"
        );
    }
}
