//! Which tokens of environments a route takes, by their client types. Source: docs/reference/rest.md § 0.9.
//!
//! Most calls are for people and integrations (`api`). Those of compilers and of handlers are named here, with the types that the
//! reference has for them; the calls of services are for all three.

use crate::api::http::token::ClientTypes;
use crate::api::routes::Route;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::TABLE;

    #[test]
    fn every_route_that_is_named_is_one() {
        for (verb, path, _) in OTHERS {
            let mut all = TABLE.iter().copied().flatten();
            let is_one = all.any(|route| route.verb.as_str() == *verb && route.path == *path);
            assert!(is_one, "{verb} {path}");
        }
    }
}
