//! From YAML text to a checked [`Config`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use steward_compiler::yaml::{self, LIMITS};

use super::{Config, Database, EnvironmentConfig, Error, WebhookConfig};
use crate::compile::PoolOptions;
use crate::domain::{FactTimes, check_setting};
use crate::git::Credentials;

const DEFAULT_POLL: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "keys such as `environments:`")]
struct File {
    #[serde(default = "default_listen")]
    listen: String,
    data: Option<PathBuf>,
    database: Option<Secret>,
    api_token: Option<Secret>,
    #[serde(default)]
    compile: CompileSection,
    /// How often what nothing needs any more is removed.
    housekeeping: Option<String>,
    #[serde(default)]
    facts: FactsSection,
    #[serde(default)]
    environments: Vec<EnvironmentSection>,
}

/// How long facts are good.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FactsSection {
    expire: Option<String>,
    renew: Option<String>,
    resource_block: Option<String>,
}

/// A value that is secret: written in place, or read from elsewhere.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected a text, or one of `file:` and `credential:`"
)]
enum Secret {
    Text(String),
    From(SecretFrom),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretFrom {
    file: Option<PathBuf>,
    /// Name of a systemd credential.
    credential: Option<String>,
    /// Name of an environment variable of the server.
    env: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CompileSection {
    slots: Option<usize>,
    timeout: Option<String>,
    memory_mib: Option<u64>,
    install_timeout: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvironmentSection {
    project: String,
    name: String,
    repository: String,
    branch: Option<String>,
    poll: Option<String>,
    watch: Option<bool>,
    #[serde(default)]
    env: BTreeMap<String, Plain>,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    credentials: CredentialsSection,
    #[serde(default)]
    webhooks: Vec<WebhookSection>,
}

/// YAML reads `8080` as a number; as a variable it is text.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, a number, true or false")]
enum Plain {
    Text(String),
    Number(serde_json::Number),
    Flag(bool),
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CredentialsSection {
    user: Option<String>,
    token: Option<Secret>,
    ssh_key: Option<PathBuf>,
    known_hosts: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSection {
    id: String,
    forge: String,
    secret: Secret,
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
        message: error.to_string(),
    };
    yaml::from_str::<yaml::Value>(text, &LIMITS).map_err(syntax)?;
    let file: File = yaml::from_str(text, &LIMITS).map_err(syntax)?;
    let check = Check { path };
    let listen: SocketAddr = file.listen.parse().map_err(|_| {
        check.field(
            "listen",
            &format!(
                "`{}` is no address and port, such as 127.0.0.1:8888",
                file.listen
            ),
        )
    })?;
    let api_token = file
        .api_token
        .map(|token| check.secret("api_token", token))
        .transpose()?;
    if api_token.as_ref().is_some_and(|token| token.len() < 16) {
        return Err(check.field("api_token", "a token needs at least 16 characters"));
    }
    if api_token.is_none() && !super::is_private(&listen) {
        let message = "is needed, because `listen` can be reached from other machines";
        return Err(check.field("api_token", message));
    }
    let database = match file
        .database
        .map(|database| check.secret("database", database))
        .transpose()?
    {
        None => Database::Sqlite,
        Some(text) if text == "sqlite" => Database::Sqlite,
        Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Database::Postgres(url)
        }
        Some(_) => {
            return Err(check.field(
                "database",
                "write `sqlite` or a URL that begins with postgres://",
            ));
        }
    };
    let mut pool = PoolOptions::default();
    if let Some(slots) = file.compile.slots {
        if slots == 0 || slots > 1024 {
            return Err(check.field(
                "compile.slots",
                "between 1 and 1024 compiles at the same time are possible",
            ));
        }
        pool.slots = slots;
    }
    if let Some(timeout) = &file.compile.timeout {
        pool.timeout = check.duration("compile.timeout", timeout)?;
    }
    if let Some(timeout) = &file.compile.install_timeout {
        pool.install_timeout = check.some_duration("compile.install_timeout", timeout)?;
    }
    if let Some(memory_mib) = file.compile.memory_mib {
        if !(64..=1 << 20).contains(&memory_mib) {
            return Err(check.field(
                "compile.memory_mib",
                "between 64 and 1048576 MiB are possible",
            ));
        }
        pool.memory_bytes = memory_mib << 20;
    }
    let housekeeping = file
        .housekeeping
        .map(|pause| check.some_duration("housekeeping", &pause))
        .transpose()?;
    let facts = check.facts(&file.facts)?;
    let data = file
        .data
        .or_else(|| std::env::var_os("STATE_DIRECTORY").map(PathBuf::from));
    let data = data.ok_or_else(|| {
        check.field(
            "data",
            "is needed: the directory for the database and mirrors",
        )
    })?;
    let mut environments: Vec<EnvironmentConfig> = Vec::new();
    let mut hooks = std::collections::BTreeSet::new();
    for (index, section) in file.environments.into_iter().enumerate() {
        let environment = check.environment(&format!("environments[{index}]"), section)?;
        let twice = |other: &EnvironmentConfig| {
            (&other.project, &other.name) == (&environment.project, &environment.name)
        };
        if environments.iter().any(twice) {
            let message = format!(
                "environment {} of project {} is there twice",
                environment.name, environment.project
            );
            return Err(check.field(&format!("environments[{index}]"), &message));
        }
        for hook in &environment.webhooks {
            if !hooks.insert(hook.id.clone()) {
                let message = format!("a webhook with the id `{}` is there twice", hook.id);
                return Err(check.field(&format!("environments[{index}].webhooks"), &message));
            }
        }
        environments.push(environment);
    }
    Ok(Config {
        listen,
        data,
        database,
        api_token,
        pool,
        housekeeping: housekeeping.unwrap_or(super::HOUSEKEEPING),
        facts,
        environments,
    })
}

struct Check<'a> {
    path: &'a str,
}

impl Check<'_> {
    fn field(&self, field: &str, message: &str) -> Error {
        Error::Field {
            path: self.path.to_owned(),
            field: field.to_owned(),
            message: message.to_owned(),
        }
    }

    fn environment(
        &self,
        field: &str,
        section: EnvironmentSection,
    ) -> Result<EnvironmentConfig, Error> {
        for (name, text) in [("project", &section.project), ("name", &section.name)] {
            if text.trim().is_empty() || text.len() > 255 {
                return Err(self.field(
                    &format!("{field}.{name}"),
                    "a name of 1 to 255 characters is needed",
                ));
            }
        }
        let poll = section
            .poll
            .as_deref()
            .map(|poll| self.duration(&format!("{field}.poll"), poll))
            .transpose()?;
        let mut settings = BTreeMap::new();
        for (name, value) in section.settings {
            let value = check_setting(&name, &value).map_err(|error| {
                self.field(&format!("{field}.settings.{name}"), &error.to_string())
            })?;
            settings.insert(name, value);
        }
        let token = section.credentials.token;
        let token = token
            .map(|token| self.secret(&format!("{field}.credentials.token"), token))
            .transpose()?;
        let credentials = Credentials {
            login: token.map(|token| super::login(section.credentials.user, token)),
            ssh_key: section.credentials.ssh_key,
            known_hosts: section.credentials.known_hosts,
        };
        let mut webhooks = Vec::new();
        for (index, hook) in section.webhooks.into_iter().enumerate() {
            let field = format!("{field}.webhooks[{index}]");
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if hook.id.is_empty() || hook.id.len() > 100 || !hook.id.chars().all(plain) {
                return Err(self.field(
                    &format!("{field}.id"),
                    "1 to 100 letters, digits, `-`, `_` or `.` are needed",
                ));
            }
            let forge = hook.forge.parse().map_err(|_| {
                self.field(
                    &format!("{field}.forge"),
                    &format!("`{}` is not one of github, gitea, forgejo", hook.forge),
                )
            })?;
            let secret = self.secret(&format!("{field}.secret"), hook.secret)?;
            if secret.len() < 8 {
                return Err(self.field(
                    &format!("{field}.secret"),
                    "a secret needs at least 8 characters",
                ));
            }
            webhooks.push(WebhookConfig {
                id: hook.id,
                forge,
                secret: secret.into_bytes(),
            });
        }
        let as_text = |(name, value)| {
            let text = match value {
                Plain::Text(text) => text,
                Plain::Number(number) => number.to_string(),
                Plain::Flag(flag) => flag.to_string(),
            };
            (name, text)
        };
        Ok(EnvironmentConfig {
            project: section.project,
            name: section.name,
            repository: section.repository,
            branch: section.branch,
            poll: poll.unwrap_or(DEFAULT_POLL),
            watch: section.watch.unwrap_or(true),
            variables: section.env.into_iter().map(as_text).collect(),
            settings,
            credentials,
            webhooks,
        })
    }

    fn secret(&self, field: &str, secret: Secret) -> Result<String, Error> {
        let from = match secret {
            Secret::Text(text) => return Ok(text),
            Secret::From(from) => from,
        };
        let read = |path: PathBuf| {
            std::fs::read_to_string(&path)
                .map(|text| text.trim_end_matches(['\r', '\n']).to_owned())
                .map_err(|error| {
                    self.field(field, &format!("cannot read {}: {error}", path.display()))
                })
        };
        match (from.file, from.credential, from.env) {
            (Some(file), None, None) => read(file),
            (None, Some(name), None) => {
                let directory = std::env::var_os("CREDENTIALS_DIRECTORY");
                let directory = directory.ok_or_else(|| {
                    self.field(
                        field,
                        "credentials are passed by systemd (LoadCredential=), and there are none",
                    )
                })?;
                if name.contains('/') {
                    return Err(self.field(field, "a credential's name has no `/`"));
                }
                read(Path::new(&directory).join(name))
            }
            (None, None, Some(name)) => std::env::var(&name)
                .map_err(|_| self.field(field, &format!("the variable {name} is not set"))),
            _ => Err(self.field(
                field,
                "exactly one of `file`, `credential` and `env` is needed",
            )),
        }
    }

    /// `90`, `90s`, `15m`, `2h`, `1d`.
    /// One that is not zero.
    /// Source: deploy.md 5.7.
    fn facts(&self, section: &FactsSection) -> Result<FactTimes, Error> {
        let mut times = FactTimes::default();
        if let Some(expire) = &section.expire {
            times.expire = self.some_duration("facts.expire", expire)?;
            times.renew = times.expire / 3;
        }
        if let Some(renew) = &section.renew {
            times.renew = self.some_duration("facts.renew", renew)?;
        }
        if times.renew >= times.expire {
            let message = format!(
                "less than facts.expire ({} s) is needed",
                times.expire.as_secs()
            );
            return Err(self.field("facts.renew", &message));
        }
        if let Some(block) = &section.resource_block {
            times.resource_block = self.duration("facts.resource_block", block)?;
        }
        Ok(times)
    }

    fn some_duration(&self, field: &str, text: &str) -> Result<Duration, Error> {
        let duration = self.duration(field, text)?;
        if duration.is_zero() {
            return Err(self.field(field, "more than 0 s is needed"));
        }
        Ok(duration)
    }

    fn duration(&self, field: &str, text: &str) -> Result<Duration, Error> {
        let refuse = || {
            self.field(
                field,
                &format!("`{text}` is no duration, such as 30s, 15m or 2h (at most 30 days)"),
            )
        };
        let text = text.trim();
        let (number, unit) = match text.char_indices().find(|(_, c)| !c.is_ascii_digit()) {
            Some((at, _)) => text.split_at(at),
            None => (text, "s"),
        };
        let factor = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(refuse()),
        };
        let seconds = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor));
        seconds
            .filter(|seconds| *seconds <= 30 * 86_400)
            .map(Duration::from_secs)
            .ok_or_else(refuse)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    const GOOD: &str = r"
listen: 127.0.0.1:9999
data: /tmp/data
environments:
  - project: infra
    name: prod
    repository: https://git.example.com/infra.git
    branch: main
    poll: 5m
    env: {ROOT: /srv, PORT: 8080, DEBUG: true}
    settings: {autostart_agent_repair_interval: 30}
    webhooks:
      - {id: prod, forge: github, secret: correct-horse}
";

    #[test]
    fn a_whole_file_is_read() {
        let config = parse(GOOD, "f").unwrap();
        let environment = &config.environments[0];
        assert_eq!(environment.poll.as_secs(), 300);
        assert_eq!(environment.variables["PORT"], "8080");
        assert_eq!(environment.variables["DEBUG"], "true");
        assert_eq!(
            environment.settings["autostart_agent_repair_interval"],
            "30"
        );
        assert!(!format!("{config:?}").contains("correct-horse"));
        assert_eq!(config.facts, crate::domain::FactTimes::default());
        let facts = |text: &str| parse(&format!("{GOOD}facts: {text}\n"), "f");
        let times = facts("{expire: 10m, resource_block: 0s}").unwrap().facts;
        let seconds = [times.expire, times.renew, times.resource_block].map(|time| time.as_secs());
        assert_eq!(seconds, [600, 200, 0]);
        for bad in [
            "{expire: 0s}",
            "{expire: 1m, renew: 1m}",
            "{renew: 2h}",
            "{other: 1s}",
        ] {
            assert!(facts(bad).is_err(), "{bad}");
        }
    }

    #[track_caller]
    fn check_error(from: &str, to: &str, expected: &str) {
        assert!(GOOD.contains(from));
        let error = parse(&GOOD.replace(from, to), "steward.yaml")
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(expected) && error.starts_with("steward.yaml"),
            "{error}"
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_field() {
        check_error("127.0.0.1:9999", "nowhere", "listen");
        check_error("127.0.0.1:9999", "0.0.0.0:80", "api_token");
        check_error("poll: 5m", "poll: 5 minutes", "environments[0].poll");
        check_error("poll: 5m", "poll: 99999999999h", "environments[0].poll");
        check_error("poll: 5m", "pool: 5m", "pool");
        check_error(
            "forge: github",
            "forge: svn",
            "environments[0].webhooks[0].forge",
        );
        check_error(
            "secret: correct-horse",
            "secret: ''",
            "environments[0].webhooks[0].secret",
        );
        check_error(
            "secret: correct-horse",
            "secret: {file: /no/such}",
            "/no/such",
        );
        check_error(
            "interval: 30",
            "interval: often",
            "settings.autostart_agent_repair_interval",
        );
        check_error(
            "data: /tmp/data",
            "data: /tmp/data\ndata: /tmp/other",
            "duplicate",
        );
        check_error("    env:", "   env:", "line");
        // What has a wrong type, too, names its place.
        check_error("poll: 5m", "poll: [5]", "environments[0].poll");
        check_error("poll: 5m", "poll: [5]", "line");
        check_error("secret: correct-horse", "secret: []", "a text, or one of");
    }
}
