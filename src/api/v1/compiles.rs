//! Reports of compiles. Source: docs/reference/rest.md § 1.4, § 2.2.

use serde_json::{Value, json};

use crate::api::environments::scope;
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::page;
use crate::api::routes::routes;
use crate::api::{Answer, compiles, wire};
use crate::app::App;
use crate::domain::Timestamp;
use crate::store::{Compile, Stage};

routes! {
    Get "/api/v1/compilereport" Environment "the reports of compiles, newest first" => Query list();
    Get "/api/v1/compilereport/<id>" Access "the report of a compile" => Query get(id);
}

/// Compiles that a list is made of: the newest ones.
const MAX_LISTED: i64 = 10_000;

/// `stages`: `None`: the report is without them.
fn shape(compile: &Compile, stages: Option<&[Stage]>) -> Value {
    let mut shape = wire::compile_details(compile, stages.unwrap_or_default());
    let Some(fields) = shape.as_object_mut() else {
        return shape;
    };
    if let Some(variables) = fields.remove("environment_variables") {
        fields.insert("used_environment_variables".to_owned(), variables);
    }
    fields.insert("handled".to_owned(), json!(compile.completed.is_some()));
    fields.insert("soft_delete".to_owned(), json!(false));
    fields.insert("reinstall_project_and_venv".to_owned(), json!(false));
    if stages.is_none() {
        fields.remove("reports");
    }
    for stage in fields
        .get_mut("reports")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        stage["compile"] = json!(compile.id);
    }
    shape
}

async fn list(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?.id;
    let bound = |name: &str| -> Result<Option<Timestamp>, ApiError> {
        let text = args.text(name)?;
        let refuse = || ApiError::bad_request(format!("Field '{name}' is no moment"));
        text.map(|text| Timestamp::parse(&text).ok_or_else(refuse))
            .transpose()
    };
    let (start, end) = (bound("start")?, bound("end")?);
    let limit = page::limit(&args)?.unwrap_or(usize::MAX);
    let mut found = app.store.compile_list(environment, MAX_LISTED).await?;
    found.retain(|compile| {
        let at = compile.started;
        start.is_none_or(|start| at.is_some_and(|at| at > start))
            && end.is_none_or(|end| at.is_some_and(|at| at < end))
    });
    found.truncate(limit);
    let reports: Vec<Value> = found.iter().map(|compile| shape(compile, None)).collect();
    Ok(Answer::Body(json!({"reports": reports})))
}

async fn get(id: Segment, app: App, _args: Args) -> Result<Answer, ApiError> {
    let compile = compiles::find(&id, &app).await?;
    let ran = compile.substitute.unwrap_or(compile.id);
    let stages = app.store.stage_list(ran).await?;
    Ok(Answer::Body(
        json!({"report": shape(&compile, Some(&stages))}),
    ))
}
