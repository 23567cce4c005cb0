//! What the API can do, by the API itself: as OpenAPI for programs, and as a page for people. Source: docs/reference/rest.md
//! § 1.15.

use std::fmt::Write;

use crate::api::Answer;
use crate::api::contract::Endpoint;
use crate::api::contract::schema::openapi;
use crate::api::document::Document;
use crate::api::http::args::Args;
use crate::api::http::error::ApiError;
use crate::api::page::{escaped, page};
use crate::api::routes::{Route, TABLE, routes};
use crate::app::App;

routes! {
    Get "/api/v2/docs" Access "this reference: a page, or OpenAPI with `format=openapi`; the token may be its argument `token`"
        => Query docs();
}

async fn docs(_app: App, args: Args) -> Result<Answer, ApiError> {
    match args.text("format")?.as_deref() {
        Some("openapi") => Ok(Answer::Data(openapi(all()))),
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

fn html() -> String {
    let mut body = "<p>The same as <a href=\"?format=openapi\">OpenAPI</a>, for programs. Bodies and answers are JSON: what was \
        asked for is <code>data</code> of an answer, and what is wrong is its <code>message</code>.</p>\n<dl>\
        <dt>access</dt><dd>the header <code>Authorization: Bearer TOKEN</code> with the token of the server \
        (<code>api_token</code>) or of an environment; where the server has none, to be on its machine</dd>\
        <dt>environment</dt><dd>the header <code>X-Inmanta-tid: ID</code> with the id of the environment, as \
        <a href=\"/api/v2/environment\">/api/v2/environment</a> lists them</dd>\
        <dt>signature</dt><dd>the one by which a forge signs, with the secret of the webhook</dd>\
        <dt>arguments</dt><dd>those with a <code>?</code> may be left out; what each is, and the answers, are in the OpenAPI \
        document</dd></dl>\n<table class=\"calls\">\
        <tr><th scope=\"col\">method</th><th scope=\"col\">path</th><th scope=\"col\">needs</th><th scope=\"col\">what it does, and its arguments</th></tr>\n"
        .to_owned();
    for route in all() {
        let names: Vec<String> =
            Endpoint::of(route).map_or_else(Vec::new, |of| of.names().collect());
        let arguments = match names.as_slice() {
            [] => String::new(),
            names => format!("<br><small>{}</small>", escaped(&names.join(", "))),
        };
        let _ = writeln!(
            body,
            "<tr><td>{}</td><td><code>{}</code></td><td>{}</td><td>{}{arguments}</td></tr>",
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
    fn the_page_has_every_path() {
        let page = html();
        assert!(
            page.contains("<code>/api/v2/resource/&lt;rid&gt;</code>"),
            "{page}"
        );
        assert!(
            page.contains("makes a project<br><small>name, project_id?</small>"),
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
