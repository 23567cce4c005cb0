//! Compiles: ask for one, and read reports. Source: docs/reference/rest.md § 1.4.

use serde_json::{Value, json};
use warp::http::StatusCode;
use warp::{Filter, Reply, filters::BoxedFilter};

use crate::api::environments::{environment_id, fetch, named, scope};
use crate::api::http::args::{Args, Segment};
use crate::api::http::cut::Cut;
use crate::api::http::error::ApiError;
use crate::api::http::order::{Ranges, Sort};
use crate::api::routes::routes;
use crate::api::{Answer, Body, wire, with};
use crate::app::App;
use crate::domain::{CompileId, CompileState};
use crate::executor::bounds::check_metadata;
use crate::store::{Compile, CompileRequest, CompileSearch, Key, Span};

routes! {
    Post "/api/v1/notify/<env>" NamedEnvironment "asks for a compile" => Body request(env);
    Get "/api/v1/notify/<env>" NamedEnvironment "asks for a compile" => Query request(env);
    Head "/api/v1/notify/<env>" NamedEnvironment "whether a compile runs: 200 or 204" => Own;
    Get "/api/v2/compilereport" Environment "the reports of compiles" => Query list_reports();
    Get "/api/v2/compilereport/<id>" Environment "the report of a compile" => Query details(id);
    Get "/api/v2/compiledata/<id>" Access "the errors of a compile" => Query data_of(id);
    Get "/api/v1/compilequeue" Environment "the compiles that wait" => Query queue_of();
}

/// `HEAD /api/v1/notify/<env>`, whose answer has no body.
pub(in crate::api) fn own(app: &App) -> BoxedFilter<(Body,)> {
    warp::path!("api" / "v1" / "notify" / Segment)
        .and(warp::head())
        .and(with(app))
        .then(is_compiling)
        .boxed()
}

/// `POST /api/v1/notify/<env>`: queues an exporting compile of the newest commit.
async fn request(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = named(&app, &args, &id).await?;
    let update = args.flag("update", true)?;
    let mut metadata = args.value("metadata").cloned().unwrap_or_else(|| json!({}));
    check_metadata(&metadata).map_err(ApiError::bad_request)?;
    let Some(object) = metadata.as_object_mut() else {
        return Err(ApiError::bad_request("Field 'metadata' must be an object"));
    };
    object.entry("type").or_insert_with(|| json!("api"));
    object
        .entry("message")
        .or_insert_with(|| json!("Compile triggered by the API"));
    if !app
        .store
        .settings_fetch(environment.id)
        .await?
        .server_compile()
    {
        let warning = format!(
            "Skipping compile because server compile not enabled for environment {}",
            environment.id
        );
        return Ok(Answer::Body(json!({"metadata": {"warnings": [warning]}})));
    }
    let request = CompileRequest {
        environment_id: environment.id,
        do_export: true,
        update,
        metadata,
        variables: environment.variables.clone(),
    };
    let id = app.store.compile_request(&request).await?;
    app.wake(environment.id);
    Ok(Answer::Body(json!({"compile_id": id})))
}

/// `HEAD /api/v1/notify/<env>`: 200 while a compile is queued or running, else 204.
async fn is_compiling(id: Segment, app: App) -> Body {
    let compiling =
        async {
            let environment = fetch(&app, environment_id(&id)?).await?;
            let compiles = app.store.compile_list(environment.id, 50).await?;
            Ok::<bool, ApiError>(compiles.iter().any(|compile| {
                matches!(compile.state, CompileState::Queued | CompileState::Running)
            }))
        };
    match compiling.await {
        Ok(true) => StatusCode::OK.into_response(),
        Ok(false) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => error.into_reply(),
    }
}

async fn list_reports(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    args.only_filters(&["success", "started", "completed", "requested"])?;
    let sort = Sort::of(&args, &["requested"], Sort::descending("requested"))?;
    let search = CompileSearch {
        is_success: args.filter_flag("success")?,
        is_started: args.filter_flag("started")?,
        is_completed: args.filter_flag("completed")?,
        requested: Ranges::of_moments(&args, "requested")?.bounds(),
    };
    let cut = Cut::of(&args, &Key::moment_and_id(), sort.is_descending)?;
    let (id, store, search) = (environment.id, &app.store, &search);
    let rows = store.compile_page(id, search, &cut.span()).await?;
    let count = |span: Span| async move { store.compile_count(id, search, &span).await };
    let counts = cut.counts(rows.len(), search.is_narrow(), count).await?;
    Ok(cut.answer(&args, "/api/v2/compilereport", rows, &counts, wire::compile))
}

pub(in crate::api) async fn find(segment: &Segment, app: &App) -> Result<Compile, ApiError> {
    let id: CompileId = segment
        .0
        .parse()
        .map_err(|_| ApiError::bad_request(format!("`{}` is no compile id", segment.0)))?;
    let compile = app.store.compile_fetch(id).await?;
    compile.ok_or_else(|| ApiError::not_found(format!("compile {id}")))
}

async fn details(id: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let compile = find(&id, &app).await?;
    if compile.environment_id != environment.id {
        return Err(ApiError::not_found(format!("compile {}", id.0)));
    }
    // What a request was merged into did its work.
    let stages = app
        .store
        .stage_list(compile.substitute.unwrap_or(compile.id))
        .await?;
    Ok(Answer::Data(wire::compile_details(&compile, &stages)))
}

async fn data_of(id: Segment, app: App, _args: Args) -> Result<Answer, ApiError> {
    let compile = find(&id, &app).await?;
    Ok(Answer::Data(
        wire::compile_details(&compile, &[])["compile_data"].clone(),
    ))
}

async fn queue_of(app: App, args: Args) -> Result<Answer, ApiError> {
    let environment = scope(&app, &args).await?;
    let compiles = app.store.compile_list(environment.id, 1000).await?;
    let open = compiles
        .iter()
        .filter(|compile| matches!(compile.state, CompileState::Queued | CompileState::Running));
    let queue: Vec<Value> = open.rev().map(wire::queued_compile).collect();
    Ok(Answer::Body(json!({"queue": queue})))
}
