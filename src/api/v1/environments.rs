//! Environments, with `project` for the id of the project. Source: docs/reference/rest.md § 1.2.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::environments::{self, named};
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::v1::shapes;
use crate::app::App;
use crate::store::Environment;

routes! {
    Get "/api/v1/environment" AnyEnvironment "the environments; with a token of one, that one" => Query list();
    Put "/api/v1/environment" Access "makes an environment" => Body create();
    Get "/api/v1/environment/<id>" NamedEnvironment "an environment" => Query get(id);
    Post "/api/v1/environment/<id>" Access "changes an environment" => Body modify(id);
    Delete "/api/v1/environment/<id>" Access "deletes an environment" => Query delete(id);
    Delete "/api/v1/decommission/<id>" NamedEnvironment "clears an environment" => Query clear(id);
}

async fn shape(app: &App, environment: &Environment) -> Result<Value, ApiError> {
    let mut shape = environments::shape(app, environment).await?;
    if let Some(fields) = shape.as_object_mut()
        && let Some(project) = fields.remove("project_id")
    {
        fields.insert("project".to_owned(), project);
    }
    Ok(shape)
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let mut shapes = Vec::new();
    for environment in environments::visible(&app, &args).await? {
        shapes.push(shape(&app, &environment).await?);
    }
    Ok(Answer::Body(json!({"environments": shapes})))
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = environments::created(&app, &args).await?;
    Ok(Answer::Body(
        json!({"environment": shape(&app, &environment).await?}),
    ))
}

async fn modify(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = environments::modified(&app, &args, &id).await?;
    Ok(Answer::Body(
        json!({"environment": shape(&app, &environment).await?}),
    ))
}

/// `versions`: how many of the newest versions are wanted with it.
async fn get(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = named(&app, &args, &id).await?;
    let mut shape = shape(&app, &environment).await?;
    if let Some(n_versions) = args.parsed::<usize>("versions")?
        && n_versions > 0
    {
        shape["versions"] = shapes::newest_versions(&app, environment.id, 0, n_versions).await?;
    }
    Ok(Answer::Body(json!({"environment": shape})))
}

async fn delete(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    environments::delete(id, app, args).await
}

async fn clear(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    environments::clear(id, app, args).await
}
