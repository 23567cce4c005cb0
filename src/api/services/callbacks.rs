//! Where events are sent to. Source: docs/reference/lsm.md § 5.9.

use serde_json::{Value, json};
use steward_lsm::lifecycle::{EventType, Severity};
use uuid::Uuid;

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::EnvironmentId;
use crate::store::Callback;

routes! {
    Get "/lsm/v1/callbacks" Environment "where events of instances are sent to" => Query list_callbacks();
    Post "/lsm/v1/callbacks" Environment "has events of instances sent to an address" => Body create();
    Delete "/lsm/v1/callbacks/<id>" Environment "ends a callback" => Query delete(id);
}

/// Bytes of an address.
const MAX_URL_BYTES: usize = 4096;

fn shape(environment: EnvironmentId, callback: &Callback) -> Value {
    let severity = callback.minimal_severity;
    json!({
        "callback_id": callback.id,
        "url": callback.url,
        "environment": environment,
        "service_entity": callback.entity,
        "event_types": callback.event_types,
        "minimal_log_level": severity.map(Severity::level),
        "minimal_log_level_text": severity.map(Severity::as_str),
    })
}

async fn list_callbacks(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let callbacks = app.store.callback_list(environment).await?;
    let callbacks = callbacks.iter();
    let shapes = callbacks.map(|callback| shape(environment, callback));
    Ok(Answer::Data(shapes.collect()))
}

fn severity(args: &Args) -> Result<Option<Severity>, ApiError> {
    let Some(text) = args.text("minimal_log_level")? else {
        return Ok(None);
    };
    Severity::parse(&text).map(Some).ok_or_else(|| {
        let levels = Severity::ALL.map(Severity::as_str).join(", ");
        ApiError::bad_request(format!("`{text}` is no log level; there are {levels}"))
    })
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let entity = args.required("service_entity")?;
    let catalog = app.store.service_catalog(environment).await?;
    if catalog.versions(&entity).is_none() {
        return Err(ApiError::not_found(format!("service entity {entity}")));
    }
    let url = args.required("callback_url")?;
    let parsed: Option<warp::http::Uri> = url.parse().ok();
    let is_http = parsed.is_some_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https"))
            && url.host().is_some_and(|host| !host.is_empty())
    });
    if !is_http || url.len() > MAX_URL_BYTES {
        return Err(ApiError::bad_request(format!(
            "Field 'callback_url' must be an http or https URL of at most {MAX_URL_BYTES} bytes"
        )));
    }
    let event_types = args.list("event_types")?;
    let mut kinds = event_types.iter().flatten();
    if let Some(unknown) = kinds.find(|kind| EventType::parse(kind).is_none()) {
        let kinds = EventType::ALL.map(EventType::as_str).join(", ");
        let message = format!("`{unknown}` is no type of events; there are {kinds}");
        return Err(ApiError::bad_request(message));
    }
    let id: Option<Uuid> = args.parsed("callback_id")?;
    let callback = Callback {
        id: id.unwrap_or_else(Uuid::new_v4),
        url,
        entity,
        event_types,
        minimal_severity: severity(&args)?,
    };
    app.store.callback_create(environment, &callback).await?;
    Ok(Answer::Data(json!(callback.id)))
}

async fn delete(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let unknown = || ApiError::not_found(format!("callback {}", id.0));
    let callback = id.0.parse().map_err(|_| unknown())?;
    if app.store.callback_delete(environment, callback).await? {
        Ok(Answer::Empty)
    } else {
        Err(unknown())
    }
}
