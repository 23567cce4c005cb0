//! Errors of the API, their status chosen last. Source: docs/reference/rest.md § 0.5.

use std::convert::Infallible;

use serde_json::json;
use warp::http::header::RETRY_AFTER;
use warp::http::{HeaderValue, StatusCode};
use warp::{Rejection, Reply};

use crate::api::page::page;
use crate::deploy::RequestError;
use crate::domain::{chain, shown_environment};
use crate::facts;
use crate::store::{self, Environment};

#[derive(Debug)]
pub(in crate::api) struct ApiError {
    status: StatusCode,
    message: String,
}

impl ApiError {
    pub(in crate::api) fn bad_request(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            message: format!("Invalid request: {}", message.into()),
        }
    }

    pub(in crate::api) fn unauthorized() -> Self {
        let message = "Access to this resource is unauthorized".to_owned();
        Self {
            status: StatusCode::UNAUTHORIZED,
            message,
        }
    }

    pub(in crate::api) fn is_unauthorized(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    pub(in crate::api) fn forbidden(message: impl Into<String>) -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            message: format!("Access denied: {}", message.into()),
        }
    }

    pub(in crate::api) fn not_found(what: impl Into<String>) -> Self {
        let message = format!(
            "Request or referenced resource does not exist: {}",
            what.into()
        );
        Self {
            status: StatusCode::NOT_FOUND,
            message,
        }
    }

    pub(in crate::api) fn conflict(message: impl Into<String>) -> Self {
        let message = format!(
            "Request conflicts with the current state of the resource: {}",
            message.into()
        );
        Self {
            status: StatusCode::CONFLICT,
            message,
        }
    }

    /// The inner text is ours to read, not the client's.
    pub(in crate::api) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = chain(error), "a request failed");
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            message: "An unexpected error occurred in the server; its log says more".to_owned(),
        }
    }

    pub(in crate::api) fn with_status(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    /// Status and body.
    pub(in crate::api) fn into_parts(self) -> (StatusCode, serde_json::Value) {
        (self.status, json!({"message": self.message}))
    }

    /// What is asked for cannot be while the environment is halted.
    pub(in crate::api) fn halted(environment: &Environment) -> Self {
        let shown = shown_environment(environment.id);
        Self::conflict(format!(
            "the environment {shown} is halted; resume it first"
        ))
    }

    pub(in crate::api) fn into_reply(self) -> crate::api::Body {
        let (status, body) = self.into_parts();
        let mut reply = crate::api::json(status, &body);
        // When to come again.
        let seconds = match status {
            StatusCode::SERVICE_UNAVAILABLE => Some("10"),
            StatusCode::TOO_MANY_REQUESTS => Some("15"),
            _ => None,
        };
        if let Some(seconds) = seconds {
            let seconds = HeaderValue::from_static(seconds);
            reply.headers_mut().insert(RETRY_AFTER, seconds);
        }
        reply
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NotFound(what) => Self::not_found(what),
            store::Error::Exists(what) => Self::bad_request(format!("{what} exists already")),
            store::Error::Conflict(message) => Self::conflict(message),
            store::Error::Denied(message) => Self::forbidden(message),
            store::Error::Refused(message) | store::Error::Base(message) => {
                Self::bad_request(message)
            }
            store::Error::Lost(_) => {
                tracing::error!(error = chain(&error), "a request was refused");
                Self::with_status(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "the database is not well, so nothing is written; the log of the server says why",
                )
            }
            error => match error.outage() {
                Some(message) => {
                    tracing::error!(error = chain(&error), "a request was refused");
                    Self::with_status(StatusCode::SERVICE_UNAVAILABLE, message)
                }
                None => Self::internal(&error),
            },
        }
    }
}

impl From<facts::SetError> for ApiError {
    fn from(error: facts::SetError) -> Self {
        match error {
            facts::SetError::Refused(message) => Self::bad_request(message),
            facts::SetError::Store(error) => error.into(),
        }
    }
}

impl From<RequestError> for ApiError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Store(error) => error.into(),
            RequestError::Halted => Self::conflict(format!("{error}; resume it first")),
            RequestError::Gone => {
                Self::not_found(format!("the scheduler could not be reached: {error}"))
            }
            RequestError::NothingReleased
            | RequestError::UnknownAgents(_)
            | RequestError::NoVersion(_) => Self::not_found(error.to_string()),
        }
    }
}

/// Rejections mean "not my route"; what is left of them at the end is answered here.
pub(in crate::api) async fn recover(rejection: Rejection) -> Result<crate::api::Body, Infallible> {
    if rejection.find::<TokenWanted>().is_some() {
        let page = warp::reply::html(page("Steward", TOKEN_WANTED));
        return Ok(warp::reply::with_status(page, StatusCode::UNAUTHORIZED).into_response());
    }
    let error = if let Some(refusal) = rejection.find::<Refusal>() {
        ApiError {
            status: refusal.0,
            message: refusal.1.clone(),
        }
    } else if rejection.is_not_found() {
        ApiError::not_found("there is nothing at this path")
    } else if rejection.find::<warp::reject::MethodNotAllowed>().is_some() {
        ApiError {
            status: StatusCode::METHOD_NOT_ALLOWED,
            message: "this path does not take this method".to_owned(),
        }
    } else {
        ApiError::bad_request("it cannot be read")
    };
    Ok(error.into_reply().into_response())
}

/// A browser opened a page and showed no token.
#[derive(Debug)]
pub(in crate::api) struct TokenWanted;

impl warp::reject::Reject for TokenWanted {}

/// What it gets: how to come in. It says nothing that a program without a token does not get to know.
const TOKEN_WANTED: &str = "<p>This server wants a token: the <code>api_token</code> of its configuration, or one of an \
    environment.</p>\n<ul><li>A browser shows it at the end of the address of a page: <code>/api/v2/docs?token=…</code> for \
    the API, <code>/lsm/v1/service_catalog_docs?token=…</code> for the services that can be ordered. Such an address stays in \
    the history of the browser, so take the token of an environment that ends soon.</li>\n\
    <li>Programs send it with each request, as <code>Authorization: Bearer …</code>.</li></ul>\n";

/// A request that is refused before it reaches a handler.
#[derive(Debug)]
pub(in crate::api) struct Refusal(pub(in crate::api) StatusCode, pub(in crate::api) String);

impl warp::reject::Reject for Refusal {}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error.status, error.message)
    }
}
