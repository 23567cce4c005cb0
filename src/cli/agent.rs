//! `steward agent`: the handlers of some agents, run on this machine for a server on another one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use sd_notify::NotifyState;
use serde::Deserialize;
use steward_compiler::yaml::{self, LIMITS};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{TROUBLE, USAGE, log};
use crate::agent::{self, Error, Options};
use crate::config::in_words;
use crate::domain::{AgentName, chain};
use crate::executor::limits::Limits;

/// Bytes of a configuration file or of a token: it has a few lines.
const MAX_FILE_BYTES: usize = 64 << 10;
/// Where the unit of systemd keeps its state.
const DEFAULT_DATA: &str = "/var/lib/steward-agent";

#[derive(Debug, Default, clap::Args)]
pub(super) struct AgentArguments {
    /// A file with what the options say: `server`, `environment`, `token` or `token_file`, `names`, `data`, `python`, in YAML.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The server, as in https://steward.example.org.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The environment: its id, or its name if no other has it.
    #[arg(long, value_name = "ENVIRONMENT")]
    environment: Option<String>,
    /// The token of the environment's agents; others on this machine may see it among the arguments [default:
    /// STEWARD_AGENT_TOKEN].
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    token: Option<String>,
    /// A file with that token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The agents to work for: what models name as the agent of a resource [default: the name of this machine].
    #[arg(long = "name", value_name = "NAME,…", value_delimiter = ',')]
    names: Vec<String>,
    /// Where results are kept until the server has them [default: /var/lib/steward-agent].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The Python of handlers [default: STEWARD_PYTHON, else one on the path that fits].
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,
}

/// The file: what is given on the command line goes before it.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    server: Option<String>,
    environment: Option<String>,
    token: Option<String>,
    token_file: Option<PathBuf>,
    names: Vec<String>,
    data: Option<PathBuf>,
    python: Option<PathBuf>,
}

pub(super) fn run(arguments: AgentArguments) -> ExitCode {
    log::server();
    let options = match options(arguments) {
        Ok(options) => options,
        Err(message) => {
            tracing::error!("{message}");
            return ExitCode::from(USAGE);
        }
    };
    // The data is for its user only; what handlers make has the modes that the umask of before gives.
    crate::process::keep_private();
    let runtime = match super::up::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            return ExitCode::from(TROUBLE);
        }
    };
    match runtime.block_on(serve(options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ Error::Usage(_)) => {
            tracing::error!("{error}");
            ExitCode::from(USAGE)
        }
        Err(error) => {
            tracing::error!("{}", chain(&error));
            ExitCode::from(TROUBLE)
        }
    }
}

async fn serve(options: Options) -> Result<(), Error> {
    let fail = |source| Error::Data {
        path: options.data.clone(),
        source,
    };
    let mut terminate = signal(SignalKind::terminate()).map_err(fail)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(fail)?;
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let signals = tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
        stopped.cancel();
    });
    let _ = sd_notify::notify(false, &[NotifyState::Ready]);
    let ended = agent::run(options, stop).await;
    signals.abort();
    ended
}

/// From the command line, then from the file, then by default.
fn options(arguments: AgentArguments) -> Result<Options, String> {
    let file = match &arguments.config {
        None => File::default(),
        Some(path) => yaml::from_str(&read(path)?, &LIMITS)
            .map_err(|error| format!("{}: {}", path.display(), in_words(&error.to_string())))?,
    };
    let secrets = [&arguments.config, &arguments.token_file, &file.token_file];
    let secrets = secrets.into_iter().flatten().cloned().collect();
    let missing = |what: &str| {
        format!("which {what}? Say --{what}, or `{what}:` in a file that --config names")
    };
    let token = match (arguments.token, arguments.token_file) {
        (Some(token), _) => Some(token),
        (None, Some(path)) => Some(read(&path)?),
        (None, None) => match (file.token, file.token_file) {
            (Some(token), None) => Some(token),
            (None, Some(path)) => Some(read(&path)?),
            (Some(_), Some(_)) => return Err("`token` and `token_file` are both there".to_owned()),
            (None, None) => std::env::var("STEWARD_AGENT_TOKEN").ok(),
        },
    };
    let token = token.map(|token| token.trim().to_owned());
    let token = token.filter(|token| !token.is_empty());
    let mut names = arguments.names;
    if names.is_empty() {
        names = file.names;
    }
    if names.is_empty() {
        names.push(own_name());
    }
    names.sort_unstable();
    names.dedup();
    if names.iter().any(|name| name.trim().is_empty()) {
        return Err("a name of an agent is empty".to_owned());
    }
    Ok(Options {
        server: arguments
            .server
            .or(file.server)
            .ok_or_else(|| missing("server"))?,
        environment: arguments
            .environment
            .or(file.environment)
            .ok_or_else(|| missing("environment"))?,
        token: Arc::from(token.ok_or_else(|| missing("token-file"))?),
        names: names.into_iter().map(AgentName::new).collect(),
        data: arguments
            .data
            .or(file.data)
            .unwrap_or_else(|| PathBuf::from(DEFAULT_DATA)),
        secrets,
        python: arguments.python.or(file.python),
        limits: Limits::default(),
    })
}

/// A small file, as text.
fn read(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES as u64).read_to_string(&mut text))
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(text)
}

/// The name of this machine.
fn own_name() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
