//! `steward up SOURCE`: from nothing to a host that is as a repository says, in one command.
//!
//! It is the server of `steward serve` with one environment, and a front end that tells what happens. With `--once` it
//! ends after the first round.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::show::Show;
use super::{FAILED, TROUBLE, USAGE, UpArguments, log};
use crate::compile::{PoolOptions, Source};
use crate::config::{Config, Database, EnvironmentConfig, HOUSEKEEPING};
use crate::deploy::DeployKind;
use crate::domain::chain;
use crate::domain::{DataDir, VersionNumber, check_setting};
use crate::git::Credentials;
use crate::observe::EventKind;
use crate::python::Pythons;
use crate::server::Server;

const PROJECT: &str = "up";
const ENVIRONMENT: &str = "default";

/// The login of the repository. Git's own helpers are not asked: they may want to talk to somebody.
fn credentials(arguments: &UpArguments) -> Result<Credentials, String> {
    let Some(path) = &arguments.token_file else {
        return Ok(Credentials::default());
    };
    let token = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let token = token.trim_end_matches(['\r', '\n']);
    if token.is_empty() {
        return Err(format!("{}: the file is empty", path.display()));
    }
    Ok(Credentials {
        login: Some(crate::config::login(
            arguments.user.clone(),
            token.to_owned(),
        )),
        ..Credentials::default()
    })
}

/// Looks of two seconds, the first at once, that a first fetch and compile may take without a word.
const PATIENCE: u8 = 3;

#[expect(clippy::print_stderr, reason = "this is the prompt")]
pub(super) fn run(arguments: UpArguments) -> ExitCode {
    log::quiet();
    crate::process::keep_private();
    let complain = |message: String, code: u8| {
        eprintln!("steward: {message}");
        ExitCode::from(code)
    };
    let config = match configure(&arguments) {
        Ok(config) => config,
        Err(message) => return complain(message, USAGE),
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return complain(format!("cannot start: {error}"), TROUBLE),
    };
    super::handles::raise();
    match runtime.block_on(up(&arguments, config)) {
        Ok(code) => code,
        Err(error) => complain(chain(error.as_ref()), TROUBLE),
    }
}

/// Two threads wait and hand over; the work is done in other processes.
pub(super) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(64)
        .enable_all()
        .build()
}

fn configure(arguments: &UpArguments) -> Result<Config, String> {
    if !arguments.listen.ip().is_loopback() {
        let message = "`up` has no login, so it listens on this machine only: use 127.0.0.1, or `steward serve`";
        return Err(message.to_owned());
    }
    // Checked before anything is made on disk; the data directory does not matter to the check.
    let source = Source::from_argument(
        &arguments.source,
        arguments.branch.as_deref(),
        &DataDir::new("/"),
    );
    let source = source.map_err(|error| chain(&error))?;
    let data = match &arguments.data {
        Some(data) => data.clone(),
        None => default_data(&source)?,
    };
    let data = DataDir::new(data);
    let mut settings = std::collections::BTreeMap::new();
    for (name, value) in &arguments.settings {
        let checked = check_setting(name, &Value::String(value.clone()))
            .map_err(|error| error.to_string())?;
        settings.insert(name.clone(), checked);
    }
    if arguments.once && settings.get("auto_deploy") == Some(&Value::Bool(false)) {
        return Err(
            "with auto_deploy=false nothing is deployed, so --once would wait for ever".to_owned(),
        );
    }
    let poll = if source.local().is_some() {
        Duration::from_secs(10)
    } else {
        Duration::from_secs(30)
    };
    let environment = EnvironmentConfig {
        project: PROJECT.to_owned(),
        name: ENVIRONMENT.to_owned(),
        source: Source::from_argument(&arguments.source, arguments.branch.as_deref(), &data)
            .map_err(|error| chain(&error))?,
        branch: arguments.branch.clone(),
        poll,
        watch: true,
        variables: arguments.variables.iter().cloned().collect(),
        secrets: Default::default(),
        settings,
        credentials: credentials(arguments)?,
        webhooks: Vec::new(),
        network: arguments.network.clone(),
        warnings: Vec::new(),
        agents: Default::default(),
    };
    Ok(Config {
        listen: arguments.listen,
        data,
        database: Database::Sqlite,
        api_token: None,
        pool: PoolOptions {
            // A service instance is validated while another one is exported.
            slots: 2,
            pythons: Pythons::new(arguments.python.clone().map(|path| (path, "--python"))),
            // Compiles cannot read it.
            secrets: arguments.token_file.iter().cloned().collect(),
            ..PoolOptions::default()
        },
        housekeeping: HOUSEKEEPING,
        facts: Default::default(),
        action_logs: None,
        executor: Default::default(),
        repositories: Default::default(),
        refused: Vec::new(),
        environments: vec![environment],
    })
}

/// A directory of the user, one a source, so that two sources do not share a history.
fn default_data(source: &Source) -> Result<PathBuf, String> {
    use sha2::{Digest, Sha256};
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(super::home()?.join(".local/state")));
    let state = state
        .ok_or("the variable HOME names no home directory: name a data directory with --data")?;
    let (url, branch) = source.to_stored();
    let digest = hex::encode(Sha256::digest(format!("{url}\n{branch}")));
    Ok(state.join("steward").join(&digest[..12]))
}

async fn up(
    arguments: &UpArguments,
    config: Config,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut show = Show::new(arguments.format);
    let source = Source::from_argument(
        &arguments.source,
        arguments.branch.as_deref(),
        &DataDir::new("/"),
    )?;
    let data = config.data.clone();
    let server = Server::start(config).await?;
    let mut events = server.app.bus.listen();
    show.started(
        &source.display(),
        &format!("http://{}", server.address),
        data.path(),
    );
    server.start_environments().await?;
    // What must be settled before `--once` may end.
    let mut awaited: Option<Awaited> = None;
    let mut is_verified = false;
    let mut is_hinted = false;
    // Ticks to go until somebody wonders whether anything happens; none once something was told.
    let mut patience = Some(PATIENCE);
    let mut ticks = tokio::time::interval(Duration::from_secs(2));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let code = loop {
        let event = tokio::select! {
            event = events.recv() => match event {
                Ok(event) => event,
                // The store has everything; only the telling has a gap.
                Err(tokio::sync::broadcast::error::RecvError::Lagged(n_missed)) => {
                    show.missed(n_missed);
                    continue;
                }
                Err(tokio::sync::broadcast::error::RecvError::Closed) => break ExitCode::from(TROUBLE),
            },
            _ = interrupt.recv() => break interrupted(arguments.once),
            _ = terminate.recv() => break interrupted(arguments.once),
            () = show.reader_gone() => break interrupted(arguments.once),
            _ = ticks.tick() => {
                show.tick();
                if is_over(&mut patience) {
                    show.still_beginning();
                }
                continue;
            }
        };
        patience = None;
        show.event(&event);
        if let EventKind::Settled(summary) = &event.what
            && !(arguments.once || is_hinted || summary.is_good())
        {
            is_hinted = true;
            show.hint_to_explain_there(server.address.port());
        }
        match &event.what {
            EventKind::CompileDone(done) => match done.version {
                Some(version) => awaited = Some(Awaited::Version(version)),
                None if arguments.once => break ExitCode::from(FAILED),
                None => {}
            },
            EventKind::FetchFailed { .. } if arguments.once => break ExitCode::from(TROUBLE),
            // After a restart on a commit that is compiled already, whoever types `up` wants to know that the host is
            // as it shall be: everything is verified once.
            EventKind::UpToDate { .. } if !is_verified && awaited.is_none() => {
                is_verified = true;
                let Some(engine) = server.app.engine(event.environment) else {
                    break ExitCode::from(TROUBLE);
                };
                match engine.deploy(DeployKind::Verify, None).await {
                    Ok(scheduled) => awaited = Some(Awaited::Round(scheduled.round)),
                    Err(error) if arguments.once => {
                        show.trouble(&error.to_string());
                        break ExitCode::from(TROUBLE);
                    }
                    Err(_) => {}
                }
            }
            EventKind::Settled(summary) if arguments.once => {
                let is_awaited = match awaited {
                    Some(Awaited::Version(version)) => summary.version >= version,
                    Some(Awaited::Round(round)) => summary.round >= round,
                    None => false,
                };
                if is_awaited {
                    break if summary.is_good() {
                        ExitCode::SUCCESS
                    } else {
                        ExitCode::from(FAILED)
                    };
                }
            }
            _ => {}
        }
    };
    show.stopping();
    tokio::select! {
        () = server.stop() => {}
        // The second signal means it.
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(code)
}

/// Counts a tick; `true` at the last one.
fn is_over(patience: &mut Option<u8>) -> bool {
    *patience = patience.and_then(|left| left.checked_sub(1));
    patience.take_if(|left| *left == 0).is_some()
}

/// Somebody ended it: that is the end of `up`, but with `--once` not all is deployed.
fn interrupted(once: bool) -> ExitCode {
    if once {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    }
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Version(VersionNumber),
    Round(u64),
}
