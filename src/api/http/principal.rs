//! Who asks, and the proof that an environment may be used.
//!
//! The guard says who a request is from; the dispatch hands that on with the arguments. A handler that works on an environment
//! takes an [`EnvironmentAccess`], which nobody but a principal gives: so none can forget to ask. Today all who pass the
//! guard may use all environments; roles for each of them have their place here.

use std::ops::Deref;

use crate::api::http::error::ApiError;
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
            Self::TokenHolder | Self::Local => Ok(EnvironmentAccess(environment)),
        }
    }
}

impl Deref for EnvironmentAccess {
    type Target = Environment;

    fn deref(&self) -> &Environment {
        &self.0
    }
}
