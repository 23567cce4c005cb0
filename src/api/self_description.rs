//! What the API can do, by the API itself: as OpenAPI for programs, and as a page for people. Source: docs/reference/rest.md
//! § 1.15.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::api::Answer;
use crate::api::document::Document;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::page::{escaped, page};
use crate::api::routes::{Needs, Route, TABLE, routes};
use crate::app::App;

routes! {
    Get "/api/v2/docs" Access "this reference: a page, or OpenAPI with `format=openapi`; the token may be its argument `token`"
        => Query docs();
}

async fn docs(_app: App, args: Args) -> Result<Answer, ApiError> {
    match args.text("format")?.as_deref() {
        Some("openapi") => Ok(Answer::Data(openapi())),
        None | Some("swagger") => {
            let document = Document::new(&args, "text/html; charset=utf-8", html());
            Ok(Answer::Document(document))
        }
        Some(other) => Err(ApiError::bad_request(format!(
            "Field 'format' has to be `openapi` or `swagger`, not `{other}`"
        ))),
    }
}

fn all() -> impl Iterator<Item = &'static Route> {
    TABLE.iter().copied().flatten()
}

/// The names between `<` and `>`.
fn placeholders(path: &str) -> impl Iterator<Item = &str> {
    path.split('/')
        .filter_map(|part| part.strip_prefix('<')?.strip_suffix('>'))
}

fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in all() {
        let path = route.path.replace('<', "{").replace('>', "}");
        let verb = route.verb.as_str().to_lowercase();
        paths.entry(path).or_insert_with(|| json!({}))[&verb] = operation(route, &verb);
    }
    json!({
        "openapi": "3.0.2",
        "info": {"title": "Steward", "version": env!("CARGO_PKG_VERSION")},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    })
}

fn operation(route: &Route, verb: &str) -> Value {
    let parameter = |place: &str, name: &str| json!({"name": name, "in": place, "required": true, "schema": {"type": "string"}});
    let mut parameters: Vec<Value> = placeholders(route.path)
        .map(|name| parameter("path", name))
        .collect();
    if route.needs == Needs::Environment {
        parameters.push(parameter("header", "X-Inmanta-tid"));
    }
    let mut operation = json!({
        "operationId": format!("{verb} {}", route.path),
        "summary": route.what,
        "parameters": parameters,
        "responses": {"200": {"description": "what was asked for"}, "default": {"description": "`message` says what is wrong"}},
    });
    if !matches!(route.needs, Needs::Nothing | Needs::Signature) {
        operation["security"] = json!([{"token": []}]);
    }
    operation
}

fn html() -> String {
    let mut body = "<p>The same as <a href=\"?format=openapi\">OpenAPI</a>, for programs. Bodies and answers are JSON: what was \
        asked for is <code>data</code> of an answer, and what is wrong is its <code>message</code>.</p>\n<dl>\
        <dt>access</dt><dd>the header <code>Authorization: Bearer TOKEN</code> with the token of the server \
        (<code>api_token</code>) or of an environment; where the server has none, to be on its machine</dd>\
        <dt>environment</dt><dd>the header <code>X-Inmanta-tid: ID</code> with the id of the environment, as \
        <a href=\"/api/v2/environment\">/api/v2/environment</a> lists them</dd>\
        <dt>signature</dt><dd>the one by which a forge signs, with the secret of the webhook</dd></dl>\n<table class=\"calls\">\
        <tr><th>method</th><th>path</th><th>needs</th><th>what it does</th></tr>\n"
        .to_owned();
    for route in all() {
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            route.verb.as_str(),
            escaped(route.path),
            route.needs.as_str(),
            escaped(route.what)
        );
    }
    body.push_str("</table>\n");
    page("The API of Steward", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_an_operation_with_its_parameters() {
        let openapi = openapi();
        let paths = openapi["paths"].as_object().unwrap();
        let n_operations: usize = paths
            .values()
            .map(|path| path.as_object().unwrap().len())
            .sum();
        assert_eq!(n_operations, all().count());
        let fact = &paths["/api/v2/resource/{rid}/facts/{id}"]["get"];
        let names: Vec<&str> = fact["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["rid", "id", "X-Inmanta-tid"]);
        assert_eq!(paths["/api/v2/health"]["get"]["security"], Value::Null);
    }

    #[test]
    fn the_page_has_every_path() {
        let page = html();
        assert!(
            page.contains("<code>/api/v2/resource/&lt;rid&gt;</code>"),
            "{page}"
        );
    }

    #[test]
    fn the_page_explains_what_calls_need() {
        let page = html();
        for needs in ["access", "environment", "signature"] {
            assert!(page.contains(&format!("<dt>{needs}</dt>")), "{needs}");
        }
        assert!(page.contains("X-Inmanta-tid"), "{page}");
    }
}
