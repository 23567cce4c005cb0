//! A server elsewhere, as commands reach it: by the files that name it, and its HTTP API.
//!
//! The files are those of the reference, from the weakest to the strongest: `/etc/inmanta/inmanta.cfg`, `~/.inmanta.cfg`,
//! `.inmanta` and `.inmanta.cfg` of the project, those of the folder where one is, the file that `--config` names. Variables of the environment, such as
//! `INMANTA_CONFIG_ENVIRONMENT`, go before them, and options of the command before all. Source: docs/reference/deployment.md
//! § 6.9.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use ureq::http;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::domain::plain_cause;

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

/// Where the environment is named, in the files.
const CONFIG: &str = "config";

/// Where the API is, in the files.
const TRANSPORT: &str = "compiler_rest_transport";

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
    if text.contains("CaUsedAsEndEntity") {
        "the server shows the certificate of an authority, as `openssl req -x509` makes it: make one for a server, with `-addext basicConstraints=critical,CA:FALSE`"
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

/// What the files and variables say, by section and name. In names, `_` and `-` are the same.
#[derive(Debug, Default)]
struct Settings {
    values: BTreeMap<(String, String), String>,
    /// What looks like a slip of the pen.
    doubts: Vec<String>,
}

/// The one of `known` that somebody meant who wrote `written`, which is none of them: other files have sections and names that
/// are not for us, so only what is all but the same counts.
fn meant<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    if known.contains(&written) {
        return None;
    }
    let most = |name: &str| if name.len() < 5 { 1 } else { 2 };
    let mut known = known.iter().copied();
    known.find(|name| distance(written, name) <= most(name))
}

/// How many letters have to be put in, taken out or replaced.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut next = vec![index + 1];
        for (at, (wanted, above)) in other.iter().zip(row.windows(2)).enumerate() {
            let replaced = above[0] + usize::from(letter != *wanted);
            next.push(replaced.min(above[1] + 1).min(next[at] + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

impl Settings {
    fn read(project: &Path, named: Option<&Path>) -> Result<Self, String> {
        use std::io::ErrorKind::{NotADirectory, NotFound};

        let mut settings = Self::default();
        let home = super::home().map(|home| home.join(".inmanta.cfg"));
        let files = [Some(PathBuf::from("/etc/inmanta/inmanta.cfg")), home];
        let own = [".inmanta", ".inmanta.cfg"];
        let of_project = own.map(|name| Some(project.join(name)));
        // Read from where one stands, too, as the reference does: a folder of a project may be for another server.
        let here = own.map(|name| Some(PathBuf::from(name)));
        for file in files.into_iter().chain(of_project).chain(here).flatten() {
            match std::fs::read_to_string(&file) {
                Ok(text) => settings.add(&file, &text)?,
                Err(error) if matches!(error.kind(), NotFound | NotADirectory) => (),
                // That of the machine may be for others; but whoever wrote one of their own wants to know.
                Err(error) => settings
                    .doubts
                    .push(format!("cannot read {}: {error}", file.display())),
            }
        }
        if let Some(file) = named {
            let text = std::fs::read_to_string(file)
                .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            settings.add(file, &text)?;
        }
        Ok(settings)
    }

    fn add(&mut self, file: &Path, text: &str) -> Result<(), String> {
        let mut section = String::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let place = || format!("{}:{}", file.display(), index + 1);
            if let Some(name) = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'))
            {
                section = name.trim().to_owned();
                if let Some(meant) = meant(&section, &[CONFIG, TRANSPORT]) {
                    self.doubts.push(format!(
                        "{}: nothing is read from [{section}]; did you mean [{meant}]?",
                        place()
                    ));
                }
                continue;
            }
            let Some((name, value)) = line.split_once(['=', ':']) else {
                return Err(format!(
                    "{}: `{line}` is neither a [section] nor `name = value`",
                    place()
                ));
            };
            let name = name.trim().to_lowercase().replace('_', "-");
            let known: &[&str] = match section.as_str() {
                CONFIG => &["environment"],
                TRANSPORT => &["host", "port", "ssl", "ssl-ca-cert-file", "token"],
                _ => &[],
            };
            if let Some(meant) = meant(&name, known) {
                self.doubts.push(format!(
                    "{}: `{name}` of [{section}] is not read; did you mean `{meant}`?",
                    place()
                ));
            }
            self.values
                .insert((section.clone(), name), value.trim().to_owned());
        }
        Ok(())
    }

    fn get(&self, section: &str, name: &str) -> Option<String> {
        let variable = format!("INMANTA_{section}_{name}")
            .to_uppercase()
            .replace('-', "_");
        let key = (section.to_owned(), name.to_owned());
        let value = std::env::var(variable)
            .ok()
            .or_else(|| self.values.get(&key).cloned());
        value.filter(|value| !value.is_empty())
    }

    /// Whether it is on. What is neither a yes nor a no is a mistake: a token must not go out in clear because of one.
    fn is_on(&self, section: &str, name: &str) -> Result<bool, String> {
        let Some(text) = self.get(section, name) else {
            return Ok(false);
        };
        match text.to_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!(
                "`{text}` is neither `true` nor `false` (`{name}` of [{section}])"
            )),
        }
    }

    #[expect(clippy::print_stderr, reason = "doubts go to stderr")]
    fn tell_doubts(&self) {
        // A file of the project is read again from where one stands.
        let doubts: std::collections::BTreeSet<_> = self.doubts.iter().collect();
        for doubt in doubts {
            eprintln!("steward: {doubt}");
        }
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

fn agent(certificate: Option<&Path>) -> Result<ureq::Agent, String> {
    let mut tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier);
    if let Some(path) = certificate {
        let text = std::fs::read(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let certificates = certificates(&text)
            .map_err(|error| format!("{} is no certificate: {error}", path.display()))?;
        tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
    }
    Ok(ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(REQUEST_TIMEOUT))
        .tls_config(tls.build())
        .build()
        .into())
}

/// All certificates of a file in PEM: there may be several authorities, or one and those that it stands for.
fn certificates(text: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut certificates = Vec::new();
    for item in parse_pem(text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err("it has no `BEGIN CERTIFICATE`".to_owned()),
        false => Ok(certificates),
    }
}

/// A text as a segment of a path.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_noticed_and_what_others_read_is_not() {
        let mut settings = Settings::default();
        let text = "[config]\nenvironmnt = x\nlog-dir = /x\n[compiler_rest_transprt]\nhost = x\n[server]\nhots = y\n\
                    [compiler_rest_transport]\nprot = 1\nssl_ca_cert_file = a\n";
        settings.add(Path::new(".inmanta"), text).unwrap();
        assert_eq!(
            settings.doubts,
            [
                ".inmanta:2: `environmnt` of [config] is not read; did you mean `environment`?",
                ".inmanta:4: nothing is read from [compiler_rest_transprt]; did you mean [compiler_rest_transport]?",
            ]
        );
    }

    #[test]
    fn a_later_file_goes_before_an_earlier_one_and_what_is_no_setting_is_named() {
        let mut settings = Settings::default();
        let file = Path::new(".inmanta");
        let first = "[config]\nenvironment = a\n# x\n[compiler_rest_transport]\nssl_ca_cert_file: /ca\nport=1\n";
        settings.add(file, first).unwrap();
        settings
            .add(file, "[compiler_rest_transport]\nport = 2\n")
            .unwrap();
        assert_eq!(settings.get("config", "environment").as_deref(), Some("a"));
        assert_eq!(settings.get(TRANSPORT, "port").as_deref(), Some("2"));
        assert_eq!(
            settings.get(TRANSPORT, "ssl-ca-cert-file").as_deref(),
            Some("/ca")
        );
        assert_eq!(settings.get(TRANSPORT, "host"), None);
        let error = settings.add(file, "[config]\nnonsense\n").unwrap_err();
        assert!(error.contains(".inmanta:2"), "{error}");
    }

    #[test]
    fn all_certificates_of_a_file_count() {
        let one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let found = |text: &str| certificates(text.as_bytes()).map(|all| all.len());
        assert_eq!(found(one), Ok(1));
        assert_eq!(found(&format!("# an authority\n{one}\n{one}")), Ok(2));
        let key = one.replace("CERTIFICATE", "PRIVATE KEY");
        assert_eq!(found(&format!("{key}{one}")), Ok(1));
        assert!(found(&key).is_err() && found("").is_err());
    }

    #[test]
    fn a_mistake_in_ssl_does_not_turn_it_off() {
        let mut settings = Settings::default();
        let mut is_on = |text: &str| {
            let text = format!("[{TRANSPORT}]\nssl = {text}\n");
            settings.add(Path::new(".inmanta"), &text).unwrap();
            settings.is_on(TRANSPORT, "ssl")
        };
        assert_eq!(is_on("True"), Ok(true));
        assert_eq!(is_on("no"), Ok(false));
        let error = is_on("ture").unwrap_err();
        assert!(error.contains("neither `true` nor `false`"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_no_file_that_is_not_there() {
        let project = tempfile::tempdir().unwrap();
        let file = project.path().join(".inmanta");
        let is_doubted = || {
            let settings = Settings::read(project.path(), None).unwrap();
            let name = file.display().to_string();
            settings.doubts.iter().any(|doubt| doubt.contains(&name))
        };
        assert!(!is_doubted());
        std::fs::write(&file, b"\xff\xfe").unwrap();
        assert!(is_doubted());
    }
}
