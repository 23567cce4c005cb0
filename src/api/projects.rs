//! Projects. Source: docs/reference/rest.md § 1.1.

use serde_json::{Value, json};

use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::routes::routes;
use crate::api::{Answer, wire};
use crate::app::App;
use crate::domain::ProjectId;
use crate::store::Project;

routes! {
    Get "/api/v2/project" Access "the projects" => Query list();
    Put "/api/v2/project" Access "makes a project" => Body create();
    Get "/api/v2/project/<id>" Access "a project" => Query get(id);
    Post "/api/v2/project/<id>" Access "renames a project" => Body modify(id);
    Delete "/api/v2/project/<id>" Access "deletes a project that has no environments any more" => Query delete(id);
}

pub(in crate::api) fn project_id(segment: &Segment) -> Result<ProjectId, ApiError> {
    segment
        .0
        .parse()
        .map_err(|_| ApiError::bad_request(format!("`{}` is no project id", segment.0)))
}

async fn shape(app: &App, project: &Project, details: bool) -> Result<Value, ApiError> {
    let environments = app.store.environment_list().await?;
    let own = environments
        .iter()
        .filter(|environment| environment.project_id == project.id);
    let mut shapes = Vec::new();
    for environment in own {
        let shape = crate::api::environments::shape(app, environment).await?;
        shapes.push(if details {
            shape
        } else {
            wire::without_details(shape)
        });
    }
    Ok(json!({"id": project.id, "name": project.name, "environments": shapes}))
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let details = args.flag("environment_details", false)?;
    let mut shapes = Vec::new();
    for project in app.store.project_list().await? {
        shapes.push(shape(&app, &project, details).await?);
    }
    Ok(Answer::Data(Value::Array(shapes)))
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let project = created(&app, &args).await?;
    Ok(Answer::Data(shape(&app, &project, false).await?))
}

/// The project that a request asks for, made.
pub(in crate::api) async fn created(app: &App, args: &Args) -> Result<Project, ApiError> {
    let name = args.required("name")?;
    if name.trim().is_empty() || name.len() > 255 {
        return Err(ApiError::bad_request(
            "a project's name has 1 to 255 characters",
        ));
    }
    let id = args
        .parsed("project_id")?
        .unwrap_or_else(ProjectId::generate);
    Ok(app.store.project_create(id, &name).await?)
}

pub(in crate::api) async fn fetch(app: &App, id: ProjectId) -> Result<Project, ApiError> {
    let project = app.store.project_fetch(id).await?;
    project.ok_or_else(|| ApiError::not_found(format!("project {id}")))
}

async fn get(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let id = project_id(&id)?;
    let project = fetch(&app, id).await?;
    Ok(Answer::Data(
        shape(&app, &project, args.flag("environment_details", false)?).await?,
    ))
}

async fn modify(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let (id, name) = (project_id(&id)?, args.required("name")?);
    app.store.project_rename(id, &name).await?;
    app.note_names().await?;
    Ok(Answer::Data(
        shape(&app, &Project { id, name }, false).await?,
    ))
}

pub(in crate::api) async fn delete(id: Segment, app: App, _args: Args) -> Result<Answer, ApiError> {
    let id = project_id(&id)?;
    let environments = app.store.environment_list().await?;
    let own = environments
        .iter()
        .filter(|environment| environment.project_id == id);
    let names: Vec<&str> = own.map(|environment| environment.name.as_str()).collect();
    if !names.is_empty() {
        return Err(ApiError::conflict(format!(
            "the project {id} still has environments, which have to be deleted first: {}",
            names.join(", ")
        )));
    }
    if app.store.project_delete(id).await? {
        Ok(Answer::Empty)
    } else {
        Err(ApiError::not_found(format!("project {id}")))
    }
}
