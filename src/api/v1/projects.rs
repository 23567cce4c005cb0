//! Projects, with the ids of their environments. Source: docs/reference/rest.md § 1.1.

use serde_json::{Value, json};

use crate::api::Answer;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::projects::{self, project_id};
use crate::api::routes::routes;
use crate::app::App;
use crate::domain::EnvironmentId;
use crate::store::Project;

routes! {
    Get "/api/v1/project" Access "the projects, with the ids of their environments" => Query list();
    Put "/api/v1/project" Access "makes a project" => Body create();
    Get "/api/v1/project/<id>" Access "a project, with the ids of its environments" => Query get(id);
    Post "/api/v1/project/<id>" Access "renames a project" => Body modify(id);
    Delete "/api/v1/project/<id>" Access "deletes a project that has no environments any more" => Query delete(id);
}

async fn shape(app: &App, project: &Project) -> Result<Value, ApiError> {
    let environments = app.store.environment_list().await?.into_iter();
    let own = environments.filter(|environment| environment.project_id == project.id);
    let ids: Vec<EnvironmentId> = own.map(|environment| environment.id).collect();
    Ok(json!({"id": project.id, "name": project.name, "environments": ids}))
}

async fn list(app: App, _args: Args) -> Result<Answer, ApiError> {
    let mut shapes = Vec::new();
    for project in app.store.project_list().await? {
        shapes.push(shape(&app, &project).await?);
    }
    Ok(Answer::Body(json!({"projects": shapes})))
}

async fn create(app: App, args: Args) -> Result<Answer, ApiError> {
    let project = projects::created(&app, &args).await?;
    Ok(Answer::Body(
        json!({"project": shape(&app, &project).await?}),
    ))
}

async fn get(id: Segment, app: App, _args: Args) -> Result<Answer, ApiError> {
    let project = projects::fetch(&app, project_id(&id)?).await?;
    Ok(Answer::Body(
        json!({"project": shape(&app, &project).await?}),
    ))
}

async fn modify(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let (id, name) = (project_id(&id)?, args.required("name")?);
    app.store.project_rename(id, &name).await?;
    app.note_names().await?;
    let project = Project { id, name };
    Ok(Answer::Body(
        json!({"project": shape(&app, &project).await?}),
    ))
}

async fn delete(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    projects::delete(id, app, args).await
}
