//! `steward serve`: the server of a configuration file, as a service runs it.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};

use super::{TROUBLE, USAGE, log};
use crate::config;
use crate::domain::chain;
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
    super::handles::raise();
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

/// Says that we are alive, from the runtime that does all work. A database that is away is told in the status and waited
/// for: killing the server would not bring it back, but would cut off what is running.
async fn watchdog(app: App) {
    let mut usec = 0;
    if !sd_notify::watchdog_enabled(false, &mut usec) {
        return;
    }
    let period = Duration::from_micros(usec / 3);
    let mut timer = tokio::time::interval(period);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut was_well = true;
    loop {
        timer.tick().await;
        let is_well = matches!(
            tokio::time::timeout(period / 2, app.store.ping()).await,
            Ok(Ok(()))
        );
        if is_well != was_well {
            let status = if is_well {
                "The database answers again"
            } else {
                "The database does not answer"
            };
            tracing::error!("{status}");
            let _ = sd_notify::notify(false, &[NotifyState::Status(status)]);
            was_well = is_well;
        }
        let _ = sd_notify::notify(false, &[NotifyState::Watchdog]);
    }
}
