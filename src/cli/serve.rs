//! `steward serve`: the server of a configuration file, as a service runs it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::{TROUBLE, USAGE, log};
use crate::config;
use crate::deploy::chain;
use crate::server::{App, Server};

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
        tracing::info!(
            "{} is good: {} environments",
            path.display(),
            config.environments.len()
        );
        return ExitCode::SUCCESS;
    }
    let runtime = match super::up::runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("cannot start: {error}");
            return ExitCode::from(TROUBLE);
        }
    };
    match runtime.block_on(serve(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{}", chain(error.as_ref()));
            ExitCode::from(TROUBLE)
        }
    }
}

async fn serve(config: config::Config) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let server = Server::start(config).await?;
    server.start_environments().await?;
    tracing::info!("listening on http://{}", server.address);
    // Nothing listens when it was not systemd that started us.
    let status = format!("Listening on {}", server.address);
    let _ = sd_notify::notify(false, &[NotifyState::Ready, NotifyState::Status(&status)]);
    let watchdog = tokio::spawn(watchdog(server.app.clone()));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
    let _ = sd_notify::notify(false, &[NotifyState::Stopping]);
    watchdog.abort();
    tokio::select! {
        () = server.stop() => {}
        // The second signal means it.
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Says that we are well as long as the database answers: a server that cannot write is not well.
async fn watchdog(app: App) {
    let mut usec = 0;
    if !sd_notify::watchdog_enabled(false, &mut usec) {
        return;
    }
    let mut timer = tokio::time::interval(Duration::from_micros(usec / 3));
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        match app.store.ping().await {
            Ok(()) => {
                let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
            }
            Err(error) => tracing::error!(error = chain(&error), "the database does not answer"),
        }
    }
}
