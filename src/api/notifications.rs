//! Notifications. Source: docs/reference/rest.md § 1.10.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::Cut;
use crate::api::http::error::ApiError;
use crate::api::http::order::Sort;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::{EnvironmentId, Severity};
use crate::store::{Key, Notification, NotificationSearch, Span};

routes! {
    Get "/api/v2/notification" Environment "the notifications" => Query list();
    Get "/api/v2/notification/<id>" Environment "a notification" => Query get(id);
    Patch "/api/v2/notification/<id>" Environment "marks a notification as read or cleared" => Body update(id);
}

fn shape(environment: EnvironmentId, notification: &Notification) -> Value {
    json!({
        "id": notification.id,
        "environment": environment,
        "created": notification.created.to_string(),
        "title": notification.title,
        "message": notification.message,
        "severity": notification.severity,
        "uri": notification.uri,
        "read": notification.is_read,
        "cleared": notification.is_cleared,
        "compile_id": notification.compile_id,
    })
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    args.only_filters(&["title", "message", "read", "cleared", "severity"])?;
    let sort = Sort::of(&args, &["created"], Sort::descending("created"))?;
    let search = NotificationSearch {
        titles: args.filter("title")?,
        messages: args.filter("message")?,
        severities: args.filter_of("severity", &Severity::words())?,
        is_read: args.filter_flag("read")?,
        is_cleared: args.filter_flag("cleared")?,
    };
    let cut = Cut::of(&args, &Key::moment_and_id(), sort.is_descending)?;
    let (store, search) = (&app.store, &search);
    let rows = store
        .notification_page(environment, search, &cut.span())
        .await?;
    let count =
        |span: Span| async move { store.notification_count(environment, search, &span).await };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    let shape = |one: &Notification| shape(environment, one);
    Ok(cut.answer(&args, "/api/v2/notification", rows, &counts, shape))
}

/// The notification of that id, in this environment.
async fn fetch(
    app: &App,
    environment: EnvironmentId,
    id: &Segment,
) -> Result<Notification, ApiError> {
    let id: Uuid =
        id.0.parse()
            .map_err(|_| ApiError::bad_request(format!("`{}` is no notification id", id.0)))?;
    let found = app.store.notification_fetch(environment, id).await?;
    found.ok_or_else(|| ApiError::not_found(format!("notification {id}")))
}

async fn get(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let found = fetch(&app, environment, &id).await?;
    Ok(Answer::Data(shape(environment, &found)))
}

async fn update(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    if args.value("read").is_none() && args.value("cleared").is_none() {
        return Err(ApiError::bad_request(
            "one of `read` and `cleared` has to be given",
        ));
    }
    let mut found = fetch(&app, environment, &id).await?;
    found.is_read = args.flag("read", found.is_read)?;
    found.is_cleared = args.flag("cleared", found.is_cleared)?;
    let is_there = app
        .store
        .notification_mark(environment, found.id, found.is_read, found.is_cleared)
        .await?;
    if !is_there {
        return Err(ApiError::not_found(format!("notification {}", found.id)));
    }
    Ok(Answer::Data(shape(environment, &found)))
}
