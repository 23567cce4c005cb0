//! Who may speak to the API.
//!
//! With a token configured, every request shows it. Without one the server listens on loopback only; then requests must
//! be meant for it: a page of another origin, or a name that somebody pointed at 127.0.0.1, is refused.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use subtle::ConstantTimeEq;
use warp::http::header::{ACCEPT, AUTHORIZATION, HOST, ORIGIN};
use warp::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use warp::path::FullPath;
use warp::{Filter, Rejection};

use crate::api::http::args;
use crate::api::http::body;
use crate::api::http::connection::Connection;
use crate::api::http::error::{ApiError, Refusal, TokenWanted};
use crate::api::http::principal::Principal;
use crate::api::http::throttle::{Throttle, Turn};
use crate::api::http::token::{Claims, ClientTypes};
use crate::app::App;
use crate::domain::Timestamp;
use crate::observe::LineLimit;
use crate::store::Store;

/// Wrong tokens, in the log.
static WRONG_TOKENS: LineLimit = LineLimit::new(10, Duration::from_secs(60));

/// Passes on requests that may go on, and says who they are from.
pub(in crate::api) fn check(
    app: App,
) -> impl Filter<Extract = (Principal,), Error = Rejection> + Clone {
    let throttle = Arc::new(Throttle::default());
    warp::header::headers_cloned()
        .and(warp::path::full())
        .and(args::raw_query())
        .and(body::connection())
        .and_then(
            move |mut headers: HeaderMap,
                  path: FullPath,
                  query: String,
                  connection: Option<Arc<Connection>>| {
                take_page_token(&mut headers, path.as_str(), &query);
                let is_for_people = is_for_people(&headers, path.as_str());
                let (throttle, app) = (Arc::clone(&throttle), app.clone());
                async move {
                    let verdict = match &app.api_token {
                        Some(token) => {
                            let shown = (&headers, &**token, &app.store);
                            check_client(shown, connection.as_ref(), &throttle).await
                        }
                        None => check_local(&headers).map(|()| Principal::Local),
                    };
                    verdict.map_err(|error| match is_for_people && error.is_unauthorized() {
                        true => warp::reject::custom(TokenWanted),
                        false => warp::reject::custom(Refusal::from(error)),
                    })
                }
            },
        )
}

/// Pages that are opened in a browser by their address, which sends no headers of ours: their token may be an argument.
/// Source: docs/reference/lsm.md § 5.2, docs/reference/rest.md § 1.15.
const PAGES: &[&str] = &["/lsm/v1/service_catalog_docs", "/api/v2/docs"];

/// Whether a browser opens one of the pages, and not a program that reads JSON.
fn is_for_people(headers: &HeaderMap, path: &str) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let is_browser = accepted.is_some_and(|accepted| accepted.contains("text/html"));
    is_browser && (path == "/" || PAGES.contains(&path))
}

/// Takes the token of one of [`PAGES`] from its address, if no header has one.
fn take_page_token(headers: &mut HeaderMap, path: &str, query: &str) {
    if !PAGES.contains(&path) || headers.contains_key(AUTHORIZATION) {
        return;
    }
    let Some(token) = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("token="))
    else {
        return;
    };
    let token = percent_encoding::percent_decode_str(token).decode_utf8_lossy();
    if let Ok(shown) = HeaderValue::try_from(format!("Bearer {token}")) {
        headers.insert(AUTHORIZATION, shown);
    }
}

/// Looks at the token when it is its client's turn. A connection that has shown the right one need not wait.
///
/// Through a reverse proxy all clients have one address, and often each request its own connection. So where right tokens come
/// from the token is looked at first, and only a wrong one has to wait or is refused: whoever guesses, or goes on showing one that
/// was revoked, keeps nobody out, and a token of 16 characters is not found by trying.
async fn check_client(
    (headers, token, store): (&HeaderMap, &str, &Store),
    connection: Option<&Arc<Connection>>,
    throttle: &Throttle,
) -> Result<Principal, ApiError> {
    let client = body::client(connection);
    let is_trusted = connection.is_some_and(|connection| connection.is_trusted.load(Relaxed));
    let is_shown = headers.contains_key(AUTHORIZATION);
    let is_judged_first = throttle.is_judged_first(client, Instant::now());
    if is_shown && !is_trusted && !is_judged_first {
        wait_for_turn(client, connection, throttle).await?;
    }
    let verdict = match (check_token(headers, token), bearer(headers)) {
        (Ok(()), _) => Ok(Principal::TokenHolder),
        (Err(_), Some(shown)) if shown.contains(&b'.') => {
            check_environment_token(shown, token, store).await
        }
        (Err(error), _) => Err(error),
    };
    if let Some(connection) = connection {
        connection.is_trusted.store(verdict.is_ok(), Relaxed);
    }
    match &verdict {
        Ok(_) if !is_trusted => throttle.right(client, Instant::now(), !is_judged_first),
        Err(_) if is_shown => {
            throttle.wrong(client, Instant::now());
            if let Some(n_left_out) = WRONG_TOKENS.permit() {
                tracing::warn!(%client, n_left_out, "a request showed a wrong token");
            }
            if is_judged_first && !is_trusted {
                wait_for_turn(client, connection, throttle).await?;
            }
        }
        _ => {}
    }
    verdict
}

/// Logs how many lines about wrong tokens were left out, if no later line has given their number.
pub(in crate::api) fn log_left_out() {
    if let Some(n_left_out) = WRONG_TOKENS.left_out() {
        tracing::warn!(n_left_out, "more requests showed wrong tokens");
    }
}

/// The tries of agents: those of a token of another role are counted for themselves.
#[derive(Debug, Default)]
pub(in crate::api) struct Guesses(Throttle);

/// Looks at the token of an agent when it is its client's turn. `None`: there is none that would do.
pub(in crate::api) async fn check_agent(
    headers: &HeaderMap,
    token: Option<&str>,
    connection: Option<&Arc<Connection>>,
    Guesses(throttle): &Guesses,
) -> Result<(), ApiError> {
    let client = body::client(connection);
    let is_judged_first = throttle.is_judged_first(client, Instant::now());
    if !is_judged_first {
        wait_for_turn(client, connection, throttle).await?;
    }
    // Where there is no token, one is compared all the same, so that the answer takes as long.
    let known = token.unwrap_or("");
    let verdict = check_token(headers, known).and(match token {
        Some(_) => Ok(()),
        None => Err(ApiError::forbidden("the token is not valid")),
    });
    match &verdict {
        Ok(()) => throttle.right(client, Instant::now(), !is_judged_first),
        Err(_) => {
            throttle.wrong(client, Instant::now());
            if let Some(n_left_out) = WRONG_TOKENS.permit() {
                tracing::warn!(%client, n_left_out, "an agent showed a wrong token");
            }
            if is_judged_first {
                wait_for_turn(client, connection, throttle).await?;
            }
        }
    }
    verdict
}

async fn wait_for_turn(
    client: IpAddr,
    connection: Option<&Arc<Connection>>,
    throttle: &Throttle,
) -> Result<(), ApiError> {
    match throttle.turn(client, Instant::now()) {
        Turn::Go => Ok(()),
        Turn::Wait(wait) => {
            if let Some(connection) = connection {
                connection.delayed(true);
            }
            tokio::time::sleep(wait).await;
            if let Some(connection) = connection {
                connection.delayed(false);
            }
            Ok(())
        }
        Turn::Refuse => Err(ApiError::with_status(
            StatusCode::TOO_MANY_REQUESTS,
            "too many wrong tokens came from this address; wait 15 seconds, then show the right one",
        )),
    }
}

/// Looks at a token of an environment, which this server has signed. Source: docs/reference/rest.md § 0.9.
async fn check_environment_token(
    shown: &[u8],
    secret: &str,
    store: &Store,
) -> Result<Principal, ApiError> {
    let claims = Claims::read(shown, secret, Timestamp::now())?;
    if let Some(jti) = claims.jti {
        match store.token_use(jti).await? {
            Some(known) if known.revoked.is_none() => {}
            Some(_) => return Err(ApiError::forbidden("the token has been revoked")),
            None => return Err(ApiError::forbidden("the token is not known any more")),
        }
    }
    let types = ClientTypes::parse(claims.client_types.split(','))
        .map_err(|_| ApiError::forbidden("the token is not valid"))?;
    Ok(Principal::Environment {
        id: claims.environment,
        types,
        expires: claims
            .exp
            .map(|seconds| Timestamp(seconds.saturating_mul(1_000_000))),
        jti: claims.jti,
    })
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    // The name of the scheme is the same in small letters (RFC 9110, section 11.1).
    let (scheme, token) = headers
        .get(AUTHORIZATION)?
        .as_bytes()
        .split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

fn check_token(headers: &HeaderMap, token: &str) -> Result<(), ApiError> {
    match bearer(headers) {
        None => Err(ApiError::unauthorized()),
        Some(shown) if digest(shown).ct_eq(&digest(token.as_bytes())).into() => Ok(()),
        Some(_) => Err(ApiError::forbidden("the token is not valid")),
    }
}

/// A digest of what was shown, which has the same length whatever that was.
fn digest(bytes: &[u8]) -> [u8; 32] {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).into()
}

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

fn check_local(headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: HeaderName| {
        headers
            .get(name)
            .map(|value: &HeaderValue| value.to_str().unwrap_or("?"))
    };
    let refuse = |message: &str| {
        let hint = "configure `api_token` to serve other names or pages";
        Err(ApiError::with_status(
            StatusCode::FORBIDDEN,
            format!("Access denied: {message}; {hint}"),
        ))
    };
    let Some(host) = text(HOST) else {
        return Ok(());
    };
    if !is_loopback(host) {
        return refuse("the server without a token answers only to localhost");
    }
    // A GET for an image has no origin, but browsers say where it comes from.
    if let Some("cross-site" | "same-site") = text(SEC_FETCH_SITE) {
        return refuse("the request comes from a page of another origin");
    }
    match text(ORIGIN) {
        Some(origin)
            if origin
                .split_once("://")
                .is_none_or(|(_, origin)| !origin.eq_ignore_ascii_case(host)) =>
        {
            refuse("the request comes from a page of another origin")
        }
        _ => Ok(()),
    }
}

/// Whether a `Host` header names this machine.
fn is_loopback(host: &str) -> bool {
    let (name, behind) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    // Somebody else may go by the rest, so it is a port.
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if !behind.is_empty() && !behind.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    name.eq_ignore_ascii_case("localhost")
        || name
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;
    use std::time::Instant;

    use crate::api::http::connection::Connection;
    use crate::api::http::guard::{
        Guesses, check_agent, check_client, check_local, check_token, is_loopback,
    };
    use crate::api::http::throttle::Throttle;
    use crate::store::Store;
    use warp::http::{HeaderMap, HeaderName};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    /// A throttle that refuses what this address shows next, and connections from there. `is_known`: a right token has come from
    /// there before.
    fn refused_for_now(is_known: bool) -> (Throttle, impl Fn() -> Arc<Connection>) {
        let client: IpAddr = "192.0.2.1".parse().unwrap();
        let throttle = Throttle::default();
        if is_known {
            throttle.right(client, Instant::now(), false);
        }
        for _ in 0..40 {
            throttle.wrong(client, Instant::now());
        }
        (throttle, move || Connection::new(client))
    }

    /// Given: an address that goes on showing wrong tokens. Expected: the right one is heard from there, if it was before; a wrong
    /// one never is.
    #[tokio::test]
    async fn who_shows_wrong_tokens_keeps_nobody_out_who_has_the_same_address() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steward.db");
        let store = Store::open_sqlite(&path).await.unwrap();
        for is_known in [true, false] {
            let (throttle, connection) = refused_for_now(is_known);
            for (shown, is_right) in [("Bearer right", true), ("Bearer wrong", false)] {
                let headers = headers(&[("authorization", shown)]);
                let shown = (&headers, "right", &store);
                let verdict = check_client(shown, Some(&connection()), &throttle).await;
                assert_eq!(verdict.is_ok(), is_right && is_known);
            }
            let (throttle, connection) = refused_for_now(is_known);
            let guesses = Guesses(throttle);
            for (shown, is_right) in [("Bearer right", true), ("Bearer wrong", false)] {
                let headers = headers(&[("authorization", shown)]);
                let shown = (Some("right"), Some(&connection()));
                let verdict = check_agent(&headers, shown.0, shown.1, &guesses).await;
                assert_eq!(verdict.is_ok(), is_right && is_known);
            }
        }
    }

    #[test]
    fn names_of_this_machine_are_told_from_others() {
        for host in [
            "localhost",
            "localhost:8888",
            "127.0.0.1:8888",
            "127.9.9.9",
            "[::1]:8888",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "example.org:8888",
            "127.0.0.1.example.org",
            "10.0.0.1",
            "[::2]:1",
            "",
            "localhost.evil:80",
            "127.0.0.1:8890.evil.example",
            "[::1].evil.example",
            "[::1",
            "localhost:8890, evil.example",
            "localhost:",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    /// Input: requests of pages of another origin, or for another name that leads here (docs/reference/security.md § 3.12). Answer: 403.
    #[test]
    fn pages_of_other_origins_are_refused_without_a_token() {
        assert!(check_local(&headers(&[("host", "localhost:1")])).is_ok());
        assert!(
            check_local(&headers(&[
                ("host", "localhost:1"),
                ("origin", "http://localhost:1")
            ]))
            .is_ok()
        );
        assert!(
            check_local(&headers(&[
                ("host", "localhost:1"),
                ("origin", "https://evil.example")
            ]))
            .is_err()
        );
        assert!(check_local(&headers(&[("host", "localhost:1"), ("origin", "null")])).is_err());
        assert!(check_local(&headers(&[("host", "evil.example")])).is_err());
        for (site, is_ok) in [
            ("cross-site", false),
            ("same-site", false),
            ("same-origin", true),
            ("none", true),
        ] {
            let headers = headers(&[("host", "localhost:1"), ("sec-fetch-site", site)]);
            assert_eq!(check_local(&headers).is_ok(), is_ok, "{site}");
        }
    }

    #[test]
    fn a_token_is_compared_whole() {
        let token = "0123456789abcdef";
        for good in ["Bearer 0123456789abcdef", "bearer 0123456789abcdef"] {
            assert!(
                check_token(&headers(&[("authorization", good)]), token).is_ok(),
                "{good}"
            );
        }
        for bad in [
            "Bearer 0123456789abcde",
            "Bearer ",
            "Basic 0123456789abcdef",
            "0123456789abcdef",
        ] {
            assert!(
                check_token(&headers(&[("authorization", bad)]), token).is_err(),
                "{bad}"
            );
        }
        assert!(check_token(&headers(&[]), token).is_err());
    }
}
