//! One environment of the file: what it declares, and what becomes of that when all it names is looked at.
//!
//! A mistake here is the environment's own: the others run. What it names (folders, files of secrets) may appear later, so
//! a declaration is kept and can be looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::check::{Fault, duration};
use super::secret::{Secret, SecretFrom};
use super::{EnvironmentConfig, Refused, WebhookConfig};
use crate::compile::{Grant, MIN_REDACTED_CHARS, SecretVariables, Source};
use crate::domain::{DataDir, chain, check_setting};
use crate::executor::access::{AgentAccess, MIN_TOKEN_CHARACTERS};
use crate::git::{self, Credentials};

const DEFAULT_POLL: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvironmentSection {
    project: String,
    name: String,
    repository: String,
    branch: Option<String>,
    poll: Option<String>,
    watch: Option<bool>,
    #[serde(default)]
    env: BTreeMap<String, Variable>,
    #[serde(default)]
    settings: BTreeMap<String, Value>,
    #[serde(default)]
    credentials: CredentialsSection,
    #[serde(default)]
    webhooks: Vec<WebhookSection>,
    /// Hosts that its compiles may reach.
    #[serde(default)]
    network: Vec<String>,
    #[serde(default)]
    agents: AgentsSection,
}

/// YAML reads `8080` as a number; as a variable it is text. What is read from elsewhere is secret.
enum Variable {
    /// As it is passed.
    Text(String),
    Secret(SecretFrom),
}

/// Not derived as `untagged`: that forgets the key and the line of what does not fit.
impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VariableVisitor)
    }
}

struct VariableVisitor;

impl<'de> Visitor<'de> for VariableVisitor {
    type Value = Variable;

    fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str(
            "a text, a number, true or false, or one of `file:`, `credential:` and `env:`",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Variable, E> {
        Ok(Variable::Text(text.to_owned()))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Variable, E> {
        Ok(Variable::Text(flag.to_string()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Variable, E> {
        Ok(Variable::Text(number.to_string()))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Variable, E> {
        Ok(Variable::Text(number.to_string()))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Variable, E> {
        let number = serde_json::Number::from_f64(number);
        let number = number.ok_or_else(|| E::custom("this is no number that can be passed"))?;
        Ok(Variable::Text(number.to_string()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Variable, A::Error> {
        SecretFrom::deserialize(MapAccessDeserializer::new(map)).map(Variable::Secret)
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct CredentialsSection {
    user: Option<String>,
    token: Option<Secret>,
    ssh_key: Option<PathBuf>,
    known_hosts: Option<PathBuf>,
}

/// Agents on other machines.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct AgentsSection {
    token: Option<Secret>,
    ssh_config: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSection {
    id: String,
    forge: String,
    secret: Secret,
}

/// The variables of an environment, by name.
#[derive(Default)]
struct Variables {
    plain: BTreeMap<String, String>,
    secret: BTreeMap<String, String>,
    /// Warnings about the secret ones.
    warnings: Vec<String>,
}

/// An environment as the file has it.
pub(super) struct Declared {
    /// The path of the configuration file.
    path: String,
    /// The field of the configuration, such as `environments[2]`.
    field: String,
    data: DataDir,
    section: EnvironmentSection,
    /// What an environment before it has taken already.
    twice: Option<Fault>,
}

/// All environments of a file.
pub(super) fn declared(
    sections: Vec<EnvironmentSection>,
    path: &str,
    data: &DataDir,
) -> Vec<Arc<Declared>> {
    let (mut names, mut hooks) = (BTreeSet::new(), BTreeSet::new());
    let declare = |(index, section): (usize, EnvironmentSection)| {
        let field = format!("environments[{index}]");
        let mut twice = None;
        for hook in &section.webhooks {
            if !hooks.insert(hook.id.clone()) {
                let message = format!("a webhook with the id `{}` is there twice", hook.id);
                twice = Some(Fault::new(format!("{field}.webhooks"), message));
            }
        }
        if !names.insert((section.project.clone(), section.name.clone())) {
            let message = format!(
                "environment {} of project {} is there twice",
                section.name, section.project
            );
            twice = Some(Fault::new(&field, message));
        }
        Arc::new(Declared {
            path: path.to_owned(),
            field,
            data: data.clone(),
            section,
            twice,
        })
    };
    sections.into_iter().enumerate().map(declare).collect()
}

impl Declared {
    /// Looks at all that it names. Reads small files; blocks.
    pub(super) fn resolve(self: &Arc<Self>) -> Result<EnvironmentConfig, Box<Refused>> {
        self.check().map_err(|fault| {
            let is_named = self.check_names().is_ok();
            // The one of before has that name, and the right to it.
            let is_second = self
                .twice
                .as_ref()
                .is_some_and(|twice| twice.field == self.field);
            Box::new(Refused {
                project: self.section.project.clone(),
                name: self.section.name.clone(),
                is_named: is_named && !is_second,
                path: self.path.clone(),
                field: fault.field,
                message: fault.message,
                hooks: self.hooks(),
                origin: super::Origin::Declared(Arc::clone(self)),
            })
        })
    }

    /// The ids of its webhooks.
    fn hooks(&self) -> Vec<String> {
        let hooks = self.section.webhooks.iter();
        hooks.map(|hook| hook.id.clone()).collect()
    }

    fn check(&self) -> Result<EnvironmentConfig, Fault> {
        self.check_names()?;
        if let Some(twice) = &self.twice {
            return Err(twice.clone());
        }
        let section = &self.section;
        let poll = match &section.poll {
            Some(poll) => duration(&self.field("poll"), poll)?,
            None => DEFAULT_POLL,
        };
        let settings = self.settings()?;
        let source = self.source()?;
        let credentials = self.credentials()?;
        let mut webhooks = Vec::new();
        for (index, hook) in section.webhooks.iter().enumerate() {
            webhooks.push(self.webhook(&format!("webhooks[{index}]"), hook)?);
        }
        let variables = self.variables()?;
        Ok(EnvironmentConfig {
            project: section.project.clone(),
            name: section.name.clone(),
            source,
            branch: section.branch.clone(),
            poll,
            watch: section.watch.unwrap_or(true),
            variables: variables.plain,
            secrets: SecretVariables::new(variables.secret),
            settings,
            credentials,
            webhooks,
            agents: self.agents()?,
            network: self.network()?,
            warnings: variables.warnings,
        })
    }

    fn agents(&self) -> Result<AgentAccess, Fault> {
        let section = &self.section.agents;
        let fault = |name: &str, message: String| {
            Fault::new(self.field(&format!("agents.{name}")), message)
        };
        let token = section.token.as_ref().map(|token| {
            let token = token.value().map_err(|why| fault("token", why))?;
            match token.chars().count() {
                0..MIN_TOKEN_CHARACTERS => Err(fault(
                    "token",
                    format!("a token needs at least {MIN_TOKEN_CHARACTERS} characters"),
                )),
                _ => Ok(Arc::from(token)),
            }
        });
        if let Some(file) = &section.ssh_config
            && let Err(why) = git::check_ssh_file(file)
        {
            return Err(fault("ssh_config", why));
        }
        Ok(AgentAccess {
            token: token.transpose()?,
            ssh_config: section.ssh_config.clone(),
        })
    }

    fn network(&self) -> Result<Vec<Grant>, Fault> {
        let grants = self.section.network.iter().enumerate();
        let grants = grants.map(|(index, text)| {
            let field = self.field(&format!("network[{index}]"));
            text.parse()
                .map_err(|reason: String| Fault::new(field, reason))
        });
        grants.collect()
    }

    fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.field)
    }

    fn check_names(&self) -> Result<(), Fault> {
        let (project, name) = (&self.section.project, &self.section.name);
        for (field, text) in [("project", project), ("name", name)] {
            if text.trim().is_empty() || text.len() > 255 || text.contains(char::is_control) {
                let message = "a name of 1 to 255 characters is needed, without line breaks";
                return Err(Fault::new(self.field(field), message));
            }
        }
        Ok(())
    }

    fn settings(&self) -> Result<BTreeMap<String, Value>, Fault> {
        let checked = self.section.settings.iter().map(|(name, value)| {
            let value = check_setting(name, value).map_err(|error| {
                Fault::new(self.field(&format!("settings.{name}")), error.to_string())
            })?;
            Ok((name.clone(), value))
        });
        checked.collect()
    }

    fn source(&self) -> Result<Source, Fault> {
        let branch = self.section.branch.as_deref();
        if let Some(branch) = branch {
            git::check_branch(branch)
                .map_err(|error| Fault::new(self.field("branch"), chain(&error)))?;
        }
        Source::from_argument(&self.section.repository, branch, &self.data)
            .map_err(|error| Fault::new(self.field("repository"), chain(&error)))
    }

    fn credentials(&self) -> Result<Credentials, Fault> {
        let section = &self.section.credentials;
        let fault = |name: &str, message: String| {
            Err(Fault::new(
                self.field(&format!("credentials.{name}")),
                message,
            ))
        };
        if section.user.as_ref().is_some_and(|user| user.contains(':')) {
            return fault("user", "a user's name has no `:`".to_owned());
        }
        let mut login = None;
        if let Some(token) = &section.token {
            match token.value() {
                Ok(token) if token.is_empty() => return fault("token", "is empty".to_owned()),
                Ok(token) => login = Some(super::login(section.user.clone(), token)),
                Err(message) => return fault("token", message),
            }
        }
        for (name, path) in [
            ("ssh_key", &section.ssh_key),
            ("known_hosts", &section.known_hosts),
        ] {
            if let Some(Err(message)) = path.as_deref().map(git::check_ssh_file) {
                return fault(name, message);
            }
        }
        Ok(Credentials {
            login,
            ssh_key: section.ssh_key.clone(),
            known_hosts: section.known_hosts.clone(),
        })
    }

    fn webhook(&self, field: &str, hook: &WebhookSection) -> Result<WebhookConfig, Fault> {
        let fault =
            |name: &str, message: &str| Fault::new(self.field(&format!("{field}.{name}")), message);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if hook.id.is_empty() || hook.id.len() > 100 || !hook.id.chars().all(plain) {
            let message = "1 to 100 letters, digits, `-`, `_` or `.` are needed";
            return Err(fault("id", message));
        }
        let forge = hook.forge.parse().map_err(|_| {
            let message = format!("`{}` is not one of github, gitea, forgejo", hook.forge);
            fault("forge", &message)
        })?;
        let secret = hook.secret.value();
        let secret = secret.map_err(|message| fault("secret", &message))?;
        if secret.len() < 8 {
            return Err(fault("secret", "a secret needs at least 8 characters"));
        }
        Ok(WebhookConfig {
            id: hook.id.clone(),
            forge,
            secret: secret.into_bytes(),
        })
    }

    fn variables(&self) -> Result<Variables, Fault> {
        let mut variables = Variables::default();
        for (name, value) in &self.section.env {
            let field = self.field(&format!("env.{name}"));
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = "the name of a variable is not empty and has no `=`";
                return Err(Fault::new(field, message));
            }
            let text = match value {
                Variable::Text(text) => text.clone(),
                Variable::Secret(from) => {
                    let secret = from
                        .value()
                        .map_err(|message| Fault::new(&field, message))?;
                    if secret.chars().count() < MIN_REDACTED_CHARS {
                        variables.warnings.push(format!(
                            "{}: {field}: a secret of fewer than {MIN_REDACTED_CHARS} characters is not redacted in \
                             reports",
                            self.path
                        ));
                    }
                    variables.secret.insert(name.clone(), secret);
                    continue;
                }
            };
            if text.contains('\0') {
                return Err(Fault::new(field, "a variable has no zero byte in it"));
            }
            variables.plain.insert(name.clone(), text);
        }
        Ok(variables)
    }
}
