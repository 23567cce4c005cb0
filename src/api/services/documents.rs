//! What people and programs read about a service: the diagram of its lifecycle, the schema of its attributes, and the description
//! of its API, for one service as JSON and for all of them as a page. Source: docs/reference/lsm.md § 5.2, § 5.13.

use std::fmt::Write;
use std::sync::Arc;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use steward_lsm::definition::{Fields, Modifier};
use steward_lsm::people::{self, Purpose};

use super::catalog::{find, number};
use crate::api::environments::{fetch, visible};
use crate::api::http::args::{Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::page::{escaped, page as page_of};
use crate::api::routes::routes;
use crate::api::{Answer, Document};
use crate::app::App;
use crate::domain::{EnvironmentId, VersionNumber, environment_name};
use crate::store::Definition;

routes! {
    Get "/lsm/v1/service_catalog/<entity>/schema" Environment "the attributes of a service as JSON Schema, for `purpose` read, create or update" => Query schema_of(entity);
    Get "/lsm/v2/service_catalog/<entity>/<version>/schema" Environment "the attributes of a version as JSON Schema" => Query version_schema(entity, version);
    Get "/lsm/v1/service_catalog/<entity>/diagram" Environment "the lifecycle of a service as a picture, `format` svg, mermaid or dot" => Query diagram_of(entity);
    Get "/lsm/v2/service_catalog/<entity>/<version>/diagram" Environment "the lifecycle of a version as a picture" => Query version_diagram(entity, version);
    Get "/lsm/v1/service_catalog/<entity>/openapi" Environment "the API of a service as OpenAPI 3.1" => Query openapi_of(entity);
    Get "/lsm/v2/service_catalog/<entity>/<version>/openapi" Environment "the API of a version as OpenAPI 3.1" => Query version_openapi(entity, version);
    Get "/lsm/v1/service_catalog_docs" AnyEnvironment "the API of all services of `environment` as a page, or, without one, links to those of each; the token may be its argument `token`" => Query page();
}

/// A service, and its version: the default one for `None`.
type Named<'n> = (&'n str, Option<u64>);

async fn definition(app: &App, args: &Args, named: Named<'_>) -> Result<Arc<Definition>, ApiError> {
    let (_, _, definition) = find(app, args, named).await?;
    Ok(definition)
}

async fn schema(app: &App, args: &Args, named: Named<'_>) -> Result<Answer, ApiError> {
    let purpose = match args.text("purpose")?.as_deref() {
        None | Some("any") => Purpose::Any,
        Some("read") => Purpose::Read,
        Some("create") => Purpose::Create,
        Some("update") => Purpose::Update,
        Some(other) => {
            let message = format!(
                "`{other}` is no purpose of a schema; there are any, read, create and update"
            );
            return Err(ApiError::bad_request(message));
        }
    };
    let definition = definition(app, args, named).await?;
    Ok(Answer::Data(people::schema(&definition.entity, purpose)))
}

async fn diagram(app: &App, args: &Args, named: Named<'_>) -> Result<Answer, ApiError> {
    let format = args.text("format")?;
    let definition = definition(app, args, named).await?;
    let lifecycle = &definition.entity.lifecycle;
    let current = args.text("state")?;
    let current = current.as_deref();
    if let Some(state) = current
        && !lifecycle.states.iter().any(|one| one.name == state)
    {
        let message = format!("the lifecycle of {} has no state `{state}`", named.0);
        return Err(ApiError::bad_request(message));
    }
    let (content_type, text) = match format.as_deref().unwrap_or("svg") {
        "svg" => ("image/svg+xml", people::svg(lifecycle, current)),
        "mermaid" => (
            "text/vnd.mermaid; charset=utf-8",
            people::mermaid(lifecycle, current),
        ),
        "dot" => (
            "text/vnd.graphviz; charset=utf-8",
            people::dot(lifecycle, current),
        ),
        other => {
            let message =
                format!("`{other}` is no format of a diagram; there are svg, mermaid and dot");
            return Err(ApiError::bad_request(message));
        }
    };
    Ok(Answer::Document(Document::new(args, content_type, text)))
}

/// As it is, without an envelope: tools read it from the URL.
async fn openapi(app: &App, args: &Args, named: Named<'_>) -> Result<Answer, ApiError> {
    let definition = definition(app, args, named).await?;
    let text = people::openapi(&definition.entity).to_string();
    Ok(Answer::Document(Document::new(
        args,
        "application/json",
        text,
    )))
}

async fn schema_of(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    schema(&app, &args, (&entity.0, None)).await
}

async fn version_schema(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    schema(&app, &args, (&entity.0, Some(number(version)))).await
}

async fn diagram_of(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    diagram(&app, &args, (&entity.0, None)).await
}

async fn version_diagram(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    diagram(&app, &args, (&entity.0, Some(number(version)))).await
}

async fn openapi_of(entity: Segment, app: App, args: Args) -> Result<Answer, ApiError> {
    openapi(&app, &args, (&entity.0, None)).await
}

async fn version_openapi(
    entity: Segment,
    version: VersionNumber,
    app: App,
    args: Args,
) -> Result<Answer, ApiError> {
    openapi(&app, &args, (&entity.0, Some(number(version)))).await
}

/// The page with the API of all services. It is opened in a browser, which sends no headers of ours, so the environment is an
/// argument; without one, the page has a link for each.
async fn page(app: App, args: Args) -> Result<Answer, ApiError> {
    let html = match args.text("environment")? {
        Some(id) => {
            let id: EnvironmentId = id.parse().map_err(|_| {
                ApiError::bad_request("Field 'environment' must be the id of an environment")
            })?;
            services_page(&app, &args, id).await?
        }
        None if args.names_environment() => services_page(&app, &args, args.environment()?).await?,
        None => environments_page(&app, &args).await?,
    };
    let document = Document::new(&args, "text/html; charset=utf-8", html);
    Ok(Answer::Document(document))
}

async fn services_page(app: &App, args: &Args, id: EnvironmentId) -> Result<String, ApiError> {
    let environment = args.principal.access(fetch(app, id).await?)?;
    let catalog = app.store.service_catalog(environment.id).await?;
    let title = format!("Services of {}", escaped(&environment.name));
    let mut body = format!(
        "<p>Every call has the header <code>X-Inmanta-tid: {}</code>.</p>\n",
        environment.id
    );
    let names = catalog.services().map(|(name, _)| name);
    let services = names.filter_map(|name| catalog.definition(name, None));
    let services: Vec<&Arc<Definition>> = services.collect();
    if services.is_empty() {
        body.push_str("<p>The catalog of this environment is empty.</p>\n");
    }
    if services.len() > 1 {
        body.push_str("<nav aria-label=\"services\"><ul>\n");
        for definition in &services {
            let name = escaped(&definition.entity.name);
            let _ = writeln!(body, "<li><a href=\"#{name}\">{name}</a></li>");
        }
        body.push_str("</ul></nav>\n");
    }
    for definition in services {
        add_service(&mut body, definition);
    }
    Ok(page_of(&title, &body))
}

async fn environments_page(app: &App, args: &Args) -> Result<String, ApiError> {
    let mut body = String::new();
    let token = args.text("token")?.map(|token| {
        let token = utf8_percent_encode(&token, NON_ALPHANUMERIC);
        format!("&amp;token={token}")
    });
    let token = token.unwrap_or_default();
    for environment in visible(app, args).await? {
        let (id, name) = (environment.id, environment_name(environment.id));
        let name = escaped(&name.unwrap_or(environment.name));
        let _ = writeln!(
            body,
            "<li><a href=\"?environment={id}{token}\">{name}</a> <code>{id}</code></li>"
        );
    }
    let body = match body.is_empty() {
        true => "<p>This server has no environment yet.</p>\n".to_owned(),
        false => format!("<p>Of which environment?</p>\n<ul>\n{body}</ul>\n"),
    };
    Ok(page_of("Services", &body))
}

/// A service: what it is, its attributes, its lifecycle and its calls.
// Writing to a text does not fail.
fn add_service(html: &mut String, definition: &Definition) {
    let entity = &definition.entity;
    let name = escaped(&entity.name);
    let _ = writeln!(html, "<h2 id=\"{name}\">{name}</h2>");
    if let Some(description) = &entity.description {
        let _ = writeln!(html, "<p>{}</p>", escaped(description.trim()));
    }
    html.push_str("<h3>Attributes</h3>\n<table><tr><th scope=\"col\">name</th><th scope=\"col\">type</th><th scope=\"col\">modifier</th><th scope=\"col\">meaning</th></tr>\n");
    add_fields(html, &entity.fields, "");
    html.push_str("</table>\n<h3>Calls</h3>\n");
    let openapi = people::openapi(entity);
    let paths = openapi["paths"].as_object().into_iter().flatten();
    for (path, operations) in paths {
        for (verb, operation) in operations.as_object().into_iter().flatten() {
            add_call(html, (verb, path), operation);
        }
    }
    let _ = writeln!(
        html,
        "<h3>Lifecycle</h3>\n<div class=\"picture\" tabindex=\"0\" role=\"group\" aria-label=\"picture of the lifecycle of {name}\">{}</div>\n\
         <details><summary>the lifecycle of {name} as text</summary><pre tabindex=\"0\">{}</pre></details>",
        people::svg(&entity.lifecycle, None),
        escaped(&people::mermaid(&entity.lifecycle, None))
    );
}

fn add_fields(html: &mut String, fields: &Fields, prefix: &str) {
    for one in &fields.attributes {
        let description = (one.modifier, one.description.as_deref());
        add_row(html, (prefix, &one.name), &one.value_type, description);
    }
    for one in &fields.inter_service_relations {
        let kind = format!("an instance of {}", one.entity_type);
        let description = (one.modifier, one.description.as_deref());
        add_row(html, (prefix, &one.name), &kind, description);
    }
    for one in &fields.embedded_entities {
        let is_one = one.upper_limit == Some(1);
        let description = (one.modifier, one.description.as_deref());
        let kind = if is_one { "object" } else { "list" };
        add_row(html, (prefix, &one.name), kind, description);
        add_fields(html, &one.fields, &format!("{prefix}{}.", one.name));
    }
}

fn add_row(
    html: &mut String,
    (prefix, name): (&str, &str),
    kind: &str,
    (modifier, text): (Modifier, Option<&str>),
) {
    let (prefix, name, kind) = (escaped(prefix), escaped(name), escaped(kind));
    let text = escaped(text.unwrap_or_default().trim());
    let modifier = modifier.as_str();
    let _ = writeln!(
        html,
        "<tr><td><code>{prefix}{name}</code></td><td>{kind}</td><td>{modifier}</td><td>{text}</td></tr>"
    );
}

fn add_call(html: &mut String, (verb, path): (&str, &str), operation: &Value) {
    let _ = writeln!(
        html,
        "<p><span class=\"verb\">{}</span> <code>{}</code></p>",
        verb.to_uppercase(),
        escaped(path)
    );
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let text = serde_json::to_string_pretty(body).unwrap_or_default();
        let _ = writeln!(
            html,
            "<details><summary>body of {} {}</summary><pre tabindex=\"0\">{}</pre></details>",
            verb.to_uppercase(),
            escaped(path),
            escaped(&text)
        );
    }
}
