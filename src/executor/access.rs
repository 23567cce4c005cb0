//! What the configuration of an environment says of agents on other machines: who may be one, and how ssh reaches them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Tokens are made by machines; a shorter one was made by hand, or cut off.
pub const MIN_TOKEN_CHARACTERS: usize = 16;

/// Of one environment.
#[derive(Clone, Default)]
pub struct AgentAccess {
    /// What an agent has to show; `None`: there are none.
    pub token: Option<Arc<str>>,
    /// A configuration file of OpenSSH's client; `None`: that of the server's user.
    pub ssh_config: Option<PathBuf>,
}

/// Leaves the token out.
impl fmt::Debug for AgentAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentAccess")
            .field("ssh_config", &self.ssh_config)
            .finish_non_exhaustive()
    }
}
