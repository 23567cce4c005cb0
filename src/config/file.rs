//! From YAML text to a checked [`Config`].

use std::path::{Path, PathBuf};

use serde::Deserialize;
use steward_compiler::yaml::{self, LIMITS};

use super::check;
use super::environment::{self, EnvironmentSection};
use super::secret::Secret;
use super::words::in_words;
use super::{Config, Error};
use crate::domain::DataDir;
use crate::python::Pythons;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "keys such as `environments:`")]
struct File {
    #[serde(default = "default_listen")]
    listen: String,
    data: Option<PathBuf>,
    database: Option<Secret>,
    api_token: Option<Secret>,
    /// The Python of plugins, handlers and environments.
    python: Option<PathBuf>,
    #[serde(default)]
    compile: CompileSection,
    /// How often what nothing needs any more is removed.
    housekeeping: Option<String>,
    #[serde(default)]
    facts: FactsSection,
    action_logs: Option<ActionLogsSection>,
    #[serde(default)]
    executor: ExecutorSection,
    #[serde(default)]
    repositories: RepositoriesSection,
    #[serde(default)]
    environments: Vec<EnvironmentSection>,
}

/// How long facts are good.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FactsSection {
    pub(super) expire: Option<String>,
    pub(super) renew: Option<String>,
    pub(super) resource_block: Option<String>,
}

/// Log files of what handlers say.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ActionLogsSection {
    pub(super) folder: PathBuf,
    pub(super) file_mib: Option<u64>,
    pub(super) older_files: Option<usize>,
}

/// What the executor of an environment may have.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExecutorSection {
    pub(super) hosts: Option<usize>,
    pub(super) connections: Option<usize>,
    pub(super) keep: Option<String>,
    pub(super) import_timeout: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct CompileSection {
    pub(super) slots: Option<usize>,
    pub(super) timeout: Option<String>,
    pub(super) memory_mib: Option<u64>,
    pub(super) scratch_mib: Option<u64>,
    pub(super) install_timeout: Option<String>,
    pub(super) fetch_timeout: Option<String>,
    pub(super) fetch_memory_mib: Option<u64>,
}

/// What repositories may be set over the API; those of the file are trusted.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RepositoriesSection {
    /// Hosts of private networks and of this machine.
    #[serde(default)]
    pub(super) allow_private: bool,
    /// Folders of this machine with repositories.
    #[serde(default)]
    pub(super) allow_local: Vec<PathBuf>,
}

fn default_listen() -> String {
    "127.0.0.1:8888".to_owned()
}

pub(super) fn load(path: &Path) -> Result<Config, Error> {
    let shown = path.display().to_string();
    let fail = |source| Error::Read {
        path: shown.clone(),
        source,
    };
    let text = yaml::read_file(path, &LIMITS).map_err(fail)?;
    let mut config = parse(&text, &shown)?;
    let mut secrets = vec![path.to_owned()];
    secrets.extend(std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from));
    if let Ok(value) = yaml::from_str(&text, &LIMITS) {
        secret_files(&value, &mut secrets);
    }
    config.pool.secrets = secrets;
    Ok(config)
}

/// The files of secrets that a configuration names.
fn secret_files(value: &yaml::Value, found: &mut Vec<PathBuf>) {
    match value {
        yaml::Value::Mapping(map) => {
            for (key, value) in map {
                let names_file = matches!(key.as_str(), Some("file" | "ssh_key"));
                match value.as_str().filter(|_| names_file) {
                    Some(path) => found.push(PathBuf::from(path)),
                    None => secret_files(value, found),
                }
            }
        }
        yaml::Value::Sequence(items) => {
            items.iter().for_each(|item| secret_files(item, found));
        }
        _ => {}
    }
}

pub(super) fn parse(text: &str, path: &str) -> Result<Config, Error> {
    // Into a value first: a repeated key is an error there, and silently wins in a map. A value has no lines.
    let syntax = |error: yaml::Error| Error::Syntax {
        path: path.to_owned(),
        message: in_words(&error.to_string()),
    };
    yaml::from_str::<yaml::Value>(text, &LIMITS).map_err(syntax)?;
    let file: File = yaml::from_str(text, &LIMITS).map_err(syntax)?;
    whole(file, path).map_err(|fault| fault.of(path))
}

/// The settings of the server, and those of each environment.
fn whole(file: File, path: &str) -> Result<Config, check::Fault> {
    let listen = check::listen(&file.listen)?;
    let api_token = check::api_token(file.api_token, &listen)?;
    let database = check::database(file.database)?;
    let mut pool = check::pool(&file.compile)?;
    let named = file
        .python
        .map(|path| (path, "`python:` of the configuration"));
    pool.pythons = Pythons::new(named);
    let housekeeping = match &file.housekeeping {
        Some(pause) => check::some_duration("housekeeping", pause)?,
        None => super::HOUSEKEEPING,
    };
    let facts = check::facts(&file.facts)?;
    let action_logs = file.action_logs.map(check::action_logs).transpose()?;
    let executor = check::executor(&file.executor)?;
    let repositories = check::repositories(file.repositories)?;
    if file
        .data
        .as_ref()
        .is_some_and(|data| data.as_os_str().as_encoded_bytes().starts_with(b"~"))
    {
        let message = "begins with `~`, which is no home directory here: write the whole path";
        return Err(check::Fault::new("data", message));
    }
    let data = file
        .data
        .or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from))
        .filter(|data| !data.as_os_str().is_empty())
        .map(DataDir::new);
    let data = data.ok_or_else(|| {
        let message = "is needed: the directory for the database and mirrors";
        check::Fault::new("data", message)
    })?;
    let (mut environments, mut refused) = (Vec::new(), Vec::new());
    for declared in environment::declared(file.environments, path, &data) {
        match declared.resolve() {
            Ok(environment) => environments.push(environment),
            Err(environment) => refused.push(*environment),
        }
    }
    Ok(Config {
        listen,
        data,
        database,
        api_token,
        pool,
        housekeeping,
        facts,
        action_logs,
        executor,
        repositories,
        environments,
        refused,
    })
}
