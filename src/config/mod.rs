//! The configuration of `steward serve`: one YAML file, checked whole before anything starts.

mod file;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::compile::PoolOptions;
use crate::domain::FactTimes;
use crate::forge::Forge;
use crate::git::{Credentials, Login};

/// What a server runs with.
#[derive(Debug, Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub database: Database,
    /// Bearer token that API requests must show; `None` only on loopback, and then the API sets no repositories.
    pub api_token: Option<String>,
    pub pool: PoolOptions,
    /// How often what nothing needs any more is removed.
    pub housekeeping: Duration,
    pub facts: FactTimes,
    pub environments: Vec<EnvironmentConfig>,
}

/// How often, if nobody says otherwise.
pub const HOUSEKEEPING: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// `steward.db` in the data directory.
    Sqlite,
    Postgres(String),
}

/// An environment that the configuration file holds.
#[derive(Debug, Clone)]
pub struct EnvironmentConfig {
    pub project: String,
    pub name: String,
    pub repository: String,
    pub branch: Option<String>,
    pub poll: Duration,
    /// Look when files of a repository on this machine change.
    pub watch: bool,
    pub variables: BTreeMap<String, String>,
    pub settings: BTreeMap<String, Value>,
    pub credentials: Credentials,
    pub webhooks: Vec<WebhookConfig>,
}

#[derive(Clone)]
pub struct WebhookConfig {
    pub id: String,
    pub forge: Forge,
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("id", &self.id)
            .field("forge", &self.forge)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}")]
    Read {
        path: String,
        source: std::io::Error,
    },
    #[error("{path}: {message}")]
    Syntax { path: String, message: String },
    #[error("{path}: {field}: {message}")]
    Field {
        path: String,
        field: String,
        message: String,
    },
}

/// Reads and checks a configuration file.
///
/// # Errors
/// The first thing that is wrong, with the field's name.
pub fn load(path: &Path) -> Result<Config, Error> {
    file::load(path)
}

/// Reads a text as a configuration file, for fuzzing.
#[doc(hidden)]
pub fn parse(text: &str) -> Result<Config, Error> {
    file::parse(text, "steward.yaml")
}

/// Whether an address is reached from this machine only.
pub fn is_private(listen: &SocketAddr) -> bool {
    listen.ip().is_loopback()
}

/// A login for http from its parts.
pub(crate) fn login(user: Option<String>, token: String) -> Login {
    Login {
        user: user.unwrap_or_else(|| "git".to_owned()),
        token,
    }
}
