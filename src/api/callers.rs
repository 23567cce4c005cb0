//! Which tokens of environments a route takes, by their client types. Source: docs/reference/rest.md § 0.9.
//!
//! Most calls are for people and integrations (`api`). Those of compilers and of handlers are named here, with the types that the
//! reference has for them; the calls of services are for all three.

use crate::api::http::error::ApiError;
use crate::api::http::token::ClientTypes;
use crate::api::routes::{Route, Verb};

const fn types(api: bool, agent: bool, compiler: bool) -> ClientTypes {
    ClientTypes {
        api,
        agent,
        compiler,
    }
}

const API: ClientTypes = types(true, false, false);
const AGENT: ClientTypes = types(false, true, false);
const COMPILER: ClientTypes = types(false, false, true);
const API_AGENT: ClientTypes = types(true, true, false);
const API_COMPILER: ClientTypes = types(true, false, true);
const ALL: ClientTypes = types(true, true, true);

/// Method, path and types of the routes that are not for `api` alone.
const OTHERS: &[(&str, &str, ClientTypes)] = &[
    ("POST", "/api/v1/environment_auth", API_COMPILER),
    ("POST", "/api/v2/environment_auth", API_COMPILER),
    ("GET", "/api/v1/environment_settings", ALL),
    ("GET", "/api/v2/environment_settings", ALL),
    ("GET", "/api/v1/environment_settings/<name>", API_AGENT),
    ("GET", "/api/v2/environment_settings/<id>", API_AGENT),
    ("POST", "/api/v1/environment_settings/<name>", ALL),
    ("POST", "/api/v2/environment_settings/<id>", ALL),
    ("DELETE", "/api/v1/environment_settings/<name>", API_AGENT),
    ("DELETE", "/api/v2/environment_settings/<id>", API_AGENT),
    ("POST", "/api/v2/protected_environment_settings", COMPILER),
    ("GET", "/api/v1/parameter/<name>", ALL),
    ("PUT", "/api/v1/parameter/<name>", ALL),
    ("DELETE", "/api/v1/parameter/<name>", ALL),
    ("POST", "/api/v1/parameter", API_COMPILER),
    ("PUT", "/api/v1/parameters", ALL),
    ("PUT", "/api/v2/parameters/<name>", ALL),
    ("PUT", "/api/v2/facts/<name>", ALL),
    ("GET", "/api/v2/resource/<rid>/facts", API_AGENT),
    ("GET", "/api/v2/resource/<rid>/facts/<id>", API_AGENT),
    ("GET", "/api/v1/resource/<rvid>", API_AGENT),
    ("GET", "/api/v2/resource/<rvid>/events", AGENT),
    (
        "GET",
        "/api/v2/resource/<rvid>/did_dependency_change",
        AGENT,
    ),
    ("GET", "/api/v2/discovered", API_AGENT),
    ("GET", "/api/v2/discovered/<rid>", API_AGENT),
    ("POST", "/api/v2/discovered", AGENT),
    ("POST", "/api/v2/discovered/<rid>", AGENT),
    ("DELETE", "/api/v2/discovered", API_AGENT),
    ("DELETE", "/api/v2/discovered/<rid>", API_AGENT),
    ("PUT", "/api/v1/dryrun/<id>", AGENT),
    ("GET", "/api/v2/agentrecovery", AGENT),
    ("GET", "/api/v2/feature/bool", AGENT),
    ("GET", "/api/v2/pip/config/<version>", API_AGENT),
    ("GET", "/api/v1/file/<id>", ALL),
    ("PUT", "/api/v1/file/<id>", ALL),
    ("HEAD", "/api/v1/file/<id>", ALL),
    ("POST", "/api/v1/file", ALL),
    ("POST", "/api/v2/reserve_version", COMPILER),
    ("PUT", "/api/v1/version", COMPILER),
    ("PUT", "/api/v2/version/partial", COMPILER),
    ("POST", "/api/v1/version/<version>", API_COMPILER),
];

/// The client types for which a route is.
pub(in crate::api) fn of(route: &Route) -> ClientTypes {
    if route.path.starts_with("/lsm/") {
        return ALL;
    }
    let mut others = OTHERS.iter();
    let found = others.find(|(verb, path, _)| *verb == route.verb.as_str() && *path == route.path);
    found.map_or(API, |(_, _, types)| *types)
}

/// Method and path of what handlers may ask besides what agents may, and what reads. Asking for a compile or a deployment is
/// how a handler reacts to what it has found; the report only reads. They neither make nor delete environments, versions and
/// tokens, nor do they pause agents.
const OF_HANDLERS: &[(&str, &str)] = &[
    ("POST", "/api/v1/notify/<env>"),
    ("POST", "/api/v1/deploy"),
    ("POST", "/api/v2/deploy_filtered"),
    ("POST", "/api/v2/compliance_report"),
];

/// The client types that a request of a handler on this machine has for a route: that of an agent, and that of any client for
/// what reads.
pub(in crate::api) fn of_handlers_here(route: &Route) -> ClientTypes {
    let is_named = || {
        let mut named = OF_HANDLERS.iter();
        named.any(|(verb, path)| *verb == route.verb.as_str() && *path == route.path)
    };
    match route.verb {
        Verb::Get | Verb::Head => API_AGENT,
        Verb::Put | Verb::Post | Verb::Patch | Verb::Delete if is_named() => API_AGENT,
        Verb::Put | Verb::Post | Verb::Patch | Verb::Delete => AGENT,
    }
}

/// The same of a handler on another machine: who controls the machine may control its handlers, and is to control neither the
/// server nor the services. So they read what agents may.
pub(in crate::api) fn of_handlers_elsewhere(route: &Route) -> ClientTypes {
    match route.verb {
        Verb::Get | Verb::Head if !route.path.starts_with("/lsm/") => AGENT,
        Verb::Get | Verb::Head | Verb::Put | Verb::Post | Verb::Patch | Verb::Delete => {
            ClientTypes::default()
        }
    }
}

/// What a handler is told that asks for something else.
pub(in crate::api) fn refusal(route: &Route) -> ApiError {
    ApiError::forbidden(format!(
        "this handler cannot call {} {}; what is about its own environment, and names it, it can read, and write settings, \
         parameters, facts, discovered resources, files and services, and call notify_change, deploy and deploy_filtered; on \
         another machine it can read settings, parameters, facts, discovered resources and the events of resources",
        route.verb.as_str(),
        route.path
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::TABLE;

    #[test]
    fn every_route_that_is_named_is_one() {
        let others = OTHERS.iter().map(|(verb, path, _)| (verb, path));
        for (verb, path) in others.chain(OF_HANDLERS.iter().map(|(verb, path)| (verb, path))) {
            let mut all = TABLE.iter().copied().flatten();
            let is_one = all.any(|route| route.verb.as_str() == *verb && route.path == *path);
            assert!(is_one, "{verb} {path}");
        }
    }
}
