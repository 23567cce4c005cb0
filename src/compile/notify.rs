//! Tells people that a compile has failed. Source: docs/reference/deployment.md § 6.6.

use crate::domain::{CompileState, Severity};
use crate::store::{self, Compile, Notification, Store};

/// Types of requests that nobody made: the same trouble, met again, is not told again.
const OWN_REQUESTS: [&str; 2] = ["poll", "start"];

/// Writes a notification for each of these requests whose compile has failed, if it was meant to export. `fetch`: why the
/// repository could not be brought here, if that was the reason.
pub(super) async fn notify_failed(
    store: &Store,
    requests: impl Iterator<Item = &Compile>,
    fetch: Option<&str>,
) -> store::Result<()> {
    for request in requests {
        let Some(compile) = store.compile_fetch(request.id).await? else {
            continue;
        };
        let has_failed = matches!(
            compile.state,
            CompileState::Rejected | CompileState::Aborted
        );
        if !has_failed || !compile.do_export {
            continue;
        }
        let (title, message) = match fetch {
            Some(why) => ("Pulling updates during compile failed", why),
            None => ("Compilation failed", "An exporting compile has failed"),
        };
        let kind = compile.metadata["type"].as_str().unwrap_or_default();
        if OWN_REQUESTS.contains(&kind) && is_notified(store, &compile, title, message).await? {
            continue;
        }
        let notification = about(&compile, Severity::Error, title, message);
        store
            .notification_create(compile.environment_id, &notification)
            .await?;
    }
    Ok(())
}

/// Writes a notification of what became of services whose definitions a push has changed.
pub(super) async fn notify_catalog(
    store: &Store,
    compile: &Compile,
    text: &str,
) -> store::Result<()> {
    let title = "The push changes services with instances";
    if is_notified(store, compile, title, text).await? {
        return Ok(());
    }
    let notification = about(compile, Severity::Warning, title, text);
    store
        .notification_create(compile.environment_id, &notification)
        .await
}

/// A notification that leads to the report of a compile.
fn about(compile: &Compile, severity: Severity, title: &str, message: &str) -> Notification {
    Notification {
        uri: Some(format!("/api/v2/compilereport/{}", compile.id)),
        compile_id: Some(compile.id),
        ..Notification::new(severity, title, message)
    }
}

/// Whether the newest notification says the same, and nobody has cleared it.
async fn is_notified(
    store: &Store,
    compile: &Compile,
    title: &str,
    message: &str,
) -> store::Result<bool> {
    let newest = store.notification_newest(compile.environment_id).await?;
    Ok(newest.is_some_and(|newest| {
        newest.title == title && newest.message == message && !newest.is_cleared
    }))
}
