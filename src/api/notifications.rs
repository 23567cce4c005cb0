//! Notifications. Source: docs/reference/rest.md § 1.10.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::order::Sort;
use crate::api::http::page;
use crate::api::routes::routes;
use crate::api::versions::contains;
use crate::app::App;
use crate::domain::{EnvironmentId, Severity};
use crate::store::Notification;

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
    let (titles, messages) = (args.filter("title")?, args.filter("message")?);
    let severities = args.filter_of("severity", &Severity::words())?;
    let (read, cleared) = (args.filter_flag("read")?, args.filter_flag("cleared")?);
    let mut notifications = app.store.notification_list(environment).await?;
    notifications.retain(|one| {
        contains(&titles, &one.title)
            && contains(&messages, &one.message)
            && (severities.is_empty()
                || severities.iter().any(|word| word == one.severity.as_str()))
            && read.is_none_or(|wanted| wanted == one.is_read)
            && cleared.is_none_or(|wanted| wanted == one.is_cleared)
    });
    page::page(
        &args,
        "/api/v2/notification",
        notifications,
        |one| format!("{} {}", one.created, one.id),
        sort.is_descending,
        |one| shape(environment, one),
    )
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
