//! Settings with their definitions beside them. Source: docs/reference/rest.md § 1.3.

use serde_json::json;

use crate::api::Answer;
use crate::api::environments::{self, definitions, scope};
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::app::App;

routes! {
    Get "/api/v1/environment_settings" Environment "the settings and their definitions" => Query list();
    Get "/api/v1/environment_settings/<name>" Environment "a setting" => Query get(name);
    Post "/api/v1/environment_settings/<name>" Environment "sets a setting" => Body set(name);
    Delete "/api/v1/environment_settings/<name>" Environment "back to the default" => Query delete(name);
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let protected = app.store.settings_protected(environment.id).await?;
    Ok(Answer::Body(
        json!({"settings": settings.effective(), "metadata": definitions(&protected)}),
    ))
}

async fn get(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let settings = app.store.settings_fetch(environment.id).await?;
    let value = settings.value(&name.0);
    let value = value.ok_or_else(|| ApiError::not_found(format!("setting {}", name.0)))?;
    let protected = app.store.settings_protected(environment.id).await?;
    Ok(Answer::Body(
        json!({"value": value, "metadata": definitions(&protected)}),
    ))
}

async fn set(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    environments::setting_set(name, app, args).await?;
    Ok(Answer::Body(json!({})))
}

async fn delete(name: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    environments::setting_delete(name, app, args).await?;
    Ok(Answer::Body(json!({})))
}
