//! The configuration of `steward serve`: one YAML file.
//!
//! What is wrong with the file as a whole (its syntax, `listen`, `api_token`, `data`, limits) is an [`Error`]: nothing
//! starts. What is wrong with one environment makes that one [`Refused`], and the others start. `serve` and
//! `serve --check` both go by what [`load`] says.

mod check;
mod environment;
mod file;
mod plain;
mod secret;
#[cfg(test)]
mod tests;
mod words;

pub use words::in_words;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::compile::{Grant, PoolOptions, SecretVariables, Source};
use crate::domain::{DataDir, FactTimes};
use crate::executor::access::AgentAccess;
use crate::executor::limits::Limits;
use crate::forge::Forge;
use crate::git::{Credentials, Login, RepositoryRules};
use crate::observe::ActionLogs;

/// What a server runs with.
#[derive(Clone)]
pub struct Config {
    pub listen: SocketAddr,
    pub data: DataDir,
    pub database: Database,
    /// Bearer token that API requests must show; `None` only on loopback, and then the API sets no repositories.
    pub api_token: Option<String>,
    pub pool: PoolOptions,
    /// How often what nothing needs any more is removed.
    pub housekeeping: Duration,
    pub facts: FactTimes,
    /// The files that what handlers say is written to; `None`: none.
    pub action_logs: Option<ActionLogs>,
    /// Of the executor of each environment.
    pub executor: Limits,
    /// What repositories may be set over the API.
    pub repositories: RepositoryRules,
    pub environments: Vec<EnvironmentConfig>,
    /// Environments that cannot run, and why.
    pub refused: Vec<Refused>,
}

/// Leaves secrets out.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("listen", &self.listen)
            .field("data", &self.data.path())
            .field("environments", &self.environments)
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

/// How often, if nobody says otherwise.
pub const HOUSEKEEPING: Duration = Duration::from_secs(3600);

#[derive(Clone, PartialEq, Eq)]
pub enum Database {
    /// `steward.db` in the data directory.
    Sqlite,
    /// Its URL, which may hold a password.
    Postgres(String),
}

/// An environment that the configuration file holds, with all it names looked up.
#[derive(Debug, Clone)]
pub struct EnvironmentConfig {
    pub project: String,
    pub name: String,
    pub source: Source,
    pub branch: Option<String>,
    pub poll: Duration,
    /// Look when files of a repository on this machine change.
    pub watch: bool,
    pub variables: BTreeMap<String, String>,
    /// Variables that are stored and shown nowhere.
    pub secrets: SecretVariables,
    pub settings: BTreeMap<String, Value>,
    pub credentials: Credentials,
    /// Hosts that its compiles may reach.
    pub network: Vec<Grant>,
    pub webhooks: Vec<WebhookConfig>,
    /// Of agents on other machines.
    pub agents: AgentAccess,
    /// What is not good, but does not keep it from running.
    pub warnings: Vec<String>,
}

#[derive(Clone)]
pub struct WebhookConfig {
    pub id: String,
    pub forge: Forge,
    pub secret: Vec<u8>,
}

impl fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookConfig")
            .field("id", &self.id)
            .field("forge", &self.forge)
            .finish_non_exhaustive()
    }
}

/// An environment that cannot run, and why. Displayed with file and field, as an [`Error`] is.
#[derive(Clone)]
pub struct Refused {
    pub project: String,
    pub name: String,
    /// The names are good, and no other environment has them.
    pub is_named: bool,
    path: String,
    pub field: String,
    pub message: String,
    /// The ids of its webhooks.
    pub hooks: Vec<String>,
    origin: Origin,
}

/// What is looked at again.
#[derive(Clone)]
enum Origin {
    Declared(Arc<environment::Declared>),
    /// All it names was good; what refused it was not of the configuration.
    Checked(Box<EnvironmentConfig>),
}

impl Refused {
    /// That of an environment whose declaration is good, but which `message` stands against.
    pub fn checked(config: EnvironmentConfig, message: String) -> Self {
        let hooks = config.webhooks.iter().map(|hook| hook.id.clone());
        Self {
            project: config.project.clone(),
            name: config.name.clone(),
            is_named: true,
            path: "the configuration".to_owned(),
            field: "environments".to_owned(),
            message,
            hooks: hooks.collect(),
            origin: Origin::Checked(Box::new(config)),
        }
    }

    /// Looks at all that it names once more: a folder or a file may be there by now. Blocks.
    ///
    /// # Errors
    /// It still cannot run.
    pub fn again(&self) -> Result<EnvironmentConfig, Box<Self>> {
        match &self.origin {
            Origin::Declared(declared) => declared.resolve(),
            Origin::Checked(config) => Ok((**config).clone()),
        }
    }

    /// For people: `project/name`.
    pub fn shown(&self) -> String {
        let name = format!("{}/{}", self.project, self.name);
        crate::domain::printable(&name, 200)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.path, self.field, self.message)
    }
}

impl fmt::Debug for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {path}: {source}; another file is named with --config")]
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

/// Reads and checks a configuration file, and all that its environments name.
///
/// # Errors
/// The first thing that is wrong with the file as a whole, with the field's name.
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
