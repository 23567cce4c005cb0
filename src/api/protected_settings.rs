//! Settings that a project's `project.yml` decides, as an exporter sends them. Source: docs/reference/rest.md § 1.3.

use serde_json::Value;

use crate::api::Answer;
use crate::api::environments::scope;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::http::principal::EnvironmentAccess;
use crate::api::routes::routes;
use crate::app::App;
use crate::compile::PROJECT_FILE;
use crate::domain::{SettingError, check_setting};

routes! {
    Post "/api/v2/protected_environment_settings" Environment "sets settings that only project.yml may change from then on" => Body protect();
}

async fn protect(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    // The wire has the name of the reference's enumeration.
    let by = args.text("protected_by")?.unwrap_or_default();
    if !["project_yml", PROJECT_FILE].contains(&by.as_str()) {
        return Err(ApiError::bad_request(
            "Field 'protected_by' has to be `project_yml`",
        ));
    }
    let settings = match args.value("settings") {
        Some(Value::Object(settings)) => settings,
        _ => {
            return Err(ApiError::bad_request(
                "Field 'settings' has to be an object",
            ));
        }
    };
    let mut checked = Vec::new();
    for (name, value) in settings {
        let value = check_setting(name, value).map_err(|error| match error {
            SettingError::Unknown(_) => ApiError::not_found(error.to_string()),
            SettingError::Value { .. } => ApiError::bad_request(error.to_string()),
        })?;
        checked.push((name.clone(), value));
    }
    let id = environment.id;
    app.store
        .settings_protect(id, PROJECT_FILE, &checked)
        .await?;
    app.wake(id);
    Ok(Answer::Empty)
}

/// 403 for a setting that `project.yml` decides.
pub(super) async fn refuse_protected(
    app: &App,
    environment: &EnvironmentAccess,
    name: &str,
) -> Result<(), ApiError> {
    let protected = app.store.settings_protected(environment.id).await?;
    match protected.get(name) {
        None => Ok(()),
        Some(by) => Err(ApiError::forbidden(format!(
            "setting {name} is decided by {by} of the project: change it there and export again"
        ))),
    }
}
