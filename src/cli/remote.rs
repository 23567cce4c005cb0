//! A server elsewhere, as commands reach it: by the files that name it, and its HTTP API.
//!
//! The files are those of the reference, from the weakest to the strongest: `/etc/inmanta/inmanta.cfg`, `~/.inmanta.cfg`,
//! `.inmanta` and `.inmanta.cfg` of the project, those of the folder where one is, the file that `--config` names. Variables of the environment, such as
//! `INMANTA_CONFIG_ENVIRONMENT`, go before them, and options of the command before all. Source: docs/reference/deployment.md
//! § 6.9.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use ureq::http;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};

use self::settings::{Settings, TRANSPORT};
use crate::domain::plain_cause;

mod settings;
mod tls;

/// The options that name a server, as those of the reference do.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct ServerArguments {
    /// The environment on the server: its id, or its name if no other has it [default: `environment` of .inmanta].
    #[arg(short = 'e', long = "environment", value_name = "ENVIRONMENT")]
    pub(super) environment: Option<String>,
    /// The address of the server [default: `host` of .inmanta, else localhost].
    #[arg(long = "server-address", alias = "server_address", value_name = "HOST")]
    pub(super) address: Option<String>,
    /// The port of the server [default: `port` of .inmanta, else 8888].
    #[arg(long = "server-port", alias = "server_port", value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// The token that the server asks for [default: `token` of .inmanta].
    #[arg(long, value_name = "TOKEN")]
    pub(super) token: Option<String>,
    /// Use TLS.
    #[arg(long, overrides_with = "no_ssl")]
    pub(super) ssl: bool,
    /// Use no TLS, whatever .inmanta says.
    #[arg(long, hide = true)]
    pub(super) no_ssl: bool,
    /// The certificate of who signed the server's.
    #[arg(long, value_name = "FILE")]
    pub(super) ssl_ca_cert: Option<PathBuf>,
    /// One more file like .inmanta.
    #[arg(short = 'c', long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

impl ServerArguments {
    /// An option that was given, if there is one.
    pub(super) fn first_option(&self) -> Option<&'static str> {
        let options = [
            (self.environment.is_some(), "-e"),
            (self.address.is_some(), "--server-address"),
            (self.port.is_some(), "--server-port"),
            (self.token.is_some(), "--token"),
            (self.ssl, "--ssl"),
            (self.ssl_ca_cert.is_some(), "--ssl-ca-cert"),
            (self.config.is_some(), "--config"),
        ];
        let given = options.into_iter().find(|(is_given, _)| *is_given);
        given.map(|(_, name)| name)
    }
}

/// Where an address comes from, and what else it may be.
const WHERE: &str = "is a server running there? Another address is named with --server-address and --server-port, or as `host` and `port` below `[compiler_rest_transport]` of .inmanta";

const NO_ENVIRONMENT: &str = "no environment is named: use `-e ENVIRONMENT`, or `environment = ID` below `[config]` of .inmanta";

/// Environments that are listed to somebody who named another one.
const MAX_NAMES: usize = 20;

/// How long one request may take: a large version is stored in seconds.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A server and one of its environments.
pub(super) struct Remote {
    url: String,
    pub(super) environment: String,
    token: Option<String>,
    agent: ureq::Agent,
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    #[error("cannot reach {url}: {}; {}", plain_cause(cause), hint_of_cause(cause))]
    Unreachable {
        url: String,
        /// In the text, so it is no source.
        cause: Box<ureq::Error>,
    },
    #[error("{method} {path}: the server answers {status}: {message}{}", hint_of(*status))]
    Refused {
        method: &'static str,
        path: String,
        status: u16,
        message: String,
    },
    #[error("the server {url} {reason}")]
    NoEnvironment { url: String, reason: String },
}

/// What to do about a connection that was not made.
fn hint_of_cause(cause: &ureq::Error) -> &'static str {
    let text = cause.to_string();
    if text.contains(tls::AUTHORITY_AS_SERVER) {
        "the server shows the certificate of an authority, as `openssl req -x509` makes it: name that with --ssl-ca-cert, or as `ssl_ca_cert_file` below `[compiler_rest_transport]` of .inmanta"
    } else if text.contains("invalid peer certificate") {
        "its certificate, or that of the authority, is named with --ssl-ca-cert, or as `ssl_ca_cert_file` below `[compiler_rest_transport]` of .inmanta"
    } else {
        WHERE
    }
}

/// What to do about an answer.
fn hint_of(status: u16) -> &'static str {
    match status {
        401 => {
            ": name a token with --token, or as `token` below `[compiler_rest_transport]` of .inmanta"
        }
        _ => "",
    }
}

/// Whether somebody names an environment of a server: an option, a file, or a variable.
pub(super) fn names_server(arguments: &ServerArguments, project: &Path) -> Result<bool, String> {
    let is_named =
        arguments.environment.is_some() || arguments.address.is_some() || arguments.port.is_some();
    let settings = Settings::read(project, arguments.config.as_deref())?;
    let is_named = is_named || settings.get("config", "environment").is_some();
    if !is_named {
        // Else they are told when the server is reached.
        settings.tell_doubts();
    }
    Ok(is_named)
}

impl Remote {
    /// The server and environment that the arguments name, or the files of the project.
    pub(super) fn of(arguments: &ServerArguments, project: &Path) -> Result<Self, String> {
        let remote = Self::server(arguments, project)?;
        if remote.environment.is_empty() {
            return Err(NO_ENVIRONMENT.to_owned());
        }
        remote.with_id().map_err(|error| error.to_string())
    }

    /// As [`Remote::of`]; if nobody names an environment, the only one that the server has.
    pub(super) fn of_only(
        arguments: &ServerArguments,
        project: &Path,
    ) -> Result<Result<Self, RemoteError>, String> {
        let mut remote = Self::server(arguments, project)?;
        if !remote.environment.is_empty() {
            return Ok(remote.with_id());
        }
        let list = match remote.call("GET", "/api/v2/environment", None) {
            Ok(list) => list,
            Err(error) => return Ok(Err(error)),
        };
        match list["data"].as_array().map(Vec::as_slice) {
            Some([only]) => {
                remote.environment = only["id"].as_str().unwrap_or_default().to_owned();
                Ok(Ok(remote))
            }
            all => {
                let all = all.unwrap_or_default().iter();
                let names: Vec<&str> = all.filter_map(|one| one["name"].as_str()).collect();
                let more = if names.len() > MAX_NAMES { ", …" } else { "" };
                let names = &names[..names.len().min(MAX_NAMES)];
                Err(match names {
                    [] => NO_ENVIRONMENT.to_owned(),
                    _ => format!(
                        "{NO_ENVIRONMENT}; the server has {}{more}",
                        names.join(", ")
                    ),
                })
            }
        }
    }

    /// The server that is named, and the environment as it is named: empty if it is not.
    fn server(arguments: &ServerArguments, project: &Path) -> Result<Self, String> {
        let settings = Settings::read(project, arguments.config.as_deref())?;
        settings.tell_doubts();
        let of = |name: &str| settings.get(TRANSPORT, name);
        let host = arguments.address.clone().or_else(|| of("host"));
        let host = host.unwrap_or_else(|| "localhost".to_owned());
        let port = match (arguments.port, of("port")) {
            (Some(port), _) => port,
            (None, Some(text)) => text
                .parse()
                .map_err(|_| format!("`{text}` is no port (`port` of [{TRANSPORT}])"))?,
            (None, None) => 8888,
        };
        let ssl = !arguments.no_ssl && (arguments.ssl || settings.is_on(TRANSPORT, "ssl")?);
        let certificate = arguments.ssl_ca_cert.clone();
        let certificate = certificate.or_else(|| of("ssl-ca-cert-file").map(PathBuf::from));
        let named = arguments.environment.clone();
        let named = named.or_else(|| settings.get("config", "environment"));
        Ok(Self {
            url: format!("{}://{host}:{port}", if ssl { "https" } else { "http" }),
            environment: named.unwrap_or_default(),
            token: arguments.token.clone().or_else(|| of("token")),
            agent: agent(certificate.as_deref())?,
        })
    }

    /// With the id of the environment, of which there may be the name.
    fn with_id(mut self) -> Result<Self, RemoteError> {
        if uuid::Uuid::parse_str(&self.environment).is_err() {
            self.environment = self.id_of_name()?;
        }
        Ok(self)
    }

    /// The id of the environment of that name.
    fn id_of_name(&self) -> Result<String, RemoteError> {
        let list = self.call("GET", "/api/v2/environment", None)?;
        let of_name = |environment: &&Value| environment["name"] == self.environment.as_str();
        let all = list["data"]
            .as_array()
            .map(Vec::as_slice)
            .unwrap_or_default();
        let mut found = all.iter().filter(of_name);
        let reason = match (found.next(), found.next()) {
            (Some(found), None) => return Ok(found["id"].as_str().unwrap_or_default().to_owned()),
            (None, _) => {
                let names = all.iter().filter_map(|one| one["name"].as_str());
                let names: Vec<&str> = names.take(MAX_NAMES).collect();
                let there = match names[..] {
                    [] => "has none".to_owned(),
                    [only] => format!("there is {only}"),
                    _ => format!("there are {}", names.join(", ")),
                };
                format!("has no environment `{}`; {there}", self.environment)
            }
            (Some(_), Some(_)) => {
                format!(
                    "has several environments that are called `{}`: name the id",
                    self.environment
                )
            }
        };
        let url = self.url.clone();
        Err(RemoteError::NoEnvironment { url, reason })
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, RemoteError> {
        self.call("GET", path, None)
    }

    /// A request in the scope of the environment; the answer's body as JSON.
    pub(super) fn call(
        &self,
        method: &'static str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, RemoteError> {
        let (status, text) = self.send(method, path, body)?;
        let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let message = value["message"].as_str().unwrap_or(text.as_str());
        Err(RemoteError::Refused {
            method,
            path: path.split('?').next().unwrap_or(path).to_owned(),
            status,
            message: message.chars().take(2000).collect(),
        })
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<(u16, String), RemoteError> {
        let mut request = http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url));
        if uuid::Uuid::parse_str(&self.environment).is_ok() {
            request = request.header("X-Inmanta-tid", &self.environment);
        }
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if body.is_some() {
            request = request.header("Content-Type", "application/json");
        }
        let failed = |cause: ureq::Error| RemoteError::Unreachable {
            url: self.url.clone(),
            cause: Box::new(cause),
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(body).map_err(|error| failed(error.into()))?;
        let mut response = self.agent.run(request).map_err(failed)?;
        let text = response
            .body_mut()
            .with_config()
            .limit(MAX_ANSWER_BYTES)
            .read_to_string();
        Ok((response.status().as_u16(), text.map_err(failed)?))
    }
}

/// An answer of the API: lists come in pages, and a difference of versions has both contents of what changed.
const MAX_ANSWER_BYTES: u64 = 256 << 20;

/// Speaks with servers that the file vouches for; without one, with those that this machine knows.
fn agent(certificate: Option<&Path>) -> Result<ureq::Agent, String> {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    let config = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(REQUEST_TIMEOUT))
        .tls_config(tls.build())
        .build();
    let Some(path) = certificate else {
        return Ok(config.into());
    };
    let connector = ConnectProxyConnector::default()
        .chain(TcpConnector::default())
        .chain(tls::TlsConnector::of_file(path)?);
    Ok(ureq::Agent::with_parts(
        config,
        connector,
        DefaultResolver::default(),
    ))
}

/// A text as a segment of a path.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}
