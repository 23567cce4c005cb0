//! The table of routes: method, path, what a request needs, what it is for, and the handler.
//!
//! Each room of the API has its part of the table ([`Route`]); [`TABLE`] is all of them. The dispatch looks a request up in it, and
//! `docs/api.md` is printed from it ([`reference`]). A few handlers read their requests themselves, since theirs are no JSON or
//! their answers have no body: they are in the table for the reference, and filters of their own lead to them.

use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;

use warp::filters::BoxedFilter;
use warp::http::{HeaderMap, Method, StatusCode};
use warp::path::FullPath;
use warp::{Filter, Rejection};

use crate::api::contract::{self, Endpoint};
use crate::api::http::args::{self, Args, Segment};
use crate::api::http::error::ApiError;
use crate::api::http::principal::Principal;
use crate::api::{
    Answer, Body, agents, answer, callers, compiles, compliance, deployments, discovered_resources,
    environments, events, exports, facts, files, filtered, metrics, notifications, projects,
    protected_settings, resources, scheduler, self_description, services, status, tokens, v1,
    versions, webhooks,
};
use crate::app::App;
use crate::deploy::ApiRequest;
use crate::domain::VersionNumber;

/// All routes of the server, room by room.
pub(in crate::api) const TABLE: &[&[Route]] = &[
    status::ROUTES,
    projects::ROUTES,
    protected_settings::ROUTES,
    environments::ROUTES,
    compiles::ROUTES,
    versions::ROUTES,
    resources::ROUTES,
    deployments::ROUTES,
    compliance::ROUTES,
    events::ROUTES,
    exports::ROUTES,
    facts::ROUTES,
    discovered_resources::ROUTES,
    files::ROUTES,
    filtered::ROUTES,
    notifications::ROUTES,
    metrics::ROUTES,
    tokens::ROUTES,
    self_description::ROUTES,
    scheduler::ROUTES,
    v1::projects::ROUTES,
    v1::environments::ROUTES,
    v1::settings::ROUTES,
    v1::compiles::ROUTES,
    v1::versions::ROUTES,
    v1::resources::ROUTES,
    v1::dry_runs::ROUTES,
    v1::agents::ROUTES,
    webhooks::ROUTES,
    agents::ROUTES,
    services::catalog::ROUTES,
    services::documents::ROUTES,
    services::inventory::ROUTES,
    services::modify::ROUTES,
    services::history::ROUTES,
    services::diagnosis::ROUTES,
    services::experts::ROUTES,
    services::callbacks::ROUTES,
    services::orders::ROUTES,
];

/// Placeholders in paths that stand for a whole number; all others stand for a text.
const NUMBERS: [&str; 3] = ["<version>", "<from>", "<to>"];

/// A room's part of the table. Each line has the method, the path, what a request needs, what it does, where the arguments are,
/// and the handler with the placeholders of the path in their order:
/// `Get "/api/v2/facts" Environment "the facts of all resources" => Query all_facts();`
macro_rules! routes {
    ($($verb:ident $path:literal $needs:ident $what:literal => $kind:ident $($handler:ident($($part:ident),*))?;)*) => {
        /// See `crate::api::routes::TABLE`.
        pub(in crate::api) const ROUTES: &[$crate::api::routes::Route] = &[$(
            $crate::api::routes::Route {
                verb: $crate::api::routes::Verb::$verb,
                path: $path,
                needs: $crate::api::routes::Needs::$needs,
                what: $what,
                handler: $crate::api::routes::routes!(@handler $kind $($handler($($part),*))?),
            }
        ),*];
    };
    (@handler Own) => {
        $crate::api::routes::Handler::Own
    };
    (@handler $kind:ident $handler:ident($($part:ident),*)) => {
        $crate::api::routes::Handler::$kind(|call| {
            let ([$($part),*], app, args) = call.parts();
            Box::pin($handler($($part.into(),)* app, args))
        })
    };
}
pub(in crate::api) use routes;

/// One thing that the API does.
#[derive(Debug)]
pub(in crate::api) struct Route {
    pub(in crate::api) verb: Verb,
    /// `/api/v2/resource/<rid>/facts`: `<rid>` stands for one part of the path.
    pub(in crate::api) path: &'static str,
    pub(in crate::api) needs: Needs,
    /// For the reference: what it does.
    pub(in crate::api) what: &'static str,
    pub(in crate::api) handler: Handler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Verb {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
}

impl Verb {
    pub(in crate::api) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// What a request must show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::api) enum Needs {
    /// Anybody may ask.
    Nothing,
    /// The signature of a forge.
    Signature,
    /// The token that the agents of the environment have.
    AgentToken,
    /// The token of the API, if one is configured; else that the request comes from this machine.
    Access,
    /// The same, and the environment that the request is about.
    Environment,
    /// The same, and the environment is the first part of the path that varies.
    NamedEnvironment,
    /// As [`Needs::Access`], and a token of any environment will do.
    AnyEnvironment,
}

impl Needs {
    pub(in crate::api) fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Signature => "signature",
            Self::AgentToken => "the token of agents",
            Self::Access => "access",
            Self::Environment => "access, environment",
            Self::NamedEnvironment => "access, environment of the path",
            Self::AnyEnvironment => "access, of any environment",
        }
    }
}

/// Who answers, and where its arguments come from.
#[derive(Debug, Clone, Copy)]
pub(in crate::api) enum Handler {
    /// From the query string.
    Query(Work),
    /// From a JSON body and the query string.
    Body(Work),
    /// A filter of its own.
    Own,
}

/// A handler of the table.
pub(in crate::api) type Work = fn(Call) -> Working;

/// A handler at work.
pub(in crate::api) type Working =
    Pin<Box<dyn Future<Output = Result<Answer, ApiError>> + Send + 'static>>;

/// A request that has found its route.
pub(in crate::api) struct Call {
    app: App,
    args: Args,
    /// For the placeholders of the path, in order.
    segments: Vec<Segment>,
}

impl Call {
    /// With as many parts as the path of the route has placeholders.
    pub(in crate::api) fn parts<const N: usize>(self) -> ([Segment; N], App, Args) {
        let mut segments = self.segments.into_iter();
        let mut next = || segments.next().unwrap_or_default();
        (std::array::from_fn(|_| next()), self.app, self.args)
    }
}

impl Route {
    /// The parts of `path` that the placeholders stand for; `None`: it is no path of this route. A slash at its end does not
    /// matter, which some clients have.
    fn segments(&self, path: &str) -> Option<Vec<Segment>> {
        self.matched(path, |part| part.parse::<VersionNumber>().is_ok())
    }

    /// Whether it would be a path of this route, if each part that has to be a whole number were one.
    fn lacks_numbers(&self, path: &str) -> bool {
        self.matched(path, |_| true).is_some()
    }

    /// As [`Route::segments`], with what passes for a whole number.
    fn matched(&self, path: &str, is_number: impl Fn(&str) -> bool) -> Option<Vec<Segment>> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut found = Vec::new();
        let mut pattern = self.path.strip_prefix('/').unwrap_or(self.path).split('/');
        let mut parts = path.split('/');
        loop {
            match (pattern.next(), parts.next()) {
                (None, None) => return Some(found),
                (Some(pattern), Some(part)) if pattern.starts_with('<') => {
                    if part.is_empty() || (NUMBERS.contains(&pattern) && !is_number(part)) {
                        return None;
                    }
                    found.push(part.parse().ok()?);
                }
                (Some(pattern), Some(part)) if pattern == part => {}
                _ => return None,
            }
        }
    }
}

/// The row of the table that a request matches, or why none does.
enum RouteMatch {
    Here(&'static Route, Vec<Segment>),
    /// There is such a path, for other methods.
    OtherMethod,
    /// A part of the path has to be a whole number and is none.
    NoNumber,
    Nowhere,
}

impl RouteMatch {
    /// The route, or what is answered where there is none.
    fn here(self, path: &str) -> Result<(&'static Route, Vec<Segment>), ApiError> {
        match self {
            Self::Here(route, segments) => Ok((route, segments)),
            Self::NoNumber => Err(no_number()),
            Self::OtherMethod | Self::Nowhere => Err(ApiError::not_found(path)),
        }
    }
}

fn no_number() -> ApiError {
    ApiError::bad_request("a version in the path has to be a whole number")
}

fn find(method: &Method, path: &str) -> RouteMatch {
    let mut found = RouteMatch::Nowhere;
    for route in TABLE.iter().copied().flatten() {
        let Some(segments) = route.segments(path) else {
            continue;
        };
        if route.verb.as_str() == method.as_str() {
            return RouteMatch::Here(route, segments);
        }
        found = RouteMatch::OtherMethod;
    }
    let mut all = TABLE.iter().copied().flatten();
    let is_asked = |route: &Route| route.verb.as_str() == method.as_str();
    match found {
        RouteMatch::Nowhere if all.any(|route| is_asked(route) && route.lacks_numbers(path)) => {
            RouteMatch::NoNumber
        }
        found => found,
    }
}

/// Whether somebody may ask for this. What a request with `Needs::Environment` is about is in its arguments: there its handler
/// looks ([`Principal::access`]).
///
/// # Errors
/// A token of an environment, for what is not about that, or not for its client types.
pub(in crate::api) fn permit(
    principal: Principal,
    method: &Method,
    path: &str,
) -> Result<Principal, ApiError> {
    let Principal::Environment { id, types, .. } = principal else {
        return Ok(principal);
    };
    let (route, segments) = find(method, path).here(path)?;
    let named = || segments.first().and_then(|named| named.0.parse().ok());
    match route.needs {
        Needs::Environment | Needs::AnyEnvironment => {}
        Needs::NamedEnvironment if named() == Some(id) => {}
        Needs::NamedEnvironment => return Err(Principal::other_environment()),
        Needs::Nothing | Needs::Signature | Needs::AgentToken | Needs::Access => {
            return Err(ApiError::forbidden(
                "the token is of one environment, and may not do what is about the whole server",
            ));
        }
    }
    match types.meets(callers::of(route)) {
        true => Ok(principal),
        false => Err(ApiError::forbidden(
            "the token does not have a client type for this call",
        )),
    }
}

/// What answers a request of a handler.
///
/// # Errors
/// There is no such route, or the handler may not use it.
pub(in crate::api) fn of_handler(
    request: &ApiRequest,
    path: &str,
    mut args: Args,
    app: App,
) -> Result<Working, ApiError> {
    let nowhere = || ApiError::not_found(path);
    let method = Method::from_bytes(request.verb.as_bytes()).map_err(|_| nowhere())?;
    let (route, segments) = find(&method, path).here(path)?;
    let principal = Principal::Environment {
        id: request.environment,
        types: match request.is_from_here {
            true => callers::of_handlers_here(route),
            false => callers::of_handlers_elsewhere(route),
        },
        expires: None,
        jti: None,
    };
    args.principal = permit(principal, &method, path).map_err(|_| callers::refusal(route))?;
    match route.handler {
        Handler::Query(handler) | Handler::Body(handler) => {
            args.endpoint = Endpoint::held_against(route);
            let call = Call {
                app,
                args,
                segments,
            };
            Ok(Box::pin(contract::checked(route, handler(call))))
        }
        Handler::Own => Err(callers::refusal(route)),
    }
}

/// A handler of the table, with its route and the parts of the path that it gets.
type Picked = (&'static Route, Work, Vec<Segment>);

/// Lets requests pass that a handler of the table answers, of those that `pick` takes.
fn picked(
    pick: fn(Handler) -> Option<Work>,
) -> impl Filter<Extract = (Picked,), Error = Rejection> + Clone {
    warp::method()
        .and(warp::path::full())
        .and_then(move |method: Method, path: FullPath| {
            let picked = match find(&method, path.as_str()) {
                RouteMatch::Here(route, segments) => {
                    let handler = pick(route.handler).ok_or_else(warp::reject::not_found);
                    handler.map(|handler| (route, handler, segments))
                }
                RouteMatch::OtherMethod => Err(args::reject(ApiError::with_status(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "this path does not take this method",
                ))),
                RouteMatch::NoNumber => Err(args::reject(no_number())),
                RouteMatch::Nowhere => Err(warp::reject::not_found()),
            };
            std::future::ready(picked)
        })
}

/// A request that has found its handler, with its arguments; or why these cannot be read.
pub(in crate::api) struct Prepared {
    picked: Picked,
    args: Result<Args, ApiError>,
}

impl Prepared {
    /// Lets the handler answer.
    pub(in crate::api) async fn run(self, principal: Principal, app: App) -> Body {
        let (route, handler, segments) = self.picked;
        match self.args {
            Ok(mut args) => {
                args.principal = principal;
                args.endpoint = Endpoint::held_against(route);
                let call = Call {
                    app,
                    args,
                    segments,
                };
                answer(contract::checked(route, handler(call))).await
            }
            Err(error) => error.into_reply(),
        }
    }
}

/// Requests that a handler of the table answers.
pub(in crate::api) fn prepared() -> BoxedFilter<(Prepared,)> {
    let by_query = picked(|handler| match handler {
        Handler::Query(handler) => Some(handler),
        Handler::Body(_) | Handler::Own => None,
    });
    let by_query = by_query
        .and(args::raw_query())
        .and(warp::header::headers_cloned())
        .map(
            |picked: Picked, query: String, headers: HeaderMap| Prepared {
                picked,
                args: Args::of_query(&query, headers),
            },
        );
    let by_body = picked(|handler| match handler {
        Handler::Body(handler) => Some(handler),
        Handler::Query(_) | Handler::Own => None,
    });
    let by_body = by_body
        .and(args::raw_query())
        .and(warp::header::headers_cloned())
        .and(warp::body::stream())
        .then(
            |picked: Picked, query: String, headers: HeaderMap, body| async move {
                let size = exports::size(picked.0);
                Prepared {
                    picked,
                    args: args::parse(&query, headers, body, size).await,
                }
            },
        );
    by_query.or(by_body).unify().boxed()
}

/// The table for people, as Markdown.
pub fn reference() -> String {
    let mut text = String::from("| method | path | needs | what it does |\n|---|---|---|---|\n");
    for route in TABLE.iter().copied().flatten() {
        let (verb, needs) = (route.verb.as_str(), route.needs.as_str());
        let _ = writeln!(
            text,
            "| {verb} | `{}` | {needs} | {} |",
            route.path, route.what
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: Method, path: &str) -> String {
        match find(&method, path) {
            RouteMatch::Here(route, segments) => {
                let segments: Vec<String> = segments.into_iter().map(|one| one.0).collect();
                format!("{} {}", route.path, segments.join(" "))
            }
            RouteMatch::OtherMethod => "other method".to_owned(),
            RouteMatch::NoNumber => "no number".to_owned(),
            RouteMatch::Nowhere => "nowhere".to_owned(),
        }
    }

    #[test]
    fn a_request_finds_its_route_by_method_and_path() {
        for (method, path, expected) in [
            (Method::GET, "/api/v2/resource", "/api/v2/resource "),
            (Method::GET, "/api/v2/resource/", "/api/v2/resource "),
            (Method::GET, "/api/v2/resource//", "nowhere"),
            (
                Method::GET,
                "/api/v2/resource/a%3A%3AB%5Bc%2Cd%3De%5D/facts",
                "/api/v2/resource/<rid>/facts a::B[c,d=e]",
            ),
            (
                Method::GET,
                "/api/v2/desiredstate/diff/1/2",
                "/api/v2/desiredstate/diff/<from>/<to> 1 2",
            ),
            (Method::GET, "/api/v2/desiredstate/one", "no number"),
            (Method::GET, "/api/v2/desiredstate/diff/1/b", "no number"),
            (Method::GET, "/api/v2/desiredstate//", "nowhere"),
            (Method::PUT, "/api/v2/desiredstate/one", "nowhere"),
            (Method::GET, "/api/v2/resource/%ff", "nowhere"),
            (Method::DELETE, "/api/v2/resource", "other method"),
            (Method::GET, "/api/v2/<id>", "nowhere"),
            (Method::GET, "/", "/ "),
            (Method::GET, "/api/v9/resource", "nowhere"),
        ] {
            assert_eq!(found(method, path), expected, "{path}");
        }
    }

    #[test]
    fn no_two_routes_are_the_same() {
        let routes = TABLE.iter().copied().flatten();
        let mut all: Vec<_> = routes
            .map(|route| (route.path, route.verb.as_str()))
            .collect();
        all.sort_unstable();
        let n_routes = all.len();
        all.dedup();
        assert_eq!(all.len(), n_routes);
    }
}
