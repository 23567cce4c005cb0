//! Health and status.

use serde_json::json;
use warp::http::StatusCode;
use warp::{Filter, Reply, filters::BoxedFilter};

use super::{Answer, Body, reply, with};
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::page::page;
use crate::api::routes::routes;
use crate::app::App;

routes! {
    Get "/" Access "a page that says where the API is" => Own;
    Get "/api/v2/health" Nothing "whether the database takes what is written: 200 or 503" => Own;
    Get "/api/v2/feature/bool" AnyEnvironment "whether the server has a feature" => Query feature();
    Get "/api/v2/current_user" AnyEnvironment "nobody, since tokens are of no user: 404" => Query current_user();
    Get "/api/v1/serverstatus" Access "the state of the server, and of environments that do not run" => Query server_status();
}

/// What needs no token.
pub(super) fn open(app: &App) -> BoxedFilter<(Body,)> {
    warp::path!("api" / "v2" / "health")
        .and(warp::get())
        .and(with(app))
        // Not among the handlers, whose places may be taken; and with its client it ends.
        .then(async |app| reply(health(app).await))
        .boxed()
}

/// The page for people.
pub(super) fn own() -> BoxedFilter<(Body,)> {
    warp::path::end()
        .and(warp::get())
        .map(|| warp::reply::html(page("Steward", HOME)).into_response())
        .boxed()
}

const HOME: &str = "<p>This server has no console yet. There are pages for people:</p>\n<ul>\
    <li><a href=\"/lsm/v1/service_catalog_docs\">the services that can be ordered</a>, by environment</li>\
    <li><a href=\"/api/v2/docs\">the API</a>, which is below <code>/api</code> and <code>/lsm</code></li></ul>\n\
    <p>And JSON: <a href=\"/api/v1/serverstatus\">the state of the server</a>, \
    <a href=\"/api/v2/environment\">the environments</a>.</p>\n";

/// `GET /api/v2/health`: 200 when the database takes what is written and gives it back, else 503. Why is in the log: whoever
/// asks needs no token.
async fn health(app: App) -> Result<Answer, ApiError> {
    match app.store.check().await {
        Ok(()) => Ok(Answer::Data(json!(null))),
        Err(_) => Err(ApiError::with_status(
            StatusCode::SERVICE_UNAVAILABLE,
            "the database is not well; the log of the server says why",
        )),
    }
}

/// The environments of the configuration that cannot run, and why.
fn not_running(app: &App) -> Vec<serde_json::Value> {
    let shape = |trouble: crate::app::EnvironmentProblem| {
        json!({
            "environment": trouble.environment,
            "name": trouble.name,
            "field": trouble.field,
            "reason": trouble.message,
        })
    };
    app.troubles().into_iter().map(shape).collect()
}

/// Parts of the reference's server that an edition of it may lack, and that are here.
const FEATURES: [(&str, &str); 3] = [
    ("core.resource", "resource_discovery"),
    ("core.resource", "compliance_reporting"),
    ("lsm.order", "order_api"),
];

/// Parts that clients which know services look for, before they show any. Source: docs/reference/lsm.md Appendix A.
const SERVICE_SLICES: [&str; 5] = [
    "lsm.database",
    "lsm.service_catalog",
    "lsm.service_inventory",
    "lsm.callback",
    "lsm.order",
];

async fn feature(_app: App, args: Args) -> Result<Answer, ApiError> {
    let (slice, name) = (args.required("slice_name")?, args.required("feature_name")?);
    match FEATURES.contains(&(slice.as_str(), name.as_str())) {
        true => Ok(Answer::Data(json!(true))),
        false => Err(ApiError::not_found(format!("feature {name} of {slice}"))),
    }
}

async fn current_user(_app: App, _args: Args) -> Result<Answer, ApiError> {
    Err(ApiError::not_found("a user: the token is of nobody"))
}

/// `GET /api/v1/serverstatus`. Source: docs/reference/rest.md § 2.5.
async fn server_status(app: App, _args: Args) -> Result<Answer, ApiError> {
    let connected = app.store.check().await.is_ok();
    let state = if connected { "OK" } else { "Error" };
    let slice = |name: &str, status: serde_json::Value| json!({"name": name, "status": status, "reported_status": state, "message": null});
    let extension = |name: &str| json!({"name": name, "version": env!("CARGO_PKG_VERSION"), "package": "steward"});
    let mut slices = vec![
        slice("core.server", json!({})),
        slice("core.scheduler_manager", json!({})),
        slice(
            "core.environments",
            json!({"not_running": not_running(&app)}),
        ),
        slice(
            "core.database",
            json!({"connected": connected, "kind": app.store.kind()}),
        ),
    ];
    slices.extend(SERVICE_SLICES.map(|name| slice(name, json!({}))));
    let mut features: Vec<serde_json::Value> = FEATURES
        .map(|(slice, name)| json!({"slice": slice, "name": name, "value": true}))
        .to_vec();
    // Lifecycles of any name.
    features.push(
        json!({"slice": "lsm.service_catalog", "name": "supported_lifecycles", "value": ["*"]}),
    );
    Ok(Answer::Data(json!({
        "product": "Steward",
        "edition": "Open Source Edition",
        "version": env!("CARGO_PKG_VERSION"),
        "license": "Apache-2.0",
        "status": state,
        "started": super::wire::timestamp(app.started),
        "python_version": "",
        "postgresql_version": null,
        "extensions": [extension("core"), extension("lsm")],
        "slices": slices,
        "features": features,
    })))
}
