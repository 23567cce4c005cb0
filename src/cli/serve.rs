//! `steward serve`: the server of a configuration file, as a service runs it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::{FAILED, TROUBLE, USAGE, log};
use crate::config;
use crate::domain::chain;
use crate::server::{self, App, Server};

pub(super) fn run(path: &Path, check: bool) -> ExitCode {
    log::server();
    let config = match config::load(path) {
        Ok(config) => config,
        Err(error) => {
            tracing::error!("{}", chain(&error));
            return ExitCode::from(USAGE);
        }
    };
    if check {
        return checked(path, &config);
    }
    crate::process::keep_private();
    let runtime = match super::up::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            return ExitCode::from(TROUBLE);
        }
    };
    super::handles::raise();
    match runtime.block_on(serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::from(TROUBLE)
        }
    }
}

/// `--check`: 0 when all environments run, 1 when the server starts but some of them do not, 2 when it does not start.
fn checked(path: &Path, config: &config::Config) -> ExitCode {
    let runtime = match super::up::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            return ExitCode::from(USAGE);
        }
    };
    let start = server::check(config)
        .and_then(|()| server::check_listen(config))
        .and_then(|()| server::check_python(config));
    if let Err(error) = start.and_then(|()| runtime.block_on(server::check_database(config))) {
        tracing::error!("{}: {}", path.display(), chain(&error));
        return ExitCode::from(USAGE);
    }
    for environment in &config.environments {
        for warning in &environment.warnings {
            tracing::warn!("{warning}");
        }
    }
    for refused in &config.refused {
        tracing::error!("{refused} (environment {} would not run)", refused.shown());
    }
    let n_good = config.environments.len();
    if config.refused.is_empty() {
        let plural = if n_good == 1 { "" } else { "s" };
        tracing::info!("{} is good: {n_good} environment{plural}", path.display());
        return ExitCode::SUCCESS;
    }
    tracing::error!(
        "with {} the server starts, but {} of {} environments do not run",
        path.display(),
        config.refused.len(),
        n_good + config.refused.len()
    );
    ExitCode::from(FAILED)
}

async fn serve(config: config::Config) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = tokio::select! {
        server = Server::start(config) => Some(server?),
        // It may wait for the database for a while. What has begun ends with it, as after a kill.
        _ = terminate.recv() => None,
        _ = interrupt.recv() => None,
    };
    let Some(server) = server else {
        tracing::info!("stopped before the start was over");
        return Ok(());
    };
    server.start_environments().await?;
    tracing::info!("listening on http://{}", server.address);
    // Nothing listens when it was not systemd that started us.
    let status = status(&server.app, server.address);
    let _ = sd_notify::notify(false, &[NotifyState::Ready, NotifyState::Status(&status)]);
    let status_updates = tokio::spawn(update_status(server.app.clone(), server.address));
    let watchdog = tokio::spawn(watchdog(server.app.clone()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
    watchdog.abort();
    status_updates.abort();
    tokio::select! {
        () = server.stop() => {}
        // The second signal means it.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// The one line that systemd shows.
fn status(app: &App, address: SocketAddr) -> String {
    let names: Vec<String> = app
        .troubles()
        .into_iter()
        .map(|trouble| trouble.name)
        .collect();
    match names.len() {
        0 => format!("Listening on {address}"),
        1 => format!(
            "Listening on {address}; environment {} does not run",
            names[0]
        ),
        n_troubles => format!("Listening on {address}; {n_troubles} environments do not run"),
    }
}

/// Keeps that line up to date.
async fn update_status(app: App, address: SocketAddr) {
    loop {
        app.troubles_changed().await;
        let status = status(&app, address);
        let _ = sd_notify::notify(false, &[NotifyState::Status(&status)]);
    }
}

/// How often the status is told where systemd wants no sign of life.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// Says that we are alive, from the runtime that does all work, and how the database is. A database that is away is told in
/// the status and waited for: killing the server would not bring it back, but would cut off what is running.
async fn watchdog(app: App) {
    let mut usec = 0;
    let is_watched = sd_notify::watchdog_enabled(false, &mut usec);
    let period = match is_watched {
        true => Duration::from_micros(usec / 3),
        false => STATUS_EVERY,
    };
    let mut timer = tokio::time::interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was = String::new();
    loop {
        timer.tick().await;
        let status = match app.store.trouble() {
            None if was.is_empty() => String::new(),
            None => "The database is well again".to_owned(),
            Some(why) => format!("The database is not well: {why}"),
        };
        if status != was {
            let _ = sd_notify::notify(false, &[NotifyState::Status(&status)]);
            was = status;
        }
        if is_watched {
            let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
        }
    }
}
