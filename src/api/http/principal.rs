//! Who asks, and the proof that an environment may be used.
//!
//! The guard says who a request is from; the dispatch hands that on with the arguments. A handler that works on an environment
//! takes an [`EnvironmentAccess`], which nobody but a principal gives: so none can forget to ask. Who shows the token of the API may
//! use all environments, who shows a token of an environment that one.

use std::ops::Deref;

use crate::api::http::error::ApiError;
use crate::api::http::token::ClientTypes;
use crate::domain::{EnvironmentId, Timestamp};
use crate::store::Environment;

/// Who sent a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::api) enum Principal {
    /// Whoever has not passed the guard.
    #[default]
    Nobody,
    /// Somebody who showed the token of the API.
    TokenHolder,
    /// Somebody on this machine; no token is configured.
    Local,
    /// Somebody who showed a token of an environment.
    Environment {
        id: EnvironmentId,
        types: ClientTypes,
        /// When its token ends.
        expires: Option<Timestamp>,
        /// By what its token is revoked; `None`: by nothing but another token of the API.
        jti: Option<uuid::Uuid>,
    },
}

/// An environment, and that whoever asks may use it.
#[derive(Debug, Clone)]
pub(in crate::api) struct EnvironmentAccess(Environment);

impl Principal {
    /// The proof that this principal may use an environment.
    ///
    /// # Errors
    /// It may not.
    pub(in crate::api) fn access(
        self,
        environment: Environment,
    ) -> Result<EnvironmentAccess, ApiError> {
        match self {
            Self::Nobody => Err(ApiError::unauthorized()),
            Self::Environment { id, .. } if id != environment.id => Err(Self::other_environment()),
            Self::TokenHolder | Self::Local | Self::Environment { .. } => {
                Ok(EnvironmentAccess(environment))
            }
        }
    }

    /// Whether this principal may have a token made that is for these client types and ends then: nobody gets more by one than
    /// he has. Who compiles may have one made for agents, since exporters do.
    ///
    /// # Errors
    /// What it may not.
    pub(in crate::api) fn may_make_token(
        self,
        wanted: ClientTypes,
        ends: Option<Timestamp>,
    ) -> Result<(), ApiError> {
        let Self::Environment { types, expires, .. } = self else {
            return Ok(());
        };
        let lacks =
            (wanted.api && !types.api) || (wanted.compiler && !types.api && !types.compiler);
        if lacks {
            return Err(ApiError::forbidden(
                "with this token no token can be made for a client type that it is not for itself",
            ));
        }
        match (expires, ends) {
            (Some(expires), ends) if ends.is_none_or(|ends| ends > expires) => {
                Err(ApiError::forbidden(
                    "with a token that expires no token can be made that is good for longer: say `expire`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// By what tokens are revoked that have no id of their own and that this principal has made: with the token that they were made
    /// with.
    pub(in crate::api) fn revoked_by(self) -> Option<uuid::Uuid> {
        match self {
            Self::Environment { jti, .. } => jti,
            Self::Nobody | Self::TokenHolder | Self::Local => None,
        }
    }

    /// Whether lists of environments have this one for the principal.
    pub(in crate::api) fn sees(self, environment: &Environment) -> bool {
        match self {
            Self::Nobody => false,
            Self::Environment { id, .. } => id == environment.id,
            Self::TokenHolder | Self::Local => true,
        }
    }

    /// What a token of one environment meets in another.
    pub(in crate::api) fn other_environment() -> ApiError {
        ApiError::forbidden("the token is not valid for this environment")
    }
}

impl Deref for EnvironmentAccess {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.0
    }
}
