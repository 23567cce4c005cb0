//! `docs/api.md`: the routes of the server, printed from the table that it dispatches by.
//!
//! `STEWARD_UPDATE=1 cargo test --test it routes::` writes the page anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const HEAD: &str = "# Routes\n\n\
    What the server answers, from the table that it dispatches by (`src/api/routes.rs`). `needs` says what a request must \
    show: *access* is the token of the API if one is configured, else that the request comes from this machine; an \
    *environment* is named by the header `X-Inmanta-Tid`, or by `tid` in the query or the body. Arguments, answers and \
    errors are in [reference/rest.md](reference/rest.md).\n\n\
    <!-- Below: made by tests/it/routes.rs. -->\n";

#[test]
fn the_page_of_routes_is_what_the_server_dispatches_by() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/api.md");
    let expected = format!("{HEAD}{}", steward::api::reference());
    if std::env::var_os("STEWARD_UPDATE").is_some() {
        fs::write(&page, &expected).unwrap();
    }
    let is = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        is == expected,
        "docs/api.md is not what the table of routes says: STEWARD_UPDATE=1 writes it anew"
    );
}

/// Whether a text of the reference, such as `GET /api/v2/resource/<rid>/facts`, is about a route: placeholders may have
/// other names there, or stand for one of a few words.
fn is_about(text: &str, route: &str) -> bool {
    let (text, route) = (text.trim_end_matches('/'), route.trim_end_matches('/'));
    let is_same = |(there, here): (&str, &str)| there == here || here.starts_with('<');
    text.split('/').count() == route.split('/').count()
        && text.split('/').zip(route.split('/')).all(is_same)
}

/// All routes, such as `GET /api/v2/project`.
fn routes() -> Vec<String> {
    let table = steward::api::reference();
    let rows = table.lines().skip(2).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        format!("{} {}", cells[1], cells[2].trim_matches('`'))
    });
    rows.collect()
}

fn reference() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join("docs/reference/rest.md")).unwrap()
}

/// The calls of a list, and whether the reference says above it, below the same heading, that they are not built.
fn listed(reference: &str) -> Vec<(&str, bool)> {
    let mut is_missing = false;
    let mut calls = Vec::new();
    for line in reference.lines() {
        if line.starts_with('#') || line.starts_with("Not built yet") {
            is_missing = line.starts_with('N');
        } else if let Some(call) = line
            .strip_prefix("- `")
            .and_then(|rest| rest.split('`').next())
        {
            calls.push((call.split('?').next().unwrap_or(call), is_missing));
        }
    }
    calls
}

/// Given: the lists of calls in docs/reference/rest.md. Expected: no route is said not to be built yet.
#[test]
fn what_is_said_not_to_be_built_is_no_route() {
    let (text, routes) = (reference(), routes());
    let is_route = |call: &str| routes.iter().any(|route| is_about(call, route));
    let (built, missing): (Vec<_>, Vec<_>) = listed(&text).into_iter().partition(|call| !call.1);
    let n_built = built.iter().filter(|(call, _)| is_route(call)).count();
    assert!(
        n_built > 100,
        "only {n_built} routes are found in the lists"
    );
    let wrong: Vec<&str> = missing
        .iter()
        .map(|(call, _)| *call)
        .filter(|call| is_route(call))
        .collect();
    assert!(wrong.is_empty(), "these are built: {wrong:#?}");
}

#[test]
fn each_route_of_the_api_is_in_the_reference() {
    let text = reference();
    let known: BTreeSet<&str> = text.split('`').collect();
    let missing: Vec<String> = routes()
        .into_iter()
        .filter(|route| route.contains("/api/"))
        .filter(|route| !known.iter().any(|text| is_about(text, route)))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/reference/rest.md says nothing of {missing:#?}"
    );
}
