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
